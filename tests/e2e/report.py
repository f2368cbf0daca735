#!/usr/bin/python3
"""`report`: its text, JSON, CSV and input of Extra-P, of whole, damaged and contradicting files."""

import csv
import functools
import html
import json
import os
import pathlib
import re
import shutil
import subprocess

import h5py

from harness import (PROGRAM, environment, expect_complaint, expect_words, main, new_folder,
                     run)
from studies import only_study, report, study, write_data

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"


def damaged(source, target, change):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        change(file)


def test_columns_of_the_two_modes():
    """The column of a weak study is named scaled_speedup and has the ratio of the rates."""
    for name, column in (("gemm-fp32-weak", "scaled_speedup"), ("gemm-tf32-strong", "speedup")):
        header, *rows = run("report", EXAMPLES / name).expect(0).out.splitlines()[2:5]
        assert re.split(r" {2,}", header.strip())[3] == column, header
        one, two = only_study(EXAMPLES / name)["points"]
        assert abs(two["work"] / one["work"] - (2 if "weak" in name else 1)) < 0.01, two
        rates = [each["work"] / each["time"] for each in (one, two)]
        assert abs(two["speedup"] / (rates[1] / rates[0]) - 1) < 1e-9, two
        shown = re.split(r" {2,}", rows[1].strip())[3].split(" ")[0]
        assert abs(float(shown) / two["speedup"] - 1) < 0.005, rows


def test_columns_without_values():
    """The text has no column without a value; a study of `model` uses no measured limit."""
    folder = new_folder() / "study"
    study(folder, "--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1)
    header, *rows = run("report", folder).expect(0).out.splitlines()[2:5]
    columns = [[cell.split(" ")[0] for cell in re.split(r" {2,}", line.strip())]
               for line in (header, *rows)]
    assert {"bound_by", "share"}.isdisjoint(columns[0]) and "karp_flatt" in columns[0], header
    assert all(set(cells) != {"-"} for cells in zip(*columns[1:], strict=True)), columns
    header = run("report", EXAMPLES / "gemm-fp32-weak").expect(0).out.splitlines()[2]
    assert "bound_by" in header and "karp_flatt" not in header, header


def test_the_short_text_is_a_part_of_the_whole_one():
    """It has the first columns, the law and its prediction; with --together, only the tables."""
    folder = EXAMPLES / "gemm-tf32-strong"
    whole, short = (run("report", folder, *more).expect(0).out for more in ([], ["--short"]))
    assert short.splitlines()[6].startswith("In brackets: 95 %"), short
    assert set(short.splitlines()[7:]) <= set(whole.splitlines()[6:]), (short, whole)
    assert "Amdahl's law" in short and "Time to result" not in short, short
    for line, full in zip(short.splitlines()[2:5], whole.splitlines()[2:5], strict=True):
        assert full.startswith(line.rstrip()) and "link_up" not in line, (line, full)
    two = [folder, EXAMPLES / "gemm-bf16-strong", "--together"]
    whole, short = (run("report", *two, *more).expect(0).out for more in ([], ["--short"]))
    assert whole.startswith(short.split("\nA:")[0]) and len(short) < len(whole) / 2, short
    expect_complaint(run("report", folder, "--short", "--json"), 2, ["--short"])


def test_studies_have_the_order_of_the_command():
    names = ["reduce-file-strong", "gemm-fp32-weak", "gemm-bf16-strong"]
    found = report(*(EXAMPLES / name for name in names))["studies"]
    assert [each["name"].rpartition("-")[0] for each in found] == names, found


def with_share(folder, share):
    """The files of a study whose runs have this share of their bound."""
    def change(file):
        metrics = file["metrics"][:]
        metrics["number"][metrics["metric"] == b"bound_share"] = share
        file["metrics"][:] = metrics
    files = [folder / f"{share}-p{ranks}.h5" for ranks in (1, 2)]
    for ranks, file in zip((1, 2), files, strict=True):
        damaged(EXAMPLES / f"gemm-tf32-strong/p{ranks}-r1.h5", file, change)
    return files


def page_of(files, folder):
    page = folder / "page.html"
    run("report", *files, "-o", page).expect(0)
    return html.unescape(page.read_text())


def test_a_share_above_one_is_explained():
    """Text and page have a sentence more."""
    folder = new_folder()
    lines = [line for share in (1.001, 1.2)
             for line in run("report", *with_share(folder, share)).expect(0).out.splitlines()
             if line.startswith("Share:")]
    usual, above = lines
    assert above.startswith(usual) and len(above) > len(usual), lines
    remark = above.removeprefix(usual).strip()
    assert remark in page_of(with_share(folder, 1.2), new_folder()), remark
    assert remark not in page_of(with_share(folder, 1.001), new_folder()), remark


def test_a_page_states_a_share_above_one_without_percents():
    for share in (1.001, 1.2):
        page = page_of(with_share(new_folder(), share), new_folder())
        percents = [float(text) for text in re.findall(r"([\d.]+) %</b>", page)]
        assert (100 in percents) == (share < 1.01) and max(percents, default=0) <= 100, percents
        assert bool(re.search(r"share 1\.20\b", page)) == (share > 1.01), page


# ---------------------------------------------------------------- a study of two sizes

@functools.cache
def launched():
    folder = new_folder() / "study"
    study(folder, "--model.work", "30ms", "--scale.ranks", "1,2", "--scale.replicates", 2)
    return folder


def small_study():
    """A folder with four launches, on 1 and 2 ranks."""
    return shutil.copytree(launched(), new_folder() / "study")


def names_of(files):
    return {pathlib.Path(each["file"]).name for each in files}


def test_the_same_files_give_the_same_json():
    folder = small_study()
    assert run("report", folder, "--json").out == run("report", folder, "--json").out


def test_json_has_the_points_of_a_study():
    found = only_study(small_study())
    assert [each["repetitions"] for each in found["points"]] == [3, 3], found
    assert [each["unconverged"] for each in found["points"]] == [0, 0], found
    assert [each["ranks"] for each in found["residuals"]] == [1, 2] and found["p_value"] is None


def test_csv_has_a_row_for_each_repetition():
    out = new_folder()
    run("report", small_study(), "--csv", out / "csv").expect(0)
    (path,) = (out / "csv").iterdir()
    rows = list(csv.DictReader(path.open()))
    assert len(rows) == 4 * 3 and float(rows[0]["time [s]"]) > 0.01, rows


def test_extra_p_has_a_line_for_each_repetition():
    out = new_folder() / "extra.jsonl"
    run("report", small_study(), "--extra-p", out).expect(0)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["params"]["p"] for line in lines} == {1, 2} and len(lines) == 12, lines


