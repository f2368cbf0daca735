#!/usr/bin/python3
"""The result file and the standard output of `run reduce`: contents, tables in pandas, options
and their origins, the name of the file and its replacement."""

import itertools
import math
import re
import shlex

import h5py
import numpy as np

import harness
import model
import results
from harness import (LEAF, each, expect_complaint, expect_warning, main, new_folder, reduce, run,
                     skip_part)
from results import small_integers, spread_out, write


def test_standard_output():
    folder = new_folder()
    for ranks in (1, 3):
        finished = run("run", "reduce", "--input.count", 1e6, "-o", folder / f"{ranks}.h5",
                       ranks=ranks).expect(0)
        # On a host with more GPUs than ranks, the run prints a note.
        assert [line for line in finished.err.splitlines() if " idle: " not in line] == [], finished
        lines = finished.out.splitlines()
        for line in lines[:-1]:
            assert re.fullmatch(r"[a-z_]+=\S+( (s|B|GB/s|J|J/GB))?", line), line
        on_gpu = ranks == 1 and harness.BACKEND_OF_ONE_RANK == "cuda"
        # The run is too short for the samples.
        energy = ["energy", "energy_per_gigabyte"] if "energy" in finished.values else []
        assert on_gpu or not energy, finished
        assert [line.split("=")[0] for line in lines] == [
            "input", "count", "sum", "mean", "variance", "stddev", "min", "min_position", "max",
            "max_position", "time", *(["allocate"] if "allocate" in finished.values else []),
            "rate_aggregate", "link_up_aggregate",
            *(["device_read_aggregate"] if on_gpu else []),
            "decode_aggregate", "bound_by", "bound_share", *energy,
            "verified", "ranks", "backend", "host_memory_peak", "file"]
        assert finished.values["backend"] == ("cuda" if on_gpu else "host"), finished
        assert lines[-1] == f"file={folder / f'{ranks}.h5'}", lines
        time, rate = float(finished.values["time"]), float(finished.values["rate_aggregate"])
        assert 0 < time < finished.seconds and math.isclose(rate, 4e6 / time / 1e9, rel_tol=1e-3)


def test_allocation_is_printed_if_it_is_considerable():
    """More cells take more time to allocate, and many repetitions take more time than that."""
    folder = new_folder()
    for cells, repeat in ((100, 1), (100, 50), (100000, 1)):
        out = folder / f"{cells}_{repeat}.h5"
        finished = run("run", "reduce", "--input.shape", f"40x{cells}", "--reduce.over", "0",
                       "--measure.repeat", repeat, "-o", out).expect(0)
        with h5py.File(out) as file:
            phases = {row["phase"].decode(): row["host_seconds"] for row in file["timing/phases"]
                      if row["track"] == b"main"}
        is_long = phases["allocate"] > float(finished.values["time"]) / 10
        assert ("allocate" in finished.values) == is_long, finished
        if is_long:
            assert math.isclose(float(finished.values["allocate"]), phases["allocate"],
                                rel_tol=1e-3), finished


def test_result_file():
    folder = new_folder()
    array = spread_out((300, 700), ">i2")
    source = write(array, folder / "in.h5", chunks=(64, 64), compression="gzip")
    ranks = 3
    out = folder / "it's $HOME's result.h5"
    words = ["run", "reduce", "--input.data", source, "-o", out, "--measure.repeat", "4",
             "--measure.warmup", "1"]
    finished = run(*words, ranks=ranks, env={"SLURM_RESTART_COUNT": "2"}).expect(0)
    assert finished.values["ranks"] == str(ranks), finished
    with h5py.File(out) as file:
        root = dict(file.attrs)
        assert shlex.split(root["argv"]) == ["shardstream", *map(str, words)], root["argv"]
        assert root["restart_count"] == 2
        assert root["schema"] == "shardstream" and root["schema_version"] == 1
        assert root["status"] == "complete"
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
                            root["run_uuid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", root["created_utc"])
        config = file["config"].attrs
        assert config["ranks"] == ranks and config["work_total"] == array.size
        assert config["work_per_gpu"] == array.size // ranks
        given = dict(file["input"].attrs)
        assert given["name"] == source and given["type"] == "i32", given
        assert list(given["shape"]) == [300, 700] and list(given["box"]) == [64, 64], given
        assert given["access"].startswith("chunks 64x64, filtered, parallel"), given
        with h5py.File(folder / "in.h5") as stored:
            assert given["stored_bytes"] == stored["group/data"].id.get_storage_size()
        found = dict(file["results"].attrs)
        assert found["verified"] == 1 and "ranges" in found["verdict"], found
        assert (found["unit_elements"], found["lanes"]) == model.division(array.size)[:2], found
        for name in ("git_commit", "compiler", "mpi", "hdf5", "operating_system"):
            assert file["provenance"].attrs[name], name
        units = {name: dataset.attrs for name, dataset in file["timing"].items()}
        assert units["reps"]["units_wall"] == "s" and units["phases"]["units_bytes"] == "B"


