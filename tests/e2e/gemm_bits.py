#!/usr/bin/python3
"""C of `run gemm` has the same bits for any number of ranks, any memory, any place of the data and
any decomposition, in each precision; and the result names the decomposition."""

import h5py
import numpy as np

import harness
from harness import check_complaints, each, expect_warning, expect_words, main, new_folder, run
from products import (FLOATS, ON_HOST, bytes_of, check_bits, inputs, model, normal, product,
                      skip_without_blas)


def several_tiles():
    """An edge that is divided into several tiles, and a depth that is divided into several blocks
    of K."""
    return (1100, 2100) if harness.BACKEND_OF_ONE_RANK == "host" else (4200, 4200)


def test_same_bits_on_the_host():
    folder = new_folder()
    m, n, k = 1100, 611, 2170
    a, b, c = normal(k, m), normal(k, n), normal(m, n)
    arguments = [*inputs(folder, a=a, b=b, c=c), "--gemm.transpose-a", "true", "--gemm.beta", 0.5,
                 "--product.precision", "fp32"]
    result = check_bits("gemm", arguments, [(1, 1), (2, 1), (2, None), (3, 1.5)], ON_HOST,
                        shallow=True)
    values, bound = model(a.T, b, "fp32", 1.0, 0.5, c)
    assert (np.abs(result - values) <= bound).all()


def test_same_bits_in_each_precision():
    """test_same_bits_in_each_box has the other precisions."""
    folder = new_folder()
    floats = inputs(folder, a=normal(1100, 300, "f8"), b=normal(300, 263, "f8"))
    whole = inputs(new_folder(), a=bytes_of(1100, 300), b=bytes_of(300, 263))

    def check(precision):
        files = whole if precision == "int8" else floats
        check_bits("gemm", [*files, "--product.precision", precision], [(3, 1)], ON_HOST)
    others = {precision for precision, *_ in BOXES}
    each([(precision,) for precision in [*FLOATS, "int8"] if precision not in others], check,
         workers=2)


def test_same_bits_for_any_memory():
    """On one rank, which uses a GPU if there is one."""
    edge, depth = several_tiles()
    check_bits("gemm", ["--gemm.m", edge, "--gemm.n", edge + 13, "--gemm.k", depth,
                        "--product.precision", "tf32"],
               [(1, 1), (1, 1.5, "--pipeline.mode", "pinned")], None)


def test_same_bits_in_each_decomposition():
    """C has several tiles in each direction; four ranks form a grid of two by two."""
    folder = new_folder()
    a, b = normal(1100, 2170), normal(1050, 2170)
    files = inputs(folder, a=a, b=b)
    arguments = [*files, "--gemm.transpose-b", "true", "--product.precision", "fp32"]
    runs = [(ranks, factor, "--product.decomposition", way) for ranks, factor, way in
            ((2, 1, "grid"), (3, 1.2, "grid"), (3, 1, "rows"), (4, 1, "grid"), (4, None, "grid"),
             (4, 1.5, "rows"))]
    result = check_bits("gemm", arguments, runs, ON_HOST, shallow=True)
    values, bound = model(a, b.T, "fp32")
    assert (np.abs(result - values) <= bound).all()


def test_same_bits_where_sums_are_split():
    """For tall and skinny operands, K has segments, which every decomposition adds in the same
    order. In the first precision, for all decompositions; in the others for some."""
    def check(precision, m, n, k, transposes, runs):
        a, b = ((bytes_of if precision == "int8" else normal)(*shape, seed=seed)
                for shape, seed in (((m, k), 1), ((k, n), 2)))
        ways = [word for name in transposes for word in (f"--gemm.transpose-{name}", "true")]
        files = inputs(new_folder(), a=a.T if "a" in transposes else a,
                       b=b.T if "b" in transposes else b)
        result = check_bits("gemm", [*files, *ways, "--product.precision", precision], runs,
                            ON_HOST)
        values, bound = model(a, b, precision)
        assert (np.abs(result - values) <= bound).all()
    way, box = "--product.decomposition", "--product.box"
    some = [(3, 1, way, "split-k"), (2, 1, way, "rows"), (4, 1.2, box, "2x1x2")]
    runs = [(1, 1, way, "split-k"), (2, 1, way, "split-k"), (3, None, way, "split-k"),
            (3, 1, way, "rows"), (4, 1.5, way, "split-k"), (4, 1, way, "grid"),
            (4, None, box, "2x1x2"), (4, 1.2, box, "1x2x2"), (3, None, "--pipeline.mode", "pinned")]
    each([("fp32", 40, 30, 17000, "a", runs), ("fp64", 800, 20, 8200, "", some),
          ("int8", 13, 50, 9001, "b", some), ("fp32x3", 30, 40, 9000, "ab", some),
          ("fp64-int8", 30, 40, 17000, "b", some)], check, workers=2)


# Cases of (precision, m, n, k, [(ranks, factor of the minimum memory, box)])
BOXES = [("fp32", 800, 70, 6500, [(6, 1, "3x1x2"), (5, None, "2x1x2"), (4, 1.5, "1x1x4")]),
         ("fp64", 40, 400, 6500, [(4, None, "1x2x2"), (6, 1, "1x3x2"), (2, 1, "1x1x1")]),
         ("fp32x3", 400, 390, 6500, [(4, 1, "2x1x2"), (6, None, "1x2x3"), (6, 1, "2x2x1")])]


