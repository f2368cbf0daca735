#!/usr/bin/python3
"""`gram.weights` of samples and of variables, and `gram.center-over variables`, compared with numpy
in double precision: every workload and precision, any ranks, dimensions, and bad input."""

import re

import h5py
import numpy as np

from harness import check_complaints, each, expect_words, main, new_folder, run
from products import inputs, normal, product, skip_without_blas, stored
from samples import (CHUNKS, COMPLETE, OVER_VARIABLES, UNITS, compare, holes, model, special,
                     weights_of)


def test_weights_of_samples_are_those_of_numpy():
    x = holes(700, 13, share=0)
    w = weights_of(700)
    for ddof, divisor in ((1, "n-1"), (0, "n")):
        wanted = np.cov(x, rowvar=False, aweights=w, ddof=ddof)
        assert np.allclose(model(x, True, False, divisor, w)[0], wanted, 1e-12, 1e-12), divisor

    def check(workload, precision, ranks, more, factor=1):
        data = x.astype("f8" if precision == "fp64" else "f4")
        compare(workload, data, precision, *more, ranks=ranks, w=w * factor)
    each([("covariance", "fp64", 1, []), ("covariance", "fp64", 2, ["--gram.divisor", "n"]),
          ("covariance", "fp64", 3, ["--gram.divisor", "1"]), ("gram", "fp64", 2, []),
          ("gram", "fp32", 1, ["--gram.divisor", "n-1"]), ("correlation", "fp64", 2, []),
          ("covariance", "fp32", 2, ["--gram.of", "rows"]), ("covariance", "fp16", 1, []),
          ("covariance", "fp64", 1, ["--gram.divisor", "1"], 1e-40),
          ("covariance", "fp32x3", 2, [], 1e30), ("correlation", "bf16", 1, [])], check)


def test_samples_without_weight_are_left_out():
    """Whatever their values are."""
    x, w = holes(600, 9, share=0), weights_of(600)
    x[w == 0] = np.nan
    x[np.flatnonzero(w == 0)[0]] = np.inf
    each([("covariance", x, "fp64", w), ("gram", x, "fp64", w)],
         lambda workload, data, precision, w: compare(workload, data, precision, ranks=2, w=w))
    x = holes(600, 9)
    x[w > 0, 4] = np.nan  # has values in samples without weight only
    compare("covariance", x, "fp64", *COMPLETE, ranks=2, w=w)


def test_weights_of_variables():
    """The root of a weight multiplies a variable; one without weight costs no samples."""
    x, v = holes(700, 13, share=0), weights_of(13, 3)
    v[4] = 0
    lacking = x.copy()
    lacking[::2, 4] = np.nan
    lacking[::50, 2] = np.nan

    def check(workload, data, precision, ranks, more):
        compare(workload, data.astype("f8" if precision == "fp64" else "f4"), precision, *more,
                ranks=ranks, v=v)
    each([("covariance", x, "fp64", 1, []), ("covariance", x, "fp32", 3, ["--gram.of", "rows"]),
          ("correlation", x, "fp64", 2, []), ("gram", x, "fp64", 1, []),
          ("covariance", lacking, "fp64", 2, COMPLETE)], check)


def test_variables_without_weight_are_zero():
    """Even beside a variable that is not finite, whose other elements are NaN, in each way to treat
    missing values. C is in the order of samples x variables, or turned round."""
    folder = new_folder()
    x = normal(20, 5, "f8")
    x[4, 0], x[:, 1], x[3, 3], x[5, 4] = np.nan, 7, np.inf, np.nan
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"], file["turned"], file["w"] = x, x.T, [1, 0, 1, 2, 0]

    def check(workload, missing, data, precision):
        out = new_folder() / "out.h5"
        run("run", workload, "--input.data", f"{folder}/in.h5:/{data}", "--gram.of",
            "columns" if data == "x" else "rows", "--gram.weights", f"{folder}/in.h5:/w",
            "--gram.weight-of", "variables", "--gram.missing", missing, "--product.precision",
            precision, "-o", out).expect(0)
        c = stored(out)
        assert (c[[1, 4]] == 0).all() and (c[:, [1, 4]] == 0).all(), c
        assert np.isnan(c[3, [0, 2, 3]]).all() and np.isfinite(c[2, 2]), c
        assert np.isnan(c[0, 0]) == (missing == "propagate"), c
    each([("covariance", "propagate", "x", "fp64"), ("correlation", "propagate", "turned", "fp32"),
          ("covariance", "complete", "x", "fp64"), ("covariance", "pairwise", "x", "fp64"),
          ("gram", "pairwise", "turned", "fp32")], check)


