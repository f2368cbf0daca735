#!/usr/bin/python3
"""The accuracy of `run covariance` and `run correlation` in one pass and in a second pass, compared
with numpy in double precision, for data whose first samples say little about the others."""

import itertools

import h5py
import numpy as np

import harness
from harness import each, expect_words, main, new_folder
from products import (FIRST_SAMPLES, FLOATS, UNITS, inputs, normal, product, skip_without_blas,
                      stored, truncation_of_fp32x3)



def hard_data(samples, variables):
    """Data sets by name. One pass subtracts a shift from the first samples, whatever the later ones
    are."""
    x = normal(samples, variables, "f8")
    time = np.arange(samples)[:, None] / samples
    constant, outlier = x.copy(), x.copy()
    constant[:, 5] = 1 / 3
    outlier[samples // 2, 4] = 6e4
    return {"random": x, "far": x + 1e6, "drift": x + 20 * time, "sorted": np.sort(x, axis=0),
            "walk": np.cumsum(x, axis=0), "constant": constant, "outlier": outlier,
            "sizes": x * 10.0**np.linspace(-12, 12, variables)}


def second_pass(out):
    with h5py.File(out) as file:
        return file["/results"].attrs["second_pass_variables"]


def relative_errors(result, x, scale):
    """Errors of covariances, divided by the standard deviations of both variables."""
    constant = (x == x[0]).all(axis=0)
    x = np.where(constant, 0, x - x.mean(axis=0))
    covariance = x.T @ x / (x.shape[0] - 1)
    deviation = np.where(constant, 1, np.sqrt(np.diag(covariance)))
    sizes = np.outer(deviation, deviation)
    return np.abs(result / (1 if scale else sizes) - covariance / sizes)


def test_accuracy_of_one_pass():
    """Errors in units of the precision. Each element of random data is rounded by about one unit,
    and a covariance is the mean of many. Sums of floats or doubles lose accuracy the further the
    mean is from the shift; here by up to three standard deviations."""
    hard = hard_data(3000, 24)

    def check(name, precision, scale, ranks):
        x, folder = hard[name], new_folder()
        product("correlation" if scale else "covariance", folder / "c.h5", *inputs(folder, data=x),
                "--product.precision", precision, ranks=ranks)
        errors = relative_errors(stored(folder / "c.h5"), x, scale)
        if name == "constant":
            assert (errors[5] == 0).all() and (errors[:, 5] == 0).all(), errors[5]
        limit = 4 * UNITS[precision] + 200 * (
            2.0**-53 if precision.startswith("fp64") else 2.0**-24)
        if precision == "fp32x3":  # the squares of values up to three deviations from the shift
            limit += 10 * truncation_of_fp32x3(x.shape[0])
        assert errors.max() <= limit, (name, precision, scale, errors.max() / limit)
        assert second_pass(folder / "c.h5") == 0
    each([(name, precision, number % 2 == 1, 1 + number % 3)
          for number, (name, precision) in enumerate(itertools.product(hard, FLOATS))], check)


def test_a_second_pass_if_the_first_samples_mislead():
    """The run announces the second pass, and is as accurate, also if only some variables of a tile
    need it."""
    x = normal(9000, 900, "f8")
    x[:FIRST_SAMPLES, 800] += 1e4
    x[:FIRST_SAMPLES, 3] = 0
    x[FIRST_SAMPLES:, 3] *= 1e12

    def check(precision, scale, ranks):
        folder = new_folder()
        finished = product("correlation" if scale else "covariance", folder / "c.h5",
                           *inputs(folder, data=x), "--product.precision", precision, ranks=ranks)
        expect_words(finished.err, ["2 variables", "256", "second"], finished)
        assert second_pass(folder / "c.h5") == 2
        errors = relative_errors(stored(folder / "c.h5"), x, scale)
        assert errors.max() <= 4 * UNITS[precision] + 200 * 2.0**-24, (precision, errors.max())
        return finished.values["c_checksum"]
    sums = {}
    for precision, scale, most in (("fp32", False, 3), ("bf16", True, 2)):
        sums[precision] = {check(precision, scale, ranks) for ranks in range(1, most + 1)}
        assert len(sums[precision]) == 1 or harness.BACKEND_OF_ONE_RANK != "host", sums


skip_without_blas()
main(on_gpu=True)
