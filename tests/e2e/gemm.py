#!/usr/bin/python3
"""`run gemm` compared with numpy: values within the bound of their precision, exact whole numbers,
any shapes and stored types, bad input. gemm_bits.py tests that the bits do not depend on ranks and
memory."""

import itertools

import h5py
import numpy as np

import results
from harness import check_complaints, each, main, new_folder, ready_ini_files, run
from products import (FLOATS, NATIVE, ON_HOST, bytes_of, expect_within, inputs, model, normal,
                      output_type, product, skip_without_blas, stored, truncation_of_fp32x3,
                      whole_numbers)

SIZES = [1, 13, 263]
# Every two of the three sizes of a product have all values of SIZES.
PAIRWISE = [(SIZES[i], SIZES[j], SIZES[(i + j) % 3]) for i in range(3) for j in range(3)]


def gemm(out, *arguments, **how):
    return product("gemm", out, *arguments, **how)


def compare(a, b, precision, *more, c=None, alpha=1.0, beta=0.0, transpose_a=False,
            transpose_b=False, ranks=1, exact=False, how=None):
    """Compares the product of the matrices a and b, stored transposed if requested, with the
    model."""
    folder = new_folder()
    stored_matrices = {"a": a.T if transpose_a else a, "b": b.T if transpose_b else b}
    options = ["--product.precision", precision]
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
    expect_within(result, expected, 0 * bound if exact else bound, finished)
    assert np.isclose(float(finished.values["c_norm"]), np.linalg.norm(result.astype("f8")),
                      rtol=1e-5), finished
    return finished


# ---------------------------------------------------------------- values

def test_the_model_tells_precisions_apart():
    """Otherwise a program that rounds too little or too much could pass. tf32 and fp16 keep the
    same number of bits and differ only in range; fp32x3 uses the values of fp32."""
    a, b = normal(40, 50), normal(50, 30)
    for one, other in itertools.permutations(NATIVE[1:], 2):
        values, bound = model(a, b, one)
        told = (np.abs(model(a, b, other)[0] - values) > bound).any()
        assert told or {one, other} in ({"tf32", "fp16"}, {"fp32", "fp32x3"}), (one, other)


def test_small_whole_numbers_are_exact():
    cases = []
    sizes = {*PAIRWISE, *((k, m, n) for m, n, k in PAIRWISE)}
    for number, (m, n, k) in enumerate(sorted(sizes)):
        options = {"precision": FLOATS[number % len(FLOATS)], "ranks": 1 + number // 2 % 3,
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
                         transpose_b=transpose_b,
                         ranks=1 + transpose_b).values["detection_threshold"]
        assert 0 < float(caught) <= 0.01, caught
    each([(precision, number % 2 == 0, number % 3 == 0)
          for number, precision in enumerate(FLOATS)] +
         [(precision, False, False) for precision in FLOATS], check)


