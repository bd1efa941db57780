"""The pages of docs/ as Sphinx wants them, in build/site-pages, and the files that go beside them, in build/site-files;
`make site` then builds build/site from both.

    python tools/stage_site.py

docs/ is written to be read as it is, on any code host. Here it gets what a site needs besides: the order of pages, the
notebooks as pages, the Python reference from the docstrings, and links to files that are no pages (reports, tables of
numbers, the licence). A link to something that is not there is an error, also where Sphinx would not look.
"""

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import reference  # noqa: E402

DOCS = ROOT / "docs"
ORDER = {  # every page of docs/, by heading
    "Begin": ["start-labelling.md", "start-engineer.md", "start-researcher.md", "all.md", "faq.md"],
    "How to": [
        *("label.md", "label-more.md", "loop.md", "models.md", "encoders.md", "data.md", "text.md", "extend.md"),
        *("scale.md", "labelstudio.md", "scikit-learn.md", "tracking.md", "bench.md"),
    ],
    "Methods": ["methods.md", "askless.md", "kernels.md", "infinite.md", "theory.md"],
    "Measured": [
        f"evidence/{page}.md"
        for page in (
            "race",
            "askless",
            "README",
            "claims",
            "outlooks",
            "labelling",
            "encoders",
            "infinite",
            "scale",
            "results",
            "speed",
        )
    ],
    "Python reference": [f"api/{page}.md" for page in reference.PAGES],
    "Reference": ["glossary.md", "commands.md", "architecture.md", "notebooks/README.md"],
    "The project": ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"],
}
OUTSIDE = ORDER["The project"]  # pages at the root of the repository
NAME = re.compile(r"(?<!\[)`(al\.([\w.]*\w)[^`<]*)`")
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


class BrokenLink(Exception):
    """A link to something that is not there."""


def relinked(text: str, page: Path) -> str:
    """Links as the site has them: to pages as they are, to other files of docs/ through `site:`; to nothing an error. Names
    as `al.NPC` lead to the reference."""

    def one(found: re.Match[str]) -> str:
        label, target = found[1], found[2]
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return found[0]
        place = (page.parent / path).resolve()
        if not place.exists():
            raise BrokenLink(f"{page}: nothing is at {target}")
        if label.startswith("!") or (place.suffix == ".md" and place.is_relative_to(DOCS)):
            return found[0]
        if place.suffix == ".md" and place.parent == ROOT:
            up = "../" * (len(page.relative_to(ROOT).parts) - 2) if page.is_relative_to(DOCS) else ""
            return f"{label}({up}{'index.md' if place.name == 'README.md' else place.name}{'#' + anchor if anchor else ''})"
        if place.is_relative_to(DOCS):
            return f"{label}(site:{path})"
        return label.strip("[]")  # a file of the repository that the site does not have

    parts = FENCE.split(text)
    named = [part if part.startswith("```") else NAME.sub(r"{py:obj}`\1 <askless.\2>`", part) for part in parts]
    return "".join(part if part.startswith("```") else LINK.sub(one, part) for part in named)


def from_root(text: str) -> str:
    """A page of the repository's root, moved into docs/."""
    return text.replace("](docs/", "](")


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code, and what its cells printed where that was kept."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(o.get("text", "")) for o in cell["outputs"] if o["output_type"] == "stream")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    parts.append(f"[The notebook itself](site:{path.name})")
    return "\n\n".join(parts) + "\n"


def contents(there: Path) -> str:
    """The order of pages, as Sphinx reads it."""
    parts = []
    for heading, pages in ORDER.items():
        names = [page.removesuffix(".md") for page in pages if (there / page).exists()]
        parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *names, "```"]))
    return "\n" + "\n\n".join(parts) + "\n"


def nested(pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def check_order() -> None:
    """Every page has its place."""
    named = {page for pages in ORDER.values() for page in pages}
    for page in DOCS.glob("*.md"):
        if page.name not in named and page.name != "index.md":
            raise BrokenLink(f"docs/{page.name} has no place in ORDER of tools/stage_site.py")
    for page in named - {*OUTSIDE, *ORDER["Python reference"]}:
        if not (DOCS / page).exists():
            raise BrokenLink(f"ORDER of tools/stage_site.py names docs/{page}, which is not there")


def stage(there: Path, files: Path) -> None:
    """Pages and pictures into `there`, what is only linked to into `files`."""
    check_order()
    for folder in (there, files):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, there)
    for path in sorted(DOCS.rglob("*")):
        if path.suffix in (".html", ".csv", ".ipynb", ".json"):
            (files / path.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, files / path.relative_to(DOCS))
    for page in sorted(DOCS.rglob("*.md")):
        (there / page.relative_to(DOCS)).write_text(relinked(page.read_text(encoding="utf-8"), page), encoding="utf-8")
    for name in OUTSIDE:
        text = relinked((ROOT / name).read_text(encoding="utf-8"), ROOT / name)
        (there / name).write_text(from_root(text), encoding="utf-8")
    reference.write(there / "api")
    notebooks = sorted((there / "notebooks").glob("*.ipynb"))
    for notebook in notebooks:
        notebook.with_suffix(".md").write_text(notebook_page(notebook), encoding="utf-8")
    runs = sorted(p.parent.name for p in (there / "evidence").glob("*/tables.md"))
    for page, inside in (
        ("index.md", contents(there)),
        ("notebooks/README.md", nested([n.stem for n in notebooks])),
        ("evidence/README.md", nested([f"{run}/tables" for run in runs])),
    ):
        with (there / page).open("a", encoding="utf-8") as file:
            file.write(inside)


if __name__ == "__main__":
    try:
        stage(ROOT / "build" / "site-pages", ROOT / "build" / "site-files")
    except BrokenLink as error:
        raise SystemExit(str(error)) from None
