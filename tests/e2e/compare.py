#!/usr/bin/python3
"""`compare`: real runs of `model` whose laws differ by a factor, and copies of them with given
times, so that every verdict is known despite the noise of this machine."""

import functools
import json
import pathlib
import re
import shutil
import uuid

import h5py
import numpy as np

from harness import each, expect_complaint, expect_words, main, new_folder, run
from studies import QUICK, study

NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}  # makes MPI_Init of Open MPI fail
SAME, UNCLEAR, SLOWER = 0, 4, 5
BENCH = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/bench.h5"


def compare(old, new, *options, code):
    """The JSON of a comparison; its text must have the same exit code."""
    told = json.loads(run("compare", old, new, "--json", *options, env=NO_MPI).expect(code).out)
    text = run("compare", old, new, *options, env=NO_MPI).expect(code).out
    assert told["exit_code"] == code, told
    expect_words(text, [told["verdict"], "OLD", "NEW"])
    return told


@functools.cache
def runs():
    """{ranks: FILE}: a run on one rank and one on two, for copies. Call it before each()."""
    folder = new_folder()
    for ranks in (1, 2):
        run("run", "model", "--model.work", "20ms", *QUICK[:4], "--device.backend", "host",
            "-o", folder / f"{ranks}.h5", ranks=ranks).expect(0)
    return {ranks: folder / f"{ranks}.h5" for ranks in (1, 2)}


def launch(path, times, ranks=1, **attributes):
    """A copy of a run as another launch, with these times of its repetitions and these
    attributes."""
    shutil.copy(runs()[ranks], path)
    with h5py.File(path, "r+") as file:
        file.attrs["run_uuid"] = np.bytes_(str(uuid.uuid4()))
        reps = file["timing/reps"][...]
        reps = np.resize(reps, len(times))
        reps["wall"] = times
        attrs = dict(file["timing/reps"].attrs)
        del file["timing/reps"]
        file["timing/reps"] = reps
        file["timing/reps"].attrs.update(attrs)
        for name, value in attributes.items():  # options are in /config
            group = "config" if "." in name else "provenance"
            file[group].attrs[name] = np.bytes_(value)
    return path


def side(name, *launches, **how):
    """A folder with one file per list of times."""
    folder = new_folder() / name
    folder.mkdir()
    for number, times in enumerate(launches):
        launch(folder / f"{number}.h5", times, **how)
    return folder


def three(seconds, step=0.001):
    """The times of three launches around `seconds`."""
    return [seconds * (1 - step)], [seconds], [seconds * (1 + step)]


# ---------------------------------------------------------------- real runs

def test_real_studies():
    """On two ranks the work takes 50 ms, and 450 ms with the overhead."""
    folder = new_folder()
    for name, overhead in (("old", "0s"), ("new", "400ms")):
        study(folder / name, "--model.work", "100ms", "--model.serial", 0, "--model.overhead",
              overhead, "--scale.ranks", "2", "--scale.replicates", 3, "--measure.repeat", 1,
              "--scale.timeline", "true")  # such launches do not count
    told = compare(folder / "old", folder / "new", code=SLOWER)
    (two,) = told["points"]
    assert two["ranks"] == 2 and told["unmatched"] == [], told
    assert two["time"]["verdict"] == "slower" and two["time"]["ratio"] > 2, two
    assert two["time"]["ratio_lo"] < two["time"]["ratio"] < two["time"]["ratio_hi"], two
    assert abs(two["rate"]["ratio"] * two["time"]["ratio"] - 1) < 1e-9, two
    assert two["old"]["launches"] == two["new"]["launches"] == 3, two
    assert two["to_result"]["old"] > two["time"]["old"], two
    largest = two["largest_change"]
    for phase in two["phases"]:  # the ratio of the numbers in this row
        if phase["ratio"] is not None:
            assert abs(phase["new"] / phase["old"] / phase["ratio"] - 1) < 1e-9, phase
    assert (largest["phase"], largest["kind"]) == ("overhead", "communication"), two
    assert largest["change"] > 0.39, two
    changed = {(row["what"], row["name"]): (row["old"], row["new"]) for row in told["changes"]}
    assert changed["option", "model.overhead"] == ("0s", "400ms"), told
    assert not [name for what, name in changed if name.startswith(("study.", "output."))], told
    back = compare(folder / "new", folder / "old", code=SAME)
    assert back["points"][0]["time"]["verdict"] == back["verdict"] == "faster", back


