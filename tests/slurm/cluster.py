"""A private Slurm of two virtual nodes on this machine: its own munge key, ports and folder. Nothing
of the machine is changed, and all daemons end with the test."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

from harness import PROGRAM, HANGS, environment, new_folder, skip_all

DAEMONS = ("munged", "slurmctld", "slurmd")
CPUS = 4  # of each node: virtual ones, so that four ranks fit on any machine

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
ReturnToService=2
KillWait=5
MinJobAge=3600
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1_port} CPUs={cpus}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2_port} CPUs={cpus}
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE OverSubscribe=NO
"""


def skip_without_slurm():
    missing = [each for each in (*DAEMONS, "sbatch") if find(each) is None]
    if missing:
        skip_all(f"no {', '.join(missing)} here: jobs/install-dependencies --tests installs Slurm")
    if os.geteuid() != 0:
        skip_all("a private Slurm starts jobs as root only")


def find(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Cluster:
    """Jobs of the repository's scripts. `with Cluster() as cluster:`"""

    def __init__(self):
        self.folder = new_folder()
        self.daemons = []
        # The nodes share one /dev/shm, in which Open MPI's transport would mix them up.
        variables = {"SLURM_CONF": str(self.folder / "slurm.conf"), "OMPI_MCA_btl": "self,tcp",
                     "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        self.environment = environment(variables, ranks=2)
        self.work = self.folder / "work"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        for name in ("bin", "state", "work", "tmp-n1", "tmp-n2", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        (self.folder / "bin" / "shardstream").symlink_to(PROGRAM)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        ctld_port, n1_port, n2_port = free_ports(3)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=socket.gethostname().split(".")[0], cpus=CPUS,
            ctld_port=ctld_port, n1_port=n1_port, n2_port=n2_port))
        version = re.search(r"(\d+)\.(\d+)", self.call(find("slurmd"), "-V", cwd="/"))
        if (int(version[1]), int(version[2])) >= (23, 11):  # older ones need none for linuxproc
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        files = [f"--{name}={self.folder}/munge.{suffix}" for name, suffix in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"),
                  ("log-file", "log"), ("seed-file", "seed"))]
        self.daemon("munged", "--foreground", "--force", *files)
        self.wait_for((self.folder / "munge.socket").exists, "munged")
        self.daemon("slurmctld", "-D", "-i")
        for node in ("n1", "n2"):
            self.daemon("slurmd", "-D", "-N", node)
        self.wait_for(lambda: self.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 2,
                      "the nodes")

    def daemon(self, program, *arguments):
        # It dies with the test, however that ends.
        words = ["setpriv", "--pdeathsig", "TERM", find(program), *arguments]
        with open(self.folder / "daemons.log", "ab") as log:
            self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=log,
                                                 stderr=log, stdin=subprocess.DEVNULL))

    def stop(self):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self.call("scancel", "--quiet", *self.call("squeue", "-h", "-o", "%i").split())
            self.wait_for(lambda: not self.call("squeue", "-h"), "the end of jobs", seconds=10)
        for each in reversed(self.daemons):
            each.send_signal(signal.SIGTERM)
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def wait_for(self, condition, what, seconds=HANGS):
        end = time.monotonic() + seconds
        while not condition():
            dead = [each.args[3] for each in self.daemons if each.poll() is not None]
            if dead or time.monotonic() > end:
                logs = [path.read_text(errors="replace")[-2000:]
                        for path in sorted(self.folder.glob("*.log"))]
                raise AssertionError(f"{what}: not there; ended: {dead}\n" + "\n".join(logs))
            time.sleep(0.1)

    def call(self, *words, cwd=None):
        """The output of one of Slurm's commands, or of a script that calls them."""
        done = subprocess.run([str(word) for word in words], env=self.environment,
                              cwd=cwd or self.work, capture_output=True, text=True, timeout=HANGS,
                              check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise subprocess.SubprocessError(f"{words}: {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(self, *words):
        """sbatch; returns the job's number."""
        return self.call("sbatch", "--parsable", *words).strip()

    def state(self, job):
        """JobState, ExitCode and Restarts of a job, as scontrol shows them."""
        text = self.call("scontrol", "show", "job", job)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def finish(self, job):
        """Waits for the end of the job. Returns its state; `log` is its output."""
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
        self.wait_for(lambda: self.state(job)["JobState"] in ended, f"job {job}")
        state = self.state(job)
        path = pathlib.Path(state["StdOut"])
        state["log"] = path.read_text() if path.exists() else ""
        return state
