#!/usr/bin/python3
"""The Python scripts of tests/yardstick, as far as they need neither PyTorch nor a GPU."""

import os
import pathlib
import re
import subprocess
import sys

from harness import PROGRAM, expect_words, main, new_folder

YARDSTICKS = pathlib.Path(__file__).resolve().parents[1] / "yardstick"


def script(name, *arguments, python=()):
    """Runs a yardstick with the options `python` of Python."""
    return subprocess.run([sys.executable, *python, str(YARDSTICKS / name), *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=False)


def test_missing_packages_are_named():
    """Without its installed packages, Python has neither h5py nor PyTorch."""
    done = script("torch_covariance", "none.h5:/x", python=["-S"])
    assert done.returncode == 77 and done.stdout.startswith("SKIP: "), done
    expect_words(done.stdout, ["PyTorch", "h5py", "GPU"])
    done = script("torch_covariance", "--help", python=["-S"])
    assert done.returncode == 0 and "FILE:/PATH" in done.stdout, done


def test_bad_arguments():
    for name, arguments, words in (
            ("torch_covariance", ["x.h5:/x", "--slot", "0"], ["--slot"]),
            ("covariance_speed", ["no-program"], ["binary"]),
            ("covariance_speed", [PROGRAM, "--divide", "0"], ["--divide"]),
            ("covariance_speed", [PROGRAM, "--precisions", "int8"], ["--precisions", "int8"])):
        done = script(name, *arguments)
        assert done.returncode == 2 and done.stdout == "", done
        expect_words(done.stderr, words)


def test_covariance_speed():
    """Each program has its row; the yardstick's may be skipped. No file is left."""
    folder = new_folder()
    done = script("covariance_speed", PROGRAM, "--divide", "8192", "--launches", "1",
                  "--precisions", "fp32", "--folder", str(folder))
    assert done.returncode == 0 and done.stderr == "", done
    rows = {row[0]: row[1:] for row in
            (re.split("  +", line) for line in done.stdout.splitlines()) if len(row) == 6}
    feed, run = rows["bench file-feed, cached, fed"], rows["run covariance, fp32"]
    assert feed[0] == run[0] == "1" and feed[4] == "1.000" and float(run[1]) > 0, done.stdout
    assert abs(float(run[4]) - float(run[3]) / float(feed[3])) < 0.01, done.stdout
    assert "torch_covariance, fp32" in rows and os.listdir(folder) == [], done.stdout


if __name__ == "__main__":
    main()