def test_a_copy_of_a_launch_does_not_count():
    folder = small_study()
    shutil.copy(folder / "p1-r1.h5", folder / "x-copy.h5")
    copy, = only_study(folder)["excluded"]
    assert names_of([copy]) == {"x-copy.h5"}, copy
    expect_words(copy["reason"], [folder / "p1-r1.h5"])


def with_unreadable_files():
    """The study, and files that cannot be read or have impossible times, by their names."""
    folder = small_study()
    source = folder / "p1-r1.h5"
    (folder / "x-truncated.h5").write_bytes(source.read_bytes()[:-5000])
    damaged(source, folder / "x-schema.h5", lambda file: file.attrs.modify("schema_version", 7))
    for name, value in (("zero", 0), ("nan", float("nan")), ("negative", -1)):
        def change(file, value=value):
            reps = file["timing/reps"][:]
            reps["wall"] = value
            file["timing/reps"][:] = reps
        damaged(source, folder / f"x-{name}.h5", change)
    return folder, {f"x-{name}.h5" for name in ("truncated", "schema", "zero", "nan", "negative")}


def test_unreadable_files_are_listed():
    folder, bad = with_unreadable_files()
    assert names_of(report(folder, code=1)["unreadable"]) == bad


def test_unreadable_files_are_errors_of_every_output():
    folder, bad = with_unreadable_files()
    for options in (["--json"], ["-o", new_folder() / "page.html"]):
        told = run("report", folder, *options).expect(1)
        assert told.err.count("error: ") == len(bad), told
        expect_words(told.err, [folder / name for name in bad], told)


def test_the_other_files_count_as_without_unreadable_ones():
    folder, bad = with_unreadable_files()
    found = report(folder, code=1)["studies"]
    for name in bad:
        (folder / name).unlink()
    assert found == [only_study(folder)], found


