#!/usr/bin/env python3
"""report -o PAGE.html: what the page has, by its text and in a browser."""

import html
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree

import chromium
import harness
import studies

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "inputs/examples"
FIGURES = ["time", "speedup", "efficiency", "karp-flatt", "law", "to-result", "host-causes",
           "device-causes", "overlap", "timeline", "roofline", "energy", "cost"]
CONTRAST = """(() => {
  const parse = text => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(x => x / 255).map(
      x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4).reduce(
      (sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length == 3 || colour[3] == 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const element of document.querySelectorAll("body *")) {
    const has_text = [...element.childNodes].some(n => n.nodeType == 3 && n.data.trim());
    if (!has_text || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const is_svg = element instanceof SVGElement;
    const a = light(parse(is_svg ? style.fill : style.color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${element.tagName} "${element.textContent}": ${ratio}`);
  }
  return bad.slice(0, 5);
})()"""
SMALLEST_TEXT = """Math.min(...[...document.querySelectorAll("body *")].filter(
  e => e.getClientRects().length && [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()))
  .map(e => parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ?
       Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) : 1)))"""


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


def test_examples_have_every_figure():
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    page, _, _ = report(*folders)
    wanted = {f"s{i + 1}-{name}" for i in range(len(folders)) for name in FIGURES}
    assert set(page.figures) == wanted, set(page.figures) ^ wanted
    assert "" not in page.figures.values(), page.figures
    for i, folder in enumerate(folders):
        names = ["time", "speedup", "efficiency", "law", "to-result", "roofline", "cost"]
        if folder.name.endswith("-strong"):  # the Karp-Flatt metric is for strong scaling
            names.append("karp-flatt")
        for name in names:
            assert page.figures[f"s{i + 1}-{name}"] == "picture", (folder, name)
    again = " ".join(["shardstream report", *map(str, folders), "-o report.html"])
    assert again in html.unescape(page.source), "the command of the whole page"
    assert "script" not in page.tags and "http://" not in re.sub(
        r"http://www.w3.org/\d+/\w+", "", page.source)


def figures_of(*arguments, **how):
    """The figures as SVG documents, by name."""
    folder = harness.new_folder() / "figures"
    harness.run("report", *arguments, "--svg", folder, **how).expect(0)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_figures_as_documents():
    """They are complete, and the one that the README shows is that of report."""
    folder = EXAMPLES / "gemm-tf32-strong"
    page, _, _ = report(folder)
    found = figures_of(folder)
    assert set(found) == {f"{name}.svg" for name, how in page.figures.items() if how == "picture"}
    for name, text in found.items():
        root = xml.etree.ElementTree.fromstring(text)
        assert root.tag.endswith("}svg") and "<title>" in text and 'fill="#fff"' in text, name
        words = "".join(root.itertext())
        assert "NVIDIA H200" in words and "launches" in words, (name, words)
    shown = EXAMPLES / "gemm-tf32-strong.svg"
    assert shown.stat().st_size < 40_000
    assert f"({shown.relative_to(EXAMPLES.parents[1])})" in (
        EXAMPLES.parents[1] / "README.md").read_text(encoding="utf-8")

    def texts(picture):
        return [text for text in xml.etree.ElementTree.fromstring(picture).itertext()
                if text.strip()]
    old, new = shown.read_text(encoding="utf-8"), found["s1-speedup.svg"]
    assert texts(old) == texts(new), "see inputs/examples/README.md"
    version = subprocess.run(["gnuplot", "--version"], capture_output=True, text=True, check=True)
    if version.stdout.startswith("gnuplot 5.4 "):  # others draw the same in other words
        assert old == new, "see inputs/examples/README.md"
    else:
        harness.skip_part(f"the bytes of the figure: {version.stdout.strip()} is not gnuplot 5.4")


def test_figures_that_cannot_be_written():
    folder = EXAMPLES / "gemm-tf32-strong"
    harness.expect_complaint(harness.run("report", folder, "--svg", "/dev/null"), 2,
                             ["--svg", "/dev/null"])
    empty = harness.new_folder()
    harness.expect_complaint(harness.run("report", folder, "--svg", empty / "x",
                                         env={"PATH": str(empty)}), 2, ["--svg", "gnuplot-nox"])
    assert not list(empty.iterdir())


