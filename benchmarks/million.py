"""Every strategy on a million rows: seconds and peak memory, each in a process of its own.

    python benchmarks/million.py            # N = 1,000,000, d = 256, C = 10, 1,000 labelled, 1,000 picks
    python benchmarks/million.py --only askless badge     # these alone
    python benchmarks/million.py --quick

The features (1 GB, float32) are a file opened with mmap_mode="r". Peak memory is that of the whole process, Python, torch
and all the other arrays included, without the pages of that file (RssAnon, looked at every 10 ms); its limit is 4 GB, BADGE
beside it with C = 1,000 on 50,000 rows, whose gradients would be 102 GB. Seconds are those of `select` with default
arguments, inputs checked; the floor is one reading of the features by a matrix-vector product in tiles, for those that look
at them, and one reading of the other arrays for the rest.

askless also takes 100 picks, from a million rows and from ten million of width 64 (3 GB). From such pools it draws its
candidates: the last line is what its picks cover less than picks from all candidates do, on the same targets.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from suite import Line, Other, arguments, compare, finish, own_process, peak_gb

import askless as al
from askless.acquire import STRATEGIES

LIMIT = 4.0  # GB
SECONDS, MINUTES = 20.0, 300.0  # that the default may take for 100 picks of a million rows, and of ten million
LOST = 1.0  # % of what they cover that drawn candidates may cost
STATUS = Path("/proc/self/status")
FILES = ("features", "probs", "grad_sq", "grad_dot", "labelled", "labels")


def make_arrays(folder: Path, N: int, d: int, C: int, n_labelled: int, step: int = 50_000) -> None:
    """Ten-odd classes around their centres, positive like features after a ReLU, and a model's probabilities, in tiles."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(C, d)).astype(np.float32) / 2
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (N, d))
    probs, truth = np.empty((N, C), dtype=np.float32), rng.integers(C, size=N)
    for i in range(0, N, step):
        some = slice(i, min(i + step, N))
        noise = rng.standard_normal((some.stop - i, d), dtype=np.float32)
        features[some] = np.maximum(centres[truth[some]] + noise, 0)
        logits = features[some] @ centres.T / np.float32(d**0.5 / 4) + rng.standard_normal(
            (len(noise), C), dtype=np.float32
        )
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs[some] = e / e.sum(axis=1, keepdims=True)
    features.flush()
    labelled = rng.permutation(N)[:n_labelled]
    others = {
        "probs": probs,
        "grad_sq": rng.exponential(size=N).astype(np.float32),
        "grad_dot": rng.normal(size=N).astype(np.float32),
        "labelled": labelled,
        "labels": truth[labelled],
    }
    for name, array in others.items():
        np.save(folder / f"{name}.npy", array)


