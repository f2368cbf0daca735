#!/usr/bin/python3
"""`scale` ends soon after a signal, whatever it is doing, and leaves no process and no part file,
even if it is killed and its launcher is a script that forwards no signals."""

import contextlib
import os
import pathlib
import re
import signal
import time
import uuid

from harness import (each, expect_gone, expect_words, finish, main, new_folder, ranks_below,
                     run, start, wait_until, write_sparse)
from studies import MPIRUN, QUICK, attempts, script, study

SOON = 3  # seconds from a signal to the end, on a busy machine


def expect_end(process, code, seconds=SOON):
    began = time.monotonic()
    finished = finish(process, 60).expect(code)
    assert time.monotonic() - began < seconds, f"{time.monotonic() - began:.1f} s\n{finished}"
    return finished


def marked(mark):
    """{pid: command line} of the processes that have inherited the environment variable MARK."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if f"MARK={mark}\0" in (entry / "environ").read_text():
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    return found


def test_an_interrupted_study_leaves_no_process():
    for number, after in ((signal.SIGINT, 1.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 1.5)):
        folder = new_folder() / "study"
        process = start("scale", "model", *QUICK, "--model.work", "20s", "--scale.ranks", "2",
                        "-o", folder)
        wait_until(lambda: len(ranks_below(process)) == 2, process)  # pylint: disable=W0640
        pids = ranks_below(process)
        time.sleep(after / 10)
        process.send_signal(number)
        finished = finish(process, 60)
        expect_gone(pids.values())
        if number != signal.SIGKILL:
            finished.expect(75)
        assert not list(folder.glob("*.h5")), list(folder.iterdir())


def test_signals_while_inputs_are_read():
    """A sparse file of 160 GB takes many seconds to read."""
    data = new_folder() / "sparse.h5"
    write_sparse(data, "f4", 40 * 10**9, {})

    def check(number, env):
        folder = new_folder() / "study"
        process = start("scale", "reduce", "--input.data", f"{data}:/x", "--scale.ranks", 1,
                        "-o", folder, env=env)
        wait_until((folder / "attempts.jsonl").exists, process)
        time.sleep(0.2)
        process.send_signal(number)
        expect_end(process, 75)
        assert attempts(folder) == [], attempts(folder)
    each([(signal.SIGINT, None), (signal.SIGHUP, None), (signal.SIGTERM, {"SLURM_JOB_ID": "47"}),
          (signal.SIGUSR1, None)], check)


def test_an_input_that_becomes_a_fifo():
    """The input is read again before the second attempt, which must not wait for a writer."""
    folder = new_folder()
    data = folder / "sea.h5"
    run("generate", "--input.count", 1000, "-o", f"{data}:/x").expect(0)
    swap = f"rm -f {data}; mkfifo {data}; exit 9"
    finished = run("scale", "reduce", "--input.data", f"{data}:/x", "--measure.repeat", 1,
                   "--scale.ranks", 1, "--scale.replicates", 1, "--scale.launcher",
                   script(folder, swap), "-o", folder / "study", timeout=20)
    expect_words(finished.expect(1).err, [data, "regular"], finished)


def test_launchers_that_do_not_forward_signals():
    """The supervisor of a launch ends all of its descendants, also those in other sessions and
    those that ignore SIGTERM. It keeps no file of the study open but the log."""
    lone = f"setsid {MPIRUN} & wait"
    stubborn = f"trap '' TERM; {MPIRUN} & wait; sleep 600"

    def check(text, number, code):
        folder, mark = new_folder(), str(uuid.uuid4())
        kept = os.open(folder, os.O_RDONLY)
        os.set_inheritable(kept, True)  # as from a shell
        process = start("scale", "model", *QUICK, "--model.work", "300s", "--scale.ranks", 2,
                        "--scale.launcher", script(folder, f"ls -l /proc/$$/fd >&2; {text}"),
                        "-o", folder / "study", env={"MARK": mark})
        os.close(kept)
        wait_until(lambda: len(ranks_below(process)) == 2, process)
        for pid, line in marked(mark).items():
            with contextlib.suppress(OSError):
                files = [os.readlink(f"/proc/{pid}/fd/{name}")
                         for name in os.listdir(f"/proc/{pid}/fd")]
                assert pid == process.pid or not any("attempts.jsonl" in each for each in files), (
                    line, files)
        process.send_signal(number)
        finished = finish(process, 60)
        finished.expect(code)
        if number != signal.SIGKILL:
            assert not marked(mark), marked(mark)
        expect_gone(marked(mark))
        assert not marked(mark), marked(mark)
        logged = (folder / "study/logs/calibration-a1.log").read_text()
        assert set(re.findall(r" (\d+) -> ", logged)) == {"0", "1", "2", "255"}, logged
        assert [path for path in (folder / "study").iterdir() if path.name.endswith("part")] == []
    each([(lone, signal.SIGKILL, -9), (stubborn, signal.SIGKILL, -9), (lone, signal.SIGINT, 75),
          (stubborn, signal.SIGINT, 75)], check)


def test_timeouts_and_signals_of_launches():
    """The limit that was set is reported, and how the launch has ended."""
    options = ["--model.work", "20ms", "--scale.ranks", 1, "--scale.replicates", 1]

    def too_long():
        folder = new_folder()
        stubborn = f"[[ -e {folder}/x ]] && exit 2; touch {folder}/x; trap '' TERM; sleep 600"
        finished = run("scale", "model", *QUICK, *options, "--scale.timeout", "1s",
                       "--scale.launcher", script(folder, stubborn), "-o", folder / "study",
                       timeout=60).expect(2)
        expect_words(finished.err, ["1 s", "--scale.timeout", "SIGKILL"], finished)
        assert finished.seconds < 1 + 5 + SOON, finished

    def ignored():
        """Under nohup, the study continues."""
        folder = new_folder()
        process = start("scale", "model", *QUICK, *options, "-o", folder / "study",
                        prefix=["nohup"])
        wait_until((folder / "study/attempts.jsonl").exists, process)
        process.send_signal(signal.SIGHUP)
        finish(process).expect(0)

    def warned():
        """After the warning of a queue, a launch that fails is not tried again."""
        folder = new_folder()
        slow = f"touch {folder}/begun; sleep 1; exit 9"
        process = start("scale", "model", *QUICK, *options, "--scale.launcher",
                        script(folder, slow), "-o", folder / "study")
        wait_until((folder / "begun").exists, process)
        process.send_signal(signal.SIGUSR1)
        finish(process).expect(75)
        assert [each["exit_code"] for each in attempts(folder / "study")] == [9]

    def not_executable():
        folder = new_folder()
        launcher = script(folder, "")
        (folder / "launcher").write_text("#!/no/such/shell\n")
        finished = run("scale", "model", *QUICK, *options, "--scale.launcher", launcher, "-o",
                       folder / "study").expect(1)
        expect_words(finished.err, [folder / "launcher", "scale.launcher"], finished)
    each([(too_long,), (ignored,), (warned,), (not_executable,)], lambda check: check())


if __name__ == "__main__":
    main()
