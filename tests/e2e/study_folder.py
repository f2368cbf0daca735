#!/usr/bin/python3
"""The folder of a study: a study has one input, `scale` replaces only its own files, one `scale` at
a time works there, and users may edit study.ini."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import h5py

from harness import (expect_complaint, expect_warning, expect_words, finish, main,
                     new_folder, preloaded, run, start, wait_until)
from studies import attempts, bash_script, only_study, write_data

# One rank, without mpirun.
ALONE = ["--measure.repeat", 1, "--scale.timeline", "false", "--scale.ranks", 1,
         "--scale.replicates", 1, "--scale.launcher", "env"]
MODEL = ["scale", "model", *ALONE, "--model.work", "1ms", "--model.spin", "sleep"]
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"


def contents(folder):
    """The contents of all files except the lock and the logs, by path."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".scale.lock" and path.parent.name != "logs"}


def launcher(folder, text):
    """A launcher without arguments, which executes `text` before the program."""
    return bash_script(folder, f'{text}\nexec "$@"')


# ---------------------------------------------------------------- one study, one input

def test_an_input_that_is_replaced_between_two_starts():
    folder = new_folder()
    data = write_data(folder / "data.h5", range(1000))
    command = ["scale", "reduce", *ALONE, "--input.data", data, "-o", folder / "study"]
    more = [*command, "--scale.replicates", 2]
    run(*command).expect(0)
    before, was = contents(folder / "study"), (folder / "data.h5").stat()
    write_data(folder / "data.h5", range(1, 1001))
    finished = run(*more)
    expect_complaint(finished, 2, [folder / "study", data, was.st_size, "-o", "touch -d"])
    assert contents(folder / "study") == before
    expect_complaint(run(*more, "--only", "p1-r2"), 2, [data])
    # The right file with its old time.
    write_data(folder / "data.h5", range(1000))
    expect_complaint(run(*more), 2, [data])
    moment = finished.err.split("modified at ")[1].split(",")[0]
    subprocess.run(["touch", "-d", moment, folder / "data.h5"], check=True)
    assert (folder / "data.h5").stat().st_mtime_ns == was.st_mtime_ns, moment
    run(*more).expect(0)


def test_an_input_that_is_replaced_during_a_study():
    folder = new_folder()
    data = write_data(folder / "data.h5", range(1000))
    write_data(folder / "other.h5", range(5000))
    swaps = launcher(folder, f'[[ $* == *replicate=1* ]] && cp {folder}/other.h5 {folder}/data.h5')
    finished = run("scale", "reduce", *ALONE[:-1], swaps, "--input.data", data, "-o",
                   folder / "study").expect(1)
    expect_words(finished.err, [data, "-o"], finished)
    assert [path.name for path in (folder / "study").glob("*.h5")] == ["calibration.h5"]
    assert "changed" in attempts(folder / "study")[-1]["problem"], attempts(folder / "study")


def test_options_that_differ_after_80_bytes():
    """Long options are compared completely, and values with a line break survive study.ini."""
    folder = new_folder()
    for name in ("x" * 90, "line\nbreak"):
        one, two = (write_data(folder / f"{name}{i}.h5", [i]) for i in (1, 2))
        command = ["scale", "reduce", *ALONE, "-o", folder / name, "--input.data"]
        run(*command, one).expect(0)
        before = contents(folder / name)
        finished = run(*command, two).expect(2)
        assert "input.data" in finished.err, finished
        assert f"{name[-5:]}1.h5" in finished.err and f"{name[-5:]}2.h5" in finished.err, finished
        assert contents(folder / name) == before
        run(*command, one).expect(0)
        assert contents(folder / name) == before and len(attempts(folder / name)) == 2


def test_options_that_differ_from_those_of_the_results():
    """Options of results are compared with those of the command, even if study.ini was edited."""
    folder = new_folder() / "study"
    run(*MODEL, "-o", folder).expect(0)
    (folder / "p1-r1.h5").unlink()
    ini = (folder / "study.ini").read_text()
    (folder / "study.ini").write_text(ini.replace("spin = sleep", "overhead = 2ms\nspin = sleep"))
    before = contents(folder)
    expect_complaint(run(*MODEL, "--model.overhead", "2ms", "-o", folder), 2,
                     ["model.overhead", "0s", "2ms", folder / "calibration.h5", "-o"])
    assert contents(folder) == before
    for replicate, overhead in enumerate(("0s", "2ms", "0s"), 1):
        run("run", "model", "--model.work", "1ms", "--model.overhead", overhead, "--study.name",
            "mixed", "--study.mode", "strong", "--study.point", "p1", "--study.replicate",
            replicate, "-o", folder / f"p1-r{replicate}.h5").expect(0)
    [excluded] = only_study(folder)["excluded"]
    assert excluded["file"] == str(folder / "p1-r2.h5"), excluded
    assert "'model.overhead=2ms'" in excluded["reason"], excluded


