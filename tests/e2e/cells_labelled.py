#!/usr/bin/python3
"""Statistics along dimensions as xarray has them: `reduce.over`, groups by dates and by labels,
weights, and results that xarray, netCDF4-python and h5py open with their labels."""

import warnings

import h5py
import netCDF4
import numpy as np
import xarray

from harness import check_complaints, each, main, new_folder, reduce
from results import seeded

LAT, LON = np.array([-30, -10, 10, 30], "f4"), np.arange(0, 360, 60.0)
UNITS = "days since 1999-11-15"
OPS = ["mean", "min", "max", "count", "stddev"]
warnings.filterwarnings("ignore", "Degrees of freedom", RuntimeWarning)  # of cells without values


def field(path, times, units=UNITS, calendar="standard", seed=1):
    """Writes sst(time, lat, lon) with missing values and two other variables: area(lat, lon) and
    basin(time). `times`: the coordinates."""
    values = seeded("field", seed).normal(290, 5, (len(times), 4, 6)).astype("f4")
    values[seeded("holes", seed).random(values.shape) < 0.1] = np.nan
    values[:, 1, 2] = np.nan
    data = xarray.Dataset(
        {"sst": (("time", "lat", "lon"), values, {"units": "K", "long_name": "temperature"}),
         "area": (("lat", "lon"), np.outer(np.cos(np.deg2rad(LAT)), np.arange(1, 7.0)))},
        {"time": ("time", times, {"units": units, "calendar": calendar}),
         "lat": ("lat", LAT, {"units": "degrees_north", "axis": "Y"}), "lon": LON})
    data.to_netcdf(path, engine="netcdf4",
                   encoding={name: {"_FillValue": None} for name in ("lat", "lon", "time")})
    return f"{path}:/sst"


def opened(result, **how):
    """All of /results as xarray sees it. Only in one thread, since HDF5 is not thread-safe."""
    with xarray.open_dataset(result, group="results", **how) as data:
        return data.load()


def statistics(data, dimensions):
    """The statistics of xarray in f64. A cell without values is NaN, with the count 0."""
    count = data.count(dimensions)
    return {"mean": data.mean(dimensions), "min": data.min(dimensions), "max": data.max(dimensions),
            "count": count, "stddev": data.std(dimensions)}


def expect_close(found, wanted):
    """`found` has the dimensions, the coordinates and the values of `wanted`."""
    assert set(found.dims) == set(wanted.dims), (found, wanted)
    found = found.transpose(*wanted.dims)
    for name in wanted.dims:
        assert (found[name].values == wanted[name].values).all(), (found[name], wanted[name])
    assert np.allclose(found, wanted, rtol=2e-6, atol=0, equal_nan=True), (found, wanted)


# ---------------------------------------------------------------- dimensions

def test_cells_are_labelled():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(50.0) * 7)
    source = xarray.open_dataset(folder / "f.nc").sst.astype("f8")
    cases = [("time",), ("lat", "lon"), ("lat",), ("time", "lon"), ("time", "lat", "lon")]
    names = [folder / f"{number}.h5" for number in range(len(cases))]
    each([(data, name, "--reduce.over", ",".join(over), "--reduce.ops", ",".join(OPS))
          for over, name in zip(cases, names)],
         lambda *arguments: reduce(*arguments, ranks=2))
    for over, name in zip(cases[:-1], names):
        found = opened(name)
        for op, wanted in statistics(source, over).items():
            expect_close(found[op], wanted)
            assert "_FillValue" in found[op].encoding or op == "count", (op, found[op].encoding)
        assert found["mean"].attrs["units"] == "K" and "long_name" in found["mean"].attrs, found
        if "lat" not in over:
            assert found["lat"].attrs == {"units": "degrees_north", "axis": "Y"}, found["lat"].attrs
            assert found["lat"].dtype == "f4", found["lat"]
        if "time" not in over:
            assert found["time"].dtype.kind == "M", found["time"]
    with netCDF4.Dataset(names[0]) as file:
        assert file["results/mean"].dimensions == ("lat", "lon"), file["results/mean"]
        assert file["results/mean"][...].mask.sum() == 1, file["results/mean"][...]
    with h5py.File(names[0]) as file:
        assert file["results/mean"].dims[0][0] == file["results/lat"], list(file["results"])


