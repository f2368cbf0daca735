#!/usr/bin/python3
"""The values and the file that `run reduce` gives: against the model bit for bit, against numpy
within bounds; what pandas opens; options and where they come from; names and their replacement."""

import fractions
import itertools
import math
import re
import shlex
import zlib

import h5py
import numpy as np

import harness
import model
import results
from harness import (LEAF, OPS, TYPES, check_complaints, each, expect_complaint, expect_warning,
                     main, new_folder, reduce, run, skip_part)


def seeded(*what):
    """Random numbers that depend on what they are for alone."""
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def small_integers(count, dtype):
    """Sums of them are exact in any type."""
    return seeded(count).integers(0, 100, count).astype(dtype)


def spread_out(count, dtype):
    """Values over most of the type's range; floats of many magnitudes and both signs."""
    random, dtype = seeded(count, dtype), np.dtype(dtype)
    if dtype.kind == "f":
        most = 4 if dtype.itemsize == 2 else 20
        return (random.standard_normal(count) * 10.0**random.integers(-most, most, count)).astype(
            dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype.newbyteorder("="),
                           endpoint=True).astype(dtype)


def write(array, path, **layout):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/data", data=array, **layout)
    return f"{path}:/group/data"


# For what does not depend on the way to the device, which same_bits.py is about: resident is the
# mode that does the least.
RESIDENT = ("--pipeline.mode", "resident")


def check_reduced(array, layout, *options, ranks=1, nan="propagate"):
    folder = new_folder()
    source = write(array, folder / "in.h5", **layout)
    finished = reduce(source, folder / "out.h5", *options, "--reduce.nan", nan, ranks=ranks)
    assert not finished.err, finished
    results.check(array, folder / "out.h5", finished, layout.get("chunks"), nan)
    return results.stored_reduce(folder / "out.h5")


# ---------------------------------------------------------------- values

def test_types_and_layouts():
    shape = (401, 503)
    layouts = [{}, {"chunks": (100, 37)}, {"chunks": (1, 503), "compression": "gzip"},
               {"chunks": (401, 1), "compression": "gzip", "shuffle": True, "fletcher32": True},
               {"chunks": (64, 503), "shuffle": True, "maxshape": (None, None)}]
    cases = [(name, layout) for name, layout in itertools.product(TYPES, layouts[:3])]
    cases += [("f64", layouts[3]), ("i32", layouts[4]), ("u8", layouts[3]), ("f32", layouts[4])]
    each(cases, lambda name, layout: check_reduced(
        spread_out(shape, TYPES[name]), layout, ranks=1 + len(str(layout)) % 3))


def test_stored_types():
    """Of other widths and byte orders: they become the type that holds them all."""
    stored = [">f4", ">f8", ">i4", ">i8", "f2", ">f2", "i1", "i2", ">i2", "u2", ">u2", "u4", ">u4"]
    cases = list(zip(stored, itertools.cycle([{}, {"chunks": (4096,)}, {"chunks": (999,)}])))
    each(cases, lambda dtype, layout: check_reduced(spread_out(70001, dtype), layout))


def test_counts():
    """Remainders of leaves and lanes, one element, more ranks than leaves."""
    counts = [1, 2, 255, 256, 257, LEAF - 1, LEAF, LEAF + 1, 2 * LEAF - 1, 2 * LEAF, 2 * LEAF + 1,
              3 * LEAF + 300, 7 * LEAF, 8 * LEAF + 1, 9 * LEAF - 1]
    cases = list(zip(counts, itertools.cycle(TYPES), itertools.cycle([1, 2, 3, 4])))
    cases += [(1, "f64", 3), (LEAF + 1, "i32", 4), (2 * LEAF + 1, "f64", 4)]
    each(cases, lambda count, name, ranks: check_reduced(
        spread_out(count, TYPES[name]), {}, ranks=ranks))


def test_shapes():
    """Positions are coordinates; a scalar's is 0, or that of its only place."""
    cases = [((), {}), ((1, 1, 1), {}), ((3, 5, 7, 11), {}),
             ((3, 5, 7, 11), {"chunks": (2, 2, 3, 4)}),
             ((1, 200001), {"chunks": (1, 70000)}), ((200001, 1), {"chunks": (70000, 1)})]
    each(cases, lambda shape, layout: check_reduced(spread_out(shape, "f4"), layout, ranks=2))


