#!/usr/bin/python3
"""`scale -- COMMAND`: studies of programs that are not this one."""

import functools
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import h5py

from harness import (PROGRAM, check_complaints, each, environment, expect_complaint, expect_warning,
                     expect_words, finish, launcher_folder, main, new_folder, run, start,
                     wait_until)
from studies import attempts, bash_script, only_study

# 0.1 s are serial, 0.2 s are shared by the ranks. Rank 0 reports its arguments.
LAW = r"""#!/usr/bin/python3
import os, sys, time
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
time.sleep(0.1 + 0.2 / ranks)
if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
    print("ranks:", ranks)
    print(f"Total time: {1000 * (0.1 + 0.2 / ranks):.3f} ms")
    print("arguments:", sys.argv[1:], os.environ.get("LAW_TAG"))
"""
TIME = r"total=re:Total time:\s+([\d.]+) ms:ms"
NONE = ["--scale.launcher", "none"]
ONE = ["--scale.ranks", 1, "--scale.replicates", 1, *NONE]


def program(folder, text=LAW, name="law"):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def bash(folder, text):
    return program(folder, f"#!/bin/bash\n{text}\n")


def outputs(folder):
    return {path.stem: path.read_text() for path in (folder / "logs").glob("*.out")}


# ---------------------------------------------------------------- a study

WORDS = ["--tag={name}", "a  b", "it's", '"', "", "$HOME", '{"x": 1}', "{{name}}", "{folder}"]


@functools.cache
def known():
    """The folder of a study, and the arguments of `scale` that made it with two replicates, but for
    their number and the command."""
    folder = new_folder()
    options = ["--scale.ranks", "1,2", "--scale.oversubscribe", "--scale.metric", TIME,
               "--scale.expect", r"^ranks: \d+$", "--scale.environment",
               "LAW_TAG='r{replicate} of {ranks}'"]
    command = ["--", program(folder), *WORDS]
    finished = run("scale", *options, "--scale.replicates", 2, "-o", folder / "study", *command)
    words = ["strong scaling of law", "time: total, printed by the program", "Amdahl"]
    expect_words(finished.expect(0).out, words, finished)
    return folder / "study", options, command


def test_a_program_with_a_known_law():
    """Times come from the output; words of the command stay as they are, but for their keys."""
    folder, _, _ = known()
    found = only_study(folder)
    assert found["workload"] == "law" and found["unit"] == "run" and not found["missing"], found
    one, two = found["points"]
    assert (one["launches"], two["launches"]) == (2, 2), found
    assert abs(one["time"] - 0.3) < 1e-9 and abs(two["time"] - 0.2) < 1e-9, found
    assert abs(two["efficiency"] - 0.75) < 1e-9, found
    assert abs(found["serial"] - 1 / 3) < 1e-6, found
    words = ["--tag=p2-r2", *WORDS[1:-2], "{name}", str(folder)]
    said = outputs(folder)["p2-r2-a1"]
    assert f"arguments: {words} r2 of 2" in said, said
    assert not list((folder / "logs").glob("*.ranks")), "records stay"


def test_the_page():
    """It has no parts for GPUs and workloads. The commands of "One launch at each size" make these
    launches, in another folder."""
    folder, _, _ = known()
    page = folder.parent / "page.html"
    run("report", folder, "-o", page).expect(0)
    text = page.read_text()
    expect_words(text, ["time: total, printed by the program"])
    for section in ("oofline", "nergy", "newer versions", "GPU-hours", "measured limit"):
        assert section not in text.split('id="terms"')[0], section
    listed = html.unescape(re.search(r"One launch at each size.*?<pre>(.*?)</pre>",
                                     text, re.DOTALL)[1])
    assert listed.count("--only") == 3, listed
    path = f"{pathlib.Path(PROGRAM).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", listed], capture_output=True, text=True, check=False,
                          env=environment(launcher_folder(), ranks=2) | {"PATH": path})
    assert done.returncode == 0, (listed, done)
    points = only_study(f"{folder}-again")["points"]
    assert [(point["ranks"], point["launches"]) for point in points] == [(1, 1), (2, 1)], points


