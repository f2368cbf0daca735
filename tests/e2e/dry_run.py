#!/usr/bin/python3
"""`run WORKLOAD --dry-run` with assumed rates: the plan that it prints without starting MPI, and
the errors that would end the run."""

import os
import pathlib
import re

import h5py
import numpy as np

from dry_runs import dry, expect, with_sizes
from harness import check_complaints, expect_complaint, main, new_folder, run

ON_HOST = {"SHARDSTREAM_DEVICE_BACKEND": "host"}
ON_GPUS = {"SHARDSTREAM_DEVICE_BACKEND": "cuda"}  # no GPU is needed


def test_a_product_on_gpus_that_are_elsewhere():
    sizes = ["--gemm.m", "65536", "--gemm.n", "65536", "--gemm.k", "65536", "--output.store",
             "false"]  # 16 GiB, more than this disk may have
    text = dry("gemm", *sizes, "--ranks", 16, "--gpus-per-node", 4, env=ON_GPUS)
    expect(text, "dry run of gemm on 16 ranks, 4 per host", "backend: cuda", "device.backend",
           "hosts: 4, with 4 ranks each, from --gpus-per-node",
           "link_up 50 GB/s", "all_gather 20 GB/s", "multiply_fp32 50000 Gflop/s", "device memory",
           "--rates", "C: 65536 x 65536 in fp32, 16 x 16 tiles of 4096 x 4096", "decomposition: ",
           "considered: rows: ", "grid 4 x 4: ", "split-k: ", "rank 0 of 16", "predicted: ")
    assert "of disk" not in text, text
    expect(dry("gemm", env=ON_GPUS), "result: ", "64 MiB of disk")
    assert "all_gather" not in dry("gemm", *sizes, env=ON_GPUS)  # one rank
    small = dry("gemm", *sizes, "--pipeline.gpu-memory", "2GiB", env=ON_GPUS)
    expect(small, "of 2 GiB: ")
    assert "device memory 74" not in small, small  # not assumed, since the option is set
    long_sums = dry("gemm", "--gemm.m", 4096, "--gemm.n", 4096, "--gemm.k", "2^22", "--ranks", 8,
                    env=ON_GPUS)
    expect(long_sums, "decomposition: split-k 1 x 1 x 8", "64 segments", "considered: rows: ")
    tall = dry("gemm", "--gemm.m", 16384, "--gemm.n", 4096, "--gemm.k", "2^26", "--ranks", 256,
               env=ON_GPUS)
    expect(tall, "decomposition: split-k 4 x 1 x 64", "all-gathers ")
    boxed = dry("gemm", "--gemm.m", 4096, "--gemm.n", 4096, "--gemm.k", "2^22", "--product.box",
                "2x1x16", "--ranks", 40, env=ON_GPUS,
                warnings=[["8 of 40 ranks", "ranks 32 to 39", "product.box", "2x1x16", "32 ranks"]])
    dry("gemm", "--gemm.m", 4096, "--gemm.n", 4096, "--gemm.k", "2^22", "--ranks", 65, env=ON_GPUS,
        warnings=[["of 65 ranks", 64]])
    expect(boxed, "decomposition: split-k 2 x 1 x 16", "product.box", "8 of 40 ranks idle",
           "1 x 1 tiles", "64 segments")
    forced = dry("gemm", *sizes, "--product.decomposition", "grid", "--ranks", 4, env=ON_GPUS)
    expect(forced, "decomposition: grid 2 x 2", "product.decomposition")
    dry("gemm", "--gemm.m", 5000, "--gemm.n", 200, "--gemm.k", 100, "--ranks", 4, env=ON_GPUS,
        warnings=[["2 of 4 ranks", "2 x 1 tiles", "4 x 1", "2 ranks"]])


def test_memory_of_a_host():
    """The memory of this machine, shared as the run itself would share it."""
    small = ["gemm", "--gemm.m", 4000, "--gemm.n", 100, "--gemm.k", 100]
    out = new_folder() / "out.h5"
    run("run", *small, "-o", out, env=ON_HOST).expect(0)
    with h5py.File(out) as file:
        used = int(file["config/resolved"].attrs["pipeline.gpu-memory"])
    for ranks in (1, 4):
        text = dry(*small, "--ranks", ranks, "--gpus-per-node", ranks, env=ON_HOST)
        expect(text, "device memory", "--rates", *(["1/4"] if ranks == 4 else []))
        number, unit = re.search(r"device memory: \S+ \S+ of ([0-9.]+) (GiB|MiB):", text).groups()
        told = float(number) * (2**30 if unit == "GiB" else 2**20) * ranks
        assert 0.8 < told / used < 1.25, (told, used)  # other processes use memory, too