def test_a_page_is_not_overwritten():
    folder, page = small_study(), new_folder() / "page.html"
    run("report", folder, "-o", page).expect(0)
    told = run("report", folder, "-o", page).expect(2)
    expect_words(told.err, ["--output.overwrite true", page], told)


def test_the_launchers_time_is_known_by_the_attempts():
    assert all(point["launcher"] > 0 for point in only_study(small_study())["points"])


def test_the_launchers_time_is_unknown_if_a_clock_was_set_back():
    folder = small_study()

    def set_back(file):
        startup = file["timing/startup"][:]
        startup["utc"] -= 1000
        file["timing/startup"][:] = startup
    past = new_folder()
    shutil.copy(folder / "attempts.jsonl", past)
    damaged(folder / "p1-r1.h5", past / "p1-r1.h5", set_back)
    point, = only_study(past)["points"]
    assert point["launcher"] is None and point["to_result"] > 0, point


def test_a_torn_line_of_the_attempts_is_named():
    folder = small_study()
    with (folder / "attempts.jsonl").open("a") as file:
        file.write("torn")
    line = len((folder / "attempts.jsonl").read_text().splitlines())
    unreadable, = report(folder, code=1)["unreadable"]
    expect_words(unreadable["reason"], ["attempts.jsonl", f"line {line}"])


def other_commit(file, created="2999-01-01T00:00:00Z"):
    file["provenance"].attrs["git_commit"] = "other"
    file.attrs["created_utc"] = created


def with_other_launch(change):
    """The study without a launch, and with another one that `change` makes different."""
    folder = small_study()
    (folder / "p2-r2.h5").unlink()
    damaged(folder / "p1-r1.h5", folder / "p1-r2.h5", change)
    return folder


def test_a_launch_of_another_commit_does_not_count():
    (excluded,) = only_study(with_other_launch(other_commit))["excluded"]
    expect_words(excluded["reason"], ["commit", "other"])


def test_a_launch_with_other_options_does_not_count():
    folder = with_other_launch(lambda file: file["config"].attrs.modify("pipeline.mode", "pinned"))
    (excluded,) = only_study(folder)["excluded"]
    expect_words(excluded["reason"], ["pipeline.mode", "pinned", "stream"])


def test_properties_of_most_launches_count_not_those_of_the_first():
    folder = with_other_launch(lambda file: other_commit(file, "2001-01-01T00:00:00Z"))
    assert names_of(only_study(folder)["excluded"]) == {"p1-r2.h5"}


def test_a_single_launch_has_no_intervals():
    one = only_study(small_study() / "p1-r1.h5")
    assert one["serial"] is None and one["points"][0]["time_lo"] is None, one


# ---------------------------------------------------------------- inputs that differ

def changed(path, sizes=None, times=None, **values):
    """Changes the sizes and times of the input files in a result, and values of its operations."""
    with h5py.File(path, "r+") as file:
        files, results = file["input/files"][:], file["results/reduce"][:]
        files["size"] = files["size"] if sizes is None else sizes
        files["modified_ns"] = files["modified_ns"] if times is None else times
        file["input/files"][:] = files
        for op, value in values.items():
            results["exact"][results["op"] == op.encode()] = value
        file["results/reduce"][:] = results
        file.attrs["run_uuid"] = f"{path}"


def with_another_sum():
    """A study, and its launch with another result than the others."""
    folder = new_folder() / "study"
    shutil.copytree(EXAMPLES / "reduce-file-strong", folder)
    changed(folder / "p2-r2.h5", sum="17")
    return folder, folder / "p2-r2.h5"


def test_results_that_agree_are_not_mentioned():
    good = only_study(EXAMPLES / "reduce-file-strong")
    assert good["contradiction"] == "" and good["notes"] == [] and good["excluded"] == [], good


def test_a_launch_with_another_result_does_not_count():
    folder, odd = with_another_sum()
    found = only_study(folder, code=3)
    (excluded,) = found["excluded"]
    assert excluded["file"] == str(odd) and found["points"][1]["launches"] == 2, found
    for text in (excluded["reason"], found["contradiction"]):
        expect_words(text, ["sum", "17", odd, folder / "p1-r1.h5"])


