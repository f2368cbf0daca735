#!/usr/bin/python3
"""`bench` without a GPU, its file, and what `report` makes of files of experiments."""

import json
import pathlib
import re
import shutil

import h5py
import numpy as np

from harness import check_complaints, each, expect_complaint, expect_words, main, new_folder, run

NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}  # with this MPI_Init fails in Open MPI
HOST = ["--device.backend", "host"]
QUICK = ["--quick", "--measure.repeat", 6, *HOST]
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/bench.h5"
V100 = ["--bandwidth.clock", 877, "--bandwidth.width", 4096]
SMALL = ["--reduction.count", "2^20", "--reduction-order.count", "2^20"]
ON_HOST = {"reduction", "reduction-order"}  # without options of their own
STATES = ["measured", "not available", "wrong", "failed", "not run"]


def bench(*arguments, ranks=1):
    """Runs experiments. Returns what is printed, and the tables of the file by experiment."""
    path = new_folder() / "bench.h5"
    finished = run("bench", *arguments, "-o", path, ranks=ranks).expect(0)
    with h5py.File(path) as file:
        index = {row["experiment"].decode(): row for row in file["bench/experiments"][...]}
        tables = {name: file[f"bench/{name}/rows"][...] for name in file["bench"]
                  if name != "experiments"}
    return finished.out, index, tables, path


def names():
    """All experiments by --list, with their groups."""
    out = run("bench", "--list", env=NO_MPI).expect(0).out
    group, found = "", {}
    for line in out.splitlines():
        if match := re.fullmatch(r"[a-z ]+ \(([a-z]+)\):", line):
            group = match[1]
        elif match := re.match(r"  ([a-z0-9-]+)  +[A-Z]", line):
            found[match[1]] = group
    return found


# ---------------------------------------------------------------- without MPI and CUDA

def test_list_and_help():
    found = names()
    assert {"memory", "ladders"} <= set(found.values()) and len(found) >= 6, found

    def check(name):
        text = run("bench", "help", name, env=NO_MPI).expect(0).out
        expect_words(text, ["bench", name, "Needs"])
        assert text == run("bench", name, "--help", env=NO_MPI).expect(0).out
    each([(name,) for name in found], check)


def test_bad_input():
    check_complaints([(["bench", "strid"], 2, ["strid", "stride"]),
                      (["bench"], 2, ["--list"]),
                      (["bench", "stride", "--stride.mst", 4], 2, ["stride.mst", "stride.most"]),
                      (["bench", "stride", "--stride.most", 0], 2, ["stride.most", "1..1024"]),
                      (["bench", "banks", "--stride.most", 4], 2, ["stride.most", "stride"]),
                      (["bench", "stride", "--measure.timeline"], 2, ["measure.timeline", "bench"]),
                      (["bench", "stride", "-o", "no/folder/x.h5"], 2, ["no/folder"])])
    for arguments, words in ((["help"], ["help"]), (["help", "strid"], ["strid", "stride"]),
                             (["--list", "stride"], ["--list", "stride"])):
        expect_complaint(run("bench", *arguments, env=NO_MPI), 2, words)


# ---------------------------------------------------------------- on hosts

def test_theoretical_bandwidth():
    out, index, tables, _ = bench("bandwidth", *V100, *QUICK)
    rate, = tables["bandwidth"]["rate"]
    assert abs(rate - 898.048) < 1e-9, rate
    assert index["bandwidth"]["state"] == b"measured"
    expect_words(out, ["898"])


def test_ranks_have_their_rows():
    _, _, tables, _ = bench("reduction", "--reduction.count", "2^20", *QUICK, ranks=2)
    rows = tables["reduction"]
    assert sorted(rows["rank"]) == [0, 1], rows
    for row in rows:
        assert 0 < row["ci_lo"] <= row["time"] <= row["ci_hi"], row
        assert abs(row["read"] - 2**22 / row["time"] / 1e6) < 1e-6 * row["read"], row


def test_what_is_not_available():
    """It says why, and costs no other experiment its result."""
    out, index, tables, _ = bench("all", *SMALL, *QUICK)
    assert set(index) == set(names()), index
    assert set(tables) == ON_HOST, set(tables)
    for name, row in index.items():
        state = row["state"].decode()
        assert state == ("measured" if name in ON_HOST else "not available"), (name, state)
        assert (row["message"] == b"") == (state == "measured"), row
    expect_words(out, ["--bandwidth.clock", "reduction"])


def test_existing_file():
    folder = new_folder()
    path = folder / "bench.h5"
    command = ["bench", "bandwidth", *V100, *QUICK, "-o", path]
    run(*command).expect(0)
    before = path.read_bytes()
    expect_complaint(run(*command), 2, [path, "output.overwrite"])
    assert path.read_bytes() == before
    run(*command, "--output.overwrite", "true").expect(0)
    assert path.read_bytes() != before
    assert [file.name for file in folder.iterdir()] == ["bench.h5"]


# ---------------------------------------------------------------- reports

def test_report_says_what_bench_printed():
    out, _, _, path = bench("bandwidth", "reduction", "--reduction.count", "2^20", *V100, *QUICK)
    text = run("report", path, env=NO_MPI).expect(0).out
    printed = out[:out.index("file=")].strip()
    assert printed in text, (printed, text)


def test_report_of_the_example():
    """Every experiment that was measured has its table and its figure."""
    with h5py.File(EXAMPLE) as file:
        index = file["bench/experiments"][...]
    measured = [row["experiment"].decode() for row in index if row["state"] == b"measured"]
    assert set(measured) == set(names()), set(measured) ^ set(names())
    expect_words(run("report", EXAMPLE).expect(0).out, measured)
    told = json.loads(run("report", EXAMPLE, "--json").expect(0).out)
    assert [each["name"] for each in told["benches"][0]["experiments"]] == measured
    page = new_folder() / "page.html"
    run("report", EXAMPLE, "-o", page).expect(0)
    text = page.read_text(encoding="utf-8")
    assert text.count("<figure") == len(measured), text.count("<figure")
    assert "class=\"missing\"" not in text or shutil.which("gnuplot") is None


def damaged(change):
    """The example with `change` made to it."""
    path = new_folder() / "damaged.h5"
    shutil.copy(EXAMPLE, path)
    path.chmod(0o644)
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def test_damaged_files():
    def without_index(file):
        del file["bench/experiments"]

    def without_table(file):
        del file["bench/stride/rows"]

    def other_columns(file):
        file["bench/stride"].attrs["y"] = np.bytes_("nothing")
    for change in (without_index, without_table, other_columns):
        path = damaged(change)
        expect_complaint(run("report", path), 2, [path])


def test_hostile_texts():
    evil = "</title><script>alert(1)</script>`rm x`'\x1b]0;x"

    def spoil(file):
        for name in ("summary", "notes", "reference"):
            file["bench/stride"].attrs[name] = np.bytes_(evil)
    path = damaged(spoil)
    out = run("report", path).expect(0).out
    assert "\x1b" not in out
    page = new_folder() / "page.html"
    run("report", path, "-o", page).expect(0)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script" in text


if __name__ == "__main__":
    main()
