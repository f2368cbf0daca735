#!/usr/bin/python3
"""`gram.missing pairwise` compared with pandas and numpy in double precision: each pair of
variables has its own samples, those in which both have a value. Counts, divisors, special
variables, the same bits on any ranks, interrupted runs, and bad input."""

import itertools
import os
import signal

import h5py
import numpy as np
import pandas

from checkpoints import expect_only_result, finished_tiles, hidden, journals
from harness import (check_complaints, each, expect_complaint, expect_words, finish, main,
                     new_folder, run, start, wait_until)
from products import (FIRST_SAMPLES, ON_HOST, UNITS, inputs, min_memory, normal, product,
                      skip_without_blas, stored)

PAIRWISE = ["--gram.missing", "pairwise"]
WORKLOADS = {"gram": (False, False), "covariance": (True, False), "correlation": (True, True)}


def counts_in(out):
    with h5py.File(out) as file:
        return file["/results/N"][()]


# ---------------------------------------------------------------- the model

def pair(a, b, center, scale, divisor):
    """An element of C from the samples that both variables have."""
    n = a.size
    if n == 0 or (center and scale and n == 1):
        return np.nan
    if center:
        a, b = (np.zeros(n) if (x == x[0]).all() else x - x.mean() for x in (a, b))
    if scale:
        squares = (a @ a) * (b @ b)
        return a @ b / np.sqrt(squares) if squares > 0 else np.nan
    by = {"1": 1, "n": n, "n-1": n - 1}[divisor]
    return a @ b / by if by > 0 else np.nan


def model(x, center=True, scale=False, divisor="n-1"):
    """C and N of the variables in the columns of x."""
    x = x.astype("f8")
    has = ~np.isnan(x)

    def of(i, j):
        both = has[:, i] & has[:, j]
        return pair(x[both, i], x[both, j], center, scale, divisor)

    variables = range(x.shape[1])
    values = np.array([[of(i, j) for j in variables] for i in variables])
    return values, has.T.astype("i8") @ has


def holes(samples, variables, dtype="f8", share=0.3, seed=1):
    """Normal data with offsets, in which a share of the values is missing at random."""
    random = np.random.default_rng([samples, variables, seed])
    x = random.standard_normal((samples, variables)) + 3 * random.standard_normal(variables)
    x[random.random(x.shape) < share] = np.nan
    return x.astype(dtype)


