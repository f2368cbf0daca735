#!/usr/bin/python3
"""`scale` and `report` find the known laws of the workload `model`. Studies with given times check
the statements of `report`."""

import functools
import math
import re
import shutil
import uuid

import h5py
import numpy as np

from harness import each, expect_words, main, new_folder, run
from studies import QUICK, only_study, study


def check_study(check, *arguments, attempts=3):
    """Makes a study and passes its folder and what `report` finds there to `check`. Machines are
    shared, and a rank that wakes up late falsifies a law: a study that fails is repeated, and the
    last one counts."""
    for left in reversed(range(attempts)):
        folder = new_folder() / "study"
        study(folder, *arguments, "--scale.replicates", 2)
        try:
            return check(folder, only_study(folder))
        except AssertionError:
            if left == 0:
                raise


def lateness(points, ideal):
    """How much longer a point took than its law says, as a share. A rank may wake up late on a busy
    machine, but never early."""
    late = [point["time"] / ideal(point["ranks"]) - 1 for point in points]
    assert min(late) > -0.01, (late, points)
    return max(*late, 0)


def test_strong_scaling_finds_the_serial_share():
    def check(serial):
        def is_found(_, found):
            late = lateness(found["points"], lambda n: 0.4 * (serial + (1 - serial) / n))
            assert abs(found["serial"] - serial) < 0.02 + 1.5 * late, found
            assert near(found["serial_configured"] + 1, serial + 1, 1e-9), found
            assert near(found["serial_expected"] + 1, serial + 1, 1e-9), found
            assert found["serial_lo"] < found["serial"] < found["serial_hi"], found
            assert [point["ranks"] for point in found["points"]] == [1, 2, 4], found
            assert all(point["launches"] == 2 for point in found["points"]), found
            assert found["excluded"] == [] and found["contradiction"] == "", found
            ideal = 1 / (serial + (1 - serial) / 4)
            assert abs(found["points"][2]["speedup"] / ideal - 1) < 0.01 + late, found
            assert near(found["points"][2]["speedup_configured"], ideal, 1e-9), found
        check_study(is_found, "--model.work", "400ms", "--model.serial", serial,
                    "--scale.ranks", "1,2,4")
    each([(0,), (0.05,), (0.25,)], check, workers=1)


def test_weak_scaling_keeps_the_work_of_a_rank():
    def check(_, found):
        one, three = found["points"]
        assert found["mode"] == "weak" and abs(three["work"] / one["work"] - 2.8) < 1e-9, found
        late = lateness(found["points"], lambda n: 0.2)
        assert abs(three["time"] / one["time"] - 1) < 0.01 + late, found
        assert abs(found["serial"] - 0.1) < 0.02 + 1.5 * late, found
    check_study(check, "--model.work", "200ms", "--model.serial", 0.1, "--scale.ranks", "1,3",
                "--scale.mode", "weak")


def test_noise_differs_between_launches_and_lengthens_the_expected_times():
    """A log-normal time with the mean 1 has the median exp(-d^2 / 2). The larger one of two has
    the median exp(z d - d^2 / 2) with F(z)^2 = 1/2 and the normal distribution function F."""
    folder = new_folder() / "noisy"
    study(folder, "--model.work", "10ms", "--model.serial", 0.2, "--model.noise", 0.5,
          "--scale.ranks", "1,2", "--scale.replicates", 2)
    counted = set()
    for path in folder.glob("p?-r?.h5"):
        with h5py.File(path) as file:
            counted.add(int(file["results/model_ranks"]["counted"][-1]))
    assert len(counted) == 4, counted
    variance = math.log(1.25)
    median = math.exp(-variance / 2)
    one = 0.2 + 0.8 * median
    two = 0.2 + 0.4 * median * math.exp(0.54495214 * math.sqrt(variance))
    found = only_study(folder)
    assert near(found["serial_configured"], 0.2, 1e-9), found
    assert near(found["serial_expected"], 2 * two / one - 1, 1e-6), found
    assert near(found["points"][1]["speedup_configured"], one / two, 1e-6), found
    text, page = texts_of(folder)
    expect_words(text, ["Configured law: serial share s = 0.2", f"{found['serial_expected']:.3g}"])
    expect_words(page, ["configured law, s = 0.2", f"{found['serial_expected']:.3g}"])
    told = run("report", folder, made_up({1: [1], 2: [0.5]}), "--together", "--short").expect(0).out
    header, *rows = (re.split(r" {2,}", line) for line in told.splitlines()[2:5])
    assert [row[header.index("serial_configured")] for row in rows] == ["0.2", "0.05"], told
    assert rows[0][header.index("serial_expected")] == f"{found['serial_expected']:.3g}", told


