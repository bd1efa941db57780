"""`report.html`, one self-contained page about a labelling run, and `report.json`, the same facts for machines."""

import dataclasses
import html
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from askless.base.files import sha256_of, write_whole
from askless.run.out.account import (
    Agreement,
    Batch,
    Chosen,
    Data,
    Facts,
    FileFact,
    Labels,
    Map,
    Mistake,
    Model,
    OfClass,
    Person,
    Point,
    Problems,
    Process,
    Share,
    Shown,
    Suggestions,
)
from askless.run.out.report_charts import (
    accuracy_chart,
    bar,
    change_chart,
    glyph,
    interval,
    map_figure,
    percent,
    share_of,
    uri,
)
from askless.run.steps.advice import Advice, of_check
from askless.sources import UnreadableError, as_8_bit, refusing_damage

THUMBS, SIDE, BYTES = 300, 96, 5_000_000  # pictures in a page: so many, of so many pixels, so large together
EXAMPLES, DOUBTS = 100, 40  # of these, at most so many for mistakes and for suspicious labels; batches share the others
LISTED = 30  # entries of a list before "and so many more"
WIDEST = 30  # classes in a confusion matrix

__all__ = [
    "write",
    "page",
    "as_data",
    "file_facts",
    "summary_sentences",
    "Agreement",
    "Batch",
    "Chosen",
    "Data",
    "Facts",
    "FileFact",
    "Labels",
    "Map",
    "Mistake",
    "Model",
    "OfClass",
    "Person",
    "Point",
    "Problems",
    "Process",
    "Share",
    "Shown",
    "Suggestions",
]

NOT_MEASURED = "not measured"
Thumb = Callable[[int], bytes | None]


def write(facts: Facts, folder: Path, thumb: Thumb) -> Path:
    """Writes `report.json` and `report.html` into `folder`, each whole or not at all, and returns the page.

    `thumb` gives an item's picture as the bytes of an image file, or None.
    """
    folder = Path(folder)
    data = json.dumps(as_data(facts), indent=1, ensure_ascii=False, allow_nan=False).encode()
    text = page(facts, thumb).encode()
    write_whole(folder / "report.json", lambda file: file.write(data))
    write_whole(folder / "report.html", lambda file: file.write(text))
    return folder / "report.html"


