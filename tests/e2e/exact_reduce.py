"""Checks results of `reduce` against exact arithmetic: values within the error bounds of doubles,
positions, overflows and the verdict."""

import math

import numpy as np

import exact
import model
import results
from exact import Statistics, fraction


class Expected:
    """The results for the elements `values`, or those that are True in `selected`. Missing elements
    (`missing`, an array of bools; None if the data have no convention for them) are left out, and
    NaNs as well if `nan` is "ignore"; otherwise a NaN propagates."""

    def __init__(self, values, chunks=None, missing=None, nan="propagate", selected=None):
        self.shape, self.nan = values.shape, nan
        is_selected = np.ones(values.shape, bool) if selected is None else selected
        kept = model.in_stored_order(is_selected, chunks)[0]
        self.values, self.positions = (part[kept] for part in
                                       model.in_stored_order(values, chunks))
        self.has_convention = missing is not None
        is_missing = missing if self.has_convention else np.zeros(values.shape, bool)
        self.missing = model.in_stored_order(is_missing, chunks)[0][kept]
        self.is_nan = np.zeros(len(self.values), bool)
        if self.values.dtype.kind == "f":
            self.is_nan = np.isnan(self.values) & ~self.missing
        self.numbers = self.values[~self.is_nan & ~self.missing]
        self.known = None  # statistics of `numbers`

    def check(self, rows, finished):
        """`rows` is the table of the result file, `finished` the run."""
        for op, row in rows.items():
            assert finished.values[op] == row["exact"], finished
            place = self.check_value(op, row["exact"], finished)
            where = "" if place is None else ",".join(
                map(str, np.unravel_index(self.positions[place], self.shape)))
            assert row["position"] == where, f"{op} at {where}\n{finished}"
        self.check_verdict(rows, finished)

    def check_verdict(self, rows, finished):
        """A value that overflows although all numbers are finite is named, and is not verified; as
        is one whose squares are too small."""
        numbers = self.numbers
        counted = self.nan == "ignore" or not self.is_nan.any()
        overflow = [op for op, row in rows.items() if not math.isfinite(float(row["exact"]))]
        if self.huge_beside_infinities():
            return  # infinities hide the overflow, or make it NaN
        if not counted or len(numbers) == 0 or not np.isfinite(numbers).all():
            overflow = []
        underflow = []
        if counted and len(numbers) > 0 and not overflow and np.isfinite(numbers).all():
            self.known = self.known or Statistics(numbers)
            if self.known.underflows():
                underflow = [op for op in rows if op in ("variance", "stddev")]
        for word, ops in (("overflow", overflow), ("underflow", underflow)):
            named = finished.out.partition(f"\n{word}=")[2].split("\n")[0]
            assert named == ", ".join(ops), f"{ops} {word}:\n{finished}"
        wrong = overflow + underflow
        assert finished.values["verified"] == ("partly" if wrong else "true"), finished
        for op, row in rows.items():
            assert row["validated"] == (op not in wrong), f"{op}\n{finished}"
        assert not wrong or wrong[0] in finished.err, finished

    def huge_beside_infinities(self):
        """Whether sums of finite numbers may exceed the range of double, beside infinities."""
        numbers = self.numbers
        if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
            return False
        finite = numbers[np.isfinite(numbers)].astype("f8")
        return bool(np.abs(finite / 2.0**200).sum() > 2.0**820)

    def check_value(self, op, text, finished):
        """Compares with exact arithmetic; returns the place of an extreme in storage order."""
        told = f"{op} of {self.values[:20]}...\n{finished}"
        numbers = self.numbers
        if op == "count":
            are_counted = self.nan != "ignore" and not self.has_convention
            expected = len(numbers) + (int(self.is_nan.sum()) if are_counted else 0)
            assert int(text) == expected, told
            return None
        if self.is_nan.any() and self.nan == "propagate":
            assert math.isnan(float(text)), told
            return np.flatnonzero(self.is_nan)[0] if op in ("min", "max") else None
        if len(numbers) == 0:
            assert text == "0" if op == "sum" else math.isnan(float(text)), told
            return None
        if op in ("min", "max"):
            value, place = exact.extreme(numbers, op)
            assert results.same(text, int(value) if value.dtype.kind in "iu" else value), told
            return np.flatnonzero(~self.is_nan & ~self.missing)[place]
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            with np.errstate(all="ignore"):
                of_signs = sum(set(numbers[np.isinf(numbers)].astype("f8").tolist()))
            expected = of_signs if op in ("sum", "mean") else math.nan
            hidden = self.huge_beside_infinities() and math.isnan(float(text))
            assert hidden or str(float(text)) == str(expected), f"{expected} expected: {told}"
            return None
        self.check_finite(op, text, told)
        return None

    def check_finite(self, op, text, told):
        self.known = self.known or Statistics(self.numbers)
        known = self.known
        if not math.isfinite(float(text)):
            assert known.overflows(), told
            return  # check_verdict() wants a reason
        got = fraction(int(text) if op == "sum" and known.is_whole else float(text))
        if op == "stddev":
            got, op = got * got, "variance"
            extra = 4 * exact.UNIT * known.variance + exact.TINY * 4
        else:
            extra = 0
        expected, error = getattr(known, op), getattr(known, f"{op}_error")() + extra
        assert abs(got - expected) <= error, (
            f"{float_of(got)!r}, but {float_of(expected)!r} within {float_of(error):.3g}: {told}")


def float_of(value):
    """A fraction as a double; those beyond its range are infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
