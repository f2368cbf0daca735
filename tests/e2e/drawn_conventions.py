"""Files with conventions, drawn at random from a seed and written with netCDF4-python, xarray or
h5py: types, missing values, packing, chunks, filters."""

import math
import threading

import h5py
import netCDF4
import numpy as np
import xarray

from decoding import ALIASES, DEFAULTS, decode
from drawn_values import draw_values
from random_cases import NotPossible

# netCDF4-python and h5py share libhdf5, which is not made for threads.
LIBHDF5 = threading.RLock()
WHOLE = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
PACKING = ["scale_factor", "add_offset"]


def draw_shape(draw):
    budget = draw.of("size", [20, 2000, 150_000], [2, 8, 1])
    rank = draw.of("rank", [1, 2, 3, 4])
    shape = []
    for left in range(rank, 0, -1):
        extent = budget if left == 1 else 1 + draw.below(max(int(2 * budget**(1 / left)), 1))
        shape.append(max(extent, 1))
        budget //= shape[-1]
    draw.random.shuffle(shape)
    return tuple(shape)


def draw_chunks(draw, shape):
    """The extents of a chunk, at most some hundred chunks; None is contiguous."""
    if not draw.chance(0.7):
        return None
    chunks = [1 + draw.below(extent) for extent in shape]
    while math.prod(-(-extent // chunk) for extent, chunk in zip(shape, chunks)) > 300:
        at = draw.below(len(chunks))
        chunks[at] = min(2 * chunks[at], shape[at])
    draw.said["chunks"] = tuple(chunks)
    return tuple(chunks)


class Drawn:
    """A file with a variable. `argument` names it to the program; `stored` are its elements as h5py
    reads them, `elements` and `missing` what they mean."""

    def __init__(self, draw, folder):
        self.draw, self.path = draw, folder / "in.nc"
        self.writer = draw.of("writer", ["netCDF4", "xarray", "h5py"], [5, 3, 5])
        draw.said["kind"] = draw.of("numbers", ["whole", "real"], [2, 1])
        reals = ["f2", "f4", "f8"] if self.writer == "h5py" else ["f4", "f8"]
        self.dtype = np.dtype(draw.of("type", WHOLE if draw.said["kind"] == "whole" else reals))
        self.is_big = self.writer != "xarray" and draw.of("big-endian", [False, True], [4, 1])
        self.shape = draw_shape(draw)
        self.chunks = draw_chunks(draw, self.shape)
        self.name = draw.of("name", ["/sst", "/a/b/sst"], [3, 1])
        self.attributes = {}
        self.draw_values()
        self.draw_packing()
        filters = [[], ["zlib"], ["zlib", "shuffle"], ["fletcher32"],
                   ["zlib", "shuffle", "fletcher32"]]
        self.filters = draw.of("filters", [*filters, ["lzf"]] if self.writer == "h5py" else filters)
        try:
            getattr(self, f"write_by_{self.writer.lower()}")()
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise NotPossible(f"{draw.said}: {error}") from error
        draw.said["attributes"] = self.attributes
        self.argument = f"{self.path}:{self.name}"
        self.read()

    # ------------------------------------------------------------ values and attributes

    def draw_values(self):
        """Values, and the attributes that say which ones are missing."""
        draw, dtype = self.draw, self.dtype
        values = draw_values(draw, "values", self.shape, dtype, h5py.h5t.py_create(dtype)).copy()
        self.values = values
        others = draw_values(draw, "markers", (4,), dtype, h5py.h5t.py_create(dtype))
        pool = [*others[np.isfinite(others.astype("f8"))], *np.array([99, 98, 97, 96], dtype)]

        def sprinkle(value):
            places = draw.numbers.integers(0, values.size, 1 + draw.below(1 + values.size // 8))
            values.flat[places] = value
        if draw.chance(0.15):
            sprinkle(pool[0])  # before the markers: the fill value alone may be left
        fill = draw.of("fill", ["none", "value", "nan"], [3, 4, 2 * (dtype.kind == "f")])
        if fill != "none":
            self.attributes["_FillValue"] = np.array(pool[0] if fill == "value" else np.nan, dtype)
        markers = draw.of("missing_value", [0, 1, 3], [5, 2, 1])
        if markers:
            some = np.array(pool[1:1 + markers], dtype)
            self.attributes["missing_value"] = some if markers > 1 else some[0]
        for name in ("_FillValue", "missing_value"):
            for value in np.ravel(self.attributes.get(name, [])):
                sprinkle(value)
        if fill == "none" and dtype.str[1:] in DEFAULTS and draw.chance(0.5):
            sprinkle(DEFAULTS[dtype.str[1:]])
        if dtype.kind == "i" and draw.chance(0.25):
            self.attributes["_Unsigned"] = "true"
        self.draw_limits()

    def draw_limits(self):
        """Limits among the values, in the order of the numbers that the program compares."""
        names = self.draw.of("limits", [[], ["valid_min"], ["valid_max"],
                                        ["valid_min", "valid_max"], ["valid_range"]],
                             [6, 1, 1, 1, 2])
        finite = self.values[np.isfinite(self.values.astype("f8"))]
        if not names or finite.size == 0:
            return
        is_unsigned = "_Unsigned" in self.attributes
        numbers = finite.view(f"u{self.dtype.itemsize}") if is_unsigned else finite
        numbers = np.sort(numbers.ravel()).view(self.dtype)
        low, high = numbers[len(numbers) // 8], numbers[-1 - len(numbers) // 8]
        limits = {"valid_min": low, "valid_max": high,
                  "valid_range": np.array([low, high], self.dtype)}
        self.attributes.update({name: limits[name] for name in names})

    def draw_packing(self):
        names = self.draw.of("packing", [[], PACKING[:1], PACKING[1:], PACKING], [3, 2, 1, 3])
        for name, values in zip(PACKING, ([0.01, 0.1, -2.5, 1e-3], [273.15, -5.0, 1000.5])):
            if name in names:
                dtype = self.draw.of(f"type of {name}", ["f4", "f8", "i4"], [4, 6, 1])
                value = self.draw.random.choice(values if dtype != "i4" else [2, 3, -7])
                self.attributes[name] = np.array(value, dtype)

    # ------------------------------------------------------------ writing

    def write_by_netcdf4(self):
        draw, attributes = self.draw, dict(self.attributes)
        group, name = self.name.rsplit("/", 1)
        no_fill = "_FillValue" not in attributes and draw.of("no fill", [False, True], [4, 1])
        with netCDF4.Dataset(self.path, "w") as file:
            place = file.createGroup(group) if group else file
            dimensions = [f"d{i}" for i in range(len(self.shape))]
            for dimension, extent in zip(dimensions, self.shape):
                place.createDimension(dimension, extent)
            made = place.createVariable(
                name, self.dtype.newbyteorder(">" if self.is_big else "<"), dimensions,
                endian="big" if self.is_big else "little",
                chunksizes=self.chunks, fill_value=False if no_fill else
                attributes.pop("_FillValue", None),
                **{filter_name: True for filter_name in self.filters})
            made.set_auto_maskandscale(False)
            made.setncatts(attributes)
            # Without fill values, elements that were never written are undefined.
            if no_fill or draw.of("written", ["all", "half"], [5, 1]) == "all":
                made[...] = self.values
            elif self.shape[0] > 1:
                made[:self.shape[0] // 2] = self.values[:self.shape[0] // 2]

    def write_by_xarray(self):
        """Half of the files have values that xarray packs, the others are as they are drawn."""
        draw, group = self.draw, self.name.rsplit("/", 1)[0]
        encoding = {name: True for name in self.filters}
        if self.chunks:
            encoding["chunksizes"] = self.chunks
        values, attributes = self.values, dict(self.attributes)
        can_pack = self.dtype.itemsize <= 2 and "_FillValue" in attributes and set(attributes) <= {
            "_FillValue", *PACKING}
        if can_pack and draw.of("packed by xarray", [True, False]):
            elements, missing = decode(values, attributes)
            values = np.where(missing, np.nan, elements.astype("f8"))
            encoding.update(dtype=self.dtype, **attributes)
            attributes = {}
        elif "_FillValue" in attributes:
            encoding["_FillValue"] = attributes.pop("_FillValue")
        dimensions = [f"d{i}" for i in range(len(self.shape))]
        dataset = xarray.Dataset({"sst": (dimensions, values, attributes)})
        dataset.to_netcdf(self.path, group=group or None, engine="netcdf4",
                          encoding={"sst": encoding})

    def write_by_h5py(self):
        draw, how = self.draw, {}
        for name in self.filters:
            how.update({"compression": "gzip"} if name == "zlib" else
                       {"compression": "lzf"} if name == "lzf" else {name: True})
        if self.draw.chance(0.2):
            renamed = {"missing_value": "MissingValue", "scale_factor": "ScaleFactor",
                       "add_offset": "Offset"}
            self.attributes = {renamed.get(name, name): value
                               for name, value in self.attributes.items()}
        with h5py.File(self.path, "w") as file:
            made = file.create_dataset(
                self.name, self.shape, self.dtype.newbyteorder(">" if self.is_big else "<"),
                chunks=self.chunks or (True if how else None), **how)
            made[...] = self.values
            for name, value in self.attributes.items():
                if not isinstance(value, str) and draw.chance(0.3):  # of the same values
                    value = np.atleast_1d(value).astype(value.dtype.newbyteorder(">"))
                made.attrs[name] = value

    # ------------------------------------------------------------ reading

    def read(self):
        with h5py.File(self.path) as file:
            made = file[self.name]
            self.stored, self.chunks = made[()], made.chunks
            self.attributes = {name: value for name, value in made.attrs.items()
                               if name not in ("DIMENSION_LIST", "_Netcdf4Dimid",
                                               "_Netcdf4Coordinates")}
            self.by_netcdf = "_NCProperties" in file.attrs
        self.elements, self.missing = decode(self.stored, self.attributes,
                                             DEFAULTS if self.by_netcdf else None)

    def has_defaults(self):
        """Whether the default fill value of the type stands for a missing value."""
        return (self.by_netcdf and "_FillValue" not in self.attributes and
                "_Unsigned" not in self.attributes and self.stored.dtype.str[1:] in DEFAULTS)

    def applied(self):
        """The line `applied`, in its order."""
        names = {ALIASES.get(name, name): name for name in self.attributes}
        if self.has_defaults():
            names["_FillValue"] = "default fill value"
        order = ["_Unsigned", "_FillValue", "missing_value", "valid_range", "valid_min",
                 "valid_max", "scale_factor", "add_offset"]
        return ", ".join(names[name] for name in order if name in names)
