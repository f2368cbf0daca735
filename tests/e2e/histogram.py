#!/usr/bin/python3
"""`run histogram`: edges and counts against numpy.histogram and exact arithmetic, the same on any
ranks and in any batches; what is printed and stored; bad input, a dry run, studies."""

import bisect
import itertools
import zlib

import h5py
import numpy as np

from harness import TYPES, check_complaints, each, main, new_folder, run
from studies import only_study, study

OUTSIDE = ["below", "above", "nan"]


def seeded(*what):
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def histogram(array, low, high, bins, *options, ranks=1, fill=None):
    """Runs it on a data set: standard output's values, the edges and the counts of the file."""
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = array
        if fill is not None:
            file["x"].attrs["_FillValue"] = fill
    finished = run("run", "histogram", "--input.data", f"{folder}/in.h5:/x", "--histogram.range",
                   f"{low!r},{high!r}", "--histogram.bins", bins, *options, "-o", folder / "out.h5",
                   ranks=ranks).expect(0)
    assert finished.values["verified"] == "true", finished
    with h5py.File(folder / "out.h5") as file:
        rows, summary = file["results/bins"][()], file["results/histogram"][()]
        attributes = dict(file["results"].attrs)
    assert (attributes["low"], attributes["high"], attributes["bins"]) == (low, high, bins)
    assert rows["validated"].all() and (rows["left"][1:] == rows["right"][:-1]).all()
    parts = {row["part"].decode(): int(row["exact"]) for row in summary}
    assert list(parts) == ["in_range", *OUTSIDE, *([] if fill is None else ["missing"])], parts
    assert all(int(finished.values[key]) == value for key, value in parts.items()), finished
    assert parts["in_range"] == rows["count"].sum() and sum(parts.values()) == array.size, parts
    if parts["in_range"] == 0:
        cause = "missing" if parts.get("missing") == array.size else "histogram.range"
        assert cause in finished.err and "largest_bin" not in finished.values, finished
    else:
        largest = int(finished.values["largest_bin"])
        assert not finished.err and rows["count"].argmax() == largest, finished
        assert rows["count"][largest] == int(finished.values["largest_count"]), finished
    checksum = summary["checksum"][0]
    return np.append(rows["left"], rows["right"][-1]), rows["count"], parts, checksum


def check_with_numpy(array, low, high, bins, is_extreme=False, **how):
    edges, counts, parts, _ = histogram(array, low, high, bins, **how)
    fill = how.get("fill")
    wide = (array if fill is None else array[array != fill]).astype(np.float64)
    expected_edges = np.linspace(low, high, bins + 1)
    # Given edges, numpy searches them; given a range, it computes, and overflows for some ranges.
    how_binned = expected_edges if is_extreme else bins
    expected, _ = np.histogram(wide[np.isfinite(wide)], how_binned, (low, high))
    assert (edges == expected_edges).all(), edges
    assert (counts == expected).all(), np.flatnonzero(counts != expected)
    assert parts["below"] == (wide < low).sum() and parts["above"] == (wide > high).sum(), parts
    assert parts["nan"] == np.isnan(wide).sum(), parts


def hard_values(dtype, low, high, bins, count=70000):
    """Spread over more than the range, on edges and beside them, special values."""
    dtype, random = np.dtype(dtype), seeded(np.dtype(dtype).name, low, high, bins)
    values = random.uniform(low - (high - low) / 4, high + (high - low) / 4, count)
    edges = np.linspace(low, high, bins + 1)
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        values, edges = (np.clip(some, limits.min, limits.max) for some in (values, edges))
        some = random.choice(edges, 1000).astype(dtype)
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, np.finfo(dtype).max,
                            np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).tiny], dtype)
        parts = [values.astype(dtype), some, np.nextafter(some, dtype.type(np.inf)),
                 np.nextafter(some, dtype.type(-np.inf)), special]
    else:
        limits = np.iinfo(dtype)
        kept = np.clip(np.concatenate([values, edges, edges + 1]), max(limits.min, -2.0**52),
                       min(limits.max, 2.0**52))
        parts = [kept.astype(dtype)]
    all_values = np.concatenate(parts)
    random.shuffle(all_values)
    return all_values


