#!/usr/bin/python3
"""The files of an input are all files that contain its bytes: none is replaced, each is in the
result, and a change during the run makes the result unverified. Data that a file does not have, or
that mean something else than what is stored, give an error or a warning. Files of other runs and
users are left alone."""

import os
import pathlib
import stat
import threading

import h5py
import numpy as np

from harness import (check_complaints, each, expect_complaint, expect_warning, expect_words, finish,
                     main, new_folder, part_files, reduce, run, start, wait_until)
from products import ON_HOST, why_no_products

ROWS, COLUMNS = 40, 30
ANYWAY = ["--output.overwrite", "anything"]


# ---------------------------------------------------------------- files behind files

def values(seed=1, rows=ROWS):
    return np.random.default_rng(seed).standard_normal((rows, COLUMNS))


def write_virtual(path, sources, dataset="v"):
    """Writes a virtual data set of `sources`, pairs of file and data set, one below another."""
    layout = h5py.VirtualLayout((ROWS * len(sources), COLUMNS), "f8")
    for i, (file, name) in enumerate(sources):
        layout[i * ROWS:(i + 1) * ROWS] = h5py.VirtualSource(file, name, (ROWS, COLUMNS))
    with h5py.File(path, "w", libver="latest") as file:
        file.create_virtual_dataset(dataset, layout)


def write_raw(path, raw):
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_external(os.fsencode(raw), 0, ROWS * COLUMNS * 8)
    with h5py.File(path, "w") as file:
        made = h5py.h5d.create(file.id, b"r", h5py.h5t.IEEE_F64LE,
                               h5py.h5s.create_simple((ROWS, COLUMNS)), creation)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values(3))


class Inputs:
    """Data sets whose bytes are in other files: {argument: [files that it needs]}."""

    def __init__(self):
        self.folder = folder = new_folder()
        for i in (0, 1):
            with h5py.File(folder / f"source{i}.h5", "w") as file:
                file["x"] = values(i)
        write_virtual(folder / "virtual.h5", [("source0.h5", "x"), ("source1.h5", "x")])
        with h5py.File(folder / "target.h5", "w") as file:
            file["y"] = values(2)
        with h5py.File(folder / "link.h5", "w") as file:
            file["l"] = h5py.ExternalLink("target.h5", "/y")
        with h5py.File(folder / "chain.h5", "w") as file:
            file["c"] = h5py.ExternalLink("link.h5", "/l")
            file["soft"] = h5py.SoftLink("/c")
        write_raw(folder / "raw.h5", folder / "raw.bin")
        write_virtual(folder / "nested.h5", [("virtual_part.h5", "v"), ("link.h5", "l")])
        write_virtual(folder / "virtual_part.h5", [("source0.h5", "x")])
        self.needs = {
            "virtual.h5:/v": ["virtual.h5", "source0.h5", "source1.h5"],
            "link.h5:/l": ["link.h5", "target.h5"],
            "chain.h5:/soft": ["chain.h5", "link.h5", "target.h5"],
            "raw.h5:/r": ["raw.h5", "raw.bin"],
            "nested.h5:/v": ["nested.h5", "virtual_part.h5", "source0.h5", "link.h5", "target.h5"],
        }

    def contents(self):
        return {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}


def test_files_behind_files_are_not_replaced():
    inputs = Inputs()
    folder = inputs.folder
    os.link(folder / "source1.h5", folder / "hard.h5")
    (folder / "soft.h5").symlink_to("target.h5")
    before = inputs.contents()
    cases = []
    for name, files in inputs.needs.items():
        for file in files:
            cases.append((["run", "reduce", "--input.data", folder / name, "-o", folder / file,
                           *ANYWAY], 2, [f"'{folder / file}'", "input"]))
    for name, file in (("virtual.h5:/v", "hard.h5"), ("link.h5:/l", "soft.h5")):
        cases.append((["run", "gram", "--input.data", folder / name, "-o", folder / file,
                       *ANYWAY], 2, [f"'{folder / file}'", "input"]))
    cases.append((["run", "gemm", "--input.a", folder / "virtual.h5:/v", "--input.b",
                   folder / "raw.h5:/r", "--gemm.transpose-b", "true", "--dry-run", "-o",
                   folder / "raw.bin", *ANYWAY], 2, [f"'{folder / 'raw.bin'}'", "input"]))
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[1:2] + cases[-2:-1], ranks=(2,))
    assert inputs.contents() == before


