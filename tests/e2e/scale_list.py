#!/usr/bin/python3
"""`scale --list` and `--predict`: the commands, predicted times and hosts of launches, without
making them."""

import json
import re

import h5py

from harness import expect_complaint, expect_words, main, new_folder, run
from studies import QUICK, bash_script, expect_total, study


def test_predictions_need_no_launch():
    """One share, or a list of them."""
    for shares in ("0.25", "0,25%"):
        out = run("scale", "--predict", shares, "--scale.ranks", "1,2,4,8,1024").expect(0).out
        rows = [words for words in map(str.split, out.splitlines()) if len(words) == 6]
        rows = {(float(words[0]), int(words[1])): words[2:] for words in rows[1:]}
        assert len(rows) == 5 * len(shares.split(",")), out
        assert rows[0.25, 4][0] == "2.28571" and rows[0.25, 4][2] == "3.25", out
        assert float(rows[0.25, 1024][0]) < 4 and float(rows[0.25, 1024][2]) == 768.25, out
        assert ("unlimited" in out) == ((0, 4) in rows) and "at most 4" in out, out


def test_the_total_of_a_list():
    """The total includes a missing calibration run and the timelines."""
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
    """Times of `reduce` are minima before the calibration run, since reading may be slower."""
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


def test_finished_launches_correct_a_list():
    """The list predicts the mean of the launches and of their repetitions on as many ranks."""
    folder = new_folder()
    slow = bash_script(folder, 'test "$1" = 1 || sleep 1')
    program = ["--scale.ranks", "1,2", "--scale.launcher", "none", "--", slow, "{ranks}"]
    model = [*QUICK, "--model.work", "300ms", "--scale.ranks", "1,2"]

    def times(*options):
        out = run("scale", *options).expect(0).out
        found = re.findall(r"^# (\S+): .*?([0-9.]+) (m?s) per launch, ([0-9.]+) (m?s) per", out,
                           re.MULTILINE)
        unit = {"s": 1, "ms": 1e-3}
        return {name: (float(launch) * unit[a], float(repetition) * unit[b])
                for name, launch, a, repetition, b in found}
    options = ["-o", folder / "program", "--scale.replicates", 2, *program]
    run("scale", "--only", "calibration", *options).expect(0)
    assert times("--list", *options)["p1-r2"][0] >= 2  # twice as long as two ranks
    run("scale", "--only", "p1-r1", *options).expect(0)
    listed = times("--list", *options)
    assert listed["p1-r2"][1] <= listed["p1-r2"][0] < 1 <= listed["p2-r2"][0], listed
    options = ["model", *model, "-o", folder / "model"]
    run("scale", *options, "--scale.replicates", 1).expect(0)
    path = folder / "model/attempts.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["result"] == "p1-r1.h5":
            line["utc_end"] = line["utc_start"] + 50
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    listed = times("--list", *options, "--scale.replicates", 2)
    assert listed["p1-r2"][0] == 50 > listed["p2-r2"][0], listed


def test_hosts_of_a_list():
    """The ranks per host come from the option, the Slurm job, the calibration run or the rates;
    else --list says that it assumes them."""
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
    """--rates improves predictions before the calibration run, and is no part of the study."""
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
    # Without rates, --list assumes the start of each launch.
    text = run("scale", "model", *QUICK, "--model.work", "1ms", "--scale.ranks", "1",
               "--scale.replicates", 1, "--list", "-o", folder / "x").expect(0).out
    assert len(re.findall(r": 1 rank, 2(?:\.\d+)? s per launch", text)) == 2, text


if __name__ == "__main__":
    main()
