"""Fashion-MNIST: random, margin, BADGE and NPC under FixMatch + DARP from scratch, 10 to 70 labels, 3 seeds.

    python benchmarks/fashion_mnist.py [--out FOLDER] [--seeds 3] [--workers 2] [--steps 400]

A pool of 10,000 images and the 10,000 test images, the small CNN, a balanced start of one image per class. Under an hour on
2 cores. Each curve is kept in FOLDER as soon as it is finished; a run that was stopped goes on with the missing ones.
Get the data first: `askless data fetch fashion-mnist`.
"""

import argparse
import json
from pathlib import Path

from rich.console import Console

from askless.curves import Curve, Plan, compare, gain, mean_and_spread
from askless.data import Pool, load, subset
from askless.files import write_whole
from askless.learn import DARP, FixMatch
from askless.progress import progress_bar

STRATEGIES = {"random": "random", "margin": "margin", "badge": "badge", "npc": "npc"}
COUNTS = (10, 30, 50, 70)


def source() -> Pool:
    return subset(load("fashion-mnist"), 10_000, seed=0)


def table(curves: list[Curve]) -> str:
    """A markdown table: test and pool accuracy, and each strategy's paired difference to random."""
    heads = ["images", "strategy", *map(str, COUNTS), "mean of the curve over random [95 %]"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for on in ("test", "pool"):
        for name in STRATEGIES:
            mean, half = gain(curves, name, on=on)
            over = "" if name == "random" else f"{mean:+.1f} ± {half:.1f}"
            lines.append("| " + " | ".join([on, name, *mean_and_spread(curves, name, on), over]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("fashion-mnist-curves"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(source, "small-cnn", FixMatch(steps=given.steps, batch=16, mu=4, darp=DARP(every=20)), COUNTS)
    settings = {"learner": repr(plan.learner), "counts": list(COUNTS)}

    def path(name: str, seed: int) -> Path:
        return given.out / f"{name}-{seed}.json"

    def keep(curve: Curve) -> None:
        content = json.dumps({"settings": settings, "curve": curve._asdict()}).encode()
        write_whole(path(curve.strategy, curve.seed), lambda file: file.write(content))

    def stored(name: str, seed: int) -> Curve | None:
        if not path(name, seed).exists():
            return None
        content = json.loads(path(name, seed).read_text())
        if content["settings"] != settings:
            raise SystemExit(f"{path(name, seed)} is of other settings; use another --out")
        return Curve(**content["curve"])

    console = Console(stderr=True)
    with progress_bar("training", console) as progress:
        for seed in range(given.seeds):
            missing = {name: s for name, s in STRATEGIES.items() if stored(name, seed) is None}
            if missing:
                compare(plan, missing, [seed], workers=given.workers, progress=progress, finished=keep)
    curves = [c for seed in range(given.seeds) for name in STRATEGIES if (c := stored(name, seed)) is not None]
    print(table(curves))
    print(f"\n{len(curves)} curves, {sum(c.seconds for c in curves) / 3600:.2f} core hours; {plan.learner}")


if __name__ == "__main__":
    main()
