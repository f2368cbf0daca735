#!/usr/bin/python3
"""Data through the page cache or past it, from chunks and compressed: the same bits, and the result
names the way of reading."""

import os
import time

import h5py
import numpy as np

import results
from harness import (LEAF, each, expect_complaint, finish, main, new_folder, reduce, run, skip_part,
                     start, write_sparse)
from products import ON_HOST, product, stored, why_no_products

RANDOM = np.random.default_rng(11)


def can_read_direct(path):
    """Whether direct reads work, tested as the program does; not on tmpfs before Linux 6.6 and on
    some network file systems."""
    finished = run("run", "reduce", "--input.data", path, "--input.read", "direct", "-o",
                   new_folder() / "out.h5")
    if finished.code == 0:
        return True
    expect_complaint(finished, 2, ["--input.read", "auto", "cached"])
    return False


def drop(path):
    """Evicts the file from the page cache, if its file system allows that."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def input_of(path):
    with h5py.File(path) as file:
        return dict(file["input"].attrs)


def ceilings_of(path):
    with h5py.File(path) as file:
        return {row["ceiling"].decode(): row["aggregate"] for row in file["ceilings"][()]}


def make_file(dtype="f4", leaves=9, rest=12345, user_block=0):
    """Writes a file whose data begin at an offset that is no multiple of a block."""
    path = new_folder() / "in.h5"
    with h5py.File(path, "w", userblock_size=user_block) as file:
        file["x"] = (RANDOM.standard_normal(leaves * LEAF + rest) * 100).astype(dtype)
        offset = file["x"].id.get_offset()
    assert offset % 4096 != 0
    return path


def test_same_bits():
    first = make_file()
    if not can_read_direct(first):
        return skip_part("this file system refuses O_DIRECT")

    def check(path, ranks, mode):
        found = {}
        for way in ("cached", "direct"):
            out = new_folder() / "out.h5"
            finished = reduce(path, out, "--input.read", way, "--pipeline.mode", mode,
                              "--pipeline.slot", 1, "--measure.repeat", 2, ranks=ranks)
            found[way] = results.bits(out)
            access = input_of(out)["access"]
            assert access == ("contiguous, parallel O_DIRECT reads" if way == "direct" else
                              "contiguous, parallel pread"), access
            assert input_of(out)["page_cache"] == finished.values["page_cache"], finished
            if mode == "stream" and way == "direct":
                assert ceilings_of(out)["storage_read"] > 0
                assert "storage_read_aggregate" in finished.values, finished
        assert found["cached"] == found["direct"], found
    paths = [first, make_file("f8", 4, 1), make_file("u1", 7, 1, 512)]
    each([(path, ranks, mode) for number, path in enumerate(paths)
          for ranks, mode in ((1, "stream"), (3, "stream"),
                              (1 + number % 2, ("pinned", "pageable", "resident")[number]))],
         check)
    return None


def test_auto():
    """Cached data are read through the page cache; other data past it, so that they stay
    uncached."""
    path = make_file(leaves=40)
    out = new_folder() / "out.h5"
    finished = reduce(path, out)
    assert finished.values["page_cache"] == "warm", finished
    assert input_of(out)["access"] == "contiguous, parallel pread"
    assert input_of(out)["page_cache_share"] == 1
    assert ceilings_of(out)["page_cache_read"] > 0
    for round in range(2):
        if round == 0:
            drop(path)
        out = new_folder() / "out.h5"
        finished = reduce(path, out, ranks=2)
        if finished.values["page_cache"] != "cold":
            assert round == 0, finished
            return skip_part("this file system keeps its pages")
        access = input_of(out)["access"]
        if "O_DIRECT reads" not in access:
            assert "O_DIRECT" in access, access
            return skip_part("this file system refuses O_DIRECT")
        assert input_of(out)["page_cache_share"] <= 0.05
        assert ceilings_of(out)["storage_read"] > 0
    finished = reduce(path, new_folder() / "out.h5", "--input.read", "cached")
    assert finished.values["page_cache"] == "cold", finished
    finished = reduce(path, new_folder() / "out.h5")
    assert finished.values["page_cache"] == "warm", finished
    return None


def test_generated_and_chunked_data():
    out = new_folder() / "out.h5"
    finished = run("run", "reduce", "--input.count", 10 * LEAF, "-o", out).expect(0)
    assert "page_cache" not in finished.values and "page_cache" not in input_of(out), finished
    assert ceilings_of(out)["decode"] > 0
    path = new_folder() / "chunked.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(3 * LEAF, dtype="f4"), chunks=(LEAF,))
    out = new_folder() / "out.h5"
    finished = reduce(path, out)
    assert finished.values["page_cache"] == "warm", finished
    assert ceilings_of(out)["decode"] > 0
    with_memory = run("run", "reduce", "--input.count", 10, "--pipeline.mode", "resident", "-o",
                      new_folder() / "out.h5").expect(0)
    assert "host_memory_read_aggregate" not in with_memory.values, "that little stays in the cache"


LAYOUTS = {"contiguous": {},
           "chunked": {"chunks": (64, 70)},
           "deflate": {"chunks": (64, 70), "compression": "gzip"},
           "rows": {"chunks": (1, 263), "compression": "gzip", "shuffle": True},
           "all": {"chunks": (100, 100), "compression": "gzip", "shuffle": True,
                   "fletcher32": True},
           "scaleoffset": {"chunks": (64, 70), "scaleoffset": 0}}


def test_layouts_have_the_same_bits():
    """Chunks change the order of elements, so reduce gets whole numbers, whose sums are exact, with
    one minimum and one maximum."""
    path = new_folder() / "in.h5"
    matrix = RANDOM.standard_normal((300, 263)).astype("f4")
    numbers = RANDOM.integers(-500, 500, (1500, 263), endpoint=True).astype("i4")
    numbers[70, 99], numbers[999, 200] = -1000, 1000
    with h5py.File(path, "w") as file:
        for name, how in LAYOUTS.items():
            file.create_dataset(f"numbers/{name}", data=numbers, **how)
            if name != "scaleoffset":
                file.create_dataset(f"matrix/{name}", data=matrix, **how)

    def result(workload, name, ranks):
        out = new_folder() / "out.h5"
        if workload == "reduce":
            finished = reduce(f"{path}:/numbers/{name}", out, "--reduce.ops", "sum,min,max",
                              "--pipeline.readers", 3, "--pipeline.slot", 1, ranks=ranks)
            assert ("scaleoffset" in finished.err) == (name == "scaleoffset"), finished
            return [(row["op"], row["exact"], row["position"])
                    for row in results.stored_reduce(out).values()]
        data = f"{path}:/matrix/{name}"
        sources = (["--input.a", data, "--input.b", data, "--gemm.transpose-a", "true"]
                   if workload == "gemm" else ["--input.data", data])
        product(workload, out, *sources, "--product.precision", "fp32", ranks=ranks, env=ON_HOST)
        return stored(out).tobytes()
    workloads = ["reduce"] if why_no_products() else ["reduce", "gemm", "gram"]
    first = {workload: result(workload, "contiguous", 1) for workload in workloads}

    def check(workload, name, ranks):
        assert result(workload, name, ranks) == first[workload]
    each([(workload, name, ranks) for workload in workloads for name in LAYOUTS
          for ranks in (1, 3) if workload == "reduce" or name in ("chunked", "all")], check)


def test_refusals():
    path = new_folder() / "chunked.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(100, dtype="f4"), chunks=(50,))
        file["contiguous"] = np.arange(100, dtype="f4")

    def check(arguments, words):
        expect_complaint(run("run", "reduce", *arguments, "-o", new_folder() / "out.h5"), 2, words)
    direct = ["--input.read", "direct"]
    each([(["--input.data", f"{path}:/x", *direct], ["input.read", "/x", "auto"]),
          (["--input.count", 10, *direct], ["input.read", "uniform", "auto"]),
          (["--input.read", "mmap"], ["input.read", "mmap", "auto"]),
          (["--input.read", ""], ["input.read"])], check)


def test_file_cut_while_it_is_read_direct():
    path = new_folder() / "in.h5"
    write_sparse(path, "f4", 2**30, {})
    if not can_read_direct(path):
        return skip_part("this file system refuses O_DIRECT")
    out = new_folder()
    process = start("run", "reduce", "--input.data", path, "--input.read", "direct",
                    "--measure.repeat", 20, "-o", out / "out.h5")
    while not list(out.iterdir()):
        assert process.poll() is None, "it has ended"
        time.sleep(0.01)
    os.truncate(path, 2**20 + 17)
    expect_complaint(finish(process), 1, [f"{path}:/x", "truncated"])
    assert list(out.iterdir()) == []
    path.unlink()
    return None


main()
