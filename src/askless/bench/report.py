"""The report of a benchmark: CSV, Markdown, LaTeX, and one self-contained HTML page."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from askless.bench import tables
from askless.bench.figures import FIGURES, draw
from askless.bench.overall import overall_tables
from askless.bench.panels import main_metric, unit, words
from askless.bench.results import Results, compared, csv_text
from askless.report import plots
from askless.report.data import write_files
from askless.report.markup import Markup, markup, tag
from askless.report.numbers import many, sentence
from askless.report.page import Section, again, box, bullets, folded, html_page, note, paragraphs, plot
from askless.report.table import Table, latex, markdown, markdown_text

SCALED_DOWN = "Scaled down: not comparable with the paper's numbers"
OTHERWISE = "Not the paper's protocol: not comparable with the paper's numbers"


def write(results: Results, folder: str | Path) -> Path:
    """Writes the report's files into `folder` and returns the page, `report.html`.

    `results.csv`, `tables.md` and `tables.tex` hold what two runs have in common; `times.csv` and `times.md` seconds and
    memory, which they do not.

    >>> from askless.bench import Benchmark, Data, Row, run
    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> results = run(Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1)), "out")
    >>> write(results, "report").name
    'report.html'
    """
    title, about = _title(results)
    why = warning(results)
    numbers, results = results, compared(results)
    steady = tables.all_tables(results)
    heading = f"# {markdown_text(title)}\n\n{markdown_text(about)}.\n\n" + (f"**{why}.**\n\n" if why else "")
    comment = f"{about}. {why}".replace("\n", " ").rstrip()
    texts = {
        "results.csv": csv_text(numbers.records),
        "times.csv": csv_text(numbers.times),
        "tables.md": heading + markdown(steady),
        "times.md": markdown(tables.times_tables(results)),
        "tables.tex": f"% {comment}\n% Needs \\usepackage{{booktabs}}.\n" + latex(steady),
        "report.html": page(numbers),
    }
    write_files(Path(folder), texts)
    return Path(folder) / "report.html"


def page(results: Results) -> str:
    """`report.html`, with its pictures inside."""
    results = compared(results)
    about = results.about
    title, which = _title(results)
    first, *others = list(dict.fromkeys([main_metric(results), *about.get("metrics", [])]))
    banner = box(tag("p", why), kind="warn") if (why := warning(results)) else Markup()
    paper = _html(tables.paper_tables(results))
    sections = [
        Section("What the paper claims", paragraphs((about.get("paper") or {}).get("says") or ""), "Claim"),
        Section("Protocol", paragraphs(about.get("protocol") or "")),
        Section("Figures", _figures(results)),
        Section("Results", _html(tables.accuracy_tables(results, first))),
        Section("The paper's table", markup(banner, paper) if paper else paper),
        Section("All groups together", _html(overall_tables(results)), "All groups"),
        Section("Summary", _html(tables.summary_tables(results))),
        Section("Several learners, one set of acquisitions", _html(tables.learner_tables(results)), "Learners"),
        Section("Wins and losses", _html(tables.win_loss_tables(results))),
        Section(
            "What was chosen", _folded("Overlap of the methods' label sets", tables.iou_tables(results)), "Overlap"
        ),
        Section("Other measurements", markup(_folded(unit(m), tables.accuracy_tables(results, m)) for m in others)),
        Section("Times and memory", _html(tables.times_tables(results)), "Times"),
        Section("Open points, and how they were resolved", bullets(about.get("open_points", [])), "Open points"),
        Section("How to reproduce this", _again(results), "Reproduce"),
        Section("The numbers", _files(results)),
    ]
    return html_page(title, f"{which}; askless benchmark.", sections, lead=[banner, _failures(results)])


def warning(results: Results) -> str:
    """Why the numbers are not the paper's, or nothing."""
    if results.about.get("comparable") or not results.about.get("paper"):  # a benchmark of one's own claims nothing
        return ""
    return OTHERWISE if results.about.get("scale") == "full" else SCALED_DOWN


def _title(results: Results) -> tuple[str, str]:
    """The title, and which benchmark it is."""
    about = results.about
    title = str(about.get("title") or about.get("name") or "Benchmark")
    return title, f"{about.get('name', '')}, scale {about.get('scale', '')}"


def _failures(results: Results) -> Markup:
    if not results.failures:
        return Markup()
    items = [f"{', '.join(str(w) for w in f[:3] if w != '')}: {f.reason}" for f in sorted(results.failures)]
    cells = len(results.about.get("cells", []))
    failed = f"{len(items)} of {many(cells, 'cell')} failed" if cells else f"{many(len(items), 'cell')} failed"
    missing = " and are missing from every table (group, method, seed: reason)"
    return box(tag("strong", failed), missing, bullets(items), kind="bad", role="alert")


def _figures(results: Results) -> Markup:
    out = []
    for spec in results.about.get("figures", []):
        figure = draw(results, spec)
        metric = words(spec.get("metric") or main_metric(results))
        caption = re.sub(r"\b[Tt]he metric\b", metric, str(spec.get("caption") or plots.caption(FIGURES[spec["kind"]])))
        name = str(spec.get("caption") or words(spec["kind"]))
        missing = note(f"{name}: not drawn; the results are too few, or show no clear difference.")
        out.append(missing if figure is None else plot(figure, name, sentence(caption)))
    return markup(out)


def _again(results: Results) -> Markup:
    about = results.about
    return again(
        str(about.get("command") or ""),
        {
            "Versions": ", ".join(f"{k} {v}" for k, v in (about.get("versions") or {}).items()),
            "Seeds": ", ".join(map(str, about.get("seeds", []))),
            "Threads": str(about.get("threads", "")),
            "Machine": ", ".join(f"{k}: {v}" for k, v in (about.get("machine") or {}).items()),
        },
    )


def _files(results: Results) -> Markup:
    names = ("results.csv", "times.csv", "tables.md", "tables.tex", "times.md")
    numbers = {"results.csv": f" ({len(results.records)} numbers)", "times.csv": f" ({len(results.times)} numbers)"}
    named = [(", " if i else "", tag("code", name), numbers.get(name)) for i, name in enumerate(names)]
    return tag("p", "Beside this page: ", named, ".")


def _html(found: Sequence[Table]) -> Markup:
    """A note that tables share stands below the last of them."""
    notes = [*(table.note for table in found[1:]), ""]
    return markup(
        (replace(table, note="") if table.note == next_note else table).html()
        for table, next_note in zip(found, notes, strict=False)
    )


def _folded(title: str, found: Sequence[Table]) -> Markup:
    return folded(title, _html(found)) if found else Markup()
