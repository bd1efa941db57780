"""`report.html`, one self-contained page about a labelling run, and `report.json`, the same facts for machines."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from askless.report import chart, numbers
from askless.report.data import as_data, json_text, write_files
from askless.report.markup import Markup, markup, tag
from askless.report.numbers import duration, known, many, percent, seconds, sentence
from askless.report.page import Section, again, box, bullets, folded, html_page, note, nothing, terms
from askless.report.table import NOTHING, Cell, Table
from askless.run.out.account import Agreement, Batch, Facts, Map, OfClass, Share, Shown
from askless.run.out.claims import in_a_sentence
from askless.run.out.outlook import in_words
from askless.run.out.report_pictures import Thumb, Thumbs, and_more, shots
from askless.run.steps.advice import of_check

EXAMPLES, DOUBTS = 100, 40  # pictures for mistakes and for suspicious labels, at most; batches share the others
LISTED = 30  # entries of a list before "and n more"
PAIRS = 4 * LISTED  # classes that are taken for one another
WIDEST = 30  # classes in a confusion matrix
MARKS = 4000  # labelled items on the map
NOT_MEASURED = "not measured"
GOOD = {"target reached": "good", "likely enough": "good", "keep going": "warn"}


def write(facts: Facts, folder: Path, thumb: Thumb) -> Path:
    """Writes `report.json` and `report.html` into `folder`, each atomically, and returns the page.

    `thumb` gives an item's picture as the bytes of an image file, or None.
    """
    write_files(folder, {"report.json": json_text(as_data(facts)), "report.html": page(facts, thumb)})
    return folder / "report.html"


def page(facts: Facts, thumb: Thumb) -> str:
    """`report.html`, with its pictures inside. Mistakes and suspicious labels get theirs first."""
    thumbs = Thumbs(thumb, facts.data.noun)
    mistakes, suspicious = _mistakes(facts, thumbs), _suspicious(facts.problems.suspicious, thumbs)
    sections = [
        Section("Summary", _summary(facts)),
        Section("Accuracy by number of labels", _curve(facts), "Accuracy"),
        Section("The classes", markup(_classes(facts), mistakes), "Classes"),
        Section("What askless chose, and why", _chosen(facts, thumbs), f"Chosen {thumbs.noun}s"),
        Section("Problems in the data", markup(_problems(facts), suspicious), "Problems"),
        Section("How the labels were made", markup(_process(facts), _accepted(facts), _claims(facts)), "Labelling"),
        Section("Model card", _model(facts), "Model"),
        Section("Files, and how to reproduce them", _files(facts), "Files"),
    ]
    about = f"Labelling report by askless, {numbers.time(facts.made_at)}"
    return html_page(facts.name, about, sections, tab=f"{facts.name}: labelling report")


def _summary(facts: Facts) -> Markup:
    d, l, m = facts.data, facts.labels, facts.measure
    quality = [tag("b", NOT_MEASURED, cls="words"), tag("span", f"check accuracy: no labelled check {d.noun}s")]
    if m:
        told = f"check accuracy, {m['low']:.2f}–{m['high']:.2f} with 95 % confidence, n = {m['n']}"
        quality = [_figure_of(f"{m['accuracy']:.2f}", told), chart.meter(m["low"], m["high"], m["accuracy"])]
    tiles = [
        quality,
        [
            _figure_of(f"{l.spent:,} / {l.budget:,}", "answers of the budget"),
            chart.meter(0, l.spent / max(l.budget, 1)),
        ],
        _figure_of(f"{d.images:,}", f"{d.noun}s, {many(len(facts.classes), 'class', 'classes')}"),
        _figure_of(duration(l.minutes), f"of labelling{_median(facts)}"),
    ]
    return markup(
        tag("div", [tag("div", tile, cls="tile") for tile in tiles], cls="tiles"),
        [tag("p", said) for said in summary_sentences(facts)],
        box(
            tag("p", facts.advice.text),
            bullets(map(sentence, facts.advice.reasons[1:])),
            kind=GOOD.get(facts.advice.verdict, ""),
        ),
        [tag("p", said) for said in in_words(facts.outlook)],
    )


def _figure_of(figure: str, said: str) -> Markup:
    return markup(tag("b", figure), tag("span", said))


def summary_sentences(facts: Facts) -> list[str]:
    """The run in words: data, labels and time, and the model's quality with its interval and n."""
    d, l, m = facts.data, facts.labels, facts.measure
    held = f"{d.check:,} were drawn at random as check sample" if d.check else "none was set aside as check sample"
    data = f"{d.source} has {many(d.images, d.noun)}: {d.pool:,} were available for labelling, and {held}."
    people = len(facts.process.people)
    by = f" by {people} people" if people > 1 else ""
    labels = (
        f"{many(l.spent, 'answer')} of {l.budget:,} were given{by}: {many(l.train, 'label')} to train on, "
        f"{l.check:,} on check {d.noun}s, and {l.unsure:,} unsure."
    )
    took = f" That took {duration(l.minutes)}{_median(facts)}." if l.minutes is not None else ""
    if m:
        quality = (
            f"On check {d.noun}s, which it was never trained on, the model is right for {m['correct']} of {m['n']}: "
            f"accuracy {of_check(m)}. With 95 % confidence the intervals of all planned rounds cover the accuracy on the "
            "whole collection (exact intervals, with a Bonferroni correction for the rounds)."
        )
        if m.get("worth", 0) > m["n"]:
            quality += (
                f" The model's confidence on unlabelled {d.noun}s narrows them: the {m['n']} check {d.noun}s tell "
                f"as much as {m['worth']:.0f} would alone (difference estimator)."
            )
        if facts.baseline is not None:
            quality += f" Always predicting the most common class would score {facts.baseline:.2f}."
    else:
        quality = (
            f"The accuracy is not measured: no check {d.noun}s were labelled. Chosen {d.noun}s cannot measure it: the model "
            "was trained on them, and they are harder or odder than others."
        )
    return [data, labels + took, quality]


