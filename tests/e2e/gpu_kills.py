#!/usr/bin/python3
"""Products on all GPUs of this machine. A rank is killed, all ranks are terminated, or a rank loses
its GPU. The run ends, reports a lost GPU, and resumes with the same bits."""

import json
import pathlib
import shutil

from checkpoints import cap, expect_only_result, interrupt, kill, terminate
from harness import PROGRAM, expect_words, main, new_folder, run
from products import product

ON_GPUS = {"SHARDSTREAM_DEVICE_BACKEND": "cuda"}
# 8 x 3 tiles of C. With the minimum memory, a super-tile takes a rank over a tenth of a second.
GEMM = ["--gemm.m", 30000, "--gemm.n", 12000, "--gemm.k", 131072, "--product.precision", "fp32"]


def count_gpus():
    return len(json.loads(run("info", "--json").expect(0).out)["gpus"])


def library():
    """The library that loses a GPU, which the build puts next to the tests."""
    folder = pathlib.Path(PROGRAM).parent
    found = [path for path in (folder / "tests/liblose_gpu.so", folder / "liblose_gpu.so")
             if path.exists()]
    assert found, f"liblose_gpu.so is not in {folder}: build the target lose_gpu"
    return found[0]


class Whole:
    """The number of GPUs, and the checksum of the uninterrupted product on all of them."""

    def __enter__(self):
        folder = new_folder()
        self.ranks = count_gpus()
        self.checksum = product("gemm", folder / "c.h5", *GEMM, ranks=self.ranks,
                                env=ON_GPUS).values["c_checksum"]
        shutil.rmtree(folder)
        return self

    def __exit__(self, *error):
        pass

    def check(self, how, ranks_after, env=None):
        """Interrupts the product on all GPUs with how(process) and resumes it on `ranks_after`.
        Returns how it was interrupted."""
        folder, env = new_folder(), {**ON_GPUS, **(env or {})}
        stopped = interrupt("gemm", GEMM, folder, self.ranks, self.ranks + 1, how, env)
        resumed = product("gemm", folder / "c.h5", *GEMM, *cap("gemm", GEMM, ranks_after, ON_GPUS),
                          ranks=ranks_after, env=ON_GPUS)
        print(f"  ended after {stopped.seconds:.1f} s on {self.ranks}; on {ranks_after}, "
              f"{resumed.values['resumed_tiles']} tiles were taken over")
        assert int(resumed.values["resumed_tiles"]) > 0, resumed
        assert resumed.values["c_checksum"] == self.checksum, resumed
        expect_only_result(folder)
        shutil.rmtree(folder)
        return stopped


def test_a_killed_rank(whole):
    whole.check(kill(whole.ranks - 1), whole.ranks)
    if whole.ranks > 1:
        whole.check(kill(0), whole.ranks - 1)


def test_a_terminated_run(whole):
    whole.check(terminate, whole.ranks)


def test_a_lost_gpu(whole):
    """The error names the GPU and says where to look."""
    ranks, trigger = whole.ranks, new_folder() / "lose"
    env = {"LD_PRELOAD": str(library()), "LOSE_GPU_OF": str(ranks - 1),
           "LOSE_GPU_WHEN": str(trigger)}
    stopped = whole.check(lambda _: trigger.touch(), max(1, ranks - 1), env).expect(1)
    expect_words(stopped.err, [f"GPU {ranks - 1}", "cudaErrorLaunchFailure", "Xid"], stopped)


main(Whole)