# ---------------------------------------------------------------- files that scale has not written

def test_only_own_results_are_replaced():
    folder = new_folder()
    run(*MODEL, "-o", folder / "other").expect(0)
    run(*MODEL, "--scale.replicates", 2, "-o", folder / "study").expect(0)
    (folder / "keep.txt").write_text("notes")
    kept = contents(folder / "study")
    first = folder / "study/p1-r1.h5"

    def check(make, words, name="p1-r1.h5"):
        path = folder / "study" / name
        path.unlink()
        make(path)
        before = contents(folder)
        finished = run(*MODEL, "--scale.replicates", 2, "-o", folder / "study")
        expect_complaint(finished, 2, [path, "-o", *words])
        assert contents(folder) == before
        path.unlink()
        path.write_bytes(kept[pathlib.Path(name)])
    check(lambda path: path.write_text("notes"), [])
    check(lambda path: path.write_text(""), [])
    check(lambda path: path.symlink_to(folder / "keep.txt"), [])
    check(lambda path: write_data(path, [1]), [])
    check(lambda path: shutil.copy(folder / "other/p1-r1.h5", path), [])
    check(lambda path: shutil.copy(folder / "study/p1-r2.h5", path), [])
    check(lambda path: path.write_text("notes"), [], "calibration.h5")

    # An unverified result of this launch is replaced.
    with h5py.File(first, "r+") as file:
        file.attrs["status"] = "unverified"
    run(*MODEL, "--scale.replicates", 2, "-o", folder / "study").expect(0)
    assert len(attempts(folder / "study")) == 4


def test_only_own_traces_are_replaced():
    folder = new_folder() / "study"
    traces = [*MODEL, "--scale.timeline", "true", "-o", folder]
    run(*traces).expect(0)
    trace = folder / "p1-timeline.trace.json"
    (folder / "p1-timeline.h5").unlink()
    own = trace.read_bytes()
    trace.write_text("notes")
    expect_complaint(run(*traces), 2, [trace])
    assert trace.read_text() == "notes"
    trace.write_bytes(own)
    run(*traces).expect(0)
    assert trace.read_bytes() != own


def test_a_study_with_another_name():
    """An edited name of a study is rejected; a folder may have a line break in its name."""
    folder = new_folder() / "study"
    run(*MODEL, "-o", folder).expect(0)
    ini = (folder / "study.ini").read_text()
    (folder / "study.ini").write_text(ini.replace("name = study-", "name = mine-"))
    before = contents(folder)
    expect_complaint(run(*MODEL, "-o", folder), 2, [folder / "p1-r1.h5", "mine"])
    assert contents(folder) == before
    broken = new_folder() / "line\nbreak"
    for _ in range(2):
        run(*MODEL, "-o", broken).expect(0)
    assert len(attempts(broken)) == 2 and only_study(broken)["missing"] == []


def test_a_study_from_the_options_of_another_one():
    """study.ini of one study starts another one, which gets its own name. The page of a report
    shows this command."""
    folder = new_folder()
    run(*MODEL, "-o", folder / "one").expect(0)
    for _ in range(2):
        run("scale", folder / "one/study.ini", "-o", folder / "two").expect(0)
    assert len(attempts(folder / "two")) == 2 and only_study(folder / "two")["name"] != only_study(
        folder / "one")["name"]


