"""Our own strategy against the others with networks trained from scratch, and without each of its ingredients. On frozen
features: the race."""

from askless.acquire import ALBL, BADGE, CRC, NPC, Askless, Coreset, DynamicAL, Margin, Random, TypiClust
from askless.bench.plan import Data
from askless.bench.presets.common import DIGITS, FASHION, TINY, At, Fields, Preset, grid, smoke
from askless.bench.presets.pools import Embedded
from askless.learn import FixMatch, LabelPropagation, Supervised

CIFAR10 = Data(name="cifar10", items=10_000, test=2000)
FROM_ZERO = tuple(range(20, 201, 20))
DEVELOPED = (
    "Developed on 8,000 of the 10,000 training images of another draw from CIFAR-10, with the 2,000 others as test, and on "
    "the digits; every option is the same in all tables."
)
POINTS = (
    DEVELOPED,
    "Strategies have their default options; NPC 1,000 draws, the example of its paper (at full scale 50,000).",
)


STRATEGIES = {
    "askless": Askless(),
    "random": Random(),
    "margin": Margin(),
    "badge": BADGE(),
    "coreset": Coreset(),
    "typiclust": TypiClust(),
    "npc": At(NPC(draws=50_000), NPC(draws=1000), NPC(draws=50)),
    "crc": CRC(),
    "dynamical": DynamicAL(),
    "albl": ALBL(),
}
SUPERVISED = At(full=Supervised(steps=200, batch=32), smoke=Supervised(steps=10, batch=32))
LEARNERS = {"supervised": SUPERVISED, "label propagation": LabelPropagation()}
SMOKE = Embedded(data=TINY, backbone="raw")


def on_features(group: str, data: object, learner: object) -> Fields:
    """A panel: a linear head on features, from no label at all."""
    few = At(full=FROM_ZERO, smoke=FROM_ZERO[:2])
    return {"group": group, "data": data, "net": "linear", "learner": learner, "counts": few}


def protocol(own: str, full: str = "") -> At:
    """`own` at small scale and, with `full` added, at full scale."""
    little = smoke("their pixels as features, a few steps")
    return At(f"{own} {full}".strip(), own, little)


def from_scratch(group: str, data: Data, counts: tuple[int, ...] = (10, 30, 50, 70)) -> Fields:
    learner = At(
        FixMatch(steps=500, batch=16, mu=4), FixMatch(steps=250, batch=16, mu=4), FixMatch(steps=3, batch=16, mu=4)
    )
    return {"group": group, "data": data, "net": "small-cnn", "learner": learner, "start": 10, "counts": counts}


scratch = Preset(
    name="askless.scratch",
    title="askless against nine others: a small CNN trained from scratch by FixMatch",
    rows=grid(
        At(
            full=[from_scratch("digits", DIGITS), from_scratch("Fashion-MNIST", FASHION)],
            smoke=[from_scratch("digits", TINY, (10, 30))],
        ),
        STRATEGIES,
    ),
    protocol=protocol(
        "The 1,397 digits, and 5,000 images of Fashion-MNIST with 2,000 test images. 10 labels, one per class, then 20 "
        "per round; a small CNN trained from scratch in every round by FixMatch (250 steps of 16 + 64).",
        "At full scale it is trained for 500 steps.",
    ),
    open_points=POINTS,
    comparable=False,
)

ABLATED = {
    "CIFAR-10": Embedded(data=CIFAR10),
    "long-tailed CIFAR-10": Embedded(data=CIFAR10, tail=50),
    "digits": Embedded(data=DIGITS, backbone="raw"),
    "long-tailed digits": Embedded(data=DIGITS, backbone="raw", tail=20),
}


def by_both(pools: dict[str, Embedded]) -> list[Fields]:
    return [
        on_features(f"{place}, {name}", pool, LEARNERS[name])
        for place, pool in pools.items()
        for name in ("supervised", "label propagation")
    ]


ablation = Preset(
    name="askless.ablation",
    title="askless without each of its ingredients",
    rows=grid(
        At(full=by_both(ABLATED), smoke=by_both({"digits": SMOKE})),
        {
            "askless": Askless(),
            "coverage alone": Askless(trust=float("inf")),
            "full trust": Askless(trust=0.0),
            "classes unbalanced": Askless(balance=False),
            "uncertainty alone": Margin(),
            "far, not many (coreset)": Coreset(),
        },
    ),
    seeds=(10, 10),
    protocol=protocol(
        "10,000 images of CIFAR-10 and 2,000 test images, embedded by EfficientNet-Lite0, and the pixels of the 1,397 "
        "digits, as they are and long-tailed (the first class 50 and 20 times as frequent as the last; the test is as it "
        "was): from no label, 20 per round; a linear head by supervised training (200 steps of 32), or label propagation."
    ),
    open_points=POINTS[:1],
    baseline="askless",
    figures=({"kind": "curves"},),
    comparable=False,
)

PRESETS = (scratch, ablation)
