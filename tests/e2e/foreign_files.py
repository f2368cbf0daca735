#!/usr/bin/python3
"""Inputs that the program cannot read: formats of other programs, files that are being written,
formats of a newer HDF5, missing filters. Each message names the kind of the file and a remedy, and
the remedy works. Also: which data set FILE without a path names."""

import errno
import os
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np

from harness import (check_complaints, each, expect_words, main, new_folder, reduce, run, skip_part,
                     start, finish)

VALUES = np.arange(20.0)


def of(source):
    return ["run", "reduce", "--input.data", source]


def sum_of(source):
    finished = reduce(source, new_folder() / "out.h5", "--reduce.ops", "sum")
    return float(finished.values["sum"])


# ---------------------------------------------------------------- other formats

FORMATS = {  # first bytes, words of the message; all are in tests/unit/unreadable_file_test.cpp
    "classic.nc": (b"CDF\x01" + bytes(60), ["netCDF-3", "nccopy"]),
    "x.h5.gz": (b"\x1f\x8b\x08" + bytes(60), ["gzip", "gunzip"])}


def test_other_formats():
    folder = new_folder()
    for name, (start_of_it, _) in FORMATS.items():
        (folder / name).write_bytes(start_of_it)
    (folder / "x.zarr").mkdir()
    (folder / "x.zarr" / ".zarray").write_text("{}")
    check_complaints([
        *((of(f"{folder}/{name}"), 2, [f"'{folder}/{name}'", *words])
          for name, (_, words) in FORMATS.items()),
        (of(f"{folder}/x.zarr:/x"), 2, [f"'{folder}/x.zarr'", "Zarr"])], ranks=(1,))


def test_remedies_for_arrays():
    """The line of Python in the message writes the array into a file that the program can read."""
    folder = new_folder()
    np.save(folder / "in.npy", VALUES)
    np.savez(folder / "in.npz", x=VALUES)
    np.savetxt(folder / "in.csv", VALUES.reshape(5, 4), delimiter=",")

    def check(name):
        finished = run(*of(folder / name), "-o", folder / "out.h5").expect(2)
        code = re.search(r"h5py\.File\(.*\)", finished.err)
        assert code, finished
        made = folder / f"{name}.h5"
        code = re.sub(r"IN\.\w+", str(folder / name), code[0]).replace("OUT.h5", str(made))
        subprocess.run([sys.executable, "-c", f"import h5py, numpy\n{code}"], check=True)
        assert sum_of(f"{made}:/x") == VALUES.sum(), name
    each([("in.npy",), ("in.npz",), ("in.csv",)], check)


# ---------------------------------------------------------------- writers

def write(path, **how):
    with h5py.File(path, "w", **how) as file:
        file.create_dataset("x", data=VALUES, chunks=(5,), maxshape=(None,))


def test_files_that_are_being_written():
    """The writer still runs, or has crashed."""
    folder = new_folder()
    with h5py.File(folder / "open.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=VALUES, chunks=(5,), maxshape=(None,))
        file.flush()
        shutil.copy(folder / "open.h5", folder / "died.h5")
        if os.environ.get("HDF5_USE_FILE_LOCKING") is None:
            check_complaints([(of(folder / "open.h5"), 2,
                               ["open.h5'", "writes", "HDF5_USE_FILE_LOCKING"])], ranks=(1,))
        file.swmr_mode = True
        shutil.copy(folder / "open.h5", folder / "swmr.h5")
        check_complaints([(of(folder / "open.h5"), 2, ["open.h5'", "SWMR", "wait"])], ranks=(1,))
    assert sum_of(folder / "open.h5") == VALUES.sum()
    with h5py.File(folder / "early.h5", "w") as file:
        file["x"] = np.arange(100_000.0)
        shutil.copy(folder / "early.h5", folder / "early_died.h5")
    check_complaints([
        *((of(folder / name), 2, [f"'{folder}/{name}'", f"h5clear -s {folder}/{name}"])
          for name in ("died.h5", "swmr.h5")),
        (of(folder / "early_died.h5"), 2, [f"'{folder}/early_died.h5'", "closed", "writer"])],
                     ranks=(1,))
    if shutil.which("h5clear") is None:
        return skip_part("there is no h5clear")
    subprocess.run(["h5clear", "-s", folder / "died.h5"], check=True)
    assert sum_of(folder / "died.h5") == VALUES.sum()
    return None


LOCKS = """
#include <errno.h>
#include <stdlib.h>
int flock(int file, int operation) { errno = atoi(getenv("LOCK_ERROR")); return -1; }
"""


def test_file_systems_without_locks():
    """Only one error of flock() means that another program has the file."""
    folder = new_folder()
    (folder / "locks.c").write_text(LOCKS)
    if shutil.which("cc") is None:
        return skip_part("there is no C compiler")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "locks.so", folder / "locks.c"],
                   check=True)
    write(folder / "in.h5")

    def check(error, is_open):
        env = {"LD_PRELOAD": str(folder / "locks.so"), "LOCK_ERROR": str(error),
               "HDF5_USE_FILE_LOCKING": None}
        finished = run(*of(folder / "in.h5"), "-o", folder / "out.h5", env=env).expect(2)
        assert ("another program" in finished.err) == is_open, finished
        expect_words(finished.err, [f"'{folder}/in.h5'", "HDF5_USE_FILE_LOCKING=FALSE"], finished)
    each([(errno.EWOULDBLOCK, True), (errno.ENOLCK, False), (errno.EROFS, False), (524, False)],
         check)
    return None