def test_selections_and_positions():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(20.0))
    with h5py.File(folder / "plain.h5", "w") as file:
        file["x"] = seeded("plain").normal(size=(8, 4, 9))
    reduce(data + "[time=5:19, lat=-10:30, lon=60]", folder / "a.h5", "--reduce.over", "time",
           "--reduce.ops", "mean")
    found = opened(folder / "a.h5")["mean"]
    source = xarray.open_dataset(folder / "f.nc").sst.astype("f8")
    expect_close(found, source[5:, 1:].sel(lon=60).drop_vars("lon").mean("time"))
    reduce(f"{folder / 'plain.h5'}:/x[:, 1::2, :]", folder / "b.h5", "--reduce.over", "0",
           "--reduce.ops", "mean")
    found = opened(folder / "b.h5")["mean"]
    assert found.dims == ("dim_1", "dim_2") and found["dim_1"].values.tolist() == [1, 3], found
    assert "dim_2" not in found.coords, found


# ---------------------------------------------------------------- groups

def grouped(source, by):
    """The statistics by group. xarray lists only those with elements, in alphabetical order."""
    labels = {"time.month": list(range(1, 13)), "time.season": ["DJF", "MAM", "JJA", "SON"]}
    for op in OPS:
        function = {"stddev": "std"}.get(op, op)
        values = getattr(source.groupby(by), function)("time")
        if isinstance(by, str) and by in labels:
            name = by.split(".")[1]
            values = values.reindex({name: labels[by]}, fill_value=0 if op == "count" else np.nan)
        yield op, values


def test_groups_by_dates():
    folder = new_folder()
    sources = {}
    for name, times, calendar in (("all", np.arange(800.0) * 1.37, "standard"),
                                  ("some", np.arange(20.0) * 9, "noleap"),
                                  ("days", np.arange(90.0) * 25, "360_day")):
        field(folder / f"{name}.nc", times, calendar=calendar)
        sources[name] = xarray.open_dataset(folder / f"{name}.nc").sst.astype("f8")
    cases = [("all", "month", 1), ("all", "season", 2), ("all", "year", 3), ("some", "month", 2),
             ("some", "season", 1), ("days", "year", 2), ("days", "month", 1)]
    results = [folder / f"{number}.h5" for number in range(len(cases))]
    each(list(zip(cases, results)), lambda case, result: reduce(
        f"{folder / case[0]}.nc:/sst", result, "--reduce.over", "time", "--reduce.by",
        f"time:{case[1]}", "--reduce.ops", ",".join(OPS), ranks=case[2]))
    for (name, part, _), result in zip(cases, results):
        found = opened(result)
        for op, wanted in grouped(sources[name], f"time.{part}"):
            expect_close(found[op], wanted)
        assert "long_name" in found[part].attrs, found[part]


def test_groups_by_labels():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(60.0))
    rng = seeded("labels")
    numbers = rng.integers(-3, 4, 60) * 100
    texts = rng.choice(["north", "south", "", "é"], 60).astype(object)
    with h5py.File(folder / "labels.h5", "w") as file:
        file["basin"] = numbers.astype(">i2")
        file["name"] = texts
        file["fixed"] = np.array([text.encode() for text in texts], "S7")
        file["masked"] = numbers
        file["masked"].attrs["_FillValue"] = np.int64(-300)
    source = xarray.open_dataset(folder / "f.nc").sst.astype("f8")
    masked = np.where(numbers == -300, np.nan, numbers)
    named = np.where(texts == "", None, texts)
    cases = {"basin": numbers, "masked": masked, "name": named, "fixed": named}
    each([(name,) for name in cases], lambda name: reduce(
        data, folder / f"{name}.h5", "--reduce.over", "time", "--reduce.by",
        f"{folder / 'labels.h5'}:/{name}", "--reduce.ops", ",".join(OPS), ranks=2))
    for name, labels in cases.items():
        found = opened(folder / f"{name}.h5")
        by = xarray.DataArray(labels, dims="time", name=name)
        for op, wanted in grouped(source, by):
            expect_close(found[op], wanted)


