"""The whole job of the page on real images: CIFAR-10 written out as 10,000 files, labelled by a program that knows them.

Starts `askless start` and `askless oracle` as two processes, as one would in two terminals, and prints how long it took to
the first image, to embed, for each round, and how the accuracy on the check images compares with 2,000 test images. Fails
where the run does not end with 200 labels, a model that predicts, five points of a curve, and an interval that covers the
test accuracy. Some minutes on two cores. `--json` keeps the numbers.

    python benchmarks/labelling_cifar.py --out build/labelling      # CIFAR-10 from `askless data fetch cifar10`
    python benchmarks/labelling_cifar.py --data cifar10_subset.npz  # or any npz with x_train, y_train, x_test, y_test
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from PIL import Image
from suite import PACKAGES, cpu

import askless as al
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.label.oracle import PageClient
from askless.run.out.gather import account_of

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ASKLESS = [sys.executable, "-c", "from askless.cli import main; main()"]


def write_files(x, y, folder: Path) -> dict[str, str]:
    """PNG files in `folder`, and what each shows."""
    folder.mkdir(parents=True)
    truth = {}
    for i, label in enumerate(np.asarray(y).tolist()):
        image = np.asarray(x[i])
        image = image if image.shape[-1] == 3 else image.transpose(1, 2, 0)
        Image.fromarray(image).save(folder / f"{i:05d}.png")
        truth[f"{i:05d}.png"] = CLASSES[label]
    return truth


def images(data: Path | None, out: Path) -> tuple[dict[str, str], dict[str, str]]:
    """10,000 images to label and 2,000 to test with, balanced."""
    if data is None:
        pool = al.data.subset(al.data.cifar10(), 10_000, seed=0)
    else:
        pool = al.data.load(data)
    rng = np.random.default_rng(0)
    test_x, test_y = pool.test
    at = rng.permutation(len(test_y))[:2000]
    return write_files(pool.x, pool.labels, out / "images"), write_files(test_x[at], test_y[at], out / "test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/labelling"))
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    truth, test = images(args.data, args.out)
    (args.out / "truth.csv").write_text("path,label\n" + "".join(f"{p},{c}\n" for p, c in truth.items()))
    folder = args.out / "run"
    begun = time.perf_counter()
    start = subprocess.Popen(
        [
            *ASKLESS,
            *("start", str(args.out / "images"), "--out", str(folder), "--budget", str(args.budget)),
            *("--no-browser", "--json", "--until-done", "--port", "0"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert start.stdout is not None
    rounds: list[float] = []
    first_image, embedded = float("nan"), 0.0
    for line in start.stdout:
        event = json.loads(line)
        if event["event"] == "ready":
            client = PageClient(event["url"], "first")
            item = client.next()["item"]
            client.get(f"/image/{item['id']}")
            first_image = time.perf_counter() - begun
            print(f"first image after {first_image:.1f} s")
            client.post("/api/release", {"tab": client.tab})
            oracle = subprocess.Popen([*ASKLESS, "oracle", str(folder), "--truth", str(args.out / "truth.csv")])
        elif event["event"] == "status" and event["step"] == "choosing" and not embedded:
            embedded = time.perf_counter() - begun
            print(f"embedded and ready to choose after {embedded:.1f} s")
        elif event["event"] == "round":
            rounds.append(event["train_seconds"] + (event["choose_seconds"] or 0))
            print(f"round {event['round']}: {event['labels']} labels, {rounds[-1]:.1f} s")
    assert start.wait() == 0, "the run failed"
    assert oracle.wait() == 0, "the answerer failed"
    print(f"finished after {time.perf_counter() - begun:.0f} s; the longest round took {max(rounds):.1f} s")

    run = al.Run.open(folder)
    found = account_of(run)
    with (folder / "labels.csv").open(encoding="utf-8") as file:
        labels = list(csv.DictReader(file))
    assert len(labels) == args.budget, f"expected {args.budget} labels, got {len(labels)}"
    model = al.load(folder)
    said = model.predict([args.out / "test" / name for name in test])
    accuracy = float(np.mean([a == b for a, b in zip(said, test.values(), strict=True)]))
    measure = found.measure
    interval = f"{measure['low']:.3f} to {measure['high']:.3f}"
    print(f"check accuracy {measure['accuracy']:.3f} ({interval}, n = {measure['n']}); test accuracy {accuracy:.4f}")
    assert json.loads((folder / "report.json").read_text())["curve"][4:], "expected at least five points of the curve"
    assert measure["low"] <= accuracy <= measure["high"], "the interval does not cover the test accuracy"
    assert max(rounds) < 30, "a round took more than 30 s"
    if args.json is not None:
        record = {
            "benchmark": "labelling_cifar",
            "date": datetime.now(timezone.utc).date().isoformat(),
            "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
            "versions": versions(PACKAGES),
            "items": len(truth),
            "first_image": round(first_image, 2),
            "embedded": round(embedded, 1),
            "rounds": [round(seconds, 2) for seconds in rounds],
            "check": measure,
            "test_accuracy": accuracy,
        }
        write_whole(args.json, lambda file: file.write((json.dumps(record, indent=1) + "\n").encode()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
