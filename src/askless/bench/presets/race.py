"""The race: every strategy on frozen features, on pools of many kinds prepared in two ways, under three classifiers."""

from collections.abc import Sequence
from typing import Any

from askless.acquire import BAIT, DAL, NPC, STRATEGIES, Refine, make
from askless.bench.logistic import LogisticRegression
from askless.bench.oracle import Oracle
from askless.bench.plan import Data
from askless.bench.presets.common import TINY, At, Fields, Preset, by_scale, grid, smoke, text
from askless.bench.presets.learners import IMAGES, TABLES, TEXTS, drawn
from askless.bench.presets.pools import Embedded, Measured, Part, Rotated, Written
from askless.learn import Auto, Supervised

WAYS = ("ours", "PCA")
BOTH, OURS = At(WAYS), At(WAYS, WAYS[:1])
SEEN = ("CIFAR-10", "CIFAR-10, long-tailed", "digits", "R52", "letter", "spambase")  # askless was developed on these
DEVELOPED = tuple(f"{pool}, {way}" for pool in SEEN for way in WAYS)
WHOLE = (10, 20, 40, 80, 160, 320, 640, 1000, 1500, 2500)
MOST = {"groceries": 320, "digits": 640, "satimage": 1500, "texture": 1500, "spambase": 1500}  # below half of the pool
COUNTS = At(WHOLE, (10, 40, 160, 640), (10, 40))
ITEMS = 2000  # of a pool at small scale

# BALD and BatchBALD look at passes with dropout, which a linear head does not have.
SHOWN = ("askless", "random", "margin", "badge", "typiclust", "uherding", "dropquery", "alfamix", "bait")  # in pictures
EVERY: Fields = {name: make(name) for name in (*SHOWN, *STRATEGIES) if name not in ("bald", "batchbald")}
CHEAP: Fields = EVERY | {
    "dal": DAL(classifier="logistic"),
    "npc": NPC(draws=100),
    "refine": Refine(batches=5, depth=1),
}
CHEAP.pop("bait")  # minutes for a batch of 26 classes
METHODS = At(EVERY, CHEAP)
QUICK_BAIT = BAIT(directions=32)  # seconds for a batch of ten classes
FAST: Fields = {name: CHEAP[name] for name in CHEAP if name not in ("probcover", "lookahead", "npc", "refine")}
TRIED = tuple(EVERY[name] for name in ("random", "margin", "badge", "coreset", "dropquery", "alfamix", "askless"))
ORACLE = {"oracle": At(Oracle(strategies=TRIED, batches=105), Oracle(strategies=TRIED, batches=7))}
AND_ORACLE = by_scale(lambda scale: ORACLE | getattr(METHODS, scale))


def encoded(scale: str) -> dict[str, tuple[Any, str]]:
    """Every pool as our encoders give it, with the network that suits it. At small scale the embeddings are those of the
    preset `learners`, of which a part is taken."""
    if scale == "smoke":
        return {"digits": (Measured(data=TINY), "waves")}

    def few(pool: Any) -> Any:
        return pool if scale == "full" else Part(of=pool, items=ITEMS)

    out: dict[str, tuple[Any, str]] = {}
    lite2: Fields = {"backbone": "efficientnet-lite2", "size": 224}
    for pool, given in IMAGES.items():
        if pool == "groceries":  # 732 photographs
            out[pool] = Embedded(data=Data(**given), **lite2), "linear"
        else:
            data = Data(items=10_000, **given) if scale == "full" else drawn(scale, **given)
            out[pool] = few(Embedded(data=data, **lite2)), "linear"
    for pool, name in TEXTS.items():
        out[pool] = few(Written(data=drawn(scale, name=name), backbone="tfidf+minilm")), "linear"
    for pool, name in TABLES.items():
        cut: Fields = {} if scale == "full" else {"items": ITEMS, "test": 1000}
        out[pool] = Measured(data=Data(name=name, **cut)), "waves"
    return out | {"digits": (Measured(data=Data(name="digits")), "waves")}


def prepared(way: str, pool: Any, net: str, scale: str) -> Fields:
    """The pool in one of the ways; at small scale “ours” has 256 directions at most."""
    if way == "PCA":
        return {"data": Rotated(of=pool), "net": "linear"}
    if scale == "small" and net == "linear":
        return {"data": Rotated(of=pool, directions=256, standardised=False), "net": net}
    return {"data": pool, "net": net}


def panels(classifier: str, learner: Any, ways: At, counts: At = COUNTS, without: Sequence[str] = ()) -> At:
    """Every pool but those, prepared in these ways, from 10 random labels on."""

    def at_scale(scale: str) -> list[Fields]:
        shared = {"learner": learner, "learner_name": classifier, "start": 10, "start_by": "random"}
        out = []
        for pool, (given, net) in encoded(scale).items():
            most = MOST.get(pool, WHOLE[-1])
            few = {"counts": tuple(dict.fromkeys(min(n, most) for n in getattr(counts, scale)))}
            for way in getattr(ways, scale) if pool not in without else ():
                out.append({"group": f"{pool}, {way}", **prepared(way, given, net, scale), **few, **shared})
        return out

    return by_scale(at_scale)


