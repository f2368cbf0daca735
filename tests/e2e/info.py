#!/usr/bin/python3
"""The command `info` on the host backend: text and JSON agree, and it shows the problems that a run
would have, with the run's exit code. Tests of GPUs need GPUs."""

import json
import os
import pathlib
import re
import subprocess

import h5py
import numpy as np

from harness import (LEAF, command_line, each, environment, expect_complaint, expect_words, main,
                     new_folder, run, skip_part)

TABLES = ["versions", "ranks", "gpus", "peers", "findings"]


def tables_of(finished):
    """{table: rows} of the JSON on standard output; a row is {column: value}."""
    return json.loads(finished.out)


def text_tables(finished):
    """{table: [{column: text}]} of the text. Folded tables are joined again. No cell is empty, and
    columns are two blanks or more apart; the last one may be a sentence."""
    tables = {}
    for part in re.split(r"\n(?=[a-z]+:)", finished.out):
        name, _, body = part.partition(":")
        rows = []
        for block in body.strip("\n").split("\n\n") if body.strip() != "none" else []:
            header, *lines = block.splitlines()
            names = re.findall(r"\S+(?: \[\S+\])?", header)
            rows = rows or [{} for _ in lines]
            assert len(lines) == len(rows), finished
            for row, line in zip(rows, lines):
                values = re.split(r"  +", line.strip(), maxsplit=len(names) - 1)
                assert len(values) == len(names), f"{line}\n{finished}"
                row.update(zip(names, values))
        tables[name] = rows
    return tables


def without(row, names):
    return {name: value for name, value in row.items() if name not in names}


def numa_balancing():
    """"on" or "off"; empty on a system without it."""
    file = pathlib.Path("/proc/sys/kernel/numa_balancing")
    if not file.exists():
        return ""
    return "off" if int(file.read_text(encoding="ascii")) == 0 else "on"


def test_text_and_json_agree():
    def check(ranks):
        finished = run("info", "--json", ranks=ranks).expect(0)
        told = tables_of(finished)
        assert list(told) == [*TABLES, "units"], finished
        assert told["units"]["gpus"]["memory"] == "B", finished
        assert [row["rank"] for row in told["ranks"]] == list(range(ranks)), finished
        assert {row["backend"] for row in told["ranks"]} == {"host"}, finished
        assert [row["local_rank"] for row in told["ranks"]] == list(range(ranks)), finished
        assert len({row["pid"] for row in told["ranks"]}) == ranks, finished
        assert told["peers"] == [], finished
        for row in told["ranks"]:
            assert row["numa_balancing"] == numa_balancing(), row
            # Memory is bound only near a GPU.
            assert row["numa_nodes"] != 0 and row["memory_node"] == -1, row
        mask = os.sched_getaffinity(0)
        for row in told["ranks"]:
            cpus = set()
            for piece in row["cpus"].split(","):
                first, _, last = piece.partition("-")
                cpus |= set(range(int(first), int(last or first) + 1))
            assert cpus <= mask and 1 <= row["threads"] <= len(cpus), finished
            assert row["pinned_nodes"] == "unknown" or sum(
                int(node.split(":")[1]) for node in row["pinned_nodes"].split(",")) == 1024
        versions = {row["name"]: row["version"] for row in told["versions"]}
        assert versions["version"] in run("--version").out
        assert versions["hdf5"] and versions["mpi"] and versions["operating_system"]
        assert versions["network"] == "within one host", finished
        assert versions["openblas"] == "-" or versions["openblas"].startswith("OpenBLAS ")
        assert (versions["openblas"] == "-") == (versions["openblas_core"] == "-"), finished
        assert versions["openblas_core_chosen_by"] in ("user", "program", "library", "-"), finished
        assert versions["openblas_threads"] in ("1", "-"), finished
        for finding in told["findings"]:
            assert finding["kind"] in ("note", "warning"), finding

        shown = run("info", ranks=ranks).expect(0)
        text = text_tables(shown)
        assert list(text) == TABLES, shown
        # Pages and processes differ between runs.
        passing = ("pid", "pinned_nodes")
        assert [without(row, passing) for row in text["ranks"]] == [
            {name: str(value) or "-" for name, value in without(row, passing).items()}
            for row in told["ranks"]], shown
        assert all({*passing} <= set(row) for row in text["ranks"]), shown
        assert {row["name"]: row["version"] for row in text["versions"]} == versions, shown
        assert [(row["kind"], row["finding"]) for row in text["findings"]] == [
            (row["kind"], row["finding"]) for row in told["findings"]], shown
    each([(1,), (2,)], check)


