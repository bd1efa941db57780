"""The documentation as a whole: pages that are made by scripts are current, every name is on the page of all names, every
link leads somewhere, notebooks run."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import askless

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_reference_is_that_of_the_commands():
    reference = load("command_reference")
    assert reference.PAGE.read_text() == reference.page(), "run `python tools/command_reference.py --docs`"


def test_the_page_of_all_names_has_every_name():
    page = (DOCS / "all.md").read_text()
    missing = [name for name in askless.__all__ if not re.search(rf"`al\.{name}\b", page)]
    assert not missing, "docs/all.md lacks these"


def test_the_page_of_all_names_has_no_name_that_is_not_there():
    page = (DOCS / "all.md").read_text()
    for name in re.findall(r"`al\.(\w+)", page):
        assert name in askless.__all__


def test_every_page_has_its_place_and_every_link_leads_somewhere(tmp_path):
    site = load("stage_site")
    site.stage(tmp_path / "pages", tmp_path / "files")
    assert (tmp_path / "files" / "evidence" / "race.logistic" / "report.html").exists()
    contents = (tmp_path / "pages" / "index.md").read_text()
    for page in ("start-labelling", "all", "evidence/README", "CHANGELOG"):
        assert f"\n{page}\n" in contents


def anchors(page: Path) -> set[str]:
    """The anchors that code hosts, and MyST, give to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_link_to_a_heading_finds_it():
    site = load("stage_site")
    for page in (*DOCS.rglob("*.md"), ROOT / "README.md"):
        for _, target in site.LINK.findall(page.read_text()):
            path, _, anchor = target.partition("#")
            if anchor and "://" not in target:
                assert anchor in anchors(page.parent / path if path else page), f"{page}: {target}"


def test_a_link_to_nothing_is_an_error():
    site = load("stage_site")
    with pytest.raises(site.BrokenLink, match=r"nothing is at nowhere\.md"):
        site.relinked("see [there](nowhere.md)", DOCS / "index.md")


def test_links_become_what_the_site_has():
    site = load("stage_site")
    page = DOCS / "evidence" / "README.md"
    assert site.relinked("[r](npc.table1/report.html)", page) == "[r](site:npc.table1/report.html)"
    assert site.relinked("[m](../askless.md#evidence)", page) == "[m](../askless.md#evidence)"
    assert site.relinked("[c](../../CONTRIBUTING.md)", page) == "[c](../CONTRIBUTING.md)"
    assert site.relinked("[l](../LICENSE)", DOCS / "index.md") == "l"
    assert site.relinked("by `al.NPC(draws=5)`", page) == "by {py:obj}`al.NPC(draws=5) <askless.NPC>`"
    assert site.relinked("```\n[r](nowhere.md)\n```\n", page) == "```\n[r](nowhere.md)\n```\n"


def test_pictures_are_small_and_none_is_left_over():
    used = {
        (page.parent / target).resolve()
        for page in DOCS.rglob("*.md")
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size < 400_000, picture.name  # one of a photograph in all its colours is the largest
        assert picture.resolve() in used, f"{picture.name} is on no page"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(path, monkeypatch, tmp_path):
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path))
    monkeypatch.chdir(ROOT)
    namespace: dict = {"__name__": "__main__"}
    for k, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name} cell {k}", "exec"), namespace)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_notebooks_are_kept_without_what_they_printed():
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        assert all(not cell.get("outputs") for cell in json.loads(path.read_text())["cells"]), path.name


def test_the_picture_of_the_map_is_that_of_its_table():
    maps, page = load("map"), (DOCS / "architecture.md").read_text()
    assert (DOCS / "pictures" / "map.svg").read_text() == maps.picture(page), "run `python tools/map.py`"


def test_the_version_and_its_day_are_those_of_the_changelog():
    version, day = re.findall(r"^## \[(\d[\d.]*)\] - ([\d-]+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    cited = (ROOT / "CITATION.cff").read_text()
    assert version == askless.__version__
    assert f"\nversion: {version}\ndate-released: {day}\n" in cited
