#!/usr/bin/python3
"""The host memory of a run is that of its start, its rings and at most 64 MB more, however large
the data are; and data of more than 2^31 elements. This process stays small: it does not load
numpy."""

import contextlib
import fractions
import os
import pathlib
import re
import subprocess
import sys
import time

from harness import (PROGRAM, environment, expect_complaint, main, new_folder, run, skip_part,
                     write_sparse)

MIB, MB = 2**20, 10**6
EXTRA = 64 * MB
# Rings of known size: three batches, and slots.
BATCH, BATCHES, SLOT, SLOTS = 8 * MIB, 3, MIB, 4
RINGS = BATCHES * BATCH + SLOTS * SLOT
SIZES = ["--pipeline.batch", BATCH, "--pipeline.batches", BATCHES, "--pipeline.slot", SLOT,
         "--pipeline.slots", SLOTS, "--pipeline.readers", 2]


def peak(*arguments):
    """The maximum memory of one rank in bytes, as the system counts it; the program prints the
    same."""
    output = new_folder() / "stdout"
    words = [PROGRAM, "run", "reduce", *map(str, arguments), "-o", str(output.with_name("out.h5"))]
    with open(output, "w", encoding="utf-8") as out:
        process = subprocess.Popen(words, env=environment(), stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{words}: exit code {process.returncode}"
    text = output.read_text()
    said = int(next(line for line in text.splitlines()
                    if line.startswith("host_memory_peak=")).split("=")[1].split()[0])
    measured = usage.ru_maxrss * 1024
    # The first value is from before the end; the second includes this process before exec.
    assert abs(measured - said) < 16 * MB, f"said {said}, measured {measured}"
    return max(said, measured)


def bounded(small, large, *options):
    """Checks that the peaks with little data and with much data are within the bound."""
    start = peak("--input.count", 1, "--pipeline.mode", "resident")  # without the link's ceiling
    few, many = (peak(*arguments, *options) for arguments in (small, large))
    told = f"{start / MB:.0f} MB for one element, {few / MB:.0f} for few, {many / MB:.0f} for many"
    print("  " + told)
    assert few <= start + RINGS + EXTRA and many <= start + RINGS + EXTRA, told
    assert many - few <= EXTRA, told


def elements(size, element=4):
    return ["--input.count", size // element]


def test_generator():
    bounded(elements(64 * MIB), elements(2048 * MIB), *SIZES)


def test_many_units():
    """One-byte elements: as many units as in 8 GiB of f32."""
    u8 = ["--input.data", "ramp", "--input.type", "u8"]
    bounded(elements(64 * MIB, 1), elements(2048 * MIB, 1), *u8, *SIZES)


def test_files():
    """Contiguous data that the threads read, and data converted to f64, which HDF5 reads."""
    folder = new_folder()
    script = "import sys, harness; harness.write_sparse(sys.argv[1], 'f4', int(sys.argv[2]), {})"

    def data(size):
        path = folder / f"{size}.h5"
        if not path.exists():  # another process makes it, so that this one stays small
            subprocess.run([sys.executable, "-c", script, path, str(size // 4)], check=True,
                           env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)})
        return ["--input.data", path]
    bounded(data(64 * MIB), data(2048 * MIB), *SIZES)
    bounded(data(64 * MIB), data(512 * MIB), *SIZES, "--input.type", "f64")


def test_cells_and_groups():
    """Only what is in flight has accumulators: a unit, and nodes of the tree over units; of groups
    one after another, as years are, each has only its own."""
    folder = new_folder()
    steps, cells, groups = 480, 100000, 40
    script = ("import sys, h5py, numpy; "
              "h5py.File(sys.argv[1], 'w')['year'] = numpy.arange(int(sys.argv[2])) // 12")
    subprocess.run([sys.executable, "-c", script, folder / "labels.h5", str(steps)], check=True)
    start = peak("--input.count", 1, "--pipeline.mode", "resident")
    words = ["--input.shape", f"{steps}x{cells}", "--reduce.over", 0, "--reduce.ops", "mean",
             *SIZES]
    result = cells * 8
    for options, outputs, states in (([], 1, 4), (["--reduce.by", f"{folder}/labels.h5:/year"],
                                                   groups, 1.8)):
        # A state has a count and a sum.
        room = outputs * result * 2 * states + RINGS + EXTRA
        many = peak(*words, *options)
        assert many <= start + room, f"{start / MB:.0f} and {many / MB:.0f}, {room / MB:.0f} MB"


def test_default_sizes():
    """The default rings: three batches of 64 MiB, and at most 2 slots of 4 MiB for each of 8
    readers."""
    start = peak("--input.count", 1, "--pipeline.mode", "resident")
    many = peak(*elements(2048 * MIB))
    assert many <= start + 3 * 64 * MIB + 16 * 4 * MIB + EXTRA, f"{start / MB} and {many / MB} MB"


def test_what_is_said_is_its_own():
    """The printed memory does not contain that of the parent process, which getrusage would
    count."""
    large = bytearray(300 * MB)
    large[::4096] = bytes([1]) * len(large[::4096])
    finished = run("run", "reduce", "--input.count", 10, "-o", new_folder() / "out.h5").expect(0)
    assert int(finished.values["host_memory_peak"]) < 200 * MB, finished


def test_ranks_say_the_largest():
    finished = run("run", "reduce", *elements(512 * MIB), *SIZES, "-o", new_folder() / "out.h5",
                   ranks=2).expect(0)
    assert RINGS < int(finished.values["host_memory_peak"]) < RINGS + 200 * MB, finished


# ---------------------------------------------------------------- control groups

def new_group(limit):
    """The folder of a new control group whose processes have `limit` bytes of memory together;
    None if this system or this user cannot have one."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = pathlib.Path("/sys/fs/cgroup/memory" if controllers else "/sys/fs/cgroup")
        group = root / own.lstrip("/") / f"shardstream-test-{os.getpid()}-{limit}"
        if not group.parent.is_dir():
            group = root / group.name  # in a container
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                # Opened first: without control groups, this may be an ordinary folder.
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                with open(group / name, "r+", encoding="utf-8") as file:
                    file.write(str(limit))
                return group
            except OSError:
                group.rmdir()
    return None


@contextlib.contextmanager
def control_group(limit):
    group = new_group(limit)
    try:
        yield group
    finally:
        for _ in range(100 if group else 0):
            with contextlib.suppress(OSError):  # the last process may still be ending
                group.rmdir()
                break
            time.sleep(0.05)


def test_little_memory():
    """A plan leaves room for the process itself: in a small control group, a run succeeds, or is
    rejected with the memory that it needs; the system never kills it."""
    def run_in(group, *words):
        join = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        return run("run", *words, "-o", new_folder() / "out.h5", prefix=join)
    gram = ["covariance", "--gram.rows", 600, "--gram.columns", 12000, "--output.store", "false"]
    reduce = ["reduce", *elements(512 * MIB), "--pipeline.slots", 2]
    with control_group(350 * MB) as group:
        if group is None:
            return skip_part("control groups with a limit of memory need root and a controller")
        product = run_in(group, *gram)
        if "without a CBLAS" not in product.err:
            product.expect(0)
        rejected = run_in(group, *reduce, "--pipeline.batches", 64, "--pipeline.batch", 8 * MIB)
        expect_complaint(rejected, 2, ["--pipeline.batch"])
        batch = re.search(r"--pipeline.batch (\d+)B", rejected.err)[1]
        run_in(group, *reduce, "--pipeline.batches", 64, "--pipeline.batch", batch).expect(0)
    with control_group(60 * MB) as group:
        expect_complaint(run_in(group, *reduce), 2, ["memory"])


# ---------------------------------------------------------------- more than 2^31 elements

COUNT = 2**31 + 3


def expect_moments(values, count, total, squares):
    """The sum is exact. The others are within the rounding errors of the order of additions: an
    element takes part in at most 1024 additions in its lane, one for each level of the trees, and a
    few more."""
    assert int(values["count"]) == count and int(values["sum"]) == total, values
    mean = fractions.Fraction(total, count)
    variance = fractions.Fraction(squares, count) - mean**2
    bound = (1024 + 10 + 16 + 8) * fractions.Fraction(1, 2**53)
    for op, exact in (("mean", mean), ("variance", variance)):
        error = abs(fractions.Fraction(float(values[op])) - exact)
        assert error <= bound * exact, (op, values[op], float(exact))


def test_ramp_of_more_than_2_31():
    values = run("run", "reduce", "--input.data", "ramp", "--input.type", "u8", "--input.count",
                 COUNT, "-o", new_folder() / "out.h5", ranks=2).expect(0).values
    rounds, rest = divmod(COUNT, 256)
    total = rounds * sum(range(256)) + sum(range(rest))
    squares = rounds * sum(i * i for i in range(256)) + sum(i * i for i in range(rest))
    expect_moments(values, COUNT, total, squares)
    assert (values["min"], values["min_position"]) == ("0", "0"), values
    assert (values["max"], values["max_position"]) == ("255", "255"), values


def test_positions_beyond_2_31():
    """A sparse file of zeros, except for two of its last elements."""
    path = new_folder() / "in.h5"
    places = {2**31 + 1: 200, 2**31 + 2: 7, 5: 9}
    write_sparse(path, "u1", COUNT, places)
    assert path.stat().st_blocks * 512 < 16 * MIB
    values = run("run", "reduce", "--input.data", path, "-o", path.with_name("out.h5"),
                 ranks=3).expect(0).values
    expect_moments(values, COUNT, sum(places.values()), sum(v * v for v in places.values()))
    assert (values["max"], values["max_position"]) == ("200", str(2**31 + 1)), values
    assert (values["min"], values["min_position"]) == ("0", "0"), values


main()
