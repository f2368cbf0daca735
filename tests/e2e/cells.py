#!/usr/bin/python3
"""`run reduce` along dimensions (reduce.over) is compared with numpy in extended precision
(cell_statistics.py): shapes, dimensions, types, layouts, selections, joined files, missing
values."""

import itertools

import h5py
import numpy as np

from cell_runs import SMALL, check, draw, holes, over, write
from cell_statistics import OPS, Expected, stored
from harness import TYPES, each, expect_words, main, new_folder, reduce, run
from results import seeded


def subsets(dimensions):
    """All subsets of dimensions except the empty one."""
    return [axes for count in range(1, dimensions + 1)
            for axes in itertools.combinations(range(dimensions), count)]


# ---------------------------------------------------------------- values

SHAPES = [(1009,), (1,), (37, 53), (1, 211), (211, 1), (13, 17, 19), (7, 1, 31), (5, 6, 7, 11),
          (3, 4, 5, 2, 7)]
LAYOUTS = [lambda shape: {}, lambda shape: {"chunks": tuple(-(-n * 2 // 5) for n in shape)},
           lambda shape: {"chunks": (1, *shape[1:]), "compression": "gzip"},
           lambda shape: {"chunks": tuple(min(n, 3) for n in shape), "compression": "gzip",
                          "shuffle": True},
           lambda shape: {"chunks": (*shape[:-1], 1), "compression": "gzip"}]


def test_every_subset_of_dimensions():
    """Types, layouts, ranks and sizes of batches take turns, so that each occurs with each."""
    cases = [(shape, axes) for shape in SHAPES for axes in subsets(len(shape))]
    turns = zip(cases, itertools.cycle(TYPES), itertools.cycle(LAYOUTS), itertools.cycle((1, 2, 1)),
                itertools.cycle((SMALL, (), (), ("--pipeline.mode", "resident"))))

    def one(shape, axes, name, layout, ranks, options):
        array = draw(shape, TYPES[name])
        check(array, axes, write(new_folder(), array, **layout(shape)), *options, ranks=ranks)
    each([(*case, name, layout, ranks, options) for case, name, layout, ranks, options in turns],
         one)


def test_every_type_and_divisor():
    array = draw((97, 41, 53), "f8")

    def one(name, axes, ddof, ranks):
        values = draw(array.shape, TYPES[name])
        check(values, axes, write(new_folder(), values, chunks=(5, 41, 8)), "--reduce.ddof", ddof,
              ranks=ranks, ddof=ddof)
    each([(name, axes, ddof, 1 + number % 3) for number, (name, (axes, ddof)) in enumerate(
        itertools.product(TYPES, (((0,), 1), ((1, 2), 5))))], one)


def test_long_dimensions():
    """More than 65 536 elements along one dimension: reduced or kept, the first or the last."""
    def one(shape, axes, name, ranks, layout):
        array = draw(shape, TYPES[name])
        check(array, axes, write(new_folder(), array, **layout), ranks=ranks)
    each([((70_001, 3), (0,), "f32", 2, {"chunks": (9_000, 2)}),
          ((70_001, 3), (1,), "f32", 1, {"chunks": (9_000, 2), "compression": "gzip"}),
          ((3, 70_001), (0,), "i32", 3, {}), ((3, 70_001), (1,), "f64", 2, {}),
          ((2, 70_001, 2), (1,), "i8", 2, {"chunks": (1, 30_000, 2)}),
          ((2, 70_001, 2), (0, 2), "u8", 1, {}), ((131_073,), (0,), "f64", 3, {})], one)


def test_extreme_integers():
    """Extremes of a type, whose sums fit into 64 bits and whose range does not."""
    def one(name, axes, ranks):
        limits = np.iinfo(TYPES[name])
        array = np.zeros((40, 11), TYPES[name])
        if name == "u64":
            array[seeded(name).permutation(40)[:11], np.arange(11)] = limits.max
        else:
            array[::2], array[1::2] = limits.max, limits.min
        array = array if axes == (0,) else np.ascontiguousarray(array.T)
        check(array, axes, write(new_folder(), array, chunks=(7, 4)), ranks=ranks)
    each([("i64", (0,), 2), ("u64", (0,), 3), ("u64", (1,), 1), ("i64", (1,), 2),
          ("i8", (0,), 1), ("i32", (1,), 3)], one)


def test_sums_beyond_64_bits_are_no_results():
    array = np.full((9, 4), 2**62, "i8")
    array[:, 1] = 1
    finished = run("run", "reduce", "--input.data", write(new_folder(), array), *over((0,)), "-o",
                   new_folder() / "out.h5", ranks=2)
    assert finished.code != 0 or finished.values["verified"] != "true", finished
    expect_words(finished.err, ["sum", "--input.type f64"])


def test_offsets_cost_few_digits():
    """Of a mean that is 10^8 times the deviation. Constant cells have the variance 0."""
    array = 1e8 + draw((501, 12), "f8") / 10
    array[:, 4] = 1e8 / 3
    folder = new_folder()
    finished = reduce(write(folder, array), folder / "out.h5", *over((0,)), ranks=2)
    found = stored(folder / "out.h5")
    Expected(array, (0,)).check(found, told=str(finished))
    assert found["variance"][4] == 0 and found["range"][4] == 0, finished


def test_infinities():
    """An infinity in a cell does not affect other cells."""
    array = draw((60, 8), "f4")
    array[7, 1], array[9, 2], array[3, 5], array[4, 5] = np.inf, -np.inf, np.inf, -np.inf
    folder = new_folder()
    reduce(write(folder, array), folder / "out.h5", *over((0,)), ranks=2)
    found = stored(folder / "out.h5")
    for op, wanted in (("max", [np.inf, array[:, 2].max(), np.inf]),
                       ("min", [array[:, 1].min(), -np.inf, -np.inf]),
                       ("mean", [np.inf, -np.inf, np.nan]), ("sum", [np.inf, -np.inf, np.nan])):
        assert np.array_equal(found[op][[1, 2, 5]], wanted, equal_nan=True), (op, found[op])
    finite = [0, 3, 4, 6, 7]
    Expected(array[:, finite], (0,)).check({op: found[op][finite] for op in OPS})


# ---------------------------------------------------------------- the parts of the data

def test_selections():
    """Numbers of dimensions are those in the file. Indices of extremes are those of the
    selection."""
    shape = (24, 18, 20)
    array = draw(shape, "f4")
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["plain"] = array
        file.create_dataset("chunked", data=array, chunks=(5, 7, 20), compression="gzip")
    cases = [("[::2]", np.s_[::2], (0,), (0,)), ("[::2]", np.s_[::2], (0, 2), (0, 2)),
             ("[3:20, :, 1::3]", np.s_[3:20, :, 1::3], (1,), (1,)),
             ("[:, 5]", np.s_[:, 5], (0,), (0,)), ("[:, 5]", np.s_[:, 5], (2,), (1,)),
             ("[7]", np.s_[7], (1,), (0,)), ("[..., 4]", np.s_[..., 4], (0, 1), (0, 1)),
             ("[2:3, 1:17:5]", np.s_[2:3, 1:17:5], (1, 2), (1, 2))]

    def one(layout, ranks, text, index, axes, selected):
        check(array[index], axes, f"{folder / 'in.h5'}:/{layout}{text}", *SMALL[:2 * (ranks % 2)],
              ranks=ranks, selected=selected)
    each([(("plain", "chunked")[number % 2], 1 + number % 3, *case)
          for number, case in enumerate(cases)], one)


def test_first_rows():
    array = draw((50, 9), "f8")
    source = write(new_folder(), array, chunks=(8, 9))
    each([(axes, ranks) for axes, ranks in (((0,), 2), ((1,), 1))],
         lambda axes, ranks: check(array[:33], axes, source, "--input.rows", 33, ranks=ranks))


def test_joined_files():
    """A file may have any number of rows, and its own chunks; every subset of dimensions."""
    folder = new_folder()
    array = draw((45, 61, 70), "f4")
    ends = [0, 11, 12, 31, 45]
    for number, (begin, end) in enumerate(zip(ends, ends[1:])):
        with h5py.File(folder / f"in_{number}.h5", "w") as file:
            chunks = [None, (1, 61, 70), (4, 30, 70), (14, 61, 40)][number]
            file.create_dataset("x", data=array[begin:end], chunks=chunks)
    source = f"{folder}/in_*.h5:/x"
    each([(array, axes, source, 1 + number % 3) for number, axes in enumerate(subsets(3))],
         lambda array, axes, source, ranks: check(array, axes, source, ranks=ranks))
    # Of the files, every third row and one column.
    check(array[2::3, :, 4], (0,), f"{source}[2::3, :, 4]", ranks=2)


# ---------------------------------------------------------------- missing values

def test_missing_values():
    """Values that _FillValue declares are left out. Cells without values have the count and the
    sum 0, and NaN in all other results, except the index -1."""
    shape = (131, 36, 39)
    missing = holes(shape)

    def one(name, axes, ranks, options, layout):
        array = draw(shape, TYPES[name])
        fill = -999 if array.dtype.kind == "f" else 100
        array[(array == fill) & ~missing] = 1
        array[missing] = fill
        source = write(new_folder(), array, {"_FillValue": array.dtype.type(fill)}, **layout)
        finished = check(array, axes, source, *options, ranks=ranks, missing=missing)
        assert int(finished.values["missing"]) == missing.sum(), finished
    ways = itertools.cycle([(1, (), {}), (2, SMALL, {"chunks": (7, 36, 14)}),
                            (3, (), {"chunks": (14, 25, 39), "compression": "gzip"})])
    each([(name, axes, *way) for name, axes, way in zip(
        [*TYPES, "f32", "i32"], itertools.cycle([(0,), (0, 2), (2,), (0, 1, 2)]), ways)], one)


def test_too_few_values():
    """A result of fewer values than reduce.min-count is undefined, in some cells or in all."""
    shape = (40, 21, 9)
    missing = np.random.default_rng(4).random(shape) < 0.3

    def one(name, axes, least, ranks):
        array = draw(shape, TYPES[name])
        fill = array.dtype.type(100)
        array[(array == fill) & ~missing] = 1
        array[missing] = fill
        source = write(new_folder(), array, {"_FillValue": fill})
        few = (~missing).sum(axis=axes) < least
        assert 0 < few.sum() < few.size or len(axes) == 3, few
        check(array, axes, source, "--reduce.min-count", least, ranks=ranks, missing=missing,
              min_count=least)
    valid = (~missing).sum()
    each([("f64", (0,), 28, 1), ("i32", (0,), 28, 2), ("u64", (1, 2), 132, 3),
          ("i64", (0, 1, 2), valid, 1), ("i64", (0, 1, 2), valid + 1, 2)], one)


def test_divisors_that_are_not_positive():
    """Also those beyond integers of 64 bits with a sign: the variance is undefined."""
    source = write(new_folder(), draw((7,), "f8"))

    def one(ddof, options):
        folder = new_folder()
        finished = reduce(source, folder / "out.h5", "--reduce.ops", "variance", "--reduce.ddof",
                          ddof, *options)
        assert np.isnan(stored(folder / "out.h5")["variance"]), finished
    each([(ddof, options) for ddof in (7, 8, 2**63, 2**64 - 1) for options in ([], over((0,))[:2])],
         one)


def test_nans_that_are_not_declared():
    """They make a cell's results NaN, except the count, unless they are ignored."""
    array = draw((41, 5, 8), "f8")
    nans = holes(array.shape, 0.01)
    array[nans] = np.nan
    source = write(new_folder(), array, chunks=(9, 5, 3))

    def one(axes, ranks, policy):
        skips = policy == "ignore"
        folder = new_folder()
        finished = reduce(source, folder / "out.h5", *over(axes), "--reduce.missing", policy,
                          ranks=ranks)
        Expected(array, axes, skips_nans=skips).check(stored(folder / "out.h5"),
                                                      told=str(finished))
        if skips:
            assert finished.values["nans"] == str(nans.sum()), finished
    each([(axes, ranks, policy) for (axes, ranks), policy in itertools.product(
        (((0,), 2), ((1, 2), 1), ((0, 1, 2), 3)), ("auto", "ignore"))], one)


def test_packed_values():
    """Stored integers with a scale, an offset and a fill value, as netCDF writes them."""
    folder = new_folder()
    packed = seeded("packed").integers(-3000, 3000, (30, 5, 7)).astype("i2")
    missing = holes(packed.shape)
    packed[missing] = -32767
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("x", data=packed, chunks=(7, 5, 7), compression="gzip")
        data.attrs.update({"_FillValue": np.int16(-32767), "scale_factor": np.float32(0.25),
                           "add_offset": np.float32(10)})
    values = packed.astype("f4") * np.float32(0.25) + np.float32(10)  # exact
    for axes, ranks in (((0,), 2), ((1, 2), 1)):
        check(values, axes, f"{folder / 'in.h5'}:/x", ranks=ranks, missing=missing)


if __name__ == "__main__":
    main(on_gpu=True)
