#!/usr/bin/python3
"""`run gram` compared with numpy in double precision: of columns and rows, centred, scaled and
divided, in every precision, any shapes and stored types; bad input."""

import itertools

import h5py
import numpy as np

import results
from harness import check_complaints, each, expect_words, main, new_folder, run
from products import (FIRST_SAMPLES, FLOATS, ON_HOST, begins_shallow, bytes_of, expect_within,
                      inputs, normal, output_type, product, rounded, skip_without_blas, stored,
                      sum_bound, whole_numbers)

SIZES = [1, 13, 263, 1100]  # the last makes three tiles


def normalization(x, precision, center):
    """Shifts and scales of the columns of x. Shifts are 0 without centring."""
    first = x[:FIRST_SAMPLES].astype("f8")
    mean = (first - first[0]).mean(axis=0)
    apart = first - (first[0] + mean if center else 0)
    largest = np.maximum(np.abs(apart).max(axis=0), 1e-300)
    deviation = largest * np.sqrt(((apart / largest)**2).mean(axis=0))
    exponent = np.frexp(deviation)[1]
    unit = np.ldexp(1.0, exponent - 3)
    shift = first[0] + np.where(deviation > 0, np.rint(mean / unit) * unit, 0) * center
    usual = -6 if precision == "fp16" else 0
    return shift * center, np.where(deviation > 0, np.ldexp(1.0, usual - exponent), 1.0)


def model(x, precision, alpha, center=False, scale=False):
    """C of the variables in the columns of x in float64, and the maximum deviation of each element:
    the sums may be added in another order, and some values may be rounded to a neighbour. Scaled
    elements are between -1 and 1, with ones on the diagonal."""
    k, x = x.shape[0], x.astype("f8")
    unit = {"fp64": 2.0**-53, "int8": 0}.get(precision, 2.0**-23)
    if not (center or scale):
        elements = rounded(x, precision)
        sizes = np.abs(elements)
        values = alpha * (elements.T @ elements)
        bound = alpha * sum_bound(precision, k) * (sizes.T @ sizes)
        return values, bound + 4 * unit * np.abs(values)
    shift, power = normalization(x, precision, center)
    y = (x - shift) * power
    elements = rounded(y, precision)
    unsure = 4 * 2.0**-53 * (np.abs(x) + np.abs(shift)) * power
    if precision != "fp64":  # numpy rounds to float first
        unsure += 2.0**-24 * np.abs(y)
    apart = np.maximum(np.abs(rounded(y + unsure, precision) - elements),
                       np.abs(rounded(y - unsure, precision) - elements))
    sizes = np.abs(elements)
    sums = elements.sum(axis=0) if center else np.zeros(x.shape[1])
    values = elements.T @ elements - np.outer(sums, sums) / k
    bound = (sum_bound(precision, k) * (sizes.T @ sizes) + apart.T @ (sizes + apart) +
             sizes.T @ apart)
    if center:  # the error of a mean times the sum of the other variable
        mean_off = apart.mean(axis=0) + 4 * k * 2.0**-53 * sizes.mean(axis=0)
        total = np.abs(sums) + k * mean_off
        bound = bound + np.outer(mean_off, total) + np.outer(total, mean_off)
    if scale:
        squares = np.diag(values)
        factor = np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        # Deviations are sums of doubles, with errors from rounding to a neighbour.
        off = np.divide(2 * (apart * (sizes + apart)).sum(axis=0) + 8 * k * 2.0**-53 *
                        (sizes**2).sum(axis=0), squares, out=np.zeros_like(squares),
                        where=squares > 0)
        values = values * np.outer(factor, factor)
        bound = bound * np.outer(factor, factor) + np.abs(values) * np.add.outer(off, off)
    else:
        values = alpha * values / np.outer(power, power)
        bound = alpha * bound / np.outer(power, power)
    bound = bound + 4 * unit * np.abs(values)
    if scale:
        values = np.clip(values, -1, 1)
        np.fill_diagonal(values, factor > 0)
        np.fill_diagonal(bound, 0)
    return values, bound


