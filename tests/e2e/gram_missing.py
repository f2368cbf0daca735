#!/usr/bin/python3
"""`gram.missing complete` compared with numpy in double precision: samples with a missing value are
left out. Means of samples, values that are not finite, the same bits on any ranks, interrupted
runs, and bad input."""

import os
import signal

import h5py
import numpy as np

from checkpoints import expect_only_result, finished_tiles
from harness import (check_complaints, each, expect_words, finish, main, new_folder, run, start,
                     wait_until)
from products import (FIRST_SAMPLES, ON_HOST, check_bits, inputs, min_memory, normal, product,
                      skip_without_blas, stored)
from samples import (CHUNKS, COMPLETE, OVER_VARIABLES, compare, holes, model, special, weights_of)

AGAIN = "values are missing in"  # of the message that all data are read again


def test_incomplete_samples_are_left_out():
    """In every workload and precision, on any ranks, contiguous and in chunks."""
    def check(workload, precision, ranks, how, *more):
        x = special(dtype="f8" if precision == "fp64" else "f4")
        x[:FIRST_SAMPLES, 7] /= 1e6
        x[:, 8] += 0 if workload != "correlation" else normal(len(x), 1)[:, 0]
        finished = compare(workload, x, precision, *COMPLETE, *more, ranks=ranks, how=how)
        expect_words(finished.err, ["2 variables", "5", "30"], finished)
    each([("covariance", "fp64", 1, None), ("covariance", "fp64", 3, CHUNKS),
          ("covariance", "fp32", 2, CHUNKS), ("correlation", "fp64", 2, None),
          ("gram", "fp64", 1, CHUNKS), ("gram", "fp32", 3, None, "--gram.divisor", "n"),
          ("covariance", "fp64", 2, None, "--gram.of", "rows"),
          ("correlation", "fp32", 1, {"chunks": (5, 300)}, "--gram.of", "rows"),
          ("covariance", "bf16", 1, None), ("covariance", "fp16", 2, None),
          ("covariance", "tf32", 1, None), ("correlation", "fp32x3", 1, None)], check)


def test_the_shift_comes_from_complete_samples():
    """Incomplete samples with other values, first and later, cost neither accuracy nor a pass."""
    x = 1e6 + holes(3000, 12, share=0.001)
    x[:700] += 1e9
    x[:700, 3] = np.nan
    finished = compare("covariance", x, "fp32", *COMPLETE, ranks=2)
    assert "time" not in finished.err, finished


def test_data_are_read_once_if_nothing_is_missing():
    """If the first samples are complete, a pass assumes that all are, and another one follows only
    if they are not. The result is the same. A run without repetitions may find the samples first,
    which depends on the rates of the machine."""
    x = normal(3000, 400, "f8")
    late = x.copy()
    late[2000, 11] = np.nan
    repeat = ["--measure.repeat", "2"]  # has no checkpoint, for which it would be found out first

    def check(data, again, *more):
        finished = compare("covariance", data, "fp64", *COMPLETE, *more, ranks=2)
        assert again is None or (AGAIN in finished.err) == again, finished
        return finished.values["c_checksum"]
    assert check(x, False) == check(x, False, *repeat)
    sums = {check(late, True, *repeat), check(late, True, *repeat, "--pipeline.mode", "pageable"),
            check(late, None)}
    assert len(sums) == 1, sums
    whole = compare("covariance", x, "fp64", ranks=2)
    assert whole.values["c_checksum"] in check(x, False), whole


def test_integers_are_complete():
    """They cannot be missing: the bits are those of another run, with int8, too."""
    x = np.random.default_rng(6).integers(-9, 9, (90, 11)).astype("i1")
    files = inputs(new_folder(), data=x)
    for precision in ("fp64", "int8"):
        arguments = [*files, "--product.precision", precision]
        sums = {product("gram", new_folder() / "c.h5", *arguments, *more).values["c_checksum"]
                for more in ([], COMPLETE)}
        assert len(sums) == 1, precision


def test_markers_of_conventions_are_missing_values():
    x = np.random.default_rng(4).integers(-300, 300, (400, 15)).astype("i2")
    x[np.random.default_rng(5).random(x.shape) < 0.01] = -999
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        made = file.create_dataset("data", data=x, chunks=(70, 4), compression="gzip")
        made.attrs["_FillValue"], made.attrs["scale_factor"] = np.int16(-999), np.float32(0.5)
    expected = model(np.where(x == -999, np.nan, x * 0.5), True, False, "n-1")[0]
    product("covariance", folder / "c.h5", "--input.data", f"{folder}/in.h5", *COMPLETE, ranks=2)
    assert np.allclose(stored(folder / "c.h5"), expected, 1e-5, 1e-2)


# ---------------------------------------------------------------- values that are not finite