def test_first_rows():
    """input.rows takes a prefix of the leading dimension, whatever way the elements are stored."""
    array = spread_out((300, 7, 40), "f4")
    ways = [({}, "f4"), ({}, ">f8"), ({"chunks": (64, 7, 11), "compression": "gzip"}, "f4")]

    def check(layout, stored_type, rows):
        folder = new_folder()
        source = write(array.astype(stored_type), folder / "in.h5", **layout)
        finished = reduce(source, folder / "out.h5", "--input.rows", rows, ranks=2)
        results.check(array[:rows].astype(stored_type), folder / "out.h5", finished,
                      layout.get("chunks"))
    each([(layout, stored_type, rows) for layout, stored_type in ways for rows in (1, 65, 300)],
         check)
    source = write(array, new_folder() / "in.h5")
    check_complaints([
        (["run", "reduce", "--input.data", source, "--input.rows", 301], 2, ["input.rows", "301",
                                                                             "300"]),
        (["run", "reduce", "--input.count", 9, "--input.rows", 3], 2, ["input.rows", "uniform"]),
        (["run", "gemm", "--gemm.m", 9, "--input.rows", 3], 2, ["--input.rows", "gemm"]),
    ], ranks=(1,))


def test_against_numpy():
    """The model could share a mistake with the program: numpy does not add in their order."""
    def check(name, count):
        for array in (small_integers(count, TYPES[name]), spread_out(count, TYPES[name])):
            rows = check_reduced(array, {}, *RESIDENT)
            wide = array.astype(np.float64)
            # n eps sum|x| is more than any order of adding in double can be wrong by.
            error = len(array) * 2.0**-53 * math.fsum(np.abs(wide))
            exact = sum(array.tolist()) if array.dtype.kind in "iu" else math.fsum(wide)
            assert abs(rows["sum"]["value"] - exact) <= error, (rows["sum"], exact)
            if array.max() < 100 and array.dtype.kind == "f":
                assert rows["sum"]["value"] == exact, (rows["sum"], exact)
            if array.dtype.kind in "iu":
                assert int(rows["sum"]["exact"]) == exact, (rows["sum"], exact)
            assert abs(rows["mean"]["value"] - exact / count) <= error / count
            assert math.isclose(rows["variance"]["value"], np.var(wide), rel_tol=1e-9)
            assert math.isclose(rows["stddev"]["value"], np.std(wide), rel_tol=1e-9)
            assert rows["count"]["value"] == count
            assert rows["min"]["value"] == wide.min() and rows["max"]["value"] == wide.max()
            assert int(rows["min"]["position"]) == int(array.argmin())
            assert int(rows["max"]["position"]) == int(array.argmax())
    each([(name, count) for name in TYPES for count in (1000, 3 * LEAF + 1)], check)


def test_integer_sums_do_not_overflow():
    for name in ("i64", "i32"):
        limits = np.iinfo(TYPES[name])
        for value in (limits.max, limits.min):
            rows = check_reduced(np.full(2 * LEAF + 3, value, TYPES[name]), {}, *RESIDENT)
            assert int(rows["sum"]["exact"]) == value * (2 * LEAF + 3), rows["sum"]
            assert rows["variance"]["value"] == 0, rows["variance"]


def test_variance_of_large_integers():
    """Integers beyond 2^53 are subtracted from their mean before a double rounds them."""
    some = np.arange(101)
    cases = [(1_700_000_000_000_000_000 + some, "i8", 1), (2**53 + some % 3, "i8", 1),
             (2**53 + some % 3, ">u8", 1), (-2**62 - some, "i8", 1),
             (2**60 + np.arange(3 * LEAF + 5) % 1000, "u8", 3),
             (np.repeat([2**62, -2**62], 2 * LEAF), "i8", 2)]

    def check(values, dtype, ranks):
        array = values.astype(dtype)
        rows = check_reduced(array, {}, *RESIDENT, ranks=ranks)
        numbers = array.tolist()
        n, total = len(numbers), sum(numbers)
        squares = sum((n * value - total)**2 for value in numbers)  # n^3 times the variance
        exact = float(fractions.Fraction(squares, n**3))
        assert math.isclose(rows["variance"]["value"], exact, rel_tol=1e-12), (rows, exact)
    each(cases, check)


