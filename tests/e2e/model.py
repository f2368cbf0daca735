"""`reduce` implemented a second time, in numpy and Python, from its description and not from its
code.

The elements are one row in the order of storage, divided into units of 2^16 to 2^20 elements, and
each unit into lanes. Four neighbouring elements belong to one lane, the next four to the next one.
A lane adds its elements in order, in double (whole numbers exactly), and the deviations from its
first element and their squares. Its moments follow from them. Lanes are joined in pairs, level by
level, and then units; a unit without a neighbour moves up unchanged. So every value must be equal
in every bit.
"""

import itertools
import math

import numpy as np

RUN = 4


def in_stored_order(array, chunks=None):
    """The elements and their flat (row-major) positions: chunk by chunk if there are chunks."""
    array = np.atleast_1d(array)
    positions = np.arange(array.size).reshape(array.shape)
    if chunks is None:
        return array.ravel(), positions.ravel()
    starts = [range(0, extent, chunk) for extent, chunk in zip(array.shape, chunks)]
    boxes = [tuple(slice(at, at + chunk) for at, chunk in zip(corner, chunks))
             for corner in itertools.product(*starts)]
    return (np.concatenate([array[box].ravel() for box in boxes]),
            np.concatenate([positions[box].ravel() for box in boxes]))


def power_of_two(number):
    """The largest one up to `number`."""
    return 1 << (number.bit_length() - 1)