def test_weights_belong_to_dimensions():
    """By names, by their number, or as the request says. A field is weighted by its latitudes."""
    folder = new_folder()
    field = normal(60, 5 * 4 * 5, "f8").reshape(60, 5, 4, 5)
    lat, area = weights_of(5, 2) + 0.1, weights_of(20, 3).reshape(4, 5) + 0.1
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("t", data=field)
        file["plain"] = field
        for number, name in enumerate(("time", "level", "lat", "lon")):
            scale = file.create_dataset(name, data=np.arange(field.shape[number], dtype="f8"))
            scale.make_scale(name)
            data.dims[number].attach_scale(scale)
        for name, values, dimensions in (("of_lon", lat, ["lon"]), ("area", area, ["lat", "lon"])):
            made = file.create_dataset(name, data=values)
            for number, dimension in enumerate(dimensions):
                made.dims[number].attach_scale(file[dimension])
        file["of_lat"], file["all"] = area[:, 0], np.arange(1.0, 101)
        file["time_weights"] = weights_of(60) + 0.1
    x = field.reshape(60, -1)
    ones = np.ones(field.shape[1:])

    def check(data, name, weights, *more, of_samples=False):
        result = product("covariance", folder / f"{data}_{name}.h5", "--input.data",
                         f"{folder}/in.h5:/{data}", "--gram.weights", f"{folder}/in.h5:/{name}",
                         *more)
        weights = weights.ravel()
        expected = (model(x, True, False, "n-1", weights) if of_samples else
                    model(x, True, False, "n-1", None, np.sqrt(weights)))[0]
        assert np.allclose(stored(folder / f"{data}_{name}.h5"), expected, 1e-12, 1e-12), result
        with h5py.File(folder / f"{data}_{name}.h5") as file:
            told = file["input/weights"].attrs
            of = "samples" if of_samples else "variables"
            assert told["of"] == of, dict(told)
            assert file["config/resolved"].attrs["gram.weight-of"] == of, of
    with h5py.File(folder / "in.h5") as file:
        check("t", "of_lon", lat * ones)
        check("t", "area", area * ones)
        check("plain", "of_lat", area[:, 0][:, None] * ones)
        check("t", "all", file["all"][()])
        check("t", "time_weights", file["time_weights"][()], of_samples=True)
    check_complaints([(["run", "covariance", "--input.data", f"{folder}/in.h5:/plain",
                        "--gram.weights", f"{folder}/in.h5:/of_lon"], 2,
                       ["gram.weights", "5", "variables"])])


def test_weights_have_the_coordinates_of_the_data():
    """Dimensions of length 1 are not ambiguous. Weights in another order, or of all indices, are
    those of the same coordinates. Other coordinates are an error."""
    folder = new_folder()
    field, lat = normal(60, 24, "f8").reshape(60, 1, 6, 4, 1), np.arange(-30.0, 30, 10)
    w = np.cos(np.deg2rad(lat))
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("t", data=field)
        file["plain"], file["all"] = w, np.repeat(w, 4)
        for name, values in (("lat", lat), ("up", lat[::-1]), ("f4", lat.astype("f4")),
                             ("other", lat + 1)):
            group = file.create_group(name)
            scale = group.create_dataset("lat", data=values)
            scale.make_scale("lat")
            group["w"] = w
            group["w"].dims[0].attach_scale(scale)
            group["w1"] = w.reshape(6, 1)
        data.dims[2].attach_scale(file["lat/lat"])
    named = f"{folder}/in.h5:"

    def result(name, data="t", used=slice(None), weights=w):
        out = folder / "c.h5"
        finished = product("covariance", out, "--input.data", f"{named}/{data}", "--gram.weights",
                           f"{named}/{name}", "--output.overwrite", "anything")
        assert finished.values["weights_of"] == "variables", finished
        x, weights = field[:, 0, used, :, 0], weights[used, None] * np.ones((1, 4))
        expected = model(x.reshape(60, -1), True, False, "n-1", None, np.sqrt(weights.ravel()))[0]
        assert np.allclose(stored(out), expected, 1e-12, 1e-12), finished
        return finished
    result("lat/w")
    result("f4/w")
    result("f4/w1")
    result("lat/w[1:4]", "t[:, :, 1:4]", slice(1, 4))
    result("lat/w", "t[:, :, 1:4]", slice(1, 4))
    finished = result("up/w", weights=w[::-1])
    assert finished.values["weights_reordered"] == "lat", finished
    assert "weights_by_position" not in finished.values, finished
    result("up/w", "t[:, :, ::2]", slice(0, 6, 2), w[::-1])
    finished = result("plain")
    assert finished.values["weights_by_position"] == "lat", finished
    result("plain", "t[:, :, 1:4]", slice(1, 4))
    finished = result("all", "t[:, :, 1:4]", slice(1, 4))
    assert finished.values["weights_by_position"] == "dim_1,lat,dim_3,dim_4", finished

    def case(weights, data):
        return (["run", "covariance", "--input.data", f"{named}/{data}", "--gram.weights",
                 f"{named}/{weights}"], 2, ["gram.weights", "lat", "coordinates"])
    check_complaints([case("other/w", "t"), case("lat/w[0:3]", "t[:, :, 1:4]")])


