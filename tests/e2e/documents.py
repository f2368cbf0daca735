#!/usr/bin/python3
"""The commands, links and names in documents. Every block ```sh or ```python of a document runs, in
the order of the document and in its own folder. If a block ```text with lines KEY=VALUE follows, it
must have the keys that the last command of the block prints. Blocks ```console do not run: they
need a cluster, or change the machine."""

import os
import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np

from harness import HANGS, PROGRAM, Finished, each, environment, experiments, main, new_folder, run

TOP = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def pages():
    """All documents of the repository."""
    return [path for path in sorted(TOP.rglob("*.md"))
            if not path.relative_to(TOP).parts[0].startswith((".", "build"))]


def documents():
    found = [path for path in pages() if "\n```sh\n" in path.read_text()]
    assert TOP / "README.md" in found and len(found) > 5, found
    return found


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
    for kind, text in BLOCK.findall(path.read_text()):
        if kind == "python":
            subprocess.run([sys.executable, "-c", text], cwd=folder, timeout=HANGS, check=True)
        elif kind == "sh":
            finished = bash(text, folder).expect(0)
        elif kind == "text" and finished is not None and re.search(r"^\w+=", text, re.MULTILINE):
            shown = re.findall(r"^(\w+)=", text, flags=re.MULTILINE)
            # A line that depends on the machine, and that no document shows.
            printed = re.findall(r"^(?!allocate=)(\w+)=", finished.out, flags=re.MULTILINE)
            assert shown == printed[-len(shown):], f"{path} shows {shown}, not {printed}"


def test_shown_commands():
    each([(path,) for path in documents()], check_document)


def test_area_weights_are_not_negative_at_the_poles():
    """Latitudes in f32 are usual, and their cosine at 90 degrees is negative in f32."""
    for path in ("inputs/NETCDF.md", "src/workloads/gram/README.md"):
        (recipe,) = [text for kind, text in BLOCK.findall((TOP / path).read_text())
                     if kind == "python" and 'to_netcdf("area.nc")' in text]
        folder = new_folder()
        for name in ("sst.nc", "field.nc"):
            with h5py.File(folder / name, "w") as file:
                file["lat"] = np.linspace(-90, 90, 5, dtype="f4")
                file["lat"].make_scale("lat")
        subprocess.run([sys.executable, "-c", recipe], cwd=folder, timeout=HANGS, check=True)
        with h5py.File(folder / "area.nc") as file:
            (weights,) = [file[name][()] for name in ("area", "w") if name in file]
            assert weights.min() >= 0 and weights.max() == 1, (path, weights)


def test_lines_fit_into_130_columns():
    """Rows of tables and printed output cannot be wrapped."""
    too_long = []
    for path in pages():
        block = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.match(r"\s*```(\w*)$", line):
                block = match[1] if block is None else None
            if len(line) > 130 and block != "text" and not line.startswith("|"):
                too_long.append(f"{path.relative_to(TOP)}:{number}")
    assert not too_long, too_long


def test_the_readme_shows_a_command_of_the_page_on_netcdf():
    """It does not run in the README, which has no such file."""
    text = (TOP / "inputs/NETCDF.md").read_text()
    commands = re.findall(r"`(shardstream .*\.nc:[^`]*)`", (TOP / "README.md").read_text())
    assert commands and all(f"\n{command}\n" in text for command in commands), commands


def anchors(path):
    """The anchors of the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    for path in pages():
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
            target = path.parent / link if link else path
            assert target.exists(), f"{path} links to {link}"
            assert not anchor or anchor in anchors(target), f"{path} links to {link}#{anchor}"


def cells(path, column):
    """The cells of a column of all tables of a document that have it."""
    found, position = [], None
    for line in path.read_text().splitlines():
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not row or set(line) <= set("| -"):
            position = position if row else None
        elif position is None:
            position = row.index(column) if column in row else -1
        elif position >= 0:
            found.append(row[position])
    assert found, f"{path} has no column {column}"
    return " ".join(found)


def rows(path):
    """The cells of all lines of the tables of a document."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in path.read_text().splitlines() if line.startswith("|")]


def texts_of_shipped_results():
    """All texts in the tables of each experiment, in the files that the repository ships."""
    found = {}
    for name in ("bench.h5", "bench-four.h5"):
        with h5py.File(TOP / "inputs/examples" / name) as file:
            for experiment in set(file["bench"]) - {"experiments"}:
                table = file["bench"][experiment]["rows"][()]
                for column in table.dtype.names:
                    if table.dtype[column].kind == "S":
                        found.setdefault(experiment, set()).update(
                            text.decode() for text in table[column])
    return found


def test_examples_name_rows_of_the_shipped_results():
    existing, shipped, named = experiments(), texts_of_shipped_results(), 0
    for line in rows(TOP / "src/experiments/EXAMPLES.md"):
        command = re.fullmatch(r"`bench ([^`]*)`", line[1])
        if not command:
            continue
        names = command[1].split(" --")[0].split()
        assert names and set(names) <= set(existing), line
        texts = set().union(*(shipped[name] for name in names))
        missing = set(re.findall(r"`([^`]+)`", line[2])) - texts
        assert not missing, f"{names} have no rows {missing}"
        named += len(re.findall("`", line[2])) // 2
    assert named > 50, named


def test_options_of_commands_exist():
    """Also in blocks that do not run."""
    man = run("man").expect(0).out.replace("\\-", "-")
    existing = set(re.findall(r"--[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9-]+", man))
    assert "--measure.repeat" in existing, man
    for path in pages():
        named = set(re.findall(r"--[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9-]*[a-z0-9]", path.read_text()))
        assert named <= existing, f"{path} names {named - existing}"


def test_documents_name_all_experiments_and_no_others():
    existing = set(experiments())
    folder = TOP / "src/experiments"
    listed = re.findall(r"`([^`]+)`", cells(folder / "README.md", "experiments"))
    assert sorted(listed) == sorted(existing), set(listed) ^ existing
    guides = cells(folder / "GUIDES.md", "experiment")
    named = set(re.findall(r"`([^`]+)`", guides))
    assert named == existing, f"not named: {existing - named}; do not exist: {named - existing}"
    to_come = re.compile(r"\*([a-z-]+)\* \(to come\)")
    done = existing.intersection(to_come.findall(guides))
    assert not done, f"{done} are not to come, but exist"
    assert "to come" not in to_come.sub("", guides), "write *NAME* (to come)"


main()