def test_text_and_page_tell_of_another_result():
    folder, odd = with_another_sum()
    expect_words(run("report", folder).expect(3).out, ["FAILED", "Excluded", odd])
    run("report", folder, "-o", folder.parent / "page.html").expect(3)


def test_another_result_of_other_files_has_their_sizes_and_times():
    folder, odd = with_another_sum()
    changed(odd, sizes=4096, times=1_700_000_000_123_456_789)
    expect_words(only_study(folder, code=3)["contradiction"],
                 [4096, "2023-11-14 22:13:20.123456789"])


def test_a_launch_with_another_result_and_more_data_is_readable():
    folder, odd = with_another_sum()
    with h5py.File(odd, "r+") as file:
        reps = file["timing/reps"][:]
        reps["work"] *= 2
        file["timing/reps"][:] = reps
    assert report(folder, code=3)["unreadable"] == []


def test_inputs_that_change_while_values_agree():
    folder = new_folder() / "study"
    shutil.copytree(EXAMPLES / "reduce-file-strong", folder)
    odd = folder / "p2-r2.h5"
    changed(odd, times=1_700_000_000_000_000_000)
    found = only_study(folder)
    (note,) = found["notes"]
    expect_words(note, [odd, "/X", "2023-11-14 22:13:20.000000000"])
    assert found["excluded"] == [] and found["contradiction"] == "", found
    expect_words(run("report", folder).expect(0).out, [note])
    run("report", folder, "-o", folder.parent / "page.html").expect(0)
    assert "2023-11-14" in (folder.parent / "page.html").read_text()


def test_results_of_a_weak_study():
    """In a weak study, launches on equally many ranks must have equal results."""
    folder = new_folder() / "study"
    shutil.copytree(EXAMPLES / "reduce-pinned-weak", folder)
    assert only_study(folder)["contradiction"] == ""
    odd = folder / "p2-r1.h5"
    changed(odd, sum="17")
    (excluded,) = only_study(folder, code=3)["excluded"]
    assert excluded["file"] == str(odd), excluded


def test_runs_without_labels_of_different_inputs():
    """Runs without labels that read different inputs are several studies, and do not contradict
    each other."""
    folder = new_folder()
    for i in (1, 2):
        run("run", "reduce", "--input.data", write_data(folder / f"d{i}.h5", [i] * 9), "-o",
            folder / f"r{i}.h5").expect(0)
    studies = report(folder / "r1.h5", folder / "r2.h5")["studies"]
    assert len(studies) == 2 and not any(each["contradiction"] for each in studies), studies


TF32, BF16 = EXAMPLES / "gemm-tf32-strong", EXAMPLES / "gemm-bf16-strong"


def test_studies_side_by_side_name_what_differs():
    together = report(TF32, BF16, "--together")["together"]
    assert [each["letter"] for each in together["studies"]] == ["A", "B"], together
    assert [each["differs"] for each in together["studies"]] == [
        {"product.precision": "tf32"}, {"product.precision": "bf16"}], together
    assert together["why_no_times"] == "", together
    assert "together" not in report(TF32, BF16)


def test_studies_side_by_side_have_a_column_each():
    found = report(TF32, BF16, "--together")
    told = run("report", TF32, BF16, "--together").expect(0).out
    rows = [re.split(r" {2,}", line.strip()) for line in told.splitlines()]
    for name, key in (("time [s]", "time"), ("speedup", "speedup"), ("efficiency", "efficiency")):
        (shown,) = [row for row in rows if row[:2] == [name, "2"]]
        for cell, each in zip(shown[2:], found["studies"], strict=True):
            assert abs(float(cell.split(" ")[0]) / each["points"][1][key] - 1) < 0.005, shown


def test_times_of_different_work_are_not_compared():
    def halve(file):
        rows = file["timing/reps"][:]
        rows["work"] /= 2
        file["timing/reps"][:] = rows
    whole, half = EXAMPLES / "reduce-file-strong", new_folder()
    for path in whole.glob("*.h5"):
        damaged(path, half / path.name, halve)
    reason = report(whole, half, "--together")["together"]["why_no_times"]
    expect_words(reason, ["8.59", "17.18"])
    told = run("report", whole, half, "--together").expect(0).out
    table, explained, _ = told.partition(reason)
    assert explained and "time [s]" not in table and "speedup" in table, told


