"""The race: every strategy on frozen features, on pools of many kinds prepared in two ways, under three classifiers."""

from typing import Any

from askless.acquire import NPC, STRATEGIES, make
from askless.bench.logistic import LogisticRegression
from askless.bench.oracle import Oracle
from askless.bench.plan import Data
from askless.bench.presets.common import TINY, At, Fields, Preset, by_scale, grid, smoke, text
from askless.bench.presets.learners import IMAGES, TABLES, TEXTS
from askless.bench.presets.pools import Embedded, Measured, Rotated, Written
from askless.learn import Auto, Supervised

COUNTS = (10, 20, 40, 80, 160, 320, 600, 1000, 1500, 2500)
MOST = {"groceries": 320, "digits": 600, "satimage": 1500, "texture": 1500, "spambase": 1500}  # below half of the pool
WAYS = ("ours", "PCA")
DEVELOPED = tuple(f"{pool}, {way}" for pool in ("CIFAR-10", "digits", "R52", "letter", "spambase") for way in WAYS)

# BALD and BatchBALD look at passes with dropout, which a linear head does not have.
SHOWN = ("askless", "random", "margin", "badge", "typiclust", "uherding", "dropquery", "alfamix", "bait")  # in pictures
EVERY = {name: make(name) for name in (*SHOWN, *STRATEGIES) if name not in ("bald", "batchbald")}
EVERY["npc"] = NPC(draws=1000)
SLOW = ("bait", "dal", "npc", "refine")  # minutes for a batch of hundreds
FAST = {name: strategy for name, strategy in EVERY.items() if name not in SLOW}
TRIED = tuple(EVERY[name] for name in ("random", "margin", "badge", "coreset", "dropquery", "alfamix", "askless"))
ORACLE = {"oracle": At(*(Oracle(strategies=TRIED, batches=batches) for batches in (105, 21, 7)))}


def pools(scale: str) -> dict[str, tuple[Any, str]]:
    """Every pool as we prepare it, with the network that suits it."""
    if scale == "smoke":
        return {"digits": (Measured(data=TINY), "waves")}
    few: Fields = {"items": 3000, "test": 1000} if scale == "small" else {}
    out: dict[str, tuple[Any, str]] = {}
    for pool, given in IMAGES.items():
        data = Data(**given, **({} if pool == "groceries" else few or {"items": 10_000}))
        out[pool] = Embedded(data=data, backbone="efficientnet-lite2", size=224), "linear"
    for pool, name in TEXTS.items():
        out[pool] = Written(data=Data(name=name, **few), backbone="tfidf+minilm"), "linear"
    for pool, name in TABLES.items():
        out[pool] = Measured(data=Data(name=name, **few)), "waves"
    return out | {"digits": (Measured(data=Data(name="digits")), "waves")}


def panels(classifier: str, learner: Any, counts: At, without: str = "") -> At:
    """Every pool prepared in both ways, from 10 random labels on; at small scale `without` one."""

    def at_scale(scale: str) -> list[Fields]:
        shared = {"learner": learner, "learner_name": classifier, "start": 10, "start_by": "random"}
        out = []
        for pool, (ours, net) in pools(scale).items():
            few = tuple(n for n in getattr(counts, scale) if n <= MOST.get(pool, COUNTS[-1]))
            for way, data, suited in zip(WAYS, (ours, Rotated(of=ours)), (net, "linear"), strict=True):
                if pool != without or scale != "small":
                    out.append({"group": f"{pool}, {way}", "data": data, "net": suited, "counts": few} | shared)
        return out

    return by_scale(at_scale)


def race(name: str, what: str, rows: At, *points: str) -> Preset:
    """A race of these rows; `what` completes “every strategy …”."""
    return Preset(
        name=name,
        what=f"every strategy {what}, 13 pools x 2 preparations",
        title=f"The race: every strategy {what}",
        rows=rows,
        seeds=(20, 20),
        protocol=text(
            At(
                "Whole pools, of images 10,000 items.",
                "3,000 items of each pool and 1,000 test items.",
                smoke("their pixels as columns"),
            ),
            At(
                full="Groceries has 732 photographs and digits 1,397 items. “Ours”: images by EfficientNet-Lite2 at 224 "
                "pixels, texts by TF-IDF beside MiniLM, tables by their columns and random cosines of them. “PCA”: each "
                "column standardised, then at most 128 principal directions. All strategies of a seed start from the same "
                "10 random labels. The classifier that a strategy looks at is the one that is measured. At most half of a "
                "pool gets labels. Areas are over the logarithm of the labels.",
                smoke="",
            ),
        ),
        open_points=(
            "askless is developed on CIFAR-10, digits, R52, letter and spambase; all other pools are reported once.",
            "Strategies have their default options; NPC 1,000 draws. BALD and BatchBALD are left out: they look at passes "
            "with dropout, which a linear head does not have.",
            "The two preparations of a pool are two groups, which are not independent: intervals over the groups, and the "
            "critical difference, are somewhat too narrow. Intervals over the seeds are for these very pools.",
            *points,
        ),
        baseline="askless",
        figures=(
            {"kind": "critical_difference"},
            {"kind": "curves", "log_x": True, "methods": ["oracle", *SHOWN]},
            {"kind": "win_loss"},
        ),
        comparable=False,
        area="log labels",
        oracle="oracle",
        developed=DEVELOPED,
    )


CEILING = (
    "The oracle looks at all labels: of 21 batches (at full scale 105) that seven strategies choose from the pool and from "
    "random parts of it, it takes the one after which the test accuracy is highest. It is a ceiling of single steps, "
    "optimistic since it looks at the test items, and not ranked."
)
TOO_SLOW = "At small scale BAIT, DAL, NPC and Refine, which need minutes for large batches, are in race.low only."
ALL = At(COUNTS, COUNTS[:-1], COUNTS[:2])
FEW = At(COUNTS, (10, 40, 160, 320, 1000), COUNTS[:2])
LOW = At(full=COUNTS[:5], smoke=COUNTS[:2])
HEAD = At(full=Supervised(steps=200, batch=32), smoke=Supervised(steps=5, batch=32))
METHODS = At(ORACLE | EVERY, ORACLE | FAST, ORACLE | EVERY)

logistic = race(
    "race.logistic",
    "with scikit-learn's logistic regression",
    grid(panels("logistic regression", LogisticRegression(), ALL), METHODS),
    *(CEILING, TOO_SLOW),
)
head = race(
    "race.head",
    "with our linear head",
    grid(panels("linear head", HEAD, ALL), METHODS),
    *(CEILING, TOO_SLOW),
)
auto = race(
    "race.auto",
    "with auto",
    grid(panels("auto", Auto(), FEW), At(ORACLE | EVERY, FAST, METHODS.smoke)),
    "At small scale there are fewer numbers of labels and no oracle, since auto takes seconds to train.",
    TOO_SLOW,
)
low = race(
    "race.low",
    "with logistic regression, low budgets",
    grid(panels("logistic regression", LogisticRegression(), LOW, without="R52"), ORACLE | EVERY),
    CEILING,
    "At small scale R52 is left out: with 52 classes BAIT takes minutes for a batch.",
)

PRESETS = (logistic, head, auto, low)
