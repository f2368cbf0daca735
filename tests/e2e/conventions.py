#!/usr/bin/python3
"""Data with conventions: missing values, valid ranges, packing, `_Unsigned`. Files are drawn at
random and written with netCDF4-python, xarray and h5py. The results of `reduce` and `histogram` are
compared with netCDF4-python's masked arrays, numpy and exact arithmetic."""

import math
import warnings

import h5py
import netCDF4
import numpy as np
import xarray

import model
import results
from decoding import ALIASES, DEFAULTS, NETCDF4_DEFAULTS, decode
from drawn_conventions import LIBHDF5, PACKING, Drawn
from exact_reduce import Expected
from harness import (LEAF, OPS, TYPES, each, expect_complaint, expect_warning, expect_words, main,
                     new_folder, reduce, run)
from products import ON_HOST, why_no_products
from random_cases import check_cases

LIMITS = ["valid_min", "valid_max", "valid_range"]
NAMES = {np.dtype(dtype): name for name, dtype in [*TYPES.items(), ("u64", "u8")]}


def line(finished, key):
    """The value of a line KEY=VALUE of standard output, empty if there is none."""
    found = [text for text in finished.out.splitlines() if text.startswith(f"{key}=")]
    assert len(found) <= 1, finished
    return found[0].partition("=")[2] if found else ""


# ---------------------------------------------------------------- the reference

def check_with_netcdf4(drawn):
    """decode() is the same as netCDF4-python, but for default fill values of bytes, which netCDF
    does not have, and for integers that overflow when numpy multiplies them."""
    names, stored = set(drawn.attributes), drawn.stored
    if stored.dtype.str[1:] == "f2" or names & set(ALIASES) or "lzf" in drawn.filters:
        return  # it cannot read them, or does not know the names
    with netCDF4.Dataset(drawn.path) as file, np.errstate(all="ignore"):
        masked = file[drawn.name][...]
    elements, missing = decode(stored, drawn.attributes, DEFAULTS)  # in files of h5py, too
    kept = np.full(stored.shape, True)
    if stored.itemsize == 1:
        kept &= stored != NETCDF4_DEFAULTS[stored.dtype.str[1:]]
    # numpy 1 multiplies f32 by a scalar of 64 bits in f32, numpy 2 in f64.
    is_less_precise = masked.dtype == "f4" and elements.dtype == "f8"
    if is_less_precise:
        kept &= np.abs(elements) < np.finfo("f4").max / 2
    assert (np.ma.getmaskarray(masked) == missing)[kept].all(), drawn.draw.said
    if "i" in (np.ravel(drawn.attributes[name])[0].dtype.kind for name in names & set(PACKING)):
        return
    there, wanted = (values[kept & ~missing] for values in (masked.data, elements))
    size = 1e-30 + np.abs(wanted.astype("f8")).max(initial=0)
    error = 1e-6 * size if is_less_precise else 0
    assert np.allclose(there.astype("f8"), wanted.astype("f8"), 0, error, equal_nan=True), (
        there[:9], wanted[:9], drawn.draw.said)


def check_with_xarray(drawn):
    """xarray knows neither limits nor default fill values, and compares after a conversion to
    floats; test_differences_of_xarray() has them."""
    names, stored = set(drawn.attributes), drawn.stored
    if drawn.writer == "h5py" or stored.dtype.itemsize == 8 and stored.dtype.kind in "iu":
        return
    if names & {*LIMITS, "_Unsigned"} or drawn.has_defaults():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of several missing values
        with xarray.open_dataset(drawn.path, group=drawn.name.rsplit("/", 1)[0] or None) as opened:
            values = opened["sst"].values.astype("f8")
    expected = np.where(drawn.missing, np.nan, drawn.elements.astype("f8"))
    size = 1e-30 + np.abs(expected[~np.isnan(expected)]).max(initial=0)
    if size < np.finfo("f4").max:  # it unpacks some data in f32
        assert np.allclose(values, expected, 0, 1e-6 * size, equal_nan=True), drawn.draw.said


# ---------------------------------------------------------------- random files