def test_int8_is_exact():
    """All bytes, and sums far beyond the integers that floats represent."""
    def check(m, n, k, transpose_a, transpose_b, ranks):
        finished = compare(bytes_of(m, k), bytes_of(k, n, seed=2), "int8", exact=True, ranks=ranks,
                           transpose_a=transpose_a, transpose_b=transpose_b)
        assert "multiply_int8_aggregate" in finished.values, finished
    each([(*sizes, number % 2 == 1, number // 2 % 2 == 1, 1 + number % 3)
          for number, sizes in enumerate([*PAIRWISE, (790, 300, 1025)])], check)

    def check_max(value, other):
        """The maximum number of products with the largest factors."""
        k = 131071
        compare(np.full((2, k), value, "i1"), np.full((k, 3), other, "i1"), "int8", exact=True)
    each([(-128, -128), (-128, 127)], check_max)


def test_int8_of_generated_matrices():
    """The generated elements are i8, and the values of `uniform` are those of the model."""
    folder = new_folder()
    size = ["--gemm.m", 77, "--gemm.n", 55, "--gemm.k", 300]
    for name, shape, seed in (("a", "77x300", 1), ("b", "300x55", 2)):
        run("generate", "-o", f"{folder}/{name}.h5:/x", "--input.shape", shape, "--input.type",
            "i8", "--input.seed", seed).expect(0)
    first = gemm(folder / "generated.h5", *size, "--product.precision", "int8")
    named = [word for name in "ab" for word in (f"--input.{name}", folder / f"{name}.h5")]
    second = gemm(folder / "named.h5", *named, "--product.precision", "int8", ranks=2)
    assert stored(folder / "generated.h5").dtype == np.dtype("i4")
    assert first.values["c_checksum"] == second.values["c_checksum"], f"{first}\n{second}"
    a, b = (h5py.File(folder / f"{name}.h5")["x"][()].astype("i8") for name in "ab")
    assert np.array_equal(stored(folder / "named.h5"), a @ b)


def test_fp32x3_errs_about_as_fp32_does():
    """Its error is far below that of tf32, which it consists of, for sums of terms of mixed signs
    and of one sign. On a GPU, sums of one sign are truncated as with tf32."""
    def check(a, b):
        files = inputs(new_folder(), a=a, b=b)
        errors, exact = {}, a.astype("f8") @ b.astype("f8")
        truncation = truncation_of_fp32x3(a.shape[1]) * np.linalg.norm(exact)
        for precision in ("fp32", "fp32x3", "tf32"):
            out = new_folder() / "c.h5"
            gemm(out, *files, "--product.precision", precision)
            errors[precision] = np.linalg.norm(stored(out) - exact)
        assert errors["fp32x3"] <= 8 * errors["fp32"] + truncation, errors
        assert errors["fp32x3"] <= errors["tf32"] / 50 + truncation, errors
    each([(normal(200, 2100), normal(2100, 150, seed=2)),
          (np.abs(normal(200, 2100)), np.abs(normal(2100, 150, seed=2)))], check)


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
        gemm(out, *inputs(own, a=first, b=second), "--product.precision", "fp32", *options,
             ranks=ranks)
        result = stored(out)
        assert result.shape == expected.shape, result.shape
        assert np.array_equal(result, expected), result
    dot = ("dot", x[:, 0], y[:, 0], x.T @ y, ["--gemm.transpose-a", "true"])
    each([(*dot, 1), (*dot, 3),
          ("outer", x[:, 0], y[:, 0], x @ y.T, ["--gemm.transpose-b", "true"], 3),
          ("matrix-vector", matrix, x[:, 0], matrix @ x, [], 3),
          ("vector-matrix", x[:, 0], matrix.T, x.T @ matrix.T, ["--gemm.transpose-a", "true"],
           1)], check)


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
          ("i8", "fp64", False, 1), ("f4", "fp64", True, 1), ("i1", "fp32", True, 2),
          ("i1", "bf16", False, 1), ("i1", "int8", True, 3), ("f8", "fp32x3", True, 2)], check)


def test_bytes_of_another_type():
    """input.type converts stored whole numbers of another type to bytes."""
    folder = new_folder()
    a, b = bytes_of(60, 70), bytes_of(70, 50)
    files = inputs(folder, a=a.astype("i4"), b=b.astype("f8"))
    gemm(folder / "c.h5", *files, "--product.precision", "int8", "--input.type", "i8", ranks=2)
    assert np.array_equal(stored(folder / "c.h5"), a.astype("i8") @ b.astype("i8"))


def test_float64_is_rounded_to_float():
    """For values that floats cannot represent, each operand is rounded once."""
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
    """Without C in the file, checksum and norm are the same; generated matrices."""
    folder = new_folder()
    size = ["--gemm.m", 263, "--gemm.n", 131, "--gemm.k", 97, "--product.precision", "fp32"]
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


