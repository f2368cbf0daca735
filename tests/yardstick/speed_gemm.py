"""Rows of `run gemm` and `run gram`, for `speed`."""

import os
import re
import shutil

from speed_parts import Failed, Skipped, memory_left, number, start, tflops, values_of

PRECISIONS = ["fp64", "fp32", "tf32", "bf16", "fp32x3"]
ELEMENT = {"fp64": (8, 8), "bf16": (2, 4)}  # bytes of A and B, and of C, on a GPU; else 4 and 4
GOAL_OF_ONE = {"fp64": 0.97, "fp32": 0.97, "tf32": 0.9, "bf16": 0.9}  # of in core
ROOM = 4 << 30  # bytes that a run or a call needs in addition to its matrices
SHORT = 16384  # products of up to this edge are repeated


def gib(count):
    return f"{count / 2**30:.0f} GiB"


def gflops(rate):
    """Gflop/s from Tflop/s."""
    return f"{rate * 1000:.4g} Gflop/s"


def expect_memory(count, what):
    """Skips the row unless the host has `count` bytes of free memory."""
    if count > memory_left():
        raise Skipped(f"{what} takes {gib(count)} of host memory, of which {gib(memory_left())} "
                      "are left: name a smaller --size")


def in_core_rate(out):
    """The Tflop/s that `gemm_parts PRECISION incore N` prints."""
    found = re.findall(r"in core: .* ([\d.]+) Tflop/s", out)
    if len(found) != 1:
        raise Failed("gemm_parts did not print one line of a product in core")
    return float(found[0])


def best_of_blocks(out):
    """The best Tflop/s and its block, from the lines of `gemm_parts PRECISION xt N`."""
    found = re.findall(r"blocks of (\d+): .* ([\d.]+) Tflop/s", out)
    if not found:
        raise Failed("gemm_parts did not print a line of cuBLASXt")
    return max((float(rate), int(block)) for block, rate in found)