def test_overhead_does_not_fit_the_law():
    def check(folder, found):
        assert found["law_fits"] == "no", found
        assert found["points"][1]["karp_flatt"] < found["points"][2]["karp_flatt"], found
        expect_words(run("report", folder).expect(0).out, ["does not fit"])
    check_study(check, "--model.work", "200ms", "--model.serial", 0, "--model.overhead", "100ms",
                "--scale.ranks", "1,2,4")


# ---------------------------------------------------------------- studies with set times

@functools.cache
def runs():
    """{ranks: FILE}: a run on each number of ranks, for copies."""
    folder = new_folder()
    for ranks in (1, 2, 4, 8):
        run("run", "model", "--model.work", "20ms", *QUICK[:4], "--device.backend", "host",
            "-o", folder / f"{ranks}.h5", ranks=ranks).expect(0)
    return {ranks: folder / f"{ranks}.h5" for ranks in (1, 2, 4, 8)}


def made_up(times, works=None):
    """A folder with a launch for each of {ranks: [TIME...]}, weak if there are {ranks: WORK}."""
    folder = new_folder() / "made-up"
    folder.mkdir()
    for ranks, launches in times.items():
        for number, seconds in enumerate(launches):
            path = folder / f"p{ranks}-r{number + 1}.h5"
            shutil.copy(runs()[ranks], path)
            with h5py.File(path, "r+") as file:
                file.attrs["run_uuid"] = np.bytes_(str(uuid.uuid4()))
                reps = file["timing/reps"][:]
                reps["wall"] = seconds
                if works:
                    reps["work"] = works[ranks]
                    file["config"].attrs["study.name"] = np.bytes_("weak")
                    file["config"].attrs["study.mode"] = np.bytes_("weak")
                file["timing/reps"][:] = reps
    return folder


def texts_of(folder):
    """The text and the page of a report."""
    page = folder.parent / "page.html"
    run("report", folder, "-o", page).expect(0)
    return run("report", folder).expect(0).out, page.read_text()


def near(a, b, relative=1e-3):
    return abs(a / b - 1) < relative


def test_everything_refers_to_the_smallest_size():
    """T = 1 + 4 / p on 2, 4 and 8 ranks. A second study, with 5 % more on 2, violates the law, so
    that nothing is extrapolated."""
    def check(more):
        laws = {p: 1 + 4 / p for p in (2, 4, 8)}
        laws[2] *= more
        folder = made_up({p: [seconds] * 2 for p, seconds in laws.items()})
        found = only_study(folder)
        points, expected = found["points"], found["expected"]
        for point in (*points, *([expected] if more == 1 else [])):
            assert near(point["speedup"] * point["time"], 2 * laws[2]), (point, found)
            assert near(point["efficiency"] * point["ranks"], point["speedup"]), point
        assert found["reference_ranks"] == 2, found
        if more > 1:
            assert found["law_fits"] == "no" and expected is None, found
            for text in texts_of(folder):
                assert "xtrapolated to" not in text, text
                expect_words(text, [found["why_not_expected"]])
        else:  # the serial share is a part of the run on 2 ranks
            assert expected["ranks"] == 16 and expected["speedup"] > points[2]["speedup"], found
            assert near(expected["max_speedup"], 2 * 3 / 1), found
            assert near(found["serial"], 1 / 3) and near(found["serial_seconds"], 1), found
            assert near(found["serial_configured"], 0.05 / (0.05 + 0.95 / 2)), found
            for point in points[1:]:
                assert near(point["karp_flatt"], 1 / 3), point
            for text in texts_of(folder):
                expect_words(text, ["refer to 2 ranks", "on 2 ranks"])
                assert "one rank" not in text.split('id="terms"')[0], text
    each([(1,), (1.05,)], check, workers=1)


def test_weak_studies_without_one_rank():
    """s' = 1/4 relative to 2 ranks."""
    laws = {p: p / (p - 0.5 * (p / 2 - 1)) for p in (2, 4, 8)}
    found = only_study(made_up({p: [seconds] * 2 for p, seconds in laws.items()},
                               {p: float(p) for p in laws}))
    assert near(found["serial"], 0.25) and found["reference_ranks"] == 2, found
    assert near(found["expected"]["efficiency"], 1 - 0.25 * 7 / 8), found


def test_a_size_should_take_what_its_work_takes():
    """On 2 ranks with three times the work of 1 rank, 1.5 s instead of 1 s are ideal."""
    times, works = {1: [1, 1], 2: [1.8, 1.8]}, {1: 1.0, 2: 3.0}
    text, _ = texts_of(made_up(times, works))
    found = re.search(r"On 2 ranks, a repetition should take (\S+) s .*It takes (\S+) ms", text)
    assert found and found.groups() == ("1.5", "300"), text


