"""Shared code of the tests of matrix products: their model in numpy, matrices, files of them, and
runs that must succeed."""

import re

import h5py
import numpy as np

import harness
from harness import each, new_folder, run, skip_all

NATIVE = ["fp64", "fp32", "tf32", "bf16", "fp16", "fp32x3"]
RESIDUES = ["fp64-int8", "fp32-int8"]
FLOATS = NATIVE + RESIDUES  # int8 is tested separately
UNITS = {"fp64": 2.0**-53, "fp32": 2.0**-24, "fp32x3": 2.0**-23, "tf32": 2.0**-11, "fp16": 2.0**-11,
         "bf16": 2.0**-8, "fp64-int8": 2.0**-53, "fp32-int8": 2.0**-24}
FIRST_SAMPLES = 256  # of each variable; shift and factor of a centred product come from them
ON_HOST = {"SHARDSTREAM_DEVICE_BACKEND": "host"}


def why_no_products():
    """The program's message if the host cannot multiply, else an empty text."""
    finished = run("run", "gemm", "--gemm.m", 1, "--gemm.n", 1, "--gemm.k", 1, "-o",
                   new_folder() / "out.h5", env=ON_HOST)
    return finished.err.strip() if finished.code == 2 and "CBLAS" in finished.err else ""


def skip_without_blas():
    if why := why_no_products():
        skip_all(f"the host has no products ({why})")


# ---------------------------------------------------------------- the model

def output_type(precision):
    return np.dtype({"fp64": "f8", "fp64-int8": "f8", "int8": "i4"}.get(precision, "f4"))


def rounded(values, precision):
    """The factors of the products: values rounded to the format of the precision, as float64."""
    if precision in ("fp64", "fp64-int8", "int8"):
        return values.astype("f8")
    bits = values.astype("f4").view("u4").astype("i8")
    if precision == "tf32":  # ties away from zero
        bits = bits + 0x1000 & ~0x1fff
    elif precision == "bf16":  # ties to even
        bits = bits + 0x7fff + (bits >> 16 & 1) & ~0xffff
    elif precision == "fp16":
        return values.astype("f4").astype("f2").astype("f8")
    return bits.astype("u4").view("f4").astype("f8")


def sum_bound(precision, k):
    """The maximum difference of two sums of k products, relative to the sum of their absolute
    values."""
    if precision == "int8":
        return 0  # doubles represent these sums exactly
    if precision.startswith("fp64"):
        return 2 * (k + 2) * 2.0**-53
    if precision == "fp32x3":  # three sums, each factor without 2^-23 of it, one product left out
        return 2 * (3 * k + 2) * 2.0**-23 + 2.0**-21
    return 2 * (k + 2) * 2.0**-23  # tensor cores truncate instead of rounding


def truncation_of_fp32x3(k):
    """The relative error of a sum of k products of one sign with fp32x3. On a GPU, tensor cores add
    four products at a time, up to 1024 in a call, and truncate each sum (kernels/gemm/CHECK.md)."""
    return 2.0**-23 * min(k, 1024) / 4 / 4 if harness.BACKEND_OF_ONE_RANK == "cuda" else 0


def model(a, b, precision, alpha=1.0, beta=0.0, c=None):
    """C in float64, and for each element the maximum difference of another order of additions: two
    sums of k products, each within k u |A||B|, and a few final roundings."""
    a, b = rounded(a, precision), rounded(b, precision)
    values = alpha * (a @ b)
    if precision == "int8":
        return values, np.zeros_like(values)
    unit = 2.0**(-53 if precision.startswith("fp64") else -23)
    if precision in RESIDUES:  # relative to the norms; the reference has errors, too
        norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0))
        bound = np.sqrt(a.shape[1]) * UNITS[precision] * abs(alpha) * norms
        bound += sum_bound("fp64", a.shape[1]) * abs(alpha) * (np.abs(a) @ np.abs(b))
    else:
        bound = sum_bound(precision, a.shape[1]) * abs(alpha) * (np.abs(a) @ np.abs(b))
    if c is not None:
        values = values + beta * c.astype("f8")
        bound = bound + 4 * unit * np.abs(beta * c.astype("f8"))
    return values, bound + 4 * unit * np.abs(values)


def expect_within(result, expected, bound, finished):
    assert result.shape == expected.shape, f"{result.shape} instead of {expected.shape}"
    error = np.abs(result - expected)
    worst = np.unravel_index(np.argmax(error - bound), error.shape)
    assert (error <= bound).all(), (f"C{list(map(int, worst))} is {result[worst]} and not "
                                    f"{expected[worst]} within {bound[worst]}\n{finished}")


