#!/usr/bin/python3
"""`run WORKLOAD --dry-run`: what it tells, without MPI, from assumed or measured rates; and that it
ends with the errors that the run would end with."""

import h5py
import numpy as np

from harness import check_complaints, main, new_folder, run

ON_HOST = {"SHARDSTREAM_DEVICE_BACKEND": "host"}
ON_GPUS = {"SHARDSTREAM_DEVICE_BACKEND": "cuda"}  # none is needed


def dry(*arguments, env=None):
    finished = run("run", *arguments, "--dry-run", env=env).expect(0)
    assert not finished.err, finished
    return finished.out


def expect(text, *words):
    for word in words:
        assert word in text, f"{word!r} is missing in\n{text}"


def test_a_product_on_gpus_that_are_elsewhere():
    sizes = ["--gemm.m", "65536", "--gemm.n", "65536", "--gemm.k", "65536"]
    text = dry("gemm", *sizes, "--ranks", 16, "--gpus-per-node", 4, env=ON_GPUS)
    expect(text, "dry run of gemm on 16 ranks, 4 on a host: nothing is computed or written",
           "assumed of a rank: link_up 50 GB/s", "all_gather 20 GB/s between hosts",
           "multiply_fp32 50000 Gflop/s", "device memory", "--rates",
           "C: 65536 x 65536 in fp32, 16 x 16 tiles of 4096 x 4096", "decomposition: ",
           "considered: rows: ", "grid 4 x 4: ", "split-k: not possible", "rank 0 of 16",
           "predicted: ", "result: C takes 16 GiB of disk")
    assert "all_gather" not in dry("gemm", *sizes, env=ON_GPUS)  # one rank
    small = dry("gemm", *sizes, "--pipeline.gpu-memory", "2GiB", env=ON_GPUS)
    expect(small, "of 2 GiB: accumulators")
    assert "device memory 74" not in small, small  # an assumption that is not needed
    long_sums = dry("gemm", "--gemm.m", 4096, "--gemm.n", 4096, "--gemm.k", "2^22", "--ranks", 8,
                    env=ON_GPUS)
    expect(long_sums, "decomposition: split-k 1 x 1 x 8", "64 segments", "considered: rows: ")
    tall = dry("gemm", "--gemm.m", 16384, "--gemm.n", 4096, "--gemm.k", "2^26", "--ranks", 256,
               env=ON_GPUS)
    expect(tall, "decomposition: split-k 4 x 1 x 64", "all-gathers ")
    boxed = dry("gemm", "--gemm.m", 4096, "--gemm.n", 4096, "--gemm.k", "2^22", "--gemm.box",
                "2x1x16", "--ranks", 40, env=ON_GPUS)
    expect(boxed, "decomposition: split-k 2 x 1 x 16, as gemm.box asks for; 8 of 40 ranks idle: "
           "1 x 1 tiles and 64 segments of K are shared")
    forced = dry("gemm", *sizes, "--gemm.decomposition", "grid", "--ranks", 4, env=ON_GPUS)
    expect(forced, "decomposition: grid 2 x 2, as gemm.decomposition asks for")


def test_gram():
    text = dry("gram", "--gram.rows", 20000, "--gram.columns", 10000, "--ranks", 2, env=ON_GPUS)
    expect(text, "dry run of gram", "of which one of each pair is computed", "0 B of A")


def test_files_and_measured_rates():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"] = np.ones((100, 80), "f4")
        file["B"] = np.ones((80, 60), "f8")
    inputs = ["--input.a", f"{folder}/in.h5:/A", "--input.b", f"{folder}/in.h5:/B"]
    result = folder / "out.h5"
    run("run", "gemm", *inputs, "-o", result, env=ON_HOST).expect(0)
    with h5py.File(result) as file:
        rates = {row["ceiling"].decode(): row["per_rank_min"] for row in file["ceilings"][:]}
    text = dry("gemm", *inputs, "--rates", result)
    expect(text, "C: 100 x 60 in fp32", f"measured of a rank, in {result}: ",
           f"link_up {rates['link_up']:.4g} GB/s",
           f"multiply_fp32 {rates['multiply_fp32']:.4g} Gflop/s", "assumed of a rank: device memory")
    # What was not measured is assumed: two ranks' gathers, another precision.
    text = dry("gemm", *inputs, "--rates", result, "--ranks", 2, "--gemm.precision", "fp64")
    expect(text, "assumed of a rank: all_gather 5 GB/s, multiply_fp64 200 Gflop/s")
    assert "all_gather 5 GB/s between" not in text, text
    assert sorted(path.name for path in folder.iterdir()) == ["in.h5", "out.h5"]

    ini = folder / "job.ini"
    ini.write_text(f"[run]\nworkload = gemm\n[input]\na = {folder}/in.h5:/A\nb = {folder}/in.h5:/B\n")
    expect(dry(ini, env=ON_HOST), "dry run of gemm on 1 rank, 1 on a host", "C: 100 x 60 in fp32")


def test_a_reduction():
    text = dry("reduce", "--input.count", "1e9", "--input.type", "f64", "--ranks", 2, env=ON_GPUS)
    expect(text, "dry run of reduce on 2 ranks", "data: uniform, 1000000000 elements of f64",
           "leaves: 15259 of 65536 elements; shard of rank 0: 7630 of them, 3.726 GiB",
           "predicted: 80", "or more, which the host link takes")


def test_one_process_of_a_launcher_tells_it():
    out = run("run", "reduce", "--input.count", 1000, "--dry-run", ranks=2).expect(0).out
    assert out.count("dry run of reduce") == 1, out


def test_bad_input():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"] = np.ones((10, 8), "f4")
    a = f"{folder}/in.h5:/A"
    gemm = ["run", "gemm", "--dry-run"]
    check_complaints([
        ([*gemm, "--input.a", a, "--input.b", a], 2, ["the inner sizes 8 and 10 differ"]),
        ([*gemm, "--input.a", f"{folder}/none.h5:/A"], 2, ["there is no file"]),
        ([*gemm, "--gemm.beta", 2], 2, ["there is no C to add"]),
        ([*gemm, "--gemm.precision", "fp23"], 2, ["fp23"]),
        ([*gemm, "--pipeline.gpu-memory", "4KiB"], 2, ["allow --pipeline.gpu-memory"]),
        ([*gemm, "--gemm.decomposition", "split-k", "--ranks", 2], 2, ["is not possible"]),
        ([*gemm, "--rates", f"{folder}/in.h5"], 2, ["is no result of a run"]),
        ([*gemm, "--rates", f"{folder}/none.h5"], 2, ["there is no file"]),
        ([*gemm, "--ranks", 0], 2, ["--ranks", "from 1"]),
        ([*gemm, "--ranks", "many"], 2, ["--ranks", "'many'"]),
        (["run", "gemm", "--ranks", 2], 2, ["--ranks is for planning", "--dry-run"]),
        (["run", "gemm", "--dry-run=true"], 2, ["--dry-run takes no value"]),
        (["run", "gemm", "--dryrun"], 2, ["did you mean --dry-run?"]),
        (["run", "reduce", "--dry-run", "--input.data", f"{folder}/none.h5"], 2,
         ["there is no file"]),
    ], ranks=(1,))


if __name__ == "__main__":
    main()
