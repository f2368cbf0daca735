#!/usr/bin/python3
"""The job scripts under a real Slurm of two virtual nodes: a run, a study in one allocation, a
study with a job for each launch, and a product that is requeued and resumes."""

import pathlib
import re
import shlex
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import h5py  # noqa: E402  pylint: disable=wrong-import-position

from checkpoints import finished_groups  # noqa: E402
from cluster import Cluster, find, skip_without_slurm  # noqa: E402
from harness import expect_words, main, run, skip_part  # noqa: E402
from products import ON_HOST, min_memory, why_no_products  # noqa: E402
from studies import attempts, only_study  # noqa: E402

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
NO_GPU = ["--gpus-per-node=0", "--cpus-per-task=1"]
ONE_NODE = ["--nodes=1", "--ntasks-per-node=2", *NO_GPU]
TWO_NODES = ["--nodes=2", "--ntasks-per-node=2", *NO_GPU]
MODEL = ["model", "--model.work", "100ms", "--model.serial", "0.1", "--model.spin", "sleep",
         "--measure.repeat", "2"]
# Many super-tiles, which take some seconds in all.
SIZES = ["--gemm.m", "2900", "--gemm.n", "4600", "--gemm.k", "12000"]


def ends(cluster, job, code=0, words=()):
    """Checks that the job ends with this exit code and that its output has `words`. Returns its
    state."""
    ended = cluster.finish(job)
    assert ended["ExitCode"] == f"{code}:0", (ended, ended["log"])
    expect_words(ended["log"], words)
    return ended


def expect_study(folder, ranks, launches):
    """Checks that a report of the folder has these sizes and launches, and reports no problem."""
    study = only_study(folder)
    assert [point["ranks"] for point in study["points"]] == ranks, study
    assert {point["launches"] for point in study["points"]} == {launches}, study
    assert not study["excluded"] and not study["failed"], study


def skips_products():
    why = why_no_products()
    if why:
        skip_part(why)
    return why


def test_shown_commands(cluster):
    """The commands of jobs/README.md, with small inputs. Studies, which are large, only with
    --list."""
    text = (JOBS / "README.md").read_text()
    runs = re.findall(r"^(sbatch .*?run.sbatch .*? -o \S+) +#", text, re.MULTILINE)
    studies = re.findall(r"^(?:sbatch .*study.sbatch|jobs/submit-study) (.*?) +#", text,
                         re.MULTILINE)
    assert len(runs) == 2 and len(studies) == 2, text
    folder = cluster.work / "shown"
    folder.mkdir()
    for name in ("inputs", "jobs"):
        (folder / name).symlink_to(JOBS.parent / name)
    for words in (["--input.count", 9, "-o", "sea.h5:/elevation"],
                  ["--input.shape", "9x9", "-o", "a.h5:/A"],
                  ["--input.shape", "9x9", "-o", "b.h5:/B"]):
        run("generate", *words, cwd=folder).expect(0)
    if skips_products():
        runs = [line for line in runs if "gemm" not in line]
    for line in runs:
        ends(cluster, cluster.submit(*shlex.split(line)[1:], cwd=folder), words=["verified=true"])
    for line in studies:
        words = shlex.split(line.replace("--ranks", "--scale.ranks"))
        expect_words(run("scale", *words, "--list", cwd=folder).expect(0).out, ["calibration: 8"]
                     if "weak" in line else ["calibration: 16"])