def _curve(facts: Facts) -> Markup:
    curve, noun = facts.curve, facts.data.noun
    if not curve:
        return nothing("No model has been trained yet.")
    measured, changed = _accuracy_chart(facts), _change_chart(facts)
    table = Table.by_columns(
        "",
        [
            ("Round", [str(p.round) for p in curve]),
            ("Labels", [f"{p.labels:,}" for p in curve]),
            ("New classes", [", ".join(p.new_classes) or NOTHING for p in curve]),
            ("Training", [seconds(p.seconds) for p in curve]),
            ("Check accuracy", [_share_cell(p.measured) for p in curve]),
            ("Predictions changed", [percent(p.change) for p in curve]),
            ("Lead of the first choice", [known(p.margin, ".2f") for p in curve]),
        ],
        left=(0, 2),
    )
    return markup(
        None if measured else nothing(f"Check accuracy: {NOT_MEASURED} (no labelled check {noun}s)."),
        tag("div", measured, changed, cls="charts") if measured or changed else None,
        table.html(),
    )


def _accuracy_chart(facts: Facts) -> Markup:
    measured = [(p, share) for p in facts.curve if (share := p.measured)]
    if not measured:
        return Markup()
    points = [
        chart.Measured(
            p.labels, s["accuracy"], s["low"], s["high"], f"round {p.round}, {p.labels} labels: {of_check(s)}"
        )
        for p, s in measured
    ]
    levels = [(facts.baseline, "rule", "most common class"), (facts.target, "goal", "target")]
    last, share = measured[-1]
    said = f"Check accuracy over labels; last: {of_check(share)} with {last.labels} labels"
    drawn = chart.curve(points, levels, "labels to train on", "check accuracy", said)
    sizes = sorted({p.n for p, _ in measured})
    n = f"n = {sizes[0]}" if len(sizes) == 1 else f"n = {sizes[0]} to {sizes[-1]}"
    caption = (
        f"Accuracy on the check {facts.data.noun}s ({n}) after each round; whiskers: where the accuracy on all "
        f"{facts.data.noun}s probably lies (95 % intervals that hold for all planned rounds together). Where they overlap "
        "a lot, a difference may be due to chance."
    )
    return tag("figure", drawn, tag("figcaption", caption))


def _change_chart(facts: Facts) -> Markup:
    changed = [(p.round, p.change) for p in facts.curve if p.change is not None]
    if not changed:
        return Markup()
    bars = [(str(number), part, f"round {number}: {percent(part)}") for number, part in changed]
    said = f"Changed predictions for each round; last: {percent(changed[-1][1])}"
    caption = (
        f"Share of the {facts.data.noun}s whose predicted class changed since the previous round. Below 2 % twice in a row, "
        "the predictions count as stable."
    )
    drawn = chart.bars(bars, 0.02, "round", "changed", said)
    return tag("figure", drawn, tag("figcaption", caption), cls="narrow")


