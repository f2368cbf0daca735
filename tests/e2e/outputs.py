#!/usr/bin/python3
"""Files that commands write: no option lets an output replace an input, a foreign file without
permission, or anything that is not a regular file. An output is complete or does not exist."""

import os
import pathlib
import shutil
import subprocess

import h5py
import numpy as np

from harness import (PROGRAM, Finished, each, environment, expect_complaint, main,
                     new_folder, run)

EXAMPLE = (pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/reduce-file-strong")
ANYTHING = ["--output.overwrite", "anything"]

# The options of report that write: option, value in a folder, file that it writes there.
WRITERS = [("-o", "page.html", "page.html"), ("--extra-p", "times.jsonl", "times.jsonl"),
           ("--csv", "tables", "tables/reduce-file-strong-*.csv"),
           ("--svg", "figures", "figures/s1-speedup.svg")]
NAMED = {"-o": "output.file"}


def study():
    """A copy of the example, which a test may damage."""
    folder = new_folder() / "study"
    shutil.copytree(EXAMPLE, folder)
    return folder


def contents_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def written_by(option, value, pattern, folder):
    """The file that the option writes into an empty folder."""
    out = new_folder()
    run("report", folder, option, out / value).expect(0)
    file = next(iter(sorted(out.glob(pattern))))
    assert not [path for path in out.rglob("*") if path.name.startswith(".")], out
    return file.relative_to(out)


def test_outputs_of_report_replace_nothing_unasked():
    folder = study()

    def check(option, value, pattern):
        file = written_by(option, value, pattern, folder)
        out = new_folder()
        target = out / file
        target.parent.mkdir(exist_ok=True)
        command = ["report", folder, option, out / value]
        named = [target, NAMED.get(option, option)]
        target.write_text("mine")
        expect_complaint(run(*command), 2, [*named, "--output.overwrite anything"])
        own = ["--output.overwrite", "true"]
        expect_complaint(run(*command, *own), 2, [*named, "--output.overwrite anything"])
        assert target.read_text() == "mine"
        run(*command, *ANYTHING).expect(0)
        assert target.read_text() != "mine"
        before = contents_of(out)
        expect_complaint(run(*command), 2, ["already exists", "--output.overwrite true"])
        assert contents_of(out) == before
        run(*command, *own).expect(0)
        assert contents_of(out) == before
    each(WRITERS, check)


def test_outputs_of_report_are_no_inputs():
    """They replace neither a result nor a file of its study, not even through a link."""
    folder = study()
    result = next(iter(sorted(folder.glob("p1-*.h5"))))
    before = contents_of(folder)

    def check(option, value, pattern, source, link):
        file = written_by(option, value, pattern, folder)
        target = new_folder() / file
        target.parent.mkdir(exist_ok=True)
        if link == "hard":
            target.hardlink_to(source)
        else:
            target.symlink_to(source)
        out = target.parent if len(file.parts) > 1 else target
        expect_complaint(run("report", folder, option, out, *ANYTHING), 2,
                         [target, source, "input", NAMED.get(option, option)])
        assert target.samefile(source), target
    each([(*writer, source, link) for writer in WRITERS
          for source in (result, folder / "study.ini") for link in ("hard", "soft")], check)
    for option in ("-o", "--extra-p"):
        for source in (result, folder / "attempts.jsonl"):
            expect_complaint(run("report", folder, option, source, *ANYTHING), 2,
                             [source, "input", NAMED.get(option, option)])
    assert contents_of(folder) == before


def test_outputs_of_report_are_regular_files():
    folder = study()

    def check(option, value, pattern):
        file = written_by(option, value, pattern, folder)
        out = new_folder()
        target, other = out / file, out / "other"
        target.parent.mkdir(exist_ok=True)
        other.write_text("mine")
        command = ["report", folder, option, out / value, *ANYTHING]
        target.symlink_to(other)
        expect_complaint(run(*command), 2, [target, other, "symbolic link"])
        assert other.read_text() == "mine" and target.is_symlink()
        target.unlink()
        target.symlink_to("nowhere")
        expect_complaint(run(*command), 2, [target, "symbolic link"])
        assert not (target.parent / "nowhere").exists()
        target.unlink()
        os.mkfifo(target)
        expect_complaint(run(*command, timeout=20), 2, [target, "FIFO"])
        assert target.is_fifo()
    each(WRITERS, check)


def test_a_link_is_no_output_of_a_run():
    def check(*command):
        out = new_folder()
        (out / "other.h5").write_text("mine")
        (out / "link.h5").symlink_to("other.h5")
        (out / "broken.h5").symlink_to("nowhere.h5")
        for name in ("link.h5", "broken.h5"):
            suffix = ":/x" if command[0] == "generate" else ""
            expect_complaint(run(*command, "-o", f"{out / name}{suffix}", *ANYTHING), 2,
                             [out / name, "symbolic link", "output.file"])
            assert (out / name).is_symlink(), name
        assert (out / "other.h5").read_text() == "mine"
        assert len(list(out.iterdir())) == 3, list(out.iterdir())
    each([("run", "reduce", "--input.count", 10), ("generate", "--input.count", 10),
          ("run", "reduce", "--input.count", 10, "--dry-run"),
          ("bench", "feed", "--quick", "--device.backend", "host")], check)


def data_file(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = np.ones(1000, "f4")
    return folder / "data.h5"


def test_the_data_of_an_experiment():
    """The result of bench replaces neither the named file nor a file that it links to."""
    folder = new_folder()
    data_file(folder)
    with h5py.File(folder / "named.h5", "w") as file:
        file["x"] = h5py.ExternalLink("data.h5", "/x")
    before = contents_of(folder)
    for name in ("named.h5", "data.h5"):
        expect_complaint(run("bench", "plain-reads", "--quick", "--plain-reads.file",
                             f"{folder / 'named.h5'}:/x", "-o", folder / name, *ANYTHING), 2,
                         [folder / name, "input", "output.file"])
    assert contents_of(folder) == before


def test_an_output_without_a_name():
    """As in -o "$UNSET". Every command names the option, and writes nothing."""
    folder, source = new_folder(), study()
    model = ["scale", "model", "--model.work", "1ms", "--scale.ranks", 1, "-o", ""]
    each([(["run", "reduce", "--input.count", 9, "-o", ""], "output.file"),
          (["run", "reduce", "--input.count", 9, "--dry-run", "-o", ""], "output.file"),
          (["bench", "bandwidth", "--bandwidth.clock", 877, "--bandwidth.width", 4096, "-o", ""],
           "output.file"),
          (["generate", "--input.count", 9, "-o", ""], "-o FILE.h5:/PATH"), (model, "output.file"),
          ([*model, "--list"], "output.file"), (["report", source, "-o", ""], "output.file"),
          *((["report", source, option, ""], option) for option in ("--csv", "--svg", "--extra-p"))
          ], lambda arguments, option: expect_complaint(run(*arguments, cwd=folder), 2, [option]))
    assert list(folder.iterdir()) == [], list(folder.iterdir())


def test_one_command_writes_a_name_once():
    folder, out = study(), new_folder()
    expect_complaint(run("report", folder, "-o", out / "x", "--extra-p", f"{out}/./x", *ANYTHING),
                     2, [out / "x"])
    assert not list(out.iterdir())


def test_a_failure_leaves_no_half_file():
    """The limit of the file size is below that of each output."""
    folder = study()

    def check(option, value, _pattern, limit):
        out = new_folder()
        words = [PROGRAM, "report", str(folder), option, str(out / value)]
        done = subprocess.run(["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *words],
                              env=environment(), capture_output=True, text=True, check=False)
        finished = Finished(words, done.returncode, done.stdout, done.stderr, 0)
        expect_complaint(finished, 2, [NAMED.get(option, option), "ulimit -f"])
        assert not [path for path in out.rglob("*") if path.is_file()], list(out.rglob("*"))
    each([(*writer, 1) for writer in WRITERS if writer[0] != "--svg"], check)


def test_extra_p_needs_a_study():
    out = new_folder()
    run("bench", "plain-reads", "--quick", "--plain-reads.file", data_file(out),
        "--device.backend", "host", "-o", out / "bench.h5").expect(0)
    expect_complaint(run("report", out / "bench.h5", "--extra-p", out / "x"), 2, ["--extra-p"])
    assert not (out / "x").exists()


def test_studies_of_the_same_name_have_tables_of_their_own():
    folder, out = new_folder(), new_folder()
    for count in (1000, 2000):
        run("run", "reduce", "--input.count", count, "-o", folder / f"{count}.h5").expect(0)
    run("report", folder, "--csv", out / "tables").expect(0)
    files = sorted((out / "tables").iterdir())
    assert [path.name for path in files] == ["reduce-2.csv", "reduce.csv"], files
    rows = [path.read_text().splitlines()[1] for path in files]
    assert {str(folder / "1000.h5"), str(folder / "2000.h5")} == {
        row.split(",")[-1] for row in rows}, rows


if __name__ == "__main__":
    main()
