#!/usr/bin/python3
"""Interrupted products resume when the same command runs again: C has the same bytes on any number
of ranks, and no other files are left. Checkpoints of another product and damaged ones are
detected."""

import os
import re
import shutil
import signal
import time

import h5py
import numpy as np

from checkpoints import (GEMM, cap, expect_only_result, finished_tiles, hidden, interrupt, journals,
                         kill, terminate)
from harness import (each, expect_complaint, expect_words, finish, main, new_folder, preloaded,
                     run, start, wait_until)
from products import (ON_HOST, begins_shallow, inputs, normal, product, skip_without_blas, stored,
                      stored_arrays)

# 4 x 6 tiles of C. With the minimum memory, a super-tile is one tile of each rank, and takes one
# core a tenth of a second: long enough to be observed before the next ones are finished. K begins
# with shallow blocks.
M, N, K = 1930, 3066, 3072
CHECKPOINTED = 75


# ---------------------------------------------------------------- what runs leave

def look(workload, arguments, folder, ranks):
    """The text of a dry run on resuming, and the bytes of journals that it predicts; no file in the
    folder changes."""
    def state():
        return {path: (status.st_ino, status.st_size, status.st_mtime_ns)
                for path in folder.iterdir() for status in [path.stat()]}
    before = state()
    text = run("run", workload, *arguments, *cap(workload, arguments, ranks), "-o",
               folder / "c.h5", "--dry-run", "--ranks", ranks, env=ON_HOST).expect(0).out
    assert state() == before, text
    number, unit = re.search(r"\.checkpoint'.* ([0-9.]+) (B|[KM]iB)\b", text).groups()
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20}
    return re.search("^resuming: (.*)$", text, re.MULTILINE)[1], float(number) * units[unit]


def go_on(workload, arguments, folder, ranks, restarts=1):
    """Runs the same command again, which must complete C after the given number of restarts.
    Returns the run and the number of tiles that it took over."""
    finished = product(workload, folder / "c.h5", *arguments, *cap(workload, arguments, ranks),
                       ranks=ranks, env=ON_HOST)
    expect_only_result(folder)
    tiles = int(finished.values["resumed_tiles"])
    with h5py.File(folder / "c.h5") as file:
        assert file["results"].attrs["resumed_tiles"] == tiles, finished
        assert file.attrs["restart_count"] == restarts, finished
    return finished, tiles


class Interrupted:
    """A product of two files on two ranks, one of which was killed after half of the work, so that
    most columns of tiles are complete; and the complete product. Made once."""

    made = None

    def __init__(self):
        self.files = new_folder()
        self.arguments = [*inputs(self.files, a=normal(M, K), b=normal(N, K, seed=2)), *GEMM]
        whole = new_folder() / "c.h5"
        self.whole = product("gemm", whole, *self.arguments, env=ON_HOST)
        assert begins_shallow(whole), self.whole
        self.expected = stored(whole).tobytes()
        whole.unlink()
        self.folder = new_folder()
        interrupt("gemm", self.arguments, self.folder, 2, 16, kill(1))
        self.tiles = finished_tiles(self.folder, 2)
        assert len(self.tiles) >= 16, self.tiles

    @classmethod
    def get(cls):
        cls.made = cls.made or cls()
        return cls.made

    def copy(self):
        """A copy of the interrupted run's files in a folder of its own."""
        folder = new_folder()
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return folder

    def check(self, folder, ranks, least, most, restarts=1):
        """Resumes in `folder`, and checks that the number of tiles taken over is within the
        bounds."""
        finished, tiles = go_on("gemm", self.arguments, folder, ranks, restarts)
        said = f"{tiles} of {len(self.tiles)} tiles were taken over\n{finished}"
        assert stored(folder / "c.h5").tobytes() == self.expected, said
        for key in ("c_checksum", "c_norm"):
            assert finished.values[key] == self.whole.values[key], said
        assert least <= tiles <= most, said
        assert re.search(r"\d+ of \d+ finished tiles", finished.err), said
        shutil.rmtree(folder)