def _classes(facts: Facts) -> Markup:
    classes, noun = facts.classes, facts.data.noun
    if not classes:
        return nothing("No classes yet.")
    pool = max(sum(c.predicted or 0 for c in classes), 1)

    def predicted(n: int | None) -> str:
        return NOTHING if n is None else markup(f"{n:,} ", tag("small", f"{100 * n / pool:.0f} %"))

    said = (
        f"Precision: of the check {noun}s that the model puts in a class, the share that belongs to it. Recall: of those "
        f"that belong to it, the share that the model finds. Both with 95 % intervals and the number of {noun}s."
    )
    table = Table.by_columns(
        "",
        [
            ("Class", [markup(chart.glyph(c.sign), c.name) for c in classes]),
            ("Labels to train on", [f"{c.labels:,}" for c in classes]),
            (f"Check {noun}s", [f"{c.check:,}" for c in classes]),
            (f"{noun.capitalize()}s the model puts here", [predicted(c.predicted) for c in classes]),
            ("Precision", [_share_cell(c.precision) for c in classes]),
            ("Recall", [_share_cell(c.recall) for c in classes]),
        ],
        said,
    )
    return table.html()


def _mistakes(facts: Facts, thumbs: Thumbs) -> Markup:
    """The confusion matrix, whose mistakes lead to examples."""
    if not facts.confusion or not any(map(sum, facts.confusion)):
        return Markup()
    names = [c.name for c in facts.classes]
    found = {(m.truth, m.predicted): m for m in facts.mistakes if m.truth != m.predicted}
    wrong = sorted(
        ((n, i, j) for i, row in enumerate(facts.confusion) for j, n in enumerate(row) if i != j and n),
        key=lambda w: (-w[0], w[1], w[2]),
    )
    listed = []
    thumbs.allow(EXAMPLES)
    for n, i, j in wrong[:PAIRS]:
        mistake = found.get((i, j))
        examples = shots(mistake.examples, thumbs, 12, n) if mistake else nothing("No examples kept.")
        count = many(n, f"check {thumbs.noun}")
        title = markup(tag("b", names[i]), " mistaken for ", tag("b", names[j]), f": {count}")
        listed.append(folded(title, tag("div", examples, id=f"mistake-{i}-{j}")))
    return markup(
        tag("h3", f"Right and wrong on the check {thumbs.noun}s"),
        _matrix(facts.confusion, names, {(i, j) for _, i, j in wrong[:PAIRS]}),
        [tag("h3", "Mistakes"), listed] if listed else tag("p", "No mistakes among them."),
        and_more(len(wrong) - PAIRS, "pair of classes", "pairs of classes"),
    )


def _matrix(table: list[list[int]], names: list[str], linked: set[tuple[int, int]]) -> Markup:
    if len(names) > WIDEST:
        return note(f"The matrix of {len(names)} classes is in report.json; its mistakes are listed below.")

    def cell(i: int, j: int, row: Sequence[int]) -> Markup:
        n, colour = row[j], "0,158,115" if i == j else "213,94,0"
        style = f"background:rgba({colour},{0.08 + 0.37 * n / sum(row):.2f})" if n else None
        inside = tag("a", n, href=f"#mistake-{i}-{j}") if (i, j) in linked else n
        return tag("td", inside, cls="zero" if not n else "right" if i == j else None, style=style)

    head = [tag("th", i + 1, scope="col", title=name) for i, name in enumerate(names)]
    body = [
        tag("tr", tag("th", f"{i + 1} {names[i]}", scope="row"), [cell(i, j, row) for j in range(len(row))])
        for i, row in enumerate(table)
    ]
    corner = tag("th", "true (rows), predicted (columns)", cls="faint")
    inside = tag("table", tag("thead", tag("tr", corner, head)), tag("tbody", body), cls="matrix")
    return tag("div", inside, cls="scroll")