class Case:
    """A drawn file, a drawn command, and the expected results."""

    def __init__(self, draw, folder):
        self.draw, self.folder = draw, folder
        with LIBHDF5:
            self.drawn = drawn = Drawn(draw, folder)
            check_with_netcdf4(drawn)
            check_with_xarray(drawn)
        self.options = []
        conventions = self.option("input.conventions", [None, "auto", "none"], [6, 1, 1])
        self.applied, self.elements, self.missing = drawn.applied(), drawn.elements, drawn.missing
        if conventions == "none":
            self.applied, (self.elements, self.missing) = "", decode(drawn.stored, {})
        markers = {"_FillValue", "missing_value", "MissingValue", *LIMITS}
        self.declares_missing = conventions != "none" and (
            drawn.has_defaults() or not markers.isdisjoint(drawn.attributes))
        self.ranks = draw.of("ranks", [1, 2, 3, 4], [8, 2, 1, 1])

    def option(self, name, choices, weights=None):
        value = self.draw.of(name, choices, weights)
        if value is not None:
            self.options += [f"--{name}", str(value)]
        return value

    def run(self, workload, ranks, name="out.h5"):
        finished = run("run", workload, "--input.data", self.drawn.argument, *self.options, "-o",
                       self.folder / name, ranks=ranks, timeout=120)
        assert "internal error" not in finished.err, finished
        return finished

    def check(self):
        # numpy compares with edges in f64, the program exactly.
        is_exact = self.elements.dtype.kind == "f" or (
            np.abs(self.elements.astype("f8")).max() < 2**53)
        if self.draw.of("workload", ["reduce", "histogram"], [3, is_exact]) == "histogram":
            self.check_histogram()
            return
        policy = self.option("reduce.missing", [None, "auto", "ignore", "propagate", "error"],
                             [5, 1, 2, 1, 1]) or "auto"
        finished = self.run("reduce", self.ranks)
        if policy == "error" and (self.missing | np.isnan(self.elements)).any():
            self.check_error(finished)
            return
        self.check_said(finished.expect(0))
        with LIBHDF5:
            rows = results.stored_reduce(self.folder / "out.h5")
        if policy == "propagate" and self.missing.any():
            for op in OPS[1:]:
                assert math.isnan(rows[op]["value"]) and rows[op]["exact"] == "nan", finished
            return
        expected = Expected(self.elements, self.drawn.chunks,
                            self.missing if self.declares_missing else None,
                            "ignore" if policy == "ignore" else "propagate")
        expected.check(rows, finished)
        self.check_with_numpy(rows, expected.numbers, finished)
        if self.draw.chance(0.2):
            again = self.run("reduce", self.draw.of("ranks again", [1, 2, 3, 4]), "again.h5")
            again.expect(0)
            with LIBHDF5:
                first, second = (results.bits(self.folder / name)
                                 for name in ("out.h5", "again.h5"))
            assert first == second, f"other bits:\n{finished}\n{again}"

    def check_error(self, finished):
        """The first one in the order of storage is named."""
        bad, positions = model.in_stored_order(self.missing | np.isnan(self.elements),
                                               self.drawn.chunks)
        first = np.unravel_index(positions[np.argmax(bad)], self.elements.shape)
        errors = [text for text in finished.expect(1).err.splitlines() if "error: " in text]
        assert len(errors) == 1 and finished.out == "", finished
        expect_words(errors[0], ["reduce.missing", self.drawn.argument, f"{bad.sum()} of"],
                     finished)
        assert f"({','.join(map(str, first))})" in errors[0], finished

    def check_with_numpy(self, rows, numbers, finished):
        """The exact arithmetic could have the same error as the program."""
        with np.errstate(all="ignore"):
            wide = numbers.astype("f8")
            if math.isnan(rows["mean"]["value"]) or not np.isfinite(wide.std()):
                return
            scale = np.abs(wide).max()
            assert abs(rows["mean"]["value"] - wide.mean()) <= 1e-12 * scale, finished
            assert abs(rows["stddev"]["value"] - wide.std()) <= 1e-7 * scale, finished
            assert rows["max"]["value"] == wide.max(), finished

    def check_said(self, finished):
        """The output and the attributes of /input say what was applied."""
        with LIBHDF5, h5py.File(self.folder / "out.h5") as file:
            stored = dict(file["input"].attrs)
        assert line(finished, "applied") == self.applied, f"{self.applied}\n{finished}"
        assert stored.get("applied", "") == self.applied, stored
        assert stored["type"] == NAMES[self.elements.dtype], (stored, self.elements.dtype)
        assert finished.values.get("missing", "0") == str(self.missing.sum()), finished
        assert stored.get("missing", 0) == self.missing.sum(), stored

    def check_histogram(self):
        numbers = self.elements[~self.missing]
        finite = numbers[np.isfinite(numbers)].astype("f8")
        low, high = (-1.0, 1.0) if finite.size == 0 else (finite.min(), np.median(finite) + 1)
        if not -1e300 < low < high < 1e300 or (high - low) / 64 < np.spacing(max(-low, abs(high))):
            low, high = -1.0, 1.0
        bins = self.draw.of("bins", [1, 7, 64])
        self.options += ["--histogram.range", f"{low!r},{high!r}", "--histogram.bins", str(bins)]
        finished = self.run("histogram", self.ranks).expect(0)
        self.check_said(finished)
        with LIBHDF5, h5py.File(self.folder / "out.h5") as file:
            counts = file["results/bins"]["count"]
        expected, _ = np.histogram(finite, np.linspace(low, high, bins + 1))
        assert (counts == expected).all(), f"{counts} instead of {expected}\n{finished}"
        wide = numbers.astype("f8")
        for part, number in (("below", wide < low), ("above", wide > high), ("nan", wide != wide)):
            assert int(finished.values[part]) == number.sum(), f"{part}\n{finished}"


