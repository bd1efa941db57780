"""The k nearest neighbours of every row by one library, for benchmarks/graph.py: in the peers' environment.

    python benchmarks/peers/graph_libraries.py WAY ROWS.npy POSITIONS.npy K THREADS

The rows are float32 of unit length. Writes the positions (n, k), the row itself left out. The last line of output is JSON:
the library's version, seconds of the first small call, least seconds of building and asking, and how many GB the process
grew by at its peak; or, where the library is not installed, `missing`.
"""

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Ask = Callable[[np.ndarray, int, int], np.ndarray]  # rows, k, threads -> positions (n, k)


def faiss_flat(rows: np.ndarray, k: int, threads: int) -> np.ndarray:
    """Exact."""
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index.search(rows, k)[1]


def faiss_ivf(rows: np.ndarray, k: int, threads: int) -> np.ndarray:
    import faiss

    faiss.omp_set_num_threads(threads)
    cells = int(4 * len(rows) ** 0.5)  # of faiss's guidelines
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(rows.shape[1]), rows.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.train(rows[: 50 * cells])
    index.add(rows)
    index.nprobe = 16
    return index.search(rows, k)[1]


def faiss_hnsw(rows: np.ndarray, k: int, threads: int) -> np.ndarray:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(rows.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(rows)
    index.hnsw.efSearch = 64
    return index.search(rows, k)[1]


def hnswlib(rows: np.ndarray, k: int, threads: int) -> np.ndarray:
    import hnswlib

    index = hnswlib.Index("ip", rows.shape[1])
    index.init_index(len(rows), ef_construction=200, M=16, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(rows)
    index.set_ef(64)
    return index.knn_query(rows, k)[0].astype(np.int64)


def pynndescent(rows: np.ndarray, k: int, threads: int) -> np.ndarray:
    from pynndescent import NNDescent

    return NNDescent(rows, "euclidean", n_neighbors=k, random_state=0, n_jobs=threads).neighbor_graph[0]


WAYS: dict[str, tuple[str, Ask]] = {
    "faiss, exact": ("faiss-cpu", faiss_flat),
    "faiss, cells": ("faiss-cpu", faiss_ivf),
    "faiss, HNSW": ("faiss-cpu", faiss_hnsw),
    "hnswlib": ("hnswlib", hnswlib),
    "pynndescent": ("pynndescent", pynndescent),
}


def without_itself(positions: np.ndarray) -> np.ndarray:
    """(n, k + 1) -> (n, k): the row itself left out, or where it was not found the last one."""
    itself = positions == np.arange(len(positions))[:, None]
    itself[~itself.any(axis=1), -1] = True
    return positions[~itself].reshape(len(positions), -1)


def peak_gb() -> float:
    found = [row.split()[1] for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmHWM")]
    return int(found[0]) * 1024 / 1e9


def main(way: str, source: str, out: str, k: int, threads: int) -> dict[str, object]:
    package, ask = WAYS[way]
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return {"missing": package}
    rows = np.load(source)
    start = time.perf_counter()
    ask(rows[:500].copy(), min(k + 1, 16), threads)  # imports, and what numba compiles
    first, before = time.perf_counter() - start, peak_gb()
    took: list[float] = []
    while len(took) < 3 and sum(took) < 10:
        start = time.perf_counter()
        found = ask(rows, k + 1, threads)
        took.append(time.perf_counter() - start)
    np.save(out, without_itself(found))
    return {"version": version, "first": first, "seconds": min(took), "gb": peak_gb() - before}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], *map(int, sys.argv[4:]))))
