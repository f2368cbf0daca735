#!/usr/bin/python3
"""Products that are killed at random times: one rank, all ranks or their launcher, by signals that
can be handled and by SIGKILL, on changing numbers of ranks and with changing memory. Each sequence
ends in the same bits and leaves no other files. SHARDSTREAM_TEST_SEQUENCES is the number of
sequences, SHARDSTREAM_TEST_SEED selects them."""

import contextlib
import os
import shutil
import signal
import time
from random import Random

from checkpoints import GEMM, expect_only_result, hidden
from harness import finish, main, new_folder, ranks_below, run, start, wait_until
from products import ON_HOST, inputs, min_memory, normal, product, skip_without_blas, stored


def test_killed_at_random_times():
    sequences = int(os.environ.get("SHARDSTREAM_TEST_SEQUENCES", 3))
    random = Random(int(os.environ.get("SHARDSTREAM_TEST_SEED", 1)))
    files = new_folder()
    arguments = [*inputs(files, a=normal(2900, 2048), b=normal(3800, 2048, seed=2)), *GEMM]
    whole = new_folder() / "c.h5"
    product("gemm", whole, *arguments, env=ON_HOST)
    expected = stored(whole).tobytes()

    def command(folder):
        ranks = random.randint(1, 4)
        least = min_memory("gemm", arguments, ranks, ON_HOST)
        memory = int(least * random.choice([1, 1, 1.5, 3]))
        return ranks, ["run", "gemm", *arguments, "--pipeline.gpu-memory", f"{memory}B", "-o",
                       folder / "c.h5"]

    def end(process, ranks):
        """Sends a signal to the launcher, one rank or all ranks, and waits for the end of all."""
        pids = list(ranks_below(process).values()) if ranks > 1 else [process.pid]
        number = random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        hit = random.choice([[process.pid], pids, [random.choice(pids or [process.pid])]])
        for pid in hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    resumed = 0
    for sequence in range(sequences):
        folder, story = new_folder(), []
        for _ in range(random.randint(1, 3)):
            ranks, words = command(folder)
            process = start(*words, ranks=ranks, env=ON_HOST)
            older = hidden(folder, "checkpoint")
            deadline = time.monotonic() + random.choice([0.5, 2, 60, 60, 60])
            while (process.poll() is None and time.monotonic() < deadline
                   and set(hidden(folder, "checkpoint")) <= set(older)):
                time.sleep(0.01)
            time.sleep(random.uniform(0, 1.5))
            if process.poll() is None:
                end(process, ranks)
            story.append(finish(process))
            if (folder / "c.h5").exists():
                break
        if not (folder / "c.h5").exists():
            ranks, words = command(folder)
            last = run(*words, ranks=ranks, env=ON_HOST)
            story.append(last)
            # Ranks whose launcher was killed may have finished C just before.
            if "already exists" not in last.err:
                resumed += int(last.expect(0).values.get("resumed_tiles", 0)) > 0
        told = f"sequence {sequence}:\n" + "\n".join(map(str, story))
        assert stored(folder / "c.h5").tobytes() == expected, told
        expect_only_result(folder, told)
        shutil.rmtree(folder)
    print(f"{sequences} sequences, the last run resumed in {resumed}")


def test_a_study_keeps_no_checkpoint():
    """A resumed launch would not count, so an interrupted one leaves no files."""
    folder = new_folder() / "study"
    arguments = [*inputs(new_folder(), a=normal(2000, 1024), b=normal(2600, 1024, seed=2)), *GEMM]
    least = min_memory("gemm", arguments, 1, ON_HOST)
    process = start("scale", "gemm", *arguments, "--pipeline.gpu-memory", f"{least}B",
                    "--output.store", "true", "--measure.repeat", 1, "--measure.warmup", 0,
                    "--scale.ranks", 1, "--scale.timeline", "false", "-o", folder, env=ON_HOST)
    wait_until(lambda: folder.exists() and hidden(folder, "checkpoint"), process)
    process.send_signal(signal.SIGINT)
    finished = finish(process).expect(75)
    assert hidden(folder, "checkpoint") == hidden(folder, "part") == [], finished


skip_without_blas()
main()
