"""Does it help to trust a young model less? askless with its ramp and with full trust, trained from scratch by FixMatch.

askless bench run benchmarks/trust.py     # the rows of askless are those of `askless bench run askless.scratch`
"""

import dataclasses

from askless.acquire import Askless
from askless.bench import preset

plain = preset("askless.scratch", "small")
own = tuple(row for row in plain.rows if row.method == "askless")
full = tuple(dataclasses.replace(row, method="full trust", strategy=Askless(trust=0.0)) for row in own)
benchmark = dataclasses.replace(
    plain, name="trust", title="Trusting a young model", rows=(*own, *full), figures=({"kind": "curves"},)
)