def test_weights_are_an_input():
    """A result does not replace them, and is another one if they change."""
    folder = new_folder()
    files = [*inputs(folder, data=normal(30, 5)), "--gram.weights", f"{folder}/w.h5:/w"]
    with h5py.File(folder / "w.h5", "w") as file:
        file["w"] = np.arange(1, 31, dtype="i4")
    finished = run("run", "covariance", *files, "-o", folder / "w.h5", "--output.overwrite",
                   "anything").expect(2)
    expect_words(finished.err, ["w.h5"], finished)
    product("covariance", folder / "c.h5", *files, "--input.type", "f64")
    with h5py.File(folder / "c.h5") as file:
        rows = [row["option"] for row in file["input/files"][()]]
        assert b"gram.weights" in rows, rows


# ---------------------------------------------------------------- means of samples

def over_variables(x, weights=None, used=None):
    """The products of deviations from the means of samples, divided by n - 1 for n variables."""
    used = np.ones(x.shape[1], bool) if used is None else used
    y = x.astype(np.longdouble)[:, used]
    y = (y - y.mean(axis=1, keepdims=True)).astype("f8")
    weights = np.ones(len(x)) if weights is None else weights
    c = np.full((x.shape[1],) * 2, np.nan)
    c[np.ix_(used, used)] = (y * weights[:, None]).T @ y / (used.sum() - 1)
    return c


def test_means_of_samples_are_subtracted():
    """A large mean of samples costs no accuracy, of integers beyond 2^53 neither. Several ranks use
    the host, so their bits are equal."""
    x = normal(800, 21, "f8") + 1e3 * np.arange(800)[:, None]
    exact = np.random.default_rng(2).integers(-1000, 1000, (500, 8))
    big = exact + np.arange(500)[:, None] * 10**16

    def check(data, expected, precision, ranks, *more, how=None, limit=None):
        folder = new_folder()
        rows = "rows" in more
        finished = product("covariance", folder / "c.h5",
                           *inputs(folder, how, data=data.T if rows else data), *OVER_VARIABLES,
                           "--product.precision", precision, *more, ranks=ranks)
        size = np.sqrt(np.diag(expected))
        error = np.abs(stored(folder / "c.h5") - expected) / np.outer(size, size)
        assert error.max() < (limit or 8 * UNITS[precision] + 1e-6), (error.max(), finished)
        return finished.values["c_checksum"]
    wanted = over_variables(x)
    sums = {check(x, wanted, "fp64", ranks, *more, how=how, limit=1e-11)
            for ranks, how, more in ((2, None, []), (2, CHUNKS, []), (3, None, []),
                                     (2, None, ["--gram.of", "rows"]))}
    assert len(sums) == 1, sums
    check(x, wanted, "fp32", 2)
    check(x, wanted, "fp16", 1, limit=2e-3)
    check(big, over_variables(exact), "fp64", 2, limit=1e-13)


def test_snapshots_have_the_eigenvalues_of_the_field():
    """Principal components by snapshots: of time x space, the variables are the times. The divisor
    makes the eigenvalues those of the covariance of the points, also if these are weighted."""
    field = normal(12, 300, "f8") + normal(1, 300, "f8", 2) * 10
    weights = weights_of(300) + 0.1
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["t"], file["w"] = field.reshape(12, 15, 20), weights.reshape(15, 20)
    product("covariance", folder / "c.h5", "--input.data", f"{folder}/in.h5:/t", "--gram.of",
            "rows", *OVER_VARIABLES, "--gram.weights", f"{folder}/in.h5:/w", ranks=2)
    anomalies = (field - field.mean(axis=0)) * np.sqrt(weights)
    wanted = np.linalg.svd(anomalies, compute_uv=False)**2 / 11
    got = np.linalg.eigvalsh(stored(folder / "c.h5"))[::-1]
    assert np.allclose(got, wanted, 1e-12, 1e-10), (got, wanted)


