#!/usr/bin/python3
"""Coordinates of files that are joined: those of other dimensions mean the same in all files, and
those of the joined dimension keep their values, whatever type each file has."""

import h5py
import numpy as np

from harness import expect_words, main, new_folder, reduce, run


def test_coordinates_of_other_dimensions_mean_the_same():
    """Units and calendars count: equal numbers may be other dates, and other numbers the same."""
    def months(*units):
        folder = new_folder()
        for number, (unit, calendar, first) in enumerate(units):
            with h5py.File(folder / f"in_{number}.h5", "w") as file:
                file["x"] = np.full((1, 3), float(number))
                file["time"] = first + np.array([0.0, 10, 20])
                file["time"].attrs.update({"units": unit, "calendar": calendar})
                file["time"].make_scale("time")
                file["x"].dims[1].attach_scale(file["time"])
        out = folder / "out.h5"
        finished = run("run", "reduce", "--input.data", f"{folder}/in_*.h5:/x", "--reduce.by",
                       "time:month", "--reduce.ops", "count", "-o", out)
        if finished.code == 0:
            with h5py.File(out) as file:
                assert file["results/count"][:3].tolist() == [6, 0, 0], finished
        return finished
    since = "days since 2000-01-01"
    months((since, "standard", 0), ("day since 2000-1-1 00:00", "gregorian", 0)).expect(0)
    months((since, "standard", 0), ("days since 1999-12-31", "proleptic_gregorian", 1)).expect(0)
    for unit, calendar in (("days since 2000-02-01", "standard"), (since, "360_day"),
                           ("hours since 2000-01-01", "standard"), ("m", "standard")):
        finished = months((since, "standard", 0), (unit, calendar, 0)).expect(2)
        expect_words(finished.err, ["in_0.h5", "in_1.h5", "time", since], finished)


def test_coordinates_of_any_type_are_joined():
    """The type holds those of all files, and each one is found in its own type."""
    def joined(folder, *parts):
        for number, values in enumerate(parts):
            with h5py.File(folder / f"in_{number}.h5", "w") as file:
                file["x"] = np.full((len(values), 3), float(number))
                file["t"] = values
                file["t"].make_scale("t")
                file["x"].dims[0].attach_scale(file["t"])
        return f"{folder}/in_*.h5:/x"
    for parts in ((np.array([0, 1], "i4"), np.array([2.5, 3.75])),
                  (np.array([0, 1], "i1"), np.array([200, 300], "i4")),
                  (np.array([0, 1], "u1"), np.array([2**40, 2**53], "i8")),
                  (np.array([-3, 1], "i8"), np.array([2**40, 2**63], "u8")),
                  (np.array([.1, .2], "f4"), np.array([.3, .4]), np.array([1, 2], "i4"))):
        folder = new_folder()
        reduce(joined(folder, *parts), folder / "out.h5", "--reduce.over", "1", "--reduce.ops",
               "mean")
        with h5py.File(folder / "out.h5") as file:
            wanted = np.concatenate([part.astype("f8") for part in parts])
            assert file["results/t"][()].tolist() == wanted.tolist(), (parts, file["results/t"])
    data = joined(new_folder(), np.array([.1, .2], "f4"), np.array([.3, .4]))
    for text, count in (("t=0.1", 3), ("t=0.3", 3), ("t=0.3:", 6), ("t=0.2:0.3", 6), ("t=:0.2", 6)):
        finished = reduce(f"{data}[{text}]", new_folder() / "out.h5", "--reduce.ops", "count")
        assert int(finished.values["count"]) == count, (text, finished)


main()