def test_results_have_the_facts_of_the_processes():
    folder, _, (_, law, *_) = known()
    with h5py.File(folder / "p2-r2.h5") as file:
        ranks, provenance = file["topology/ranks"][:], file["provenance"].attrs
        assert [rank["rank"] for rank in ranks] == [0, 1] and ranks[0]["pid"] != ranks[1]["pid"]
        assert ranks[0]["host"].decode() == os.uname().nodename and ranks[0]["cpus"], ranks
        assert provenance["program"] == str(law), provenance["program"]
        assert provenance["program_bytes"] == law.stat().st_size
        assert len(provenance["program_checksum"]) == 16 and provenance["operating_system"]
        metrics = {row["metric"]: row["value"].decode() for row in file["metrics"][:]}
        assert metrics[b"total"] == "200.000" and metrics[b"verified"] == "true", metrics
        assert float(metrics[b"wall"]) > 0.2, metrics
        assert "law" in file.attrs["argv"] and file["results"].attrs["verified"] == 1


def copied_study():
    folder, options, command = known()
    copy = shutil.copytree(folder, new_folder() / "study")
    return copy, ["scale", *options, "-o", copy, "--scale.replicates"], command


def test_a_study_continues():
    """The same command makes nothing, also as study.ini; more replicates are added, by the commands
    of --list; another command is another study."""
    folder, options, command = copied_study()
    for same in ([*options, 2, *command], ["scale", folder / "study.ini", "-o", folder]):
        run(*same).expect(0)
    assert len(attempts(folder)) == 5, attempts(folder)
    listed = run(*options, 3, "--list", *command).expect(0).out
    names = re.findall(r"^# (\S+): \d rank", listed, re.MULTILINE)
    assert sorted(names) == ["p1-r3", "p2-r3"], listed
    done = subprocess.run(["bash", "-e", "-c", listed], capture_output=True, text=True, check=False,
                          env=environment(launcher_folder(), ranks=2))
    assert done.returncode == 0, done
    assert [point["launches"] for point in only_study(folder)["points"]] == [3, 3]
    expect_complaint(run(*options, 3, *command[:-1]), 2, ["scale.command", folder])
    expect_complaint(run(*options, 3, "--scale.metric", "wall", *command), 2, ["scale.metric"])
    slow = shutil.copytree(folder, folder.parent / "slow")
    for path in slow.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            file.attrs["run_uuid"] = path.name
            file["timing/reps"][...] = [(*row[:1], 2 * row[1], *row[2:])
                                        for row in file["timing/reps"][()].tolist()]
    run("compare", folder, slow).expect(5)


def test_points_with_different_metrics_are_not_compared():
    folder, _, _ = known()
    other = shutil.copytree(folder, new_folder() / "wall")
    for path in other.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            file.attrs["run_uuid"] = path.name
            if not path.name.startswith("p1"):
                file["config"].attrs["scale.metric"] = "wall"
                file["config"].attrs["study.name"] = "wall"
    compared = json.loads(run("compare", "--json", folder, other).expect(4).out)  # few launches
    assert [point["ranks"] for point in compared["points"]] == [1], compared
    old, new = compared["unmatched"]
    assert (old["side"], new["side"]) == ("OLD", "NEW"), compared
    expect_words(new["reason"], ["scale.metric", "Total time"])
    for path in other.glob("p1-*.h5"):
        path.unlink()
    expect_complaint(run("compare", folder, other), 2, ["scale.metric", "'wall'"])


