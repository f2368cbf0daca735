#!/usr/bin/env python3
"""measure.timeline: the spans in the result file and in the trace are the same, they are at the
right places, and their sums are the timings."""

import json
import os

from harness import expect_complaint, expect_warning, main, new_folder, reduce, run, skip_all

try:
    import h5py
    import numpy as np
except ImportError:
    skip_all("no h5py (jobs/install-dependencies --tests)")

RANKS, REPEAT, WARMUP = 2, 2, 1
ELEMENTS, SLOT, BATCH = 3_000_000, 1 << 18, 1 << 20  # of f32; the latter two in bytes
SIZES = ["--input.count", ELEMENTS, "--input.type", "f32", "--pipeline.slot", SLOT,
         "--pipeline.batch", BATCH, "--pipeline.readers", 2, "--pipeline.slots", 4,
         "--measure.repeat", REPEAT, "--measure.warmup", WARMUP]


def rows(file, name):
    return [{key: value.decode() if isinstance(value, bytes) else value.item()
             for key, value in zip(table.dtype.names, table)} for table in file[name][()]]


def timed(folder, *arguments, ranks=RANKS):
    """A run with a timeline: its output, its spans, its timings and its trace."""
    finished = reduce("uniform", folder / "out.h5", "--measure.timeline", "true", *SIZES,
                      *arguments, ranks=ranks)
    with h5py.File(folder / "out.h5") as file:
        spans, sums = rows(file, "/timeline/spans"), rows(file, "/timing/rank_phase")
        assert file["/timeline/spans"].attrs["units_dur_ns"] == "ns"
        uuid = file.attrs["run_uuid"]
    trace = json.loads((folder / "out.trace.json").read_text())
    assert trace["otherData"]["run_uuid"] == uuid, trace["otherData"]
    return finished, spans, sums, trace


def of(spans, **wanted):
    return [span for span in spans if all(span[key] == value for key, value in wanted.items())]


def end(span):
    return span["start_ns"] + span["dur_ns"]


def by_batch(spans):
    """{batch: spans}, one per repetition, in the order of time."""
    found = {}
    for span in sorted(spans, key=lambda span: span["start_ns"]):
        found.setdefault(span["batch"], []).append(span)
    return found


