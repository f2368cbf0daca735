#!/usr/bin/python3
"""The commands besides `run`: help and version, which start nothing, and `generate`, whose data are
compared with the same generators in numpy."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess

import h5py
import numpy as np

import results
from harness import (LEAF, OPS, PROGRAM, TYPES, each, expect_complaint, main, new_folder,
                     ready_ini_files, run, skip_part, start)

EXAMPLE = (pathlib.Path(__file__).resolve().parents[2] /
           "inputs/examples/reduce-file-strong/p1-r1.h5")

# ---------------------------------------------------------------- help and version

# Makes MPI_Init of Open MPI fail, as test_they_start_no_mpi checks.
NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}


def test_help():
    whole = run("--help", env=NO_MPI).expect(0)
    assert whole.err == "" and whole.out.isascii(), whole
    for word in ("run WORKLOAD|CONFIG.ini", "generate", "info", "--version", "Exit codes",
                 "mpirun -np 2"):
        assert word in whole.out, f"{word}: {whole}"
    assert run("-h").out == run("help").out == whole.out
    readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
    commands = re.findall(r"^  shardstream ([a-z]+) (?!NAME)", whole.out, re.M)
    assert {"run", "info", "man"} <= set(commands) and "help" not in commands, whole
    for command in commands:
        assert re.search(rf"`{command}[ `]", readme), f"README.md lacks the command {command}"
        text = run(command, "--help", env=NO_MPI).expect(0).out
        assert text == run("help", command).out == run(command, "-h").out
        # --help is accepted with any other words.
        assert text == run(command, "--xyzzy", "--pipeline.batch", "64M", "--help").expect(0).out
        assert max(map(len, text.splitlines())) <= 100, text
    assert run("help", "gram").out == run("run", "gram", "--help").out
    assert run("help", "stride").out == run("bench", "help", "stride").out
    expect_complaint(run("help", "grma"), 2, ["'grma'", "gram"])


def test_words_that_are_no_command_and_no_workload():
    """The message names the word as it was typed, and the probable intention."""
    for words, told in (
            (["covariance"], ["'covariance'", "shardstream run covariance"]),
            (["covarianc"], ["'covarianc'", "shardstream run covariance"]),
            (["repot"], ["'repot'", "report"]), (["xyzzy"], ["'xyzzy'", "--help"]),
            (["run", "covarianc"], ["run", "'covarianc'", "covariance", "reduce"]),
            (["scale", "gem"], ["scale", "'gem'", "gemm"]), (["run", "xyzzy"], ["run", "'xyzzy'"])):
        finished = run(*words, env=NO_MPI)
        expect_complaint(finished, 2, told)
        assert "run.workload" not in finished.err and finished.err.count("did you mean") == (
            "xyzzy" not in words), finished
    folder = new_folder()
    (folder / "two").mkdir()
    for path, told in (("twoo/", ["'twoo/'", "'two'", "*.h5"]), ("xyzzy", ["'xyzzy'", "*.h5"]),
                       ("none/two", ["'none/two'"])):
        expect_complaint(run("report", path, cwd=folder), 2, ["file or folder", *told])
    expect_complaint(run("report", folder / "tow"), 2, [f"'{folder}/two'"])


def test_help_names_every_option():
    text = run("run", "--help").expect(0).out
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, "-o", folder / "out.h5").expect(0)
    with h5py.File(folder / "out.h5") as file:
        keys = set(file["config/origin"].attrs)
    assert set(re.findall(r"--([a-z]+\.[a-z-]+) ", text)) == keys, text
    for op in OPS:
        assert op in text
    text = run("generate", "--help").expect(0).out
    assert "--input.seed" in text and "--output.file" in text and "--reduce.ops" not in text, text
    # The help describes generate, not the defaults, inputs and results of run.
    text = " ".join(text.split())
    for word in ("f32;", "FILE.h5:/PATH", "with all its data sets", "one of uniform, ramp)"):
        assert word in text, f"{word}: {text}"
    for word in ("FILE:/PATH", "{workload}", "result", "INI"):
        assert word not in text, f"{word}: {text}"


def test_version():
    line = run("--version", env=NO_MPI).expect(0).out
    assert re.fullmatch(r"shardstream \d+\.\d+\.\d+ \(commit \S+( \S+)*, CUDA .+\)\n", line), line


def test_libraries_of_products_are_loaded_on_first_use():
    """With them, every start of a build with CUDA would take 0.06 s longer."""
    finished = run("--version", env={"LD_DEBUG": "files"}).expect(0)
    assert "libhdf5" in finished.err, finished
    assert "libcublas" not in finished.err and "openblas" not in finished.err, finished


def test_they_start_no_mpi():
    """With an MPI that cannot start, commands that need MPI fail, and the others work."""
    finished = run("run", "reduce", "--input.count", 10, "-o", new_folder() / "out.h5", env=NO_MPI)
    assert finished.code != 0, "this MPI is not Open MPI: the test needs another way to break it"
    for words in (["--help"], ["--version"], ["run", "--help"], ["generate", "--help"],
                  ["compare", "--help"], ["info", "--help"]):
        run(*words, env=NO_MPI).expect(0)


def test_they_start_no_mpi_after_mistakes():
    """Without a launcher, an error in the command is reported before MPI starts."""
    for words in (["run", "reduce", "--xyzzy", "1"], ["run", "nothing.ini"], ["generate", "x"],
                  ["runn"]):
        finished = run(*words, env=NO_MPI).expect(2)
        assert finished.err.count("\n") == 1, finished


def test_paths_that_cannot_be():
    """Invalid paths and circular links are user errors in every command: one sentence and exit
    code 2."""
    folder = new_folder()
    (folder / "loop").symlink_to("loop")
    loop, long = folder / "loop", 300 * "x"

    def check(*words):
        finished = run(*words, cwd=new_folder())
        expect_complaint(finished, 2, [])
        assert "filesystem error" not in finished.err, finished
        assert str(loop) in finished.err or "xxxx" in finished.err, finished
    count = ["--input.count", 10]
    each([words for path in (loop, long, f"{long}.ini", loop / "x.ini", loop / "x.h5")
          for words in (("report", path), ("compare", path, path), ("run", path), ("scale", path),
                        ("generate", *count, "-o", f"{path}:/x"),
                        ("run", "reduce", *count, "-o", path),
                        ("run", "reduce", *count, "--dry-run", "-o", path),
                        ("bench", "feed", "--quick", "-o", path))], check)


def test_folders_that_cannot_be_read():
    """The user has no permission to read the current folder, which the command names."""
    prefix = as_somebody_else()
    if prefix is None:
        return
    folder = pathlib.Path("/tmp", f"{new_folder().name}-unreadable")
    folder.mkdir()
    try:
        shutil.copy(EXAMPLE, folder / "a.h5")
        folder.chmod(0o700 if os.geteuid() == 0 else 0)

        def check(code, *words):
            finished = run(*words, prefix=prefix, env={"HOME": "/tmp"}, cwd=folder)
            assert "filesystem error" not in finished.err, finished
            finished.expect(code)
            if code != 0 and words[0] != "info":
                expect_complaint(finished, code, [])
        out = pathlib.Path("/tmp", f"{folder.name}.h5")
        each([(2, "report", folder), (2, "report", folder / "a.h5"), (2, "report", "."),
              (2, "compare", folder, folder / "a.h5"), (2, "run", "a.ini"),
              (2, "generate", "--input.count", 10, "-o", "x.h5:/x"),
              (2, "run", "reduce", "--input.count", 10, "-o", "x.h5"),
              (2, "info", "--input.data", "a.h5:/x"),
              (0, "run", "reduce", "--input.count", 10, "--dry-run", "-o", out)], check)
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def as_somebody_else():
    """The beginning of a command line that starts the program as a user without all permissions;
    None if root cannot start the program in this way."""
    if os.geteuid() != 0:
        return []
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    try:
        if subprocess.run([*prefix, PROGRAM, "--version"], capture_output=True,
                          check=False).returncode == 0:
            return prefix
    except FileNotFoundError:
        pass
    skip_part(f"missing permissions: root has all, and user 65534 cannot start {PROGRAM}")
    return None


def test_lack_of_memory():
    """The remedy in the message fits the command."""
    if os.environ.get("SHARDSTREAM_TEST_CUDA") == "ON":
        return skip_part("CUDA's libraries alone need more address space than this test allows")
    path = new_folder() / "large.h5"
    shutil.copy(EXAMPLE, path)
    with h5py.File(path, "r+") as file:
        table = file["topology/ranks"]
        kind = [(name, "S1000" if name == "device" else table.dtype[name])
                for name in table.dtype.names]
        del file["topology/ranks"]
        file.create_dataset("topology/ranks", (400_000,), kind, chunks=(100,))
    assert path.stat().st_size < 200_000
    for command in (["report", path], ["compare", path, EXAMPLE]):
        finished = run(*command, prefix=["prlimit", f"--as={300 << 20}"])
        expect_complaint(finished, 1, ["ulimit -v"])
        assert "pipeline" not in finished.err and "rank" not in finished.err, finished


def test_closed_output():
    """A reader that closes the pipe early causes neither an error of the program nor a core
    dump."""
    process = start("run", "--help")
    process.stdout.close()
    process.wait(timeout=10)
    assert process.returncode in (0, 1, -13), process.returncode


def test_full_standard_output():
    """Output that cannot be written is an error, and so is a closed standard output, whose number
    no file gets."""
    folder = new_folder()
    commands = (["--help"], ["--version"], ["run", "--help"], ["generate", "--help"],
                ["generate", "--input.count", 1000, "-o", f"{folder}/data.h5:/x"],
                ["run", "reduce", "--input.data", folder / "data.h5", "-o", folder / "out.h5"])
    for words, (where, why) in itertools.product(
            commands, ((">/dev/full", "No space left"), (">&-", "Bad file descriptor"))):
        finished = run(*words, prefix=["sh", "-c", f"exec \"$@\" {where}", "sh"],
                       env={"SHARDSTREAM_OUTPUT_OVERWRITE": "true"})
        file = ["complete"] if "-o" in words else []
        expect_complaint(finished, 1, ["standard output", why, *file])
        assert file or "complete" not in finished.err, finished
    assert np.array_equal(read(folder / "data.h5", "x"), generated("uniform", "f32", 1000, 1))
    assert results.stored_reduce(folder / "out.h5")["count"]["value"] == 1000
    assert len(list(folder.iterdir())) == 2


def test_an_ini_file_whose_workload_is_named_elsewhere():
    folder = new_folder()
    (folder / "job.ini").write_text("[input]\ncount = 1000\n")
    job = ["run", folder / "job.ini", "--dry-run"]
    for words, env in ((["--run.workload", "reduce"], {}),
                       ([], {"SHARDSTREAM_RUN_WORKLOAD": "reduce"})):
        assert "dry run of reduce" in run(*job, *words, env=env).expect(0).out


def test_ready_ini_files_of_reduce():
    folder = new_folder()
    for path in ready_ini_files("reduce"):
        run("run", path, "-o", folder / f"{path.stem}.h5",
            env={"SHARDSTREAM_INPUT_COUNT": "100000"}).expect(0)


# ---------------------------------------------------------------- generate

def mix(z):
    """SplitMix64's finaliser, on arrays of uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def generated(generator, name, count, seed):
    """The generators, implemented from their description in kernels/data/generate.hpp."""
    index = np.arange(count, dtype=np.uint64)
    dtype = np.dtype(TYPES[name])
    if generator == "ramp":
        modulus = {"f32": 2**24, "f64": 2**53, "i32": 2**31, "i64": 2**63, "i8": 2**7,
                   "u8": 2**8, "u64": 2**63}[name]  # no index reaches 2^63
        return (index % np.uint64(modulus)).astype(dtype)
    stream = mix(np.array([seed ^ 0x6a09e667f3bcc909], dtype=np.uint64))
    bits = mix(stream + index * np.uint64(0x9e3779b97f4a7c15))
    if name == "f32":
        return (bits >> np.uint64(40)).astype(dtype) / dtype.type(2**24)
    if name == "f64":
        return (bits >> np.uint64(11)).astype(dtype) / dtype.type(2**53)
    unsigned = (bits >> np.uint64(64 - 8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    return unsigned.view(dtype)


def read(path, dataset, dimensions=1):
    with h5py.File(path) as file:
        stored = file[dataset]
        assert stored.chunks is None and stored.ndim == dimensions
        assert stored.id.get_offset() % 4096 == 0 or stored.nbytes < 4096
        return stored[()]


def test_generate():
    """The same elements on any number of ranks, whose shares are not whole leaves."""
    def check(generator, name, count, seed):
        expected = generated(generator, name, count, seed)
        folder = new_folder()
        for ranks in (1, 3):
            path = folder / f"{ranks}.h5"
            options = [] if generator == "ramp" else ["--input.seed", seed]
            finished = run("generate", "--input.data", generator, "--input.type", name,
                           "--input.count", count, *options, "-o", f"{path}:/deep/down/data",
                           ranks=ranks).expect(0)
            assert finished.err == "" and finished.out == (
                f"elements={count}\ntype={name}\nbytes={expected.nbytes} B\n"
                f"file={path}:/deep/down/data\n"), finished
            data = read(path, "deep/down/data")
            assert data.dtype == expected.dtype
            assert data.tobytes() == expected.tobytes(), f"{ranks} ranks"
        assert len(list(folder.iterdir())) == 2
    sizes = itertools.cycle([(3 * 2**20 + 17, 1), (300001, 0), (1, 12345), (2**20, 2**64 - 1)])
    each([(generator, name, *next(sizes)) for generator in ("uniform", "ramp") for name in TYPES],
         check)


def test_generate_with_a_shape():
    """Elements are numbered row by row, on any number of ranks."""
    def check(shape, text, ranks):
        folder = new_folder()
        finished = run("generate", "--input.shape", text, "--input.type", "f64", "-o",
                       f"{folder}/a.h5:/x", ranks=ranks).expect(0)
        assert f"elements={np.prod(shape)}\n" in finished.out, finished
        expected = generated("uniform", "f64", np.prod(shape), 1).reshape(shape)
        assert np.array_equal(read(folder / "a.h5", "x", len(shape)), expected)
        # Generated data and the same data from the file give the same output, except for input=.
        values = [run("run", "reduce", *data, "-o", folder / f"{name}.h5").expect(0).out
                  .split("\ntime=")[0].split("page_cache=")[0].rstrip().split("\n", 1)[1]
                  for name, data in (("file", ["--input.data", folder / "a.h5"]),
                                     ("none", ["--input.shape", text, "--input.type", "f64"]))]
        assert values[0] == values[1], values
    each([((1001, 517), "1001x517", 1), ((1001, 517), "1001x517", 3), ((1, 1), "1x1", 2),
          ((2048, 1000), "2^11x1e3", 1), ((300, 7, 11), "300 x 7 x 11", 1), ((5,), "5", 1)], check)


def test_bad_shapes():
    def check(arguments, words, ranks):
        folder = new_folder()
        finished = run("generate", "-o", f"{folder}/a.h5:/x", *arguments, ranks=ranks)
        expect_complaint(finished, 2, ["input.shape", *words])
        assert list(folder.iterdir()) == []
    cases = [
        (["--input.shape", "4096x"], ["''", "4096x2048"]),
        (["--input.shape", "4096,2048"], ["4096,2048", "4096x2048"]),
        (["--input.shape", "4x-3"], ["-3"]),
        (["--input.shape", "4x0"], ["4x0", "f32"]),
        (["--input.shape", "2^40x2^40"], [f"{2**40}x{2**40}", "f32"]),
        (["--input.shape", "x".join(["1"] * 33)], [33, 32]),
        (["--input.shape", "4x5", "--input.count", "20"], ["input.count"]),
    ]
    each([(*case, ranks) for case in cases for ranks in (1, 3)], check)


def test_ramp_goes_round():
    count = 2**24 + 1000
    folder = new_folder()
    run("generate", "--input.data", "ramp", "--input.count", count, "-o", f"{folder}/a.h5:/x",
        ranks=2).expect(0)
    data = read(folder / "a.h5", "x")
    assert data.dtype == np.float32 and np.array_equal(data, generated("ramp", "f32", count, 0))
    assert data[2**24] == 0 and data[2**24 - 1] == 2**24 - 1


def test_neighbouring_seeds_are_unlike():
    folder = new_folder()
    each([(seed,) for seed in range(4)], lambda seed: run(
        "generate", "--input.count", 1000, "--input.seed", seed, "-o",
        f"{folder}/{seed}.h5:/x").expect(0))
    values = np.concatenate([read(folder / f"{seed}.h5", "x") for seed in range(4)])
    assert len(np.unique(values)) > 3990


def test_generate_takes_options_from_anywhere():
    folder = new_folder()
    run("generate", "--output.file", f"{folder}/a.h5:/x", env={
        "SHARDSTREAM_INPUT_COUNT": "2^10", "SHARDSTREAM_INPUT_TYPE": "u8",
        "SHARDSTREAM_REDUCE_OPS": "sum"}).expect(0)  # an option of other commands
    assert np.array_equal(read(folder / "a.h5", "x"), generated("uniform", "u8", 1024, 1))


def test_generate_onto_existing():
    folder = new_folder()
    path = folder / "a.h5"
    path.write_text("precious")
    arguments = ["generate", "--input.count", LEAF, "-o", f"{path}:/x"]
    for ranks in (1, 3):
        expect_complaint(run(*arguments, ranks=ranks), 2, [path, "--output.overwrite anything"])
        assert path.read_text() == "precious"
    run(*arguments, "--output.overwrite", "anything", ranks=3).expect(0)
    assert np.array_equal(read(path, "x"), generated("uniform", "f32", LEAF, 1))
    # A second data set would replace the file.
    assert run("generate", "--input.count", 10, "-o", f"{path}:/y").code == 2
    assert len(list(folder.iterdir())) == 1


def test_bad_targets():
    def check(arguments, words, ranks):
        """{} stands for the folder of the case."""
        folder = new_folder()
        (folder / "folder.h5").mkdir()
        with h5py.File(folder / "in.h5", "w") as file:
            file["x"] = np.arange(10.0)
        arguments, words = ([str(word).replace("{}", str(folder)) for word in words_of]
                            for words_of in (arguments, words))
        finished = run("generate", "--input.count", 1000, *arguments, ranks=ranks)
        expect_complaint(finished, 2, words)
        assert sorted(path.name for path in folder.iterdir()) == ["folder.h5", "in.h5"]
    sizes = ["--input.count", "--input.shape"]
    cases = [
        ([], ["-o FILE.h5:/PATH"]),
        (["-o", "{}/a.h5"], ["-o FILE.h5:/PATH", "{}/a.h5"]),
        (["-o", ":/x"], ["-o FILE.h5:/PATH"]),
        (["-o", "{}/a.h5:/"], ["'/'", "/GROUP/NAME"]),
        (["-o", "{}/a.h5:/x/"], ["'/x/'", "/GROUP/NAME"]),
        (["-o", "{}/none/a.h5:/x"], ["{}/none"]),
        (["-o", "{}/folder.h5:/x"], ["{}/folder.h5", "folder"]),
        (["-o", "{}/a.h5:/x", "--input.data", "{}/in.h5:/x"],
         ["input.data", "{}/in.h5:/x", "uniform", "ramp"]),
        (["-o", "{}/a.h5:/x", "--input.count", "0"], ["input.count"]),
        (["-o", "{}/a.h5:/x", "uniform"], ["uniform", "--help"]),
        (["-o", "{}/a.h5:/x", "--input.sed", "4"], ["--input.sed", "--input.seed"]),
        *((["-o", "{}/a.h5:/x", option, value], [option, "run", "generate", *more])
          for option, value, more in (
              ("--gram.rows", 5, ["gram", "covariance", "correlation", *sizes]),
              ("--gemm.m", 5, ["gemm", *sizes]), ("--input.a", "a.h5", ["gemm", "--input.data"]),
              ("--reduce.ops", "sum", ["reduce"]), ("--run.workload", "gemm", []),
              ("--measure.repeat", 3, []))),
    ]
    each([(*case, ranks) for case in cases for ranks in (1, 3)], check)


def test_generate_more_than_there_is_room_for():
    def check(ranks):
        folder = new_folder()
        finished = run("generate", "--input.count", "2^55", "--input.type", "u8", "-o",
                       f"{folder}/a.h5:/x", ranks=ranks)
        expect_complaint(finished, 2, [folder])
        assert list(folder.iterdir()) == []
        finished = run("generate", "--input.count", "2^62", "--input.type", "f64", "-o",
                       f"{folder}/a.h5:/x", ranks=ranks)
        expect_complaint(finished, 2, [2**62, "f64"])
        assert list(folder.iterdir()) == []
    each([(1,), (2,)], check)


main(always=True)
