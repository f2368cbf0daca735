#!/usr/bin/python3
"""Output for programs: --json has the keys and the numbers of the lines, --quiet prints nothing,
lists can be run by a shell, and the completions and the man page know every option."""

import json
import pathlib
import re
import shutil
import subprocess

import h5py
import numpy as np

from harness import (OPS, each, environment, expect_complaint, expect_words, experiments, main,
                     new_folder, run, skip_part)
from studies import QUICK

MODEL = [*QUICK[:-2], "--model.work", "20ms", "--measure.repeat", 2, "--scale.ranks", "1,2",
         "--scale.replicates", 1, "--scale.timeline", "false"]
NO_MPI = {"OMPI_MCA_pml": "nonsense", "HOME": None}  # makes MPI_Init of Open MPI fail
THEORY = ["bandwidth", "--bandwidth.clock", 877, "--bandwidth.width", 4096]


def as_json(*arguments, **how):
    finished = run(*arguments, "--json", **how).expect(0)
    assert finished.out.isascii(), finished
    return json.loads(finished.out)


def section_on_keys():
    page = pathlib.Path(__file__).resolve().parents[2] / "src/execution/README.md"
    return page.read_text().split("\n## Keys\n")[1].split("\n## ")[0]


def rows_on_keys():
    """The first and the last cell of each row of the tables of keys in the README."""
    return re.findall(r"^\| (`.*?) \|(?: .* \|)* (.*) \|$", section_on_keys(), flags=re.MULTILINE)


def expect_keys_of_tables(command, found):
    """All tables and their columns are in the row of the command, or in the table about them."""
    texts = [last for first, last in rows_on_keys() if first == f"`{command}`"]
    texts += re.findall(rf"^The tables of `{command}`:\n\n((?:\|.*\n)+)", section_on_keys(),
                        flags=re.MULTILINE)
    (words,) = [re.findall(r"`([^`]+)`", text) for text in texts]
    keys = {key for table in (key for key in found if key != "units")
            for key in (table, *found[table][0])}
    assert keys <= set(words), (keys, words)


def documented_keys():
    """A pattern for the keys in the table of the README: OP, CEILING and UNIT stand for words."""
    keys = [key for first, _ in rows_on_keys() for key in re.findall(r"`([^`]+)`", first)]
    assert len(keys) > 40, keys
    words = {"OP": "|".join(map(re.escape, [*OPS, "quantile(0.5)"])), "CEILING": r"[\w-]+",
             "UNIT": r"\w+"}
    return re.compile("|".join(re.sub("OP|CEILING|UNIT", lambda word: f"({words[word[0]]})", key)
                               for key in keys))


def test_json_has_the_keys_of_the_lines():
    folder, documented = new_folder(), documented_keys()
    for name, arguments in (("sum", ["run", "reduce", "--input.count", 1000]),
                            ("bins", ["run", "histogram", "--input.count", 1000,
                                      "--histogram.range", "0,1"]),
                            ("c", ["run", "gemm", "--gemm.m", 20, "--gemm.n", 30, "--gemm.k", 10]),
                            ("i", ["run", "gemm", "--gemm.m", 20, "--gemm.n", 30, "--gemm.k", 10,
                                   "--product.precision", "fp32-int8"]),
                            ("x", ["generate", "--input.count", 50])):
        out = folder / f"{name}.h5"
        to = f"{out}:/x" if name == "x" else out
        lines = run(*arguments, "-o", to).expect(0).out.splitlines()
        units = dict(re.findall(r"^([\w-]+)=[-\d]\S* (\S+)$", "\n".join(lines), flags=re.MULTILINE))
        found = as_json(*arguments, "-o", to, "--output.overwrite", "true")
        assert found.pop("units") == units, (found, units)
        assert list(found) == [line.split("=")[0] for line in lines], (found, lines)
        if name != "x":
            assert all(documented.fullmatch(key) for key in found), (found, documented)
        if name == "sum":
            printed = dict(line.split("=", 1) for line in lines)
            for key in ("count", "sum", "mean", "min", "max", "ranks"):
                assert found[key] == float(printed[key]), (key, found, printed)
            with h5py.File(out) as file:
                stored = {row["metric"].decode(): row["number"] for row in file["metrics"][...]}
            for key in ("sum", "mean", "variance", "max"):  # max has the digits of an f32
                assert abs(stored[key] - found[key]) <= 1e-7 * stored[key], (stored, found)


