#!/usr/bin/python3
"""A rank that hangs or is killed: one sentence names it and where it was, the job ends soon with a
non-zero code, and neither files nor processes are left. And no such sentence in any other case."""

import contextlib
import os
import re
import signal
import subprocess
import time

from harness import (LAUNCHER, PROGRAM, each, environment, expect_gone, finish, main, new_folder,
                     part_files, ranks_below, run, start, wait_until)

TIMEOUT = 2  # seconds without movement
PHASE = r"(device|ceilings|allocate|load|stream|combine)\b"  # it may not have come far
PATIENCE = 20  # seconds for the end of a job, on a busy machine


@contextlib.contextmanager
def long_run(out, ranks):
    """A run of some minutes that has done some work; what is left of it afterwards is killed."""
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
    """One sentence, by that rank, which begins with the words."""
    assert finished.code not in (0, None), finished
    errors = [line for line in finished.err.splitlines() if "error: " in line]
    assert len(errors) == 1, finished
    assert re.match(rf"rank {speaker}: error: {words}", errors[0]), f"{words}\n{finished}"
    return errors[0]


def strike(number, victim, speaker, words):
    """Sends the signal to one of three ranks; `words` hold {pid}."""
    out = new_folder()
    with long_run(out, 3) as (process, pids):
        os.kill(pids[victim], number)
        finished = finish(process, PATIENCE)
        expect_named(finished, speaker, words.replace("{pid}", str(pids[victim])))
        expect_gone(pids.values())
        assert not list(out.iterdir()), list(out.iterdir())
    return finished


def test_killed_rank():
    def check(victim, speaker):
        finished = strike(
            signal.SIGKILL, victim, speaker,
            rf"rank {victim} \(\S+, pid {{pid}}\) has ended in phase {PHASE}")
        assert finished.seconds < 10, finished
    each([(0, 1), (1, 0), (2, 0)], check, workers=1)


def test_stopped_rank():
    """It is named when the others have come to wait for it, and killed."""
    def check(victim, speaker):
        finished = strike(
            signal.SIGSTOP, victim, speaker,
            rf"nothing has moved for {TIMEOUT} s .*"
            rf"\brank {victim} \(\S+, pid {{pid}}\) hangs in phase {PHASE}.*"
            r"not heard from for \d+ s")
        assert finished.seconds >= TIMEOUT - 1, finished
    each([(0, 1), (1, 0), (2, 0)], check, workers=1)


def full_pipe():
    """Both ends of a pipe that takes no more."""
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
    """Rank 0 cannot print its result, since nobody reads it: its process is well, but hangs. On one
    rank, and on two, of which the other waits and rank 0's shell leads it past the launcher."""
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
        sentence = (rf"nothing has moved for {TIMEOUT} s \(comm.timeout\): rank 0 \(.*\) hangs in "
                    "phase store")
        if ranks == 1:
            assert re.match(rf"error: {sentence}\n$", finished.err), finished
        else:
            expect_named(finished, 0, rf"{sentence}; rank 1 waits in store$")
    each([(1,), (2,)], check, workers=1)


def test_whole_job_stopped():
    """Time in which nobody ran counts for nobody."""
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
    """Longer than comm.timeout, without a word."""
    out = new_folder()
    passes, seconds = 100, 0.0
    while seconds < 2.5 * TIMEOUT:
        finished = run("run", "reduce", "--input.count", "2^22", "--measure.repeat", passes,
                       "--comm.timeout", f"{TIMEOUT}s", "-o", out / f"{passes}.h5",
                       ranks=3).expect(0)
        assert finished.err == "", finished
        seconds, passes = finished.seconds, 3 * passes


def test_bad_timeout():
    for text in ("0.5s", "30", "soon"):
        finished = run("run", "reduce", "--comm.timeout", text, ranks=2).expect(2)
        assert "comm.timeout" in finished.err and finished.err.count("\n") == 1, finished


main()
