"""What the tests of `scale` and `report` share."""

import json
import re

import h5py
import numpy as np

from harness import run

QUICK = ["--measure.repeat", 3, "--model.spin", "sleep", "--scale.oversubscribe",
         "--scale.timeline", "false"]
MPIRUN = 'mpirun --oversubscribe --bind-to none -q -n "$ranks" "$@"'


def bash_script(folder, text):
    path = folder / "launcher"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def script(folder, text):
    """A launcher: {ranks} is its first argument, the program and its arguments follow."""
    return f"{bash_script(folder, f'ranks=$1; shift; {text}')} {{ranks}}"


def study(folder, *arguments, workload="model", quick=QUICK, code=0, **how):
    finished = run("scale", workload, *quick, *arguments, "-o", folder, timeout=120, **how)
    return finished.expect(code)


def report(*paths, code=0):
    finished = run("report", *paths, "--json").expect(code)
    return json.loads(finished.out)


def only_study(folder, code=0):
    found, = report(folder, code=code)["studies"]
    return found


def attempts(folder):
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


def write_data(path, values):
    with h5py.File(path, "w") as file:
        file["x"] = np.asarray(values, "i4")
    return f"{path}:/x"


def expect_total(listed, launches, max_time=0):
    """Checks that the total of --list counts the listed launches and adds their times, and that the
    suggested limits are ten minutes plus twice the total, or twice the longest time. A launch that
    repeats until its median is precise may take `max_time` seconds more."""
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
