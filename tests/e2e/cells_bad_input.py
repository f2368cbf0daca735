#!/usr/bin/python3
"""Errors of `run reduce` along dimensions (reduce.over), by group (reduce.by) and with weights
(reduce.weights), and of cells that need more memory than there is."""

import h5py
import netCDF4
import numpy as np

from cell_statistics import OPS, Expected, stored
from harness import check_complaints, expect_complaint, main, new_folder, reduce, run

SHAPE = (12, 4, 6)


def write(folder):
    """A file with x(12, 4, 6) and data sets that fit, or do not fit, as labels or weights."""
    weights = {name: np.ones(12) for name in ("ones", "negative", "nan", "infinite", "zero")}
    weights["negative"][7], weights["nan"][3], weights["infinite"][5] = -0.5, np.nan, np.inf
    weights["zero"][:] = 0
    weights.update({"long": np.ones(13), "short": np.ones(11), "table": np.ones((12, 5)),
                    "swapped": np.ones((6, 4))})
    labels = {"labels": np.arange(12) % 3, "labels_13": np.arange(13) % 3, "five": np.arange(5),
              "labels_of_kept": np.arange(4), "matrix": np.zeros((12, 4), "i4"),
              "halves": np.arange(12) / 2, "square": np.zeros((5, 5))}
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.arange(288, dtype="f4").reshape(SHAPE)
        for name, values in {**weights, **labels}.items():
            file[name] = values
    return f"{folder / 'in.h5'}"


def test_dimensions():
    """The message names the option, the dimension and those that there are."""
    data = f"{write(new_folder())}:/x"
    for_over = ["run", "reduce", "--input.data", data, "--reduce.over"]
    check_complaints([
        ([*for_over, "3"], 2, ["reduce.over", 3]),
        ([*for_over, "0,0"], 2, ["reduce.over", 0]),
        ([*for_over, "0,1,00"], 2, ["reduce.over"]),
        ([*for_over, "time"], 2, ["reduce.over", "time"]),
        ([*for_over, "-1"], 2, ["reduce.over", "-1"]),
        ([*for_over, ""], 2, ["reduce.over"]),
        ([*for_over, "0,,1"], 2, ["reduce.over"]),
        (["run", "reduce", "--input.data", f"{data}[:, 2]", "--reduce.over", 1], 2,
         ["reduce.over", 1]),
        (["run", "gram", "--gram.rows", 9, "--reduce.over", 0], 2, ["reduce.over", "gram"]),
        ([*for_over, "0", "--reduce.ddof", -1], 2, ["reduce.ddof", -1]),
        ([*for_over, "0", "--reduce.ops", "mean,std"], 2, ["reduce.ops", "std", "stddev"]),
        ([*for_over, "0", "--reduce.ops", "skewnes"], 2, ["reduce.ops", "skewnes", "skewness"]),
    ], ranks=(1,))
    check_complaints([([*for_over, "3"], 2, ["reduce.over", 3])], ranks=(2,))


def netcdf(folder):
    """A field with coordinates of time in good and bad units."""
    units = {"good": "days since 2000-01-01", "none": "", "metres": "m",
             "no_date": "days since then", "unit": "fortnights since 2000-01-01",
             "months": "days since 2000-13-01", "hour": "hours since 2000-01-01 25:00"}
    for name, unit in units.items():
        with netCDF4.Dataset(folder / f"{name}.nc", "w") as file:
            for dimension, extent in (("time", 6), ("lat", 4)):
                file.createDimension(dimension, extent)
            time = file.createVariable("time", "f8", ("time",))
            time[:] = 31.0 * np.arange(6)
            if unit:
                time.units = unit
            file.createVariable("lat", "f8", ("lat",))[:] = np.arange(4) * 10
            file.createVariable("t", "f4", ("time", "lat"))[:] = np.arange(24).reshape(6, 4)
    with netCDF4.Dataset(folder / "calendar.nc", "w") as file:
        file.createDimension("time", 3)
        time = file.createVariable("time", "f8", ("time",))
        time[:], time.units, time.calendar = np.arange(3), "days since 2000-01-01", "lunar"
        file.createVariable("t", "f4", ("time",))[:] = np.arange(3)


def test_groups():
    folder = new_folder()
    file = write(folder)
    netcdf(folder)

    def by(value, over="0", data=f"{file}:/x"):
        return ["run", "reduce", "--input.data", data, "--reduce.over", over, "--reduce.by", value]

    def by_time(name, value="time:month", over="time"):
        return by(value, over, f"{folder}/{name}.nc:/t")
    check_complaints([
        (by(f"{file}:/labels_13"), 2, ["reduce.by", f"{file}:/labels_13", 13]),
        (by(f"{file}:/five", "0,1,2"), 2, ["reduce.by", f"{file}:/five", 5]),
        (by(f"{file}:/labels_of_kept"), 2, ["reduce.by", f"{file}:/labels_of_kept", 4]),
        (by(f"{file}:/matrix"), 2, ["reduce.by", f"{file}:/matrix"]),
        (by(f"{file}:/halves"), 2, ["reduce.by", f"{file}:/halves", "0.5"]),
        (by(f"{file}:/no"), 2, [f"{file}", "/no"]),
        (by("no.h5:/labels"), 2, ["no.h5"]),
        (by("month"), 2, ["reduce.by", "month"]),
        (by("time:month"), 2, ["reduce.by", "time"]),
        (by("0:month"), 2, ["reduce.by", "0"]),
        (by(f"{file}:/labels", f"{file}:/labels"), 2, ["reduce.over"]),
        (by_time("good", "time:day"), 2, ["reduce.by", "day", "month"]),
        (by_time("good", "lat:month", "time,lat"), 2, ["reduce.by", "lat"]),
        (by_time("good", "time:month", "lat"), 2, ["reduce.by", "time", "reduce.over"]),
        (by_time("good", "level:month"), 2, ["reduce.by", "level"]),
        *((by_time(name), 2, ["reduce.by", "time", *words]) for name, words in (
            ("none", []), ("metres", ["m"]), ("no_date", ["then"]), ("unit", ["fortnights"]),
            ("months", ["2000-13-01"]), ("hour", ["25:00"]), ("calendar", ["lunar"]))),
        (["run", "reduce", "--input.data", f"{file}:/x", "--reduce.by", f"{file}:/square"], 2,
         ["reduce.by", f"{file}:/square"]),
    ], ranks=(1,))
    check_complaints([(by_time("metres"), 2, ["reduce.by", "time"])], ranks=(2,))