def test_json_keeps_all_digits_and_has_null_for_nan():
    out = new_folder() / "r.h5"
    found = as_json("run", "reduce", "--input.data", "ramp", "--input.type", "i64",
                    "--input.count", "2^28", "--reduce.ops", "sum", "-o", out)
    assert found["sum"] == 2**27 * (2**28 - 1), found
    with h5py.File(out.with_name("nan.h5"), "w") as file:
        file["x"] = [1.0, float("nan")]
    found = as_json("run", "reduce", "--input.data", f"{out.with_name('nan.h5')}:/x",
                    "--reduce.missing", "propagate", "--reduce.ops", "mean", "-o", out,
                    "--output.overwrite", "true")
    assert found["mean"] is None and found["nans"] == 1, found


def test_integers_beyond_2_to_the_53():
    """They keep all digits, or a line on standard error says that they are rounded."""
    path = new_folder() / "x.h5"
    values = np.array([[2**53 + 1, 2**53 + 3], [2**60 + 1, -2**60 - 1]])
    with h5py.File(path, "w") as file:
        file["x"], file["times"] = values, np.array([2**60 + 1, 2**60 + 2])
        file["times"].make_scale("times")
        file["x"].dims[0].attach_scale(file["times"])
    to = ["-o", path.with_name("r.h5"), "--output.overwrite", "true"]
    found = as_json("run", "reduce", "--input.data", f"{path}:/x", "--reduce.over", "times",
                    "--reduce.ops", "min,max,sum", *to)
    for op in ("min", "max", "sum"):
        of_cells = getattr(values, op)(axis=0)
        assert [found[f"{op}_{end}"] for end in ("smallest", "largest")] == [
            of_cells.min(), of_cells.max()], found
    for arguments, words in (
            (["reduce", "--reduce.over", 1, "--reduce.ops", "sum"], ["times", "2^53"]),
            (["gram"], [path, "fp64", "2^53"])):
        told = run("run", *arguments, "--input.data", f"{path}:/x", *to).expect(0)
        expect_words(told.err, words, told)
    rows = f"{path}:/x[times=2:]"
    expect_complaint(run("run", "reduce", "--input.data", rows, *to), 2, [rows[-9:], "2^53"])


