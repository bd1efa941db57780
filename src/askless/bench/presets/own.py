"""Our own strategy against the others: with frozen features, from zero labels, on data it was not developed on, with
networks trained from scratch, and without each of its ingredients."""

import dataclasses
from dataclasses import dataclass

import torch

from askless.acquire import ALBL, BADGE, CRC, NPC, Askless, Coreset, DynamicAL, Margin, Random, Strategy, TypiClust
from askless.bench.plan import Benchmark, Data, Row
from askless.bench.presets.common import DIGITS, TINY, Preset, at, seeds
from askless.data import Pool, duplicated, long_tailed
from askless.features.frozen import SQ_LENGTH, Frozen, frozen_views
from askless.learn import FixMatch, LabelPropagation, Learner, Supervised

CIFAR10 = Data(name="cifar10", items=10_000, test=2000)
FASHION = Data(name="fashion-mnist", items=5000, test=2000)
MNIST = Data(name="mnist", items=5000, test=2000)
COUNTS = tuple(range(10, 211, 20))
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


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A pool of images as a pool of features, by a frozen backbone; then long-tailed by the ratio `tail`, or every item
    `times` over with a little noise."""

    data: Data
    backbone: str = "efficientnet-lite0"
    tail: float | None = None
    times: int = 1

    @property
    def name(self) -> str:
        return self.data.name

    def __call__(self) -> Pool:
        images = self.data()
        views = frozen_views(images, Frozen(backbone=self.backbone, weak=0, strong=0))
        x, test_x = views.plain(torch.arange(len(images))), views.test()
        test = None if images.test is None or test_x is None else (test_x, images.test[1])
        pool = dataclasses.replace(images, x=x, kind="features", test=test)
        if self.tail is not None:
            pool = long_tailed(pool, self.tail)
        return duplicated(pool, self.times) if self.times > 1 else pool


@dataclass(frozen=True, kw_only=True)
class Texts:
    """A pool of texts, whose rows of length 1 get the length that a linear head learns well from."""

    data: Data

    @property
    def name(self) -> str:
        return self.data.name

    def __call__(self) -> Pool:
        pool, length = self.data(), SQ_LENGTH[False] ** 0.5
        assert isinstance(pool.x, torch.Tensor)
        assert pool.test is not None
        return dataclasses.replace(pool, x=length * pool.x, test=(length * pool.test[0], pool.test[1]))


def strategies(scale: str) -> dict[str, Strategy]:
    return {
        "askless": Askless(),
        "random": Random(),
        "margin": Margin(),
        "badge": BADGE(),
        "coreset": Coreset(),
        "typiclust": TypiClust(),
        "npc": NPC(draws=at(scale, full=50_000, small=1000, smoke=50)),
        "crc": CRC(),
        "dynamical": DynamicAL(),
        "albl": ALBL(),
    }


def learners(scale: str) -> dict[str, Learner]:
    return {
        "supervised": Supervised(steps=at(scale, full=200, small=200, smoke=10), batch=32),
        "fixmatch": FixMatch(steps=at(scale, full=300, small=300, smoke=5), batch=32, mu=4),
        "label propagation": LabelPropagation(),
    }


def on_cifar10(scale: str, *, zero: bool) -> tuple[Row, ...]:
    smoke = Embedded(data=TINY, backbone="raw")
    counts = FROM_ZERO if zero else COUNTS
    return tuple(
        Row(
            method=name,
            group=group,
            strategy=strategy,
            data=at(scale, full=Embedded(data=Data(name="cifar10")), small=Embedded(data=CIFAR10), smoke=smoke),
            net="linear",
            learner=learner,
            start=0 if zero else 10,
            counts=at(scale, full=counts, small=counts, smoke=counts[:2]),
        )
        for group, learner in learners(scale).items()
        for name, strategy in strategies(scale).items()
    )


def protocol(scale: str, own: str, full: str = "") -> str:
    """`own` at small scale and, with `full` added, at full scale."""
    smoke = "300 digits, their pixels as features, a few steps: it shows that everything runs, nothing else."
    return at(scale, full=f"{own} {full}".strip(), small=own, smoke=smoke)


def frozen(scale: str) -> Benchmark:
    return Benchmark(
        name="askless.frozen",
        title="askless against nine others: CIFAR-10 with frozen features, from 10 labels, one per class",
        rows=on_cifar10(scale, zero=False),
        seeds=seeds(scale, full=10, small=10),
        scale=scale,
        protocol=protocol(
            scale,
            "10,000 images of CIFAR-10 and 2,000 test images, embedded once by EfficientNet-Lite0 (trained on ImageNet). "
            "10 labels, one per class, then 20 per round; a linear head, trained afresh in every round by supervised "
            "training (200 steps of 32) or FixMatch (300 steps of 32 + 128), or label propagation. Every seed has its own "
            "start, shared by all methods.",
            WHOLE,
        ),
        open_points=POINTS,
        figures=({"kind": "curves"}, {"kind": "pool_curves"}, {"kind": "win_loss"}),
    )


def zero(scale: str) -> Benchmark:
    return Benchmark(
        name="askless.zero",
        title="askless against nine others: CIFAR-10 with frozen features, from no label at all",
        rows=on_cifar10(scale, zero=True),
        seeds=seeds(scale, full=10, small=10),
        scale=scale,
        protocol=protocol(
            scale,
            "As askless.frozen, but without any label at the start: the first 20 are asked for by the untrained head.",
            WHOLE,
        ),
        open_points=POINTS,
        figures=({"kind": "curves"}, {"kind": "pool_curves"}, {"kind": "win_loss"}),
    )


def pools_not_seen() -> dict[str, Embedded | Texts]:
    return {
        "Fashion-MNIST": Embedded(data=FASHION),
        "Fashion-MNIST, long-tailed": Embedded(data=FASHION, tail=50),
        "Fashion-MNIST, three times over": Embedded(data=FASHION, times=3),
        "MNIST": Embedded(data=MNIST),
        "MNIST, long-tailed": Embedded(data=MNIST, tail=50),
        "Reuters": Texts(data=Data(name="reuters")),
        "SpamAssassin": Texts(data=Data(name="spam-assassin")),
    }


def unseen(scale: str) -> Benchmark:
    pools = {"digits": Embedded(data=TINY, backbone="raw")} if scale == "smoke" else pools_not_seen()
    return Benchmark(
        name="askless.unseen",
        title="askless against nine others on data it was not developed on, from no label at all",
        rows=tuple(
            Row(
                method=name,
                group=group,
                strategy=strategy,
                data=pool,
                net="linear",
                learner=learners(scale)["supervised"],
                counts=at(scale, full=FROM_ZERO, small=FROM_ZERO, smoke=FROM_ZERO[:2]),
            )
            for group, pool in pools.items()
            for name, strategy in strategies(scale).items()
        ),
        seeds=seeds(scale, full=10, small=10),
        scale=scale,
        protocol=protocol(
            scale,
            "5,000 images each and 2,000 test images, embedded by EfficientNet-Lite0; long-tailed: the first class 50 times "
            "as frequent as the last, the test balanced; three times over: every item with two noisy copies. Reuters: 5,528 "
            "articles, 8 topics of 41 to 2,843 articles; SpamAssassin: 4,535 mails; both as TF-IDF in 256 directions. No "
            "label at the start, 20 per round; a linear head by supervised training (200 steps of 32).",
        ),
        open_points=(
            *POINTS[:2],
            "Reuters and SpamAssassin are tested on their own, unbalanced classes.",
        ),
        figures=({"kind": "curves"}, {"kind": "critical_difference"}),
    )


def scratch(scale: str) -> Benchmark:
    counts: tuple[int, ...] = (10, 30, 50, 70)
    pools = {"digits": DIGITS, "Fashion-MNIST": FASHION}
    if scale == "smoke":
        pools, counts = {"digits": TINY}, counts[:2]
    return Benchmark(
        name="askless.scratch",
        title="askless against nine others: a small CNN trained from scratch by FixMatch",
        rows=tuple(
            Row(
                method=name,
                group=group,
                strategy=strategy,
                data=pool,
                net="small-cnn",
                learner=FixMatch(steps=at(scale, full=500, small=250, smoke=3), batch=16, mu=4),
                start=10,
                counts=counts,
            )
            for group, pool in pools.items()
            for name, strategy in strategies(scale).items()
        ),
        seeds=seeds(scale, full=5, small=5),
        scale=scale,
        protocol=protocol(
            scale,
            "The 1,397 digits, and 5,000 images of Fashion-MNIST with 2,000 test images. 10 labels, one per class, then 20 "
            "per round; a small CNN trained from scratch in every round by FixMatch (250 steps of 16 + 64).",
            "At full scale it is trained for 500 steps.",
        ),
        open_points=POINTS[:2],
        figures=({"kind": "curves"}, {"kind": "pool_curves"}),
    )


def ingredients() -> dict[str, Strategy]:
    return {
        "askless": Askless(),
        "coverage alone": Askless(trust=float("inf")),
        "full trust": Askless(trust=0.0),
        "classes unbalanced": Askless(balance=False),
        "uncertainty alone": Margin(),
        "far, not many (coreset)": Coreset(),
    }


def ablation(scale: str) -> Benchmark:
    smoke = {"digits": Embedded(data=TINY, backbone="raw")}
    pools = {
        "CIFAR-10": Embedded(data=CIFAR10),
        "long-tailed CIFAR-10": Embedded(data=CIFAR10, tail=50),
        "digits": Embedded(data=DIGITS, backbone="raw"),
        "long-tailed digits": Embedded(data=DIGITS, backbone="raw", tail=20),
    }
    return Benchmark(
        name="askless.ablation",
        title="askless without each of its ingredients",
        rows=tuple(
            Row(
                method=name,
                group=f"{place}, {group}",
                strategy=strategy,
                data=pool,
                net="linear",
                learner=learner,
                counts=at(scale, full=FROM_ZERO, small=FROM_ZERO, smoke=FROM_ZERO[:2]),
            )
            for place, pool in (smoke if scale == "smoke" else pools).items()
            for group, learner in learners(scale).items()
            if group != "fixmatch"
            for name, strategy in ingredients().items()
        ),
        seeds=seeds(scale, full=10, small=10),
        scale=scale,
        protocol=protocol(
            scale,
            "As askless.zero, on CIFAR-10 and on the pixels of the 1,397 digits, as they are and long-tailed (the first "
            "class 50 and 20 times as frequent as the last; the test is as it was): from no label, 20 per round; a linear "
            "head by supervised training (200 steps of 32), or label propagation.",
        ),
        open_points=POINTS[:1],
        baseline="askless",
        figures=({"kind": "curves"},),
    )


PRESETS = (
    Preset(
        "askless.frozen", "CIFAR-10 with frozen features, 10 to 210 labels, ten strategies, three trainings", frozen
    ),
    Preset("askless.zero", "the same from no label at all", zero),
    Preset("askless.unseen", "seven pools that askless was not developed on, two of them texts", unseen),
    Preset("askless.scratch", "digits and Fashion-MNIST, a small CNN trained from scratch by FixMatch", scratch),
    Preset("askless.ablation", "askless without each of its ingredients", ablation),
)