# ---------------------------------------------------------------- going on

def test_a_killed_rank():
    """The same number of ranks has the same super-tiles and takes all of them over; other numbers
    take over the complete ones of theirs."""
    left = Interrupted.get()
    tiles = len(left.tiles)
    said, told = look("gemm", left.arguments, left.folder, 2)
    expect_words(said, [f"{tiles} of {tiles} finished tiles"])
    taken = sum(path.stat().st_size for path in hidden(left.folder, "checkpoint"))
    assert 0.3 * tiles / 24 < taken / told < 1, (taken, told)  # the bytes for all tiles
    said, _ = look("gemm", [*left.arguments, "--output.resume", "never"], left.folder, 3)
    expect_words(said, [f"{tiles} finished tiles"])
    said, _ = look("gemm", left.arguments, new_folder(), 2)
    assert "tiles" not in said, said
    each([(left.copy(), 2, tiles, tiles), (left.copy(), 1, tiles, tiles),
          (left.copy(), 3, 4, tiles)], left.check, workers=2)


def test_terminated_twice():
    """By SIGTERM, as batch systems do; the third run takes over the tiles of both."""
    left = Interrupted.get()
    folder = new_folder()
    for _ in range(2):
        finished = interrupt("gemm", left.arguments, folder, 1, 3, terminate).expect(CHECKPOINTED)
        assert finished.err.count("SIGTERM") == 1, finished
        expect_words(finished.err.splitlines()[-1], ["SIGTERM", f"-o {folder}/c.h5"], finished)
    tiles = len(finished_tiles(folder, 1))
    assert tiles >= 6, journals(folder)
    left.check(folder, 1, tiles, tiles, restarts=2)


def test_all_ranks_terminated():
    left = Interrupted.get()
    folder = new_folder()
    finished = interrupt("gemm", left.arguments, folder, 2, 6, terminate).expect(CHECKPOINTED)
    assert finished.err.count("SIGTERM") == 1, finished
    tiles = len(finished_tiles(folder, 2))
    left.check(folder, 2, tiles, tiles)


def test_terminated_before_anything_is_finished():
    """All tiles are in one super-tile: there is nothing to resume from, and no files are left."""
    left = Interrupted.get()
    folder = new_folder()
    process = start("run", "gemm", *left.arguments, "-o", folder / "c.h5", env=ON_HOST)
    wait_until(lambda: len(hidden(folder, "checkpoint")) == 1, process)
    process.terminate()
    finished = finish(process).expect(-signal.SIGTERM)
    assert finished.out == finished.err == "", finished
    assert list(folder.iterdir()) == [], list(folder.iterdir())


def test_terminated_before_anything_new_is_finished():
    """All missing tiles are in one super-tile. The run ends like one with a checkpoint of its own,
    since that of the earlier run stays."""
    left = Interrupted.get()
    folder = left.copy()
    before = hidden(folder, "part")
    process = start("run", "gemm", *left.arguments, "-o", folder / "c.h5", env=ON_HOST, ranks=2)
    wait_until(lambda: set(hidden(folder, "part")) - set(before), process)
    time.sleep(0.1)  # it has found the checkpoint, and has no journal yet
    terminate(process)
    finished = finish(process).expect(CHECKPOINTED)
    assert finished.err.count("SIGTERM") == 1, finished
    left.check(folder, 2, len(left.tiles), len(left.tiles))


def test_an_idle_rank():
    """A rank without panels reports all super-tiles as verified."""
    left = Interrupted.get()
    folder = new_folder()
    arguments = [*left.arguments, "--product.box", "2x1x1"]
    interrupt("gemm", arguments, folder, 3, 6, kill(1))
    tiles = len(finished_tiles(folder, 3))
    assert tiles >= 6, journals(folder)
    finished, taken = go_on("gemm", arguments, folder, 3)
    assert taken == tiles and stored(folder / "c.h5").tobytes() == left.expected, finished