def test_checksum_shows_every_change():
    """Also a change of all signs or all exponents of as many elements as a power of two."""
    size = ["--gemm.m", 128, "--gemm.n", 256, "--gemm.k", 32, "--output.store", "false"]

    def check(precision):
        sums = [gemm(new_folder() / "out.h5", *size, "--product.precision", precision,
                     "--gemm.alpha",
                     alpha, env=ON_HOST).values["c_checksum"] for alpha in (1, -1, 2, 0.5, -4)]
        assert len(set(sums)) == len(sums), sums
    each([("fp32",), ("fp64",)], check)


def test_fewer_slots_than_readers():
    gemm(new_folder() / "out.h5", "--gemm.m", 64, "--gemm.n", 64, "--gemm.k", 64,
         "--pipeline.slots", 1, "--pipeline.readers", 2, env=ON_HOST)


def test_norms_of_small_numbers():
    """The squares are subnormal."""
    size = ["--gemm.m", 64, "--gemm.n", 64, "--gemm.k", 64]
    small = gemm(new_folder() / "out.h5", *size, "--product.precision", "fp64", "--gemm.alpha",
                 "1e-162", env=ON_HOST)
    assert 0 < float(small.values["c_norm"]) < 1e-150, small


def test_non_finite_rows_are_unchecked():
    """They are no failure. The output, the file and the warning agree on how much was checked."""
    a, b = normal(800, 90), normal(90, 60, seed=2)
    one = a.copy()
    one[3, 4] = np.inf

    def check(a, b, ranks, word, rows):
        folder = new_folder()
        finished = run("run", "gemm", *inputs(folder, a=a, b=b), "-o", folder / "c.h5", ranks=ranks,
                       env=ON_HOST).expect(0)
        assert finished.values["verified"] == word, finished
        assert int(finished.values.get("unchecked_rows", "0")) == rows, finished
        with h5py.File(folder / "c.h5") as file:
            said, row = file["/results"].attrs, file["/results/gemm"][0]
            assert file.attrs["status"] == "complete"
            assert said["verified"] == row["validated"] == (word == "true"), finished
            metrics = {each["metric"]: each for each in file["metrics"][:]}
            assert metrics[b"verified"]["value"] == word.encode(), metrics
            assert metrics[b"ranks"]["number"] == ranks == int(finished.values["ranks"]), metrics
            rate = metrics[b"multiply_fp32_aggregate"]  # in the unit of rate_aggregate
            assert rate["unit"] == metrics[b"rate_aggregate"]["unit"] == b"Tflop/s", metrics
            printed = float(finished.values["multiply_fp32_aggregate"])
            assert abs(rate["number"] / printed - 1) < 1e-3, (rate, finished)
            assert f"multiply_fp32_aggregate={printed:.4g} Tflop/s\n" in finished.out, finished
            assert said["unchecked_rows"] == rows, finished
            if rows > 0:
                assert f"warning: {said['verdict']}\n" in finished.err, finished
            else:
                assert finished.err == "", finished
            assert np.isnan(row["detection_threshold"]) == (rows > 0), row
            assert np.isnan(row["max_error"]) == (word == "unchecked"), row
        assert np.isnan(float(finished.values["detection_threshold"])) == (rows > 0), finished
    nothing = np.full((800, 90), np.nan, "f4")
    large = a * np.float32(1e30), b * np.float32(1e30)  # products beyond the range of floats
    each([(a, b, 1, "true", 0), (one, b, 1, "partly", 1), (one, b, 3, "partly", 1),
          (nothing, b, 1, "unchecked", 800), (nothing, b, 2, "unchecked", 800),
          (a, np.full_like(b, np.inf), 2, "unchecked", 800), (*large, 2, "unchecked", 800)], check)


# ---------------------------------------------------------------- bad input

def test_resolved_options():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["a"], file["b"] = whole_numbers(4, 3000, "f8"), bytes_of(3000, 5)
    out = folder / "out.h5"
    run("run", "gemm", "--input.a", f"{folder}/in.h5:/a", "--input.b", f"{folder}/in.h5:/b",
        "--product.decomposition", "split-k", "-o", out, ranks=2).expect(0)
    found = results.resolved(out, "gemm")
    assert found["input.type"] == "f64,i8" and found["input.read"] == "cached", found
    run("run", "gemm", "--input.a", f"{folder}/in.h5:/a", "--input.b", f"{folder}/in.h5:/b",
        "--input.type", "f32", "-o", out, "--output.overwrite", "true").expect(0)
    found = results.resolved(out, "gemm")
    assert found["input.type"] == "f32" and found["product.decomposition"] == "rows", found