def test_other_files_of_the_folder():
    def check(name, text, words=(), code=2):
        folder = new_folder() / "study"
        folder.mkdir()
        (folder / name).write_text(text)
        before = contents(folder)
        finished = run(*MODEL, "-o", folder)
        expect_complaint(finished, code, [folder, *words])
        if name != ".scale.lock":  # which a list does not need
            expect_complaint(run(*MODEL, "--list", "-o", folder), code, [folder, *words])
        assert contents(folder) == before
    check("study.ini", "[run]\nworkload = reduce\n")
    check("study.ini", "my notes\n")
    check("attempts.jsonl", "my notes\n")
    check("notes.txt", "my notes\n")
    check("result.h5", "my notes\n")
    check(".scale.lock", "my notes\n", [".scale.lock"])

    # No result yet, and other options: only what scale has written is replaced.
    folder = new_folder() / "study"
    run(*MODEL[:-4], "--scale.launcher", "false", "-o", folder).expect(1)
    (folder / "attempts.jsonl").write_text("my notes\n")
    expect_complaint(run(*MODEL, "-o", folder), 2, [folder / "attempts.jsonl"])
    assert (folder / "attempts.jsonl").read_text() == "my notes\n"
    (folder / "attempts.jsonl").unlink()
    # A log has a new name.
    for log in (folder / "logs").iterdir():
        log.write_text("my notes\n")
    run(*MODEL, "-o", folder).expect(0)
    assert [path.read_text() for path in (folder / "logs").glob("calibration-a[12].log")] == [
        "my notes\n"] * 2
    assert attempts(folder)[0]["log"] == "calibration-a3.log", attempts(folder)


def test_all_files_follow_the_umask():
    """So a group can work in one folder."""
    for umask in (0o002, 0o027, 0o077):
        folder = new_folder() / "study"
        run(*MODEL, "-o", folder, prefix=["bash", "-c", f'umask {umask:o}; exec "$@"', "bash"]
            ).expect(0)
        modes = {path.relative_to(folder): path.stat().st_mode & 0o7777
                 for path in [folder, *folder.rglob("*")]}
        assert {path.name for path in modes} >= {"study.ini", "attempts.jsonl", ".scale.lock",
                                                 "p1-r1.h5", "logs"}, modes
        for path, mode in modes.items():
            whole = 0o777 if (folder / path).is_dir() else 0o666
            assert mode == whole & ~umask, (path, oct(mode), oct(umask))


# ---------------------------------------------------------------- one scale at a time

@contextlib.contextmanager
def working(folder, *options, stubborn=False):
    """A scale whose calibration run, or the launch of --only, waits until `folder`/go exists."""
    trap = 'trap "" TERM' if stubborn else ""
    waits = launcher(folder, f"{trap}\ntouch {folder}/waits\n"
                             f"while [[ ! -e {folder}/go ]]; do sleep 0.05; done")
    process = start(*MODEL, "--scale.launcher", waits, "-o", folder / "study", *options)
    try:
        wait_until((folder / "waits").exists, process)
        yield process, [*MODEL, "--scale.launcher", waits, "-o", folder / "study"]
    finally:
        (folder / "go").touch()
        process.kill()
        process.communicate()


def test_two_studies_in_one_folder():
    folder = new_folder()
    with working(folder) as (process, command):
        for options in ([], ["--only", "calibration"]):
            expect_complaint(run(*command, *options, timeout=30), 2,
                             ["output.file", folder / "study", process.pid, socket.gethostname()])
        assert run(*command, "--list").expect(0).out
        (folder / "go").touch()
        finish(process).expect(0)
    assert len(attempts(folder / "study")) == 2
    run(*command).expect(0)

    # Launches of --only exclude the study and themselves, but not each other.
    for name in ("go", "waits"):
        (folder / name).unlink()
    more = ["--scale.replicates", 3]
    with working(folder, *more, "--only", "p1-r2") as (process, command):
        for options in ([], ["--only", "p1-r2"]):
            expect_complaint(run(*command, *more, *options, timeout=30), 2, [process.pid])
        other = start(*command, *more, "--only", "p1-r3")
        wait_until(lambda: (folder / "study/logs/p1-r3-a1.log").exists(), other)
        (folder / "go").touch()
        finish(process).expect(0)
        finish(other).expect(0)
    assert only_study(folder / "study")["points"][0]["launches"] == 3


def test_a_killed_study_leaves_no_lock():
    """The lock ends with `scale`, even if the launcher ignores SIGTERM."""
    folder = new_folder()
    with working(folder, stubborn=True) as (process, command):
        process.send_signal(signal.SIGKILL)
        process.wait()
        (folder / "waits").unlink()
        again = start(*command)
        wait_until((folder / "waits").exists, again)
        (folder / "go").touch()
        finish(again).expect(0)