def test_json_of_plans_lists_and_experiments():
    sizes = ["--gemm.m", 512, "--gemm.n", 512, "--gemm.k", 512, "--device.backend", "host"]
    dry = ["run", "gemm", *sizes, "--dry-run"]
    (plan,) = as_json(*dry, "--ranks", 2, env=NO_MPI)["predictions"]
    plans = as_json(*dry, "--ranks", "1,2,4", env=NO_MPI)
    assert [row["ranks"] for row in plans["predictions"]] == [1, 2, 4], plans
    assert plans["predictions"][1]["time"] == plan["time"] > 0, plans
    expect_keys_of_tables("run --dry-run", plans)
    one, two, _ = plans["predictions"]
    assert plan["speedup"] == two["speedup"] == one["time"] / two["time"] > 1, plans
    for row in plans["predictions"]:
        of = {each["limit"]: each["time"] for each in plans["limits"]
              if each["ranks"] == row["ranks"]}
        assert row["bound_by"] == max(of, key=of.get) and of[row["bound_by"]] <= row["time"], plans
        told = run(*dry, "--ranks", row["ranks"], env=NO_MPI).expect(0).out
        assert f"bound by {row['bound_by']} " in told, told
        if row["ranks"] > 1:
            assert f"speedup: {row['speedup']:.4g} over 1 rank" in told, told
    assert all(each["device_memory"] < each["device_memory_limit"] for each in plans["memory"])
    rates = {each["ceiling"]: each["rate"] for each in plans["rates"]}
    assert rates["multiply_fp32"] == 400, plans
    assert {row["ranks"] for row in plans["lines"]} == {1, 2, 4}, plans
    text = run(*dry, "--ranks", "1,2,4", env=NO_MPI).expect(0).out.splitlines()
    assert [line.split()[1] for line in text] == ["ranks", "1", "2", "4"], text
    for precision, other in (("fp64", "product.precision=fp64-int8"), ("tf32", "")):
        large = ["run", "gemm", *(word.replace("512", "2^16") for word in map(str, sizes[:-1])),
                 "cuda", "--product.precision", precision, "--output.store", "false", "--dry-run"]
        rows = as_json(*large, "--ranks", "2,4", env=NO_MPI)["predictions"]
        assert [row["faster"] for row in rows] == [other] * 2, rows
        assert all((row["faster_time"] or 0) < 0.9 * row["time"] for row in rows), rows
        for ranks in ("4", "2,4"):
            text = run(*large, "--ranks", ranks, env=NO_MPI).expect(0).out
            assert ("faster" in text) == bool(other) == ("fp64-int8" in text), text
    expect_complaint(run(*dry, "--ranks", "1,,2"), 2, ["--ranks"])
    expect_complaint(run(*dry, "--ranks", "1,0"), 2, ["--ranks", "0"])

    listed = as_json("scale", "model", *MODEL, "--list", "-o", new_folder() / "s")
    (study,) = listed["study"]
    expect_keys_of_tables("scale --list", listed)
    assert study["launches"] == len(listed["launches"]) == 3, listed
    assert [row["ranks"] for row in listed["sizes"]] == [1, 2], listed
    total = sum(row["time"] * row["nodes"] for row in listed["launches"]) / 3600
    assert abs(study["node_hours"] - total) < 1e-9 * total and study["gpu_hours"] == 0, listed
    gpus = as_json("scale", "gemm", *sizes[:-1], "cuda", "--scale.ranks", "1,4", "--list",
                   "--scale.ranks-per-node", 2, "-o", new_folder() / "s")
    for row in gpus["sizes"]:
        nodes = max(1, row["ranks"] // 2)
        assert abs(row["node_hours"] / row["gpu_hours"] - nodes / row["ranks"]) < 1e-9, gpus

    expect_keys_of_tables("scale --predict", as_json("scale", "--predict", "0,1",
                                                     "--scale.ranks", 4))
    listed = as_json("bench", "--list")
    expect_keys_of_tables("bench --list", listed)
    assert {row["name"]: row["group"] for row in listed["experiments"]} == experiments(), listed
    assert run("bench", "--list", "--quiet").expect(0).out == ""

    bench = as_json("bench", *THEORY)
    ((row,), (experiment,)) = bench["experiments"][0]["rows"], bench["experiments"]
    assert experiment["name"] == "bandwidth" and abs(row["rate"] - 898) < 1, bench


def test_json_of_a_search():
    found = as_json("bench", "--search", "Strided accesses")
    expect_keys_of_tables("bench --search", found)
    assert ("stride", "read_on") in {(row["name"], row["field"]) for row in found["matches"]}


def test_quiet_commands_print_nothing():
    folder = new_folder()
    each([(["run", "reduce", "--input.count", 10, "-o", folder / "r.h5"],),
          (["generate", "--input.count", 10, "-o", f"{folder}/g.h5:/x"],),
          (["scale", "model", *MODEL, "-o", folder / "study"],),
          (["info"],), (["bench", *THEORY],)], quiet)
    quiet(["report", folder / "study"])
    quiet(["compare", folder / "study", folder / "study/p1-r1.h5"], code=2)
    assert (folder / "r.h5").exists() and (folder / "study/p2-r1.h5").exists()
    expect_complaint(run("run", "reduce", "--quiet", "--input.count", -1), 2, ["input.count"])
    expect_complaint(run("run", "reduce", "--quiet", "--json"), 2, ["--quiet", "--json"])
    expect_complaint(run("run", "reduce", "--json", "out.json"), 2, ["--json", "out.json"])


def quiet(arguments, code=0):
    finished = run(*arguments, "--quiet").expect(code)
    assert finished.out == "" and (finished.err == "" or code != 0), finished


def test_repetitions_show_progress():
    """A line appears after 5 s, also if each repetition takes less."""
    repeated = ["--measure.repeat", "auto", "--measure.precision", 0.0001, "--measure.max-time",
                "8s"]

    def check(what, is_quiet, *arguments):
        finished = run("run", *arguments, *repeated, *["--quiet"] * is_quiet, "-o",
                       new_folder() / "out.h5").expect(0)
        lines = [line for line in finished.err.splitlines() if line.startswith(f"{what}: ")]
        assert bool(lines) != is_quiet, finished
    reduced = ["reduce", "--input.count", "2^24"]
    multiplied = ["gemm", "--gemm.m", 512, "--gemm.n", 512, "--gemm.k", 512]
    each([("streaming", False, *reduced), ("streaming", True, *reduced),
          ("multiplying", False, *multiplied), ("multiplying", True, *multiplied)], check)


def test_a_shell_runs_a_list_in_an_empty_folder():
    folder = new_folder()
    commands = run("scale", "model", *MODEL, "--list", "-o", "new/study", cwd=folder).expect(0).out
    done = subprocess.run(["bash", "-euo", "pipefail"], input=commands, cwd=folder, check=False,
                          env=environment(ranks=2), capture_output=True, text=True)
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    assert "p2-r1" not in run("scale", "model", *MODEL, "--list", "-o", "new/study",
                              cwd=folder).expect(0).out
    assert "2 launches" in run("report", "new/study", cwd=folder).expect(0).out
    (folder / "new/study/p2-r1.h5").unlink()  # the study goes on from here
    run("scale", "model", *MODEL, "-o", "new/study", cwd=folder).expect(0)
    assert len((folder / "new/study/attempts.jsonl").read_text().splitlines()) == 1, commands


def test_no_output_goes_to_standard_output():
    """The message says so, and no file named - appears."""
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, "-o", folder / "r.h5").expect(0)
    each([(arguments,) for arguments in (
        ["run", "reduce", "--input.count", 10, "-o", "-"], ["bench", *THEORY, "-o", "-"],
        ["generate", "--input.count", 10, "--output.file=-:/x"], ["report", "r.h5", "-o", "-"])],
         lambda arguments: expect_complaint(run(*arguments, cwd=folder), 2, ["standard output"]))
    assert [path.name for path in folder.iterdir()] == ["r.h5"]


