#!/usr/bin/python3
"""What can be wrong with a command, its input, its output and its surroundings: one error that
names the option, the value and the remedy, once for all ranks; the right exit code, nothing left
behind, and an end within seconds."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import h5py
import numpy as np

from harness import (OPS, PROGRAM, check_complaints, command_line, each, expect_complaint,
                     expect_gone, expect_words, finish, main, new_folder, part_files, ranks_below,
                     run, skip_part, start, wait_until, write_sparse)

RANKS = (1, 2)
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
        ([*reduce, "--input.type", "f16"], 2, ["--input.type", "f16", "f32", "u8"]),
        ([*reduce, "--reduce.ops", "sum,medain"], 2, ["--reduce.ops", "medain", *OPS]),
        ([*reduce, "--reduce.ops", "sum,meen"], 2, ["--reduce.ops", "meen", "mean"]),
        ([*reduce, "--reduce.ops", "sum,sum"], 2, ["--reduce.ops", "sum", "twice"]),
        ([*reduce, "--reduce.ops", ""], 2, ["--reduce.ops", "empty"]),
        ([*reduce, "--reduce.nan", "skip"], 2,
         ["--reduce.nan", "skip", "propagate", "ignore", "error"]),
        ([*reduce, "--pipeline.mode", "residant"], 2,
         ["--pipeline.mode", "residant", "resident"]),
        ([*reduce, "--output.overwrite", "maybe"], 2,
         ["--output.overwrite", "maybe", "false", "true", "anything"]),
        ([*reduce, "--output.resume", "never"], 2, ["--output.resume", "reduce", "gemm"]),
        ([*reduce, "--reduce.ops"], 2, ["--reduce.ops", *OPS]),
    ]
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[::4], ranks=(2,))  # the same way for all, once MPI has started


def test_words():
    check_complaints([
        (["runn", "reduce"], 2, ["runn", "run"]),
        (["run", "reduc"], 2, ["reduc", "reduce"]),
        (["run", "reduce", "sum"], 2, ["sum", "reduce"]),
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
        (reduce, 2, ["SHARDSTREAM_REDUCE_NAN", "\\x1b[2J"],
         {"SHARDSTREAM_REDUCE_NAN": "\x1b[2J"}),
        (["run", "reduce", "--input.data", "\x1b[31m\n.h5"], 2, ["\\x1b[31m\\x0a.h5"]),
        (ini("binary.ini", "\x7fELF\2\1\1\0"), 2, ["binary.ini:1"]),
        (["run", folder / "none.ini"], 2, [folder / "none.ini"]),
        (ini("nameless.ini", "[gemm]\nm = 5\n"), 2,
         [f"{folder}/nameless.ini", "workload", "reduce", "gemm"]),
    ], ranks=(1, 3))


def test_unknown_variables_are_warnings():
    """Sites set SHARDSTREAM_ROOT and the like; one warning a variable, whatever the ranks."""
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
    """good.h5, whose data sets are none but /a/b/data good; not-hdf5; cut.h5; rotten files."""
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
        (data("good.h5/a/b/data"), 2, [f"{folder}/good.h5:/a/b/data"]),
        (["run", "reduce", "--input.data", "unifrom"], 2, ["unifrom", "uniform"]),
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
        # Only to be seen once it is read:
        (data("good.h5:/large", "--input.type", "i32"), 1, ["good.h5:/large", "i32"]),
    ])


def test_damaged_chunks():
    """Found in the middle of the work, by one rank or by all."""
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
        # Each rank meets an error of its own here; one speaks.
        (["run", "reduce", "--input.data", f"{path}:/thrice"], 1,
         [f"{path}:/thrice", "deflate"]),
    ], ranks=(1, 3))


def test_damaged_structure():
    """Bytes changed anywhere in front of the data: an error or a result, never a crash."""
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


# ---------------------------------------------------------------- the output

def test_outputs():
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, "-o", folder / "done.h5").expect(0)
    (folder / "text").write_text("something else")
    (folder / "folder.h5").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def to(name, *more):
        return ["run", "reduce", "--input.count", "1000", "-o", name, *more]

    check_complaints([
        (to(folder / "done.h5"), 2, [folder / "done.h5", "--output.overwrite true"]),
        (to(folder / "text"), 2, [folder / "text", "--output.overwrite anything"]),
        (to("{out}/none/out.h5"), 2, ["/none'"]),
        (to(folder / "text" / "out.h5"), 2, [f"'{folder}/text'", "output.file"]),
        (to(folder / "folder.h5"), 2, [f"'{folder}/folder.h5'", "folder"]),
        (to(folder / "folder.h5", "--output.overwrite", "true"), 2,
         [f"'{folder}/folder.h5'", "folder"]),
        (to("{out}/"), 2, ["/'"]),
        (to("{out}/" + 250 * "x"), 2, [250 * "x", "long"]),
        (to(""), 2, ["output.file"]),
    ])
    for path, contents in before.items():
        assert path.read_bytes() == contents, path
    assert sorted(folder.iterdir()) == sorted([*before, folder / "folder.h5"])


def test_output_that_is_no_regular_file():
    """Never replaced, whatever is allowed. /dev/null itself isn't tried: a wrong program run by
    root would replace it for everybody."""
    folder = new_folder()
    os.mkfifo(folder / "fifo")
    (folder / "null").symlink_to("/dev/null")
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(folder, os.O_PATH)  # a socket's name is 107 bytes at the most
    listener.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    cases = []
    for name, kind in (("fifo", "FIFO"), ("null", "character device"), ("socket", "socket")):
        path = folder / name
        words = [f"'{path}'", kind, "output.file"]
        for more in ([], ["--output.overwrite", "true"]):
            cases += [
                (["run", "reduce", "--input.count", 1000, "-o", path, *more], 2,
                 [*words, "--output.store false"]),
                (["run", "gemm", "--gemm.m", 8, "--gemm.n", 8, "--gemm.k", 8, "--dry-run", "-o",
                  path, *more], 2, [*words, "--output.store false"]),
                (["generate", "--input.count", 1000, "-o", f"{path}:/x", *more], 2, words),
            ]
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[3:6:2], ranks=(2,))
    listener.close()
    assert (folder / "fifo").is_fifo() and (folder / "null").is_symlink()
    assert (folder / "socket").is_socket() and len(list(folder.iterdir())) == 3


def test_generate_onto_generated():
    """A second data set does not join the first."""
    path = new_folder() / "a.h5"
    generate = ["generate", "--input.count", 1000, "-o"]
    run(*generate, f"{path}:/A").expect(0)
    before = path.read_bytes()
    check_complaints([([*generate, f"{path}:/B"], 2,
                       [f"'{path}'", "output.file", "--output.overwrite true"])])
    assert path.read_bytes() == before
    run(*generate, f"{path}:/B", "--output.overwrite", "true").expect(0)
    with h5py.File(path) as file:
        assert list(file) == ["B"]


def test_output_onto_input():
    """Never replaces the data or the configuration, whatever the name and what is allowed."""
    folder = new_folder()
    data, ini = folder / "in.h5", folder / "in.ini"
    with h5py.File(data, "w") as file:
        file["x"] = np.arange(1000.0)
    ini.write_text("[run]\nworkload = reduce\n[input]\ncount = 1000\n")
    (folder / "soft.h5").symlink_to("in.h5")
    (folder / "hard.h5").hardlink_to(data)
    (folder / "around").symlink_to(".")
    before = {path: path.read_bytes() for path in (data, ini)}
    anyway = ["--output.overwrite", "anything"]

    def of(source, target, *more):
        return ["run", "reduce", "--input.data", folder / source, "-o", folder / target, *more]

    def refuses(name):
        return [f"'{folder}/{name}'", "input", "output.file"]
    check_complaints([
        (of("in.h5", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "in.h5"), 2, refuses("in.h5")),
        (of("in.h5:/x", "soft.h5", *anyway), 2, refuses("soft.h5")),
        (of("soft.h5:/x", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "hard.h5", *anyway), 2, refuses("hard.h5")),
        (of("in.h5:/x", "around/around/in.h5", *anyway), 2, refuses("around/around/in.h5")),
        (["run", ini, "-o", ini, *anyway], 2, refuses("in.ini")),
        (["run", ini, "--input.data", data, "-o", data, *anyway], 2, refuses("in.h5")),
    ])
    for path, contents in before.items():
        assert path.read_bytes() == contents, path
    assert len(list(folder.iterdir())) == 5
    # A copy is not the input, and a generator is no file, even where one has its name.
    shutil.copy(data, folder / "copy.h5")
    run(*of("in.h5", "copy.h5", *anyway)).expect(0)
    (folder / "uniform").write_text("not read")
    run("run", "reduce", "--input.count", 10, "-o", "uniform", *anyway, cwd=folder).expect(0)


def in_small_mount(options, command):
    """Runs `command`, in which {mount} stands for a folder where a tmpfs lies for this command
    alone (a mount namespace of its own). Returns how it ended and what it left in that folder."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    folder, listing = new_folder(), new_folder() / "listing"
    script = ('mount -t tmpfs -o "$1" tmpfs "$2" || exit 99; folder=$2 listing=$3; shift 3; "$@"; '
              'code=$?; ls -A "$folder" >"$listing"; exit $code')
    command = [str(word).replace("{mount}", str(folder)) for word in command]
    process = subprocess.Popen(
        ["unshare", *user, "--mount", "sh", "-c", script, "sh", options, folder, listing, *command],
        env={**os.environ, "SHARDSTREAM_DEVICE_BACKEND": "host", "OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.args = list(map(str, process.args))
    return finish(process), listing.read_text() if listing.exists() else None


def mounts_are_possible():
    finished, _ = in_small_mount("size=1m", ["true"])
    if finished.code != 0:
        skip_part(f"full disks and read-only folders: {finished.err.strip() or 'no unshare'}")
    return finished.code == 0


def test_full_disk_and_read_only_folder():
    if not mounts_are_possible():
        return

    def check(options, arguments, words, ranks):
        finished, left = in_small_mount(options, command_line(arguments, ranks))
        expect_complaint(finished, 2, words)
        assert left == "", left

    result = ["run", "reduce", "--input.count", 1e6, "-o", "{mount}/out.h5"]
    data = ["generate", "--input.count", 1e6, "-o", "{mount}/out.h5:/x"]
    each([case + (ranks,) for ranks in RANKS for case in (
        ("size=1m", result, ["MiB", "free"]), ("size=2m", data, ["MiB", "free"]),
        ("size=9m,ro", result, ["Read-only"]), ("size=9m,ro", data, ["Read-only"]))], check)
    finished, left = in_small_mount("size=1m", command_line(
        ["scale", *result[1:-2], "--scale.ranks", 1, "-o", "{mount}/study"], 1))
    expect_words(finished.expect(2).err, ["MiB", "free"], finished)
    assert left == "study\n", left
    # And with just enough of it:
    finished, left = in_small_mount("size=5m", command_line(result, 2))
    assert finished.expect(0) and left == "out.h5\n", left
    finished, left = in_small_mount("size=5m", command_line(data, 2))
    assert finished.expect(0) and left == "out.h5\n", left


def test_permissions():
    """As somebody who may neither write to a folder nor read a file."""
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        if subprocess.run([*prefix, PROGRAM, "--version"], capture_output=True).returncode != 0:
            skip_part(f"missing permissions: root has all, and user 65534 can't start {PROGRAM}")
            return
    folder = pathlib.Path("/tmp", f"{new_folder().name}-permissions")
    folder.mkdir()
    try:
        with h5py.File(folder / "in.h5", "w") as file:
            file["x"] = np.arange(10.0)
        (folder / "in.h5").chmod(0)
        folder.chmod(0o555)
        env = {"HOME": "/tmp"}
        expect_complaint(run("run", "reduce", "--input.count", 10, "-o", folder / "out.h5",
                             prefix=prefix, env=env), 2, [f"'{folder}'", "writable"])
        expect_complaint(run("run", "reduce", "--input.data", folder / "in.h5", "-o",
                             folder / "out.h5", prefix=prefix, env=env), 2,
                         [f"'{folder}/in.h5'", "permissions"])
        assert [path.name for path in folder.iterdir()] == ["in.h5"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_full_standard_output():
    """The result is in its file all the same, and the message says so."""
    out = new_folder() / "out.h5"
    expect_complaint(run("run", "reduce", "--input.count", 10, "-o", out,
                         prefix=["sh", "-c", "exec \"$@\" >/dev/full", "sh"]), 1,
                     ["standard output", out])
    with h5py.File(out) as file:
        assert file.attrs["status"] == "complete"


# ---------------------------------------------------------------- the launch and the machine

def test_expected_ranks():
    reduce = ["run", "reduce", "--input.count", "1000"]
    data = ["generate", "--input.count", "1000", "-o", "{out}/x.h5:/x"]

    def expecting(ranks, arguments):
        return [*arguments, "--launch.expect-ranks", str(ranks)]

    check_complaints([(expecting(2, reduce), 2,
                       ["launch.expect-ranks", 2, "1 rank", "mpirun"]),
                      (expecting(4, data), 2, ["launch.expect-ranks", 4, "1 rank"]),
                      (expecting("two", reduce), 2, ["--launch.expect-ranks", "two"]),
                      ([*reduce, "--launch.bind", "core"], 2, ["--launch.bind", "core"])],
                     ranks=(1,))
    check_complaints([(expecting(1, reduce), 2, ["launch.expect-ranks", 1, "2 ranks"]),
                      (reduce, 2, ["launch.expect-ranks", 3, "2 ranks"],
                       {"SHARDSTREAM_LAUNCH_EXPECT_RANKS": "3"})], ranks=(2,))
    for ranks in RANKS:
        run(*expecting(ranks, reduce), "-o", new_folder() / "out.h5", ranks=ranks).expect(0)


def test_silent_singletons():
    """Two were started, says the launcher's environment, and each is a world of its own."""
    check_complaints([(["run", "reduce", "--input.count", "1000"], 2,
                       ["2 processes", "PMI_SIZE", "srun --mpi=pmix"],
                       {"PMI_SIZE": "2"})], ranks=(1,))


def test_no_gpu():
    check_complaints([
        (["run", "reduce", "--input.count", "10", "--device.backend", "cuda"], 2,
         ["cuda", "--device.backend host"], {"CUDA_VISIBLE_DEVICES": ""}),
    ])


def test_memory():
    reduce = ["run", "reduce", "--input.count"]
    check_complaints([
        ([*reduce, "2^48", "--pipeline.batch", "100TiB"], 2, ["100 TiB", "--pipeline.gpu-memory"]),
        ([*reduce, "2^48", "--pipeline.slot", "100TiB", "--pipeline.batch", "100TiB",
          "--pipeline.gpu-memory", "1PiB"], 2, ["host", "--pipeline.slot"]),
        ([*reduce, "2^48", "--pipeline.mode", "resident"], 2, ["--pipeline.mode stream"]),
        ([*reduce, "2^45", "--pipeline.mode", "pinned"], 2, ["memory"]),
        ([*reduce, "1e7", "--pipeline.gpu-memory", "1MiB"], 2,
         ["1 MiB", "--pipeline.batch"]),
        ([*reduce, "1e7", "--pipeline.gpu-memory", "1KiB"], 2,
         ["1 KiB", "--pipeline.gpu-memory"]),
        ([*reduce, "2^62"], 2, [2**62, "f32"]),
    ])
    # A batch larger than all data is just that.
    run("run", "reduce", "--input.count", 1e6, "--pipeline.batch", "100TiB", "-o",
        new_folder() / "out.h5").expect(0)


def test_memory_remedies():
    """What the message says to do does help, when it is done as it is written there."""
    def check(arguments, limit, ranks):
        arguments = ["run", "reduce", *arguments, "-o", new_folder() / "out.h5"]
        finished = run(*arguments, "--pipeline.gpu-memory", limit, ranks=ranks).expect(2)
        remedy = re.search(r"(--pipeline\.\S+) (\d\S*)", finished.err)
        assert remedy, finished
        options = {"--pipeline.gpu-memory": limit, remedy[1]: remedy[2]}
        run(*arguments, *itertools.chain(*options.items()), ranks=ranks).expect(0)
    each([(["--input.count", "1e7"], "1MiB", 1), (["--input.count", "1e7"], "1MiB", 2),
          (["--input.count", "1e8"], "50MiB", 1), (["--input.count", "1e7"], "100KiB", 2),
          (["--input.count", "1e7", "--input.type", "f64"], "1KiB", 1)], check)


def test_ranks_share_the_memory_of_their_host():
    """Two ranks that would each take 60 % of it. A limit keeps a wrong program from taking it."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) * 1024 for line in file
                         if line.startswith("MemAvailable:"))
    out = new_folder()
    finished = run("run", "reduce", "--input.count", 2 * (available * 6 // 10 // 4),
                   "--pipeline.mode", "resident", "-o", out / "out.h5", ranks=2,
                   prefix=["prlimit", f"--as={available // 4}"])
    expect_complaint(finished, 2, ["memory"])
    assert list(out.iterdir()) == []


# ---------------------------------------------------------------- sudden ends

def start_long_run(out, ranks):
    """A run of more than a minute, that has been streaming for some time already."""
    process = start("run", "reduce", "--input.count", "2^36", "-o", out / "out.h5", ranks=ranks)
    wait_until(lambda: part_files(out), process)
    time.sleep(0.7)
    return process


def test_killed_process():
    """What a killed process has left the next run tidies up."""
    out = new_folder()
    process = start_long_run(out, 1)
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    assert len(list(out.iterdir())) == len(part_files(out)) == 1
    run("run", "reduce", "--input.count", 10, "-o", out / "out.h5").expect(0)
    assert [path.name for path in out.iterdir()] == ["out.h5"]


def test_signals():
    """To the one process, which ends by the signal as any would, or to the launcher."""
    def check(number, ranks):
        out = new_folder()
        process = start_long_run(out, ranks)
        children = list(ranks_below(process).values())
        process.send_signal(number)
        finished = finish(process, timeout=10)
        if ranks == 1:
            assert finished.code == -number, finished
            assert finished.err == "", finished
        assert finished.code != 0, finished
        assert "error:" not in finished.err, f"nobody is to blame:\n{finished}"
        expect_gone(children)
        assert list(out.iterdir()) == [], finished
    each([(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 1), (signal.SIGTERM, 2),
          (signal.SIGINT, 2)], check)


def test_ignored_signals_stay_ignored():
    """nohup's hang-up, and the interrupt key for what a shell script runs in the background."""
    out = new_folder()
    process = start("run", "reduce", "--input.count", "2^30", "-o", out / "out.h5",
                    prefix=["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"])
    wait_until(lambda: part_files(out), process)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    finish(process).expect(0)
    assert [path.name for path in out.iterdir()] == ["out.h5"]


def test_signal_while_generating():
    out = new_folder()
    for delay in (0, 0.05, 0.2):
        process = start("generate", "--input.count", "2^29", "-o", f"{out}/data.h5:/x")
        wait_until(lambda: part_files(out), process)
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        assert finish(process, timeout=10).code == -signal.SIGTERM
        assert list(out.iterdir()) == []


main()