def test_against_numpy():
    ranges = [(0.0, 1.0, 10), (-1.0, 2.0, 7), (-100.0, 100.0, 200), (-128.5, 127.5, 256),
              (0.0, 255.0, 255), (-3e5, 1e6, 70001), (0.1, 0.7, 1000)]
    cases = zip(itertools.chain(ranges, ranges), itertools.cycle(TYPES), itertools.cycle([1, 2, 1]))
    each(list(cases), lambda bins, name, ranks: check_with_numpy(
        hard_values(TYPES[name], *bins), *bins, ranks=ranks))


def test_missing_values_are_in_no_bin():
    """Whether their marker is in a bin, on an edge, outside the range or a NaN on the device."""
    def check(name, fill, ranks):
        array = hard_values(TYPES[name], -100.0, 100.0, 200)
        fill = array.dtype.type(fill)
        array[::3] = fill
        check_with_numpy(array, -100.0, 100.0, 200, ranks=ranks, fill=fill)
    integers = [name for name in TYPES if name[0] != "f"]
    each([("f32", 5.5, 1), ("f64", 1e36, 2), *zip(integers, (7, 100, 101, 0), (1, 2, 1, 2)),
          ("i32", -101, 1), ("i8", -128, 2)], check)
    _, counts, parts, _ = histogram(np.full(70000, 3, "i2"), 0.0, 9.0, 9, fill=np.int16(3))
    assert not counts.any() and parts["missing"] == 70000, parts


def test_extreme_ranges():
    """Subnormal, tiny, huge and narrow ranges, and ranges without a value of the type."""
    cases = [("f8", 0.0, 1e-310, 10), ("f8", 1e-300, 3e-300, 33), ("f8", -4e307, 4e307, 9),
             ("f8", 1.0, 1.0 + 2.0**-40, 4096), ("f8", 0.0, 64 * 2.0**-1074, 64),
             ("f4", -1e300, 1e300, 5), ("f4", 1e39, 1e40, 3), ("f4", 1.0, 1.0 + 2.0**-20, 16),
             ("i4", 3e9, 4e9, 4), ("u1", 0.2, 0.4, 2), ("i1", -1e9, 1e9, 1000)]
    each(cases, lambda dtype, low, high, bins: check_with_numpy(
        hard_values(dtype, low, high, bins, 3000), low, high, bins, is_extreme=True))


def test_integers_beyond_2_to_53():
    """They are compared with edges exactly; numpy would round them to doubles first."""
    def check(low, high, bins, ranks):
        limits = np.iinfo(np.int64)
        edges = [int(edge) for edge in np.linspace(low, high, bins + 1)]
        near = [value + step for value in edges for step in (-2, -1, 0, 1, 2)]
        values = [value for value in near if limits.min <= value <= limits.max]
        values += [limits.min, limits.max]
        _, counts, parts, _ = histogram(np.array(values * 5, np.int64), low, high, bins,
                                        ranks=ranks)
        expected, outside = [0] * bins, {"below": 0, "above": 0, "nan": 0}
        for value in values:
            if edges[0] <= value <= edges[-1]:
                expected[min(bisect.bisect_right(edges, value) - 1, bins - 1)] += 5
            else:
                outside["below" if value < edges[0] else "above"] += 5
        assert counts.tolist() == expected, (low, high)
        assert {part: parts[part] for part in OUTSIDE} == outside, parts
    each([(2.0**53, 2.0**53 + 64, 32, 1), (2.0**62, 2.0**62 + 2.0**20, 256, 2),
          (-2.0**63, 2.0**63, 4096, 1), (-2.0**63, -2.0**63 + 8192, 4, 3),
          (2.0**63 - 8192, 2.0**63, 8, 1), (0.0, 2.0**64, 10, 1)], check)