def test_one_of_several_files():
    """A part of a family or of a split file. The remedy in the message makes a file that can be
    read."""
    folder = new_folder()
    family, split = folder / "fam%03d.h5", folder / "two"
    with h5py.File(family, "w", driver="family", memb_size=4096) as file:
        file["x"] = np.arange(2000.0)
    with h5py.File(split, "w", driver="split") as file:
        file["x"] = np.arange(2000.0)

    def check(name, whole):
        finished = run(*of(f"{folder}/{name}:/x"), "-o", folder / "no.h5").expect(2)
        assert "truncated" not in finished.err, finished
        expect_words(finished.err, [f"'{folder}/{name}'"], finished)
        code = re.search(r"f = h5py.*\]", finished.err)
        assert code, finished
        made = folder / f"{name}.whole.h5"
        code = re.sub(r"NAME(%d.h5)?", str(whole), code[0]).replace("OUT.h5", str(made))
        subprocess.run([sys.executable, "-c", f"import h5py\n{code}"], check=True)
        assert sum_of(f"{made}:/x") == 1999000, name
    for case in (("fam000.h5", family), ("fam003.h5", family), ("two-m.h5", split),
                 ("two-r.h5", split)):
        check(*case)


# ---------------------------------------------------------------- newer formats, missing filters

def patched(path, old, new):
    contents = path.read_bytes()
    assert contents.count(old) == 1, (path, old)
    made = path.with_name(f"{path.stem}-{new[0]}-{len(old)}.h5")
    made.write_bytes(contents.replace(old, new))
    return made


def test_newer_formats():
    """Versions of the superblock, of a data type and of a layout that a later HDF5 may write."""
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(5,))
        file["y"] = np.arange(3, dtype="i4")
    signature = b"\x89HDF\r\n\x1a\n"
    superblock = patched(path, signature + b"\0", signature + b"\4")
    data_type = patched(path, b"\x11\x20\x3f\0\x08\0\0\0", b"\x51\x20\x3f\0\x08\0\0\0")
    layout = patched(path, b"\3\2\2", b"\5\2\2")
    newer = ["newer HDF5", "version", "h5repack --high=v110"]
    check_complaints([
        (of(superblock), 2, [f"'{superblock}'", *newer]),
        (of(f"{data_type}:/x"), 2, [f"'{data_type}'", "'/x'", *newer]),
        (of(f"{layout}:/x"), 2, [f"'{layout}'", "'/x'", *newer]),
        (of(layout), 2, ["/x", "/y", "version"])], ranks=(1,))
    finished = run(*of(superblock), "-o", path.with_name("out.h5"))
    assert "damaged" not in finished.err, finished
    assert sum_of(f"{layout}:/y") == 3


def test_complex_numbers_of_hdf5_2():
    """No other version of the file can store them, so h5repack is no remedy."""
    for libver in ("earliest", "latest"):
        path = new_folder() / "in.h5"
        with h5py.File(path, "w", libver=libver) as file:
            file["x"] = VALUES
        kind = b"\x11\x20\x3f\0\x08\0\0\0"  # class and version, bits, size
        complex_type = patched(path, kind, b"\x5b\0\0\0\x08\0\0\0")
        finished = run(*of(f"{complex_type}:/x"), "-o", path.with_name("out.h5")).expect(2)
        expect_words(finished.err, ["'/x'", f"'{complex_type}'", "complex", "real"], finished)
        assert "h5repack" not in finished.err, finished


