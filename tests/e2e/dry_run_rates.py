#!/usr/bin/python3
"""`run WORKLOAD --dry-run` with the rates of an earlier result (`--rates`): which rates are used,
which are rejected, and files that are not results."""

import pathlib
import re
import shutil
import subprocess

import h5py
import numpy as np

from dry_runs import dry, expect, with_sizes
from harness import (HANGS, PROGRAM, check_complaints, each, environment, expect_complaint, main,
                     new_folder, run)
from products import FLOATS

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
ON_HOST = {"SHARDSTREAM_DEVICE_BACKEND": "host"}


def test_files_and_measured_rates():
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["A"] = np.ones((100, 80), "f4")
        file["B"] = np.ones((80, 60), "f8")
    inputs = ["--input.a", f"{folder}/in.h5:/A", "--input.b", f"{folder}/in.h5:/B",
              "--product.precision", "fp32"]
    result = folder / "out.h5"
    run("run", "gemm", *inputs, "-o", result, env=ON_HOST).expect(0)
    with h5py.File(result) as file:
        rates = {row["ceiling"].decode(): row["per_rank_min"] for row in file["ceilings"][:]}
    text = dry("gemm", *inputs, "--rates", result)
    expect(text, "C: 100 x 60 in fp32", result, f"link_up {rates['link_up']:.4g} GB/s",
           f"multiply_fp32 {rates['multiply_fp32']:.4g} Gflop/s", "device memory")
    assert "assumed" not in text and "--rates" not in text, text
    # Missing rates are assumed: all-gathers of two ranks, another precision.
    text = dry("gemm", *inputs, "--rates", result, "--ranks", 2, "--product.precision", "fp64",
               warnings=[["1 of 2 ranks"],
                         ["--rates", f"'{result}', a result of gemm, ", "so it is assumed",
                          "  used: link_up, link_down, device_copy\n",
                          "  not used: panel_feed, ", "fp32", "fp64", "panel_read, ",
                          "  no limit of this run: multiply_fp32\n",
                          "  missing: all_gather, multiply_fp64\n"]])
    expect(text, "assumed", "all_gather 5 GB/s", "multiply_fp64 200 Gflop/s")
    assert "all_gather 5 GB/s between" not in text, text
    assert sorted(path.name for path in folder.iterdir()) == ["in.h5", "out.h5"]

    ini = folder / "job.ini"
    ini.write_text(f"[run]\nworkload = gemm\n"
                   f"[input]\na = {folder}/in.h5:/A\nb = {folder}/in.h5:/B\n"
                   "[product]\nprecision = fp32\n")
    # Rates of readers of other data do not apply.
    for others in (["--input.a", "uniform", "--gemm.m", 100, *inputs[2:]],
                   [*inputs, "--pipeline.mode", "pageable"]):
        text = dry("gemm", *others, "--rates", result,
                   warnings=[["link_up, link_down, multiply_fp32, device_copy", "panel_read",
                              "panel_feed", "f32"]])
        assert "panel_read" not in text and "panel_feed" not in text, text
    expect(dry(ini, env=ON_HOST), "dry run of gemm on 1 rank, 1 per host", "C: 100 x 60 in fp32")


def test_results_in_every_precision_have_rates():
    folder = new_folder()

    def rates_of(precision):
        result = folder / f"{precision}.h5"
        product = ["gemm", "--gemm.m", 60, "--gemm.n", 40, "--gemm.k", 100, "--product.precision",
                   precision, "--input.type", "i8" if precision == "int8" else "f32"]
        run("run", *product, "-o", result, env=ON_HOST).expect(0)
        expect(dry(*product, "--rates", result), f"multiply_{precision} ")
    each([(precision,) for precision in (*FLOATS, "int8")], rates_of)


