#!/usr/bin/python3
"""Errors in the command and its input: one message names the option, the value and the remedy,
once for all ranks; the exit code is right, no files are left, and the program ends in seconds."""

import os

import h5py
import numpy as np

from harness import (OPS, check_complaints, each, expect_complaint, expect_words, finish, main,
                     new_folder, part_files, run, start, wait_until, write_sparse)

RANDOM = np.random.default_rng(8)


# ---------------------------------------------------------------- the command

def test_options():
    reduce = ["run", "reduce", "--input.count", "1000"]
    cases = [
        ([*reduce, "--reduce.opps", "sum"], 2, ["--reduce.opps", "--reduce.ops"]),
        ([*reduce, "--ops", "sum"], 2, ["--ops", "--reduce.ops"]),
        (["run", "covariance", "--input", "x.h5"], 2, ["--input", "--input.data"]),
        ([*reduce, "--pipeline.batc=4MiB"], 2, ["--pipeline.batc", "--pipeline.batch"]),
        ([*reduce, "--xyzzy", "1"], 2, ["--xyzzy"]),
        ([*reduce, "--pipeline.batch", "64M"], 2,
         ["--pipeline.batch", "64M", "64MB", 64000000, "64MiB"]),
        ([*reduce, "--pipeline.slot", "12parsecs"], 2, ["--pipeline.slot", "12parsecs", "MiB"]),
        ([*reduce, "--pipeline.slot", "-4MiB"], 2, ["--pipeline.slot", "-4MiB"]),
        ([*reduce, "--pipeline.batches", "1000"], 2, ["--pipeline.batches", 1000, "1..64"]),
        ([*reduce, "--pipeline.readers", "many"], 2, ["--pipeline.readers", "many", "1..1024"]),
        (["run", "reduce", "--input.count", "0"], 2, ["--input.count", 0, 1]),
        *(([*reduce, option, value], 2, [option, value]) for option, value in (
            ("--measure.repeat", "0"), ("--measure.repeat", "autox"),
            ("--measure.precision", "0"), ("--measure.precision", "2"),
            ("--measure.precision", "auto"), ("--measure.max-time", "60"))),
        (["run", "reduce", "--input.count", "2^64"], 2, ["--input.count", "2^64"]),
        (["run", "gemm", "--input.shape", "10x10"], 2,
         ["--input.shape", "reduce", "gemm", "--gemm.m", "--gemm.n", "--gemm.k"]),
        (["run", "gram", "--input.a", "x.h5"], 2, ["--input.a", "gram", "--input.data"]),
        *((["run", workload], 2, [workload, "--input."])
          for workload in ("reduce", "gemm", "gram", "covariance", "correlation")),
        (["run", "covariance", "--gram.rows", 9, "--gram.center", "false"], 2,
         ["gram.center", "covariance"]),
        (["run", "covariance", "--gram.rows", 9, "--gram.scale"], 2, ["gram.scale", "covariance"]),
        (["run", "correlation", "--gram.rows", 9, "--gram.scale=no"], 2,
         ["gram.scale", "correlation"]),
        (["run", "gram", "--gram.rows", 9, "--gram.center", "yes"], 2, ["yes", "gram"]),
        (["run", "reduce", "--gram.rows", 5], 2,
         ["--gram.rows", "--input.count", "--input.shape", "gram"]),
        (["run", "covariance", "--gram.rows", 9, "--input.type", "u64"], 2,
         ["u64", "--input.type i64", "f64"]),
        ([*reduce, "--input.type", "f16"], 2, ["--input.type", "f16", "f32", "u8"]),
        ([*reduce, "--reduce.ops", "sum,medain"], 2, ["--reduce.ops", "medain", *OPS]),
        ([*reduce, "--reduce.ops", "sum,meen"], 2, ["--reduce.ops", "meen", "mean"]),
        *(([*reduce, "--reduce.ops", f"sum,{other}"], 2,
           ["--reduce.ops", other, f"did you mean {name}"])
          for other, name in (("std", "stddev"), ("sd", "stddev"), ("avg", "mean"),
                              ("var", "variance"), ("maximum", "max"))),
        ([*reduce, "--device.backend", "gpu"], 2, ["--device.backend", "gpu", "cuda"]),
        ([*reduce, "--reduce.ops", "sum,sum"], 2, ["--reduce.ops", "sum", "twice"]),
        ([*reduce, "--reduce.ops", ""], 2, ["--reduce.ops", "empty"]),
        ([*reduce, "--reduce.missing", "skip"], 2,
         ["--reduce.missing", "skip", "auto", "ignore", "propagate", "error"]),
        ([*reduce, "--pipeline.mode", "residant"], 2,
         ["--pipeline.mode", "residant", "resident"]),
        ([*reduce, "--output.overwrite", "maybe"], 2,
         ["--output.overwrite", "maybe", "false", "true", "anything"]),
        ([*reduce, "--output.resume", "never"], 2, ["--output.resume", "reduce", "gemm"]),
        ([*reduce, "--reduce.ops"], 2, ["--reduce.ops", *OPS]),
    ]
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[::4], ranks=(2,))  # several ranks agree on the error