class Peak(threading.Thread):
    """The most anonymous memory of this process while it runs: what is not a page of a mapped file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.gb, self.over = 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            self.look()
            time.sleep(0.01)

    def look(self) -> None:
        if STATUS.exists():
            rows = dict(row.split(":", 1) for row in STATUS.read_text().splitlines())
            self.gb = max(self.gb, int(rows["RssAnon"].split()[0]) * 1024 / 1e9)
        else:
            self.gb = peak_gb()  # mapped pages counted: no other number there

    def stop(self) -> float:
        self.over.set()
        self.join()
        self.look()
        return self.gb


def work(name: str, folder: Path, picks: int, **options: int) -> dict[str, float]:
    """One strategy in this process."""
    given = {f: np.load(folder / f"{f}.npy", mmap_mode="r" if f == "features" else None) for f in FILES}
    needs = al.acquire.looks_at(al.acquire.make(name))
    given = {f: a for f, a in given.items() if f in (*needs, "labelled", "labels")}
    peak = Peak()
    peak.start()
    start = time.perf_counter()
    strategy = al.acquire.make(name, **options)
    found = al.select(strategy, picks, pool=len(np.load(folder / "probs.npy", mmap_mode="r")), **given)
    seconds = time.perf_counter() - start
    assert len(found) == picks
    covered = found.info.get("covered", 0) - found.info.get("covered_before", 0)
    return {"seconds": seconds, "gb": peak.stop(), "covered": covered}


def reading(folder: Path, names: tuple[str, ...]) -> float:
    """Seconds of one look at these arrays: a matrix-vector product in tiles, or a maximum."""
    arrays = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in names]

    def once() -> None:
        for array in arrays:
            ones = np.ones(array.shape[1], dtype=array.dtype) if array.ndim == 2 else None
            for i in range(0, len(array), 2**14):
                part = array[i : i + 2**14]
                part.max() if ones is None else part @ ones

    return compare({"once": once}, repeats=3)["once"]


def only(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES), help="these alone")


def main() -> None:
    given = arguments(__doc__, only)
    N, d, C, n_labelled, picks = (20_000, 32, 10, 50, 50) if given.quick else (1_000_000, 256, 10, 1_000, 1_000)
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_arrays(folder, N, d, C, n_labelled)
        for name in given.only:
            needs = tuple(
                need for need in al.acquire.looks_at(al.acquire.make(name)) if need in FILES and need != "labels"
            )
            if given.quick and name != "random":  # the small one is about whether it works
                result = work(name, folder, picks)
            else:
                result = own_process("million.py", "--work", name, str(folder), str(picks))
            floor = Other("one reading of " + ", ".join(needs), reading(folder, needs)) if needs else None
            lines.append(Line(f"{name}, N = {N:,}, d = {d}, C = {C}, {picks:,} picks", result["seconds"], floor=floor))
            lines.append(Line(f"{name}, peak memory", result["gb"], "GB", most=LIMIT))
            print(f"  {name}: {result['seconds']:.1f} s, {result['gb']:.2f} GB", file=sys.stderr, flush=True)
        if "askless" in given.only:
            lines += few_picks(folder, f"N = {N:,}, d = {d}, C = {C}", SECONDS, N)
    if "askless" in given.only:
        N, d = (40_000, 16) if given.quick else (10_000_000, 64)
        with tempfile.TemporaryDirectory() as temporary:
            make_arrays(Path(temporary), N, d, C, n_labelled)
            lines += few_picks(Path(temporary), f"N = {N:,}, d = {d}, C = {C}", MINUTES)
    if "badge" in given.only:
        lines += many_classes(given.quick)
    finish("million", lines, given)


def few_picks(folder: Path, what: str, most: float, candidates: int | None = None) -> list[Line]:
    """100 picks by askless; with so many candidates, what it covers less than with these."""
    found = own_process("million.py", "--work", "askless", str(folder), "100")
    what = f"askless, {what}, 100 picks"
    lines = [Line(what, found["seconds"], most=most), Line(f"{what}, peak memory", found["gb"], "GB", most=LIMIT)]
    if candidates is not None:
        whole = own_process("million.py", "--work", "askless", str(folder), "100", f"candidates={candidates}")
        lost = 100 * (1 - found["covered"] / whole["covered"])
        note = f"picks from all candidates take {whole['seconds']:.0f} s"
        lines.append(Line(f"{what}, coverage lost by drawing candidates", lost, "%", most=LOST, note=note))
    return lines


def many_classes(quick: bool) -> list[Line]:
    """BADGE where the gradients it is defined on would be N C d numbers."""
    N, d, C, picks = (2_000, 32, 200, 10) if quick else (50_000, 512, 1_000, 100)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_arrays(folder, N, d, C, 0)
        result = own_process("million.py", "--work", "badge", temporary, str(picks))
    what = f"badge, N = {N:,}, d = {d}, C = {C:,}, {picks} picks"
    whole = N * C * 4 / 1e9
    note = f"the probabilities alone are {whole:.2f} GB, the gradients in float32 would be {whole * d:.0f} GB"
    return [Line(what, result["seconds"]), Line(f"{what}, peak memory", result["gb"], "GB", most=LIMIT, note=note)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        options = {name: int(value) for name, value in (given.split("=") for given in sys.argv[5:])}
        print(json.dumps(work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), **options)))
    else:
        main()