def test_different_work_has_nothing_in_common():
    folder = new_folder()
    for name, work in (("old", "100ms"), ("new", "200ms")):
        run("run", "model", "--model.work", work, *QUICK[:4], "-o", folder / f"{name}.h5").expect(0)
    finished = run("compare", folder / "old.h5", folder / "new.h5")
    expect_complaint(finished, 2, ["0.1 s", "0.2 s"])
    run("run", "reduce", "--input.count", 1000, "-o", folder / "reduce.h5").expect(0)
    finished = run("compare", folder / "old.h5", folder / "reduce.h5")
    expect_complaint(finished, 2, ["model", "reduce"])


def expect_markdown(old, new, code, verdict, row):
    """The verdict in the first line, and a folded table with these cells."""
    finished = run("compare", old, new, "--markdown", env=NO_MPI).expect(code)
    first, *_ = finished.out.splitlines()
    assert first.startswith(f"**Verdict: {verdict}**"), finished
    before, table = finished.out.split("<details>")
    assert "|" not in before and table.endswith("</details>\n"), finished
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    assert cells.count(cells[0]) >= 3 and set(rows[1]) == set("| -"), finished
    assert any(all(cell in line for cell in row) for line in rows), finished


def test_markdown():
    expect_markdown(side("old", *three(1)), side("new", *three(2)), SLOWER, "slower",
                    ["time", "1 s", "2 s", "slower"])
    name = "a|b <c> *d*"
    expect_markdown(hyperfine({name: FAST}), hyperfine({name: FAST}), SAME, "same",
                    [r"a\|b \<c\> \*d\*", "1 s"])
    expect_complaint(run("compare", "old", "new", "--markdown", "--json"), 2,
                     ["--markdown", "--json"])


def test_json_takes_no_value():
    expect_complaint(run("compare", "old", "new", "--json", "x.json", env=NO_MPI), 2,
                     ["--json", "x.json"])


# ---------------------------------------------------------------- verdicts

def test_verdicts_and_exit_codes():
    runs()

    def check(old, new, verdict, code, *options):
        told = compare(side("old", *old), side("new", *new), *options, code=code)
        point, = told["points"]
        assert point["time"]["verdict"] == told["verdict"] == verdict, told
    six = [1.00, 1.001, 1.002, 1.003, 1.004, 1.005]
    each([(three(1), three(1.1), "slower", SLOWER),
          (three(1), three(0.9), "faster", SAME),
          (three(1), three(1.001), "same", SAME),
          (three(1), three(1.02), "unclear", UNCLEAR),
          (three(1, 0.1), three(1, 0.1), "unclear", UNCLEAR),
          (three(1), three(1.1), "same", SAME, "--threshold", "20%"),
          (three(1), three(1.01), "slower", SLOWER, "--threshold", "0.5 %"),
          ([six], [six], "unclear", UNCLEAR),
          ([six], [six], "same", SAME, "--launch-noise", "0.1%"),
          ([six], [[1.1 * time for time in six]], "unclear", UNCLEAR),
          ([six], [[1.1 * time for time in six]], "slower", SLOWER, "--launch-noise", "1 %"),
          ([six], [[2 * time for time in six]], "slower", SLOWER),
          ([six[:5]], [[2 * time for time in six[:5]]], "unclear", UNCLEAR),
          ([[1], [1]], [[2], [2]], "unclear", UNCLEAR)], check)


