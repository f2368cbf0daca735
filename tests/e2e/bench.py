#!/usr/bin/python3
"""`bench` without a GPU, its file, and what `report` makes of files of experiments."""

import json
import pathlib
import re
import shutil
import signal

import h5py
import numpy as np

from harness import (check_complaints, each, expect_complaint, expect_gone, expect_words,
                     experiments, finish, main, new_folder, ranks_below, run, start, wait_until)

NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}  # makes MPI_Init of Open MPI fail
HOST = ["--device.backend", "host"]
QUICK = ["--quick", "--measure.repeat", 6, *HOST]
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/bench.h5"
FOUR_GPUS = EXAMPLE.with_name("bench-four.h5")
V100 = ["--bandwidth.clock", 877, "--bandwidth.width", 4096]
SMALL = ["--reduction.count", "2^20", "--reduction-order.count", "2^20", "--feed.size", "16MiB",
         "--host-memory.size", "16MiB"]
ON_HOST = {"reduction", "reduction-order", "feed", "host-memory", "occupancy", "scheduling",
           "startup"}
NEEDS_NVRTC = "runtime-compile"  # measured on hosts, too, by a build for CUDA with its NVRTC


def bench(*arguments, ranks=1):
    """Runs experiments. Returns the standard output, and the tables of the file by experiment."""
    path = new_folder() / "bench.h5"
    finished = run("bench", *arguments, "-o", path, ranks=ranks).expect(0)
    with h5py.File(path) as file:
        index = {row["experiment"].decode(): row for row in file["bench/experiments"][...]}
        tables = {name: file[f"bench/{name}/rows"][...] for name in file["bench"]
                  if name != "experiments"}
    return finished.out, index, tables, path


# ---------------------------------------------------------------- without MPI and CUDA

def test_list_and_help():
    found = experiments(NO_MPI)
    assert {"memory", "ladders"} <= set(found.values()) and len(found) >= 6, found

    def check(name):
        text = run("bench", "help", name, env=NO_MPI).expect(0).out
        expect_words(text, ["bench", name, "GPU"])
        assert text == run("bench", name, "--help", env=NO_MPI).expect(0).out
    each([(name,) for name in found], check)
    whole = run("bench", "help", "all", env=NO_MPI).expect(0).out
    assert re.findall(r"^shardstream bench (\S+) \[OPTIONS\]$", whole,
                      flags=re.MULTILINE) == list(found)
    two = run("bench", "help", "offset", "stride", env=NO_MPI).expect(0).out
    assert two in whole and two.count("\nQuestion\n") == 2


def test_code():
    code = run("bench", "help", "stride", "--code", env=NO_MPI).expect(0).out
    line = re.search(r"^// src/experiments/memory/stride.cu:(\d+)\n(?:// .*\n|///.*\n)*"
                     r"__global__ void copy_strided", code, flags=re.MULTILINE)
    source = (EXAMPLE.parents[2] / "src/experiments/memory/stride.cu").read_text().splitlines()
    assert source[int(line[1]) - 1].startswith("__global__ void copy_strided"), code
    assert "Question" not in code and "about_stride" not in code
    both = run("bench", "help", "link", "stride", "--code", env=NO_MPI).expect(0).out
    assert both.endswith(code) and "transfer has no kernel of its own" in both


def test_search():
    def names(*words):
        out = run("bench", "--search", *words, env=NO_MPI).expect(0).out
        return re.findall(r"^([a-z0-9-]+) \([a-z]+\)$", out, flags=re.MULTILINE)
    assert names("occupancy") == names("OCCUPANCY") and "occupancy" in names("occupancy")
    assert names("Strided Accesses") == ["stride"]   # a section of a guide
    assert names("stride.most") == ["stride"]        # an option
    assert "banks" in names("bank conflict")         # a sentence with both words
    assert names("conflict bank") == names("bank conflict")
    assert "stride" in names("coalesced")
    out = run("bench", "--search=word of padding", env=NO_MPI).expect(0).out
    expect_words(out, ["banks (memory)", "varies", "word of padding in each row"])
    out = run("bench", "--search", "Loop Counters", env=NO_MPI).expect(0).out
    expect_words(out, ["integer (instructions)", "read_on", "Loop Counters Signed vs. Unsigned"])
    assert run("bench", "--search", "stride", "--quiet", env=NO_MPI).expect(0).out == ""


