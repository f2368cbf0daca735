#!/usr/bin/python3
"""Files of netCDF-4: the names of variables are those of netCDF, dimensions are no data, and
default fill values are missing in files of any version of netCDF. Results that netCDF can open,
whatever names, texts and missing coordinates the input has."""

import os
import re

import h5py
import netCDF4
import numpy as np
import xarray

from harness import check_complaints, each, expect_warning, main, new_folder, reduce, run
from products import why_no_products


def of(source, *arguments):
    return ["run", "reduce", "--input.data", source, *arguments]


# ---------------------------------------------------------------- names

def hidden_names(path):
    """z(x, y, z) and the texts name(name) have names of dimensions, time is a dimension only, and x
    has coordinates."""
    with netCDF4.Dataset(path, "w") as file:
        for place in (file, file.createGroup("g")):
            for name, size in (("x", 2), ("y", 3), ("z", 4), ("name", 2), ("time", 5)):
                place.createDimension(name, size)
            place.createVariable("x", "f8", ("x",))[:] = [10, 20]
            place.createVariable("z", "f4", ("x", "y", "z"))[:] = np.arange(24.0).reshape(2, 3, 4)
            place.createVariable("name", str, ("x",))[:] = np.array(["a", "b"], dtype=object)
            place.createVariable("y", "f4", ("x",))[:] = [1, 3]
    return path


def test_variables_have_the_names_of_netcdf():
    folder = new_folder()
    path = hidden_names(folder / "in.nc")

    def check(place, selection, total):
        source, out = f"{path}:{place}{selection}", new_folder() / "out.h5"
        finished = reduce(source, out, "--reduce.ops", "sum", ranks=2 if selection else 1)
        visible = f"{path}:{place.replace('_nc4_non_coord_', '')}"
        assert float(finished.values["sum"]) == total, finished
        assert finished.values["input"].startswith(visible), finished
        with h5py.File(out) as file:
            assert file["input"].attrs["name"].startswith(visible), dict(file["input"].attrs)
            named = [row["dataset"].decode() for row in file["input/files"]]
        assert named == [place.replace("_nc4_non_coord_", "")], named
    each([("/z", "", 276), ("/g/z", "", 276), ("/z", "[x=20]", 210),
          ("/_nc4_non_coord_z", "", 276), ("/y", "", 4), ("/x", "", 30)], check)


def test_weights_and_labels_have_the_names_of_netcdf():
    path = hidden_names(new_folder() / "in.nc")
    out = new_folder() / "out.h5"
    reduce(f"{path}:/z", out, "--reduce.over", "x", "--reduce.ops", "sum", "--reduce.weights",
           f"{path}:/y")
    values = np.arange(24.0).reshape(2, 3, 4)
    with h5py.File(out) as file:
        assert (file["results/sum"][()] == values[0] + 3 * values[1]).all(), file["results/sum"][()]
    reduce(f"{path}:/z", out, "--reduce.by", f"{path}:/name", "--reduce.ops", "sum",
           "--output.overwrite", "true")
    with h5py.File(out) as file:
        assert file["results/name"].asstr()[()].tolist() == ["a", "b"], list(file["results"])
        assert file["results/sum"][()].tolist() == [66, 210], file["results/sum"][()]


def test_joined_files_have_the_names_of_netcdf():
    folder = new_folder()
    for number in (1, 2):
        hidden_names(folder / f"in{number}.nc")
    finished = reduce(f"{folder}/in?.nc:/z", folder / "out.h5", "--reduce.ops", "sum")
    assert finished.values["sum"] == "552", finished


def test_dimensions_are_no_data():
    """Neither by name nor in a list of data sets that a user may have meant."""
    path = hidden_names(new_folder() / "in.nc")
    with netCDF4.Dataset(path.with_name("one.nc"), "w") as file:
        file.createDimension("time", 5)
        file.createVariable("a", "f4", ("time",))[:] = 1
    check_complaints([
        (of(f"{path}:/time"), 2, ["input.data", "'/time'", str(path), "dimension"]),
        (of(f"{path}:/g/time[0:2]"), 2, ["input.data", "'/g/time'", "dimension"]),
        (of(f"{path}:/x", "--reduce.weights", f"{path}:/time"), 2, ["reduce.weights", "'/time'"]),
        (of(f"{path}:/zz"), 2, ["'/zz'", "/z?"]),
        (of(path), 2, ["/z (x=2 x y=3 x z=4)", "/g/z (x=2 x y=3 x z=4)"])], ranks=(1,))
    finished = run(*of(f"{path}:/timee"), "-o", path.with_name("out.h5")).expect(2)
    assert "did you mean" not in finished.err and "_nc4" not in finished.err, finished
    assert reduce(path.with_name("one.nc"), path.with_name("out.h5")).values["sum"] == "5"