def division(count):
    """The elements of a unit, its lanes, and the neighbouring elements of a lane."""
    few = -(-count // 2**14)
    unit = min(max(2 * power_of_two(few - 1) if few > 1 else 1, 2**16), 2**20)
    if count < 32:
        return unit, power_of_two(count), 1
    return unit, power_of_two(min(unit // 256, 1024, count // 32)), RUN


def to_double(total):
    """The absolute value of a whole number in two halves of 64 bits, each rounded, with its
    sign."""
    if isinstance(total, float):
        return total
    size = float(abs(total) >> 64) * 2.0**64 + float(abs(total) & (2**64 - 1))
    return -size if total < 0 else size


def deviations(values, shifts):
    """Integers of 64 bits are subtracted as two halves of 32 bits."""
    if values.dtype.kind in "iu" and values.itemsize == 8:
        high = (values >> 32).astype(np.float64) - (shifts >> 32).astype(np.float64)
        low = [np.bitwise_and(each, each.dtype.type(2**32 - 1)).astype(np.float64)
               for each in (values, shifts)]
        return high * 2.0**32 + (low[0] - low[1])
    return values.astype(np.float64) - shifts.astype(np.float64)


class Moments:
    """Arrays of the counts, sums and squared deviations of lanes or units. The mean of each is
    shift + offset."""

    def __init__(self, count, total, shift, offset, squares):
        self.count, self.total, self.shift = count, total, shift
        self.offset, self.squares = offset, squares

    @classmethod
    def of_lanes(cls, values, left_out, lanes, run):
        """The lanes of a unit."""
        size = -(-len(values) // (lanes * run)) * lanes * run
        rows = np.zeros(size, values.dtype)
        rows[:len(values)] = values
        counts = np.zeros(size, bool)
        counts[:len(values)] = ~left_out
        # One element of each lane after the other.
        rows, counts = (each.reshape(-1, lanes, run).transpose(0, 2, 1).reshape(-1, lanes)
                        for each in (rows, counts))
        count, shift = np.zeros(lanes, np.int64), np.zeros(lanes, values.dtype)
        total, s1, s2 = (np.zeros(lanes) for _ in range(3))
        for row, counted in zip(rows, counts):
            shift = np.where(counted & (count == 0), row, shift)
            apart = deviations(row, shift)
            count = count + counted
            if values.dtype.kind == "f":
                total = np.where(counted, total + row.astype(np.float64), total)
            s1 = np.where(counted, s1 + apart, s1)
            s2 = np.where(counted, s2 + apart * apart, s2)
        if values.dtype.kind != "f":
            total = np.zeros(lanes, object)
            for row, counted in zip(rows, counts):
                total = total + np.where(counted, row, 0).astype(object)
        mean = s1 / np.maximum(count, 1)
        squares = s2 - s1 * mean
        return cls(count, total, shift, mean, np.where(squares < 0, 0, squares))

    def joined(self):
        """Pairs of neighbours, by the formula of Chan, Golub and LeVeque (1979)."""
        last = len(self.count) // 2 * 2
        left, right = self.part(slice(0, last, 2)), self.part(slice(1, last, 2))
        n, m = left.count.astype(np.float64), right.count.astype(np.float64)
        both = np.where(n + m == 0, 1, n + m)
        delta = deviations(right.shift, left.shift) + (right.offset - left.offset)
        squares = (left.squares + right.squares) + (delta * delta) * (n * (m / both))
        offset = left.offset + delta * (m / both)
        pairs = Moments(
            left.count + right.count, left.total + right.total,
            np.where(n == 0, right.shift, left.shift),
            np.where(n == 0, right.offset, np.where(m == 0, left.offset, offset)),
            np.where(n == 0, right.squares, np.where(m == 0, left.squares, squares)))
        return Moments.concatenated([pairs, self.part(slice(last, None))])

    def part(self, which):
        return Moments(*(each[which] for each in self.arrays()))

    def arrays(self):
        return self.count, self.total, self.shift, self.offset, self.squares

    @classmethod
    def concatenated(cls, parts):
        return cls(*(np.concatenate(each) for each in zip(*(part.arrays() for part in parts))))

    def root(self):
        moments = self
        while len(moments.count) > 1:
            moments = moments.joined()
        return moments


class Total:
    """The count, the sum and the squared deviations of all elements, as Python's numbers."""

    def __init__(self, values, left_out):
        unit, lanes, run = division(len(values))
        units = [Moments.of_lanes(values[at:at + unit], left_out[at:at + unit], lanes, run).root()
                 for at in range(0, len(values), unit)]
        root = Moments.concatenated(units).root()
        self.count, self.squares = int(root.count[0]), float(root.squares[0])
        self.total = float(root.total[0]) if values.dtype.kind == "f" else int(root.total[0])


def extreme(values, pick):
    """The minimum or maximum and its first index; -0 is 0; there is no NaN."""
    best = pick(values)
    return best if best != 0 else abs(best), int(np.flatnonzero(values == best)[0])


def reduce(array, chunks=None, policy="auto", fill=None):
    """{op: (value, coordinates or None)} of every operation, "missing" and "nans". Values are
    Python integers, float64, or the array's own type for min and max. Values that equal `fill` are
    missing."""
    values, positions = in_stored_order(np.asarray(array), chunks)
    values = values.astype(values.dtype.newbyteorder("="))
    is_missing = np.zeros(len(values), bool) if fill is None else values == fill
    is_nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    invalid = is_missing | is_nan
    left_out = invalid if policy == "ignore" or fill is not None else np.zeros(len(values), bool)
    with np.errstate(all="ignore"):
        total = Total(values, left_out)
        sum_as_double = to_double(total.total)
        mean = sum_as_double / total.count if total.count else math.nan
        variance = total.squares / total.count if total.count else math.nan
    result = {"count": (total.count, None), "sum": (total.total, None), "mean": (mean, None),
              "variance": (variance, None), "stddev": (math.sqrt(variance), None)}

    def coordinates(index):
        return tuple(map(int, np.unravel_index(positions[index], np.atleast_1d(array).shape)))

    numbers = np.flatnonzero(~invalid)
    for op, pick in (("min", np.min), ("max", np.max)):
        if len(numbers) == 0:
            result[op] = (math.nan, None)
        else:
            value, index = extreme(values[numbers], pick)
            result[op] = (value, coordinates(numbers[index]))
    if (invalid if policy == "propagate" else is_nan & (policy == "auto")).any():
        bad = invalid if policy == "propagate" else is_nan & ~is_missing
        first = coordinates(np.flatnonzero(bad)[0])
        result = {op: (math.nan, first if op in ("min", "max") else None) for op in result} | {
            "count": result["count"]}
    return result | {"missing": int(is_missing.sum()), "nans": int(is_nan.sum())}
