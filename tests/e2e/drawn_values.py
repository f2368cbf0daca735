"""Random choices from a seed, and random types and values of data sets."""

import math
import random

import h5py
import numpy as np

ENDIANS = ["<", "<", "<", ">"]
WHOLE = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
REAL = ["f2", "f4", "f8"]


class Draw:
    """Random choices from one seed; `said` records them."""

    def __init__(self, seed):
        self.seed, self.said = seed, {}
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)

    def chance(self, probability):
        return self.random.random() < probability

    def below(self, bound):
        return self.random.randrange(bound)

    def of(self, what, choices, weights=None):
        chosen = self.random.choices(choices, weights)[0]
        self.said[what] = chosen
        return chosen


# ---------------------------------------------------------------- types and values

def draw_type(draw):
    """(numpy's type, HDF5's type); kinds that are not numbers must be rejected."""
    kind = draw.of("kind", ["whole", "real", "packed", "long", "no number"], [50, 40, 5, 1, 4])
    if kind == "no number":
        dtype = draw.of("type", [np.dtype("S5"), h5py.string_dtype(), np.dtype("c16"),
                                 np.dtype([("a", "i4"), ("b", "f8")]), np.dtype("V3")])
        return dtype, h5py.h5t.py_create(dtype, logical=True)
    if kind == "long":
        return np.dtype("g"), h5py.h5t.py_create(np.dtype("g"))
    name = draw.of("endian", ENDIANS) + draw.of("type", REAL if kind == "real" else WHOLE)
    dtype = np.dtype(name)
    stored = h5py.h5t.py_create(dtype)
    if kind == "packed":
        stored = stored.copy()
        precision = 1 + dtype.kind.count("i") + draw.below(8 * dtype.itemsize - 2)
        stored.set_precision(precision)
        stored.set_offset(draw.below(8 * dtype.itemsize - precision + 1))
        draw.said["precision"] = precision
    return dtype, stored


def limits_of(dtype, stored):
    bits = stored.get_precision()
    return (-2**(bits - 1), 2**(bits - 1) - 1) if dtype.kind == "i" else (0, 2**bits - 1)


def draw_values(draw, what, shape, dtype, stored):
    """An array of the native byte order."""
    count = math.prod(shape)
    native = dtype.newbyteorder("=")
    if draw.said["kind"] == "no number":
        return np.zeros(shape, native) if dtype.kind in "cV" else np.full(shape, b"a", native)
    if dtype.kind == "f":
        return draw_reals(draw, what, count, native).reshape(shape)
    lowest, highest = limits_of(dtype, stored)
    way = draw.of(what, ["full", "small", "constant", "extremes", "huge and near", "2^53"],
                  [3, 5, 1, 2, 2, 1])
    if way == "full":
        return draw.numbers.integers(lowest, highest, shape, native, endpoint=True)
    if way == "small":
        low, high = max(lowest, -100), min(highest, 100)
    elif way == "constant":
        low = high = draw.random.choice([0, lowest, highest, min(highest, 7)])
    elif way == "extremes":
        extremes = [lowest, highest, 0, highest // 2, highest // 3]
        return draw.numbers.choice(np.array(extremes, native), shape)
    else:
        base = 2**53 if way == "2^53" else highest // 3 * 2
        low = max(min(base - 3, highest - 10), lowest)
        high = min(low + 10, highest)
    return draw.numbers.integers(low, high, shape, native, endpoint=True)


def draw_reals(draw, what, count, native):
    way = draw.of(what, ["normal", "whole", "wide", "constant", "near", "tiny", "huge", "NaN",
                         "infinite", "zeros"], [5, 4, 3, 1, 2, 1, 2, 2, 1, 1])
    about = np.finfo(native)
    numbers = draw.numbers
    with np.errstate(all="ignore"):
        if way == "whole":
            return numbers.integers(-100, 100, count).astype(native)
        if way == "wide":
            highest = min(native.itemsize**2, 60)
            powers = 10.0**numbers.integers(-highest, highest, count)
            return (numbers.standard_normal(count) * powers).astype(native)
        if way == "constant":
            return np.full(count, draw.random.choice([0.1, -3.0, about.max, about.tiny]), native)
        if way == "near":
            return (1000 + numbers.standard_normal(count) * 1e-3).astype(native)
        if way == "tiny":
            return (numbers.integers(-9, 9, count) * about.smallest_subnormal).astype(native)
        if way == "huge":
            return numbers.choice(np.array([about.max, about.min, about.max / 2], native), count)
        values = numbers.standard_normal(count).astype(native)
        if way == "zeros":
            return numbers.choice(np.array([0.0, -0.0], native), count)
        if way in ("NaN", "infinite") and count:
            odd = [math.nan] if way == "NaN" else [[math.inf], [-math.inf, math.inf]][draw.below(2)]
            places = numbers.integers(0, count, 1 + draw.below(max(count // 2, 1)))
            values[places] = numbers.choice(np.array(odd, native), len(places))
        return values
