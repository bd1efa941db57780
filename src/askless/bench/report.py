"""The report of a benchmark: CSV, Markdown, LaTeX, and one self-contained HTML page."""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from askless.base.files import write_whole
from askless.bench import tables
from askless.bench.figures import draw
from askless.bench.panels import main_metric, unit, words
from askless.bench.results import Results, csv_text
from askless.bench.typeset import Table, latex, markdown, markdown_text, page_part

SCALED_DOWN = "Scaled down: not comparable with the paper's numbers"
OTHERWISE = "Not the paper's protocol: not comparable with the paper's numbers"

_STYLE = """
:root{color-scheme:light dark;--text:#1a1a1a;--back:#fff;--faint:#5c5c5c;--line:#d0d0d0;--warn:#fff3cd;--warnline:#b98900;
--bad:#fde2e2;--badline:#b3261e}
@media (prefers-color-scheme:dark){:root{--text:#e8e8e8;--back:#16181b;--faint:#a5a5a5;--line:#44484d;--warn:#3a2f0b;
--warnline:#d9a514;--bad:#431a1a;--badline:#ef6f68}}
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:var(--text);
background:var(--back)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line)}td{white-space:nowrap}
thead th{vertical-align:bottom;font-weight:600}th:first-child{text-align:left;white-space:nowrap}tbody th{font-weight:400}
img{max-width:100%;height:auto;background:#fff;border-radius:4px}figure{margin:1.5rem 0}figcaption,.note{color:var(--faint);
font-size:.9rem}.banner,.failures{padding:.6rem 1rem;border-left:6px solid var(--warnline);background:var(--warn);
margin:1rem 0}.banner{font-weight:600}.failures{border-color:var(--badline);background:var(--bad)}
code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line)}
dt{font-weight:600}dd{margin:0 0 .4rem 1rem;overflow-wrap:anywhere}summary{cursor:pointer}
"""


def write(results: Results, folder: str | Path) -> Path:
    """Writes the report's files into `folder` and returns the page, `report.html`.

    `results.csv`, `tables.md` and `tables.tex` hold what two runs have in common; `times.csv` and `times.md` seconds and
    memory, which they have not.
    """
    folder = Path(folder)
    timed = [t for t in (tables.times_table(results),) if t]
    steady = tables.all_tables(results)
    texts = {
        "results.csv": csv_text(results.records),
        "times.csv": csv_text(results.times),
        "tables.md": _heading(results) + markdown(steady),
        "times.md": markdown(timed),
        "tables.tex": _tex_comment(results) + latex(steady),
        "report.html": page(results),
    }
    for name, text in texts.items():
        data = text.encode()
        write_whole(folder / name, lambda file, data=data: file.write(data))  # type: ignore[misc]
    return folder / "report.html"


