"""Writes the Python blocks of the README and of docs/ into build/page_examples, one file per page, for `make check-types`.

    python tools/page_examples.py

Every line keeps its number, so that what is said of a file is said of its page. No file is called askless.py, which would
hide the package.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
TO = ROOT / "build" / "page_examples"


def code(page: str) -> str:
    """The page with every line emptied that is not inside a Python block."""
    fence, lines = "", []
    for line in page.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
            line = ""
        lines.append(line if fence == "```python" else "")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    TO.mkdir(parents=True, exist_ok=True)
    for old in TO.glob("*.py"):
        old.unlink()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        if (found := code(page.read_text(encoding="utf-8"))) != "\n":
            (TO / f"page_{page.stem}.py").write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
