"""dynamicAL: tables 1 to 12 and figures 1 to 7."""

from dataclasses import replace
from typing import Literal, NamedTuple

from askless.acquire import ALBL, BADGE, Confidence, Coreset, DynamicAL, Entropy, Margin, Random, Strategy
from askless.bench.measures import ApproximationRatio, DynamicsAndAlignment, MaxInRound, MMDAndBound, TestNumbers
from askless.bench.plan import Data
from askless.bench.presets.common import (
    BARS_AND_CURVES,
    CIFAR10,
    DIGITS,
    FASHION,
    MNIST,
    TINY,
    At,
    Fields,
    Preset,
    adam,
    at,
    by_scale,
    grid,
    smoke,
    text,
)

POINTS = (
    "Gradients: over all parameters, network in eval mode, exact for BatchNorm too; g_S is the sum over the "
    "labelled items (the authors' code puts the chunk's mean in place of BatchNorm's gradients).",
    "Optimiser: Adam at a constant .001, reset after each query; no augmentation; no re-initialisation except in "
    "tables 11 and 12.",
    "Training ends by the training accuracy alone; the authors' code also looks at the test accuracy. Their script, which "
    "is published for Caltech-101 only, also "
    "trains for at least 140, 100, 80, 80 and then 70 epochs in a round, for at most twice as many, and for 30 more at the "
    "end; the paper does not mention it.",
    "The accuracy is that of the last network of a round; the authors' code reports the best on the test images, "
    "which is kept beside it at full scale as max_in_round.",
    "Margin: of the logits, as the paper writes it.",
    "Start: 500 items drawn uniformly at random (the paper: i.i.d.), the same for all strategies of a seed.",
    "Caltech-101: images are resized to 299 pixels, mirrored and shifted in training; the authors' random crops and "
    "colour factors, which they apply to test and query images too, are left out.",
    "ResNet-18 is the one with identity shortcuts; the authors' code leaves them out where shapes agree.",
)
NTK_POINTS = (
    "The tangent kernel is over all parameters of the trained network, averaged over the outputs. MMD / B is "
    "proportional to the kernel's scale, which the paper does not give; here the kernel is divided by its mean "
    "diagonal, since the bound is for kernels of about unit diagonal. The ratio without that is given as "
    "unscaled_mmd_over_bound.",
    "MMD^2 is the paper's estimator and is clamped at 0 where it is negative.",
    *POINTS,
)


