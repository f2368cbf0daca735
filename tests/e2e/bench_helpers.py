#!/usr/bin/python3
"""The helper processes of `bench`: their internal command and, on a GPU, their end; and kernels of
expressions, which helper processes compile and run."""

import contextlib
import json
import math
import os
import pathlib
import signal
import tempfile

import h5py

from harness import (check_complaints, each, expect_complaint, expect_gone, expect_words, finish,
                     main, new_folder, run, skip_part, start, wait_until)

NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}  # makes MPI_Init of Open MPI fail
SHARING = ["bench", "sharing", "--quick", "--sharing.size", "64MiB", "--sharing.processes", 3]
ON_A_GPU = os.environ.get("SHARDSTREAM_TEST_CUDA") == "ON"


def test_the_command_is_internal():
    for arguments, words in ((["sharing"], ["bench-helper"]), (["startup"], ["bench-helper"]),
                             (["stride"], ["stride"]),
                             (["strid"], ["strid", "stride"]), ([], ["bench-helper", "--list"])):
        expect_complaint(run("bench-helper", *arguments, env=NO_MPI), 2, words)
    assert "bench-helper" not in run("--help", env=NO_MPI).expect(0).out


def test_options_out_of_range():
    check_complaints([(["bench", "sharing", "--sharing.processes", 17], 2,
                       ["sharing.processes", "17"]),
                      (["bench", "startup", "--startup.processes", 0], 2,
                       ["startup.processes", "1..1000"]),
                      (["bench", "concurrency", "--concurrency.most", 513], 2,
                       ["concurrency.most", "513"])])


STAGES = ["process", "mpi", "driver", "context", "modules", "kernel", "communicator"]


def test_starts_without_a_gpu():
    """Each start has the stages of a process and of MPI, also below a launcher, and no process is
    left."""
    def check(ranks):
        path = new_folder() / "bench.h5"
        finished = run("bench", "startup", "--startup.processes", 1, "--device.backend", "host",
                       "-o", path, ranks=ranks).expect(0)
        with h5py.File(path) as file:
            rows = file["bench/startup/rows"][...]
        assert [row["rank"] for row in rows].count(0) * ranks == len(rows), finished
        settings = [(row["part"].decode(), row["setting"].decode())
                    for row in rows[rows["rank"] == 0]]
        assert settings[0] == ("all", "as a run"), finished
        assert settings[1:] == [] or settings[2] == ("MPI", "OMPI_MCA_pml=ob1"), finished
        for row in rows:
            times = [float(row[stage]) for stage in STAGES]
            assert all(time > 0 for time in times[:2]), row
            assert all(math.isnan(time) for time in times[2:]), row
            assert abs(sum(times[:2]) - row["total"]) < 1e-6 * row["total"], row
        expect_words(finished.out, ["Amdahl"])
    each([(1,), (2,)], check)


def test_starts_on_a_gpu():
    """Each part has its stages, and the folder of the JIT cache is removed."""
    if not ON_A_GPU:
        skip_part("the other stages need a GPU")
        return
    folder = new_folder()
    finished = run("bench", "startup", "--quick", "-o", folder / "bench.h5",
                   env={"TMPDIR": str(folder)}).expect(0)
    assert list(folder.glob("shardstream-cache-*")) == [], list(folder.iterdir())
    with h5py.File(folder / "bench.h5") as file:
        state, = file["bench/experiments"]["state"]
        if state == b"not available":
            skip_part(finished.out)
            return
        rows = {row["setting"].decode(): row for row in file["bench/startup/rows"][...]}
    for row in rows.values():
        measured = {stage for stage in STAGES if not math.isnan(row[stage])}
        assert {"process", "driver", "context", "modules"} < measured, (measured, finished)
        assert (row["part"] == b"GPU") == ("mpi" not in measured), (measured, finished)
        assert all(row[stage] > 0 for stage in measured), finished
    if "PTX, no cache" in rows:  # not in a program without PTX for this GPU
        assert rows["PTX, no cache"]["kernel"] > rows["lazy loading"]["kernel"], finished
    assert rows["lazy loading"]["modules"] < rows["eager loading"]["modules"], finished


