#!/usr/bin/env python3
"""report -o PAGE.html: figures and numbers of the page, from runs, studies, changed files."""

import functools
import math
import re
import shutil

import harness
import studies
from pages import (EXAMPLES, FIGURES, basis_of, copy_of, main, numbers_of, replace, report,
                   set_walls, timed_run)


def read_walls(path):
    import h5py
    with h5py.File(path) as file:
        return list(file["timing/reps"]["wall"])


@functools.cache
def page_of_a_run():
    page, _, _ = report(timed_run(harness.new_folder()))
    return page


def test_a_single_run_has_timeline_and_causes():
    page = page_of_a_run()
    for name in ("timeline", "device-causes", "host-causes", "overlap", "to-result"):
        assert page.figures[f"s1-{name}"] == "picture", page.figures
    assert page.figures["s1-speedup"] == "missing"


def test_the_mean_overlap_lies_between_the_extremes():
    row, = numbers_of(page_of_a_run(), "s1-overlap")
    mean = float(row["overlap, mean of the ranks"])
    assert float(row["minimum"]) <= mean <= float(row["maximum"])


def test_causes_are_the_factors_of_their_total():
    for figure in ("device-causes", "host-causes"):
        row = numbers_of(page_of_a_run(), f"s1-{figure}")[0]
        total = float(row["total"])
        factors = [float(value) for name, value in row.items() if name not in ("ranks", "total")]
        assert len(factors) > 1 and 0 < total <= 1, row
        assert abs(math.prod(factors) - total) < 1e-5, row


SCALE = ["scale", "gemm", "--gemm.m", 256, "--gemm.n", 256, "--gemm.k", 256, "--measure.repeat", 2,
         "--scale.oversubscribe", "--scale.ranks", "1,2", "--scale.replicates", 1]


@functools.cache
def study_with_timelines():
    folder = harness.new_folder() / "study"
    harness.run(*SCALE, "-o", folder).expect(0)
    return folder


@functools.cache
def study_of_traced_launches():
    """Its runs keep their spans because their user wants so."""
    folder = harness.new_folder() / "traced"
    harness.run(*SCALE, "--measure.timeline", "-o", folder,
                env={"NCCL_DEBUG": "WARN", "SLURM_JOB_USER": "me"}).expect(0)
    return folder


def launches_of(page, figure):
    """The number of launches that a figure shows, or None if it shows other runs."""
    found = re.match(r"(\d+) launches\b", basis_of(page, figure))
    return int(found[1]) if found else None


def test_figures_of_spans_show_the_timeline_runs():
    page, _, _ = report(study_with_timelines())
    for name in ("timeline", "timeline-1", "device-causes"):
        assert page.figures[f"s1-{name}"] == "picture", page.figures
        assert launches_of(page, f"s1-{name}") is None, basis_of(page, f"s1-{name}")
    assert len(numbers_of(page, "s1-device-causes")) == 2


def test_other_figures_show_the_launches():
    folder = study_with_timelines()
    page, _, _ = report(folder)
    for name in ("host-causes", "overlap", "roofline"):
        assert launches_of(page, f"s1-{name}") == 2, basis_of(page, f"s1-{name}")
    shown = [float(row["time [s]"]) for row in numbers_of(page, "s1-overlap")]
    walls = [sum(read_walls(folder / f"p{ranks}-r1.h5")) for ranks in (1, 2)]
    assert all(abs(a / b - 1) < 1e-3 for a, b in zip(shown, walls)), (shown, walls)


def test_a_study_without_timeline_runs_has_no_timeline():
    folder = shutil.copytree(study_with_timelines(), harness.new_folder() / "study")
    for path in folder.glob("*-timeline.h5"):
        path.unlink()
    page, _, _ = report(folder)
    assert page.figures["s1-timeline"] == "missing", page.figures
    assert launches_of(page, "s1-device-causes") == 2


def test_figures_of_spans_show_traced_launches():
    page, _, _ = report(study_of_traced_launches())
    assert page.figures["s1-timeline-1"] == page.figures["s1-device-causes"] == "picture"
    assert launches_of(page, "s1-device-causes") == 2


def test_variables_of_the_environment():
    """Those that are the same on every size come once. Logins, addresses and the launcher's own
    are left out."""
    page, _, _ = report(study_of_traced_launches())
    (variables,) = [each for each in re.findall(r"<details>.*?</details>", page.source, re.S)
                    if "NCCL_DEBUG" in each]
    assert variables.count("NCCL_DEBUG=WARN") == 1, variables
    for name in ("JOB_USER", "tcp://", "OMPI_COMM_WORLD"):
        assert name not in variables, variables


def test_time_to_the_result():
    """The time to the result is compared with that of the smallest size. It counts one repetition,
    since sizes may differ in their number."""
    def check(one, two, times, word):
        def change(file):
            startup = file["timing/startup"][:]
            ranks = len(file["topology/ranks"])
            startup["last"][startup["step"] == b"store"] = (one if ranks == 1 else two) + 2
            file["timing/startup"][:] = startup
            set_walls(file, [1] * 3 if ranks == 1 else [0.5] * 5)
        folder = copy_of("gemm-tf32-strong", change)
        (folder / "attempts.jsonl").unlink()
        page, _, _ = report(folder)
        assert f" {times} times {word} " in page.source, (times, word)
    check(10, 4, "2.5", "faster")
    check(10, 40, "4", "slower")