def test_other_options():
    """Options that this run does not read are errors on the command line, but may be in an INI file
    for another run."""
    folder = new_folder()
    files = inputs(folder, a=whole_numbers(5, 6), b=whole_numbers(6, 7))
    reduce, product = ["run", "reduce", "--input.count", 10], ["run", "gemm", *files]
    check_complaints([
        ([*reduce, "--product.precision", "fp64"], 2, ["--product.precision", "gemm"]),
        ([*reduce, *files], 2, ["--input.a", "gemm"]),
        ([*reduce, "--output.store", "true"], 2, ["--output.store", "gemm"]),
        ([*product, "--reduce.ops", "sum"], 2, ["--reduce.ops", "reduce"]),
        ([*product, "--input.data", "ramp"], 2, ["--input.data", "reduce"]),
        ([*product, "--pipeline.batches", 2], 2, ["--pipeline.batches", "reduce"]),
        ([*product, "--pipeline.mode", "resident"], 2, ["--pipeline.mode stream"]),
        ([*product, "--gemm.k", 6], 2, ["gemm.k", "input.a"]),
        ([*product, "--gemm.n", 7], 2, ["gemm.n", "input.b"]),
        (["run", "gemm", "--gemm.m", "2^40", "--gemm.n", "2^40"], 2, ["C", 2**40, "2^63"]),
        ([*reduce, "--product.decomposition", "rows"], 2, ["--product.decomposition", "gemm"]),
        ([*reduce, "--output.resume", "never"], 2, ["--output.resume", "gemm"]),
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
        file["At"] = whole_numbers(31, 20)
        file["wide"], file["cube"] = whole_numbers(20, 11), np.zeros((3, 4, 5))
        file["texts"] = np.array([[b"one", b"two"]])
    run("run", "reduce", "--input.count", 1000, "-o", folder / "result.h5").expect(0)
    (folder / "text.h5").write_text("no HDF5 at all")
    before = (folder / "in.h5").read_bytes()

    def of(a, b, *more):
        return ["run", "gemm", "--input.a", f"{folder}/{a}", "--input.b", f"{folder}/{b}", *more]

    good = of("in.h5:/A", "in.h5:/B")
    check_complaints([
        (of("in.h5:/A", "in.h5:/short"), 2, ["in.h5:/A", "20 x 31", "in.h5:/short", "29 x 10"]),
        (of("in.h5:/B", "in.h5:/A"), 2,
         ["in.h5:/B", "31 x 10", "in.h5:/A", "20 x 31", "input.a", "input.b", "20 x 10",
          "--gemm.transpose-a true", "--gemm.transpose-b true", "10 x 20"]),
        (of("in.h5:/B", "in.h5:/At", "--gemm.transpose-b", "true"), 2,
         ["in.h5:/B", "in.h5:/At", "input.a", "input.b", "20 x 10", "--gemm.transpose-a true",
          "--gemm.transpose-b false", "10 x 20"]),
        (of("in.h5:/A", "in.h5:/A"), 2,
         ["in.h5:/A", "--gemm.transpose-a true", "31 x 31", "--gemm.transpose-b true", "20 x 20"]),
        (of("in.h5:/A", "in.h5:/B", "--gemm.transpose-a", "true"), 2,
         ["in.h5:/A", "in.h5:/B", "--gemm.transpose-a false", "20 x 10"]),
        (of("in.h5:/A", "in.h5:/B", "--gemm.transpose-b", "true"), 2,
         ["in.h5:/A", "in.h5:/B", "--gemm.transpose-b false", "20 x 10"]),
        (["run", "gemm", *good[2:4]], 2, ["input.a", "in.h5:/A", "--input.b"]),
        (["run", "gemm", *good[4:6]], 2, ["input.b", "in.h5:/B", "--input.a"]),
        ([*good, "-o", "c.h5:/C"], 2, ["c.h5:/C", "-o c.h5\n"]),
        ([*good, "--gemm.beta", "0.5"], 2, ["gemm.beta", "input.c"]),
        ([*good, "--gemm.beta", "0.5", "--input.c", f"{folder}/in.h5:/wide"], 2,
         ["input.c", "11", "10"]),
        ([*good, "--gemm.beta", "0.5", "--input.c", f"{folder}/in.h5:/B"], 2,
         ["input.c", "31", "20"]),
        ([*good, "--product.precision", "ten"], 2, ["product.precision", "ten", "fp64"]),
        ([*good, "--gemm.transpose-a=maybe"], 2, ["gemm.transpose-a", "maybe"]),
        ([*good, "--pipeline.gpu-memory", "1KiB"], 2, ["1 KiB", "--pipeline.gpu-memory"]),
        (of("in.h5:/A", "in.h5:/cube"), 2, ["input.b", "in.h5:/cube", 3]),
        (of("in.h5:/texts", "in.h5:/B"), 2, ["in.h5:/texts", "numbers"]),
        (of("in.h5:/AA", "in.h5:/B"), 2, ["'/AA'"]),
        (of("none.h5:/A", "in.h5:/B"), 2, ["none.h5"]),
        (of("in.h5:/A", "text.h5:/B"), 2, ["text.h5", "HDF5"]),
        (of("result.h5:/results/reduce", "in.h5:/B"), 2, ["result.h5:/results/reduce", "numbers"]),
        (of("in.h5:/A", "in.h5:/B", "-o", folder / "in.h5", "--output.overwrite", "true"), 2,
         [f"'{folder}/in.h5'", "input", "output.file"]),
    ])
    assert (folder / "in.h5").read_bytes() == before


def test_limits_of_int8():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        for dtype, kind in (("f4", "f32"), ("f8", "f64"), ("i4", "i32"), ("i8", "i64"),
                            ("u1", "u8"), ("i1", "i8")):
            file[kind] = whole_numbers(20, 20, dtype)
        file["long"], file["tall"] = np.ones((1, 131072), "i1"), np.ones((131072, 1), "i1")
        file["C"], file["large"] = whole_numbers(20, 20, "i4"), np.full((20, 20), 300.0)

    def of(a, b, *more):
        return ["run", "gemm", "--input.a", f"{folder}/in.h5:/{a}", "--input.b",
                f"{folder}/in.h5:/{b}", "--product.precision", "int8", *more]

    safe = {"f32": "fp32", "u8": "fp32", "f64": "fp64", "i32": "fp64", "i64": "fp64"}
    check_complaints([
        *((of(kind, "i8"), 2, [f"in.h5:/{kind}", f"--product.precision {precision}",
                               "--input.type i8"]) for kind, precision in safe.items()),
        (of("i8", "f64"), 2, ["in.h5:/f64", "--product.precision fp64"]),
        # --input.type i8 with values that do not fit.
        (of("large", "i8", "--input.type", "i8"), 1,
         ["in.h5:/large", 300, "i8", "--product.precision", "fp32", "fp64", "--input.type"]),
        (of("long", "tall"), 2, ["int8", 131072, 131071, "fp32", "fp64"]),
        (of("i8", "i8", "--gemm.alpha", 2), 2, ["int8", "alpha", "fp32", "fp64"]),
        (of("i8", "i8", "--gemm.beta", 1, "--input.c", f"{folder}/in.h5:/C"), 2,
         ["int8", "beta"]),
        (["run", "gemm", "--product.precision", "int8", "--gemm.k", 131072], 2,
         ["int8", 131072]),
        (["run", "gemm", "--gemm.m", 9, "--product.precision", "int8", "--input.type", "f32"], 2,
         ["int8", "f32"]),
    ])


skip_without_blas()
main(on_gpu=True)
