"""`reduce` implemented a second time, in numpy and Python, from its description and not from its
code.

Leaves of 65536 elements; in a leaf 512 lanes (index mod 512), each added in order in double (whole
numbers exactly); lane i adds lane i + width for width = 256, 128, ..., 1. Deviations from the
leaf's mean and their squares are added in the same way; large integers are subtracted before they
are rounded. The sum of the deviations, the residual, corrects for the rounding of the mean.
Leaves are joined in pairs, level by level, and a leaf without a neighbour moves up unchanged. So
every value must be equal in every bit.
"""

import itertools
import math

import numpy as np

LEAF, LANES = 65536, 512


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


def in_lanes(values):
    """Adds the values of a leaf (float64 or Python integers) in the order of the lanes."""
    rows = np.zeros((-(-len(values) // LANES), LANES), dtype=values.dtype)
    rows.reshape(-1)[:len(values)] = values
    lanes = np.zeros(LANES, dtype=values.dtype)
    for row in rows:
        lanes = lanes + row
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def to_double(total):
    """The absolute value of a whole number in two halves of 64 bits, each rounded, with its
    sign."""
    if isinstance(total, float):
        return total
    size = float(abs(total) >> 64) * 2.0**64 + float(abs(total) & (2**64 - 1))
    return -size if total < 0 else size


def mean_of(total, count):
    """A whole part, which is 0 for floats and for small integers, and a rest."""
    mean = to_double(total) / float(count)
    if isinstance(total, float) or abs(mean) < 2.0**32:
        return 0, mean
    whole = 2 * int(mean / 2)
    whole += int(to_double(total - whole * count) / float(count))
    return whole, to_double(total - whole * count) / float(count)


def difference(mean, other):
    return to_double(mean[0] - other[0]) + (mean[1] - other[1])


def not_below_zero(squares):
    return 0.0 if squares < 0 else squares


class Node:
    """The count, the sum, the squared deviations and the residual of a range of elements."""

    def __init__(self, count, total, squares, residual=0.0):
        self.count, self.total, self.squares, self.residual = count, total, squares, residual

    def mean(self):
        return mean_of(self.total, self.count)

    @classmethod
    def leaf(cls, values, left_out):
        """The node of at most 65536 elements, some of which are left out."""
        if values.dtype.kind == "f":
            values = values.astype(np.float64)
            total = float(in_lanes(np.where(left_out, 0.0, values)))
        else:
            counted = values[~left_out]
            total = int(np.sum(counted, dtype=np.int64)) if values.itemsize < 8 else sum(
                counted.tolist())
        count = len(values) - int(left_out.sum())
        if count == 0:
            return cls(0, total, 0.0)
        whole, rest = mean_of(total, count)
        if whole:
            apart = np.array([float(value - whole) - rest for value in values.tolist()])
        else:
            apart = values.astype(np.float64) - rest
        apart = np.where(left_out, 0.0, apart)
        squares, residual = float(in_lanes(apart * apart)), float(in_lanes(apart))
        return cls(count, total, not_below_zero(squares - residual * (residual / float(count))),
                   residual)

    def joined(self, right):
        """Joins two nodes by the formula of Chan, Golub and LeVeque (1979)."""
        both = Node(self.count + right.count, self.total + right.total, 0.0)
        if self.count == 0 or right.count == 0:
            known = right if self.count == 0 else self
            both.squares, both.residual = known.squares, known.residual
            return both
        n, m = float(self.count), float(right.count)
        delta = difference(right.mean(), self.mean())
        correction = right.residual / m - self.residual / n
        weight = n * (m / (n + m))
        both.squares = not_below_zero(((self.squares + right.squares) + (delta * delta) * weight)
                                      + (2 * delta + correction) * correction * weight)
        both.residual = ((n * difference(self.mean(), both.mean()) + self.residual)
                         + (m * difference(right.mean(), both.mean()) + right.residual))
        return both


def fold(values, left_out):
    nodes = [Node.leaf(values[at:at + LEAF], left_out[at:at + LEAF])
             for at in range(0, len(values), LEAF)]
    while len(nodes) > 1:
        nodes = [nodes[i].joined(nodes[i + 1]) if i + 1 < len(nodes) else nodes[i]
                 for i in range(0, len(nodes), 2)]
    return nodes[0]


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
        total = fold(values, left_out)
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
        known = policy == "propagate" or not is_missing.any()
        first = coordinates(np.flatnonzero(invalid)[0]) if known else None
        result = {op: (math.nan, first if op in ("min", "max") else None) for op in result} | {
            "count": result["count"]}
    return result | {"missing": int(is_missing.sum()), "nans": int(is_nan.sum())}
