"""Data sets, weights, groups and options of `reduce` that are drawn at random for
random_statistics.py."""

import datetime
import math

import h5py
import numpy as np

from drawn_selections import draw_selection
from harness import LEAF, TYPES

FAR = 9.96921e36  # netCDF's default fill value
LARGE = 2**44  # sums of integers along dimensions stay within 64 bits
SIZES = [LEAF - 1, LEAF, LEAF + 1, 2 * LEAF - 1, 2 * LEAF, 2 * LEAF + 1, 3 * LEAF + 7, 300 * 300]


# ---------------------------------------------------------------- arrays

def divisor(draw, number):
    return draw.random.choice([d for d in range(1, math.isqrt(number) + 1) if number % d == 0])


def draw_shape(draw):
    """One to four dimensions: few elements, about whole leaves, or any number."""
    dimensions = draw.of("dimensions", [1, 2, 3, 4], [2, 4, 3, 1])
    way = draw.of("size", ["few", "leaves", "any"], [4, 4, 3])
    if way == "few":
        shape = [1 + draw.below(9) for _ in range(dimensions)]
    elif way == "leaves":
        left, shape = draw.of("elements", SIZES), []
        while len(shape) + 1 < dimensions:
            shape.append(divisor(draw, left))
            left //= shape[-1]
        shape.append(left)
        draw.random.shuffle(shape)
    else:
        most = 10**(5.5 / dimensions)
        shape = [1 + int(most**(0.4 + 0.6 * draw.random.random())) for _ in range(dimensions)]
    draw.said["shape"] = shape
    return tuple(shape)


def draw_integers(draw, dtype, shape, is_small):
    """`is_small`: sums along dimensions must fit into 64 bits."""
    limits = np.iinfo(dtype)
    low, high = limits.min, limits.max
    if is_small and dtype.itemsize == 8:
        low, high = max(low, -LARGE), LARGE
    way = draw.of("values", ["full", "small", "constant", "near", "ends"], [3, 4, 1, 2, 1])
    if way == "small":
        low, high = max(low, -50), 50
    elif way == "constant":
        low = high = draw.random.choice([0, low, high, 7])
    elif way == "near":
        low = high - 9
    elif way == "ends":
        return draw.numbers.choice(np.array([low, high, 0], dtype), shape)
    return draw.numbers.integers(low, high, shape, dtype, endpoint=True)


def draw_reals(draw, dtype, shape):
    numbers, about = draw.numbers, np.finfo(dtype)
    is_double = dtype.itemsize == 8
    normal = numbers.standard_normal(shape)
    way = draw.of("values", ["normal", "whole", "wide", "constant", "near", "ulps", "zeros", "tiny",
                             "huge", "infinite", "fill"], [8, 6, 4, 2, 4, 4, 2, 2, 2, 1, 3])
    with np.errstate(all="ignore"):
        if way == "whole":
            return numbers.integers(-9, 9, shape).astype(dtype)
        if way == "wide":
            most = 60 if is_double else 16
            return (normal * 10.0**numbers.integers(-most, most, shape)).astype(dtype)
        if way == "constant":
            return np.full(shape, draw.random.choice([0.1, -3.0, 1e-5, 7e9]), dtype)
        if way == "near":
            return (1000 + normal * draw.random.choice([1e-3, 1e-9])).astype(dtype)
        if way == "ulps":
            return (1 + numbers.integers(0, 4, shape) * about.eps).astype(dtype)
        if way == "zeros":
            return numbers.choice(np.array([0.0, -0.0, 0.0, -1.0], dtype), shape)
        if way == "tiny":
            return (normal * draw.random.choice([1e-79, 1e-110, 1e-160, 1e-200, 1e-310]
                                                if is_double else [1e-30, 1e-44])).astype(dtype)
        if way == "huge":
            return (normal * draw.random.choice([1e79, 1e110, 1e160, 1e200, 1e307]
                                                if is_double else [1e30, 1e37])).astype(dtype)
        values = (3 + 10 * normal).astype(dtype)
        if way in ("infinite", "fill"):
            odd = FAR if way == "fill" else draw.random.choice([math.inf, -math.inf])
            flat = values.reshape(-1)
            flat[numbers.integers(0, flat.size, 1 + draw.below(3))] = odd
            if way == "fill":
                flat[0] = odd
        return values


