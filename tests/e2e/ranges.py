#!/usr/bin/python3
"""Matrix products of numbers at the ends of the ranges of types: first samples unlike the rest,
integers that doubles cannot represent, products that overflow, values that are not finite. Every
result is right, or is not verified and has a reason."""

import h5py
import numpy as np

from harness import each, expect_warning, expect_words, main, new_folder, run
from products import FIRST_SAMPLES, ON_HOST, inputs, normal, product, skip_without_blas, stored


def results_of(out):
    with h5py.File(out) as file:
        return dict(file["/results"].attrs)


# ---------------------------------------------------------------- first samples unlike the rest

def begins_with(first, samples, variables=4, seed=1):
    """Samples of a normal distribution after the samples `first`."""
    x = normal(samples, variables, "f8", seed=seed)
    x[:FIRST_SAMPLES] = first
    return x


def expect_covariances(x, workload, precision, ranks, tolerance, passes="second"):
    """Checks the covariances, divided by standard deviations, and the warning about another
    pass."""
    folder = new_folder()
    finished = product(workload, folder / "c.h5", *inputs(folder, data=x), "--product.precision",
                       precision, ranks=ranks)
    x = x.astype("f8")
    power = np.exp2(np.floor(np.log2(np.abs(x).max(axis=0))))
    covariance = np.cov((x / power).T)
    deviation = np.sqrt(np.diag(covariance))
    result = stored(folder / "c.h5").astype("f8")
    if workload == "covariance":  # factors one by one, since their products may overflow
        result = result / power[:, None] / power / deviation[:, None] / deviation
    error = np.abs(result - covariance / np.outer(deviation, deviation)).max()
    assert error <= tolerance, (workload, precision, error, finished)
    assert results_of(folder / "c.h5")["second_pass_variables"] > 0, finished
    expect_words(finished.err, [FIRST_SAMPLES, passes], finished)
    return stored(folder / "c.h5").tobytes()


def test_first_samples_of_other_sizes():
    """Their shift and scale move all other values beyond the range of the precision, or to 0."""
    noise = normal(FIRST_SAMPLES, 4, "f8", seed=9)
    small, tiny = begins_with(1e-100 * noise, 3000), begins_with(1e-200 * noise, 3000)
    floats = (begins_with(1e-30 * noise, 3000) * [[1e10]]).astype("f4")
    floats[:FIRST_SAMPLES] *= np.float32(1e-10)
    halves = (1e6 + 1e3 * begins_with(0, 3000)).astype("f4")
    halves[:FIRST_SAMPLES] = 0
    one = normal(3000, 4, "f8")
    one[:, 2] = tiny[:, 2] * 1e20
    huge = small * 1e60

    def check(x, workload, precision, tolerance, ranks=1):
        expect_covariances(x, workload, precision, ranks, tolerance)
    each([(huge, "covariance", "fp64", 1e-12), (tiny, "covariance", "fp64", 1e-12, 2),
          (tiny, "correlation", "fp64", 1e-12), (floats, "covariance", "fp32", 1e-5),
          (halves, "covariance", "fp16", 4e-3), (halves, "correlation", "fp16", 4e-3, 3),
          (one, "covariance", "fp64", 1e-12), (one, "correlation", "bf16", 2e-2)], check)


def test_values_that_become_zero():
    """Such variables are not constant: after zeros come values too small for the precision."""
    tiny, halves = begins_with(0, 2000) * 1e-300, begins_with(0, 2000) * 1e-9
    denormal = begins_with(0, 2000) * 1e-310

    def check(x, precision, tolerance, ranks=1):
        expect_covariances(x, "correlation", precision, ranks, tolerance)
    each([(tiny, "fp64", 1e-12), (denormal, "fp64", 1e-9), (halves, "fp16", 5e-3, 2),
          (begins_with(0, 2000) * 1e-60, "fp32", 1e-5)], check)


def test_same_bits_of_all_passes():
    """Two and three ranks give the same bits. The extremes of a variable with one large value say
    little about its mean."""
    x = begins_with(0, 3000, 40) * 1e12
    x[2000, 7] = 1e19
    bits = {expect_covariances(x, "covariance", "fp16", ranks, 1e-2, "third") for ranks in (2, 3)}
    assert len(bits) == 1, bits


def test_the_largest_numbers():
    """Their differences, squares and covariances overflow, but their correlations exist."""
    x = np.tile([1.7e308, -1.7e308, 1e300], 500)[:, None] * [1, -0.5]

    def correlate(data, ranks):
        out = new_folder() / "c.h5"
        product("correlation", out, *inputs(new_folder(), data=data), ranks=ranks)
        expected = np.corrcoef((data / 1e300).T)
        assert np.allclose(stored(out), expected, rtol=1e-12), stored(out)
    each([(x, 1), (x, 2), (normal(500, 3, "f8") * 1e200, 1)], correlate)
    expect_overflow("covariance", {"data": normal(500, 3, "f8") * 1e200}, "fp64", 3)
    expect_overflow("covariance", {"data": normal(500, 3, "f8") * 1e25}, "fp32", 3, ranks=2)


