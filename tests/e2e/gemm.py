#!/usr/bin/python3
"""`run gemm` against numpy: values within the bound of their precision, whole numbers exactly, any
shapes and stored types, the same bits for any number of ranks and any memory, bad input."""

import itertools
import re

import h5py
import numpy as np

import harness
from harness import check_complaints, each, main, new_folder, ready_ini_files, run, skip_all

PRECISIONS = ["fp64", "fp32", "tf32", "bf16", "fp16"]
SIZES = [1, 13, 263]
ON_HOST = {"SHARDSTREAM_DEVICE_BACKEND": "host"}


def skip_without_blas():
    finished = run("run", "gemm", "--gemm.m", 1, "--gemm.n", 1, "--gemm.k", 1, "-o",
                   new_folder() / "out.h5", env=ON_HOST)
    if finished.code == 2 and "CBLAS" in finished.err:
        skip_all(f"the host has no products ({finished.err.strip()})")


def output_type(precision):
    return np.dtype("f8" if precision == "fp64" else "f4")


def rounded(values, precision):
    """What the products are made of: values rounded to the precision's format, as float64."""
    if precision == "fp64":
        return values.astype("f8")
    bits = values.astype("f4").view("u4").astype("i8")
    if precision == "tf32":  # ties away from zero
        bits = bits + 0x1000 & ~0x1fff
    elif precision == "bf16":  # ties to even
        bits = bits + 0x7fff + (bits >> 16 & 1) & ~0xffff
    elif precision == "fp16":
        return values.astype("f4").astype("f2").astype("f8")
    return bits.astype("u4").view("f4").astype("f8")


def model(a, b, precision, alpha=1.0, beta=0.0, c=None):
    """C in float64, and for each element how far another order of the sum can lie from it: two
    sums of k products, each within k u |A||B|, and a few roundings of the end."""
    a, b = rounded(a, precision), rounded(b, precision)
    unit = 2.0**(-53 if precision == "fp64" else -23)  # tensor cores cut where others round
    values = alpha * (a @ b)
    bound = 2 * (a.shape[1] + 2) * unit * abs(alpha) * (np.abs(a) @ np.abs(b))
    if c is not None:
        values = values + beta * c.astype("f8")
        bound = bound + 4 * unit * np.abs(beta * c.astype("f8"))
    return values, bound + 4 * unit * np.abs(values)


def gemm(out, *arguments, ranks=1, env=None, timeout=120):
    """A product that must succeed and say what every product says."""
    finished = run("run", "gemm", *arguments, "-o", out, ranks=ranks, env=env,
                   timeout=timeout).expect(0)
    values = finished.values
    assert values["verified"] == "true", finished
    assert float(values["smallest_caught"]) >= 0, finished
    assert re.search(r"^rate_aggregate=[-+.e0-9]+ Tflop/s$", finished.out, re.MULTILINE), finished
    assert values["c_checksum"] and float(values["c_norm"]) >= 0, finished
    return finished


def stored(out):
    with h5py.File(out) as file:
        assert file.attrs["status"] == "complete", out
        return file["/results/C"][()]


def inputs(folder, how=None, **matrices):
    """A file with data sets of these names; returns the options that name those of a, b and c."""
    with h5py.File(folder / "in.h5", "w") as file:
        for name, values in matrices.items():
            file.create_dataset(name, data=values, **(how or {}))
    return [word for name in matrices for word in (f"--input.{name}", f"{folder}/in.h5:/{name}")]


def compare(a, b, precision, *more, c=None, alpha=1.0, beta=0.0, transpose_a=False,
            transpose_b=False, ranks=1, exact=False, how=None):
    """The product of the matrices a and b, stored transposed if so told, against the model."""
    folder = new_folder()
    stored_matrices = {"a": a.T if transpose_a else a, "b": b.T if transpose_b else b}
    options = ["--gemm.precision", precision]
    if c is not None:
        stored_matrices["c"] = c
        options += ["--gemm.beta", beta]
    if alpha != 1:
        options += ["--gemm.alpha", alpha]
    for name, told in (("a", transpose_a), ("b", transpose_b)):
        if told:
            options += [f"--gemm.transpose-{name}", "true"]
    finished = gemm(folder / "c.h5", *inputs(folder, how, **stored_matrices), *options, *more,
                    ranks=ranks)
    result = stored(folder / "c.h5")
    expected, bound = model(a, b, precision, alpha, beta, c)
    assert result.dtype == output_type(precision), result.dtype
    assert result.shape == expected.shape, f"{result.shape} instead of {expected.shape}"
    if exact:
        assert np.array_equal(result, expected), f"{(result != expected).sum()} differ\n{finished}"
    else:
        excess = np.abs(result - expected) / np.where(bound > 0, bound, 1)
        assert (excess <= 1).all(), f"{excess.max()} x the bound\n{finished}"
    assert np.isclose(float(finished.values["c_norm"]), np.linalg.norm(result.astype("f8")),
                      rtol=1e-5), finished
    return finished


