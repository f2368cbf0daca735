#!/usr/bin/python3
"""Selections FILE:/PATH[SELECTION]: by position and by coordinate, as in h5py and xarray, with the
same bits on any ranks, and errors that show the position in the text. random_files.py draws
selections by position."""

import itertools
import re

import h5py
import netCDF4
import numpy as np
import xarray

import model
import results
from drawn_selections import mask_of
from harness import (check_complaints, each, expect_complaint, expect_words, main, new_folder,
                     reduce, run, skip_part, write_sparse)
from products import ON_HOST, product, stored, why_no_products

RANDOM = np.random.default_rng(38)
SHAPE = (40, 90, 70)
LAYOUTS = {"contiguous": {}, "chunked": {"chunks": (3, 16, 20)},
           "deflate": {"chunks": (1, 30, 7), "compression": "gzip", "shuffle": True},
           "rows": {"chunks": (7, 90, 70), "compression": "lzf"}}
SELECTIONS = {"[5:37]": np.s_[5:37], "[:, ::2, 3:68]": np.s_[:, ::2, 3:68], "[-1]": np.s_[-1],
              "[..., 7]": np.s_[..., 7], "[1::3]": np.s_[1::3], "[3,4,5]": np.s_[3, 4, 5],
              "[2:38:7, 11, 5:]": np.s_[2:38:7, 11, 5:], "[:,:,:]": np.s_[:]}


def write_layouts(data, path):
    """Writes /NAME for each of LAYOUTS, and /virtual, whose sources are in two other files."""
    half = len(data) // 2
    layout = h5py.VirtualLayout(data.shape, data.dtype)
    for number, rows in enumerate((slice(0, half), slice(half, len(data)))):
        part = path.parent / f"part{number}.h5"
        with h5py.File(part, "w") as file:
            file["x"] = data[rows]
        layout[rows] = h5py.VirtualSource(part.name, "x", data[rows].shape)
    with h5py.File(path, "w") as file:
        for name, how in LAYOUTS.items():
            file.create_dataset(name, data=data, **how)
        file.create_virtual_dataset("virtual", layout)


# ---------------------------------------------------------------- by position

def test_elements_keep_the_order_of_storage():
    """So that sums have the bits of the model for the selected elements in this order, on any
    ranks. Positions are those of the whole data set."""
    data = RANDOM.standard_normal(SHAPE).astype("f4")
    path = new_folder() / "in.h5"
    write_layouts(data, path)

    def check(layout, text, ranks):
        chunks = LAYOUTS.get(layout, {}).get("chunks")
        selected = model.in_stored_order(mask_of(SELECTIONS[text], SHAPE), chunks)[0]
        elements, positions = (part[selected] for part in model.in_stored_order(data, chunks))
        out = new_folder() / "out.h5"
        finished = reduce(f"{path}:/{layout}{text}", out, "--pipeline.slot", 1, ranks=ranks)
        expected = model.reduce(elements)
        for op, row in results.stored_reduce(out).items():
            value, index = expected[op]
            assert results.same(row["exact"], value), (op, value, finished)
            where = () if index is None else np.unravel_index(positions[index], SHAPE)
            assert row["position"] == ",".join(str(int(at)) for at in np.ravel(where)), finished
    cases = itertools.product(enumerate((*LAYOUTS, "virtual")), enumerate(SELECTIONS))
    each([(layout, text, 1 + j % 3) for (i, layout), (j, text) in cases if (i + j) % 2 == 0],
         check)


def test_products_are_those_of_the_selected_array():
    """Selected dimensions are the rows and columns of a matrix; an index removes its dimension."""
    if why_no_products():
        return skip_part("the host has no products")
    data = RANDOM.standard_normal((24, 6, 9)).astype("f4")
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(5, 4, 4))
        file["table"] = data.reshape(24, -1)
    cases = {"/x[:, 2]": data[:, 2], "/x[::2, 1:5, 3:]": data[::2, 1:5, 3:], "/x[3]": data[3],
             "/x[..., 4:9:2]": data[..., 4:9:2], "/x[:, 1, 2]": data[:, 1, 2],
             "/table[4:20, 5:33:3]": data.reshape(24, -1)[4:20, 5:33:3]}

    def check(name, workload, ranks):
        folder = new_folder()
        matrix = cases[name].reshape(len(cases[name]), -1)
        given = results.write(matrix, folder / "in.h5")
        found, expected = (folder / f"{each}.h5" for each in ("found", "expected"))
        finished = product(workload, found, "--input.data", f"{path}:{name}", ranks=ranks,
                           env=ON_HOST)
        product(workload, expected, "--input.data", given, env=ON_HOST)
        assert stored(found).tobytes() == stored(expected).tobytes(), finished
        reference = np.cov(matrix.T) if workload == "covariance" else matrix.T @ matrix
        assert np.allclose(stored(found), reference, atol=1e-4), finished
    each([(name, workload, ranks) for name in cases
          for workload, ranks in (("gram", 1), ("covariance", 2))], check)
    return None


