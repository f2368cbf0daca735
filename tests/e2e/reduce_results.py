#!/usr/bin/python3
"""The values of `run reduce`: equal to the model in every bit, and within error bounds of numpy."""

import fractions
import itertools
import math

import h5py
import numpy as np

import results
from harness import (LEAF, OPS, TYPES, check_complaints, each, expect_complaint, expect_warning,
                     main, new_folder, reduce, run)
from results import small_integers, spread_out, write


# For tests that do not depend on the mode (same_bits.py tests the modes): resident is the simplest.
RESIDENT = ("--pipeline.mode", "resident")


def check_reduced(array, layout, *options, ranks=1, policy="auto", fill=None):
    folder = new_folder()
    source = write(array, folder / "in.h5", fill, **layout)
    finished = reduce(source, folder / "out.h5", *options, "--reduce.missing", policy, ranks=ranks)
    assert not finished.err, finished
    results.check(array, folder / "out.h5", finished, layout.get("chunks"), policy, fill=fill)
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
    """Stored types of other widths and byte orders become the type that can hold all of their
    values."""
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
    """Positions are coordinates. The position in a scalar is 0, as in a data set with one
    element."""
    cases = [((), {}), ((1, 1, 1), {}), ((3, 5, 7, 11), {}),
             ((3, 5, 7, 11), {"chunks": (2, 2, 3, 4)}),
             ((1, 200001), {"chunks": (1, 70000)}), ((200001, 1), {"chunks": (70000, 1)})]
    each(cases, lambda shape, layout: check_reduced(spread_out(shape, "f4"), layout, ranks=2))


def test_first_rows():
    """input.rows takes a prefix of the leading dimension, in any layout."""
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
    """The model could have the same error as the program; numpy adds in another order than both."""
    def check(name, count):
        for array in (small_integers(count, TYPES[name]), spread_out(count, TYPES[name])):
            rows = check_reduced(array, {}, *RESIDENT)
            wide = array.astype(np.float64)
            # n eps sum|x| is a bound for any order of additions in double.
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
    """Values from 0 to 100, with `values` {index: value} among them."""
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
    cases = [(what, policy, "f8", 1) for what in SPECIAL for policy in ("auto", "ignore")]
    cases += [("infs and nans", "ignore", "f4", 2), ("a leaf of nans", "ignore", "f4", 2),
              ("nans alone", "ignore", "f4", 3), ("first and last nan", "propagate", "f4", 2),
              ("both infs", "propagate", "f4", 2)]
    each(cases, lambda what, policy, dtype, ranks: check_reduced(
        SPECIAL[what].astype(dtype), {}, *RESIDENT, policy=policy, ranks=ranks))


def test_missing_values():
    """A marker among values from the whole type, also in a whole leaf, at the type's limits, and
    besides NaNs that nothing declares."""
    def check(name, marker, policy, ranks):
        array = spread_out(4 * LEAF + 1000, TYPES[name])
        fill = array.dtype.type(marker)
        array[LEAF + 5:2 * LEAF + 7] = array[3::7] = array[-1] = fill
        if policy == "nan":
            array[[9, 3 * LEAF]] = NAN
            policy = "auto"
        check_reduced(array, {} if ranks == 1 else {"chunks": (50000,), "compression": "gzip"},
                      policy=policy, ranks=ranks, fill=fill)
    limits = {name: np.iinfo(TYPES[name]) for name in TYPES if name[0] != "f"}
    cases = [(name, limit, policy, ranks) for name, each_of in limits.items()
             for limit, policy, ranks in ((each_of.min, "auto", 2), (each_of.max, "ignore", 1))]
    cases += [("i64", 7, "propagate", 1), ("f32", 9e36, "auto", 2), ("f64", 9e36, "propagate", 1),
              ("f64", -999, "nan", 2), ("f32", -999, "ignore", 1)]
    each(cases, check)