def test_exact_ratio():
    """Each launch counts once, with the median of its repetitions."""
    told = compare(side("old", [2, 2, 9], [2, 1, 3], [2]), side("new", [3], [3], [3, 3, 30]),
                   code=SLOWER)
    time = told["points"][0]["time"]
    assert time["old"] == 2 and abs(time["new"] - 3) + abs(time["ratio"] - 1.5) < 1e-12, time
    assert time["basis"] == "launches" and time["ratio_lo"] == time["ratio_hi"], time
    rate = told["points"][0]["rate"]
    assert abs(rate["old"] - told["points"][0]["work"] / 2) < 1e-12, rate


def test_missing_samples():
    told = compare(side("old", [1] * 5), side("new", [2] * 2, [2] * 9), code=UNCLEAR)
    point, = told["points"]
    assert (point["old"]["missing_launches"], point["old"]["missing_repetitions"]) == (2, 1), point
    assert (point["new"]["missing_launches"], point["new"]["missing_repetitions"]) == (1, 4), point
    expect_words(point["warnings"][0], ["OLD", "1 launch", "NEW", "2 launches", 3, 6])
    assert len([each for each in point["warnings"] if "launches" in each]) == 1, point


def test_unclear_says_how_many_launches_decide():
    def check(step, number, *named):
        old, new = side("old", *three(1, step)), side("new", *three(1, step))
        point, = compare(old, new, code=UNCLEAR)["points"]
        assert point["launches_to_decide"] == number, point
        expect_words(point["warnings"][0], named)
    check(0.01, 4, 4)
    check(0.5, None, 50, "--threshold")
    told = compare(side("old", *three(1)), side("new", *three(2)), code=SLOWER)
    assert told["points"][0]["launches_to_decide"] is None, told


def test_ratios_against_almost_nothing():
    """A phase that took less than 0.1 % of a repetition has a change, but no ratio."""
    def folder(name, seconds):
        made = side(name, *three(1))
        for path in made.glob("*.h5"):
            with h5py.File(path, "r+") as file:
                table = file["timing/phases"][:1]
                table["track"], table["phase"] = b"main", b"combine"
                table["kind"], table["timed_seconds"] = b"communication", seconds
                attributes = dict(file["timing/phases"].attrs)
                del file["timing/phases"]
                file["timing/phases"] = table
                file["timing/phases"].attrs.update(attributes)
        return made

    def check(old, new, verdict):
        point, = compare(folder("old", old), folder("new", new), code=SAME)["points"]
        phase, = point["phases"]
        assert phase["verdict"] == verdict and (phase["ratio"] is None) == (verdict is None), phase
        assert abs(phase["change"] - (new - old)) < 1e-9, phase
    check(1e-6, 0.1, None)
    check(0.01, 0.1, "slower")


def test_one_launch_a_side_is_marked():
    """The assumed noise between launches is in the interval, in the JSON and in the warning."""
    def check(percent, code, *options):
        told = compare(side("old", [1] * 6), side("new", [1] * 6), *options, code=code)
        time = told["points"][0]["time"]
        assert time["basis"] == "repetitions" and told["launch_noise"] == percent / 100, told
        assert abs(np.log(time["ratio_hi"]) * 100 / percent - 1.959964 * 2 ** 0.5) < 1e-6, time
        warning, = told["points"][0]["warnings"]
        expect_words(warning, [f"{percent:g} %", "--launch-noise", 3])
    check(5, UNCLEAR)
    check(0.25, SAME, "--launch-noise", "0.25%")


def test_one_launch_a_side_rarely_calls_equal_programs_slower():
    """3 % between launches, and correlated repetitions: 40 pairs of equal programs. If the interval
    did not contain the noise between launches, 15 of them would be slower."""
    random = np.random.default_rng(7)

    def times():
        launched, state, found = np.exp(random.normal(0, 0.03)), random.normal(), []
        for _ in range(10):
            found.append(launched * (1 + 0.003 * state))
            state = 0.6 * state + 0.8 * random.normal()
        return found
    pairs = [(times(), times()) for _ in range(40)]

    def check(old, new):
        finished = run("compare", side("old", old), side("new", new), env=NO_MPI)
        assert finished.code == UNCLEAR, finished
    runs()
    each(pairs, check)


