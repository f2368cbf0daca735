"""Inputs of `reduce`, its result files, read with h5py, and their comparison with the model."""

import math
import zlib

import h5py
import numpy as np

import model
from harness import OPS

# Options whose `auto` is never replaced by a value, and those that a workload does not resolve.
STAY_AUTO = ("output.resume", "reduce.missing", "input.conventions")
NOT_FOR = {"reduce": (*STAY_AUTO, "product.", "gemm.", "gram."),
           "gemm": (*STAY_AUTO, "gram.", "pipeline.batch", "input.rows"),
           "gram": (*STAY_AUTO, "pipeline.batch", "gram.weight-of")}


def seeded(*what):
    """A random generator whose seed follows from the arguments."""
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def small_integers(count, dtype):
    """Values whose sums are exact in every type."""
    return seeded(count).integers(0, 100, count).astype(dtype)


def spread_out(count, dtype):
    """Values from most of the type's range; floats have many magnitudes and both signs."""
    random, dtype = seeded(count, dtype), np.dtype(dtype)
    if dtype.kind == "f":
        most = 4 if dtype.itemsize == 2 else 20
        return (random.standard_normal(count) * 10.0**random.integers(-most, most, count)).astype(
            dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, count, dtype.newbyteorder("="),
                           endpoint=True).astype(dtype)


def write(array, path, fill=None, **layout):
    """Writes an input file, with `fill` as its _FillValue, and returns FILE:/PATH."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("group/data", data=array, **layout)
        if fill is not None:
            data.attrs["_FillValue"] = np.asarray(array).dtype.type(fill)
    return f"{path}:/group/data"


def stored_reduce(path):
    """{op: row} of /results/reduce, a row being {column: value}, texts as str."""
    with h5py.File(path) as file:
        rows = file["/results/reduce"][()]
    texts = {name for name in rows.dtype.names if rows.dtype[name].kind == "S"}
    return {row["op"].decode(): {name: row[name].decode() if name in texts else row[name].item()
                                 for name in rows.dtype.names} for row in rows}


def resolved(path, workload):
    """{option: resolved value}; it must have every `auto` of the workload."""
    with h5py.File(path) as file:
        found, asked = dict(file["config/resolved"].attrs), dict(file["config"].attrs)
    chosen = {key for key, value in asked.items()
              if value == "auto" and not key.startswith(NOT_FOR[workload])}
    assert chosen and chosen <= set(found), (chosen - set(found), found)
    assert not [key for key in found if found[key] == "auto"], found
    return found


def bits(path):
    """Everything that must be the same for the same data, as text."""
    return [(op, row["exact"], row["value"].hex(), row["index"], row["position"])
            for op, row in stored_reduce(path).items()]


def same(exact, value):
    """Whether reading the text `exact` gives precisely `value`."""
    if isinstance(value, int):
        return int(exact) == value
    read = type(value)(exact)
    if math.isnan(value):
        return math.isnan(read)
    return read == value and math.copysign(1, read) == math.copysign(1, value)


def check(array, path, finished, chunks=None, policy="auto", ops=None, fill=None):
    """Checks that the file and standard output contain the model's results for `array`, bit for
    bit. `policy` is reduce.missing."""
    expected = model.reduce(array, chunks, policy, fill)
    rows, printed = stored_reduce(path), finished.values
    assert list(rows) == (ops or OPS), list(rows)
    for op, row in rows.items():
        value, position = expected[op]
        if op in ("min", "max") and not math.isnan(value):
            value = value.item() if value.dtype.kind in "iu" else value.astype(
                value.dtype.newbyteorder("="))
        said = f"{op}: {row} where {value!r} at {position} was expected\n{finished}"
        assert same(row["exact"], value), said
        assert row["value"] == float(value) or math.isnan(row["value"]) and math.isnan(value), said
        where = "" if position is None else ",".join(map(str, position))
        assert row["position"] == where, said
        assert (row["index"] == -1) == (position is None), said
        assert row["validated"] == 1 and row["max_error"] <= row["tolerance"], said
        assert printed[op] == row["exact"], said
        assert printed.get(f"{op}_position", "") == where, said
    assert printed["verified"] == "true", finished
    assert printed.get("nans", "0") == str(expected["nans"]), finished
    assert printed.get("missing") == (None if fill is None else str(expected["missing"])), finished