def add_blosc(file, name):
    """A data set with a filter that HDF5 does not have."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((5,))
    creation.set_filter(32001, h5py.h5z.FLAG_OPTIONAL)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_FLOAT,
                    h5py.h5s.create_simple(VALUES.shape), creation)


def test_missing_filters():
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        add_blosc(file, "x")
    check_complaints([(of(path), 2, [f"{path}:/x", "filter 32001", "HDF5_PLUGIN_PATH"])],
                     ranks=(1,))


def test_lzf():
    """HDF5 lacks h5py's filter lzf. Chunks that it cannot compress are stored without it. Readers
    decode it, HDF5 does it for a virtual data set."""
    path = new_folder() / "in.h5"
    values = np.random.default_rng(1).integers(0, 9, (100, 1000)).astype("i4")
    values[:10] = np.random.default_rng(1).integers(-2**30, 2**30, (10, 1000))
    layout = h5py.VirtualLayout(values.shape, "i4")
    layout[:] = h5py.VirtualSource(".", "x", values.shape)
    with h5py.File(path, "w") as file:
        for name, how in (("x", {"shuffle": True}), ("y", {"fletcher32": True})):
            data = file.create_dataset(name, data=values, chunks=(10, 500), compression="lzf",
                                       **how)
        masks = {data.id.read_direct_chunk((row, 0))[0] for row in (0, 90)}
        assert len(masks) == 2, masks
        file.create_virtual_dataset("virtual", layout)
    for name in ("x", "y", "virtual"):
        assert sum_of(f"{path}:/{name}") == values.sum(), name


# ---------------------------------------------------------------- which data set

def add_link(file):
    file["far"] = h5py.ExternalLink("nowhere.h5", "/y")


def add_working_link(file):
    with h5py.File(file.filename + ".other", "w") as other:
        other["y"] = VALUES
    file["near"] = h5py.ExternalLink(file.filename + ".other", "/y")


def add_soft_link(file):
    file["soft"] = h5py.SoftLink("/nothing")


def add_filtered(file):
    add_blosc(file, "blosc")


def add_complex(file):
    file["complex"] = VALUES * 1j


def add_mask(file):
    file["mask"] = VALUES > 3


OTHERS = {"/far": add_link, "/near": add_working_link, "/soft": add_soft_link,
          "/blosc": add_filtered, "/complex": add_complex, "/mask": add_mask}


def test_a_file_with_other_data_sets():
    """FILE without a path is an error that names them, even if one cannot be opened or computed."""
    folder = new_folder()
    for path, add in OTHERS.items():
        with h5py.File(f"{folder}{path}.h5", "w") as file:
            file["time"] = VALUES
            add(file)
    check_complaints([(of(f"{folder}{path}.h5"), 2, ["/time", path, f"{folder}{path}.h5:/PATH"])
                      for path in OTHERS], ranks=(1,))
    # The only data set may be a link.
    with h5py.File(folder / "link.h5", "w") as file:
        add_working_link(file)
    assert sum_of(folder / "link.h5") == VALUES.sum()


def test_lists():
    """Data sets that can be computed come first. Internal data sets of other programs are not
    listed, and FILE without a path does not name them."""
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        for i in range(12):
            file[f"#refs#/{i}"] = VALUES
        file["table/_i_data/x/sorted"] = VALUES
        file["names"] = ["a", "b"]
        file["table/data"] = np.zeros(3, [("x", "f4"), ("y", "i4")])
        file["z"] = VALUES
    assert sum_of(path) == VALUES.sum()
    with h5py.File(path, "a") as file:
        file["zz"] = VALUES
    for arguments in (of(path), of(f"{path}:/none"), of(f"{path}:/")):
        finished = run(*arguments, "-o", path.with_name("out.h5")).expect(2)
        places = [finished.err.find(f" {name}") for name in ("/z (20)", "/zz (20)", "/names")]
        assert -1 < places[0] < places[1] < places[2], finished
        expect_words(finished.err, ["/names", "/table/data", "strings", "compound"], finished)
        assert "#refs#" not in finished.err and "_i_data" not in finished.err, finished


def test_names_with_colons():
    folder = new_folder()
    (folder / "odd:").mkdir()
    for path in (folder / "in.h5", folder / "odd:" / "in.h5"):
        with h5py.File(path, "w") as file:
            file["a:/b"] = VALUES
            file["b"] = VALUES + 1
    each([(f"{folder}/in.h5:/a:/b", VALUES.sum()), (f"{folder}/odd:/in.h5:/a:/b", VALUES.sum()),
          (f"{folder}/odd:/in.h5:/b", VALUES.sum() + 20)], expect_sum)


def expect_sum(source, total):
    assert sum_of(source) == total, source


# ---------------------------------------------------------------- paths

def test_paths_that_cannot_be_used():
    """The message has the system's reason and a remedy, not the text of an exception. The last run
    starts in a folder that does not exist any more."""
    long = 5000 * "x"
    dangling = new_folder() / "z5.h5"
    dangling.symlink_to("nowhere.h5")
    check_complaints([
        (of(f"{dangling}:/x"), 2, [f"'{dangling}'", "link", "'nowhere.h5'"]),
        (of(long), 2, ["File name too long", "path"]),
        (["run", "gram", "--gram.rows", 9, "--gram.columns", 3, "--measure.rates", long], 2,
         ["File name too long", "path"])], ranks=(1,))
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = VALUES
    gone = new_folder()
    finished = finish(start(*of(folder / "in.h5"), "-o", "out.h5", cwd=gone,
                            prefix=["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh"])).expect(2)
    said = [line for line in finished.err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and "filesystem" not in said[0], finished
    expect_words(said[0], ["out.h5", "path", "No such file"], finished)


main()
