"""What the tests of the page of `report` share."""

import html
import html.parser
import os
import pathlib
import re
import shutil

import harness

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"
FIGURES = ["time", "speedup", "efficiency", "karp-flatt", "law", "to-result", "host-causes",
           "device-causes", "overlap", "timeline", "roofline", "energy", "cost"]


class Page(html.parser.HTMLParser):
    """The tags and ids of a page, and the figures: {id: (has a picture, why it has none)}."""

    def __init__(self, path):
        super().__init__()
        self.source = pathlib.Path(path).read_text(encoding="utf-8")
        self.tags, self.ids, self.figures, self.figure = [], [], {}, None
        self.feed(self.source)
        assert len(self.ids) == len(set(self.ids)), "an id stands twice"
        for link in re.findall(r"(?:href='|url\()#([\w-]+)", self.source):
            assert link in self.ids, link

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "figure":
            self.figure = attrs["id"]
            self.figures[self.figure] = ""
        if self.figure and "picture" in attrs.get("class", ""):
            self.figures[self.figure] = "picture"
        if self.figure and attrs.get("class") == "missing":
            self.figures[self.figure] = "missing"

    def handle_endtag(self, tag):
        if tag == "figure":
            self.figure = None


def report(*arguments, **how):
    """The page of these files."""
    out = harness.new_folder() / "report.html"
    finished = harness.run("report", *arguments, "-o", out, **how).expect(0)
    assert finished.out == f"page={out}\n", finished
    return Page(out), out, finished


def copy_of(example, change=None):
    """A folder with the files of an example; `change` gets each as an open HDF5 file."""
    import h5py
    folder = harness.new_folder() / "study"
    shutil.copytree(EXAMPLES / example, folder)
    for path in sorted(folder.glob("*.h5")) if change else []:
        with h5py.File(path, "r+") as file:
            change(file)
    return folder


def figures_of(*arguments, **how):
    """The figures as SVG documents, by name."""
    folder = harness.new_folder() / "figures"
    harness.run("report", *arguments, "--svg", folder, **how).expect(0)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def timed_run(folder):
    """A run of two ranks with a timeline."""
    path = folder / "run.h5"
    harness.run("run", "reduce", "--input.count", 2 ** 22, "--measure.timeline", "--measure.repeat",
                3, "-o", path, ranks=2).expect(0)
    return path


def numbers_of(page, figure):
    """The rows of a figure's table, by its header."""
    part = re.search(rf'<figure id="{figure}".*?</figure>', page.source, re.S)[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in
             re.findall(r"<tr>(.*?)</tr>", part)]
    header = [html.unescape(cell) for cell in cells[0]]
    return [dict(zip(header, row)) for row in cells[1:]]


def basis_of(page, figure):
    part = re.search(rf'<figure id="{figure}".*?</figure>', page.source, re.S)[0]
    return html.unescape(re.search(r'class="basis">(.*?)</p>', part)[1])


def replace(file, name, table):
    """Replaces a table by one that may have another number of rows."""
    attributes = dict(file[name].attrs)
    del file[name]
    file[name] = table
    file[name].attrs.update(attributes)


def set_walls(file, walls):
    reps = file["timing/reps"][:1].repeat(len(walls))
    reps["wall"], reps["rep"] = walls, range(len(walls))
    replace(file, "timing/reps", reps)


def main():
    if not shutil.which("gnuplot"):
        harness.skip_all("there is no gnuplot (package gnuplot-nox)")
    os.environ.pop("GNUTERM", None)
    harness.main()