def test_words():
    check_complaints([
        (["runn", "reduce"], 2, ["runn", "run"]),
        (["run", "reduc"], 2, ["reduc", "reduce"]),
        (["run", "reduce", "sum"], 2, ["sum", "reduce"]),
        (["run", "reduce", "sst.nc:/sst"], 2, ["--input.data sst.nc:/sst"]),
        (["run", "gemm", "a.h5:/A"], 2, ["--input.a a.h5:/A"]),
        (["run", "sst.nc"], 2, ["'sst.nc'", "run reduce --input.data sst.nc"]),
        (["scale", "x.h5:/x"], 2, ["'x.h5:/x'", "scale reduce --input.data x.h5:/x"]),
        (["run"], 2, ["run", "workload"]),
    ], ranks=(1,))
    expect_complaint(run(), 2, ["command", "--help"])


def test_environment_and_ini():
    folder = new_folder()

    def ini(name, text):
        (folder / name).write_text(text)
        return ["run", folder / name]

    random, sparse = folder / "random.ini", folder / "sparse.ini"
    random.write_bytes(b"\x89\xff\xfe\x9b31m\xc3\n" + RANDOM.bytes(100000))
    sparse.touch()
    os.truncate(sparse, 2**30)
    reduce = ["run", "reduce", "--input.count", "1000"]
    check_complaints([
        (reduce, 2, ["SHARDSTREAM_PIPELINE_BATCH", "64M", "64MB", "64MiB"],
         {"SHARDSTREAM_PIPELINE_BATCH": "64M"}),
        (ini("key.ini", "[reduce]\nops = sum\n[input]\ncuont = 5\n"), 2,
         [f"{folder}/key.ini:4", "input.cuont", "input.count"]),
        (ini("value.ini", "[pipeline]\n\nbatch = 64M\n"), 2, [f"{folder}/value.ini:3", "64M"]),
        (ini("line.ini", "[pipeline]\nbatch 64MiB\n"), 2, ["line.ini:2", "batch 64MiB"]),
        (ini("twice.ini", "[input]\ncount=1\ncount=2\n"), 2,
         ["twice.ini:3", "input.count", 1, "line 2", 2]),
        (["run", random], 2, ["random.ini:1", "\\x89\\xff\\xfe\\x9b31m\\xc3"]),
        (["run", sparse], 2, ["sparse.ini", "1 GiB", "INI"]),
        ([*reduce, "--pipeline.batch", "\x1b[31m" + 100000 * "x"], 2,
         ["--pipeline.batch", "'\\x1b[", 100005]),
        (reduce, 2, ["SHARDSTREAM_REDUCE_MISSING", "\\x1b[2J"],
         {"SHARDSTREAM_REDUCE_MISSING": "\x1b[2J"}),
        (["run", "reduce", "--input.data", "\x1b[31m\n.h5"], 2, ["\\x1b[31m\\x0a.h5"]),
        (ini("binary.ini", "\x7fELF\2\1\1\0"), 2, ["binary.ini:1"]),
        (["run", folder / "none.ini"], 2, [folder / "none.ini"]),
        (ini("nameless.ini", "[gemm]\nm = 5\n"), 2,
         [f"{folder}/nameless.ini", "workload", "reduce", "gemm"]),
    ], ranks=(1, 3))


