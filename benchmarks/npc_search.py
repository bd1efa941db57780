"""NPC's search for the best of m candidate batches.

    python benchmarks/npc_search.py            # all cases, some minutes
    python benchmarks/npc_search.py --quick    # few candidates, a small pool

Ours against the reference of the tests, a batched float64 `eigvalsh` of every candidate (run once on all of them: the
winner must be the same; timed on some of them and scaled up), and against `torch.lobpcg` per candidate, the papers' way
(timed on three and scaled up). The floor, where every candidate's rows have to be looked at, is to fetch them and form
their inner products in float32. The last line is a whole `select("npc")` beside one forward pass of WRN-28-2 over as many
images (timed on some of them and scaled up).
"""

from collections.abc import Callable

import numpy as np
import torch
from suite import Line, Other, arguments, compare, finish, seconds

import askless as al
from askless.acquire.npc import draw_batches
from askless.linalg import GramRows, best_batch, best_batch_reference

CASES = [  # N, d, labelled, Q, m, at most ours / eigvalsh
    (50_000, 128, 50, 20, 50_000, 1 / 15),
    (50_000, 512, 100, 200, 400, 1 / 3),
    (50_000, 128, 700, 200, 50_000, 1 / 10),
]
SHARE = 50  # the reference and the floor are timed on one in so many candidates
IMAGES = 256  # through WRN-28-2


def clustered_features(N: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten classes around their centres, positive like the features after a ReLU."""
    centres = rng.normal(size=(10, d))
    return np.maximum(centres[rng.integers(10, size=N)] + rng.normal(size=(N, d)), 0).astype(np.float32)


def inner_products(features: torch.Tensor, batches: np.ndarray) -> Callable[[], None]:
    """Fetches the rows of each batch and multiplies them with each other, a block that fits in the cache at a time."""
    step = max(1, 2**22 // (8 * batches.shape[1] * features.shape[1]))

    def work() -> None:
        for i in range(0, len(batches), step):
            part = torch.from_numpy(batches[i : i + step])
            z = features.index_select(0, part.reshape(-1)).view(*part.shape, -1)
            torch.matmul(z, z.mT)

    return work


def lobpcg(rows: GramRows, labelled: np.ndarray, batches: np.ndarray) -> None:
    for batch in batches:
        phi = rows.take(np.concatenate([labelled, batch]))
        torch.lobpcg(phi @ phi.T, k=1, largest=False)


def search_line(N: int, d: int, n_labelled: int, Q: int, m: int, limit: float | None) -> Line:
    rng = np.random.default_rng(0)
    features = clustered_features(N, d, rng)
    rows, labelled = GramRows(features), np.arange(n_labelled)
    blocks = list(draw_batches(np.arange(n_labelled, N), Q, m, rng))
    everything = np.concatenate(blocks)
    some = everything[: max(4, m // SHARE)]
    primal = n_labelled + Q <= d + 1
    ways = {
        "ours": lambda: best_batch(rows, labelled, blocks, m),
        "reference": lambda: best_batch_reference(rows, labelled, [some]),
    }
    if primal:
        ways["floor"] = inner_products(torch.from_numpy(features), some)
    took = compare(ways, 5)
    fast, slow = best_batch(rows, labelled, blocks, m), best_batch_reference(rows, labelled, blocks)
    assert fast.place == slow.place, "the fast search found another batch"
    up = m / len(some)
    papers = seconds(lambda: lobpcg(rows, labelled, everything[:3]))[0] * m / 3 if primal else None
    note = f"{fast.scored} of {m:,} candidates needed eigenvalues"
    return Line(
        f"best of {m:,} batches; N = {N:,}, d = {d}, {n_labelled} labelled, Q = {Q}",
        took["ours"],
        floor=Other("inner products", took["floor"] * up) if primal else None,
        reference=Other("eigvalsh", took["reference"] * up, limit),
        peer=None if papers is None else Other("torch.lobpcg", papers),
        note=note if primal else f"{note}; K is singular here, which lobpcg does not look behind",
    )


def selection_line(N: int, images: int, limit: float | None) -> Line:
    rng = np.random.default_rng(0)
    features = clustered_features(N, 128, rng)
    labelled = np.arange(50)
    net = al.nets.make("wrn-28-2", classes=10, shape=(3, 32, 32)).eval()
    x = torch.from_numpy(rng.normal(size=(images, 3, 32, 32)).astype(np.float32))

    def forward() -> None:
        with torch.inference_mode():
            for part in x.split(64):
                net(part)

    took = compare(
        {
            "ours": lambda: al.select(al.NPC(draws=N), 20, features=features, labelled=labelled),
            "floor": forward,
        },
        5,
    )
    return Line(
        f"select NPC(draws={N:,}), 20 of N = {N:,}, d = 128, features given",
        took["ours"],
        floor=Other(f"WRN-28-2 over {N:,} images", took["floor"] * N / images, limit),
    )


def main() -> None:
    given = arguments(__doc__)
    cases = [(2_000, d, L, Q, min(m, 400), None) for _, d, L, Q, m, _ in CASES] if given.quick else CASES
    lines = [search_line(*case) for case in cases]
    lines.append(selection_line(2_000, 16, None) if given.quick else selection_line(50_000, IMAGES, 0.05))
    finish("npc_search", lines, given)


if __name__ == "__main__":
    main()