def test_a_program_that_has_changed():
    folder, options, command = copied_study()
    law, before = command[1], command[1].stat()
    with h5py.File(folder / "p1-r2.h5", "r+") as file:
        file["provenance"].attrs["program_checksum"] = "0" * 16
    (excluded,) = only_study(folder)["excluded"]
    expect_words(str(excluded), ["p1-r2.h5", "checksum of the program", "0" * 16])
    try:
        law.write_text(LAW + "# changed\n")
        expect_complaint(run(*options, 3, *command), 2, [law, f"{len(LAW)} bytes", folder])
    finally:
        law.write_text(LAW)
        os.utime(law, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_the_wall_time_of_a_weak_study_without_a_launcher():
    """One process for each launch, whose environment is that of the user. The time is that of the
    program, without the start of the launcher."""
    folder = new_folder()
    sleeps = bash(folder, 'env | grep -c "^OPENBLAS_NUM_THREADS=\\|^SHARDSTREAM_"\n'
                          'grep SigIgn /proc/self/status; sleep 0.3; echo $1')
    finished = run("scale", "--scale.ranks", "1,2", "--scale.mode", "weak", "--scale.replicates",
                   1, *NONE, "-o", folder / "study", "--", sleeps, "{ranks}").expect(0)
    found = only_study(folder / "study")
    one, two = found["points"]
    assert found["mode"] == "weak" and (one["work"], two["work"]) == (1, 2), found
    assert 0.3 <= one["time"] < 1 and 0.3 <= two["time"] < 1, found
    assert 0.5 < two["efficiency"] < 2, found
    wall = "time: wall time of the program"
    expect_words(finished.out, [wall, "only in part or not at all"], finished)  # no scale.expect
    page = run("report", folder / "study", "-o", folder / "page.html").expect(0)
    expect_words((folder / "page.html").read_text(), [wall], page)
    for name, text in outputs(folder / "study").items():
        count, ignored, ranks = text.splitlines()
        assert count == "0" and int(ignored.split()[1], 16) == 0, (name, text)
        assert ranks == ("1" if name.startswith("p1") else "2"), (name, text)


# ---------------------------------------------------------------- launches that fail

def failing(text, words, *options, code=1):
    folder = new_folder()
    finished = run("scale", *ONE, *options, "-o", folder / "study", "--", bash(folder, text),
                   timeout=60).expect(code)
    expect_words(finished.err, words, finished)
    assert not list((folder / "study").glob("*.h5")), list((folder / "study").iterdir())
    assert not list((folder / "study/logs").glob("*.ranks"))
    return attempts(folder / "study")


def test_launches_that_do_not_count():
    metric = ["--scale.metric", r"t=re:time ([^ ]+)"]
    each([("echo tome 1; echo end", ["scale.metric", "2 lines", "'end'", "calibration-a1.out"],
           *metric),
          ("true", ["scale.metric", "empty"], *metric),
          ("echo time 1; echo; echo time 2", ["scale.metric", "lines 1 and 3", "time 2"], *metric),
          ("echo time 1 time 2", ["scale.metric", "lines 1 and 1"], *metric),
          ("echo time 1,5", ["scale.metric", "'1,5'", "number"], *metric),
          ("echo time nan", ["scale.metric", "'nan'"], *metric),
          ("echo time -1", ["scale.metric", "'-1'", "above zero"], *metric),
          ("echo off by 3", ["scale.expect", "'converged'"], "--scale.expect", "converged"),
          ("echo bad input; exit 3", ["exit code 3", "bad input"]),
          ("echo from error >&2; exit 3", ["exit code 3", "from error"]),
          ("kill -SEGV $$", ["exit code 139"])], failing)
    tried = failing("echo usage; exit 2", ["exit code 2", "usage"], code=2)
    assert len(tried) == 1, tried  # another attempt would fail, too


def test_the_message_of_a_program_under_a_launcher():
    """It is quoted instead of the launcher's paragraph on the exit code, but with that on a
    signal."""
    dashes = "echo; echo " + 40 * "-"

    def abort(text, words, hidden):
        folder = new_folder()
        launcher = bash_script(folder, f"({text}) >&2; exit 3")
        finished = run("scale", "--scale.ranks", 1, "--scale.launcher", f"{launcher}", "-o",
                       folder / "study", "--", "true").expect(1)
        expect_words(finished.err, words, finished)
        assert hidden not in finished.err, finished
    each([(f"echo bad mesh; echo warning: x; echo '[a:12] x'; {dashes}; echo all aborted; {dashes}",
           ["exit code 3: bad mesh"], "aborted"),
          (f"echo '[a:12] x'; {dashes}; echo all aborted; {dashes}; echo end",
           ["exit code 3: all aborted"], "end"),
          (f"echo '[a:1 2] x'; {dashes}; echo signal 9; {dashes}",
           ["exit code 3: [a:1 2] x; signal 9"], "---")], abort)
    folder = new_folder()
    finished = run("scale", "--scale.ranks", 2, "--scale.oversubscribe", "-o", folder / "study",
                   "--", bash(folder, "echo bad mesh >&2; sleep 0.2; exit 3")).expect(1)
    expect_words(finished.err, ["exit code 3: bad mesh"], finished)


def test_launchers_that_start_other_processes():
    folder = new_folder()
    law = program(folder)
    twice = bash_script(folder, '"$@" & first=$!; "$@"; code=$?; wait $first || exit; exit $code')
    for launcher, words in ((twice, ["have the rank 0"]), (f"{twice} true", ["rank 0 of 1"])):
        finished = run("scale", "--scale.ranks", 1, "--scale.launcher", launcher, "-o",
                       folder / "study", "--", law).expect(1)
        expect_words(finished.err, words, finished)


def test_programs_that_do_not_end():
    """A program that ignores SIGTERM is killed. One that ends with exit code 0 after a signal has
    not done its work."""
    ignores = 'trap "" TERM; echo begun; while true; do sleep 0.1; done'
    tried = failing(ignores, ["1 s", "--scale.timeout", "SIGKILL"], "--scale.timeout", "1s")
    assert [one["timed_out"] for one in tried] == [True, True], tried
    folder = new_folder()
    polite = bash(folder, 'trap "exit 0" TERM; echo $$ >begun; while true; do sleep 0.1; done')
    process = start("scale", *ONE, "-o", folder / "study", "--", polite, cwd=folder)
    wait_until((folder / "begun").exists, process)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    finish(process, 60).expect(75)
    (one,) = attempts(folder / "study")
    assert one["interrupted"] and not list((folder / "study").glob("*.h5")), one
    assert not pathlib.Path(f"/proc/{(folder / 'begun').read_text().strip()}").exists()


# ---------------------------------------------------------------- bad input

def test_bad_input():
    folder = new_folder()
    law = program(folder)
    (folder / "plain").write_text("no program")
    study = ["scale", "--scale.ranks", 1, "-o", folder / "none"]
    check_complaints([
        ([*study, "--"], 2, ["--"]),
        ([*study, "--", law, "{foo}"], 2, ["scale.command", "{foo}", "{replicate}", "{folder}"]),
        ([*study, "--", "no-such-program"], 2, ["scale.command", "no-such-program"]),
        ([*study, "--", folder / "plain"], 2, ["scale.command", "chmod +x", folder / "plain"]),
        ([*study, "--", folder], 2, ["scale.command", "folder", folder]),
        ([*study, "--", f"{law} 3"], 2, ["scale.command", "quotes", law]),
        *(([*study[:3], *words], 2, ["-- ", law]) for words in (
            [law], [law, 256], [law, "--n", 256], ["--scale.oversubscribe", "true", law])),
        ([*study, folder / "x.ini"], 2, [folder / "x.ini", "INI"]),
        ([*study, "--scale.command", "'a"], 2, ["scale.command", "'a"]),
        ([*study, "model", "--", law], 2, ["model", law]),
        ([*study, "--model.work", "1s", "--", law], 2, ["--model.work"]),
        ([*study, "--scale.grow", "m", "--", law], 2, ["scale.grow"]),
        ([*study, "--scale.cache", "cold", "--", law], 2, ["scale.cache"]),
        ([*study, "--scale.environment", "A", "--", law], 2, ["scale.environment", "A"]),
        ([*study, "--scale.environment", "A={b}", "--", law], 2, ["scale.environment", "{b}"]),
        ([*study, "--scale.metric", "t", "--", law], 2, ["scale.metric", "'t'"]),
        ([*study, "--scale.metric", "t=re:x", "--", law], 2, ["scale.metric", "0 groups"]),
        ([*study, "--scale.metric", "t=re:(x", "--", law], 2, ["scale.metric", "(x"]),
        ([*study, "--scale.expect", "[", "--", law], 2, ["scale.expect", "["]),
        ([*study, "--rates", "x.h5", "--list", "--", law], 2, ["--rates"]),
        ([*study, "model", "--scale.expect", "x"], 2, ["scale.expect"]),
        (["exec", "--records"], 2, ["--"]),
        (["exec", "--record", "x", "--", law], 2, ["--record"]),
        (["exec", "--", "no-such-program"], 2, ["no-such-program", os.uname().nodename]),
    ], ranks=(1,))
    assert not (folder / "none").exists()
    # Programs of the current folder
    expect_complaint(run(*study, "--", "law", cwd=folder), 2, ["scale.command", "./law", "PATH"])
    expect_complaint(run(*study, "law", cwd=folder), 2, ["'law'", "-- ./law"])
    # Words that are likely to be programs, but are values
    run("scale", "--scale.oversubscribe", "true", "model", "-o", "./true", *study[1:3], "--list",
        cwd=folder).expect(0)
    # Options after -- are those of the program.
    helped = subprocess.run([PROGRAM, "exec", "--set", "LAW_TAG=1", "--", law, "--help", "--list"],
                            capture_output=True, text=True, check=True, env=environment())
    assert "['--help', '--list'] 1" in helped.stdout, helped
    listed = run(*study, "--list", "--", law, "--scale.seed=2", "--scale.replicates", 2)
    expect_warning(listed.expect(0), ["--scale.seed ", "--"])


if __name__ == "__main__":
    main()
