"""The README stays short, the user documentation too, and phrases that nobody would say do not return."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED_OR_INTERNAL = ("commands.md", "architecture.md")
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in GENERATED_OR_INTERNAL)]
README_WORDS, ALL_WORDS = 500, 20_000

PHRASES = {  # a regular expression: what to write
    r"\bgo(es|ne|ing)? on\b(?! the)": "resume, continue",
    r"\banew\b|\bafresh\b": "again",
    r"\bgraphics cards?\b": "GPU",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwhole or not at all\b": "atomically",
    r"\b(is|are|was|were|be) told\b|\btold of\b": "receives, logs, reports",
    r"\bnobody can (give|know|say)\b": "which does not exist",
    r"\bso many\b": "the number",
    r"\bwith commas\b": "comma-separated",
    r"\b(which|more) eyes\b": "encoder",
    r"\bfor ever\b": "permanently",
    r"\bone that was begun\b": "an unfinished one",
    r"\bgot another row\b": "row 7 is invalid",
    r"\bseen from here\b": "at its original path",
    r"\bwhat goes wrong becomes\b": "turn errors into",
    r"\bis called as\b": "has the name of",
    r"\btakes? the (word|place) of\b": "replaces",
    r"\bwhat (needs|lacks) one\b": "name the thing",
    r"\bwhat random has at\b": "reaches random's accuracy with",
}


def words(text: str) -> int:
    """How many words a page has, code included; signs alone, such as the lines of a table, are none."""
    return sum(bool(re.search(r"\w", part)) for part in text.split())


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def documentation() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield page.name, without_code(page.read_text(encoding="utf-8"))


def messages() -> Iterator[tuple[str, str]]:
    """The texts in src that people read: every string but the docstrings, of which only those of commands are shown."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        for node in ast.walk(tree):
            shown = path.parent.name == "cli" or id(node) not in docs
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and shown:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def offences(text: str) -> list[str]:
    text = " ".join(text.split())
    return [
        f"{m[0]!r} (say: {say})" for phrase, say in PHRASES.items() for m in re.finditer(phrase, text, re.IGNORECASE)
    ]


def test_the_readme_is_short_and_has_two_pictures_and_ten_lines_of_python():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= README_WORDS
    assert len(re.findall(r"!\[[^\]]+\]\([^)]+\)", text)) == 2
    (block,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert len(block.splitlines()) == 10


def test_the_user_documentation_is_short():
    count = {page.name: words(page.read_text(encoding="utf-8")) for page in PAGES}
    assert sum(count.values()) <= ALL_WORDS, sorted(count.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("texts", [pytest.param(documentation, id="docs"), pytest.param(messages, id="src")])
def test_no_phrase_returns_that_nobody_would_say(texts):
    found = [f"{where}: {offence}" for where, text in texts() for offence in offences(text)]
    assert not found, "\n".join(found)


def test_an_offence_is_found_across_lines_and_a_plain_sentence_is_none():
    assert offences("Stop it; the same command goes\non.") == ["'goes on' (say: resume, continue)"]
    assert offences("The same command resumes. A page goes on the disk.") == []
