"""How long a person who labels two images a second waits for the next one, trainings included.

    python benchmarks/labelling_pace.py --data cifar10_subset.npz --out benchmarks/results/labelling_pace.json
    python benchmarks/labelling_pace.py --docs    # only write the table into docs/evidence/labelling.md

Images of the data are written out as files and embedded, the first batch is chosen, and then `askless start` serves the run
in a process of its own, with its worker. A client does what the browser does: it answers, asks for the next image and loads
it, half a second after the image before. A wait is the time from sending an answer to having the next image, however often
the page has to be asked; the browser asks again every 0.6 s, and so does the client. The budget leaves many more images to
choose, so that the run does not end before the person does, and so few check images that they are used up soon.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.label.oracle import PageClient
from askless.run.steps.round_files import read_status
from askless.run.store.asking import all_rounds
from askless.run.store.fits import all_fits

PAGE = HERE.parent / "docs" / "evidence" / "labelling.md"
MARK, END = "<!-- table: labelling pace -->", "<!-- end -->"
ASKLESS = [sys.executable, "-c", "from askless.cli import main; main()"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
EDGES = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds, between the bars of the histogram
ASK_AGAIN = 0.6  # seconds between two looks of a browser that waits
TRAINING = ("training", "choosing", "choosing ahead")


def new_run(data: str, given: argparse.Namespace) -> tuple[Path, dict[str, str]]:
    """A run on the first images of the data, with its first batch chosen and everything embedded; what each image shows."""
    from pipeline import written

    shutil.rmtree(given.work, ignore_errors=True)
    pool = al.data.load(data)
    few = al.Pool(pool.x[: given.items], labels=pool.labels[: given.items], classes=pool.classes, kind=pool.kind)
    source, options, labels = written(few, given.work)
    budget = round(given.budget * given.answers)
    options |= {"net": given.net} if given.net else {}
    run = al.Run.create(source, given.work / "run", **options, budget=budget, check=given.check, size=given.size)
    if given.cache is not None:
        shutil.copytree(given.cache, given.work / "run" / "cache", dirs_exist_ok=True)
    begun = time.perf_counter()
    while run.advance():
        pass
    print(f"embedded, and the first batch chosen, in {time.perf_counter() - begun:.0f} s", flush=True)
    run.close()
    return given.work / "run", {f"{i:05d}.png": label for i, label in enumerate(labels)}


def label(url: str, truth: dict[str, str], answers: int, pace: float) -> list[dict[str, Any]]:
    """One row per answer: how long the next image took, what the worker did then, and why there was none, if so."""
    client = PageClient(url, "person", "tab")
    state = client.get(f"/api/state?tab={client.tab}")
    numbers = {c["name"]: c["id"] for c in state["progress"]["classes"]}
    item, rows = client.next()["item"], []
    due = time.perf_counter()
    for _ in range(answers):
        due = max(due + 1 / pace, time.perf_counter())  # half a second for each image, whatever came before
        time.sleep(max(0.0, due - time.perf_counter()))
        at, why = time.perf_counter(), ""
        client.label(item["id"], numbers[truth[item["name"]]], 1 / pace)
        answered = time.perf_counter() - at
        while (found := client.next())["item"] is None:
            why = f"{found['code']}: {found['why']}"
            time.sleep(ASK_AGAIN)
        item, had = found["item"], time.perf_counter() - at
        client.get(f"/image/{item['id']}")
        wait = time.perf_counter() - at
        batch = found["progress"]["batch"] or {}
        step = client.get(f"/api/state?tab={client.tab}")["worker"]["step"]
        parts = {"answer": round(answered, 3), "next": round(had - answered, 3), "image": round(wait - had, 3)}
        rows.append({"wait": wait, "parts": parts, "why": why, "step": step, "kind": item["kind"], **batch})
    client.close()
    return rows


def measured(folder: Path, truth: dict[str, str], given: argparse.Namespace) -> dict[str, Any]:
    command = [*ASKLESS, "start", str(folder), "--no-browser", "--json", "--port", "0"]
    load = [os.getloadavg()[0]]
    with subprocess.Popen(command, env=ONE_THREAD, text=True, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            url = next(event["url"] for event in map(json.loads, server.stdout) if event["event"] == "ready")
            wait_for_batch(folder)
            rows = label(url, truth, given.answers, given.pace)
            load.append(os.getloadavg()[0])
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()
    with al.Run.open(folder) as run, run.store.look() as db:
        trainings = [round(fit.seconds, 1) for fit in all_fits(db).values()]
        choosing = [round(made.seconds, 1) for made in all_rounds(db)[1:]]
    waits = np.array([row["wait"] for row in rows])
    in_training = np.array([row["step"] in TRAINING for row in rows])
    steps, kinds = [row["step"] for row in rows], [row["kind"] for row in rows]
    return {
        "items": given.items,
        "answers": len(rows),
        "per_second": given.pace,
        "waits": [round(wait, 4) for wait in waits.tolist()],
        "while_training": int(in_training.sum()),
        "longest_while_training": round(float(waits[in_training].max(initial=0)), 4),
        "longest": [{"step": row["step"], **row["parts"]} for row in sorted(rows, key=lambda row: -row["wait"])[:5]],
        "without_an_image": [row["why"] for row in rows if row["why"]],
        "ahead": sum(bool(row.get("ahead")) for row in rows),
        "steps": {step: steps.count(step) for step in dict.fromkeys(steps)},
        "kinds": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        "train_seconds": trainings,
        "choose_seconds": choosing,
        "load": [round(one, 1) for one in load],
    }


def wait_for_batch(folder: Path) -> None:
    """Until the worker has nothing to do: the page of a person who has opened it a moment ago."""
    end = time.monotonic() + 300
    while read_status(folder).get("step") != "waiting":
        if time.monotonic() > end:
            raise SystemExit("waited five minutes for the first batch; see worker.out in the run")
        time.sleep(0.2)


def record_of(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "benchmark": "labelling_pace",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": found["load"][-1]},
        "versions": versions(PACKAGES),
        **found,
    }


# --- into the docs ---------------------------------------------------------------------------------------------------


def histogram(waits: list[float]) -> list[int]:
    """How many waits lie up to each edge, and how many above the last.

    >>> histogram([0.01, 0.06, 0.06, 0.3, 2.0])
    [1, 2, 0, 1, 0, 1]
    """
    return np.bincount(np.searchsorted(EDGES, waits, side="left"), minlength=len(EDGES) + 1).tolist()


def table(record: dict[str, Any]) -> str:
    names = [f"to {edge:g} s" for edge in EDGES] + ["longer"]
    waits, trainings = np.array(record["waits"]), record["train_seconds"]
    lines = ["| wait for the next image | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    lines.append("| images | " + " | ".join(map(str, histogram(record["waits"]))) + " |")
    machine, load = record["machine"], " to ".join(f"{one:.1f}" for one in record["load"])
    about = (
        f"{record['answers']} answers at {record['per_second']:g} a second on {record['items']:,} images, embedded before; "
        f"median {1000 * np.median(waits):.0f} ms, longest {waits.max():.2f} s, and {record['longest_while_training']:.2f} "
        f"s among the {record['while_training']} while a model was trained or chose. {len(trainings)} trainings of "
        f"{min(trainings):.1f} to {max(trainings):.1f} s; {record['ahead']} images came while the next model was not ready, "
        f"and {len(record['without_an_image'])} times there was none. {machine['processor']}, {machine['cores']} cores, "
        f"load {load}, {record['date']}."
    )
    return "\n".join(lines) + f"\n\n{about}"


def renewed(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    start, end = page.index(MARK) + len(MARK), page.index(END, page.index(MARK))
    return f"{page[:start]}\n\n{table(record)}\n\n{page[end:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a data set's name or file, of images with labels")
    parser.add_argument("--items", type=int, default=2000, help="number of images")
    parser.add_argument("--answers", type=int, default=300)
    parser.add_argument("--pace", type=float, default=2.0, help="answers a second")
    parser.add_argument("--budget", type=float, default=1.5, help="times the answers")
    parser.add_argument("--check", type=float, default=0.05, help="as in `askless start`")
    parser.add_argument("--net", default="", help="as in `askless start`")
    parser.add_argument("--size", type=int, default=0, help="as in `askless start`")
    parser.add_argument("--cache", type=Path, help="RUN/cache of an earlier run on the same images")
    parser.add_argument("--work", type=Path, default=Path("build/labelling_pace"), help="folder for files and the run")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads((RESULTS / "labelling_pace.json").read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return 0
    folder, truth = new_run(given.data, given)
    record = record_of(measured(folder, truth, given))
    print(table(record))
    print({name: value for name, value in record.items() if name not in ("waits", "versions")})
    if given.out:
        text = json.dumps(record, indent=1) + "\n"
        write_whole(given.out, lambda file: file.write(text.encode()))
    long = [wait for wait in record["waits"] if wait > 1]
    if long:
        print(f"FAILED: expected no wait above 1 s, got {len(long)}: {sorted(long)}")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
