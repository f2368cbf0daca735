#!/usr/bin/python3
"""Ranks on two hosts: info is right, results have the bits of one host, the error names a lost
host, and a study runs on both."""

import json
import pathlib
import shlex
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import h5py  # noqa: E402  pylint: disable=wrong-import-position

from harness import expect_words, finish, main, run, wait_until  # noqa: E402
from network import TwoHosts, skip_without_namespaces  # noqa: E402
from products import ON_HOST, skip_without_blas  # noqa: E402


def test_info_shows_both(hosts):
    said = finish(hosts.start(*hosts.launcher(4), "shardstream", "info", "--json")).expect(0)
    ranks = json.loads(said.out)["ranks"]
    a, b = hosts.names
    assert [rank["host"] for rank in ranks] == [a, a, b, b], ranks
    assert [rank["local_rank"] for rank in ranks] == [0, 1, 0, 1], ranks


def test_results_have_the_same_bits(hosts):
    skip_without_blas()

    def values(file):
        with h5py.File(file) as result:
            name, = (name for name in ("reduce", "gemm", "gram") if name in result["results"])
            table = result["results"][name][:]
            assert all(table["validated"] == 1), table
            keys = [key for key in ("value", "checksum", "norm") if key in table.dtype.names]
            return [table[key].tolist() for key in keys]
    for name, words in (
            ("reduce", ["--input.count", "3000001"]),
            ("gemm", ["--gemm.m", 900, "--gemm.n", 800, "--gemm.k", 700]),
            ("gram", ["--gram.rows", 9000, "--gram.columns", 500])):
        words = ["run", name, *words, "-o"]
        alone, both = hosts.folder / f"{name}-1.h5", hosts.folder / f"{name}-2.h5"
        run(*words, alone, env=ON_HOST).expect(0)
        finish(hosts.start(*hosts.launcher(4), "shardstream", *words, both)).expect(0)
        assert values(alone) == values(both), name
        with h5py.File(both) as result:
            assert len(set(result["topology/ranks"]["host"])) == 2, name


def test_a_study_over_both(hosts):
    launcher = shlex.join(hosts.launcher(4)).replace("-np 4", "-np {ranks}")
    study = finish(hosts.start(
        "shardstream", "scale", "model", "--model.work", "200ms", "--model.serial", "0.1",
        "--model.spin", "sleep", "--measure.repeat", 2, "--scale.ranks", "1,2,4",
        "--scale.replicates", 2, "--scale.launcher", launcher, "-o", "laws")).expect(0)
    expect_words(study.out, ["strong scaling of model", "6 launches", "Amdahl"], study)
    for ranks, expected in ((2, 1), (4, 2)):
        with h5py.File(hosts.folder / "laws" / f"p{ranks}-r1.h5") as result:
            assert len(set(result["topology/ranks"]["host"])) == expected, study


def test_a_lost_host_is_named(hosts):
    """The last test, since the cable stays down."""
    process = hosts.start(*hosts.launcher(4), "shardstream", "run", "model", "--model.work", "300s",
                          "--model.spin", "sleep", "--comm.timeout", "3s", "-o", "never.h5")
    a, b = hosts.names
    wait_until(lambda: list(hosts.folder.glob(".never.h5*.part")), process)
    hosts.cut(b)
    began = time.monotonic()
    # mpirun itself waits for its daemon on the lost host: only the ranks end.
    wait_until(lambda: not ranks_on(hosts, a) and not ranks_on(hosts, b), process)
    took = time.monotonic() - began
    process.terminate()
    hosts.remove()
    ended = finish(process)
    expect_words(ended.err, ["rank 2", "rank 3", b], ended)
    assert ended.code != 0 and took < 60, f"{took} s\n{ended}"
    assert not (hosts.folder / "never.h5").exists()


def ranks_on(hosts, name):
    def command(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""
    return [pid for pid in hosts.pids(name) if command(pid) == "shardstream"]


skip_without_namespaces()
main(fixture=TwoHosts)
