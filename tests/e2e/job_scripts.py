#!/usr/bin/python3
"""The job scripts when commands of Slurm fail, which stubs do here: no job is submitted twice, and
a job keeps its exit code. `slurm/jobs.py` submits jobs to a real Slurm."""

import os
import pathlib
import subprocess

from harness import PROGRAM, expect_words, main, new_folder

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"


def call(command, **stubs):
    """Runs the command in a new folder, with `stubs` {name: text of a script} first on PATH."""
    folder = new_folder()
    stub = folder / "stub"
    stub.mkdir()
    (stub / "shardstream").symlink_to(PROGRAM)
    for name, text in stubs.items():
        (stub / name).write_text(f"#!/bin/bash\n{text}\n")
        (stub / name).chmod(0o755)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{stub}:{os.environ['PATH']}"})
    return folder, done


def submit(squeue):
    """The exit code of submit-study, its messages and the number of jobs."""
    sbatch = '[[ " $* " == *" --test-only "* ]] && exit; echo job >>"$PWD/jobs"; echo 7'
    folder, done = call(
        [JOBS / "submit-study", "model", "--model.work", "10ms", "--scale.oversubscribe",
         "--scale.replicates", "1", "--ranks", "1,2", "-o", "s/"],
        sbatch=sbatch, squeue=squeue, scancel="")
    jobs = folder / "jobs"
    return done, len(jobs.read_text().splitlines()) if jobs.exists() else 0, folder


def test_a_queue_that_does_not_answer():
    """An answer of squeue that fails is no empty queue."""
    done, jobs, _ = submit("exit 0")
    assert done.returncode == 0 and jobs == 6, done  # with the calibration and the report
    for squeue in ("echo 'slurm_load_jobs error: Socket timed out' >&2; exit 1",
                   'echo "5 p1-r1 $PWD"; exit 1'):
        done, jobs, folder = submit(squeue)
        assert done.returncode == 2 and jobs == 0, done
        expect_words(done.stderr, ["squeue"])
        assert not (folder / "s").exists(), done
    done, jobs, _ = submit('echo "5 p1-r1 $PWD"; echo "6 p2-r1 /elsewhere"')
    assert done.returncode == 0 and jobs == 5, done
    expect_words(done.stdout, ["job 5: p1-r1"])


def test_a_study_of_a_program():
    """The options of the jobs come before the command, whose words are its own."""
    folder, done = call(
        [JOBS / "submit-study", "--scale.oversubscribe", "--scale.replicates=1", "--ranks", "1,2",
         "-o", "s/", "--", "sleep", "--list", "0"],
        sbatch='[[ " $* " == *" --test-only "* ]] || echo "$@" >>"$PWD/jobs"; echo 7',
        squeue="", scancel="")
    assert done.returncode == 0, done
    jobs = (folder / "jobs").read_text().splitlines()
    assert [job.split(" -o s/ ")[1] for job in jobs] == [
        f"{last} -- sleep --list 0" for last in ("--only calibration", "--only p1-r1",
                                                 "--only p2-r1", "--report")], jobs


def test_the_job_of_a_study_of_a_program():
    study = f"{JOBS}/study.sbatch --scale.launcher none --scale.replicates 1 --scale.ranks 1 -o s/"
    script = ("export SLURM_JOB_ID=5 SLURM_JOB_NUM_NODES=1 SLURM_JOB_NODELIST=here; "
              f"{study} -- echo --report; {study} --report -- echo --report")
    folder, done = call(["bash", "-euo", "pipefail", "-c", script],
                        scontrol=f"echo ' Command={JOBS}/study.sbatch'")
    assert done.returncode == 0, done
    assert done.stdout.count("strong scaling of echo, 1 launch") == 2, done
    assert (folder / "s/logs/p1-r1-a1.out").read_text() == "--report\n", done


def test_a_job_keeps_its_exit_code():
    """Whether Slurm requeues it or not."""
    def end(code, scontrol):
        _, done = call(["bash", "-euo", "pipefail", "-c", f'. {JOBS}/job.sh; end_job {code}'],
                       scontrol=f"echo scontrol $1 >>calls; {scontrol}")
        return done
    show = "[[ $1 == show ]] && echo ' JobState=RUNNING Reason=None'"
    os.environ["SLURM_JOB_ID"] = "5"
    for code in (0, 1, 2):
        assert end(code, "exit 1").returncode == code
    assert end(75, f"{show}; exit 0").returncode == 75
    for scontrol in ("exit 1", f"{show} || exit 1"):  # it fails always, or only to requeue
        done = end(75, scontrol)
        assert done.returncode == 75, done
        expect_words(done.stderr, ["submit it again"])


main(always=True)
