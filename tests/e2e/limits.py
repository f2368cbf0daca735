#!/usr/bin/python3
"""Runs within limits of the system (ulimit): each succeeds, or ends soon with one sentence that
names the limit and its value, and leaves no files. Failures of MPI itself to start do not count."""

import os
import pathlib
import re
import shutil
import subprocess

import h5py

from harness import (LAUNCHER, PROGRAM, each, environment, expect_complaint, expect_words, finish,
                     main, new_folder, part_files, skip_part)

RANKS = (1, 2)
SOON = 60  # seconds; a rank that spins does so until comm.timeout


def run_within(limit, arguments, ranks, cwd):
    """Runs the program with `limit`, a shell command, in force for each rank, but not for the
    launcher."""
    words = ["bash", "-c", f'{limit}; exec "$@"', "bash", PROGRAM, *map(str, arguments)]
    if ranks > 1:
        words = [*LAUNCHER, "-q", "-n", str(ranks), *words]
    return finish(subprocess.Popen(
        words, env=environment({"HOME": str(cwd)}), cwd=cwd, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"), SOON)


def own_errors(finished):
    return re.findall(r"^(?:rank \d+: )?error: .*$", finished.err, re.MULTILINE)


# ---------------------------------------------------------------- ulimit -f

def test_file_size():
    gemm = ["run", "gemm", "--gemm.m", 2048, "--gemm.n", 2048, "--gemm.k", 64, "-o", "out.h5"]
    generate = ["generate", "--input.count", "2^24", "-o", "out.h5:/x"]

    def check(arguments, ranks, kilobytes):
        folder = new_folder()
        finished = run_within(f"ulimit -f {kilobytes}", arguments, ranks, folder)
        expect_complaint(finished, 2, ["output.file", "ulimit -f", f"{kilobytes} KiB", "out.h5"])
        assert list(folder.iterdir()) == [], finished
    each([(arguments, ranks, kilobytes) for arguments in (gemm, generate) for ranks in RANKS
          for kilobytes in (6000, 15000)], check)


def test_result_that_fits():
    folder = new_folder()
    run_within("ulimit -f 6000", ["run", "reduce", "--input.count", 1000, "-o", "out.h5"], 1,
               folder).expect(0)
    before = (folder / "out.h5").read_bytes()
    gemm = ["run", "gemm", "--gemm.m", 2048, "--gemm.n", 2048, "--gemm.k", 64, "-o", "out.h5",
            "--output.overwrite", "true"]
    run_within("ulimit -f 6000", gemm, 1, folder).expect(2)
    assert (folder / "out.h5").read_bytes() == before
    assert part_files(folder) == []


def test_tables_beyond_the_file_size():
    """The tables exceed the reserved size: HDF5 reaches the limit, and must not crash when it
    ends."""
    def check(ranks):
        folder = new_folder()
        finished = run_within("ulimit -f 5000", [
            "run", "reduce", "--input.count", "2^22", "--pipeline.batch", "256KiB",
            "--pipeline.slot", "64KiB", "--measure.timeline", "true", "--measure.repeat", 300, "-o",
            "out.h5"], ranks, folder).expect(1)
        errors = own_errors(finished)
        assert len(errors) == 1, finished
        expect_words(errors[0], ["ulimit -f", "5000 KiB"])
        assert list(folder.iterdir()) == [], finished
    each([(ranks,) for ranks in RANKS], check)


# ---------------------------------------------------------------- ulimit -n

def test_files_behind_a_virtual_data_set():
    """HDF5 keeps all of them open, and treats a file that it cannot open as missing."""
    folder, files = new_folder(), 220
    layout = h5py.VirtualLayout((files,), "i4")
    for number in range(files):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file["x"] = [1]
        layout[number:number + 1] = h5py.VirtualSource(f"{number}.h5", "x", (1,))
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
        source = h5py.h5s.create_simple((1,))
        space = h5py.h5s.create_simple((files,), (h5py.h5s.UNLIMITED,))
        space.select_hyperslab((0,), (h5py.h5s.UNLIMITED,), (1,), (1,))
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_virtual(space, b"%b.h5", b"x", source)
        h5py.h5d.create(file.id, b"numbered", h5py.h5t.NATIVE_INT32, space, creation)

    def check(limit, path, ranks):
        reduce = ["run", "reduce", "--input.data", f"in.h5:{path}", "-o", f"{new_folder()}/out.h5"]
        finished = run_within(f"ulimit {limit} 200", reduce, ranks, folder)
        if limit == "-n":
            expect_complaint(finished, 2, [path, "ulimit -n", 200])
        else:
            assert finished.expect(0).values["sum"] == str(files), finished
    each([("-n", "/v", 1), ("-n", "/numbered", 2), ("-Sn", "/v", 2), ("-Sn", "/numbered", 1)],
         check)


# ---------------------------------------------------------------- ulimit -v and -u

REDUCE = ["run", "reduce", "--input.count", "2^22", "-o", "out.h5"]
GEMM = ["run", "gemm", "--gemm.m", 700, "--gemm.n", 700, "--gemm.k", 500, "-o", "out.h5"]
GENERATE = ["generate", "--input.count", "2^20", "-o", "out.h5:/x"]


def outcome_of(finished, folder, limit):
    """"done", "error" that names `limit`, or "MPI" if MPI could not start."""
    left = sorted(path.name for path in folder.iterdir())
    errors = own_errors(finished)
    if finished.code == 0:
        assert errors == [] and "out.h5" in left, finished
        return "done"
    assert not any("out.h5" in name for name in left), f"{left}\n{finished}"
    if not errors:
        assert finished.code > 0 and finished.out == "" and finished.err, finished
        return "MPI"
    assert len(errors) == 1, finished
    expect_words(errors[0], limit)
    assert finished.code in (1, 2) and finished.out == "", finished
    return "error"


def test_address_space():
    seen = []

    def check(arguments, ranks, kilobytes):
        folder = new_folder()
        finished = run_within(f"ulimit -v {kilobytes}", arguments, ranks, folder)
        seen.append(outcome_of(finished, folder, ["ulimit -v", f"{kilobytes} KiB"]))
    each([(arguments, ranks, kilobytes) for arguments in (REDUCE, GEMM) for ranks in RANKS
          for kilobytes in (265_000, 350_000, 450_000, 550_000, 650_000, 800_000, 64_000_000)],
         check, workers=3)
    assert seen.count("error") >= 4 and seen.count("done") >= 4, seen


def test_address_space_of_one_rank():
    """The limit rises until MPI starts on rank 1: the memory that MPI needs depends on the machine
    and on the order of its threads."""
    def check(arguments):
        outcomes = []
        for kilobytes in (300_000, 340_000, 380_000, 420_000):
            folder = new_folder()
            finished = run_within(
                f"test ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} = 0 || ulimit -v {kilobytes}",
                arguments, 2, folder)
            outcomes.append(outcome_of(finished, folder, ["ulimit -v", f"{kilobytes} KiB"]))
            if outcomes[-1] != "MPI":
                break
        assert outcomes[-1] == "error", f"{outcomes}\n{finished}"
    each([(REDUCE,), (GEMM,)], check)


def test_commands_without_mpi_need_little():
    """OpenBLAS, which would start threads with large buffers, is only loaded for products."""
    folder = new_folder()
    for words in (["--version"], ["run", "--help"]):
        run_within("ulimit -v 150000", words, 1, folder).expect(0)


def test_threads():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return skip_part("limits of threads need root, who can become a user without processes")
    seen = []

    def check(number, arguments, threads):
        user = 54321 + number  # one each: the limit counts all processes of a user
        folder = new_folder()
        folder.chmod(0o777)
        finished = run_within(
            f"exec setpriv --reuid {user} --clear-groups prlimit --nproc={threads} "
            '"$@"', arguments, 1, folder)
        seen.append(outcome_of(finished, folder, ["ulimit -u", threads]))
    pathlib.Path.cwd().chmod(0o755)
    cases = [(arguments, threads) for arguments in (REDUCE, GEMM, GENERATE)
             for threads in (1, 6, 8, 9, 10, 11, 12, 14, 4000)]
    each([(number, *case) for number, case in enumerate(cases)], check)
    assert "error" in seen and "done" in seen, seen


if __name__ == "__main__":
    main()