def summary_of(path):
    """The rows of /summary by metric, and the seconds of the repetitions."""
    with h5py.File(path) as file:
        rows = {row["metric"].decode(): row for row in file["summary"][()]}
        return rows, file["timing/reps"]["wall"]


def test_automatic_repetitions():
    """A precision of 1 is reached soon, a precision of 0.0001 hardly ever."""
    def check(ranks, options, expected):
        folder = new_folder()
        finished = run("run", "reduce", "--input.count", "2^20", "-o", folder / "out.h5",
                       "--measure.repeat", *options, ranks=ranks).expect(0)
        rows, wall = summary_of(folder / "out.h5")
        time = rows["time"]
        ended = time["sampling"].decode()
        assert ended in expected and rows["rate_aggregate"]["sampling"] == time["sampling"], ended
        assert time["n"] == len(wall) == int(finished.values["time_n"]), (time, wall, finished)
        assert finished.values["sampling"] == ended, finished
        for end in ("ci_lo", "ci_hi"):  # there is no interval for fewer than six repetitions
            printed = float(finished.values.get(f"time_{end}", "nan"))
            assert np.isclose(printed, time[end], rtol=1e-5, equal_nan=True), (time, finished)
        set_to = dict(zip(options[1::2], options[2::2]))
        if ended == "converged":
            precision = set_to["--measure.precision"]
            assert 6 <= time["n"] <= 1000, time
            assert time["ci_lo"] >= time["median"] * (1 - precision), time
            assert time["ci_hi"] <= time["median"] * (1 + precision), time
        if ended == "unconverged":
            expect_warning(finished, ["measure.max-time", "measure.precision"])
        else:
            assert "measure.max-time" not in finished.err, finished
        deviations = wall - wall.mean()
        if len(wall) < 3:
            assert math.isnan(time["autocorrelation"]), time
        else:
            r = (deviations[1:] * deviations[:-1]).sum() / (deviations**2).sum()
            assert math.isclose(time["autocorrelation"], r, abs_tol=1e-9), (time, r)
    precise = ("--measure.precision", 0.0001, "--measure.max-time")
    each([(ranks, *case) for ranks in (1, 2) for case in (
        (("auto", "--measure.precision", 1), {"converged"}),
        (("auto", *precise, "1ms"), {"unconverged"}),
        (("auto", *precise, "300ms"), {"converged", "unconverged"}),
        ((4, *precise, "1ms"), {"fixed"}))], check)