def test_groups_of_joined_files_with_their_own_units():
    """Dates are decoded per file, although the coordinates of the files cannot be joined."""
    folder = new_folder()
    for year in (2001, 2002, 2003):
        field(folder / f"f_{year}.nc", np.arange(0.0, 365, 5), f"days since {year}-01-01",
              seed=year)
    reduce(f"{folder}/f_*.nc:/sst", folder / "r.h5", "--reduce.over", "time", "--reduce.by",
           "time:month", "--reduce.ops", ",".join(OPS), ranks=2)
    source = xarray.concat([xarray.open_dataset(folder / f"f_{year}.nc").sst.astype("f8")
                            for year in (2001, 2002, 2003)], "time")
    found = opened(folder / "r.h5")
    for op, wanted in grouped(source, "time.month"):
        expect_close(found[op], wanted)


def test_dates_are_those_of_cftime():
    """Random times in all calendars, counted by year and by month."""
    import cftime  # comes with netCDF4
    folder = new_folder()
    calendars = ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]
    units = ["days since 1850-01-01", "hours since 1582-10-15 12:00:00", "seconds since 1970-01-01",
             "minutes since 2000-02-28T00:00:00 +05:30", "days since 0001-01-01 00:00:00"]
    seconds = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    cases, counts = [], {}
    for calendar in calendars:
        unit = units[len(cases) // 2 % len(units)]
        rng = seeded(calendar)
        times = rng.uniform(-3e10, 3e10, 3000) / seconds[unit.split()[0]]
        if unit.startswith("days since 0001"):
            times = np.abs(times)
        times[::2] = np.round(times[::2])
        with netCDF4.Dataset(folder / f"{calendar}.nc", "w") as file:
            file.createDimension("time", len(times))
            time = file.createVariable("time", "f8", "time")
            time.units, time.calendar = unit, calendar
            time[:] = times
            file.createVariable("x", "f4", "time")[:] = 1
        dates = cftime.num2date(times, unit, calendar)
        for part in ("year", "month"):
            cases.append((calendar, part))
            counts[calendar, part] = [getattr(date, part) for date in dates]
    each(cases, lambda calendar, part: reduce(
        f"{folder / calendar}.nc:/x", folder / f"{calendar}_{part}.h5", "--reduce.over", "time",
        "--reduce.by", f"time:{part}", "--reduce.ops", "count"))
    for calendar, part in cases:
        found = opened(folder / f"{calendar}_{part}.h5")["count"]
        labels, wanted = np.unique(counts[calendar, part], return_counts=True)
        assert (found.sel({part: labels}) == wanted).all(), (calendar, part)
        assert int(found.sum()) == 3000, (calendar, part, found)


# ---------------------------------------------------------------- weights

def test_weighted_means_are_those_of_xarray():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(40.0) * 10)
    source = xarray.open_dataset(folder / "f.nc")
    days = xarray.DataArray(seeded("days").integers(28, 32, 40), dims="time")
    with h5py.File(folder / "w.h5", "w") as file:
        file["days"] = days.values.astype("i1")
        file["transposed"] = source.area.values.T
        for number, name in enumerate(["lon", "lat"]):
            file["transposed"].dims[number].label = name
    area = f"{folder / 'f.nc'}:/area"
    cases = [(("lat", "lon"), area, source.area), (("time", "lat", "lon"), area, source.area),
             (("lon",), f"{folder / 'w.h5'}:/transposed", source.area),
             (("time",), f"{folder / 'w.h5'}:/days", days)]
    results = [folder / f"{number}.h5" for number in range(len(cases))]
    each(list(zip(cases, results)), lambda case, result: reduce(
        data, result, "--reduce.over", ",".join(case[0]), "--reduce.weights", case[1],
        "--reduce.ops", "mean,sum,variance", ranks=2))
    for (over, _, weights), result in zip(cases, results):
        weighted = source.sst.astype("f8").weighted(weights)
        found = opened(result)
        expect_close(found["mean"], weighted.mean(over))
        expect_close(found["sum"], weighted.sum(over))
        expect_close(found["variance"], weighted.var(over))


