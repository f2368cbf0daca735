#!/usr/bin/python3
"""`scale`: a study in parts, its extension and its timelines, and launchers that fail."""

import csv
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess

import h5py

from harness import (HANGS, PROGRAM, check_complaints, each, environment, expect_complaint,
                     expect_words, finish, main, new_folder, run, start, wait_until)
from studies import (MPIRUN, QUICK, attempts, bash_script, expect_total, only_study, script,
                     study)

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"


# ---------------------------------------------------------------- one study, launched in parts

def test_a_study_resumes_with_its_missing_launches():
    """--list prints the commands. Only missing and unverified results are launched again, reports
    leave out the calibration run, and other options are another study."""
    folder = new_folder() / "study"
    options = ["--model.work", "50ms", "--scale.ranks", "1,2", "--scale.replicates", 2]
    listed = run("scale", "model", *QUICK, *options, "--list", "-o", folder).expect(0).out
    commands = [line for line in listed.splitlines() if line.startswith("mpirun -np ")]
    assert len(commands) == 5 and not folder.exists(), listed
    expect_total(listed, 5)
    expect_words(commands[0], ["--launch.expect-ranks=2", "--study.point=calibration"])
    study(folder, *options)
    assert [each["exit_code"] for each in attempts(folder)] == [0] * 5, attempts(folder)
    assert attempts(folder)[0]["point"] == "calibration"
    shutil.rmtree(folder / "logs")
    kept = folder / "p1-r1.h5"
    before = kept.stat().st_mtime_ns
    (folder / "p2-r1.h5").unlink()
    with h5py.File(folder / "p2-r2.h5", "r+") as file:
        file.attrs["status"] = "unverified"
    study(folder, *options)
    assert sorted(each["result"] for each in attempts(folder)[5:]) == ["p2-r1.h5", "p2-r2.h5"]
    assert kept.stat().st_mtime_ns == before
    finished = run("scale", "model", *QUICK, *options[:-1], 1, "-o", folder)
    expect_complaint(finished, 2, [folder, "scale.replicates", 1, 2])


def test_a_study_is_extended():
    """Existing launches count in a study with more replicates and sizes. The largest size cannot
    change, nor can the smallest one of a weak study."""
    for mode in ("strong", "weak"):
        folder = new_folder() / "study"

        def options(ranks, replicates, mode=mode):
            return ["--model.work", "20ms", "--scale.mode", mode, "--scale.ranks", ranks,
                    "--scale.replicates", replicates]
        study(folder, *options("1,3", 1))
        before = {path: path.stat().st_mtime_ns for path in folder.glob("*.h5")}
        for ranks, replicates in (("1,3,4", 2), ("3", 2), ("1,2", 2)):
            finished = run("scale", "model", *QUICK, *options(ranks, replicates), "-o", folder)
            expect_complaint(finished, 2, [folder, "scale.ranks", ranks])
        listed = run("scale", "model", *QUICK, *options("1,2,3", 2), "--list", "-o", folder)
        assert set(re.findall(r"^# (\S+): \d rank", listed.expect(0).out, re.MULTILINE)) == {
            "p1-r2", "p2-r1", "p2-r2", "p3-r2"}, listed
        study(folder, *options("1,2,3", 2))
        assert len(attempts(folder)) == 3 + 4, attempts(folder)
        assert before == {path: path.stat().st_mtime_ns for path in before}
        found = only_study(folder)
        assert [(each["ranks"], each["launches"]) for each in found["points"]] == [
            (1, 2), (2, 2), (3, 2)] and not found["missing"] and not found["excluded"], found
        if mode == "weak":
            smaller = run("scale", "model", *QUICK, *options("2,3", 2), "-o", folder)
            expect_complaint(smaller, 2, [folder, "scale.ranks"])


