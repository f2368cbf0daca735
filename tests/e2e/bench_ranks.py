#!/usr/bin/python3
"""Experiments of `bench` in which all ranks communicate, and those on the memory of the host."""

import h5py
import numpy as np

from harness import check_complaints, each, expect_words, main, new_folder, run

HOST = ["--device.backend", "host", "--quick", "--measure.repeat", 6]
COLLECTIVES = ["all-reduce", "reduce-scatter", "all-gather", "broadcast"]


def bench(*arguments, ranks, code=0):
    """Runs experiments. Returns the output, and the index and the tables of the file."""
    path = new_folder() / "bench.h5"
    finished = run("bench", *arguments, *HOST, "-o", path, ranks=ranks).expect(code)
    with h5py.File(path) as file:
        index = {row["experiment"].decode(): row for row in file["bench/experiments"][...]}
        tables = {name: file[f"bench/{name}/rows"][...] for name in file["bench"]
                  if name != "experiments"}
    return finished.out, index, tables, path


def expect_intervals(rows):
    for row in rows:
        assert 0 < row["ci_lo"] <= row["rate"] <= row["ci_hi"], row


def test_one_rank_is_not_enough():
    _, index, tables, _ = bench("collectives", "contention", ranks=1)
    assert not tables, tables
    for row in index.values():
        assert row["state"] == b"not available", row
        expect_words(row["message"].decode(), ["2 ranks", "mpirun -np 2"])


def test_collectives():
    """The bus bandwidth follows from the time as in nccl-tests. Rank 0 has the rows of all."""
    def check(ranks):
        _, index, tables, path = bench("collectives", "--collectives.most", "64KiB", ranks=ranks)
        assert index["collectives"]["state"] == b"measured", index
        rows = tables["collectives"]
        assert set(rows["rank"]) == {0}, rows
        factors = dict(zip(COLLECTIVES, (2 * (ranks - 1) / ranks, (ranks - 1) / ranks,
                                         (ranks - 1) / ranks, 1)))
        for row in rows:
            name = row["collective"].decode()
            algorithm = row["bytes"] / row["time"] / 1e3
            assert abs(row["algorithm"] / algorithm - 1) < 1e-9, row
            assert abs(row["rate"] / algorithm / factors[name] - 1) < 1e-9, row
            assert np.isnan(row["share"]), row  # without NCCL there is no reference
        expect_intervals(rows)
        for name in COLLECTIVES:
            alone = [row["bytes"] for row in rows if row["collective"] == name.encode() and
                     row["beside"] == b"nothing"]
            smallest = 4 * ranks if name in ("reduce-scatter", "all-gather") else 4
            assert alone[0] == smallest and 2**16 - 64 < alone[-1] <= 2**16, (name, alone)
        # A build without a CBLAS has no matrix products.
        assert {b"nothing", b"copies"} <= set(rows["beside"]) <= {b"nothing", b"copies", b"a GEMM"}
        expect_words(run("report", path).expect(0).out, ["collectives", "broadcast"])
    each([(2,), (3,)], check, workers=1)


def test_contention():
    """Each number of ranks and each direction has a row, and advice follows."""
    out, _, tables, _ = bench("contention", "--contention.size", "1MiB", ranks=3)
    rows = tables["contention"]
    found = [(row["way"].decode(), row["ranks"]) for row in rows]
    assert found == [(way, count) for way in ("up", "down", "both") for count in (1, 2, 3)], found
    expect_intervals(rows)
    for row in rows:
        assert np.isnan(row["share"]) == (row["ranks"] == 1), row
        assert 0 <= row["slowest"] < 3 and row["total"] > 0, row
    expect_words(out, ["uploads of 3 ranks", "downloads of 3 ranks"])


def test_sizes_are_agreed():
    """A size beyond the memory is rejected on all ranks, and the next experiment is measured."""
    _, index, _, _ = bench("collectives", "contention", "--collectives.most", "1PiB",
                           "--contention.size", "1MiB", ranks=2, code=2)
    assert index["collectives"]["state"] == b"rejected", index
    expect_words(index["collectives"]["message"].decode(), ["collectives.most", "1 PiB"])
    assert index["contention"]["state"] == b"measured", index


def test_host_memory():
    _, _, tables, _ = bench("host-memory", "--host-memory.size", "3MiB", ranks=2)
    rows = tables["host-memory"]
    expect_intervals(rows)
    assert set(rows["rank"]) == {0, 1} and set(rows["memory"]) == {b"pageable"}, rows
    assert set(rows["access"]) == {b"read", b"write"} and set(rows["bytes"]) == {3 << 20}, rows


def test_bad_input():
    check_complaints([(["bench", "managed", "--managed.most", 1.5], 2, ["managed.most", "0.5..1"]),
                      (["bench", "collectives", "--collectives.most", 3], 2,
                       ["collectives.most", "4KiB"])])


if __name__ == "__main__":
    main()