def completed(script, *words):
    """The words that bash offers for the last of `words`."""
    done = subprocess.run(
        ["bash", "-c", f'{script}\nCOMP_WORDS=("$@") COMP_CWORD=$(($# - 1))\n_shardstream\n'
                       'printf "%s\\n" "${COMPREPLY[@]}"', "bash", "shardstream", *words],
        capture_output=True, text=True, check=False, cwd=new_folder())
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.split()


def test_bash_completes_words_options_and_choices():
    script = run("completion", "bash", env=NO_MPI).expect(0).out
    for words, found in ((["r"], ["run", "report"]), (["run", "hist"], ["histogram"]),
                         (["bench", "str"], ["stride"]), (["run", "--gemm.m"], ["--gemm.m"]),
                         (["run", "reduce", "--dry"], ["--dry-run"]),
                         (["run", "gemm", "--product.precision", "t"], ["tf32"]),
                         (["run", "gemm", "--product.precision", "=", "t"], ["tf32"]),
                         (["bench", "stride", "--stride.m"], ["--stride.most"]),
                         (["compare", "--thr"], ["--threshold"]),
                         (["run", "reduce", "--reduce.ops", "sum,var"], ["sum,variance"]),
                         (["completion", "z"], ["zsh"])):
        assert completed(script, *words) == found, (words, completed(script, *words))
    assert "--gemm.m" not in completed(script, "generate", "--"), script
    assert "ramp" not in completed(script, "run", "reduce", "--input.data", ""), script
    for words in (["completion"], ["completion", "bash", "zsh"], ["man", "run"]):
        expect_complaint(run(*words, env=NO_MPI), 2, [words[0]])
    assert "completion bash" in run("completion", "--help", env=NO_MPI).expect(0).out
    expect_complaint(run("completion", "fish", env=NO_MPI), 2, ["'fish'", "bash or zsh"])


def test_zsh_and_man_page_have_every_option():
    zsh, page = (run(*words, env=NO_MPI).expect(0).out
                 for words in (["completion", "zsh"], ["man"]))
    for option in re.findall(r"--([a-z]+\.[a-z-]+) ", run("run", "--help").expect(0).out):
        assert f"--{option}=[" in zsh, option
        assert f"\\-\\-{option} ".replace("-", "\\-").replace("\\\\-", "\\-") in page, option
    for command in (["zsh", "-n"], ["groff", "-man", "-Tascii", "-ww"]):
        if shutil.which(command[0]) is None:
            skip_part(f"{command[0]} is missing")
            continue
        done = subprocess.run(command, input=zsh if command[0] == "zsh" else page, text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0 and not done.stderr, done


def test_short_version():
    assert run("-V", env=NO_MPI).expect(0).out == run("--version").out


main()