def comparison_in(out):
    """The table of predictions: its header, and its cells by the text of the row."""
    header, *lines = out.rsplit("\n\n", 1)[-1].splitlines()[1:-1]
    return header, {cells[0]: cells[1:]
                    for cells in (re.split(r" {2,}", line.strip()) for line in lines)}


def test_predictions():
    with h5py.File(EXAMPLE) as file:
        measured = {int(row["stride"]): row["rate"] for row in file["bench/stride/rows"][...]}
        ceilings = {row["ceiling"]: row["per_rank_min"] for row in file["ceilings"][...]}
    copy = ceilings[b"device_copy"]
    given = run("bench", "stride", "--predict", "1400,700,300", "--from", EXAMPLE, env=NO_MPI)
    table = comparison_in(given.expect(0).out)[1]
    assert list(table) == ["stride 2", "stride 4", "stride 8"], table
    for label, predictions, expected in (("stride 2", 1400, copy / 3), ("stride 4", 700, copy / 6),
                                         ("stride 8", 300, copy / 12)):
        rate = measured[int(label.split()[1])]
        assert np.allclose([float(cell) for cell in table[label]],
                           [predictions, expected, rate, predictions / rate], rtol=2e-3), table
    asked = run("bench", "stride", "--predict", "--from", EXAMPLE, env=NO_MPI,
                stdin="1400 700\n\n300\n").expect(0)
    assert asked.out == given.out
    expect_words(asked.err, ["How fast is", "Predict the rate in GB/s", "H200",
                              f"device_copy {copy:.4g} GB/s", "stride 8: "])
    # The column of the table has the same expected values.
    out = run("bench", "stride", "--from", EXAMPLE, env=NO_MPI).expect(0).out
    expect_words(out, ["expected [GB/s]", f"{copy / 3:.4g}", "expected: 7 of 7 values",
                       "Measured on NVIDIA H200"])
    # A run without a GPU says why it has no table.
    expect_words(run("bench", "stride", "--predict", "1,2,3", *HOST).expect(0).out,
                 ["stride: not available", "Add --from"])


def test_bad_predictions():
    for words, fault in ((("1,2",), ["2 numbers instead of 3", "stride 8"]),
                         (("1,2,x",), ["'x'"]), (("1,2,inf",), ["inf"]),
                         (("1", "--json"), ["--json"]), (("1", "banks"), ["one"]),
                         (("1,2,3", "--quick"), ["--quick"]),
                         (("1,2,3", "--stride.most", 4), ["--stride.most"])):
        expect_complaint(run("bench", "stride", "--predict", *words, "--from", EXAMPLE,
                             env=NO_MPI), 2, fault)
    for stdin, count in (("", "0 numbers"), ("4000\n1\n", "2 numbers"),
                         ("1,2,3,4,5\n", "5 numbers")):
        asked = run("bench", "stride", "--predict", *HOST, env=NO_MPI, stdin=stdin)
        assert asked.code == 2 and asked.out == "", asked
        expect_words(asked.err, ["stride 2: ", f"error: --predict: {count} instead of 3"])
    expect_complaint(run("bench", "stride", "--predict", *HOST, ranks=2), 2, ["launcher"])
    other = new_folder() / "x.h5"
    run("run", "reduce", "--input.count", 1000, "-o", other).expect(0)
    for path in (other, other.with_name("none.h5")):
        expect_complaint(run("bench", "stride", "--from", path, env=NO_MPI), 2, [path.name])


def test_expected_values_and_exercises():
    """In the files of examples, each table has expected values, and each exercise names rows that
    were measured, and the unit of their values."""
    without = set()

    def check(name):
        path = FOUR_GPUS if name in ("peer", "collectives", "contention") else EXAMPLE
        source = [name, "--from", path]
        advice = run("bench", *source, "--predict", "1,1,1,1,1", env=NO_MPI).err
        rows = advice.partition("Give a number for each of: ")[2].split("; ")
        if rows == [""]:
            return without.add(name)
        out = run("bench", *source, "--predict", ",".join("1" * len(rows)),
                  env=NO_MPI).expect(0).out
        if not re.search(r"^expected: [0-9]+ of [0-9]+", out, re.MULTILINE):
            without.add(name)
        header, table = comparison_in(out)
        assert len(table) == len(rows) and all(cells[2] != "-" for cells in table.values()), table
        unit = re.search(r"measured(?: \[(.*?)\])?", header)[1]
        assert unit is None or unit in advice, (unit, advice)
    each([(name,) for name in experiments(NO_MPI)], check)
    # The runs of two experiments compute a column `predicted`; the order of blocks is not defined.
    assert without == {"overlap", "hiding", "scheduling"}, without


