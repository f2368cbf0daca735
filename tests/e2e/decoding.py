"""netCDF's conventions for stored values, implemented a second time, in numpy and from their
description. The tests compare it with netCDF4-python, and the program with it."""

import netCDF4
import numpy as np

# HDF-EOS5's names
ALIASES = {"MissingValue": "missing_value", "ScaleFactor": "scale_factor", "Offset": "add_offset"}
# Integers that are not unpacked become the smallest type of elements that holds all of them.
ELEMENTS = {"i1": "i1", "u1": "u1", "i2": "i4", "u2": "i4", "i4": "i4", "u4": "i8", "i8": "i8",
            "u8": "u8", "f2": "f4", "f4": "f4", "f8": "f8"}
# netCDF has no default fill value for bytes, but netCDF4-python masks one.
NETCDF4_DEFAULTS = {name: value for name, value in netCDF4.default_fillvals.items()
                    if name in ELEMENTS}
DEFAULTS = {name: value for name, value in NETCDF4_DEFAULTS.items() if name[1] != "1"}


def text_of(attribute):
    """A text attribute, whether its reader returns bytes, an array or a str."""
    value = attribute.item() if isinstance(attribute, np.ndarray) else attribute
    return value.decode() if isinstance(value, bytes) else value


def decode(stored, attributes, defaults=None):
    """(elements, missing): the values that the stored ones mean, and which of them are missing.
    `defaults` are the fill values {type: value} of variables without `_FillValue`."""
    attributes = {ALIASES.get(name, name): value for name, value in attributes.items()}
    values = stored.astype(stored.dtype.newbyteorder("="))
    dtype, defaults = values.dtype, defaults or {}
    is_unsigned = text_of(attributes.get("_Unsigned", "")) in ("true", "True")

    def as_numbers(some):
        some = np.asarray(some, dtype)
        return some.view(f"u{dtype.itemsize}") if is_unsigned and dtype.kind == "i" else some
    values = as_numbers(values)
    markers = [marker for name in ("_FillValue", "missing_value") if name in attributes
               for marker in as_numbers(np.ravel(attributes[name]))]
    if "_FillValue" not in attributes and dtype.str[1:] in defaults and not is_unsigned:
        markers.append(dtype.type(defaults[dtype.str[1:]]))
    missing = np.zeros(values.shape, bool)
    for marker in markers:
        missing |= np.isnan(values) if marker != marker else values == marker
    limits = [attributes.get("valid_min"), attributes.get("valid_max")]
    for limit, is_beyond in zip(attributes.get("valid_range", limits), (np.less, np.greater)):
        if limit is not None:
            missing |= is_beyond(values, as_numbers(limit))
    return unpack(values, attributes.get("scale_factor"), attributes.get("add_offset")), missing


def unpack(values, scale, offset):
    """value = stored * scale + offset. The product and the sum are rounded to f32 if both of their
    operands have at most 32 bits as floats, else to f64."""
    if scale is None and offset is None:
        return values.astype(ELEMENTS[values.dtype.str[1:]])
    is_small = values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)
    dtype = "f4" if is_small else "f8"
    for attribute, combine in ((scale, np.multiply), (offset, np.add)):
        if attribute is not None:
            attribute = np.ravel(attribute)[0]
            dtype = dtype if attribute.dtype.kind == "f" and attribute.dtype.itemsize <= 4 else "f8"
            with np.errstate(all="ignore"):
                values = combine(values.astype(dtype), attribute.astype(dtype), dtype=dtype)
    return values
