#!/usr/bin/python3
"""Errors of the output: an existing file, an input, a full disk, missing permissions. The message
names the file and the remedy, and no other file is changed."""

import os
import pathlib
import shutil
import socket
import subprocess

import h5py
import numpy as np

from harness import (PROGRAM, check_complaints, command_line, each, expect_complaint, expect_words,
                     finish, main, new_folder, run, skip_part)

RANKS = (1, 2)
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples/gemm-tf32-strong"


def test_outputs():
    folder = new_folder()
    run("run", "reduce", "--input.count", 10, "-o", folder / "done.h5").expect(0)
    (folder / "text").write_text("something else")
    (folder / "folder.h5").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def to(name, *more):
        return ["run", "reduce", "--input.count", "1000", "-o", name, *more]

    check_complaints([
        (to(folder / "done.h5"), 2, [folder / "done.h5", "--output.overwrite true"]),
        (to(folder / "text"), 2, [folder / "text", "--output.overwrite anything"]),
        (to("{out}/none/out.h5"), 2, ["/none'"]),
        (to(folder / "text" / "out.h5"), 2, [f"'{folder}/text'", "output.file"]),
        (to(folder / "folder.h5"), 2, [f"'{folder}/folder.h5'", "folder"]),
        (to(folder / "folder.h5", "--output.overwrite", "true"), 2,
         [f"'{folder}/folder.h5'", "folder"]),
        (to("{out}/"), 2, ["/'"]),
        (to("{out}/" + 250 * "x"), 2, [250 * "x", "long"]),
        (to(""), 2, ["output.file"]),
        (to("{out}/out.csv"), 2, ["/out.csv'", "CSV", "/out.h5", "h5py"]),
        (to("{out}/out.json"), 2, ["/out.json'", "--json"]),
        (["generate", "--input.count", "9", "-o", "{out}/x.npy:/x"], 2, ["/x.npy'", "/x.h5"]),
    ])
    expect_complaint(run("report", EXAMPLE, "-o", folder / "page.csv"), 2,
                     ["page.csv'", "--csv FOLDER"])
    expect_complaint(run("report", EXAMPLE, "-o", folder / "page.h5"), 2, ["page.h5'", "page.html"])
    expect_complaint(run("report", EXAMPLE, "--csv", folder / "out.csv"), 2,
                     ["--csv", "out.csv'", "folder"])
    assert not (folder / "out.csv").exists()
    named = run("run", "reduce", "--input.count", 10, "-o", new_folder() / "out.nc").expect(0)
    expect_words(named.err, ["out.nc", "HDF5", "results"], named)
    for path, contents in before.items():
        assert path.read_bytes() == contents, path
    assert sorted(folder.iterdir()) == sorted([*before, folder / "folder.h5"])


def test_output_that_is_no_regular_file():
    """Such a file is never replaced, whatever is permitted. /dev/null itself is not used, since a
    wrong program run by root would replace it for everybody."""
    folder = new_folder()
    os.mkfifo(folder / "fifo")
    (folder / "null").symlink_to("/dev/null")
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(folder, os.O_PATH)  # the name of a socket has at most 107 bytes
    listener.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    cases = []
    for name, kind in (("fifo", "FIFO"), ("null", "character device"), ("socket", "socket")):
        path = folder / name
        words = [f"'{path}'", kind, "output.file"]
        for more in ([], ["--output.overwrite", "true"]):
            cases += [
                (["run", "reduce", "--input.count", 1000, "-o", path, *more], 2,
                 words),
                (["run", "gemm", "--gemm.m", 8, "--gemm.n", 8, "--gemm.k", 8, "--dry-run", "-o",
                  path, *more], 2, words),
                (["generate", "--input.count", 1000, "-o", f"{path}:/x", *more], 2, words),
            ]
    check_complaints(cases, ranks=(1,))
    check_complaints(cases[3:6:2], ranks=(2,))
    listener.close()
    assert (folder / "fifo").is_fifo() and (folder / "null").is_symlink()
    assert (folder / "socket").is_socket() and len(list(folder.iterdir())) == 3


def test_generate_onto_generated():
    """A second data set is not added to the file of the first."""
    path = new_folder() / "a.h5"
    generate = ["generate", "--input.count", 1000, "-o"]
    run(*generate, f"{path}:/A").expect(0)
    before = path.read_bytes()
    check_complaints([([*generate, f"{path}:/B"], 2,
                       [f"'{path}'", "output.file", "--output.overwrite true"])])
    assert path.read_bytes() == before
    run(*generate, f"{path}:/B", "--output.overwrite", "true").expect(0)
    with h5py.File(path) as file:
        assert list(file) == ["B"]


