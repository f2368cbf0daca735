"""Shared code of the end-to-end tests: starts the program, reads its output, and calls the
functions test_*() of a script. A script starts in an empty folder of its own.

By hand: SHARDSTREAM_TEST_PROGRAM=build/host/shardstream tests/e2e/SCRIPT.py [test_name...]
"""

import atexit
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

PROGRAM = str(pathlib.Path(os.environ["SHARDSTREAM_TEST_PROGRAM"]).resolve())
LAUNCHER = shlex.split(
    os.environ.get("SHARDSTREAM_TEST_LAUNCHER", "mpirun --oversubscribe --bind-to none"))
TYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "i8": "i1", "u8": "u1",
         "u64": "u8"}
OPS = ["count", "sum", "mean", "variance", "stddev", "min", "max"]
LEAF = 65536
HANGS = 400  # seconds after which a run counts as hanging; comm.timeout is 300 s


class Finished:
    """The end of a run of the program: code, out, err and the time in seconds."""

    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.seconds = command, code, out, seconds
        # When Open MPI aborts, its event library may print warnings about its closed sockets.
        self.err = re.sub(r"^\[warn\] Epoll .*\n", "", err, flags=re.MULTILINE)

    def __str__(self):
        return (f"$ {shlex.join(self.command)}\n  exit code {self.code} after {self.seconds:.1f} s"
                f"\n  stdout: {self.out.strip()}\n  stderr: {self.err.strip()}")

    def expect(self, code):
        assert self.code == code, f"exit code {code} was expected:\n{self}"
        return self

    @property
    def values(self):
        """{key: value} of standard output, without units."""
        return {key: text.split(" ")[0] for key, text in
                (line.split("=", 1) for line in self.out.splitlines())}


def ready_ini_files(workload):
    """The files of inputs/ that name the workload."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "inputs"
    found = [path for path in sorted(folder.glob("*.ini"))
             if f"workload = {workload}\n" in path.read_text()
             and "[scale]" not in path.read_text()]
    assert found, folder
    return found


# The backend of runs of one rank, set by main(). More ranks than GPUs would be rejected, so several
# ranks always use the host.
BACKEND_OF_ONE_RANK = "host"


def environment(changes=None, ranks=1):
    """The environment of this process without options of the program, except the backend. A change
    to None removes a variable."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("SHARDSTREAM_")}
    kept["SHARDSTREAM_DEVICE_BACKEND"] = BACKEND_OF_ONE_RANK if ranks == 1 else "host"
    kept.update(changes or {})
    return {name: value for name, value in kept.items() if value is not None}


def command_line(arguments, ranks):
    """With one rank, starts the program itself; with more, under the launcher, which prints nothing
    itself."""
    words = [PROGRAM, *map(str, arguments)]
    return words if ranks == 1 else [*LAUNCHER, "-q", "-n", str(ranks), *words]


# For a process without a launcher, Open MPI starts a daemon, which takes longer than most runs.
# These variables avoid the daemon and the folder that all such processes would share.
# `documents.py` runs without them.
NO_DAEMON = {"OMPI_MCA_ess_singleton_isolated": "1", "OMPI_MCA_orte_create_session_dirs": "0"}


