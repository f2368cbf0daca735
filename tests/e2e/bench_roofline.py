#!/usr/bin/python3
"""What `report` makes of a file with the table of `roofline`: the limiter of each kernel of the
file and of runs on the same GPU, and the figure of the roofs. The tables are written by h5py."""

import json
import math
import pathlib
import shutil

import h5py
import numpy as np
from numpy.lib import recfunctions as rfn

from harness import each, expect_complaint, expect_words, main, new_folder, run

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"
PRODUCTS, SUMS, RESIDENT = (EXAMPLES / name / "p1-r1.h5" for name in (
    "gemm-bf16-strong", "reduce-pinned-weak", "reduce-resident-four"))
KERNEL = ["ci_lo", "ci_hi", "share", "operations", "bytes", "duration", "arithmetic", "distinct",
          "shared_bytes", "instructions", "remark"]
SHARED, ISSUE = 33000, 1000  # GB/s, 10^9 instructions of warps per second
MEMORIES = {"L1": 26000, "L2": 6500, "device memory": 4500}
PEAKS = {"fp32": 60000, "fp64": 30000, "fp16 pairs": 61000, "bf16 pairs": 61500, "dp4a": 122000,
         "dp2a": 61200, "tensor fp64": 61000, "tensor tf32": 320000, "tensor fp16": 640000,
         "tensor bf16": 650000, "tensor int8": 1290000}


def rows_of(columns, rows):
    """A table of kernels of rank 0. The texts are columns of bytes."""
    names = ["rank", *columns]
    kinds = [np.asarray([row[i] for row in rows]) for i in range(len(names))]
    kinds = [each.astype("S") if each.dtype.kind == "U" else each for each in kinds]
    table = np.empty(len(rows), [(name, each.dtype) for name, each in zip(names, kinds)])
    for name, each in zip(names, kinds):
        table[name] = each
    return table


def kernel(operations, size, seconds, arithmetic, shared=0, instructions=0):
    """The last columns of a row; `operations` in 10^9, `size` and `shared` in MB, `instructions` in
    10^6."""
    return [math.nan] * 3 + [float(operations), float(size), seconds * 1e3, arithmetic, math.nan,
                             float(shared), float(instructions), ""]


def roofs():
    rows = [[0, "memory roof", name, 0.25, rate, rate / 4.0, *kernel(1, 4e3, 4 / rate, "")]
            for name, rate in MEMORIES.items()]
    rows += [[0, "link roof", name, 0.0, 55.0, 0.0, *kernel(0, 1e3, 1 / 55, "")]
             for name in ("host link, up", "host link, down")]
    rows += [[0, "arithmetic roof", name, 1e3, 1.0, rate * 1.0, *kernel(rate, 1, 1, name)]
             for name, rate in PEAKS.items()]
    rows += [[0, "shared memory roof", "shared memory", 0.25, SHARED * 1.0, SHARED / 4.0,
              *kernel(1, 1, 1, "")],
             [0, "issue roof", "instructions of warps", 1e3, 1.0, ISSUE * 1.0,
              *kernel(1, 1, 1, "")]]
    rows += [[0, "arithmetic roof", "tensor bf16", 1e3, 1.0, 800e3, *kernel(1, 1, 1, "")]]
    for steps in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        intensity = (2 * steps + 1) / 4
        rate = 0.93 * min(PEAKS["fp32"], intensity * MEMORIES["device memory"])
        rows.append([0, "kernel", f"{steps} fma for each element", intensity, rate / intensity,
                     rate, *kernel(rate, rate / intensity * 1e3, 1, "fp32")])
    rows += [[0, "kernel", "16 fma, one warp", 8.25, 200.0, 1650.0,
              *kernel(1650, 2e5, 1, "fp32")],
             [0, "transfer", "product of 8192 x 8192 matrices", 1365.0, 25.0, 35e3,
              *kernel(35e3, 25e3, 1, "fp32")]]
    return rows_of(["part", "name", "intensity", "traffic", "rate", *KERNEL], rows)