def test_files_that_lead_back_to_one_another():
    """HDF5 has each of these files open twice at the same time. It treats a file that it cannot
    open as missing, and its elements as fill values."""
    folder = new_folder()
    with h5py.File(folder / "b.h5", "w") as file:
        back = h5py.VirtualLayout((ROWS, COLUMNS), "f8")
        back[:] = h5py.VirtualSource("a.h5", "x", (ROWS, COLUMNS))
        file.create_virtual_dataset("v", back)
        file["l"] = h5py.ExternalLink("a.h5", "/group/chunked")
    with h5py.File(folder / "a.h5", "w") as file:
        file["x"] = values()
        for name, data in (("group/chunked", values()), ("other", values(5))):
            file.create_dataset(name, data=data, chunks=(7, 9))
        for name, source in (("own", ("./a.h5", "x")), ("v", ("b.h5", "v")), ("l", ("b.h5", "l"))):
            layout = h5py.VirtualLayout((ROWS, COLUMNS), "f8")
            layout[:] = h5py.VirtualSource(*source, (ROWS, COLUMNS))
            file.create_virtual_dataset(f"virtual {name}", layout, fillvalue=-7)
        file["link"] = h5py.ExternalLink("b.h5", "/l")
        file["soft"] = h5py.SoftLink("/link")
    with h5py.File(folder / "c.h5", "w") as file:
        file["link"] = h5py.ExternalLink("a.h5", "/virtual own")
        file["x"] = h5py.SoftLink("/link")
        file["group"] = file["other"] = h5py.SoftLink("/soft")
        file["soft"] = h5py.ExternalLink("a.h5", "/group/chunked")
    least = repr(values().min())

    def check(name):
        out = new_folder() / "out.h5"
        finished = reduce(folder / name, out, "--reduce.ops", "min")
        assert finished.values["min"] == least and finished.err == "", finished
        with h5py.File(out) as file:
            for row in file["input/files"][:]:
                with h5py.File(row["path"]) as behind:
                    assert row["dataset"] in behind, row
    each([(name,) for name in ("a.h5:/virtual own", "a.h5:/virtual v", "a.h5:/virtual l",
                               "a.h5:/link", "a.h5:/soft", "c.h5:/link", "c.h5:/x", "c.h5:/group",
                               "c.h5:/other", "c.h5:/soft")], check)


def test_files_are_in_the_result():
    inputs = Inputs()
    out = new_folder() / "out.h5"
    for name, files in inputs.needs.items():
        reduce(inputs.folder / name, out, "--output.overwrite", "true")
        with h5py.File(out) as file:
            rows = file["input/files"][:]
            assert file["config"].attrs["working_directory"] == os.getcwd()
        assert {pathlib.Path(row["path"].decode()).name for row in rows} == set(files), rows
        for row in rows:
            status = os.stat(row["path"])
            assert os.path.isabs(row["path"]) and row["option"] == b"input.data", row
            assert (row["size"], row["modified_ns"]) == (status.st_size, status.st_mtime_ns), row
        assert rows[0]["dataset"].decode() == name.split(":")[1]


def test_a_change_during_the_run():
    """A source file of the named one changes; the inputs are checked after the last repetition."""
    inputs = Inputs()

    def check(name, file, ranks):
        out = new_folder() / "out.h5"
        process = start("run", "reduce", "--input.data", inputs.folder / name, "-o", out,
                        "--measure.repeat", 1500, ranks=ranks)
        wait_until(lambda: part_files(out.parent), process)
        os.utime(inputs.folder / file)
        finished = finish(process).expect(3)
        assert finished.values["verified"] == "false", finished
        expect_words(finished.err, [f"'{inputs.folder / file}'"], finished)
        with h5py.File(out) as result:
            assert result.attrs["status"] == "unverified"
            assert result["results"].attrs["verified"] == 0
            expect_words(result["results"].attrs["verdict"], [f"'{inputs.folder / file}'"])
            assert not result["results/reduce"]["validated"].any()
    each([("virtual.h5:/v", "source1.h5", 1), ("chain.h5:/c", "target.h5", 1),
          ("raw.h5:/r", "raw.bin", 2)], check, workers=1)