class Setting(NamedTuple):
    """Data and network of one column, as in the paper and as they are scaled down; `part`: the share of the paper's numbers
    of labels that the scaled one takes, as its denominator. Few labels need small batches, so that an epoch stays several
    steps: else training ends before BatchNorm's averages have settled."""

    name: str
    data: Data
    net: str
    small_name: str
    small_data: Data
    small_net: str
    part: int = 1
    batch: int = 128  # of the training, when scaled down

    def group(self, more: str = "") -> At:
        """What a panel is called: never by data that was not used."""
        return At(self.name + more, self.small_name + more, f"digits, for {self.name}{more}")

    def counts(self, *numbers: int) -> At:
        """These numbers of labels of the paper, at each scale."""
        return At(*(tuple(n // part for n in numbers) for part in (1, self.part, 25)))

    def plan(self, R: int, b: int) -> At:
        """R rounds of b, from 500 labels."""
        return self.counts(*(500 + b * r for r in range(R + 1)))

    def rounds(self, b: int, last: int = 9) -> At:
        """Up to the round `last`, or fewer, as far as the scale goes."""
        most = At(9, 5 if b <= 500 else 3, 1)
        return by_scale(lambda scale: at(scale, self.plan(min(last, at(scale, most)), b)))

    def fields(self, counts: At | tuple[int, ...], retrained: bool = False) -> Fields:
        """What the rows of this column share."""
        augmented = self is CALTECH
        return {
            "data": At(self.data, self.small_data, TINY),
            "net": At(self.net, self.small_net, "small-cnn"),
            "learner": adam(self.batch, retrained),
            "start": At(500, 500 // self.part, 20),
            "start_by": "random",
            "counts": counts,
            "fresh": "new" if retrained else False,
            "augment": At(augmented, False),
            "net_options": At((("dropout", 0.5),) if augmented else (), ()),
            "along": At((TestNumbers(),), ()),
            "measures": At((MaxInRound(),), ()),
        }


CIFAR = Data(name="cifar10")
CIFAR_CNN = Setting("CIFAR-10 + CNN", CIFAR, "tutorial-cnn", "CIFAR-10 (5,000) + CNN", CIFAR10, "tutorial-cnn")
CIFAR_RESNET = Setting(
    "CIFAR-10 + ResNet", CIFAR, "resnet-18", "Fashion-MNIST + CNN, for CIFAR-10 + ResNet", FASHION, "tutorial-cnn"
)
SVHN_VGG = Setting("SVHN + VGG", Data(name="svhn"), "vgg-11", "MNIST + CNN, for SVHN + VGG", MNIST, "tutorial-cnn")
CALTECH = Setting(
    "Caltech-101 + ResNet",
    Data(name="caltech101", options={"size": 299, "lazy": True}),
    "resnet-18-imagenet",
    "digits + small CNN, for Caltech-101 + ResNet",
    DIGITS,
    "small-cnn",
    part=5,
    batch=25,
)
SVHN_DIGITS = CALTECH._replace(
    name=SVHN_VGG.name, data=SVHN_VGG.data, net=SVHN_VGG.net, small_name="digits + small CNN, for SVHN + VGG"
)
# The kernel's figures: the network with global average pooling is too slow on 32 x 32 pixels without a GPU.
GAP = Setting(
    "CIFAR-10 + CNN-GAP", CIFAR, "cnn-gap", "CIFAR-10 (5,000) + CNN, for CNN-GAP", CIFAR10, "tutorial-cnn", part=5
)
GAP_DIGITS = Setting("", CIFAR, "cnn-gap", "digits + CNN-GAP, for CIFAR-10", DIGITS, "cnn-gap", part=5)
STAND_INS = (
    "Stand-ins: 5,000 images of CIFAR-10 for CIFAR-10, with the paper's CNN; Fashion-MNIST with that CNN for "
    "CIFAR-10 with ResNet-18 (which two cores cannot train); MNIST with it for SVHN with VGG-11; the digits of 8 x "
    "8 pixels with a small CNN for Caltech-101 with ResNet-18 (neither SVHN nor Caltech-101 is available by package "
    "name). 2,000 test images (digits: 400)."
)


STRATEGIES: dict[str, Strategy] = {
    "random": Random(),
    "margin": Margin(on="logit"),  # as the paper has it
    "entropy": Entropy(),
    "coreset": Coreset(),
    "confidence": Confidence(),
    "albl": ALBL(mode="badge"),
    "badge": BADGE(),
    "dynamical": DynamicAL(),
}
WITHOUT_BADGE = {name: s for name, s in STRATEGIES.items() if name != "badge"}


def protocol(*more: str | At, retrained: bool = False) -> At:
    kept = (
        "the network kept from round to round, queried once the training accuracy was above .97 in more than 10 epochs"
    )
    anew = "the network trained from scratch in every round, queried once the training accuracy of an epoch exceeds .99"
    asked = anew if retrained else kept
    small = "" if retrained else "3 epochs (on digits with the small CNN 10, in batches of 25), "
    own = At(
        full=f"The paper's: Adam at .001 without augmentation, {asked}; 500 items to start with, 5 runs.",
        small=f"As in the paper ({asked}) but with smaller pools, {small}at most 1,200 steps of 128 in a round, and 5 "
        f"paired seeds. {STAND_INS}",
        smoke=smoke("a small network, 20 steps"),
    )
    return text(own, *more)


CLAIM = "dynamicAL consistently outperforms the other strategies in all query rounds."


class Comparison(NamedTuple):
    """What tables 2 to 9 show: strategies on one column, in batches of b up to a round."""

    where: Setting
    b: int
    last: int = 9
    strategies: dict[str, Strategy] = STRATEGIES

    def fields(self) -> Fields:
        return self.where.fields(self.where.rounds(self.b, self.last))

    def table(self, number: int) -> Preset:
        name = self.where.name
        return Preset(
            name=f"dal.table{number}",
            title=f"dynamicAL, table {number}: {name}, batches of {self.b}",
            rows=grid(self.fields(), self.strategies),
            protocol=protocol(),
            open_points=POINTS,
            layout="rounds",
            claims=CLAIM,
        )


COMPARISONS = {
    2: Comparison(CIFAR_CNN, 250),
    3: Comparison(CIFAR_CNN, 500),
    4: Comparison(CIFAR_RESNET, 500),
    5: Comparison(CIFAR_RESNET, 1000),
    6: Comparison(SVHN_VGG, 500),
    7: Comparison(SVHN_VGG, 1000),
    8: Comparison(CALTECH, 500, strategies=WITHOUT_BADGE),
    9: Comparison(CALTECH, 1000, 4, WITHOUT_BADGE),
}


def retraining(number: int, where: Setting) -> Preset:
    """Tables 11 and 12: the network is retrained from scratch in every round."""
    return replace(
        Comparison(where, 500).table(number),
        title=f"dynamicAL, table {number}: {where.name}, retrained from scratch",
        rows=grid(
            where.fields(where.rounds(500), retrained=True),
            {name: STRATEGIES[name] for name in ("random", "coreset", "dynamical")},
        ),
        protocol=protocol(retrained=True),
        claims="Retrained from scratch, dynamicAL is better than random and coreset or competitive with them.",
    )


def several(figure: int, *numbers: int) -> Preset:
    """A figure that plots several of the tables: one panel for each."""
    plotted = [COMPARISONS[number] for number in numbers]
    panels = [grid(c.fields() | {"group": c.where.group(f", b = {c.b}")}, c.strategies) for c in plotted]
    return Preset(
        name=f"dal.fig{figure}",
        title=f"dynamicAL, figure {figure}: accuracy by query round",
        rows=by_scale(lambda scale: tuple(row for panel in panels for row in at(scale, panel))),
        protocol=protocol(),
        open_points=POINTS,
        claims=CLAIM,
        figures=({"kind": "curves"}, {"kind": "critical_difference"}, {"kind": "win_loss"}),
    )


BUDGETS = {f"R = {R}, b = {b}": (R, b) for R, b in ((10, 100), (4, 250), (2, 500), (1, 1000))}


def planned(where: Setting, plan: tuple[int, int]) -> Fields:
    """R rounds of b, asked by dynamicAL."""
    return {**where.fields(where.plan(*plan)), "group": where.group(), "strategy": DynamicAL()}


table1 = Preset(
    name="dal.table1",
    title="dynamicAL, table 1: a budget of 1,000 labels in many rounds or in few",
    rows=grid(
        At((CIFAR_CNN, CIFAR_RESNET, SVHN_VGG, CALTECH), (CIFAR_CNN, CALTECH), (CIFAR_CNN,)),
        At(full=BUDGETS, smoke=dict(list(BUDGETS.items())[2:])),
        planned,
    ),
    protocol=protocol(
        At(
            full="Every plan ends with 1,500 labels; only there they can be compared.",
            small="Every plan ends with 1,500 labels (digits: 300); only there they can be compared.",
            smoke="Every plan ends with 60 labels; only there they can be compared.",
        )
    ),
    open_points=POINTS,
    baseline="R = 1, b = 1000",
    layout="ends",
    figures=BARS_AND_CURVES,
    claims="For a fixed budget more rounds of smaller batches are better.",
)


def with_drift(where: Setting, plan: tuple[int, int]) -> At:
    def fields(scale: str) -> Fields:
        own = at(scale, planned(where, plan))
        return {**own, "measures": (*own["measures"], MMDAndBound(start=own["start"]))}

    return by_scale(fields)


def drift(
    name: str,
    title: str,
    plans: dict[str, tuple[int, int]],
    claims: str,
    figure: Fields,
    layout: Literal["labels", "ends"] = "labels",
) -> Preset:
    """Figures 1 and 7 and table 10: MMD and B after each round of dynamicAL."""
    return Preset(
        name=name,
        title=title,
        rows=grid(At((GAP,), (GAP, GAP_DIGITS), (GAP,)), plans, with_drift),
        protocol=protocol(
            "The kernel is that of the network after it was trained on the labelled items, those just asked for among them.",
            At(
                full="",
                small="The CNN with global average pooling on digits, as in the paper on CIFAR-10; PyTorch's "
                "tutorial CNN on CIFAR-10. All numbers of labels are a fifth of the paper's.",
                smoke="",
            ),
        ),
        open_points=NTK_POINTS,
        baseline=None,
        metrics=("mmd_over_bound", "mmd", "bound", "unscaled_mmd_over_bound", "kernel_scale", "test_accuracy"),
        layout=layout,
        comparable=False,
        figures=(figure,),
        claims=claims,
    )


class Queries(NamedTuple):
    """Figure 2: |S| labelled items of a setting, and random queries of `size` among others."""

    where: Setting
    S: int
    size: int
    among: int
    draws: int = 150

    def fields(self, trained: bool) -> Fields:
        measure = DynamicsAndAlignment(draws=self.draws, size=self.size, among=self.among, trained=trained)
        common = self.where.fields((self.S,))
        return {**common, "group": self.where.group(), "strategy": Random(), "measures": (measure,), "along": ()}

    def text(self, scale: str) -> str:
        return (
            f"|S| = {self.S} and {self.draws} random Q of {self.size}, drawn from {self.among:,} items "
            f"({at(scale, self.where.group())}), so that one kernel serves all."
        )


QUERIES = At(
    (Queries(GAP, 500, 250, 20_000),),
    (Queries(GAP._replace(part=1), 500, 250, 500), Queries(GAP_DIGITS, 100, 50, 100)),
    (Queries(GAP, 20, 10, 40, draws=20),),
)
figure2 = Preset(
    name="dal.fig2",
    title="dynamicAL, figure 2: alignment against training dynamics",
    rows=grid(QUERIES, {"at initialisation": False, "after training": True}, Queries.fields),
    protocol=protocol(by_scale(lambda scale: " ".join(q.text(scale) for q in at(scale, QUERIES)))),
    open_points=(
        "The paper does not say at which moment of training this is measured: before the first step and after "
        "training are both shown.",
        *NTK_POINTS,
    ),
    baseline=None,
    metrics=("kendall_tau", "test_accuracy"),
    figures=(
        {"kind": "scatter", "x_metric": "dynamics", "y_metric": "alignment"},
        {"kind": "bars", "metrics": ["kendall_tau"]},
    ),
    claims="Training dynamics and alignment agree strongly (Kendall's tau over 150 random queries).",
)


def along_training(where: Setting, b: int) -> At:
    """One training on the start, looked at several times with random queries of b."""
    looks = At((200, 4, 50), (240, 60, 5), (20, 10, 3))  # steps, how many from one look to the next, queries at each

    def fields(scale: str) -> Fields:
        steps, every, draws = at(scale, looks)
        own = at(scale, planned(where, (0, b)))
        learner = replace(own["learner"], steps=steps, evaluate_every=every, stop_accuracy=None)
        [size] = at(scale, where.counts(b))
        return {**own, "learner": learner, "along": (ApproximationRatio(size=size, draws=draws),), "measures": ()}

    return by_scale(fields)


figure4 = Preset(
    name="dal.fig4",
    title="dynamicAL, figure 4: the approximation ratio along the training",
    rows=grid(
        At((CIFAR_RESNET, SVHN_VGG), (CIFAR_CNN, SVHN_VGG), (CIFAR_CNN,)),
        At(full={f"b = {b}": b for b in (250, 500, 1000)}, smoke={f"b = {b}": b for b in (250, 500)}),
        along_training,
    ),
    protocol=protocol(
        At(full="Trained on the 500 items of the start;", smoke="Trained on the 20 items of the start;"),
        "the mean ratio of random queries, at several epochs.",
    ),
    open_points=(
        "The expectation is over queries drawn uniformly from the unlabelled pool, with pseudo labels.",
        *POINTS,
    ),
    baseline=None,
    metrics=("approximation_ratio", "median_approximation_ratio", "test_accuracy"),
    figures=tuple(
        {"kind": "lines", "metric": metric, "x_name": "epoch", "reference": 1.0}
        for metric in ("median_approximation_ratio", "approximation_ratio")
    ),
    claims="The expected approximation ratio converges to 1 with training, for every batch size.",
)


def weighted(where: Setting, gamma: float) -> Fields:
    counts = by_scale(lambda scale: at(scale, where.rounds(500, {"full": 5, "small": 3, "smoke": 1}[scale])))
    return {**where.fields(counts), "group": where.group(), "strategy": DynamicAL(gamma=gamma)}


figure5 = Preset(
    name="dal.fig5",
    title="dynamicAL, figure 5: the weight of the second term",
    rows=grid(
        At((CIFAR_CNN, SVHN_VGG, CIFAR_RESNET), (CIFAR_CNN, SVHN_DIGITS), (CIFAR_CNN,)),
        {"gamma = 0": 0.0, "gamma = 1": 1.0, "gamma = 2": 2.0, "gamma = inf": float("inf")},
        weighted,
    ),
    protocol=protocol(At("b = 500, rounds 0 to 5.", "b = 500, rounds 0 to 3.", "")),
    open_points=POINTS,
    baseline="gamma = 2",
    claims="gamma = 2, which the derivation gives, is best of 0, 1, 2 and infinity.",
)

PRESETS = (
    table1,
    *(compared.table(number) for number, compared in COMPARISONS.items()),
    drift(
        "dal.table10",
        "dynamicAL, table 10: MMD / B for a budget of 1,000 in R rounds of b",
        BUDGETS,
        "One round for the whole budget gives the largest MMD / B; more rounds lower it.",
        {"kind": "bars", "metrics": ["mmd_over_bound"]},
        layout="ends",
    ),
    retraining(11, CIFAR_RESNET),
    retraining(12, SVHN_VGG),
    drift(
        "dal.fig1",
        "dynamicAL, figure 1: MMD against the generalisation bound B",
        {f"b = {b}": (1, b) for b in (250, 500, 1000)},
        "MMD is always much smaller than B, so the generalisation bound still holds.",
        {"kind": "bars", "metrics": ["mmd", "bound"], "log": True},
    ),
    figure2,
    several(3, 3, 6, 8),
    figure4,
    figure5,
    several(6, 2, 4, 5, 7, 9),
    drift(
        "dal.fig7",
        "dynamicAL, figure 7: MMD / B over several rounds",
        {f"b = {b}": (5, b) for b in (250, 500, 1000)},
        "B stays much larger than MMD over many rounds; in the first one a larger batch gives a larger ratio.",
        {"kind": "curves", "metric": "mmd_over_bound"},
    ),
)