# rung: operations in 10^9, MB and ms of a call, arithmetic, MB of shared memory, instructions in
# 10^6, and its limiter
LADDER = {
    "copy": (0, 9000, 2.1, "", 0, 0, "memory-bound"),
    "from L2": (1, 6000, 1, "fp32", 0, 0, "memory-bound"),
    "compute": (55, 1000, 1, "fp32", 0, 0, "compute-bound"),
    "ridge": (50, 4000, 1, "fp32", 0, 0, "data- and instruction-bound"),
    "tiles": (8, 100, 1, "fp32", 30000, 0, "shared-memory-bound"),
    "tree": (0.1, 100, 1, "fp32", 9000, 900, "issue-bound"),
    "slow": (5, 100, 1, "fp32", 0, 0, "latency-bound"),
    "wgmma": (700, 200, 1, "tensor bf16", 0, 0, "compute-bound"),
    "integers": (9, 100, 1, "", 0, 0, "none known"),
    "no roof": (9, 100, 1, "fp8", 0, 0, "none known"),
    "uncounted": (5, 100, 1, "fp32", 0, math.nan, "none known"),
    "clocks": (9, 100, math.nan, "fp32", 0, 0, None)}


def example_with(*names):
    """The example with these experiments alone, as if it came from the GPU of the runs."""
    path = new_folder() / "bench.h5"
    shutil.copy(EXAMPLES / "bench.h5", path)
    path.chmod(0o644)
    with h5py.File(path, "r+") as file, h5py.File(SUMS) as run_file:
        index = file["bench/experiments"][...]
        del file["bench/experiments"]
        file["bench/experiments"] = index[[name.decode() in names for name in index["experiment"]]]
        ranks = file["topology/ranks"][...]
        ranks["device"] = run_file["topology/ranks"]["device"][0]
        file["topology/ranks"][...] = ranks
    return path


def crafted():
    """An example with roofs and with a ladder whose rows have operations, bytes and times."""
    path = example_with("roofline", "reduction")
    ladder = [[0, rung, 1.0, *kernel(operations, size, time / 1e3, arithmetic, *more)]
              for rung, (operations, size, time, arithmetic, *more, _) in LADDER.items()]
    with h5py.File(path, "r+") as file:
        for name, table, look in (
                ("roofline", roofs(), {"look": "roofline", "x": "intensity", "y": "rate",
                                       "series": "part"}),
                ("reduction", rows_of(["rung", "time", *KERNEL], ladder), {"panel": ""})):
            group = file[f"bench/{name}"]
            for key, value in look.items():
                group.attrs[key] = np.bytes_(value)
            del group["rows"]
            group["rows"] = table
    return path


def placed(told, source):
    """The rows of a source by kernel."""
    return {row["kernel"]: row for row in told["benches"][0]["roofline"]["rows"]
            if row["source"] == source}


def test_each_kernel_has_its_limiter():
    told = json.loads(run("report", crafted(), "--json").expect(0).out)
    rungs = placed(told, "reduction")
    for name, (*_, limiter) in LADDER.items():
        assert (name in rungs) == (limiter is not None), (name, rungs)
        assert limiter is None or rungs[name]["limiter"] == limiter, rungs[name]
    assert rungs["from L2"]["memory"] == "L2" and rungs["copy"]["memory"] == "device memory"
    assert abs(rungs["wgmma"]["compute_share"] - 700 / 800) < 1e-3, rungs["wgmma"]
    assert abs(rungs["tiles"]["shared_share"] - 30 / 33) < 1e-3, rungs["tiles"]
    assert abs(rungs["tree"]["issue_share"] - 0.9) < 1e-3, rungs["tree"]
    walks = placed(told, "roofline")
    assert walks["1 fma for each element"]["limiter"] == "memory-bound"
    assert walks["256 fma for each element"]["limiter"] == "compute-bound"
    assert walks["16 fma, one warp"]["limiter"] == "latency-bound"
    assert walks["product of 8192 x 8192 matrices"]["memory"] == "host link, up", walks
    assert "L1" not in walks, "a roof is no kernel"
    expect_words(" ".join(told["benches"][0]["roofline"]["notes"]), ["1 row"])