FIGURES: tuple[Fields, ...] = (
    {"kind": "critical_difference"},
    {"kind": "curves", "log_x": True, "methods": ["oracle", *SHOWN]},
    {"kind": "win_loss"},
)
OPTIONS = (
    "Strategies have their default options. Below full scale three are given cheaper ones: DAL uses "
    "logistic regression, NPC draws 100 batches, and Refine narrows the pool once, by 5 batches; and BAIT, which needs "
    "minutes for a batch where there are many classes, looks at 32 main directions, in race.bait and race.standardised. "
    "BALD and BatchBALD are left out: they need passes with dropout, which a linear head lacks."
)
ONCE = (
    "askless is developed on CIFAR-10, as it is and long-tailed, digits, R52, letter and spambase; all other pools are "
    "reported once."
)
GROUPS = (
    "The two preparations of a pool are two groups, which are not independent: intervals over the groups, and the critical "
    "difference, are somewhat too narrow. Intervals over the seeds are for these pools only."
)
CEILING = (
    "The oracle looks at all labels: of the batches that seven strategies choose from the pool (at full scale also from "
    "random parts of it, 105 in all) it takes the one after which the test accuracy is highest. It is a ceiling of single "
    "steps, optimistic since it looks at the test items, and not ranked."
)
ON_OURS = "At small scale it is run on “ours” only, and without an oracle; race.logistic has both preparations."


def race(name: str, classifier: str, rows: At, *points: str) -> Preset:
    return Preset(
        name=name,
        title=f"The race: every strategy under {classifier}",
        rows=rows,
        seeds=(20, 20),
        protocol=text(
            At(
                "Whole pools, of images 10,000 items.",
                "2,000 items of each pool and 1,000 test items, features of more than 256 columns in their 256 principal "
                "directions.",
                smoke("their pixels as columns"),
            ),
            At(
                full="Groceries has 732 photographs (up to 320 labels) and digits 1,397 items. “Ours”: images by "
                "EfficientNet-Lite2 at 224 pixels, texts by TF-IDF beside MiniLM, tables by their columns and random "
                "cosines of them. “PCA”: each column standardised, then at most 128 principal directions. All strategies "
                "of a seed start from the same 10 random labels. The classifier that a strategy looks at is the one "
                "measured. At most half of a pool gets labels. Areas are over the logarithm of the labels.",
                smoke="",
            ),
        ),
        open_points=(ONCE, OPTIONS, *points),
        baseline="askless",
        figures=FIGURES,
        comparable=False,
        area="log labels",
        oracle="oracle",
        developed=DEVELOPED,
    )


HEAD = At(full=Supervised(steps=200, batch=32), smoke=Supervised(steps=5, batch=32))

logistic = race(
    "race.logistic",
    "scikit-learn's logistic regression",
    grid(panels("logistic regression", LogisticRegression(), BOTH), AND_ORACLE),
    *(GROUPS, CEILING),
)
head = race(
    "race.head",
    "our linear head",
    grid(panels("linear head", HEAD, OURS), At(AND_ORACLE.full, FAST, AND_ORACLE.smoke)),
    ON_OURS,
    "At small scale the slowest strategies (ProbCover, look-ahead, NPC and Refine) are left out.",
)
LEADING: Fields = {name: CHEAP[name] for name in (*SHOWN, "maxherding", "tcm") if name in CHEAP}
auto = race(
    "race.auto",
    "auto",
    grid(
        panels("auto", Auto(), OURS), At(AND_ORACLE.full, {name: CHEAP[name] for name in SHOWN[:6]}, AND_ORACLE.smoke)
    ),
    ON_OURS,
    "At small scale six strategies take part, because auto needs a second for each training.",
)
MANY = ("groceries", "R52", "20 Newsgroups", "letter")
bait = race(
    "race.bait",
    "logistic regression, with BAIT, at low budgets",
    grid(
        panels(
            "logistic regression",
            LogisticRegression(),
            At(WAYS, WAYS[1:]),
            At(WHOLE[:5], (10, 20, 40, 80, 160), (10, 40)),
            MANY,
        ),
        At({name: EVERY[name] for name in SHOWN}, LEADING | {"bait": QUICK_BAIT}),
    ),
    "At small scale BAIT looks at 32 main directions, and pools are prepared by PCA only.",
)

CIFAR10 = Embedded(data=Data(name="cifar10", items=10_000, test=2000))


def cifar10(
    name: str, what: str, data: Any, counts: tuple[int, ...], protocol: str, methods: At = METHODS, **start: Any
) -> Preset:
    """One group of CIFAR-10 under logistic regression; `protocol` says how labels are asked for."""
    panel = {
        "group": "CIFAR-10",
        "data": At(full=data, smoke=Embedded(data=TINY, backbone="raw")),
        "net": "linear",
        "learner": LogisticRegression(),
        "learner_name": "logistic regression",
        "counts": At(full=counts, smoke=counts[:2]),
        **start,
    }
    return Preset(
        name=name,
        title=f"The race on CIFAR-10: {what}",
        rows=grid(panel, methods),
        seeds=(10, 10),
        protocol=At(
            full="10,000 images and 2,000 test images by EfficientNet-Lite0 at 128 pixels: features of length 1 minus the "
            f"pool's mean, scaled by one factor. {protocol} scikit-learn's logistic regression.",
            smoke=smoke("their pixels as features"),
        ),
        open_points=(OPTIONS, "askless is developed on CIFAR-10."),
        baseline="askless",
        figures=({"kind": "curves", "log_x": True, "methods": list(SHOWN)}, {"kind": "win_loss"}),
        comparable=False,
        developed=("CIFAR-10",),
    )


budgets = cifar10(
    "race.budgets",
    "from no label to 2,500",
    CIFAR10,
    (100, 200, 400, 800, 1500, 2500),
    "From no label, in batches up to 100, 200, 400, 800, 1,500 and 2,500.",
)
standardised = cifar10(
    "race.standardised",
    "standardised columns, 10 to 90 labels",
    Rotated(of=CIFAR10),
    (10, 30, 50, 70, 90),
    "Each column standardised, then 128 principal directions. 10 labels, one of each class, then 20 per round.",
    At(EVERY, CHEAP | {"bait": QUICK_BAIT}),
    start=10,
)

PRESETS = (logistic, head, auto, bait, budgets, standardised)
