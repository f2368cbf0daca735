"""The statistics of `reduce.over`, computed by numpy with extended precision, with bounds of the
errors of doubles, and their comparison with a result file.

u is 2^-53. A sum of n doubles has an error of at most n u sum|x| in any order. Sums of powers are
computed of x - s, where s is some value of the cell, so |x - s| <= 2 r, where r is the largest
distance of a value from the mean. A central moment of order p is a sum of terms that are at most
(4 r)^p, and each has an error of a few n u. Parts of a cell are joined with the difference of their
means, each of which is s and an offset, so that the size of the mean does not matter.
"""

import h5py
import numpy as np

UNIT = 2.0**-53
REAL = np.longdouble
OPS = ["count", "sum", "mean", "variance", "stddev", "min", "max", "argmin", "argmax", "range",
       "skewness", "kurtosis", "l1", "l2", "rms", "count-nonzero"]


def exact_sums(values, valid):
    """The sums of each row of integers, as Python integers."""
    values = np.where(valid, values, np.zeros((), values.dtype))
    if values.dtype.itemsize < 8:
        return values.sum(axis=1, dtype="i8").astype(object)
    half = np.array(32, values.dtype)
    high = values >> half
    low = values - (high << half)
    return sum(part.astype("i8").sum(axis=1).astype(object) * factor
               for part, factor in ((low, 1), (high, 2**32)))


