#!/usr/bin/python3
"""A rank that hangs or is killed: one error names it and its phase, the job ends soon with a
non-zero exit code, and neither files nor processes are left. In all other cases, there is no such
error."""

import contextlib
import os
import re
import signal
import subprocess
import time

from harness import (LAUNCHER, PROGRAM, each, environment, expect_complaint, expect_gone,
                     expect_words, finish, main, new_folder, part_files, ranks_below, run, start,
                     wait_until)

TIMEOUT = 2  # seconds without progress
PHASE = r"(device|ceilings|allocate|load|stream|combine)\b"  # it may be in an early phase
START = 15  # seconds in which ranks may start, if comm.timeout is less
PATIENCE = 20  # seconds for the end of a job, on a busy machine


@contextlib.contextmanager
def long_run(out, ranks):
    """A run of some minutes that has done some work. Its remaining processes are killed at the
    end."""
    process = start("run", "reduce", "--input.count", "2^22", "--measure.repeat", "1000000",
                    "--comm.timeout", f"{TIMEOUT}s", "-o", out / "out.h5", ranks=ranks)
    wait_until(lambda: part_files(out), process)
    time.sleep(1)
    pids = ranks_below(process)
    try:
        assert sorted(pids) == list(range(ranks)), pids
        yield process, pids
    finally:
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def expect_named(finished, speaker, words):
    """One error, printed by `rank` (None: the only rank), that contains these words."""
    assert finished.code not in (0, None), finished
    errors = [line for line in finished.err.splitlines() if "error: " in line]
    prefix = "error: " if speaker is None else f"rank {speaker}: error: "
    assert len(errors) == 1 and errors[0].startswith(prefix), finished
    expect_words(errors[0], words, finished)


def strike(number, victim, speaker, words):
    """Sends the signal to one of three ranks. The error names that rank, its process, its phase and
    `words`."""
    out = new_folder()
    with long_run(out, 3) as (process, pids):
        os.kill(pids[victim], number)
        finished = finish(process, PATIENCE)
        expect_named(finished, speaker,
                     [f"rank {victim}", f"pid {pids[victim]}", *words])
        assert re.search(rf"rank {victim} \([^)]*\) [^;]*phase {PHASE}", finished.err), finished
        expect_gone(pids.values())
        assert not list(out.iterdir()), list(out.iterdir())
    return finished


def test_killed_rank():
    def check(victim, speaker):
        finished = strike(signal.SIGKILL, victim, speaker, ["ended"])
        assert finished.seconds < 10, finished
    each([(0, 1), (1, 0), (2, 0)], check, workers=1)


def test_stopped_rank():
    """It is named once the others wait for it, and is killed."""
    def check(victim, speaker):
        finished = strike(signal.SIGSTOP, victim, speaker,
                          [f"{TIMEOUT} s", "comm.timeout", "hangs"])
        assert finished.seconds >= TIMEOUT - 1, finished
    each([(0, 1), (1, 0), (2, 0)], check, workers=1)


def test_rank_stopped_before_mpi():
    """A rank that stops before MPI has started cannot be named. Another one prints the error."""
    def check(victim, speaker):
        out = new_folder()
        program = [PROGRAM, "run", "reduce", "--input.count", "1000", "--comm.timeout",
                   f"{TIMEOUT}s", "-o", str(out / "out.h5")]
        stopped = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh"]
        words = [*LAUNCHER, "-q"]
        for rank in range(2):
            words += [*([":"] if rank > 0 else []), "-n", "1", *(stopped if rank == victim else []),
                      *program]
        process = subprocess.Popen(words, env=environment(ranks=2), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finished = finish(process, START + PATIENCE).expect(1)
        expect_named(finished, speaker, ["comm.timeout", f"{START} s", "started"])
        assert finished.seconds >= START - 1, finished
        assert not list(out.iterdir()), list(out.iterdir())
    each([(0, 1), (1, 0)], check)


def test_rank_stopped_in_mpi():
    """The rank stops soon after it has started: in MPI_Init, or while the ranks connect. Each case
    ends, whatever the rank has reached."""
    def check(delay):
        out = new_folder()
        process = start("run", "reduce", "--input.count", "1000", "--comm.timeout", f"{TIMEOUT}s",
                        "-o", out / "out.h5", ranks=2)
        wait_until(lambda: len(ranks_below(process)) == 2, process)
        pid = ranks_below(process)[1]
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        finished = finish(process, START + PATIENCE)
        assert finished.code in (0, 1, 137), finished
        assert finished.code == 0 or "comm.timeout" in finished.err, finished
        expect_gone([pid])
    each([(0,), (0.02,), (0.05,), (0.1,)], check)


def full_pipe():
    """Both ends of a pipe that is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x")
    os.set_blocking(writing, True)
    return reading, writing


def test_hanging_main_thread():
    """Rank 0 cannot print its result, since the pipe has no reader: its process runs, but hangs. On
    one rank, and on two, of which the other one waits, and a shell connects rank 0 directly to the
    pipe."""
    def check(ranks):
        out = new_folder()
        reading, writing = full_pipe()
        words = [PROGRAM, "run", "reduce", "--input.count", "1000", "--comm.timeout", f"{TIMEOUT}s",
                 "-o", str(out / "out.h5")]
        if ranks > 1:
            redirect = ["sh", "-c", f'exec "$@" >/proc/{os.getpid()}/fd/{writing}', "sh"]
            words = [*LAUNCHER, "-q", "-n", str(ranks), *redirect, *words]
        process = subprocess.Popen(words, env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=writing if ranks == 1 else subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        finished = finish(process, PATIENCE).expect(1)
        os.close(reading)
        os.close(writing)
        words = [f"{TIMEOUT} s", "comm.timeout", "rank 0", "hangs", "store"]
        if ranks == 1:
            expect_named(finished, None, words)
        else:
            expect_named(finished, 0, [*words, "rank 1 waits"])
    each([(1,), (2,)], check, workers=1)


def test_whole_job_stopped():
    """Time during which no rank runs does not count."""
    out = new_folder()
    with long_run(out, 2) as (process, pids):
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2 * TIMEOUT)
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        assert process.poll() is None, finish(process)
        process.terminate()
        assert "error:" not in finish(process, PATIENCE).err


def test_long_phase_that_moves():
    """A phase of more than comm.timeout is no hang if the rank makes progress. A busy disk may take
    some seconds to store the result."""
    out = new_folder()
    passes, seconds, timeout = 100, 0.0, 5
    while seconds < 1.5 * timeout:
        finished = run("run", "reduce", "--input.count", "2^22", "--measure.repeat", passes,
                       "--comm.timeout", f"{timeout}s", "-o", out / f"{passes}.h5",
                       ranks=3).expect(0)
        assert "error: " not in finished.err, finished  # there may be lines of progress
        seconds, passes = finished.seconds, 3 * passes


def test_bad_timeout():
    for text in ("0.5s", "30", "soon"):
        expect_complaint(run("run", "reduce", "--comm.timeout", text, ranks=2), 2,
                         ["comm.timeout", text])


main()
