"""Every strategy but askless, which `covering.py` measures, on a million rows: seconds and peak memory, each in a process
of its own.

    python benchmarks/million.py            # N = 1,000,000, d = 256, C = 10, 1,000 labelled, 1,000 picks
    python benchmarks/million.py --quick

The features (1 GB, float32) are a file opened with mmap_mode="r". Peak memory is that of the whole process, Python, torch
and all the other arrays included, without the pages of that file (RssAnon, looked at every 10 ms); its limit is 4 GB, BADGE
beside it with C = 1,000 on 50,000 rows, whose gradients would be 102 GB. Seconds are those of `select` with default
arguments, inputs checked; the floor is one reading of the features by a matrix-vector product in tiles, for those that look
at them, and one reading of the other arrays for the rest.
"""

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


def work(name: str, folder: Path, picks: int) -> dict[str, float]:
    """One strategy in this process."""
    given = {f: np.load(folder / f"{f}.npy", mmap_mode="r" if f == "features" else None) for f in FILES}
    needs = al.acquire.looks_at(al.acquire.make(name))
    given = {f: a for f, a in given.items() if f in (*needs, "labelled", "labels")}
    peak = Peak()
    peak.start()
    start = time.perf_counter()
    found = al.select(name, picks, pool=len(np.load(folder / "probs.npy", mmap_mode="r")), **given)
    seconds = time.perf_counter() - start
    assert len(found) == picks
    return {"seconds": seconds, "gb": peak.stop()}


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


def main() -> None:
    given = arguments(__doc__)
    N, d, C, n_labelled, picks = (20_000, 32, 10, 50, 50) if given.quick else (1_000_000, 256, 10, 1_000, 1_000)
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_arrays(folder, N, d, C, n_labelled)
        for name in [name for name in STRATEGIES if name != "askless"]:
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
    lines += many_classes(given.quick)
    finish("million", lines, given)


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
        print(json.dumps(work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
