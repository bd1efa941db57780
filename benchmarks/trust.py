"""Does it help to trust a young model less? askless with its ramp and with full trust, under FixMatch: a CNN on the digits,
trained from scratch.

askless bench run benchmarks/trust.py     # the rows of askless are those of askless.scratch
"""

import dataclasses

from askless.acquire import Askless
from askless.bench import preset

plain = preset("askless.scratch", "small")
own = tuple(row for row in plain.rows if row.method == "askless" and row.group == "digits")
full = tuple(dataclasses.replace(row, method="full trust", strategy=Askless(trust=0.0)) for row in own)
benchmark = dataclasses.replace(
    plain,
    name="trust",
    title="Trusting a young model",
    rows=(*own, *full),
    protocol="As askless.scratch on the digits.",
    figures=({"kind": "curves"},),
)
