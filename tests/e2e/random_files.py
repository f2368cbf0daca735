#!/usr/bin/python3
"""Random HDF5 files and random options: results are compared with h5py and exact arithmetic.

Every case comes from a seed. SHARDSTREAM_RANDOM_SEED=N repeats one case and keeps its files;
SHARDSTREAM_RANDOM_SECONDS=N draws cases for that long, from SHARDSTREAM_RANDOM_FIRST=N on."""

import collections
import concurrent.futures
import itertools
import math
import os
import shutil
import signal
import time
import traceback

import h5py
import numpy as np

import exact
import model
import results
from drawn_files import Drawn, NotPossible
from drawn_values import Draw
from exact import LARGEST, Statistics, fraction
from harness import OPS, TYPES, main, new_folder, run
from products import ON_HOST, why_no_products

SECONDS = float(os.environ.get("SHARDSTREAM_RANDOM_SECONDS", 40))
FIRST = int(os.environ.get("SHARDSTREAM_RANDOM_FIRST", 1))
ONLY = os.environ.get("SHARDSTREAM_RANDOM_SEED")
ENOUGH = 60  # cases; fewer are a failure, for example because most files are impossible
TIMEOUT = 120
WORKERS = 4
MAX_VARIABLES = 60  # of a product that is compared: exact arithmetic is slow
INTEGERS = ["i32", "i64", "i8", "u8"]


