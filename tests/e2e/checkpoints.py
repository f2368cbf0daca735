"""Shared code of the tests of checkpoints: the files that runs leave next to their result, and
runs that are interrupted."""

import json
import os
import signal
import time

from harness import expect_gone, finish, ranks_below, start, wait_until
from products import ON_HOST, min_memory

GEMM = ["--gemm.transpose-b", "true"]


def hidden(folder, end):
    return sorted(path for path in folder.iterdir() if path.name.endswith(f".{end}"))


def journals(folder, older=()):
    """The lines of each journal that is not in `older`, without their checksums and without an
    incomplete last line."""
    return [[json.loads(line[17:]) for line in path.read_text().split("\n")[:-1]]
            for path in hidden(folder, "checkpoint") if path not in older]


def finished_groups(folder, ranks, older=()):
    """The super-tiles whose panels all ranks have verified."""
    of_ranks = [{line["group"] for line in lines if "group" in line and "piece" not in line}
                for lines in journals(folder, older)]
    return set.intersection(*of_ranks) if len(of_ranks) == ranks else set()


def finished_tiles(folder, ranks, older=None):
    """The tiles that a run may take over: they are stored, and their super-tiles are finished. The
    tiles of the last finished super-tile may not be stored yet. With `older`, the journals of
    earlier runs, only the tiles that these have not finished."""
    groups = finished_groups(folder, ranks, older or ())
    if older is None:
        groups = groups | {None}  # a journal has tiles of earlier runs without their super-tiles
    return {line["piece"] for lines in journals(folder, older or ()) for line in lines
            if "piece" in line and line.get("group") in groups}


def expect_only_result(folder, told=""):
    """Waits until only the result is left: a rank whose launcher was killed may need a moment to
    end."""
    for _ in range(50):
        names = [path.name for path in folder.iterdir()]
        if names == ["c.h5"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{names}\n{told}")


def cap(workload, arguments, ranks, env=ON_HOST):
    """The option that limits the memory to the minimum."""
    return ["--pipeline.gpu-memory", f"{min_memory(workload, arguments, ranks, env)}B"]


def interrupt(workload, arguments, folder, ranks, tiles, how, env=ON_HOST):
    """Starts a run with C in `folder` and ends it with how(process) once it has finished the given
    number of tiles. Returns how it ended."""
    older = hidden(folder, "checkpoint")
    process = start("run", workload, *arguments, *cap(workload, arguments, ranks, env), "-o",
                    folder / "c.h5", ranks=ranks, env=env)
    wait_until(lambda: len(finished_tiles(folder, ranks, older)) >= tiles, process)
    pids = list(ranks_below(process).values()) if ranks > 1 else [process.pid]
    how(process)
    finished = finish(process)
    expect_gone(pids)
    assert not (folder / "c.h5").exists(), finished
    assert finished.code != 0 and finished.out == "", finished
    assert len(hidden(folder, "checkpoint")) == ranks, list(folder.iterdir())
    assert len(hidden(folder, "part")) == 1, list(folder.iterdir())
    return finished


def kill(rank):
    """Kills a rank, or a run of one rank without a launcher."""
    return lambda process: os.kill((ranks_below(process) or {rank: process.pid})[rank],
                                   signal.SIGKILL)


def terminate(process):
    """Terminates all ranks at once, as a batch system does."""
    for pid in ranks_below(process).values() or [process.pid]:
        os.kill(pid, signal.SIGTERM)
