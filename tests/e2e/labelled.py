#!/usr/bin/python3
"""Results with the names of dimensions and coordinates: xarray, netCDF4-python and h5py open them.
Means, standard deviations and counts of variables beside C, compared with numpy."""

import h5py
import netCDF4
import numpy as np
import xarray

from harness import each, expect_complaint, expect_warning, expect_words, main, new_folder, run
from products import skip_without_blas, stored_arrays
from results import seeded

try:
    import h5netcdf
    ENGINES = ["netcdf4", "h5netcdf"]
    print(f"h5netcdf {h5netcdf.__version__}")
except ImportError:
    ENGINES = ["netcdf4"]

LAT, LON = np.array([-30, -10, 10, 30], "f4"), np.arange(0, 360, 60.0)


def field(folder, constant=()):
    """A file of netCDF with sst(time, lat, lon), and its values. `constant`: cells."""
    values = 300 + seeded(folder.name).normal(size=(50, 4, 6)).astype("f4")
    for cell in constant:
        values[(slice(None), *cell)] = 271.25
    data = xarray.Dataset(
        {"sst": (("time", "lat", "lon"), values, {"units": "K"})},
        {"time": ("time", np.arange(50) * 30, {"units": "days since 1950-01-01"}),
         "lat": ("lat", LAT, {"units": "degrees_north", "axis": "Y"}), "lon": LON})
    data.to_netcdf(folder / "f.nc", engine="netcdf4",
                   encoding={"lat": {"_FillValue": None}, "lon": {"_FillValue": None}})
    return f"{folder / 'f.nc'}:/sst", values


def compute(workload, data, result, *options, ranks=1):
    return run("run", workload, "--input.data", data, "-o", result, *options,
               ranks=ranks).expect(0)


def opened(result, engine="netcdf4", **how):
    """All of /results as xarray sees it. Only in one thread, since HDF5 is not thread-safe."""
    with xarray.open_dataset(result, group="results", engine=engine, **how) as data:
        return data.load()


# ---------------------------------------------------------------- labels

def test_xarray_opens_a_labelled_c():
    folder = new_folder()
    data, values = field(folder)
    compute("covariance", data, folder / "c.h5")
    variables = values.reshape(50, 24).astype("f8")
    lat, lon = np.repeat(LAT, 6), np.tile(LON, 4)
    for engine in ENGINES:
        found = opened(folder / "c.h5", engine)
        c = found["C"]
        assert c.dims == ("variable", "variable_2"), c
        for name, wanted in (("lat", lat), ("lon", lon)):
            assert (c[name].dims, c[name + "_2"].dims) == (("variable",), ("variable_2",)), c
            assert (c[name] == wanted).all() and (c[name + "_2"] == wanted).all(), c
            assert c[name].dtype == wanted.dtype, c[name]
        assert np.allclose(c, np.cov(variables.T), rtol=0, atol=1e-5), c
        assert set(found.data_vars) == {"C", "mean", "stddev", "count"}, found
        assert "lat" in found["mean"].coords and found["mean"].attrs["units"] == "K", found["mean"]
        assert found["lat"].attrs == {"units": "degrees_north"}, found["lat"].attrs
        # One row of C as a map, without further words.
        row = c.isel(variable_2=7).drop_vars(["lat_2", "lon_2"])
        map_of_row = row.set_index(variable=["lat", "lon"]).unstack("variable")
        assert np.allclose(map_of_row.sel(lat=-10, lon=60), variables[:, 7].var(ddof=1)), map_of_row
        found.to_netcdf(folder / f"{engine}.nc", engine=engine)


def test_every_group_opens_in_xarray():
    """Tables are no variables there: libraries of netCDF cannot read their texts."""
    folder = new_folder()
    data, _ = field(folder)
    for workload in ("reduce", "correlation"):
        result = folder / f"{workload}.h5"
        compute(workload, data, result)
        groups = ["/"]
        with h5py.File(result) as file:
            file.visititems(lambda name, item: groups.append(name)
                            if isinstance(item, h5py.Group) else None)
            tables = [name for name in ("metrics", "timing/phases", "input/files")
                      if file[name].dtype.names]
        assert len(tables) == 3 and {"results", "timing"} < set(groups), groups
        for group in groups:
            for engine in ENGINES:
                with xarray.open_dataset(result, group=group, engine=engine) as found:
                    found.load()
                assert bool(found.variables) == (group == "results" and workload != "reduce"), found


