"""Draws cases from seeds and runs several at a time. SHARDSTREAM_RANDOM_SEED=N repeats one case and
keeps its files; SHARDSTREAM_RANDOM_SECONDS=N draws cases for that long, from
SHARDSTREAM_RANDOM_FIRST=N on."""

import collections
import concurrent.futures
import itertools
import os
import shutil
import time
import traceback

from drawn_values import Draw
from harness import new_folder

FIRST = int(os.environ.get("SHARDSTREAM_RANDOM_FIRST", 1))
ONLY = os.environ.get("SHARDSTREAM_RANDOM_SEED")
WORKERS = 4


class NotPossible(Exception):
    """A drawn file cannot be written, for example with some filters and values."""


def one(seed, check, script):
    """The failure of check(draw, folder) as text, or None. Raises NotPossible if there is no such
    file."""
    folder, draw = new_folder(), Draw(seed)
    try:
        check(draw, folder)
    except NotPossible:
        shutil.rmtree(folder)
        raise
    except Exception as error:  # pylint: disable=broad-except
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == script]
        return (f"seed {seed}, line {lines[-1]}, {type(error).__name__}: {error}\n"
                f"  drawn: {draw.said}")
    if ONLY is None:
        shutil.rmtree(folder)
    return None


def check_cases(check, script, seconds, enough):
    """Calls check(draw, folder) for the seeds from FIRST on, for some seconds and for at least
    `enough` cases; fewer are a failure, for example because most files are impossible. `script` is
    the file of the test, whose line a failure names."""
    if ONLY is not None:
        failure = one(int(ONLY), check, script)
        assert not failure, failure
        return
    end = time.monotonic() + float(os.environ.get("SHARDSTREAM_RANDOM_SECONDS", seconds))
    seeds, failures, done, impossible = itertools.count(FIRST), [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        pending = collections.deque()
        while True:
            while len(pending) < 2 * WORKERS and (time.monotonic() < end or done < enough):
                pending.append(pool.submit(one, next(seeds), check, script))
            if not pending:
                break
            try:
                failure = pending.popleft().result()
            except NotPossible:
                impossible += 1
                continue
            done += 1
            if failure:
                failures.append(failure)
                print(failure, flush=True)
    print(f"{done} cases from seed {FIRST} to {next(seeds) - 1}, {impossible} files that cannot "
          f"be made, {len(failures)} failures")
    assert not failures, f"{len(failures)} of {done} cases failed"
    assert done >= enough, done
    assert impossible < done / 4, impossible