def test_random_conventions():
    check_cases(lambda draw, folder: Case(draw, folder).check(), __file__, seconds=20, enough=40)


# ---------------------------------------------------------------- where xarray differs

def write_differences(path):
    """A netCDF file with variables that xarray decodes in another way."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 6)

        def add(name, dtype, values, fill=None, **attributes):
            made = file.createVariable(name, dtype, ("x",), fill_value=fill)
            made.set_auto_maskandscale(False)
            made.setncatts(attributes)
            made[:] = values
        add("limits", "i2", [1, 2, 3, 40, 50, -9], valid_range=np.array([0, 9], "i2"))
        add("default", "f4", [1, 2, 3, 4, 5, DEFAULTS["f4"]])
        add("factor", "i2", [1, 2, 3, 5, 7, 9], scale_factor=np.float64(0.1))
        add("long", "i8", [2**62 + 1, 2**62 + 2, 2**62 + 3, -9, -9, -9], fill=np.int64(-9))
        add("wide", "f4", [1, 2, 3, 4, np.float32(1e20), 5], missing_value=np.float64(1e20))


def test_differences_of_xarray():
    """netCDF4-python is the reference; the page inputs/NETCDF.md lists these differences."""
    path = new_folder() / "in.nc"
    with LIBHDF5:
        write_differences(path)
        with xarray.open_dataset(path) as opened:
            of_xarray = {name: opened[name].values for name in opened}
        with netCDF4.Dataset(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an attribute of another type
            masked = {name: file[name][...] for name in of_xarray}
    assert of_xarray["limits"].sum() == 87 and masked["limits"].sum() == 6
    assert of_xarray["default"].max() > 9e36 and masked["default"].sum() == 15
    assert masked["factor"].dtype == "f8"  # f4 or f8 in xarray, depending on its version
    assert np.nansum(of_xarray["long"]) == 3.0 * 2**62 and masked["long"].count() == 3
    assert masked["wide"].count() == 6  # in xarray, it depends on the version of numpy

    def check(name, missing, key, expected):
        finished = reduce(f"{path}:/{name}", path.with_name(f"{name}.h5"))
        assert finished.values[key] == expected, finished
        assert finished.values.get("missing", "0") == str(missing), finished
    each([("limits", 3, "sum", "6"), ("default", 1, "sum", "15"), ("factor", 0, "max", "0.9"),
          ("long", 3, "sum", str(3 * 2**62 + 6)), ("wide", 0, "max", "1e+20")], check)


# ---------------------------------------------------------------- ranks and types

def packed(random, shape):
    values = random.integers(-3000, 3000, shape).astype("i2")
    values.flat[random.integers(0, values.size, values.size // 5)] = -9999
    return values


def test_the_same_bits_on_any_ranks():
    """Several leaves, most of whose chunks have missing values; a leaf has nothing else."""
    path, random = new_folder() / "in.nc", results.seeded("ranks")
    values = packed(random, (40, 100, 200))
    values[8:20] = -9999
    with LIBHDF5, netCDF4.Dataset(path, "w") as file:
        for name, extent in zip("tyx", values.shape):
            file.createDimension(name, extent)
        for name, how in (("chunked", {"zlib": True, "shuffle": True, "chunksizes": (7, 30, 64)}),
                          ("plain", {})):
            made = file.createVariable(name, "i2", tuple("tyx"), fill_value=-9999, **how)
            made.scale_factor = np.float32(0.01)
            made.add_offset = np.float32(20)
            made.set_auto_maskandscale(False)
            made[...] = values
    assert values.size > 8 * LEAF
    expected = values[values != -9999] * np.float32(0.01) + np.float32(20)

    def check(name):
        found = []
        for ranks, options in ((1, ()), (2, ("--pipeline.batch", 1)), (3, ()), (4, ())):
            out = path.with_name(f"{name}-{ranks}.h5")
            finished = reduce(f"{path}:/{name}", out, *options, ranks=ranks)
            assert finished.values["missing"] == str((values == -9999).sum()), finished
            assert finished.values["max"] == str(expected.max()), finished
            assert np.isclose(float(finished.values["mean"]), expected.mean(dtype="f8"), 1e-12)
            with LIBHDF5:
                found.append(results.bits(out))
        assert all(bits == found[0] for bits in found), name
    each([("chunked",), ("plain",)], check)


def write_types(path):
    """Types that are not plain numbers: {name: (elements, element type)}."""
    random = results.seeded("types")
    table = np.zeros(5000, [("time", ">i8"), ("name", "S3"), ("energy", ">f4"), ("hits", "u2"),
                            ("cell", [("x", "f8"), ("id", "i2")])])
    table["cell"]["id"] = random.integers(-999, 999, 5000)
    table["time"] = random.integers(-2**60, 2**60, 5000)
    table["energy"] = random.standard_normal(5000)
    table["hits"] = random.integers(0, 2**16, 5000)
    bits = random.integers(0, 256, 999).astype("u1")
    with LIBHDF5, h5py.File(path, "w") as file:
        file["table"] = table
        file.create_dataset("chunked", data=table, chunks=(700,), compression="gzip")
        file["mask"] = table["hits"] > 999
        file.create_dataset("flag", data=table["hits"] % 3,
                            dtype=h5py.enum_dtype({"A": 0, "B": 1, "C": 2}, "u2"))
        made = h5py.h5d.create(file.id, b"bits", h5py.h5t.STD_B8LE,
                               h5py.h5s.create_simple(bits.shape))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, bits, h5py.h5t.NATIVE_B8)
    return {"table{energy}": (table["energy"], "f32"), "table{time}": (table["time"], "i64"),
            "chunked{hits}": (table["hits"], "i32"), "chunked{energy}": (table["energy"], "f32"),
            "table{cell.id}": (table["cell"]["id"], "i32"),
            "mask": ((table["hits"] > 999).astype("i1"), "i8"), "flag": (table["hits"] % 3, "i32"),
            "bits": (bits, "u8")}


def test_members_booleans_enumerations_and_bit_fields():
    path = new_folder() / "in.h5"
    expected = write_types(path)

    def check(name, ranks):
        values, element_type = expected[name]
        out = path.with_name(f"{name}-{ranks}.h5")
        finished = reduce(f"{path}:/{name}", out, ranks=ranks)
        with LIBHDF5, h5py.File(out) as file:
            assert file["input"].attrs["type"] == element_type, (name, dict(file["input"].attrs))
            assert file["input"].attrs["name"].endswith(name), dict(file["input"].attrs)
            rows = results.stored_reduce(out)
        values = values.astype(values.dtype.newbyteorder("="))
        chunks = (700,) if "chunked" in name else None
        Expected(values, chunks).check(rows, finished)
    each([(name, 1 + number % 2) for number, name in enumerate(expected)], check)
    words = ["time", "energy", "hits", "cell.x"]
    for name, said in (("table{mass}", ["mass", *words]), ("table", words),
                       ("table{name}", ["name"]), ("mask{x}", ["/mask"])):
        expect_complaint(run("run", "reduce", "--input.data", f"{path}:/{name}", "-o",
                             new_folder() / "out.h5"), 2, said)


# ---------------------------------------------------------------- missing values

def test_what_a_missing_value_does():
    """reduce.missing in all its values, with and without a convention."""
    path = new_folder() / "in.h5"
    plain = np.arange(12.0, dtype="f4").reshape(3, 4)
    plain[1, 2], plain[2, 1] = math.nan, -9
    with LIBHDF5, h5py.File(path, "w") as file:
        for name, data, fill in (("plain", plain, None), ("marked", plain, np.float32(-9)),
                                 ("nan", np.where(plain == -9, 9, plain), np.float32(np.nan)),
                                 ("whole", np.nan_to_num(plain).astype("i2"), np.int16(-9))):
            file[name] = data
            if fill is not None:
                file[name].attrs["_FillValue"] = fill
    # name: the sums under auto, ignore and propagate, the missing values, the first bad one
    cases = {"plain": ("nan", "42", "nan", 0, "(1,2)"), "marked": ("nan", "51", "nan", 1, "(1,2)"),
             "nan": ("60", "60", "nan", 1, "(1,2)"), "whole": ("51", "51", "nan", 1, "(2,1)")}

    def check(name, policy):
        auto, ignore, propagate, missing, first = cases[name]
        out = new_folder() / "out.h5"
        finished = run("run", "reduce", "--input.data", f"{path}:/{name}", "--reduce.missing",
                       policy, "-o", out)
        if policy == "error":
            expect_complaint(finished, 1, [f"{path}:/{name}", first, "reduce.missing"])
            assert not out.exists()
            return
        expected = {"auto": auto, "ignore": ignore, "propagate": propagate}[policy]
        assert finished.expect(0).values["sum"] == expected, finished
        assert finished.values.get("missing", "0") == str(missing), finished
    each([(name, policy) for name in cases for policy in ("auto", "ignore", "propagate", "error")],
         check)


def test_all_values_missing():
    path = new_folder() / "in.h5"
    with LIBHDF5, h5py.File(path, "w") as file:
        for name, dtype in (("whole", "i4"), ("real", "f8")):
            file[name] = np.full((300, 400), -9, dtype)
            file[name].attrs["missing_value"] = np.array(-9, dtype)

    def check(name, ranks):
        finished = reduce(f"{path}:/{name}", new_folder() / "out.h5", ranks=ranks)
        assert (finished.values["count"], finished.values["missing"]) == ("0", "120000"), finished
        assert finished.values["mean"] == finished.values["min"] == "nan", finished
        expect_warning(finished, [f"{path}:/{name}", "missing"])
    each([("whole", 1), ("real", 1), ("whole", 2), ("real", 3)], check)


def test_products_have_nan_for_a_missing_value():
    if why_no_products():
        return
    path = new_folder() / "in.h5"
    values = np.arange(40, dtype="i2").reshape(10, 4)
    values[3, 1] = -1
    with LIBHDF5, h5py.File(path, "w") as file:
        file["x"] = values
        file["x"].attrs.update({"_FillValue": np.int16(-1), "scale_factor": 0.5})
    out = path.with_name("out.h5")
    finished = run("run", "gram", "--input.data", f"{path}:/x", "--product.precision", "fp64", "-o",
                   out, env=ON_HOST).expect(0)
    assert line(finished, "applied") == "_FillValue, scale_factor", finished
    with LIBHDF5, h5py.File(out) as file:
        found = file["results/C"][()]
    expected = 0.25 * (values.T.astype("f8") @ values)
    bad = np.arange(4) == 1
    assert np.isnan(found[bad]).all() and np.isnan(found[:, bad]).all(), found
    assert (found[~bad][:, ~bad] == expected[~bad][:, ~bad]).all(), found


main(on_gpu=True)