def as_data(value: Any) -> Any:
    """Facts as what JSON knows; what is no number becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Advice):
        return value._asdict()
    if isinstance(value, Mapping):
        return {str(k): as_data(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_data(value.tolist())
    if isinstance(value, list | tuple):
        return [as_data(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def file_facts(folder: Path, names: Iterable[str]) -> list[FileFact]:
    """Size and sha256 of those files below `folder` that are there."""
    out = []
    for name in names:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                out.append(FileFact(name, path.stat().st_size, sha256_of(file).hex()))
    return out


def page(facts: Facts, thumb: Thumb) -> str:
    """`report.html`, with its pictures inside. Mistakes and suspicious labels get theirs first."""
    thumbs = _Thumbs(thumb, facts.data.noun)
    mistakes, suspicious = _mistakes(facts, thumbs), _suspicious(facts.problems.suspicious, thumbs)
    batches = _batches(facts.chosen.batches, thumbs)
    sections = [
        ("summary", "Summary", "Summary", _summary(facts)),
        ("curve", "Accuracy", "How accuracy grew with the labels", _curve(facts)),
        ("classes", "Classes", "The classes", _classes(facts) + mistakes),
        ("chosen", f"Chosen {facts.data.noun}s", "What was chosen, and why", _chosen(facts) + batches),
        ("problems", "Problems", "Problems in the data", _problems(facts.problems, facts.data.noun) + suspicious),
        ("process", "Labelling", "How the labels were made", _process(facts.process, facts.data.noun)),
        ("model", "Model", "Model card", _model(facts)),
        ("files", "Files", "Files, and how to get them again", _files(facts)),
    ]
    links = "".join(f'<a href="#{key}">{short}</a>' for key, short, _, _ in sections)
    body = "\n".join(
        f'<section id="{key}"><h2>{title}</h2>\n{inside}\n</section>' for key, _, title, inside in sections
    )
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_e(facts.name)}: labelling report</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{_e(facts.name)}</h1><p class="faint">Labelling report by askless, {_e(_time(facts.made_at))}</p>'
        f"</header>\n<nav>{links}</nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# ---- 1 summary --------------------------------------------------------------------------------------------------------


def _summary(facts: Facts) -> str:
    d, l, m = facts.data, facts.labels, facts.measure
    if m:
        line = interval(m["low"], m["high"], m["accuracy"])
        quality = (
            f"<b>{m['accuracy']:.2f}</b><span>check accuracy, {m['low']:.2f}–{m['high']:.2f} "
            f"with 95 % confidence, n = {m['n']}</span>{line}"
        )
    else:
        quality = f'<b class="words">{NOT_MEASURED}</b><span>check accuracy: no labelled check {d.noun}s</span>'
    tiles = [
        quality,
        f"<b>{l.spent:,} / {l.budget:,}</b><span>answers of the budget</span>{bar(l.spent / max(l.budget, 1))}",
        f"<b>{d.images:,}</b><span>{d.noun}s, {_many(len(facts.classes), 'class', 'classes')}</span>",
        f"<b>{_duration(l.minutes)}</b><span>of labelling{_median(facts.process.median_seconds)}</span>",
    ]
    kind = {
        "target reached": "good",
        "likely enough": "good",
        "budget used": "",
        "nothing left": "",
        "keep going": "warn",
    }
    reasons = "".join(f"<li>{_e(_sentence(r))}</li>" for r in facts.advice.reasons[1:])
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile">{tile}</div>' for tile in tiles)
        + "</div>"
        + "".join(f"<p>{_e(s)}</p>" for s in summary_sentences(facts))
        + f'<div class="advice {kind.get(facts.advice.verdict, "")}"><p>{_e(facts.advice.text)}</p>'
        + (f"<ul>{reasons}</ul>" if reasons else "")
        + "</div>"
    )


def summary_sentences(facts: Facts) -> list[str]:
    """The run in words: data, labels and time, and the model's quality with its interval and n."""
    d, l, m = facts.data, facts.labels, facts.measure
    held = f"{d.check:,} were drawn at random to measure with" if d.check else "none was set aside to measure with"
    data = f"{d.source} has {_many(d.images, d.noun)}: {d.pool:,} could be chosen for labelling, and {held}."
    people = len(facts.process.people)
    by = f" by {people} people" if people > 1 else ""
    labels = (
        f"{_many(l.spent, 'answer')} of {l.budget:,} were given{by}: {_many(l.train, 'label')} to train on, "
        f"{l.check:,} on check {d.noun}s, and {l.unsure:,} unsure."
    )
    took = f" That took {_duration(l.minutes)}{_median(facts.process.median_seconds)}." if l.minutes is not None else ""
    if m:
        quality = (
            f"On check {d.noun}s, which it was never trained on, the model is right in {m['correct']} of {m['n']}: accuracy "
            f"{of_check(m)}. The interval covers the accuracy on the whole collection with 95 % confidence."
        )
        if facts.baseline is not None:
            quality += f" Always naming the most common class would score {facts.baseline:.2f}."
    else:
        quality = (
            f"The accuracy is not measured: no check {d.noun}s were labelled, and labels of chosen {d.noun}s, which are "
            "harder or odder than others and which the model was trained on, do not tell it."
        )
    return [data, labels + took, quality]


# ---- 2 curve ----------------------------------------------------------------------------------------------------------


def _curve(facts: Facts) -> str:
    if not facts.curve:
        return '<p class="none">No model has been trained yet.</p>'
    measured = [p for p in facts.curve if p.accuracy is not None]
    charts = []
    if measured:
        sizes = sorted({p.n for p in measured})
        n = f"n = {sizes[0]}" if len(sizes) == 1 else f"n = {sizes[0]} to {sizes[-1]}"
        charts.append(
            f"<figure>{accuracy_chart(facts)}<figcaption>Accuracy on the check {facts.data.noun}s ({n}) after each round; "
            "whiskers: 95 % Wilson intervals. Where they overlap much, a difference may be chance.</figcaption></figure>"
        )
    if any(p.change is not None for p in facts.curve):
        charts.append(
            f'<figure class="narrow">{change_chart(facts.curve)}<figcaption>Share of the pool whose predicted class changed '
            "since the round before. Below 2 % twice in a row, the predictions count as stable.</figcaption></figure>"
        )
    no = (
        ""
        if measured
        else f'<p class="none">Check accuracy: {NOT_MEASURED} (no labelled check {facts.data.noun}s).</p>'
    )
    rows = [
        [
            f'<th scope="row">{p.round}</th>',
            _td(f"{p.labels:,}"),
            f'<td class="left">{_e(", ".join(p.new_classes)) or "–"}</td>',
            _td(_seconds(p.seconds)),
            _share_cell(share_of(p)),
            _td(percent(p.change)),
            _td("–" if p.margin is None else f"{p.margin:.2f}"),
        ]
        for p in facts.curve
    ]
    head = ["Round", "Labels", "<New classes", "Training", "Check accuracy", "Predictions changed", "Mean margin"]
    return no + (f'<div class="charts">{"".join(charts)}</div>' if charts else "") + _table(head, rows)