def test_the_slowest_point_decides():
    """One size is faster and one slower: exit code 5. Sizes that only one side has do not count."""
    old, new = side("old", *three(1)), side("new", *three(0.5))
    for folder, seconds in ((old, 1), (new, 2)):
        for number, times in enumerate(three(seconds)):
            launch(folder / f"two-{number}.h5", times, ranks=2)
    told = compare(old, new, code=SLOWER)
    assert [point["time"]["verdict"] for point in told["points"]] == ["faster", "slower"], told
    for path in new.glob("two-*.h5"):
        path.unlink()
    told = compare(old, new, code=SAME)
    (lost,) = told["unmatched"]
    assert lost["side"] == "OLD" and "2 ranks" in lost["point"], told
    expect_words(lost["reason"], ["NEW", "ranks", "1"])


# ---------------------------------------------------------------- what changed

def test_changes():
    """A default of an option that an older version does not know is no change."""
    old = side("old", *three(1), git_commit="aaa", nvidia_driver="1.0")
    for path in old.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            del file["config"].attrs["product.planes"]
    new = side("new", *three(1), **{"git_commit": "bbb", "nvidia_driver": "2.0",
                                    "measure.warmup": "7"})
    told = compare(old, new, code=SAME)
    changed = {(row["what"], row["name"]): (row["old"], row["new"]) for row in told["changes"]}
    assert changed == {("option", "measure.warmup"): ("0", "7"),
                       ("version", "git_commit"): ("aaa", "bbb"),
                       ("machine", "nvidia_driver"): ("1.0", "2.0")}, told
    assert compare(old, side("new", *three(1), git_commit="aaa", nvidia_driver="1.0"),
                   code=SAME)["changes"] == []


def test_options_set_by_the_calibration():
    """A changed option is marked if the calibration has set it, not a user in study.ini."""
    runs()

    def folder(name, cpus, options=""):
        made = side(name, *three(1), **{"study.name": name, "study.mode": "strong",
                                        "launch.cpus-per-rank": cpus, "measure.warmup": cpus})
        (made / "study.ini").write_text(f"[study]\nname = {name}\n{options}")
        return made

    def check(options, by_calibration):
        told = compare(folder("old", "2"), folder("new", "4", options), code=SAME)
        found = {row["name"]: row["by_calibration"] for row in told["changes"]}
        assert found == {"launch.cpus-per-rank": by_calibration, "measure.warmup": False}, told
    check("", True)
    check("[launch]\ncpus-per-rank = 4\n", False)
    check("[scale]\nranks = 1\n", True)


def test_launches_with_different_options():
    """Launches of one side that differ in options count together, and a warning names these."""
    old, new = side("old", *three(1)), side("new", *three(1))
    launch(new / "3.h5", [1], **{"measure.warmup": "7"})
    told = compare(old, new, code=SAME)
    assert told["points"][0]["new"]["launches"] == 4, told
    (warning,) = told["points"][0]["warnings"]
    expect_words(warning, ["NEW", "measure.warmup"])
    assert [row["new"] for row in told["changes"]] == ["0 | 7"], told


# ---------------------------------------------------------------- bad input

def test_bad_commands():
    old, new = side("old", *three(1)), side("new", *three(1))
    first = old / "0.h5"
    empty = new_folder()
    text = empty.parent / "text.h5"
    text.write_text("no HDF5")
    other = empty.parent / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = [1]

    def check(words, *named):
        expect_complaint(run("compare", *words, env=NO_MPI), 2, named)
    each([([], 0), ([old], 1), ([old, new, old], 3),
          ([old, empty], empty), ([old, "missing.h5"], "missing.h5"), (["missing", new], "missing"),
          ([first, first], first), ([old, old], first), ([first, old], first),
          ([text, new], text), ([old, other], other),
          *[([old, new, "--threshold", bad], "threshold", bad)
            for bad in ("0", "0%", "-1%", "2", "100%", "x", "nan%", "1e999%", "%")],
          ([old, new, "--launch-noise", "5"], "launch-noise", "5"),
          ([old, new, "--launch-noise", "100%"], "launch-noise", "100%"),
          ([old, new, "--treshold", "2%"], "treshold", "threshold"),
          ([old, new, "--json=yes"], "json", "yes"),
          ([old, new, "--csv", "x"], "csv")], check)