def test_missing_files():
    inputs = Inputs()
    folder = inputs.folder
    (folder / "source1.h5").rename(folder / "away")
    (folder / "target.h5").rename(folder / "away too")
    os.truncate(folder / "raw.bin", 100)
    write_virtual(folder / "circle.h5", [("circle.h5", "v")])
    write_virtual(folder / "none.h5", [("source0.h5", "nothing")])

    def of(name):
        return ["run", "reduce", "--input.data", folder / name]
    check_complaints([
        (of("virtual.h5:/v"), 2, ["virtual.h5:/v", "'source1.h5'"]),
        (of("link.h5:/l"), 2, ["link.h5", "'target.h5'"]),
        (of("nested.h5:/v"), 2, ["nested.h5:/v", "'target.h5'"]),
        (of("raw.h5:/r"), 2, ["raw.bin'", 100]),
        (of("circle.h5:/v"), 2, ["circle.h5:/v", "itself"]),
        (of("none.h5:/v"), 2, ["'nothing'", "source0.h5"]),
    ], ranks=(1,))
    check_complaints([(of("virtual.h5:/v"), 2, ["'source1.h5'"])], ranks=(2,))


def test_special_files_behind_a_file():
    """An error at once: HDF5 would wait for a writer of the FIFO."""
    folder = new_folder()
    for name in ("source0.h5", "target.h5", "raw.bin"):
        os.mkfifo(folder / name)
    write_virtual(folder / "virtual.h5", [("source0.h5", "x")])
    with h5py.File(folder / "link.h5", "w") as file:
        file["l"] = h5py.ExternalLink("target.h5", "/y")
        file["group"] = h5py.ExternalLink("target.h5", "/")
        file["soft"] = h5py.SoftLink("/group/x")
        file["device"] = h5py.ExternalLink("/dev/zero", "/y")
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_external(os.fsencode(folder / "raw.bin"), 0, 80)
    with h5py.File(folder / "raw.h5", "w") as file:
        h5py.h5d.create(file.id, b"r", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((10,)), creation)
    check_complaints([
        (["run", "reduce", "--input.data", f"{folder}/{name}"], 2, words) for name, words in (
            ("virtual.h5:/v", ["source0.h5'", "FIFO"]), ("link.h5:/l", ["target.h5'", "FIFO"]),
            ("link.h5:/group/x", ["target.h5'", "FIFO"]),
            ("link.h5:/soft", ["target.h5'", "FIFO"]), ("link.h5", ["link.h5", "numbers"]),
            ("link.h5:/nothing", ["'/nothing'"]),
            ("link.h5:/device", ["'/dev/zero'", "character device"]),
            ("raw.h5:/r", ["raw.bin'", "FIFO"]), ("target.h5", ["target.h5'", "pipe"]))],
                     ranks=(1,))


# ---------------------------------------------------------------- what data means

def test_elements_that_were_never_written():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        sparse = file.create_dataset("chunked", (100, 100), "f4", chunks=(10, 10), fillvalue=7)
        sparse[:10, :30] = 1
        file.create_dataset("never", (50,), "f4", fillvalue=2)
        file.create_dataset("empty_chunks", (50,), "f4", chunks=(5,), compression="gzip")
        file.create_dataset("whole", (55,), "f4", chunks=(10,))[:] = 1
        layout = h5py.VirtualLayout((60,), "f4")
        layout[5:] = h5py.VirtualSource(".", "whole", (55,))
        file.create_virtual_dataset("virtual", layout, fillvalue=3)
        layout = h5py.VirtualLayout((60,), "f4")
        for first in (0, 5):  # both map the elements 5 to 54
            layout[first:first + 55] = h5py.VirtualSource(".", "whole", (55,))
        file.create_virtual_dataset("overlapping", layout, fillvalue=3)
        layout = h5py.VirtualLayout((60,), "f4")
        for first in (0, 2):
            layout[first:first + 55] = h5py.VirtualSource(".", "whole", (55,))
        file.create_virtual_dataset("overlapping_gap", layout, fillvalue=3)

    def check(name, words, total, ranks):
        source, out = folder / f"in.h5:/{name}", new_folder() / "out.h5"
        finished = reduce(source, out, "--reduce.ops", "sum", ranks=ranks)
        assert float(finished.values["sum"]) == total, finished
        if words is None:
            assert finished.err == "", finished
            reduce(source, out, "--input.unwritten", "error", "--output.overwrite", "true")
            return
        expect_warning(finished, [source, *words])
        complaint = run("run", "reduce", "--input.data", source, "-o", new_folder() / "out.h5",
                        "--input.unwritten", "error", ranks=ranks)
        expect_complaint(complaint, 2, [source, *words, "--input.unwritten fill"])
    each([("chunked", ["97 of 100 chunks"], 9700 * 7 + 300, 1), ("whole", None, 55, 1),
          ("never", [], 100, 2), ("empty_chunks", ["10 of 10 chunks"], 0, 1),
          ("virtual", ["5 of 60 elements"], 55 + 15, 1), ("overlapping", None, 60, 1),
          ("overlapping_gap", ["3 of 60 elements"], 57 + 9, 1)], check)