def test_the_first_value_that_is_not_finite_is_named():
    """By its position in the data set, on any ranks."""
    x = normal(5000, 30, "f8")
    x[4321, 7], x[4400, 2] = np.nan, np.inf
    field = x.reshape(5000, 5, 6).copy()
    infinite = x.copy()
    infinite[1000, 3] = -np.inf

    def check(data, options, words, ranks):
        folder = new_folder()
        how = CHUNKS if data is x else None
        finished = run("run", *options[:1], *inputs(folder, how, data=data), *options[1:], "-o",
                       folder / "c.h5", ranks=ranks).expect(0)
        assert finished.values["verified"] in ("partly", "unchecked"), finished
        expect_words(finished.err, words, finished)
    each([(x, ["covariance"], ["NaN", r"4321, 7", "gram.missing"], 2),
          (x, ["gram"], ["NaN", "4321, 7"], 1),
          (field, ["covariance"], ["NaN", "4321, 1, 1"], 3),
          (x.T, ["correlation", "--gram.of", "rows"], ["inf", "2, 4400"], 2),
          (infinite, ["covariance", *COMPLETE], ["-inf", "1000, 3"], 2)], check)


def test_ranges_come_from_the_ranks_with_complete_samples():
    """The first samples mislead, so that sums overflow, and the second rank has no complete
    sample."""
    x = 1e6 + 1e3 * normal(2000, 6)
    x[:300] = 0
    x[1000:, 2] = np.nan
    compare("covariance", x.astype("f8"), "fp16", *COMPLETE, ranks=2, limit=2e-2)


def test_uneven_weights_do_not_overflow():
    x, w = 1e6 + 1e3 * normal(2000, 6), np.full(2000, 1e-3)
    x[:300] = 0
    w[700] = 1e6
    compare("covariance", x.astype("f8"), "fp16", w=w, limit=2e-2)


# ---------------------------------------------------------------- bits

def test_same_bits_on_any_ranks_and_any_memory():
    """Several tiles, and tall data, whose sums are split."""
    folder = new_folder()
    wide, tall = holes(700, 1100, "f4", 0.0005), holes(17000, 40, "f4", 0.002)
    with h5py.File(folder / "in.h5", "w") as file:
        file["wide"], file["tall"], file["w"] = wide, tall, weights_of(17000)
    named = [["--input.data", f"{folder}/in.h5:/{name}"] for name in ("wide", "tall")]
    check_bits("covariance", [*named[0], *COMPLETE], [(2, 1), (3, None), (1, 1)], ON_HOST)
    check_bits("correlation", [*named[1], *COMPLETE, "--gram.weights", f"{folder}/in.h5:/w"],
               [(2, None, "--product.decomposition", "rows"), (1, 1),
                (3, 1, "--product.decomposition", "split-k", "--pipeline.mode", "pinned"),
                (2, None, "--pipeline.mode", "pageable", "--pipeline.readers", "3")], ON_HOST)
    check_bits("covariance", [*named[1], *OVER_VARIABLES, *COMPLETE],
               [(2, None), (3, 1), (1, None, "--pipeline.readers", "1")], ON_HOST)


def test_an_interrupted_run_resumes_without_its_incomplete_samples():
    """A run that is resumed finds them first, since only finished tiles may show them."""
    folder = new_folder()
    x = normal(2500, 2100)
    x[2000, 3] = np.nan
    arguments = [*inputs(new_folder(), data=x), *COMPLETE]
    cap = ["--pipeline.gpu-memory", f"{min_memory('covariance', arguments, 1, ON_HOST)}B"]
    process = start("run", "covariance", *arguments, *cap, "-o", folder / "c.h5", env=ON_HOST)
    wait_until(lambda: len(finished_tiles(folder, 1)) >= 2, process)
    os.kill(process.pid, signal.SIGTERM)
    assert finish(process).code != 0
    assert not (folder / "c.h5").exists(), "the run was too short"
    finished = product("covariance", folder / "c.h5", *arguments, *cap, env=ON_HOST)
    expect_only_result(folder)
    assert int(finished.values["resumed_tiles"]) >= 2 and AGAIN not in finished.err, finished
    whole = product("covariance", new_folder() / "c.h5", *arguments, env=ON_HOST)
    for name in ("c_checksum", "c_norm", "samples"):
        assert finished.values[name] == whole.values[name], (name, finished, whole)


# ---------------------------------------------------------------- options

def test_bad_input():
    none = normal(60, 8, "f8")
    none[::2, 3] = none[1::2, 6] = none[0, 1] = np.nan
    one = none.copy()
    one[4, 3] = 1
    folder = new_folder()
    inputs(folder, data=none, one=one, empty=np.full((60, 8), np.nan))

    def case(name, words):
        data = f"{folder}/in.h5:/{name}"
        return (["run", "covariance", "--input.data", data, *COMPLETE], 2, words)
    check_complaints([
        case("data", ["gram.missing", "60 samples", "[:, 3]", "[:, 6]", "30 samples", "[:, 1]",
                      "pairwise"]),
        case("one", ["gram.divisor", "n-1"]), case("empty", ["missing"]),
        (["run", "gram", "--gram.missing", "some"], 2, ["gram.missing", "some", "complete"])],
        ranks=(1,))
    finished = run("run", "covariance", "--input.data", f"{folder}/in.h5:/data", *COMPLETE, "-o",
                   folder / "c.h5", ranks=2).expect(2)
    expect_words(finished.err, ["60 samples", "[:, 3]"], finished)
    assert not (folder / "c.h5").exists()


def test_a_dry_run_names_the_samples():
    files = inputs(new_folder(), data=normal(50, 7))
    dry = run("run", "covariance", *files, *COMPLETE, "--dry-run").expect(0)
    expect_words(dry.out, ["missing values", "complete"], dry)


skip_without_blas()
main(on_gpu=True)
