#!/usr/bin/env python3
"""report -o PAGE.html: what the page has, by its text and in a browser."""

import html
import json
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import chromium
import harness
from pages import (EXAMPLES, FIGURES, copy_of, figures_of, main, numbers_of, replace, report,
                   set_walls, timed_run)

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

# The texts of figures that leave their picture, or that overlap another text.
CROWDED = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll(".picture > svg")) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim()).map(
        text => [text.textContent, text.getBoundingClientRect()]);
    for (const [i, [text, box]] of frame.height ? boxes.entries() : []) {
      const outside = Math.max(frame.left - box.left, box.right - frame.right,
                               frame.top - box.top, box.bottom - frame.bottom);
      if (outside > 1) bad.push(`${svg.parentElement.parentElement.id}: "${text}" is cut`);
      for (const [other, beside] of boxes.slice(0, i)) {
        const across = Math.min(box.right, beside.right) - Math.max(box.left, beside.left);
        const along = Math.min(box.bottom, beside.bottom) - Math.max(box.top, beside.top);
        if (across > -2 && along > 3) {
          bad.push(`${svg.parentElement.parentElement.id}: "${text}" touches "${other}"`);
        }
      }
    }
  }
  return bad;
})()"""


WITHOUT_CODE = """(() => { const body = document.body.cloneNode(true);
body.querySelectorAll("pre").forEach(each => each.remove()); return body.textContent; })()"""


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


def test_figures_as_documents():
    """Each figure is a complete SVG document, and README.md shows the figure of `report`."""
    folder = EXAMPLES / "gemm-tf32-four"
    page, _, _ = report(folder)
    found = figures_of(folder)
    assert set(found) == {f"{name}.svg" for name, how in page.figures.items() if how == "picture"}
    for name, text in found.items():
        root = xml.etree.ElementTree.fromstring(text)
        assert root.tag.endswith("}svg") and "<title>" in text and 'fill="#fff"' in text, name
        words = "".join(root.itertext())
        assert "NVIDIA H200" in words and "launches" in words, (name, words)
    shown = EXAMPLES / "gemm-tf32-four.svg"
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


def test_studies_in_one_figure():
    """--together draws one line per study; times only of the same work."""
    same = [EXAMPLES / "gemm-tf32-strong", EXAMPLES / "gemm-bf16-strong"]
    page, _, _ = report(*same, "--together")
    names = [f"together-{name}" for name in ("time", "speedup", "efficiency")]
    assert [page.figures[name] for name in names] == ["picture"] * 3, page.figures
    assert page.figures["s1-speedup"] == page.figures["s2-speedup"] == "picture"
    assert "--together -o report.html" in html.unescape(page.source)
    figures = figures_of(*same, "--together")
    for name in names:
        for words in ("A: product.precision=tf32", "B: product.precision=bf16"):
            assert words in figures[f"{name}.svg"], name
            assert html.escape(words) in page.source, words
    words = " ".join(re.sub(r"<[^>]*>", " ", html.unescape(
        figures["together-speedup.svg"])).split())
    assert len(re.findall(r"Amdahl's law[^;]*: s = -?[\d.]+", words)) == 2, words
    for row in numbers_of(page, "together-speedup"):
        assert len(row) == 3, row
    other, _, _ = report(same[0], EXAMPLES / "reduce-file-strong", "--together")
    assert [other.figures[name] for name in names] == ["missing", "picture", "picture"]


def test_a_rejected_law_is_no_headline():
    """Without a law that fits, no tile and no curve is extrapolated."""
    import h5py
    folder = copy_of("gemm-tf32-strong")
    for ranks, seconds in ((3, 1.2), (4, 1.8)):
        for replicate in (1, 2, 3):
            path = folder / f"p{ranks}-r{replicate}.h5"
            shutil.copy(folder / f"p2-r{replicate}.h5", path)
            with h5py.File(path, "r+") as file:
                file.attrs["run_uuid"] = f"{path}"
                rows = file["topology/ranks"][:]
                replace(file, "topology/ranks", rows[[0] * ranks])
                set_walls(file, [seconds * (1 + 0.001 * replicate)])
    page, _, _ = report(folder)
    assert page.figures["s1-law"] == "picture", page.figures
    assert "Amdahl&#39;s law does not fit" in page.source, page.source
    assert "xtrapolated to" not in page.source
    # A path may have "1/study".
    assert not re.search(r"1/s\b", page.source.split('id="terms"')[0])
    assert "extrapolated" not in [row[""] for row in numbers_of(page, "s1-law")]


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
    page, _, _ = report(folder)
    assert page.figures["s1-time"] == "picture"


def check_in_browser(browser, path, figures):
    """The page has no overflow, crowded figure, small text or low contrast at two widths and in two
    schemes."""
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
            if scheme == "light":
                assert browser.value(CROWDED) == [], (where, browser.value(CROWDED))
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
    _, together, _ = report(EXAMPLES / "gemm-tf32-strong", EXAMPLES / "gemm-bf16-strong",
                            "--together")
    with chromium.Browser(program) as browser:
        check_in_browser(browser, together, 2 * len(FIGURES) + 3)
        check_in_browser(browser, study, len(FIGURES) * len(folders))
        check_in_browser(browser, run, len(FIGURES))


def test_experiments_have_anchors():
    """In the section of the first file, the anchor of an experiment is its name."""
    files = [EXAMPLES / "bench.h5", EXAMPLES / "bench-four.h5"]
    page, _, _ = report(*files, env={"PATH": ""})  # without gnuplot, for speed
    for file, prefix in zip(files, ("", "b2-")):
        told = json.loads(harness.run("report", file, "--json").expect(0).out)["benches"][0]
        measured = {each["name"] for each in told["experiments"] if each["state"] == "measured"}
        assert len(measured) > 40, measured
        links = set(re.findall(rf'<a href="#{prefix}([^"]+)">\1</a>', page.source))
        assert links == measured, links ^ measured
        assert {prefix + name for name in measured} <= set(page.figures), page.figures


def test_figures_of_experiments_have_room():
    """No text in a figure is cut or touches another one, and none has back-ticks."""
    program = chromium.find()
    if not program:
        harness.skip_part("the pages in a browser: there is no Chromium (package chromium)")
        return
    runs = [EXAMPLES / name for name in ("gemm-tf32-four", "gemm-fp32-four", "reduce-file-four")]
    with chromium.Browser(program) as browser:
        # Without runs, and with them in the roofline.
        for files in [[EXAMPLES / "bench.h5"], [EXAMPLES / "bench-four.h5", *runs]]:
            page, out, _ = report(*files)
            assert list(page.figures.values()).count("picture") > 100, page.figures
            documents = out.with_suffix(".documents.html")
            documents.write_text("<meta charset=utf-8>" + "".join(
                f'<div id="{name}"><div class="picture">{text[text.index("<svg"):]}</div></div>'
                for name, text in figures_of(*files).items()), encoding="utf-8")
            for path, width in ((out, 360), (documents, 1280)):  # documents have wide pictures
                browser.show(path, width, "light")
                bad = browser.value(CROWDED)
                assert bad == [], (path, width, len(bad), bad[:20])
                assert "`" not in browser.value(WITHOUT_CODE), (path, width)


if __name__ == "__main__":
    main()
