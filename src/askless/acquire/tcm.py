"""TCM: TypiClust for the first labels, then margin (Doucet et al., ICLR 2024 workshop)."""

import dataclasses

import numpy as np

from askless.acquire.strategy import Selection, View
from askless.acquire.typiclust import TypiClust
from askless.acquire.uncertainty import Margin
from askless.base.options import NotNegative, options


@options
class TCM:
    """Typical items while |L| < `per_class` x C, then those with the smallest margin: coverage while the model knows
    nothing, the border between classes once it does.

    The paper takes TypiClust for a few rounds, fewer the better the features and the larger the rounds are. A strategy
    does not count rounds, so here the labels decide: by default as many as three rounds of C. C is the number of columns of
    `probs`, or what the loop knows. Without `probs` it stays with TypiClust, and says so. `info["phase"]` is the strategy
    that chose; scores and memory are as there.

    >>> F, p = np.arange(4.0)[:, None], [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.9, 0.1]]
    >>> al.select(al.TCM(per_class=1), 1, features=F, probs=p, labelled=[0, 3], labels=[0, 1]).info["phase"]
    'margin'
    """

    per_class: NotNegative = 3.0
    name = "tcm"
    needs = ("features",)
    wants = ("probs",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        late = view.classes is not None and len(view.labelled) >= self.per_class * view.classes
        phase = Margin() if late and view.probs is not None else TypiClust()
        picks = phase.select(view, n, rng)
        info = picks.info | {"phase": phase.name}
        if late and view.probs is None:
            info["note"] = "margin is due but there are no probs, so TypiClust chose; pass probs="
        return dataclasses.replace(picks, info=info)