def test_numbers_of_repetitions():
    """Text, page and JSON have the minimum and the maximum over the launches."""
    counts = {(1, 1): 6, (1, 2): 9, (1, 3): 15, (2, 1): 9, (2, 2): 15, (2, 3): 22}

    def change(file):
        place = len(file["topology/ranks"]), int(file["config"].attrs["study.replicate"])
        set_walls(file, [1 / place[0]] * counts[place])
    folder = copy_of("gemm-tf32-strong", change)
    page, _, _ = report(folder)
    for text in (page.source, harness.run("report", folder).expect(0).out):
        assert "6 to 22 rep" in text, text
    found = [(each["repetitions_min"], each["repetitions"], each["repetitions_max"])
             for each in studies.only_study(folder)["points"]]
    assert found == [(6, 9, 15), (9, 15, 22)], found


def test_a_size_that_scatters_more():
    """Text and page name a size that scatters more. The bounds of a new launch there are wider than
    the interval of the mean, and launches beyond the largest size scatter like it."""
    def change(file):
        ranks = len(file["topology/ranks"])
        step = int(file["config"].attrs["study.replicate"]) - 2
        ideal = 1 / ranks if file["config"].attrs["study.mode"] == b"strong" else 1
        set_walls(file, [ideal * (1 + step * (0.0001 if ranks == 1 else 0.05))])
    for example in ("gemm-tf32-strong", "gemm-fp32-weak"):
        folder = copy_of(example, change)
        page, _, _ = report(folder)
        for text in (page.source, harness.run("report", folder).expect(0).out):
            assert re.search(r"\b0\.01 %.*\b2 ranks\b.* 5 %", text), text
            assert re.search(r"\bscatter by [5-9]\S* %", text), text
        one, two = studies.only_study(folder)["points"]
        assert abs(one["scatter"] - 0.0001) < 1e-6 and abs(two["scatter"] - 0.05) < 1e-3, (one, two)
        law = {row["ranks"]: [float(row[end]) for end in ("lower end", "upper end")]
               for row in numbers_of(page, "s1-law")}
        key = "time" if example.endswith("strong") else "efficiency"
        # Three launches: one new launch differs from the law by twice the mean's uncertainty.
        half = (two[f"{key}_hi"] - two[f"{key}_lo"]) / 2
        assert 1.9 < (law["2"][1] - law["2"][0]) / 2 / half < 2.2, (law, two)
    plain = harness.run("report", EXAMPLES / "gemm-fp64-int8-strong").expect(0).out
    assert "except" not in plain and "!" not in plain, plain


def test_the_band_of_a_law_has_no_negative_ends():
    """Launches that scatter by half of their time; a new one could take no time, but not less."""
    def change(file):
        step = int(file["config"].attrs["study.replicate"]) - 2
        set_walls(file, [3 ** step / len(file["topology/ranks"])])
    for example in ("gemm-tf32-strong", "gemm-fp32-weak"):
        page, _, _ = report(copy_of(example, change))
        ends = [float(row["lower end"]) for row in numbers_of(page, "s1-law")]
        assert min(ends) == 0, ends


def test_partly_verified_results():
    """Text and page count results that were verified only in part."""
    def change(file):
        if file["config"].attrs["study.replicate"] in (1, b"1", "1"):
            metrics = file["metrics"][:]
            ranks = len(file["topology/ranks"])
            metrics["value"][metrics["metric"] == b"verified"] = ("partly" if ranks == 1 else
                                                                 "unchecked")
            del file["metrics"]
            file["metrics"] = metrics
    whole, partly = EXAMPLES / "gemm-tf32-strong", copy_of("gemm-tf32-strong", change)
    page, _, _ = report(partly)
    assert "4 of 6 launches" in page.source, page.source
    warnings = [[line for line in harness.run("report", study).expect(0).out.splitlines()
                 if "/results" in line] for study in (partly, whole)]
    assert [len(lines) for lines in warnings] == [1, 0], warnings
    assert "2 of 6 launches" in warnings[0][0] and page.source.count("2 of 6 launches") == 1


def test_weak_study():
    folder = harness.new_folder() / "weak"
    harness.run("scale", "model", "--scale.mode", "weak", "--model.work", "40ms", "--model.spin",
                "sleep", "--scale.oversubscribe", "--scale.ranks", "1,2", "--scale.replicates", 2,
                "-o", folder).expect(0)
    page, _, _ = report(folder)
    assert page.figures["s1-law"] == page.figures["s1-efficiency"] == "picture", page.figures
    assert page.figures["s1-karp-flatt"] == "missing"
    assert "Weak efficiency" in page.source and "Gustafson" in page.source


def test_empty_tables_say_what_is_missing():
    def change(file):
        for name in ("ceilings", "telemetry/gpu", "timing/rank_phase", "timing/startup"):
            replace(file, name, file[name][:0])
    page, _, _ = report(copy_of("gemm-tf32-strong", change))
    assert page.figures["s1-roofline"] == page.figures["s1-timeline"] == "missing", page.figures
    assert page.figures["s1-time"] == "picture"


def test_numbers_that_cannot_be():
    def change(file):
        ceilings, reps, metrics = (file[name][:] for name in
                                   ("ceilings", "timing/reps", "metrics"))
        odd = [float("inf"), float("nan"), 1e-320]
        ceilings["aggregate"] = [odd[i % 3] for i in range(len(ceilings))]
        reps["wall"] = [5e-324 if reps["rep"][0] == 0 else 1e300] * len(reps)
        metrics["number"][metrics["metric"] == b"energy"] = -1e308
        for name, table in (("ceilings", ceilings), ("timing/reps", reps), ("metrics", metrics)):
            file[name][:] = table
    for example in ("reduce-file-strong", "reduce-file-four"):  # two sizes; three test a law
        page, _, _ = report(copy_of(example, change), timeout=60)
        assert len(page.figures) == len(FIGURES) and page.figures["s1-cost"], page.figures


if __name__ == "__main__":
    main()
