#!/usr/bin/python3
"""Random statistics: operations are drawn together, of all elements, along dimensions, by group and
with weights, of data in one or several files. The results are compared with extended precision. A
second run with some of the operations, on other ranks and with other batches, must give the same
bits.

Every case comes from a seed (random_cases.py)."""

import math

import h5py
import numpy as np

import cell_statistics
import results
from cell_statistics import REAL, UNIT, Rows, rows_of
from drawn_statistics import Data, Groups, Weights
from harness import OPS, main, run
from random_cases import check_cases
from weighted_statistics import weighted

TIMEOUT = 120
OF_CELLS = [op for op in cell_statistics.OPS if op not in OPS] + [
    "sum-of-weights", "effective-count", "prod"]
WITHOUT_WEIGHTS = ["l1", "l2", "skewness", "kurtosis", "prod"]
ORDERED = ["median", "quantile(0.1)", "quantile(0.25)", "quantile(0.999)"]
TINY = REAL(2)**-1074
EXTREME = 1e75  # fourth powers of smaller numbers are within the range of double


class Case:
    """A drawn data set, a drawn command, and the expected results."""

    def __init__(self, draw, folder):
        self.draw, self.folder = draw, folder
        self.route = draw.of("route", ["all", "over", "by", "weights", "over weights",
                                       "by weights"], [5, 4, 4, 2, 3, 2])
        is_whole = self.route == "all"
        self.data = Data(draw, folder, is_whole)
        self.array = np.ascontiguousarray(self.data.array[self.data.indices])
        self.missing = np.ascontiguousarray(self.data.missing[self.data.indices])
        if self.array.ndim == 0:
            self.array, self.missing = self.array[None], self.missing[None]
        self.options, self.groups, self.weights = [], None, None
        self.axes = tuple(range(self.array.ndim))  # that are reduced
        if self.data.kept:
            self.draw_cells()
        self.policy = draw.of("reduce.missing", ["auto", "ignore", "propagate", "error"],
                              [6, 3, 2, 1])
        self.ddof = draw.of("reduce.ddof", [0, 1, 3], [4, 2, 1])
        self.min_count = draw.of("reduce.min-count", [0, 2, 9, 50000], [9, 1, 2, 1])
        self.options += ["--reduce.missing", self.policy, "--reduce.ddof", str(self.ddof),
                         "--reduce.min-count", str(self.min_count)]
        self.makes_arrays = any(option in self.options for option in ("--reduce.over",
                                                                      "--reduce.by"))
        self.draw_operations()

    def draw_cells(self):
        draw, kept = self.draw, self.data.kept
        reduced = kept
        if self.route.startswith("over") or "by" in self.route and draw.chance(0.6):
            reduced = sorted(draw.random.sample(kept, 1 + draw.below(len(kept))))
            self.options += ["--reduce.over", ",".join(map(str, reduced))]
        self.axes = tuple(kept.index(d) for d in reduced)
        if self.route.startswith("by"):
            self.groups = Groups(draw, self.data, draw.random.choice(reduced))
            self.options += ["--reduce.by", self.groups.option]
        if self.route.endswith("weights"):
            self.weights = Weights(draw, self.data)
            self.options += ["--reduce.weights", self.weights.option]

    def draw_operations(self):
        """One to six of them, in any order, that the route has."""
        possible = OPS + OF_CELLS
        if self.weights:
            possible = [op for op in possible if op not in WITHOUT_WEIGHTS]
        elif not self.makes_arrays:
            possible = possible + ORDERED
        self.ops = self.draw.random.sample(possible, 1 + self.draw.below(6))
        self.draw.said["ops"] = self.ops

    # ------------------------------------------------------------ runs

    def way_of_running(self):
        """Options that must not change a bit."""
        options = []
        smallest = 1 if self.array.size < 1000 else "4KiB"
        for name, choices in (("pipeline.batch", [None, smallest, "100KB", "1MiB"]),
                              ("pipeline.slot", [None, None, 1, "100KB"]),
                              ("pipeline.readers", [None, 1, 3]),
                              ("pipeline.mode", [None, None, None, "pinned", "pageable", "mapped",
                                                 "resident"])):
            value = self.draw.random.choice(choices)
            if value is not None:
                options += [f"--{name}", str(value)]
        return options

    def start(self, ops, ranks, name):
        return run("run", "reduce", "--input.data", self.data.argument, "--reduce.ops",
                   ",".join(ops), *self.options, *self.way_of_running(), "-o", self.folder / name,
                   ranks=ranks, timeout=TIMEOUT, cwd=self.folder)

    def check(self):
        ranks = self.draw.of("ranks", [1, 2, 3, 4], [3, 4, 2, 1])
        finished = self.start(self.ops, ranks, "out.h5")
        if self.policy == "error" and self.is_invalid().any():
            assert finished.code == 1 and "reduce.missing" in finished.err, finished
            assert not (self.folder / "out.h5").exists(), finished
            return
        finished.expect(0)
        found = self.stored("out.h5")
        self.check_values(found, finished)
        fewer = self.draw.random.sample(self.ops, 1 + self.draw.below(len(self.ops)))
        others = self.draw.of("other ranks", [n for n in (1, 2, 3, 4) if n != ranks], [3, 2, 1])
        again = self.start(fewer, others, "again.h5").expect(0)
        for op, value in self.stored("again.h5").items():
            assert same_bits(value, found[op]), (
                f"{op} has other bits: {found[op]!r} and {value!r}\n{finished}\n{again}")

    def stored(self, name):
        """{op: array}, also coordinates of extremes, or {op: row} of a single cell."""
        with h5py.File(self.folder / name) as file:
            if "reduce" not in file["results"]:
                return {key: np.asarray(data[()]) for key, data in file["results"].items()
                        if isinstance(data, h5py.Dataset) and data.dtype.kind in "iuf"
                        and self.is_result(key)}
        return results.stored_reduce(self.folder / name)

    def is_result(self, name):
        return name.replace("_", "-") in self.ops or name.startswith("arg")

    # ------------------------------------------------------------ expected results

    def is_nan(self):
        is_nan = np.zeros(self.array.shape, bool)
        if self.array.dtype.kind == "f":
            is_nan = np.isnan(self.array) & ~self.missing
        return is_nan

    def is_invalid(self):
        """The elements that reduce.missing error rejects: missing ones and NaNs, in any group."""
        invalid = self.missing | self.is_nan()
        if self.groups:
            invalid &= np.broadcast_to(self.along(self.groups.numbers >= 0), self.array.shape)
        return invalid

    def along(self, values):
        """Values of the indices of the grouped dimension, for the whole array."""
        axis = self.data.kept.index(self.groups.dimension)
        return np.expand_dims(values, [d for d in range(self.array.ndim) if d != axis])

    def parts(self):
        """(values, missing, indices, weights) of each group, a cell in each row."""
        matrix, missing = (rows_of(of, self.axes) for of in (self.array, self.missing))
        weights = None
        if self.weights:
            weights = rows_of(np.broadcast_to(self.weights.values, self.array.shape), self.axes)
        indices = np.arange(matrix.shape[1])
        if not self.groups:
            return [(matrix, missing, indices, weights)]
        member = rows_of(np.broadcast_to(self.along(self.groups.numbers), self.array.shape),
                         self.axes)[0]
        parts = []
        for group in range(self.groups.count):
            columns = np.flatnonzero(member == group)
            parts.append((matrix[:, columns], missing[:, columns], indices[columns],
                          None if weights is None else weights[:, columns]))
        return parts

    def expected(self):
        """{op: (values, errors)}, NaN for an undefined value, in the shape of the results."""
        parts = [self.of_part(*part) for part in self.parts()]
        shape = tuple(n for axis, n in enumerate(self.array.shape) if axis not in self.axes)
        if self.groups:
            shape = (self.groups.count, *shape)
        return {op: tuple(np.concatenate([part[op][i] for part in parts]).reshape(shape)
                          for i in (0, 1)) for op in OPS + OF_CELLS if op in parts[0]}

    def of_part(self, matrix, missing, indices, weights):
        is_empty = not matrix.shape[1]
        if is_empty:  # numpy finds no extremes without a column
            matrix = np.zeros((len(matrix), 1), matrix.dtype)
            missing, indices = np.ones(matrix.shape, bool), np.zeros(1, int)
            weights = None if weights is None else np.zeros(matrix.shape)
        rows = Rows(matrix, ~missing, indices, ddof=self.ddof,
                    skips_nans=self.policy == "ignore",
                    propagates=self.policy == "propagate" and not is_empty,
                    counts_nans=self.data.fill is None, min_count=self.min_count)
        if weights is not None:
            self.put_weighted(rows, matrix, weights)
        return {op: (rows.values[op], rows.errors[op]) for op in rows.values}

    def put_weighted(self, rows, matrix, weights):
        """The operations that weights change."""
        for op, of in weighted(matrix, weights, rows.used, self.ddof).items():
            rows.put(op, *of, empty=0 if op.startswith("sum") else np.nan)

    # ------------------------------------------------------------ comparison

    def check_values(self, found, finished):
        lines = finished.out.splitlines()
        named = {op for line in lines if line.startswith(("overflow=", "underflow="))
                 for op in line.partition("=")[2].split(", ")}
        assert not named - {"prod"} or self.is_extreme(), f"{named} named\n{finished}"
        assert finished.values["verified"] == ("partly" if named else "true"), finished
        expected = self.expected()
        assert set(self.ops) <= {key.replace("_", "-") for key in found}, finished
        for op in self.ops:
            if op in ORDERED:
                self.check_ordered(op, found[op], finished)
                continue
            wanted, error = expected[op]
            if op == "prod":
                self.check_named_products(wanted, op in named, finished)
            got = self.values_of(op, found, finished)
            assert got.shape == wanted.shape, f"{op}: {got.shape}, not {wanted.shape}\n{finished}"
            bad = np.flatnonzero(differs(got, wanted, error))
            at = bad[0] if len(bad) else 0
            assert not len(bad) or op in named, (
                f"{op}: {len(bad)} of {got.size} cells, cell {at}: {got.flat[at]!r}, not "
                f"{wanted.flat[at]!r} with an error of {error.flat[at]!r}\n{finished}")

    def check_named_products(self, wanted, is_named, finished):
        """A product of finite factors is named if it leaves the range of double."""
        size = np.abs(wanted[np.isfinite(self.array).all() & (wanted != 0)])
        limits = np.finfo("f8")
        if is_named:
            assert (np.abs(wanted) > 0.5 * limits.max).any() or (
                np.abs(wanted) < 2 * limits.tiny).any(), finished
        else:
            assert not ((size > limits.max) | (size < 0.5 * limits.tiny)).any(), finished

    def values_of(self, op, found, finished):
        """The values as numbers; undefined ones are NaN."""
        if not self.makes_arrays:
            row = found[op]
            if op.startswith("arg"):
                value = row["index"] if row["index"] != -1 else math.nan
            else:
                is_whole = self.array.dtype.kind in "iu" and row["exact"].lstrip("-").isdigit()
                value = int(row["exact"]) if is_whole else row["value"]
            self.check_position(op, row, finished)
            return np.array(value, object)
        array = found[op.replace("-", "_")]
        if array.dtype.kind == "f":
            return array
        with h5py.File(self.folder / "out.h5") as file:
            undefined = file["results"][op.replace("-", "_")].attrs.get("_FillValue")
        array = array.astype(object)
        array[array == undefined] = math.nan
        return array

    def check_position(self, op, row, finished):
        """The element at the position of an extreme has its value."""
        is_extreme = op in ("min", "max", "argmin", "argmax")
        if not is_extreme or row["exact"] == "nan" or row["index"] == -1:
            return
        element = self.data.array[tuple(map(int, row["position"].split(",")))]
        used = self.array[~self.missing & ~self.is_nan()]
        assert element == (used.min() if op.endswith("min") else used.max()), (op, finished)

    def check_ordered(self, op, row, finished):
        """As numpy.quantile does, for finite numbers that doubles hold."""
        if self.is_nan().any() and self.policy != "ignore" or (
                self.missing.any() and self.policy == "propagate"):
            assert math.isnan(float(row["exact"])), (op, finished)
            return
        used = self.array[~self.missing & ~self.is_nan()].astype("f8")
        if used.size < self.min_count:
            assert math.isnan(row["value"]), (op, finished)
            return
        if not used.size or not np.isfinite(used).all() or np.abs(used).max() >= 2**53:
            return
        share = 0.5 if op == "median" else float(op[9:-1])
        wanted = np.quantile(used, share)
        error = 8 * UNIT * np.abs(used).max()
        assert abs(row["value"] - wanted) <= error, f"{op}: not {wanted}\n{finished}"

    def is_extreme(self):
        """Whether powers of the values, their differences or the weights leave the range of
        double."""
        numbers = np.abs(self.array[~self.missing & ~self.is_nan()].astype(REAL))
        if self.weights:
            numbers = np.concatenate([numbers.ravel(), np.ravel(self.weights.values)])
        finite = numbers[np.isfinite(numbers) & (numbers > 0)]
        return finite.size and (finite.max() > EXTREME or finite.min() < 1 / EXTREME)


def differs(got, wanted, error):
    """Where values are not within the bound of their error, or are undefined on one side only.
    Integers have no error, and are compared exactly."""
    if wanted.dtype == object or got.dtype == object:
        return np.array([g != w and not (g != g and w != w) and not
                         (e > 0 and abs(REAL(g) - REAL(w)) <= e + TINY)
                         for g, w, e in zip(got.ravel().tolist(), wanted.ravel().tolist(),
                                            error.ravel().tolist())], bool)
    wanted = wanted.astype(REAL)
    error = np.where(error > 0, error + TINY, 0)
    with np.errstate(invalid="ignore"):
        near = (got == wanted) | (np.isfinite(wanted) & (np.abs(got - wanted) <= error))
    return np.ravel(~np.where(np.isnan(wanted), np.isnan(got), near))


def same_bits(one, other):
    if isinstance(one, dict):  # a row
        return all(str(one[key]) == str(other[key]) for key in ("exact", "value", "index",
                                                                "position"))
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def test_random_statistics():
    check_cases(lambda draw, folder: Case(draw, folder).check(), __file__, seconds=30, enough=40)


main(on_gpu=True)
