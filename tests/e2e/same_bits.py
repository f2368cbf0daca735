#!/usr/bin/python3
"""A result only depends on the data: the same bits, exact texts and positions for any number of
ranks, any sizes of batches and slots, any readers and modes, from a file or a generator."""

import itertools

import h5py
import numpy as np

import model
import results
from harness import LEAF, TYPES, each, main, new_folder, reduce, run

RANDOM = np.random.default_rng(4)
MODES = ["stream", "pageable", "pinned", "mapped", "resident"]


def schedules(element, many):
    """(ranks, options): every number of ranks in every mode (or, without `many`, in two of them),
    each with other sizes, including the smallest ones."""
    leaf = LEAF * element
    sizes = itertools.cycle([
        {},
        {"batch": leaf, "batches": 1, "slot": leaf, "slots": 1, "readers": 1},
        {"batch": 3 * leaf, "batches": 2, "slot": leaf, "slots": 2, "readers": 3},
        {"batch": 2 * leaf, "batches": 3, "slot": 2 * leaf, "slots": 5, "readers": 2},
        {"batch": 5 * leaf - 1, "batches": 64, "slot": 3 * leaf, "slots": 1, "readers": 4},
        {"batch": 1, "batches": 2, "slot": 1, "slots": 16, "readers": 8},
        {"batch": "1GiB", "batches": 4, "slot": "1GiB", "slots": 3, "readers": 7},
    ])
    for (ranks, mode), size in zip(itertools.product([1, 2, 3, 4], MODES), sizes):
        if many or (ranks + MODES.index(mode)) % 2 == 0:
            yield ranks, {"mode": mode, **size}
    yield 3, {"mode": "stream", "batch": 4 * leaf, "slot": leaf, "readers": 2, "repeat": 3}


def as_arguments(options):
    for name, value in options.items():
        yield f"--{'measure' if name == 'repeat' else 'pipeline'}.{name}"
        yield value


def check_schedules(source, element, many):
    """Checks that all schedules give the same result, and returns it."""
    folder = new_folder()

    def check(number, ranks, options):
        path = folder / f"{number}.h5"
        reduce(source, path, *as_arguments(options), ranks=ranks)
        bits = results.bits(path)
        assert bits == first, f"{bits}\nis not what one rank had with the defaults:\n{first}"

    reduce(source, folder / "first.h5")
    first = results.bits(folder / "first.h5")
    each([(number, *schedule) for number, schedule in enumerate(schedules(element, many))],
         check)
    return folder / "first.h5"


def values_of(name, count):
    """Values of many magnitudes, so that another order of additions changes the sum. The maximum
    occurs several times."""
    dtype = np.dtype(TYPES[name])
    if dtype.kind == "f":
        magnitudes = 10.0**RANDOM.integers(-12, 12, count)
        values = (RANDOM.standard_normal(count) * magnitudes).astype(dtype)
        values[RANDOM.integers(0, count, 9)] = values.max()
    else:
        limits = np.iinfo(dtype)
        values = RANDOM.integers(limits.min, limits.max, count, dtype, endpoint=True)
    return values


def test_order_shows():
    """The data would detect a program that adds in another order."""
    values = values_of("f32", 5 * LEAF)
    totals = [model.Total(order, np.zeros(len(order), bool))
              for order in (values, values[::-1], np.roll(values, 1))]
    assert len({(each.total, each.squares) for each in totals}) == 3


def check_file(name, leaves, rest, chunks=None, many=False):
    values = values_of(name, leaves * LEAF + rest)
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunks)
    first = check_schedules(folder / "in.h5", values.itemsize, many)
    expected = model.reduce(values, chunks)
    for op, row in results.stored_reduce(first).items():
        value = expected[op][0]
        assert results.same(row["exact"], value.item() if op in ("min", "max") and
                            values.dtype.kind in "iu" else value), (op, row, value)


def test_f32():
    check_file("f32", 9, 12345, many=True)


def test_f64():
    check_file("f64", 7, 1)


def test_i32():
    check_file("i32", 3, LEAF - 1, (50000,))


def test_i64():
    check_file("i64", 10, 257)


def test_i8():
    check_file("i8", 4, 1)


def test_u8():
    check_file("u8", 8, 0)


def test_operations_together():
    """Operations of a row, of cells and order statistics share the shards of a run. Each has the
    same bits with any others, on any number of ranks."""
    folder = new_folder()
    sets = ["mean,skewness", "min,argmin", "count,median,l2", "variance,kurtosis,quantile(0.1)"]
    shapes = [(300, 300), (31, 45, 90), (LEAF + 1,)]
    for number, shape in enumerate(shapes):
        results.write(RANDOM.normal(3, 10, shape), folder / f"{number}.h5")

    def bits(number, ops, ranks):
        out = new_folder() / "out.h5"
        reduce(folder / f"{number}.h5", out, "--reduce.ops", ops, ranks=ranks)
        return results.bits(out)

    def check(number, ops, ranks):
        found = bits(number, ops, ranks)
        assert len(found) == len(ops.split(",")), found
        assert set(found) <= alone[number], (found, alone[number])
    alone = []
    for number in range(len(shapes)):
        kinds = ["count,mean,variance,min", "skewness,argmin,l2,kurtosis", "median,quantile(0.1)"]
        alone.append({row for ops in kinds for row in bits(number, ops, 1)})
    each([(number, ops, 2 + (number + position) % 2) for number in range(len(shapes))
          for position, ops in enumerate(sets)], check)


def test_generators_and_their_files():
    """`generate` and then `reduce` gives the same as `reduce` of the generator."""
    count = 4 * LEAF + 99

    def check(generator, name, ranks):
        folder = new_folder()
        what = ["--input.data", generator, "--input.type", name, "--input.count", count,
                "--input.seed", 7]
        run("generate", *what, "-o", f"{folder}/data.h5:/x", ranks=ranks).expect(0)
        run("run", "reduce", *what, "-o", folder / "generator.h5", ranks=4 - ranks).expect(0)
        reduce(folder / "data.h5", folder / "file.h5", ranks=ranks)
        assert results.bits(folder / "generator.h5") == results.bits(folder / "file.h5")
    each([("uniform", name, 1 + number % 3) for number, name in enumerate(TYPES)] +
         [("ramp", "f32", 3)], check)


main(on_gpu=True)