def test_chunks_outside_the_selection_are_not_read():
    """One of them is damaged."""
    path = new_folder() / "in.h5"
    data = np.arange(80, dtype="i4").reshape(8, 10)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=data, chunks=(2, 5), compression="gzip")
        dataset.id.write_direct_chunk((2, 5), b"no stream of deflate")
    for text, index in (("[::4]", np.s_[::4]), ("[:, :5]", np.s_[:, :5]), ("[4:]", np.s_[4:])):
        finished = reduce(f"{path}:/x{text}", new_folder() / "out.h5")
        assert int(finished.values["sum"]) == data[index].sum(), finished
    for text in ("[3]", "[:, 9]"):
        expect_complaint(run("run", "reduce", "--input.data", f"{path}:/x{text}", "-o",
                             new_folder() / "out.h5"), 1, [f"{path}:/x", 2, 5])


def test_bytes_outside_the_selection_are_not_read():
    """Of a file of 256 GiB, which would take minutes."""
    path = new_folder() / "in.h5"
    write_sparse(path, "f4", 2**36, {2**35: 5, 2**35 + 2**20: 7, 2**36 - 1: 9})
    for text, values in ((f"[{2**35}:{2**35 + 2**20 + 1}]", (2**20 + 1, 12)), ("[-1]", (1, 9)),
                         (f"[{2**35}::{2**35 - 1}]", (2, 14))):
        values_found = reduce(f"{path}:/x{text}", new_folder() / "out.h5").values
        assert (int(values_found["count"]), float(values_found["sum"])) == values, values_found


# ---------------------------------------------------------------- by coordinate

def write_netcdf(path):
    """A field with an unlimited dimension, decreasing latitudes, coordinates in f32, packing,
    missing values, and a dimension without a variable."""
    with netCDF4.Dataset(path, "w") as file:
        for name, extent in (("time", None), ("lat", 18), ("lon", 12), ("level", 3)):
            file.createDimension(name, extent)
        for name, values in (("time", 100 + 31.0 * np.arange(20)), ("lon", 30.1 * np.arange(12)),
                             ("lat", np.linspace(85, -85, 18))):
            file.createVariable(name, "f8" if name == "time" else "f4", (name,))[:] = values
        file["time"].units = "days since 1950-01-01"
        sst = file.createVariable("sst", "i2", ("time", "lat", "level", "lon"), zlib=True,
                                  fill_value=-999, chunksizes=(5, 7, 1, 12))
        sst.scale_factor = 0.01
        values = RANDOM.normal(10, 5, (20, 18, 3, 12))
        sst[:] = np.ma.masked_array(values, values < 3)
        names = file.createVariable("names", str, ("level",))
        names[:] = np.array(["a", "b", "c"], object)