def test_inputs_that_cannot_be_compared_side_by_side():
    for words, named in (((TF32, EXAMPLES / "gemm-fp32-weak"), ["strong", "weak"]),
                         ((TF32,), ["1 study"]),
                         ((TF32, BF16 / "p1-r1.h5"), ["one number of ranks", "compare"]),
                         ((TF32, EXAMPLES / "bench.h5"), ["bench.h5"])):
        expect_complaint(run("report", *words, "--together"), 2, ["--together", *named])


def with_a_slow_launch():
    """A study with two launches a size, one of which took three times as long as the other."""
    def slow(file):
        rows = file["timing/reps"][:]
        rows["wall"] *= 3
        file["timing/reps"][:] = rows
    folder = new_folder()
    for path in TF32.glob("p*-r[12].h5"):
        damaged(path, folder / path.name, slow if path.name == "p2-r2.h5" else lambda file: None)
    return folder


def test_the_slower_of_two_launches_is_named():
    lines = [line for line in run("report", with_a_slow_launch()).expect(0).out.splitlines()
             if line.startswith("Outlier:")]
    assert len(lines) == 1 and "p2-r2.h5" in lines[0] and "2 ranks" in lines[0], lines


def test_a_size_whose_launches_scatter_has_a_mark():
    """With --together, too, where a line below the tables explains it."""
    slow = with_a_slow_launch()
    marked = run("report", slow, BF16, "--together", "--short").expect(0).out.splitlines()
    (row,) = [line for line in marked if re.match(r"time \[s\] +2 ", line)]
    assert row.count("] !") == 1, marked
    assert any("!" in line for line in marked[marked.index(row):] if "] !" not in line), marked


def test_chosen_options_tell_studies_apart():
    """A default that an older version does not know is no difference, and neither is another text
    for the same number. Data from a file differ from generated ones."""
    old = new_folder()

    def without_planes(file):
        del file["config"].attrs["product.planes"]
        del file["config/origin"].attrs["product.planes"]
        file["config"].attrs["gemm.m"] = "2^16"
    for path in (EXAMPLES / "gemm-tf32-strong").glob("*.h5"):
        damaged(path, old / path.name, without_planes)
    for other, (a, b) in (("gemm-tf32-strong", ({}, {})),
                          ("gemm-fp64-int8-strong", ("tf32", "fp64-int8"))):
        studies = report(old, EXAMPLES / other, "--together")["together"]["studies"]
        expected = [{"product.precision": each} if each else {} for each in (a, b)]
        assert [each["differs"] for each in studies] == expected, studies
    studies = report(*(EXAMPLES / name for name in ("reduce-file-four", "reduce-resident-four")),
                     "--together")["together"]["studies"]
    assert [each["differs"] for each in studies] == [
        {"input.data": "data.h5:/X"},
        {"input.count": "4294967296", "pipeline.mode": "resident"}], studies


def test_studies_of_the_same_name_side_by_side():
    """Folders keep their studies apart: two versions of the program."""
    folder = new_folder()
    for name in ("old", "new"):
        shutil.copytree(EXAMPLES / "reduce-file-strong", folder / name)
        for path in (folder / name).glob("*.h5"):
            with h5py.File(path, "r+") as file:
                file["provenance"].attrs["git_commit"] = f"commit-of-{name}"
    assert len(report(folder / "old", folder / "new")["studies"]) == 1
    found = report(folder / "old", folder / "new", "--together")
    assert [each["differs"]["commit"] for each in found["together"]["studies"]] == [
        "commit-of-ol", "commit-of-ne"], found["together"]
    assert all(each["excluded"] == [] for each in found["studies"]), found


def test_extra_p_of_two_studies():
    out = new_folder() / "out.jsonl"
    two = [EXAMPLES / "reduce-file-strong", EXAMPLES / "gemm-fp32-weak"]
    expect_complaint(run("report", *two, "--extra-p", out, "--csv", out.parent / "csv"), 2,
                     ["--extra-p", "2 studies"])
    assert list(out.parent.iterdir()) == []
    run("report", two[0], "--extra-p", out).expect(0)
    assert {line.split('"callpath":')[1].split(",")[0] for line in
            out.read_text().splitlines()} == {f'"{only_study(two[0])["name"]}"'}