def test_ready_studies():
    """The studies of inputs/ run, here with small data."""
    small = {"gemm": ["--gemm.m", 256, "--gemm.n", 192, "--gemm.k", 128],
             "reduce": ["--input.count", 200000]}
    inputs = pathlib.Path(__file__).resolve().parents[2] / "inputs"
    ready = [path for path in inputs.glob("*.ini") if "[scale]" in path.read_text()]
    assert len(ready) == 4, ready
    for path in ready:
        run("scale", path, "--list", "-o", new_folder() / "none").expect(0)
        workload = re.search(r"workload = (\w+)", path.read_text())[1]
        folder = new_folder() / "study"
        study(folder, *small[workload], "--scale.ranks", "1,2", "--scale.replicates", 1,
              "--scale.oversubscribe", "--scale.timeline", "false", workload=path,
              quick=["--measure.repeat", 3, "--device.backend", "auto"])
        found = only_study(folder)
        assert found["mode"] == path.name.split("-")[0] and found["workload"] == workload, found
        one, two = found["points"]
        assert two["work"] == one["work"] * (2 if found["mode"] == "weak" else 1), found
        if workload == "gemm":  # all points plan with the calibration's rates
            with h5py.File(folder / "p1-r1.h5") as file:
                assert file["config"].attrs["measure.rates"] == str(folder / "calibration.h5")


WITH_TIMELINES = QUICK[:-2]
TWO_SIZES = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1]


@functools.cache
def launched_with_timelines():
    folder = new_folder() / "study"
    study(folder, *TWO_SIZES, quick=WITH_TIMELINES)
    return folder


def test_timelines_are_the_last_launches():
    folder = new_folder() / "study"
    listed = run("scale", "model", *WITH_TIMELINES, *TWO_SIZES, "--list", "-o", folder).expect(0)
    names = re.findall(r"^# (\S+): \d rank", listed.out, re.MULTILINE)
    assert names[0] == "calibration" and names[-2:] == ["p1-timeline", "p2-timeline"], listed
    made = launched_with_timelines()
    assert [each["point"] for each in attempts(made)[-2:]] == ["timeline", "timeline"]


def test_a_timeline_can_be_launched_alone():
    folder = new_folder() / "study"
    for only in ("calibration", "p2-timeline"):
        study(folder, *TWO_SIZES, quick=[*WITH_TIMELINES, "--only", only])
    assert sorted(path.name for path in folder.glob("p*")) == ["p2-timeline.h5",
                                                               "p2-timeline.trace.json"]
    expect_complaint(run("report", folder / "p2-timeline.h5"), 2, [folder / "p2-timeline.h5"])


def test_a_timeline_is_one_repetition_after_a_warm_up():
    with h5py.File(launched_with_timelines() / "p2-timeline.h5") as file:
        assert len(file["timing/reps"]) == 1 and len(file["timeline/spans"]) > 0
        assert int(file["config"].attrs["measure.warmup"]) == 1


def test_timelines_count_in_no_table():
    folder, out = launched_with_timelines(), new_folder()
    found = only_study(folder)
    assert [point["launches"] for point in found["points"]] == [1, 1], found
    assert {pathlib.Path(path).name for path in found["timelines"]} == {
        "p2-timeline.h5", "p1-timeline.h5"}, found
    assert found["missing"] == found["failed"] == found["excluded"] == [], found
    run("report", folder, "--csv", out / "csv").expect(0)
    (path,) = (out / "csv").iterdir()
    assert len(list(csv.DictReader(path.open()))) == 2 * 3


def test_one_launch_of_each_size_has_no_intervals():
    found = only_study(launched_with_timelines())
    ends = [point[f"{value}_{end}"] for point in found["points"]
            for value in ("time", "speedup", "efficiency") for end in ("lo", "hi")]
    assert set(ends) == {None}, found
    rows = run("report", launched_with_timelines()).expect(0).out.splitlines()[3:5]
    assert all("[" not in row for row in rows), rows


def test_a_lost_timeline_is_launched_again():
    """Also if its trace is there. No report misses it."""
    folder = shutil.copytree(launched_with_timelines(), new_folder() / "study")
    before = len(attempts(folder))
    (folder / "p1-timeline.h5").unlink()
    assert only_study(folder)["missing"] == []
    study(folder, *TWO_SIZES, quick=WITH_TIMELINES)
    assert [each["result"] for each in attempts(folder)[before:]] == ["p1-timeline.h5"]


def test_no_timeline_is_launched_if_all_launches_keep_their_spans():
    all_spans = [*WITH_TIMELINES, "--measure.timeline", "-o", new_folder() / "all"]
    listed = run("scale", "model", *all_spans, *TWO_SIZES, "--list").expect(0).out
    assert "timeline:" not in listed and "p2-r1:" in listed, listed
    assert listed.count("--measure.timeline=true") == 2, listed