def test_coordinates_select_as_in_xarray():
    path = new_folder() / "in.nc"
    write_netcdf(path)
    cases = {"lat=-30:30": {"lat": slice(30, -30)},
             "lat=30:-30": {"lat": slice(30, -30)},
             "time=131": {"time": 131},
             "time=131:400, lat=:-45": {"time": slice(131, 400), "lat": slice(-45, None)},
             "lon=30.1:90.3": {"lon": slice(np.float32(30.1), np.float32(90.3))},
             "lon=60.2,time=100:1000:3": {"lon": np.float32(60.2), "time": slice(100, 1000, 3)},
             "lat = 85, time = 689, lon=331.1": {"lat": 85, "time": 689, "lon": np.float32(331.1)},
             "lat=0:": {"lat": slice(None, 0)}, "time=:": {}}
    with xarray.open_dataset(path, decode_times=False) as file:
        selected = {text: file.sst.sel(names).values for text, names in cases.items()}

    def check(text, ranks):
        values = reduce(f"{path}:/sst[{text}]", new_folder() / "out.h5", ranks=ranks).values
        numbers = selected[text][~np.isnan(selected[text])]
        assert int(values["count"]) == numbers.size, (text, values)
        for op, expected in (("sum", numbers.sum(dtype="f8")), ("min", numbers.min()),
                             ("max", numbers.max())):
            assert np.isclose(float(values[op]), expected, rtol=1e-6), (text, op, values)
        assert int(values["missing"]) == np.isnan(selected[text]).sum(), (text, values)
    each([(text, 1 + number % 2) for number, text in enumerate(cases)], check)


def test_results_name_the_selected_positions():
    path, out = new_folder() / "in.nc", new_folder() / "out.h5"
    write_netcdf(path)
    finished = reduce(f"{path}:/sst[lat=-30:30, time=131]", out)
    name = f"{path}:/sst[1, 6:12, :, :]"
    assert f"input={name}\n" in finished.out, finished
    with h5py.File(out) as file:
        assert file["input"].attrs["name"] == name, dict(file["input"].attrs)


def test_shapes_have_names_of_dimensions():
    path = new_folder() / "in.nc"
    write_netcdf(path)
    with h5py.File(path, "r+") as file:
        file["other"] = np.zeros((2, 3))
    words = ["/sst", "time=20 x lat=18 x level=3 x lon=12", "/other", "2 x 3", "lat=18"]
    expect_complaint(run("run", "reduce", "--input.data", path, "-o", "list.h5"), 2, words)
    for workload, shape in (("reduce", "time=20 x level=3 x lon=4"),
                            ("gram", "time=20 x level=3 x lon=4 as 20 x 12")):
        finished = run("run", workload, "--input.data", f"{path}:/sst[:, 3, :, ::3]", "--dry-run")
        expect_words(finished.expect(0).out, [shape])


def test_regions_across_the_meridian_name_their_parts():
    """Two runs over the parts have all elements."""
    path, lon = new_folder() / "in.nc", np.arange(0, 360, 10.0)
    xarray.Dataset({"x": ("lon", lon)},
                   {"lon": ("lon", lon, {"units": "degrees_E"})}).to_netcdf(path)
    for text in ("lon=350:20", "lon=-10:20"):
        finished = run("run", "reduce", "--input.data", f"{path}:/x[{text}]", "-o", "out.h5")
        expect_complaint(finished, 2, ["input.data", "lon=350:", "lon=:20"])
    counts = [reduce(f"{path}:/x[{part}]", new_folder() / "out.h5").values["count"]
              for part in ("lon=350:", "lon=:20")]
    assert counts == ["1", "3"], counts


def test_ranges_beyond_the_coordinates_are_named():
    path, out = new_folder() / "in.nc", new_folder() / "out.h5"
    write_netcdf(path)

    def told(text):
        finished = reduce(f"{path}:/sst[{text}]", out, "--output.overwrite", "true")
        lines = re.findall(r"^selection_beyond=(.*)$", finished.out, re.MULTILINE)
        with h5py.File(out) as file:
            stored = file["input"].attrs.get("selection_beyond")
            assert lines == ([] if stored is None else [stored]), (stored, finished)
        return "".join(lines)
    expect_words(told("lat=-90:0"), ["lat=-90:0", "-85", "85"])
    expect_words(told("lat=0:90:2, time=:300"), ["lat=0:90", "-85", "85"])
    assert told("lat=-85:85, time=131") == ""


# ---------------------------------------------------------------- names