def helpers_of(process):
    """The helpers that `process` has started and that still run."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if parent == process.pid and b"bench-helper" in words:
                found.append(int(entry.name))
    return found


def start_with_helpers(*arguments):
    """A run of `sharing` that has started its helpers, and their processes."""
    process = start(*SHARING, "--measure.repeat", 60, *arguments)
    wait_until(lambda: len(helpers_of(process)) == 3, process)
    return process, helpers_of(process)


def test_signals_leave_no_helper():
    if not ON_A_GPU:
        skip_part("helpers run on a GPU only")
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process, helpers = start_with_helpers()
        process.send_signal(number)
        assert finish(process, timeout=10).code == -number
        expect_gone(helpers)


def test_helpers_that_lose_their_gpu_or_print():
    """A misaligned load ends the context of its process alone, and lines that a kernel prints do
    not go to the output."""
    if not ON_A_GPU:
        skip_part("helpers run on a GPU only")
        return
    finished = run("bench", "alignment", "scheduling", "stride", "--quick", "--json").expect(0)
    told = {each["name"]: each for each in json.loads(finished.out)["experiments"]}
    assert {each["state"] for each in told.values()} == {"measured"}, told
    expect_words(" ".join(told["alignment"]["notes"]), ["cudaErrorMisalignedAddress"])
    expect_words(" ".join(told["scheduling"]["notes"]), ["printed", "of 512 lines"])


def test_a_helper_that_dies():
    """The experiment fails with the cause, and the next one is measured."""
    if not ON_A_GPU:
        skip_part("helpers run on a GPU only")
        return
    path = new_folder() / "bench.h5"
    process, helpers = start_with_helpers("bandwidth", "-o", path)
    os.kill(helpers[1], signal.SIGKILL)
    finished = finish(process).expect(1)
    expect_words(finished.out, ["sharing", "signal 9", "of 3"])
    expect_gone(helpers)
    with h5py.File(path) as file:
        states = {row["experiment"]: row["state"] for row in file["bench/experiments"][...]}
    assert states == {b"sharing": b"failed", b"bandwidth": b"measured"}, states


def test_a_helper_that_hangs_ends_with_the_run():
    if not ON_A_GPU:
        skip_part("helpers run on a GPU only")
        return
    process, helpers = start_with_helpers()
    os.kill(helpers[0], signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    finish(process, timeout=10)
    expect_gone(helpers)


# ---------------------------------------------------------------- expressions

def compile_at_run_time(expression, *arguments, **others):
    """The end of `runtime-compile`, its row in the file, and its table if it was measured."""
    path = new_folder() / "bench.h5"
    finished = run("bench", "runtime-compile", "--runtime-compile.map", expression, "--quick",
                   *arguments, "-o", path, **others)
    with h5py.File(path) as file:
        row, = file["bench/experiments"][...]
        measured = row["state"] == b"measured"
        return finished, row, file["bench/runtime-compile/rows"][...] if measured else None


def test_wrong_expressions():
    """They are rejected with the column of the error. Without NVRTC, only their form is checked."""
    def check(expression, words, needs_compiler):
        finished, row, _ = compile_at_run_time(expression, "--device.backend", "host")
        if needs_compiler and row["state"] == b"not available":
            finished.expect(0)
            expect_words(row["message"].decode(), ["NVRTC"])
            return
        finished.expect(2)
        assert row["state"] == b"rejected", row
        expect_words(row["message"].decode(), ["--runtime-compile.map", *words])
    each([("", ["''"], False), ("x\n+1", ["'x\\x0a+1'"], False),
          ("sqrt(x*x+y)", ["'sqrt(x*x+y)'", "column 10:", '"y"'], True),
          ("x*(x", ["'x*(x'", "end"], True), ('"x"', ["'\"x\"'"], True)], check)


def test_expressions_become_kernels():
    """All ways to compile one give the same bits, those of the precompiled kernel too. A filled
    cache makes PTX load faster, and the user's own one is not touched."""
    if not ON_A_GPU:
        skip_part("kernels run on a GPU only")
        return
    home = pathlib.Path(tempfile.mkdtemp())
    finished, row, table = compile_at_run_time("sqrt(x * x + 1)", "--runtime-compile.size", "1MiB",
                                               env={"CUDA_CACHE_PATH": str(home / "cache")})
    if row["state"] == b"not available":
        skip_part(row["message"].decode())
        return
    finished.expect(0)
    load = {each["cache"]: each["load"] + each["launch"] for each in table
            if each["way"] == b"NVRTC to PTX"}
    assert load[b"filled"] < load[b"off"], load
    nvrtc = [each for each in table if each["way"].startswith(b"NVRTC")]
    assert all(b"precompiled" in each["remark"] for each in nvrtc), table
    assert not [each for each in home.rglob("*") if each.is_file()], list(home.rglob("*"))
    _, row, table = compile_at_run_time("x < 0 ? -x : x / 3", "--runtime-compile.size", "1MiB")
    assert row["state"] == b"measured", row
    assert all(b"not verified" in each["remark"] for each in table
               if each["way"].startswith(b"NVRTC")), table
    finished, row, _ = compile_at_run_time("*static_cast<volatile float*>(nullptr)")
    assert finished.code == 1 and row["state"] == b"failed", row


main(on_gpu=True)