def special(samples=300, variables=23, dtype="f8"):
    """Blocks of missing values, and variables without values, with one value, with the same value
    everywhere, and without a sample that another one has, too."""
    x = holes(samples, variables, dtype)
    x[samples // 2:, :4] = np.nan
    x[:samples // 2, 4] = np.nan  # no samples in common with the first four
    x[:, 5] = np.nan
    x[:, 6] = np.nan
    x[samples - 1, 6] = 2.5
    x[:, 7] = np.where(np.isnan(x[:, 7]), np.nan, 1 / 3)
    x[0, 8], x[1:, 8] = np.nan, 7
    return x


def compare(workload, x, precision="fp64", *more, ranks=1, how=None, limit=None, expected=None):
    """Compares C and N with the model. Errors are relative to the standard deviations, or for gram
    to the root mean squares, over all samples of the variables."""
    center, scale = WORKLOADS[workload]
    center, scale = center or "center" in more, scale or "scale" in more
    more = [word for word in more if word not in ("center", "scale")]
    folder = new_folder()
    data = x.T if "rows" in more else x
    options = [*more, *(["--gram.scale", "true"] if scale and workload == "gram" else [])]
    finished = product(workload, folder / "c.h5", *inputs(folder, how, data=data), *PAIRWISE,
                       "--product.precision", precision, *options, ranks=ranks)
    result, counts = stored(folder / "c.h5"), counts_in(folder / "c.h5")
    divisor = options[options.index("--gram.divisor") + 1] if "--gram.divisor" in options else (
        "n-1" if center or scale else "1")
    values, samples = expected or model(x, center, scale, divisor)
    assert np.array_equal(counts, samples), finished
    assert counts.dtype == ("i8" if precision.startswith("fp64") else "i4"), finished
    assert counts.dtype.itemsize == result.dtype.itemsize, finished
    assert np.array_equal(np.isnan(result), np.isnan(values)), finished
    assert np.array_equal(result, result.T, equal_nan=True), f"is not symmetric\n{finished}"
    with np.errstate(invalid="ignore"):
        size = np.sqrt(np.abs(np.diag(values))) if not scale else np.ones(len(values))
    size = np.where(size > 0, size, 1)  # also NaN
    errors = np.nan_to_num(np.abs(result - values) / np.outer(size, size))
    limit = limit or 4 * UNITS[precision] + 100 * (
        2.0**-53 if precision.startswith("fp64") else 2.0**-24)
    assert errors.max() <= limit, (workload, precision, ranks, errors.max(), limit, finished)
    told = finished.values
    pairs = samples[np.triu_indices(len(samples), 1)]
    assert told["missing"] == "pairwise", finished
    assert int(told["pairs_without_samples"]) == (pairs == 0).sum(), finished
    assert int(told["empty_variables"]) == (np.diag(samples) == 0).sum(), finished
    assert int(told["max_pair_samples"]) == samples.max(), finished
    fewest = samples[samples > 0].min(initial=samples.max())
    assert int(told["min_pair_samples"]) == fewest, finished
    norm = np.linalg.norm(np.nan_to_num(result.astype("f8")))
    assert np.isclose(float(told["c_norm"]), norm, rtol=1e-5), finished
    return finished


# ---------------------------------------------------------------- values

def test_pandas_defines_the_elements():
    """With the divisor n - 1, the model is pandas, also where it has NaN."""
    x = special()
    frame = pandas.DataFrame(x)
    for scale, expected in ((False, frame.cov(min_periods=1)), (True, frame.corr(min_periods=1))):
        assert np.allclose(model(x, scale=scale)[0], expected, 1e-10, 1e-12, equal_nan=True), scale


def test_results_are_those_of_pandas():
    """Covariances, correlations and products, in both widths, on any number of ranks."""
    def check(workload, precision, ranks):
        data = special(dtype="f8" if precision == "fp64" else "f4")
        finished = compare(workload, data, precision, ranks=ranks)
        expect_words(finished.err, ["indefinite"], finished)
    each([(workload, precision, 1 + number % 3) for number, (workload, precision) in
          enumerate(itertools.product(WORKLOADS, ("fp64", "fp32")))], check)


def test_divisors_scales_and_rows():
    x = special(200, 13)
    each([("covariance", x, "fp64", "--gram.divisor", "n"),
          ("covariance", x, "fp64", "--gram.divisor", "1", "--gram.of", "rows"),
          ("gram", x, "fp64", "--gram.divisor", "n-1"),
          ("gram", x, "fp64", "scale"),
          ("gram", holes(100, 9, "f4"), "fp32", "scale", "--gram.of", "rows"),
          ("correlation", x, "fp64", "--gram.of", "rows")], compare)


def test_every_precision():
    """Values and masks may have any precision, but squares need many digits."""
    x = holes(2000, 20, "f4")
    each([("covariance", x, precision) for precision in UNITS] +
         [("gram", x, precision) for precision in ("bf16", "fp32x3", "fp64-int8")] +
         [("correlation", x, "fp32x3"), ("covariance", holes(700, 9, "f4", 0.9), "fp16")], compare)


def test_missing_values_of_packed_data():
    """The markers of a netCDF convention, in chunks."""
    x = np.random.default_rng(4).integers(-300, 300, (400, 15)).astype("i2")
    x[np.random.default_rng(5).random(x.shape) < 0.2] = -999
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        made = file.create_dataset("data", data=x, chunks=(70, 4), compression="gzip")
        made.attrs["_FillValue"], made.attrs["scale_factor"] = np.int16(-999), np.float32(0.5)
    values, counts = model(np.where(x == -999, np.nan, x * 0.5))
    product("covariance", folder / "c.h5", "--input.data", f"{folder}/in.h5:/data", *PAIRWISE,
            ranks=2)
    assert np.array_equal(counts_in(folder / "c.h5"), counts)
    assert np.allclose(stored(folder / "c.h5"), values, 1e-5, 1e-2)


def test_data_without_missing_values():
    """All pairs have all samples. Integers cannot be missing."""
    x = np.random.default_rng(6).integers(-9, 9, (90, 11))
    each([("covariance", x.astype(dtype), precision) for dtype, precision in
          (("i4", "fp64"), ("u1", "fp32"), ("f8", "fp64"))] +
         [("gram", x, "fp32"), ("correlation", x.astype("f4"), "fp32")], compare)


def test_weights_of_variables():
    """Each variable is multiplied by the root of its weight."""
    x, folder = special(150, 12), new_folder()
    weights = np.arange(12) / 4
    product("covariance", folder / "c.h5", *inputs(folder, data=x, w=weights)[:2], *PAIRWISE,
            "--gram.weights", f"{folder}/in.h5:/w")
    values, counts = model(x)
    expected = values * np.sqrt(np.outer(weights, weights))
    result = stored(folder / "c.h5")
    assert np.allclose(result[1:, 1:], expected[1:, 1:], 1e-11, 1e-13, equal_nan=True)
    assert np.array_equal(counts_in(folder / "c.h5"), counts)


# ---------------------------------------------------------------- shifts

def test_a_large_mean_costs_no_accuracy():
    """The shift comes from the first valid samples, wherever they are; a second pass is needed only
    if there are none among the first thousands, or if they mislead."""
    x = (1e6 + holes(6000, 12)).astype("f4")
    x[:FIRST_SAMPLES + 7, 2] = np.nan
    x[:5000, 3] = np.nan
    x[:, 4] = np.nan
    x[:, 5] = 1e6 + normal(6000, 1)[:, 0]
    x[:FIRST_SAMPLES, 5] += 100

    def check(workload, ranks):
        finished = compare(workload, x, "fp32", ranks=ranks, limit=3e-5)
        assert ("second time" in finished.err) and "2 variables" in finished.err, finished
    each([("covariance", 1), ("covariance", 2), ("correlation", 3)], check)


def test_trends_pass_their_checks():
    """The sums of a variable over the samples of another one drift far beyond the result."""
    x = np.sort(normal(20000, 8, "f8"), axis=0)
    x[:, 4:] = np.cumsum(normal(20000, 4, "f8", seed=2), axis=0)
    x[np.random.default_rng(3).random(x.shape) < 0.3] = np.nan
    each([(workload, x.astype("f4"), precision, "--gram.divisor", "n") for workload, precision in
          (("covariance", "fp32"), ("covariance", "tf32"), ("correlation", "fp32x3"))], compare)


def test_pairs_that_are_constant_have_no_correlation():
    """The mean of the common samples is far from the mean of each variable, so that rounding errors
    could look like a variance."""
    x = holes(500, 6, "f4", share=0)
    x[:100, 0] = 1.7
    x[100:, 1] = np.nan
    finished = compare("correlation", x, "fp32")
    assert "constant" not in finished.err, finished
    assert np.isnan(stored(finished.values["file"])[0, 1]), finished
    x[:, 2] = 0.1
    expect_words(compare("correlation", x, "fp32").err, ["1 variable", "constant", "NaN"])


def test_values_that_are_infinite_are_not_missing():
    x = holes(300, 8)
    x[np.flatnonzero(~np.isnan(x[:, 3]))[5], 3] = np.inf
    for workload in ("covariance", "gram"):
        folder = new_folder()
        finished = run("run", workload, *inputs(folder, data=x), *PAIRWISE, "-o",
                       folder / "c.h5").expect(0)
        assert finished.values["verified"] != "true", finished
        center, scale = WORKLOADS[workload]
        values, counts = model(np.where(np.isinf(x), 0, x), center, scale,
                               "n-1" if center else "1")
        values[3], values[:, 3] = np.nan, np.nan
        assert np.allclose(stored(folder / "c.h5"), values, 1e-10, equal_nan=True), finished
        assert np.array_equal(counts_in(folder / "c.h5"), counts), finished


def test_variables_without_values_are_listed():
    """Of every workload; if all variables are empty, the run fails."""
    x, empty = holes(100, 9), np.full((20, 4), np.nan)
    x[:, [2, 7]] = np.nan
    folder = new_folder()
    names = inputs(folder, data=x, none=empty)
    for workload, ranks in (("gram", 2), ("covariance", 1)):
        out = folder / f"{workload}.h5"
        finished = product(workload, out, *names[:2], *PAIRWISE, ranks=ranks)
        expect_words(finished.err, ["2 variables", "missing values"], finished)
        assert finished.values["sample_dimensions"] == "dim_0", finished
        assert finished.values["variable_dimensions"] == "dim_1", finished
        with h5py.File(out) as file:
            rows = [(row["variable"], row["kind"]) for row in file["results/special_variables"]]
            assert rows == [(2, b"empty"), (7, b"empty")], rows
            assert file["results"].attrs["empty_variables"] == 2
            assert ("count" in file["results"]) == (workload == "covariance")
        failed = run("run", workload, "--input.data", names[3], *PAIRWISE, "-o",
                     folder / f"{workload}_none.h5", ranks=ranks).expect(2)
        expect_words(failed.err, ["all values", "in.h5:/none"], failed)


# ---------------------------------------------------------------- bits

def check_bits(workload, arguments, runs):
    """C and N have the same bytes in all runs: (ranks, factor of the minimum memory or None,
    more)."""
    def result(ranks, factor, *more):
        folder, cap = new_folder(), []
        if factor is not None:
            least = min_memory(workload, [*arguments, *more], ranks, ON_HOST)
            cap = ["--pipeline.gpu-memory", f"{int(least * factor)}B"]
        finished = product(workload, folder / "c.h5", *arguments, *cap, *more, ranks=ranks,
                           env=ON_HOST)
        bits = (stored(folder / "c.h5").tobytes(), counts_in(folder / "c.h5").tobytes(),
                finished.values["c_checksum"], finished.values["n_checksum"])
        (folder / "c.h5").unlink()
        return bits, folder
    expected = result(1, None)[0]
    each(runs, lambda *how: (result(*how)[0] == expected) or (_ for _ in ()).throw(
        AssertionError(how)), workers=2)


def test_same_bits_on_any_ranks_and_any_memory():
    """Several tiles, of which some need an A panel of their own; and tall data, whose sums are
    split."""
    wide = [*inputs(new_folder(), data=holes(230, 1100, "f4")), *PAIRWISE]
    check_bits("covariance", wide, [(2, 1), (3, None), (1, 1), (1, 1.3)])
    check_bits("correlation", [*wide[:1], wide[1], *PAIRWISE, "--product.precision", "fp32x3"],
               [(2, 1)])
    tall = [*inputs(new_folder(), data=holes(17000, 40, "f4")), *PAIRWISE]
    check_bits("correlation", tall,
               [(2, None, "--product.decomposition", "rows"), (1, 1),
                (3, 1, "--product.decomposition", "split-k"),
                (4, None, "--product.box", "1x1x4", "--pipeline.mode", "pinned"),
                (2, None, "--pipeline.mode", "pageable")])


def test_an_interrupted_run_resumes_with_both_matrices():
    folder = new_folder()
    x = holes(2500, 2100, "f4")
    arguments = [*inputs(new_folder(), data=x), *PAIRWISE]
    cap = ["--pipeline.gpu-memory", f"{min_memory('covariance', arguments, 1, ON_HOST)}B"]
    process = start("run", "covariance", *arguments, *cap, "-o", folder / "c.h5", env=ON_HOST)
    wait_until(lambda: len(finished_tiles(folder, 1)) >= 2, process)
    os.kill(process.pid, signal.SIGTERM)
    assert finish(process).code != 0
    assert not (folder / "c.h5").exists(), "the run was too short"
    offsets = journals(folder)[0][0]["offsets"]  # of C and N
    with open(hidden(folder, "part")[0], "r+b") as part:
        part.seek(offsets[1] + 4 * (x.shape[1] + 3))  # row 1 of N, in tile 0
        byte = part.read(1)[0]
        part.seek(-1, os.SEEK_CUR)
        part.write(bytes([byte ^ 1]))
    finished = product("covariance", folder / "c.h5", *arguments, *cap, env=ON_HOST)
    expect_only_result(folder)
    assert int(finished.values["resumed_tiles"]) >= 1, finished
    expect_words(finished.err, ["1 finished tile", "checksum"], finished)
    whole = product("covariance", new_folder() / "c.h5", *arguments, env=ON_HOST)
    for name in ("c_checksum", "n_checksum", "c_norm", "min_pair_samples", "max_pair_samples"):
        assert finished.values[name] == whole.values[name], (name, finished, whole)
    has = ~np.isnan(x)
    assert np.array_equal(counts_in(folder / "c.h5"), has.T.astype("f4") @ has)


def test_data_without_any_value_leaves_no_files():
    """The error is found when the work is done. Nothing can be resumed, not even a run that was
    interrupted before, and the next product may have the same output."""
    files = inputs(new_folder(), data=np.full((600, 300), np.nan, "f4"),
                   whole=np.ones((17, 3)))
    data, whole = files[:2], ["--input.data", files[3]]

    def check(ranks, *options):
        folder = new_folder()
        out = ["-o", folder / "c.h5"]
        finished = run("run", "covariance", *data, *PAIRWISE, *options, *out, ranks=ranks,
                       env=ON_HOST)
        expect_complaint(finished, 2, [files[1], "missing"])
        assert list(folder.iterdir()) == [], list(folder.iterdir())
        product("covariance", folder / "c.h5", *whole, ranks=ranks, env=ON_HOST)
        expect_only_result(folder)
    memory = f"{min_memory('covariance', [*data, *PAIRWISE], 1, ON_HOST)}B"
    each([(1,), (2,), (1, "--pipeline.gpu-memory", memory), (1, "--measure.repeat", 2)], check)


# ---------------------------------------------------------------- options

def test_results_beside_c():
    folder, x = new_folder(), holes(50, 7)
    x[:, 2] = np.nan
    files = inputs(folder, data=x)
    product("covariance", folder / "c.h5", *files, *PAIRWISE)
    with h5py.File(folder / "c.h5") as file:
        table, about = file["results/gram"][()], file["results"].attrs
        assert [row["output"] for row in table] == [b"C", b"N"], table
        assert np.isclose(table[1]["norm"], np.linalg.norm(file["results/N"][()].astype("f8")))
        assert about["missing"] == "pairwise" and about["empty_variables"] == 1, dict(about)
        assert np.array_equal(file["results/count"][()], (~np.isnan(x)).sum(axis=0))
        assert np.allclose(file["results/mean"][()], pandas.DataFrame(x).mean(), equal_nan=True)
        assert np.allclose(file["results/stddev"][()], pandas.DataFrame(x).std(), equal_nan=True)
        assert file["results/N"].dims[0][0] == file["results/C"].dims[0][0]
    finished = product("covariance", folder / "d.h5", *files, *PAIRWISE, "--output.store", "false")
    with h5py.File(folder / "d.h5") as file:
        assert "C" not in file["results"] and "N" not in file["results"]
        assert [row["checksum"] for row in file["results/gram"]] == [
            row["checksum"] for row in table], finished
    dry = run("run", "covariance", *files, *PAIRWISE, "--dry-run").expect(0)
    expect_words(dry.out, ["C and N", "784 B", "pairwise", "samples: 50"], dry)


def test_bad_input():
    files = inputs(new_folder(), data=holes(30, 5, "f4"), whole=np.ones((9, 3), "i1"),
                   weights=np.ones(30))
    data, whole = files[:2], ["--input.data", files[3]]
    weights = ["--gram.weights", f"{files[1].split(':')[0]}:/weights"]
    many = ["--gram.rows", 2**24 + 1, "--gram.columns", 2]
    check_complaints([
        (["run", "gram", *whole, *PAIRWISE, "--product.precision", "int8"], 2,
         ["gram.missing", "int8", "fp32"]),
        (["run", "correlation", *data, *PAIRWISE, "--product.precision", "tf32"], 2,
         ["gram.missing", "pairwise", "tf32", "fp32x3"]),
        (["run", "gram", *data, *PAIRWISE, "--gram.scale", "true", "--product.precision", "bf16"],
         2, ["gram.missing", "bf16"]),
        (["run", "covariance", *data, *PAIRWISE, *weights], 2, ["gram.missing", "gram.weights"]),
        (["run", "covariance", *data, *PAIRWISE, "--gram.center-over", "variables"], 2,
         ["gram.missing", "gram.center-over"]),
        (["run", "covariance", *many, *PAIRWISE, "--product.precision", "fp32"], 2,
         ["16777216", "16777217", "fp64"])])


skip_without_blas()
main(on_gpu=True)
