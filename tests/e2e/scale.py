#!/usr/bin/python3
"""`scale` and `report`: one study in parts, and everything that can go wrong with launchers,
folders and files."""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import time

import h5py

from harness import (check_complaints, expect_complaint, expect_words, finish, main, new_folder,
                     run, start, wait_until)
from studies import MPIRUN, QUICK, attempts, only_study, report, script, study


def test_predictions_need_no_launch():
    out = run("scale", "--predict", 0.25, "--scale.ranks", "1,2,4,8,1024").expect(0).out
    rows = {int(words[0]): words for words in map(str.split, out.splitlines())
            if words and words[0].isdigit()}
    assert rows[4][1] == "2.28571" and rows[4][3] == "3.25", out
    assert float(rows[1024][1]) < 4 and float(rows[1024][3]) == 768.25, out


# ---------------------------------------------------------------- one study, launched in parts

def test_a_study_goes_on_where_it_was():
    """--list says the commands; what is missing or unverified is launched again, and nothing
    else; reports leave the calibration out; other options are another study."""
    folder = new_folder() / "study"
    options = ["--model.work", "50ms", "--scale.ranks", "1,2", "--scale.replicates", 2]
    listed = run("scale", "model", *QUICK, *options, "--list", "-o", folder).expect(0).out
    commands = [line for line in listed.splitlines() if line.startswith("mpirun -np ")]
    assert len(commands) == 5 and not folder.exists(), listed
    expect_total(listed, 5)
    expect_words(commands[0], ["--launch.expect-ranks=2", "--study.point=calibration"])
    study(folder, *options)
    assert [each["exit_code"] for each in attempts(folder)] == [0] * 5, attempts(folder)
    assert attempts(folder)[0]["point"] == "calibration"
    shutil.rmtree(folder / "logs")
    kept = folder / "p1-r1.h5"
    before = kept.stat().st_mtime_ns
    (folder / "p2-r1.h5").unlink()
    with h5py.File(folder / "p2-r2.h5", "r+") as file:
        file.attrs["status"] = "unverified"
    study(folder, *options)
    assert sorted(each["result"] for each in attempts(folder)[5:]) == ["p2-r1.h5", "p2-r2.h5"]
    assert kept.stat().st_mtime_ns == before
    finished = run("scale", "model", *QUICK, *options[:-1], 1, "-o", folder)
    expect_complaint(finished, 2, [folder, "scale.replicates", 1, 2])


def test_a_study_is_extended():
    """With more replicates and sizes, what is there counts; the largest size stays, and in a weak
    study the smallest one."""
    for mode in ("strong", "weak"):
        folder = new_folder() / "study"

        def options(ranks, replicates, mode=mode):
            return ["--model.work", "20ms", "--scale.mode", mode, "--scale.ranks", ranks,
                    "--scale.replicates", replicates]
        study(folder, *options("1,3", 1))
        before = {path: path.stat().st_mtime_ns for path in folder.glob("*.h5")}
        for ranks, replicates in (("1,3,4", 2), ("3", 2), ("1,2", 2)):
            finished = run("scale", "model", *QUICK, *options(ranks, replicates), "-o", folder)
            expect_complaint(finished, 2, [folder, "scale.ranks", ranks])
        listed = run("scale", "model", *QUICK, *options("1,2,3", 2), "--list", "-o", folder)
        assert set(re.findall(r"^# (\S+): \d rank", listed.expect(0).out, re.MULTILINE)) == {
            "p1-r2", "p2-r1", "p2-r2", "p3-r2"}, listed
        study(folder, *options("1,2,3", 2))
        assert len(attempts(folder)) == 3 + 4, attempts(folder)
        assert before == {path: path.stat().st_mtime_ns for path in before}
        found = only_study(folder)
        assert [(each["ranks"], each["launches"]) for each in found["points"]] == [
            (1, 2), (2, 2), (3, 2)] and not found["missing"] and not found["excluded"], found
        if mode == "weak":
            smaller = run("scale", "model", *QUICK, *options("2,3", 2), "-o", folder)
            expect_complaint(smaller, 2, [folder, "scale.ranks"])


