#!/usr/bin/python3
"""jobs/product.sbatch as Slurm would start it, with an srun and an scontrol of this test's own."""

import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import h5py  # noqa: E402  pylint: disable=wrong-import-position

from checkpoints import finished_groups  # noqa: E402
from harness import (LAUNCHER, PROGRAM, environment, expect_gone, expect_words,  # noqa: E402
                     finish, main, new_folder, ranks_below, wait_until)
from products import ON_HOST, least_memory, skip_without_blas  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "product.sbatch"
SIZES = ["--gemm.m", "2900", "--gemm.n", "4600", "--gemm.k", "3000"]  # of e2e/resume.py
CHECKPOINTED = 75


class Cluster:
    """A folder with a shardstream, an srun and an scontrol that notes what it is told."""

    def __init__(self):
        self.folder = new_folder()
        self.log = self.folder / "scontrol.log"
        (self.folder / "shardstream").symlink_to(PROGRAM)
        # What it says of the job, mpirun would take for a real Slurm's.
        self.script("srun", 'while [ "${1#--}" != "$1" ]; do shift; done\n'
                            f'exec env -u SLURM_JOB_ID {" ".join(LAUNCHER)} -q -n "$SLURM_NTASKS" '
                            '"$@"\n')
        self.script("scontrol", f'echo "$@" >>{self.log}\n')

    def script(self, name, text):
        (self.folder / name).write_text("#!/bin/sh\n" + text)
        (self.folder / name).chmod(0o755)

    def start(self, *arguments, **changes):
        variables = {**ON_HOST, "PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "47",
                     "SLURM_NTASKS": "2", **changes}
        # A copy, as Slurm makes one.
        copy = self.folder / "slurm_script"
        copy.write_text(SCRIPT.read_text())
        return subprocess.Popen(["bash", str(copy), *map(str, arguments)], text=True,
                                env=environment(variables, ranks=2), cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def requeued(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


def interrupted(cluster, arguments, **changes):
    """Ended as at the time limit, once something is finished."""
    process = cluster.start(*arguments, **changes)
    wait_until(lambda: 1 in finished_groups(cluster.folder, ranks=2), process)
    pids = list(ranks_below(process).values())
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    finished = finish(process).expect(CHECKPOINTED)
    expect_gone(pids)
    expect_words(finished.err, ["SIGTERM", "-o c.h5"], finished)
    return finished


def test_a_job_that_reaches_its_time_limit_goes_on():
    cluster = Cluster()
    memory = least_memory("gemm", SIZES, 2, ON_HOST)
    arguments = ["gemm", *SIZES, "--pipeline.gpu-memory", f"{memory}B", "-o", "c.h5"]
    interrupted(cluster, arguments)
    assert cluster.requeued() == ["requeue 47"], cluster.requeued()
    finished = finish(cluster.start(*arguments, SLURM_RESTART_COUNT="1")).expect(0)
    assert cluster.requeued() == ["requeue 47"], finished
    assert int(finished.values["resumed_tiles"]) >= 4, finished
    with h5py.File(cluster.folder / "c.h5") as file:
        assert file.attrs["restart_count"] == 1, finished
        assert file["config"].attrs["launch.expect-ranks"] in (2, "2"), finished


def test_a_job_gives_up():
    cluster = Cluster()
    memory = least_memory("gemm", SIZES, 2, ON_HOST)
    arguments = ["gemm", *SIZES, "--pipeline.gpu-memory", f"{memory}B", "-o", "c.h5"]
    finished = interrupted(cluster, arguments, MOST_RESTARTS="3", SLURM_RESTART_COUNT="3")
    expect_words(finished.err, ["restart 3"], finished)
    assert not cluster.requeued(), finished
    assert len(list(cluster.folder.glob(".c.h5.*.checkpoint"))) == 2, finished


def test_errors_are_not_requeued():
    cluster = Cluster()
    for arguments, changes, words in (
            (["gemm", "--gemm.k", 0], {}, ["--gemm.k", 0]),
            (["gemm", "--gemm.m", 9, "-o", "none/c.h5"], {}, ["output.file", "none"]),
            ([], {}, ["sbatch", "gemm"]), (["gemm"], {"SLURM_JOB_ID": None}, ["Slurm"])):
        finished = finish(cluster.start(*arguments, **changes)).expect(2)
        expect_words(finished.err, words, finished)
        assert not cluster.requeued(), finished
    (cluster.folder / "shardstream").unlink()
    finished = finish(cluster.start("gemm", SLURM_SUBMIT_DIR="/none")).expect(2)
    expect_words(finished.err, ["/none/build/shardstream"], finished)


skip_without_blas()
main()
