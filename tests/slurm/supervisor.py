#!/usr/bin/python3
"""Starts commands and ends them, and everything that they have started, when its standard input is
closed: also if the process at the other end has failed or was killed.

Each line of standard input is a command (a list in JSON); the answer is its process id. Job steps
leave the daemons that start them. So this process adopts orphans, as init does.
"""

import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def children():
    return [int(pid) for task in pathlib.Path("/proc/self/task").iterdir()
            for pid in (task / "children").read_text().split()]


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def end_children():
    """Orphans of those that end become children of this process, and end next."""
    while found := children():
        for pid in found:
            os.kill(pid, signal.SIGKILL)  # not yet reaped, so still this process
        time.sleep(0.02)
        reap()


def main():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    started = []
    try:
        while True:
            if select.select([sys.stdin.buffer], [], [], 0.5)[0]:
                line = sys.stdin.buffer.raw.readline()
                if not line:
                    return
                started.append(subprocess.Popen(json.loads(line), stdin=subprocess.DEVNULL,
                                                stdout=sys.stderr))
                print(started[-1].pid, flush=True)
            reap()
    finally:
        end_children()


main()