# ---------------------------------------------------------------- NaNs, infinities, zeros, ties

def with_values(count, values):
    """Zeros to hundred, with `values` {index: value} among them."""
    array = small_integers(count, "f8")
    for index, value in values.items():
        array[index] = value
    return array


NAN, INF = math.nan, math.inf
SPECIAL = {
    "one nan": with_values(3 * LEAF + 7, {LEAF + 5: NAN}),
    "first and last nan": with_values(2 * LEAF + 7, {0: NAN, 2 * LEAF + 6: NAN}),
    "a leaf of nans": with_values(3 * LEAF, dict.fromkeys(range(LEAF, 2 * LEAF), NAN)),
    "nans alone": np.full(LEAF + 9, NAN),
    "negative nan": with_values(1000, {999: -NAN}),
    "+inf": with_values(2 * LEAF, {70000: INF}),
    "-inf": with_values(2 * LEAF, {70000: -INF}),
    "both infs": with_values(2 * LEAF, {3: INF, 70000: -INF}),
    "both infs in a leaf": with_values(2 * LEAF, {3: INF, 7: -INF, 8: INF}),
    "infs and nans": with_values(2 * LEAF, {3: INF, 70000: -INF, 9: NAN, 100000: NAN}),
    "only inf and nan": np.array([NAN, INF, NAN]),
    "subnormal": np.full(2 * LEAF + 1, 5e-324),
}


def test_nans_and_infinities():
    cases = [(what, nan, "f8", 1) for what in SPECIAL for nan in ("propagate", "ignore")]
    cases += [("infs and nans", "ignore", "f4", 2), ("a leaf of nans", "ignore", "f4", 2),
              ("nans alone", "ignore", "f4", 3), ("first and last nan", "propagate", "f4", 2),
              ("both infs", "propagate", "f4", 2)]
    each(cases, lambda what, nan, dtype, ranks: check_reduced(SPECIAL[what].astype(dtype), {},
                                                              *RESIDENT, nan=nan, ranks=ranks))


def test_overflow_is_no_verified_result():
    """Finite elements whose sums leave the range of double: the values are named, and the others
    stay verified. Infinities in the data are no overflow, whatever else is requested."""
    big = 1.7e308
    every = ["sum", "mean", "variance", "stddev"]
    ignored = np.where(np.arange(99) == 7, NAN, big)
    cases = [(np.full(2 * LEAF, big), OPS, every, 2), (np.array([big, big]), ["mean"], ["mean"], 1),
             (np.tile([big, big, -big, -big], 1000), OPS, every, 1),
             (np.tile([big, -big], 1000), ["mean"], ["mean"], 1),
             (np.tile([1e200, -1e200], 1000), OPS, every[2:], 1), (ignored, ["sum"], ["sum"], 1),
             (with_values(2 * LEAF, {5: INF}), ["sum"], [], 2), (np.full(9, 1e150), OPS, [], 1),
             (with_values(99, {5: INF, 7: -INF}), OPS, [], 1),
             (np.append(np.full(2 * LEAF, -big), INF), ["sum", "max"], ["sum"], 1)]

    def check(array, ops, overflows, ranks):
        folder = new_folder()
        source = write(array, folder / "in.h5")
        finished = reduce(source, folder / "out.h5", "--reduce.ops", ",".join(ops), "--reduce.nan",
                          "ignore", ranks=ranks)
        lines = dict(line.split("=", 1) for line in finished.out.splitlines())
        assert lines.get("overflow", "") == ", ".join(overflows), finished
        assert lines["verified"] == ("partly" if overflows else "true"), finished
        rows = results.stored_reduce(folder / "out.h5")
        assert [op for op in ops if not rows[op]["validated"]] == overflows, rows
        if overflows:
            expect_warning(finished, overflows)
    each(cases, check)