def test_not_stored():
    """A resumed run continues checksum and norm."""
    left = Interrupted.get()
    folder = new_folder()
    arguments = [*left.arguments, "--output.store", "false"]
    interrupt("gemm", arguments, folder, 2, 6, kill(1))
    assert hidden(folder, "part")[0].stat().st_size < 2**20
    again = [*left.arguments, *cap("gemm", arguments, 2), "-o", folder / "c.h5"]
    expect_complaint(run("run", "gemm", *again, ranks=2, env=ON_HOST), 2,
                     ["output.store", "false", "true", "--output.resume never"])
    tiles = len(finished_tiles(folder, 2))
    finished, taken = go_on("gemm", arguments, folder, 2)
    assert taken == tiles >= 6, finished
    for key in ("c_checksum", "c_norm"):
        assert finished.values[key] == left.whole.values[key], f"{finished}\n{left.whole}"


def test_gram():
    """A covariance of 6 x 6 tiles, half of which are computed; K begins with shallow blocks."""
    files = new_folder()
    arguments = [*inputs(files, data=normal(2170, 4500) + 1), "--gram.center", "true"]
    whole = new_folder() / "c.h5"
    first = product("gram", whole, *arguments, env=ON_HOST)
    assert begins_shallow(whole), first
    expected, everything = stored(whole), stored_arrays(whole)
    assert expected.tobytes() == expected.T.tobytes()
    assert {"mean", "stddev", "count"} < set(everything), set(everything)
    whole.unlink()
    folder = new_folder()
    interrupt("gram", arguments, folder, 2, 4, kill(0))  # rank 0, which writes the result file
    tiles = len(finished_tiles(folder, 2))
    other = new_folder()
    shutil.copytree(folder, other, dirs_exist_ok=True)
    for ranks, where, least in ((2, folder, tiles), (1, other, 1)):
        finished, taken = go_on("gram", arguments, where, ranks)
        assert least <= taken <= tiles, finished
        assert stored(where / "c.h5").tobytes() == expected.tobytes(), finished
        assert stored_arrays(where / "c.h5") == everything, finished
        assert finished.values["c_checksum"] == first.values["c_checksum"], finished


# OpenBLAS, but its product of panels whose first elements are 1234.5 and 777.25 has a wrong
# element. The program finds its functions with dlsym().
WRONG_PRODUCT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#define ARGUMENTS int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, \\
                  int lda, const float* b, int ldb, float beta, float* c, int ldc