def test_h5py_finds_scales():
    folder = new_folder()
    data, _ = field(folder)
    compute("gram", data, folder / "c.h5")
    with h5py.File(folder / "c.h5") as file:
        found = file["results"]
        for name in ("C", "lat", "lon_2"):
            scales = [dimension[0] for dimension in found[name].dims]
            wanted = {"C": ["variable", "variable_2"], "lat": ["variable"],
                      "lon_2": ["variable_2"]}[name]
            assert scales == [found[each] for each in wanted], (name, scales)
        assert "mean" not in found and found["gram"]["output"][0] == b"C", list(found)
        uses = [file[use["dataset"]].name for use in found["variable"].attrs["REFERENCE_LIST"]]
        assert sorted(uses) == ["/results/C", "/results/lat", "/results/lon"], uses


def test_labels_of_selections():
    """Coordinates are those of the selected elements, and other labels positions in the whole data
    set."""
    folder = new_folder()
    data, _ = field(folder)
    with h5py.File(folder / "plain.h5", "w") as file:
        file["x"] = seeded("plain").normal(size=(40, 8, 9))

    plain = f"{folder / 'plain.h5'}:/x"
    cases = [(data, "[:, 1:3, ::3]", (), {"lat": [-10, -10, 10, 10], "lon": [0, 180, 0, 180]}),
             (data, "[lat=-30:-10, lon=60]", (), {"lat": [-30, -10]}),
             (data, "[:20:9, 2, :]", ("--gram.samples", "lon"), {"time": [0, 270, 540]}),
             (plain, "[:, 2:8:5, 6:]", (),
              {"dim_1": [2, 2, 2, 7, 7, 7], "dim_2": [6, 7, 8] * 2}),
             (plain, "[:, 3, 4:6]", (), {"dim_2": [4, 5]}),
             (plain, "[:, 3]", (), {}),
             (plain, "[:, 3, :4]", ("--gram.of", "rows"), {})]
    results = [folder / f"{number}.h5" for number in range(len(cases))]
    each([("covariance", name + selection, result, *options)
          for (name, selection, options, _), result in zip(cases, results)], compute)
    for case, result in zip(cases, results):
        found, labels = opened(result, decode_times=False), case[-1]
        wanted = {name + end for name in labels for end in ("", "_2")}
        assert set(found["C"].coords) == wanted, (case, found)
        for name, values in labels.items():
            assert found[name].values.tolist() == values, (case, found)


def test_any_names_of_dimensions():
    """Names that netCDF does not allow, that the result needs itself, or that are not unique."""
    folder = new_folder()
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = seeded("names").normal(size=(30, 2, 2, 2, 2))
        for number, name in enumerate(["sample", "mean", "a b", "mean_2", "1é"]):
            values = np.arange(2.0 + 28 * (number == 0))
            scale = file.create_dataset(f"{number}/{name}", data=values)
            scale.make_scale(name)
            file["x"].dims[number].attach_scale(scale)
        file["y"] = seeded("names").normal(size=(30, 3, 3))
        file["same"] = [5, 6, 8]
        file["same"].make_scale("same")
        for number in (1, 2):
            file["y"].dims[number].attach_scale(file["same"])
    for name, wanted in (("x", {"mean_of_data", "a_b", "mean_2", "_1é"}),
                         ("y", {"same", "same_of_data"})):
        compute("correlation", f"{folder / 'x.h5'}:/{name}", folder / f"{name}.out.h5")
        for engine in ENGINES:
            found = opened(folder / f"{name}.out.h5", engine)
            coords = {name for name in found["C"].coords if found[name].dims == ("variable",)}
            assert coords == wanted, found
            assert found["mean"].shape == found["C"].shape[:1], found
    found = opened(folder / "y.out.h5")
    assert found["same"].values.tolist() == [5] * 3 + [6] * 3 + [8] * 3, found
    assert found["same_of_data"].values.tolist() == [5, 6, 8] * 3, found
    assert found["same"].dtype == "i8", found


# ---------------------------------------------------------------- statistics