def test_copies_are_not_compared():
    old, copies = side("old", *three(1)), new_folder()
    shutil.copy(old / "1.h5", copies / "a.h5")
    expect_complaint(run("compare", old, copies), 2, [old / "1.h5", copies / "a.h5"])


def test_times_that_cannot_be():
    good = side("good", *three(1))

    def check(bad):
        folder = side("bad", [1, bad, 1])
        expect_complaint(run("compare", good, folder), 2, [folder / "0.h5"])
    each([(0,), (-1,), (float("nan"),), (float("inf"),)], check)


def test_unreadable_files_among_good_ones():
    """Exit code 1 if the others are not slower, even if they are unclear; slower stays 5."""
    runs()

    def check(seconds, code, step=0.001):
        old, new = side("old", *three(1, step)), side("new", *three(seconds, step))
        broken = launch(new / "broken.h5", [1])
        broken.write_bytes(broken.read_bytes()[:5000])
        told = compare(old, new, code=code)
        (named,) = told["new"]["unreadable"]
        assert named["file"] == str(broken) and told["new"]["launches"] == 3, told
    each([(1, 1), (0.5, 1), (2, SLOWER), (1, 1, 0.1)], check)


def test_runs_that_do_not_count():
    """A folder with two studies of the same points is ambiguous; a lone resumed run says so."""
    old, new = side("old", *three(1)), side("new", *three(1))
    for path, name in zip(sorted(new.glob("*.h5")), ("a", "a", "b")):
        with h5py.File(path, "r+") as file:
            for key, value in (("study.name", name), ("study.mode", "strong")):
                file["config"].attrs[key] = np.bytes_(value)
    expect_complaint(run("compare", old, new), 2, ["NEW", "a, b"])
    resumed = launch(new_folder() / "resumed.h5", [1])
    with h5py.File(resumed, "r+") as file:
        file.attrs["restart_count"] = np.int64(1)
    expect_complaint(run("compare", old, resumed), 2, [resumed, "resumed"])


def test_hostile_names():
    evil = "\x1b]0;x\n"
    old = side("old", *three(1), **{"model.seed": evil, "git_commit": evil * 50})
    new = side("new" + evil, *three(2))
    for options in ([], ["--json"]):
        finished = run("compare", old, new, *options).expect(SLOWER)
        assert all(" " <= letter <= "~" or letter == "\n" for letter in finished.out), finished
    for path in new.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            file["config"].attrs["run.workload"] = np.bytes_("a" + evil)
    expect_complaint(run("compare", old, new), 2, ["model"])


# ---------------------------------------------------------------- files of bench

def changed(folder, name, experiment, factor, row=0):
    """A copy of the example in which one case has another value, with an interval like before."""
    path = folder / name
    shutil.copy(BENCH, path)
    with h5py.File(path, "r+") as file:
        rows = file[f"bench/{experiment}/rows"]
        table = rows[...]
        for column in ("rate" if experiment == "stride" else "time", "ci_lo", "ci_hi"):
            table[column][row] *= factor
        rows[...] = table
    return path


