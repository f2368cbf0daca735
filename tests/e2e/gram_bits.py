#!/usr/bin/python3
"""`run gram` gives the same bits for any number of ranks, any memory and both halves of C."""

import harness
from harness import each, expect_complaint, main, new_folder, run
from products import ON_HOST, check_bits, inputs, min_memory, normal, product, skip_without_blas


def several_tiles():
    """An edge of C that is divided into three tiles, and one that is divided into four."""
    return (1100, 1600) if harness.BACKEND_OF_ONE_RANK == "host" else (8500, 13000)


def test_same_bits_on_the_host():
    """Any number of ranks, any memory and any way of the data, with and without centring."""
    def check(variables, samples, of, more, runs):
        folder = new_folder()
        x = normal(samples, variables) + 1
        files = inputs(folder, data=x if of == "columns" else x.T)
        result = check_bits("gram", [*files, "--gram.of", of, *more], runs, ON_HOST,
                            shallow=samples == 2170)
        assert result.tobytes() == result.T.tobytes()
    pageable, pinned = (("--pipeline.mode", mode) for mode in ("pageable", "pinned"))
    each([(1100, 2170, "columns", ["--gram.center", "true"],
           [(1, 1), (2, 1), (3, 1.4, *pinned), (2, None, *pageable)]),
          (1600, 40, "rows", [], [(2, 1.2), (3, 1), (1, 1.5, *pageable)]),
          (1100, 263, "rows", ["--gram.center", "true", "--gram.scale", "true",
                               "--product.precision", "fp64"], [(2, 1), (3, None)]),
          (1100, 200, "columns", ["--product.precision", "fp32x3"], [(1, 1), (3, 1)]),
          (700, 200, "rows", ["--product.precision", "fp32-int8"], [(3, 1)])], check, workers=2)


def test_same_bits_where_sums_are_split():
    """There are many more samples than variables."""
    folder = new_folder()
    files = inputs(folder, data=normal(17000, 40) + 1)
    check_bits("gram", [*files, "--gram.center", "true"],
               [(ranks, factor, "--product.decomposition", way) for ranks in (2, 3)
                for factor, way in ((None, "rows"), (1, "split-k"))], ON_HOST)
    files = inputs(new_folder(), data=normal(6500, 800) + 1)
    check_bits("gram", [*files, "--gram.center", "true"],
               [(ranks, factor, "--product.box", box) for ranks, factor, box in
                ((4, 1, "2x1x2"), (5, None, "2x1x2"), (6, None, "3x1x2"))], ON_HOST)


def test_same_bits_for_any_memory():
    """On one rank, which uses a GPU if there is one."""
    for edge in several_tiles():
        check_bits("gram", ["--gram.rows", 99, "--gram.columns", edge, "--product.precision",
                            "tf32",
                            "--gram.center", "true"], [(1, 1), (1, 1.5)], None)


def test_the_memory_that_is_named_is_enough():
    def check(workload, rows, columns, *more):
        sizes = ["--gram.rows", rows, "--gram.columns", columns, *more]
        least = min_memory(workload, sizes, 2, ON_HOST)
        cap = ["--pipeline.gpu-memory", f"{least}B", "--output.store", "false"]
        product(workload, new_folder() / "c.h5", *sizes, *cap, ranks=2, env=ON_HOST)
        refused = run("run", workload, *sizes, "--pipeline.gpu-memory", f"{least - 1}B", "-o",
                      new_folder() / "c.h5", ranks=2, env=ON_HOST)
        expect_complaint(refused, 2, [f"--pipeline.gpu-memory {least}B"])
    each([("gram", 50, 900), ("covariance", 9000, 40), ("gram", 40, 1000, "--gram.scale", "true"),
          ("gram", 9000, 40, "--gram.of", "rows", "--gram.divisor", "n")], check)


skip_without_blas()
main(on_gpu=True)
