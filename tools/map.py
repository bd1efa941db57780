"""Draws docs/pictures/map.svg from the table of rooms in docs/architecture.md.

python tools/map.py
"""

import re
from collections import defaultdict
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WIDTH, HEIGHT, GAP, LEFT = 168, 40, 12, 60


def rooms(page: str) -> list[tuple[int, str]]:
    """(floor, name) of each room of the table."""
    return [(int(floor), name) for floor, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, flags=re.MULTILINE)]


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
    (DOCS / "pictures" / "map.svg").write_text(picture((DOCS / "architecture.md").read_text()))
