#!/usr/bin/python3
"""`run reduce` with median and quantiles: against numpy.quantile for all methods, types, missing
values and hard data; the same bits on any ranks and in any mode; passes; bad input."""

import itertools
import zlib

import h5py
import numpy as np

from harness import TYPES, check_complaints, each, main, new_folder, run

METHODS = ["inverted_cdf", "averaged_inverted_cdf", "closest_observation",
           "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased",
           "normal_unbiased", "lower", "higher", "midpoint", "nearest"]
QS = [0.5, 0.0, 1.0, 0.05, 0.25, 0.3, 1 / 3, 0.75, 0.95, 0.999, 1e-9]
# More elements than a rank collects in one pass, so that brackets are chosen by a sample
MANY = 2_300_000


def seeded(*what):
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def written(array, fill=None, **layout):
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=array, **layout)
        if fill is not None:
            dataset.attrs["_FillValue"] = fill
    return path


def quantiles(path, qs, *options, ranks=1):
    """The values that are printed, the rows of the file, and the number of passes."""
    out = new_folder() / "out.h5"
    ops = f"quantile({','.join(repr(float(q)) for q in qs)})"
    finished = run("run", "reduce", "--input.data", f"{path}:/x", "--reduce.ops", ops,
                   "--measure.repeat", 1, "--measure.warmup", 0, *options, "-o", out,
                   ranks=ranks).expect(0)
    assert finished.values["verified"] == "true", finished
    with h5py.File(out) as file:
        rows, attributes = file["results/reduce"][()], dict(file["results"].attrs)
    names = [row["op"].decode() for row in rows]
    assert all(name.startswith("quantile(") for name in names) and len(names) == len(qs), names
    assert [float(name[9:-1]) for name in names] == [float(q) for q in qs], names
    assert rows["validated"].all() and (rows["max_error"] == 0).all(), rows
    exact = [row["exact"].decode() for row in rows]
    assert [finished.values[name] for name in names] == exact, finished
    assert int(finished.values["passes"]) == attributes["passes"], finished
    return rows["value"], exact, attributes["passes"]


def exactly(array, q, method):
    """numpy.quantile in exact arithmetic where numpy's integers overflow, and without the NaNs that
    its interpolation makes of infinities."""
    if method == "closest_observation":  # numpy before 2.0.1 rounds half to odd
        rank = array.size * q - 1.5
        lower = int(np.floor(rank))
        index = lower if rank == lower and lower % 2 == 1 else lower + 1
        return float(np.sort(array)[min(max(index, 0), array.size - 1)])
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            expected = np.quantile(array.astype(np.float64), q, method=method)
        if not np.isnan(expected):
            return expected
        finite = np.quantile(np.arange(array.size, dtype=np.float64), q, method=method)
        ends = np.sort(array)[[int(np.floor(finite)), int(np.ceil(finite))]].astype(np.float64)
        return ends[0] if finite % 1 == 0 or ends[0] == ends[1] else ends.sum()
    if array.dtype.itemsize < 8:
        return np.quantile(array.astype(np.float64), q, method=method)
    # The place by numpy, the interpolation in exact integers
    place = np.quantile(np.arange(array.size, dtype=np.float64), q, method=method)
    ordered = np.sort(array)
    lower, upper = int(ordered[int(np.floor(place))]), int(ordered[int(np.ceil(place))])
    weight = place % 1
    difference = float(upper - lower)
    if weight >= 0.5:
        return float(upper) - difference * (1 - weight)
    return float(lower) + difference * weight


def check(array, method="linear", qs=None, fill=None, options=(), ranks=1, max_passes=2,
          tolerance=0):
    qs = QS if qs is None else qs
    values, exact, passes = quantiles(written(array, fill), qs, "--reduce.quantile-method", method,
                                      *options, ranks=ranks)
    valid = array if fill is None or fill != fill else array[array != fill]
    valid = valid[valid == valid] if fill is not None or "ignore" in options else valid
    for q, value, text in zip(qs, values, exact):
        expected = np.nan if np.isnan(valid).any() or valid.size == 0 else exactly(valid, q, method)
        assert np.isclose(value, expected, rtol=tolerance, atol=0, equal_nan=True), (
            method, q, value, expected)
        if value == value and value in valid.astype(np.float64):
            assert array.dtype.type(text) in valid or float(text) == value, (q, text)
    assert 1 <= passes <= max_passes, passes