def page(results: Results) -> str:
    """`report.html`, with its pictures inside."""
    about = results.about
    title = str(about.get("title") or about.get("name") or "Benchmark")
    first, *others = list(dict.fromkeys([main_metric(results), *about.get("metrics", [])]))
    timed = [t for t in (tables.times_table(results),) if t]
    won = [t for t in (tables.win_loss_table(results),) if t]
    parts = [
        f"<h1>{_e(title)}</h1>",
        f"<p>{_e(about.get('name', ''))}, scale {_e(about.get('scale', ''))}; askless benchmark.</p>",
        _banner(results),
        _failures(results),
        _section("What the paper claims", _paragraphs((about.get("paper") or {}).get("says", ""))),
        _section("Protocol", _paragraphs(about.get("protocol", ""))),
        _section("Open points, and how they were resolved", _list(about.get("open_points", []))),
        _section("Results", _parts(tables.accuracy_tables(results, first))),
        _section("The paper's table", _paper(results)),
        _section("Figures", _figures(results)),
        _section("Summary", _parts(tables.summary_tables(results))),
        _section("Several learners, one set of acquisitions", _parts(tables.learner_tables(results))),
        _section("Wins and losses", _parts(won)),
        _section(
            "What was asked for",
            _folded(
                "Overlap of the methods' label sets", tables.iou_tables(results) if tables.asks_for_iou(results) else []
            ),
        ),
        _section("Other measurements", "".join(_folded(unit(m), tables.accuracy_tables(results, m)) for m in others)),
        _section("Times and memory", _parts(timed)),
        _section("How to run it again", _again(results)),
        _section("The numbers", _files(results)),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_e(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _comparable(results: Results) -> bool:
    return bool(results.about.get("comparable"))


def warning(results: Results) -> str:
    """Why the numbers are not the paper's, or nothing."""
    if _comparable(results) or not results.about.get("paper"):  # a benchmark of one's own claims nothing
        return ""
    return OTHERWISE if results.about.get("scale") == "full" else SCALED_DOWN


def _heading(results: Results) -> str:
    about = results.about
    title = str(about.get("title") or about.get("name") or "Benchmark")
    lines = [
        f"# {markdown_text(title)}",
        "",
        markdown_text(f"{about.get('name', '')}, scale {about.get('scale', '')}."),
        "",
    ]
    return "\n".join(lines + ([f"**{warning(results)}.**", ""] if warning(results) else [])) + "\n"


def _tex_comment(results: Results) -> str:
    about = results.about
    words = f"{about.get('name', '')}, scale {about.get('scale', '')}. {warning(results)}".replace("\n", " ").rstrip()
    return f"% {words}\n% Needs \\usepackage{{booktabs}}.\n"


def _banner(results: Results) -> str:
    return f'<p class="banner" role="note">{_e(warning(results))}</p>' if warning(results) else ""


def _failures(results: Results) -> str:
    if not results.failures:
        return ""
    items = [f"{', '.join(str(w) for w in (*f[:3],) if w != '')}: {f.reason}" for f in sorted(results.failures)]
    cells = len(results.about.get("cells", []))
    of = f" of {cells}" if cells else ""
    many = "cells" if len(items) > 1 else "cell"
    return (
        f'<div class="failures" role="alert"><strong>{len(items)}{of} {many} failed</strong> and are missing from every '
        f"table (group, method, seed: reason){_list(items)}</div>"
    )


def _paper(results: Results) -> str:
    found = tables.paper_tables(results)
    return (_banner(results) if found else "") + _parts(found)


def _figures(results: Results) -> str:
    out = []
    for spec in results.about.get("figures", []):
        options = dict(spec)
        caption = str(options.pop("caption", "") or words(str(options.get("kind", ""))))
        figure = draw(results, options)
        if figure is None:
            out.append(f'<p class="note">{_e(caption)}: not drawn, since the results hold too little for it.</p>')
        else:
            out.append(f"<figure>{_image(figure, caption)}<figcaption>{_e(caption)}</figcaption></figure>")
    return "\n".join(out)


def _image(figure: Any, alt: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return f'<img alt="{_e(alt)}" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def _again(results: Results) -> str:
    about = results.about
    machine = about.get("machine") or {}
    facts = {
        "Versions": ", ".join(f"{k} {v}" for k, v in (about.get("versions") or {}).items()),
        "Seeds": ", ".join(map(str, about.get("seeds", []))),
        "Threads": str(about.get("threads", "")),
        "Machine": ", ".join(f"{k}: {v}" for k, v in machine.items()),
    }
    items = "".join(f"<dt>{_e(k)}</dt><dd>{_e(v)}</dd>" for k, v in facts.items() if v)
    command = f"<pre><code>{_e(about['command'])}</code></pre>" if about.get("command") else ""
    return command + (f"<dl>{items}</dl>" if items else "")


def _files(results: Results) -> str:
    return (
        f"<p>Beside this page: <code>results.csv</code> ({len(results.records)} numbers), <code>times.csv</code> "
        f"({len(results.times)} numbers), <code>tables.md</code>, <code>tables.tex</code>, <code>times.md</code>.</p>"
    )


def _section(title: str, inside: str) -> str:
    return f"<section>\n<h2>{_e(title)}</h2>\n{inside}\n</section>" if inside else ""


def _parts(found: Sequence[Table]) -> str:
    return "\n".join(page_part(t) for t in found)


def _folded(title: str, found: Sequence[Table]) -> str:
    return f"<details><summary>{_e(title)}</summary>\n{_parts(found)}\n</details>\n" if found else ""


def _paragraphs(text: Any) -> str:
    return "\n".join(f"<p>{_e(p.strip())}</p>" for p in str(text or "").split("\n\n") if p.strip())


def _list(items: Sequence[Any]) -> str:
    return f"<ul>{''.join(f'<li>{_e(i)}</li>' for i in items)}</ul>" if items else ""


def _e(text: Any) -> str:
    return html.escape(str(text))