def visible_gpus(count):
    """CUDA_VISIBLE_DEVICES for the first GPUs that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ",".join(seen.split(",")[:count] if seen else map(str, range(count)))


class GemmRows:
    def __init__(self, machine, report, folder, all_ranks):
        self.machine, self.report, self.folder = machine, report, folder
        self.result = folder / "result.h5"
        self.n = machine.arguments.size
        self.precisions = machine.arguments.precisions
        self.all = all_ranks
        self.each = sorted({1, all_ranks})  # numbers of ranks
        self.known = {}  # results of measurements, or their errors
        self.uploads = {}  # by ranks: the maximum ratio to the minimum of uploads

    def once(self, key, measure):
        """The result or the error of measure(), which all rows share."""
        if key not in self.known:
            try:
                self.known[key] = measure()
            except (Failed, Skipped) as error:
                self.known[key] = error
        if isinstance(self.known[key], Exception):
            raise self.known[key]
        return self.known[key]

    def arguments(self, workload, precision, n, *options):
        repeat = ["--measure.warmup", 1, "--measure.repeat", 3] if n <= SHORT else []
        return ["run", workload, "--product.precision", precision, "-o", self.result,
                "--output.overwrite", "true", "--output.resume", "never",
                "--output.store", "false", *repeat, *options]

    @staticmethod
    def generated(workload, n):
        """Options for data that a generator makes beforehand."""
        sizes = {"gemm": ["--gemm.m", n, "--gemm.n", n, "--gemm.k", n],
                 "gram": ["--gram.rows", n, "--gram.columns", n]}
        return ["--pipeline.mode", "pageable", *sizes[workload]]

    def on_gpus(self, ranks, workload, precision, n, *options):
        values = values_of(self.machine.launched(ranks, *self.arguments(
            workload, precision, n, "--pipeline.gpu-memory", "24GiB", *options))[0])
        self.uploads[ranks] = max(self.uploads.get(ranks, 0), number(values, "upload_ratio"))
        return values

    def product(self, ranks, workload, precision, n):
        """The output of a run on GPUs, from host memory."""
        def measure():
            matrices = 1 if workload == "gram" else 2
            expect_memory(matrices * n * n * ELEMENT.get(precision, (4, 4))[1] + ROOM,
                          f"{workload} of {precision}, n = {n},")
            return self.on_gpus(ranks, workload, precision, n, *self.generated(workload, n))
        return self.once((ranks, workload, precision, n), measure)

    def rate(self, ranks, precision, n):
        return number(self.product(ranks, "gemm", precision, n), "rate_aggregate")

    def in_core(self, precision):
        """(Tflop/s, n) of one GPU: the n of the rows, or halved until its memory suffices."""
        def measure():
            factor, product = ELEMENT.get(precision, (4, 4))
            n, memory = self.n, self.machine.info["gpus"][0]["memory"]
            while n * n * (2 * factor + product) + ROOM / 2 > memory:
                n //= 2
            return in_core_rate(self.machine.yardstick("gemm_parts", precision, "incore", n)), n
        return self.once(("in core", precision), measure)

    def against_in_core(self, precision):
        for ranks in self.each:
            what = f"gemm, {precision}, n = {self.n}"
            with self.report.part(what, ranks):
                rate = self.rate(ranks, precision, self.n)
                limit, n = self.in_core(precision)
                goal = GOAL_OF_ONE[precision]
                if ranks > 1:  # the goal of several GPUs is a speed-up
                    goal = 0.95 if precision in ("fp64", "fp32") else None
                times = f"{ranks} x " if ranks > 1 else ""
                smaller = f" (n = {n})" if n != self.n else ""
                self.report.rate(what, ranks, rate, f"{times}in core{smaller}", ranks * limit, goal,
                                 tflops)

    def against_one(self, precision):
        if self.all < 2:
            return
        what = f"gemm, {precision}, against one GPU"
        with self.report.part(what, self.all):
            speedup = self.rate(self.all, precision, self.n) / self.rate(1, precision, self.n)
            # The goal of four GPUs is 3.5 x.
            self.report.row(what, self.all, f"{speedup:.3g} x", f"GPUs {self.all} x",
                            speedup / self.all, 0.875)

    def split(self):
        for ranks in self.each:
            what = f"gemm, fp32x3, n = {self.n}"
            with self.report.part(what, ranks):
                self.report.rate(what, ranks, self.rate(ranks, "fp32x3", self.n), "fp32",
                                 self.rate(ranks, "fp32", self.n), 1.8, tflops)

    def gram(self):
        for ranks in self.each:
            what = f"gram, fp32, n = {self.n}, time"
            with self.report.part(what, ranks):
                seconds = number(self.product(ranks, "gram", "fp32", self.n), "time")
                whole = number(self.product(ranks, "gemm", "fp32", self.n), "time")
                self.report.row(what, ranks, f"{seconds:.4g} s", f"gemm {whole:.4g} s",
                                whole / seconds, 1.85)

    def file(self):
        """A and B with the same elements as in memory."""
        what = f"gemm, fp32, n = {self.n}, HDF5, page cache, time"
        made = False
        with self.report.part(what, 1):
            count = 2 * self.n * self.n * 4
            expect_memory(count + ROOM, "keeping the files of A and B in the page cache")
            free = shutil.disk_usage(self.folder).free
            if free < count * 1.05:
                raise Skipped(f"files of {gib(count)} do not fit into {self.folder}, where "
                              f"{gib(free)} are free: name another --folder, or a smaller --size")
            for seed, name in ((1, "a"), (2, "b")):
                start([self.machine.program, "generate", "--input.shape", f"{self.n}x{self.n}",
                       "--input.seed", str(seed), "-o", f"{self.folder}/{name}.h5:/{name}"])
            made = True
        for ranks in self.each if made else ():
            with self.report.part(what, ranks):
                memory = self.product(ranks, "gemm", "fp32", self.n)
                for name in ("a", "b"):  # so that it is cached
                    with open(self.folder / f"{name}.h5", "rb", buffering=0) as file:
                        while file.read(1 << 24):
                            pass
                values = self.on_gpus(
                    ranks, "gemm", "fp32", self.n, "--pipeline.mode", "stream", "--input.read",
                    "cached", "--input.a", f"{self.folder}/a.h5:/a", "--input.b",
                    f"{self.folder}/b.h5:/b")
                if values.get("c_checksum") != memory.get("c_checksum"):
                    raise Failed("C is another one than of A and B in memory")
                seconds, ceiling = number(values, "time"), number(memory, "time")
                self.report.row(what, ranks, f"{seconds:.4g} s", f"pageable memory {ceiling:.4g} s",
                                seconds / ceiling, 1.1, at_most=True)
        for name in ("a", "b"):  # frees its pages for other matrices
            (self.folder / f"{name}.h5").unlink(missing_ok=True)

    def out_of_core(self, precision, n, goal):
        """Compared with cuBLASXt on the same number of GPUs, with its best block."""
        what = f"gemm, {precision}, n = {n}"
        with self.report.part(what, self.all):
            rate = self.rate(self.all, precision, n)
            expect_memory(3 * n * n * ELEMENT.get(precision, (4, 4))[1] + ROOM / 4,
                          f"cuBLASXt of {precision}, n = {n},")
            limit, block = best_of_blocks(self.machine.yardstick(
                "gemm_parts", precision, "xt", n, CUDA_VISIBLE_DEVICES=visible_gpus(self.all)))
            self.report.rate(what, self.all, rate, f"cuBLASXt, {block},", limit, goal, tflops)

    def large(self):
        """More data than most hosts have memory, by one rank with all the memory."""
        n = 2 * self.n
        what = f"gemm, fp32, n = {n}"
        with self.report.part(what, 1):
            rate = self.rate(1, "fp32", n)
            limit, smaller = self.in_core("fp32")
            self.report.rate(what, 1, rate, f"in core (n = {smaller})", limit, 0.95, tflops)

    def upload_ratio(self):
        for ranks, share in sorted(self.uploads.items()):
            self.report.row("bytes uploaded, most of the products above", ranks, f"{share:.4f} x",
                            "least possible", share, 1.02, at_most=True)

    def host(self):
        n = min(self.n // 4, 8192)
        for precision in ("fp32", "fp64"):
            what = f"host backend, all cores, gemm, {precision}, n = {n}"
            with self.report.part(what, 1):
                if not (self.machine.arguments.yardsticks / "blas_call").exists():
                    raise Skipped("blas_call is not there: build the target yardsticks, with "
                                  "OpenBLAS")
                call = self.once("CBLAS", lambda: values_of(self.machine.yardstick("blas_call", n)))
                # Without a launcher, so that it has all granted cores.
                words = self.arguments("gemm", precision, n, "--device.backend", "host",
                                       *self.generated("gemm", n))
                values = values_of(start([self.machine.program, *map(str, words)])[0])
                self.report.rate(what, 1, number(values, "rate_aggregate"), "one call of the CBLAS",
                                 number(call, precision) / 1000, 0.9, gflops)

    def print(self):
        """Prints all rows that this machine supports."""
        if self.all:
            for precision in self.precisions:
                if precision == "fp32x3":
                    self.split()
                    continue
                self.against_in_core(precision)
                if precision in ("tf32", "bf16"):
                    self.against_one(precision)
            if "fp32" in self.precisions:
                self.gram()
                self.file()
                self.out_of_core("fp32", self.n, 0.97)
            if "fp64" in self.precisions:
                # The goal of four GPUs is twice cuBLASXt.
                self.out_of_core("fp64", self.n // 2, 2 if self.all == 4 else None)
            if "fp32" in self.precisions:
                self.large()
            self.upload_ratio()
        self.host()