static void (*right)(ARGUMENTS);
static void wrong(ARGUMENTS) {
  right(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (a[0] == 1234.5f && b[0] == 777.25f) c[0] += 1e9f;
}
void* dlsym(void* file, const char* name) {
  void* (*own)(void*, const char*) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (own == NULL) own = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  void* found = own(file, name);
  if (found == NULL || strcmp(name, "cblas_sgemm") != 0) return found;
  right = found;
  return wrong;
}
"""


def test_failed_verification():
    """The result is stored and marked, and the next run replaces it and takes over the right tiles.
    In this test, the library multiplies one tile wrongly, also in the next run."""
    library = preloaded(WRONG_PRODUCT)
    if library is None:
        return
    a, b = normal(M, K), normal(N, K, seed=2)
    a[0, 0], b[0, 0] = 1234.5, 777.25
    files = new_folder()
    arguments = [*inputs(files, a=a, b=b), *GEMM]
    folder = new_folder()

    def fail(ranks, resumed):
        finished = run("run", "gemm", *arguments, *cap("gemm", arguments, 2), "-o",
                       folder / "c.h5", "--measure.timeline", "true", ranks=ranks,
                       env={**ON_HOST, "LD_PRELOAD": library}).expect(3)
        assert finished.values["verified"] == "false", finished
        assert finished.values.get("resumed_tiles") == resumed, finished
        verdict = "1 row of C in columns 0 to"
        assert finished.err.count(verdict) == 1, finished
        with h5py.File(folder / "c.h5") as file:
            assert file.attrs["status"] == "unverified", finished
            assert file["/results"].attrs["verified"] == 0, finished
            assert verdict in file["/results"].attrs["verdict"], finished
            assert file["/results/gemm"][0]["validated"] == 0, finished
            c = file["/results/C"][()]
        assert len(hidden(folder, "part")) == 1 and len(hidden(folder, "checkpoint")) == ranks
        assert len(finished_tiles(folder, ranks)) == 23, journals(folder)
        return c

    first = fail(2, None)
    assert np.isfinite(first).all(), first
    assert fail(2, "22").tobytes() == first.tobytes()  # the other tile of its super-tile is not
    with h5py.File(files / "in.h5", "r+") as file:
        file["b"][0] = 0
    again = ["run", "gemm", *arguments, "-o", folder / "c.h5"]
    expect_complaint(run(*again, env=ON_HOST), 2,
                     ["input.a", "ns", "--output.resume never"])
    product("gemm", folder / "c.h5", *arguments, "--output.resume", "never", env=ON_HOST)
    expect_only_result(folder)
    assert (stored(folder / "c.h5")[:, 0] == 0).all()


# ---------------------------------------------------------------- what is not resumed

def test_resume_never_starts_over():
    """With output.resume never, any checkpoint is discarded."""
    left = Interrupted.get()

    for arguments in (left.arguments, ["--gemm.m", 20, "--gemm.n", 20, "--gemm.k", 20]):
        folder = left.copy()
        finished = product("gemm", folder / "c.h5", *arguments, "--output.resume", "never",
                           ranks=2, env=ON_HOST)
        assert "resumed_tiles" not in finished.values, finished
        expect_only_result(folder)
        with h5py.File(folder / "c.h5") as file:
            assert file.attrs["restart_count"] == 0, finished
        if arguments == left.arguments:
            assert stored(folder / "c.h5").tobytes() == left.expected, finished
        shutil.rmtree(folder)


def test_another_product():
    """It is rejected, and the checkpoint is not changed."""
    left = Interrupted.get()
    folder = left.copy()
    before = {path: path.read_bytes() for path in hidden(folder, "checkpoint")}

    def check(words, arguments, ranks):
        finished = run("run", *arguments, "-o", folder / "c.h5", ranks=ranks, env=ON_HOST)
        expect_complaint(finished, 2, [*words, f"{len(left.tiles)} finished pieces", "output.file",
                                       "--output.resume never"])
    same = ["gemm", *left.arguments]
    b = left.arguments[2:4]
    each([(["product.precision", "fp32", "tf32"], [*same, "--product.precision", "tf32"], 1),
          (["workload", "gemm", "gram"], ["gram", "--input.data", left.arguments[1]], 1),
          (["input.a", "in.h5:/a", "uniform"], ["gemm", "--input.a", "uniform", *b, *GEMM], 2)],
         check, workers=1)
    assert {path: path.read_bytes() for path in hidden(folder, "checkpoint")} == before
    assert len(hidden(folder, "part")) == 1 and not (folder / "c.h5").exists()
    # Another name means another result.
    out = folder / "d.h5"
    small = ["--gemm.m", 20, "--gemm.n", 20, "--gemm.k", 20]
    product("gemm", out, *small, env=ON_HOST)
    out.unlink()
    left.check(folder, 2, len(left.tiles), len(left.tiles))


def test_input_that_has_changed_since():
    left = Interrupted.get()
    folder, source = left.copy(), left.files / "in.h5"
    kept = left.files / "kept.h5"
    shutil.copy2(source, kept)

    def refused(*words):
        finished = run("run", "gemm", *left.arguments, "-o", folder / "c.h5", ranks=2, env=ON_HOST)
        expect_complaint(finished, 2, [*words, "--output.resume never"])
    at = source.stat()
    os.utime(source, ns=(at.st_atime_ns, at.st_mtime_ns + 1000))
    refused("input.a", at.st_mtime_ns, at.st_mtime_ns + 1000)
    dry = run("run", "gemm", *left.arguments, "-o", folder / "c.h5", "--dry-run", env=ON_HOST)
    expect_complaint(dry, 2, ["input.a", at.st_mtime_ns, "--output.resume never"])
    inputs(left.files, a=normal(M - 1, K), b=normal(N, K, seed=2))
    refused("input.a", "shape", f"{M} x {K}", f"{M - 1} x {K}")
    shutil.copy2(kept, source)  # keeps its modification time
    kept.unlink()
    assert len(finished_tiles(folder, 2)) == len(left.tiles)
    shutil.rmtree(folder)


def test_a_file_behind_an_input_that_has_changed_since():
    """The source of a virtual data set changes; the named file does not."""
    left = Interrupted.get()
    files, folder = new_folder(), new_folder()
    source = files / "source.h5"
    shutil.copy(left.files / "in.h5", source)
    with h5py.File(source) as file:
        shape, dtype = file["a"].shape, file["a"].dtype
    layout = h5py.VirtualLayout(shape, dtype)
    layout[:] = h5py.VirtualSource(source.name, "a", shape)
    with h5py.File(files / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    arguments = ["--input.a", f"{files}/v.h5:/v", *left.arguments[2:]]
    interrupt("gemm", arguments, folder, 1, 3, lambda process: process.kill())
    os.utime(source)
    finished = run("run", "gemm", *arguments, "-o", folder / "c.h5", env=ON_HOST)
    expect_complaint(finished, 2, [source, "ns", "--output.resume never"])
    shutil.rmtree(folder)


def test_damaged_tiles_are_computed_again():
    """A changed bit of C, a shortened part file, a group that one rank has not verified."""
    left = Interrupted.get()
    tiles = len(left.tiles)

    def offset(folder):
        return next(line["offsets"][0] for lines in journals(folder) for line in lines
                    if "offsets" in line)

    def flip(folder):
        with open(hidden(folder, "part")[0], "r+b") as part:
            part.seek(offset(folder) + 4 * (N + 3))  # row 1, in tile 0
            byte = part.read(1)[0]
            part.seek(-1, os.SEEK_CUR)
            part.write(bytes([byte ^ 1]))

    def cut(folder):
        """Cuts the part file within the last row of tiles, the second one of the second rank."""
        os.truncate(hidden(folder, "part")[0], offset(folder) + 4 * N * (M - M // 8))

    def lose_a_word(folder):
        """Removes one group from a journal, which invalidates all following lines."""
        path = hidden(folder, "checkpoint")[1]
        lines = path.read_text().split("\n")
        path.write_text("\n".join(line for line in lines if not line.endswith('{"group":1}')))

    def check(spoil, least, most):
        folder = left.copy()
        spoil(folder)
        left.check(folder, 2, least, most)
    # Two tiles make a super-tile.
    each([(flip, tiles - 2, tiles - 2), (cut, 12, 12), (lose_a_word, 2, 2)],
         check, workers=2)


def test_nothing_that_is_whole():
    """Without one rank's journal there is no checkpoint: its files are removed."""
    left = Interrupted.get()
    folder = left.copy()
    hidden(folder, "checkpoint")[1].unlink()
    finished = product("gemm", folder / "c.h5", *left.arguments, ranks=2, env=ON_HOST)
    assert "resumed_tiles" not in finished.values, finished
    assert stored(folder / "c.h5").tobytes() == left.expected, finished
    expect_only_result(folder)
    shutil.rmtree(folder)


skip_without_blas()
main()