def test_same_bits_in_each_box():
    """C has several tiles in each direction, or few rows, or few columns; some ranks are idle."""
    def check(precision, m, n, k, boxes):
        a, b = normal(m, k), normal(k, n)
        files = inputs(new_folder(), a=a, b=b)
        runs = [(ranks, factor, "--product.box", box) for ranks, factor, box in boxes]
        result = check_bits("gemm", [*files, "--product.precision", precision], runs, ON_HOST)
        values, bound = model(a, b, precision)
        assert (np.abs(result - values) <= bound).all()
    each(BOXES, check, workers=2)


def test_same_bits_from_host_memory():
    """C is the same from each kind of host memory as from the default place, for any layout of a
    rank's parts, and elements that become shorter, longer or stay the same."""
    folder = new_folder()
    size = ["--gemm.m", 400, "--gemm.n", 263, "--gemm.k", 2100, "--output.store", "false"]

    def check(ranks, precision, *transposes):
        ways = [f"--gemm.transpose-{which}=true" for which in transposes]
        ways += ["--product.precision", precision, "--input.type", "f32"]
        name = f"{ranks}{''.join(transposes)}"
        modes = ["stream", "pageable", "pinned", *(["write-combined"] if ranks == 1 else [])]
        runs = [product("gemm", folder / f"{name}-{mode}.h5", *size, *ways, "--pipeline.mode", mode,
                        ranks=ranks, env=ON_HOST) for mode in modes]
        sums = {finished.values["c_checksum"] for finished in runs}
        assert len(sums) == 1, "\n".join(map(str, runs))
    each([(1, "bf16", "a", "b"), (3, "fp32"), (3, "fp64", "a"), (3, "bf16", "b")], check)


def test_bad_numbers_of_planes():
    check_complaints([
        (["run", "gemm", "--gemm.m", 9, "--product.precision", "fp64", "--product.planes", 9], 2,
         ["product.planes", "fp64-int8"]),
        (["run", "gemm", "--product.precision", "fp64-int8", "--product.planes", 3], 2,
         ["product.planes", 4, 16])])


def plan_of(*arguments, ranks, warning=()):
    """The plan in the result of a run with these options, which must give no other warning."""
    out = new_folder() / "c.h5"
    finished = product("gemm", out, *arguments, ranks=ranks, env=ON_HOST)
    if warning:
        expect_warning(finished, warning)
    assert finished.err.count("\n") == bool(warning), finished
    with h5py.File(out) as file:
        return file["results"].attrs["plan"]


def test_the_plan_names_the_box():
    sizes = ["--gemm.m", 384, "--gemm.n", 70, "--gemm.k", 13000]
    expect_words(plan_of(*sizes, "--product.box", "2x1x2", ranks=5,
                         warning=["rank 0", "1 of 5 ranks", "rank 4", "product.box", "2x1x2",
                                  "4 ranks"]),
                 ["decomposition: split-k 2 x 1 x 2", "product.box", "1 of 5 ranks idle", "3 x 1"])
    # The only box of two ranks that splits K.
    expect_words(plan_of(*sizes, "--product.decomposition", "split-k", ranks=2),
                 ["decomposition: split-k 1 x 1 x 2", "product.decomposition"])
    # Three tiles and four segments on six ranks: each has one tile and two segments. A run selects
    # the box from measured rates, which vary on a busy machine; a dry run assumes them.
    dry = run("run", "gemm", *sizes, "--product.decomposition", "split-k", "--dry-run",
              "--ranks", 6, env=ON_HOST).expect(0)
    expect_words(dry.out, ["decomposition: split-k 3 x 1 x 2", "product.decomposition"])


def test_the_result_names_the_decomposition():
    """The result and standard output name the requested decomposition, or the one that was
    selected."""
    deep, flat = [["--gemm.m", edge, "--gemm.n", edge, "--gemm.k", k]
                  for edge, k in ((20, 9000), (300, 40))]

    def check(sizes, ranks, way, told):
        out = new_folder() / "c.h5"
        finished = product("gemm", out, *sizes, "--product.decomposition", way, ranks=ranks,
                           env=ON_HOST)
        assert finished.values["decomposition"] in told, finished
        with h5py.File(out) as file:
            results = file["results"].attrs
            assert results["decomposition"] == finished.values["decomposition"]
            assert f"decomposition: {finished.values['decomposition']}" in results["plan"]
    each([(deep, 2, "split-k", ["split-k"]), (deep, 2, "rows", ["rows"]),
          (deep, 2, "auto", ["split-k", "rows"]), (flat, 2, "auto", ["rows"]),
          (flat, 4, "grid", ["grid"]), (flat, 1, "auto", ["rows"]),
          (deep, 1, "split-k", ["rows"])], check)
    check_complaints([
        (["run", "gemm", *flat, "--product.decomposition", "split-k"], 2,
         ["product.decomposition", "split-k", "rows", "grid"]),
        (["run", "gemm", "--gemm.m", 20, "--gemm.n", 20, "--gemm.k", 4100, "--product.box",
          "1x1x3"],
         2, ["product.box", "1x1x3", 3, "2 segments"]),
        (["run", "gemm", *flat, "--product.box", "2x1x2"], 2, ["product.box", "2x1x2", 4, 3]),
        *((["run", "gemm", *flat, "--product.box", box], 2, ["product.box", wrong, "2x1x4"])
          for box, wrong in (("2x2", "2x2"), ("2x0x1", "2x0x1"), ("2x1xmany", "many"))),
        (["run", "gemm", *flat, "--product.decomposition", "diagonal"], 2,
         ["product.decomposition", "diagonal", "split-k"]),
    ], ranks=(3,))


skip_without_blas()
main(on_gpu=True)