def test_a_file_system_without_locks():
    """Without locks, `scale` warns and makes the study."""
    folder = new_folder()
    library = preloaded("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#define WRAP(name) int name(int fd, int command, ...) { \\
  va_list list; va_start(list, command); void* argument = va_arg(list, void*); va_end(list); \\
  if (command == F_OFD_SETLK || command == F_OFD_SETLKW) { errno = ENOLCK; return -1; } \\
  return ((int (*)(int, int, void*))dlsym(RTLD_NEXT, #name))(fd, command, argument); }
WRAP(fcntl)
WRAP(fcntl64)
""")
    if library is None:
        return
    finished = run(*MODEL, "-o", folder / "study", env={"LD_PRELOAD": library}).expect(0)
    finished.err = "".join(line for line in finished.err.splitlines(True) if "warning" in line)
    expect_warning(finished, [folder / "study"])


# ---------------------------------------------------------------- hostile and edited files

def test_files_without_an_end():
    """A FIFO, a device, a huge file or huge numbers in a study's small files are errors."""
    whole = new_folder() / "whole"
    run(*MODEL, "-o", whole).expect(0)
    for name in ("attempts.jsonl", "study.ini"):
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"),
                     lambda path: path.open("w").truncate(1 << 40)):
            folder = new_folder() / "study"
            shutil.copytree(whole, folder)
            (folder / name).unlink()
            make(folder / name)
            expect_complaint(run(*MODEL, "-o", folder, timeout=20), 2, [folder / name])
            finished = run("report", folder, "--json", timeout=20).expect(1)
            expect_words(finished.err, [folder / name], finished)
            assert len(finished.out) > 1000, finished
    zero = new_folder() / "zero.ini"
    zero.symlink_to("/dev/zero")
    for command in ("scale", "run"):
        expect_complaint(run(command, zero, timeout=20), 2, [zero])
    for value in ("10^12", "1000000000000", "0", "-1", "x"):
        folder = new_folder() / "study"
        shutil.copytree(whole, folder)
        ini = (folder / "study.ini").read_text()
        (folder / "study.ini").write_text(ini.replace("replicates = 1", f"replicates = {value}"))
        finished = run("report", folder, timeout=20).expect(1)
        expect_words(finished.out, ["scale.replicates", value.strip("-")], finished)
        assert run(*MODEL, "-o", folder, timeout=20).code == (0 if value == "0" else 2)


def test_a_study_edited_on_windows():
    """Line ends of Windows, a byte-order mark and missing spaces do not change a study."""
    folder = new_folder() / "study"
    run(*MODEL, "-o", folder).expect(0)
    ini = (folder / "study.ini").read_text()
    for edited in (ini.replace("\n", "\r\n"), "\ufeff" + ini.replace("\n", "\r\n"),
                   ini.replace(" = ", "=")):
        (folder / "study.ini").write_bytes(edited.encode())
        run(*MODEL, "-o", folder).expect(0)
        assert len(attempts(folder)) == 2 and only_study(folder)["missing"] == []
    run(*MODEL, "--scale.replicates", 2, "-o", folder).expect(0)
    assert len(attempts(folder)) == 3


def test_paths_that_cannot_be_reached():
    """The message names option and path, not the library's function."""
    folder = new_folder()
    (folder / "loop").symlink_to(folder / "loop")
    for path in (folder / "loop", folder / ("x" * 300), folder / "{ranks}", folder / "a{jobid}b"):
        for options in ([], ["--list"]):
            expect_complaint(run(*MODEL, *options, "-o", path), 2, ["output.file", path])
    assert [path.name for path in folder.iterdir()] == ["loop"]
    for path in (folder / "loop", folder / ("x" * 300)):
        finished = run("report", path).expect(2)
        assert "filesystem error" not in finished.err, finished
    study = folder / "study"
    study.mkdir()
    (study / "study.ini").symlink_to(study / "study.ini")
    expect_complaint(run(*MODEL, "-o", study), 2, [study / "study.ini"])


def test_quotes_of_a_launcher():
    folder = new_folder()
    (folder / "two words").mkdir()
    quoted = launcher(folder / "two words", 'printf "%s|" "$1" "$2"; shift 2')
    for quote in "'\"":
        template = f"{quote}{quoted}{quote} {quote}a  {{ranks}}{quote} b{quote} {quote}c"
        target = new_folder() / "study"
        run(*MODEL[:MODEL.index("env")], template, *MODEL[MODEL.index("env") + 1:], "-o",
            target).expect(0)
        log, = (target / "logs").glob("p1-r1-*")
        assert log.read_text().startswith("a  1|b c|"), log.read_text()
        listed = run("scale", target / "study.ini", "--list", "-o", target).expect(0).out
        assert "total: 0 launches" in listed, listed
    expect_complaint(run(*MODEL, "--scale.launcher", "env 'x", "-o", folder / "x"), 2,
                     ["scale.launcher", "'x"])


if __name__ == "__main__":
    main()
