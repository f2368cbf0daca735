#!/usr/bin/python3
"""The commands of the lessons that need no GPU run as the lessons show them, and the rates of an
H200 in the questions are those of the shipped file."""

import re

import h5py

from harness import each, main
from shown import LESSONS, TOP, check_document


def test_lessons():
    each([(path,) for path in LESSONS], check_document)


def test_rates_are_those_of_the_shipped_file():
    with h5py.File(TOP / "inputs/examples/bench.h5") as file:
        def values(experiment, column, **wanted):
            rows = file["bench"][experiment]["rows"][()]
            for name, value in wanted.items():
                rows = rows[rows[name] == value]
            return rows[column]
        clocks = 256 / values("hiding", "rate", operation=b"loads", warps=1, chains=1)[0]
        small = values("transfer", "rate", memory=b"pinned", way=b"up", bytes=4096)[0]
        shipped = {
            r"memory takes (\d+) clocks": clocks,
            r"at most ([\d.]+) bytes per clock": max(values("hiding", "rate", operation=b"loads")),
            r"\* ([\d.]+) ns and": max(values("latency", "latency", memory=b"device")),
            r"([\d.]+) TB/s": max(values("roofline", "traffic", name=b"device memory")) / 1e3,
            r"([\d.]+) Tflop/s": max(values("roofline", "rate", name=b"fp32")) / 1e3,
            r"address takes ([\d.]+) additions per ns":
                values("atomics", "rate", way=b"floats", addresses=1)[0],
            r"(?:link moves|bytes at|link of) ([\d.]+) GB/s":
                max(values("transfer", "rate", memory=b"pinned", way=b"up")),
            r"a copy takes ([\d.]+) us": 4096 / small / 1e3,
        }
    questions = re.findall(r"^\d\. \*Predict:\*.*\n(?: {3}.*\n)*", LESSONS[0].read_text(), re.M)
    for pattern, value in shipped.items():
        quoted = [float(number) for text in questions for number in re.findall(pattern, text)]
        assert quoted and all(abs(number / value - 1) < 0.01 for number in quoted), (
            pattern, value, quoted)


main()