def test_nan_policy_is_stated():
    folder = new_folder()
    source = write(SPECIAL["first and last nan"].reshape(-1, 1), folder / "in.h5")
    for nan in ("propagate", "ignore"):
        finished = reduce(source, folder / f"{nan}.h5", "--reduce.nan", nan)
        with h5py.File(folder / f"{nan}.h5") as file:
            assert file["results"].attrs["nan"] == nan
            assert file["results"].attrs["nans"] == 2
    assert finished.values["count"] == str(2 * LEAF + 5), finished


def test_nan_is_an_error():
    array = SPECIAL["one nan"].reshape(1, -1)
    without = array[:, :LEAF]

    def check(ranks):
        folder = new_folder()
        source = write(array, folder / "in.h5")
        finished = run("run", "reduce", "--input.data", source, "--reduce.nan", "error", "-o",
                       folder / "out.h5", ranks=ranks)
        expect_complaint(finished, 1, [f"1 of {array.size}", source, f"(0,{LEAF + 5})",
                                       "--reduce.nan ignore"])
        assert [path.name for path in folder.iterdir()] == ["in.h5"]
    each([(1,), (3,)], check)
    check_reduced(without, {}, nan="error", ranks=2)
    check_reduced(with_values(2 * LEAF, {3: INF, 70000: -INF}), {}, nan="error")


def test_zeros_and_ties():
    """-0 is less than +0; of equal values the first counts, also across leaves and ranks."""
    zeros = np.zeros(3 * LEAF, "f4")
    for index in (5, 70000, 140000):
        zeros[index] = -0.0
    negative = -np.zeros(3 * LEAF, "f8")
    negative[LEAF + 1] = 0.0
    tied = np.tile(np.arange(1000, dtype="f4"), 200)
    each([(zeros, {}, 1), (zeros, {}, 3), (negative, {}, 2), (-np.zeros(9), {}, 1), (tied, {}, 3),
          (tied.reshape(200, 1000), {"chunks": (70, 300)}, 3), (np.zeros(3 * LEAF, "i4"), {}, 3),
          (tied.astype("u1"), {"chunks": (999,)}, 2)],
         lambda array, layout, ranks: check_reduced(array, layout, *RESIDENT, ranks=ranks))
    rows = check_reduced(zeros, {}, ranks=2)
    assert rows["min"]["exact"] == "-0" and rows["min"]["position"] == "5", rows
    assert rows["max"]["exact"] == "0" and rows["max"]["position"] == "0", rows


# ---------------------------------------------------------------- operations

def test_any_operations():
    """What else is asked for does not change an operation's bits, nor does the order of asking."""
    folder = new_folder()
    array = spread_out(2 * LEAF + 77, "f4")
    source = write(array, folder / "in.h5")
    reduce(source, folder / "all.h5")
    whole = results.stored_reduce(folder / "all.h5")
    asked = [list(ops) for size in (1, 2) for ops in itertools.combinations(OPS, size)]
    asked += [OPS[::-1], ["max", "count", "stddev"]]

    def check(ops):
        path = folder / f"{'-'.join(ops)}.h5"
        finished = reduce(source, path, *RESIDENT, "--reduce.ops", ",".join(ops))
        rows = results.stored_reduce(path)
        assert list(rows) == ops, rows
        for op in ops:
            for column in ("value", "exact", "index", "position"):
                assert rows[op][column] == whole[op][column], (rows[op], whole[op])
        assert [key for key in finished.values if key in OPS] == ops, finished
    each([(ops,) for ops in asked], check)


# ---------------------------------------------------------------- what is printed and stored