def test_pandas_opens_every_table():
    try:
        import pandas
        import tables  # with which pandas reads HDF5
    except ImportError as error:
        return skip_part(f"pandas cannot open HDF5 here ({error})")
    print(f"pandas {pandas.__version__}, PyTables {tables.__version__}")
    folder = new_folder()
    ranks, repeat = 3, 4
    run("run", "reduce", "--input.count", 3e6, "--input.type", "f64", "-o", folder / "out.h5",
        "--measure.repeat", repeat, ranks=ranks).expect(0)
    found = []
    with h5py.File(folder / "out.h5") as file:
        file.visititems(lambda name, item: found.append("/" + name)
                        if isinstance(item, h5py.Dataset) else None)
        raw = {name: file[name][()] for name in found}
    assert set(found) >= {"/topology/ranks", "/topology/gpus", "/timing/phases", "/timing/reps",
                          "/timing/rank_phase", "/summary", "/ceilings", "/results/reduce"}, found
    frames = {name: pandas.read_hdf(folder / "out.h5", name) for name in found}
    for name, frame in frames.items():
        assert list(frame.columns) == list(raw[name].dtype.names), name
        assert len(frame) == len(raw[name]), name
        for column in frame.columns:
            expected = raw[name][column]
            if expected.dtype.kind == "S":
                assert frame[column].tolist() == np.char.decode(expected).tolist(), (name, column)
            else:
                assert np.array_equal(frame[column], expected, equal_nan=True), (name, column)
    assert frames["/topology/ranks"]["rank"].tolist() == list(range(ranks))
    assert frames["/topology/ranks"]["backend"].tolist() == ["host"] * ranks
    assert frames["/topology/ranks"]["pid"].nunique() == ranks
    assert len(frames["/topology/gpus"]) == 0
    reps = frames["/timing/reps"]
    assert reps["rep"].tolist() == list(range(repeat)) and (reps["wall"] > 0).all()
    assert (reps["skew"] >= 0).all() and (reps["skew"] <= reps["wall"]).all()
    assert set(reps["bytes"]) == {24000000} and set(reps["elements"]) == {3000000}
    summary = frames["/summary"].set_index("metric")
    assert summary.loc["time", "n"] == repeat
    # The median of four is between the middle two; both formulas round at most twice.
    assert math.isclose(summary.loc["time", "median"], np.median(reps["wall"]), rel_tol=2**-51)
    assert summary.loc["time", "min"] == reps["wall"].min()
    assert summary.loc["time", "max"] == reps["wall"].max()
    by_rank = frames["/timing/rank_phase"]
    streamed = by_rank[by_rank["phase"] == "stream"]
    assert sorted(streamed["rank"]) == list(range(ranks))
    assert streamed["bytes"].sum() == repeat * 24000000 and set(streamed["calls"]) == {repeat}
    link = frames["/ceilings"].set_index("ceiling").loc["link_up"]
    assert 0 < link["per_rank_min"] <= link["aggregate"] / ranks * (1 + 1e-9), link
    assert link["unit"] == "GB/s" and link["on_path"] == 1, link
    kinds = {"useful", "transfer", "communication", "waiting"}  # all occur in a stream of any ranks
    for rank in range(ranks):
        assert set(by_rank[by_rank["rank"] == rank]["kind"]) == kinds, (rank, by_rank)
    assert set(frames["/timing/phases"]["kind"]) == kinds
    kind_of = dict(zip(by_rank["phase"], by_rank["kind"]))
    for phase, kind in (("stream", "useful"), ("read", "useful"), ("kernels", "useful"),
                        ("upload", "transfer"), ("combine", "communication"),
                        ("wait-for-slot", "waiting"), ("wait-for-readers", "waiting")):
        assert kind_of[phase] == kind, kind_of
    phases = frames["/timing/phases"].set_index("phase")
    assert phases.loc["stream", "host_seconds"] == streamed["host_seconds"].max()
    return None


# ---------------------------------------------------------------- where options come from

def config_of(path):
    with h5py.File(path) as file:
        return dict(file["config"].attrs), dict(file["config/origin"].attrs)


def test_sources_of_options():
    """Command line before environment before INI file before defaults."""
    folder = new_folder()
    ini = folder / "study.ini"
    ini.write_text("; a study\n[run]\nworkload = reduce\n\n[input]\ndata = ramp  # a generator\n"
                   "count = 70000\ntype = \"i64\"\n[pipeline]\nslots = 3\nbatch = 1MiB\n"
                   f"[output]\nfile = {folder}/ini.h5\n")
    finished = run("run", ini, "--input.type", "u8", ranks=2, env={
        "SHARDSTREAM_INPUT_TYPE": "f32", "SHARDSTREAM_PIPELINE_SLOTS": "5",
        "SHARDSTREAM_REDUCE_OPS": "sum", "SHARDSTREAM_PIPELINE_GPU_MEMORY": "1GiB",
        "SHARDSTREAM_TEST_ANYTHING": "is left alone"}).expect(0)
    values, origins = config_of(folder / "ini.h5")
    for key, value, origin in (
            ("input.type", "u8", "command line"), ("pipeline.slots", "5", "environment"),
            ("reduce.ops", "sum", "environment"), ("pipeline.gpu-memory", "1GiB", "environment"),
            ("input.count", "70000", f"{ini}:7"), ("input.data", "ramp", f"{ini}:6"),
            ("run.workload", "reduce", f"{ini}:3"), ("pipeline.batch", "1MiB", f"{ini}:11"),
            ("pipeline.batches", "3", "default"), ("reduce.missing", "auto", "default")):
        assert (values[key], origins[key]) == (value, origin), (key, values[key], origins[key])
    assert finished.values["sum"] == str(sum(i % 256 for i in range(70000))), finished
    assert set(origins) <= set(values) and len(origins) >= 18, origins