def expect_statistics(found, x, precision, ddof):
    """Compares them with numpy, for samples in the rows of x, which are all near to the first row,
    so that their differences from it are exact."""
    first = x[0].astype("f8")
    apart = (x - x[0]).astype(np.longdouble)
    mean, deviation = apart.mean(axis=0), apart.std(axis=0, ddof=ddof)
    unit = {"fp64": 2.0**-48, "fp32": 2.0**-24, "bf16": 2.0**-9}[precision]
    error = np.abs(found["mean"].values - first - mean)
    assert (error <= 4 * np.spacing(np.abs(first)) + 4 * unit * deviation).all(), (error, deviation)
    assert np.allclose(found["stddev"], deviation.astype("f8"), rtol=8 * unit, atol=0), found
    constant = (x == x[0]).all(axis=0)
    assert (found["mean"].values == x[0].astype("f8"))[constant].all(), found
    assert ((found["stddev"].values == 0) == constant).all() and constant.any(), found
    assert (found["count"] == len(x)).all() and found["count"].dtype == "i8", found
    assert found["stddev"].attrs["ddof"] == ddof, found["stddev"].attrs
    assert {found["mean"].dtype, found["stddev"].dtype} == {np.dtype("f8")}, found
    assert np.allclose(np.sqrt(np.diag(found["C"])), found["stddev"], rtol=2e-6), found


def test_statistics_are_those_of_numpy():
    """Also for integers of which doubles have only the upper bits."""
    folder = new_folder()
    cases = [("f4", "fp32", (), 1), ("f8", "fp64", ("--gram.divisor", "n"), 2),
             ("f8", "bf16", (), 3), ("i8", "fp64", ("--gram.of", "rows"), 1)]
    data, runs = [], []
    for number, (dtype, precision, options, ranks) in enumerate(cases):
        x = seeded("numpy", number).normal(size=(700, 40)) * np.arange(100, 4100, 100)
        x = x.astype(dtype) + np.array(2**62 if dtype == "i8" else 3000, dtype)
        x[:, 7] = x[0, 7]
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file["x"] = x.T if "rows" in options else x
        data.append(x)
        runs.append((f"{folder / str(number)}.h5:/x", folder / f"{number}.out.h5", ranks,
                     "--product.precision", precision, *options))
    each(runs, lambda name, result, ranks, *options:
         compute("covariance", name, result, *options, ranks=ranks))
    for number, (x, (_, precision, options, _)) in enumerate(zip(data, cases)):
        expect_statistics(opened(folder / f"{number}.out.h5"), x, precision,
                          ddof="n" not in options)


def test_scaled_data_without_centring_have_root_mean_squares():
    folder = new_folder()
    data, values = field(folder)
    compute("gram", data, folder / "c.h5", "--gram.scale", "true")
    found = opened(folder / "c.h5")
    assert set(found.data_vars) == {"C", "root_mean_square", "count"}, found
    wanted = np.sqrt((values.reshape(50, 24).astype("f8")**2).mean(axis=0))
    assert np.allclose(found["root_mean_square"], wanted, rtol=1e-6), found


def test_any_ranks_store_the_same_bytes():
    folder = new_folder()
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = seeded("ranks").normal(size=(60, 1100)).astype("f4")
        file["tall"] = seeded("tall").normal(size=(20000, 20)).astype("f4")

    def check(name, options):
        out = new_folder()
        for ranks in (1, 2, 3):
            compute("covariance", f"{folder / 'x.h5'}:/{name}", out / f"{ranks}.h5", *options,
                    ranks=ranks)
        first, *others = [stored_arrays(out / f"{ranks}.h5") for ranks in (1, 2, 3)]
        assert {"C", "mean", "stddev", "count"} <= set(first), set(first)
        assert others == [first, first], (name, options)
    each([("x", ("--pipeline.gpu-memory", "6MiB")),
          ("tall", ("--product.decomposition", "split-k", "--measure.repeat", 2))], check)


def test_statistics_without_c():
    """output.store false leaves out C only."""
    folder = new_folder()
    data, _ = field(folder)
    for name, store in (("with", "true"), ("without", "false")):
        compute("covariance", data, folder / f"{name}.h5", "--output.store", store)
    whole, found = opened(folder / "with.h5"), opened(folder / "without.h5")
    assert found.equals(whole.drop_dims("variable_2")), found


