#!/usr/bin/python3
"""Names and texts in files that control a terminal, start a line or are not UTF-8: they are escaped
wherever the program prints them, and JSON stays valid. Results whose tables are in other files are
rejected."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import h5py
import numpy as np

from harness import command_line, each, environment, finish, main, new_folder, run

EVIL = b"a\n\x1b[2Jb\xffc\xc2\x9b"
ESCAPED = r"a\x0a\x1b[2Jb\xffc\xc2\x9b"
DATA_SET = "x\n\x1b]0;y"
ESCAPED_DATA_SET = r"x\x0a\x1b]0;y"


def run_bytes(*arguments, ranks=1, cwd=None):
    """Like harness.run(), for arguments and output that are not UTF-8."""
    words = [os.fsencode(word) for word in command_line([], ranks)]
    words += [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
    process = subprocess.Popen(
        words, env=environment(ranks=ranks), cwd=cwd, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="surrogateescape")
    finished = finish(process)
    finished.command = [repr(word) for word in words]
    for text in (finished.out, finished.err):
        assert all(" " <= c <= "~" or c == "\n" for c in text), f"{text!r}\n{finished}"
    return finished


def evil_file(folder):
    """A file and a data set with hostile names; returns FILE:/PATH."""
    path = os.path.join(os.fsencode(folder), EVIL + b".h5")
    with h5py.File(path, "w") as file:
        file.create_dataset(DATA_SET, data=np.ones((6, 4), "f4"))
    return path + b":/" + DATA_SET.encode()


def expect_lines(finished, keys):
    """Checks that standard output only has lines KEY=VALUE, and that these are among them."""
    found = [line.split("=", 1)[0] for line in finished.out.splitlines()]
    assert all("=" in line for line in finished.out.splitlines()), finished
    assert set(keys) <= set(found) and len(found) == len(set(found)), finished


def test_runs():
    def check(workload, ranks):
        folder = new_folder()
        source = evil_file(folder)
        result = os.path.join(os.fsencode(folder), b"out" + EVIL + b".h5")
        finished = run_bytes("run", workload, "--input.data", source, "--measure.timeline", "-o",
                             result, ranks=ranks).expect(0)
        expect_lines(finished, ["file", "timeline", "verified"])
        assert finished.values["file"].endswith(f"/out{ESCAPED}.h5"), finished
        assert finished.values["timeline"].endswith(f"/out{ESCAPED}.trace.json"), finished
        with open(result[:-len(b".h5")] + b".trace.json", encoding="utf-8") as trace:
            assert json.load(trace)["traceEvents"]
    each([(workload, ranks) for workload in ("reduce", "gram") for ranks in (1, 2)], check)


def test_generate():
    folder = new_folder()
    target = EVIL + b".h5:/" + DATA_SET.encode()
    finished = run_bytes("generate", "--input.count", 100, "-o", target, cwd=folder).expect(0)
    expect_lines(finished, ["elements", "file"])
    assert finished.values["file"] == f"{ESCAPED}.h5:/{ESCAPED_DATA_SET}", finished
    assert os.listdir(os.fsencode(folder)) == [EVIL + b".h5"]


def test_dry_run():
    """It prints the names of the data and of the checkpoint's files."""
    folder = new_folder()
    checkpoints = ["gemm", "--gemm.m", 2000, "--gemm.n", 2000, "--gemm.k", 500,
                   "--pipeline.gpu-memory", "20MiB"]
    for words in (["reduce", "--input.data", evil_file(folder)], checkpoints):
        finished = run_bytes("run", *words, "--dry-run", "-o", EVIL + b"2.h5", cwd=folder).expect(0)
        assert all(": " in line for line in finished.out.splitlines()), finished
        assert ESCAPED in finished.out, finished


def test_info():
    folder = new_folder()
    source = evil_file(folder)[:-1]  # a missing data set, which gives a finding
    text = run_bytes("info", "--input.data", source).expect(2)
    assert text.out.count(ESCAPED) == 1 and ESCAPED in text.err, text
    (line,) = [line for line in text.out.splitlines() if ESCAPED in line]
    assert line.split()[:2] == ["0", "problem"], text
    told = json.loads(run_bytes("info", "--json", "--input.data", source).expect(2).out)
    (finding,) = [row for row in told["findings"] if row["kind"] == "problem"]
    assert ESCAPED in finding["finding"], told


def test_errors():
    folder = new_folder()
    finished = run_bytes("run", "reduce", "--input.data", EVIL + b".h5:/x", cwd=folder).expect(2)
    assert finished.err.count("\n") == 1 and ESCAPED in finished.err, finished
    assert finished.out == "" and os.listdir(folder) == []


# ---------------------------------------------------------------- results from untrusted sources

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/reduce-file-strong"
SECRET = "root:x:0:0:a line of a file that is no result"


def crafted(name, make):
    """Copies of two results of the example. In the second, make(file, table, shape, type) replaces
    the table `name`."""
    folder = new_folder()
    for path in sorted(EXAMPLE.glob("p[12]-r1.h5")):
        shutil.copy(path, folder)
    with h5py.File(folder / "p2-r1.h5", "r+") as file:
        old = file[name]
        shape, kind = old.shape, old.dtype
        attributes = dict(old.attrs)
        del file[name]
        make(file, name, shape, kind)
        if name in file and not isinstance(file.get(name, getlink=True), h5py.ExternalLink):
            file[name].attrs.update(attributes)
    return folder


