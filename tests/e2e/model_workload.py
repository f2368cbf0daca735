#!/usr/bin/python3
"""`run model`: its prediction compared with the law in numpy, its time compared with the
prediction, its noise, its output and its result file, and bad input."""

import math

import h5py
import numpy as np

from harness import (check_complaints, each, expect_gone, expect_words, finish, main, new_folder,
                     ranks_below, run, start, wait_until)

ROUNDING = 1e-8  # each part is rounded to a nanosecond


def parallel(work, serial, imbalance, ranks):
    """Each rank's parallel part in seconds."""
    spread = np.linspace(-1, 1, ranks) if ranks > 1 else np.zeros(1)
    return (1 - serial) * work / ranks * (1 + imbalance * spread)


def slowest(parts, noise):
    """The median of the maximum of the parts with log-normal noise: P(max < x) = 1/2."""
    if noise == 0:
        return parts.max()
    deviation = np.sqrt(np.log1p(noise**2))

    def below(x):
        return np.prod([(1 + math.erf((math.log(x / part) / deviation + deviation / 2) /
                                      math.sqrt(2))) / 2 for part in parts])
    low, high = parts.max() / 100, 100 * parts.max()
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < 0.5 else (low, middle)
    return high


def predicted(ranks, work=1.0, serial=0.05, overhead=0.0, imbalance=0.0, noise=0.0):
    return (serial * work + slowest(parallel(work, serial, imbalance, ranks), noise) +
            overhead * np.log2(ranks))


def mix(z):
    """SplitMix64's finaliser."""
    z %= 2**64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb % 2**64
    return z ^ (z >> 31)


def stream_of(seed):
    return mix(seed ^ 0x6a09e667f3bcc909)


def noise(deviation, seed, replicate, ranks, rank, repetition):
    """The factor of a part: log-normal, from two values of the generator `uniform`."""
    stream = stream_of(stream_of(stream_of(seed) + replicate) + ranks)
    index = (repetition << 32) + 2 * rank
    uniform = [(mix(stream + i * 0x9e3779b97f4a7c15) >> 11) / 2**53 for i in (index, index + 1)]
    normal = np.sqrt(-2 * np.log(1 - uniform[0])) * np.cos(2 * np.pi * uniform[1])
    variance = np.log1p(deviation**2)
    return np.exp(np.sqrt(variance) * normal - variance / 2)


def model(*arguments, ranks=1, **how):
    """A run that must succeed, and the path of its result."""
    path = new_folder() / "out.h5"
    return run("run", "model", *arguments, "-o", path, ranks=ranks, **how).expect(0), path


def seconds(value):
    return f"{value * 1e3:.6f}ms"


