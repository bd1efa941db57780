"""Our own strategy against the others: with frozen features, from zero labels, on data it was not developed on, with
networks trained from scratch, and without each of its ingredients."""

import dataclasses

from askless.acquire import ALBL, BADGE, CRC, NPC, Askless, Coreset, DynamicAL, Margin, Random, TypiClust
from askless.bench.plan import Data
from askless.bench.presets.common import CURVES_AND_WINS, DIGITS, FASHION, MNIST, TINY, At, Fields, Preset, grid, smoke
from askless.bench.presets.pools import Embedded, Texts
from askless.learn import FixMatch, LabelPropagation, Supervised

CIFAR10 = Data(name="cifar10", items=10_000, test=2000)
FROM_TEN = tuple(range(10, 211, 20))
FROM_ZERO = tuple(range(20, 201, 20))
DEVELOPED = (
    "Developed on 8,000 of the 10,000 training images of another draw from CIFAR-10, with the 2,000 others as test, and on "
    "the digits; every option is the same in all tables."
)
WHOLE = "At full scale the pool is all of the training images and the test all of the test images."
POINTS = (
    DEVELOPED,
    "Strategies have their default options; NPC 1,000 draws, the example of its paper (at full scale 50,000).",
    "Label propagation has no network: dynamicAL gets the gradients that a linear head with its probabilities would have.",
    "FixMatch on frozen features has no augmentation of images: weak and strong views are the features with Gaussian noise "
    "of .15 and .5 of each column's standard deviation.",
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
LEARNERS = {
    "supervised": SUPERVISED,
    "fixmatch": At(full=FixMatch(steps=300, batch=32, mu=4), smoke=FixMatch(steps=5, batch=32, mu=4)),
    "label propagation": LabelPropagation(),
}
SMOKE = Embedded(data=TINY, backbone="raw")


def on_features(group: str, data: object, learner: object = SUPERVISED, counts: tuple[int, ...] = FROM_ZERO) -> Fields:
    """A panel: a linear head on features, from no label at all."""
    few = At(full=counts, smoke=counts[:2])
    return {"group": group, "data": data, "net": "linear", "learner": learner, "counts": few}


def protocol(own: str, full: str = "") -> At:
    """`own` at small scale and, with `full` added, at full scale."""
    little = smoke("their pixels as features, a few steps")
    return At(f"{own} {full}".strip(), own, little)


ON_CIFAR10 = At(Embedded(data=Data(name="cifar10")), Embedded(data=CIFAR10), SMOKE)
zero = Preset(
    name="askless.zero",
    title="askless against nine others: CIFAR-10 with frozen features, from no label at all",
    rows=grid([on_features(group, ON_CIFAR10, learner) for group, learner in LEARNERS.items()], STRATEGIES),
    seeds=(10, 10),
    protocol=protocol(
        "As askless.frozen, but without any label at the start: the untrained head chooses the first 20.",
        WHOLE,
    ),
    open_points=POINTS,
    figures=CURVES_AND_WINS,
    comparable=False,
)

frozen = dataclasses.replace(
    zero,
    name="askless.frozen",
    title="askless against nine others: CIFAR-10 with frozen features, from 10 labels, one per class",
    rows=grid(
        [on_features(group, ON_CIFAR10, learner, FROM_TEN) | {"start": 10} for group, learner in LEARNERS.items()],
        STRATEGIES,
    ),
    protocol=protocol(
        "10,000 images of CIFAR-10 and 2,000 test images, embedded once by EfficientNet-Lite0 (trained on ImageNet). "
        "10 labels, one per class, then 20 per round; a linear head, retrained from scratch in every round by supervised "
        "training (200 steps of 32) or FixMatch (300 steps of 32 + 128), or label propagation. Every seed has its own "
        "start, shared by all methods.",
        WHOLE,
    ),
)

UNSEEN = {
    "Fashion-MNIST": Embedded(data=FASHION),
    "Fashion-MNIST, long-tailed": Embedded(data=FASHION, tail=50),
    "Fashion-MNIST, three times over": Embedded(data=FASHION, times=3),
    "MNIST": Embedded(data=MNIST),
    "MNIST, long-tailed": Embedded(data=MNIST, tail=50),
    "Reuters": Texts(data=Data(name="reuters")),
    "SpamAssassin": Texts(data=Data(name="spam-assassin")),
}
unseen = Preset(
    name="askless.unseen",
    title="askless against nine others on data it was not developed on, from no label at all",
    rows=grid(
        At(full=[on_features(group, pool) for group, pool in UNSEEN.items()], smoke=[on_features("digits", SMOKE)]),
        STRATEGIES,
    ),
    seeds=(10, 10),
    protocol=protocol(
        "5,000 images each and 2,000 test images, embedded by EfficientNet-Lite0; long-tailed: the first class 50 times "
        "as frequent as the last, the test balanced; three times over: every item with two noisy copies. Reuters: 5,528 "
        "articles, 8 topics of 41 to 2,843 articles; SpamAssassin: 4,535 mails; both as TF-IDF in 256 directions. No "
        "label at the start, 20 per round; a linear head by supervised training (200 steps of 32)."
    ),
    open_points=(*POINTS[:2], "Reuters and SpamAssassin are tested on their own, unbalanced classes."),
    figures=({"kind": "curves"}, {"kind": "critical_difference"}),
    comparable=False,
)


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
    open_points=POINTS[:2],
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
        "As askless.zero, on CIFAR-10 and on the pixels of the 1,397 digits, as they are and long-tailed (the first "
        "class 50 and 20 times as frequent as the last; the test is as it was): from no label, 20 per round; a linear "
        "head by supervised training (200 steps of 32), or label propagation."
    ),
    open_points=POINTS[:1],
    baseline="askless",
    figures=({"kind": "curves"},),
    comparable=False,
)

PRESETS = (frozen, zero, unseen, scratch, ablation)