def write_unfilled(path, fill):
    """x (2 000 000) and m (200, 10 000) of i32, of whose 200 chunks every second one is written.
    For the other chunks, HDF5 does not write to the reader's memory (fill time NEVER)."""
    chunk = 10_000
    with h5py.File(path, "w") as file:
        for name, shape, of_chunk in (("x", (200 * chunk,), (chunk,)),
                                      ("m", (200, chunk), (1, chunk))):
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_chunk(of_chunk)
            creation.set_scaleoffset(h5py.h5z.SO_INT, 0)  # only H5Dread decodes it
            creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            creation.set_fill_value(np.array(fill, "i4"))
            dataset = h5py.Dataset(h5py.h5d.create(
                file.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple(shape),
                creation))
            for i in range(0, 200, 2):
                where = i if name == "m" else slice(i * chunk, (i + 1) * chunk)
                dataset[where] = np.arange(1, chunk + 1)
    return 100 * chunk * (chunk + 1) // 2 + 100 * chunk * fill


def test_memory_that_hdf5_leaves():
    """Memory that HDF5 does not write contains data of earlier reads, or a pattern. No result may
    contain it."""
    poisoned = {"MALLOC_PERTURB_": "165"}
    folder = new_folder()
    totals = {fill: write_unfilled(folder / f"{fill}.h5", fill) for fill in (0, 3)}

    def check(name, fill, ranks, element_type):
        source = f"{folder / f'{fill}.h5'}:/{name}"
        finished = reduce(source, new_folder() / "out.h5", "--reduce.ops", "sum", "--input.type",
                          element_type, ranks=ranks, env=poisoned)
        assert float(finished.values["sum"]) == totals[fill], finished
        expect_words(finished.err, [source, "100 of 200 chunks"], finished)
    each([("x", 0, 1, "auto"), ("x", 0, 2, "auto"), ("x", 0, 3, "auto"), ("x", 3, 2, "f64"),
          ("m", 3, 1, "i64")], check)
    source = f"{folder / '3.h5'}:/m"
    expect_complaint(run("run", "reduce", "--input.data", source, "-o", new_folder() / "out.h5",
                         "--input.unwritten", "error"), 2,
                     [source, "100 of 200 chunks", "--input.unwritten fill"])
    if why_no_products():
        return
    out = new_folder() / "out.h5"
    run("run", "gram", "--input.data", source, "--gram.of", "rows", "--input.type", "f64", "-o",
        out, env={**ON_HOST, **poisoned}).expect(0)
    with h5py.File(folder / "3.h5") as file, h5py.File(out) as result:
        matrix = np.full(file["m"].shape, 3.0)
        matrix[::2] = file["m"][::2]
        assert (result["results/C"][()] == matrix @ matrix.T).all()


# name: stored type, attributes, those that are applied, those that look like one of them
MEANINGS = {
    "packed": ("i2", {"_FillValue": np.int16(-1), "scale_factor": 0.01, "add_offset": 0.0,
                      "valid_range": np.array([0, 50], "i2")},
               "_FillValue, valid_range, scale_factor, add_offset", ""),
    "unsigned": ("i1", {"_Unsigned": "true"}, "_Unsigned", ""),
    "eos": ("i2", {"MissingValue": np.int16(-9), "ScaleFactor": 0.1, "Offset": 0.0},
            "MissingValue, ScaleFactor, Offset", ""),
    "others": ("f4", {"no_data": -1.0, "Slope": 2.0, "intercept": 1.0, "gain": "0.5",
                      "valid_min": np.float32(0)}, "valid_min",
               "Slope, gain, intercept, no_data"),
    "plain": ("f8", {"scale_factor": 1.0, "offset": 0.0, "_Unsigned": "false", "MATLAB_empty": 0,
                     "units": "m", "long_name": "fill scale", "actual_range": [0.0, 9.0],
                     "grayscale": 2.0}, "", "")}