def test_an_outlier_is_named_and_its_law_is_not_called_fitting():
    times = {p: [scale / p for scale in (0.98, 1, 1.02)] for p in (1, 2, 4)}
    times[4][2] *= 3
    folder = made_up(times)
    found = only_study(folder)
    assert found["law_fits"] == "unclear" and found["p_value"] > 0.05, found
    outlier, = found["outliers"]
    assert outlier["file"].endswith("p4-r3.h5") and outlier["ranks"] == 4, outlier
    assert near(outlier["factor"], 3 * 1.02 / 0.99, 0.01), outlier
    assert found["points"][2]["launches"] == 3 and found["excluded"] == [], found
    for text in texts_of(folder):
        expect_words(text, ["Outlier", "p4-r3.h5"])
    times[4][2] /= 3
    calm = only_study(made_up(times))
    assert calm["law_fits"] == "yes" and calm["outliers"] == [], calm


def test_an_untested_law_is_not_called_unclear():
    """Two sizes, or one launch of each; JSON, text and page say so."""
    for times in ({1: [1, 1.01], 2: [0.5, 0.51]}, {1: [1], 2: [0.5], 4: [0.25]}):
        folder = made_up(times)
        found = only_study(folder)
        assert found["law_fits"] == "untested" and found["p_value"] is None, found
        text, page = texts_of(folder)
        for words in (text, page):
            expect_words(words, ["cannot be tested"])
            assert "unclear" not in words, words
        assert "untested law" in page, page
        told = run("report", folder, made_up(times), "--together").expect(0).out
        assert told.count("untested") == 2 and "unclear" not in told, told


def test_scatter_that_grows_widens_the_intervals():
    """Scatter of 1, 2, 4 and 8 %: a new launch on 16 ranks scatters by more than that."""
    times = {p: [np.exp(z * 0.01 * p) / p for z in (-1, 0, 1)] for p in (1, 2, 4, 8)}
    found = only_study(made_up(times))
    scatter = [point["scatter"] for point in found["points"]]
    assert scatter == sorted(scatter) and scatter[0] < 0.015 and scatter[3] > 0.07, scatter
    half = (found["expected"]["time_hi"] - found["expected"]["time_lo"]) / 2
    assert half / found["expected"]["time"] > 0.2, found["expected"]


def test_possible_efficiencies():
    """A new launch is expected between 0 and ideal scaling, however much launches scatter."""
    times = {p: [scale * (0.1 + 0.9 / p) for scale in (0.7, 1, 1.4)] for p in (1, 2, 4)}
    works = {p: float(p) for p in times}
    for found in (only_study(made_up(times)), only_study(made_up(
            {p: [scale * p / (p - 0.1 * (p - 1)) for scale in (0.7, 1, 1.4)] for p in times},
            works))):
        expected = found["expected"]
        assert 0 <= expected["efficiency_lo"] < expected["efficiency"] <= 1, found
        assert expected["efficiency_hi"] == 1, found
        assert expected.get("max_speedup") is None, found


def test_a_serial_share_above_one():
    """It counts as 1 if scatter explains it: the limit and the extrapolation are the speed-up of
    the smallest size, and no output has a lower limit than a measured speed-up."""
    folder = made_up({1: [1, 1.1], 2: [1.05, 1.16], 4: [1.08, 1.12]})
    found = only_study(folder)
    expected, points = found["expected"], found["points"]
    assert found["serial"] > 1 and points[1]["speedup"] < 1, found
    assert expected["max_speedup"] == expected["speedup"] == 1, expected
    assert near(expected["time"], points[0]["time"], 1e-9), found
    assert near(expected["efficiency"], 1 / expected["ranks"], 1e-9), expected
    for text in texts_of(folder):
        assert "stays below" not in text and "1/s = 0" not in text, text


def test_an_interval_of_two_launches_squashes_no_figure():
    """The axes stay near the values, and triangles mark bars that are cut. The numbers below the
    figures have the whole interval."""
    times = {p: [scale * (0.05 + 0.95 / p) for scale in (0.99, 1, 1.01)] for p in (1, 2, 4, 8)}
    times[4] = [times[4][0] / 1.3, times[4][0] * 1.3]
    folder = made_up(times)
    drawn = folder.parent / "figures"
    run("report", folder, "--svg", drawn).expect(0)
    for name in ("time", "speedup", "efficiency", "karp-flatt", "law"):
        assert "longer than drawn" in (drawn / f"s1-{name}.svg").read_text(), name
    speedup = (drawn / "s1-speedup.svg").read_text()
    tics = re.findall(r"<tspan[^>]*>\s*([0-9.]+)\s*</tspan>|<text[^>]*>([0-9.]+)</text>", speedup)
    numbers = {float(a or b) for a, b in tics}
    assert {1, 2, 4, 8, 16} <= numbers and max(numbers) < 100, numbers
    assert "1/s" in speedup and "Amdahl" in speedup, speedup
    point = only_study(folder)["points"][2]
    assert point["speedup_hi"] > 30, point
    _, page = texts_of(folder)
    assert f'{point["speedup_hi"]:.4g}'[:4] in page, point


if __name__ == "__main__":
    main()