def values_of(name, count, *seed):
    """Elements of all sizes."""
    dtype, random = np.dtype(TYPES[name]), seeded(name, count, *seed)
    if dtype.kind == "f":
        return (random.normal(size=count) * 10.0 ** random.integers(-5, 6, count)).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype, endpoint=True)


def test_methods():
    """The arithmetic of ranks differs from numpy's in no bit; 64-bit integers are interpolated from
    a rounded rank here."""
    types = itertools.cycle(["f32", "i64", "i8", "f64", "u64"])
    each([(method, name, count) for (method, count), name in zip(
        itertools.product(METHODS, (10, 101)), types)],
         lambda method, name, count: check(values_of(name, count, method), method,
                                           tolerance=1e-13 if name in ("i64", "u64") else 0))


def test_types_and_ranks():
    each([(name, ranks) for name, ranks in zip(TYPES, itertools.cycle((1, 2, 3)))],
         lambda name, ranks: check(values_of(name, MANY), "higher", ranks=ranks))


def test_tiny_inputs():
    each([(name, count, ranks) for count, name, ranks in zip(
        (1, 2, 3, 4, 5), ("f32", "i64", "u8", "f64", "i32"), (3, 2, 1, 3, 1))],
         lambda name, count, ranks: check(values_of(name, count), "midpoint", ranks=ranks))


