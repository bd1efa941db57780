"""A table, and how it looks as HTML, Markdown, LaTeX and in a terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from askless.report.markup import Markup, markup, tag

if TYPE_CHECKING:
    from rich.table import Table as Shown

NOTHING = "–"


class Cell(NamedTuple):
    """`kind` is a class of the style sheet."""

    text: str
    bold: bool = False
    kind: str | None = None


Column = tuple[str, Sequence[str | Cell]]


@dataclass(frozen=True)
class Table:
    """A heading, the names of the columns, rows of cells (the first one names the row), and what there is to say.

    A text stands for a plain cell, and a row of one cell is a heading of those below it. `left`: the columns of words.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]  # of cells
    note: str = ""
    left: Sequence[int] = (0,)

    def __post_init__(self) -> None:
        cells = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in self.rows)
        object.__setattr__(self, "head", tuple(self.head))
        object.__setattr__(self, "rows", cells)

    @classmethod
    def by_columns(cls, title: str, columns: Sequence[Column], note: str = "", left: Sequence[int] = (0,)) -> "Table":
        """A table from the name and the cells of each column."""
        rows = list(zip(*(cells for _, cells in columns), strict=True))
        return cls(title, [head for head, _ in columns], rows, note, left)

    def turned(self, corner: str) -> "Table":
        """Its rows as columns."""
        names, *columns = zip(*self.rows, strict=True)
        rows = [(name, *column) for name, column in zip(self.head[1:], columns, strict=True)]
        return Table(self.title, [corner, *(c.text for c in names)], rows, self.note, self.left)

    def html(self) -> Markup:
        """It scrolls by itself on a narrow screen."""
        head = [tag("th", name, scope="col", cls=self._side(i)) for i, name in enumerate(self.head)]
        return markup(
            tag("h3", self.title) if self.title else None,
            tag(
                "div",
                tag("table", tag("thead", tag("tr", head)), tag("tbody", map(self._row, self.rows))),
                cls="scroll",
                tabindex=0,
            ),
            tag("p", self.note, cls="note") if self.note else None,
        )

    def _row(self, row: Sequence[Cell]) -> Markup:
        first, *others = row
        if not others and len(self.head) > 1:
            return tag("tr", tag("th", first.text, colspan=len(self.head), scope="rowgroup"), cls="part")
        cells = [
            tag("td", tag("b", c.text) if c.bold else c.text, cls=c.kind or self._side(i))
            for i, c in enumerate(others, 1)
        ]
        return tag("tr", tag("th", first.text, scope="row"), cells)

    def _side(self, column: int) -> str | None:
        return "left" if column in self.left and column else None

    def terminal(self) -> "Shown":
        """For rich to print."""
        from rich import box
        from rich.table import Table as Shown
        from rich.text import Text

        shown = Shown(title=self.title, caption=self.note or None, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for i, name in enumerate(self.head):
            shown.add_column(name, justify="left" if i in self.left else "right", overflow="fold")
        for row in self.rows:
            if len(row) == 1 < len(self.head):
                shown.add_section()
                shown.add_row(Text(row[0].text, "bold"))
            else:
                shown.add_row(*(c.text for c in row))
        return shown


def markdown(tables: Sequence[Table]) -> str:
    """GitHub's Markdown."""
    return "\n".join(_markdown(t) for t in tables)


def _markdown(t: Table) -> str:
    def line(cells: Sequence[Cell]) -> str:
        texts = [markdown_text(c.text) for c in cells]
        return f"| {' | '.join(f'**{x}**' if c.bold else x for x, c in zip(texts, cells, strict=True))} |"

    rule = "|".join("---" if i in t.left else "---:" for i in range(len(t.head)))
    lines = [f"### {markdown_text(t.title)}", "", line([Cell(h) for h in t.head]), f"|{rule}|", *map(line, t.rows)]
    return "\n".join([*lines, *(["", markdown_text(t.note)] if t.note else []), ""])


def markdown_text(text: str) -> str:
    text = re.sub(r"([\\`*_|\[\]~])", r"\\\1", text.replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latex(tables: Sequence[Table]) -> str:
    """LaTeX with booktabs; `\\input` it below `\\usepackage{booktabs}`."""
    return "\n".join(_latex(t) for t in tables)


def _latex(t: Table) -> str:
    def line(cells: Sequence[Cell]) -> str:
        return " & ".join(rf"\textbf{{{_tex(c.text)}}}" if c.bold else _tex(c.text) for c in cells) + r" \\"

    caption = " ".join(part for part in (f"{t.title}.", t.note) if part)
    columns = "".join("l" if i in t.left else "r" for i in range(len(t.head)))
    return rf"""\begin{{table}}
\centering
\caption{{{_tex(caption)}}}
\begin{{tabular}}{{{columns}}}
\toprule
{line([Cell(h) for h in t.head])}
\midrule
{"".join(line(r) + chr(10) for r in t.rows)}\bottomrule
\end{{tabular}}
\end{{table}}
"""


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", "±": r"$\pm$",
    "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "“": "``", "”": "''", "\n": " ",
}  # fmt: skip


def _tex(text: str) -> str:
    """Escaped text; a minus sign before a number is one."""
    text = "".join(_TEX.get(c, c) for c in text)
    return re.sub(r"(?<![\w-])-(?=\d)", r"$-$", text)