def test_the_text_that_its_readme_explains():
    top = EXAMPLES.parents[1]
    readme = (top / "src/report/README.md").read_text(encoding="utf-8")
    command, shown = re.search(r"^```sh\nshardstream (report .*)\n```\n\n```text\n(.*?)^```$",
                               readme, re.MULTILINE | re.DOTALL).groups()
    assert harness.run(*command.split(), cwd=top).expect(0).out == shown


def test_same_files_same_bytes():
    folder = EXAMPLES / "gemm-tf32-strong"
    assert report(folder)[1].read_bytes() == report(folder)[1].read_bytes()


def read_walls(path):
    import h5py
    with h5py.File(path) as file:
        return list(file["timing/reps"]["wall"])


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


def test_a_single_run_has_timeline_and_causes():
    folder = harness.new_folder()
    page, _, _ = report(timed_run(folder))
    for name in ("timeline", "device-causes", "host-causes", "overlap", "to-result"):
        assert page.figures[f"s1-{name}"] == "picture", page.figures
    row, = numbers_of(page, "s1-overlap")
    mean = float(row["overlap, mean of the ranks"])
    assert float(row["minimum"]) <= mean <= float(row["maximum"])
    assert page.figures["s1-speedup"] == "missing"
    row = {key: float(value) for key, value in numbers_of(page, "s1-device-causes")[0].items()}
    product = (row["balance of devices"] * row["kernels' share of activity"] * row["active share"])
    assert abs(product - row["total"]) < 1e-5 and 0 < row["total"] <= 1, row
    row = {key: float(value) for key, value in numbers_of(page, "s1-host-causes")[0].items()}
    product = row["balance of ranks"] * row["busy share of the busiest"]
    assert abs(product - row["total"]) < 1e-5 and 0 < row["total"] <= 1, row


def basis_of(page, figure):
    part = re.search(rf'<figure id="{figure}".*?</figure>', page.source, re.S)[0]
    return html.unescape(re.search(r'class="basis">(.*?)</p>', part)[1])


def test_a_study_with_timelines():
    """Figures that need spans show the timeline runs, the others the launches, and say so."""
    folder = harness.new_folder() / "study"
    words = ["scale", "gemm", "--gemm.m", 256, "--gemm.n", 256, "--gemm.k", 256, "--measure.repeat",
             2, "--scale.oversubscribe", "--scale.ranks", "1,2", "--scale.replicates", 1]
    harness.run(*words, "-o", folder).expect(0)
    page, _, _ = report(folder)
    for name in ("timeline", "timeline-1", "device-causes", "overlap"):
        assert page.figures[f"s1-{name}"] == "picture", page.figures
    assert len(numbers_of(page, "s1-device-causes")) == 2
    for name in ("timeline", "timeline-1", "device-causes"):
        assert "additional run that recorded its spans" in basis_of(page, f"s1-{name}"), name
    for name in ("host-causes", "overlap", "roofline"):
        assert "2 launches" in basis_of(page, f"s1-{name}"), name
    shown = [float(row["time [s]"]) for row in numbers_of(page, "s1-overlap")]
    walls = [sum(read_walls(folder / f"p{ranks}-r1.h5")) for ranks in (1, 2)]
    assert all(abs(a / b - 1) < 1e-3 for a, b in zip(shown, walls)), (shown, walls)
    for path in folder.glob("*-timeline.h5"):
        path.unlink()
    page, _, _ = report(folder)
    assert page.figures["s1-timeline"] == "missing" and "2 launches" in basis_of(
        page, "s1-device-causes"), page.figures
    # Runs that keep their spans because their user wants so.
    traced = folder.parent / "traced"
    harness.run(*words, "--measure.timeline", "-o", traced).expect(0)
    page, _, _ = report(traced)
    assert page.figures["s1-timeline-1"] == page.figures["s1-device-causes"] == "picture"
    assert basis_of(page, "s1-device-causes").startswith("2 launches; at each size, the launch is")
    # Variables that are the same on every size come once; all are folded.
    variables = re.search(r"<details><summary>Environment variables.*?</details>", page.source,
                          re.S)[0]
    assert "OMPI_COMM_WORLD_SIZE=2" not in variables.split("# on 2 ranks")[0], variables
    assert variables.count("OMPI_COMM_WORLD_RANK=0") == 1, variables
    assert page.source.count("OMPI_COMM_WORLD_SIZE=2") == 1, page.source


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


