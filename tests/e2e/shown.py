"""Runs the commands that documents show. Every block ```sh or ```python of a document runs, in the
order of the document and in its own folder. If a block ```text with lines KEY=VALUE follows, it
must have the keys that the last command of the block prints. Tables of `report --markdown` follow
its block. Blocks ```console do not run: they need a cluster, or change the machine."""

import os
import pathlib
import re
import subprocess
import sys

from harness import HANGS, PROGRAM, Finished, environment, new_folder

TOP = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
# They take long, and have a test of their own.
LESSONS = [TOP / "src/experiments/LESSONS.md", TOP / "src/workloads/model/LESSON.md"]


def bash(text, folder):
    """Runs the commands as a user would paste them; the program is on PATH. Only runs that repeat
    until they are precise end sooner."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "shardstream").exists():
        (programs / "shardstream").symlink_to(PROGRAM)
    variables = environment({"PATH": f"{programs}:{os.environ['PATH']}",
                             "OMPI_MCA_rmaps_base_oversubscribe": "1",
                             "SHARDSTREAM_MEASURE_MAX_TIME": "0.2s"}, ranks=2)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=variables,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANGS,
                          check=False)
    return Finished(["bash", "-c", text], done.returncode, done.stdout, done.stderr, 0)


def check_document(path):
    folder = new_folder()
    for name in ("inputs", "jobs"):
        (folder / name).symlink_to(TOP / name)
    finished = None
    document = path.read_text()
    for block in BLOCK.finditer(document):
        kind, text = block.groups()
        if kind == "python":
            subprocess.run([sys.executable, "-c", text], cwd=folder, timeout=HANGS, check=True)
        elif kind == "sh":
            finished = bash(text, folder).expect(0)
            if "report --markdown" in text.splitlines()[-1]:
                below = re.split(r"^(?:#|```)", document[block.end():], flags=re.MULTILINE)[0]
                assert finished.out and below.strip().endswith(finished.out.strip()), (
                    f"{path}: replace the tables below `{text.strip()}` by its output")
        elif kind == "text" and finished is not None and re.search(r"^\w+=", text, re.MULTILINE):
            shown = re.findall(r"^(\w+)=", text, flags=re.MULTILINE)
            # A line that depends on the machine, and that no document shows.
            printed = re.findall(r"^(?!allocate=)(\w+)=", finished.out, flags=re.MULTILINE)
            assert shown == printed[-len(shown):], f"{path} shows {shown}, not {printed}"
