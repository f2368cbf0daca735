"""Rows of `run reduce` and of files, for `speed`."""

import json
import os
import statistics
import time

from speed_parts import Failed, gb, number, start, values_of


class ReduceRows:
    def __init__(self, machine, report, folder, all_ranks):
        self.machine, self.report, self.folder = machine, report, folder
        self.result = folder / "result.h5"
        self.file = folder / "data.h5"
        self.all = all_ranks
        self.each = sorted({1, all_ranks})  # numbers of ranks
        self.pinned = {}  # by them

    def reduce_arguments(self, *options):
        return ["run", "reduce", "--reduce.ops", "sum", "-o", self.result,
                "--output.overwrite", "true", *options]

    def reduce(self, ranks, *options):
        return values_of(self.machine.launched(ranks, *self.reduce_arguments(*options))[0])

    def generated(self, mode, repeat, count=None):
        """Options for data that a generator made beforehand."""
        return ["--input.count", count or self.machine.floats, "--pipeline.mode", mode,
                "--measure.warmup", max(1, repeat // 10), "--measure.repeat", repeat]

    def spans(self):
        """(rank, track, phase, seconds) of the last run, which had measure.timeline."""
        events = json.loads(self.result.with_suffix(".trace.json").read_text())["traceEvents"]
        tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                  if event["name"] == "thread_name"}
        return [(event["pid"], tracks[event["pid"], event["tid"]], event["name"],
                 event["dur"] / 1e6) for event in events if event["ph"] == "X"]

    def memory(self, mode, goal_of_one, goal_of_all):
        for ranks in self.each:
            what = f"data in {mode} memory"
            with self.report.part(what, ranks):
                values = self.reduce(ranks, *self.generated(mode, 5))
                rate = number(values, "rate_aggregate")
                if mode == "pinned":
                    self.pinned[ranks] = rate
                self.report.rate(what, ranks, rate, "link_up", number(values, "link_up_aggregate"),
                                 goal_of_one if ranks == 1 else goal_of_all)

    def scaling(self):
        if len(self.each) == 2 and len(self.pinned) == 2:
            speedup = self.pinned[self.all] / self.pinned[1]
            self.report.row("data in pinned memory, against one GPU", self.all, f"{speedup:.3g} x",
                            f"GPUs {self.all} x", speedup / self.all, 0.95)

    def make_file(self):
        out, seconds = start([self.machine.program, "generate", "--input.count",
                              str(self.machine.floats), "-o", f"{self.file}:/x"])
        return number(values_of(out), "bytes") / seconds / 1e9

    def plain_rate(self, way):
        """GB/s that plain code reaches on the file."""
        rows = self.machine.bench(self.folder, "plain-reads", "--plain-reads.file",
                                  f"{self.file}:/x", "--measure.max-time", "10s")
        rates = [row["rate"] for row in rows if row["way"].decode() == way]
        if len(rates) != 1:
            raise Failed(f"plain-reads has not measured {way}")
        return float(rates[0])

    def cached_file(self):
        what = "contiguous HDF5 file, page cache"
        rates = {}
        for ranks in self.each:
            with self.report.part(what, ranks):
                values = self.reduce(ranks, "--input.data", self.file, "--input.read", "cached",
                                     "--measure.warmup", 1, "--measure.repeat", 5)
                if values.get("page_cache") != "warm":
                    raise Failed("the file does not stay in the page cache: name a smaller --gib")
                rates[ranks] = number(values, "rate_aggregate")
                self.report.rate(what, ranks, rates[ranks], "link_up",
                                 number(values, "link_up_aggregate"), 0.94 if ranks == 1 else 0.58)
        if 1 not in rates:
            return
        with self.report.part(what, 1):
            self.report.rate(what, 1, rates[1], "H5Dread + cudaMemcpy",
                             self.plain_rate("H5Dread, copy"), 4)

    def beyond_streaming(self):
        """What a user waits for besides the data, who runs once from a cached file."""
        what = "time to result beyond streaming"
        with self.report.part(what, self.all):
            options = self.reduce_arguments("--input.data", self.file, "--input.read", "cached")
            began = time.time()
            out, wall = self.machine.launched(self.all, *options)
            streaming = number(values_of(out), "time")
            beyond = self.result.stat().st_ctime - began - streaming  # when it was put into place
            self.report.line(what, self.all, f"{beyond:.3g} s", "-", "-", "<= 3 s",
                             "yes" if beyond <= 3 else "no")
            # Once more, since keeping and writing the spans takes time of its own.
            self.machine.launched(self.all, *options, "--measure.timeline", "true")
            parts = {}  # by phase: each rank's seconds
            for rank, track, phase, seconds in self.spans():
                if track == "main" and phase not in ("stream", "combine", "wait-for-readers"):
                    ranks = parts.setdefault(phase, {})
                    ranks[rank] = ranks.get(rank, 0) + seconds
            parts = {phase: max(ranks.values()) for phase, ranks in parts.items()}
            parts["the rest: start of ranks, result file"] = beyond - sum(parts.values())
            parts["afterwards, until the launcher has returned"] = wall - streaming - beyond
            for part, seconds in parts.items():
                self.report.row("  " + part, self.all, f"{seconds:.3f} s")
            _, seconds = self.machine.launched(self.all, "generate", "--input.count", 1, "-o",
                                               f"{self.file}.one:/x")
            self.report.row("  for comparison: generate of one element", self.all,
                            f"{seconds:.3f} s")

    def drop_pages(self):
        with open(self.file, "rb") as file:
            os.fsync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def storage_rate(self):
        self.drop_pages()
        return self.plain_rate("O_DIRECT")

    def cold_file(self):
        what = "contiguous HDF5 file, O_DIRECT"
        try:
            os.close(os.open(self.file, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            self.report.row(f"{what}: {error.strerror}", self.all, "-")
            return
        with self.report.part(what, self.all):
            plain = self.storage_rate()
            self.drop_pages()
            values = self.reduce(self.all, "--input.data", self.file, "--input.read", "direct")
            rate = number(values, "rate_aggregate")
            what = f"{what}, page cache {values.get('page_cache')}"
            self.report.rate(what, self.all, rate, "storage_read",
                             number(values, "storage_read_aggregate"))
            # Before and after, since what is below the file system may have caches too.
            plain = max(plain, self.storage_rate())
            self.report.rate(what, self.all, rate, "parallel O_DIRECT reads", plain, 0.9)

    def resident(self):
        cub, kernels_alone = {}, {}  # GB/s by number of floats
        with self.report.part("cub::DeviceReduce::Sum", 1):
            rows = self.machine.bench(self.folder, "reduction-order", "--reduction-order.count",
                                      self.machine.floats)
            for row in rows:
                for rates, order in ((cub, b"CUB"), (kernels_alone, b"program")):
                    if (row["order"], row["want"]) == (order, b"sum"):
                        rates[int(row["count"])] = float(row["read"])
            if not set(cub) == set(kernels_alone) == {self.machine.floats, 2**24}:
                raise Failed("reduction-order has not measured CUB and the program for both sizes")
        for count, name, repeat, goal in (
                (self.machine.floats, f"{self.machine.gib} GiB", 20, 0.97),
                (2**24, "2^24 floats", 200, 0.9)):
            if count not in kernels_alone:
                continue
            what = f"{name} resident on the GPU"
            self.report.rate(f"{what}, in a loop like CUB", 1, kernels_alone[count], "CUB",
                             cub[count], goal)
            with self.report.part(what, 1):
                options = self.generated("resident", repeat, count)
                values = self.reduce(1, *options, "--measure.timeline", "true")
                kernels = [seconds for _, _, phase, seconds in self.spans() if phase == "kernels"]
                batches, rest = divmod(len(kernels), repeat + max(1, repeat // 10))
                if batches == 0 or rest:
                    raise Failed(f"{len(kernels)} spans of kernels are not as many in each pass")
                passes = [sum(kernels[i:i + batches]) for i in range(0, len(kernels), batches)]
                seconds = statistics.median(passes[-repeat:])
                self.report.rate(f"{what}, in a run", 1, count * 4 / seconds / 1e9, "CUB",
                                 cub[count])
                self.report.rate(f"{what}, wall time", 1, number(values, "rate_aggregate"), "CUB",
                                 cub[count])

    def host(self):
        for kind, size in (("f32", 4), ("f64", 8)):
            what = f"host backend, all cores, {kind} in memory"
            with self.report.part(what, 1):
                # By itself, so that it has all the cores that were granted here.
                options = self.generated("resident", 5, self.machine.floats * 4 // size)
                words = self.reduce_arguments("--device.backend", "host", "--input.type", kind,
                                              *options)
                values = values_of(start([self.machine.program, *map(str, words)])[0])
                rate = number(values, "rate_aggregate")
                if "host_memory_read_aggregate" in values:
                    self.report.rate(what, 1, rate, "host_memory_read",
                                     number(values, "host_memory_read_aggregate"), 0.85)
                else:
                    self.report.row(what, 1, gb(rate), "too little data: larger --gib")

    def print(self):
        """All that the machine has something for."""
        if self.all:
            self.memory("pinned", 0.97, 0.97)
            self.scaling()
            self.memory("pageable", 0.95, 0.78)
            self.resident()
            made = False
            with self.report.part("shardstream generate", 1):
                self.report.row("shardstream generate, start and end included", 1,
                                gb(self.make_file()))
                made = True
            if made:
                self.cached_file()
                self.beyond_streaming()
                self.cold_file()
        self.host()
