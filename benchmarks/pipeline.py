"""What a labelling run comes to: real items, a program that knows their labels, the page's own steps, several seeds.

    python benchmarks/pipeline.py --data cifar10_subset.npz --seeds 5                       # images, written out as files
    python benchmarks/pipeline.py --data cifar10_subset.npz --net frozen:efficientnet-lite0 --size 128 --seeds 5
    python benchmarks/pipeline.py --data r8 --data rotten-tomatoes --labels 100 --net frozen:tfidf --seeds 3
    python benchmarks/pipeline.py --docs    # only write the table into docs/evidence/labelling.md

Every run is `Run.create`, `advance` and `tell`, as `askless start` does them, with its defaults: askless chooses 20 at a
time, and a fifth of the budget measures. After each training it notes the accuracy on the items that have no label by then;
at the end also how far the model's probabilities are from what comes true there, and what the run itself says, from its
check items. With --out the numbers are kept, in place of earlier ones of the same data, encoder and seed. The features of
images are made once and copied to the runs of the other seeds, and MiniLM reads each text once.
"""

import argparse
import csv
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.features import text_backbone
from askless.features.backbones.minilm import minilm
from askless.run.out.gather import account_of, gather
from askless.run.steps.measure import calibration_error
from askless.run.store.classes import shown_classes
from askless.run.store.fits import all_fits

PAGE = HERE.parent / "docs" / "evidence" / "labelling.md"
MARK, END = "<!-- table: pipeline -->", "<!-- end -->"
CHECK = 0.2  # the share of the budget that measures, as by default
SHOWN = (40, 100, 200)


