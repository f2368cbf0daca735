#!/usr/bin/python3
"""The commands, links and names in documents."""

import collections
import json
import re
import subprocess
import sys

import h5py
import numpy as np

from harness import HANGS, each, experiments, main, new_folder, run
from shown import BLOCK, LESSONS, TOP, check_document


def pages():
    """All documents of the repository."""
    return [path for path in sorted(TOP.rglob("*.md"))
            if not path.relative_to(TOP).parts[0].startswith((".", "build"))]


def documents():
    found = [path for path in pages() if "\n```sh\n" in path.read_text()]
    assert TOP / "README.md" in found and len(found) > 5, found
    return found


def test_shown_commands():
    each([(path,) for path in documents() if path not in LESSONS], check_document)


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
    """All texts in the tables of each experiment, in the files that the repository ships. The file
    of four GPUs may be of an earlier version, so it counts for experiments that need several."""
    found = {}
    for name in ("bench.h5", "bench-four.h5"):
        with h5py.File(TOP / "inputs/examples" / name) as file:
            for experiment in set(file["bench"]) - {"experiments"} - set(found):
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


def sections_of_guides(path):
    """The sections that GUIDES.md names for each experiment, as `bench --list --json` writes them;
    those of all experiments under "all"."""
    guides = {"BP": "CUDA C++ Best Practices Guide", "PG": "CUDA C++ Programming Guide"}
    found = collections.defaultdict(set)
    for line in path.read_text().splitlines():
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(row) != 4:
            continue
        guide = None
        for section in row[1].split("; "):
            abbreviation, _, rest = section.partition(": ")
            if abbreviation in guides:
                guide, section = guides[abbreviation], rest
            for name in re.findall(r"`([^`]+)`", row[2]):
                found[name].add(f"{guide}, {section}" if guide else section)
    return found


def test_sections_of_an_experiment_are_those_of_its_techniques():
    """Each section that an experiment names is one of a technique for which GUIDES.md names it."""
    known = sections_of_guides(TOP / "src/experiments/GUIDES.md")
    listed = json.loads(run("bench", "--list", "--json").expect(0).out)["experiments"]
    missing = {}
    for experiment in listed:
        sections = {section.rsplit(" <", 1)[0] for section in experiment["read_on"].split("; ")}
        of_guides = {section for section in sections if section.startswith("CUDA C++ ")}
        if of_guides - known[experiment["name"]]:
            missing[experiment["name"]] = of_guides - known[experiment["name"]]
    assert not missing, missing


def test_files_to_read_on_exist():
    listed = json.loads(run("bench", "--list", "--json").expect(0).out)["experiments"]
    files = {section.rsplit(" <", 1)[0] for experiment in listed
             for section in experiment["read_on"].split("; ") if "<http" not in section}
    assert files and all((TOP / file).is_file() for file in files), files


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