# ---------------------------------------------------------------- for applications, and to repeat

def test_tables_for_an_application():
    """Markdown and LaTeX have the sizes, and the hours of nodes and GPUs that JSON has."""
    gpus = EXAMPLES / "gemm-tf32-strong"
    found = only_study(gpus)
    hours = sum(run["node_hours"] * run["launches"] for run in found["points"])
    assert hours < found["node_hours"] < 10 * hours, found  # also calibration and timelines
    assert found["points"][1]["gpu_hours"] == 2 * found["points"][1]["node_hours"], found
    markdown = run("report", gpus, "--markdown").expect(0).out
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in markdown.splitlines() if line.startswith("|")]
    assert [len(row) for row in rows] == 4 * [len(rows[0])], markdown
    assert [row[0] for row in rows] == ["ranks", "---:", "1", "2"], markdown
    for row, point in zip(rows[2:], found["points"]):
        named = dict(zip(rows[0], row))
        assert abs(float(named["node-hours"]) / point["node_hours"] - 1) < 0.01, (named, point)
        assert abs(float(named["GPU-hours"]) / point["gpu_hours"] - 1) < 0.01, (named, point)
    latex = run("report", gpus, "--latex").expect(0).out
    assert latex.count("\\\\\n") == 3 and latex.count(" & ") == 3 * (len(rows[0]) - 1), latex
    expect_complaint(run("report", gpus, "--markdown", "--json"), 2, ["--markdown", "--json"])


def test_values_of_figures():
    """Markdown has the value of each bar, and the smallest and largest value of each line, that
    JSON has."""
    file = EXAMPLES / "bench.h5"
    lines = run("report", file, "--markdown").expect(0).out.splitlines()
    cells = {row[0]: row[1:] for row in
             ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line)}
    told = {each["name"]: each for each in
            json.loads(run("report", file, "--json").expect(0).out)["benches"][0]["experiments"]}
    assert set(told) == {name.split(",")[0] for name in cells} - {"---"} - {
        each["group"] for each in told.values()}, cells
    bars = [f"{row['kernel']}: {row['rate']:.4g}" for row in told["bandwidth"]["rows"]]
    assert cells["bandwidth"] == ["rate [GB/s]", "; ".join(bars)], bars
    ends = [f"{told['stride']['rows'][i]['rate']:.4g} at {told['stride']['rows'][i]['stride']}"
            for i in (0, -1)]
    assert cells["stride"] == ["rate [GB/s], over stride [words]", ", ".join(ends)], ends
    latency = [row["latency"] for row in told["latency"]["rows"] if row["memory"] == "device"]
    assert f"device: {min(latency):.4g} at 128 KiB, {max(latency):.4g} at 8 GiB;" in (
        cells["latency"][1]), cells["latency"]
    assert cells["peer"] == ["not available", told["peer"]["message"]], cells["peer"]
    for option in (["--latex"], ["--csv", new_folder()]):
        expect_complaint(run("report", file, *option), 2, ["--latex", "--csv", "--markdown"])


def test_commands_of_a_page_run_as_they_stand():
    folder = new_folder()
    study(folder / "laws", "--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1,
          env={"SLURM_JOB_USER": "me", "NCCL_DEBUG": "WARN", "OMPI_MCA_x_key": "1"})
    page = folder / "page.html"
    run("report", "laws", "-o", page, cwd=folder).expect(0)
    blocks = [html.unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", page.read_text(),
                                                         re.DOTALL)]
    variables, = [text for text in blocks if "NCCL_DEBUG=WARN" in text]
    assert "JOB_USER" not in variables, variables
    programs = folder / "bin"
    programs.mkdir()
    (programs / "shardstream").symlink_to(PROGRAM)
    launches, = [text for text in blocks if "mkdir" in text]
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", launches], cwd=folder, check=False,
                          capture_output=True, text=True, env=environment(
                              {"PATH": f"{programs}:{os.environ['PATH']}",
                               "OMPI_MCA_rmaps_base_oversubscribe": "1"}, ranks=2))
    assert done.returncode == 0, f"{launches}\n{done}"
    assert sorted(path.name for path in (folder / "laws-again").glob("*.h5")) == [
        "p1-r1.h5", "p2-r1.h5"], launches


if __name__ == "__main__":
    main()