def test_bad_input():
    check_complaints([(["bench", "strid"], 2, ["strid", "stride"]),
                      (["bench", "strid", "ofset"], 2, ["strid", "stride", "ofset", "offset"]),
                      (["bench"], 2, ["--list"]),
                      (["bench", "stride", "--stride.mst", 4], 2, ["stride.mst", "stride.most"]),
                      (["bench", "stride", "--stride.most", 0], 2, ["stride.most", "1..1024"]),
                      (["bench", "banks", "--stride.most", 4], 2, ["stride.most", "stride"]),
                      (["bench", "stride", "--axis", "strid=2"], 2, ["stride", "did you mean"]),
                      (["bench", "stride", "--axis", "stride=64"], 2, ["stride.most", "1..1024"]),
                      (["bench", "stride", "offset", "--axis=offset=40", "--axis", "stride=2"], 2,
                       ["offset", "40", "0..32"]),
                      (["bench", "stride", "--axis="], 2, ["--axis needs a value"]),
                      (["bench", "occupancy", "--axis", "n=2"], 2, ["'n'", "they have none"]),
                      (["bench", "gather", "--gather.size", "1MiB"], 2, ["gather.size", "64MiB"]),
                      (["bench", "plain-reads"], 2, ["--plain-reads.file"]),
                      (["bench", "bandwidth", "file-feed"], 2, ["--file-feed.file"]),
                      (["bench", "stride", "--measure.timeline"], 2, ["measure.timeline", "bench"]),
                      (["bench", "stride", "-o", "no/folder/x.h5"], 2, ["no/folder"])])
    for arguments, words in ((["help"], ["help", "--list"]),
                             (["help", "strid"], ["strid", "stride"]),
                             (["help", "stride", "ofset"], ["ofset", "offset"]),
                             (["--search", "xyzzy"], ["--search", "xyzzy", "--list"]),
                             (["--search", "strid3"], ["strid3", "stride"]),
                             (["--search", " "], ["--search"]),
                             (["--search"], ["--search"]),
                             (["stride", "--code"], ["--code", "bench help"]),
                             (["--list", "--code"], ["--code", "bench help"]),
                             (["help", "stride", "--json"], ["--json", "bench --list --json"]),
                             (["help", "stride", "--quick"], ["bench help", "--quick"]),
                             (["help", "stride", "--list"], ["--list", "help"]),
                             (["help", "stride", "--search", "word"], ["--search", "help"]),
                             (["help", "stride", "-o", "x.h5"], ["--output.file", "bench help"]),
                             (["--list", "--quick"], ["--list", "--quick"]),
                             (["--search", "word", "--stride.size", "4MiB"],
                              ["--search", "--stride.size"]),
                             (["--search", "x", "stride"], ["--search", "stride"]),
                             (["--search", "x", "--list"], ["--search", "--list"]),
                             (["--list", "stride"], ["--list", "stride"])):
        expect_complaint(run("bench", *arguments, env=NO_MPI), 2, words)


# ---------------------------------------------------------------- on hosts

def test_theoretical_bandwidth():
    out, index, tables, _ = bench("bandwidth", *V100, *QUICK)
    rate, = tables["bandwidth"]["rate"]
    assert abs(rate - 898.048) < 1e-9, rate
    assert index["bandwidth"]["state"] == b"measured"
    expect_words(out, ["898"])


def test_ranks_have_their_rows():
    _, _, tables, _ = bench("reduction", "--reduction.count", "2^20", *QUICK, ranks=2)
    rows = tables["reduction"]
    assert sorted(rows["rank"]) == [0, 1], rows
    for row in rows:
        assert 0 < row["ci_lo"] <= row["time"] <= row["ci_hi"], row
        assert abs(row["read"] - 2**22 / row["time"] / 1e6) < 1e-6 * row["read"], row
        assert row["factor"] == row["total_factor"] == 1, row  # the only rung on a host


