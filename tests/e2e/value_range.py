#!/usr/bin/python3
"""Values at the ends of double's and of integers' range in `run reduce`: what is lost is named and
not verified, and nothing else is."""

import math

import h5py
import numpy as np

from harness import each, expect_warning, main, new_folder, reduce

MOMENTS = ["variance", "stddev", "skewness", "kurtosis"]


def results(path, *names):
    with h5py.File(path) as file:
        return [file[f"results/{name}"][()] for name in names]


def check(array, ops, *options, named=(), word="overflow", attributes=None, **further):
    """Reduces an array, and expects the line `word` with the operations `named`. Returns the lines
    and the path of the result."""
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = array
        for key, value in (attributes or {}).items():
            file["x"].attrs[key] = value
        for key, value in further.items():
            file[key] = value
    options = [f"{folder / 'in.h5'}:/{option[1:]}" if option.startswith("@") else option
               for option in options]
    finished = reduce(f"{folder / 'in.h5'}:/x", folder / "out.h5", "--reduce.ops", ",".join(ops),
                      *options)
    lines = finished.values
    found = dict(line.split("=", 1) for line in finished.out.splitlines())
    assert found.get(word, "") == ", ".join(named), finished
    assert lines["verified"] == ("partly" if named else "true"), finished
    if named:
        expect_warning(finished, named[:1])
    return lines, folder / "out.h5"


ROUTES = [(), ("--reduce.over", "1")]


def test_overflows_are_named():
    """Sums of finite elements that exceed the range of double."""
    huge = np.array([[1.7e308, -1.7e308, 1.7e308]])
    large = np.array([[1e200, -1e200, 3e200]])

    def one(array, ops, named, route):
        check(array, ops, *route, named=named)
    each([(array, ops, named, route) for route in ROUTES for array, ops, named in (
        (huge, ["min", "range", "l1", "max"], ["range", "l1"]),
        (large, ["mean", "l1", *MOMENTS, "l2"], [*MOMENTS, "l2"]),
        (large / 1e95, [*MOMENTS, "l2"], ["skewness", "kurtosis"]))], one)


def test_infinities_are_no_overflow():
    each([(route,) for route in ROUTES],
         lambda route: check(np.array([[1, math.inf, 2, -3]]),
                             ["sum", "mean", "l1", "l2", *MOMENTS], *route))


def test_underflows_are_named():
    """Products that are too small for double have lost digits; elements that are equal have not."""
    def one(array, ops, named, route):
        check(array, ops, *route, named=named, word="underflow")
    tiny = np.array([[1e-200, 3e-200]])
    each([(tiny, ["mean", "l1", "variance", "stddev"], ["variance", "stddev"], route)
          for route in ROUTES]
         + [(tiny, ["l2"], ["l2"], route) for route in ROUTES]
         + [(1e80 * tiny, ["stddev", "skewness", "kurtosis"], ["skewness", "kurtosis"], route)
            for route in ROUTES]
         + [(np.full((1, 50), 1e-200), ["l2", "variance"], [], route) for route in ROUTES], one)


def test_norms_of_equal_elements():
    """Their squares would leave the range of double, the norm does not."""
    def one(size, route):
        lines, _ = check(np.full((1, 49), size), ["l2"], *route)
        assert math.isclose(float(lines["l2_largest" if route else "l2"]), 7 * size, rel_tol=1e-14)
    each([(size, route) for size in (1e200, 1e-200) for route in ROUTES], one)


def test_subnormal_squares_pass():
    """Their rounding is a part of the bounds of the checks."""
    values = np.array([[1, 2, 2, 9, 4.5]])

    def one(op, scale, route):
        lines, _ = check(values * scale, [op], *route, named=[op], word="underflow")
        assert lines["verified"] == "partly"
    each([(op, scale, route) for route in ROUTES for op, scale in (
        ("variance", 1e-160), ("l2", 1e-160), ("kurtosis", 1e-79), ("skewness", 1e-107))], one)


def test_variance_of_neighbours():
    """The deviations are as small as the rounding of the mean."""
    array = np.tile([1, 1 + 2.0**-52], (1, 100_000))
    each([(route, key) for route, key in zip(ROUTES, ("variance", "variance_largest"))],
         lambda route, key: check_close(check(array, ["variance"], *route)[0][key], 2.0**-106))


def check_close(text, wanted, tolerance=1e-12):
    assert math.isclose(float(text), wanted, rel_tol=tolerance), (text, wanted)


# ---------------------------------------------------------------- integers

def test_sums_of_integers_beyond_64_bits():
    """The sum of a cell is undefined; that of all elements has all digits."""
    limit = 2**63 - 1
    array = np.array([[limit, limit], [1, 2]])
    lines, path = check(array, ["sum", "mean"], "--reduce.over", "1", named=["sum"])
    assert lines["sum_undefined"] == "1" and lines["sum_largest"] == "3", lines
    with h5py.File(path) as file:
        total = file["results/sum"]
        assert list(total[()]) == [total.attrs["_FillValue"], 3], total[()]
    lines, _ = check(array, ["sum"])
    assert lines["sum"] == str(2 * limit + 3), lines


