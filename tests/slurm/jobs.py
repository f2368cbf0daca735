#!/usr/bin/python3
"""The job scripts under a real Slurm of two virtual nodes: a run, a study in one allocation, a study
of one job for each launch, and a product that is requeued and resumes."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import h5py  # noqa: E402  pylint: disable=wrong-import-position

from checkpoints import finished_groups  # noqa: E402
from cluster import Cluster, skip_without_slurm  # noqa: E402
from harness import expect_words, main, run  # noqa: E402
from products import ON_HOST, least_memory, skip_without_blas  # noqa: E402

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
NO_GPU = ["--gpus-per-node=0", "--cpus-per-task=1"]
MODEL = ["model", "--model.work", "200ms", "--model.serial", "0.1", "--model.spin", "sleep",
         "--measure.repeat", "2"]
SIZES = ["--gemm.m", "2900", "--gemm.n", "4600", "--gemm.k", "3000"]  # of e2e/resume.py


def expect_study(folder, ranks, launches):
    """A report of the folder has these sizes, and nothing went wrong."""
    report = json.loads(run("report", "--json", folder).expect(0).out)
    study, = report["studies"]
    assert [point["ranks"] for point in study["points"]] == ranks, study
    assert {point["launches"] for point in study["points"]} == {launches}, study
    assert not study["excluded"] and not study["failed"], study


def test_a_run_on_two_nodes(cluster):
    job = cluster.submit("--nodes=2", "--ntasks-per-node=2", *NO_GPU, JOBS / "run.sbatch", "reduce",
                         "--input.count", "2^20", "-o", "sum.h5")
    ended = cluster.finish(job)
    assert ended["ExitCode"] == "0:0", ended
    expect_words(ended["log"], ["verified=true", "2 nodes", "4 tasks"], ended["log"])
    with h5py.File(cluster.work / "sum.h5") as file:
        assert list(file["topology/ranks"]["local_rank"]) == [0, 1, 0, 1], ended
        assert file["config"].attrs["launch.expect-ranks"] == "4", ended


def test_a_study_in_one_allocation(cluster):
    arguments = ["--nodes=2", "--ntasks-per-node=2", *NO_GPU, JOBS / "study.sbatch", *MODEL,
                 "--scale.replicates", "2", "-o", "laws"]
    too_large = cluster.finish(cluster.submit(*arguments, "--scale.ranks", "1,8"))
    assert too_large["ExitCode"] == "2:0", too_large
    expect_words(too_large["log"], ["scale.ranks", "8", "4", "--nodes"])
    assert not (cluster.work / "laws").exists(), too_large
    ended = cluster.finish(cluster.submit(*arguments, "--scale.ranks", "1,2,4"))
    assert ended["ExitCode"] == "0:0", ended
    expect_words(ended["log"], ["Amdahl", "strong scaling of model"], ended["log"])
    expect_study(cluster.work / "laws", [1, 2, 4], 2)


def test_a_warning_requeues_a_study(cluster):
    job = cluster.submit("--nodes=1", "--ntasks-per-node=2", *NO_GPU, JOBS / "study.sbatch", *MODEL,
                         "--scale.ranks", "1,2", "--scale.replicates", "2", "-o", "warned")
    folder = cluster.work / "warned"
    cluster.wait_for(lambda: list(folder.glob("p*.h5")), "the first launch")
    cluster.call("scancel", "--batch", "--signal=USR1", job)
    ended = cluster.finish(job)
    assert (ended["ExitCode"], ended["Restarts"]) == ("0:0", "1"), ended
    expect_words(ended["log"], ["interrupted", "Amdahl"], ended["log"])
    expect_study(folder, [1, 2], 2)


def test_a_study_of_many_jobs(cluster):
    variables = {"SITE_RANKS_PER_NODE": "2", "SITE_GPUS_PER_NODE": "0", "SITE_CPUS_PER_RANK": "1"}
    cluster.environment.update(variables)
    said = cluster.call(JOBS / "submit-study", *MODEL, "--ranks", "1,2,4", "--scale.replicates",
                        "2", "-o", "many")
    jobs = [line.split()[1].rstrip(":") for line in said.splitlines()]
    assert len(jobs) == 1 + 3 * 2 + 1, said
    ended = cluster.finish(jobs[-1])
    assert ended["ExitCode"] == "0:0", ended
    text = (cluster.work / "many-report.txt").read_text()
    expect_words(text, ["strong scaling of model", "6 launches", "Amdahl"], text)
    expect_study(cluster.work / "many", [1, 2, 4], 2)


def test_a_product_resumes_after_its_requeue(cluster):
    skip_without_blas()
    memory = least_memory("gemm", SIZES, 2, ON_HOST)
    job = cluster.submit("--nodes=1", "--ntasks-per-node=2", *NO_GPU, JOBS / "product.sbatch",
                         "gemm", *SIZES, "--pipeline.gpu-memory", f"{memory}B", "-o", "c.h5")
    cluster.wait_for(lambda: 1 in finished_groups(cluster.work, ranks=2), "a super-tile")
    cluster.call("scancel", "--signal=TERM", job)
    ended = cluster.finish(job)
    assert (ended["ExitCode"], ended["Restarts"]) == ("0:0", "1"), ended
    expect_words(ended["log"], ["SIGTERM", "verified=true"], ended["log"])
    with h5py.File(cluster.work / "c.h5") as file:
        assert file.attrs["restart_count"] == 1 and file.attrs["status"] == "complete", ended


def test_mistakes_are_named(cluster):
    for arguments, words in (([], ["--help"]), (["reduce", "--xyzzy"], ["--xyzzy"])):
        ended = cluster.finish(cluster.submit("--nodes=1", "--ntasks-per-node=1", *NO_GPU,
                                              JOBS / "run.sbatch", *arguments))
        assert ended["ExitCode"] == "2:0", ended
        expect_words(ended["log"], words)


skip_without_slurm()
with Cluster() as the_cluster:
    main(the_cluster)