def test_a_study_from_a_to_z(cluster):
    """The commands of that section of jobs/README.md, one after another, with a small product."""
    if skips_products():
        return
    text = (JOBS / "README.md").read_text().split("from A to Z")[1].split("## More")[0]
    text = text.replace("\\\n", "")
    lines = [line for block in re.findall(r"^```(?:console|sh)\n(.*?)^```", text,
                                          re.MULTILINE | re.DOTALL)
             for line in re.sub(r"^cat .*?^END$", "", block, flags=re.MULTILINE | re.DOTALL
                                ).splitlines() if line]
    assert len(lines) == 10, lines
    folder = cluster.work / "a-to-z"
    folder.mkdir(parents=True)
    (folder / "jobs").symlink_to(JOBS)
    ini = re.search(r"^cat >my-gemm.ini <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL)[1]
    for pattern, small in (("65536", "256"), ("1,2,4,8", "1,8"), ("cuda", "host")):
        assert pattern in ini, ini
        ini = ini.replace(pattern, small)
    (folder / "my-gemm.ini").write_text(ini + "replicates = 1\ntimeline = false\n")
    for line in lines:
        words = shlex.split(line.replace("32768", "256").replace("cuda", "host"))
        if words[0] == "sbatch":
            ends(cluster, cluster.submit("--cpus-per-task=1", *words[1:], cwd=folder))
        else:
            copied = words[1] == "compare"  # a copy of the same runs, which is rejected
            if copied:
                shutil.copytree(folder / "gemm-strong", folder / "gemm-strong-before")
            finished = run(*words[1:], cwd=folder).expect(2 if copied else 0)
            assert not copied or "gemm-strong-before/p" in finished.err, finished
    expect_study(folder / "gemm-strong", [1, 8], 1)
    assert (folder / "gemm-strong.html").exists()


def test_benches(cluster):
    for words in (["info", "--measure"], ["bench", "all", "--quick", "-o", "node.h5"]):
        log = ends(cluster, cluster.submit(*ONE_NODE, JOBS / "bench.sbatch", *words))["log"]
        expect_words(log, ["tasks 2"])
    assert (cluster.work / "node.h5").exists()


def test_a_run_on_two_nodes(cluster):
    """Also SITE_MODULES, GPUs that the job requests, and a folder with a space."""
    cluster.environment["BASH_FUNC_module%%"] = '() { echo "module was called: $*"; }'
    folder = cluster.work / "a folder"
    folder.mkdir()
    job = cluster.submit("--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2",
                         "--cpus-per-task=2", JOBS / "run.sbatch", "reduce", "--input.count",
                         "2^20", "-o", folder / "sum.h5", SITE_MODULES="openmpi hdf5")
    ends(cluster, job, words=["verified=true", "nodes 2", "tasks 4", "CPUs of a task 2",
                              "GPUs of a node 2", "module was called: load openmpi hdf5"])
    with h5py.File(folder / "sum.h5") as file:
        assert list(file["topology/ranks"]["local_rank"]) == [0, 1, 0, 1]
        assert int(file["config"].attrs["launch.expect-ranks"]) == 4


def test_a_run_under_mpirun(cluster):
    job = cluster.submit(*TWO_NODES, JOBS / "run.sbatch", "reduce", "--input.count", "2^20",
                         "-o", "mpirun.h5", SITE_LAUNCHER="mpirun -q --bind-to none")
    ends(cluster, job, words=["verified=true"])
    with h5py.File(cluster.work / "mpirun.h5") as file:
        assert list(file["topology/ranks"]["local_rank"]) == [0, 1, 0, 1]


def test_a_study_in_one_allocation(cluster):
    """The nodes have GPUs, which every step gets."""
    arguments = ["--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1",
                 JOBS / "study.sbatch", *MODEL, "--scale.replicates", "2", "-o", "laws"]
    ends(cluster, cluster.submit(*arguments, "--scale.ranks", "1,8"), 2,
         ["scale.ranks", "8", "4", "--nodes"])
    assert not (cluster.work / "laws").exists()
    ends(cluster, cluster.submit(*arguments, "--scale.ranks", "1,2,4"),
         words=["Amdahl", "strong scaling of model"])
    expect_study(cluster.work / "laws", [1, 2, 4], 2)
    with h5py.File(cluster.work / "laws" / "p4-r1.h5") as file:
        assert list(file["topology/ranks"]["local_rank"]) == [0, 1, 0, 1]


def test_a_warning_requeues_a_study(cluster):
    """The next start runs the missing points, and its runs count. A cancelled job stays
    cancelled: its launch is interrupted, has not failed, and is not tried again."""
    job = cluster.submit(*ONE_NODE, JOBS / "study.sbatch", *MODEL, "--scale.ranks", "1,2",
                         "--scale.replicates", "2", "-o", "warned")
    folder = cluster.work / "warned"
    cluster.wait_for(lambda: list(folder.glob("p*.h5")), "the first launch")
    cluster.call("scancel", "--batch", "--signal=USR1", job)
    canceled = cluster.submit(*ONE_NODE, JOBS / "study.sbatch", *MODEL, "--model.work", "80s",
                              "--scale.ranks", "1,2", "-o", "canceled")
    cluster.wait_for(lambda: f"{canceled}.0" in cluster.call("squeue", "-h", "-s", "-o", "%i"),
                     "the step of the other study")
    cluster.call("scancel", canceled)
    ended = ends(cluster, job, words=["interrupted", "Amdahl"])
    assert ended["Restarts"] == "1", ended
    expect_study(folder, [1, 2], 2)
    assert len(attempts(folder)) == 7, attempts(folder)
    ended = cluster.finish(canceled)
    assert (ended["JobState"], ended["Restarts"]) == ("CANCELLED", "0"), ended
    attempt, = attempts(cluster.work / "canceled")
    assert attempt["job"] == canceled and attempt["interrupted"], attempt


def test_a_study_of_many_jobs(cluster):
    """If a job is lost, the report names its launch, and the same command submits it again."""
    def submit(*words, ranks="1,2,4", code=0, **variables):
        said = cluster.call(JOBS / "submit-study", *MODEL, "--ranks", ranks, "--scale.replicates",
                            "2", "-o", "many", *words, code=code, SITE_RANKS_PER_NODE="2",
                            SITE_GPUS_PER_NODE="0", SITE_CPUS_PER_RANK="1", **variables)
        lines = [line.replace(":", "").replace(",", "").split() for line in said.splitlines()]
        return {words[2]: words[1] for words in lines if words[0] == "job"}, said
    with cluster.starting_no_jobs():
        jobs, said = submit()
        cluster.call("scancel", jobs["p2-r2"])
    launches = {f"p{ranks}-{name}" for ranks in (1, 2, 4) for name in ("r1", "r2", "timeline")}
    assert set(jobs) == {"calibration", *launches, "the"}, said
    assert {name[-1] for name in list(jobs)[1:4]} == {"1"}, said  # replicate by replicate
    expect_words(said, ["p1-r1 on 1 rank\n", "p2-r1 on 2 ranks\n"])
    assert cluster.state(jobs["p1-r1"])["OverSubscribe"] == "NO", said
    text = ends(cluster, jobs["the"], 1)["log"]
    expect_words(text, ["missing: p2-r2", "strong scaling of model"])
    assert "p2-r1" not in text, text
    assert pathlib.Path(cluster.state(jobs["the"])["StdOut"]) == cluster.work / "many-report.txt"
    jobs, said = submit("--at-most", "2")
    assert set(jobs) == {"p2-r2", "the"}, said
    text = ends(cluster, jobs["the"])["log"]
    expect_words(text, ["strong scaling of model", "6 launches", "Amdahl"])
    assert "missing" not in text, text
    expect_study(cluster.work / "many", [1, 2, 4], 2)
    logs = cluster.work / "many" / "logs"
    assert len(list(logs.glob("slurm-*.out"))) == 10, list(logs.iterdir())
    jobs, said = submit()
    assert not jobs and "shardstream report many" in said, said


def test_what_submit_study_submits(cluster):
    """Nothing if a job would be rejected; all or nothing otherwise; and a limited number at a
    time."""
    def submit(*words, code=0, **variables):
        return cluster.call(JOBS / "submit-study", *MODEL, "--scale.replicates", "2", "-o", "few",
                            *words, code=code, SITE_RANKS_PER_NODE="2", SITE_GPUS_PER_NODE="0",
                            SITE_CPUS_PER_RANK="1", **variables)
    expect_words(submit("--ranks", "1,64", code=2), ["64 rank"])
    expect_words(submit("--ranks", "1", "--at-most", "x", code=2), ["--at-most", "x"])
    assert not (cluster.work / "few").exists()
    shy = cluster.folder / "shy"  # its sbatch rejects the fourth job
    shy.mkdir()
    (shy / "sbatch").write_text(f"""#!/bin/bash
if [[ $* == *--parsable* ]]; then
  echo >>{shy}/submitted
  if (($(wc -l <{shy}/submitted) > 3)); then exit 1; fi
fi
exec {find("sbatch")} "$@"
""")
    (shy / "sbatch").chmod(0o755)
    said = submit("--ranks", "1,2", code=1, PATH=f"{shy}:{cluster.environment['PATH']}")
    jobs = re.search(r"canceled ((?:\d+ ?)+)$", said, re.MULTILINE)[1].split()
    assert len(jobs) == 3, said
    assert {cluster.finish(job)["JobState"] for job in jobs} <= {"CANCELLED", "COMPLETED"}
    shutil.rmtree(cluster.work / "few")
    with cluster.starting_no_jobs():
        said = submit("--ranks", "1,2", "--at-most", "2", "--scale.timeline", "false")
        first, *launches, last = re.findall(r"^job (\d+):", said, re.MULTILINE)
        assert len(launches) == 4, said
        again = submit("--ranks", "1,2", "--at-most", "2", "--scale.timeline", "false")
        assert f"job {launches[-1]}:" in again and "the report" not in again, again
        waits = [cluster.state(job)["Dependency"] for job in launches]
        assert [first in each for each in waits] == 4 * [True], waits
        assert all(launches[i] in waits[i + 2] for i in range(2)), (launches, waits)
    names = {cluster.state(job)["JobName"] for job in (first, *launches, last)}
    assert names == {"shardstream-few"}, names
    ends(cluster, last, words=["strong scaling of model", "4 launches"])


def test_a_study_without_calibration_is_only_a_report(cluster):
    """All other jobs wait for the calibration run; none of them stays in the queue if it fails."""
    said = cluster.call(JOBS / "submit-study", *MODEL, "--ranks", "1,2", "--scale.replicates", "1",
                        "-o", "none", "--scale.launcher", "false {ranks}", SITE_RANKS_PER_NODE="2",
                        SITE_GPUS_PER_NODE="0", SITE_CPUS_PER_RANK="1",
                        SITE_OPTIONS="--oversubscribe --comment=mine")
    jobs = [line.split()[1].rstrip(":") for line in said.splitlines()]
    ends(cluster, jobs[-1], 2, ["calibration, has failed: exit code 1", "p1-r1", "p2-r1"])
    calibration = cluster.state(jobs[0])
    assert calibration["ExitCode"] == "1:0" and calibration["Comment"] == "mine", calibration
    assert calibration["OverSubscribe"] != "NO", calibration
    assert {cluster.state(job)["JobState"] for job in jobs[1:-1]} == {"CANCELLED"}


def interrupt_product(cluster, folder, **variables):
    """Submits a product with its result in `folder`, and sends SIGTERM to its ranks after its first
    super-tiles. Returns its job."""
    memory = min_memory("gemm", SIZES, 2, ON_HOST)
    job = cluster.submit(*ONE_NODE, JOBS / "product.sbatch", "gemm", *SIZES,
                         "--pipeline.gpu-memory", f"{memory}B", "-o", folder / "c.h5", **variables)
    cluster.terminate_ranks(job, 2, lambda: 1 in finished_groups(folder, ranks=2), "a super-tile")
    return job


def test_a_product_resumes_after_its_requeue(cluster):
    if skips_products():
        return
    folder = cluster.work / "resumed"
    folder.mkdir()
    ended = ends(cluster, interrupt_product(cluster, folder), words=["SIGTERM", "verified=true"])
    assert ended["Restarts"] == "1", ended
    with h5py.File(folder / "c.h5") as file:
        assert file.attrs["restart_count"] == 1 and file.attrs["status"] == "complete"


def test_a_product_gives_up(cluster):
    if skips_products():
        return
    folder = cluster.work / "up"
    folder.mkdir()
    job = interrupt_product(cluster, folder, MAX_RESTARTS="0")
    ended = ends(cluster, job, 75, ["SIGTERM", "restart 0"])
    assert ended["Restarts"] == "0", ended
    assert len(list(folder.glob(".c.h5.*.checkpoint"))) == 2, list(folder.iterdir())


def test_mistakes(cluster):
    """They end a job with code 2, and it is not requeued."""
    cases = [("run", ["reduce", "--xyzzy", "1"], {}, ["--xyzzy"]),
             ("product", ["gemm", "--gemm.k", "0"], {}, ["--gemm.k", 0]),
             ("product", [], {}, ["--help"]),
             ("bench", ["reduce"], {}, ["reduce", "bench"]),
             ("study", [*MODEL], {}, ["scale.ranks"]),
             ("study", [*MODEL, "--scale.ranks", "1", "--only", "p1-r1", "-o", "early"], {},
              ["--only", "calibration"]),
             ("study", [*MODEL, "--scale.ranks", "1", "--only", "p3-r1"], {}, ["--only", "p3-r1"]),
             ("run", ["reduce"], {"SITE_MODULES": "xyzzy", "BASH_FUNC_module%%": "() { false; }"},
              ["xyzzy"])]
    jobs = [(cluster.submit("--nodes=1", "--ntasks-per-node=1", *NO_GPU, JOBS / f"{name}.sbatch",
                            *arguments, **variables), words)
            for name, arguments, variables, words in cases]
    for job, words in jobs:
        assert ends(cluster, job, 2, words)["Restarts"] == "0"
    for name in ("run", "product", "study", "bench"):
        expect_words(cluster.call(JOBS / f"{name}.sbatch", "gemm", code=2), ["sbatch"])
    no_program = {"PATH": "/usr/bin:/bin"}
    job = cluster.submit(*ONE_NODE, JOBS / "run.sbatch", "reduce", "--input.count", 9, **no_program)
    if not (JOBS.parent / "build" / "shardstream").exists():
        ends(cluster, job, 2, [JOBS.parent / "build" / "shardstream"])


skip_without_slurm()
main(fixture=Cluster)
