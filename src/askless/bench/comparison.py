"""Several benchmarks on one page: areas, paired differences, and all curves in one picture."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from askless.bench.figures import curves
from askless.bench.panels import main_metric, words
from askless.bench.results import Results
from askless.bench.tables import compare, folder_names
from askless.report.numbers import sentence
from askless.report.page import Section, again, html_page, note, plot


def comparison_page(results: Sequence[Results], command: str) -> str:
    """A self-contained page; `command` makes it again."""
    names = folder_names(results)
    areas, *differences = compare(results)
    versions = [str((r.about.get("versions") or {}).get("askless", "")) for r in results]
    sections = [
        Section("Curves", _curves(results, names)),
        Section(areas.title, replace(areas, title="").html()),
        *(Section(table.title, replace(table, title="").html()) for table in differences),
        Section(
            "How to reproduce this",
            again(command, {n: _said(r, v) for n, r, v in zip(names, results, versions, strict=True)}),
            "Reproduce",
        ),
    ]
    return html_page("Benchmarks compared", f"{', '.join(names)}; askless benchmarks.", sections)


def _said(results: Results, version: str) -> str:
    about = results.about
    return ", ".join(
        part for part in (str(about.get("command") or ""), f"askless {version}" if version else "") if part
    )


def _curves(results: Sequence[Results], names: Sequence[str]) -> Any:
    metric = main_metric(results[0])
    figure = curves(merged(results, names), metric)
    if figure is None:
        return note(f"No curves of {words(metric)}: the results are too few.")
    caption = (
        "against the number of labels: the mean over the seeds and, from three seeds on, its 95 % interval as a band."
    )
    return plot(figure, "curves", sentence(f"{words(metric)} {caption}"))


def merged(results: Sequence[Results], names: Sequence[str]) -> Results:
    """All in one, their methods named after their benchmarks."""
    about: dict[str, Any] = {"metrics": [main_metric(results[0])], "baseline": None}
    for key in ("groups", "learners"):
        about[key] = list(dict.fromkeys(value for r in results for value in r.about[key]))
    about["methods"] = [f"{n}: {m}" for n, r in zip(names, results, strict=True) for m in r.about["methods"]]
    records = [x._replace(method=f"{n}: {x.method}") for n, r in zip(names, results, strict=True) for x in r.records]
    return Results(about, records)
