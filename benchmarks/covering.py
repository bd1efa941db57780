"""What covers or clusters a pool: askless, MaxHerding, ProbCover, TypiClust and DAL.

    python benchmarks/covering.py
    python benchmarks/covering.py --quick

N = 10,000, d = 1,280, 100 or 1,000 picks:
- floor: one product of all items with all targets, N T w multiplications, T = 8,192 targets and w columns: 256, which
  askless compares, also for TypiClust and DAL; all 1,280 for MaxHerding and ProbCover. Timed in turn with ours.
- reference: lazy greedy on all likenesses at once (328 MB), given the rows in their main directions. What our greedy search
  covers of the same rows, by the same targets and reach, must be 99 % of what it covers. (Picks of another `select` would
  not do: these features are half noise, of which each draw of main directions holds another part.)
A million rows (d = 256) and ten million (d = 64), 100 picks, beside 1,000 labels: the features are a file opened with
mmap_mode="r"; askless in a process of its own, as in million.py.
"""

import heapq
import tempfile
from pathlib import Path

import numpy as np
import torch
from million import LIMIT, make_arrays
from suite import Line, Other, arguments, compare, finish, own_process, seconds

import askless as al
from askless.acquire.covering import Cover, Space, greedy, reach_sq

SIZE = (10_000, 1_280, 8_192)  # N, d and targets
PRODUCTS = {100: 3.0, 1_000: 6.0}  # picks -> how many products askless may take
OTHERS = {"maxherding": 0, "probcover": 0, "typiclust": 200, "dal": 200}  # name -> labels; 100 picks
WHOLE = ("maxherding", "probcover")  # what compares all columns
LARGE = {(1_000_000, 256): 20.0, (10_000_000, 64): 300.0}  # N, d -> seconds that 100 picks may take


def lazy_greedy(rows: np.ndarray, targets: np.ndarray, reach: float, picks: int) -> list[int]:
    """On all likenesses of unit rows (N, w)."""
    alike = np.exp((2 * rows @ rows[targets].T - 2) / reach**2)
    best, chosen = np.zeros(len(targets), dtype=np.float32), []
    heap = [(-gain, i, 0) for i, gain in enumerate(alike.sum(axis=1))]
    heapq.heapify(heap)
    while len(chosen) < picks:
        _, i, known = heap[0]
        if known < len(chosen):
            heapq.heapreplace(heap, (-np.maximum(alike[i] - best, 0).sum(), i, len(chosen)))
        else:
            heapq.heappop(heap)
            best = np.maximum(best, alike[i])
            chosen.append(i)
    return chosen


def covered(rows: np.ndarray, picks: list[int], reach: float) -> float:
    """The mean over all rows of their likeness to the nearest pick."""
    return float(np.exp((2 * (rows @ rows[picks].T).max(axis=1) - 2) / reach**2).mean())


def by_products(quick: bool) -> list[Line]:
    N, d, T = (1_000, 300, 1_000) if quick else SIZE
    with tempfile.TemporaryDirectory() as folder:
        make_arrays(Path(folder), N, d, 10, 200)
        features, labelled = (np.load(Path(folder) / f"{name}.npy") for name in ("features", "labelled"))
    rng = np.random.default_rng(0)
    space, targets = Space(features, 256, 2**30, rng), np.sort(rng.choice(N, T, replace=False))
    rows = space(np.arange(N)).numpy()
    out, lines = torch.empty(N, T), []

    def line(name: str, picks: int, labels: int, limit: float | None) -> Line:
        w = d if name in WHOLE else min(d, 256)
        a, b, product = torch.rand(N, w), torch.rand(w, T), f"one product, {N:,} x {w:,} x {T:,}"
        ways = {
            product: lambda: torch.mm(a, b, out=out),
            "ours": lambda: al.select(name, picks, features=features, labelled=labelled[:labels]),
        }
        took = compare(ways, repeats=1 if quick else 3)
        what = f"{name}, N = {N:,}, d = {d:,}, {labels} labelled, {picks:,} picks"
        return Line(what, took["ours"], floor=Other(product, took[product], limit))

    for picks, limit in PRODUCTS.items():
        n = picks // 50 if quick else picks
        timed = line("askless", n, 0, None if quick else limit)
        h_sq = reach_sq(space, targets, n, rng)
        ours = greedy(Cover(space, targets, np.ones(T), h_sq, 2**27), np.arange(N), n, rng, lambda done, total: None)
        plain, other = seconds(lambda n=n, h=h_sq**0.5: lazy_greedy(rows, targets, h, n))
        mine, theirs = (covered(rows, p, h_sq**0.5) for p in (ours.items.tolist(), other))
        assert mine > 0.99 * theirs, f"ours covers {mine}, the reference {theirs}"
        note = f"covers {mine:.4f} of the pool, the reference {theirs:.4f}"
        lines.append(Line(timed.what, timed.ours, floor=timed.floor, reference=Other("lazy greedy", plain), note=note))
    return lines + [line(name, 20 if quick else 100, labels, None) for name, labels in OTHERS.items()]


def large(quick: bool) -> list[Line]:
    lines = []
    for (N, d), most in {(20_000, 32): 20.0}.items() if quick else LARGE.items():
        with tempfile.TemporaryDirectory() as folder:
            make_arrays(Path(folder), N, d, 10, 1_000)
            found = own_process("million.py", "--work", "askless", folder, "100")
        what = f"askless, N = {N:,}, d = {d}, 1,000 labelled, 100 picks"
        lines.append(Line(what, found["seconds"], most=most))
        lines.append(Line(f"{what}, peak memory", found["gb"], "GB", most=LIMIT))
    return lines


def main() -> None:
    given = arguments(__doc__)
    finish("covering", [*by_products(given.quick), *large(given.quick)], given)


if __name__ == "__main__":
    main()
