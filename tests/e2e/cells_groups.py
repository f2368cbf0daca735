#!/usr/bin/python3
"""`run reduce` along dimensions by group (reduce.by), with weights (reduce.weights), and with names
and coordinates of dimensions, is compared with numpy in extended precision."""

import os

import h5py
import netCDF4
import numpy as np
import xarray

from cell_runs import ALL, SMALL, check, draw, holes, over
from cell_statistics import Expected, stored
from harness import each, main, new_folder, reduce
from results import seeded

# The middle of each month of three years without leap days.
DAYS = (np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30]) + 14.5
        + 365 * np.arange(3)[:, None]).ravel()


# ---------------------------------------------------------------- groups and weights

def test_groups_by_labels():
    """A group that has no index along its dimension does not occur; one of missing values is
    empty."""
    array = draw((37, 80, 61), "f4")
    labels = seeded("labels").choice([3, -7, 20], 37)
    names = np.array([3, -7, 20])
    numbers = np.searchsorted(np.sort(names), labels)
    missing = (labels == 20)[:, None, None] & np.ones(array.shape, bool)
    array[missing] = -1e9
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("x", data=array, chunks=(5, 80, 23))
        data.attrs["_FillValue"] = np.float32(-1e9)
        file["label"] = labels.astype("i4")
        file["name"] = np.array(["abc"[n] for n in numbers], h5py.string_dtype())
    source = f"{folder / 'in.h5'}:/x"

    def one(axes, label, ranks, options):
        check(array, axes, source, "--reduce.by", f"{folder / 'in.h5'}:/{label}", *options,
              ranks=ranks, missing=missing, labels=numbers, group_axis=0, groups=3)
    each([((0,), "label", 1, ()), ((0, 2), "name", 2, SMALL), ((0, 1, 2), "label", 3, ()),
          ((0,), "name", 2, ("--pipeline.mode", "resident"))], one)


def test_very_many_groups():
    """Time and memory are linear in the number of groups."""
    few, many = 40000, 400000
    memory = {}
    for count in (few, many):
        folder = new_folder()
        labels = seeded(count).permutation(count) * 3 - count
        with h5py.File(folder / "in.h5", "w") as file:
            file["x"], file["label"] = (labels % 1000).astype("f4"), labels
        before = os.times().children_user
        finished = reduce(f"{folder}/in.h5:/x", folder / "out.h5", "--reduce.by",
                          f"{folder}/in.h5:/label", "--reduce.ops", "sum,count")
        assert finished.values["verified"] == "true", finished
        memory[count] = int(finished.values["host_memory_peak"])
        found = stored(folder / "out.h5")
        assert np.array_equal(found["sum"], np.sort(labels) % 1000), finished
        assert (found["count"] == 1).all(), finished
        # 0.6 s if it is linear, 30 s if it is quadratic
        assert os.times().children_user - before < 10, finished
    assert (memory[many] - memory[few]) / (many - few) < 700, memory


def weighted(array, axes, weights, missing):
    """The weighted sum, mean and variance; `weights` have the dimensions of the array."""
    w = np.where(missing, 0, weights).astype(np.longdouble)
    x = np.where(missing, 0, array).astype(np.longdouble)
    total = w.sum(axis=axes)
    mean = (w * x).sum(axis=axes) / total
    shape = [1 if axis in axes else n for axis, n in enumerate(array.shape)]
    variance = (w * (x - mean.reshape(shape))**2).sum(axis=axes) / total
    return {"sum": (w * x).sum(axis=axes), "mean": mean, "variance": variance,
            "stddev": np.sqrt(variance)}


def test_weights():
    """Weights have some of the dimensions of the data. Without one that is reduced, means ignore
    them, which a warning says."""
    array = draw((26, 79, 94), "f8")
    missing = holes(array.shape)
    missing[:, 2] = False
    array[missing] = -1e9
    random = seeded("weights")
    folder = new_folder()
    given = {"rows": random.random(26) + 0.1, "columns": random.random(79) + 0.1,
             "area": random.random((79, 94))}
    full = {"rows": given["rows"][:, None, None], "columns": given["columns"][None, :, None],
            "area": given["area"][None]}
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("x", data=array, chunks=(7, 79, 35))
        data.attrs["_FillValue"] = -1e9
        for name, values in given.items():
            file[name] = values
    ops = "count,sum,mean,variance,stddev"

    def one(name, axes, ranks):
        out = new_folder() / "out.h5"
        finished = reduce(f"{folder / 'in.h5'}:/x", out, "--reduce.over", ",".join(map(str, axes)),
                          "--reduce.ops", ops, "--reduce.weights", f"{folder / 'in.h5'}:/{name}",
                          ranks=ranks)
        found = stored(out)
        assert finished.values["weights"] == f"{folder / 'in.h5'}:/{name}", finished
        is_kept = all(full[name].shape[axis] == 1 for axis in axes)
        assert ("warning: reduce.weights" in finished.err) == is_kept, finished
        assert np.array_equal(found["count"], (~missing).sum(axis=axes)), finished
        w = np.broadcast_to(full[name], array.shape)
        for op, wanted in weighted(array, axes, w, missing).items():
            size = np.abs(np.where(missing, 0, array)).max()**(2 if op == "variance" else 1) \
                * (w.sum() if op == "sum" else 1)
            error = array.size * 2.0**-50 * size
            assert found[op].shape == wanted.shape, (op, finished)
            assert np.abs(found[op] - wanted).max() <= error, (op, found[op] - wanted, finished)
    each([("rows", (0,), 1), ("rows", (0, 2), 2), ("columns", (1,), 3), ("columns", (0, 1, 2), 2),
          ("area", (1, 2), 2), ("area", (0, 1, 2), 1), ("columns", (0,), 1)], one)


