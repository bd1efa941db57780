"""BADGE, coreset, TypiClust, ProbCover, herding and askless: against scikit-activeml at sizes that it can do, and alone at
full size.

    python benchmarks/selection.py
    python benchmarks/selection.py --quick

Peer: scikit-activeml's Badge, CoreSet and TypiClust (20 neighbours as ours) on the same features, labelled items and
probabilities, its classifier ready-made; only `query` is timed. Coreset must choose the same items, BADGE the same first.
askless without its weights is MaxHerding with a reach: it is held against scikit-activeml's, given that reach and features
around their mean, and must cover as much of the pool.
At full size, N = 50,000, d = 512, C = 100, 1,000 labelled, 1,000 picks:
- reference: the short obvious loops below, timed on a few picks and scaled up;
- floor, BADGE and coreset: 1,000 products of the float32 features with a vector, which looking at every row for every pick
  would take at least (timed on 20 and scaled up). Ours may go below: it proves that most rows need no look.
- floor, TypiClust: scikit-learn's MiniBatchKMeans as it is, without the neighbours that come after it.
What covers a pool, from zero labels, N = 10,000, d = 1,280:
- floor: one product of all items with all targets, N T w multiplications for T = 8,192 targets and the w columns that are
  compared, 256 for askless; timed in turn with ours;
- reference: lazy greedy on all likenesses at once (328 MB), which is given the rows in their main directions. Ours must
  cover 99 % of what it covers.
"""

import heapq
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from million import make_arrays
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize
from suite import Line, Other, arguments, compare, finish, peer, seconds

import askless as al
from askless.acquire.covering import Space

LIMITS = {"badge": 1 / 20, "coreset": 1.0, "typiclust": 1.0, "askless": 1.0}  # of ours / theirs
PEER_SIZES = {  # N, d, C, labelled, picks: tens of seconds for theirs
    "badge": (5_000, 256, 10, 50, 200),
    "coreset": (20_000, 256, 10, 50, 500),
    "typiclust": (10_000, 256, 10, 50, 200),
    "askless": (5_000, 256, 10, 50, 200),
}
QUICK = (1_000, 16, 5, 10, 20)
FULL = (50_000, 512, 100, 1_000, 1_000)
COVERING = (10_000, 1_280, 8_192)  # N, d and targets
PRODUCTS = {100: 3.0, 1_000: 6.0}  # picks -> how many products askless may take
NAMES = ("features", "probs", "labelled", "labels")


def load(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.load(folder / f"{name}.npy") for name in NAMES}


def against_peer(names: tuple[str, ...], size: tuple[int, ...], limits: bool) -> list[Line]:
    """Ours and theirs on the same files."""
    N, d, C, n_labelled, picks = size
    with tempfile.TemporaryDirectory() as temporary:
        make_arrays(Path(temporary), N, d, C, n_labelled)
        arrays, reach = load(Path(temporary)), 0.0
        if "askless" in names:
            arrays["features"] = around_mean(arrays["features"])
            np.save(Path(temporary) / "features.npy", arrays["features"])
            reach = al.select(coverage(N), picks, **arrays).info["reach"]
            np.save(Path(temporary) / "gamma.npy", np.array(reach**-2))
        theirs = peer("selection_skactiveml.py", temporary, str(picks), "3" if limits else "1", *names)
    lines = []
    for name in names:
        strategy = coverage(N) if name == "askless" else name
        found = al.select(strategy, picks, **arrays).indices
        ours = compare({"ours": lambda s=strategy: al.select(s, picks, **arrays)}, repeats=3)["ours"]
        what = f"{name}, N = {N:,}, d = {d}, C = {C}, {n_labelled} labelled, {picks} picks"
        if theirs is None:
            lines.append(Line(what, ours, note="no peers installed"))
            continue
        note, chosen = "", theirs[name]["picks"]
        if name == "coreset":
            assert found.tolist() == chosen, "coreset: scikit-activeml chose other items"
            note = "the same picks"
        if name == "askless":  # ours is in float32: equals but for rounding may change places
            mine, other = (covered(arrays["features"], [*arrays["labelled"], *p], reach) for p in (found, chosen))
            assert abs(mine - other) < 1e-5, f"askless covers {mine}, scikit-activeml {other}"
            note = f"{len({*found.tolist()} & {*chosen})} of {picks} picks are the same; both cover {mine:.4f}"
        if name == "badge":
            assert found[0] == chosen[0], "badge: scikit-activeml chose another first item"
            note = f"scikit-activeml's {picks} picks are {len(set(chosen))} distinct items"
        other = Other("scikit-activeml", theirs[name]["seconds"], LIMITS[name] if limits else None)
        lines.append(Line(what, ours, peer=other, note=note))
    return lines


def coverage(N: int) -> al.Askless:
    """Without weights, on all items."""
    return al.Askless(trust=float("inf"), targets=N)


def covered(features: np.ndarray, chosen: list[int], reach: float) -> float:
    """The mean over all items of exp(-d^2 / h^2) to the nearest chosen one, in float64."""
    rows = normalize(features.astype(np.float64))
    return float(rbf_kernel(rows, rows[chosen], gamma=reach**-2).max(axis=1).mean())


def around_mean(features: np.ndarray) -> np.ndarray:
    return (features - features.mean(axis=0, dtype=np.float64)).astype(np.float32)