def _chosen(facts: Facts, thumbs: Thumbs) -> Markup:
    c, noun = facts.chosen, thumbs.noun
    asked = many(sum(len(b.items) for b in c.batches), noun)
    told = {
        "Strategy": c.strategy,
        "Parameters": _pairs(c.parameters),
        "Seed": str(c.seed),
        "Asked for": f"{asked} in {many(len(c.batches), 'batch', 'batches')}; check {noun}s are drawn at random instead",
    }
    batches = [_batch(b, thumbs, len(c.batches) - k, k == 0) for k, b in enumerate(c.batches)]
    return markup(
        terms(told),
        _map(c.map, facts.classes, noun) if c.map is not None else None,
        [tag("h3", "The batches"), batches] if batches else None,
    )


def _batch(b: Batch, thumbs: Thumbs, to_come: int, first: bool) -> Markup:
    thumbs.allow(math.ceil(thumbs.left / to_come))
    why = Counter(s.reason or "no reason recorded" for s in b.items)
    reasons = ", ".join(f"{reason} ({n})" for reason, n in sorted(why.items(), key=lambda w: (-w[1], w[0]))[:5])
    took = f", chosen in {seconds(b.seconds)}" if b.seconds is not None else ""
    said = f": {many(len(b.items), thumbs.noun)} by {b.picked_by}{took} "
    title = markup(tag("b", f"Batch {b.round}"), said, tag("span", reasons, cls="faint"))
    return folded(title, shots(b.items, thumbs, thumbs.allowed, len(b.items)), unfolded=first)


def _map(m: Map, classes: Sequence[OfClass], noun: str) -> Markup:
    """All items as grey dots, the labelled ones as coloured marks: filled if chosen, hollow if check images."""
    placed = [
        (place, classes[k], number)
        for place, k, number in zip(m.points, m.labels, m.rounds, strict=True)
        if place is not None and k >= 0
    ]
    marks = [
        chart.Marked(place, c.sign, not number, f"{c.name}, {f'round {number}' if number else f'check {noun}'}")
        for place, c, number in placed
    ]
    counts = Counter(c.name for _, c, _ in placed)
    legend = [
        tag("li", chart.glyph(c.sign), c.name, tag("span", f"{counts[c.name]:,}", cls="count faint"))
        for c in classes[:40]
        if counts[c.name]
    ]
    for glyph, said in (
        (chart.glyph(chart.Sign(0, 0), hollow=True), f"hollow: check {noun}s"),
        (chart.glyph(None), "grey: not labelled"),
    ):
        legend.append(tag("li", glyph, tag("span", said, cls="faint")))
    said = f"Map of {len(m.points)} {noun}s, {len(marks)} of them labelled"
    drawn = chart.scatter([p for p in m.points if p is not None], marks[:MARKS], said)
    cut = f"; {MARKS:,} of {len(marks):,} labelled {noun}s are drawn" if len(marks) > MARKS else ""
    caption = (
        f"The {noun}s as the network sees them, in two dimensions{f' by {m.method}' if m.method else ''}: neighbours are "
        f"similar{cut}."
    )
    inside = tag("div", drawn, tag("ul", legend, cls="legend"), cls="map")
    return markup(tag("h3", "Where they lie"), tag("figure", inside, tag("figcaption", caption)))


def _problems(facts: Facts) -> Markup:
    p, noun = facts.problems, facts.data.noun

    def listed(found: Sequence[object], one: str) -> Markup:
        return markup(bullets(found[:LISTED]), and_more(len(found) - LISTED, one))

    def group(paths: Sequence[str]) -> Markup:
        names = [(", " if i else "", tag("code", path)) for i, path in enumerate(paths[:6])]
        return markup(names, f" and {len(paths) - 6:,} more" if len(paths) > 6 else "")

    files = {
        "{} could not be read": (p.unreadable, "file"),
        "{} replaced since": (p.replaced, "labelled file"),
        "{} outside the folder, left out": (p.outside, "file"),
    }
    out = [
        folded(title.format(many(len(found), one)), listed([(tag("code", f), f" {why}") for f, why in found], "file"))
        for title, (found, one) in files.items()
        if found
    ]
    if p.duplicates:
        copies = many(sum(len(paths) - 1 for paths in p.duplicates), "exact copy", "exact copies")
        title = f"{copies} in {many(len(p.duplicates), 'group')}, each asked only once"
        out.append(folded(title, listed([group(paths) for paths in p.duplicates], "group")))
    if p.near_check:
        near = f"{many(p.near_check, noun)} {'is' if p.near_check == 1 else 'are'} nearly the same as a "
        out.append(tag("p", f"{near}check {noun}, and so neither chosen nor trained on."))
    if not out and not p.suspicious:
        return tag("p", "None found: every file is readable, there are no copies, and no label is doubtful.")
    return markup(out)