def test_a_timeline_that_fails():
    """A timeline that fails is tried twice and reported, and the exit code is 1."""
    folder = new_folder()
    fails = f'[[ $* == *study.point=timeline* ]] && exit 9; {MPIRUN}'
    finished = run("scale", "model", *QUICK[:-2], "--model.work", "20ms", "--scale.ranks", "1",
                   "--scale.replicates", 1, "--scale.launcher", script(folder, fails),
                   "-o", folder / "study").expect(1)
    expect_words(finished.err, ["p1-timeline", "exit code 9"], finished)
    expect_words(finished.out, ["Failed: p1-timeline"], finished)
    found = only_study(folder / "study")
    assert found["points"][0]["launches"] == 1 and len(found["failed"]) == 2, found


# ---------------------------------------------------------------- launchers that misbehave

def test_launchers():
    def check(text, code, words, *options):
        folder = new_folder()
        finished = run("scale", "model", *QUICK, "--model.work", "20ms", "--scale.ranks", "1,2",
                       "--scale.replicates", 1, "--scale.launcher", script(folder, text),
                       *options, "-o", folder / "study", timeout=120)
        finished.expect(code)
        expect_words(finished.err, words, finished)
        return finished, folder / "study"

    banner = f'echo "Welcome = to error"; echo banner >&2; {MPIRUN}'
    finished, folder = check(banner, 0, ["2/2"])
    assert "banner" not in finished.out + finished.err, finished
    check("exit 0", 1, ["2", "calibration.h5"])
    check("exit 7", 1, ["exit code 7"])
    check("sleep 600 & sleep 600", 1, ["--scale.timeout"], "--scale.timeout", "1s")
    # The run rejects its options: it is not retried, and its own message stands.
    finished, folder = check(f'ranks=1; {MPIRUN}', 2, ["--launch.expect-ranks", "on 2 ranks"])
    assert [each["exit_code"] for each in attempts(folder)] == [2], attempts(folder)
    assert "--scale.ranks" not in finished.err, finished
    # A point that fails twice is reported, and the others stay.
    finished, folder = check(f'[[ $ranks == 1 ]] && exit 9; {MPIRUN}', 1, ["exit code 9"])
    assert [each["exit_code"] for each in attempts(folder)].count(9) == 2, attempts(folder)
    assert [point["ranks"] for point in only_study(folder)["points"]] == [2]
    expect_words(finished.out, ["No law is fitted"])
    # A point that fails once is tried again.

    mark = new_folder() / "mark"
    once = f'if [[ $ranks == 1 && ! -e {mark} ]]; then touch {mark}; exit 9; fi; {MPIRUN}'
    check(once, 0, ["exit code 9"])


def test_a_complete_result_counts():
    """A launch counts if its result is complete, even if the launcher then returns an error or
    Ctrl-C ends it."""
    options = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 1]
    folder = new_folder()
    fails = f'{MPIRUN}; [[ $ranks == 1 ]] && exit 9; exit 0'
    finished = study(folder / "study", *options, "--scale.launcher", script(folder, fails))
    expect_words(finished.err, ["p1-r1", "exit code 9"], finished)
    told = {each["result"]: each for each in attempts(folder / "study")}
    assert len(told) == 3 and told["p1-r1.h5"]["exit_code"] == 9, told
    assert not any(each["problem"] for each in told.values()), told
    assert only_study(folder / "study")["failed"] == [], told

    folder = new_folder()
    hangs = f'{MPIRUN}; [[ $ranks == 1 ]] && sleep 600; exit 0'
    again = ["scale", "model", *QUICK, *options, "--scale.launcher", script(folder, hangs),
             "-o", folder / "study"]
    process = start(*again)
    wait_until((folder / "study/p1-r1.h5").exists, process)
    process.send_signal(signal.SIGINT)
    ended = finish(process, 60)
    left = {"p1-r1", "p2-r1"} - {path.stem for path in (folder / "study").glob("p*.h5")}
    ended.expect(75 if left else 0)
    cut, = [each for each in attempts(folder / "study") if each["result"] == "p1-r1.h5"]
    assert cut["interrupted"] and cut["exit_code"] != 0 and not cut["problem"], cut
    listed = run(*again, "--list").expect(0).out
    assert set(re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)) == left, listed