def test_resolved_options():
    """The value of every `auto` on rank 0, and values that were rounded or reduced."""
    def check(ranks, source, options, expected):
        folder = new_folder()
        out = folder / "{ranks}.h5"
        finished = reduce(source, out, *itertools.chain(*options.items()), ranks=ranks)
        resolved = results.resolved(folder / f"{ranks}.h5", "reduce")
        assert resolved["device.backend"] == finished.values["backend"], resolved
        assert resolved["output.file"] == str(folder / f"{ranks}.h5"), resolved
        assert 0 < resolved["pipeline.readers"] <= 8, resolved
        assert resolved["pipeline.batch"] % (LEAF * 4) == 0, resolved
        for key, value in expected.items():
            assert resolved[key] == value, (key, resolved)
    folder = new_folder()
    few = write(small_integers(1000, "f4"), folder / "few.h5")
    many = write(small_integers(9 * LEAF, ">i2"), folder / "many.h5")
    leaf = LEAF * 4
    each([
        (1, few, {}, {"input.type": "f32", "pipeline.batch": leaf, "pipeline.batches": 1,
                      "pipeline.slot": leaf, "pipeline.slots": 1, "pipeline.readers": 1}),
        (2, many, {"--pipeline.batch": "1", "--pipeline.slot": "1GiB", "--pipeline.slots": "4",
                   "--pipeline.readers": "3", "--pipeline.gpu-memory": "1GB"},
         {"input.type": "i32", "pipeline.batch": leaf, "pipeline.batches": 3, "pipeline.slot": leaf,
          "pipeline.slots": 4, "pipeline.readers": 3, "pipeline.gpu-memory": 10**9}),
        (1, many, {"--pipeline.mode": "resident"}, {"pipeline.batch": 9 * leaf,
                                                    "pipeline.batches": 1})], check)


def test_workload_as_a_word_is_from_the_command_line():
    folder = new_folder()
    run("run", "reduce", "--input.count=9", f"--output.file={folder}/a.h5").expect(0)
    values, origins = config_of(folder / "a.h5")
    assert values["run.workload"] == "reduce" and origins["run.workload"] == "command line"
    assert values["output.file"] == f"{folder}/a.h5"


# ---------------------------------------------------------------- names and replacement

def test_placeholders():
    folder = new_folder()

    def check(ranks, variable, template, name):
        where = new_folder()
        jobs = dict.fromkeys(["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"])
        finished = run("run", "reduce", "--input.count", 10, "-o", where / template, ranks=ranks,
                       env={**jobs, variable: "4711"}).expect(0)
        assert [path.name for path in where.iterdir()] == [name], finished
        assert finished.values["file"] == str(where / name), finished
        assert config_of(where / name)[0]["output.file"] == str(where / template)
    each([(1, "SLURM_JOB_ID", "{workload}-{ranks}-{jobid}.h5", "reduce-1-4711.h5"),
          (2, "PBS_JOBID", "{ranks}{ranks}.{jobid}", "22.4711"),
          (1, "LSB_JOBID", "{other}{jobid}{jobid}", "{other}47114711")], check)
    finished = run("run", "reduce", "--input.count", 10, "-o", folder / "{jobid}").expect(0)
    assert re.fullmatch(r"[0-9]{10}-[0-9]+", next(folder.iterdir()).name), finished


def test_default_name_is_in_the_current_folder():
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, env={"SLURM_JOB_ID": "12"}, cwd=folder).expect(0)
    assert [path.name for path in folder.iterdir()] == ["reduce-1-12.h5"]


def test_replacement():
    """A complete result is only replaced on request; an unfinished one and its files always."""
    folder = new_folder()
    out = folder / "out.h5"
    stale = folder / ".out.h5.00000000-0000-4000-8000-000000000000.part"
    others = folder / ".out.h5.more.00000000-0000-4000-8000-000000000000.part"
    with h5py.File(out, "w") as file:
        file.attrs["schema"] = "shardstream"
        file.attrs["status"] = "partial"
    stale.write_bytes(b"\x89HDF\r\n\x1a\nof a run that was killed")
    others.write_text("of another file")
    arguments = ["run", "reduce", "--input.count", 10, "-o", out]
    run(*arguments, ranks=2).expect(0)
    assert sorted(folder.iterdir()) == sorted([out, others])
    complete = out.read_bytes()

    for ranks in (1, 2):
        expect_complaint(run(*arguments, ranks=ranks), 2, [out, "--output.overwrite true"])
        run(*arguments, "--output.overwrite", "false", ranks=ranks).expect(2)
        assert out.read_bytes() == complete
    for ranks in (1, 2):
        before = out.read_bytes()
        run(*arguments, "--output.overwrite", "true", ranks=ranks).expect(0)
        assert out.read_bytes() != before
    out.write_text("no result of this program")
    run(*arguments).expect(2)
    assert out.read_text() == "no result of this program"
    run(*arguments, "--output.overwrite", "anything").expect(0)
    assert sorted(folder.iterdir()) == sorted([out, others])


main(on_gpu=True)
