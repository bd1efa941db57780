"""What the theory says about a trained learner: its quantities in numbers, words and pictures."""

from askless.examine.findings import Findings, examine
from askless.examine.page import page, write
from askless.examine.words import Line, as_data, lines

__all__ = [
    # the numbers
    "examine",
    "Findings",
    # in words and as data
    "lines",
    "Line",
    "as_data",
    # as a page
    "page",
    "write",
]