def test_more_ranks_than_there_are():
    folder = new_folder() / "study"
    ranks = 4 * os.cpu_count()
    finished = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder,
                   env={"OMPI_MCA_rmaps_base_oversubscribe": None})
    assert finished.code == 1 and not list(folder.glob("*.h5")), finished
    listed = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder, "--list",
                 env={"OMPI_MCA_rmaps_base_oversubscribe": None}).expect(0).out
    expect_words(listed, ["warning: scale.ranks", f"{ranks} ranks on this host",
                          "--scale.oversubscribe"])
    for options, env in ((["--scale.oversubscribe"], None), ([], "1"),
                         (["--scale.launcher", "x {ranks}"], None)):
        listed = run("scale", "model", "--scale.ranks", f"1,{ranks}", "-o", folder.with_name("x"),
                     *options, "--list", env={"OMPI_MCA_rmaps_base_oversubscribe": env}).expect(0)
        assert "warning" not in listed.out, listed
    expect_words(finished.err, [ranks, "slots", "--scale.ranks", "--scale.oversubscribe"], finished)
    assert [each["attempt"] for each in attempts(folder)] == [1], attempts(folder)
    assert finished.err.count("slots available") == 1, finished
    # Nothing was measured, so the folder takes other options.
    study(folder, "--model.work", "20ms", "--scale.ranks", 1, "--scale.replicates", 1)
    assert only_study(folder)["failed"] == [] and len(attempts(folder)) == 2, attempts(folder)


def test_a_slurm_job_that_is_lost():
    """The message names SLURM_JOB_ID if its job has ended or Slurm cannot be reached."""
    folder = new_folder()
    srun = folder / "srun"
    srun.write_text("#!/bin/sh\necho 'srun: error: Unable to confirm allocation for job 47: Unable "
                    "to contact slurm controller (connect failure)' >&2\nexit 1\n")
    srun.chmod(0o755)
    lost = {"SLURM_JOB_ID": "47", "SLURM_CPUS_ON_NODE": "-3",
            "PATH": f"{folder}:{os.environ['PATH']}"}
    options = ["scale", "model", *QUICK, "--scale.ranks", 1, "-o", folder / "study"]
    finished = run(*options, env=lost).expect(1)
    expect_words(finished.err, ["SLURM_JOB_ID", 47, "unset", "--scale.launcher"], finished)
    assert len(attempts(folder / "study")) == 1, finished
    assert "--cpus-per-task=1 " in run(*options, "--list", env=lost).expect(0).out


def test_a_slurm_job_that_ends():
    """A launch that fails since its job ends is interrupted: Slurm rejects its step, or scontrol,
    which may get the signal of scancel itself, reports the state of the job."""
    expired = ("Slurm job 47 has expired' "
               "'Check SLURM_JOB_ID environment variable. Expired or invalid job 47")
    late = "Unable to create step for job 47: Job/step already completing or completed"
    none = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
    killed = "[[ -e $0-again ]] || { touch $0-again; kill -TERM $$; }; echo JobState=CANCELLED"

    def check(said, scontrol, code, count):
        folder = new_folder()
        for name, text in (("srun", f"printf 'srun: error: %s\\n' '{said}' >&2; exit 1"),
                           ("scontrol", scontrol)):
            bash_script(folder, text).rename(folder / name)
        finished = run("scale", "model", *QUICK, "--scale.ranks", 1, "-o", folder / "study",
                       env={"SLURM_JOB_ID": "47", "SLURM_CPUS_ON_NODE": "3",
                            "PATH": f"{folder}:{os.environ['PATH']}"}).expect(code)
        made = attempts(folder / "study")
        assert [one["interrupted"] for one in made] == [code == 75] * count, made
        assert code == 1 or "47" in made[0]["problem"], made
        expect_words(finished.err, ["calibration"], finished)
    each([(expired, none, 75, 1), (late, none, 75, 1), ("Task failed", killed, 75, 1),
          ("Slurm job 4711 has expired", "echo JobState=RUNNING", 1, 2)], check)