def test_standard_output():
    folder = new_folder()
    for ranks in (1, 3):
        finished = run("run", "reduce", "--input.count", 1e6, "-o", folder / f"{ranks}.h5",
                       ranks=ranks).expect(0)
        # A host with more GPUs than ranks says so.
        assert [line for line in finished.err.splitlines() if " idle: " not in line] == [], finished
        lines = finished.out.splitlines()
        for line in lines[:-1]:
            assert re.fullmatch(r"[a-z_]+=\S+( (s|B|GB/s|J|J/GB))?", line), line
        on_gpu = ranks == 1 and harness.BACKEND_OF_ONE_RANK == "cuda"
        # So short a run can leave no trace in the samples.
        energy = ["energy", "energy_per_gigabyte"] if "energy" in finished.values else []
        assert on_gpu or not energy, finished
        assert [line.split("=")[0] for line in lines] == [
            "input", "count", "sum", "mean", "variance", "stddev", "min", "min_position", "max",
            "max_position", "time", "rate_aggregate", "link_up_aggregate",
            *(["device_read_aggregate"] if on_gpu else []),
            "decode_aggregate", "bound_by", "bound_share", *energy,
            "verified", "ranks", "backend", "host_memory_peak", "file"]
        assert finished.values["backend"] == ("cuda" if on_gpu else "host"), finished
        assert lines[-1] == f"file={folder / f'{ranks}.h5'}", lines
        time, rate = float(finished.values["time"]), float(finished.values["rate_aggregate"])
        assert 0 < time < finished.seconds and math.isclose(rate, 4e6 / time / 1e9, rel_tol=1e-3)


def test_result_file():
    folder = new_folder()
    array = spread_out((300, 700), ">i2")
    source = write(array, folder / "in.h5", chunks=(64, 64), compression="gzip")
    ranks = 3
    out = folder / "it's $HOME's result.h5"
    words = ["run", "reduce", "--input.data", source, "-o", out, "--measure.repeat", "4",
             "--measure.warmup", "1"]
    finished = run(*words, ranks=ranks, env={"SLURM_RESTART_COUNT": "2"}).expect(0)
    assert finished.values["ranks"] == str(ranks), finished
    with h5py.File(out) as file:
        root = dict(file.attrs)
        assert shlex.split(root["argv"]) == ["shardstream", *map(str, words)], root["argv"]
        assert root["restart_count"] == 2
        assert root["schema"] == "shardstream" and root["schema_version"] == 1
        assert root["status"] == "complete"
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                            root["run_uuid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", root["created_utc"])
        config = file["config"].attrs
        assert config["ranks"] == ranks and config["work_total"] == array.size
        assert config["work_per_gpu"] == array.size // ranks
        given = dict(file["input"].attrs)
        assert given["name"] == source and given["type"] == "i32", given
        assert list(given["shape"]) == [300, 700] and list(given["box"]) == [64, 64], given
        assert given["access"].startswith("chunks 64x64, filtered, parallel"), given
        with h5py.File(folder / "in.h5") as stored:
            assert given["stored_bytes"] == stored["group/data"].id.get_storage_size()
        found = dict(file["results"].attrs)
        assert found["verified"] == 1 and "leaves" in found["verdict"], found
        assert found["leaf_elements"] == LEAF and found["lanes"] == model.LANES, found
        for name in ("git_commit", "compiler", "mpi", "hdf5", "operating_system"):
            assert file["provenance"].attrs[name], name
        units = {name: dataset.attrs for name, dataset in file["timing"].items()}
        assert units["reps"]["units_wall"] == "s" and units["phases"]["units_bytes"] == "B"


def summary_of(path):
    """The rows of /summary by metric, and the seconds of the repetitions."""
    with h5py.File(path) as file:
        rows = {row["metric"].decode(): row for row in file["summary"][()]}
        return rows, file["timing/reps"]["wall"]


