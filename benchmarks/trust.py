"""Does it help to trust a young model less? askless with its ramp and with full trust, under FixMatch: a CNN on the digits,
trained from scratch, and a head on frozen features of CIFAR-10.

askless bench run benchmarks/trust.py     # the rows of askless are those of askless.scratch and of askless.frozen
"""

import dataclasses

from askless.acquire import Askless
from askless.bench import preset

plain = preset("askless.scratch", "small")
scratch = [row for row in plain.rows if row.method == "askless" and row.group == "digits"]
frozen = [
    dataclasses.replace(row, counts=tuple(n for n in row.counts if n <= 110), group="CIFAR-10, frozen")
    for row in preset("askless.frozen", "small").rows
    if row.method == "askless" and row.group == "fixmatch"
]
own = (*scratch, *frozen)
full = tuple(dataclasses.replace(row, method="full trust", strategy=Askless(trust=0.0)) for row in own)
benchmark = dataclasses.replace(
    plain,
    name="trust",
    title="Trusting a young model",
    rows=(*own, *full),
    protocol="As askless.scratch on the digits, and as askless.frozen under FixMatch up to 110 labels.",
    figures=({"kind": "curves"},),
)