def test_predictions_are_compared_with_runs():
    """jobs/product-predictions draws the same shapes from the same seed, and rejects a folder
    with results, which may be of another program."""
    variables = environment({**ON_HOST, "CUDA_VISIBLE_DEVICES": ""}, ranks=2)

    def start(folder, seed, divide="20000"):
        return subprocess.run(
            [JOBS / "product-predictions", "--program", PROGRAM, "--ranks", "2", "--seed",
             str(seed), "--shapes", "3", "--divide", divide, folder, "--pipeline.readers", "1"],
            env=variables, capture_output=True, text=True, timeout=HANGS, check=False)

    def compared(folder, seed):
        done = start(folder, seed)
        assert done.returncode == 0, done.stderr
        first, head, *shapes, last = done.stdout.splitlines()
        assert first == f"seed: {seed}", done.stdout
        assert head.split()[-3:] == ["predicted", "measured", "ratio"], done.stdout
        assert re.fullmatch(r"\d of 3 within 15 %, median ratio [\d.]+, worst ratio [\d.]+", last)
        for line in shapes:
            predicted, measured, ratio = re.search(r"(\S+) s +(\S+) s +(\S+)$", line).groups()
            assert abs(float(measured) / float(predicted) - float(ratio)) < 1e-3, line
        return shapes

    first, second = new_folder(), new_folder()
    shapes = compared(first, 5)
    assert len(shapes) == 3 and len(list(first.glob("*.h5"))) == len(set(shapes)), shapes
    for folder, divide, name in (first, "20000", str(first)), (new_folder(), "100001", "100001"):
        rejected = start(folder, 5, divide)
        assert rejected.returncode == 1 and name in rejected.stderr, rejected
        assert not rejected.stdout, rejected

    def sizes(lines):
        return [re.split(r" +\S+ s ", line)[0] for line in lines]
    assert sizes(compared(second, 5)) == sizes(shapes)
    with h5py.File(next(first.glob("*.h5"))) as file:
        assert b"predicted" in file["metrics"]["metric"], file["metrics"][:]


def test_rates_of_other_tiles():
    """The rate of multiplying a tile does not apply to tiles of quite another size."""
    result = new_folder() / "out.h5"

    def sizes(m, n, k):
        return ["--gemm.m", m, "--gemm.n", n, "--gemm.k", k]
    run("run", "gemm", *sizes(1, 1, 1), "-o", result, env=ON_HOST).expect(0)
    text = dry("gemm", "--rates", result, env=ON_HOST,
               warnings=[["--rates", "multiply_fp32", result, "2 x 2 x 1"]])
    expect(text, "assumed", "multiply_fp32 400 Gflop/s")
    result = result.with_name("300.h5")
    run("run", "gemm", *sizes(300, 300, 300), "-o", result, env=ON_HOST).expect(0)
    with h5py.File(result) as file:
        tile = " x ".join(str(file["results"].attrs[f"tile_{edge}"]) for edge in "mnk")
    expect(dry("gemm", *sizes(260, 310, 270), "--rates", result, env=ON_HOST), "multiply_fp32 ")
    for others in ((20, 300, 300), (300, 20, 300), (300, 300, 20)):
        dry("gemm", *sizes(*others), "--rates", result, env=ON_HOST,
            warnings=[["--rates", "multiply_fp32", tile]])


def test_rates_of_other_readers():
    """Rates of reading centred data only apply to centred data."""
    folder = new_folder()
    sizes = ["--gram.rows", 900, "--gram.columns", 200]
    run("run", "covariance", *sizes, "-o", folder / "c.h5", env=ON_HOST).expect(0)
    assert "panel_read" in dry("covariance", *sizes, "--rates", folder / "c.h5", env=ON_HOST)
    dry("gram", *sizes, "--rates", folder / "c.h5", env=ON_HOST, warnings=[
        ["--rates", "  not used: panel_read, ", "to be centred or scaled"]])


def test_rates_without_readers():
    """A result from pinned memory has no rates of readers, and needs none."""
    folder = new_folder()
    sizes = ["--gemm.m", 300, "--gemm.n", 300, "--gemm.k", 300]
    pinned = ["--pipeline.mode", "pinned"]
    for name, mode in (("stream", []), ("pinned", pinned)):
        run("run", "gemm", *sizes, *mode, "-o", folder / f"{name}.h5", env=ON_HOST).expect(0)
        text = dry("gemm", *sizes, *pinned, "--rates", folder / f"{name}.h5", env=ON_HOST)
        assert "panel_" not in text and "readers" not in text, text
    dry("gemm", *sizes, "--rates", folder / "pinned.h5", env=ON_HOST,
        warnings=[["--rates", "  missing: panel_feed or panel_read\n"]])
    for mode in ("mapped", "resident"):
        expect_complaint(run("run", "gemm", *sizes, "--pipeline.mode", mode, "--dry-run"), 2,
                         ["pipeline.mode", mode, "pinned"])


