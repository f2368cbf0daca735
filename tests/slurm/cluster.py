"""A private Slurm of two virtual nodes on this machine, with its own folder, munge key and ports.
Nothing else on the machine changes, and all its processes end with the test in any case."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import PROGRAM, environment, new_folder, ranks_below, skip_all

DAEMONS = ("munged", "slurmctld", "slurmd")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
# Seconds after which something hangs. An idle machine needs a tenth of it.
HANGS = 240

# The nodes have the CPUs and GPUs of the scripts' #SBATCH lines, which don't exist. A requeued job
# waits until its credentials have expired, by default two minutes; an ended job stays in the table
# so that the test can check it.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
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
SchedulerParameters=sched_min_interval=100000,sched_interval=2,bf_interval=1
ReturnToService=2
KillWait=5
MinJobAge=3600
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1_port} CPUs=32 Gres=gpu:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2_port} CPUs=32 Gres=gpu:4
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE OverSubscribe=NO
"""


def find(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def skip_without_slurm():
    missing = [each for each in (*DAEMONS, "sbatch", "srun") if find(each) is None]
    if missing:
        skip_all(f"there is no {', '.join(missing)}: jobs/install-dependencies --tests installs it")
    if os.geteuid() != 0:
        skip_all("a private Slurm needs root")


def is_pending(pid, number):
    """Whether a process has yet to handle the signal."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^ShdPnd:\s*(\w+)", status, re.MULTILINE)[1], 16) >> (number - 1) & 1 == 1


def free_ports(count):
    """Ports below those that the system chooses for sockets: MPI programs of other tests, which run
    at the same time, ask it for many."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with contextlib.ExitStack() as stack:
        ports = []
        for port in random.sample(range(lowest // 2, lowest), lowest // 4):
            with contextlib.suppress(OSError):  # it is in use
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise AssertionError(f"fewer than {count} free ports below {lowest}")


class Cluster:
    """`with Cluster() as cluster:` has idle nodes n1 and n2. Jobs start in `work`, with
    `environment`."""

    def __init__(self):
        self.folder = new_folder()
        self.work = self.folder / "work"
        self.daemons = {}  # names by process id
        self.supervisor = None
        # The nodes share one /dev/shm, in which Open MPI's shared memory would mix them up, and
        # cores. Its TCP (btl tcp of 4.1) crashes in one of twenty starts on busy cores, if a rank
        # gets a message before MPI_Init has set its receiver up: so libfabric's TCP.
        self.environment = environment(
            {"SLURM_CONF": str(self.folder / "slurm.conf"), "OMPI_MCA_pml": "cm",
             "OMPI_MCA_mtl": "ofi", "OMPI_MCA_btl": "self", "FI_TCP_IFACE": "lo",
             "OMPI_MCA_mtl_ofi_provider_include": "tcp;ofi_rxm",
             "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "1",
             "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}, ranks=2)

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
        self.folder.chmod(0o755)  # munged requires that other users can reach its socket
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        ctld_port, n1_port, n2_port = free_ports(3)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=socket.gethostname().split(".")[0], ctld_port=ctld_port,
            n1_port=n1_port, n2_port=n2_port))
        version = re.search(r"(\d+)\.(\d+)", subprocess.run(
            [find("slurmd"), "-V"], capture_output=True, text=True, check=True).stdout)
        if (int(version[1]), int(version[2])) >= (23, 11):  # older ones need none for linuxproc
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (self.folder / "gres.conf").write_text("".join(
            f"Name=gpu File=/dev/{name}\n" for name in ("null", "zero", "full", "random")))
        with open(self.folder / "daemons.log", "ab") as log:
            self.supervisor = subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).with_name("supervisor.py"))],
                env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True)
        files = [f"--{name}={self.folder}/munge.{suffix}" for name, suffix in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"),
                  ("log-file", "log"), ("seed-file", "seed"))]
        self.daemon("munged", "--foreground", "--force", *files)
        self.wait_for((self.folder / "munge.socket").exists, "munged")
        self.daemon("slurmctld", "-D", "-i")
        for node in ("n1", "n2"):
            self.daemon("slurmd", "-D", "-N", node)
        self.wait_for(self.is_idle, "the nodes")

    def daemon(self, program, *arguments):
        self.supervisor.stdin.write(json.dumps([find(program), *arguments]) + "\n")
        self.supervisor.stdin.flush()
        self.daemons[self.supervisor.stdout.readline().strip()] = program

    def stop(self):
        if self.supervisor is not None:
            self.supervisor.stdin.close()
            self.supervisor.wait(HANGS)

    def is_idle(self):
        return self.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 2

    def wait_for(self, holds, what, pause=0.1):
        """Waits until a condition holds that the daemons or a job are to bring about. `pause` is
        the time between two checks in seconds."""
        end = time.monotonic() + HANGS
        while not holds():
            dead = [name for pid, name in self.daemons.items()
                    if not pathlib.Path("/proc", pid).exists()]
            if dead or time.monotonic() > end:
                logs = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-3000:]}"
                                 for pattern in ("*.log", "work/*.out")
                                 for path in sorted(self.folder.glob(pattern)))
                raise AssertionError(f"{what}: not within {HANGS} s; ended: {dead}\n{logs}")
            time.sleep(pause)

    def call(self, *words, code=0, cwd=None, **variables):
        """The output of a Slurm command, or of a script that calls such commands, in `work` or
        `cwd`. With another `code`, its errors."""
        done = subprocess.run([str(word) for word in words], cwd=cwd or self.work, text=True,
                              env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=HANGS, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    @contextlib.contextmanager
    def starting_no_jobs(self):
        """Meanwhile, submitted jobs wait, so that none of them has ended before it is checked."""
        self.call("scontrol", "update", "PartitionName=all", "State=DOWN")
        try:
            yield
        finally:
            self.call("scontrol", "update", "PartitionName=all", "State=UP")

    def submit(self, *words, **variables):
        """sbatch; returns the job's number."""
        return self.call("sbatch", "--parsable", *words, **variables).strip()

    def state(self, job):
        """What scontrol shows of a job: JobState, ExitCode, Restarts, StdOut and more."""
        text = self.call("scontrol", "show", "job", job)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def terminate_ranks(self, job, ranks, holds, what):
        """Sends SIGTERM to the ranks of a job as soon as a condition holds. They are stopped until
        the signal has arrived, since a fast job could end before."""
        self.wait_for(lambda: len(ranks_below(self.supervisor)) == ranks, "the ranks", pause=0.005)
        pids = ranks_below(self.supervisor).values()
        self.wait_for(holds, what, pause=0.005)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        assert holds(), f"job {job} has ended before it could be interrupted"
        self.call("scancel", "--signal=TERM", job)
        self.wait_for(lambda: all(is_pending(pid, signal.SIGTERM) for pid in pids), "SIGTERM")
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def finish(self, job):
        """Waits for the end of the job. Returns its state; ["log"] is its output."""
        self.wait_for(lambda: self.state(job)["JobState"] in ENDED, f"the end of job {job}")
        state = self.state(job)
        path = pathlib.Path(state["StdOut"])
        state["log"] = path.read_text() if path.exists() else ""
        return state