def test_time_to_the_result():
    """Against the smallest size, faster or slower, from the steps of the start. The repetitions,
    of which there are more on 2 ranks, count once."""
    def check(one, two, times, word):
        def change(file):
            startup = file["timing/startup"][:]
            ranks = len(file["topology/ranks"])
            startup["last"][startup["step"] == b"store"] = (one if ranks == 1 else two) + 2
            file["timing/startup"][:] = startup
            set_walls(file, [1] * 3 if ranks == 1 else [0.5] * 5)
        folder = copy_of("gemm-tf32-strong", change)
        (folder / "attempts.jsonl").unlink()
        page, _, _ = report(folder)
        found = re.search(r" on 2 ranks, ([0-9.]+) times (faster|slower) than the \S+ s on "
                          r"1 rank\.", page.source)
        assert found and found.groups() == (times, word), found
    check(10, 4, "2.5", "faster")
    check(10, 40, "4", "slower")


def test_numbers_of_repetitions():
    """Text, page and JSON name the fewest and the most of any launch, not medians of sizes."""
    counts = {(1, 1): 6, (1, 2): 9, (1, 3): 15, (2, 1): 9, (2, 2): 15, (2, 3): 22}

    def change(file):
        place = len(file["topology/ranks"]), int(file["config"].attrs["study.replicate"])
        set_walls(file, [1 / place[0]] * counts[place])
    folder = copy_of("gemm-tf32-strong", change)
    page, _, _ = report(folder)
    for text in (page.source, harness.run("report", folder).expect(0).out):
        assert "6 to 22 repetitions" in text, text
    found = [(each["repetitions_min"], each["repetitions"], each["repetitions_max"])
             for each in studies.only_study(folder)["points"]]
    assert found == [(6, 9, 15), (9, 15, 22)], found


def test_a_size_that_scatters_more():
    """Text and page name it with its scatter. The bounds of a new launch on it are wider than the
    interval of the mean, and those beyond the largest size scatter like it."""
    def change(file):
        ranks = len(file["topology/ranks"])
        step = int(file["config"].attrs["study.replicate"]) - 2
        set_walls(file, [(1 + step * (0.0001 if ranks == 1 else 0.05)) / ranks])
    for example in ("gemm-tf32-strong", "gemm-fp32-weak"):
        folder = copy_of(example, change)
        page, _, _ = report(folder)
        for text in (page.source, harness.run("report", folder).expect(0).out):
            assert re.search(r"is 0\.01 %.* except 2 ranks.* 5 %", text), text
            assert re.search(r"launches scatter by [5-9]\S* % there", text), text
        one, two = studies.only_study(folder)["points"]
        assert abs(one["scatter"] - 0.0001) < 1e-6 and abs(two["scatter"] - 0.05) < 1e-3, (one, two)
        law = {row["ranks"]: [float(row[end]) for end in ("lower end", "upper end")]
               for row in numbers_of(page, "s1-law")}
        key = "time" if example.endswith("strong") else "efficiency"
        # Three launches: one new launch differs from the law by twice the mean's uncertainty.
        half = (two[f"{key}_hi"] - two[f"{key}_lo"]) / 2
        assert 1.9 < (law["2"][1] - law["2"][0]) / 2 / half < 2.2, (law, two)
    plain = harness.run("report", EXAMPLES / "gemm-tf32-strong").expect(0).out
    assert "except" not in plain and "!" not in plain, plain