class Rows:
    """The statistics of each row of a matrix of values, and the bounds of their errors: {op: array}
    in `values` and `errors`. `valid` says which values count, and `indices` are those of the
    columns. NaNs count unless `skips_nans`, for `count` also only with `counts_nans`. With
    `propagates`, a row with values that are not valid has only a count, as has one with fewer than
    `min_count` values."""

    def __init__(self, matrix, valid, indices, ddof=0, skips_nans=False, counts_nans=True,
                 propagates=False, min_count=0):
        self.values, self.errors = {}, {}
        floating = matrix.dtype.kind == "f"
        nans = np.isnan(matrix) if floating else np.zeros(matrix.shape, bool)
        self.counts = valid if not skips_nans else valid & ~nans
        self.unknown = (self.counts & nans).any(axis=1)
        if propagates:
            self.unknown |= ~valid.all(axis=1)
        self.used = self.counts & ~nans
        self.n = self.counts.sum(axis=1)
        self.unknown |= self.n < min_count
        self.empty = self.n == 0
        self.add_count(self.n if counts_nans else self.used.sum(axis=1))
        self.put("count-nonzero", (self.used & (matrix != 0)).sum(axis=1).astype(object), empty=0)
        self.add_product(matrix)
        self.add_sums(matrix)
        self.add_moments(matrix, ddof)
        self.add_extremes(matrix, indices)

    def put(self, op, value, error=0.0, empty=np.nan):
        """NaN if a value of the row is NaN, `empty` if none is valid."""
        if value.dtype == object:
            value = value.copy()
            value[self.unknown] = np.nan
            value[self.empty & ~self.unknown] = empty
        else:
            value = np.where(self.unknown, np.nan, np.where(self.empty, empty, value))
        self.values[op] = value
        self.errors[op] = np.broadcast_to(np.asarray(error, REAL), value.shape)

    def add_count(self, count):
        self.values["count"] = count
        self.errors["count"] = np.zeros(count.shape)
        self.put("effective-count", self.n.astype("f8"))
        self.put("sum-of-weights", self.n.astype("f8"), empty=0)

    def add_product(self, matrix):
        """Each multiplication changes a product by at most u times itself."""
        factors, exponents = np.frexp(np.where(self.used, matrix, 1).astype(REAL))
        product, exponent = np.ones(len(matrix), REAL), exponents.sum(axis=1)
        for first in range(0, factors.shape[1], 1000):
            with np.errstate(invalid="ignore"):  # 0 times infinity
                product, more = np.frexp(product * factors[:, first:first + 1000].prod(axis=1))
            exponent += more
        product = np.ldexp(product, np.clip(exponent, -16000, 16000).astype(int))
        largest = np.finfo("f8").max
        with np.errstate(all="ignore"):
            product = np.where(np.abs(product) > largest, product * REAL(np.inf), product)
        self.put("prod", product, 2 * (self.n + 8) * UNIT * np.abs(product), empty=1)

    def add_sums(self, matrix):
        x = np.where(self.used, matrix, 0).astype(REAL)
        self.size = np.abs(x).sum(axis=1)
        bound = 2 * (self.n + 2) * UNIT * self.size
        if matrix.dtype.kind == "f":
            self.total = x.sum(axis=1)
            self.put("sum", self.total, bound, empty=0)
        else:
            sums = exact_sums(matrix, self.used)
            self.total = np.array([REAL(int(s) >> 32) * 2**32 + REAL(int(s) & 0xffffffff)
                                   for s in sums])
            self.put("sum", sums, 0, empty=0)
        n = np.maximum(self.n, 1)
        self.mean = self.total / n
        self.put("mean", self.mean, bound / n + 2 * UNIT * np.abs(self.mean))
        self.put("l1", self.size, bound)
        squares = (x * x).sum(axis=1)
        distance = self.distance(x)
        wrong = (8 * (self.n + 8) * UNIT * self.n * distance**2
                 + 4 * (self.n + 8) * UNIT * squares)
        self.put("l2", np.sqrt(squares), self.of_root(squares, wrong))
        self.put("rms", np.sqrt(squares / n), self.of_root(squares / n, wrong / n))

    def distance(self, x):
        """The largest distance of a value from the mean."""
        return np.where(self.used, np.abs(x - self.mean[:, None]), 0).max(axis=1, initial=0)

    @staticmethod
    def of_root(square, wrong):
        """The error of a root whose square has the error `wrong`."""
        with np.errstate(all="ignore"):
            square = np.sqrt(square)
            return np.where(wrong > 0, wrong / np.maximum(square, np.sqrt(wrong)), 0) \
                + 4 * UNIT * square

    def add_moments(self, matrix, ddof):
        n = np.maximum(self.n, 1)
        with np.errstate(all="ignore"):  # infinities
            first = matrix[np.arange(len(matrix)), self.used.argmax(axis=1)].astype(REAL)
            d = np.where(self.used, matrix.astype(REAL) - first[:, None], 0)
            d = np.where(self.used, d - (d.sum(axis=1) / n)[:, None], 0)
            powers = {p: (d**p).sum(axis=1) / n for p in (1, 2, 3, 4)}
            second = powers[2] - powers[1]**2
            r = self.radius = np.abs(d).max(axis=1, initial=0)
            wrong = {p: UNIT * (4 * r)**(p - 1) * 16 * (self.n + 16) * r for p in (2, 3, 4)}
            scale = np.where(self.n > ddof, n / np.maximum(n - ddof, 1).astype(REAL), np.nan)
            self.put("variance", second * scale, wrong[2] * scale)
            self.put("stddev", np.sqrt(second * scale),
                     self.of_root(second * scale, wrong[2] * scale))
            spread = second
            constant = r == 0
            for op, p, shift in (("skewness", 3, 0), ("kurtosis", 4, 3)):
                ratio = np.where(constant, np.nan, powers[p] / second**(p / REAL(2)))
                error = (wrong[p] / spread**(p / 2)
                         + p / 2 * np.abs(ratio) * wrong[2] / spread
                         + 8 * UNIT * np.abs(ratio))
                # A larger error of the variance makes the ratio meaningless.
                error = np.where(wrong[2] > spread / 4, np.inf, error)
                self.put(op, ratio - shift, error)

    def add_extremes(self, matrix, indices):
        floating = matrix.dtype.kind == "f"
        limits = np.finfo(matrix.dtype) if floating else np.iinfo(matrix.dtype)
        low, high = (-np.inf, np.inf) if floating else (limits.min, limits.max)
        ends = {}
        rows = np.arange(len(matrix))
        for op, other, find in (("min", high, np.argmin), ("max", low, np.argmax)):
            filled = np.where(self.used, matrix, np.array(other, matrix.dtype))
            # The first of equal values, among them those that are as large as `other`.
            at = find(np.where(self.used, filled == getattr(filled, op)(axis=1)[:, None], False)
                      * (1 if op == "max" else -1), axis=1)
            ends[op] = matrix[rows, at] if floating else matrix[rows, at].astype(object)
            self.put(op, ends[op])
            self.put(f"arg{op}", indices[at].astype(object))
        if floating:
            with np.errstate(all="ignore"):
                size = ends["max"].astype(REAL) - ends["min"]
            self.put("range", size, 2 * UNIT * size)
        else:
            size = ends["max"] - ends["min"]
            self.put("range", size, UNIT * size.astype("f8"))


def rows_of(array, axes):
    """The values of each cell as one row, in the order of storage."""
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    moved = array.transpose(kept + sorted(axes))
    width = int(np.prod([array.shape[axis] for axis in axes]))
    return np.ascontiguousarray(moved).reshape(-1, width)