def expect_unread(folder):
    """No command that reads results accepts the second one or shows contents of other files."""
    bad, out = folder / "p2-r1.h5", new_folder()
    for words, code in ((["report", folder], 1), (["report", folder, "-o", out / "page.html"], 1),
                        (["report", bad], 2), (["compare", folder / "p1-r1.h5", bad], 2),
                        (["run", "reduce", "--input.count", 1000, "--dry-run", "--rates", bad], 2)):
        finished = run(*words, timeout=30)
        if "--rates" not in words or "/topology/ranks" in finished.err:
            finished.expect(code)
            assert str(bad) in finished.err + finished.out, finished
        assert SECRET[:8] not in finished.out + finished.err, finished
    assert SECRET[:8] not in (out / "page.html").read_text(encoding="utf-8")


def test_tables_in_other_files():
    def external(target):
        def make(file, name, shape, kind):
            size = kind.itemsize * shape[0]
            file.create_dataset(name, shape, kind, external=[(str(target), 0, size)])
        return make

    def virtual(target):
        def make(file, name, shape, kind):
            with h5py.File(target, "w") as other:
                other.create_dataset("x", shape, kind)
            layout = h5py.VirtualLayout(shape, kind)
            layout[:] = h5py.VirtualSource(str(target), "x", shape)
            file.create_virtual_dataset(name, layout)
        return make

    def linked(target):
        def make(file, name, shape, kind):
            with h5py.File(target, "w") as other:
                other.create_dataset("x", shape, kind)
            file[name] = h5py.ExternalLink(str(target), "/x")
        return make

    def check(kind, name):
        target = new_folder() / "target"
        if kind == "text":
            target.write_text(SECRET * 200)
        elif kind == "fifo":
            os.mkfifo(target)
        make = {"virtual": virtual, "linked": linked}.get(kind, external)
        expect_unread(crafted(name, make(target)))
    each([(kind, name) for kind in ("text", "fifo", "virtual", "linked")
          for name in ("topology/ranks", "metrics", "timing/reps")], check)


def test_texts_of_results():
    """Each text of a result, of the attempts and of study.ini contains control characters."""
    evil = b"\x1b]0;owned\x07\x9b2J\nforged=1\r\x7f\xc2\x9b"
    folder = new_folder() / "study"
    shutil.copytree(EXAMPLE, folder)
    for path in folder.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            for group in ("/", "config", "provenance"):
                for key, value in file[group].attrs.items():
                    value = value.encode() if isinstance(value, str) else value
                    if isinstance(value, bytes) and key not in ("schema", "status", "run_uuid"):
                        file[group].attrs[key] = np.bytes_(value[:20] + evil)
            spoil_tables(file, evil)
            if path.name.startswith("p2"):  # faster than linear, with a reason in the file
                metrics, walls = file["metrics"][:], file["timing/reps"][:]
                metrics["value"][metrics["metric"] == b"bound_by"] = b"other" + evil
                walls["wall"] *= 0.2
                file["metrics"][:], file["timing/reps"][:] = metrics, walls
    lines = (folder / "attempts.jsonl").read_text().splitlines()
    attempt = json.loads(lines[0]) | {"problem": "p\x1b[2J\nforged=1", "log": "l\x1b[2J\x9b",
                                      "result": "p1-r1.h5\x1b\nforged=1"}
    (folder / "attempts.jsonl").write_text("\n".join([*lines, json.dumps(attempt)]) + "\n")
    slower = new_folder() / "slower"
    shutil.copytree(folder, slower)
    for path in slower.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            walls = file["timing/reps"][:]
            walls["wall"] *= 3
            file["timing/reps"][:] = walls
            file.attrs["run_uuid"] = np.bytes_(path.name.encode() + b"\x1b")
    for words in (["report", folder], ["report", folder, "--json"], ["compare", folder, slower],
                  ["compare", folder, slower, "--json"],
                  ["report", folder, "-o", new_folder() / "page.html"]):
        finished = run_bytes(*words)
        assert finished.code in (0, 1, 3, 4, 5), finished
        assert not re.search("^forged=1", finished.out + finished.err, re.MULTILINE), finished
        if "--json" in words:
            json.loads(finished.out)


def spoil_tables(file, evil):
    """Adds the bytes to every text of the tables that reports read, except keys."""
    keys = {"metric", "step", "gpu_uuid", "sampling"}

    def spoil(_, table):
        if not isinstance(table, h5py.Dataset) or table.dtype.names is None:
            return
        rows = table[:]
        kinds = [(name, "S160" if rows.dtype[name].kind == "S" and name not in keys
                  else rows.dtype[name]) for name in rows.dtype.names]
        found[table.name] = rows.astype(kinds), dict(table.attrs)
    found = {}
    file.visititems(spoil)
    for name, (rows, attributes) in found.items():
        for column in rows.dtype.names:
            if rows.dtype[column].kind == "S" and column not in keys:
                rows[column] = [text[:20] + evil for text in rows[column]]
        del file[name]
        file.create_dataset(name, data=rows).attrs.update(attributes)


if __name__ == "__main__":
    main()
