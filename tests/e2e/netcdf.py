#!/usr/bin/python3
"""Files of netCDF-4: the names of variables are those of netCDF, dimensions are no data, and default
fill values are missing in files of any version of netCDF."""

import h5py
import netCDF4
import numpy as np

from harness import check_complaints, each, main, new_folder, reduce, run


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
        finished = reduce(source, out, "--reduce.ops", "sum", ranks=2)
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


FILLS = {"i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295,
         "i8": -9223372036854775806, "u8": 18446744073709551614, "f4": netCDF4.default_fillvals["f4"],
         "f8": netCDF4.default_fillvals["f8"]}


def test_default_fill_values_of_old_files():
    """Signs of netCDF are its default fill value as that of HDF5, hidden attributes, dimensions that
    are no variables. A plain file of h5py has none."""
    folder = new_folder()

    def check_types(dtype):
        path = folder / f"{dtype}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 4)
            file.createVariable("a", dtype, ("x",))[1:3] = [5, 7]
        forget_writer(path)
        finished = reduce(f"{path}:/a", folder / f"{dtype}.h5", "--reduce.ops", "sum")
        assert (finished.values["sum"], finished.values["missing"]) == ("12", "2"), finished
        assert finished.values["applied"] == "default", finished
    for dtype in FILLS:
        check_types(dtype)
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
    each([("of_bare", True), ("of_numbered", True), ("of_plain_scale", False), ("marked", True),
          ("plain", False), ("filled", True), ("otherwise", False)], check_sign)


main()
