"""The table of arrays that strategies use, and of strategies by name.

A new strategy is one row here, and a name in `askless/__init__.py` and `acquire/__init__.py`. Importing this file imports no
strategy, so the labelling page, which offers them, starts without torch.
"""

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from askless.base.errors import InputError, OptionError, unknown
from askless.base.plain import short

if TYPE_CHECKING:
    from askless.acquire.strategy import Strategy

Rule = Literal["any", "features", "probabilities", "squares"]
Reason = Literal["random", "stands for", "hesitates", "new region", "eigenvalue"]

# What type checkers know of the names; a test holds it against STRATEGIES.
Name = Literal[
    "askless", "random", "confidence", "margin", "entropy", "coreset", "badge", "egl", "npc", "crc", "dynamical",
    "albl", "typiclust", "probcover", "maxherding", "uherding", "tcm", "clustermargin", "dropquery", "alfamix",
    "bald", "batchbald", "dal", "bait", "lookahead", "direct", "dcom", "refine",
]  # fmt: skip


class Array(NamedTuple):
    """`shape`: of N items of which L are labelled, d features, C classes, K passes with dropout. `rule`: how its values
    are checked (see `acquire/arrays.py`)."""

    shape: str
    about: str
    rule: Rule = "any"


ARRAYS = {
    "features": Array("(N, d)", "one vector per item", "features"),
    "probs": Array("(N, C)", "the model's class probabilities", "probabilities"),
    "probs_by_pass": Array(
        "(N, K, C)", "class probabilities of K passes with dropout or of K networks", "probabilities"
    ),
    "logits": Array("(N, C)", "outputs of the model's last layer"),
    "grad_sq": Array("(N,)", "squared norms of the loss gradients, as in kernels.gradient_stats", "squares"),
    "grad_dot": Array(
        "(N,)", "products of the loss gradients with that of the labelled items, as in kernels.gradient_stats"
    ),
    "grad_sq_by_class": Array(
        "(N, C)",
        "squared norms of the gradients for every possible label, as in kernels.gradient_sq_by_class",
        "squares",
    ),
    "kernel": Array("(N, N)", "inner products of all items, such as kernels.ntk(model, x, layers='all')"),
    "labelled": Array("(L,)", "positions of the labelled items"),
    "labels": Array("(L,)", "their classes, as whole numbers"),
}
PER_ITEM = tuple(name for name, array in ARRAYS.items() if array.shape.startswith("(N"))
BY_ROWS = tuple(name for name in PER_ITEM if name != "kernel")  # an item's row says nothing of the other items


class Info(NamedTuple):
    """A strategy: a row of the table that `askless strategies` prints.

    `home`: its file and class below `askless.acquire`. `reason`: how the labelling page explains a pick (see
    `run/steps/reasons.py`). `in_runs`: whether `askless start` offers it.

    `paper`: where the method is from. `cost`: what it grows with.

    >>> al.acquire.STRATEGIES["npc"].make()
    NPC()
    """

    home: str
    paper: str
    cost: str
    reason: Reason = "hesitates"
    in_runs: bool = True

    @property
    def make(self) -> type:
        """Its class."""
        module, _, name = self.home.partition(".")
        return getattr(import_module(f"askless.acquire.{module}"), name)