def test_data_that_are_not_finite_are_read_once():
    x = normal(2000, 6, "f8")
    x[1000, 1], x[1001, 2], x[5, 3] = np.nan, np.inf, -np.inf

    def check(workload, precision):
        out = new_folder() / "c.h5"
        finished = run("run", workload, *inputs(new_folder(), data=x), "--product.precision",
                       precision, "-o", out).expect(0)
        result, others = stored(out), np.array([0, 4, 5])
        assert np.isfinite(result[np.ix_(others, others)]).all(), result
        assert np.isnan(result[1:4]).all() and np.isnan(result[:, 1:4]).all(), result
        assert results_of(out)["second_pass_variables"] == 0, finished
        assert finished.values["verified"] == "unchecked", finished
    each([("covariance", "fp64"), ("correlation", "fp16")], check)


# ---------------------------------------------------------------- integers beyond 2^53

def test_large_integers_are_subtracted_as_integers():
    """The mean is not a number that a double holds, but the differences from it are."""
    three = 2**53 + np.tile([0, 1, 2], 200)
    stamps = 1_700_000_000_000_000_000 + np.arange(101)
    drift = 2**62 + np.arange(9000) * 3  # far from its first samples
    ends = np.tile([-2**63, 2**63 - 1], 300)  # their difference exceeds 64 bits

    def check(values, *options):
        out = new_folder() / "c.h5"
        data = np.stack([values, values[::-1]], axis=1)
        product("covariance", out, *inputs(new_folder(), data=data), *options)
        exact = [int(each) for each in values]
        scaled = [len(exact) * each - sum(exact) for each in exact]
        variance = sum(each * each for each in scaled) / len(exact)**2 / (len(exact) - 1)
        assert np.allclose(np.diag(stored(out)), variance, rtol=1e-6), (stored(out), variance)
    each([(three,), (three.astype("u8"),), (stamps,), (stamps, "--product.precision", "fp32"),
          (drift,), (drift, "--product.precision", "fp32"), (ends,)], check)
    out = new_folder() / "c.h5"
    product("covariance", out, *inputs(new_folder(), data=three[:, None]), "--gram.divisor", "n",
            ranks=2)
    assert np.isclose(stored(out), 2 / 3, rtol=1e-14), stored(out)


# ---------------------------------------------------------------- overflow

def expect_overflow(workload, matrices, precision, rows, *options, ranks=1, reason=None):
    """C is not finite although its factors are: it is not verified, and a warning says why."""
    out = new_folder() / "c.h5"
    finished = run("run", workload, *inputs(new_folder(), **matrices), "--product.precision",
                   precision, *options, "-o", out, ranks=ranks, env=ON_HOST).expect(0)
    result = stored(out)
    counted = reason is None
    reason = reason or ("1.8e308" if precision == "fp64" else "3.4e38")
    assert (~np.isfinite(result)).any(axis=1).sum() == rows, finished
    assert finished.values["verified"] == ("unchecked" if rows == len(result) else "partly")
    said = results_of(out)
    assert said["verified"] == 0 and reason in said["verdict"], said
    assert "hardware" not in finished.err, finished
    expect_words(finished.err, [reason] + ["--product.precision fp64"] * (precision != "fp64"),
                 finished)
    if counted:
        assert int(finished.values["overflowed_rows"]) == said["overflowed_rows"] == rows, finished


def test_products_that_overflow():
    """Overflow is found even if the signs in the check cancel, so that its own sums are small."""
    a, b = normal(400, 90, "f8"), normal(90, 64, "f8", seed=2)
    some = a.astype("f4")
    some[:7] *= np.float32(1e38)

    def check(a, b, precision, rows, *options):
        expect_overflow("gemm", {"a": a, "b": b}, precision, rows, *options, ranks=1 + rows % 3)
    each([(a * 8e18, b * 8e18, precision, 400) for precision in ("fp32", "tf32", "bf16", "fp32x3")]
         + [(some, b, "fp32", 7), (a, b, "fp32", 400, "--gemm.alpha", "1e39"),
            (a, b, "fp64", 400, "--gemm.alpha", "1e308")], check)
    expect_overflow("gram", {"data": b * 1e25}, "fp32", 64)
    expect_overflow("gemm", {"a": a * 1e200, "b": b * 1e200}, "fp64", 400, reason="1e154")
    expect_overflow("gemm", {"a": np.abs(a) * 1e7, "b": b}, "fp16", 400, reason="fp16")


def test_added_matrices_that_are_not_finite():
    """Infinities of the data are not an overflow."""
    folder, c = new_folder(), normal(30, 20, "f8")
    c[3, 4], c[5, 6] = np.inf, np.nan
    finished = run("run", "gemm", *inputs(folder, a=normal(30, 40, "f8"), b=normal(40, 20, "f8"),
                                          c=c), "--gemm.beta", 1, "-o", folder / "out.h5").expect(0)
    assert finished.values["verified"] == "true", finished
    assert (np.isfinite(stored(folder / "out.h5")) == np.isfinite(c)).all(), finished
    expect_warning(finished, ["c_norm", "input.c"])


skip_without_blas()
main(on_gpu=True)
