"""What the rows of `speed` share: the machine, programs and what they say, the table."""

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
    """A program failed, or did not say what was asked of it."""


class Skipped(Exception):
    """Why something cannot be measured on this machine."""


def cores():
    """Those that this process may use; two hardware threads of one core count once."""
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
    """Bytes that this process may still take, of the host's memory and of its control groups'."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    left = int(dict(line.split(":") for line in lines)["MemAvailable"].split()[0]) << 10
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = pathlib.Path("/sys/fs/cgroup") / name
        if limit.exists() and (text := limit.read_text().strip()) != "max":
            left = min(left, int(text))
    return left


def environment():
    """This process's, without options of the program. Open MPI refuses root unless told."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("SHARDSTREAM_")}
    if os.geteuid() == 0:
        kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return kept


def start(words, **more_environment):
    """What the command printed, and the seconds that it took."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(words, env={**environment(), **more_environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except BaseException as error:  # an interrupt too must not leave it running
        process.terminate()  # a launcher ends its ranks on this
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"no end after {PATIENCE} s: {shlex.join(words)}") from None
        raise
    seconds = time.monotonic() - began
    if process.returncode != 0:
        raise Failed(f"exit code {process.returncode} from: {shlex.join(words)}\n{err}".strip())
    return out, seconds


def values_of(out):
    """What stands left and right of the = of each line, units left out."""
    return {key: text.split(" ")[0] for key, text in
            (line.split("=", 1) for line in out.splitlines() if "=" in line)}


def number(values, key):
    if key not in values:
        raise Failed(f"there is no {key} in the output")
    return float(values[key])


def tflops(rate):
    return f"{rate:.4g} Tflop/s"


class Report:
    """The table, row by row as it becomes known."""

    def __init__(self):
        self.failures = 0
        self.reasons = set()  # that were told
        self.line("what", "ranks", "measured", "ceiling", "share", "goal", "met")

    def line(self, *cells):
        print(COLUMNS.format(*cells).rstrip(), flush=True)

    def row(self, what, ranks, measured, ceiling="-", share=None, goal=None, at_most=False):
        """`goal` is the least share, or the greatest."""
        goals, met = "-", "-"
        if goal is not None:
            goals = f"{'<=' if at_most else '>='} {goal}"
            met = "yes" if (share <= goal if at_most else share >= goal) else "no"
        self.line(what, ranks, measured, ceiling, "-" if share is None else f"{share:.3f}", goals,
                  met)

    def rate(self, what, ranks, rate, ceiling, limit, goal, show):
        """Both rates as `show` takes them."""
        self.row(what, ranks, show(rate), f"{ceiling} {show(limit)}", rate / limit, goal)

    @contextlib.contextmanager
    def part(self, what, ranks):
        """Rows that a failure ends, or a lack, which is then told in their place."""
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
        # Of a host's GPUs a program built without CUDA would say that it cannot use them, and fail.
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