def test_spans_of_all_ranks_and_tracks():
    finished, spans, sums, _ = timed(new_folder())
    error_ns = float(finished.values["alignment_error"]) * 1000
    assert 0 < error_ns < 1e9, finished
    assert min(span["start_ns"] for span in spans) == 0
    assert all(span["dur_ns"] >= 0 for span in spans)
    assert max(map(end, spans)) / 1e9 < finished.seconds
    runs = REPEAT + WARMUP
    for rank in range(RANKS):
        own = of(spans, rank=rank)
        assert {span["track"] for span in own} == {
            "main", "reader 0", "reader 1", "upload", "compute"}, rank
        assert len(of(own, track="main", phase="stream")) == REPEAT
        assert len(of(own, track="main", phase="warm-up")) == WARMUP
        streams = of(own, phase="stream") + of(own, phase="warm-up")
        inside = of(own, phase="upload") + of(own, phase="kernels") + of(own, phase="read") \
            + of(own, phase="wait-for-slot") + of(own, phase="wait-for-readers") \
            + of(own, phase="wait-for-batch") + of(own, phase="enqueue")
        for span in inside:  # the pipeline only works inside
            assert any(stream["start_ns"] - error_ns <= span["start_ns"]
                       and end(span) <= end(stream) + error_ns for stream in streams), span
        uploads = by_batch(of(own, track="upload", phase="upload"))
        kernels = by_batch(of(own, track="compute", phase="kernels"))
        batches = -(-next(s["bytes"] for s in sums if s["rank"] == rank and s["phase"] == "upload")
                    // runs // BATCH)
        assert set(uploads) == set(kernels) == set(range(batches)) and batches >= 5, batches
        for batch in uploads:
            assert len(uploads[batch]) == len(kernels[batch]) == runs, batch
            for uploaded, computed in zip(uploads[batch], kernels[batch]):
                assert end(uploaded) <= computed["start_ns"], (uploaded, computed)
        for track in ("main", "reader 0", "reader 1", "upload", "compute"):
            # Spans of a stream or a thread do not overlap, except nested ones on main.
            busy = sorted((s for s in of(own, track=track) if s["phase"] != "wait-for-readers"),
                          key=lambda span: span["start_ns"])
            for before, after in zip(busy, busy[1:]):
                assert end(before) <= after["start_ns"] + 2, (before, after)  # ns, rounded


def test_sums_are_those_of_the_timings():
    finished, spans, sums, _ = timed(new_folder())
    assert all((row["host_seconds"] == 0) != (row["gpu_seconds"] == 0) for row in sums), finished
    assert all(row["gpu_seconds"] == 0 for row in sums if row["track"] not in ("upload", "compute"))
    for row in sums:
        own = of(spans, rank=row["rank"], track=row["track"], phase=row["phase"])
        assert len(own) == row["calls"], row
        kept = sum(span["dur_ns"] for span in own) / 1e9
        assert abs(kept - row["host_seconds"] - row["gpu_seconds"]) < 1e-9 * (len(own) + 1), row
    assert sum(row["calls"] for row in sums) == len(spans)
    total = ELEMENTS * 4 * (REPEAT + WARMUP)
    for phases in (("read",), ("upload",), ("kernels",), ("stream", "warm-up")):
        assert sum(row["bytes"] for row in sums if row["phase"] in phases) == total, phases


def test_the_trace_has_the_same_spans():
    finished, spans, _, trace = timed(new_folder())
    assert finished.values["timeline"].endswith("/out.trace.json"), finished
    stated = trace["otherData"]["alignment_error_us"]
    assert abs(stated - float(finished.values["alignment_error"])) <= 0.051, (stated, finished)
    events = trace["traceEvents"]
    named = {(event["name"], event["pid"], event.get("tid")): event["args"]["name"]
             for event in events if event["name"] in ("process_name", "thread_name")}
    assert all(named["process_name", rank, None].startswith(f"rank {rank} (")
               for rank in range(RANKS)), named
    seen = [(e["pid"], named["thread_name", e["pid"], e["tid"]], e["name"],
             e.get("args", {}).get("batch", -1), round(e["ts"] * 1000), round(e["dur"] * 1000))
            for e in events if e["ph"] == "X"]
    assert sorted(seen) == sorted(tuple(span.values()) for span in spans)
    assert {event["ph"] for event in events} == {"X", "M"}


def test_other_modes():
    staged = {"wait-for-slot", "wait-for-batch", "enqueue"}
    for mode, phases in (("pinned", set()), ("pageable", {"copy"} | staged),
                         ("resident", {"read"} | staged)):
        _, spans, _, _ = timed(new_folder(), "--pipeline.mode", mode, ranks=1)
        runs = REPEAT + WARMUP
        kernels, uploads = of(spans, phase="kernels"), of(spans, phase="upload")
        assert len(kernels) == 12 * runs, (mode, len(kernels))
        assert len(uploads) == 12 * (1 if mode == "resident" else runs), (mode, len(uploads))
        found = {span["phase"] for span in spans if span["track"].startswith("reader")}
        assert found == phases, (mode, found)


def test_without_the_option_there_is_neither():
    folder = new_folder()
    finished = reduce("uniform", folder / "out.h5", *SIZES, ranks=RANKS)
    assert not {"timeline", "alignment_error"} & set(finished.values), finished
    assert [path.name for path in folder.iterdir()] == ["out.h5"]
    with h5py.File(folder / "out.h5") as file:
        assert "timeline" not in file
        sums = rows(file, "/timing/rank_phase")
    assert sum(row["bytes"] for row in sums if row["phase"] == "kernels") \
        == ELEMENTS * 4 * (REPEAT + WARMUP)
    assert all(row["gpu_seconds"] > 0 for row in sums if row["track"] in ("upload", "compute"))


def test_the_trace_is_kept_as_results_are():
    folder = new_folder()
    trace = folder / "out.trace.json"
    trace.write_text("mine")
    for ranks in (1, RANKS):
        finished = run("run", "reduce", "--input.count", 1000, "--measure.timeline", "true", "-o",
                       folder / "out.h5", ranks=ranks)
        expect_complaint(finished, 2, [trace])
        assert trace.read_text() == "mine" and len(list(folder.iterdir())) == 1, finished
    run("run", "reduce", "--input.count", 1000, "--measure.timeline", "true", "-o",
        folder / "out.h5", "--output.overwrite", "anything").expect(0)
    assert json.loads(trace.read_text())["traceEvents"]
    # .trace.json is appended to a name without .h5.
    run("run", "reduce", "--input.count", 1000, "--measure.timeline", "true", "-o",
        folder / "b-1.5").expect(0)
    assert sorted(path.name for path in folder.iterdir()) \
        == ["b-1.5", "b-1.5.trace.json", "out.h5", "out.trace.json"]


def test_a_trace_that_meets_a_full_disk():
    """The trace is omitted with a warning, and the result is complete. A limit of the file size
    takes the place of the full disk."""
    arguments = ["run", "reduce", "--input.count", ELEMENTS, "--pipeline.slot", 1,
                 "--pipeline.batch", 1, "--measure.repeat", 300, "--measure.timeline", "true"]
    whole = new_folder()
    run(*arguments, "-o", whole / "out.h5").expect(0)
    result, trace = (os.path.getsize(whole / name) for name in ("out.h5", "out.trace.json"))
    assert result * 1.2 < trace, (result, trace)
    folder = new_folder()
    limited = f'trap "" XFSZ; exec prlimit --fsize={(result + trace) // 2} "$@"'
    finished = run(*arguments, "-o", folder / "out.h5", prefix=["sh", "-c", limited, "sh"])
    finished.expect(0)
    expect_warning(finished, ["out.trace.json"])
    assert "timeline" not in finished.values, finished
    assert [path.name for path in folder.iterdir()] == ["out.h5"], list(folder.iterdir())


if __name__ == "__main__":
    main()