def draw_holes(draw, shape):
    """Which elements are missing, or NaN."""
    share = draw.of("holes", [0.02, 0.4, 0.97, 1.0], [4, 4, 1, 1])
    holes = draw.numbers.random(shape) < share
    if draw.chance(0.3):  # some cells have only holes
        axis = draw.below(len(shape))
        np.moveaxis(holes, axis, 0)[draw.below(shape[axis])] = True
    return holes


class Data:
    """A drawn data set in one file or several joined ones: `array`, which elements are `missing`,
    and the `argument` of input.data with a selection. `dates` are those of the dimension `dated`,
    if one has coordinates."""

    def __init__(self, draw, folder, is_whole):
        self.draw, self.folder = draw, folder
        self.type = draw.of("type", list(TYPES), [4, 6, 3, 3, 2, 1, 1])
        self.dtype = np.dtype(TYPES[self.type])
        self.shape = draw_shape(draw)
        if self.dtype.kind == "f":
            self.array = draw_reals(draw, self.dtype, self.shape)
        else:
            self.array = draw_integers(draw, self.dtype, self.shape, not is_whole)
        self.fill, self.missing = None, np.zeros(self.shape, bool)
        self.draw_missing()
        self.dated, self.dates = None, None
        if draw.chance(0.3):
            self.draw_dates()
        self.argument = self.write()
        self.indices = (slice(None),) * len(self.shape)
        if draw.chance(0.35):
            text, self.indices = draw_selection(draw, self.shape)
            self.argument += text

    @property
    def kept(self):
        """The numbers of the dimensions that the selection keeps."""
        return [d for d, index in enumerate(self.indices) if isinstance(index, slice)]

    def draw_missing(self):
        floating = self.dtype.kind == "f"
        if floating and self.draw.chance(0.2):
            self.array[draw_holes(self.draw, self.shape)] = np.nan
            self.draw.said["NaN"] = True
        if not self.draw.chance(0.4):
            return
        self.fill = self.draw.of("fill", [-999.0, math.nan, FAR] if floating else [77, 0])
        self.fill = self.dtype.type(self.fill)
        self.array[draw_holes(self.draw, self.shape)] = self.fill
        self.missing = np.isnan(self.array) if self.fill != self.fill else self.array == self.fill

    def draw_dates(self):
        self.dated = self.draw.below(len(self.shape))
        start = datetime.date(1999, 1, 1) + datetime.timedelta(self.draw.below(3000))
        step = self.draw.of("days", [1, 9, 31, 400])
        count = self.shape[self.dated]
        step = min(step, 2000000 // count)
        self.dates = np.datetime64(start) + np.arange(count) * max(step, 1)

    def write(self):
        rows = self.shape[0]
        parts = min(self.draw.of("files", [1, 2, 3], [4, 1, 1]), rows)
        ends = [0, *sorted(self.draw.random.sample(range(1, rows), parts - 1)), rows]
        for number, (first, end) in enumerate(zip(ends, ends[1:])):
            self.write_part(self.folder / f"x_{number}.h5", slice(first, end))
        name = "x_*.h5" if parts > 1 else "x_0.h5"
        return f"{self.folder / name}:/x"

    def write_part(self, path, rows):
        array = self.array[rows]
        layout = {}
        way = self.draw.of("layout", ["contiguous", "chunks", "gzip"], [2, 2, 1])
        if way != "contiguous":
            chunks = tuple(1 + self.draw.below(n) for n in array.shape)
            if array.size / math.prod(chunks) < 3000:
                layout["chunks"] = chunks
        if way == "gzip" and layout:
            layout.update(compression="gzip", compression_opts=1, shuffle=True)
        with h5py.File(path, "w") as file:
            data = file.create_dataset("x", data=array, **layout)
            if self.fill is not None:
                data.attrs["_FillValue"] = self.fill
            name_dimensions(data, range(len(self.shape)))
            if self.dates is not None:
                self.write_dates(file, data, rows if self.dated == 0 else slice(None))

    def write_dates(self, file, data, rows):
        own = self.dates[rows]
        since = own[0] - self.draw.below(500) if self.dated == 0 else self.dates[0]
        scale = file.create_dataset(f"d{self.dated}", data=(own - since).astype("i8") + 0.5)
        scale.attrs["units"] = f"days since {since}"
        scale.make_scale(f"d{self.dated}")
        data.dims[self.dated].attach_scale(scale)


def name_dimensions(data, numbers):
    """The names of dimensions, by which weights and labels find them."""
    for at, number in enumerate(numbers):
        data.dims[at].label = f"d{number}"


# ---------------------------------------------------------------- groups and weights

class Groups:
    """The option reduce.by for the dimension `dimension` of the data: `numbers` has the group of
    each of its indices, -1 if it has none, and there are `count` groups."""

    def __init__(self, draw, data, dimension):
        self.dimension = dimension
        if data.dated == dimension and draw.chance(0.7):
            self.by_dates(draw, data)
        else:
            self.by_labels(draw, data)

    def by_dates(self, draw, data):
        part = draw.of("by", ["month", "season", "year"])
        dates = data.dates[data.indices[self.dimension]]
        months = dates.astype("M8[M]").astype("i8") % 12
        years = dates.astype("M8[Y]").astype("i8")
        self.numbers, self.count = {"month": (months, 12), "season": ((months + 1) // 3 % 4, 4),
                                    "year": (years - years.min(), int(np.ptp(years)) + 1)}[part]
        self.option = f"{self.dimension}:{part}"

    def by_labels(self, draw, data):
        index = data.indices[self.dimension]
        used = np.arange(data.shape[self.dimension])[index]
        distinct = 1 + draw.below(draw.of("most groups", [4, 4, len(used)]))
        labels = draw.numbers.integers(0, distinct, len(used)) * 7 - 5
        kind = draw.of("by", ["i4", "i8", "f4", "text", "fixed text"])
        none = draw.numbers.random(len(used)) < draw.of("no group", [0.0, 0.3])
        none[draw.below(len(used))] = False
        if kind.startswith("i"):
            none[:] = False
        texts = np.array([f"{label % 97}:{label}" for label in labels], "S20")
        values = texts if kind.endswith("text") else labels
        known = np.unique(values[~none])
        self.numbers = np.where(none, -1, np.searchsorted(known, values))
        self.count = len(known)
        stored = values.astype("S20" if kind.endswith("text") else kind)
        stored[none] = b"" if kind.endswith("text") else np.nan if kind == "f4" else 0
        if draw.chance(0.5):  # a label of each index, also of those that are not selected
            every = np.zeros(data.shape[self.dimension], stored.dtype)
            every[index] = stored
            stored = every
        if kind == "text":
            stored = np.array([text.decode() for text in stored], object)
        path = data.folder / "labels.h5"
        with h5py.File(path, "w") as file:
            how = {"dtype": h5py.string_dtype()} if kind == "text" else {}
            name_dimensions(file.create_dataset("label", data=stored, **how), [self.dimension])
        self.option = f"{path}:/label"


class Weights:
    """The option reduce.weights: `values` can be broadcast to the selected array."""

    def __init__(self, draw, data):
        kept = data.kept
        chosen = sorted(draw.random.sample(kept, 1 + draw.below(len(kept))))
        draw.said["weights of"] = chosen
        shape = [data.shape[d] for d in chosen]
        values = draw.numbers.random(shape) + 0.05
        used = np.zeros(shape, bool)
        used[tuple(data.indices[d] for d in chosen)] = True
        way = draw.of("weights", ["positive", "zeros", "first", "one", "tiny", "tiny first",
                                  "equal"], [4, 4, 4, 1, 1, 2, 1])
        places = np.flatnonzero(used)
        flat = values.reshape(-1)
        if way == "zeros":
            flat[draw.numbers.random(flat.size) < 0.6] = 0
        elif way == "first":
            flat[places[:1 + draw.below(3)]] = 0
        elif way == "one":
            flat[:] = 0
        elif way == "tiny":
            flat *= draw.random.choice([1e-100, 1e-160, 1e-310])
        elif way == "tiny first":
            flat[places[0]] = draw.random.choice([1e-30, 1e-100, 1e-300])
        elif way == "equal":
            flat[:] = draw.random.choice([1, 2, 0.1])
        if not flat[places].any():
            flat[draw.random.choice(places.tolist())] = 0.7
        self.values = values[tuple(data.indices[d] for d in chosen)]
        self.values = np.expand_dims(self.values,
                                     [at for at, d in enumerate(kept) if d not in chosen])
        path = data.folder / "weights.h5"
        with h5py.File(path, "w") as file:
            name_dimensions(file.create_dataset("w", data=values), chosen)
        self.option = f"{path}:/w"