# ---------------------------------------------------------------- names

def netcdf(folder):
    """sst(time, lat, lon) of three years with coordinates and missing values, in a file for each
    year with a unit of its own, and all years in one file; returns the values, and which ones are
    missing."""
    shape = (36, 5, 8)
    values = draw(shape, "f4")
    missing = holes(shape)
    missing[:, 2] = False
    write_netcdf(folder / "all.nc", DAYS, 2001, values, missing)
    for year in range(3):
        rows = slice(12 * year, 12 * year + 12)
        write_netcdf(folder / f"sst_{year}.nc", DAYS[:12], 2001 + year, values[rows], missing[rows])
    return values, missing


def write_netcdf(path, days, since, values, missing):
    with netCDF4.Dataset(path, "w") as file:
        for name, extent in (("time", None), ("lat", 5), ("lon", 8)):
            file.createDimension(name, extent)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar = f"days since {since}-01-01", "noleap"
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:], lat.units = np.linspace(-60, 60, 5), "degrees_north"
        file.createVariable("lon", "f8", ("lon",))[:] = np.arange(8) * 45
        sst = file.createVariable("sst", "f4", ("time", "lat", "lon"), fill_value=-99, zlib=True,
                                  chunksizes=(5, 5, 3))
        sst.units = "K"
        sst[:] = np.ma.MaskedArray(values, missing)
        time[:] = days


def test_names_and_coordinates():
    """xarray opens the results with the names and coordinates of the remaining dimensions."""
    folder = new_folder()
    values, missing = netcdf(folder)
    source = f"{folder}/all.nc:/sst"
    dimensions = {"time": 0, "lat": 1, "lon": 2}

    def one(number, names, ranks):
        out = folder / f"out{number}.h5"
        finished = reduce(source, out, "--reduce.over", names, *ALL, ranks=ranks)
        axes = tuple(sorted(dimensions[name] for name in names.split(",")))
        Expected(values, axes, missing=missing).check(stored(out), told=str(finished))
    cases = ["time", "lat,lon", "lon", "lon,time", "time,lat,lon"]
    each([(number, names, 1 + number % 3) for number, names in enumerate(cases)], one)
    for number, names in enumerate(cases):
        with xarray.open_dataset(folder / f"out{number}.h5", group="results",
                                 engine="netcdf4", decode_times=False) as found:
            left = [name for name in dimensions if name not in names.split(",")]
            assert list(found["mean"].dims) == left, (names, found)
            assert set(left) <= set(found["mean"].coords), (names, found)
            if "lat" in left:
                assert found["lat"].values.tolist() == [-60, -30, 0, 30, 60], found
            expect_extreme_coordinates(found, names.split(","))


def expect_extreme_coordinates(found, reduced):
    """argmin_DIM is the coordinate of the minimum along a reduced dimension."""
    coordinates = {"time": DAYS, "lat": np.linspace(-60, 60, 5), "lon": np.arange(8) * 45}
    order = [name for name in coordinates if name in reduced]
    for op in ("argmin", "argmax"):
        index = found[op].values
        known = np.nan_to_num(index, nan=-1).astype(int)  # xarray makes the index -1 NaN
        places = np.unravel_index(np.maximum(known, 0), [len(coordinates[name]) for name in order])
        for name, place in zip(order, places):
            at = found[f"{op}_{name}"].values
            wanted = np.where(known < 0, np.nan, coordinates[name][place])
            assert np.array_equal(at, wanted, equal_nan=True), (op, name, at, wanted)


def test_groups_by_time():
    """A month, a season or a year is decoded in each file, and names its group."""
    folder = new_folder()
    values, missing = netcdf(folder)
    month, year = np.arange(36) % 12, np.arange(36) // 12
    numbers = {"month": (month, 12), "season": ((month + 1) // 3 % 4, 4), "year": (year, 3)}

    def one(by, axes, ranks):
        labels, groups = numbers[by]
        out = folder / f"{by}.h5"
        finished = reduce(f"{folder}/sst_*.nc:/sst", out, *over(axes), "--reduce.by", f"time:{by}",
                          ranks=ranks)
        Expected(values, axes, missing=missing, labels=labels, group_axis=0, groups=groups).check(
            stored(out), told=str(finished))
    each([("month", (0,), 1), ("season", (0, 2), 2), ("year", (0, 1, 2), 3)], one)
    for by, wanted in (("month", list(range(1, 13))), ("year", [2001, 2002, 2003]),
                       ("season", ["DJF", "MAM", "JJA", "SON"])):
        with xarray.open_dataset(folder / f"{by}.h5", group="results", engine="netcdf4") as found:
            first = found["mean"].dims[0]
            assert found[first].values.tolist() == wanted, (by, found)


if __name__ == "__main__":
    main(on_gpu=True)