def test_what_is_not_available():
    """An experiment that is not available gives the reason, and the others still give results."""
    out, index, tables, _ = bench("all", *SMALL, *QUICK)
    assert set(index) == set(experiments(NO_MPI)), index
    on_host = ON_HOST | {NEEDS_NVRTC} & set(tables)
    assert set(tables) == on_host, set(tables)
    for name, row in index.items():
        state = row["state"].decode()
        assert state == ("measured" if name in on_host else "not available"), (name, state)
        assert (row["message"] == b"") == (state == "measured"), row
    measured, missing = len(on_host), len(index) - len(on_host)
    count = f"{len(index)} experiments: {measured} measured, {missing} not available."
    assert out.splitlines()[-2] == count, (count, out)
    expect_words(out, ["--bandwidth.clock", "--plain-reads.file", "--file-feed.file", "reduction"])


def test_chosen_values():
    """The file has the values of --axis. Words of a kind of memory may have commas."""
    for choices in (["stride=2,8", "offset.offset=0..8+4"], ["memory=registered, huge pages"],
                    ["items=1..512*8", "method=packed|one batch", "way=down"], []):
        axes = [word for choice in choices for word in ("--axis", choice)]
        _, _, _, path = bench("stride", "offset", "transfer", "batching", *axes, *QUICK)
        with h5py.File(path) as file:
            assert file["config"].attrs.get("axis", "") == ";".join(choices), choices
    found = json.loads(run("bench", "--list", "--json", env=NO_MPI).expect(0).out)["experiments"]
    axes = {row["name"]: row["axes"] for row in found}
    assert axes["offset"] == "offset: 0..32 (with --quick 0..32+4)" and axes["hiding"] == "", axes
    text = run("bench", "help", "offset", env=NO_MPI).expect(0).out
    expect_words(text, ["--axis", "offset [words]", "0..32+4"])


def test_existing_file():
    folder = new_folder()
    path = folder / "bench.h5"
    command = ["bench", "bandwidth", *V100, *QUICK, "-o", path]
    run(*command).expect(0)
    before = path.read_bytes()
    expect_complaint(run(*command), 2, [path, "output.overwrite"])
    assert path.read_bytes() == before
    run(*command, "--output.overwrite", "true").expect(0)
    assert path.read_bytes() != before
    assert [file.name for file in folder.iterdir()] == ["bench.h5"]


def test_plain_reads():
    """All ways of reading find the same bytes; the size of the file is no multiple of any
    request."""
    def check(count, kind, ranks):
        data = new_folder() / "data.h5"
        run("generate", "--input.count", count, "--input.type", kind, "-o",
            f"{data}:/x").expect(0)
        out, index, tables, _ = bench("plain-reads", "--plain-reads.file", f"{data}:/x", *QUICK,
                                      ranks=ranks)
        assert index["plain-reads"]["state"] == b"measured", out
        rows = tables["plain-reads"]
        for rank in range(ranks):
            ways = [row["way"].decode() for row in rows if row["rank"] == rank]
            assert ways == [way for way in ("O_DIRECT", "H5Dread, cold", "H5Dread")
                            if way == "H5Dread" or way in ways], ways
            # A file system may not read past the page cache or drop a file. With two ranks, one may
            # read what the other has just dropped.
            if rank == 0 and "O_DIRECT" not in ways:
                expect_words(out, ["Not read past the page cache", data])
            if rank == 0 and "H5Dread, cold" not in ways:
                expect_words(out, ["Not read cold", "page cache is"])
        for row in rows:
            assert 0 < row["ci_lo"] <= row["rate"] <= row["ci_hi"], row
    each([("2^22", "f32", 1), ("2^22", "f32", 2), (5000003, "f64", 1), (1, "u8", 1)], check)


def test_bad_files():
    folder = new_folder()
    text = folder / "text.h5"
    text.write_text("no HDF5")
    good = folder / "good.h5"
    run("generate", "--input.count", 10, "-o", f"{good}:/x").expect(0)

    def check(name, data, word):
        out = new_folder() / "bench.h5"
        finished = run("bench", name, f"--{name}.file", f"{data}:/y", *QUICK, "-o", out).expect(2)
        with h5py.File(out) as file:
            row, = file["bench/experiments"][...]
        assert row["state"] == b"rejected", row
        expect_words(row["message"].decode(), [f"{name}.file", data, word], finished)
    each([(name, *case) for name in ("plain-reads", "file-feed")
          for case in ((folder / "none.h5", folder / "none.h5"), (text, text), (good, "/y"))],
         check)