def expect_total(listed, launches, max_time=0):
    """The total of --list counts every launch that it names, and adds their times. The suggested
    time limits are ten minutes plus twice the total, or the longest time. A launch that repeats
    until its median is precise may also take `max_time` seconds more."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}

    def seconds(text):
        return sum(float(number) * units[unit]
                   for number, unit in re.findall(r"([0-9.]+) (us|ms|s|min)\b", text))
    times = re.findall(r"^# \S+: \d+ ranks?, (.*?) per launch", listed, re.MULTILINE)
    repeats = len(re.findall(r"^# p\d+-r\d+: ", listed, re.MULTILINE))
    at_least = re.findall(r"^# p\d+-r\d+: .* at least ", listed, re.MULTILINE)
    assert len(at_least) == (repeats if max_time else 0), listed
    assert ("at least " in listed.splitlines()[-2]) == bool(at_least), listed
    total, limits = listed.splitlines()[-2:]
    assert len(times) == launches == int(re.search(r"(\d+) launch", total)[1]), listed
    assert abs(seconds(total) - sum(map(seconds, times))) <= 0.005 * seconds(total), listed
    minutes = [60 * int(hours) + int(rest)
               for hours, rest in re.findall(r" (\d+):(\d\d):00\b", limits)]
    limits = (2 * seconds(total) + repeats * max_time, 2 * max(map(seconds, times)) + max_time)
    for limit, time_ in zip(minutes, limits, strict=True):
        assert -0.01 <= limit - 10 - time_ / 60 <= 1.01, listed


def test_the_total_of_a_list():
    """Has the calibration run, as long as there is none, and the timelines."""
    folder = new_folder() / "study"
    quick = [*QUICK[:-2], "--model.work", "300ms", "--scale.ranks", "1,2", "--scale.replicates", 1]
    expect_total(run("scale", "model", *quick, "--list", "-o", folder).expect(0).out, 5)
    study(folder, "--only", "calibration", quick=quick)
    expect_total(run("scale", "model", *quick, "--list", "-o", folder).expect(0).out, 4)
    study(folder, "--only", "p2-timeline", quick=quick)
    expect_total(run("scale", "model", *quick, "--list", "-o", folder).expect(0).out, 3)
    quick[quick.index("--measure.repeat") + 1] = "auto"
    for max_time in (60, 300):
        listed = run("scale", "model", *quick, "--measure.max-time", f"{max_time}s", "--list", "-o",
                     folder.parent / "auto").expect(0).out
        expect_total(listed, 5, max_time)


def test_times_that_are_minima():
    """The dry run does not know how fast the data of reduce are read; the calibration run does."""
    folder = new_folder() / "study"
    options = ["--input.count", "2^20", "--measure.repeat", 2, "--scale.ranks", "1,2",
               "--scale.replicates", 1, "--scale.oversubscribe", "--scale.timeline", "false"]

    def listed():
        out = run("scale", "reduce", *options, "--list", "-o", folder).expect(0).out
        lines = re.findall(r"^# \S+: \d+ ranks?, .*", out, re.MULTILINE)
        return [*lines, out.splitlines()[-2]]
    *launches, total = listed()
    assert len(launches) == 3 and "at least" in total, launches
    for line in launches:
        assert re.search(r"at least \S+ \S+ per launch, \S+ \S+ or more per repetition", line), line
    run("scale", "reduce", *options, "--only", "calibration", "-o", folder).expect(0)
    *launches, total = listed()
    assert len(launches) == 2, launches
    assert not any("at least" in line or "or more" in line for line in [*launches, total]), launches


def test_hosts_of_a_list():
    """As the option says, as the Slurm job, as the calibration run or the rates; else it is
    assumed, and said."""
    sizes = ["--gemm.m", 512, "--gemm.n", 512, "--gemm.k", 512, "--device.backend", "host"]

    def listed(*options, folder=None, ranks="1,8", **env):
        out = run("scale", "gemm", *sizes, "--scale.ranks", ranks, "--list", *options, "-o",
                  folder or new_folder() / "x", env=env).expect(0).out
        line, = re.findall(r"^# hosts: (.*)", out, re.MULTILINE)
        return out, line

    def check(numbers, words, *options, **how):
        out, line = listed(*options, **how)
        assert list(map(int, re.findall(r"\d+", line))) == numbers, line
        expect_words(line, words)
        assert ("GB/s between hosts" in out) == (numbers[0] > 1), out
        return out
    check([1, 8], ["assumed", "--scale.ranks-per-node"])
    own = ["--scale.launcher", "mpirun -np {ranks} --hostfile hosts"]
    check([1, 8], ["assumed", "--scale.ranks-per-node"], *own)
    check([2, 4], ["from scale.ranks-per-node"], *own, "--scale.ranks-per-node", 4)
    out = check([3, 3], ["from scale.ranks-per-node"], "--scale.ranks-per-node", 3)
    assert out.count("ppr:3:node") > 3 and "ppr:1:node" in out, out
    slurm = {"SLURM_JOB_ID": "47", "SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2"}
    check([2, 4], ["Slurm"], **slurm)
    check([4, 2], ["Slurm"], **slurm, SLURM_NTASKS_PER_NODE="2")

    # Results of two hosts: of --rates, and of the calibration run.
    def on_hosts(path, *ranks_of_hosts):
        with h5py.File(path, "r+") as file:
            table = file["topology/ranks"][:]
            names = [name for name, ranks in zip("abc", ranks_of_hosts) for _ in range(ranks)]
            table = table[:1].repeat(len(names))
            table["rank"], table["host"] = range(len(names)), names
            attributes = dict(file["topology/ranks"].attrs)
            del file["topology/ranks"]
            file["topology/ranks"] = table
            file["topology/ranks"].attrs.update(attributes)
    rates = new_folder() / "rates.h5"
    run("run", "gemm", *sizes, "-o", rates).expect(0)
    check([1, 8], ["assumed"], "--rates", rates)
    on_hosts(rates, 2, 3)
    check([3, 3], ["--rates"], "--rates", rates)
    check([2, 4], ["from scale.ranks-per-node"], "--rates", rates, "--scale.ranks-per-node", 4)
    folder = new_folder() / "study"
    study(folder, *sizes, "--scale.ranks", "1,4", "--scale.oversubscribe", "--only", "calibration",
          workload="gemm", quick=[])
    options = ["--scale.oversubscribe"]
    check([1, 4], ["calibration"], *options, folder=folder, ranks="1,4")
    on_hosts(folder / "calibration.h5", 3, 1)
    check([2, 3], ["calibration"], *options, folder=folder, ranks="1,4")


def test_rates_for_a_list():
    """--rates predicts until there is a calibration run, and is no part of the study."""
    folder = new_folder()
    rates, options = folder / "rates.h5", ["--input.count", "2^20", "--scale.ranks", "1,2",
                                           "--scale.replicates", 1, "--measure.repeat", 1,
                                           "--scale.oversubscribe", "--scale.timeline", "false"]
    run("run", "reduce", "--input.count", "2^20", "-o", rates).expect(0)
    listed = run("scale", "reduce", *options, "--list", "--rates", rates, "-o", folder / "study")
    expect_words(listed.expect(0).out, ["measured per rank", rates, "--rates"])
    assert "measure.rates" not in listed.out, listed
    expect_complaint(run("scale", "reduce", *options, "--rates", rates, "-o", folder / "study"), 2,
                     ["--rates", rates, "--list", "--measure.rates"])
    run("scale", "reduce", *options, "-o", folder / "study").expect(0)
    listed = run("scale", "reduce", *options, "--list", "--rates", rates, "-o", folder / "study")
    assert str(rates) not in listed.expect(0).out, listed
    expect_words(listed.out, ["measured per rank", "calibration.h5"])
    # Of a list without rates, the start of each launch is assumed.
    text = run("scale", "model", *QUICK, "--model.work", "1ms", "--scale.ranks", "1",
               "--scale.replicates", 1, "--list", "-o", folder / "x").expect(0).out
    assert len(re.findall(r": 1 rank, 2(?:\.\d+)? s per launch", text)) == 2, text


def test_ready_studies():
    """Those of inputs/, in a small size."""
    small = {"gemm": ["--gemm.m", 256, "--gemm.n", 192, "--gemm.k", 128],
             "reduce": ["--input.count", 200000]}
    inputs = pathlib.Path(__file__).resolve().parents[2] / "inputs"
    ready = [path for path in inputs.glob("*.ini") if "[scale]" in path.read_text()]
    assert len(ready) == 4, ready
    for path in ready:
        run("scale", path, "--list", "-o", new_folder() / "none").expect(0)
        workload = re.search(r"workload = (\w+)", path.read_text())[1]
        folder = new_folder() / "study"
        study(folder, *small[workload], "--scale.ranks", "1,2", "--scale.replicates", 1,
              "--scale.oversubscribe", "--scale.timeline", "false", workload=path,
              quick=["--measure.repeat", 3, "--device.backend", "auto"])
        found = only_study(folder)
        assert found["mode"] == path.name.split("-")[0] and found["workload"] == workload, found
        one, two = found["points"]
        assert two["work"] == one["work"] * (2 if found["mode"] == "weak" else 1), found
        if workload == "gemm":  # all points plan with the calibration's rates
            with h5py.File(folder / "p1-r1.h5") as file:
                assert file["config"].attrs["measure.rates"] == str(folder / "calibration.h5")


def test_timelines():
    """The last launches of a study. They count in no table, and are resumed as the others are."""
    folder = new_folder() / "study"
    quick = QUICK[:-2]
    options = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1]
    listed = run("scale", "model", *quick, *options, "--list", "-o", folder).expect(0).out
    names = re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)
    assert names[0] == "calibration" and names[-2:] == ["p1-timeline", "p2-timeline"], listed
    study(folder, *options, quick=[*quick, "--only", "calibration"])
    study(folder, *options, quick=[*quick, "--only", "p2-timeline"])
    assert sorted(path.name for path in folder.glob("p*")) == ["p2-timeline.h5",
                                                               "p2-timeline.trace.json"]
    with h5py.File(folder / "p2-timeline.h5") as file:
        assert len(file["timing/reps"]) == 1 and len(file["timeline/spans"]) > 0
        assert int(file["config"].attrs["measure.warmup"]) == 1
    expect_complaint(run("report", folder / "p2-timeline.h5"), 2, [folder / "p2-timeline.h5"])
    study(folder, *options, quick=quick)
    told = attempts(folder)
    assert [(each["point"], each["ranks"], each["replicate"]) for each in told[-1:]] == [
        ("timeline", 1, 0)] and len(told) == 5, told
    found = only_study(folder)
    assert [point["launches"] for point in found["points"]] == [1, 1], found
    assert [pathlib.Path(path).name for path in found["timelines"]] == [
        "p2-timeline.h5", "p1-timeline.h5"], found
    assert found["missing"] == found["failed"] == found["excluded"] == [], found
    # One launch of each size has no intervals, so nothing says what they are for.
    run("report", folder, "-o", folder / "page.html").expect(0)
    for text in (run("report", folder).expect(0).out, (folder / "page.html").read_text()):
        assert "xtrapolated" in text and "since no size has several launches" in text, text
        assert "intervals are for" not in text, text
    run("report", folder, "--csv", folder / "csv").expect(0)
    (path,) = (folder / "csv").iterdir()
    assert len(list(csv.DictReader(path.open()))) == 2 * 3
    # A lost one is launched again although its trace is there; no report misses it.
    (folder / "p1-timeline.h5").unlink()
    study(folder, *options, quick=quick)
    assert [each["result"] for each in attempts(folder)[5:]] == ["p1-timeline.h5"]
    (folder / "p1-timeline.h5").unlink()
    assert only_study(folder)["missing"] == []
    # If all launches keep their spans, no run is needed for them.
    both = [*quick, "--measure.timeline", "-o", folder.parent / "all"]
    listed = run("scale", "model", *both, *options, "--list").expect(0).out
    assert "timeline:" not in listed and "p2-r1:" in listed, listed
    assert listed.count("--measure.timeline=true") == 2, listed


def test_a_timeline_that_fails():
    """As other launches: it is tried twice and reported, and the exit code is 1."""
    folder = new_folder()
    fails = f'[[ $* == *study.point=timeline* ]] && exit 9; {MPIRUN}'
    finished = run("scale", "model", *QUICK[:-2], "--model.work", "20ms", "--scale.ranks", "1",
                   "--scale.replicates", 1, "--scale.launcher", script(folder, fails),
                   "-o", folder / "study").expect(1)
    expect_words(finished.err, ["p1-timeline", "exit code 9"], finished)
    expect_words(finished.out, ["Failed: p1-timeline"], finished)
    found = only_study(folder / "study")
    assert found["points"][0]["launches"] == 1 and len(found["failed"]) == 2, found


# ---------------------------------------------------------------- launchers that misbehave

def test_launchers():
    def check(text, code, words, *options):
        folder = new_folder()
        finished = run("scale", "model", *QUICK, "--model.work", "20ms", "--scale.ranks", "1,2",
                       "--scale.replicates", 1, "--scale.launcher", script(folder, text),
                       *options, "-o", folder / "study", timeout=120)
        finished.expect(code)
        expect_words(finished.err, words, finished)
        return finished, folder / "study"

    banner = f'echo "Welcome = to error"; echo banner >&2; {MPIRUN}'
    finished, folder = check(banner, 0, ["2/2"])
    assert "banner" not in finished.out + finished.err, finished
    check("exit 0", 1, ["2", "calibration.h5"])
    check("exit 7", 1, ["exit code 7"])
    check("sleep 600 & sleep 600", 1, ["--scale.timeout"], "--scale.timeout", "1s")
    # The run rejects its options: it is not retried, and its own message stands.
    finished, folder = check(f'ranks=1; {MPIRUN}', 2, ["--launch.expect-ranks", "on 2 ranks"])
    assert [each["exit_code"] for each in attempts(folder)] == [2], attempts(folder)
    assert "--scale.ranks" not in finished.err, finished
    # A point that fails twice is reported, and the others stay.
    finished, folder = check(f'[[ $ranks == 1 ]] && exit 9; {MPIRUN}', 1, ["exit code 9"])
    assert [each["exit_code"] for each in attempts(folder)].count(9) == 2, attempts(folder)
    assert [point["ranks"] for point in only_study(folder)["points"]] == [2]
    expect_words(finished.out, ["No law is fitted"])
    # A point that fails once is tried again.

    mark = new_folder() / "mark"
    once = f'if [[ $ranks == 1 && ! -e {mark} ]]; then touch {mark}; exit 9; fi; {MPIRUN}'
    check(once, 0, ["exit code 9"])


def test_a_complete_result_counts():
    """The file decides, whatever happens after it is complete: an exit code of the launcher, or
    Ctrl-C while the launcher still runs."""
    options = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1]
    folder = new_folder()
    fails = f'{MPIRUN}; [[ $ranks == 1 ]] && exit 9; exit 0'
    finished = study(folder / "study", *options, "--scale.launcher", script(folder, fails))
    expect_words(finished.err, ["p1-r1", "exit code 9"], finished)
    told = {each["result"]: each for each in attempts(folder / "study")}
    assert len(told) == 3 and told["p1-r1.h5"]["exit_code"] == 9, told
    assert not any(each["problem"] for each in told.values()), told
    assert only_study(folder / "study")["failed"] == [], told

    folder = new_folder()
    hangs = f'{MPIRUN}; [[ $ranks == 1 ]] && sleep 600; exit 0'
    again = ["scale", "model", *QUICK, *options, "--scale.launcher", script(folder, hangs),
             "-o", folder / "study"]
    process = start(*again)
    wait_until((folder / "study/p1-r1.h5").exists, process)
    process.send_signal(signal.SIGINT)
    ended = finish(process, 60)
    left = {"p1-r1", "p2-r1"} - {path.stem for path in (folder / "study").glob("p*.h5")}
    ended.expect(75 if left else 0)
    cut, = [each for each in attempts(folder / "study") if each["result"] == "p1-r1.h5"]
    assert cut["interrupted"] and cut["exit_code"] != 0 and not cut["problem"], cut
    listed = run(*again, "--list").expect(0).out
    assert set(re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)) == left, listed


def test_more_ranks_than_there_are():
    folder = new_folder() / "study"
    ranks = 4 * os.cpu_count()
    finished = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder,
                   env={"OMPI_MCA_rmaps_base_oversubscribe": None})
    assert finished.code == 1 and not list(folder.glob("*.h5")), finished
    listed = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder, "--list",
                 env={"OMPI_MCA_rmaps_base_oversubscribe": None}).expect(0).out
    expect_words(listed, ["warning: scale.ranks", f"{ranks} ranks on this host",
                          "--scale.oversubscribe"])
    for options, env in ((["--scale.oversubscribe"], None), ([], "1"),
                         (["--scale.launcher", "x {ranks}"], None)):
        listed = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder.with_name("x"),
                     *options, "--list", env={"OMPI_MCA_rmaps_base_oversubscribe": env}).expect(0)
        assert "warning" not in listed.out, listed
    expect_words(finished.err, [ranks, "slots", "--scale.ranks", "--scale.oversubscribe"], finished)
    assert [each["attempt"] for each in attempts(folder)] == [1], attempts(folder)
    assert finished.err.count("slots available") == 1, finished
    # Nothing was measured, so the folder takes other options.
    study(folder, "--model.work", "20ms", "--scale.ranks", 1, "--scale.replicates", 1)
    assert only_study(folder)["failed"] == [] and len(attempts(folder)) == 2, attempts(folder)


def test_a_slurm_job_that_is_lost():
    """A shell keeps the variables of a job that has ended; a container without Slurm inherits
    them."""
    folder = new_folder()
    srun = folder / "srun"
    srun.write_text("#!/bin/sh\necho 'srun: error: Unable to confirm allocation for job 47: Unable "
                    "to contact slurm controller (connect failure)' >&2\nexit 1\n")
    srun.chmod(0o755)
    lost = {"SLURM_JOB_ID": "47", "SLURM_CPUS_ON_NODE": "-3",
            "PATH": f"{folder}:{os.environ['PATH']}"}
    options = ["scale", "model", *QUICK, "--scale.ranks", 1, "-o", folder / "study"]
    finished = run(*options, env=lost).expect(1)
    expect_words(finished.err, ["SLURM_JOB_ID", 47, "unset", "--scale.launcher"], finished)
    assert len(attempts(folder / "study")) == 1, finished
    assert "--cpus-per-task=1 " in run(*options, "--list", env=lost).expect(0).out


def test_one_launch_alone():
    """What the jobs of submit-study do."""
    folder = new_folder() / "study"
    options = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 2]
    early = run("scale", "model", *QUICK, *options, "-o", folder, "--only", "p2-r1")
    expect_complaint(early, 2, [folder, "--only calibration"])
    assert not folder.exists()
    unknown = run("scale", "model", *QUICK, *options, "-o", folder, "--only", "p3-r1")
    expect_complaint(unknown, 2, ["--only", "p3-r1", "--list"])
    study(folder, *options, "--only", "calibration")
    finished = run("scale", "model", *QUICK, *options[:-1], 1, "--list", "-o", folder)
    expect_complaint(finished, 2, [folder, "scale.replicates", 1, 2])
    study(folder, *options, "--only", "p2-r1")
    assert [path.name for path in sorted(folder.glob("*.h5"))] == ["calibration.h5", "p2-r1.h5"]
    listed = run("scale", "model", *QUICK, *options, "--list", "-o", folder).expect(0).out
    assert set(re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)) == {
        "p1-r1", "p1-r2", "p2-r2"}, listed
    assert only_study(folder)["missing"] == ["p1-r1", "p1-r2", "p2-r2"]
    # Without a launcher: a login node may have none.
    empty = new_folder()
    assert run("scale", "model", *QUICK, *options, "--list", "-o", empty / "x",
               env={"PATH": str(empty), "OMPI_ALLOW_RUN_AS_ROOT": None}).expect(0).out
    # In a Slurm job that is too small.
    finished = run("scale", "model", *options, "-o", empty / "x",
                   env={"SLURM_JOB_ID": "47", "SLURM_NTASKS": "1"})
    expect_complaint(finished, 2, ["scale.ranks", 2, "1 task:", "--nodes"])
    listed = run("scale", "model", *options, "--list", "-o", empty / "x",
                 env={"SLURM_JOB_ID": "47", "SLURM_NTASKS": "1"}).expect(0).out
    expect_words(listed, ["warning: scale.ranks", "1 task:"])
    assert not list(empty.iterdir())


# ---------------------------------------------------------------- files

def damaged(source, target, change):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        change(file)


def test_columns_of_the_two_modes():
    """The speed-up of a weak study is that of the rates, and its column says so."""
    examples = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"
    for name, column in (("gemm-fp32-weak", "scaled_speedup"), ("gemm-tf32-strong", "speedup")):
        header, *rows = run("report", examples / name).expect(0).out.splitlines()[2:5]
        assert re.split(r" {2,}", header.strip())[3] == column, header
        one, two = only_study(examples / name)["points"]
        assert abs(two["work"] / one["work"] - (2 if "weak" in name else 1)) < 0.01, two
        rates = [each["work"] / each["time"] for each in (one, two)]
        assert abs(two["speedup"] / (rates[1] / rates[0]) - 1) < 1e-9, two
        shown = re.split(r" {2,}", rows[1].strip())[3].split(" ")[0]
        assert abs(float(shown) / two["speedup"] - 1) < 0.005, rows


def test_a_share_above_one():
    """Text and page say what it means."""
    folder = new_folder()
    examples = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"
    remark = "A share above 1 means"
    for number, share in enumerate((1.001, 1.2)):
        def change(file, share=share):
            metrics = file["metrics"][:]
            metrics["number"][metrics["metric"] == b"bound_share"] = share
            file["metrics"][:] = metrics
        files = [folder / f"{number}-p{ranks}.h5" for ranks in (1, 2)]
        for ranks, file in zip((1, 2), files, strict=True):
            damaged(examples / f"gemm-tf32-strong/p{ranks}-r1.h5", file, change)
        assert (remark in run("report", *files).expect(0).out) == (share > 1.01)
        run("report", *files, "-o", folder / f"{number}.html").expect(0)
        assert (remark in (folder / f"{number}.html").read_text()) == (share > 1.01)


def test_reports_of_any_files():
    folder = new_folder() / "study"
    study(folder, "--model.work", "30ms", "--scale.ranks", "1,2", "--scale.replicates", 2)
    good = only_study(folder)
    assert run("report", folder, "--json").out == run("report", folder, "--json").out
    out = new_folder()
    run("report", folder, "--csv", out / "csv", "--extra-p", out / "extra.jsonl").expect(0)
    (path,) = (out / "csv").iterdir()
    assert good["points"][0]["repetitions"] == 3 and good["points"][0]["unconverged"] == 0, good
    assert [each["ranks"] for each in good["residuals"]] == [1, 2] and good["p_value"] is None
    shutil.copy(folder / "p1-r1.h5", folder / "x-copy.h5")
    copy, = only_study(folder)["excluded"]
    assert pathlib.Path(copy["file"]).name == "x-copy.h5", copy
    expect_words(copy["reason"], [folder / "p1-r1.h5"])
    (folder / "x-copy.h5").unlink()
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 4 * 3 and float(rows[0]["time [s]"]) > 0.01, rows
    lines = [json.loads(line) for line in (out / "extra.jsonl").read_text().splitlines()]
    assert {line["params"]["p"] for line in lines} == {1, 2} and len(lines) == 12, lines

    source = folder / "p1-r1.h5"
    (folder / "x-truncated.h5").write_bytes(source.read_bytes()[:-5000])
    damaged(source, folder / "x-schema.h5",
            lambda file: file.attrs.modify("schema_version", 7))
    for name, value in (("zero", 0), ("nan", float("nan")), ("negative", -1)):
        def change(file, value=value):
            reps = file["timing/reps"][:]
            reps["wall"] = value
            file["timing/reps"][:] = reps
        damaged(source, folder / f"x-{name}.h5", change)
    found = report(folder, code=1)
    for options in (["--json"], ["-o", out / "page.html"]):
        told = run("report", folder, *options).expect(1)
        assert told.err.count("error: ") == 5, told
        expect_words(told.err, [folder / "x-truncated.h5", folder / "x-nan.h5"], told)
    told = run("report", folder, "-o", out / "page.html").expect(2)
    expect_words(told.err, ["--output.overwrite true", out / "page.html"], told)
    assert "data sets" not in told.err, told
    bad = {pathlib.Path(each["file"]).name for each in found["unreadable"]}
    assert bad == {f"x-{name}.h5" for name in ("truncated", "schema", "zero", "nan", "negative")}
    assert found["studies"] == [good], found  # the good files count as before

    # The launcher's time is known by the attempts, unless a clock was set back.
    assert good["points"][0]["launcher"] > 0, good
    past = new_folder()
    shutil.copy(folder / "attempts.jsonl", past)

    def set_back(file):
        startup = file["timing/startup"][:]
        startup["utc"] -= 1000
        file["timing/startup"][:] = startup
    damaged(source, past / "p1-r1.h5", set_back)
    point, = only_study(past)["points"]
    assert point["launcher"] is None and point["to_result"] > 0, point
    with (past / "attempts.jsonl").open("a") as file:
        file.write("torn")
    unreadable, = report(past, code=1)["unreadable"]
    expect_words(unreadable["reason"], ["attempts.jsonl", "line 6"])

    def other_commit(file):
        file["provenance"].attrs["git_commit"] = "other"
        file.attrs["created_utc"] = "2999-01-01T00:00:00Z"
    mixed = new_folder()
    for name in ("p1-r1.h5", "p2-r1.h5", "attempts.jsonl"):
        shutil.copy(folder / name, mixed / name)
    damaged(source, mixed / "p1-r2.h5", other_commit)
    (excluded,) = only_study(mixed)["excluded"]
    expect_words(excluded["reason"], ["commit", "other"])
    # What most launches have counts, not what the first one has.
    damaged(source, mixed / "p1-r2.h5", lambda file: (
        other_commit(file), file.attrs.modify("created_utc", "2001-01-01T00:00:00Z")))
    assert [pathlib.Path(each["file"]).name for each in only_study(mixed)["excluded"]] == [
        "p1-r2.h5"]
    one = only_study(mixed / "p1-r1.h5")
    assert one["serial"] is None and one["points"][0]["time_lo"] is None, one


def test_bad_input():
    empty = new_folder()
    check_complaints([
        (["scale", "model"], 2, ["scale.ranks"]),
        (["scale", "none", "--scale.ranks", 1], 2, ["none"]),
        (["scale", "model", "--scale.ranks", "0"], 2, ["scale.ranks", 0]),
        (["scale", "model", "--scale.ranks", "2,2"], 2, ["scale.ranks", 2]),
        (["scale", "model", "--scale.ranks", "2,x"], 2, ["scale.ranks", "x"]),
        (["scale", "model", "--scale.ranks", "1-4"], 2, ["scale.ranks", "1-4", "1,2,3,4"]),
        (["scale", "model", "--scale.ranks", 1, "--list", "-o", __file__], 2,
         ["output.file", __file__, "file"]),
        (["scale", "model", "--scale.ranks", 1, "-o", __file__], 2,
         ["output.file", __file__, "file"]),
        (["scale", "model", "--scale.ranks", 1, "--scale.launcher", "mpirun {rank}"], 2,
         ["scale.launcher", "rank"]),
        (["scale", "model", "--scale.ranks", 1, "--scale.launcher", "no-such {ranks}"], 2,
         ["scale.launcher", "no-such"]),
        (["scale", "gemm", "--scale.ranks", 1, "--gemm.m", 9, "--scale.grow", "p"], 2,
         ["scale.grow", "p"]),
        (["scale", "reduce", "--scale.ranks", 1, "--input.data", empty / "none.h5"], 2,
         [empty / "none.h5"]),
        (["scale", "model", "--scale.ranks", 1, "--reduce.ops", "sum"], 2, ["--reduce.ops"]),
    ], ranks=(1,))
    for words in (["--predict", 2], ["--predict", "x"]):
        expect_complaint(run("scale", *words, "--scale.ranks", 1), 2, ["--predict", words[1]])
    expect_complaint(run("report"), 2, ["report"])
    expect_complaint(run("report", empty), 2, [empty])
    expect_complaint(run("report", empty / "none.h5"), 2, [empty / "none.h5"])
    expect_complaint(run("report", "--json", "x.json", empty), 2, ["--json", "x.json"])
    source = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/gemm-tf32-strong"
    expect_complaint(run("report", "--csv", "/dev/null", source), 2, ["--csv", "/dev/null"])
    other = new_folder()
    run("generate", "--input.count", 9, "-o", f"{other / 'sea.h5'}:/x").expect(0)
    for options in ([], ["--list"], ["--only", "p1-r1"]):
        finished = run("scale", "model", "--scale.ranks", 1, *options, "-o", other)
        assert finished.code == (0 if "--list" in options else 2), finished
        if not options:
            expect_complaint(finished, 2, ["output.file", other])
    assert [path.name for path in other.iterdir()] == ["sea.h5"]
    # Started by a launcher itself.
    finished = run("scale", "model", "--scale.ranks", 1, "-o", empty / "x", ranks=2)
    assert finished.code == 2 and "OMPI_COMM_WORLD_SIZE" in finished.err, finished
    assert list(empty.iterdir()) == []
    root = {"OMPI_ALLOW_RUN_AS_ROOT": None}
    if os.geteuid() == 0:
        finished = run("scale", "model", "--scale.ranks", 1, "-o", empty / "x", env=root)
        expect_complaint(finished, 2, ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"])


if __name__ == "__main__":
    main()
