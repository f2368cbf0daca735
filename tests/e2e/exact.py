"""Statistics and products in exact arithmetic, and bounds of the errors of doubles.

u is 2^-53. A sum of n doubles in which each element takes part in d additions is wrong by less than
1.01 d u sum|x| (Higham, Accuracy and Stability, section 4.2).
"""

import math
from fractions import Fraction

import numpy as np

from model import division

UNIT = Fraction(1, 2**53)
TINY = Fraction(1, 2**1074)
LARGEST = Fraction(np.finfo("f8").max)


def fraction(value):
    return Fraction(value if isinstance(value, int) else float(value))


class Statistics:
    """Exact sums of a non-empty flat array without NaN and infinity, and bounds of the errors."""

    def __init__(self, values):
        self.count = len(values)
        if values.dtype.kind == "f":
            mantissas, exponents = np.frexp(values.astype("f8"))
            scale = int(exponents.min()) - 53
            whole = [int(m) << e for m, e in zip((mantissas * 2.0**53).tolist(),
                                                 (exponents - 53 - scale).tolist())]
            unit = Fraction(2)**scale
        else:
            whole, unit = values.tolist(), Fraction(1)
        total, squares = sum(whole), sum(x * x for x in whole)
        self.sum = total * unit
        self.size = sum(map(abs, whole)) * unit  # of the absolute values
        self.mean = self.sum / self.count
        self.variance = (self.count * squares - total * total) * unit * unit / self.count**2
        self.minimum, self.maximum = min(whole) * unit, max(whole) * unit
        self.is_whole = values.dtype.kind != "f"
        unit, lanes, _ = division(self.count)
        lane = -(-min(self.count, unit) // lanes)
        self.depth = lane + lanes.bit_length() + (-(-self.count // unit)).bit_length() + 4

    def sum_error(self):
        return 0 if self.is_whole else Fraction(101, 100) * self.depth * UNIT * self.size

    def mean_error(self):
        """One division; a sum of whole numbers is also rounded, in two halves."""
        return self.sum_error() / self.count + 4 * UNIT * abs(self.mean) + TINY

    def variance_error(self):
        """Deviations are those from the first element of a lane, and then from its mean. They are
        smaller than the range."""
        spread = self.maximum - self.minimum
        return 8 * (self.depth + 8) * UNIT * (self.variance + spread * spread) + 8 * TINY

    def underflows(self):
        """Whether squares of deviations that are not 0 have lost digits."""
        smallest = Fraction(self.count**2, 2**1022)
        return self.minimum != self.maximum and self.count * self.variance < smallest

    def overflows(self):
        """Whether an intermediate double of a result may be infinite."""
        spread = max(self.maximum - self.minimum, abs(self.maximum), abs(self.minimum))
        return (self.size >= LARGEST or
                4 * self.count * spread * spread >= LARGEST and not self.is_whole)


def root_above(value):
    """A close upper bound of the square root of `value`, as a fraction."""
    if value == 0:
        return Fraction(0)
    shift = max(0, 128 - value.numerator.bit_length() + value.denominator.bit_length())
    shift += shift % 2
    scaled = (value.numerator << shift) // value.denominator + 1
    return Fraction(math.isqrt(scaled) + 1, 1 << shift // 2)


def extreme(values, op):
    """(value, first index) of the minimum or maximum; -0 is 0; there is no NaN."""
    best = values.min() if op == "min" else values.max()
    return best if best != 0 else abs(best), int(np.flatnonzero(values == best)[0])


def products(matrix, center):
    """The exact sums of products of the columns of a matrix, as a list of rows. With `center`, of
    their deviations from the mean, divided by n - 1. Also the bound of each error: k u |x||y| for
    any order of k additions, with the largest deviations if they are centred."""
    rows = len(matrix)
    columns = [[fraction(x) for x in column] for column in matrix.T.tolist()]
    if center:
        means = [sum(column) / rows for column in columns]
        columns = [[x - mean for x in column] for column, mean in zip(columns, means)]
    divisor = rows - 1 if center else 1
    values = [[sum(x * y for x, y in zip(a, b)) / divisor for b in columns] for a in columns]
    if center:
        largest = [max(map(abs, column)) for column in columns]
        # The shift may be as far from the mean as any sample is: values up to twice as large.
        errors = [[100 * (rows + 20) * UNIT * a * b * rows / divisor + 2 * TINY for b in largest]
                  for a in largest]
    else:
        errors = [[2 * (rows + 2) * UNIT * sum(abs(x * y) for x, y in zip(a, b)) + 2 * TINY
                   for b in columns] for a in columns]
    return values, errors