def test_files_of_bench():
    """A smaller rate and a longer time are slower. Cases that only one side has do not count."""
    folder = new_folder()
    quiet = ["--launch-noise", "0.1%", "--threshold", "10%"]
    for name, experiment, factor, verdict, code in (
            ("a.h5", "stride", 0.5, "slower", SLOWER), ("b.h5", "stride", 2, "faster", None),
            ("c.h5", "reduction", 2, "slower", SLOWER), ("d.h5", "reduction", 0.5, "faster", None)):
        path = changed(folder, name, experiment, factor)
        finished = run("compare", BENCH, path, "--json", *quiet, env=NO_MPI)
        told = json.loads(finished.out)
        found, = [case for case in told["cases"] if case["verdict"] in ("slower", "faster")]
        assert (found["experiment"], found["verdict"]) == (experiment, verdict), found
        assert abs(found["ratio"] / factor - 1) < 1e-6, found
        assert finished.code == told["exit_code"] == (code or UNCLEAR), finished
        text = run("compare", BENCH, path, *quiet, env=NO_MPI).out
        expect_words(text, [experiment, verdict, f"1 {verdict}"])
    told = json.loads(run("compare", BENCH, BENCH.with_name("bench-four.h5"), "--json").out)
    assert told["only_old"] and told["only_new"], told["exit_code"]
    expect_complaint(run("compare", BENCH, runs()[1]), 2, [runs()[1]])
    expect_complaint(run("compare", runs()[1], BENCH), 2, [BENCH])


# ---------------------------------------------------------------- measurements of other programs

def written(name, contents):
    """A new file with a text, or with an object as JSON."""
    path = new_folder() / name
    path.write_text(contents if isinstance(contents, str) else json.dumps(contents))
    return path


def hyperfine(times):
    """A file of hyperfine: {command: times in seconds}."""
    return written("hyperfine.json", {"results": [
        {"command": command, "mean": 1, "times": seconds} for command, seconds in times.items()]})


def google_benchmark(times, unit="ns"):
    """A file of google-benchmark with repetitions, and an aggregate of each: {name: times}."""
    found = []
    for name, repetitions in times.items():
        found += [{"name": f"{name}/repeats:3", "run_name": name, "run_type": "iteration",
                   "repetition_index": index, "real_time": time, "cpu_time": 7, "time_unit": unit}
                  for index, time in enumerate(repetitions)]
        found.append({"name": f"{name}_mean", "run_name": name, "run_type": "aggregate",
                      "aggregate_name": "mean", "real_time": 1e9, "time_unit": unit})
    return written("google.json", {"context": {}, "benchmarks": found})


def csv(rows, header="size,mode,time"):
    return written("x.csv", "\n".join([header, *rows]) + "\n")


def numbers(values):
    return written("x.txt", "".join(f"{value}\n" for value in values))


FAST, SLOW = [1.0, 1.001, 0.999], [1.1, 1.101, 1.099]
COLUMNS = ("--key", "size,mode", "--value", "time")


def verdicts(told):
    return {case["case"]: case["verdict"] for case in told["cases"]}


def test_measurements_of_other_programs():
    """Each value is a launch, with the statistics of results; cases match by their names."""
    def check(old, new, code, found, *options):
        assert verdicts(compare(old, new, *options, code=code)) == found
    each([(hyperfine({"a": FAST, "b": FAST}), hyperfine({"b": FAST, "a": SLOW}), SLOWER,
           {"a": "slower", "b": "same"}),
          (hyperfine({"./old -n 1": SLOW}), hyperfine({"./new -n 1": FAST}), SAME,
           {"./old -n 1 -> ./new -n 1": "faster"}),
          (google_benchmark({"BM_x/8": FAST, "y": FAST}), google_benchmark({"BM_x/8": SLOW,
           "y": FAST}), SLOWER, {"BM_x/8": "slower", "y": "same"}),
          (google_benchmark({"x": [1000 * time for time in FAST]}),
           google_benchmark({"x": FAST}, "us"), SAME, {"x": "same"}),
          (csv([f"1,a,{time}" for time in FAST] + [f'2,"a, b",{time}' for time in FAST]),
           csv([f'2,"a, b",{time}' for time in SLOW] + ["", *[f"1,a,{time}" for time in FAST]]),
           SLOWER, {"size 1, mode a": "same", "size 2, mode a, b": "slower"}, *COLUMNS),
          (csv(map(str, FAST), "GB/s"), csv(map(str, SLOW), "GB/s"), SAME,
           {"all rows": "faster"}, "--value", "GB/s", "--better", "more"),
          (numbers(FAST), numbers(SLOW), SLOWER, {"all lines": "slower"}),
          (numbers(FAST), numbers(SLOW), SAME, {"all lines": "faster"}, "--better", "more"),
          (numbers(FAST), numbers(SLOW[:2]), UNCLEAR, {"all lines": "unclear"}),
          (numbers([1]), numbers([1.5]), UNCLEAR, {"all lines": "unclear"}),
          (numbers([1]), numbers([1.5]), SLOWER, {"all lines": "slower"}, "--launch-noise", "5%"),
          (numbers([1]), numbers([1.001]), SAME, {"all lines": "same"}, "--launch-noise", "0.1%")],
         check)