# ---------------------------------------------------------------- matrices

def whole_numbers(rows, columns, dtype="f4", seed=1):
    """Whole numbers whose products and sums of 1000 products are exact in every precision. They
    depend only on shape and seed, not on the thread."""
    least = 0 if np.dtype(dtype).kind == "u" else -8
    random = np.random.default_rng([rows, columns, seed])
    return random.integers(least, 8, (rows, columns), endpoint=True).astype(dtype)


def bytes_of(rows, columns, seed=1):
    """All whole numbers of 8 bits."""
    return np.random.default_rng([rows, columns, seed]).integers(
        -128, 127, (rows, columns), endpoint=True).astype("i1")


def normal(rows, columns, dtype="f4", seed=1):
    return np.random.default_rng([rows, columns, seed]).standard_normal(
        (rows, columns)).astype(dtype)


def inputs(folder, how=None, **matrices):
    """Writes a file with data sets of these names. Returns the options that name those of a, b and
    c."""
    with h5py.File(folder / "in.h5", "w") as file:
        for name, values in matrices.items():
            file.create_dataset(name, data=values, **(how or {}))
    return [word for name in matrices for word in (f"--input.{name}", f"{folder}/in.h5:/{name}")]


# ---------------------------------------------------------------- runs

def product(workload, out, *arguments, ranks=1, env=None):
    """A run that must succeed and print the metrics of every product."""
    finished = run("run", workload, *arguments, "-o", out, ranks=ranks, env=env).expect(0)
    values = finished.values
    assert values["verified"] == "true", finished
    assert not float(values["detection_threshold"]) < 0, finished  # NaN if C is not finite
    for rate in ("rate", r"multiply_[\w-]+"):
        assert re.search(rf"^{rate}_aggregate=[-+.e0-9]+ Tflop/s$", finished.out, re.MULTILINE), (
            rate, finished)
    assert values["c_checksum"] and float(values["c_norm"]) >= 0, finished
    return finished


def stored(out):
    with h5py.File(out) as file:
        assert file.attrs["status"] == "complete", out
        return file["/results/C"][()]


def stored_arrays(path):
    """{name: (type, bytes)} of all data sets of a result besides its tables."""
    with h5py.File(path) as file:
        return {name: (item.dtype, item[()].tobytes()) for name, item in file["results"].items()
                if not item.dtype.names}


def begins_shallow(out):
    """Whether the first three blocks of K are a quarter, a quarter and a half as deep as others."""
    with h5py.File(out) as file:
        told = file["results"].attrs
        depth = int(told["tile_k"])
        shallow = int(told["blocks_of_k"]) - -(-int(told["k"]) // depth)
        first = f": {depth // 4}, {depth // 4}, {depth // 2}"
        assert shallow in (0, 2) and (shallow > 0) == (first in told["plan"]), told
        return shallow > 0


def min_memory(workload, arguments, ranks=1, env=None):
    """The minimum memory according to the program, for a rank with nearly no memory."""
    finished = run("run", workload, *arguments, "--pipeline.gpu-memory", "1KiB", "--dry-run",
                   "--ranks", ranks, env=env).expect(2)
    return int(re.search(r"--pipeline\.gpu-memory (\d+)B", finished.err)[1])


def check_bits(workload, arguments, runs, env, shallow=False):
    """Checks that C has the same bytes and the same checksum in all runs (ranks, factor of the
    minimum memory or None for plenty, further options). Returns C of a run with one rank. With
    `shallow`, K must begin with shallow blocks."""
    folder = new_folder()
    first = product(workload, folder / "first.h5", *arguments, env=env)
    assert begins_shallow(folder / "first.h5") or not shallow, first
    expected = stored(folder / "first.h5")

    def check(ranks, factor, *more):
        cap = []
        if factor is not None:
            least = min_memory(workload, [*arguments, *more], ranks, env)
            cap = ["--pipeline.gpu-memory", f"{int(least * factor)}B"]
        out = new_folder() / "c.h5"
        finished = product(workload, out, *arguments, *cap, *more, ranks=ranks, env=env)
        assert stored(out).tobytes() == expected.tobytes(), finished
        assert finished.values["c_checksum"] == first.values["c_checksum"], finished
        out.unlink()
    each(runs, check)
    return expected
