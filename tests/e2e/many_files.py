#!/usr/bin/python3
"""Several files as one data set: the same values as with numpy, h5py and xarray, the same bits on
any ranks, any limit of open files, and errors that name the files."""

import os
import resource
import shutil

import h5py
import netCDF4
import numpy as np
import xarray

import model
import results
from decoding import decode
from harness import (check_complaints, each, expect_complaint, expect_warning, expect_words, finish,
                     main, new_folder, part_files, reduce, run, skip_part, start, wait_until)
from products import ON_HOST, product, stored, why_no_products

RANDOM = np.random.default_rng(3808)
INNER = (11, 13)
LAYOUTS = {"contiguous": {}, "chunked": {"chunks": (2, 5, 6)},
           "deflate": {"chunks": (3, 4, 13), "compression": "gzip", "shuffle": True},
           "lzf": {"chunks": (1, 11, 13), "compression": "lzf"},
           "by_hdf5": {"chunks": (2, 8, 8), "scaleoffset": 0}}


def draw_files(count, dtype="f4", rows=(3, 30)):
    """Arrays with different numbers of rows."""
    arrays = [RANDOM.standard_normal((int(RANDOM.integers(*rows)), *INNER)) for _ in range(count)]
    return [(100 * array).astype(dtype) for array in arrays]


def write_files(folder, arrays, layout=lambda number: {}, name="in_{:03}.h5"):
    """Writes /x of each file, and returns the name of all."""
    for number, array in enumerate(arrays):
        with h5py.File(folder / name.format(number), "w") as file:
            file.create_dataset("x", data=array, **layout(number))
    return f"{folder}/{name.format(0).replace('000', '*')}:/x"


def expect_note(finished, words):
    """A line that is no warning names the number of files, the first and the last one."""
    lines = [line for line in finished.err.splitlines() if "warning: " not in line]
    assert lines, finished
    expect_words(lines[0], words, finished)


def expect_error(finished, code, words):
    """As expect_complaint(), after the line of expect_note()."""
    note, _, finished.err = finished.err.partition("\n")
    assert "match" in note, finished
    expect_complaint(finished, code, words)


# ---------------------------------------------------------------- elements