def test_unknown_variables_are_warnings():
    """Unknown variables such as SHARDSTREAM_ROOT, which sites set, give one warning each on any
    number of ranks."""
    env = {"SHARDSTREAM_ROOT": "/opt/shardstream", "SHARDSTREAM_REDUCE_OPP": "sum"}

    def check(ranks, *arguments):
        finished = run(*arguments, ranks=ranks, env=env, cwd=new_folder()).expect(0)
        lines = [line for line in finished.err.splitlines() if "SHARDSTREAM_" in line]
        assert len(lines) == 2 and all("warning: " in line for line in lines), finished
        expect_words(finished.err, [*env, "SHARDSTREAM_REDUCE_OPS"], finished)
        if arguments[0] == "info":
            assert finished.out.count("SHARDSTREAM_ROOT") == 1, finished
    reduce = ["run", "reduce", "--input.count", "1000", "-o", "out.h5"]
    each([(ranks, *arguments) for ranks in (1, 2) for arguments in (
        reduce, [*reduce, "--dry-run"], ["info"],
        ["generate", "--input.count", "100", "-o", "out.h5:/x"])], check)


# ---------------------------------------------------------------- the input

def make_inputs(folder):
    """Writes good.h5, in which only /a/b/data can be computed, not-hdf5, cut.h5 and damaged
    files."""
    with h5py.File(folder / "good.h5", "w") as file:
        file["a/b/data"] = RANDOM.standard_normal(200000)
        file["a/other"] = np.arange(5)
        file["strings"] = np.array([b"one", b"two"])
        file["texts"] = ["of", "variable", "length"]
        file["compound"] = np.zeros(3, [("x", "f4"), ("y", "i4")])
        file.create_dataset("references", data=[file["a"].ref], dtype=h5py.ref_dtype)
        file["opaque"] = np.array([np.void(b"abc")])
        file["empty"] = np.zeros((4, 0, 3))
        file["nothing"] = h5py.Empty("f4")
        file["ragged"] = h5py.SoftLink("/nowhere")
        file["large"] = np.array([1.0, 1e10, 2.5])
    (folder / "text.h5").write_text("no HDF5 at all")
    (folder / "zero.h5").write_bytes(b"")
    (folder / "folder.h5").mkdir()
    whole = (folder / "good.h5").read_bytes()
    (folder / "cut.h5").write_bytes(whole[:len(whole) // 2])
    (folder / "stump.h5").write_bytes(whole[:600])


def test_inputs():
    folder = new_folder()
    make_inputs(folder)

    def data(name, *more):
        return ["run", "reduce", "--input.data", f"{folder}/{name}", *more]

    check_complaints([
        (data("none.h5"), 2, [folder / "none.h5"]),
        (data("none.h5:/x"), 2, [folder / "none.h5"]),
        (data("god.h5:/x"), 2, [folder / "god.h5", f"'{folder}/good.h5'"]),
        (data("good.h5/a/b/data"), 2, [f"{folder}/good.h5:/a/b/data"]),
        (["run", "reduce", "--input.data", "unifrom"], 2, ["unifrom", "uniform"]),
        (["run", "reduce", "--input.data", "https://x.org/sst.nc"], 2,
         ["'https://x.org/sst.nc'", "URL", "download"]),
        (data("good.h5:/a/b/dta"), 2, ["'/a/b/dta'", "/a/b/data"]),
        (data("good.h5:/data"), 2, ["'/data'", "/a/b/data"]),
        (data("good.h5:/xyzzy"), 2, ["'/xyzzy'", "/a/b/data", "/strings"]),
        (data("good.h5"), 2, ["good.h5", "/a/b/data", "/a/other"]),
        (data("good.h5:/a"), 2, ["'/a'", "group", "/a/b/data", "/a/other"]),
        (data("good.h5:/"), 2, ["good.h5", "group"]),
        (data("good.h5:/strings"), 2, ["good.h5:/strings", "strings", "numbers"]),
        (data("good.h5:/texts"), 2, ["good.h5:/texts", "strings", "numbers"]),
        (data("good.h5:/compound"), 2, ["good.h5:/compound", "compound", "numbers"]),
        (data("good.h5:/references"), 2, ["good.h5:/references", "references", "numbers"]),
        (data("good.h5:/opaque"), 2, ["good.h5:/opaque", "opaque", "numbers"]),
        (data("good.h5:/empty"), 2, ["good.h5:/empty", "no elements"]),
        (data("good.h5:/nothing"), 2, ["good.h5:/nothing", "no elements"]),
        (data("good.h5:/ragged"), 2, ["good.h5", "'/ragged'"]),
        (data("text.h5"), 2, ["text.h5", "HDF5"]),
        (data("zero.h5:/x"), 2, ["zero.h5", "empty"]),
        (data("folder.h5"), 2, ["folder.h5", "folder"]),
        (data("cut.h5:/a/b/data"), 2, ["cut.h5", "truncated"]),
        (data("stump.h5:/a/b/data"), 2, ["stump.h5", "truncated"]),
        # Only reading finds these errors:
        (data("good.h5:/large", "--input.type", "i32"), 1, ["good.h5:/large", "i32"]),
    ])


def test_damaged_chunks():
    """One rank or all ranks find a damaged chunk in the middle of the work."""
    folder = new_folder()
    path = folder / "in.h5"
    elements, chunk = 1000000, 10000
    with h5py.File(path, "w") as file:
        values = RANDOM.standard_normal(elements)
        file.create_dataset("zipped", data=values, chunks=(chunk,), compression="gzip")
        file.create_dataset("summed", data=values, chunks=(chunk,), fletcher32=True)
        file.create_dataset("thrice", data=values, chunks=(chunk,), compression="gzip")
        broken = [file[name].id.get_chunk_info(index) for name, index in
                  (("zipped", 70), ("summed", 70), ("thrice", 3), ("thrice", 50), ("thrice", 97))]
    with open(path, "r+b") as file:
        for info in broken:
            file.seek(info.byte_offset + info.size // 2)
            file.write(b"\xff" * 64)
    check_complaints([
        (["run", "reduce", "--input.data", f"{path}:/summed"], 1,
         [f"{path}:/summed", "[700000]", "fletcher32"]),
        (["run", "reduce", "--input.data", f"{path}:/zipped", "--pipeline.mode", "resident"], 1,
         [f"{path}:/zipped", "[700000]", "deflate"]),
        # Each rank finds a different error; one of them prints.
        (["run", "reduce", "--input.data", f"{path}:/thrice"], 1,
         [f"{path}:/thrice", "deflate"]),
    ], ranks=(1, 3))


def test_damaged_structure():
    """Bytes are changed anywhere before the data: the run gives an error or a result, and never
    crashes."""
    folder = new_folder()
    with h5py.File(folder / "whole.h5", "w") as file:
        file.create_dataset("group/x", data=np.arange(5000.0), chunks=(500,), compression="gzip")
        end = min(file["group/x"].id.get_chunk_info(i).byte_offset for i in range(10))
    whole = (folder / "whole.h5").read_bytes()

    def check(number, place):
        path = folder / f"{number}.h5"
        damaged = bytearray(whole)
        damaged[place:place + 4] = np.random.default_rng(place).bytes(4)
        path.write_bytes(damaged)
        out = new_folder()
        finished = run("run", "reduce", "--input.data", f"{path}:/group/x", "-o", out / "o.h5")
        assert finished.code in (0, 1, 2), finished
        if finished.code != 0:
            expect_complaint(finished, finished.code, [str(path)])
            assert list(out.iterdir()) == []
    each(enumerate(range(8, end, end // 14)), check)


def test_input_cut_while_it_is_read():
    folder = new_folder()

    def check(ranks):
        path = folder / f"{ranks}.h5"
        write_sparse(path, "f4", 2**30, {})
        out = new_folder()
        process = start("run", "reduce", "--input.data", path, "-o", out / "out.h5", ranks=ranks)
        wait_until(lambda: part_files(out), process)
        os.truncate(path, 2**20)
        expect_complaint(finish(process), 1, ["truncated", f"{path}:/x"])
        assert list(out.iterdir()) == []
        path.unlink()
    each([(1,), (3,)], check, workers=1)


main()