def written(pool: al.Pool, folder: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """The pool as somebody would have it, a folder of images or a table of texts; options for it; what each item is."""
    names = pool.classes or [str(c) for c in range(pool.n_classes)]
    truth = [names[y] for y in pool.labels]
    given = {"classes": tuple(names)}
    if pool.kind == "text":
        folder.mkdir(parents=True)
        with (folder / "texts.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerows([["text"], *([text] for text in pool.x)])
        return folder / "texts.csv", given | {"text": "text"}, truth
    images = folder / "images"
    images.mkdir(parents=True)
    for i in range(len(pool)):
        image = np.asarray(pool.x[i])
        image = image if image.shape[-1] == 3 else image.transpose(1, 2, 0)
        Image.fromarray(image.squeeze()).save(images / f"{i:05d}.png")
    return images, given, truth


def remembering() -> Callable[..., Any]:
    """`minilm` that reads each text once, for all runs: a minute for a thousand texts, which no seed changes."""
    rows: dict[str, np.ndarray] = {}

    def make(*folder: Path) -> Any:
        made = minilm(*folder)

        def embed(texts: Sequence[str]) -> np.ndarray:
            new = [text for text in dict.fromkeys(texts) if text not in rows]
            rows.update(zip(new, made.embed(new), strict=True))
            return np.stack([rows[text] for text in texts])

        return made._replace(embed=embed)

    return make


def one_run(run: al.Run, truth: dict[str, str]) -> dict[str, Any]:
    """Labels until the budget is used up; what was measured on the way."""
    paths, told, rest = run.paths, set(), {}
    right = np.array([truth[path] for path in paths])
    error = float("nan")

    def look() -> float:
        """At the items that nobody has labelled."""
        said, free = run.predictions(), np.array([path not in told for path in paths])
        if said is None:
            return error
        with run.store.look() as db:
            labels = list(all_fits(db).values())[-1].labels
            names = {c.id: c.name for c in shown_classes(db)}
        hit = np.array([names[c] for c in said.best_of_all()]) == right
        rest[str(labels)] = float(hit[free].mean())
        return calibration_error(said.probs.max(axis=1)[free].astype(np.float64), hit[free].astype(np.float64))

    while not run.is_finished():
        while run.advance():
            pass
        error = look()
        answers = {path: truth[path] for path in run.waiting()}
        run.tell(answers)
        told |= set(answers)
    while run.advance():
        pass
    error = look()
    with run.store.look() as db:
        seconds = [fit.seconds for fit in all_fits(db).values()]
    return {
        "rest": rest,
        "rest_calibration_error": error,
        "check": account_of(run).measure,
        "check_calibration": gather(run).calibration,
        "seconds": max(seconds),
    }


def runs(data: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    pool = al.data.load(data)
    folder = given.work / pool.name
    shutil.rmtree(folder, ignore_errors=True)
    source, options, labels = written(pool, folder)
    options |= {"budget": round(given.labels / (1 - CHECK)), "check": CHECK, "size": given.size}
    options |= {"net": given.net} if given.net else {}
    rows, cache = [], given.cache
    for seed in range(given.seeds):
        place = folder / f"run-{seed}"
        run = al.Run.create(source, place, **options, seed=seed)
        if cache is not None and pool.kind != "text":
            shutil.copytree(cache, place / "cache", dirs_exist_ok=True)
        began = time.perf_counter()
        shown = run.texts() if pool.kind == "text" else dict(enumerate(run.paths))
        of_item = dict(
            zip(pool.x if pool.kind == "text" else [f"{i:05d}.png" for i in range(len(pool))], labels, strict=True)
        )
        found = one_run(run, {path: of_item[shown[i]] for i, path in enumerate(run.paths)})
        encoder = run.settings.net.removeprefix("frozen:") + (f", {given.size} px" if given.size else "")
        rows.append({"data": pool.name, "items": len(pool), "encoder": encoder, "seed": seed, **found})
        accuracies = " / ".join(f"{n}: {100 * value:.1f}" for n, value in found["rest"].items())
        print(f"{pool.name}, {encoder}, seed {seed}: {accuracies}; {time.perf_counter() - began:.0f} s", flush=True)
        cache = place / "cache"
        run.close()
        keep(rows, given.out)
    return rows


def keep(rows: list[dict[str, Any]], out: Path | None) -> None:
    if out is None:
        return
    before = json.loads(out.read_text())["rows"] if out.exists() else []

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["encoder"], row["seed"]

    new = {key(row) for row in rows}
    record = {
        "benchmark": "pipeline",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "versions": versions((*PACKAGES, "transformers")),
        "rows": [*(row for row in before if key(row) not in new), *rows],
    }
    text = json.dumps(record, indent=1) + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


# --- into the docs ---------------------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    """Markdown: a row for each data set and encoder, means over the seeds."""
    heads = ("items", "encoder", "seeds", *(f"{n} labels" for n in SHOWN), "calibration error", "on check items")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---:|" + "---:|" * (len(SHOWN) + 2)]
    for data, encoder in dict.fromkeys((row["data"], row["encoder"]) for row in record["rows"]):
        rows = [row for row in record["rows"] if (row["data"], row["encoder"]) == (data, encoder)]

        def mean(n: int, rows: list[dict[str, Any]] = rows) -> str:
            values = [100 * row["rest"][str(n)] for row in rows if str(n) in row["rest"]]
            spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            return f"{np.mean(values):.1f}{spread}" if values else "–"

        errors = [row["rest_calibration_error"] for row in rows], [row["check_calibration"]["error"] for row in rows]
        cells = [f"{rows[0]['items']:,} of {data}", f"`{encoder}`", str(len(rows)), *map(mean, SHOWN)]
        cells += [f"{np.mean(errors[0]):.3f}", f"{np.mean(errors[1]):.3f} (n = {rows[0]['check_calibration']['n']})"]
        lines.append("| " + " | ".join(cells) + " |")
    machine = record["machine"]
    about = "On the items without a label: accuracy in %, mean ± standard deviation over the seeds; error of the last model."
    about += " With so few check items as n, chance alone shows an error even of a model that is perfectly calibrated."
    return "\n".join(lines) + f"\n\n{about} {machine['processor']}, {machine['cores']} cores, {record['date']}."


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index(END, page.index(MARK))
    return f"{page[:start]}\n\n{table(record)}\n\n{page[end:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], help="a data set's name or file; repeatable")
    parser.add_argument("--net", default="", help="as in `askless start`")
    parser.add_argument("--size", type=int, default=0, help="as in `askless start`")
    parser.add_argument("--labels", type=int, default=200, help="that askless chooses")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cache", type=Path, help="RUN/cache of an earlier run on the same images by the same encoder")
    parser.add_argument("--work", type=Path, default=Path("build/pipeline"), help="folder for files and runs")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads((RESULTS / "pipeline.json").read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return
    torch.set_num_threads(1)
    text_backbone.minilm = remembering()  # type: ignore[assignment]
    for data in given.data:
        runs(data, given)


if __name__ == "__main__":
    main()
