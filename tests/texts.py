"""Reviews that are made up: two classes by their words, one word that no other review has, and everything that is odd."""

import csv
from pathlib import Path

import numpy as np

GOOD = ["great", "lovely", "wonderful", "happy", "superb"]
BAD = ["awful", "poor", "terrible", "sad", "broken"]
OTHER = [f"thing{i}" for i in range(40)]
WORDS = {"pos": GOOD, "neg": BAD}


def reviews(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """(text, class) of n reviews."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        name = ("pos", "neg")[int(rng.integers(2))]
        words = [*rng.choice(OTHER, 6), *rng.choice(WORDS[name], 3), f"unique{seed}x{i}"]
        made.append((" ".join(rng.permutation(words)), name))
    return made


def truth_of(text: str) -> str:
    return "pos" if any(word in text for word in GOOD) else "neg"


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path