def test_a_result_has_the_library_of_products():
    """The library and the processor of its kernels determine the bits of products."""
    folder = new_folder()
    versions = {row["name"]: row["version"]
                for row in tables_of(run("info", "--json").expect(0))["versions"]}
    run("run", "reduce", "--input.count", 10, "-o", folder / "out.h5").expect(0)
    with h5py.File(folder / "out.h5") as file:
        told = dict(file["provenance"].attrs)
    names = ["openblas", "openblas_core", "openblas_core_chosen_by", "openblas_threads"]
    assert [told[name] for name in names] == [versions[name] for name in names], told
    if versions["openblas"] == "-":
        return skip_part("this build has no OpenBLAS")
    core = "Haswell" if versions["openblas_core"] != "Haswell" else "Sandybridge"
    if "DYNAMIC_ARCH" not in versions["openblas"] or os.uname().machine != "x86_64":
        return skip_part("this OpenBLAS has kernels for one processor only")
    def core_with(variable):
        table = tables_of(run("info", "--json", env={"OPENBLAS_CORETYPE": variable}).expect(0))
        told = {row["name"]: row["version"] for row in table["versions"]}
        return told["openblas_core"], told["openblas_core_chosen_by"]
    assert core_with(core) == (core, "user")
    assert core_with("nonsense")[1] == "library"
    # Without a choice of the user, the kernels use the instructions that the processor has, also if
    # OpenBLAS does not know its model.
    core, chosen_by = core_with(None)
    assert chosen_by in ("program", "library"), (core, chosen_by)
    flags = set(re.search("^flags.*", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0]
                .split())
    if {"avx2", "fma"} <= flags:
        assert core not in ("Prescott", "Core2", "Nehalem", "Sandybridge", "Barcelona"), core
    if {"avx2", "fma", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        assert core != "Haswell", core
    return None


OF_SOURCES = ["storage_read", "page_cache_read", "decode"]


def test_measure():
    folder = new_folder()
    values = np.arange(9 * LEAF + 1, dtype="f4")
    with h5py.File(folder / "in.h5", "w") as file:
        file["plain"] = values
        file.create_dataset("chunked", data=values, chunks=(LEAF,), compression="gzip")
    plain, chunked = f"{folder}/in.h5:/plain", f"{folder}/in.h5:/chunked"

    def check(ranks, source, options, expected):
        finished = run("info", "--measure", "--json", "--input.data", source, *options, ranks=ranks)
        if expected == "storage_read" and finished.code == 2 and "input.read" in finished.err:
            return skip_part("this file system refuses O_DIRECT")
        told = tables_of(finished.expect(0))
        assert list(told) == ["versions", "ranks", "gpus", "peers", "ceilings", "findings",
                              "units"], finished
        measured = [row["ceiling"] for row in told["ceilings"]]
        assert {"link_up", "device_read", "arithmetic_f32", "host_memory_read",
                "host_memory_copy"} <= set(measured), finished
        assert [name for name in measured if name in OF_SOURCES] == [expected], finished
        for row in told["ceilings"]:
            assert 0 < row["per_rank_min"], row
            assert row["per_rank_min"] * ranks <= row["aggregate"] * (1 + 1e-12), row
            assert row["unit"] == ("Gflop/s" if "arithmetic" in row["ceiling"] else "GB/s"), row
        return None
    each([(1, "uniform", ["--input.type", "u8"], "decode"), (2, plain, [], "page_cache_read"),
          (1, plain, ["--input.read", "direct"], "storage_read"),
          (2, chunked, ["--pipeline.readers", 1], "decode")], check, workers=1)
    shown = text_tables(run("info", "--measure", "--input.count", 10).expect(0))
    assert [row["ceiling"] for row in shown["ceilings"]][-1] == "decode", shown


def test_shows_the_input_error_of_a_run():
    missing = ["--input.data", new_folder() / "none.h5"]
    too_little = ["--input.count", 10 * LEAF, "--pipeline.gpu-memory", 1]

    def check(ranks, arguments, words):
        refused = run("run", "reduce", *arguments, "-o", new_folder() / "out.h5",
                      ranks=ranks).expect(2)
        for switches in (["--json"], ["--json", "--measure"]):
            finished = run("info", *switches, *arguments, ranks=ranks).expect(2)
            told = tables_of(finished)
            problem, = [row["finding"] for row in told["findings"] if row["kind"] == "problem"]
            assert finished.err.endswith(f"error: {problem}\n"), finished
            for each_run in (finished, refused):
                expect_words(each_run.err, words, each_run)
            assert [row["backend"] for row in told["ranks"]] == ["host"] * ranks, finished
            assert "ceilings" not in told or switches == ["--json", "--measure"], finished
    each([(ranks, arguments, words) for ranks in (1, 2)
          for arguments, words in ((missing, ["none.h5"]), (too_little, ["--pipeline.gpu-memory"]),
                                   (["--launch.expect-ranks", 8], ["launch.expect-ranks", 8]))],
         check)
    both = [*missing, "--device.backend", "cuda"]
    finished = run("info", "--measure", "--json", *both, env={"CUDA_VISIBLE_DEVICES": ""}).expect(2)
    problems = [row for row in tables_of(finished)["findings"] if row["kind"] == "problem"]
    assert len(problems) == 2 and "none.h5" in finished.err, finished


def test_what_a_run_accepts_has_no_problem():
    """Resident data must fit into the memory, and `info` agrees with the run."""
    small = ["--input.count", 1e6, "--pipeline.mode", "resident", "--pipeline.gpu-memory", "100MiB"]
    run("run", "reduce", *small, "-o", new_folder() / "out.h5").expect(0)
    run("info", *small).expect(0)
    tight = ["--input.count", 1e8, "--pipeline.mode", "resident", "--pipeline.gpu-memory", "100MiB"]
    run("run", "reduce", *tight, "-o", new_folder() / "out.h5").expect(2)
    run("info", *tight).expect(2)


def test_readers_of_compressed_data_are_those_of_a_run():
    """Each reader needs memory for chunks: 1024 readers would need terabytes for large ones."""
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("plain", shape=(2**31,), dtype="f4")
        file.create_dataset("chunked", shape=(2**31,), dtype="f4", chunks=(2**27,),
                            compression="gzip")
    many = ["--pipeline.readers", 1024, "--pipeline.slots", 2048, "--pipeline.slot", "256KiB"]
    run("info", "--input.data", f"{path}:/plain", *many).expect(0)
    chunked = ["--input.data", f"{path}:/chunked", *many]
    for arguments in (["run", "reduce", "-o", path.with_name("out.h5")], ["info"]):
        expect_words(run(*arguments, *chunked).expect(2).err, ["memory"])


def test_a_result_has_the_same_tables():
    path = new_folder() / "out.h5"
    run("run", "reduce", "--input.count", 1000, "-o", path, ranks=2).expect(0)
    told = tables_of(run("info", "--json", ranks=2).expect(0))
    with h5py.File(path) as file:
        assert file["provenance"].attrs["network"] == "within one host"
        ranks = file["topology/ranks"][()]
        assert list(ranks.dtype.names) == list(told["ranks"][0])
        for stored, row in zip(ranks, told["ranks"]):
            for name in ("rank", "local_rank", "threads", "gpu_node"):
                assert stored[name] == row[name], name
            assert stored["cpus"].decode() == row["cpus"]
        units = told["units"]["gpus"]
        gpus, peers = file["topology/gpus"], file["topology/peers"]
        assert len(gpus) == len(peers) == 0
        assert {name: gpus.attrs[f"units_{name}"] for name in units} == units
        assert peers.dtype.names == ("gpu", "peer", "host", "access", "performance_rank", "link")


def test_nothing_is_sampled_on_the_host():
    path = new_folder() / "out.h5"
    finished = run("run", "reduce", "--input.count", 1000, "--measure.repeat", 3, "-o",
                   path).expect(0)
    assert "energy" not in finished.values, finished
    with h5py.File(path) as file:
        assert len(file["telemetry/gpu"]) == 0
        assert file["telemetry"].attrs["energy_from"] == "nothing"
        assert "power" in file["telemetry/gpu"].dtype.names
        assert list(file["timing/reps"]["throttled"]) == [-1, -1, -1]
        assert b"energy" not in file["summary"]["metric"]


def test_shows_the_error_of_a_run():
    """Everything is shown first, and then the run's own message and exit code."""
    if os.environ.get("SHARDSTREAM_TEST_CUDA") == "ON":
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
    else:
        hidden = {}

    def check(ranks, form):
        arguments = ["--device.backend", "cuda"]
        refused = run("run", "reduce", "--input.count", 10, "-o", new_folder() / "out.h5",
                      *arguments, ranks=ranks, env=hidden).expect(2)
        finished = run("info", *form, *arguments, ranks=ranks, env=hidden).expect(2)
        assert finished.err == refused.err, f"{finished}\n{refused}"
        sentence = re.fullmatch(r"(?:rank 0: )?error: (.*)\n", finished.err)[1]
        told = tables_of(finished) if form else text_tables(finished)
        problem, = [row["finding"] for row in told["findings"] if row["kind"] == "problem"]
        assert problem == sentence, finished
        assert [row["backend"] for row in told["ranks"]] == ["none"] * ranks, finished
        assert "ceilings" not in told
    each([(ranks, form) for ranks in (1, 2) for form in ([], ["--json"], ["--json", "--measure"])],
         check)


def test_an_ini_file_counts():
    folder = new_folder()
    (folder / "job.ini").write_text("[device]\nbackend = cuda\n")
    without = {"SHARDSTREAM_DEVICE_BACKEND": None, "CUDA_VISIBLE_DEVICES": ""}
    finished = run("info", "--json", folder / "job.ini", env=without).expect(2)
    assert "--device.backend" in finished.err, finished
    run("info", folder / "job.ini", "--device.backend", "host", env=without).expect(0)


def test_bad_arguments():
    def check(arguments, words, ranks):
        expect_complaint(run("info", *arguments, ranks=ranks), 2, words)
    cases = [
        (["--jsn"], ["--jsn", "--json"]),
        (["--measures"], ["--measures", "--measure"]),
        (["--json=true"], ["--json", "true"]),
        (["--json", "true"], ["--json", "true"]),
        (["reduce"], ["reduce", "NAME.ini", "shardstream info --help"]),
        (["a.ini", "b.ini"], ["b.ini"]),
        (["none.ini"], ["none.ini"]),
        (["--device.backend", "gpu"], ["--device.backend", "gpu", "cuda", "host", "auto"]),
        (["--device.backend", "--json"], ["--device.backend", "cuda", "host", "auto"]),
    ]
    each([(*case, ranks) for case in cases for ranks in (1, 2)], check)
    expect_complaint(run("run", "reduce", "--measure"), 2, ["--measure"])


def test_output_that_cannot_be_written():
    def check(ranks, form):
        with open("/dev/full", "w", encoding="ascii") as full:
            finished = subprocess.run(
                command_line(["info", *form], ranks), env=environment(), stdout=full,
                stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        # With a launcher, the pipe to the launcher accepts all output.
        if ranks == 1:
            assert finished.returncode == 1, finished
            expect_words(finished.stderr, ["standard output", "No space left on device"])
    each([(1, []), (1, ["--json"])], check)


main()