def test_hard_data():
    """Equal elements, few values, sorted ones, special values; none takes more than two passes."""
    halves = np.repeat(np.array([0, 1], "f4"), MANY // 2)
    random = seeded("hard")
    inf, tiny = np.inf, np.finfo("f4").smallest_subnormal
    special = np.array([inf, -inf, 0.0, -0.0, 1, -1, tiny, -tiny], "f4")
    bits = random.integers(0, 2**32, MANY, np.uint32).view("f4")
    extremes = np.array([-2**63, 2**63 - 1, 0, -1, 1], "i8")
    cases = [(np.full(MANY, 7.5, "f4"), 1), (halves, 1), (random.permutation(halves), 2),
             (np.arange(MANY, dtype="i4"), 2), (np.arange(MANY, dtype="f8")[::-1].copy(), 1),
             (random.choice(special, MANY), 1), (special, 2), (np.full(9, -inf, "f4"), 1),
             (random.choice(extremes, 1_100_000), 1), (extremes, 2),
             ((tiny * np.arange(MANY)).astype("f4"), 1),
             (np.concatenate([np.zeros(MANY, "f4"), random.normal(size=MANY).astype("f4")]), 2),
             (10.0 ** random.uniform(-300, 300, 1_100_000), 1),
             (random.permutation(halves) * random.lognormal(-69, 1, MANY).astype("f4"), 2),
             (bits[bits == bits], 1)]
    each(cases, lambda array, ranks: check(array, "lower", ranks=ranks))
    each([(special, 1), (np.array([1, 2, inf]), 1)], lambda array, ranks: check(array, ranks=ranks))


def test_missing_values():
    def of(name, count, fill):
        array = values_of(name, count, "missing")
        array[::3] = fill
        return array
    each([("i32", -5, MANY, 2), ("u8", 200, 1000, 1), ("i64", 0, 999, 3), ("f32", np.nan, MANY, 1),
          ("f64", 1e36, 5000, 2)],
         lambda name, fill, count, ranks: check(of(name, count, fill), ranks=ranks,
                                                fill=np.dtype(TYPES[name]).type(fill),
                                                tolerance=1e-13))
    check(of("f32", 1000, np.nan), options=("--reduce.missing", "ignore"))
    check(of("f32", 1000, np.nan))  # all NaN
    values, exact, _ = quantiles(written(np.full(10, 3, "i2"), np.int16(3)), [0.5])
    assert np.isnan(values).all() and exact == ["nan"]
    values, _, _ = quantiles(written(of("i32", 9, 3), np.int32(3)), [0.5], "--reduce.missing",
                             "propagate")
    assert np.isnan(values).all()


def test_the_same_in_every_mode():
    """Also for compressed data, whose sample is read in blocks."""
    def check_modes(name, layout):
        array = np.cumsum(seeded(name).normal(size=MANY)).astype(TYPES[name])
        path = written(array, **layout)
        first = quantiles(path, QS)
        assert first[2] <= 2, first
        for ranks, mode, options in [(1, "resident", ()), (2, "pinned", ()), (3, "stream", ()),
                                     (2, "mapped", ("--pipeline.batch", "1MiB")),
                                     (1, "stream", ("--pipeline.batch", 70001))]:
            again = quantiles(path, QS, "--pipeline.mode", mode, *options, ranks=ranks)
            assert again[1] == first[1], (ranks, mode)
            assert again[2] == 1 or mode not in ("resident", "mapped"), again
    each([("f32", {}), ("f64", {"chunks": (100_000,), "compression": 1}),
          ("i32", {"chunks": (4096,)})], check_modes)


def test_little_memory_costs_passes():
    array = seeded("memory").normal(size=MANY).astype("f4")
    little = ("--pipeline.gpu-memory", "4MiB", "--pipeline.batch", "64KiB")
    check(array, options=little, max_passes=4)
    check(np.sort(array), options=little, ranks=2, max_passes=4)


def test_repetitions_and_many_quantiles():
    qs = np.linspace(0, 1, 100)
    path = written(values_of("f32", MANY))
    _, exact, passes = quantiles(path, qs, "--measure.repeat", 3, "--measure.warmup", 1)
    assert passes <= 2, passes
    assert quantiles(path, qs, ranks=2)[1] == exact
    check(values_of("f64", 20), qs=qs)


def test_the_names_of_operations():
    path = written(np.arange(11, dtype="i4"))
    finished = run("run", "reduce", "--input.data", f"{path}:/x", "--reduce.ops",
                   "median, quantile(0.5, 1)").expect(0)
    assert finished.values["median"] == finished.values["quantile(0.5)"] == "5", finished
    assert finished.values["quantile(1)"] == "10" and finished.values["passes"] == "1", finished
    planned = run("run", "reduce", "--input.count", 1000, "--reduce.ops", "median",
                  "--dry-run").expect(0)
    assert "pass" in planned.out, planned


def test_bad_input():
    generated = ["run", "reduce", "--input.count", 1000, "--reduce.ops"]
    with_nan = written(np.array([1, np.nan], "f4"))
    check_complaints([
        *(([*generated, bad], 2, ["reduce.ops", word]) for bad, word in [
            ("quantile(1.5)", "1.5"), ("quantile(-0.1)", "-0.1"), ("quantile(nan)", "nan"),
            ("quantile()", "empty"), ("quantile(0.1", "closed"), ("quantile(0.1))", "opened"),
            ("quantile", "quantile"), ("quantile(a,b)", "a"), ("quantile(0.1,0.1)", "twice"),
            ("median,median", "twice"), ("medain", "median"),
            (f"quantile({','.join(str(i / 200) for i in range(101))})", 100)]),
        ([*generated, "median", "--reduce.quantile-method", "linaer"], 2,
         ["--reduce.quantile-method", "linaer", "linear"]),
        (["run", "reduce", "--input.data", f"{with_nan}:/x", "--reduce.ops", "median",
          "--reduce.missing", "error"], 1, ["--reduce.missing", 1, 2]),
    ], ranks=(1,))
    check_complaints([([*generated, "quantile(2)"], 2, ["reduce.ops", 2])], ranks=(2,))


if __name__ == "__main__":
    main(on_gpu=True)
