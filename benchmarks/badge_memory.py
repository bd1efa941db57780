"""Peak memory of BADGE at N = 50,000, C = 1,000, d = 512, 100 picks: a process that only makes the arrays against one
that also selects, so that the difference is the selection's own.

    python benchmarks/badge_memory.py

The embeddings that BADGE is defined on would be N * C * d floats: 102 GB.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np


def work(select_too: bool, N: int, C: int, d: int, picks: int) -> None:
    import askless as al

    rng = np.random.default_rng(0)
    features = rng.standard_normal((N, d), dtype=np.float32)
    probs = rng.standard_exponential((N, C), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    seconds = 0.0
    if select_too:
        start = time.perf_counter()
        assert len(al.select("badge", picks, features=features, probs=probs)) == picks
        seconds = time.perf_counter() - start
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=["arrays", "select"], help=argparse.SUPPRESS)
    parser.add_argument(
        "--size", type=int, nargs=4, default=[50_000, 1_000, 512, 100], metavar=("N", "C", "d", "picks")
    )
    given = parser.parse_args()
    if given.work:
        work(given.work == "select", *given.size)
        return
    peaks = {}
    for what in ("arrays", "select"):
        command = [sys.executable, __file__, "--work", what, "--size", *map(str, given.size)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        peaks[what], seconds = float(out[0]), float(out[1])
    N, C, d, picks = given.size
    print(f"BADGE, N = {N}, C = {C}, d = {d}, {picks} picks: {seconds:.1f} s")
    print(f"peak memory of the process {peaks['select']:.2f} GB, of which the arrays alone {peaks['arrays']:.2f} GB")


if __name__ == "__main__":
    main()
