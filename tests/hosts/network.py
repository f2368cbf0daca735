"""Two hosts on this machine, for tests: network namespaces with their own addresses, host names,
/etc/hosts and /dev/shm, connected by a virtual cable. The machine itself is not changed."""

import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess

from harness import PROGRAM, environment, new_folder, skip_all

NAME = re.compile(r"^ss(\d+)[ab]")  # of a namespace: ss, the test's process, a or b


class TwoHosts:
    """`with TwoHosts() as hosts:`; hosts.names are a and b."""

    def __init__(self):
        self.folder = new_folder()
        self.names = [f"ss{os.getpid()}{letter}" for letter in "ab"]
        third = os.getpid() % 250
        self.addresses = [f"10.231.{third}.{last}" for last in (1, 2)]
        self.network = f"10.231.{third}.0/24"
        self.on_host = self.folder / "on-host"

    def __enter__(self):
        self.remove_stale()
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        a, b = self.names
        self.ip("link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable",
                "netns", b)
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            self.ip("-n", name, "link", "set", "cable", "up")
        lines = "".join(f"{address} {name}\\n"
                        for name, address in zip(self.names, self.addresses))
        # Runs a command on a host, as a remote shell does: a shell there reads its words.
        self.on_host.write_text(f"""#!/bin/bash
name=$1
shift
exec ip netns exec "$name" unshare --uts --ipc --mount bash -c '
  hostname "$1"
  mount -t tmpfs tmpfs /dev/shm
  printf "127.0.0.1 localhost\\n{lines}" >/dev/shm/.hosts
  mount --bind /dev/shm/.hosts /etc/hosts
  shift
  exec bash -c "$*"' _ "$name" "$@"
""")
        self.on_host.chmod(self.on_host.stat().st_mode | stat.S_IXUSR)

    def remove(self):
        for name in self.names:
            self.remove_host(name)

    def remove_host(self, name):
        """Ends the processes of a host, which no launcher reaches once the cable is down."""
        with contextlib.suppress(subprocess.CalledProcessError):
            for pid in self.ip("netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            self.ip("netns", "del", name)

    def remove_stale(self):
        """Removes hosts of killed tests."""
        for line in self.ip("netns", "list").splitlines():
            found = NAME.match(line)
            if found and not os.path.exists(f"/proc/{found[1]}"):
                self.remove_host(line.split()[0])

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=True,
                              timeout=30).stdout

    def cut(self, name):
        """Disconnects the host from the network."""
        self.ip("-n", name, "link", "set", "cable", "down")

    def pids(self, name):
        return [int(pid) for pid in self.ip("netns", "pids", name).split()]

    def launcher(self, ranks):
        """mpirun on host a, for ranks on both hosts, two on each."""
        a, b = self.names
        return ["mpirun", "-q", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(self.on_host),
                "--mca", "oob_tcp_if_include", self.network, "--mca", "btl_tcp_if_include",
                self.network, "--mca", "btl", "self,vader,tcp", "-H", f"{a}:2,{b}:2",
                "--bind-to", "none", "-np", str(ranks)]

    def start(self, *words):
        """Starts a command on host a."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        if not (programs / "shardstream").exists():
            (programs / "shardstream").symlink_to(PROGRAM)
        variables = {"PATH": f"{programs}:{os.environ['PATH']}"}
        command = shlex.join(map(str, words))
        return subprocess.Popen([str(self.on_host), self.names[0], command],
                                env=environment(variables, ranks=2), cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


def skip_without_namespaces():
    if shutil.which("ip") is None:
        skip_all("no ip here: jobs/install-dependencies --tests installs iproute2")
    if os.geteuid() != 0:
        skip_all("network namespaces are made by root only")
    name = f"ss{os.getpid()}ab"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        tried = subprocess.run(["ip", "netns", "exec", name, "unshare", "--uts", "--ipc", "--mount",
                                "bash", "-c", "hostname x && mount -t tmpfs tmpfs /dev/shm"],
                               capture_output=True, text=True, check=False)
        subprocess.run(["ip", "netns", "del", name], check=False)
        if tried.returncode == 0:
            return
        made = tried
    skip_all(f"no network namespaces here ({made.stderr.strip()})")
