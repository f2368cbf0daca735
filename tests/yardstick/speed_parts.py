"""Shared code of `speed` and `covariance_speed`: the machine, programs and their output, the
table of `speed`."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import time

COLUMNS = "{:<51} {:>5} {:>13}  {:<35} {:>6} {:>8}  {}"
PATIENCE = 600  # seconds for one program


class Failed(Exception):
    """A program failed, or did not print the expected values."""


class Skipped(Exception):
    """The reason why something cannot be measured on this machine."""


def cores():
    """The number of cores that this process may use; two hardware threads of a core count once."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        found.add(siblings.read_text() if siblings.exists() else cpu)
    return len(found)


def default_launcher():
    try:
        version = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, check=False).stdout
    except FileNotFoundError:
        version = ""
    if re.search("Open MPI|OpenRTE|PRRTE", version):
        return "mpirun -q --map-by ppr:{ranks}:node:PE={cores} --bind-to core -np {ranks}"
    return "mpirun -n {ranks}"


def memory_left():
    """The bytes that this process can still allocate, from the host and its control groups."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    left = int(dict(line.split(":") for line in lines)["MemAvailable"].split()[0]) << 10
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = pathlib.Path("/sys/fs/cgroup") / name
        if limit.exists() and (text := limit.read_text().strip()) != "max":
            left = min(left, int(text))
    return left


def environment():
    """The environment of this process without options of the program. Open MPI rejects root by
    default."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("SHARDSTREAM_")}
    if os.geteuid() == 0:
        kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return kept


def start(words, **more_environment):
    """The output of the command, and its time in seconds. A command that cannot run here prints
    `SKIP: why` and returns 77."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(words, env={**environment(), **more_environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except BaseException as error:  # an interrupt must not leave it running either
        process.terminate()  # so that a launcher ends its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"no end after {PATIENCE} s: {shlex.join(words)}") from None
        raise
    seconds = time.monotonic() - began
    if process.returncode == 77:  # as for tests
        raise Skipped(out.strip().removeprefix("SKIP: "))
    if process.returncode != 0:
        raise Failed(f"exit code {process.returncode} from: {shlex.join(words)}\n{err}".strip())
    return out, seconds


def values_of(out):
    """{key: value} of the lines KEY=VALUE, without units."""
    return {key: text.split(" ")[0] for key, text in
            (line.split("=", 1) for line in out.splitlines() if "=" in line)}


def number(values, key):
    if key not in values:
        raise Failed(f"there is no {key} in the output")
    return float(values[key])


def tflops(rate):
    return f"{rate:.4g} Tflop/s"


class Report:
    """The table, printed row by row."""

    def __init__(self):
        self.failures = 0
        self.reasons = set()  # already printed
        self.line("what", "ranks", "measured", "ceiling", "share", "goal", "met")

    def line(self, *cells):
        print(COLUMNS.format(*cells).rstrip(), flush=True)

    def row(self, what, ranks, measured, ceiling="-", share=None, goal=None, at_most=False):
        """`goal` is the minimum share, or the maximum."""
        goals, met = "-", "-"
        if goal is not None:
            goals = f"{'<=' if at_most else '>='} {goal}"
            met = "yes" if (share <= goal if at_most else share >= goal) else "no"
        self.line(what, ranks, measured, ceiling, "-" if share is None else f"{share:.3f}", goals,
                  met)

    def rate(self, what, ranks, rate, ceiling, limit, goal, show):
        """Both rates in the form of `show`."""
        self.row(what, ranks, show(rate), f"{ceiling} {show(limit)}", rate / limit, goal)

    @contextlib.contextmanager
    def part(self, what, ranks):
        """Rows that a failure or a missing requirement ends; the message takes their place."""
        try:
            yield
        except (Failed, Skipped) as error:
            failed, reason = isinstance(error, Failed), str(error)
            self.failures += failed
            known = reason in self.reasons
            self.line(what, ranks, "FAILED" if failed else "skipped", "as above" if known else "",
                      "", "", "")
            if not known:
                self.reasons.add(reason)
                print("    " + reason.replace("\n", "\n    "), flush=True)


class Machine:
    def __init__(self, arguments):
        self.arguments = arguments
        self.program = arguments.program
        self.launcher = arguments.launcher or default_launcher()
        # A program built without CUDA would fail if it found the GPUs of the host.
        self.info = self.told("--device.backend", "host")
        versions = {row["name"]: row["version"] for row in self.info["versions"]}
        self.has_cuda = versions["cuda_toolkit"] != "none"
        if self.has_cuda:
            self.info = self.told()
        self.on_host = self.info["ranks"][0]["backend"] == "host"
        self.gpus = 0 if self.on_host else len(self.info["gpus"])
        self.cores_each = max(1, cores() // max(1, self.gpus))

    def told(self, *options):
        words = [self.program, "info", "--json", *options]
        try:
            return json.loads(start(words)[0])
        except json.JSONDecodeError:
            raise Failed(f"{shlex.join(words)} prints no JSON") from None

    def launched(self, ranks, *words):
        launcher = self.launcher.replace("{cores}", str(self.cores_each))
        if "{ranks}" in launcher:
            launcher = launcher.replace("{ranks}", str(ranks))
        else:
            launcher += f" -n {ranks}"
        return start([*shlex.split(launcher), self.program, *map(str, words)])

    def yardstick(self, name, *words, **more_environment):
        return start([str(self.arguments.yardsticks / name), *map(str, words)],
                     **more_environment)[0]