def test_partly_verified_results():
    """Are counted by the text and by the page."""
    def change(file):
        if file["config"].attrs["study.replicate"] in (1, b"1", "1"):
            metrics = file["metrics"][:]
            ranks = len(file["topology/ranks"])
            metrics["value"][metrics["metric"] == b"verified"] = ("partly" if ranks == 1 else
                                                                 "unchecked")
            del file["metrics"]
            file["metrics"] = metrics
    whole, partly = EXAMPLES / "gemm-tf32-strong", copy_of("gemm-tf32-strong", change)
    page, _, _ = report(partly)
    assert "Results verified in 4 of 6 launches" in page.source, page.source
    told = harness.run("report", partly).expect(0).out
    for text in (page.source, told):
        assert len(re.findall(r"2 of 6 launches.*verdict of /results", text)) == 1, text
    assert "verdict of /results" not in harness.run("report", whole).expect(0).out


def test_weak_study():
    folder = harness.new_folder() / "weak"
    harness.run("scale", "model", "--scale.mode", "weak", "--model.work", "40ms", "--model.spin",
                "sleep", "--scale.oversubscribe", "--scale.ranks", "1,2", "--scale.replicates", 2,
                "-o", folder).expect(0)
    page, _, _ = report(folder)
    assert page.figures["s1-law"] == page.figures["s1-efficiency"] == "picture", page.figures
    assert page.figures["s1-karp-flatt"] == "missing"
    assert "Weak efficiency" in page.source and "Gustafson" in page.source


def test_hostile_texts_stay_texts():
    bad = "<script>hacked=1</script>'\"&`\n\\\";system('touch hacked')"

    def change(file):
        for key in ("study.name", "run.workload"):
            file["config"].attrs[key] = bad.encode()
        file.attrs["argv"] = bad.encode()
        file["provenance"].attrs["mpi"] = b"\xff\xfe<b>"
        table = file["ceilings"][:]
        kind = [(name, "S80" if name == "ceiling" else table.dtype[name])
                for name in table.dtype.names]
        table = table.astype(kind)
        table["ceiling"][0] = bad.encode()[:80]
        del file["ceilings"]
        file["ceilings"] = table
    folder = copy_of("reduce-file-strong", change)
    assert "<script" not in "".join(figures_of(folder).values())
    page, out, _ = report(folder)
    assert "script" not in page.tags and "b" in page.tags
    assert "&lt;script&gt;" in page.source and "<script" not in page.source
    assert not list(out.parent.glob("hacked")) and not pathlib.Path("hacked").exists()
    assert list(page.figures.values()).count("picture") >= 8, page.figures


def test_hostile_tracks_stay_texts():
    import h5py
    path = timed_run(harness.new_folder())
    with h5py.File(path, "r+") as file:
        for name in ("timeline/spans", "timing/rank_phase"):
            table = file[name][:]
            table["track"][table["track"] == b"upload"] = b"<script>"
            file[name][:] = table
    page, _, _ = report(path)
    assert page.figures["s1-timeline"] == "picture"
    assert "script" not in page.tags and "&lt;script&gt;</text>" in page.source


def test_empty_tables_say_what_is_missing():
    def change(file):
        for name in ("ceilings", "telemetry/gpu", "timing/rank_phase", "timing/startup"):
            replace(file, name, file[name][:0])
    page, _, _ = report(copy_of("gemm-tf32-strong", change))
    assert page.figures["s1-roofline"] == page.figures["s1-timeline"] == "missing", page.figures
    assert page.figures["s1-time"] == "picture"


def test_numbers_that_cannot_be():
    def change(file):
        ceilings, reps, metrics = (file[name][:] for name in
                                   ("ceilings", "timing/reps", "metrics"))
        ceilings["aggregate"] = [float("inf"), float("nan"), 1e-320][:len(ceilings)]
        reps["wall"] = [5e-324 if reps["rep"][0] == 0 else 1e300] * len(reps)
        metrics["number"][metrics["metric"] == b"energy"] = -1e308
        for name, table in (("ceilings", ceilings), ("timing/reps", reps), ("metrics", metrics)):
            file[name][:] = table
    page, _, _ = report(copy_of("reduce-file-strong", change), timeout=60)
    assert len(page.figures) == len(FIGURES) and page.figures["s1-cost"], page.figures


