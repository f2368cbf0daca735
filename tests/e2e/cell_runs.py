"""Runs of `reduce` along dimensions whose results are compared with numpy, and their inputs."""

import h5py
import numpy as np

from cell_statistics import OPS, Expected, stored
from harness import new_folder, reduce
from results import seeded

ALL = ("--reduce.ops", ",".join(OPS))
SMALL = ("--pipeline.batch", "4KiB", "--pipeline.slot", 1)


def draw(shape, dtype):
    """Values from most of the type's range, some of them equal; floats around a mean. Sums of
    integers fit into 64 bits."""
    random, dtype = seeded(shape, dtype), np.dtype(dtype)
    if dtype.kind == "f":
        return np.round(random.normal(3, 10, shape), 1).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(max(limits.min, -2**45), min(limits.max, 2**45), shape, dtype,
                           endpoint=True)


def write(folder, array, attributes=(), **layout):
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", data=array, **layout).attrs.update(dict(attributes))
    return f"{folder / 'in.h5'}:/x"


def over(axes):
    return ("--reduce.over", ",".join(map(str, axes)), *ALL)


def check(array, axes, source, *options, ranks=1, selected=None, **how):
    """Runs `reduce` over `axes`, which are numbers of dimensions of `array`; after a selection,
    `selected` are their numbers among the dimensions that are left."""
    folder = new_folder()
    finished = reduce(source, folder / "out.h5", *over(axes), *options, ranks=ranks)
    assert finished.values["verified"] == "true", finished
    Expected(array, axes if selected is None else selected, **how).check(
        stored(folder / "out.h5"), told=str(finished))
    return finished


def holes(shape, share=0.3):
    """Which values are missing; some cells have none, some only missing ones."""
    missing = seeded(shape, "holes").random(shape) < share
    missing[:, 1], missing[:, 2] = False, True
    return missing
