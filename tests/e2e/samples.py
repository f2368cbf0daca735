"""Products whose samples do not count alike: their model in numpy, data with missing values,
weights, and the comparison of a run with the model."""

import h5py
import numpy as np

from harness import new_folder
from products import FIRST_SAMPLES, UNITS, inputs, product, stored

COMPLETE = ["--gram.missing", "complete"]
OVER_VARIABLES = ["--gram.center-over", "variables"]
WORKLOADS = {"gram": (False, False), "covariance": (True, False), "correlation": (True, True)}
CHUNKS = {"chunks": (64, 7), "compression": "gzip"}


def model(x, center, scale, divisor, weights=None, roots=None):
    """C of the variables in the columns of x, from the samples without a NaN, except in variables
    that have nothing else. `weights`: of samples, `roots`: of the weights of variables."""
    x = x.astype("f8")
    weights = np.ones(len(x)) if weights is None else weights
    roots = np.ones(x.shape[1]) if roots is None else roots
    kept = roots > 0
    empty = kept & np.isnan(x[weights > 0]).all(axis=0)
    used = kept & ~empty
    counts = (weights > 0) & ~np.isnan(x[:, used]).any(axis=1)
    y, w = x[np.ix_(counts, used)], weights[counts]
    first = w.sum()
    by = {"1": 1, "n": first, "n-1": first - (w**2).sum() / first}[divisor]
    mean = (w @ y) / first
    if center:
        y = np.where((y == y[0]).all(axis=0), 0, y - mean)
    products = (y * w[:, None]).T @ y / by
    if scale:
        size = np.sqrt(np.diag(products))
        products = products / np.outer(size, size)
    c = np.zeros((x.shape[1],) * 2)
    c[np.ix_(used, used)] = products * np.outer(roots[used], roots[used])
    c[empty], c[:, empty] = np.nan, np.nan
    return c, counts, mean, used


def holes(samples, variables, dtype="f8", share=0.03, seed=1):
    """Normal data with offsets; a share of the values is missing at random."""
    random = np.random.default_rng([samples, variables, seed])
    x = random.standard_normal((samples, variables)) + 3 * random.standard_normal(variables)
    x[random.random(x.shape) < share] = np.nan
    return x.astype(dtype)


def weights_of(count, seed=1):
    """Some are 0."""
    random = np.random.default_rng([count, seed])
    return np.where(random.random(count) < 0.1, 0, random.uniform(0.1, 3, count))


def special(samples=900, variables=31, dtype="f8"):
    """Missing values among the first samples and later, variables without values, one with few
    missing values, and a constant one."""
    x = holes(samples, variables, dtype)
    x[:, 5] = np.nan
    x[:, 30] = np.nan
    x[:FIRST_SAMPLES, 7] = np.where(np.arange(FIRST_SAMPLES) % 3 == 0, np.nan, 1e6)
    x[:, 8] = np.where(np.isnan(x[:, 8]), np.nan, 1 / 3)
    return x


def compare(workload, x, precision="fp64", *more, ranks=1, how=None, w=None, v=None, limit=None):
    """Compares C, means and counts with the model. Errors are relative to the standard deviations,
    or for gram to the root mean squares. `w`, `v`: weights of samples, of variables."""
    center, scale = WORKLOADS[workload]
    options = list(more)
    divisor = options[options.index("--gram.divisor") + 1] if "--gram.divisor" in options else (
        "n-1" if center or scale else "1")
    expected, counts, mean, used = model(x, center, scale, divisor, w,
                                         None if v is None else np.sqrt(v))
    folder = new_folder()
    names = inputs(folder, how, data=x.T if "rows" in more else x)
    if w is not None or v is not None:
        with h5py.File(folder / "w.h5", "w") as file:
            file["w"] = w if v is None else v
        options += ["--gram.weights", f"{folder}/w.h5"]
    finished = product(workload, folder / "c.h5", *names, "--product.precision", precision,
                       *options, ranks=ranks)
    result = stored(folder / "c.h5")
    assert np.array_equal(result, result.T, equal_nan=True), f"is not symmetric\n{finished}"
    assert np.array_equal(np.isnan(result), np.isnan(expected)), finished
    size = np.sqrt(np.abs(np.diag(expected)))
    size = np.where(size > 0, size, 1)  # also NaN
    errors = np.nan_to_num(np.abs(result - expected) / np.outer(size, size))
    limit = limit or 4 * UNITS[precision] + 200 * (
        2.0**-53 if precision.startswith("fp64") else 2.0**-24)
    assert errors.max() <= limit, (workload, precision, ranks, errors.max(), limit, finished)
    if "complete" in more or w is not None:
        assert int(finished.values["samples"]) == counts.sum(), finished
    if "complete" in more:
        empty = int(np.isnan(expected).all(axis=0).sum())
        assert finished.values["missing"] == "complete", finished
        assert int(finished.values["empty_variables"]) == empty, finished
    with h5py.File(folder / "c.h5") as file:
        told = file["results"]
        if center:
            sizes = np.abs(mean) + 1
            assert (np.abs(told["mean"][()][used] - mean) <= limit * sizes).all(), finished
            assert (told["count"][()] == np.where(used, counts.sum(), 0)).all(), finished
            assert np.isnan(told["mean"][()][~used]).all(), finished
    finished.c = result
    return finished