def test_automatic_repetitions():
    """A precision of 1 is soon reached, one of 0.0001 hardly ever."""
    def check(ranks, options, expected):
        folder = new_folder()
        finished = run("run", "reduce", "--input.count", "2^20", "-o", folder / "out.h5",
                       "--measure.repeat", *options, ranks=ranks).expect(0)
        rows, wall = summary_of(folder / "out.h5")
        time = rows["time"]
        ended = time["sampling"].decode()
        assert ended in expected and rows["rate_aggregate"]["sampling"] == time["sampling"], ended
        assert time["n"] == len(wall) == int(finished.values["time_n"]), (time, wall, finished)
        assert finished.values["sampling"] == ended, finished
        for end in ("ci_lo", "ci_hi"):  # there is no interval for fewer than six repetitions
            printed = float(finished.values.get(f"time_{end}", "nan"))
            assert np.isclose(printed, time[end], rtol=1e-5, equal_nan=True), (time, finished)
        set_to = dict(zip(options[1::2], options[2::2]))
        if ended == "converged":
            precision = set_to["--measure.precision"]
            assert 6 <= time["n"] <= 1000, time
            assert time["ci_lo"] >= time["median"] * (1 - precision), time
            assert time["ci_hi"] <= time["median"] * (1 + precision), time
        if ended == "unconverged":
            expect_warning(finished, ["measure.max-time", "measure.precision"])
        else:
            assert "measure.max-time" not in finished.err, finished
        deviations = wall - wall.mean()
        if len(wall) < 3:
            assert math.isnan(time["autocorrelation"]), time
        else:
            r = (deviations[1:] * deviations[:-1]).sum() / (deviations**2).sum()
            assert math.isclose(time["autocorrelation"], r, abs_tol=1e-9), (time, r)
    precise = ("--measure.precision", 0.0001, "--measure.max-time")
    each([(ranks, *case) for ranks in (1, 2) for case in (
        (("auto", "--measure.precision", 1), {"converged"}),
        (("auto", *precise, "1ms"), {"unconverged"}),
        (("auto", *precise, "300ms"), {"converged", "unconverged"}),
        ((4, *precise, "1ms"), {"fixed"}))], check)


def test_pandas_opens_every_table():
    try:
        import pandas
        import tables  # with which pandas reads HDF5
    except ImportError as error:
        return skip_part(f"pandas cannot open HDF5 here ({error})")
    print(f"pandas {pandas.__version__}, PyTables {tables.__version__}")
    folder = new_folder()
    ranks, repeat = 3, 4
    run("run", "reduce", "--input.count", 3e6, "--input.type", "f64", "-o", folder / "out.h5",
        "--measure.repeat", repeat, ranks=ranks).expect(0)
    found = []
    with h5py.File(folder / "out.h5") as file:
        file.visititems(lambda name, item: found.append("/" + name)
                        if isinstance(item, h5py.Dataset) else None)
        raw = {name: file[name][()] for name in found}
    assert set(found) >= {"/topology/ranks", "/topology/gpus", "/timing/phases", "/timing/reps",
                          "/timing/rank_phase", "/summary", "/ceilings", "/results/reduce"}, found
    frames = {name: pandas.read_hdf(folder / "out.h5", name) for name in found}
    for name, frame in frames.items():
        assert list(frame.columns) == list(raw[name].dtype.names), name
        assert len(frame) == len(raw[name]), name
        for column in frame.columns:
            expected = raw[name][column]
            if expected.dtype.kind == "S":
                assert frame[column].tolist() == np.char.decode(expected).tolist(), (name, column)
            else:
                assert np.array_equal(frame[column], expected, equal_nan=True), (name, column)
    assert frames["/topology/ranks"]["rank"].tolist() == list(range(ranks))
    assert frames["/topology/ranks"]["backend"].tolist() == ["host"] * ranks
    assert frames["/topology/ranks"]["pid"].nunique() == ranks
    assert len(frames["/topology/gpus"]) == 0
    reps = frames["/timing/reps"]
    assert reps["rep"].tolist() == list(range(repeat)) and (reps["wall"] > 0).all()
    assert (reps["skew"] >= 0).all() and (reps["skew"] <= reps["wall"]).all()
    assert set(reps["bytes"]) == {24000000} and set(reps["elements"]) == {3000000}
    summary = frames["/summary"].set_index("metric")
    assert summary.loc["time", "n"] == repeat
    # Of four, between the middle two: either way of finding that rounds at most twice.
    assert math.isclose(summary.loc["time", "median"], np.median(reps["wall"]), rel_tol=2**-51)
    assert summary.loc["time", "min"] == reps["wall"].min()
    assert summary.loc["time", "max"] == reps["wall"].max()
    by_rank = frames["/timing/rank_phase"]
    streamed = by_rank[by_rank["phase"] == "stream"]
    assert sorted(streamed["rank"]) == list(range(ranks))
    assert streamed["bytes"].sum() == repeat * 24000000 and set(streamed["calls"]) == {repeat}
    link = frames["/ceilings"].set_index("ceiling").loc["link_up"]
    assert 0 < link["per_rank_min"] <= link["aggregate"] / ranks * (1 + 1e-9), link
    assert link["unit"] == "GB/s" and link["on_path"] == 1, link
    kinds = {"useful", "transfer", "communication", "waiting"}  # all occur in a stream of any ranks
    for rank in range(ranks):
        assert set(by_rank[by_rank["rank"] == rank]["kind"]) == kinds, (rank, by_rank)
    assert set(frames["/timing/phases"]["kind"]) == kinds
    kind_of = dict(zip(by_rank["phase"], by_rank["kind"]))
    for phase, kind in (("stream", "useful"), ("read", "useful"), ("kernels", "useful"),
                        ("upload", "transfer"), ("combine", "communication"),
                        ("wait-for-slot", "waiting"), ("wait-for-readers", "waiting")):
        assert kind_of[phase] == kind, kind_of
    phases = frames["/timing/phases"].set_index("phase")
    assert phases.loc["stream", "host_seconds"] == streamed["host_seconds"].max()
    return None