def whole_numbers(rows, columns, dtype="f4", seed=1):
    """Whose products and sums of 1000 are exact in every precision. The same for the same shape and
    seed, whichever thread asks."""
    least = 0 if np.dtype(dtype).kind == "u" else -8
    random = np.random.default_rng([rows, columns, seed])
    return random.integers(least, 8, (rows, columns), endpoint=True).astype(dtype)


def normal(rows, columns, dtype="f4", seed=1):
    return np.random.default_rng([rows, columns, seed]).standard_normal(
        (rows, columns)).astype(dtype)


# ---------------------------------------------------------------- values

def test_the_model_tells_precisions_apart():
    """Else a program that rounds too little or too much would pass. tf32 and fp16 keep as many
    bits, and differ in their range alone."""
    a, b = normal(40, 50), normal(50, 30)
    for one, other in itertools.permutations(PRECISIONS[1:], 2):
        values, bound = model(a, b, one)
        told = (np.abs(model(a, b, other)[0] - values) > bound).any()
        assert told or {one, other} == {"tf32", "fp16"}, (one, other)


def test_small_whole_numbers_are_exact():
    cases = []
    for number, (m, n, k) in enumerate(itertools.product(SIZES, repeat=3)):
        options = {"precision": PRECISIONS[number % 5], "ranks": 1 + number // 2 % 3,
                   "transpose_a": number % 2 == 1, "transpose_b": number // 3 % 2 == 1,
                   "alpha": [1.0, 2.0, -0.5][number % 3]}
        cases.append((m, n, k, options))

    def check(m, n, k, options):
        c, beta = None, 0.0
        if (m + n + k) % 4 == 3:
            c, beta = whole_numbers(m, n, output_type(options["precision"]), seed=3), 0.5
        compare(whole_numbers(m, k), whole_numbers(k, n, seed=2), c=c, beta=beta, exact=True,
                **options)
    each(cases, check)


def test_each_precision():
    def check(precision, transpose_a, transpose_b):
        caught = compare(normal(263, 131), normal(131, 197), precision, transpose_a=transpose_a,
                         transpose_b=transpose_b, ranks=1 + transpose_b).values["smallest_caught"]
        assert 0 < float(caught) <= 0.01, caught
    each([(precision, number % 2 == 0, number % 3 == 0)
          for number, precision in enumerate(PRECISIONS)] +
         [(precision, False, False) for precision in PRECISIONS], check)


def test_alpha_and_beta():
    def check(precision, alpha, beta, ranks):
        compare(normal(90, 70), normal(70, 110), precision, alpha=alpha, beta=beta,
                c=normal(90, 110, output_type(precision)), ranks=ranks)
    each([("fp64", -1.25, 0.75, 1), ("fp32", 0.3, -2.0, 2), ("bf16", 2.0, 1.0, 3),
          ("fp32", 0.0, 1.0, 1)], check)


def test_vectors():
    """A data set of one dimension is a column."""
    folder = new_folder()
    x, y, matrix = whole_numbers(263, 1), whole_numbers(263, 1, seed=2), whole_numbers(77, 263)

    def check(name, first, second, expected, options, ranks):
        out = folder / f"{name}-{ranks}.h5"
        own = new_folder()
        gemm(out, *inputs(own, a=first, b=second), "--gemm.precision", "fp32", *options,
             ranks=ranks)
        result = stored(out)
        assert result.shape == expected.shape, result.shape
        assert np.array_equal(result, expected), result
    each([(*case, ranks) for ranks in (1, 3) for case in (
        ("dot", x[:, 0], y[:, 0], x.T @ y, ["--gemm.transpose-a", "true"]),
        ("outer", x[:, 0], y[:, 0], x @ y.T, ["--gemm.transpose-b", "true"]),
        ("matrix-vector", matrix, x[:, 0], matrix @ x, []),
        ("vector-matrix", x[:, 0], matrix.T, x.T @ matrix.T, ["--gemm.transpose-a", "true"]))],
         check)