def expect_rates_with_shares(rows, key, ceilings_of):
    """Each rank has every case, alone and together with the others. A share refers to a ceiling of
    the same rank and turn."""
    for row in rows:
        assert 0 < row["ci_lo"] <= row["rate"] <= row["ci_hi"], row
        turn = [other for other in rows if (other["rank"], other["at_once"]) ==
                (row["rank"], row["at_once"])]
        names = ceilings_of(row[key].decode())
        rates = [other["rate"] for other in turn if other[key].decode() in names]
        assert len(rates) == len(names), (row, names)
        if names:
            assert abs(row["share"] * min(rates) / row["rate"] - 1) < 1e-6, (row, rates)
        else:
            assert np.isnan(row["share"]), row


def test_feed():
    """Each place of the data, alone and with the other ranks."""
    places = ["pinned", "write-combined", "pageable", "mapped", "resident"]

    def ceilings_of(name):
        if name.startswith("plain"):
            return []
        return ["plain reads"] if name in ("mapped", "resident") else ["plain copies"]

    def check(size, ranks):
        _, _, tables, _ = bench("feed", "--feed.size", size, *QUICK, ranks=ranks)
        rows = tables["feed"]
        turns = sorted({1, ranks})
        found = sorted((row["rank"], row["at_once"], row["data"].decode()) for row in rows)
        assert found == sorted((rank, turn, name) for rank in range(ranks) for turn in turns
                               for name in ("plain copies", "plain reads", *places)), found
        expect_rates_with_shares(rows, "data", ceilings_of)
    each([("16MiB", 1), ("5MiB", 2), ("1MiB", 3)], check)


def test_sizes_beyond_memory():
    """They are rejected with the option and the size, and the other experiments still give
    results."""
    def check(name, key, size, word, ranks):
        path = new_folder() / "bench.h5"
        finished = run("bench", name, "bandwidth", *V100, f"--{key}", size, *QUICK, "-o", path,
                       ranks=ranks).expect(2)
        with h5py.File(path) as file:
            rows = {row["experiment"].decode(): row for row in file["bench/experiments"][...]}
        assert rows.pop("bandwidth")["state"] == b"measured", finished
        assert rows[name]["state"] == b"rejected", finished
        expect_words(rows[name]["message"].decode(), [key, word], finished)
    each([("feed", "feed.size", "10TiB", "10 TiB", 1), ("feed", "feed.size", "1PiB", "1 PiB", 2),
          ("reduction", "reduction.count", "2^48", str(2**48), 1),
          ("reduction-order", "reduction-order.count", "2^48", str(2**48), 1)], check)


def test_file_feed():
    """Contiguous and chunked data of any type; H5Dread gives the same sum."""
    def check(data, ranks):
        out, index, tables, _ = bench("file-feed", "--file-feed.file", f"{data}:/x", *QUICK,
                                      ranks=ranks)
        assert index["file-feed"]["state"] == b"measured", out
        rows = tables["file-feed"]
        ways = {row["case"].decode().split(",")[0] for row in rows} - {"plain copies"}
        # Chunks and some file systems cannot be read past the page cache; the result says so.
        if ways != {"cached", "direct"}:
            assert ways == {"cached"}, ways
            expect_words(out, ["page cache", data])
        assert len(rows) == ranks * len({1, ranks}) * (1 + 2 * len(ways)), rows

        def ceilings_of(name):
            way, _, part = name.partition(", ")
            return [f"{way}, readers", "plain copies"] if part == "fed" else []
        expect_rates_with_shares(rows, "case", ceilings_of)
    folder = new_folder()
    files = []
    for count, kind in (("2^20", "f32"), (500003, "f64"), (70000, "i32"), (1, "u8")):
        data = folder / f"{kind}.h5"
        run("generate", "--input.count", count, "--input.type", kind, "-o",
            f"{data}:/x").expect(0)
        files.append((data, 2 if kind == "f32" else 1))
    chunked = folder / "chunked.h5"
    with h5py.File(chunked, "w") as file:
        file.create_dataset("x", data=np.arange(10**6, dtype=np.int16).reshape(1000, 1000),
                            chunks=(64, 300), compression=4)
    each([*files, (chunked, 1)], check)


