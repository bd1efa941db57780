"""Smallest non-zero eigenvalues of Gram matrices, and searches for the batch that maximises them."""

from askless.linalg.bordered import Blocks
from askless.linalg.gram import GramRows, Score, beats, gram_score, score_batches
from askless.linalg.greedy import add_best, swap_until_stable
from askless.linalg.search import best_batch, best_batch_reference

__all__ = [
    "Blocks",
    "GramRows",
    "Score",
    "add_best",
    "beats",
    "best_batch",
    "best_batch_reference",
    "gram_score",
    "score_batches",
    "swap_until_stable",
]