def test_more_ranks_than_rows():
    def check(m, n, k, ranks):
        compare(whole_numbers(m, k), whole_numbers(k, n, seed=2), "fp32", ranks=ranks, exact=True)
    each([(1, 300, 5, 3), (2, 1, 1, 3), (3, 2, 300, 4), (1, 1, 1, 2)], check)


# ---------------------------------------------------------------- how it is stored

def test_stored_types():
    def check(stored_as, precision, transpose, ranks):
        compare(whole_numbers(150, 131, stored_as), whole_numbers(131, 99, stored_as), precision,
                transpose_a=transpose, transpose_b=transpose, ranks=ranks, exact=True)
    each([("i4", "fp64", False, 1), ("i4", "fp32", True, 2), ("f8", "fp32", False, 2),
          ("f8", "bf16", True, 1), (">f8", "fp64", False, 2), (">f4", "fp32", True, 1),
          (">i4", "fp32", False, 1), ("i2", "fp16", False, 3), ("u1", "tf32", True, 1),
          ("i8", "fp64", False, 1), ("f4", "fp64", True, 1)], check)


def test_float64_is_rounded_to_float():
    """Values that floats do not hold: each operand is rounded once."""
    compare(normal(100, 50, "f8"), normal(50, 80, "f8"), "fp32", ranks=2)
    a, b = normal(100, 50, "f8"), normal(50, 80, "f8")
    exact, bound = model(a, b, "fp64")
    assert (np.abs(model(a, b, "fp32")[0] - exact) > bound).any()


def test_two_types():
    compare(whole_numbers(60, 70, "i4"), whole_numbers(70, 50, ">f8"), "fp32", exact=True, ranks=2)


def test_chunked_and_compressed():
    def check(how, precision, transpose_a, transpose_b, ranks):
        compare(whole_numbers(263, 150), whole_numbers(150, 99), precision, how=how,
                transpose_a=transpose_a, transpose_b=transpose_b, ranks=ranks, exact=True)
    each([({"chunks": (50, 70)}, "fp32", False, False, 1),
          ({"chunks": (50, 70), "compression": "gzip"}, "fp64", True, False, 2),
          ({"chunks": (1, 40), "compression": "gzip", "shuffle": True}, "fp32", False, True, 3),
          ({"chunks": (99, 9), "fletcher32": True}, "bf16", True, True, 1)], check)


def test_not_stored():
    """The same checksum and norm without C in the file; generated matrices."""
    folder = new_folder()
    size = ["--gemm.m", 263, "--gemm.n", 131, "--gemm.k", 97, "--gemm.precision", "fp32"]
    first = gemm(folder / "stored.h5", *size, env=ON_HOST)
    assert stored(folder / "stored.h5").shape == (263, 131)

    def check(ranks):
        out = folder / f"{ranks}.h5"
        finished = gemm(out, *size, "--output.store", "false", ranks=ranks, env=ON_HOST)
        for key in ("c_checksum", "c_norm"):
            assert finished.values[key] == first.values[key], f"{finished}\nis not\n{first}"
        with h5py.File(out) as file:
            assert file.attrs["status"] == "complete"
            assert "C" not in file.get("/results", {}), list(file["/results"])
    each([(1,), (2,), (3,)], check)


def test_fewer_slots_than_readers():
    gemm(new_folder() / "out.h5", "--gemm.m", 64, "--gemm.n", 64, "--gemm.k", 64,
         "--pipeline.slots", 1, "--pipeline.readers", 2, env=ON_HOST)


def test_norms_of_any_size():
    """Squares that are subnormal, or overflow."""
    size = ["--gemm.m", 64, "--gemm.n", 64, "--gemm.k", 64]
    small = gemm(new_folder() / "out.h5", *size, "--gemm.precision", "fp64", "--gemm.alpha",
                 "1e-162", env=ON_HOST)
    assert 0 < float(small.values["c_norm"]) < 1e-150, small
    large = gemm(new_folder() / "out.h5", *size, "--gemm.precision", "fp32", "--gemm.alpha", "1e39",
                 env=ON_HOST)
    assert large.values["c_norm"] == "inf" and "overflows" in large.err, large