class Expected:
    """The statistics of an array along `axes`. `labels` are the numbers of the groups along the
    dimension `group_axis`, one of `axes`; -1 belongs to no group."""

    def __init__(self, array, axes, missing=None, labels=None, group_axis=None, groups=0, **how):
        self.dtype = array.dtype
        self.shape = tuple(n for axis, n in enumerate(array.shape) if axis not in axes)
        valid = np.ones(array.shape, bool) if missing is None else ~missing
        matrix, mask = rows_of(array, axes), rows_of(valid, axes)
        indices = np.arange(matrix.shape[1])
        if labels is None:
            self.parts = [Rows(matrix, mask, indices, **how)]
            return
        along = np.expand_dims(labels, [a for a in range(array.ndim) if a != group_axis])
        member = rows_of(np.broadcast_to(along, array.shape), axes)[0]
        self.shape = (groups, *self.shape)
        self.parts = []
        for group in range(groups):
            columns = np.flatnonzero(member == group)
            counts = mask[:, columns]
            if not len(columns):  # numpy finds no extremes without a column
                columns, counts = [0], np.zeros((len(matrix), 1), bool)
            self.parts.append(Rows(matrix[:, columns], counts, indices[columns], **how))

    def of(self, op):
        """The values and the bounds of their errors, in the shape of the result."""
        return tuple(np.concatenate([getattr(part, name)[op] for part in self.parts])
                     .reshape(self.shape) for name in ("values", "errors"))

    def check(self, found, ops=OPS, told=""):
        """`found` is {op: array}."""
        for op in ops:
            assert op in found, f"{op} is missing, found {sorted(found)}\n{told}"
            got, (wanted, error) = found[op], self.of(op)
            if not self.shape:
                with np.errstate(invalid="ignore"):
                    got = got.astype(self.type_of(op))  # rows have real numbers that are exact
            assert got.shape == self.shape, f"{op}: {got.shape}, not {self.shape}\n{told}"
            assert got.dtype == self.type_of(op), f"{op}: {got.dtype}\n{told}"
            compare(op, got, wanted, error, told)

    def type_of(self, op):
        """Integers have 64 bits."""
        if op in ("count", "count-nonzero", "argmin", "argmax"):
            return "i8"
        if op in ("sum", "min", "max") and self.dtype.kind != "f":
            return "u8" if self.dtype == "u8" else "i8"
        return "f8"


def compare(op, got, wanted, error, told=""):
    """Every element is within its bound, and NaN at the same places. Integers have no NaN: unknown
    ones are the smallest of 64 bits, and unknown indices are -1."""
    got, wanted, error = np.ravel(got), np.ravel(wanted), np.ravel(error)
    if got.dtype.kind in "iu":
        nan = -1 if op.startswith("arg") else 2**63 - 1 if got.dtype == "u8" else -2**63
        bad = np.array([g != (w if w == w else nan) for g, w in zip(got.tolist(), wanted)], bool)
    else:
        wanted = wanted.astype(REAL)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - wanted) <= error
        bad = ~np.where(np.isnan(wanted), np.isnan(got), near | np.isinf(error))
    if not bad.any():
        return
    at = np.flatnonzero(bad)
    first = at[0]
    raise AssertionError(f"{op}: {len(at)} of {len(got)} cells, cell {first}: {got[first]!r}, not "
                         f"{wanted[first]!r} with an error of {error[first]!r}\n{told}")


def stored(path):
    """{op: array} of the results: the arrays, or the rows of a result of a single cell."""
    with h5py.File(path) as file:
        keys = {op: op.replace("-", "_") for op in OPS}
        found = {op: np.asarray(file["results"][key][()]) for op, key in keys.items()
                 if key in file["results"]}
        if not found:
            found = {row["op"].decode(): of_row(row) for row in file["results/reduce"][()]}
    return found


def of_row(row):
    """The value of a row of the table `reduce`. The text has all digits of an integer."""
    if row["op"].startswith(b"arg"):
        return np.asarray(row["index"])
    if not row["exact"].lstrip(b"-").isdigit() or abs(int(row["exact"])) < 2**53:
        value = np.asarray(row["value"])
        return value.astype("i8") if row["op"] == b"count" else value
    return np.asarray(int(row["exact"]), "u8" if int(row["exact"]) >= 2**63 else "i8")


def bits(path):
    """Everything that must be the same for the same data, also coordinates of extremes."""
    with h5py.File(path) as file:
        found = {name: data[()] for name, data in file["results"].items()
                 if isinstance(data, h5py.Dataset) and data.dtype.kind in "iuf"}
    return {name: (np.shape(data), str(data.dtype), np.asarray(data).tobytes())
            for name, data in (found or stored(path)).items()}