def test_means_of_complete_samples():
    x = special(600, 31)
    x[:, 7:9] = normal(600, 2)
    used = ~np.isnan(x).all(axis=0)
    complete = ~np.isnan(x[:, used]).any(axis=1)
    folder = new_folder()
    finished = product("covariance", folder / "c.h5", *inputs(folder, data=x), *OVER_VARIABLES,
                       *COMPLETE, ranks=2)
    wanted = over_variables(x[complete], used=used)
    assert np.allclose(stored(folder / "c.h5"), wanted, 1e-10, 1e-10, equal_nan=True), finished


# ---------------------------------------------------------------- options

def test_large_integers_of_matrices():
    """The type in the message for u64 beyond 2^63 works. Weights take no input.type."""
    path = new_folder() / "in.h5"
    values = np.arange(60, dtype="u8").reshape(20, 3)
    values[3, 1] = 2**63 + 5
    with h5py.File(path, "w") as file:
        file["x"], file["w"], file["y"] = values, values[:, 1], np.arange(60.0).reshape(20, 3)

    def check(data, words, *arguments):
        command = ["run", "covariance", "--input.data", f"{path}:/{data}", *arguments]
        finished = run(*command, "-o", new_folder() / "out.h5").expect(1)
        expect_words(finished.err, [*words, 2**63 + 5], finished)
        advice = re.search(r"input\.type = (\w+)", finished.err)
        assert bool(advice) == (data == "x"), finished
        if advice:
            run(*command, "--input.type", advice[1], "-o", new_folder() / "out.h5").expect(0)
    each([("x", [f"{path}:/x", "[3, 1]"]),
          ("y", [f"{path}:/w", "[3]"], "--gram.weights", f"{path}:/w")], check)


def test_bad_input():
    folder = new_folder()
    files = {"x": normal(60, 8), "square": normal(8, 8), "whole": np.ones((60, 8), "i1"),
             "u64": np.ones((60, 8), "u8"), "w": np.ones(60), "v": np.ones(8), "w7": np.ones(7),
             "w0": np.zeros(60), "minus": np.where(np.arange(60) == 17, -2.5, 1.0),
             "nan": np.where(np.arange(60) == 18, np.nan, 1.0),
             "inf": np.where(np.arange(60) == 19, np.inf, 1.0),
             "one": normal(1, 4), "w1": np.where(np.arange(60) == 19, 1.0, 0)}
    with h5py.File(folder / "in.h5", "w") as file:
        for name, values in files.items():
            file[name] = values

    def case(workload, name, words, *more):
        names = {word: f"{folder}/in.h5:/{word}" for word in files}
        return (["run", workload, "--input.data", names[name],
                 *[names.get(word, word) for word in more]], 2, words)
    weights = "--gram.weights"
    check_complaints([
        case("covariance", "x", ["gram.weights", "17", "-2.5"], weights, "minus"),
        case("covariance", "x", ["gram.weights", "18", "NaN"], weights, "nan"),
        case("covariance", "one", ["gram.divisor", "two samples"]),
        case("covariance", "x", ["gram.weights", "19", "inf"], weights, "inf"),
        case("covariance", "x", ["gram.weights", "w0", "60"], weights, "w0"),
        case("covariance", "x", ["gram.divisor", "n-1"], weights, "w1"),
        case("covariance", "x", ["gram.weights", "7", "60", "8"], weights, "w7"),
        case("covariance", "x", ["gram.weights", "60", "8"], weights, "w", "--gram.weight-of",
             "variables"),
        case("covariance", "square", ["gram.weights", "gram.weight-of"], weights, "v"),
        case("covariance", "x", ["gram.weights", "uniform"], weights, "uniform"),
        case("covariance", "x", ["gram.weights", "absent.h5"], weights, "absent.h5:/w"),
        case("covariance", "x", ["gram.weight-of", "samples"], "--gram.weight-of", "samples"),
        case("gram", "whole", ["int8", "weights"], weights, "w", "--product.precision", "int8"),
        case("gram", "x", ["gram.center-over", "gram.center"], *OVER_VARIABLES),
        case("correlation", "x", ["gram.center-over", "gram.scale"], *OVER_VARIABLES),
        case("covariance", "u64", ["u64", "i64"], *OVER_VARIABLES, "--input.type",
             "u64"),
        case("covariance", "x", ["gram.missing", "gram.center-over"], *OVER_VARIABLES,
             "--gram.missing", "pairwise"),
        case("covariance", "x", ["gram.weights", "pairwise"], weights, "w", "--gram.missing",
             "pairwise")])


skip_without_blas()
main(on_gpu=True)