# ---- 3 classes --------------------------------------------------------------------------------------------------------


def _classes(facts: Facts) -> str:
    if not facts.classes:
        return '<p class="none">No classes yet.</p>'
    pool = sum(c.predicted or 0 for c in facts.classes)
    rows = []
    for i, c in enumerate(facts.classes):
        part = (c.predicted or 0) / pool if pool else 0.0
        rows.append(
            [
                f'<th scope="row">{glyph(i)}{_e(c.name)}</th>',
                _td(f"{c.labels:,}"),
                _td(f"{c.check:,}"),
                _td("–") if c.predicted is None else f"<td>{c.predicted:,} <small>{100 * part:.0f} %</small></td>",
                _share_cell(c.precision),
                _share_cell(c.recall),
            ]
        )
    head = ["Class", "Labels to train on", f"Check {facts.data.noun}s", "Predicted in the pool", "Precision", "Recall"]
    note = (
        f'<p class="faint small">Precision: of the check {facts.data.noun}s that the model calls so, the share that are. '
        "Recall: of those that are, the share that it calls so. Both with 95 % intervals and the number of "
        f"{facts.data.noun}s behind them.</p>"
    )
    return _table(head, rows) + note


def _mistakes(facts: Facts, thumbs: "_Thumbs") -> str:
    """The confusion matrix, whose mistakes lead to examples."""
    if not facts.confusion or not any(map(sum, facts.confusion)):
        return ""
    names = [c.name for c in facts.classes]
    found = {(m.truth, m.predicted): m for m in facts.mistakes if m.truth != m.predicted}
    wrong = sorted(
        ((n, i, j) for i, row in enumerate(facts.confusion) for j, n in enumerate(row) if i != j and n),
        key=lambda w: (-w[0], w[1], w[2]),
    )
    folded = []
    thumbs.allow(EXAMPLES)
    for n, i, j in wrong[: 4 * LISTED]:
        mistake = found.get((i, j))
        shots = _shots(mistake.examples, thumbs, 12, n) if mistake else '<p class="none">No examples kept.</p>'
        folded.append(
            f"<details><summary><b>{_e(names[i])}</b> taken for <b>{_e(names[j])}</b>: "
            f"{_many(n, f'check {thumbs.noun}')}</summary>"
            f'<div id="mistake-{i}-{j}">{shots}</div></details>'
        )
    matrix = _matrix(facts.confusion, names, {(i, j) for _, i, j in wrong[: 4 * LISTED]})
    return (
        f"<h3>Right and wrong on the check {thumbs.noun}s</h3>{matrix}"
        + ("<h3>Mistakes</h3>" + "".join(folded) if folded else "<p>No mistakes among them.</p>")
        + _more(len(wrong) - 4 * LISTED, "pair of classes", "pairs of classes")
    )


