#!/usr/bin/python3
"""Random HDF5 files, selections from them and options: results are compared with h5py and exact
arithmetic.

Every case comes from a seed (random_cases.py)."""

import itertools
import math
import signal

import h5py
import numpy as np

import exact
import results
from drawn_files import Drawn
from drawn_selections import draw_selection, first_rows, mask_of
from exact import LARGEST, fraction
from exact_reduce import Expected, float_of
from harness import OPS, TYPES, main, run
from products import ON_HOST, why_no_products
from random_cases import check_cases

TIMEOUT = 120
MAX_VARIABLES = 60  # of a product that is compared: exact arithmetic is slow
INTEGERS = ["i32", "i64", "i8", "u8", "u64"]


def natural_type(drawn):
    """The type that can hold all values of the stored type, or most of them."""
    if drawn.dtype.kind == "f":
        return "f32" if drawn.dtype.itemsize <= 4 else "f64"
    bits, signed = drawn.stored.get_precision(), drawn.dtype.kind == "i"
    if bits <= 8:
        return "i8" if signed else "u8"
    if bits <= (32 if signed else 31):
        return "i32"
    return "i64" if signed or bits <= 32 else "u64"


def misfits(values, wanted):
    """Whether the type cannot hold one of the values: it is too large, a fraction or NaN."""
    if wanted in INTEGERS:
        low, high = np.iinfo(TYPES[wanted]).min, np.iinfo(TYPES[wanted]).max
        if values.dtype.kind == "f":
            with np.errstate(all="ignore"):
                whole = np.isfinite(values) & (values == np.trunc(values))
            return not whole.all() or any(not low <= int(x) <= high for x in
                                          (values.min(), values.max()))
        return int(values.min()) < low or int(values.max()) > high
    if values.dtype.kind != "f":
        return False
    finite = values[np.isfinite(values)]
    return finite.size and np.abs(finite).max() > np.finfo(TYPES[wanted]).max