def compare(x, precision="fp32", *more, of="columns", center=False, scale=False, divisor=None,
            ranks=1, exact=False, how=None):
    """Compares gram with the model, for variables that are stored in the columns of x or in
    rows."""
    folder = new_folder()
    samples = x.shape[0]
    options = ["--product.precision", precision]
    if of == "rows":
        options += ["--gram.of", "rows"]
    for name, wanted in (("center", center), ("scale", scale)):
        if wanted:
            options += [f"--gram.{name}", "true"]
    if divisor is not None:
        options += ["--gram.divisor", divisor]
    divisor = divisor or ("n-1" if center or scale else "1")
    alpha = 1 / {"1": 1, "n": samples, "n-1": samples - 1}[divisor]
    finished = product("gram", folder / "c.h5",
                       *inputs(folder, how, data=x if of == "columns" else x.T), *options, *more,
                       ranks=ranks)
    result = stored(folder / "c.h5")
    expected, bound = model(x, precision, alpha, center, scale)
    assert result.dtype == output_type(precision), result.dtype
    expect_within(result, expected, 0 * bound if exact else bound, finished)
    assert result.tobytes() == result.T.tobytes(), f"is not symmetric\n{finished}"
    with h5py.File(folder / "c.h5") as file:  # the table names all outputs
        verdict = file["results"].attrs["verdict"]
        assert ("before the corrections" in verdict) == (center or scale), verdict
        assert ("before the division" in verdict) == (not (center or scale) and alpha != 1), verdict
    assert np.isclose(float(finished.values["c_norm"]), np.linalg.norm(result.astype("f8")),
                      rtol=1e-5), finished
    return finished, result


# ---------------------------------------------------------------- values

def test_the_model_sees_what_is_left_out():
    """Otherwise a program that does not centre or divide could pass. Scaled results do not depend
    on the divisor."""
    x = normal(60, 30, "f8") + 0.5
    for precision in FLOATS:
        ways = {(divisor, center, scale): model(x, precision, 1 / divisor, center, scale)
                for divisor in (59, 60) for center in (False, True) for scale in (False, True)}
        for one, other in itertools.permutations(ways, 2):
            told = (np.abs(ways[one][0] - ways[other][0]) > ways[one][1]).any()
            assert told or (one[1:] == other[1:] and one[2]), (precision, one, other)