def test_numbers_have_the_statistics_of_results():
    """The same ratio and interval as results with these times, and the ratio of a rate."""
    point, = compare(side("old", *three(1)), side("new", *three(1.1)), code=SLOWER)["points"]
    old, new = ([times for (times,) in three(seconds)] for seconds in (1, 1.1))
    case, = compare(numbers(old), numbers(new), code=SLOWER)["cases"]
    for key in ("old", "new", "ratio", "ratio_lo", "ratio_hi"):
        assert abs(case[key] - point["time"][key]) < 1e-9, (key, case, point)
    assert (case["old_launches"], case["new_launches"]) == (3, 3), case
    rate, = compare(numbers(old), numbers(new), "--better", "more", code=SAME)["cases"]
    assert abs(rate["ratio"] - 1.1) < 1e-3 and rate["ratio_lo"] < 1.1 < rate["ratio_hi"], rate
    google, = compare(google_benchmark({"x": old}), google_benchmark({"x": new}),
                      code=SLOWER)["cases"]
    assert abs(google["old"] - 1e-9) < 1e-12 and google["unit"] == "s", google


def test_many_cases_are_judged_together():
    """A case that is barely slower alone is no reason for exit code 5 among many cases. A case that
    is clearly slower is one, and the exit code of equal cases is not affected."""
    noisy, barely = [0.95, 1.0, 1.05], [time * 1.21 for time in (0.95, 1.0, 1.05)]
    alone = compare(hyperfine({"x": noisy}), hyperfine({"x": barely}), code=SLOWER)
    assert alone["cases"][0]["slower_in_family"], alone
    others = {str(number): FAST for number in range(30)}
    old, new = hyperfine({"x": noisy, **others}), hyperfine({"x": barely, **others})
    told = compare(old, new, code=UNCLEAR)
    assert told["cases"][0]["verdict"] == "slower" and told["verdict"] == "unclear", told
    assert not told["cases"][0]["slower_in_family"], told
    text = run("compare", old, new, env=NO_MPI).out
    expect_words(text, ["1 slower", "Holm", "31 cases"])
    compare(old, hyperfine({"x": [10 * time for time in noisy], **others}), code=SLOWER)
    compare(hyperfine(others), hyperfine(others), code=SAME)


def test_benchmarks_that_failed_are_named():
    failed = {"benchmarks": [
        {"name": "bad", "run_name": "bad", "run_type": "iteration", "error_occurred": True},
        *[{"name": "x", "run_type": "iteration", "real_time": time, "time_unit": "s"}
          for time in FAST]]}
    old, new = google_benchmark({"x": FAST, "bad": FAST}, "s"), written("failed.json", failed)
    told = compare(old, new, code=SAME)
    assert told["only_old"] == ["bad"] and "bad" in told["not_measured"][0], told