def test_one_launch_alone():
    """--only makes one launch, as the jobs of submit-study do."""
    folder = new_folder() / "study"
    options = ["--model.work", "20ms", "--scale.ranks", "1,2", "--scale.replicates", 2]
    early = run("scale", "model", *QUICK, *options, "-o", folder, "--only", "p2-r1")
    expect_complaint(early, 2, [folder, "--only calibration"])
    assert not folder.exists()
    unknown = run("scale", "model", *QUICK, *options, "-o", folder, "--only", "p3-r1")
    expect_complaint(unknown, 2, ["--only", "p3-r1", "--list"])
    study(folder, *options, "--only", "calibration")
    finished = run("scale", "model", *QUICK, *options[:-1], 1, "--list", "-o", folder)
    expect_complaint(finished, 2, [folder, "scale.replicates", 1, 2])
    study(folder, *options, "--only", "p2-r1")
    assert [path.name for path in sorted(folder.glob("*.h5"))] == ["calibration.h5", "p2-r1.h5"]
    listed = run("scale", "model", *QUICK, *options, "--list", "-o", folder).expect(0).out
    assert set(re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)) == {
        "p1-r1", "p1-r2", "p2-r2"}, listed
    assert only_study(folder)["missing"] == ["p1-r1", "p1-r2", "p2-r2"]
    # Without a launcher: a login node may have none.
    empty = new_folder()
    assert run("scale", "model", *QUICK, *options, "--list", "-o", empty / "x",
               env={"PATH": str(empty), "OMPI_ALLOW_RUN_AS_ROOT": None}).expect(0).out
    # In a Slurm job that is too small.
    finished = run("scale", "model", *options, "-o", empty / "x",
                   env={"SLURM_JOB_ID": "47", "SLURM_NTASKS": "1"})
    expect_complaint(finished, 2, ["scale.ranks", 2, "1 task:", "--nodes"])
    listed = run("scale", "model", *options, "--list", "-o", empty / "x",
                 env={"SLURM_JOB_ID": "47", "SLURM_NTASKS": "1"}).expect(0).out
    expect_words(listed, ["warning: scale.ranks", "1 task:"])
    assert not list(empty.iterdir())


