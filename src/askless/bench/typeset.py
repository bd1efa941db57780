"""A table as Markdown, LaTeX and HTML."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A heading, the names of the columns, rows of cells (the first one names the row), and what there is to say."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def markdown(tables: Sequence[Table]) -> str:
    """GitHub's Markdown."""
    return "\n".join(_markdown(t) for t in tables)


def _markdown(t: Table) -> str:
    def line(cells: Sequence[Cell]) -> str:
        return (
            "| " + " | ".join(f"**{markdown_text(c.text)}**" if c.bold else markdown_text(c.text) for c in cells) + " |"
        )

    rule = "|" + "|".join(["---", *["---:"] * (len(t.head) - 1)]) + "|"
    lines = [f"### {markdown_text(t.title)}", "", line([Cell(h) for h in t.head]), rule, *(line(r) for r in t.rows)]
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

    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(' '.join(part for part in (t.title + '.', t.note) if part))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(t.head) - 1)}}}",
            r"\toprule",
            line([Cell(h) for h in t.head]),
            r"\midrule",
            *(line(r) for r in t.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", "±": r"$\pm$",
    "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "“": "``", "”": "''", "\n": " ",
}  # fmt: skip


def _tex(text: str) -> str:
    """Escaped text; a minus sign before a number is one."""
    text = "".join(_TEX.get(c, c) for c in text)
    return re.sub(r"(?<![\w-])-(?=\d)", r"$-$", text)


def page_part(t: Table) -> str:
    """A table as HTML that scrolls by itself on a narrow screen."""

    def line(cells: Sequence[Cell]) -> str:
        first, *rest = cells
        bold = [f"<b>{html.escape(c.text)}</b>" if c.bold else html.escape(c.text) for c in rest]
        return f'<tr><th scope="row">{html.escape(first.text)}</th>{"".join(f"<td>{b}</td>" for b in bold)}</tr>'

    head = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in t.head)
    note = f'<p class="note">{html.escape(t.note)}</p>' if t.note else ""
    return (
        f'<h3>{html.escape(t.title)}</h3>\n<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>\n<tbody>'
        + "\n".join(line(r) for r in t.rows)
        + f"</tbody></table></div>\n{note}"
    )
