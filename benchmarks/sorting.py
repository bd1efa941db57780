"""Sort 2,000 photographs of six classes into folders, as a person does on the page, and count every key and click.

A simulated person talks to `askless start` over HTTP, as the browser does. They answer what is asked until the budget is
used, accept chunks under Sort and correct every wrong image in them, stop when few are left, and press "Sort into folders"
with the rest by the model's best guess. A label, an accepted chunk, a corrected image and a button count one each. As on the
page, the next chunk comes as soon as one is accepted. While the person looks at its 96 images, the model trains on what they
corrected in the one before; so the simulated person waits for that.

    python benchmarks/sorting.py --data cifar10_subset.npz --out benchmarks/results/sorting.json
    python benchmarks/sorting.py --docs    # write the table into docs/evidence/labelling.md
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from suite import cpu

import askless as al
from askless.base.files import write_whole
from askless.base.machine import cores
from askless.label.oracle import PageClient

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIX = ("airplane", "automobile", "frog", "horse", "ship", "truck")
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "labelling.md"
RESULTS = Path(__file__).parent / "results" / "sorting.json"
MARK, END = "<!-- table: sorting -->", "<!-- end -->"
ASKLESS = [sys.executable, "-c", "from askless.cli import main; main()"]


def six_classes(data: Path, six: tuple[str, ...], n: int) -> tuple[np.ndarray, list[str]]:
    """About n images, the first of each class in a random order, and what they show."""
    with np.load(data) as file:
        x, y = file["x_train"], file["y_train"]
    each = [n // len(six) + (i < n % len(six)) for i in range(len(six))]
    at = np.concatenate([np.flatnonzero(y == CLASSES.index(c))[:k] for c, k in zip(six, each, strict=True)])
    at = np.random.default_rng(0).permutation(at)
    return x[at], [CLASSES[label] for label in y[at]]


class Person:
    """Who answers truly, and counts what they press."""

    def __init__(self, url: str, truth: Mapping[str, str], chunk: int) -> None:
        self.client, self.truth, self.chunk = PageClient(url, "person"), truth, chunk
        self.labels = self.chunks = self.put_right = self.buttons = 0
        state = self.state()
        self.numbers = {c["name"]: c["id"] for c in state["progress"]["classes"]}

    @property
    def actions(self) -> int:
        return self.labels + self.chunks + self.put_right + self.buttons

    def state(self) -> Any:
        return self.client.get(f"/api/state?tab={self.client.tab}")

    def send(self, path: str, **body: Any) -> Any:
        return self.client.post(path, {"request_id": str(uuid.uuid4()), **body})

    def answer_all(self) -> None:
        while True:
            found = self.client.next()
            if found["item"] is not None:
                self.client.label(found["item"]["id"], self.numbers[self.truth[found["item"]["name"]]])
                self.labels += 1
            elif found["code"] == "finished":
                return
            else:
                time.sleep(0.2)

    def sort(self, leave: int) -> dict[str, float]:
        """Accepts chunks until no more than `leave` images wait; what the page says of those."""
        self.buttons += 1  # the tab
        trained = None
        while True:
            found = self.client.get(f"/api/sort?n={self.chunk}")
            if found["chunk"] is None or found["waiting"] <= leave:
                return {"left": found["waiting"], "expected_wrong": found["expected_wrong"]}
            if trained is not None:
                self.wait_for_training(trained)
            number = found["chunk"]["class"]
            true = {item["id"]: self.numbers[self.truth[item["name"]]] for item in found["chunk"]["items"]}
            accepted = [item for item, c in true.items() if c == number]
            right = [{"item": item, "class": c} for item, c in true.items() if c != number]
            trained = self.state()["model"]["labels"] if right else None
            self.send("/api/sort", tab=self.client.tab, **{"class": number}, accepted=accepted, right=right)
            self.chunks += 1
            self.put_right += len(right)
            name = next(c for c, i in self.numbers.items() if i == number)
            print(f"{self.actions} actions: {len(accepted)} + {len(right)} of {name}", flush=True)

    def wait_for_training(self, trained: int) -> None:
        """Until there is a model of more labels; what was put right of images held out gives none."""
        until = time.monotonic() + 60
        while self.state()["model"]["labels"] <= trained and time.monotonic() < until:
            time.sleep(0.2)

    def sort_into_folders(self, out: Path) -> Any:
        self.buttons += 3  # the tab Progress, what to do with the rest, the button
        reply = self.send("/api/jobs/folders", rest="guess", out=str(out))
        assert reply["ok"], reply
        while (job := self.client.get("/api/jobs")["job"])["state"] == "running":
            time.sleep(0.2)
        assert job["state"] == "done", job
        return job


def share_right(folder: Path, truth: Mapping[str, str]) -> tuple[int, int]:
    """How many files lie in the folder of their class, and how many there are."""
    found = [(path.parent.name, path.stem) for path in folder.rglob("*.png")]
    return sum(truth[name] == label for label, name in found), len(found)


def one(given: argparse.Namespace, six: tuple[str, ...], seed: int) -> dict[str, Any]:
    work = given.work / f"{'-'.join(name[:2] for name in six)}-{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    x, labels = six_classes(given.data, six, given.images)
    np.savez(work / "photos.npz", X=x)
    truth = {str(i): label for i, label in enumerate(labels)}
    options = {"budget": given.budget, "seed": seed, "classes": six}
    al.Run.create(work / "photos.npz", work / "run", **options).close()
    if given.cache is not None:
        shutil.copytree(given.cache, work / "run" / "cache", dirs_exist_ok=True)
    begun = time.perf_counter()
    command = [*ASKLESS, "start", str(work / "run"), "--no-browser", "--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as start:
        assert start.stdout is not None
        try:
            ready = next(event for event in map(json.loads, start.stdout) if event["event"] == "ready")
            person = Person(ready["url"], truth, given.chunk)
            person.answer_all()
            stopped = person.sort(given.leave)
            told = person.client.get("/api/sort")["precision"][-1]
            person.sort_into_folders(work / "sorted")
            right, n = share_right(work / "sorted", truth)
        finally:
            start.terminate()
    return {
        "classes": list(six),
        "images": len(truth),
        "seed": seed,
        "budget": given.budget,
        "chunk": given.chunk,
        "labels": person.labels,
        "chunks": person.chunks,
        "put_right": person.put_right,
        "buttons": person.buttons,
        "actions": person.actions,
        "sorted": n,
        **stopped,
        "right": right,
        "share": right / n,
        "precision": told,
        "seconds": round(time.perf_counter() - begun),
    }


def table(record: dict[str, Any]) -> str:
    lines = [
        "| classes | images | seed | labels | chunks accepted | put right | buttons | keys and clicks "
        "| left: wrong, expected | right |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in record["rows"]:
        names = ("labels", "chunks", "put_right", "buttons", "actions")
        cells = [
            f"{row['sorted']:,}",
            str(row["seed"]),
            *(str(row[name]) for name in names),
            f"{row['left']}: {row['sorted'] - row['right']}, {row['expected_wrong']:.0f}",
            f"{100 * row['share']:.1f} %",
        ]
        lines.append("| " + " | ".join([", ".join(row["classes"]), *cells]) + " |")
    machine = record["machine"]
    return "\n".join(lines) + f"\n\n{machine['processor']}, {machine['cores']} cores, {record['date']}."


def renewed(page: str, record: dict[str, Any]) -> str:
    start, end = page.index(MARK) + len(MARK), page.index(END, page.index(MARK))
    return f"{page[:start]}\n\n{table(record)}\n\n{page[end:]}"


def keep(rows: list[dict[str, Any]], out: Path) -> None:
    """Writes the rows with those that are there, of which new ones replace their like."""
    before = json.loads(out.read_text())["rows"] if out.exists() else []
    new = {(*row["classes"], row["seed"]) for row in rows}
    record = {
        "benchmark": "sorting",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "rows": [*(row for row in before if (*row["classes"], row["seed"]) not in new), *rows],
    }
    text = json.dumps(record, indent=1) + "\n"
    write_whole(out, lambda file: file.write(text.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="npz with x_train and y_train of CIFAR-10")
    parser.add_argument("--classes", default=",".join(SIX))
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--chunk", type=int, default=96)
    parser.add_argument("--leave", type=int, default=150, help="how many are left to the model's best guess")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--cache", type=Path, help="RUN/cache of an earlier run on the same images by the same encoder")
    parser.add_argument("--work", type=Path, default=Path("build/sorting"), help="folder for images and runs")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the table into docs/evidence")
    given = parser.parse_args()
    if given.docs:
        text = renewed(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text()))
        write_whole(PAGE, lambda file: file.write(text.encode()))
        return
    given.work = given.work.resolve()
    for seed in map(int, given.seeds.split(",")):
        row = one(given, tuple(given.classes.split(",")), seed)
        print(json.dumps(row), flush=True)
        if given.out is not None:
            keep([row], given.out)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