def test_the_same_on_any_ranks_and_in_any_batches():
    def check(name):
        array = hard_values(TYPES[name], 0.0, 100.0, 1000, 300000)
        first = histogram(array, 0.0, 100.0, 1000)
        for ranks, options in [(1, ["--pipeline.mode", "resident"]), (2, ["--pipeline.batch", 1]),
                               (3, ["--pipeline.mode", "mapped", "--measure.repeat", 3]),
                               (4, ["--pipeline.slot", 4097, "--pipeline.batch", 70001])]:
            _, counts, parts, checksum = histogram(array, 0.0, 100.0, 1000, *options, ranks=ranks)
            assert (counts == first[1]).all() and parts == first[2] and checksum == first[3], ranks
    each([("f32",), ("i64",), ("u8",)], check)


def test_many_bins():
    check_with_numpy(seeded("many").uniform(-1, 1, 200000).astype("f4"), -1.0, 1.0, 2**20, ranks=2)


def test_no_element_in_the_range():
    """A warning says so, and no bin is named as the largest one."""
    finished = run("run", "histogram", "--input.count", 1000, "--histogram.range", "2,3",
                   ranks=2).expect(0)
    assert finished.err.count("histogram.range") == 1, finished
    assert (finished.values["in_range"], finished.values["below"]) == ("0", "1000"), finished
    assert "largest_bin" not in finished.values, finished


def test_bad_input():
    generated = ["run", "histogram", "--input.count", 1000]
    bad_ranges = ["1", "a,b", "1,1", "2,1", "0,nan", "0,inf", "-1e308,1e308", "0,1,2", ","]
    check_complaints([
        (generated, 2, ["histogram.range"]),
        *(([*generated, "--histogram.range", bad], 2, ["histogram.range", bad])
          for bad in bad_ranges),
        *(([*generated, "--histogram.range", "0,1", "--histogram.bins", bins], 2,
           ["--histogram.bins", bins, "1048576"]) for bins in (0, 2**20 + 1)),
        ([*generated, "--histogram.range", "1,1.00000000000001", "--histogram.bins", 100], 2,
         ["histogram.bins", 100, 25]),
        (["run", "histogram", "--histogram.range", "0,1"], 2, ["--input.count"]),
        ([*generated, "--histogram.range", "0,1", "--reduce.ops", "sum"], 2, ["--reduce.ops"]),
        ([*generated, "--histogram.range", "0,1", "--histogram.bins", 2**20,
          "--pipeline.gpu-memory", "1MiB"], 2, ["pipeline.gpu-memory"]),
    ], ranks=(1,))
    check_complaints([([*generated, "--histogram.range", "1,0"], 2, ["histogram.range"])],
                     ranks=(2,))


def test_dry_run():
    """It rejects what the run would reject."""
    generated = ["run", "histogram", "--input.count", 2**30, "--dry-run"]
    finished = run(*generated, "--histogram.range", "0,1").expect(0)
    assert "predicted" in finished.out and "device memory" in finished.out, finished
    check_complaints([([*generated, "--histogram.range", "1,0"], 2, ["histogram.range"])],
                     ranks=(1,))


def test_a_weak_study():
    folder = new_folder() / "study"
    study(folder, "--scale.mode", "weak", "--scale.ranks", "1,2", "--input.count", 10**6,
          "--histogram.range", "0,1", workload="histogram",
          quick=["--measure.repeat", 2, "--scale.oversubscribe", "--scale.timeline", "false"])
    found = only_study(folder)
    assert found["excluded"] == [] and found["contradiction"] == "", found
    assert [point["ranks"] for point in found["points"]] == [1, 2], found


if __name__ == "__main__":
    main(on_gpu=True)