def test_output_onto_input():
    """Neither data nor configuration are replaced, under any name and with any permission."""
    folder = new_folder()
    data, ini = folder / "in.h5", folder / "in.ini"
    with h5py.File(data, "w") as file:
        file["x"] = np.arange(1000.0)
    ini.write_text("[run]\nworkload = reduce\n[input]\ncount = 1000\n")
    (folder / "soft.h5").symlink_to("in.h5")
    (folder / "hard.h5").hardlink_to(data)
    (folder / "around").symlink_to(".")
    before = {path: path.read_bytes() for path in (data, ini)}
    anyway = ["--output.overwrite", "anything"]

    def of(source, target, *more):
        return ["run", "reduce", "--input.data", folder / source, "-o", folder / target, *more]

    def refuses(name):
        return [f"'{folder}/{name}'", "input", "output.file"]
    check_complaints([
        (of("in.h5", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "in.h5"), 2, refuses("in.h5")),
        (of("in.h5:/x", "soft.h5", *anyway), 2, refuses("soft.h5")),
        (of("soft.h5:/x", "in.h5", *anyway), 2, refuses("in.h5")),
        (of("in.h5:/x", "hard.h5", *anyway), 2, refuses("hard.h5")),
        (of("in.h5:/x", "around/around/in.h5", *anyway), 2, refuses("around/around/in.h5")),
        (["run", ini, "-o", ini, *anyway], 2, refuses("in.ini")),
        (["run", ini, "--input.data", data, "-o", data, *anyway], 2, refuses("in.h5")),
    ])
    for path, contents in before.items():
        assert path.read_bytes() == contents, path
    assert len(list(folder.iterdir())) == 5
    # A copy is not the input, and a generator is no file, even if a file has its name.
    shutil.copy(data, folder / "copy.h5")
    run(*of("in.h5", "copy.h5", *anyway)).expect(0)
    (folder / "uniform").write_text("not read")
    run("run", "reduce", "--input.count", 10, "-o", "uniform", *anyway, cwd=folder).expect(0)


def in_small_mount(options, command):
    """Runs `command`, in which {mount} stands for a folder with a tmpfs that only this command sees
    (in a mount namespace of its own). Returns how it ended and the names of the files in that
    folder."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    folder, listing = new_folder(), new_folder() / "listing"
    script = ('mount -t tmpfs -o "$1" tmpfs "$2" || exit 99; folder=$2 listing=$3; shift 3; "$@"; '
              'code=$?; ls -A "$folder" >"$listing"; exit $code')
    command = [str(word).replace("{mount}", str(folder)) for word in command]
    process = subprocess.Popen(
        ["unshare", *user, "--mount", "sh", "-c", script, "sh", options, folder, listing, *command],
        env={**os.environ, "SHARDSTREAM_DEVICE_BACKEND": "host", "OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.args = list(map(str, process.args))
    return finish(process), listing.read_text() if listing.exists() else None


def mounts_are_possible():
    finished, _ = in_small_mount("size=1m", ["true"])
    if finished.code != 0:
        skip_part(f"full disks and read-only folders: {finished.err.strip() or 'no unshare'}")
    return finished.code == 0


def test_full_disk_and_read_only_folder():
    if not mounts_are_possible():
        return

    def check(options, arguments, words, ranks):
        finished, left = in_small_mount(options, command_line(arguments, ranks))
        expect_complaint(finished, 2, words)
        assert left == "", left

    result = ["run", "reduce", "--input.count", 1e6, "-o", "{mount}/out.h5"]
    data = ["generate", "--input.count", 1e6, "-o", "{mount}/out.h5:/x"]
    each([case + (ranks,) for ranks in RANKS for case in (
        ("size=1m", result, ["MiB", "free"]), ("size=2m", data, ["MiB", "free"]),
        ("size=9m,ro", result, ["Read-only"]), ("size=9m,ro", data, ["Read-only"]))], check)
    finished, left = in_small_mount("size=1m", command_line(
        ["scale", *result[1:-2], "--scale.ranks", 1, "-o", "{mount}/study"], 1))
    expect_words(finished.expect(2).err, ["MiB", "free"], finished)
    assert left == "study\n", left
    # With just enough space:
    finished, left = in_small_mount("size=5m", command_line(result, 2))
    assert finished.expect(0) and left == "out.h5\n", left
    finished, left = in_small_mount("size=5m", command_line(data, 2))
    assert finished.expect(0) and left == "out.h5\n", left


def test_permissions():
    """The user may neither write to the folder nor read the file."""
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        if subprocess.run([*prefix, PROGRAM, "--version"], capture_output=True).returncode != 0:
            skip_part(f"missing permissions: root has all, and user 65534 can't start {PROGRAM}")
            return
    folder = pathlib.Path("/tmp", f"{new_folder().name}-permissions")
    folder.mkdir()
    try:
        with h5py.File(folder / "in.h5", "w") as file:
            file["x"] = np.arange(10.0)
        (folder / "in.h5").chmod(0)
        folder.chmod(0o555)
        env = {"HOME": "/tmp"}
        expect_complaint(run("run", "reduce", "--input.count", 10, "-o", folder / "out.h5",
                             prefix=prefix, env=env), 2, [f"'{folder}'", "writable"])
        expect_complaint(run("run", "reduce", "--input.data", folder / "in.h5", "-o",
                             folder / "out.h5", prefix=prefix, env=env), 2,
                         [f"'{folder}/in.h5'", "permissions"])
        assert [path.name for path in folder.iterdir()] == ["in.h5"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_full_standard_output():
    """The result is still complete in its file, and the message says so."""
    out = new_folder() / "out.h5"
    expect_complaint(run("run", "reduce", "--input.count", 10, "-o", out,
                         prefix=["sh", "-c", "exec \"$@\" >/dev/full", "sh"]), 1,
                     ["standard output", out])
    with h5py.File(out) as file:
        assert file.attrs["status"] == "complete"


main()