def test_runs_of_the_same_gpu_are_placed():
    told = json.loads(run("report", crafted(), PRODUCTS, SUMS, RESIDENT, "--json").out)
    rows = told["benches"][0]["roofline"]["rows"]
    product = next(row for row in rows if row["source"] == "gemm")
    with h5py.File(PRODUCTS) as file:
        seconds = np.median(file["timing/reps"]["wall"])
        work = file["timing/reps"]["work"][0]
    assert abs(product["rate"] - work * 1e3 / seconds) < 1e-3 * product["rate"], product
    assert product["arithmetic"] == "tensor bf16" and product["memory"] == "host link, up"
    sums = [row for row in rows if row["source"] == "reduce"]
    assert [row["memory"] for row in sums] == ["host link, up", "device memory"], sums
    assert all(abs(row["intensity"] - 0.25) < 1e-9 for row in sums), sums
    assert sums[0]["limiter"] == "memory-bound", sums[0]


def test_runs_of_another_gpu_are_not_placed():
    other = new_folder() / "other.h5"
    shutil.copy(SUMS, other)
    other.chmod(0o644)
    with h5py.File(other, "r+") as file:
        ranks = file["topology/ranks"][...]
        ranks["device"] = b"Tesla V100"
        file["topology/ranks"][...] = ranks
    told = json.loads(run("report", crafted(), other, "--json").expect(0).out)["benches"][0]
    assert all(row["source"] != "reduce" for row in told["roofline"]["rows"]), told["roofline"]
    expect_words(" ".join(told["roofline"]["notes"]), ["other.h5", "Tesla V100"])


def test_the_page_has_one_figure_of_the_roofs():
    path, page = crafted(), new_folder() / "page.html"
    run("report", path, PRODUCTS, "-o", page).expect(0)
    text = page.read_text(encoding="utf-8")
    expect_words(text, ["operations per byte", "latency-bound", "data- and instruction-bound",
                        "host link, up"])
    assert shutil.which("gnuplot") is None or "tensor int8" in text
    expect_words(run("report", path).expect(0).out, ["below the roofs", "latency-bound"])


def test_files_without_roofs_have_no_placement():
    told = json.loads(run("report", example_with("reduction"), "--json").expect(0).out)
    assert "roofline" not in told["benches"][0]


def test_bad_options():
    for size in ("1MiB", "0"):
        expect_complaint(run("bench", "roofline", "--roofline.size", size), 2,
                         ["roofline.size", size])


def test_a_table_without_a_needed_column():
    """The error names the file, the table and the column, for every output. All other columns may
    be missing."""
    def change(make):
        path = example_with("reduction")
        with h5py.File(path, "r+") as file:
            group = file["bench/reduction"]
            table = make(group, group["rows"][...])
            del group["rows"]
            group["rows"] = table
        return path

    def without(name):
        return lambda _, table: rfn.drop_fields(table, name, usemask=False)

    def relabelled(**attributes):
        def make(group, table):
            for name, value in attributes.items():
                group.attrs[name] = np.bytes_(value)
            return table
        return make

    def turned(_, table):
        return rfn.repack_fields(table[[*table.dtype.names[1:], table.dtype.names[0]]])
    whole = change(lambda _, table: table)
    with h5py.File(whole) as file:
        group = file["bench/reduction"]
        names = group["rows"].dtype.names
        figure = {str(group.attrs[name]) for name in ("x", "y", "panel")}
    needed = {"rank", "ci_lo", "ci_hi", "share", "remark", *figure}

    def check_column(name):
        path, page = change(without(name)), new_folder() / "page.html"
        for outputs in ([], ["--json"], ["-o", page]):
            finished = run("report", path, *outputs)
            if name in needed:
                expect_complaint(finished, 2, [path, "reduction", f"'{name}'"])
            else:
                finished.expect(0)
    each([(name,) for name in names], check_column)

    def check_figure(make, word):
        path = change(make)
        for outputs in (["--json"], ["-o", new_folder() / "page.html"]):
            expect_complaint(run("report", path, *outputs), 2, [path, "reduction", word])
    each([(relabelled(look="matrix", series=""), "''"),
          (relabelled(look="matrix", series="gone"), "'gone'"),
          (relabelled(panel="gone"), "'gone'"), (relabelled(x=""), "''"),
          (relabelled(beside="gone"), "'gone'"), (turned, "'rank'")],
         check_figure)


if __name__ == "__main__":
    main()