def test_file_feed_of_too_little():
    """The data have too few elements for each rank."""
    data = new_folder() / "data.h5"
    run("generate", "--input.count", 100, "-o", f"{data}:/x").expect(0)
    out, index, _, _ = bench("file-feed", "--file-feed.file", data, *QUICK, ranks=2)
    assert index["file-feed"]["state"] == b"not available", out
    expect_words(out, [data, "100"])


# ---------------------------------------------------------------- interrupts, two at once

def start_long(path, ranks=1):
    """Starts two experiments and returns when the file has the table of the first one."""
    process = start("bench", "bandwidth", "reduction", *V100, "--reduction.count", "2^24",
                    "--measure.repeat", 10**6, *HOST, "-o", path, ranks=ranks)
    wait_until(path.exists, process)
    return process


def expect_first_alone(path):
    with h5py.File(path) as file:
        assert file.attrs["status"] == "complete", dict(file.attrs)
        assert list(file["bench/experiments"]["experiment"]) == [b"bandwidth"]
        assert abs(file["bench/bandwidth/rows"]["rate"][0] - 898.048) < 1e-9
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    expect_words(run("report", path).expect(0).out, ["bandwidth", "898"])


def test_interrupts():
    """Signals to the only process, which the signal ends as usual, or to the launcher. The tables
    of finished experiments are kept."""
    def check(number, ranks):
        path = new_folder() / "bench.h5"
        process = start_long(path, ranks)
        children = list(ranks_below(process).values())
        process.send_signal(number)
        finished = finish(process, timeout=10)
        if ranks == 1:
            assert finished.code == -number and finished.err == "", finished
        assert finished.code != 0 and "error:" not in finished.err, finished
        expect_gone(children)
        expect_first_alone(path)
    each([(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGINT, 2)], check)


def test_output_of_one_at_work():
    """A second command with the same output is rejected while the first one runs."""
    path = new_folder() / "bench.h5"
    process = start_long(path)
    before = path.read_bytes()
    expect_complaint(run("bench", "bandwidth", *V100, *QUICK, "-o", path), 2,
                     [path, "output.overwrite"])
    assert path.read_bytes() == before
    process.send_signal(signal.SIGINT)
    finish(process, timeout=10).expect(-signal.SIGINT)
    expect_first_alone(path)


def test_replaced_meanwhile():
    """With output.overwrite false, a run only replaces its own file."""
    folder = new_folder()
    path, other = folder / "bench.h5", folder / "other.h5"
    run("bench", "bandwidth", "--bandwidth.clock", 1000, "--bandwidth.width", 8, *QUICK, "-o",
        other).expect(0)
    text = folder / "text"
    text.write_text("no result")
    for foreign in (other, text):
        replacing = foreign.read_bytes()
        process = start("bench", "bandwidth", "reduction", *V100, "--reduction.count", "2^24",
                        "--measure.repeat", 100, *HOST, "-o", path)
        wait_until(path.exists, process)
        foreign.rename(path)
        ended = finish(process).expect(1)
        expect_words(ended.err, [path, "output.file"])
        assert path.read_bytes() == replacing
        path.unlink()
    assert not list(folder.iterdir()), list(folder.iterdir())


def test_two_at_once():
    """One of two commands succeeds, and all tables of the file belong to it."""
    def check(overwrite):
        path = new_folder() / "bench.h5"
        counts = {name: 2**power for name, power in (("2^21", 21), ("2^22", 22))}
        processes = [start("bench", "bandwidth", "reduction", *V100, "--reduction.count", count,
                           *QUICK, "-o", path, "--output.overwrite", overwrite)
                     for count in counts]
        ended = [finish(process) for process in processes]
        told = "\n".join(map(str, ended))
        won = [count for count, each in zip(counts, ended) if each.code == 0]
        assert won and (overwrite == "true" or len(won) == 1), told
        for each in ended:
            if each.code != 0:
                assert each.code in (1, 2) and str(path) in each.err, told
        with h5py.File(path) as file:
            count = file["config"].attrs["reduction.count"]
            assert count in won and f"reduction.count {count}" in file.attrs["argv"], told
            assert list(file["bench/experiments"]["experiment"]) == [b"bandwidth", b"reduction"]
            row, = file["bench/reduction/rows"][...]
        size = row["read"] * row["time"] * 1e6
        assert abs(size / (4 * counts[count]) - 1) < 1e-6, told
        assert [each.name for each in path.parent.iterdir()] == [path.name]
    each([(overwrite,) for overwrite in ("false", "true") for _ in range(3)], check)