def _suspicious(found: Sequence[Shown], thumbs: Thumbs) -> Markup:
    if not found:
        return Markup()
    thumbs.allow(DOUBTS)
    said = "These labels do not fit the others. They may still be right."
    heading = tag("h3", f"{many(len(found), 'label')} to look at again")
    return markup(heading, tag("p", said), shots(found, thumbs, DOUBTS, len(found)))


def _accepted(facts: Facts) -> Markup:
    """The labels that people accepted in a grid, apart from all others."""
    if not facts.accepted:
        return Markup()
    rows, noun = facts.accepted, facts.data.noun
    table = Table.by_columns(
        "Accepted in a grid",
        [
            ("Class", [row.name for row in rows]),
            ("Accepted", [f"{row.labels:,}" for row in rows]),
            ("Taken out or corrected", [_words(row.removed) if row.removed else NOTHING for row in rows]),
            (f"Check {noun}s as sure", [_words(row.check) if row.check else NOT_MEASURED for row in rows]),
            ("Wrong, expected", [known(row.wrong, ".1f") for row in rows]),
            ("Wrong, at most", [known(row.most, ",") for row in rows]),
        ],
    )
    return markup(
        table.html(),
        note(
            "People accepted these predictions of the model. They are not used for training or for measuring, and they cost "
            f"no budget. Check {noun}s that the model is as sure of show how often it is wrong there; what people took "
            "out is subtracted. The last column holds with 95 % confidence."
        ),
    )


def _claims(facts: Facts) -> Markup:
    """Predictions from elsewhere, measured on the check items."""
    noun, out = facts.data.noun, []
    for one in facts.claims:
        levels = Table.by_columns(
            "",
            [
                ("Confidence", [f"{row['confidence']:.2f} or more" for row in one.levels]),
                ("Predictions", [f"{row['claims']:,}" for row in one.levels]),
                (f"Right on check {noun}s", [_share_cell(row if row["n"] else None) for row in one.levels]),
                ("At least (95 % sure)", [percent(row["at_least"]) for row in one.levels]),
            ],
        )
        classes = Table.by_columns(
            "",
            [
                ("Class", [row["class"] for row in one.classes]),
                ("Precision", [_share_cell(row["precision"]) for row in one.classes]),
                ("Recall", [_share_cell(row["recall"]) for row in one.classes]),
            ],
        )
        out.append(markup(tag("p", in_a_sentence(one)), [levels.html(), classes.html()] if one.measure else None))
    if not out:
        return Markup()
    said = "The predictions label nothing by themselves. Accepted ones are counted separately, and no model trains on them. "
    return markup(
        tag("h3", "Predictions from elsewhere"),
        out,
        note(said + "“At least” holds for all levels with 95 % confidence."),
    )


def _process(facts: Facts) -> Markup:
    p, noun = facts.process, facts.data.noun
    agreement = f"{NOT_MEASURED} (no {noun} has answers from two people)"
    if p.agreement:
        agreement = agreement_in_words(p.agreement, noun)
    s = p.suggestions
    shown = ", ".join(f"{kind} {n:,}" for kind, n in s.shown.items()) or "none"
    told = {
        "Median time per label": seconds(p.median_seconds),
        "Taken back": f"{many(p.undone, 'answer')} undone, {p.changed:,} changed later",
        "Skipped": many(p.skipped, "time"),
        "Labelled in bulk": many(p.bulk, noun),
        "Agreement": agreement,
        "Disagreements": f"{p.disagreements.open:,} open, {p.disagreements.without_majority:,} of them without a majority"
        if p.disagreements.open
        else "none open",
        "Suggestions": f"{s.mode}; labels given with: {shown}",
        "Suggestions accepted": _words(s.accepted) if s.accepted else "none shown",
        "Agreement with the model": f"with a suggestion {_words(s.with_it)}; without {_words(s.without)}",
    }
    sway = (
        "If labels agree with the model much more often when its suggestion was shown, the suggestions may sway the "
        "annotators."
    )
    people = Table.by_columns(
        "",
        [
            ("Annotator", [a.name or "(no name)" for a in p.people]),
            ("Answers", [f"{a.answers:,}" for a in p.people]),
            ("Unsure", [f"{a.unsure:,}" for a in p.people]),
            ("Median time", [seconds(a.median_seconds) for a in p.people]),
            ("Per minute", [known(a.per_minute, ".1f") for a in p.people]),
        ],
    )
    names = {c.number: c.name for c in facts.classes}
    confused = Table.by_columns(
        "Agreement with the others, or with the decision, by class a person gave",
        [
            ("Annotator", [row.person or "(no name)" for row in p.confused]),
            ("Gave", [names.get(row.label, "") for row in p.confused]),
            (f"{noun.capitalize()}s", [f"{row.items:,}" for row in p.confused]),
            ("The same", [f"{row.same:,} ({100 * row.same / row.items:.0f} %)" for row in p.confused]),
            (
                "Most often instead",
                [
                    NOTHING if row.instead is None else f"{names.get(row.instead, '')} ({row.times:,})"
                    for row in p.confused
                ],
            ),
        ],
        left=(0, 1, 4),
    )
    return markup(
        people.html() if p.people else nothing("No answers yet."),
        confused.html() if p.confused else None,
        terms(told),
        note(sway) if s.with_it else None,
    )