def test_tables_of_results_are_data():
    """For netCDF they are dimensions."""
    out = new_folder() / "out.h5"
    reduce("ramp", out, "--input.count", 10, "--reduce.ops", "sum,max")
    finished = reduce(f"{out}:/results/reduce{{value}}", out.with_name("2.h5"))
    assert float(finished.values["sum"]) == 54, finished


# ---------------------------------------------------------------- default fill values

def forget_writer(path):
    """netCDF before version 4.4.1 did not write this attribute."""
    with h5py.File(path, "a") as file:
        del file.attrs["_NCProperties"]


FILLS = {kind: netCDF4.default_fillvals[kind]
         for kind in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")}


def test_default_fill_values_of_old_files():
    """Signs of netCDF are its default fill value as that of HDF5, hidden attributes, dimensions
    that are no variables. A plain file of h5py has none, and a warning counts the values."""
    folder = new_folder()

    for dtype in FILLS:
        path = folder / f"{dtype}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 4)
            file.createVariable("a", dtype, ("x",))[1:3] = [5, 7]
        forget_writer(path)

    def check_types(dtype):
        finished = reduce(f"{folder}/{dtype}.nc:/a", folder / f"{dtype}.h5", "--reduce.ops", "sum")
        assert (finished.values["sum"], finished.values["missing"]) == ("12", "2"), finished
        assert finished.values["applied"] == "default", finished
    each([(dtype,) for dtype in FILLS], check_types)
    values = np.array([FILLS["f4"], 1, 2, FILLS["f4"]], "f4")
    with h5py.File(folder / "signs.h5", "w") as file:
        file["bare"] = np.zeros(4, "f4")
        file["bare"].make_scale("This is a netCDF dimension but not a netCDF variable         4")
        file["numbered"], file["plain_scale"] = np.arange(4.0), np.arange(4.0)
        for name in ("numbered", "plain_scale"):
            file[name].make_scale(name)
        file["numbered"].attrs["_Netcdf4Dimid"] = np.int32(0)
        for name in ("bare", "numbered", "plain_scale"):
            file[f"of_{name}"] = values
            file[f"of_{name}"].dims[0].attach_scale(file[name])
        file["marked"], file["plain"] = values, values
        file["marked"].attrs["_Netcdf4Coordinates"] = np.int32(0)
        file.create_dataset("filled", data=values, fillvalue=FILLS["f4"])
        file.create_dataset("otherwise", data=values, fillvalue=1)

    def check_sign(name, is_netcdf):
        finished = reduce(f"{folder}/signs.h5:/{name}", new_folder() / "out.h5")
        assert (finished.values.get("missing") == "2") == is_netcdf, finished
        warned = "_FillValue" in finished.err
        assert warned == (not is_netcdf), finished
        if warned:
            expect_warning(finished, [f"{folder}/signs.h5:/{name}", "2"])
    each([("of_bare", True), ("of_numbered", True), ("of_plain_scale", False), ("marked", True),
          ("plain", False), ("filled", True), ("otherwise", False)], check_sign)


def test_doubtful_fill_values_are_counted():
    """In every input, also those that no sample holds; not without conventions."""
    folder = new_folder()
    fill = FILLS["f4"]
    large = np.zeros((1500, 1501), "f4")
    large[::5, 7::3] = fill
    small = np.array([[fill, 1, 2], [3, fill, fill]], "f4")
    with h5py.File(folder / "in.h5", "w") as file:
        file["large"] = large
        file.create_dataset("chunked", data=large, chunks=(100, 300), compression="gzip")
        file["small"], file["c"], file["square"] = small, small, np.eye(3)
        file["declared"] = small
        file["declared"].attrs["_FillValue"] = np.float32(-1)
        file["one"] = np.where(np.arange(5000000) == 4321000, fill, np.float32(1))
        file["ones"] = np.ones((2, 3), "f4")

    def check(workload, inputs, counts, ranks, *options):
        words = [text for key, name in inputs
                 for text in (f"--{key}", f"{folder}/in.h5:/{name}")]
        finished = run("run", workload, *words, *options, "-o", new_folder() / "out.h5",
                       ranks=ranks).expect(0)
        warnings = [line for line in finished.err.splitlines() if "_FillValue" in line]
        assert len(warnings) == len(counts), finished
        for warning, (name, count) in zip(warnings, counts):
            assert re.search(f"{folder}/in.h5:/{name} has .* in {count} element", warning), finished

    many = np.count_nonzero(large == np.float32(fill))
    cases = [("reduce", [("input.data", name)], [(name, many)], ranks, *options)
             for name, ranks, options in (
                 ("large", 1, []), ("large", 2, ["--reduce.over", "0"]),
                 ("chunked", 2, ["--pipeline.mode", "resident"]))]
    data = [("input.data", "ones")]
    cases += [("reduce", [("input.data", "large")], [], 1, "--input.conventions", "none"),
              ("reduce", [("input.data", "declared")], [], 1),
              ("reduce", [("input.data", "one")], [("one", 1)], 2),
              ("reduce", [("input.data", "one")], [("one", 1)], 2, "--reduce.ops", "range"),
              ("reduce", [*data, ("reduce.weights", "small")], [("small", 3)], 1,
               "--reduce.over", "0")]
    if not why_no_products():
        cases += [("gram", [("input.data", "chunked")], [("chunked", many)], 2),
                  ("gemm", [("input.a", "small"), ("input.b", "square"), ("input.c", "c")],
                   [("small", 3), ("c", 3)], 1, "--gemm.beta", 1, "--input.type", "f32")]
    each(cases, check)


def test_whose_attributes_are_applied():
    """The lines `applied` and `not_applied` name the option of an input other than the data."""
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        for name, values in (("x", np.ones((3, 2))), ("plain", np.ones((3, 2))), ("w", np.ones(3)),
                             ("months", np.array([1, 1, 2], "i2"))):
            file[name] = values
        file["x"].attrs["_FillValue"] = file["w"].attrs["missing_value"] = -1.0
        file["w"].attrs["nodata"], file["months"].attrs["_FillValue"] = 5.0, np.int16(-1)

    def check(data, arguments, applied, not_applied):
        out = new_folder() / "out.h5"
        finished = run(*arguments, "--input.data", f"{folder}/in.h5:/{data}", "-o", out).expect(0)
        lines = dict(text.split("=", 1) for text in finished.out.splitlines())
        assert lines.get("applied", "") == applied, finished
        assert lines.get("not_applied", "") == not_applied, finished
    cells = ["run", "reduce", "--reduce.ops", "mean", "--reduce.weights", f"{folder}/in.h5:/w"]
    by = ["--reduce.by", f"{folder}/in.h5:/months"]
    of_weights = "missing_value of reduce.weights"
    cases = [("x", cells, f"_FillValue, {of_weights}", "nodata of reduce.weights"),
             ("plain", [*cells, *by], f"_FillValue of reduce.by, {of_weights}",
              "nodata of reduce.weights"),
             ("x", ["run", "reduce"], "_FillValue", "")]
    if not why_no_products():
        cases.append(("plain", ["run", "gram", "--gram.weights", f"{folder}/in.h5:/w"],
                      "missing_value of gram.weights", "nodata of gram.weights"))
    each(cases, check)


# ---------------------------------------------------------------- results

LATIN1 = "L\u00e4nge", "Z\u00fcrich"


def test_texts_in_results_are_utf8():
    """Names, labels, attributes and file names in Latin-1, in another encoding than their type
    says. netCDF4-python, xarray and h5py read all of them."""
    folder = new_folder()
    name, label = (text.encode("latin-1") for text in LATIN1)
    data = b"gr\xfc\xdfe"
    with h5py.File(folder / "in.h5", "w") as file:
        file[data] = np.arange(12.0).reshape(3, 4)
        file[data].attrs["DIMENSION_LABELS"] = np.array([name, b"y"])
        file[data].attrs["units"] = np.bytes_(b"\xb0C")
        utf8 = h5py.h5t.TypeID.copy(h5py.h5t.C_S1)
        utf8.set_size(8)
        utf8.set_cset(h5py.h5t.CSET_UTF8)
        made = h5py.h5d.create(file.id, b"l\xe4", utf8, h5py.h5s.create_simple((3,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([label, b"Bern", label], "S8"), utf8)
    source = os.fsencode(f"{folder}/in.h5") + b":/"

    def check(number, arguments, words, variable, values):
        out = folder / f"out{number}.h5"
        finished = run(*map(os.fsdecode, arguments), "--input.data", os.fsdecode(source + data),
                       "-o", out).expect(0)
        warned = [line for line in finished.err.splitlines() if "Latin-1" in line]
        assert len(warned) == len(words), finished
        for line, word in zip(warned, words):
            assert word in line, finished
        with netCDF4.Dataset(out) as file:
            assert all(each[...] is not None for each in file["results"].variables.values())
            if variable:
                assert file["results"][variable][...].tolist() == values, file["results"]
            assert file["results/sum"].units == "\u00b0C", file["results/sum"]
        with xarray.open_dataset(out, group="results") as opened:
            opened.load()
        with h5py.File(out) as file:
            file.visititems(lambda _, item: dict(item.attrs))
            assert "\u00fc" in file.attrs["argv"], file.attrs["argv"]
    ops = ["run", "reduce", "--reduce.ops", "sum"]
    by = [*ops, "--reduce.by", source + b"l\xe4"]
    cases = [(ops + ["--reduce.over", "y"], [LATIN1[0]], None, None),
             (ops + ["--reduce.over", LATIN1[0]], [LATIN1[0]], None, None),
             (by, [LATIN1[0], LATIN1[1]], "l\u00e4", ["Bern", LATIN1[1]])]
    for number, case in enumerate(cases):
        check(number, *case)


def test_long_names():
    """netCDF has names of at most 256 bytes. Longer ones are cut between characters, and stay
    unique."""
    folder = new_folder()
    long = 150 * "\u00fc"
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.arange(24.0).reshape(2, 3, 4)
        file["x"].attrs["DIMENSION_LABELS"] = [long + "1", long + "2", "z"]
    out = folder / "out.h5"
    reduce(f"{folder}/in.h5:/x", out, "--reduce.over", "z", "--reduce.ops", "sum")
    with netCDF4.Dataset(out) as file:
        dimensions = file["results/sum"].dimensions
    assert dimensions == (127 * "\u00fc", 123 * "\u00fc" + "_of_data"), dimensions


def test_missing_coordinates_stay_missing():
    folder = new_folder()
    cases = {"i4": ("_FillValue", [5, -99, 7], -99), "u1": ("valid_max", [5, 200, 7], 100),
             "i8": ("missing_value", [5, 3, -2**63], 3), "f4": ("_FillValue", [5, -9, 7], -9)}
    with h5py.File(folder / "in.h5", "w") as file:
        for kind, (attribute, values, value) in cases.items():
            file[f"t{kind}"] = np.array(values, kind)
            file[f"t{kind}"].attrs[attribute] = np.array(value, kind)
            file[f"t{kind}"].make_scale(f"t{kind}")
            file[f"x{kind}"] = np.array([[1.0, 2, 3], [4, 6, 5], [9, 8, 8]])
            file[f"x{kind}"].dims[0].attach_scale(file[f"t{kind}"])

    def check(kind, workload, *arguments):
        out = folder / f"{kind}{workload}.h5"
        run("run", workload, "--input.data", f"{folder}/in.h5:/x{kind}", *arguments, "-o",
            out).expect(0)
        with h5py.File(out) as file:
            found = file[f"results/t{kind}"]
            assert np.isnan(found.attrs["_FillValue"]), dict(found.attrs)
            values = found[()]
        missing = np.isnan(values)
        assert missing.tolist() == [False, kind != "i8" or missing[1], False], values
        wanted = np.array(cases[kind][1], "f8")
        assert (values[~missing] == wanted[~missing]).all() and missing.sum() == 1, values
        with xarray.open_dataset(out, group="results") as opened:
            assert np.isnan(opened[f"t{kind}"].values).tolist() == missing.tolist(), opened
    has_products = not why_no_products()
    for kind in cases:
        check(kind, "reduce", "--reduce.over", "1", "--reduce.ops", "mean")
        if has_products:
            check(kind, "covariance", "--gram.of", "rows")


def test_dimensions_with_the_same_name():
    """A name of several dimensions is an error in each option that takes one."""
    path = new_folder() / "in.h5"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("p0", 3)
        file.createDimension("p1", 2)
        file.createVariable("x", "f4", ("p1", "p0", "p0"))[:] = np.arange(18.0).reshape(2, 3, 3)
        file.createVariable("w", "f4", ("p0",))[:] = [1, 2, 3]
        file.createVariable("p0", "f4", ("p0",))[:] = [1, 2, 3]
    data = f"{path}:/x"
    check_complaints([
        (of(data, "--reduce.over", "p0"), 2, ["reduce.over", "p0", "1", "2"]),
        (of(data, "--reduce.by", "p0:month"), 2, ["reduce.by", "p0", "1", "2"]),
        (of(data, "--reduce.by", f"{path}:/w"), 2, ["reduce.by", f"{path}:/w"]),
        (of(data, "--reduce.weights", f"{path}:/w", "--reduce.ops", "mean"), 2,
         ["reduce.weights", f"{path}:/w"]),
        (of(f"{data}[p0=1]"), 2, ["input.data", "p0"]),
        (["run", "gram", "--input.data", data, "--gram.samples", "p0"], 2,
         ["gram.samples", "p0", "1", "2"])], ranks=(1,))
    out = path.with_name("out.h5")
    reduce(data, out, "--reduce.over", "2", "--reduce.ops", "sum")
    with h5py.File(out) as file:
        assert file["results/sum"][()].tolist() == [[3, 12, 21], [30, 39, 48]]


main()