def test_from_ordinary_memory():
    """The same C as from where the operands are, whichever way a rank's parts of them lie."""
    folder = new_folder()
    size = ["--gemm.m", 790, "--gemm.n", 263, "--gemm.k", 4200, "--output.store", "false"]

    def check(ranks, *transposes):
        ways = [f"--gemm.transpose-{which}=true" for which in transposes]
        name = f"{ranks}{''.join(transposes)}"
        streamed, held = (gemm(folder / f"{name}-{mode}.h5", *size, *ways, "--pipeline.mode", mode,
                               ranks=ranks, env=ON_HOST) for mode in ("stream", "pageable"))
        assert held.values["c_checksum"] == streamed.values["c_checksum"], f"{held}\n{streamed}"
    each([(1,), (1, "a", "b"), (3,), (3, "a"), (3, "b")], check)


# ---------------------------------------------------------------- bits and memory

def least_memory(arguments, ranks, env):
    """What the program itself says would do, for a rank that may use next to nothing."""
    finished = run("run", "gemm", *arguments, "--pipeline.gpu-memory", "1KiB", "-o",
                   new_folder() / "out.h5", ranks=ranks, env=env).expect(2)
    return int(re.search(r"--pipeline\.gpu-memory (\d+)B or more", finished.err)[1])


def several_tiles():
    """An edge that is cut into several tiles, and into several blocks of K."""
    return 2100 if harness.BACKEND_OF_ONE_RANK == "host" else 4200