def _matrix(table: list[list[int]], names: list[str], linked: set[tuple[int, int]]) -> str:
    if len(names) > WIDEST:
        return (
            f'<p class="faint">The matrix of {len(names)} classes is in report.json; its mistakes are listed below.</p>'
        )
    head = "".join(f'<th scope="col" title="{_e(name)}">{i + 1}</th>' for i, name in enumerate(names))
    body = []
    for i, row in enumerate(table):
        cells, total = [], max(sum(row), 1)
        for j, n in enumerate(row):
            colour = "0,158,115" if i == j else "213,94,0"
            style = f' style="background:rgba({colour},{0.08 + 0.37 * n / total:.2f})"' if n else ""
            kind = "right" if i == j and n else "zero" if not n else ""
            inside = f'<a href="#mistake-{i}-{j}">{n}</a>' if (i, j) in linked else str(n)
            cells.append(f'<td class="{kind}"{style}>{inside}</td>' if kind else f"<td{style}>{inside}</td>")
        body.append(f'<tr><th scope="row">{i + 1} {_e(names[i])}</th>{"".join(cells)}</tr>')
    return (
        f'<div class="scroll"><table class="matrix"><thead><tr><th class="faint">true, down; predicted, across</th>{head}'
        f"</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


# ---- 4 chosen ---------------------------------------------------------------------------------------------------------


def _chosen(facts: Facts) -> str:
    c = facts.chosen
    told = {
        "Strategy": _e(c.strategy),
        "Parameters": _pairs(c.parameters),
        "Seed": _e(c.seed),
        "Asked for": f"{_many(sum(len(b.items) for b in c.batches), facts.data.noun)} in "
        f"{_many(len(c.batches), 'batch', 'batches')}; check {facts.data.noun}s are drawn at random instead",
    }
    return _dl(told) + (map_figure(c.map, facts.classes, facts.data.noun) if c.map is not None else "")


def _batches(batches: Sequence[Batch], thumbs: "_Thumbs") -> str:
    if not batches:
        return ""
    out = []
    for k, b in enumerate(batches):
        thumbs.allow(math.ceil(thumbs.left / (len(batches) - k)))
        why: dict[str, int] = {}
        for s in b.items:
            why[s.reason or "no reason kept"] = why.get(s.reason or "no reason kept", 0) + 1
        reasons = ", ".join(f"{_e(reason)} ({n})" for reason, n in sorted(why.items(), key=lambda w: (-w[1], w[0]))[:5])
        took = f", chosen in {_seconds(b.seconds)}" if b.seconds is not None else ""
        opened = " open" if k == 0 else ""
        out.append(
            f"<details{opened}><summary><b>Batch {b.round}</b>: {_many(len(b.items), thumbs.noun)} by "
            f'{_e(b.picked_by)}{took} <span class="faint">{reasons}</span></summary>'
            f"{_shots(b.items, thumbs, thumbs.allowed, len(b.items))}</details>"
        )
    return "<h3>The batches</h3>" + "".join(out)


# ---- 5 problems -------------------------------------------------------------------------------------------------------


def _problems(p: Problems, noun: str) -> str:
    def files(found: Sequence[tuple[str, str]]) -> str:
        lines = [f"<li><code>{_e(path)}</code> {_e(reason)}</li>" for path, reason in found[:LISTED]]
        return f"<ul>{''.join(lines)}</ul>{_more(len(found) - LISTED, 'file')}"

    def groups(found: Sequence[Sequence[str]]) -> str:
        lines = [
            "<li>" + ", ".join(f"<code>{_e(path)}</code>" for path in group[:6]) + _e(_others(len(group) - 6)) + "</li>"
            for group in found[:LISTED]
        ]
        return f"<ul>{''.join(lines)}</ul>{_more(len(found) - LISTED, 'group')}"

    copies = sum(len(group) - 1 for group in p.duplicates)
    out = []
    if p.unreadable:
        out.append(_folded(f"{_many(len(p.unreadable), 'file')} could not be read", files(p.unreadable)))
    if p.replaced:
        out.append(_folded(f"{_many(len(p.replaced), 'labelled file')} replaced since", files(p.replaced)))
    if p.outside:
        out.append(_folded(f"{_many(len(p.outside), 'file')} outside the folder, left out", files(p.outside)))
    if p.duplicates:
        said = (
            f"{_many(copies, 'exact copy', 'exact copies')} in {_many(len(p.duplicates), 'group')}, each asked for once"
        )
        out.append(_folded(said, groups(p.duplicates)))
    near = (
        f"<p>{_many(p.near_check, noun)} of the pool {'is' if p.near_check == 1 else 'are'} nearly the same as a "
        f"check {noun}, and so neither chosen nor trained on.</p>"
        if p.near_check
        else ""
    )
    if not (out or near or p.suspicious):
        return "<p>None found: every file could be read, there are no copies, and the model doubts no label.</p>"
    return "".join(out) + near


def _suspicious(found: Sequence[Shown], thumbs: "_Thumbs") -> str:
    if not found:
        return ""
    thumbs.allow(DOUBTS)
    return (
        f"<h3>{_many(len(found), 'label')} to look at again</h3><p>The model is sure of another class, although it was "
        f"trained on these labels. It may be wrong itself.</p>{_shots(found, thumbs, DOUBTS, len(found))}"
    )


# ---- 6 process --------------------------------------------------------------------------------------------------------


def _process(p: Process, noun: str) -> str:
    rows = [
        [
            f'<th scope="row">{_e(a.name or "(no name)")}</th>',
            _td(f"{a.answers:,}"),
            _td(f"{a.unsure:,}"),
            _td(_seconds(a.median_seconds)),
            _td("–" if a.per_minute is None else f"{a.per_minute:.1f}"),
        ]
        for a in p.people
    ]
    if p.agreement:
        a = p.agreement
        kappa = "not defined" if a.kappa is None else f"{a.kappa:.2f}"
        agreement = f"{_words(a.same)} of {_many(a.items, noun)} with two answers; Cohen's kappa {kappa}"
    else:
        agreement = f"{NOT_MEASURED} (no {noun} has answers of two people)"
    s = p.suggestions
    shown = ", ".join(f"{_e(kind)} {n:,}" for kind, n in s.shown.items()) or "none"
    told = {
        "Median time per label": _seconds(p.median_seconds),
        "Taken back": f"{_many(p.undone, 'answer')} undone, {p.changed:,} changed later",
        "Skipped": f"{_many(p.skipped, 'time')}",
        "Labelled in bulk": f"{_many(p.bulk, noun)}",
        "Agreement": agreement + (f"; {_many(p.conflicts, 'conflict')} open" if p.conflicts else ""),
        "Suggestions": f"{_e(s.mode)}; labels given with: {shown}",
        "Suggestions accepted": _words(s.accepted) if s.accepted else "none shown",
        "Agreement with the model": f"with a suggestion {_words(s.with_it)}; without {_words(s.without)}",
    }
    head = ["Annotator", "Answers", "Unsure", "Median time", "Per minute"]
    note = (
        '<p class="faint small">If labels agree with the model much more often where its suggestion was shown, the '
        "suggestions may sway the annotators.</p>"
        if s.with_it
        else ""
    )
    return (_table(head, rows) if rows else '<p class="none">No answers yet.</p>') + _dl(told) + note


# ---- 7 model and 8 files ----------------------------------------------------------------------------------------------


def _model(facts: Facts) -> str:
    m, noun = facts.model, facts.data.noun
    if m is None:
        return '<p class="none">No model has been trained yet.</p>'
    quality = (
        f"{_words(facts.measure)} on check {noun}s" if facts.measure else f"{NOT_MEASURED} (no labelled check {noun}s)"
    )
    order = ", ".join(f"{i} {_e(name)}" for i, name in enumerate(m.classes))
    limits = "".join(f"<li>{_e(_sentence(limit))}</li>" for limit in m.limits)
    return _dl(
        {
            "Architecture": _e(m.architecture),
            "Training": f"{_e(m.learner)} on {_many(m.labelled, f'labelled {noun}')} and {m.unlabelled:,} unlabelled ones",
            "Settings": _pairs(m.settings),
            "Accuracy": quality,
            "Weights": f"<code>{_e(m.weights)}</code>",
            "sha256 of the weights": f'<code class="small">{_e(m.sha256)}</code>',
            "Preprocessing": _pairs(m.preprocessing),
            "Order of the classes": order,
            "Versions": _pairs(m.versions),
            "Known limits": f"<ul>{limits}</ul>" if limits else "none written down",
        }
    )


def _files(facts: Facts) -> str:
    rows = [
        [f'<th scope="row"><code>{_e(f.name)}</code></th>', _td(_size(f.size)), f'<td class="hash">{_e(f.sha256)}</td>']
        for f in facts.files
    ]
    command = f"<p>The same run again, with the same answers:</p><pre><code>{_e(facts.command)}</code></pre>"
    return (_table(["File", "Size", "<sha256"], rows) if rows else "") + (command if facts.command else "")


# ---- pictures ---------------------------------------------------------------------------------------------------------


class _Thumbs:
    """Pictures within the limits of a page: so many, and so many bytes. `allow` sets how many the next part may use."""

    def __init__(self, thumb: Thumb, noun: str) -> None:
        self.noun = noun
        self._thumb, self.left, self._bytes, self.allowed = thumb, THUMBS, BYTES, 0
        self._known: dict[int, tuple[str, bool] | None] = {}

    def allow(self, n: int) -> None:
        self.allowed = min(n, self.left)

    def take(self, item: int) -> tuple[str, bool] | None:
        """A data URI, and whether the picture is tiny; None where there is none or no room."""
        if self.allowed <= 0:
            return None
        if item not in self._known:
            self._known[item] = _small(self._thumb(item))
        found = self._known[item]
        if found is None or len(found[0]) > self._bytes:
            return None
        self.allowed, self.left, self._bytes = self.allowed - 1, self.left - 1, self._bytes - len(found[0])
        return found


def _small(data: bytes | None) -> tuple[str, bool] | None:
    """Any picture as a small JPEG, or PNG where that is smaller: what the page embeds is always written here."""
    if data is None:
        return None
    try:
        with refusing_damage(), Image.open(io.BytesIO(data)) as image:
            small = as_8_bit(image).copy()
            small.thumbnail((SIDE, SIDE))
    except UnreadableError:
        return None
    options = []
    for kind, settings in (("jpeg", {"quality": 82}), ("png", {"optimize": True})):
        out = io.BytesIO()
        small.save(out, format=kind.upper(), **settings)
        options.append(uri(out.getvalue(), kind))
    return min(options, key=len), max(small.size) <= SIDE // 2


def _shots(items: Sequence[Shown], thumbs: _Thumbs, most: int, total: int) -> str:
    """A grid of images with what is said about them; as many as are allowed, but always a few names."""
    out = []
    for s in items[: max(most, 4)]:
        found = None if s.text else thumbs.take(s.item)
        if s.text:
            picture = f'<blockquote dir="auto">{_e(s.text)}</blockquote>'
        elif found is None:
            picture = f'<div class="blank">{_e(Path(s.path).name)}</div>'
        else:
            tiny = ' class="tiny"' if found[1] else ""
            picture = f'<img{tiny} alt="{_e(s.path)}" src="{found[0]}">'
        said = []
        if s.label:
            said.append(_e(s.label))
        if s.model_label:
            prob = "" if s.model_prob is None else f" {s.model_prob:.2f}"
            said.append(f"<span>model: {_e(s.model_label)}{prob}</span>")
        if s.reason:
            said.append(f"<span>{_e(s.reason)}</span>")
        if found is not None or s.text:
            said.append(f'<span class="name">{_e(Path(s.path).name)}</span>')
        out.append(
            f'<figure class="shot" title="{_e(s.path)}">{picture}<figcaption>{"".join(said)}</figcaption></figure>'
        )
    return f'<div class="shots">{"".join(out)}</div>{_more(total - len(out), thumbs.noun)}'


# ---- words ------------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a heading that begins with < stands left."""
    cells = "".join(
        f'<th scope="col" class="left">{_e(h[1:])}</th>' if h.startswith("<") else f'<th scope="col">{_e(h)}</th>'
        for h in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _td(text: str) -> str:
    return f"<td>{_e(text)}</td>"


def _share_cell(s: Share) -> str:
    if not s:
        return f'<td class="none">{NOT_MEASURED}</td>'
    return f"<td>{s['accuracy']:.2f} <small>{s['low']:.2f}–{s['high']:.2f}, n = {s['n']}</small></td>"


def _words(s: Share) -> str:
    return of_check(s) if s else NOT_MEASURED


def _dl(told: Mapping[str, str]) -> str:
    """Terms and what is said about them, which is HTML."""
    return "<dl>" + "".join(f"<dt>{_e(k)}</dt><dd>{v or '–'}</dd>" for k, v in told.items()) + "</dl>"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_e(k)} {_e(v)}" for k, v in values.items()) or "none"


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{_e(title)}</summary>{inside}</details>"


def _more(n: int, one: str, many: str = "") -> str:
    return f'<p class="faint small">and {n:,} more {one if n == 1 else many or one + "s"}</p>' if n > 0 else ""


def _others(n: int) -> str:
    return f" and {n:,} more" if n > 0 else ""


def _many(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _median(seconds: float | None) -> str:
    return "" if seconds is None else f", a median of {_seconds(seconds)} per label"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 100:
        return f"{value:.1f}\u00a0s"
    return f"{value // 60:.0f}\u00a0min {value % 60:.0f}\u00a0s" if value < 5400 else _duration(value / 60)


def _duration(minutes: float | None) -> str:
    if minutes is None:
        return "–"
    if minutes < 1:
        return f"{60 * minutes:.0f}\u00a0s"
    hours = f"{minutes // 60:.0f}\u00a0h {minutes % 60:.0f}\u00a0min"
    return f"{minutes:.0f}\u00a0min" if minutes < 90 else hours


def _size(n: int) -> str:
    return f"{n:,} B" if n < 10_000 else f"{n / 1e3:,.0f} kB" if n < 10_000_000 else f"{n / 1e6:,.0f} MB"


def _time(at: str) -> str:
    """2026-03-01T09:00:00Z as people write it."""
    return f"{at[:10]} {at[11:16]} UTC" if len(at) >= 16 and at[10] == "T" else at


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _e(text: Any) -> str:
    return html.escape(str(text))
