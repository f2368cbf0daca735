#!/usr/bin/python3
"""Attributes that cannot be applied, and how a dry run, the output and the result say which ones
are applied."""

import math

import h5py
import numpy as np

from harness import (check_complaints, each, expect_warning, expect_words, main, new_folder, reduce,
                     run)

VALUES = np.arange(12, dtype="i2").reshape(3, 4)


def write(path, attributes, values=VALUES):
    with h5py.File(path, "w") as file:
        file["x"] = values
        file["x"].attrs.update(attributes)
    return f"{path}:/x"


# name: attributes that end the run, words of the message
ERRORS = {
    "zero": ({"scale_factor": 0.0}, ["scale_factor", 0]),
    "nan": ({"scale_factor": math.nan}, ["scale_factor", "nan"]),
    "infinite": ({"scale_factor": np.float32(math.inf)}, ["scale_factor", "inf"]),
    "text": ({"scale_factor": "0.01 K"}, ["scale_factor", "number"]),
    "offset nan": ({"add_offset": math.nan}, ["add_offset", "nan"]),
    "offset text": ({"add_offset": "none"}, ["add_offset", "number"]),
    "several factors": ({"scale_factor": [0.1, 0.2]}, ["scale_factor", "number"]),
    "upside down": ({"valid_range": np.array([9, 2], "i2")}, ["valid_range", 9, 2]),
    "upside down limits": ({"valid_min": np.int16(9), "valid_max": np.int16(2)},
                           ["valid_min", "valid_max", 9, 2]),
    "many markers": ({"missing_value": np.arange(9, dtype="i2")}, ["8"]),
}
# name: attributes that are not applied, words of the warning
WARNINGS = {
    "one limit": ({"valid_range": np.array([9], "i2")}, ["valid_range", 1]),
    "three limits": ({"valid_range": np.array([1, 2, 3], "i2")}, ["valid_range", 3]),
    "text limit": ({"valid_min": "low"}, ["valid_min", "text"]),
    "text marker": ({"missing_value": "none yet"}, ["missing_value", "text"]),
    "pairs": ({"_FillValue": np.zeros(1, [("a", "i2"), ("b", "i2")])}, ["_FillValue"]),
    "fraction": ({"missing_value": 2.5}, ["missing_value", "2.5"]),
    "large": ({"valid_max": np.int64(70000)}, ["valid_max", "70000"]),
    "no numbers": ({"missing_value": np.zeros(0, "i2")}, ["missing_value"]),
}


def test_attributes_that_end_the_run():
    """The message names the data set, the attribute, its value and the remedy; without conventions
    the data can be read."""
    folder = new_folder()
    cases = [(["run", "reduce", "--input.data", write(folder / f"{name}.h5", attributes)], 2,
              [f"{folder}/{name}.h5:/x", *words, "--input.conventions none"])
             for name, (attributes, words) in ERRORS.items()]
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[:1], ranks=(2,))

    def check(name):
        finished = reduce(f"{folder}/{name}.h5:/x", new_folder() / "out.h5",
                          "--input.conventions", "none")
        assert finished.values["sum"] == "66", finished
    each([("zero",), ("text",), ("upside down",), ("many markers",)], check)


def test_attributes_of_other_types_and_lengths():
    """They are not applied, as in netCDF4-python; a warning names them."""
    folder = new_folder()

    def check(name):
        attributes, words = WARNINGS[name]
        source = write(folder / f"{name}.h5", attributes)
        finished = reduce(source, folder / f"{name} out.h5")
        expect_warning(finished, [source, *words])
        assert finished.values["sum"] == "66" and "applied" not in finished.values, finished
        assert finished.values["not_applied"] == next(iter(attributes)), finished
    each([(name,) for name in WARNINGS], check)


# name: attributes, the line `applied`, the line `not_applied`, the sum
SAID = {
    "none": ({"units": "m"}, "", "", "66"),
    "packed": ({"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": np.int16(11)},
               "_FillValue, scale_factor, add_offset", "", "38.5"),
    "look-alikes": ({"Slope": 2.0, "nodata": 7, "missing_value": np.int16(0)},
                    "missing_value", "Slope, nodata", "66"),
    "eos": ({"MissingValue": np.int16(1), "ScaleFactor": 2.0, "Offset": 1.0},
            "MissingValue, ScaleFactor, Offset", "", "141"),
    "range": ({"valid_range": np.array([2, 4], "i2"), "actual_range": [0.0, 1.0]}, "valid_range",
              "", "9"),
    "nothing": ({"scale_factor": 1.0, "add_offset": 0.0, "_Unsigned": "false"}, "", "",
                           "66"),
}


def test_what_is_applied_is_said():
    """In the output, in the result and by a dry run."""
    folder = new_folder()

    def said(finished, key):
        found = [text.partition("=")[2] for text in finished.out.splitlines()
                 if text.startswith(f"{key}=")]
        return found[0] if found else ""

    def check(name):
        attributes, applied, not_applied, total = SAID[name]
        source, out = write(folder / f"{name}.h5", attributes), folder / f"{name} out.h5"
        dry = run("run", "reduce", "--input.data", source, "--dry-run").expect(0)
        expect_words(dry.out, [word for word in applied.split(", ") if word], dry)
        finished = reduce(source, out, "--reduce.ops", "sum")
        assert float(finished.values["sum"]) == float(total), finished
        assert said(finished, "applied") == applied, finished
        assert said(finished, "not_applied") == not_applied, finished
        if not_applied:
            expect_warning(finished, [source, *not_applied.split(", ")])
        with h5py.File(out) as file:
            stored = dict(file["input"].attrs)
        assert stored.get("applied", "") == said(finished, "applied"), stored
        assert stored.get("not_applied", "") == not_applied, stored
        expect_words(stored["conversion"], ["i16"], finished)
        assert str(stored.get("missing", 0)) == finished.values.get("missing", "0"), stored
    each([(name,) for name in SAID], check)


def test_a_shape_without_data():
    """MATLAB stores the shape of an empty array."""
    path = new_folder() / "in.h5"
    source = write(path, {"MATLAB_empty": np.uint8(1)}, np.array([0, 3], "u8"))
    check_complaints([(["run", "reduce", "--input.data", source], 2, [source, "MATLAB_empty"])],
                     ranks=(1,))
    finished = reduce(source, new_folder() / "out.h5", "--input.conventions", "none")
    assert finished.values["sum"] == "3", finished


main()