# ---------------------------------------------------------------- reports

def test_report_says_what_bench_printed():
    out, _, _, path = bench("bandwidth", "reduction", "--reduction.count", "2^20", *V100, *QUICK)
    text = run("report", path, env=NO_MPI).expect(0).out
    *printed, count, _ = out.strip().splitlines()
    assert "\n".join(printed).strip() in text and count in text, (printed, count, text)


def test_columns_without_a_number_are_not_printed():
    out, _, tables, _ = bench("bandwidth", *V100, *QUICK)
    assert np.isnan(tables["bandwidth"]["share"]).all(), tables
    header = next(line for line in out.splitlines() if line.startswith("kernel"))
    assert header.split() == ["kernel", "rate", "[GB/s]", "remark"] and "nan" not in out, out


def test_share_is_explained():
    out, _, _, path = bench("reduction-order", "--reduction-order.count", "2^20", *QUICK)
    with h5py.File(path) as file:
        share = file["bench/reduction-order"].attrs["share"]
        share = share.decode() if isinstance(share, bytes) else share
    assert share and share in " ".join(out.split()), (share, out)


def figures_of(results):
    """One figure per experiment, or one per panel and number of concurrent ranks."""
    rows = results["rows"][...]
    parts = [name for name in (results.attrs["panel"], "at_once") if name in rows.dtype.names]
    if results["rows"].attrs.get("units_at_once") != "ranks":
        parts = [name for name in parts if name != "at_once"]
    return len({tuple(row[part] for part in parts) for row in rows})


def test_report_of_the_examples():
    """Every measured experiment has its table and its figures; one file has all of them."""
    found = set()
    for example in (EXAMPLE, FOUR_GPUS):
        with h5py.File(example) as file:
            index = file["bench/experiments"][...]
            measured = [row["experiment"].decode() for row in index if row["state"] == b"measured"]
            figures = sum(figures_of(file["bench"][name]) for name in measured)
        found |= set(measured)
        expect_words(run("report", example).expect(0).out, measured)
        told = json.loads(run("report", example, "--json").expect(0).out)
        listed = [each["name"] for each in told["benches"][0]["experiments"]]
        assert listed == [row["experiment"].decode() for row in index]
        page = new_folder() / "page.html"
        run("report", example, "-o", page).expect(0)
        text = page.read_text(encoding="utf-8")
        assert text.count("<figure") == figures, (text.count("<figure"), figures)
        assert text.count("<b>Question:</b>") == len(measured)
        if "stride" in measured:
            assert "src/experiments/memory/stride.cu:" in text and "copy_strided(" in text
        assert "class=\"missing\"" not in text or shutil.which("gnuplot") is None
    assert found == set(experiments(NO_MPI)), found ^ set(experiments(NO_MPI))


def damaged(change):
    """A copy of the example, changed by `change`."""
    path = new_folder() / "damaged.h5"
    shutil.copy(EXAMPLE, path)
    path.chmod(0o644)
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def test_damaged_files():
    def without_index(file):
        del file["bench/experiments"]

    def without_table(file):
        del file["bench/stride/rows"]

    def other_columns(file):
        file["bench/stride"].attrs["y"] = np.bytes_("nothing")
    for change in (without_index, without_table, other_columns):
        path = damaged(change)
        expect_complaint(run("report", path), 2, [path])


def test_hostile_texts():
    evil = "</title><script>alert(1)</script>`rm x`'\x1b]0;x"

    def spoil(file):
        for name in ("summary", "notes", "reference"):
            file["bench/stride"].attrs[name] = np.bytes_(evil)
    path = damaged(spoil)
    out = run("report", path).expect(0).out
    assert "\x1b" not in out
    page = new_folder() / "page.html"
    run("report", path, "-o", page).expect(0)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script" in text


if __name__ == "__main__":
    main()
