"""Selections that are drawn at random: their text, and the same as indices of numpy."""

import numpy as np


def draw_item(draw, extent):
    """(text, index of numpy) for one dimension. Nothing is beyond the extent or empty."""
    way = draw.of("item", ["whole", "index", "range"], [2, 1, 4])
    if way == "whole":
        return ":", slice(None)
    first = draw.below(extent)
    said = first - extent if draw.chance(0.3) else first
    if way == "index":
        return str(said), first
    stop = first + 1 + draw.below(extent - first)
    step = draw.of("step", [1, 2, 3, extent + 1], [4, 2, 1, 1])
    start = "" if first == 0 and draw.chance(0.5) else str(said)
    end = "" if stop == extent else str(stop - extent if draw.chance(0.3) else stop)
    return f"{start}:{end}{draw.of('step text', ['', ':'])}" if step == 1 else (
        f"{start}:{end}:{step}"), slice(first, stop, step)


def draw_selection(draw, shape):
    """(text with brackets, tuple of indices with one item per dimension)."""
    items = [draw_item(draw, extent) for extent in shape]
    texts = [text for text, _ in items]
    indices = [index for _, index in items]
    way = draw.of("trailing", ["all", "left out", "ellipsis"])
    if way != "all":  # a run of whole dimensions
        begin = draw.below(len(shape) + 1)
        end = len(shape) if way == "left out" else begin + draw.below(len(shape) + 1 - begin)
        if way == "ellipsis" or begin > 0:
            indices[begin:end] = [slice(None)] * (end - begin)
            texts[begin:end] = ["..."] if way == "ellipsis" else []
    text = draw.of("separator", [", ", ","]).join(texts)
    draw.said["selection"] = text
    return f"[{text}]", tuple(indices)


def first_rows(indices, shape, rows):
    """The indices with only the first `rows` elements of the first dimension that they keep, and
    the number of its elements; 1 if they keep none."""
    for at, (index, extent) in enumerate(zip(indices, shape)):
        if isinstance(index, slice):
            kept = range(extent)[index]
            fewer = slice(kept[0], kept[:rows][-1] + 1, kept.step)
            return (*indices[:at], fewer, *indices[at + 1:]), len(kept)
    return indices, 1


def mask_of(indices, shape):
    """The selected elements of an array of this shape as True."""
    mask = np.zeros(shape, bool)
    mask[indices] = True
    return mask
