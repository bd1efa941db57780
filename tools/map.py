"""What docs/architecture.md has by machine: its picture, docs/pictures/map.svg, drawn from its table, and its list of files.

python tools/map.py
"""

import ast
import re
from collections import defaultdict
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "askless"
LIST = "## Every file\n"
WIDTH, HEIGHT, GAP, LEFT = 168, 40, 12, 60


def rooms(page: str) -> list[tuple[int, str]]:
    """(floor, name) of each room of the table."""
    return [(int(floor), name) for floor, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, flags=re.MULTILINE)]


def with_files(page: str) -> str:
    """The page with its list made again: each file and the first sentence of what it says of itself."""
    parts = [page.partition(LIST)[0] + LIST]
    for _, room in rooms(page):
        files = sorted((SOURCE / room).rglob("*.py")) or [SOURCE / f"{room}.py"]
        told = [(file.relative_to(SOURCE).as_posix(), first_sentence(file)) for file in files]
        parts.append(f"\n**`{room}`**\n\n" + "".join(f"- `{name}`: {text}\n" for name, text in told if text))
    return "".join(parts)


def first_sentence(file: Path) -> str:
    tree = ast.parse(file.read_text())
    told = ast.get_docstring(tree)
    if told is None or (
        file.name == "__init__.py" and not any(isinstance(part, ast.FunctionDef) for part in tree.body)
    ):
        return ""
    text = " ".join(told.split("\n\n")[0].split())
    return re.split(r"(?<=[\w)`'\"]\.)\s(?=[A-Z`])", text, maxsplit=1)[0]


def picture(page: str) -> str:
    floors: dict[int, list[str]] = defaultdict(list)
    for floor, name in rooms(page):
        floors[floor].append(name)
    top, widest = max(floors), max(map(len, floors.values()))
    width, height = LEFT + widest * (WIDTH + GAP), top * (HEIGHT + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="15">',
        "<title>The rooms of askless by floor; imports run down</title>",
        f'<path d="M24 {GAP} V{height - GAP - 8} m-6 -8 l6 8 l6 -8" fill="none" stroke="#888" stroke-width="2"/>',
    ]
    for floor, names in floors.items():
        y = GAP + (top - floor) * (HEIGHT + GAP)
        start = LEFT + (widest - len(names)) * (WIDTH + GAP) / 2
        for i, name in enumerate(names):
            x = start + i * (WIDTH + GAP)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#e8eef7" stroke="#4a6fa5"/>'
                f'<text x="{x + WIDTH / 2}" y="{y + 26}" text-anchor="middle" fill="#1b2a41">{escape(name)}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    made = with_files((DOCS / "architecture.md").read_text())
    (DOCS / "architecture.md").write_text(made)
    (DOCS / "pictures" / "map.svg").write_text(picture(made))