def launcher_folder():
    """The environment in which Open MPI's launcher has a folder of its own for its files. Launchers
    that start or end at the same time may fail in the folder that they would share."""
    folder = tempfile.mkdtemp(prefix="ompi-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"TMPDIR": folder}


def start(*arguments, ranks=1, env=None, cwd=None, prefix=(), stdin=""):
    """Starts the program and does not wait. `prefix` is a command that starts the whole, and
    `stdin` the text of its standard input."""
    starts_launcher = ranks > 1 or "scale" in arguments
    env = {**(launcher_folder() if starts_launcher else NO_DAEMON), **(env or {})}
    with tempfile.TemporaryFile("w+") as text:
        text.write(stdin)
        text.seek(0)
        return subprocess.Popen([*prefix, *command_line(arguments, ranks)],
                                env=environment(env, ranks), cwd=cwd, stdin=text,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, timeout=HANGS):
    """Waits for a process of start(). One that hangs is killed, and the test fails."""
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # so that a launcher ends its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()
        raise AssertionError(f"no end after {timeout} s:\n$ {shlex.join(process.args)}") from None
    return Finished(process.args, process.returncode, out, err, time.monotonic() - began)


def run(*arguments, timeout=HANGS, **how):
    return finish(start(*arguments, **how), timeout)


def experiments(env=None):
    """The names of all experiments in `bench --list`, with their groups."""
    out = run("bench", "--list", env=env).expect(0).out
    group, found = "", {}
    for line in out.splitlines():
        if match := re.fullmatch(r"[a-z ,]+ \(([a-z]+)\):", line):
            group = match[1]
        elif match := re.match(r"  ([a-z0-9-]+)  +[A-Z]", line):
            found[match[1]] = group
    return found


def reduce(source, result, *arguments, ranks=1, **how):
    """Reduces `source` into the file `result`, which must succeed."""
    return run("run", "reduce", "--input.data", source, "-o", result, *arguments, ranks=ranks,
               **how).expect(0)


def each(cases, check, workers=4):
    """Calls check(*case) for all cases, several at a time, and then reports all that failed.
    Starting MPI is mostly waiting, so there are more at a time than cores."""
    failures = []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [(case, pool.submit(check, *case)) for case in cases]
        for case, future in futures:
            try:
                future.result()
            except Exception as error:  # pylint: disable=broad-except
                where = traceback.extract_tb(error.__traceback__)[-1]
                failures.append(f"{case}: {type(error).__name__} in line {where.lineno}: {error}")
    assert futures, "there are no cases"
    assert not failures, f"{len(failures)} of {len(futures)} cases:\n" + "\n".join(failures)


def expect_words(text, words, told=None):
    """Checks that the text contains each of `words`, not only as a part of a longer word:
    `--gemm.k` is not in `--gemm.kk`, nor `1` in `16`. A failure shows `told`, or the text."""
    for word in map(str, words):
        whole = re.sub(r"^\b|\b$", r"\\b", re.escape(word))
        assert re.search(whole, text), f"'{word}' is missing:\n{told or text}"


def expect_complaint(finished, code, words):
    """Checks that one rank has printed one error, in one line, and nothing else. `words` are the
    words that it must contain: options, files, values, and a standard term if another error has the
    same code, option and value."""
    finished.expect(code)
    assert finished.out == "", finished
    assert re.fullmatch(r"(rank \d+: )?error: [^\n]+\n", finished.err), finished
    expect_words(finished.err, words, finished)


def expect_warning(finished, words):
    """Exactly one warning; it names `words`, as in expect_complaint()."""
    warnings = [line for line in finished.err.splitlines() if "warning: " in line]
    assert len(warnings) == 1, finished
    expect_words(warnings[0], words, finished)


def check_complaint(arguments, code, words, ranks, env=None):
    """The run ends soon, without a result and without other files. {out} in `arguments` stands for
    an empty folder."""
    out = new_folder()
    arguments = [str(argument).replace("{out}", str(out)) for argument in arguments]
    if not any(argument in ("-o", "--help") for argument in arguments):
        arguments += ["-o", str(out / ("study" if arguments[0] == "scale" else "out.h5"))]
    expect_complaint(run(*arguments, ranks=ranks, env=env, timeout=60), code, words)
    assert list(out.iterdir()) == [], list(out.iterdir())


def check_complaints(cases, ranks=(1, 2)):
    """Checks cases of (arguments, exit code, words[, environment]) on several numbers of ranks.
    After an error, Open MPI's launcher sleeps for a second, so many cases run at a time."""
    each([(case[0], case[1], case[2], n, *case[3:]) for case in cases for n in ranks],
         check_complaint, workers=8)


def preloaded(source):
    """The value of LD_PRELOAD for a library of this C source, or nothing without a C compiler."""
    if shutil.which("cc") is None:
        skip_part("there is no C compiler")
        return None
    folder = new_folder()
    (folder / "preloaded.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "preloaded.so",
                    folder / "preloaded.c", "-ldl"], check=True)
    return str(folder / "preloaded.so")