def test_the_law():
    """On 1, 2 and 4 ranks that sleep."""
    def check(ranks, law):
        finished, path = model(*(word for key, value in law.items() for word in (
            f"--model.{key}", seconds(value) if key in ("work", "overhead") else value)),
                               "--model.spin", "sleep", "--measure.repeat", 2, ranks=ranks)
        expected = predicted(ranks, **law)
        with h5py.File(path) as file:
            assert len(file["results/model"]) == 1
            row, of_ranks = file["results/model"][0], file["results/model_ranks"][()]
            reps, rate = file["timing/reps"]["wall"], file["summary"][1]
            assert file["config"].attrs["work_total"] == round(law["work"] * 1e9)
            assert file["results"].attrs["verified"] == 1
            assert len(file["ceilings"]) == len(file["input/files"]) == 0
        assert row["ranks"] == ranks == int(finished.values["ranks"])
        assert np.isclose(row["predicted"], expected, rtol=1e-12), (row, expected)
        assert np.isclose(row["predicted"], row["serial_seconds"] + row["parallel_seconds"] +
                          row["overhead_seconds"], rtol=1e-12), row
        assert np.isclose(row["efficiency_predicted"],
                          predicted(1, **law) / (ranks * expected), rtol=1e-12), row
        assert np.isclose(row["speedup_predicted"], ranks * row["efficiency_predicted"]), row
        assert np.isclose(float(finished.values["predicted"]), expected, rtol=1e-5), finished
        assert float(finished.values["serial_configured"]) == law["serial"], finished
        assert (reps >= expected - ROUNDING).all() and reps.max() < 60, (reps, expected)
        assert np.isclose(row["measured"], np.median(reps), rtol=1e-12), row
        assert rate["metric"] == b"rate_aggregate" and rate["unit"] == b"s/s", rate
        assert np.isclose(rate["median"], np.median(law["work"] / reps)), rate
        parts = parallel(law["work"], law["serial"], law.get("imbalance", 0), ranks)
        parts[0] += law["serial"] * law["work"]
        assert np.allclose(of_ranks["counted"], 2 * parts * 1e9, rtol=0, atol=4), of_ranks
        assert (of_ranks["lasted"] >= of_ranks["asked"]).all(), of_ranks
        assert (of_ranks["min_excess"] >= 0).all() and of_ranks["validated"].all(), of_ranks
        assert finished.values["verified"] == "true" and " s/s\n" in finished.out, finished
    laws = [{"work": 0.2, "serial": 0.05}, {"work": 0.1, "serial": 0}, {"work": 0.1, "serial": 1},
            {"work": 0.2, "serial": 0.25, "overhead": 0.02, "imbalance": 0.5}]
    each([(ranks, law) for ranks in (1, 2, 4) for law in laws], check)


def test_a_busy_device():
    finished, path = model("--model.work", "100ms", "--measure.repeat", 3, "--measure.warmup", 1)
    with h5py.File(path) as file:
        assert (file["timing/reps"]["wall"] >= 0.1 - ROUNDING).all()
        phases = {(row["track"].decode(), row["phase"].decode()): row
                  for row in file["timing/phases"]}
    assert finished.values["verified"] == "true", finished
    for phase in ("serial", "parallel", "warm-up"):
        assert phases["compute", phase]["gpu_seconds"] > 0, phases
        assert phases["main", phase]["calls"] > 0, phases
    assert phases["main", "parallel"]["host_seconds"] >= 3 * 0.095, phases
    assert phases["main", "parallel"]["calls"] == 3, phases  # the warm-up has its own name


def counted(*arguments, ranks):
    with h5py.File(model("--model.work", "20ms", "--model.spin", "sleep", *arguments,
                         ranks=ranks)[1]) as file:
        return file["results/model_ranks"]["counted"]


def test_noise():
    noisy = ["--model.noise", 0.5, "--measure.repeat", 3]
    first = counted(*noisy, "--model.seed", 9, ranks=2)
    again = counted(*noisy, "--model.seed", 9, "--measure.warmup", 2, ranks=2)
    assert np.array_equal(first, again), (first, again)
    assert not np.array_equal(first, counted(*noisy, "--model.seed", 10, ranks=2))
    third = counted(*noisy, "--model.seed", 9, "--study.replicate", 3, ranks=2)
    for replicate, found in ((0, first), (3, third)):
        expected = [sum(9.5e6 * noise(0.5, 9, replicate, 2, rank, repetition)
                        for repetition in range(3)) + (3e6 if rank == 0 else 0)
                    for rank in range(2)]
        assert np.allclose(found, expected, rtol=0, atol=4), (replicate, found, expected)


def test_noise_is_part_of_the_prediction():
    law = {"work": 0.04, "serial": 0.25, "imbalance": 0.5, "noise": 0.3}
    finished, path = model("--model.work", "40ms", "--model.serial", 0.25, "--model.imbalance", 0.5,
                           "--model.noise", 0.3, "--model.spin", "sleep", ranks=4)
    expected = predicted(4, **law)
    assert np.isclose(float(finished.values["predicted"]), expected, rtol=1e-5), finished
    with h5py.File(path) as file:
        row = file["results/model"][0]
    assert np.isclose(row["predicted"], expected, rtol=1e-6), (row, expected)
    assert np.isclose(row["speedup_predicted"], predicted(1, **law) / expected, rtol=1e-6), row