# ---------------------------------------------------------------- where options come from

def config_of(path):
    with h5py.File(path) as file:
        return dict(file["config"].attrs), dict(file["config/origin"].attrs)


def test_sources_of_options():
    """Command line before environment before INI file before defaults."""
    folder = new_folder()
    ini = folder / "study.ini"
    ini.write_text("; a study\n[run]\nworkload = reduce\n\n[input]\ndata = ramp  # a generator\n"
                   "count = 70000\ntype = \"i64\"\n[pipeline]\nslots = 3\nbatch = 1MiB\n"
                   f"[output]\nfile = {folder}/ini.h5\n")
    finished = run("run", ini, "--input.type", "u8", ranks=2, env={
        "SHARDSTREAM_INPUT_TYPE": "f32", "SHARDSTREAM_PIPELINE_SLOTS": "5",
        "SHARDSTREAM_REDUCE_OPS": "sum", "SHARDSTREAM_PIPELINE_GPU_MEMORY": "1GiB",
        "SHARDSTREAM_TEST_ANYTHING": "is left alone"}).expect(0)
    values, origins = config_of(folder / "ini.h5")
    for key, value, origin in (
            ("input.type", "u8", "command line"), ("pipeline.slots", "5", "environment"),
            ("reduce.ops", "sum", "environment"), ("pipeline.gpu-memory", "1GiB", "environment"),
            ("input.count", "70000", f"{ini}:7"), ("input.data", "ramp", f"{ini}:6"),
            ("run.workload", "reduce", f"{ini}:3"), ("pipeline.batch", "1MiB", f"{ini}:11"),
            ("pipeline.batches", "3", "default"), ("reduce.nan", "propagate", "default")):
        assert (values[key], origins[key]) == (value, origin), (key, values[key], origins[key])
    assert finished.values["sum"] == str(sum(i % 256 for i in range(70000))), finished
    assert set(origins) <= set(values) and len(origins) >= 18, origins


def test_resolved_options():
    """What every `auto` came to on rank 0, and what was rounded or cut."""
    def check(ranks, source, options, expected):
        folder = new_folder()
        out = folder / "{ranks}.h5"
        finished = reduce(source, out, *itertools.chain(*options.items()), ranks=ranks)
        resolved = results.resolved(folder / f"{ranks}.h5", "reduce")
        assert resolved["device.backend"] == finished.values["backend"], resolved
        assert resolved["output.file"] == str(folder / f"{ranks}.h5"), resolved
        assert 0 < resolved["pipeline.readers"] <= 8, resolved
        assert resolved["pipeline.batch"] % (LEAF * 4) == 0, resolved
        for key, value in expected.items():
            assert resolved[key] == value, (key, resolved)
    folder = new_folder()
    few = write(small_integers(1000, "f4"), folder / "few.h5")
    many = write(small_integers(9 * LEAF, ">i2"), folder / "many.h5")
    leaf = LEAF * 4
    each([
        (1, few, {}, {"input.type": "f32", "pipeline.batch": leaf, "pipeline.batches": 1,
                      "pipeline.slot": leaf, "pipeline.slots": 1, "pipeline.readers": 1}),
        (2, many, {"--pipeline.batch": "1", "--pipeline.slot": "1GiB", "--pipeline.slots": "4",
                   "--pipeline.readers": "3", "--pipeline.gpu-memory": "1GB"},
         {"input.type": "i32", "pipeline.batch": leaf, "pipeline.batches": 3, "pipeline.slot": leaf,
          "pipeline.slots": 4, "pipeline.readers": 3, "pipeline.gpu-memory": 10**9}),
        (1, many, {"--pipeline.mode": "resident"}, {"pipeline.batch": 9 * leaf,
                                                    "pipeline.batches": 1})], check)


