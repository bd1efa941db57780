import dataclasses
import re
from html.parser import HTMLParser

import pytest

from askless.bench import report
from askless.bench.results import csv_text, read

VOID = {"meta", "img", "br", "hr", "link", "input"}
STEADY = ("results.csv", "tables.md", "tables.tex")


class Page(HTMLParser):
    """Fails on tags that do not close in order; collects text and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags, self.attributes = [], "", [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    assert report.write(results, folder) == folder / "report.html"
    return folder


def test_the_files_of_a_report(written, results):
    names = {p.name for p in written.iterdir()}
    assert names == {"results.csv", "times.csv", "tables.md", "tables.tex", "times.md", "report.html"}
    assert (written / "results.csv").read_text() == csv_text(results.records)
    assert (written / "times.csv").read_text() == csv_text(results.times)


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(written):
    text = (written / "report.html").read_text()
    page = Page(text)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert all(value.startswith("data:image/png;base64,") for name, value in page.attributes if name == "src")
    ids = {value for name, value in page.attributes if name == "id"}
    assert {value for name, value in page.attributes if name == "href"} <= {f"#{key}" for key in ids}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text


def test_every_picture_says_what_it_shows(written):
    page = Page((written / "report.html").read_text())
    alts = [value for name, value in page.attributes if name == "alt"]
    assert page.tags.count("img") == 2
    assert alts == ["curves", "critical difference"]
    assert (
        "Test accuracy against the number of labels: the mean over the seeds and, from three seeds on, its 95 % interval "
        "as a band, cut where it leaves the axes." in page.text
    )
    assert "bars join methods closer than Nemenyi's critical difference (5 %)" in page.text


@pytest.mark.parametrize(
    "said",
    [
        "A made-up benchmark",
        "scale small",
        report.SCALED_DOWN,
        "That the last method wins.",
        "Two learners.",
        "The paper does not give the batch; we took 64.",
        "Test accuracy, % by number of labels: CIFAR-10, fixmatch+darp",
        "The paper's numbers (not comparable: this run is scaled down, scale “small”): SVHN",
        "two-sided Wilcoxon signed-rank test",
        "Kendall tau of the methods' order",
        "Wins and losses",
        "Times and memory",
        "selection, s per round (median)",
        "askless bench run made.up --out here",
        "askless 0.1, torch 2.6",
        "0, 1, 2, 3, 4",
        "cores: 2, processor: x86, system: Linux",
        "results.csv",
        "times.csv",
    ],
)
def test_the_page_says(written, said):
    assert said in Page((written / "report.html").read_text()).text


def test_nothing_failed_nothing_red(written):
    assert "cell failed" not in (written / "report.html").read_text()


def test_failures_stand_in_a_red_box(make, without, tmp_path):
    r = without(make(figures=[]), [("SVHN", "badge", 3), ("SVHN", "npc", 1)], "out of <memory> & time")
    text = report.write(r, tmp_path).read_text()
    assert '<div class="box bad" role="alert"><strong>2 of 60 cells failed</strong>' in text
    assert "SVHN, badge, 3: out of &lt;memory&gt; &amp; time" in text


@pytest.mark.parametrize(
    ("about", "banner"),
    [
        ({"comparable": True, "scale": "full"}, None),
        ({"comparable": False, "scale": "smoke"}, report.SCALED_DOWN),
        ({"comparable": False, "scale": "full"}, report.OTHERWISE),
        ({"comparable": False, "scale": "small", "paper": None}, None),
    ],
)
def test_the_banner_is_there_unless_the_numbers_compare(make, about, banner, tmp_path):
    r = make(figures=[], seeds=[0, 1], groups=["g"], **about)
    text = Page(report.write(r, tmp_path).read_text()).text
    marked = [m for m in (report.SCALED_DOWN, report.OTHERWISE) if m in text]
    assert marked == ([banner] if banner else [])
    assert (banner or "# ") in (tmp_path / "tables.md").read_text()


def test_texts_from_outside_are_escaped(make, tmp_path):
    evil = "<script>alert(1)</script> & \"quotes'"
    r = make(
        methods=["random", evil],
        groups=[evil],
        learners=[evil],
        seeds=[0, 1],
        title=evil,
        name=evil,
        scale=evil,
        protocol=evil,
        open_points=[evil],
        command=evil,
        versions={evil: evil},
        machine={evil: evil},
        figures=[{"kind": "curves", "caption": evil}],
        paper={"source": evil, "unit": evil, "says": evil, "rows": [
            {"group": evil, "method": evil, "column": evil, "mean": 1.0, "sd": None}
        ]},
    )  # fmt: skip
    page = Page(report.write(r, tmp_path).read_text())
    assert "script" not in page.tags
    assert page.text.count(evil) > 10


def test_same_numbers_same_bytes_whatever_the_clock_says(make, store, tmp_path):
    """A second run of the same cells: other times, other machine, other order of the cells on disk."""
    r = make(figures=[{"kind": "curves"}], seeds=[0, 1])
    slower = dataclasses.replace(r, times=[t._replace(value=t.value * 3) for t in r.times])
    other = dataclasses.replace(slower, about=slower.about | {"machine": {"cores": 64}, "command": "another"})
    one = report.write(read(store(r, tmp_path / "a")), tmp_path / "a")
    two = report.write(read(store(other, tmp_path / "b")), tmp_path / "b")
    for name in STEADY:
        assert one.with_name(name).read_bytes() == two.with_name(name).read_bytes()
    assert one.with_name("times.md").read_bytes() != two.with_name("times.md").read_bytes()
    again = report.write(read(tmp_path / "a"), tmp_path / "c")
    assert again.read_bytes() == one.read_bytes()


def test_a_figure_that_cannot_be_drawn_is_named(make, tmp_path):
    r = make(groups=["g"], seeds=[0, 1], figures=[{"kind": "critical_difference"}])
    assert "critical difference: not drawn" in report.write(r, tmp_path).read_text()


def test_a_benchmark_that_has_finished_nothing_still_has_a_page(make, without, tmp_path):
    r = make(seeds=[0], groups=["g"], methods=["npc"])
    page = Page(report.write(without(r, [("g", "npc", 0)], "no data"), tmp_path).read_text())
    assert "g, npc, 0: no data" in page.text


def test_a_least_plan_is_enough(curve_results, tmp_path):
    r = curve_results({"random": [[0.5, 0.6]]})
    assert "50.0 (1)" in Page(report.write(dataclasses.replace(r, about={}), tmp_path).read_text()).text