def test_bad_input():
    empty = new_folder()
    check_complaints([
        (["scale", "model"], 2, ["scale.ranks"]),
        (["scale", "model", "--scale.ranks", 1, "-o", "{out}/laws.h5"], 2,
         ["output.file", "laws.h5'", "folder"]),
        (["scale", "model", "--scale.ranks", 1, "--list", "-o", "{out}/laws.csv/"], 2,
         ["output.file", "laws.csv'", "folder"]),
        (["scale", "none", "--scale.ranks", 1], 2, ["none"]),
        (["scale", "model", "--scale.ranks", "0"], 2, ["scale.ranks", 0]),
        (["scale", "model", "--scale.ranks", "2,2"], 2, ["scale.ranks", 2]),
        (["scale", "model", "--scale.ranks", "2,x"], 2, ["scale.ranks", "x"]),
        (["scale", "model", "--scale.ranks", "1-4"], 2, ["scale.ranks", "1-4", "1,2,3,4"]),
        (["scale", "model", "--scale.ranks", 1, "--list", "-o", __file__], 2,
         ["output.file", __file__, "file"]),
        (["scale", "model", "--scale.ranks", 1, "-o", __file__], 2,
         ["output.file", __file__, "file"]),
        (["scale", "model", "--scale.ranks", 1, "--scale.launcher", "mpirun {rank}"], 2,
         ["scale.launcher", "rank"]),
        (["scale", "model", "--scale.ranks", 1, "--scale.launcher", "no-such {ranks}"], 2,
         ["scale.launcher", "no-such"]),
        (["scale", "gemm", "--scale.ranks", 1, "--gemm.m", 9, "--scale.grow", "p"], 2,
         ["scale.grow", "p"]),
        (["scale", "reduce", "--scale.ranks", 1, "--input.data", empty / "none.h5"], 2,
         [empty / "none.h5"]),
        (["scale", "model", "--scale.ranks", 1, "--reduce.ops", "sum"], 2, ["--reduce.ops"]),
    ], ranks=(1,))
    for words in (["--predict", 2], ["--predict", "x"], ["--predict", "0.1,"]):
        expect_complaint(run("scale", *words, "--scale.ranks", 1), 2, ["--predict", words[1]])
    predict = ["scale", "--predict", "0.1", "--scale.ranks", 1]
    for words in (["--output.file", "x"], ["--list"], ["--only", "p1-r1"], ["--rates", "x.h5"]):
        expect_complaint(run(*predict, *words), 2, ["--predict", words[0]])
    expect_complaint(run("scale", "--predict", "1,100%", "--scale.ranks", 1), 2, ["1", "twice"])
    expect_complaint(run("report"), 2, ["report"])
    expect_complaint(run("report", empty), 2, [empty])
    expect_complaint(run("report", empty / "none.h5"), 2, [empty / "none.h5"])
    expect_complaint(run("report", "--json", "x.json", empty), 2, ["--json", "x.json"])
    source = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/gemm-tf32-strong"
    expect_complaint(run("report", "--csv", "/dev/null", source), 2, ["--csv", "/dev/null"])
    other = new_folder()
    run("generate", "--input.count", 9, "-o", f"{other / 'sea.h5'}:/x").expect(0)
    for options, words in (([], ["output.file", other]), (["--list"], ["output.file", other]),
                           (["--only", "p1-r1"], ["p1-r1"])):
        expect_complaint(run("scale", "model", "--scale.ranks", 1, *options, "-o", other), 2, words)
    assert [path.name for path in other.iterdir()] == ["sea.h5"]
    # Started by a launcher itself.
    finished = run("scale", "model", "--scale.ranks", 1, "-o", empty / "x", ranks=2)
    assert finished.code == 2 and "OMPI_COMM_WORLD_SIZE" in finished.err, finished
    assert list(empty.iterdir()) == []
    root = {"OMPI_ALLOW_RUN_AS_ROOT": None}
    if os.geteuid() == 0:
        finished = run("scale", "model", "--scale.ranks", 1, "-o", empty / "x", env=root)
        expect_complaint(finished, 2, ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"])


def test_studies_of_a_host():
    """jobs/host-studies makes the named parts and a page, continues, and rejects what it does not
    know. The options of all its studies are valid."""
    def studies(*arguments):
        return subprocess.run(
            [JOBS / "host-studies", "--program", PROGRAM, *arguments],
            env=environment({"CUDA_VISIBLE_DEVICES": ""}, ranks=2), capture_output=True, text=True,
            timeout=HANGS, check=False)

    folder = new_folder()
    names = ("reduce-columns-file-strong", "gemm-fp32-weak")
    sizes = ["--divide", "4096", "--ranks", "1,2"]
    options = ["--scale.replicates", "1", "--scale.timeline", "false", "--scale.oversubscribe",
               "true", "--measure.repeat", "2"]
    for calibrations, parts in (2, [*names, "feeds"]), (0, names):
        done = studies(*sizes, "--only", ",".join(parts), folder, *options)
        assert done.returncode == 0, done
        logs = [path for name in names for path in (folder / name / "logs").iterdir()]
        assert len(logs) == 2 * 3, logs
        assert done.stderr.count("calibrating on 2 ranks") == calibrations, done.stderr
    page = (folder / "studies.html").read_text()
    assert all(name in page for name in (*names, "file-feed")), page
    for bad, named in ((["--only", "gemm"], "gemm"), (["--divide", "0"], "--divide"),
                       (["--divided", "2"], "--divided"),
                       (["--ranks", "2,x", "--only", "reduce-pinned-weak"], "'x'")):
        rejected = studies(*bad, folder)
        assert rejected.returncode == 1 and named in rejected.stderr, rejected
    parts = re.search(r"^all=\((.*?)\)", (JOBS / "host-studies").read_text(), re.M | re.S)[1]
    every = [name for name in parts.split() if name.endswith(("-weak", "-strong"))]
    listed = studies(*sizes, "--only", ",".join(every), new_folder(), "--list",
                     "--scale.oversubscribe", "true")
    assert listed.returncode == 0 and all(f"{name}/" in listed.stdout for name in every), listed


if __name__ == "__main__":
    main()
