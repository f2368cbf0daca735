#!/usr/bin/python3
"""A file from another project: the coastlines of GSHHG in netCDF-4, compressed, with 16-bit and
big-endian data sets. All variables are compared with the model, h5py and numpy."""

import pathlib

import h5py
import netCDF4
import numpy as np

import results
from harness import each, expect_complaint, main, new_folder, reduce, run, skip_all

FILE = pathlib.Path("/usr/share/gmt-gshhg/binned_GSHHS_i.nc")
if not FILE.exists():
    skip_all(f"there is no {FILE} (Debian's package gmt-gshhg-low)")


def datasets():
    """{path: (data, chunks)} of all data sets of numbers."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf":
            found["/" + name] = (item[()], item.chunks)
    with h5py.File(FILE) as file:
        file.visititems(visit)
    return found


DATASETS = datasets()


with netCDF4.Dataset(FILE) as opened:
    VARIABLES = [path for path in DATASETS if path[1:] in opened.variables]


def test_it_is_what_it_is_for():
    """Checks that the file has the properties for which it was selected."""
    dtypes = {data.dtype for data, _ in DATASETS.values()}
    assert len(DATASETS) >= 15 and len(dtypes) >= 4, dtypes
    assert any(dtype.itemsize == 2 for dtype in dtypes), dtypes
    assert any(dtype.str.startswith(">") for dtype in dtypes), dtypes
    with h5py.File(FILE) as file:
        assert any(item.compression for item in file.values() if isinstance(item, h5py.Dataset))
    assert max(data.size for data, _ in DATASETS.values()) > 6 * 65536


def test_every_variable():
    folder = new_folder()

    def check(path, ranks):
        data, chunks = DATASETS[path]
        out = folder / f"{path[1:]}-{ranks}.h5"
        finished = reduce(f"{FILE}:{path}", out, "--input.conventions", "none", ranks=ranks)
        results.check(data, out, finished, chunks)
        rows = results.stored_reduce(out)
        wide = data.astype(np.float64)
        assert int(rows["count"]["exact"]) == data.size
        if data.dtype.kind in "iu":
            assert int(rows["sum"]["exact"]) == int(data.sum(dtype=np.int64)), rows["sum"]
        else:
            assert np.isclose(rows["sum"]["value"], wide.sum(), rtol=1e-12), rows["sum"]
        assert np.isclose(rows["mean"]["value"], wide.mean(), rtol=1e-12), rows["mean"]
        assert np.isclose(rows["variance"]["value"], wide.var(), rtol=1e-10), rows["variance"]
        for op, there in (("min", data.argmin()), ("max", data.argmax())):
            position = tuple(map(int, rows[op]["position"].split(",")))
            assert data[position] == data.flat[there] == rows[op]["value"], rows[op]
    each([(path, 1 + number % 2) for number, path in enumerate(VARIABLES)], check)


def test_dimensions_have_no_values():
    dimensions = sorted(set(DATASETS) - set(VARIABLES))
    assert dimensions
    each([(path,) for path in dimensions], lambda path: expect_complaint(
        run("run", "reduce", "--input.data", f"{FILE}:{path}", "-o", new_folder() / "out.h5"), 2,
        [path, FILE, "dimension"]))


def test_default_fill_values():
    """Some of its values are netCDF's default fill value, which netCDF4-python takes as missing."""
    with netCDF4.Dataset(FILE) as file:
        masked = {f"/{name}": variable[...] for name, variable in file.variables.items()
                  if f"/{name}" in DATASETS}
    some = {path: data for path, data in masked.items() if np.ma.count_masked(data) > 0}
    assert len(some) == 2, some

    def check(path, ranks):
        out = new_folder() / "out.h5"
        values = reduce(f"{FILE}:{path}", out, ranks=ranks).values
        assert int(values["missing"]) == np.ma.count_masked(some[path]), values
        assert int(values["sum"]) == some[path].sum(dtype=np.int64), values
        assert int(values["min"]) == some[path].min(), values
        assert int(values["min_position"]) == some[path].argmin(), values
    each([(path, 1 + number) for number, path in enumerate(some)], check)


def test_several_must_be_named():
    expect_complaint(run("run", "reduce", "--input.data", FILE, "-o", "out.h5"), 2,
                     [FILE, f"{len(DATASETS)} data sets"])


main(on_gpu=True)
