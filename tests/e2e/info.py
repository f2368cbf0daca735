#!/usr/bin/python3
"""The command `info`, on the host backend: text and JSON agree, and what a run would be refused for
is shown, with the run's exit code. GPUs are tested where there are any."""

import json
import os
import re
import subprocess

import h5py

from harness import command_line, each, environment, main, new_folder, run

TABLES = ["versions", "ranks", "gpus", "peers", "findings"]


def tables_of(finished):
    """{table: rows} of the JSON on standard output; a row is {column: value}."""
    return json.loads(finished.out)


def text_tables(finished):
    """{table: [{column: text}]} of the text. Folded tables are put together again; columns are
    where the header's words begin or, for numbers, end."""
    tables = {}
    for part in re.split(r"\n(?=[a-z]+:)", finished.out):
        name, _, body = part.partition(":")
        rows = []
        for block in body.strip("\n").split("\n\n") if body.strip() != "none" else []:
            header, *lines = block.splitlines()
            names = re.findall(r"\S+(?: \[\S+\])?", header)
            for number, line in enumerate(lines):
                rows += [{}] * (number + 1 - len(rows))
                values = re.split(r"  +", line.strip(), maxsplit=len(names) - 1)
                rows[number] = {**rows[number], **dict(zip(names, values))}
        tables[name] = rows
    return tables


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
        for finding in told["findings"]:
            assert finding["kind"] in ("note", "warning"), finding

        shown = run("info", ranks=ranks).expect(0)
        text = text_tables(shown)
        assert list(text) == TABLES, shown
        assert [(row["rank"], row["threads"], row["cpus"]) for row in text["ranks"]] == [
            (str(row["rank"]), str(row["threads"]), row["cpus"]) for row in told["ranks"]], shown
        assert [row["pinned_nodes"] for row in text["ranks"]] == [
            row["pinned_nodes"] for row in told["ranks"]], shown
        assert {row["name"]: row["version"] for row in text["versions"]} == versions, shown
        assert [(row["kind"], row["finding"]) for row in text["findings"]] == [
            (row["kind"], row["finding"]) for row in told["findings"]], shown
    each([(1,), (2,)], check)


def test_measure():
    def check(ranks):
        finished = run("info", "--measure", "--json", ranks=ranks).expect(0)
        told = tables_of(finished)
        assert list(told) == ["versions", "ranks", "gpus", "peers", "ceilings", "findings",
                              "units"], finished
        link, = [row for row in told["ceilings"] if row["ceiling"] == "link_up"]
        assert link["unit"] == "GB/s" and 0 < link["per_rank_min"], link
        assert link["per_rank_min"] * ranks <= link["aggregate"] * (1 + 1e-12), link
        assert "\nceilings:\nceiling" in run("info", "--measure", ranks=ranks).expect(0).out
    each([(1,), (2,)], check, workers=1)


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


def test_what_a_run_would_be_refused_for():
    """Everything is shown all the same, and then the run's own sentence and code."""
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
        finished = run("info", *arguments, ranks=ranks).expect(2)
        assert re.fullmatch(r"(rank \d: )?error: [^\n]+\n", finished.err), finished
        assert finished.out == "", finished
        for word in words:
            assert word in finished.err, f"{word}: {finished}"
    cases = [
        (["--jsn"], ["unknown option '--jsn'", "did you mean --json?"]),
        (["--measures"], ["did you mean --measure?"]),
        (["--json=true"], ["--json takes no value"]),
        (["--json", "true"], ["'true'", "shardstream info --help"]),
        (["--json", "--json"], ["--json is given twice"]),
        (["reduce"], ["'reduce'", "NAME.ini"]),
        (["a.ini", "b.ini"], ["'b.ini'"]),
        (["none.ini"], ["none.ini"]),
        (["--device.backend", "gpu"], ["--device.backend", "cuda, host, or auto"]),
        (["--device.backend", "--json"], ["--device.backend needs a value"]),
    ]
    each([(*case, ranks) for case in cases for ranks in (1, 2)], check)
    assert "unknown option '--json'" in run("run", "reduce", "--json").expect(2).err


def test_output_that_cannot_be_written():
    def check(ranks, form):
        with open("/dev/full", "w", encoding="ascii") as full:
            finished = subprocess.run(
                command_line(["info", *form], ranks), env=environment(), stdout=full,
                stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        # With a launcher between, the pipe to it takes all; whether it tells is its affair.
        if ranks == 1:
            assert finished.returncode == 1, finished
            assert "standard output cannot be written (No space left" in finished.stderr, finished
    each([(1, []), (1, ["--json"])], check)


main()
