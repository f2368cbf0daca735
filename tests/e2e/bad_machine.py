#!/usr/bin/python3
"""Errors of the launch and the machine: the number of ranks, GPUs, memory, and signals. No files
are left, and the program ends within seconds."""

import itertools
import re
import signal
import time

from harness import (check_complaints, each, expect_complaint, expect_gone, finish, main,
                     new_folder, part_files, ranks_below, run, start, wait_until)

RANKS = (1, 2)


def test_expected_ranks():
    reduce = ["run", "reduce", "--input.count", "1000"]
    data = ["generate", "--input.count", "1000", "-o", "{out}/x.h5:/x"]

    def expecting(ranks, arguments):
        return [*arguments, "--launch.expect-ranks", str(ranks)]

    check_complaints([(expecting(2, reduce), 2,
                       ["launch.expect-ranks", 2, "1 rank", "mpirun"]),
                      (expecting(4, data), 2, ["launch.expect-ranks", 4, "1 rank"]),
                      (expecting("two", reduce), 2, ["--launch.expect-ranks", "two"]),
                      ([*reduce, "--launch.bind", "core"], 2, ["--launch.bind", "core"])],
                     ranks=(1,))
    check_complaints([(expecting(1, reduce), 2, ["launch.expect-ranks", 1, "2 ranks"]),
                      (reduce, 2, ["launch.expect-ranks", 3, "2 ranks"],
                       {"SHARDSTREAM_LAUNCH_EXPECT_RANKS": "3"})], ranks=(2,))
    for ranks in RANKS:
        run(*expecting(ranks, reduce), "-o", new_folder() / "out.h5", ranks=ranks).expect(0)


def test_silent_singletons():
    """The launcher's environment names two ranks, but each process is an MPI world of its own."""
    check_complaints([(["run", "reduce", "--input.count", "1000"], 2,
                       ["2 processes", "PMI_SIZE", "srun --mpi=pmix"],
                       {"PMI_SIZE": "2"})], ranks=(1,))


def test_no_gpu():
    check_complaints([
        (["run", "reduce", "--input.count", "10", "--device.backend", "cuda"], 2,
         ["cuda", "--device.backend host"], {"CUDA_VISIBLE_DEVICES": ""}),
    ])


def test_memory():
    reduce = ["run", "reduce", "--input.count"]
    check_complaints([
        ([*reduce, "2^48", "--pipeline.batch", "100TiB"], 2, ["100 TiB", "--pipeline.gpu-memory"]),
        ([*reduce, "2^48", "--pipeline.slot", "100TiB", "--pipeline.batch", "100TiB",
          "--pipeline.gpu-memory", "1PiB"], 2, ["host", "--pipeline.slot"]),
        ([*reduce, "2^48", "--pipeline.mode", "resident"], 2, ["--pipeline.mode stream"]),
        ([*reduce, "2^45", "--pipeline.mode", "pinned"], 2, ["memory"]),
        ([*reduce, "1e7", "--pipeline.gpu-memory", "2MiB"], 2,
         ["2 MiB", "--pipeline.batch"]),
        ([*reduce, "1e7", "--pipeline.gpu-memory", "1KiB"], 2,
         ["1 KiB", "--pipeline.gpu-memory"]),
        ([*reduce, "2^62"], 2, [2**62, "f32"]),
    ])
    # A batch may be larger than all data.
    run("run", "reduce", "--input.count", 1e6, "--pipeline.batch", "100TiB", "-o",
        new_folder() / "out.h5").expect(0)


def test_memory_remedies():
    """The remedy in the message works if it is followed literally."""
    def check(arguments, limit, ranks):
        arguments = ["run", "reduce", *arguments, "-o", new_folder() / "out.h5"]
        finished = run(*arguments, "--pipeline.gpu-memory", limit, ranks=ranks).expect(2)
        remedy = re.search(r"(--pipeline\.\S+) (\d\S*)", finished.err)
        assert remedy, finished
        options = {"--pipeline.gpu-memory": limit, remedy[1]: remedy[2]}
        run(*arguments, *itertools.chain(*options.items()), ranks=ranks).expect(0)
    each([(["--input.count", "1e7"], "1MiB", 1), (["--input.count", "1e7"], "1MiB", 2),
          (["--input.count", "1e8"], "20MiB", 1), (["--input.count", "1e7"], "100KiB", 2),
          (["--input.count", "1e7", "--input.type", "f64"], "1KiB", 1)], check)


def test_ranks_share_the_memory_of_their_host():
    """Two ranks that would each take 60 % of the memory are rejected. A limit keeps a wrong program
    from taking it."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) * 1024 for line in file
                         if line.startswith("MemAvailable:"))
    out = new_folder()
    finished = run("run", "reduce", "--input.count", 2 * (available * 6 // 10 // 4),
                   "--pipeline.mode", "resident", "-o", out / "out.h5", ranks=2,
                   prefix=["prlimit", f"--as={available // 4}"])
    expect_complaint(finished, 2, ["memory"])
    assert list(out.iterdir()) == []


# ---------------------------------------------------------------- sudden ends

def start_long_run(out, ranks):
    """Starts a run of more than a minute and returns when it has been streaming for some time."""
    process = start("run", "reduce", "--input.count", "2^36", "-o", out / "out.h5", ranks=ranks)
    wait_until(lambda: part_files(out), process)
    time.sleep(0.7)
    return process


def test_killed_process():
    """The next run removes the files of a killed one."""
    out = new_folder()
    process = start_long_run(out, 1)
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    assert len(list(out.iterdir())) == len(part_files(out)) == 1
    run("run", "reduce", "--input.count", 10, "-o", out / "out.h5").expect(0)
    assert [path.name for path in out.iterdir()] == ["out.h5"]


def test_signals():
    """Signals to the only process, which the signal ends as usual, or to the launcher."""
    def check(number, ranks):
        out = new_folder()
        process = start_long_run(out, ranks)
        children = list(ranks_below(process).values())
        process.send_signal(number)
        finished = finish(process, timeout=10)
        if ranks == 1:
            assert finished.code == -number, finished
            assert finished.err == "", finished
        assert finished.code != 0, finished
        assert "error:" not in finished.err, f"nobody is to blame:\n{finished}"
        expect_gone(children)
        assert list(out.iterdir()) == [], finished
    each([(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 1), (signal.SIGTERM, 2),
          (signal.SIGINT, 2)], check)


def test_ignored_signals_stay_ignored():
    """SIGHUP under nohup, and SIGINT in background processes of a shell script."""
    out = new_folder()
    process = start("run", "reduce", "--input.count", "2^30", "-o", out / "out.h5",
                    prefix=["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"])
    wait_until(lambda: part_files(out), process)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    finish(process).expect(0)
    assert [path.name for path in out.iterdir()] == ["out.h5"]


def test_signal_while_generating():
    out = new_folder()
    for delay in (0, 0.05, 0.2):
        process = start("generate", "--input.count", "2^29", "-o", f"{out}/data.h5:/x")
        wait_until(lambda: part_files(out), process)
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        assert finish(process, timeout=10).code == -signal.SIGTERM
        assert list(out.iterdir()) == []


main()
