"""The weighted statistics of rows of values in extended precision, with bounds of the errors of
doubles. u is 2^-53; n values count, those with a weight above 0.

A sum of n products has an error of at most (n + 1) u sum w |x|. Squared deviations are taken from a
shift. Moving it by h adds W h^2 to their sum, W being the sum of the weights. With a shift of an
average weight or more, that is at most n times the sum about the mean. A value without weight
changes nothing, unless it is infinite: 0 times infinity is NaN. With ddof 1, the divisor of a row
in which one value has all the weight, but for rounding, is 0, and the variance undefined.
"""

import numpy as np

from cell_statistics import REAL, UNIT


def weighted(matrix, weights, valid, ddof):
    """{op: (values, errors)} of the rows; `valid` says which values count."""
    w = np.where(valid, weights, 0).astype(REAL)
    x = np.where(valid & ((w > 0) | np.isinf(matrix.astype(REAL))), matrix, 0).astype(REAL)
    n = (w > 0).sum(axis=1)
    total, squares = w.sum(axis=1), (w * w).sum(axis=1)
    with np.errstate(all="ignore"):
        weighted_sum = (w * x).sum(axis=1)
        sum_error = 2 * (n + 2) * UNIT * (w * np.abs(x)).sum(axis=1)
        mean = weighted_sum / total
        mean_error = sum_error / total + 2 * (n + 2) * UNIT * np.abs(mean)
        shift = x[np.arange(len(x)), w.argmax(axis=1)]
        d = np.where((w > 0) | np.isinf(x), x - shift[:, None], 0)
        offset = (w * d).sum(axis=1) / total
        m2 = (w * (d - offset[:, None])**2).sum(axis=1)
        rest = squares / total
        divisor = total - ddof * rest
        loss = n * UNIT * 4 * total / divisor if ddof else 0
        rounding = ddof * (valid.sum(axis=1) + 64) * UNIT * total
        divisor = np.where((n > ddof) & (divisor > rounding), divisor, np.nan)
        variance = m2 / divisor
        error = variance * (16 * (n + 16) * (n + 1) * UNIT + loss)
        effective = total * total / squares
        # Infinities of both signs are as one of weight 0.
        square = np.where(np.isnan(weighted_sum), np.nan, (w * x * x).sum(axis=1)) / total
        square_error = 16 * (n + 16) * UNIT * square
    found = {"sum": (weighted_sum, sum_error), "mean": (mean, mean_error),
             "variance": (variance, error),
             "stddev": (np.sqrt(variance), of_root(variance, error)),
             "rms": (np.sqrt(square), of_root(square, square_error)),
             "sum-of-weights": (total, 2 * (n + 2) * UNIT * total),
             "effective-count": (effective, 8 * (n + 4) * UNIT * effective)}
    no_weight = total == 0
    sums = ("sum", "sum-of-weights")
    return {op: (np.where(no_weight, 0 if op in sums else np.nan, value), error)
            for op, (value, error) in found.items()}


def of_root(square, error):
    """The error of the root of a number with an error."""
    with np.errstate(all="ignore"):
        return np.where(error > 0, error / np.sqrt(np.maximum(square, error)), 0) \
            + 4 * UNIT * np.sqrt(square)