def test_checkpoints():
    """The plan tells whether the run writes a checkpoint and its size. An existing checkpoint is
    described and not changed."""
    folder = new_folder()
    sizes = ["gemm", "--gemm.m", 2000, "--gemm.n", 2000, "--gemm.k", 500, "-o", folder / "c.h5"]
    one = ["gemm", "--gemm.m", 100, "--gemm.n", 100, "--gemm.k", 500, "-o", folder / "c.h5"]
    text = dry(*one, env=ON_HOST)
    expect(text, "super-tiles: 1", "checkpoint: none")
    assert "resuming" not in text, text
    memory = ["--pipeline.gpu-memory", "20MiB"]
    expect(dry(*sizes[:-2], *memory, env=ON_HOST), "resuming: ", "-o")
    for how in (["--measure.repeat", 2], ["--measure.repeat", "auto"], ["--measure.warmup", 1]):
        text = dry(*sizes, *how, env=ON_HOST)
        assert "checkpoint" not in text and "resuming" not in text, text
    text = dry("reduce", "-o", folder / "c.h5", env=ON_HOST)
    assert "checkpoint" not in text and "resuming" not in text, text
    capped = [*sizes, *memory]
    text = dry(*capped, env=ON_HOST)
    tiles = int(re.search(r"super-tiles: (\d+),", text)[1])
    assert tiles > 1, text
    expect(text, "checkpoint: ", f"{tiles} super-tiles", f"'{folder}/.c.h5.UUID.part'", "15.26 MiB",
           f"'{folder}/.c.h5.UUID.RANK.checkpoint'")
    text = dry(*capped, "--output.store", "false", env=ON_HOST)
    expect(text, "checkpoint: ", f"'{folder}/.c.h5.UUID.part'")
    assert "15.26 MiB" not in text, text
    assert not list(folder.iterdir())


def test_gram():
    text = dry("gram", "--gram.rows", 20000, "--gram.columns", 10000, "--ranks", 2, env=ON_GPUS)
    expect(text, "dry run of gram", "0 B of A")


def test_the_backend_that_is_planned_for():
    """By default, the backend for which the program was built, or that of the result with the
    rates."""
    unset = {"SHARDSTREAM_DEVICE_BACKEND": None}
    built = (["backend: cuda", "multiply_fp32 50000 Gflop/s"]
             if os.environ.get("SHARDSTREAM_TEST_CUDA") == "ON" else
             ["backend: host", "multiply_fp32 400 Gflop/s"])
    expect(dry("gemm", env=unset), *built)
    result = new_folder() / "out.h5"
    run("run", "reduce", "--input.count", 1000, "-o", result, env=ON_HOST).expect(0)
    expect(dry("gemm", "--rates", result, env=unset,
               warnings=[[result, "reduce", "link_up", "decode", "link_down, multiply_fp32"]]),
           "backend: host", "--rates", "multiply_fp32 400 Gflop/s")
    check_complaints([(["run", *with_sizes("gemm"), "--dry-run", "--rates", result], 2,
                       ["--rates", result, "CPUs", "GPUs"], ON_GPUS)], ranks=(1,))


def test_a_reduction():
    text = dry("reduce", "--input.count", "1e9", "--input.type", "f64", "--ranks", 2, env=ON_GPUS)
    expect(text, "dry run of reduce on 2 ranks", "data: uniform, 1000000000 elements of f64",
           "units: 15259 of 65536 elements", "rank 0: 7630", "3.726 GiB", "bound by link_up;")
    assert re.search(r"predicted: 80", text), text
    resident = dry("reduce", "--pipeline.mode", "resident", env=ON_GPUS)
    expect(resident, "device_read 2500 GB/s", "bound by device_read\n")


def test_memory_of_a_reduction():
    """Data that exceed the device memory are rejected, as by the run."""
    large = ["reduce", "--input.count", "2^38", "--ranks", 2]
    resident = ["--pipeline.mode", "resident"]
    check_complaints([(["run", *large, *resident, "--dry-run"], 2,
                       ["pipeline.mode", "resident", "512 GiB", "67.06 GiB"], ON_GPUS),
                      (["run", *large, "--dry-run", "--pipeline.gpu-memory", "1MiB"], 2,
                       ["--pipeline.gpu-memory", "1 MiB"], ON_GPUS)], ranks=(1,))
    expect(dry(*large, env=ON_GPUS), "device memory: 192 MiB of 67.06 GiB")
    expect(dry(*large, *resident, "--pipeline.gpu-memory", "600GiB", env=ON_GPUS),
           "device memory: 512 GiB of 600 GiB")
    expect(dry(*large, "--pipeline.mode", "pinned", env=ON_GPUS), "host memory: 512 GiB", "1 TiB")