def test_rates_without_sizes():
    """Results of earlier versions do not have the sizes of tiles as numbers. Their rates of
    products count as measured under unknown conditions; their other rates are used."""
    folder = new_folder()
    sizes = ["--gemm.m", 300, "--gemm.n", 300, "--gemm.k", 300]
    run("run", "gemm", *sizes, "-o", folder / "new.h5", env=ON_HOST).expect(0)
    with h5py.File(folder / "new.h5", "r+") as file:
        ceilings = file["ceilings"][:]
        del file["ceilings"]
        sizes_of_tiles = ("tile_m", "tile_n", "tile_k", "lanes", "fold")
        file["ceilings"] = ceilings[[name for name in ceilings.dtype.names
                                     if name not in sizes_of_tiles]]
    text = dry("gemm", *sizes, "--rates", folder / "new.h5", env=ON_HOST, warnings=[
        ["--rates", "used: link_up, panel_read, panel_feed, link_down, device_copy\n",
         "  not used: multiply_fp32, ",
         "unknown conditions"]])
    expect(text, "assumed", "multiply_fp32 400 Gflop/s")


def test_runs_plan_with_given_rates():
    """With --rates, every run stores the same plan with the same predicted time, computed from the
    file. Without it, each run measures its own rates."""
    folder = new_folder()
    cases = {"gemm": ["--gemm.m", 900, "--gemm.n", 800, "--gemm.k", 700],
             "gram": ["--gram.rows", 20000, "--gram.columns", 300]}

    def plan_of(workload, number, rates):
        out = folder / f"{workload}-{number}.h5"
        finished = run("run", workload, *cases[workload], "--pipeline.gpu-memory", "256MiB",
                       *(["--rates", rates] if rates else []), "-o", out, ranks=2, env=ON_HOST)
        finished.expect(0)
        assert "--rates" not in finished.err, finished
        with h5py.File(out) as file:
            assert file["config"].attrs["measure.rates"] == str(rates or "")
            return str(file["results"].attrs["plan"])
    for workload in cases:
        plan_of(workload, "own", None)
        own, slow = folder / f"{workload}-own.h5", folder / f"{workload}-slow.h5"
        plans = {plan_of(workload, number, own) for number in range(3)}
        assert len(plans) == 1, plans
        shutil.copy(own, slow)
        with h5py.File(slow, "r+") as file:
            ceilings = file["ceilings"][:]
            ceilings["per_rank_min"][ceilings["ceiling"] == b"link_down"] = 1e-6
            file["ceilings"][:] = ceilings
        plan, = {plan_of(workload, number, slow) for number in ("a", "b")}
        assert "bound by download" in plan, plan
        # The file is an input, which a result does not replace.
        check_complaints([(["run", workload, *cases[workload], "--rates", own, "-o", own,
                            "--output.overwrite", "true"], 2, [str(own)], ON_HOST)], ranks=(1,))


def test_a_reduction_by_measured_rates():
    """The predicted rate is the lower one of reading the source and of the link."""
    folder = new_folder()
    with h5py.File(folder / "in.h5", "w") as file:
        file["plain"] = np.ones(2**22, "f4")
        file.create_dataset("packed", data=np.ones(2**22, "f4"), chunks=(2**16,),
                            compression="gzip")
    for name in ("plain", "packed"):
        data, result = ["--input.data", f"{folder}/in.h5:/{name}"], folder / f"{name}.h5"
        run("run", "reduce", *data, "-o", result, env=ON_HOST).expect(0)
        with h5py.File(result) as file:
            rates = {row["ceiling"].decode(): row["per_rank_min"] for row in file["ceilings"][:]}
        bound = min(rates, key=rates.get)
        assert ("decode" in rates) == (name == "packed") and len(rates) >= 2, rates
        text = dry("reduce", *data, "--rates", result, env=ON_HOST)
        expect(text, *(f"{each} {rate:.4g} GB/s" for each, rate in rates.items()),
               f"bound by {bound}\n")
        if name == "packed":  # its rate does not apply to plain data
            text = dry("reduce", "--input.data", f"{folder}/in.h5:/plain", "--rates", result,
                       env=ON_HOST,
                       warnings=[["decode", "page_cache_read", "storage_read"]])
            expect(text, "bound by link_up;")
            # Nor does it apply to other generated data.
            text = dry("reduce", "--rates", result, env=ON_HOST,
                       warnings=[["link_up", "decode", "f32", "generated"]])
            expect(text, "bound by link_up;")