def test_nothing_but_missing_values():
    """A count and an exact sum of 0, and a warning; the rest is NaN."""
    def check(dtype):
        folder = new_folder()
        source = write(np.full(LEAF + 9, -1, dtype), folder / "in.h5", fill=-1)
        finished = reduce(source, folder / "out.h5")
        expect_warning(finished, ["missing", source])
        values = finished.values
        assert [values[op] for op in OPS] == ["0", "0"] + ["nan"] * 5, finished
        assert (values["missing"], values["verified"]) == (str(LEAF + 9), "true"), finished
    each([("i2",), ("i8",), ("f4",)], check)


def test_overflow_is_no_verified_result():
    """Finite elements whose sums exceed the range of double: the overflowed values are named, and
    the others stay verified. Infinities in the data are no overflow, whatever else is requested."""
    big = 1.7e308
    every = ["sum", "mean", "variance", "stddev"]
    ignored = np.where(np.arange(99) == 7, NAN, big)
    cases = [(np.full(2 * LEAF, big), OPS, every[:2], 2),
             (np.array([big, big]), ["mean"], ["mean"], 1),
             (np.tile([big, big, -big, -big], 1000), OPS, every, 1),
             (np.tile([big, -big], 1000), ["mean"], [], 1),
             (np.tile([1e200, -1e200], 1000), OPS, every[2:], 1), (ignored, ["sum"], ["sum"], 1),
             (with_values(2 * LEAF, {5: INF}), ["sum"], [], 2), (np.full(9, 1e150), OPS, [], 1),
             (with_values(99, {5: INF, 7: -INF}), OPS, [], 1),
             (np.append(np.full(2 * LEAF, -big), INF), ["sum", "max"], ["sum"], 1)]

    def check(array, ops, overflows, ranks):
        folder = new_folder()
        source = write(array, folder / "in.h5")
        finished = reduce(source, folder / "out.h5", "--reduce.ops", ",".join(ops),
                          "--reduce.missing", "ignore", ranks=ranks)
        lines = dict(line.split("=", 1) for line in finished.out.splitlines())
        assert lines.get("overflow", "") == ", ".join(overflows), finished
        assert lines["verified"] == ("partly" if overflows else "true"), finished
        rows = results.stored_reduce(folder / "out.h5")
        assert [op for op in ops if not rows[op]["validated"]] == overflows, rows
        if overflows:
            expect_warning(finished, overflows)
    each(cases, check)


def test_policy_is_stated():
    folder = new_folder()
    source = write(SPECIAL["first and last nan"].reshape(-1, 1), folder / "in.h5")
    for policy in ("propagate", "ignore"):
        finished = reduce(source, folder / f"{policy}.h5", "--reduce.missing", policy)
        with h5py.File(folder / f"{policy}.h5") as file:
            assert file["results"].attrs["missing_policy"] == policy
            assert file["results"].attrs["nans"] == 2
    assert finished.values["count"] == str(2 * LEAF + 5), finished


def test_missing_is_an_error():
    array = SPECIAL["one nan"].reshape(1, -1)
    without = array[:, :LEAF]

    def check(ranks, dtype, fill):
        folder = new_folder()
        source = write(np.where(np.isnan(array), -9, array).astype(dtype) if fill else array,
                       folder / "in.h5", fill)
        finished = run("run", "reduce", "--input.data", source, "--reduce.missing", "error", "-o",
                       folder / "out.h5", ranks=ranks)
        expect_complaint(finished, 1, [f"1 of {array.size}", source, f"(0,{LEAF + 5})",
                                       "--reduce.missing ignore"])
        assert [path.name for path in folder.iterdir()] == ["in.h5"]
    each([(1, "f8", None), (3, "f8", None), (2, "f4", -9), (1, "i2", -9)], check)
    check_reduced(without, {}, policy="error", ranks=2)
    check_reduced(with_values(2 * LEAF, {3: INF, 70000: -INF}), {}, policy="error")


def test_zeros_and_ties():
    """-0 equals 0. Among equal values the first one counts, also across leaves and ranks."""
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
    for op in ("min", "max"):
        assert rows[op]["exact"] == "0" and rows[op]["position"] == "0", rows


# ---------------------------------------------------------------- operations

def test_any_operations():
    """The bits of an operation do not depend on the other requested operations or their order."""
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


main(on_gpu=True)