def agreement_in_words(a: Agreement, noun: str) -> str:
    """How far people agree; what 0 and 1 mean."""
    kappa = "" if a.kappa is None else f"; Cohen's kappa: {a.kappa:.2f}"
    alpha = "undefined, because all answers name one class"
    if a.alpha is not None:
        alpha = f"{a.alpha:.2f} ({a.low:.2f}–{a.high:.2f} with 95 % confidence)"
    second = (
        f". {a.second:,} of them got a second answer because the first was doubtful, so people agree more on the others"
        if a.second
        else ""
    )
    return (
        f"{_words(a.same)} of the pairs of answers by {a.people} people to {many(a.items, noun)}; Krippendorff's alpha, "
        f"which is 0 for chance and 1 for perfect agreement: {alpha}{kappa}{second}"
    )


def _model(facts: Facts) -> Markup:
    m, noun = facts.model, facts.data.noun
    if m is None:
        return nothing("No model has been trained yet.")
    measured = f"{_words(facts.measure)} on check {noun}s"
    return terms(
        {
            "Architecture": m.architecture,
            "Training": f"{m.learner} on {many(m.labelled, f'labelled {noun}')} and {m.unlabelled:,} unlabelled ones",
            "Settings": _pairs(m.settings),
            **({"Chosen by itself": m.chose} if m.chose else {}),
            "Accuracy": measured if facts.measure else f"{NOT_MEASURED} (no labelled check {noun}s)",
            "Probabilities": _calibrated(facts),
            "Weights": tag("code", m.weights),
            "sha256 of the weights": tag("code", m.sha256, cls="small"),
            "Preprocessing": _pairs(m.preprocessing),
            "Order of the classes": ", ".join(f"{i} {name}" for i, name in enumerate(m.classes)),
            "Versions": _pairs(m.versions),
            "Known limits": bullets(map(sentence, m.limits)) or "none recorded",
        }
    )


def _calibrated(facts: Facts) -> str:
    c = facts.calibration
    if c is None:
        return NOT_MEASURED
    return (
        f"confidence {c['sure']:.2f} on average, accuracy {c['right']:.2f}; they differ by "
        f"{c['error']:.3f} (expected calibration error; {c['low']:.3f}–{c['high']:.3f} with 95 % confidence, n = {c['n']})"
    )


def _files(facts: Facts) -> Markup:
    rows = [(tag("code", f.name), numbers.size(f.size), Cell(f.sha256, kind="hash")) for f in facts.files]
    return markup(
        Table("", ["File", "Size", "sha256"], rows, left=(0, 2)).html() if rows else None,
        [tag("p", "To reproduce this run with the same answers:"), again(facts.command)] if facts.command else None,
    )


def _share_cell(s: Share) -> Cell:
    if not s:
        return Cell(NOT_MEASURED, kind="none")
    return Cell(markup(f"{s['accuracy']:.2f} ", tag("small", f"{s['low']:.2f}–{s['high']:.2f}, n = {s['n']}")))


def _words(s: Share) -> str:
    return of_check(s) if s else NOT_MEASURED


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items()) or "none"


def _median(facts: Facts) -> str:
    median = facts.process.median_seconds
    return "" if median is None else f", a median of {seconds(median)} per label"
