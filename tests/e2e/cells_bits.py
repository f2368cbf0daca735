#!/usr/bin/python3
"""`run reduce` along dimensions has the same bits on any ranks, batches, readers, modes, memory."""

import h5py

from cell_runs import SMALL, draw, over, write
from cell_statistics import OPS, Expected, bits, stored
from harness import each, expect_words, main, new_folder, reduce, run
from results import seeded

WAYS = [(1, ()), (2, ()), (3, ()), (1, SMALL), (2, (*SMALL, "--pipeline.readers", 3)),
        (1, ("--pipeline.readers", 1, "--pipeline.slots", 1)),
        (1, ("--pipeline.mode", "pinned")), (2, ("--pipeline.mode", "pageable")),
        (1, ("--pipeline.mode", "mapped")), (1, ("--pipeline.mode", "resident")),
        (3, ("--pipeline.mode", "resident", "--pipeline.readers", 2))]


def test_same_bits():
    """On any ranks, batches, slots, readers and modes. Floats of many magnitudes, so that another
    order of additions would have other bits."""
    shape = (1201, 21, 23)
    array = draw(shape, "f4") * 10.0**seeded("sizes").integers(-6, 7, shape)
    layouts = {"chunked": {"chunks": (50, 21, 8), "compression": "gzip"}, "contiguous": {}}

    def one(layout, axes):
        source = write(new_folder(), array.astype("f4"), **layouts[layout])
        found = {}
        for ranks, options in WAYS:
            out = new_folder() / "out.h5"
            reduce(source, out, *over(axes), *options, ranks=ranks)
            found[ranks, options] = bits(out)
            with h5py.File(out) as file:  # each rank has some units
                assert file["results"].attrs["unit_elements"] * 5 < array.size, layout
        first = found[WAYS[0]]
        assert {op.replace("-", "_") for op in OPS} <= set(first), sorted(first)
        others = [way for way, each_bits in found.items() if each_bits != first]
        assert not others, f"other bits than on one rank: {others}"
    each([("chunked", (0,)), ("contiguous", (1, 2))], one)


def test_several_passes():
    """If the cells need more memory than there is, they are computed in parts, with the same
    bits. Ranks have all cells in common, or cells of their own."""
    limit = ("--pipeline.gpu-memory", "4MiB", "--pipeline.batch", "64KiB")

    def one(axis):
        array = draw((7, 60_000), "f4") if axis == 0 else draw((60_000, 7), "f4")
        source = write(new_folder(), array, chunks=(3, 10_000) if axis == 0 else (7_000, 7))
        folder = new_folder()
        finished = reduce(source, folder / "whole.h5", *over((axis,)))
        Expected(array, (axis,)).check(stored(folder / "whole.h5"), told=str(finished))
        parts = reduce(source, folder / "parts.h5", *over((axis,)), *limit, ranks=2)
        assert bits(folder / "parts.h5") == bits(folder / "whole.h5"), parts
        with h5py.File(folder / "parts.h5") as file:
            assert file["results"].attrs["cell_passes"] > 1, parts
        planned = run("run", "reduce", "--input.data", source, *over((axis,)), *limit, "--dry-run")
        expect_words(planned.expect(0).out, ["passes"])
    each([(0,), (1,)], one)


def test_joined_files_with_other_chunks():
    """Chunks of different files share some cells."""
    folder = new_folder()
    array = draw((192, 64, 32), "f4")
    for number, chunks in enumerate(((20, 64, 32), (1, 16, 32), (1, 64, 8))):
        with h5py.File(folder / f"j_{number}.h5", "w") as file:
            file.create_dataset("x", data=array[64 * number:64 * number + 64], chunks=chunks)
    found = []
    for ranks, options in ((1, ()), (1, SMALL), (3, ())):
        out = new_folder() / "out.h5"
        finished = reduce(f"{folder}/j_*.h5:/x", out, *over((0,)), *options, ranks=ranks)
        Expected(array, (0,)).check(stored(out), told=str(finished))
        found.append(bits(out))
    assert found[0] == found[1] == found[2]


if __name__ == "__main__":
    main(on_gpu=True)