def test_measurements_that_cannot_be_compared():
    """One sentence each, with the file."""
    good = {"hyperfine": hyperfine({"a": FAST}), "google": google_benchmark({"a": FAST}),
            "csv": csv([f"1,a,{time}" for time in FAST]), "numbers": numbers(FAST)}

    def check(kind, contents, *named, options=()):
        bad = contents if isinstance(contents, pathlib.Path) else written("bad", contents)
        for sides in ((good[kind], bad), (bad, good[kind])):
            expect_complaint(run("compare", *sides, *options, env=NO_MPI), 2, [bad, *named])
    result = {"command": "a", "times": FAST}
    measured = {"name": "a", "run_type": "iteration", "repetition_index": 0, "real_time": 1,
                "time_unit": "s"}
    bad_json = [({"results": []}, "results"), ({"results": [3]}, "command"),
                ({"results": [{"times": FAST}]}, "command"),
                ({"results": [{"command": 3, "times": FAST}]}, "command"),
                ({"results": [{"command": "a"}]}, "times"),
                ({"results": [{"command": "a", "times": []}]}, "times"),
                ({"results": [result, result]}, "twice"),
                *[({"results": [{"command": "a", "times": [1, value]}]}, value)
                  for value in (0, -1, "x")],
                ('{"results": [{"command": "a", "times": [1, NaN]}]}', "byte"),
                ('{"results": [{"command": "a", "times": [1e999]}]}', "number"),
                ('{"results": [', "byte"), ("[" * 100000, "byte"), ("[1]", "JSON"),
                ({"x": 1}, "JSON")]
    bad_google = [({"benchmarks": []}, "benchmarks"), ({"benchmarks": [1]}, "name"),
                  ({"benchmarks": [measured, measured]}, "twice"),
                  ({"benchmarks": [{**measured, "time_unit": "h"}]}, "h"),
                  ({"benchmarks": [{**measured, "real_time": 0}]}, 0),
                  ({"benchmarks": [{"name": "a", "time_unit": "s"}]}, "real_time"),
                  ({"benchmarks": [{**measured, "run_type": "aggregate"}]},
                   "--benchmark_report_aggregates_only")]
    for contents, *named in bad_json:
        check("hyperfine", contents, *named)
    for contents, *named in bad_google:
        check("google", contents, *named)
    for contents, *named in (("", "empty"), (" \n\n", "empty"), ("1\nx\n", "line 2", "x"),
                             ("1\nnan\n", "line 2", "nan"), ("1\n\n0\n", "line 3"),
                             ("hello\n", "hello"), ("1\n1e999\n", "line 2"),
                             (good["hyperfine"], "hyperfine"), (BENCH, good["numbers"]),
                             (BENCH.parent, good["numbers"])):
        check("numbers", contents, *named)
    header = "size,mode,time\n"
    for contents, *named in (("size,time\n1,1\n", "mode"), (header, "row"),
                             (header + "1,a\n", "line 2"), (header + "1,a,\n", "line 2"),
                             (header + "1,a,x\n", "line 2", "x"),
                             ("size,mode,time,time\n", "time")):
        check("csv", contents, *named, options=COLUMNS)


def test_options_of_measurements():
    table, json_file, text = csv(["1,a,1"]), hyperfine({"a": FAST}), numbers(FAST)

    def check(words, *named):
        expect_complaint(run("compare", *words, env=NO_MPI), 2, named)
    each([([table, csv(["1,a,1"])], table, "--value", "time"),
          ([table, csv(["2,a,1"]), *COLUMNS], table, "common"),
          ([table, csv(["1,a,1"]), "--value", "tim"], table, "tim", "size, mode, time"),
          ([table, csv(["1,a,1"]), "--value", "time", "--key", "siz"], table, "siz"),
          ([json_file, hyperfine({"a": SLOW}), "--value", "time"], json_file, "--value"),
          ([json_file, hyperfine({"a": SLOW}), "--better", "less"], json_file, "--better"),
          ([text, numbers(SLOW), "--key", "time"], text, "--key"),
          ([text, numbers(SLOW), "--better", "most"], "--better", "most"),
          ([text, numbers(SLOW), "--value", " "], "--value"),
          ([text, text], text), ([text, "missing.txt"], "missing.txt"),
          (["missing.txt", text], "missing.txt"),
          ([BENCH, BENCH.with_name("bench-four.h5"), "--value", "x"], "--value")], check)


if __name__ == "__main__":
    main()