def new_folder():
    """An empty folder below the current one, so that cases do not see each other's files."""
    return pathlib.Path(tempfile.mkdtemp(dir=os.getcwd()))


def write_sparse(path, dtype, count, values):
    """Writes a contiguous data set /x of zeros, except for `values` {index: value}, that uses
    hardly any disk space."""
    import h5py  # not at the top, since it is large and memory.py must stay small
    import numpy
    with h5py.File(path, "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dataset = h5py.Dataset(h5py.h5d.create(
            file.id, b"x", h5py.h5t.py_create(numpy.dtype(dtype)),
            h5py.h5s.create_simple((count,)), creation))
        for index, value in values.items():
            dataset[index] = value


def part_files(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


def wait_until(holds, process):
    """Waits until holds() is true; fails if `process` ends before."""
    end = time.monotonic() + HANGS
    while not holds():
        assert process.poll() is None, f"ended too soon:\n{finish(process)}"
        if time.monotonic() > end:
            process.terminate()
            raise AssertionError(f"has not come about in {HANGS} s")
        time.sleep(0.005)


def ranks_below(process):
    """{rank: pid} of the program's processes that descend from `process`."""
    parents, ranks = {}, {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            pid = int(entry.name)
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if os.readlink(entry / "exe") == os.path.realpath(PROGRAM):
                variables = dict(pair.split("=", 1) for pair in
                                 (entry / "environ").read_text().split("\0") if "=" in pair)
                rank = [variables[name] for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                                     "PMIX_RANK") if name in variables]
                if rank:
                    ranks[pid] = int(rank[0])

    def descends(pid):
        while pid in parents and pid != process.pid:
            pid = parents[pid]
        return pid == process.pid
    return {rank: pid for pid, rank in ranks.items() if descends(pid)}


def expect_gone(pids):
    """Checks that all of these processes end within some seconds."""
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
        except OSError:
            return False
    end = time.monotonic() + 10
    while any(map(runs, pids)):
        assert time.monotonic() < end, f"some of the processes {pids} are still there"
        time.sleep(0.02)


def skip_part(why):
    """Prints that a part of a script is skipped; tests/run lists the line."""
    print(f"SKIP: {why}")


def skip_all(why):
    skip_part(why)
    sys.exit(77)


def why_no_gpu():
    """The program's message if it cannot compute on a GPU of this machine, else an empty text."""
    finished = run("run", "reduce", "--input.count", 1, "--device.backend", "cuda", "-o",
                   new_folder() / "out.h5")
    return "" if finished.code == 0 else finished.err.strip()


def main(fixture=None, on_gpu=False, always=False):
    """Calls the functions test_*() of the script, or those that are named, and ends the process.
    `fixture` is a context manager class whose value each test gets. In a build with CUDA, a script
    without `always` is skipped if there is no GPU, since it would repeat the test of the host
    build. With `on_gpu`, runs of one rank use the GPU, and are so compared with those on the
    host."""
    import __main__ as script
    global BACKEND_OF_ONE_RANK
    if os.environ.get("SHARDSTREAM_TEST_CUDA") == "ON" and not always:
        why = why_no_gpu()
        if why and os.environ.get("SHARDSTREAM_REQUIRE_GPU") == "1":
            sys.exit(f"FAILED: SHARDSTREAM_REQUIRE_GPU=1, but: {why}")
        if why:
            skip_all(f"the build without CUDA tests as much as this one without a GPU ({why})")
        if on_gpu:
            BACKEND_OF_ONE_RANK = "cuda"
    tests = [(name, test) for name, test in vars(script).items() if name.startswith("test_")]
    tests = [each for each in tests if len(sys.argv) == 1 or each[0] in sys.argv[1:]]
    failed = 0
    with contextlib.ExitStack() as stack:
        fixtures = [stack.enter_context(fixture())] if fixture else []
        for name, test in tests:
            began = time.monotonic()
            try:
                test(*fixtures)
                verdict = "ok"
            except Exception:  # pylint: disable=broad-except
                failed += 1
                verdict = "FAILED"
                traceback.print_exc(file=sys.stdout)
            print(f"{verdict} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{len(tests) - failed} of {len(tests)} tests passed")
    sys.exit(1 if failed or not tests else 0)