# N items of which L are labelled, n picks, d features, C classes, K passes with dropout, m draws, r = min(L + n, d + 1)
STRATEGIES: dict[str, Info] = {
    "askless": Info(
        "askless.Askless",
        "this project; herding, Bae et al. 2024, 2025",
        "M T d, M = min(N, 65536), T = min(N, 8192)",
        "stands for",
    ),
    "random": Info("random.Random", "-", "n", "random"),
    "confidence": Info("uncertainty.Confidence", "Lewis & Gale 1994", "N C"),
    "margin": Info("uncertainty.Margin", "Scheffer et al. 2001", "N C"),
    "entropy": Info("uncertainty.Entropy", "Shannon; Settles 2009", "N C"),
    "coreset": Info("coreset.Coreset", "Sener & Savarese 2018", "N d (L + n)", "new region"),
    "badge": Info("badge.BADGE", "Ash et al. 2020", "N (C + d) n"),
    "egl": Info("egl.EGL", "Settles et al. 2008", "N (C + d)"),
    "npc": Info("npc.NPC", "Kong et al. 2023", "m d n^2, and ln m times r^3", "eigenvalue"),
    "crc": Info("crc.CRC", "CRC, ICLR 2021 submission", "(N / group) r^3", "eigenvalue"),
    "dynamical": Info("dynamical.DynamicAL", "Wang et al. 2022", "N"),
    "albl": Info("albl.ALBL", "Hsu & Lin 2015", "that of its arms"),
    "typiclust": Info(
        "typiclust.TypiClust", "Hacohen et al. 2022", "N d (L + n), and neighbours inside clusters", "new region"
    ),
    "probcover": Info("probcover.ProbCover", "Yehuda et al. 2022", "N T d, T = min(N, 8192)"),
    "maxherding": Info(
        "maxherding.MaxHerding", "Bae et al. 2024", "M T d, M = min(N, 65536), T = min(N, 8192)", "stands for"
    ),
    "uherding": Info(
        "uherding.UHerding", "Bae et al. 2025", "M T d, M = min(N, 65536), T = min(N, 8192)", "stands for"
    ),
    "tcm": Info("tcm.TCM", "Doucet et al. 2024", "that of typiclust, then of margin"),
    "clustermargin": Info(
        "clustermargin.ClusterMargin", "Citovsky et al. 2021", "N C, R^2 d and 10 n R d, R = min(N, 4096)"
    ),
    "dropquery": Info("dropquery.DropQuery", "Gupte et al. 2024", "N K d C, and k-means of the candidates"),
    "alfamix": Info("alfamix.ALFAMix", "Parvaneh et al. 2022", "N (C^2 + C d), and k-means of the candidates"),
    # A run has no network with dropout.
    "bald": Info("bald.BALD", "Houlsby et al. 2011; Gal et al. 2017", "N K C, and K passes", in_runs=False),
    "batchbald": Info("batchbald.BatchBALD", "Kirsch et al. 2019", "N K C, n m K C, and K passes", in_runs=False),
    "dal": Info("dal.DAL", "Gissin & Shalev-Shwartz 2019", "N d, and some trainings of a small classifier"),
    "bait": Info("bait.BAIT", "Ash et al. 2021", "N (C d)^2, and N C^2 (C + d) n"),
    "lookahead": Info("lookahead.LookAhead", "Mohamadi et al. 2022", "N d^2, and N d C n"),
    "direct": Info("direct.DIRECT", "Nuggehalli et al. 2023", "N C, and C sortings of N numbers"),
    "dcom": Info("dcom.DCoM", "Mishal & Weinshall 2024", "N T d, T = min(N, 8192)"),
    "refine": Info("refine.Refine", "Huseljic et al. 2026", "500 selections from parts of 5000 or less"),
}


def make(name: str, /, **options: Any) -> "Strategy":
    """The strategy called `name` with these options.

    >>> make("npc", draws=500).draws
    500
    """
    if name not in STRATEGIES:
        raise OptionError(unknown("strategy", name, STRATEGIES))
    return STRATEGIES[name].make(**options)


def as_strategy(given: "str | Strategy") -> "Strategy":
    """A strategy, or the one of this name with its defaults.

    `given`: a name, or a strategy, which comes back as it is. An unknown name raises OptionError.

    >>> al.acquire.as_strategy("margin")
    Margin()
    """
    if isinstance(given, str):
        return make(given)
    found = faults(given)
    if found:
        raise InputError("; ".join(found))
    return given


def faults(given: object) -> list[str]:
    """The reasons why an object is not a strategy, a sentence each."""
    if isinstance(given, type):
        name = given.__name__
        return [f"expected a strategy's name or an object such as NPC(), got the class {name}; write {name}()"]
    if not callable(getattr(given, "select", None)):
        return [
            f"expected a strategy's name or an object such as NPC(), got {short(given)}; write 'npc', or NPC(draws=500)"
        ]
    what, found = type(given).__name__, []
    if not isinstance(getattr(given, "name", None), str):
        got = short(given.name) if hasattr(given, "name") else "none"
        found.append(f'{what}: expected a name, got {got}; write name = "{what.lower()}" in the class')
    for listed in ("needs", "wants"):
        arrays = getattr(given, listed, None if listed == "needs" else ())
        if not isinstance(arrays, tuple | list):
            got = "none" if arrays is None else repr(arrays)
            found.append(
                f'{what}: expected {listed}, the arrays it looks at, as a tuple, got {got}; write {listed} = ("features",), '
                "or () for none"
            )
            continue
        found += [
            f"{what}: {listed} has an {unknown('array', array, ARRAYS)}" for array in arrays if array not in ARRAYS
        ]
    try:
        signature(given.select).bind(None, 1, None)  # type: ignore[attr-defined]
    except TypeError:
        got = f"select{signature(given.select)}"  # type: ignore[attr-defined]
        found.append(f"{what}: expected select(self, view, n, rng), got {got}; take these three arguments")
    except ValueError:  # of a compiled function, whose arguments nobody knows
        pass
    return found