def test_the_smallest_integer_is_a_value():
    """Another integer stands for undefined values then."""
    for dtype, value in (("i8", -2**63), ("u8", 2**63 - 1)):
        array = np.array([[value, value], [7, 7]], dtype)
        _, path = check(array, ["min"], "--reduce.over", "1", attributes={
            "_FillValue": np.array(7, dtype)})
        with h5py.File(path) as file:
            least, fill = file["results/min"][()].tolist(), file["results/min"].attrs["_FillValue"]
            assert least == [value, int(fill)] and int(fill) != value, (least, fill)


# ---------------------------------------------------------------- NaN, zeros

def test_nans_beside_missing_values_are_not_counted():
    """On every route; all other results are NaN."""
    routes = [(), ("--reduce.over", "0"), ("--reduce.by", "@label"),
              ("--reduce.weights", "@weight")]
    ops = ["count", "sum", "variance", "max", "effective-count"]

    def one(*route):
        lines, _ = check(np.array([math.nan, 1, 2, -1]), ops, *route,
                         attributes={"missing_value": -1.0}, label=np.ones(4, "i4"),
                         weight=np.ones(4))
        count = lines["count"] if "count" in lines else lines["count_largest"]
        assert (count, lines["nans"], lines["missing"]) == ("2", "1", "1"), lines
        for op in ops[1:]:
            key = op.replace("-", "_")
            is_nan = lines.get(key) == "nan" or lines.get(f"{key}_undefined") == "1"
            assert is_nan, (op, lines)
    each(routes, one)


def test_zeros_of_both_signs_are_equal():
    """The first zero is the extreme."""
    low, high = np.array([0.0, -0.0, 0.0]), np.array([-0.0, 0.0, -1.0])

    def one(array, op, route):
        lines, path = check(array, [op, f"arg{op}"], *route)
        if route:
            value, index = (each.item() for each in results(path, op, f"arg{op}"))
        else:
            value, index = float(lines[op]), int(lines[f"arg{op}"])
            assert lines[f"{op}_position"] == "0", lines
        assert (math.copysign(1, value), value, index) == (1, 0, 0), (value, index)
    each([(array, op, route) for array, op in ((low, "min"), (high, "max"))
          for route in ((), ("--reduce.over", "0"))], one)


# ---------------------------------------------------------------- weights

def test_values_that_hardly_count():
    """They come first and lie far from the others."""
    array = np.array([[9.96921e36, 1, 2, 3, 4], [5, 1, 2, 3, 4]])
    for first in (0.0, 1e-90):
        lines, path = check(array, ["mean", "variance", "stddev"], "--reduce.over", "1",
                            "--reduce.weights", "@w", w=np.array([first, 1, 1, 1, 1]))
        far = first * (9.96921e36 - 2.5)**2 / 4
        assert np.allclose(results(path, "variance")[0], [1.25 + far, 1.25], rtol=1e-12), lines


def test_infinities_of_weight_zero():
    """Their products are NaN wherever they stand, as are those of a NaN."""
    infinite = np.array([[math.inf, 1, 2], [1, math.inf, 2], [1, 2, math.nan], [1, 2, 3]])
    weights = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1.0]])
    _, path = check(infinite, ["count", "sum", "mean", "variance"], "--reduce.over", "1",
                    "--reduce.weights", "@w", w=weights)
    for values in results(path, "sum", "mean", "variance"):
        assert list(np.isnan(values)) == [True, True, True, False], values


def test_weights_of_any_size():
    """Sums of their squares do not leave the range of double."""
    for scale in (1e-320, 1e-200, 1, 1e200):
        lines, _ = check(np.array([1.0, 4, 2]), ["sum", "mean", "variance", "effective-count"],
                         "--reduce.weights", "@w", "--reduce.ddof", "1",
                         w=np.array([1, 2, 1]) * scale)
        tolerance = 1e-3 if scale < 1e-300 else 1e-13  # weights are subnormal
        check_close(lines["sum"], 11 * scale, tolerance)
        check_close(lines["mean"], 2.75, tolerance)
        check_close(lines["effective_count"], 16 / 6, tolerance)
        check_close(lines["variance"], 6.75 / (4 - 6 / 4), tolerance)


def test_one_value_has_no_unbiased_variance():
    """W - (sum of w^2) / W is 0 but for rounding, and a variance undefined."""
    count = 500
    random = np.random.default_rng(0)
    lines, path = check(random.normal(size=count), ["variance"], "--reduce.by", "@label",
                        "--reduce.weights", "@w", "--reduce.ddof", "1", label=np.arange(count),
                        w=random.random(count))
    assert np.isnan(results(path, "variance")[0]).all(), lines


main(on_gpu=True)