def test_special_variables_have_names():
    folder = new_folder()
    data, values = field(folder, [(1, 2), (3, 5)])
    finished = compute("correlation", data, folder / "c.h5")
    expect_warning(finished, ["2 variables", "lat=-10, lon=120", "lat=30, lon=300"])
    values[3, 2, 1] = np.nan
    values[:, 0, 0] = np.inf
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = values.reshape(50, 24)
    compute("covariance", f"{folder / 'x.h5'}:/x", folder / "nan.h5")
    for name, wanted in (("c.h5", [(8, b"lat=-10, lon=120", b"constant"),
                                   (23, b"lat=30, lon=300", b"constant")]),
                         ("nan.h5", [(0, b"0", b"not finite"), (8, b"8", b"constant"),
                                     (13, b"13", b"not finite"), (23, b"23", b"constant")])):
        with h5py.File(folder / name) as file:
            table = file["results/special_variables"][()]
            assert file["results"].attrs["constant_variables"] == 2, name
            assert file["results"].attrs["empty_variables"] == 0, name
        assert [tuple(row)[:3] for row in table] == wanted, table
    found = opened(folder / "nan.h5")
    bad = np.isnan(found["mean"]) & np.isnan(found["stddev"])
    assert np.flatnonzero(bad).tolist() == [0, 13], found


# ---------------------------------------------------------------- positions and shapes

def test_extremes_have_coordinates():
    folder = new_folder()
    data, values = field(folder)
    finished = compute("reduce", f"{data}[2:, 1:, ::2]", folder / "r.h5", "--reduce.ops",
                       "min,max,mean")
    part = values[2:, 1:, ::2]
    for op, at in (("min", part.argmin()), ("max", part.argmax())):
        time, lat, lon = np.unravel_index(at, part.shape)
        wanted = f"time={30 * (time + 2)}, lat={LAT[lat + 1]:g}, lon={LON[2 * lon]:g}"
        lines = finished.out.splitlines()
        assert f"{op}_coordinates={wanted}" in lines, (wanted, finished)
        assert f"{op}_position={time + 2},{lat + 1},{2 * lon}" in lines, finished
        with h5py.File(folder / "r.h5") as file:
            rows = {row["op"]: row["coordinates"] for row in file["results/reduce"][()]}
        assert rows[op.encode()] == wanted.encode() and rows[b"mean"] == b"", rows
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = values
    finished = compute("reduce", f"{folder / 'x.h5'}:/x", folder / "x.out.h5")
    assert "max_position" in finished.values and "coordinates" not in finished.out, finished


def test_shapes_have_names():
    folder = new_folder()
    data, _ = field(folder)
    for workload, name in (("reduce", f"{data}[:9, 2]"), ("covariance", f"{data}[:9, 2]"),
                           ("covariance", data)):
        wanted = "time=9 x lon=6" if "[" in name else "time=50 x lat=4 x lon=6"
        out = run("run", workload, "--input.data", name, "--dry-run").expect(0).out
        expect_words(out, [wanted])
        compute(workload, name, folder / "c.h5", "--output.overwrite", "true")
        with h5py.File(folder / "c.h5") as file:
            found = file["input"].attrs
            assert found["dimensions"] == wanted, dict(found)
            assert found.get("selection") == ("[0:9, 2, :]" if "[" in name else None), dict(found)


def test_results_are_inputs_without_a_path():
    """C is the only data of the file; everything else belongs to it."""
    folder = new_folder()
    data, _ = field(folder)
    for missing in ("propagate", "pairwise"):
        compute("covariance", data, folder / f"{missing}.h5", "--gram.missing", missing)
        finished = compute("reduce", folder / f"{missing}.h5", folder / f"{missing}.out.h5")
        assert finished.values["input"].endswith(f"{missing}.h5:/results/C"), finished


def test_unreadable_coordinates_are_left_out():
    folder = new_folder()
    data, _ = field(folder)
    with netCDF4.Dataset(folder / "f.nc", "a") as file:
        file["lat"].scale_factor = 0.0  # unpacks nothing
    finished = compute("covariance", data, folder / "c.h5")
    expect_words(finished.err, ["lat"])
    found = opened(folder / "c.h5")
    assert found["lat"].values.tolist() == np.repeat(np.arange(4), 6).tolist(), found
    expect_complaint(run("run", "covariance", "--input.data", f"{data}[lat=10]", "-o",
                         folder / "d.h5"), 2, ["lat"])


if __name__ == "__main__":
    skip_without_blas()
    main()