def test_weights_by_group():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(40.0) * 10)
    source = xarray.open_dataset(folder / "f.nc")
    reduce(data, folder / "r.h5", "--reduce.over", "time,lat,lon", "--reduce.by", "time:season",
           "--reduce.weights", f"{folder / 'f.nc'}:/area", "--reduce.ops", "mean", ranks=2)
    found = opened(folder / "r.h5")["mean"]
    for season, values in source.sst.astype("f8").groupby("time.season"):
        wanted = values.weighted(source.area).mean()
        assert np.allclose(found.sel(season=season), wanted, rtol=1e-6), (season, found, wanted)


# ---------------------------------------------------------------- bad input

def test_bad_groups_and_weights():
    folder = new_folder()
    data = field(folder / "f.nc", np.arange(40.0))
    field(folder / "kelvin.nc", np.arange(4.0), "K")
    field(folder / "mars.nc", np.arange(4.0), calendar="mars")
    with h5py.File(folder / "l.h5", "w") as file:
        file["short"] = np.zeros(7, "i4")
        file["halves"] = np.full(40, 0.5)
        file["none"] = np.full(40, np.nan)
        file["negative"] = np.where(np.arange(40) == 3, -1.0, 1.0)
        file["nan"] = np.where(np.arange(40) == 4, np.nan, 1.0)
        file["zero"] = np.zeros(40)
    labels = f"{folder / 'l.h5'}:/"
    start = ["run", "reduce", "--input.data", data, "--reduce.over"]
    by = [*start, "time", "--reduce.by"]
    weights = [*start, "time", "--reduce.weights"]
    check_complaints([
        ([*by, "time:week"], 2, ["reduce.by", "week", "season"]),
        ([*by, "lat:month"], 2, ["reduce.by", "lat"]),
        ([*by, "depth:month"], 2, ["reduce.by", "depth"]),
        ([*by, "time"], 2, ["reduce.by", "time"]),
        ([*by, labels + "short"], 2, ["reduce.by", "short", 7, "time=40"]),
        ([*by, labels + "halves"], 2, ["reduce.by", "halves", 0.5]),
        ([*by, labels + "none"], 2, ["reduce.by", "none"]),
        ([*by, labels + "absent"], 2, ["reduce.by", "absent"]),
        ([*start[:3], f"{folder / 'kelvin.nc'}:/sst", *by[4:], "time:month"], 2,
         ["reduce.by", "time", "K", "kelvin.nc"]),
        ([*start[:3], f"{folder / 'mars.nc'}:/sst", *by[4:], "time:month"], 2,
         ["reduce.by", "mars", "mars.nc"]),
        ([*weights, labels + "short"], 2, ["reduce.weights", "short", 7]),
        ([*weights, labels + "negative"], 2, ["reduce.weights", "[3]", -1]),
        ([*weights, labels + "nan"], 2, ["reduce.weights", "[4]", "NaN"]),
        ([*weights, labels + "zero"], 2, ["reduce.weights", "zero"]),
        ([*weights, "uniform"], 2, ["reduce.weights", "uniform"]),
    ])


if __name__ == "__main__":
    main()
