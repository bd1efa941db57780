"""How the time of a strategy grows with the pool N, the features d, the classes C, the labelled n_L and the picks Q.

    python benchmarks/growth.py --out benchmarks/results/growth.json --picture docs/evidence/growth.svg     # some minutes
    python benchmarks/growth.py --only askless margin     # these alone
    python benchmarks/growth.py --quick

One number changes at a time, the others stay at the base point. The exponent e of time ~ size^e is fitted by least squares
to the logarithms; strategies with default arguments, inputs checked as always. Seconds are those of the processor, which
other work on the machine hardly changes with one thread (OMP_NUM_THREADS=1). An exponent below that of the work means that
the part which grows is not yet the larger one at these sizes.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from suite import PACKAGES, cpu

import askless as al
from askless.acquire import STRATEGIES
from askless.base.files import write_whole
from askless.base.machine import cores, versions

BASE = {"N": 40_000, "d": 64, "C": 10, "n_L": 200, "Q": 100}
AXES = {
    "N": (10_000, 20_000, 40_000, 80_000, 160_000),
    "d": (16, 32, 64, 128, 256),
    "C": (5, 10, 20, 40, 80),
    "n_L": (50, 100, 200, 400, 800),
    "Q": (25, 50, 100, 200, 400),
}
NAMES = (
    *(
        "askless",
        "random",
        "confidence",
        "margin",
        "entropy",
        "coreset",
        "badge",
        "egl",
        "npc",
        "crc",
        "dynamical",
        "albl",
    ),
    "typiclust",
)
QUICK = {"N": 2_000, "d": 16, "C": 5, "n_L": 20, "Q": 10}
WORDS = {"N": "pool N", "d": "features d", "C": "classes C", "n_L": "labelled n_L", "Q": "picks Q"}


def arrays(N: int, d: int, C: int, n_L: int) -> dict[str, np.ndarray]:
    """Classes around their centres, positive like features after a ReLU, and a model that knows the classes roughly."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((C, d), dtype=np.float32)
    truth = rng.integers(C, size=N)
    logits = rng.standard_normal((N, C), dtype=np.float32)
    logits[np.arange(N), truth] += 3
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    labelled = rng.permutation(N)[:n_L]
    return {
        "features": np.maximum(centres[truth] + rng.standard_normal((N, d), dtype=np.float32), 0),
        "probs": e / e.sum(axis=1, keepdims=True),
        "grad_sq": rng.exponential(size=N),
        "grad_dot": rng.normal(size=N),
        "labelled": labelled,
        "labels": truth[labelled],
    }


def seconds(name: str, Q: int, given: dict[str, np.ndarray]) -> float:
    needs = al.acquire.looks_at(al.acquire.make(name))
    wanted = {k: v for k, v in given.items() if k in (*needs, "labelled", "labels")}
    start = time.process_time()
    al.select(name, Q, pool=len(given["features"]), **wanted)
    return time.process_time() - start


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def measure(
    names: Sequence[str], base: dict[str, int], axes: dict[str, tuple[int, ...]], repeats: int
) -> dict[str, dict[str, list[float]]]:
    """Axis -> strategy -> least seconds at each size of the axis.

    All sizes in turn, `repeats` times (once is enough for what takes long): other work on the machine comes and goes, and
    should not look like growth.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for axis, sizes in axes.items():
        points = [base | {axis: size} for size in sizes]
        given = [arrays(**{k: v for k, v in point.items() if k != "Q"}) for point in points]
        found[axis] = {name: [np.inf] * len(sizes) for name in names}
        for repeat in range(repeats):
            for i, point in enumerate(points):
                for name in names:
                    least = found[axis][name][i]
                    if repeat == 0 or least < 2:
                        found[axis][name][i] = min(least, seconds(name, point["Q"], given[i]))
    return found


def exponents_table(axes: dict[str, tuple[int, ...]], found: dict[str, dict[str, list[float]]]) -> str:
    rows = ["| strategy | at the base point, s | " + " | ".join(axes) + " |", "|---|---:|" + "---:|" * len(axes)]
    for name in next(iter(found.values())):
        middle = statistics.median(found[axis][name][len(sizes) // 2] for axis, sizes in axes.items() if axis != "C")
        cells = [f"{exponent(sizes, found[axis][name]):.2f}" for axis, sizes in axes.items()]
        rows.append(f"| {name} | {middle:.3g} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def draw(path: Path, axes: dict[str, tuple[int, ...]], found: dict[str, dict[str, list[float]]]) -> None:
    """A panel for each axis, both scales logarithmic, a line for each strategy; slopes 1 and 2 in grey."""
    import matplotlib
    from matplotlib.figure import Figure

    colours = matplotlib.colormaps["tab20"].colors
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    panels = figure.subplots(1, len(axes), sharey=True)
    low = min(min(times) for by_name in found.values() for times in by_name.values())
    for panel, (axis, sizes) in zip(panels, axes.items(), strict=True):
        x = np.array(sizes, dtype=float)
        for slope in (1, 2):
            panel.plot(x, low * (x / x[0]) ** slope, color="0.75", linestyle=":", linewidth=1)
        for i, name in enumerate(found[axis]):
            panel.plot(
                x, found[axis][name], marker="osD^v<>ph*XP"[i % 12], markersize=4, color=colours[i % 20], label=name
            )
        panel.set(xscale="log", yscale="log", xlabel=WORDS[axis])
        panel.set_xticks(sizes, [f"{s:,}" if s < 10_000 else f"{s // 1000}k" for s in sizes])
        panel.minorticks_off()
    panels[0].set_ylabel("seconds (dotted: slopes 1 and 2)")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(found["N"]), frameon=False
    )
    # No date and fixed ids: the same numbers make the same file.
    with matplotlib.rc_context({"svg.hashsalt": "askless", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, not how fast")
    parser.add_argument("--out", type=Path, help="JSON file for the seconds and exponents")
    parser.add_argument("--picture", type=Path, help="file for the picture, .svg or .png")
    parser.add_argument("--only", nargs="+", choices=list(STRATEGIES), default=list(NAMES), help="only these")
    given = parser.parse_args()
    base = QUICK if given.quick else BASE
    axes = {axis: (base[axis], 2 * base[axis]) for axis in AXES} if given.quick else AXES
    al.select("typiclust", 2, features=np.random.default_rng(0).normal(size=(50, 3)))  # imports scikit-learn
    found = measure(given.only, base, axes, 1 if given.quick else 4)
    print("Base point: " + ", ".join(f"{axis} = {size:,}" for axis, size in base.items()) + "\n")
    print(exponents_table(axes, found))
    if given.picture is not None:
        draw(given.picture, axes, found)
    if given.out is not None:
        record = {
            "benchmark": "growth",
            "date": datetime.now(timezone.utc).date().isoformat(),
            "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
            "threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or cores(),
            "versions": versions(PACKAGES),
            "base": base,
            "axes": axes,
            "seconds": found,
            "exponents": {
                axis: {name: round(exponent(sizes, found[axis][name]), 3) for name in given.only}
                for axis, sizes in axes.items()
            },
        }
        text = json.dumps(record, indent=1) + "\n"
        write_whole(given.out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