def test_rates_that_are_no_result_of_a_run():
    """--rates accepts any file: contents that no run writes give an error that names option, file
    and value."""
    folder = new_folder()
    result = folder / "result.h5"
    run("run", "gemm", "--gemm.m", 8, "--gemm.n", 8, "--gemm.k", 8, "-o", result,
        env=ON_HOST).expect(0)

    def with_column(path, name, values):
        def change(file):
            table = file[path][:]
            columns = {each: table[each] for each in table.dtype.names if each != name}
            if values is not None:
                columns[name] = np.array(values if isinstance(values, list)
                                         else [values] * len(table))
            types = [(each, h5py.string_dtype() if column.dtype == object else column.dtype)
                     for each, column in columns.items()]
            changed = np.empty(len(table), types)
            for each, column in columns.items():
                changed[each] = column
            del file[path]
            file[path] = changed
        return change

    def with_rows(path, rows):
        def change(file):
            columns = file[path].dtype
            del file[path]
            file.create_dataset(path, (rows,), columns, chunks=(1024,), maxshape=(None,))
        return change

    def with_attribute(group, name, value):
        return lambda file: file[group].attrs.__setitem__(name, value)

    def without(path):
        return lambda file: file.__delitem__(path)

    def as_link(file):
        file.move("ceilings", "moved")
        file["ceilings"] = h5py.ExternalLink("/dev/zero", "/x")

    def with_small_gpu(file):
        gpu = np.zeros(1, file["topology/gpus"].dtype)
        gpu["memory"] = 7
        del file["topology/gpus"]
        file["topology/gpus"] = gpu

    cases = [
        (with_attribute("/", "schema", "other"), ["result"]),
        (with_attribute("/", "schema_version", 2), ["schema_version", 2]),
        (with_attribute("/", "schema_version", "one"), ["schema_version"]),
        (with_attribute("/", "status", "a\nb"), ["status", "a\\x0ab"]),
        (with_attribute("config", "run.workload", "a sort"), ["workload", "a sort"]),
        (with_column("ceilings", "conditions", None), ["/ceilings", "conditions"]),
        (with_column("ceilings", "conditions", 5), ["/ceilings", "conditions"]),
        (without("ceilings"), ["/ceilings"]),
        (without("topology"), ["/topology/ranks"]),
        (as_link, ["/ceilings", "link"]),
        (with_column("ceilings", "ceiling", None), ["/ceilings", "ceiling"]),
        (with_column("ceilings", "ceiling", 5), ["/ceilings", "ceiling"]),
        (with_column("ceilings", "ceiling", b"link up"), ["link up"]),
        (with_column("ceilings", "ceiling", b"link_up"), ["link_up", "twice"]),
        (with_column("ceilings", "per_rank_min", b"fast"), ["/ceilings", "per_rank_min"]),
        *((with_column("ceilings", "per_rank_min", rate), [text])
          for rate, text in ((np.nan, "nan"), (-1.0, "-1"), (0.0, 0), (np.inf, "inf"),
                             (1e300, "1e+300"))),
        (with_rows("ceilings", 0), ["/ceilings", "0 rows"]),
        (with_rows("ceilings", 1_000_000), ["/ceilings", 1000000]),
        (with_rows("ceilings", 2**40), ["/ceilings", 2**40]),
        (with_rows("topology/ranks", 0), ["/topology/ranks"]),
        (with_column("topology/ranks", "rank", 3), ["rank 3"]),
        (with_small_gpu, ["7 bytes"]),
    ]
    complaints = []
    for number, (change, words) in enumerate(cases):
        name = folder / f"{number}.h5"
        name.write_bytes(result.read_bytes())
        with h5py.File(name, "r+") as file:
            change(file)
        complaints.append((["run", *with_sizes("gemm"), "--dry-run", "--rates", name], 2,
                           ["--rates", name, *words]))
    check_complaints(complaints, ranks=(1,))


main()