def test_weights():
    file = write(new_folder())

    def weighted(name, over="0", *options):
        return ["run", "reduce", "--input.data", f"{file}:/x", "--reduce.over", over,
                "--reduce.ops", "mean", "--reduce.weights", f"{file}:/{name}", *options]
    check_complaints([
        (weighted("negative"), 2, ["reduce.weights", f"{file}:/negative", 7, "-0.5"]),
        (weighted("nan"), 2, ["reduce.weights", f"{file}:/nan", 3]),
        (weighted("infinite"), 2, ["reduce.weights", f"{file}:/infinite", 5, "inf"]),
        (weighted("zero"), 2, ["reduce.weights", f"{file}:/zero"]),
        (weighted("long"), 2, ["reduce.weights", f"{file}:/long", 13]),
        (weighted("short", "0,1,2"), 2, ["reduce.weights", f"{file}:/short", 11]),
        (weighted("table"), 2, ["reduce.weights", f"{file}:/table", 5]),
        (weighted("swapped", "1,2"), 2, ["reduce.weights", f"{file}:/swapped"]),
        (weighted("no"), 2, [file, "/no"]),
    ], ranks=(1,))
    check_complaints([(weighted("negative"), 2, ["reduce.weights", 7])], ranks=(2,))


def test_a_group_without_values_is_empty():
    """A season without any month has the count 0 and NaN in all other results but the sum."""
    folder = new_folder()
    netcdf(folder)
    out = folder / "out.h5"
    finished = reduce(f"{folder}/good.nc:/t", out, "--reduce.over", "time", "--reduce.by",
                      "time:season", "--reduce.ops", ",".join(OPS), ranks=2)
    values = np.arange(24, dtype="f4").reshape(6, 4)  # January to June
    Expected(values, (0,), labels=np.array([0, 0, 1, 1, 1, 2]), group_axis=0, groups=4).check(
        stored(out), told=str(finished))
    assert (stored(out)["count"][3] == 0).all(), finished
    assert finished.values["groups"] == "4", finished


def test_missing_is_an_error():
    """The error has the number of values that are missing or NaN, and names the first one. Values
    without a group do not count."""
    values = np.arange(288, dtype="f4").reshape(SHAPE)
    values[2, 1, 3] = values[9, 0, 5] = np.nan
    values[9, 2, 2] = -1
    path = new_folder() / "in.h5"
    with h5py.File(path, "w") as file:
        file["x"] = values
        file["x"].attrs["_FillValue"] = np.float32(-1)
        file["late"] = np.array([""] * 5 + ["late"] * 7, h5py.string_dtype())
    words = ["run", "reduce", "--input.data", f"{path}:/x", "--reduce.missing", "error",
             "--reduce.over", "0"]
    check_complaints([
        (words, 1, ["3 of 288", "(2,1,3)"]),
        ([*words, "--reduce.by", f"{path}:/late"], 1, ["2 of 288", "(9,0,5)"]),
    ], ranks=(1, 2))


def test_more_cells_than_memory():
    """The error states how much memory would do; with it, the run succeeds."""
    folder = new_folder()
    source = f"{folder / 'in.h5'}:/x"
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.arange(16_000, dtype="f4").reshape(2, -1)
    words = ["run", "reduce", "--input.data", source, "--reduce.over", 0, "-o", folder / "out.h5",
             "--pipeline.batch", "4KiB", "--pipeline.slot", "4KiB"]
    finished = run(*words, "--pipeline.gpu-memory", "1KiB")
    expect_complaint(finished, 2, ["--pipeline.gpu-memory"])
    assert [path.name for path in folder.iterdir()] == ["in.h5"], finished
    enough = finished.err.split("--pipeline.gpu-memory ")[1].split()[0].strip(":;,.")
    run(*words, "--pipeline.gpu-memory", enough).expect(0)


def test_results_larger_than_the_disk():
    """4 x 10^12 cells are rejected before the data are read."""
    folder = new_folder()
    with h5py.File(folder / "wide.h5", "w") as file:
        file.create_dataset("x", (2, 2**42), "u1", chunks=(1, 2**20))
    finished = run("run", "reduce", "--input.data", f"{folder / 'wide.h5'}:/x", "--reduce.over", 0,
                   "-o", folder / "out.h5", timeout=60)
    assert finished.code == 2 and not (folder / "out.h5").exists(), finished


if __name__ == "__main__":
    main()
