"""NPC's search for the best of m candidate batches: ours, batched eigvalsh, and torch.lobpcg (the papers' way).

    python benchmarks/npc_search.py            # all cases, about three minutes on 2 cores
    python benchmarks/npc_search.py --quick    # a tenth of the candidates

All are timed in one run on the same candidates; compare the ratios, the seconds depend on the machine and its other work.
lobpcg is timed on a few candidates and scaled up.
"""

import argparse
import time

import numpy as np
import torch

from askless.linalg import Rows, best_batch, best_batch_reference

CASES = [  # N, d, labelled, Q, m
    (50_000, 128, 50, 20, 50_000),
    (50_000, 512, 100, 200, 400),
    (50_000, 128, 700, 200, 2_000),
]
CHUNK = 2_000


def clustered_features(N: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten classes around their centres, positive like the features after a ReLU."""
    centres = rng.normal(size=(10, d))
    return np.maximum(centres[rng.integers(10, size=N)] + rng.normal(size=(N, d)), 0).astype(np.float32)


def seconds(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def lobpcg_seconds(rows: Rows, labelled: np.ndarray, candidates: np.ndarray) -> float:
    """Seconds per candidate of torch.lobpcg on the Gram matrix of labelled rows and batch."""
    start = time.perf_counter()
    for batch in candidates:
        phi = rows.take(np.concatenate([labelled, batch]))
        torch.lobpcg(phi @ phi.T, k=1, largest=False)
    return (time.perf_counter() - start) / len(candidates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the candidates")
    quick = parser.parse_args().quick
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    print(
        f"{'N':>7} {'d':>5} {'n_L':>5} {'Q':>4} {'m':>7} | {'ours s':>8} {'eigvalsh s':>10} {'lobpcg s':>9} | ours/eigvalsh"
    )
    for N, d, n_labelled, Q, m in CASES:
        m = max(100, m // 10) if quick else m
        rng = np.random.default_rng(0)
        rows = Rows(clustered_features(N, d, rng))
        labelled = np.arange(n_labelled)
        chunks = [rng.integers(n_labelled, N, size=(min(CHUNK, m - i), Q)) for i in range(0, m, CHUNK)]
        best_batch(rows, labelled, [chunks[0][:64]], 64)  # warm-up
        ours, fast = seconds(
            lambda rows=rows, labelled=labelled, chunks=chunks, m=m: best_batch(rows, labelled, chunks, m)
        )
        theirs, slow = seconds(
            lambda rows=rows, labelled=labelled, chunks=chunks: best_batch_reference(rows, labelled, chunks)
        )
        assert fast.place == slow.place, "the fast search found another batch"
        few = chunks[0][:3]
        papers = lobpcg_seconds(rows, labelled, few) * m if n_labelled + Q <= d + 1 else float("nan")
        print(
            f"{N:7} {d:5} {n_labelled:5} {Q:4} {m:7} | {ours:8.2f} {theirs:10.2f} {papers:9.1f} | {ours / theirs:.3f}"
            f"   ({fast.scored} candidates needed eigenvalues)"
        )


if __name__ == "__main__":
    main()