def test_the_file_of_a_study():
    """A run rejects it, and a dry run plans one of its runs, with the answer first: as in a study,
    nothing is stored, and a run that repeats has no checkpoint."""
    inputs = pathlib.Path(__file__).resolve().parents[2] / "inputs"
    for name in ("strong-gemm.ini", "weak-gemm.ini", "strong-reduce.ini", "weak-reduce.ini"):
        check_complaints([(["run", inputs / name], 2, [inputs / name, "shardstream scale"])],
                         ranks=(1,))
        weak = [[inputs / name, "weak", "shardstream scale", "--list"]] if "weak" in name else []
        dry(inputs / name, env=ON_GPUS)  # the smallest size has the data of the file
        dry(inputs / name, "--ranks", "1,2", env=ON_GPUS, warnings=weak)
        lines = dry(inputs / name, "--ranks", 32, "--gpus-per-node", 4, env=ON_GPUS,
                    warnings=weak).splitlines()
        keys = [line.split(": ")[0] for line in lines]
        assert keys[1:3] == ["predicted", "device memory"], lines
        assert not {"result", "checkpoint", "resuming"} & set(keys), lines
    small = new_folder() / "small.ini"
    small.write_text("[run]\nworkload = gemm\n[gemm]\nm = 64\nn = 64\nk = 64\n"
                     "[scale]\nranks = 1,2\n")
    stored = ["--output.store", "true"]
    expect(dry(small, *stored, "-o", small.with_name("c.h5")), "result: ")
    expect(dry(small, *stored, "-o", small.with_name("c.h5"), "--measure.repeat", 1), "result: ",
           "checkpoint: ")
    check_complaints([(["run", inputs / "strong-gemm.ini", "--dry-run", "--scale.ranks", 2], 2,
                       ["--scale.ranks"]),
                      (["run", "reduce", "--dry-run", "--ranks", "1,2,1"], 2,
                       ["--ranks", "1 is listed twice"])], ranks=(1,))


def test_one_process_of_a_launcher_tells_it():
    out = run("run", "reduce", "--input.count", 1000, "--dry-run", ranks=2).expect(0).out
    assert out.count("dry run of reduce on 2 ranks, 2 per host") == 1, out
    assert re.search(r"^hosts: 1, with 2 ranks, .*launcher", out, re.MULTILINE), out
    expect(dry("reduce", "--ranks", 16, "--gpus-per-node", 4, ranks=2), "on 16 ranks, 4 per host")
    expect(dry("reduce", "--ranks", 20), "on 20 ranks, 8 per host", "hosts: 3, with up to 8 ranks",
           "assumed", "--gpus-per-node")
    # The environments of Slurm's srun and of a launcher of one rank within its step.
    slurm = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "10",
             "SLURM_STEP_TASKS_PER_NODE": "4(x2),2"}
    expect(dry("reduce", env=slurm), "on 10 ranks, 4 per host")
    third = run("run", *with_sizes("reduce"), "--dry-run", env={**slurm, "SLURM_PROCID": "3"})
    assert third.expect(0).out == "", third
    expect(dry("reduce", env={**slurm, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}),
           "on 1 rank, 1 per host")
    # Only one process prints an error.
    check_complaints([(["run", "reduce", "--dry-run", "--input.count", 0], 2,
                       ["--input.count", 0])], ranks=(3,))