def test_elements_are_those_of_all_files():
    """So that sums have the bits of the model for the elements of one file after another, each in
    the order of storage. Positions are those of the joined data set."""
    folder = new_folder()
    kinds = [*LAYOUTS, "mixed"]
    arrays = draw_files(9, "i4", (3, 150))
    names = {}
    for kind in kinds:
        def layout(number, kind=kind):
            return LAYOUTS[kind if kind != "mixed" else [*LAYOUTS][number % len(LAYOUTS)]]
        parts, offset = [], 0
        for number, array in enumerate(arrays):
            elements, positions = model.in_stored_order(array, layout(number).get("chunks"))
            parts.append((elements, positions + offset))
            offset += array.size
        names[kind] = (write_files(folder, arrays, layout, kind + "_{:03}.h5"),
                       [np.concatenate(each) for each in zip(*parts)])
    shape = (sum(map(len, arrays)), *INNER)

    def check(kind, ranks, slot):
        name, (elements, positions) = names[kind]
        out = new_folder() / "out.h5"
        finished = reduce(name, out, "--pipeline.slot", slot, ranks=ranks)
        expect_note(finished, [len(arrays), f"{kind}_000.h5", f"{kind}_008.h5"])
        expected = model.reduce(elements)
        for op, row in results.stored_reduce(out).items():
            value, index = expected[op]
            assert results.same(row["exact"], value), (op, value, finished)
            where = () if index is None else np.unravel_index(positions[index], shape)
            assert row["position"] == ",".join(str(int(at)) for at in np.ravel(where)), finished
        with h5py.File(out) as file:
            about = dict(file["input"].attrs)
            assert (about["file_count"], about["name"]) == (len(arrays), name), about
            assert about["first_file"].endswith("_000.h5"), about
            assert about["last_file"].endswith("_008.h5"), about
            assert list(about["shape"]) == list(shape), about
            assert len(file["input/files"]) == len(arrays)
    each([(kind, 1 + number % 3, (1, "1MiB")[number // 2 % 2]) for number, kind in
          enumerate([*kinds, *kinds[::-1]])], check)
    name, out = names["contiguous"][0], new_folder() / "out.h5"
    finished = run("run", "reduce", "--input.data", name, "--input.read", "direct", "-o", out)
    if "cannot read past the page cache" in finished.err:
        return skip_part("the file system has no direct reads")
    reduce(name, "cached.h5", "--input.read", "cached", "--output.overwrite", "true")
    assert results.bits(out) == results.bits("cached.h5"), finished.expect(0)
    return None


def test_selections_are_those_of_the_joined_array():
    folder = new_folder()
    arrays = draw_files(7, "f4")
    joined = np.concatenate(arrays)
    names = [write_files(folder, arrays, lambda _, how=how: LAYOUTS[how], how + "_{:03}.h5")
             for how in ("contiguous", "deflate")]
    cases = {"[5:-4]": np.s_[5:-4], "[::9, 3]": np.s_[::9, 3], "[-1]": np.s_[-1],
             "[40]": np.s_[40], "[:, 2:9:3, ::5]": np.s_[:, 2:9:3, ::5],
             "[7:60:8, ..., 12]": np.s_[7:60:8, ..., 12], "[20:21]": np.s_[20:21]}

    def check(name, text, ranks):
        values = reduce(name + text, new_folder() / "out.h5", ranks=ranks).values
        expected = joined[cases[text]].astype("f8")
        assert int(values["count"]) == expected.size, values
        assert np.isclose(float(values["sum"]), expected.sum(), rtol=1e-12), values
        position = tuple(map(int, values["max_position"].split(",")))
        assert joined[position] == expected.max(), values
    each([(names[number % 2], text, 1 + number % 3) for number, text in enumerate(cases)], check)
    values = reduce(names[0], new_folder() / "out.h5", "--input.rows", 50).values
    assert np.isclose(float(values["sum"]), joined[:50].sum(dtype="f8")), values
    # A file outside the selection is looked at, but not read.
    with h5py.File(folder / "deflate_003.h5", "r+") as file:
        file["x"].id.write_direct_chunk((0, 0, 0), b"no stream of deflate")
    reduce(f"{names[1]}[:{len(arrays[0])}]", new_folder() / "out.h5")
    expect_error(run("run", "reduce", "--input.data", names[1], "-o", "out.h5"), 1,
                 ["deflate_003.h5:/x"])


def test_each_file_has_its_own_packing():
    """Scales, offsets and fill values differ. One file has no value, another one none missing."""
    folder = new_folder()
    arrays = draw_files(6, "i2")
    attributes = [{"_FillValue": np.int16(marker), "scale_factor": np.float32(0.01 * 2**number),
                   "add_offset": np.float32(number)}
                  for number, marker in enumerate((3, -7, 0, 30_000, 12, 3))]
    arrays[4][:] = 12
    name = write_files(folder, arrays, lambda number: {"chunks": (2, 5, 6)} if number % 2 else {})
    for number, each_one in enumerate(attributes):
        with h5py.File(folder / f"in_{number:03}.h5", "r+") as file:
            file["x"].attrs.update(each_one)
    decoded = [decode(array, how) for array, how in zip(arrays, attributes)]
    elements, missing = (np.concatenate(part) for part in zip(*decoded))
    kept = elements[~missing].astype("f8")

    def check(arguments, ranks):
        out = new_folder() / "out.h5"
        finished = reduce(name, out, *arguments, ranks=ranks)
        values = finished.values
        assert (int(values["count"]), int(values["missing"])) == (kept.size, missing.sum()), values
        assert np.isclose(float(values["sum"]), kept.sum(), rtol=1e-9), values
        extremes = [np.float32(values[op]) for op in ("min", "max")]
        assert extremes == [kept.min(), kept.max()], values
        assert "verified=true" in finished.out, finished
        return results.bits(out)
    ways = [((), 1), ((), 2), ((), 3),
            (("--pipeline.slot", "1KiB", "--pipeline.batch", "64KiB"), 1),
            (("--pipeline.mode", "pageable"), 2)]
    bits = [check(*way) for way in ways]
    assert bits == bits[:1] * len(bits), bits
    edges = ("--histogram.range=-50,50", "--histogram.bins", 10)
    out = new_folder() / "h.h5"
    run("run", "histogram", "--input.data", name, *edges, "-o", out).expect(0)
    with h5py.File(out) as file:
        counts = file["results/bins"]["count"]
    assert counts.tolist() == np.histogram(kept, 10, (-50, 50))[0].tolist()


def test_integers_share_a_missing_value():
    folder = new_folder()
    arrays = draw_files(3, "i4")
    name = write_files(folder, arrays)

    def mark(markers):
        for number, some in enumerate(markers):
            with h5py.File(folder / f"in_{number:03}.h5", "r+") as file:
                file["x"].attrs["missing_value"] = np.array(some, "i4")
    mark([[5, 7], [7, 9], [7]])
    missing = [np.isin(array, some) for array, some in zip(arrays, ([5, 7], [7, 9], [7]))]
    values = reduce(name, new_folder() / "out.h5", ranks=2).values
    assert int(values["missing"]) == sum(map(np.sum, missing)), values
    assert int(values["sum"]) == sum(int(array[~some].sum()) for array, some in
                                     zip(arrays, missing)), values
    mark([[5], [7], [9]])
    expect_complaint(run("run", "reduce", "--input.data", name, "-o", "out.h5"), 2,
                     ["input.type", "f64"])
    values = reduce(name, new_folder() / "out.h5", "--input.type", "f64").values
    assert int(values["missing"]) == sum(int((array == number).sum()) for array, number in
                                         zip(arrays, (5, 7, 9))), values


def test_products_are_those_of_one_file():
    if why_no_products():
        return skip_part("the host has no products")
    folder = new_folder()
    arrays = draw_files(6, "f4")
    one = results.write(np.concatenate(arrays), folder / "one.h5")
    names = [write_files(folder, arrays, lambda _, how=how: LAYOUTS[how], how + "_{:03}.h5")
             for how in ("contiguous", "deflate")]

    def check(name, workload, text, ranks, arguments):
        found, expected = (new_folder() / "out.h5" for _ in range(2))
        finished = product(workload, found, "--input.data", name + text, *arguments, ranks=ranks,
                           env=ON_HOST)
        product(workload, expected, "--input.data", one + text, *arguments, env=ON_HOST)
        assert stored(found).tobytes() == stored(expected).tobytes(), finished
    each([(names[0], "gram", "", 1, ()), (names[1], "covariance", "", 2, ()),
          (names[1], "covariance", "[3:70:2, :, 4]", 3, ()),
          (names[0], "gram", "[:, 3]", 2, ("--gram.of", "rows"))], check)
    return None


# ---------------------------------------------------------------- dimensions

def write_series(folder, units=("days since 2000-01-01",) * 4, days=100):
    """A netCDF file for each year, in which time goes on. Each one has its own packing."""
    for year, text in enumerate(units, 1):
        with netCDF4.Dataset(folder / f"sst_{1999 + year}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("lat", 6)
            times = days * (year - 1) + 10.0 * np.arange(6 + year)
            file.createVariable("time", "f8", ("time",))[:] = times
            file["time"].units = text
            file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(75, -75, 6)
            sst = file.createVariable("sst", "i2", ("time", "lat"), fill_value=-year)
            sst.scale_factor = 0.01 * year
            values = RANDOM.normal(10, 5, (6 + year, 6))
            sst[:] = np.ma.masked_array(values, values < 4)
    return f"{folder}/sst_*.nc:/sst"


def joined_series(folder):
    """The files of write_series() as xarray joins them. (open_mfdataset() needs dask.)"""
    files = [xarray.load_dataset(path, decode_times=False)
             for path in sorted(folder.glob("sst_*.nc"))]
    return xarray.concat(files, "time")


def test_coordinates_go_on_from_file_to_file():
    folder = new_folder()
    name = write_series(folder)
    opened = joined_series(folder)
    cases = {"time=50:210": opened.sst.sel(time=slice(50, 210)).values,
             "lat=0:, time=300": opened.sst.sel(lat=slice(None, 0), time=300).values,
             "time=130:": opened.sst.sel(time=slice(130, None)).values}
    joined = opened.sst.values
    for text, expected in cases.items():
        values = reduce(f"{name}[{text}]", new_folder() / "out.h5").values
        numbers = expected[~np.isnan(expected)].astype("f8")
        assert int(values["count"]) == numbers.size, (text, values)
        assert np.isclose(float(values["sum"]), numbers.sum(), rtol=1e-6), (text, values)
    if not why_no_products():
        out = new_folder() / "out.h5"
        product("covariance", out, "--input.data", name, "--gram.of", "rows",
                "--input.conventions", "none", env=ON_HOST)
        with xarray.open_dataset(out, group="results", decode_times=False) as opened:
            times = opened["time"].values
            assert len(times) == len(joined) and times[-1] == 390, times
    expect_words(run("run", "reduce", "--input.data", name, "--dry-run").expect(0).out,
                 ["time=34 x lat=6"])


def test_coordinates_with_other_units_are_not_joined():
    folder = new_folder()
    name = write_series(folder, ["days since 2000-01-01"] * 2 + ["days since 2002-01-01"])
    finished = reduce(name, new_folder() / "out.h5", ranks=2)
    expect_warning(finished, ["time", "sst_2000.nc", "sst_2002.nc", "days since 2002-01-01"])
    assert finished.values["max_coordinates"].startswith("lat="), finished
    expect_complaint(run("run", "reduce", "--input.data", f"{name}[time=5:300]", "-o", "out.h5"), 2,
                     ["sst_2000.nc", "sst_2002.nc", "units"])


def test_coordinates_of_extremes_are_those_of_their_file():
    folder = new_folder()
    name = write_series(folder)
    finished = reduce(name, new_folder() / "out.h5", ranks=2)
    opened = joined_series(folder)
    for op in ("min", "max"):
        time, lat = map(int, finished.values[f"{op}_position"].split(","))
        place = f"time={opened.time.values[time]:g}, lat={opened.lat.values[lat]:g}"
        assert f"{op}_coordinates={place}\n" in finished.out, finished


def test_coordinates_that_overlap_give_a_warning():
    folder = new_folder()
    finished = reduce(write_series(folder, days=60), new_folder() / "out.h5")
    expect_warning(finished, ["time", "sst_2000.nc", "sst_2001.nc", 60])


def test_other_dimensions_have_the_same_coordinates():
    """The same as f32 is the same. A file without coordinates is not compared."""
    folder = new_folder()
    name = write_series(folder)
    with h5py.File(folder / "sst_2001.nc", "r+") as file:
        file["lat"][:] = file["lat"][:][::-1]
    expect_complaint(run("run", "reduce", "--input.data", name, "-o", "out.h5"), 2,
                     ["sst_2000.nc", "sst_2001.nc", "lat", 75, -75])
    for dtype, wrong in (("f8", 0), ("f4", 1e-3)):
        folder = new_folder()
        for number in range(2):
            with h5py.File(folder / f"in_{number}.h5", "w") as file:
                file["x"] = np.ones((2, 3))
                file["y"] = np.array([0.1, 0.2, 0.3], dtype if number else "f4") + number * wrong
                file["y"].make_scale("y")
                file["x"].dims[1].attach_scale(file["y"])
        with h5py.File(folder / "in_2.h5", "w") as file:
            file.create_dataset("x", data=np.ones((2, 3))).dims[1].label = "y"
        arguments = ("run", "reduce", "--input.data", f"{folder}/in_*.h5:/x", "-o", folder / "out")
        if wrong:
            expect_complaint(run(*arguments), 2, ["in_0.h5", "in_1.h5", "y"])
        else:
            run(*arguments).expect(0)


# ---------------------------------------------------------------- limits

def test_few_descriptors_suffice_for_many_files():
    """In any way of reading, with the same bits as in one file."""
    folder = new_folder()
    arrays = draw_files(100, "f4", (1, 4))
    one = results.write(np.concatenate(arrays), folder / "one.h5")
    reduce(one, folder / "expected.h5")
    limit = ("prlimit", f"--nofile={64}:{64}")

    def check(how):
        layout = {**LAYOUTS[how], **({"chunks": (1, *INNER)} if LAYOUTS[how] else {})}
        name = write_files(folder, arrays, lambda _: layout, how + "_{:03}.h5")
        out = new_folder() / "out.h5"
        finished = reduce(name, out, "--measure.repeat", 2, prefix=limit)
        assert int(finished.values["count"]) == sum(array.size for array in arrays), finished
        assert results.bits(out) == results.bits(folder / "expected.h5"), finished
    each([("contiguous",), ("deflate",)], check)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 64


# ---------------------------------------------------------------- names of files

def test_a_pattern_may_match_one_file():
    folder = new_folder()
    results.write(np.arange(5.0), folder / "in[1].h5")
    results.write(np.arange(7.0), folder / "in1.h5")
    for pattern, count, words in (("in[1].h5", 5, None), ("in?.h5", 7, ["in1.h5", "in?.h5"]),
                                  ("in[[]*.h5", 5, ["in[1].h5"])):
        finished = reduce(f"{folder}/{pattern}:/group/data", new_folder() / "out.h5")
        assert int(finished.values["count"]) == count, finished
        if words:
            expect_note(finished, words)
    finished = reduce(f"{folder}/in*.h5", new_folder() / "out.h5")
    assert int(finished.values["count"]) == 12, finished


def test_files_without_rows_are_left_out():
    folder = new_folder()
    arrays = draw_files(3)
    arrays[1] = arrays[1][:0]
    finished = reduce(write_files(folder, arrays, lambda number: {"maxshape": (None, *INNER)}
                                  if number == 1 else {}), new_folder() / "out.h5")
    expect_warning(finished, ["in_001.h5"])
    assert int(finished.values["count"]) == arrays[0].size + arrays[2].size, finished


def test_warnings_that_are_alike_are_given_once():
    folder = new_folder()
    name = write_files(folder, draw_files(5))
    for number in range(5):
        with h5py.File(folder / f"in_{number:03}.h5", "r+") as file:
            file["x"].attrs["nodata"] = -1.0
    expect_warning(reduce(name, new_folder() / "out.h5"), ["nodata", "in_000.h5", 4])


def test_wrong_patterns():
    folder = new_folder()
    arrays = draw_files(3, "f4", (3, 4))
    name = write_files(folder, arrays)
    other = new_folder()
    shutil.copytree(folder, other, dirs_exist_ok=True)
    with h5py.File(other / "in_002.h5", "r+") as file:
        file.move("x", "y")
    data = ["run", "reduce", "--input.data"]
    check_complaints([
        ([*data, f"{folder}/none_*.h5:/x"], 2, ["input.data", f"{folder}/none_*.h5"]),
        ([*data, f"{folder}/[:/x"], 2, ["input.data"]),
        ([*data, f"{folder}/in_*.h5[0:3]"], 2, ["input.data", "[0:3]", "in_*.h5:/PATH"]),
        ([*data, folder / "in_000.h5", folder / "in_001.h5"], 2, ["in_001.h5", "quotes"]),
        ([*data, f"{folder}/in_*.h5:/y"], 2, ["input.data", "in_000.h5", "/y"]),
        ([*data, f"{other}/in_*.h5:/x"], 2, ["input.data", "in_002.h5", "/x", 3]),
        ([*data, f"{name}[20]"], 2, ["input.data", "20"]),
        ([*data, name, "--input.rows", 10], 2, ["input.rows", 10, 9])], ranks=(1,))
    # Results never replace inputs, and do not become inputs unnoticed.
    inputs = {path: path.read_bytes() for path in folder.iterdir()}
    for output in ("in_001.h5", "in_000.h5"):
        finished = run(*data, name, "-o", folder / output, "--output.overwrite", "anything")
        expect_error(finished, 2, ["output.file", output])
    assert {path: path.read_bytes() for path in folder.iterdir()} == inputs
    reduce(name, folder / "in_result.h5")
    expect_complaint(run(*data, name, "-o", folder / "in_result.h5"), 2, ["in_result.h5", "/x"])


def test_files_that_disagree():
    """join_test.cpp has the properties."""
    folder = new_folder()
    write_series(folder)
    with netCDF4.Dataset(folder / "sst_2004.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("latitude", 6)
        file.createVariable("sst", "f4", ("time", "latitude"))[:] = np.zeros((3, 6))
    expect_complaint(run("run", "reduce", "--input.data", f"{folder}/sst_*.nc:/sst", "-o", "r.h5"),
                     2, ["sst_2000.nc", "sst_2004.nc", "lat", "latitude"])


def test_files_that_change_during_the_run():
    """A file that is open when it is replaced makes the result unverified; one that must be opened
    again is an error."""
    folder, out = new_folder(), new_folder()
    arrays = draw_files(60, "f4", (200, 300))
    name = write_files(folder, arrays)

    def change(prefix):
        process = start("run", "reduce", "--input.data", name, "-o", out / "out.h5",
                        "--measure.repeat", 400, prefix=prefix)
        wait_until(lambda: part_files(out), process)
        with h5py.File(folder / "new.h5", "w") as file:
            file["x"] = arrays[7]
        os.rename(folder / "new.h5", folder / "in_007.h5")
        finished = finish(process)
        assert finished.code in (1, 3), finished
        expect_words(finished.err, ["in_007.h5"], finished)
        assert part_files(out) == [], list(out.iterdir())
    for prefix in ((), ("prlimit", "--nofile=64:64")):
        change(prefix)


main(on_gpu=True)