def test_attributes_that_are_applied_and_others_that_look_alike():
    """Every workload names them in its output and in the result; a warning names look-alikes."""
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        for name, (stored, attributes, _, _) in MEANINGS.items():
            dataset = file.create_dataset(name, data=np.arange(12).reshape(4, 3).astype(stored))
            dataset.attrs.update(attributes)

    def check(workload, name, *options):
        out = new_folder() / "out.h5"
        said = dict(zip(("applied", "not_applied"), MEANINGS[name][2:]))
        option = "input.data" if workload != "gemm" else "input.a"
        finished = run("run", workload, f"--{option}", f"{path}:/{name}", *options, "-o", out,
                       env=ON_HOST).expect(0)
        if "--dry-run" not in options:
            lines = dict(text.split("=", 1) for text in finished.out.splitlines())
            with h5py.File(out) as file:
                stored = dict(file["input"].attrs)
            for key, names in said.items():
                if option != "input.data" and names:
                    names = ", ".join(f"{text} of {option}" for text in names.split(", "))
                assert lines.get(key, "") == stored.get(key, "") == names, finished
        names = said["not_applied"]
        if names:
            expect_warning(finished, [f"{path}:/{name}", *names.split(", ")])
        else:
            assert finished.err == "", finished
    fp64 = ("--product.precision", "fp64")
    products = [] if why_no_products() else [
        ("gemm", "packed", "--input.b", "uniform", "--gemm.n", 2, "--input.type", "f64", *fp64),
        ("gram", "unsigned", *fp64), ("covariance", "eos", *fp64), ("gram", "others", *fp64),
        ("correlation", "plain", *fp64)]
    each([*(("reduce", name) for name in MEANINGS), ("reduce", "others", "--dry-run"), *products],
         check)


# ---------------------------------------------------------------- what a run may replace

def test_only_results_are_replaced():
    folder = new_folder()
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = values()
    run("generate", "--input.count", 10, "-o", folder / "generated.h5:/x").expect(0)
    (folder / "text").write_text("something else")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    command = ["run", "reduce", "--input.count", 10, "-o"]
    check_complaints([([*command, path, "--output.overwrite", how], 2,
                       [f"'{path}'", "--output.overwrite anything"])
                      for path in before for how in ("false", "true")], ranks=(1,))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    for path in before:
        run(*command, path, *ANYWAY).expect(0)
        run(*command, path, "--output.overwrite", "true").expect(0)
    run("generate", "--input.count", 10, "-o", f"{path}:/x", "--output.overwrite",
        "true").expect(2)


def test_permissions():
    """During a run, only its user can access its files; published files have the permissions of
    umask."""
    out = new_folder() / "out.h5"
    process = start("run", "reduce", "--input.count", "2^22", "--measure.repeat", 200, "-o", out,
                    prefix=["sh", "-c", 'umask 027; exec "$@"', "sh"])
    wait_until(lambda: part_files(out.parent), process)
    assert stat.S_IMODE(part_files(out.parent)[0].stat().st_mode) == 0o600
    finish(process).expect(0)
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_of_two_runs_of_one_result_one_leaves_it_and_the_other_nothing():
    """Both runs start when there is no result."""
    folder = new_folder()
    arguments = ["run", "gemm", "--gemm.m", 1600, "--gemm.n", 1600, "--gemm.k", 800,
                 "--pipeline.gpu-memory", "24MiB", "-o", folder / "c.h5"]
    processes = [start(*arguments) for _ in range(2)]
    finished = []
    threads = [threading.Thread(target=lambda p=p: finished.append(finish(p))) for p in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = sorted(each.code for each in finished)
    assert codes in ([0, 1], [0, 2]), finished
    assert [path.name for path in folder.iterdir()] == ["c.h5"], list(folder.iterdir())
    for each_run in finished:
        assert "-o" not in each_run.err.split(), f"there is nothing to resume:\n{each_run}"


main()