def test_bad_output():
    """Errors of the output are those of the run, and no file is written."""
    folder = new_folder()
    small = ["run", "gemm", "--gemm.m", 10, "--gemm.n", 10, "--gemm.k", 10]
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"] = np.ones((10, 10), "f4")
    run(*small, "-o", folder / "c.h5", env=ON_HOST).expect(0)
    (folder / "c.trace.json").write_text("of another run")
    names = sorted(path.name for path in folder.iterdir())
    named = ["--input.a", f"{folder}/in.h5:/A", "--input.b", f"{folder}/in.h5:/A"]
    reduce = ["run", "reduce", "--input.data", f"{folder}/in.h5:/A"]
    for what, words in (
            ([*small, "-o", folder / "c.h5"], [folder / "c.h5", "--output.overwrite"]),
            ([*reduce, "-o", folder / "c.h5"], [folder / "c.h5", "--output.overwrite"]),
            ([*small, "-o", folder / "none/c.h5"], [f"'{folder}/none'"]),
            ([*small, "-o", folder], [f"'{folder}'"]),
            ([*small, "-o", f"{folder}/d.h5:/C"], [f"'{folder}/d.h5:/C'", f"-o {folder}/d.h5\n"]),
            ([*small, "-o", f"{folder}/{'c' * 240}.h5"], [240 * "c", "long"]),
            (["run", "gemm", *named, "-o", folder / "in.h5", "--output.overwrite", "true"],
             [folder / "in.h5", "input"]),
            ([*reduce, "-o", folder / "in.h5", "--output.overwrite", "true"],
             [folder / "in.h5", "input"]),
            (["run", "gemm", "-o", folder / "e.h5", "--gemm.m", 1e9, "--gemm.n", 1e6],
             ["free"])):
        said = run(*what, "--dry-run", env=ON_HOST)
        expect_complaint(said, 2, words)
        if words != ["free"]:  # the free memory changes
            assert run(*what, env=ON_HOST).expect(2).err == said.err, said
    run(*small, "-o", folder / "c.h5", "--output.overwrite", "true", "--dry-run").expect(0)
    run(*small, "-o", folder / "d.h5", "--measure.timeline", "true", "--dry-run").expect(0)
    (folder / "d.trace.json").write_text("of another run")
    expect_complaint(run(*small, "-o", folder / "d.h5", "--measure.timeline", "true", "--dry-run"),
                     2, [folder / "d.trace.json"])
    (folder / "d.trace.json").unlink()
    assert sorted(path.name for path in folder.iterdir()) == names


def test_bad_input():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"] = np.ones((10, 8), "f4")
    with h5py.File(folder / "bad.h5", "w") as file:
        file.attrs.update({"schema": "shardstream", "schema_version": 1, "status": "unverified"})
    (folder / "text.h5").write_text("no HDF5 at all")
    a = f"{folder}/in.h5:/A"
    gemm = ["run", *with_sizes("gemm"), "--dry-run"]
    check_complaints([
        ([*gemm, "--input.a", a, "--input.b", a], 2, [a, "8 x 8", "10 x 10"]),
        ([*gemm, "--input.a", f"{folder}/none.h5:/A", "--input.b", a], 2,
         [folder / "none.h5"]),
        ([*gemm, "--gemm.beta", 2], 2, ["gemm.beta"]),
        ([*gemm, "--product.precision", "fp23"], 2, ["--product.precision", "fp23"]),
        ([*gemm, "--pipeline.gpu-memory", "4KiB"], 2, ["--pipeline.gpu-memory"]),
        ([*gemm, "--product.decomposition", "split-k", "--ranks", 2], 2, ["split-k"]),
        *(([*gemm, "--rates", f"{folder}/{name}"], 2, ["--rates", folder / name, *why])
          for name, why in (("in.h5", []), ("none.h5", ["No such file or directory"]),
                            ("text.h5", ["HDF5"]))),
        ([*gemm, "--rates", f"{folder}/bad.h5"], 2, ["--rates", folder / "bad.h5", "unverified"]),
        ([*gemm, "--gpus-per-node", 0], 2, ["--gpus-per-node", 0]),
        ([*gemm, "--ranks", 0], 2, ["--ranks", 1]),
        ([*gemm, "--ranks", "many"], 2, ["--ranks", "many"]),
        (["run", "gemm", "--ranks", 2], 2, ["--ranks", "--dry-run", "mpirun"]),
        (["run", *with_sizes("reduce"), "--rates", "c.h5"], 2, ["--measure.rates", "gemm", "gram"]),
        (["run", *with_sizes("gemm"), "--rates", f"{folder}/none.h5"], 2,
         ["--rates", f"{folder}/none.h5"]),
        *((["run", "gemm", *words], 2, ["--dry-run", "true"])
          for words in (["--dry-run=true"], ["--dry-run", "true"])),
        (["info", "--json", "false"], 2, ["--json", "false"]),
        (["run", "gemm", "--dryrun"], 2, ["--dryrun", "--dry-run"]),
        (["run", "reduce", "--dry-run", "--input.data", f"{folder}/none.h5"], 2,
         [folder / "none.h5"]),
        *(([*words, "--device.backend", "host", "--comm.transport", "nccl"], 2, ["NCCL", "host"])
          for words in (gemm, ["run", *with_sizes("reduce"), "--dry-run"])),
    ], ranks=(1,))


if __name__ == "__main__":
    main()