def test_workload_as_a_word_is_from_the_command_line():
    folder = new_folder()
    run("run", "reduce", "--input.count=9", f"--output.file={folder}/a.h5").expect(0)
    values, origins = config_of(folder / "a.h5")
    assert values["run.workload"] == "reduce" and origins["run.workload"] == "command line"
    assert values["output.file"] == f"{folder}/a.h5"


# ---------------------------------------------------------------- names and replacement

def test_placeholders():
    folder = new_folder()

    def check(ranks, variable, template, name):
        where = new_folder()
        jobs = dict.fromkeys(["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"])
        finished = run("run", "reduce", "--input.count", 10, "-o", where / template, ranks=ranks,
                       env={**jobs, variable: "4711"}).expect(0)
        assert [path.name for path in where.iterdir()] == [name], finished
        assert finished.values["file"] == str(where / name), finished
        assert config_of(where / name)[0]["output.file"] == str(where / template)
    each([(1, "SLURM_JOB_ID", "{workload}-{ranks}-{jobid}.h5", "reduce-1-4711.h5"),
          (2, "PBS_JOBID", "{ranks}{ranks}.{jobid}", "22.4711"),
          (1, "LSB_JOBID", "{other}{jobid}{jobid}", "{other}47114711")], check)
    finished = run("run", "reduce", "--input.count", 10, "-o", folder / "{jobid}").expect(0)
    assert re.fullmatch(r"[0-9]{10}", next(folder.iterdir()).name), finished


def test_default_name_is_in_the_current_folder():
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, env={"SLURM_JOB_ID": "12"}, cwd=folder).expect(0)
    assert [path.name for path in folder.iterdir()] == ["reduce-1-12.h5"]


def test_replacement():
    """A complete result is replaced when told to only; an unfinished one and remains always."""
    folder = new_folder()
    out = folder / "out.h5"
    stale = folder / ".out.h5.00000000-0000-4000-8000-000000000000.part"
    others = folder / ".out.h5.more.00000000-0000-4000-8000-000000000000.part"
    with h5py.File(out, "w") as file:
        file.attrs["schema"] = "shardstream"
        file.attrs["status"] = "partial"
    stale.write_bytes(b"\x89HDF\r\n\x1a\nof a run that was killed")
    others.write_text("of another file")
    arguments = ["run", "reduce", "--input.count", 10, "-o", out]
    run(*arguments, ranks=2).expect(0)
    assert sorted(folder.iterdir()) == sorted([out, others])
    complete = out.read_bytes()

    for ranks in (1, 2):
        expect_complaint(run(*arguments, ranks=ranks), 2, [out, "--output.overwrite true"])
        run(*arguments, "--output.overwrite", "false", ranks=ranks).expect(2)
        assert out.read_bytes() == complete
    for ranks in (1, 2):
        before = out.read_bytes()
        run(*arguments, "--output.overwrite", "true", ranks=ranks).expect(0)
        assert out.read_bytes() != before
    out.write_text("no result of this program")
    run(*arguments).expect(2)
    assert out.read_text() == "no result of this program"
    run(*arguments, "--output.overwrite", "anything").expect(0)
    assert sorted(folder.iterdir()) == sorted([out, others])


main(on_gpu=True)