def test_long_parts_are_no_hang():
    """Each part during which a rank waits is longer than the watchdog's timeout."""
    finished, _ = model("--model.work", "3s", "--model.serial", 0.5, "--model.imbalance", 1,
                        "--model.spin", "sleep", "--comm.timeout", "1s", ranks=2)
    assert finished.values["verified"] == "true" and finished.err == "", finished


def test_a_signal_ends_it():
    folder = new_folder()
    process = start("run", "model", "--model.work", "1h", "--model.spin", "sleep", "-o",
                    folder / "out.h5", ranks=2)
    wait_until(lambda: len(ranks_below(process)) == 2 and any(folder.iterdir()), process)
    ranks = ranks_below(process)
    process.terminate()
    assert finish(process, timeout=30).code != 0
    expect_gone(ranks.values())
    assert list(folder.iterdir()) == [], list(folder.iterdir())


def test_dry_run():
    def dry(*arguments, ranks):
        return run("run", "model", "--dry-run", "--ranks", ranks, *arguments,
                   env={"OMPI_MCA_pml": "nonsense"}).expect(0).out
    text = dry(ranks=2)
    expect_words(text, ["dry run of model on 2 ranks", "law: 50 ms + 950 ms / p",
                        "predicted: 525 ms", "serial 50 ms", "parallel 475 ms", "overhead 0 s",
                        "speedup: 1.905", "efficiency 0.9524"])
    assert "assumed per rank" not in text and "noise" not in text, text
    text = dry("--model.imbalance", 0.2, "--model.overhead", "10ms", ranks=4)
    expect_words(text, ["950 ms / p * m(p) + 10 ms * log2(p)", "m(4) = 1.2", "serial 50 ms",
                        "parallel 285 ms", "overhead 20 ms"])
    text = dry("--model.noise", 0.1, ranks=4)
    expect_words(text, [f"m(4) = {slowest(np.ones(4), 0.1):.4g}", "noise 0.1",
                        f"parallel {237.5 * slowest(np.ones(4), 0.1):.3g} ms"])
    assert "predicted" in dry("--model.noise", 0.1, "--model.imbalance", 0.5, ranks=10**9)


def test_a_configuration_file():
    ini = new_folder() / "law.ini"
    ini.write_text("[run]\nworkload = model\n[model]\nwork = 50ms\nspin = sleep\n")
    path = ini.parent / "out.h5"
    assert run("run", ini, "-o", path).expect(0).values["predicted"] == "0.05"


def test_bad_input():
    check_complaints([
        *((["run", "model", f"--model.{key}", value], 2, [f"--model.{key}", value, *words])
          for key, value, words in (
              ("work", "0s", ["1ms"]), ("work", "1", ["unit"]), ("work", "-1s", []),
              ("work", "1001h", ["1000h"]), ("serial", "1.01", ["0..1"]),
              ("serial", "-0.1", ["0..1"]), ("serial", "nan", []), ("overhead", "5", ["unit"]),
              ("imbalance", "2", ["0..1"]), ("noise", "1.5", ["0..1"]), ("seed", "-1", []),
              ("spin", "idle", ["busy", "sleep"]))),
        (["run", "model", "--model.serail", "0"], 2, ["--model.serail", "--model.serial"]),
        (["run", "reduce", "--model.work", "1s"], 2, ["--model.work", "reduce", "model"]),
        (["run", "model", "--input.data", "x.h5"], 2, ["--input.data", "model", "reduce"]),
    ], ranks=(1,))
    check_complaints([(["run", "model", "--model.work", "0s"], 2, ["--model.work", "0s", "1ms"])])


main(on_gpu=True)