def test_an_output_that_exists():
    folder = EXAMPLES / "reduce-file-strong"
    _, out, _ = report(folder)
    before = out.read_bytes()
    harness.expect_complaint(harness.run("report", folder, "-o", out), 2, ["output.file", out.name])
    assert out.read_bytes() == before
    harness.run("report", folder, "-o", out, "--output.overwrite", "true").expect(0)
    out.write_text("mine")
    harness.expect_complaint(
        harness.run("report", folder, "-o", out, "--output.overwrite", "true"), 2, [out.name])
    assert out.read_text() == "mine"
    nowhere = out.parent / "nowhere" / "page.html"
    harness.expect_complaint(harness.run("report", folder, "-o", nowhere), 2, ["nowhere"])
    assert sorted(path.name for path in out.parent.iterdir()) == [out.name]


def test_without_gnuplot_tables_come():
    empty = harness.new_folder()
    page, _, finished = report(EXAMPLES / "reduce-file-strong", env={"PATH": str(empty)})
    harness.expect_warning(finished, ["gnuplot-nox"])
    assert "gnuplot-nox" in page.source and "picture" not in page.figures.values()
    assert len(numbers_of(page, "s1-speedup")) == 2


def test_a_thousand_files():
    folder = harness.new_folder()
    original = EXAMPLES / "reduce-file-strong"
    for i in range(500):
        for ranks in (1, 2):
            shutil.copy(original / f"p{ranks}-r{1 + i % 3}.h5", folder / f"p{ranks}-{i}.h5")
    began = time.monotonic()
    page, _, _ = report(folder)
    seconds = time.monotonic() - began
    print(f"{seconds:.1f} s for a page of 1000 files")
    assert seconds < 10, seconds
    assert page.figures["s1-time"] == "picture"


def check_in_browser(browser, path, figures):
    """The page at two widths, in two schemes."""
    for width in (360, 1440):
        for scheme in ("light", "dark"):
            browser.show(path, width, scheme)
            where = f"{path} {width} {scheme}"
            assert browser.value("document.documentElement.scrollWidth") <= width, where
            assert browser.value("document.querySelectorAll('figure').length") == figures, where
            shown = browser.value("[...document.querySelectorAll('.picture svg')].filter("
                                  "e => e.getBoundingClientRect().height > 100).length")
            assert shown == browser.value(
                "[...document.querySelectorAll('figure')].filter("
                "e => e.querySelector('.picture')).length"), where
            assert browser.value(CONTRAST) == [], (where, browser.value(CONTRAST))
            assert browser.value(SMALLEST_TEXT) >= 11, (where, browser.value(SMALLEST_TEXT))
    browser.show(path, 688, "light", "print")  # an A4 page between its margins
    assert browser.value("document.documentElement.scrollWidth") <= 688, path
    assert browser.value("""[...document.querySelectorAll(".scroll")].filter(
        e => e.scrollWidth > e.clientWidth + 1).length""") == 0, path
    assert browser.value("""[...document.querySelectorAll("section > details")].every(
        e => e.lastElementChild.getBoundingClientRect().height > 10)"""), path
    for name, event in browser.events:
        assert name not in ("Runtime.exceptionThrown", "Log.entryAdded"), event
        assert name != "Runtime.consoleAPICalled", event
        if name == "Network.requestWillBeSent":
            url = event["request"]["url"]
            assert url.startswith(("file://", "data:", "about:")), url
    assert browser.value("typeof hacked") == "undefined"


def test_in_a_browser():
    program = chromium.find()
    if not program:
        harness.skip_part("the pages in a browser: there is no Chromium (package chromium)")
        return
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    _, study, _ = report(*folders)
    _, run, _ = report(timed_run(harness.new_folder()))
    with chromium.Browser(program) as browser:
        check_in_browser(browser, study, len(FIGURES) * len(folders))
        check_in_browser(browser, run, len(FIGURES))


if __name__ == "__main__":
    if not shutil.which("gnuplot"):
        harness.skip_all("there is no gnuplot (package gnuplot-nox)")
    os.environ.pop("GNUTERM", None)
    harness.main()