def check_bits(arguments, ranks_of_runs, env):
    """The least memory, some more, and plenty, give the same bytes of C on any number of ranks."""
    folder = new_folder()
    first = gemm(folder / "first.h5", *arguments, env=env, timeout=300)
    expected = stored(folder / "first.h5").tobytes()
    checksum = first.values["c_checksum"]

    def check(ranks):
        least = least_memory(arguments, ranks, env)
        for memory in (None, least, least + least // 2):
            cap = [] if memory is None else ["--pipeline.gpu-memory", f"{memory}B"]
            out = folder / f"{ranks}-{memory}.h5"
            finished = gemm(out, *arguments, *cap, ranks=ranks, env=env, timeout=300)
            said = f"{ranks} ranks, {memory} bytes:\n{finished}"
            assert stored(out).tobytes() == expected, said
            assert finished.values["c_checksum"] == checksum, said
            out.unlink()
    each([(ranks,) for ranks in ranks_of_runs], check, workers=2)
    return folder / "first.h5"


def test_same_bits_on_the_host():
    folder = new_folder()
    m, n, k = 2100, 1111, 2100
    a, b, c = normal(k, m), normal(k, n), normal(m, n)
    arguments = [*inputs(folder, a=a, b=b, c=c), "--gemm.transpose-a", "true", "--gemm.beta", 0.5,
                 "--gemm.precision", "fp32"]
    out = check_bits(arguments, (1, 2, 3), ON_HOST)
    values, bound = model(a.T, b, "fp32", 1.0, 0.5, c)
    assert (np.abs(stored(out) - values) <= bound).all()


def test_same_bits_in_each_precision():
    folder = new_folder()
    files = inputs(folder, a=normal(1500, 300, "f8"), b=normal(300, 263, "f8"))
    for precision in PRECISIONS:
        check_bits([*files, "--gemm.precision", precision], (2,), ON_HOST)


def test_same_bits_for_any_memory():
    """Where one rank computes: on a GPU if there is one."""
    edge = several_tiles()
    check_bits(["--gemm.m", edge, "--gemm.n", edge + 13, "--gemm.k", edge, "--gemm.precision",
                "tf32"], (1,), None)


# ---------------------------------------------------------------- bad input

def test_other_options():
    """What this run does not read is no option of it; elsewhere it may be for another run."""
    folder = new_folder()
    files = inputs(folder, a=whole_numbers(5, 6), b=whole_numbers(6, 7))
    reduce, product = ["run", "reduce", "--input.count", 10], ["run", "gemm", *files]
    check_complaints([
        ([*reduce, "--gemm.precision", "fp64"], 2, ["--gemm.precision is for gemm"]),
        ([*reduce, *files], 2, ["--input.a is for gemm"]),
        ([*reduce, "--output.store", "true"], 2, ["--output.store is for gemm"]),
        ([*product, "--reduce.ops", "sum"], 2, ["--reduce.ops is for reduce"]),
        ([*product, "--input.data", "ramp"], 2, ["--input.data is for reduce"]),
        ([*product, "--pipeline.batches", 2], 2, ["--pipeline.batches is for reduce"]),
        ([*product, "--pipeline.mode", "pinned"], 2, ["--pipeline.mode stream"]),
        ([*product, "--gemm.k", 6], 2, ["gemm.k", "input.a"]),
        ([*product, "--gemm.n", 7], 2, ["gemm.n", "input.b"]),
        (["run", "gemm", "--gemm.m", "2^40", "--gemm.n", "2^40"], 2, ["C is", "2^63"]),
    ])
    run(*product, "-o", folder / "c.h5",
        env={"SHARDSTREAM_GEMM_K": "9", "SHARDSTREAM_REDUCE_OPS": "sum"}).expect(0)


def test_ready_ini_files():
    folder = new_folder()
    size = {f"SHARDSTREAM_GEMM_{name}": "100" for name in "MNK"}
    for path in ready_ini_files("gemm"):
        run("run", path, "-o", folder / f"{path.stem}.h5", env=size).expect(0)


def test_bad_input():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"], file["B"] = whole_numbers(20, 31), whole_numbers(31, 10)
        file["short"], file["C"] = whole_numbers(29, 10), whole_numbers(20, 10)
        file["wide"], file["cube"] = whole_numbers(20, 11), np.zeros((3, 4, 5))
        file["texts"] = np.array([[b"one", b"two"]])
    run("run", "reduce", "--input.count", 1000, "-o", folder / "result.h5").expect(0)
    (folder / "text.h5").write_text("no HDF5 at all")
    before = (folder / "in.h5").read_bytes()

    def of(a, b, *more):
        return ["run", "gemm", "--input.a", f"{folder}/{a}", "--input.b", f"{folder}/{b}", *more]

    good = of("in.h5:/A", "in.h5:/B")
    check_complaints([
        (of("in.h5:/A", "in.h5:/short"), 2, ["31", "29"]),
        (of("in.h5:/B", "in.h5:/A"), 2, ["10", "20"]),
        (of("in.h5:/A", "in.h5:/B", "--gemm.transpose-a", "true"), 2, ["20", "31"]),
        (of("in.h5:/A", "in.h5:/B", "--gemm.transpose-b", "true"), 2, ["31", "10"]),
        ([*good, "--gemm.beta", "0.5"], 2, ["gemm.beta", "input.c"]),
        ([*good, "--gemm.beta", "0.5", "--input.c", f"{folder}/in.h5:/wide"], 2,
         ["input.c", "11", "10"]),
        ([*good, "--gemm.beta", "0.5", "--input.c", f"{folder}/in.h5:/B"], 2,
         ["input.c", "31", "20"]),
        ([*good, "--gemm.precision", "quadruple"], 2, ["gemm.precision", "'quadruple'", "fp64"]),
        ([*good, "--gemm.transpose-a", "maybe"], 2, ["gemm.transpose-a", "'maybe'"]),
        ([*good, "--pipeline.gpu-memory", "1KiB"], 2,
         ["1 KiB", "--pipeline.gpu-memory", "B or more"]),
        (of("in.h5:/A", "in.h5:/cube"), 2, ["input.b", "in.h5:/cube", "3 dimensions"]),
        (of("in.h5:/texts", "in.h5:/B"), 2, ["in.h5:/texts", "numbers"]),
        (of("in.h5:/AA", "in.h5:/B"), 2, ["'/AA'"]),
        (of("none.h5:/A", "in.h5:/B"), 2, ["none.h5", "no file"]),
        (of("in.h5:/A", "text.h5:/B"), 2, ["text.h5", "not an HDF5 file"]),
        (of("result.h5:/results/reduce", "in.h5:/B"), 2, ["result.h5:/results/reduce", "numbers"]),
        (of("in.h5:/A", "in.h5:/B", "-o", folder / "in.h5", "--output.overwrite", "true"), 2,
         [f"'{folder}/in.h5' is an input", "choose another output.file"]),
    ])
    assert (folder / "in.h5").read_bytes() == before


skip_without_blas()
main(on_gpu=True)
