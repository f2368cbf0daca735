#!/usr/bin/python3
"""Names that act on a terminal, start a line or are not UTF-8: they are escaped wherever the
program prints them, and JSON stays JSON."""

import json
import os
import subprocess

import h5py
import numpy as np

from harness import command_line, each, environment, finish, main, new_folder

EVIL = b"a\n\x1b[2Jb\xffc\xc2\x9b"
ESCAPED = r"a\x0a\x1b[2Jb\xffc\xc2\x9b"
DATA_SET = "x\n\x1b]0;y"
ESCAPED_DATA_SET = r"x\x0a\x1b]0;y"


def run_bytes(*arguments, ranks=1, cwd=None):
    """As harness.run(), for arguments and output that are not UTF-8."""
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
    """A file with an evil name and a data set with another; returns FILE:/PATH."""
    path = os.path.join(os.fsencode(folder), EVIL + b".h5")
    with h5py.File(path, "w") as file:
        file.create_dataset(DATA_SET, data=np.ones((6, 4), "f4"))
    return path + b":/" + DATA_SET.encode()


def expect_lines(finished, keys):
    """Standard output is lines of KEY=, and these are among them."""
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
    """It names the data, and the files of checkpoints."""
    folder = new_folder()
    checkpoints = ["gemm", "--gemm.m", 2000, "--gemm.n", 2000, "--gemm.k", 500,
                   "--pipeline.gpu-memory", "20MiB"]
    for words in (["reduce", "--input.data", evil_file(folder)], checkpoints):
        finished = run_bytes("run", *words, "--dry-run", "-o", EVIL + b"2.h5", cwd=folder).expect(0)
        assert all(": " in line for line in finished.out.splitlines()), finished
        assert ESCAPED in finished.out, finished


def test_info():
    folder = new_folder()
    source = evil_file(folder)[:-1]  # there is no such data set: a finding says so
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


if __name__ == "__main__":
    main()