def natural_type(drawn):
    """The type that can hold all values of the stored type, or most of them."""
    if drawn.dtype.kind == "f":
        return "f32" if drawn.dtype.itemsize <= 4 else "f64"
    bits, signed = drawn.stored.get_precision(), drawn.dtype.kind == "i"
    if bits <= 8:
        return "i8" if signed else "u8"
    return "i32" if bits <= (32 if signed else 31) else "i64"


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
        self.options, self.values = [], None
        self.draw_options()
        self.workload = "reduce"
        if self.drawn.reject or len(self.drawn.shape) not in (1, 2):
            with_products = False
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
        rows = self.option("input.rows", [None, 1 + draw.below(shape[0]), shape[0], shape[0] + 1],
                           [20, 3, 3, 1])
        if rows == shape[0] + 1:
            self.reject(2, ["input.rows", rows])
        natural = natural_type(drawn)
        self.type = wanted or natural
        stored = drawn.values.reshape(shape)[:rows]
        if misfits(stored, self.type):  # of the rows that are read
            self.reject(1, [drawn.path])
        if unwritten == "error" and drawn.gaps:
            self.reject(2, ["input.unwritten"])
        converted = drawn.dtype.newbyteorder("=") != np.dtype(TYPES[self.type]) or (
            drawn.dtype.byteorder == ">" and drawn.dtype.itemsize > 1) or (
            draw.said["kind"] == "packed")
        if read == "direct" and (converted or not drawn.contiguous):
            self.reject(2, ["input.read"])
        self.values = drawn.converted(TYPES[self.type]).reshape(shape)[:rows]

    def draw_reduce_options(self):
        draw = self.draw
        self.nan = self.option("reduce.nan", [None, "ignore", "error"], [3, 2, 1]) or "propagate"
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
        arguments = ["run", self.workload, "--input.data", self.drawn.argument, *self.options,
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
                self.reject(1, ["reduce.nan", self.drawn.path])
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
        values, positions = model.in_stored_order(self.values, self.drawn.chunks)
        is_nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        rows = results.stored_reduce(self.folder / "out.h5")
        assert list(rows) == list(self.ops), finished
        for op, row in rows.items():
            assert finished.values[op] == row["exact"], finished
            place = self.check_value(op, row["exact"], values, is_nan, finished)
            where = "" if place is None else ",".join(
                map(str, np.unravel_index(positions[place], self.values.shape)))
            assert row["position"] == where, f"{op} at {where}\n{finished}"
        self.check_verdict(rows, values[~is_nan], finished)

    def check_verdict(self, rows, numbers, finished):
        """A value that overflows although all numbers are finite is named, and is not verified."""
        counted = self.nan == "ignore" or len(numbers) == self.values.size
        overflow = [op for op, row in rows.items() if not math.isfinite(float(row["exact"]))]
        if self.huge_beside_infinities(numbers):
            return  # infinities hide the overflow, or make it NaN
        if not counted or len(numbers) == 0 or not np.isfinite(numbers).all():
            overflow = []
        named = finished.out.partition("overflow=")[2].split("\n")[0]
        assert named == ", ".join(overflow), f"{overflow} overflow:\n{finished}"
        assert finished.values["verified"] == ("partly" if overflow else "true"), finished
        for op, row in rows.items():
            assert row["validated"] == (op not in overflow), f"{op}\n{finished}"
        assert not overflow or overflow[0] in finished.err, finished

    @staticmethod
    def huge_beside_infinities(numbers):
        """Whether sums of finite numbers may exceed the range of double, beside infinities."""
        if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
            return False
        finite = numbers[np.isfinite(numbers)].astype("f8")
        return bool(np.abs(finite / 2.0**200).sum() > 2.0**820)

    def check_value(self, op, text, values, is_nan, finished):
        """Compares with exact arithmetic; returns the place of an extreme in storage order."""
        told = f"{op} of {values[:20]}...\n{finished}"
        numbers = values[~is_nan]
        if op == "count":
            expected = len(numbers) if self.nan == "ignore" else len(values)
            assert int(text) == expected, told
            return None
        if is_nan.any() and self.nan == "propagate":
            assert math.isnan(float(text)), told
            return np.flatnonzero(is_nan)[0] if op in ("min", "max") else None
        if len(numbers) == 0:
            assert text == "0" if op == "sum" else math.isnan(float(text)), told
            return None
        if op in ("min", "max"):
            value, place = exact.extreme(numbers, op)
            assert results.same(text, int(value) if value.dtype.kind in "iu" else value), told
            return np.flatnonzero(~is_nan)[place]
        if values.dtype.kind == "f" and not np.isfinite(numbers).all():
            with np.errstate(all="ignore"):
                of_signs = sum(set(numbers[np.isinf(numbers)].astype("f8").tolist()))
            expected = of_signs if op in ("sum", "mean") else math.nan
            hidden = self.huge_beside_infinities(numbers) and math.isnan(float(text))
            assert hidden or str(float(text)) == str(expected), f"{expected} expected: {told}"
            return None
        self.check_finite(op, text, numbers, told)
        return None

    def check_finite(self, op, text, numbers, told):
        known = self.statistics(numbers)
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

    def statistics(self, numbers):
        if not hasattr(self, "known"):
            self.known = Statistics(numbers)
        return self.known

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


def float_of(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def one(seed, with_products):
    """The failure of a case as text, or None. Raises NotPossible if there is no such file."""
    folder, draw = new_folder(), Draw(seed)
    try:
        Case(draw, folder, with_products).check()
    except NotPossible:
        shutil.rmtree(folder)
        raise
    except Exception as error:  # pylint: disable=broad-except
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == __file__]
        return (f"seed {seed}, line {lines[-1]}, {type(error).__name__}: {error}\n"
                f"  drawn: {draw.said}")
    if ONLY is None:
        shutil.rmtree(folder)
    return None


def test_random_files():
    if ONLY is not None:
        failure = one(int(ONLY), not why_no_products())
        assert not failure, failure
        return
    with_products = not why_no_products()
    end = time.monotonic() + SECONDS
    seeds, failures, done, impossible = itertools.count(FIRST), [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        pending = collections.deque()
        while True:
            while len(pending) < 2 * WORKERS and (time.monotonic() < end or done < ENOUGH):
                pending.append(pool.submit(one, next(seeds), with_products))
            if not pending:
                break
            try:
                failure = pending.popleft().result()
            except NotPossible:
                impossible += 1
                continue
            done += 1
            if failure:
                failures.append(failure)
                print(failure, flush=True)
    print(f"{done} cases from seed {FIRST} to {next(seeds) - 1}, {impossible} files that HDF5 does "
          f"not make, {len(failures)} failures")
    assert not failures, f"{len(failures)} of {done} cases failed"
    assert done >= ENOUGH, done
    assert impossible < done / 4, impossible


main(on_gpu=True)