def test_small_whole_numbers_are_exact():

    def check(variables, samples, precision, of, ranks):
        compare(whole_numbers(samples, variables), precision, of=of, ranks=ranks, exact=True)
    each([(variables, samples, FLOATS[number % 6], ("columns", "rows")[number // 2 % 2],
           1 + number % 3) for number, (variables, samples) in enumerate(
               itertools.product(SIZES, (1, 13, 263)))], check)


def test_int8_is_exact():
    def check(variables, samples, of, ranks):
        compare(bytes_of(samples, variables), "int8", of=of, ranks=ranks, exact=True)
    each([(13, 1700, "columns", 1), (263, 3001, "rows", 2), (1100, 131, "columns", 3),
          (1, 1, "rows", 1)], check)


def test_each_precision():
    def check(precision, of, center, scale, ranks):
        x = normal(333, 263) * np.arange(1, 264) + np.arange(263)
        finished, result = compare(x.astype("f4"), precision, of=of, center=center, scale=scale,
                                   ranks=ranks)
        if scale:
            assert (np.diag(result) == 1).all() and (np.abs(result) <= 1).all(), result
        assert 0 < float(finished.values["detection_threshold"]) <= 0.01, finished
    ways = itertools.cycle(((False, False), (True, False), (True, True), (False, True)))
    each([(precision, of, *next(ways), 1 + number % 3) for number, (precision, of) in enumerate(
        itertools.product(FLOATS, ("columns", "rows")))], check)


def test_covariance_and_correlation_as_numpy_has_them():
    folder = new_folder()
    x = normal(2170, 263, "f8") @ normal(263, 280, "f8", seed=2) + 17

    def check(name, expected, options, ranks):
        out = folder / f"{name}-{ranks}.h5"
        product("gram", out, *inputs(new_folder(), data=x), "--product.precision", "fp64", *options,
                ranks=ranks)
        assert np.allclose(stored(out), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
        assert begins_shallow(out) or ranks == 1, out  # which may be on a GPU
    covariance = ("covariance", np.cov(x.T), ["--gram.center", "true"])
    each([(*covariance, 1), (*covariance, 2),
          ("population", np.cov(x.T, bias=True), ["--gram.center", "true", "--gram.divisor", "n"],
           1),
          ("correlation", np.corrcoef(x.T), ["--gram.center", "true", "--gram.scale", "true"], 2),
          ("moments", x.T @ x / 2170, ["--gram.divisor", "n"], 2)], check)


def test_divisors():
    def check(divisor, center, scale, samples, precision):
        compare(normal(samples, 40, "f8") + 3, precision, divisor=divisor, center=center,
                scale=scale)
    each([("1", True, False, 50, "fp64"), ("n", True, True, 50, "fp32"),
          ("n-1", False, False, 50, "fp64"), ("n", False, True, 50, "fp64"),
          (None, False, True, 50, "fp32"), ("1", False, True, 50, "fp64"),
          ("n", True, False, 1, "fp64"), ("1", True, True, 1, "fp32"),
          ("n-1", True, True, 2, "fp64")], check)


def test_constant_variables():
    """They have no deviation to divide by, and count as 0. The run reports them."""
    x = normal(70, 20, "f8")
    x[:, 3], x[:, 11] = 0.1, 1e6 / 3

    def check(center, ranks, constant):
        data = x.copy()
        if not center:
            data[:, 3] = 0
        finished, result = compare(data, "fp64", center=center, scale=True, ranks=ranks)
        assert (result[3] == 0).all() and (result[:, 3] == 0).all(), result[3]
        noun = "variable" if constant == 1 else "variables"
        expect_words(finished.err, [f"{constant} {noun}", "constant"], finished)
    each([(True, 1, 2), (True, 3, 2), (False, 2, 1)], check)
    finished, result = compare(x, "fp32", center=True)
    assert (np.diag(result) == 0).tolist() == [v in (3, 11) for v in range(20)], result
    finished, _ = compare(normal(70, 20), center=True, scale=True)
    assert "constant" not in finished.err, finished


def expect_warning_of_transposed_data(finished, of, variables, samples, center):
    """One warning, with the size of C, if centred data have more variables than samples."""
    warns = center and variables > samples
    assert finished.err.count("--gram.of") == warns, finished
    if warns:
        other = {"columns": "rows", "rows": "columns"}[of]
        expect_words(finished.err, [f"{variables} variables", f"{samples} samples", "so C has ",
                                    f"--gram.of {other}"], finished)


def test_correlations_lie_between_ones():
    """Also for linearly dependent variables, whose products round to more than 1; in every
    precision, around the mean or 0, also if C has several tiles."""
    def check(precision, of, center, samples, ranks):
        x = normal(samples, 600, "f8") + 3
        x[:, 200:] = x[:, :200].repeat(2, axis=1) * np.arange(1, 401) * (-1)**np.arange(400)
        x[:, 200] = 7
        finished, result = compare(x, precision, of=of, center=center, scale=True, ranks=ranks)
        expect_warning_of_transposed_data(finished, of, 600, samples, center)
        assert np.abs(result).max() == 1, result
        constant = (np.arange(600) == 200) & center
        assert (np.diag(result) == ~constant).all(), np.diag(result)
        assert np.isclose(result[300, 301], -1, atol=1e-2), result[300, 301]
    each([(precision, ("columns", "rows")[number % 2], number % 3 < 2, 61 + 1000 * (number == 1),
           1 + number % 3) for number, precision in enumerate(FLOATS)], check)


def test_deviations_whose_squares_doubles_do_not_hold():
    """Their correlations are as accurate as usual. Their covariances overflow or underflow."""
    x = normal(60, 5, "f8")
    expected = np.corrcoef(x.T)
    x[:, 2] *= 1e200
    x[:, 3] *= 1e-200

    def check(precision):
        _, result = compare(x, precision, center=True, scale=True)
        assert np.allclose(result, expected, atol=0.02), result
    each([(precision,) for precision in FLOATS], check)
    _, result = compare(x[:, [0, 3]], "fp64", center=True)
    assert result[1, 1] == 0 < abs(result[0, 1]), result


def test_nan_stays_in_its_variable():
    folder = new_folder()
    x = normal(50, 12, "f8")
    x[7, 4] = np.nan
    finished = run("run", "gram", *inputs(folder, data=x), "--gram.center", "true",
                   "--product.precision", "fp64", "-o", folder / "c.h5").expect(0)
    result, others = stored(folder / "c.h5"), np.arange(12) != 4
    assert np.isnan(result[4]).all() and np.isnan(result[:, 4]).all(), result
    expected = np.cov(x[:, others].T)
    assert np.allclose(result[np.ix_(others, others)], expected, rtol=1e-12, atol=1e-14), finished
    assert finished.values["c_norm"] == "nan", finished
    assert finished.values["verified"] == "unchecked", finished


# ---------------------------------------------------------------- how it is stored

def test_stored_types():
    def check(stored_as, precision, of, center, ranks):
        compare(whole_numbers(150, 131, stored_as), precision, of=of, center=center, ranks=ranks,
                exact=not center)
    each([("i4", "fp64", "columns", False, 1), ("i4", "fp32", "rows", True, 2),
          ("f8", "fp32", "columns", True, 2), ("f8", "bf16", "rows", False, 1),
          (">f8", "fp64", "rows", True, 1), (">f4", "fp32", "columns", False, 1),
          (">i4", "fp32", "columns", True, 3), ("i2", "fp16", "rows", False, 3),
          ("u1", "tf32", "columns", True, 1), ("u1", "fp32x3", "rows", True, 2),
          ("i1", "int8", "columns", False, 1), ("i8", "fp64", "rows", True, 1),
          ("f4", "fp32-int8", "rows", True, 2), ("i8", "fp64-int8", "columns", False, 1)], check)


def test_chunked_and_compressed():
    def check(how, of, center, ranks):
        compare(whole_numbers(263, 150), of=of, center=center, ranks=ranks, how=how,
                exact=not center)
    each([({"chunks": (50, 70)}, "columns", False, 1),
          ({"chunks": (50, 70), "compression": "gzip"}, "rows", True, 2),
          ({"chunks": (1, 40), "compression": "gzip", "shuffle": True}, "columns", True, 3),
          ({"chunks": (99, 9), "fletcher32": True}, "rows", False, 1)], check)


def test_first_rows():
    """input.rows takes the first samples, or with gram.of rows the first variables."""
    x = whole_numbers(263, 40)
    for how in (None, {"chunks": (50, 30)}):
        folder = new_folder()
        files = inputs(folder, how, data=x)
        product("gram", folder / "columns.h5", *files, "--input.rows", 101, ranks=2)
        assert np.array_equal(stored(folder / "columns.h5"), x[:101].T @ x[:101])
        product("gram", folder / "rows.h5", *files, "--input.rows", 101, "--gram.of", "rows")
        assert np.array_equal(stored(folder / "rows.h5"), x[:101] @ x[:101].T)


def test_a_data_set_of_one_dimension():
    """It is a column: one variable, or one sample of many variables."""
    folder = new_folder()
    x = whole_numbers(263, 1)[:, 0]
    files = inputs(folder, data=x)
    product("gram", folder / "columns.h5", *files)
    assert stored(folder / "columns.h5").tolist() == [[x @ x]]
    product("gram", folder / "rows.h5", *files, "--gram.of", "rows", ranks=2)
    assert np.array_equal(stored(folder / "rows.h5"), np.outer(x, x))


def test_not_stored():
    """Without C in the file, checksum and norm are the same, with or without mirrored tiles;
    generated data."""
    folder = new_folder()
    size = ["--gram.rows", 150, "--gram.columns", 1700, "--gram.center", "true"]
    first = product("gram", folder / "stored.h5", *size, env=ON_HOST)
    assert stored(folder / "stored.h5").shape == (1700, 1700)

    def check(ranks, *more):
        out = new_folder() / "out.h5"
        finished = product("gram", out, *size, "--output.store", "false", *more, ranks=ranks,
                           env=ON_HOST)
        for key in ("c_checksum", "c_norm"):
            assert finished.values[key] == first.values[key], f"{finished}\nis not\n{first}"
        with h5py.File(out) as file:
            assert file.attrs["status"] == "complete"
            assert "C" not in file.get("/results", {}), list(file["/results"])
    each([(1,), (2,), (3,), (2, "--pipeline.mode", "pageable")], check)


# ---------------------------------------------------------------- bad input

def test_resolved_options():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = whole_numbers(20, 31, "f8")

    def check(ranks, options, expected):
        out = folder / f"{'-'.join(options.values())}.h5"
        run("run", "gram", "--input.data", f"{folder}/in.h5:/x", "-o", out,
            *itertools.chain(*options.items()), ranks=ranks).expect(0)
        found = results.resolved(out, "gram")
        for key, value in {"input.type": "f64", "input.read": "cached", **expected}.items():
            assert found[key] == value, (key, found)
    each([
        (1, {"--gram.center": "false"}, {"gram.divisor": "1", "product.decomposition": "rows"}),
        (2, {"--gram.center": "true"}, {"gram.divisor": "n-1", "product.decomposition": "rows"}),
        (1, {"--gram.scale": "true", "--gram.divisor": "n"}, {"gram.divisor": "n"})], check)


def test_other_options():
    folder = new_folder()
    files = inputs(folder, data=whole_numbers(5, 6), b=whole_numbers(6, 7))
    gram, gemm = ["run", "gram", *files[:2]], ["run", "gemm", *files]
    check_complaints([
        ([*gemm, "--gram.center", "true"], 2, ["--gram.center", "gemm", "gram"]),
        ([*gram, "--gemm.alpha", 2], 2, ["--gemm.alpha", "gram", "gemm"]),
        ([*gram, "--gemm.k", 6], 2, ["--gemm.k", "gram", "gemm"]),
        ([*gram, "--gemm.transpose-a", "true"], 2, ["--gemm.transpose-a", "gram", "gemm"]),
        ([*gram, *files[2:]], 2, ["--input.b", "gram", "gemm"]),
        ([*gram, "--reduce.ops", "sum"], 2, ["--reduce.ops", "gram", "reduce"]),
        (["run", "reduce", "--input.count", 9, "--gram.scale", "true"], 2,
         ["--gram.scale", "reduce", "gram"]),
        ([*gram, "--gram.rows", 5], 2, ["gram.rows", "input.data"]),
        ([*gram, "--gram.columns", 6], 2, ["gram.columns", "input.data"]),
        ([*gram, "--pipeline.mode", "resident"], 2, ["--pipeline.mode stream"]),
    ])
    run(*gram, "-o", folder / "c.h5", env={"SHARDSTREAM_GRAM_ROWS": "9",
                                           "SHARDSTREAM_GEMM_ALPHA": "2"}).expect(0)


def test_a_field_is_a_matrix_of_one_dimension_and_all_others():
    folder = new_folder()
    field = whole_numbers(12 * 5, 14).reshape(12, 5, 14)
    layouts = {"contiguous": {}, "chunked": {"chunks": (5, 2, 4), "compression": "gzip"}}
    with h5py.File(folder / "in.h5", "w") as file:
        for name, layout in layouts.items():
            file.create_dataset(name, data=field, **layout)
            file[name].dims[1].label = "lat"
    cases = {(): (field.reshape(12, -1), ""), ("--gram.of", "rows"): (field.reshape(12, -1).T, ""),
             ("--gram.samples", "lat"): (np.moveaxis(field, 1, 0).reshape(5, -1), ""),
             ("--gram.samples", 2): (field.reshape(-1, 14).T, ""),
             ("--gram.samples", 1): (np.moveaxis(field[2:11:3, :4, ::2], 1, 0).reshape(4, -1),
                                     "[2:11:3, :4, ::2]")}

    def check(name, options, samples, selection, ranks):
        out = new_folder() / "c.h5"
        product("gram", out, "--input.data", f"{folder}/in.h5:/{name}{selection}", *options,
                ranks=ranks)
        assert np.array_equal(stored(out), samples.T @ samples), (name, options)
    each([(name, options, *case, 1 + number % 2) for name in layouts
          for number, (options, case) in enumerate(cases.items())], check)


def test_bad_input():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"], file["sample"] = whole_numbers(20, 31), whole_numbers(1, 31)
        file["cube"], file["texts"] = np.zeros((3, 4, 5)), np.array([[b"one", b"two"]])
        file["small"], file["long"] = bytes_of(20, 31), bytes_of(131072, 1)
    before = (folder / "in.h5").read_bytes()

    def of(name, *more):
        return ["run", "gram", "--input.data", f"{folder}/in.h5:/{name}", *more]

    check_complaints([
        (of("sample", "--gram.center", "true"), 2,
         ["in.h5:/sample", "1 x 31", "--gram.divisor", "n or 1"]),
        (of("sample", "--gram.divisor", "n-1"), 2,
         ["in.h5:/sample", "1 x 31", "--gram.divisor", "n or 1"]),
        (of("x", "--product.decomposition", "grid"), 2, ["grid", "gram", "rows", "split-k"]),
        (of("x", "--product.box", "1x1x1", "--product.decomposition", "split-k"), 2,
         ["--product.box", "1x1x1", "--product.decomposition", "split-k"]),
        (of("small", "--product.precision", "int8", "--gram.center", "true"), 2,
         ["int8", "centring", "fp32"]),
        (of("small", "--product.precision", "int8", "--gram.scale", "true"), 2, ["int8",
                                                                                 "scaling"]),
        (of("small", "--product.precision", "int8", "--gram.divisor", "n"), 2, ["int8",
                                                                                "divisors"]),
        (of("x", "--product.precision", "int8"), 2,
         ["in.h5:/x", "f32", "--product.precision fp32"]),
        (of("long", "--product.precision", "int8"), 2, [131072, 131071, "fp32", "fp64"]),
        (of("x", "--gram.of", "diagonals"), 2, ["gram.of", "diagonals", "columns"]),
        (of("x", "--gram.divisor", "2"), 2, ["gram.divisor", 2, "n-1"]),
        (of("x", "--pipeline.gpu-memory", "1KiB"), 2, ["1 KiB", "--pipeline.gpu-memory"]),
        (of("cube", "--gram.samples", "depth"), 2,
         ["input.data", "in.h5:/cube", "'depth'", "0, 1, 2"]),
        (of("cube[0]", "--gram.samples", "0"), 2, ["in.h5:/cube[0", "'0'", "1, 2"]),
        (of("cube", "--gram.samples", "0", "--gram.of", "rows"), 2, ["gram.samples", "gram.of"]),
        (of("texts"), 2, ["in.h5:/texts", "numbers"]),
        (of("xx"), 2, ["'/xx'"]),
        (["run", "gram", "--gram.rows", 0], 2, ["gram.rows"]),
        (["run", "gram", "--gram.columns", "2^40"], 2, ["C", 2**40, "2^63"]),
        (of("x", "-o", folder / "in.h5", "--output.overwrite", "true"), 2,
         [f"'{folder}/in.h5'", "input", "output.file"]),
    ])
    check_complaints([(of("x", "--product.decomposition", "split-k"), 2,
                       ["product.decomposition", "split-k"])], ranks=(2, 3))
    assert (folder / "in.h5").read_bytes() == before


skip_without_blas()
main(on_gpu=True)