def test_names_and_selections():
    """Brackets of names, members, links and rows."""
    folder = new_folder()
    record = np.dtype([("e[0]", "f8"), ("n", "i4")])
    table = np.zeros((6, 4), record)
    table["n"] = np.arange(24).reshape(6, 4)
    table["e[0]"] = table["n"] / 8
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.arange(24).reshape(6, 4)
        file["x[0]"] = np.arange(100, 103)
        file["scalar"] = 5
        file.create_dataset("table", data=table, chunks=(2, 3))
    with h5py.File(folder / "link.h5", "w") as file:
        file["y"] = h5py.ExternalLink("in.h5", "/x")
    for name, expected, arguments in [
            ("in.h5:/x[0]", 303, ()), ("in.h5:/x[0][1:]", 203, ()), ("in.h5:/x[ 0 ]", 6, ()),
            ("in.h5:/table{n}[1]", 22, ()), ("in.h5:/table{e[0]}[::5, 1:3]", 46 / 8, ()),
            ("link.h5:/y[:, 0]", 60, ()), ("in.h5:/scalar[...]", 5, ()),
            ("in.h5:/x[1:, 0]", 12, ("--input.rows", 2)), ("in.h5:/x[1]", 9, ("--input.rows", 2)),
            ("in.h5:/x[::2]", 6 + 38, ("--input.rows", 2))]:
        values = reduce(f"{folder}/{name}", new_folder() / "out.h5", *arguments).values
        assert float(values["sum"]) == expected, (name, values)


# ---------------------------------------------------------------- bad input

def test_wrong_selections():
    folder = new_folder()
    write_netcdf(folder / "in.nc")
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.zeros((5, 6))
        for name, values in (("twice", [1, 2, 2, 3, 4, 5]), ("nan", [1, 2, np.nan, 3, 4, 5])):
            file[name] = np.array(values, float)
            file[name].make_scale(name)
            file[f"by {name}"] = np.zeros(6)
            file[f"by {name}"].dims[0].attach_scale(file[name])
    texts = {
        "in.h5:/x": [("[]", 2), ("[0,]", 4), ("[1.5]", 2, "1.5"), ("[5]", 2, "5"),
                     ("[9]", 2, "0 to 4"),
                     ("[-6]", 2, "-6"), ("[0:7]", 4, "7"), ("[3:3]", 2), ("[4:2]", 2),
                     ("[::0]", 4), ("[::-1]", 4, "-1"),
                     ("[0,0,0]", 6, "5 x 6"), ("[...,...]", 6), ("[0:1:2:3]", 8), ("[x]", 2, "x"),
                     ("[99999999999999999999]", 2), ("[x=1]", 2, "names"), ("[0, x=1]", 5)],
        "in.nc:/sst": [("[lta=3]", 2, "lta", "lat"), ("[level=1]", 2, "level"), ("[lat=3]", 6, "5"),
                       ("[lat=a]", 6, "a"), ("[lat=1:2]", 2, "5"), ("[lat=3,lat=5]", 8, "lat"),
                       ("[time=400:100]", 7, "400"), ("[time=1e999]", 7), ("[lat=nan]", 6),
                       ("[time=100,1]", 11, "time=100:1"), ("[lat=]", 6), ("[=3]", 2)],
        "in.nc:/names": [("[level=1]", None)],
        "in.h5:/by twice": [("[twice=1:3]", 2, "2")], "in.h5:/by nan": [("[nan=1]", 2, "nan")]}
    cases = [(["run", "reduce", "--input.data", f"{folder}/{data}{text}"], 2,
              ["input.data", *words, *(() if character is None else (f"character {character}",))])
             for data, rows in texts.items() for text, character, *words in rows]
    for name, words in (("in.h5[0]", ["in.h5:/PATH[0]"]), ("in.h5:/x[0", ["[0"]),
                        ("in.h5:/x[0]{n}", ["[0"]), ("in.h5:/x[0][1]", ["[0]", "[1]"]),
                        ("in.h5:/x[[0,2,4]]", ["[[0,2,4]]", "'/x'", "0:90:2"]),
                        ("in.h5:/x[:, [0, 2]]", ["[:, [0, 2]]", "'/x'", "0:90:2"]),
                        ("none.h5:/x[0]", ["none.h5"])):
        cases.append((["run", "reduce", "--input.data", f"{folder}/{name}"], 2,
                      ["input.data", *words]))
    cases.append((["run", "gram", "--input.data", f"{folder}/in.nc:/sst[lat=3]"], 2,
                  ["input.data", "character 6"]))
    cases.append((["run", "reduce", "--input.data", f"{folder}/in.h5:/x[1]", "--input.rows", 7], 2,
                  ["input.rows", 7]))
    check_complaints([*cases], ranks=(1,))
    check_complaints(cases[:1])


main(on_gpu=True)