class Case:
    """A drawn file, a drawn command, and the expected outcome."""

    def __init__(self, draw, folder, with_products):
        self.draw, self.folder = draw, folder
        self.drawn = Drawn(draw, folder)
        self.errors = [(2, self.drawn.reject)] if self.drawn.reject else []
        self.options, self.values, self.argument = [], None, self.drawn.argument
        self.draw_options()
        self.workload = "reduce"
        if self.drawn.reject or not self.drawn.shape or self.type == "u64":
            with_products = False  # products read u64 as i64
        if with_products and math.prod(self.values.shape) <= 3000 and draw.chance(0.4):
            self.workload = draw.of("workload", ["gram", "covariance"])
        self.ranks = draw.of("ranks", [1, 2, 3], [12, 2, 1])

    def option(self, name, choices, weights=None):
        value = self.draw.of(name, choices, weights)
        if value is not None:
            self.options += [f"--{name}", str(value)]
        return value

    def reject(self, code, words):
        """Adds an error of this case; the program may report any of them."""
        self.errors.append((code, words))

    def draw_options(self):
        draw, drawn = self.draw, self.drawn
        wanted = self.option("input.type", [None, *TYPES], [14, *[1] * len(TYPES)])
        read = self.option("input.read", [None, "cached", "direct"], [8, 1, 1])
        unwritten = self.option("input.unwritten", [None, "fill", "error"], [5, 1, 1])
        if drawn.reject:
            return
        shape = drawn.shape or (1,)
        self.indices = (slice(None),) * len(shape)
        if drawn.shape and drawn.argument.endswith(drawn.path) and draw.chance(0.5):
            text, self.indices = draw_selection(draw, shape)
            self.argument += text
        _, most = first_rows(self.indices, shape, 1)
        rows = self.option("input.rows", [None, 1 + draw.below(most), most, most + 1],
                           [20, 3, 3, 1])
        if rows == most + 1:
            self.reject(2, ["input.rows", rows])
        if rows is not None:
            self.indices, _ = first_rows(self.indices, shape, rows)
        natural = natural_type(drawn)
        self.type = wanted or natural
        stored = np.atleast_1d(drawn.values.reshape(shape)[self.indices])
        if misfits(stored, self.type):  # of the elements that are read
            self.reject(1, [drawn.path])
        if unwritten == "error" and drawn.gaps:
            self.reject(2, ["input.unwritten"])
        by_hdf5 = draw.said["kind"] in ("packed", "long")
        if read == "direct" and (by_hdf5 or not drawn.contiguous):
            self.reject(2, ["input.read"])
        self.whole = drawn.converted(TYPES[self.type]).reshape(shape)
        self.values = np.atleast_1d(self.whole[self.indices])

    def draw_reduce_options(self):
        draw = self.draw
        self.nan = self.option("reduce.missing", [None, "ignore", "error"],
                               [3, 2, 1]) or "propagate"
        self.ops = OPS
        if draw.chance(0.2):
            self.ops = draw.random.sample(OPS, 1 + draw.below(len(OPS)))
            self.options += ["--reduce.ops", ",".join(self.ops)]

    def way_of_running(self):
        """Options that must not change a bit."""
        draw, options = self.draw, []
        for name, choices in (("pipeline.batch", [None, None, 1, "1MiB"]),
                              ("pipeline.slot", [None, None, 1, "100KB"]),
                              ("pipeline.readers", [None, None, 1, 3]),
                              ("pipeline.slots", [None, None, None, 1]),
                              ("pipeline.mode", [None, None, None, "pinned", "pageable", "mapped",
                                                 "resident"])):
            value = draw.random.choice(choices)
            if value is not None and (self.workload == "reduce" or name not in (
                    "pipeline.batch", "pipeline.mode")):
                options += [f"--{name}", str(value)]
        return options

    def start(self, ranks, name="out.h5"):
        arguments = ["run", self.workload, "--input.data", self.argument, *self.options,
                     *self.way_of_running(), "-o", self.folder / name]
        how = {"env": ON_HOST if self.workload != "reduce" else None, "cwd": self.folder}
        finished = run(*arguments, ranks=ranks, timeout=TIMEOUT, **how)
        if finished.code == -signal.SIGSEGV and (finished.out or "error: " in finished.err):
            # MPI_Finalize of Open MPI 4.1 crashes in one of 700 programs without a launcher, if the
            # machine is busy: its thread still runs in a component that has been unloaded.
            print(f"again, since it has crashed at its end: {finished}", flush=True)
            (self.folder / name).unlink(missing_ok=True)
            finished = run(*arguments, ranks=ranks, timeout=TIMEOUT, **how)
        return finished

    def check(self):
        if self.workload == "reduce":
            self.draw_reduce_options()
            if self.nan == "error" and not self.errors and np.isnan(self.values).any():
                self.reject(1, ["reduce.missing", self.drawn.path])
        else:
            self.options += ["--product.precision", "fp64"]
            if len(self.values) <= MAX_VARIABLES:
                self.option("gram.of", [None, "columns", "rows"], [3, 1, 1])
            if self.workload == "covariance" and len(self.matrix()) == 1:
                self.reject(2, ["gram.divisor"])
        finished = self.start(self.ranks)
        said = finished.err + finished.out
        assert "internal error" not in said and "rash" not in said, finished
        if self.errors:
            self.expect_error(finished)
            return
        finished.expect(0)
        self.check_warnings(finished)
        if self.workload == "reduce":
            self.check_reduced(finished)
        else:
            self.check_products(finished)
        if self.draw.chance(0.15):
            again = self.start(self.draw.of("ranks again", [1, 2, 3]), "again.h5").expect(0)
            if self.workload == "reduce":
                first, second = (results.bits(self.folder / name)
                                 for name in ("out.h5", "again.h5"))
                assert first == second, f"other bits:\n{finished}\n{again}"
            else:
                assert again.values["c_checksum"] == finished.values["c_checksum"], (
                    f"other bits:\n{finished}\n{again}")

    def expect_error(self, finished):
        """A bad value may be found before the work starts (exit code 2) or during it (1)."""
        codes = [code for code, _ in self.errors]
        assert finished.code in ((2,) if 2 in codes else (1, 2)), f"{self.errors}\n{finished}"
        assert finished.out == "", finished
        errors = [line for line in finished.err.splitlines() if "error: " in line]
        assert len(errors) == 1, finished
        assert any(all(str(word) in errors[0] for word in words) for _, words in self.errors), (
            f"{self.errors}\n{finished}")
        assert not (self.folder / "out.h5").exists(), finished

    def check_warnings(self, finished):
        drawn, said = self.drawn, finished.err
        assert ("input.unwritten" in said) == drawn.gaps, f"gaps: {drawn.gaps}\n{finished}"
        names = sorted(name.strip() for name in
                       finished.out.partition("not_applied=")[2].split("\n")[0].split(",") if name)
        assert names == sorted(drawn.ignored), f"attributes {drawn.ignored}:\n{finished}"
        for name in drawn.ignored:
            assert name in said, finished

    # ------------------------------------------------------------ results

    def check_reduced(self, finished):
        rows = results.stored_reduce(self.folder / "out.h5")
        assert list(rows) == list(self.ops), finished
        selected = mask_of(self.indices, self.whole.shape)
        Expected(self.whole, self.drawn.chunks, nan=self.nan, selected=selected).check(rows,
                                                                                       finished)

    def matrix(self):
        """One variable per column."""
        matrix = self.values.reshape(len(self.values), -1)
        return matrix.T if self.draw.said.get("gram.of") == "rows" else matrix

    def check_products(self, finished):
        matrix = self.matrix()
        with h5py.File(self.folder / "out.h5") as file:
            found = file["results/C"][()]
        assert found.dtype == "f8" and found.shape == (matrix.shape[1],) * 2, found
        bad = ~np.isfinite(matrix.astype("f8")).all(axis=0)
        center = self.workload == "covariance"
        if matrix.shape[1] > MAX_VARIABLES:
            return
        good = np.flatnonzero(~bad)
        values, errors = exact.products(matrix[:, good], center)
        for (i, row), (j, column) in itertools.product(enumerate(good), repeat=2):
            got = found[row, column]
            told = f"C[{row}, {column}] is {got!r}, not {float_of(values[i][j])!r}"
            if not math.isfinite(got):
                assert max(values[i][i], values[j][j]) * 100 * len(matrix) >= LARGEST, told
                assert finished.values["verified"] != "true" and "warning" in finished.err, finished
            else:
                assert abs(fraction(got) - values[i][j]) <= errors[i][j], told
        assert not np.isfinite(found[bad]).any() and not np.isfinite(found[:, bad]).any(), found


def test_random_files():
    with_products = not why_no_products()
    check_cases(lambda draw, folder: Case(draw, folder, with_products).check(), __file__,
                seconds=40, enough=60)


main(on_gpu=True)