def plain_badge(features: np.ndarray, probs: np.ndarray, picks: int) -> None:
    """k-means++ on the gradients, with every row's distance to every pick."""
    rng = np.random.default_rng(0)
    u = probs.copy()
    u[np.arange(len(u)), u.argmax(axis=1)] -= 1
    sq = (u**2).sum(axis=1) * (features**2).sum(axis=1)
    nearest, pick = np.full(len(u), np.inf), int(sq.argmax())
    for _ in range(picks):
        distance = np.maximum(sq + sq[pick] - 2 * (u @ u[pick]) * (features @ features[pick]), 0)
        nearest = np.minimum(nearest, distance)
        nearest[pick] = 0
        pick = int(rng.choice(len(u), p=nearest / nearest.sum()))


def plain_coreset(features: np.ndarray, picks: int) -> None:
    """Furthest first, with every row's distance to every pick."""
    nearest, pick = np.full(len(features), np.inf), 0
    for _ in range(picks):
        nearest = np.minimum(nearest, ((features - features[pick]) ** 2).sum(axis=1))
        pick = int(nearest.argmax())


def plain_typiclust(features: np.ndarray, k: int, neighbours: int = 20) -> None:
    """scikit-learn's clusters and, in each, scikit-learn's neighbours."""
    cluster = MiniBatchKMeans(k, batch_size=4096, n_init=1, random_state=0).fit_predict(features)
    for c in range(k):
        x = features[cluster == c]
        if len(x) > 1:
            NearestNeighbors(n_neighbors=min(neighbours, len(x) - 1)).fit(x).kneighbors()


def scaled(call: Callable[[], Any], factor: float) -> float:
    return factor * compare({"way": call}, repeats=3)["way"]


def alone(quick: bool) -> list[Line]:
    """Each at full size against its floor and its reference."""
    N, d, C, n_labelled, picks = QUICK if quick else FULL
    few, centres, k = 20, n_labelled + picks, min(n_labelled + picks, 500)
    with tempfile.TemporaryDirectory() as temporary:
        make_arrays(Path(temporary), N, d, C, n_labelled)
        arrays = load(Path(temporary))
    features, probs = arrays["features"], arrays["probs"]
    what = f"N = {N:,}, d = {d}, C = {C}, {n_labelled:,} labelled, {picks:,} picks"
    products = scaled(lambda: [features @ features[i] for i in range(few)], 1 / few)

    def ours(name: str, repeats: int = 3) -> float:
        return compare({name: lambda: al.select(name, picks, **arrays)}, repeats=repeats)[name]

    return [
        Line(
            f"badge, {what}",
            ours("badge"),
            floor=Other(f"{picks:,} products of the features", picks * products),
            reference=Other("every row for every pick", scaled(lambda: plain_badge(features, probs, few), picks / few)),
        ),
        Line(
            f"coreset, {what}",
            ours("coreset"),
            floor=Other(f"{picks:,} products of the features", picks * products),
            reference=Other("every row for every pick", scaled(lambda: plain_coreset(features, 5), centres / 5)),
            note=f"the reference holds every row against the {centres:,} labelled and chosen ones",
        ),
        Line(
            f"typiclust, {what}",
            ours("typiclust", repeats=1),
            floor=Other(
                "MiniBatchKMeans",
                scaled(lambda: MiniBatchKMeans(k, batch_size=4096, n_init=1, random_state=0).fit(features), 1),
            ),
            reference=Other("scikit-learn's clusters and neighbours", scaled(lambda: plain_typiclust(features, k), 1)),
        ),
    ]


def plain_covering(rows: np.ndarray, targets: np.ndarray, reach: float, picks: int) -> list[int]:
    """Lazy greedy on all likenesses of unit rows (N, w)."""
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


def covering(quick: bool) -> list[Line]:
    """What covers a pool, against the product that bounds it."""
    N, d, T = (1_000, 300, 1_000) if quick else COVERING
    with tempfile.TemporaryDirectory() as temporary:
        make_arrays(Path(temporary), N, d, 10, 0)
        features = load(Path(temporary))["features"]
    out, lines = torch.empty(N, T), []
    products = {w: (torch.rand(N, w), torch.rand(w, T)) for w in (min(d, 256), d)}
    rng = np.random.default_rng(0)
    rows, targets = Space(features, 256, 2**30, rng)(np.arange(N)).numpy(), rng.choice(N, T, replace=False)
    for name, picks in [("askless", n // 50 if quick else n) for n in PRODUCTS] + [
        ("maxherding", 100),
        ("probcover", 100),
    ]:
        w = min(d, 256) if name == "askless" else d
        product = f"one product, {N:,} x {w} x {T:,}"
        ways = {
            product: lambda w=w: torch.mm(*products[w], out=out),
            "ours": lambda name=name, n=picks: al.select(name, n, features=features),
        }
        took = compare(ways, repeats=5)
        line = Line(f"{name}, N = {N:,}, d = {d:,}, no label, {picks:,} picks", took["ours"])
        limit = PRODUCTS[picks] if name == "askless" and not quick else None
        line = replace(line, floor=Other(product, took[product], limit))
        if name == "askless":
            found = al.select(name, picks, features=features)
            reach = found.info["reach"]
            plain, other = seconds(lambda n=picks, h=reach: plain_covering(rows, targets, h, n))
            mine, theirs = (covered(rows, p, reach) for p in (found.indices.tolist(), other))
            assert mine > 0.99 * theirs, f"askless covers {mine}, the reference {theirs}"
            line = replace(
                line,
                reference=Other("lazy greedy", plain),
                note=f"covers {mine:.4f} of the pool, the reference {theirs:.4f}",
            )
        lines.append(line)
    return lines


def main() -> None:
    given = arguments(__doc__)
    if given.quick:
        lines = against_peer(tuple(LIMITS), QUICK, limits=False)
    else:
        lines = [line for name, size in PEER_SIZES.items() for line in against_peer((name,), size, limits=True)]
    finish("selection", [*lines, *alone(given.quick), *covering(given.quick)], given)


if __name__ == "__main__":
    main()
