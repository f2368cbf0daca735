#!/usr/bin/python3
"""The parts of experiments on execution that need no GPU."""

import h5py

from bench import QUICK, bench
from harness import check_complaints, each, main, run


def test_bad_input():
    """Registers, threads and shared memory that no GPU has, and an unknown compute capability."""
    check_complaints([(["bench", "occupancy", "--occupancy.registers", 256], 2,
                       ["occupancy.registers", "256", "255"]),
                      (["bench", "occupancy", "--occupancy.threads", 1025], 2,
                       ["occupancy.threads", "1025", "1024"]),
                      (["bench", "occupancy", "--occupancy.shared", "1MiB"], 2,
                       ["occupancy.shared", "1MiB", "227KiB"]),
                      (["bench", "occupancy", "--occupancy.capability", "7.3"], 2,
                       ["occupancy.capability", "7.3", "7.5"])])


def test_occupancy():
    """The calculator gives the blocks of the CUDA guides, and says why a launch would fail."""
    def check(capability, threads, registers, shared, blocks, percent):
        out, index, tables, path = bench(
            "occupancy", "--occupancy.capability", capability, "--occupancy.threads", threads,
            "--occupancy.registers", registers, "--occupancy.shared", shared, *QUICK)
        assert index["occupancy"]["state"] == b"measured", out
        row, = tables["occupancy"]
        assert (row["blocks"], row["occupancy"]) == (blocks, percent), row
        assert (b"fails" in row["remark"]) == (blocks == 0), row
        with h5py.File(path) as file:
            assert file["bench/occupancy"].attrs["y"] == "occupancy", out
    each([("7.0", 128, 37, "0", 12, 75), ("7.0", 320, 37, "0", 4, 62.5),
          ("6.0", 512, 64, "0", 2, 50), ("6.1", 512, 65, "0", 1, 25),
          ("9.0", 1024, 65, "0", 0, 0), ("8.6", 64, 32, "100KiB", 0, 0),
          ("auto", 100, 16, "0", 16, 100)], check)
    _, _, tables, _ = bench("occupancy", *QUICK)
    rows = tables["occupancy"]
    assert len(rows) > 20 and rows["threads"].max() == 1024 and (rows["threads"] % 32 > 0).any()


def test_scheduling():
    """The model of scheduling gives each block a start on each number of multiprocessors."""
    out, index, tables, path = bench("scheduling", *QUICK)
    assert index["scheduling"]["state"] == b"measured", out
    for count in (2, 4, 8):
        rows = [row for row in tables["scheduling"]
                if row["gpu"].decode().startswith(f"{count} ")]
        assert [row["start"] for row in rows] == [block // count for block in range(8)], rows
    page = path.with_name("page.html")
    run("report", path, "-o", page).expect(0)
    assert page.read_text(encoding="utf-8").count("<figure") == 1


if __name__ == "__main__":
    main()
