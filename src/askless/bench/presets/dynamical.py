"""dynamicAL: tables 1 to 12 and figures 1 to 7."""

from dataclasses import replace
from typing import Any, Literal, NamedTuple

from askless.acquire import ALBL, BADGE, Confidence, Coreset, DynamicAL, Entropy, Margin, Random, Strategy
from askless.bench.measures import ApproximationRatio, DynamicsAndAlignment, MaxInRound, MMDAndBound, TestNumbers
from askless.bench.plan import Benchmark, Data, Row
from askless.bench.presets.common import (
    CIFAR10,
    DIGITS,
    FASHION,
    LAST_VALUE,
    MNIST,
    NO_TEST,
    TINY,
    Preset,
    adam,
    at,
    paper,
    seeds,
)

POINTS = (
    "Gradients: over all parameters, network in eval mode, exact for BatchNorm too; g_S is the sum over the "
    "labelled items (the authors' code puts the chunk's mean in place of BatchNorm's gradients).",
    "Optimiser: Adam at a constant .001, begun anew after each query; no augmentation; no re-initialisation but in "
    "tables 11 and 12.",
    f"{NO_TEST} Their script, which is published for Caltech-101 only, also "
    "trains for at least 140, 100, 80, 80 and then 70 epochs in a round, for at most twice as many, and for 30 more at the "
    "end; the paper does not mention it.",
    LAST_VALUE,
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

    def group(self, scale: str) -> str:
        """What a panel is called: never by data that was not used."""
        return at(scale, full=self.name, small=self.small_name, smoke=f"digits, for {self.name}")

    def counts(self, scale: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of labels at this scale."""
        part = at(scale, full=1, small=self.part, smoke=25)
        return tuple(n // part for n in numbers)


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
# The kernel's figures: the network with global average pooling is too slow on 32 x 32 pixels without a graphics card.
GAP = Setting(
    "CIFAR-10 + CNN-GAP", CIFAR, "cnn-gap", "CIFAR-10 (5,000) + CNN, for CNN-GAP", CIFAR10, "tutorial-cnn", part=5
)
GAP_DIGITS = Setting("", CIFAR, "cnn-gap", "digits + CNN-GAP, for CIFAR-10", DIGITS, "cnn-gap", part=5)
STAND_INS = (
    "Stand-ins: 5,000 images of CIFAR-10 for CIFAR-10, with the paper's CNN; Fashion-MNIST with that CNN for "
    "CIFAR-10 with ResNet-18 (which two cores cannot train); MNIST with it for SVHN with VGG-11; the digits of 8 x "
    "8 pixels with a small CNN for Caltech-101 with ResNet-18 (neither SVHN nor Caltech-101 can be had by package "
    "name). 2,000 test images (digits: 400)."
)


def strategies(badge: bool = True) -> dict[str, Strategy]:
    found: dict[str, Strategy] = {
        "random": Random(),
        "margin": Margin(on="logit"),  # as the paper has it
        "entropy": Entropy(),
        "coreset": Coreset(),
        "confidence": Confidence(),
        "albl": ALBL(mode="badge"),
        "badge": BADGE(),
        "dynamical": DynamicAL(),
    }
    return found if badge else {name: s for name, s in found.items() if name != "badge"}


def setting(scale: str, where: Setting, *, start: int = 500, retrained: bool = False) -> dict[str, Any]:
    """What a row has of its column."""
    full = scale == "full"
    return {
        "data": at(scale, full=where.data, small=where.small_data, smoke=TINY),
        "net": at(scale, full=where.net, small=where.small_net, smoke="small-cnn"),
        "learner": adam(scale, where.batch, retrained),
        "start": where.counts(scale, (start,))[0],
        "start_by": "random",
        "fresh": "new" if retrained else False,
        "augment": full and where is CALTECH,
        "net_options": (("dropout", 0.5),) if full and where is CALTECH else (),
        "along": (TestNumbers(),) if full else (),
        "measures": (MaxInRound(),) if full else (),
    }


def protocol(scale: str, extra: str = "", retrained: bool = False) -> str:
    asked = (
        "the network kept from round to round, asked once the training accuracy was above .97 in more than 10 epochs"
    )
    small = "3 epochs (on digits with the small CNN 10, in batches of 25), "
    if retrained:
        asked = (
            "the network trained from scratch in every round, asked once the training accuracy of an epoch exceeds .99"
        )
        small = ""
    own = at(
        scale,
        full=f"The paper's: Adam at .001 without augmentation, {asked}; 500 items to start with, 5 runs.",
        small=f"As in the paper ({asked}) but with smaller pools, {small}at most 1,200 steps of 128 in a round, and 5 "
        f"paired seeds. {STAND_INS}",
        smoke="300 digits, a small network, 20 steps: it shows that everything runs, nothing else.",
    )
    return f"{own} {extra}".strip()


def rounds(scale: str, where: Setting, b: int, last: int) -> tuple[int, ...]:
    last = min(last, at(scale, full=9, small=5 if b <= 500 else 3, smoke=1))
    return where.counts(scale, tuple(500 + b * r for r in range(last + 1)))


CLAIM = "dynamicAL consistently outperforms the other strategies in all query rounds."


def comparison(
    name: str, number: int, where: Setting, b: int, last: int = 9, badge: bool = True, claims: str = CLAIM
) -> Preset:
    """One of tables 2 to 9: all strategies on one column."""

    def make(scale: str) -> Benchmark:
        common = setting(scale, where)
        return Benchmark(
            name=name,
            title=f"dynamicAL, table {number}: {where.name}, batches of {b}",
            rows=tuple(
                Row(method=method, strategy=s, counts=rounds(scale, where, b, last), **common)
                for method, s in strategies(badge).items()
            ),
            seeds=seeds(scale, full=5, small=5),
            scale=scale,
            protocol=protocol(scale),
            open_points=POINTS,
            layout="rounds",
            comparable=scale == "full",
            claims=claims,
            **paper(name),  # type: ignore[arg-type]
        )

    return Preset(name, f"{where.name}, b = {b}, {'eight' if badge else 'seven'} strategies", make)


def several(
    name: str, figure: int, which: tuple[tuple[Setting, int, int, bool], ...], claims: str, what: str
) -> Preset:
    """A figure that plots several of the tables: one panel for each."""

    def make(scale: str) -> Benchmark:
        rows = [
            Row(
                method=method,
                group=f"{where.group(scale)}, b = {b}",
                strategy=s,
                counts=rounds(scale, where, b, last),
                **setting(scale, where),
            )
            for where, b, last, badge in which
            for method, s in strategies(badge).items()
        ]
        return Benchmark(
            name=name,
            title=f"dynamicAL, figure {figure}: accuracy by query round",
            rows=tuple(rows),
            seeds=seeds(scale, full=5, small=5),
            scale=scale,
            protocol=protocol(scale),
            open_points=POINTS,
            comparable=scale == "full",
            claims=claims,
            figures=({"kind": "curves"}, {"kind": "critical_difference"}, {"kind": "win_loss"}),
        )

    return Preset(name, what, make)


def budgets(scale: str) -> tuple[tuple[str, int, int], ...]:
    """Rounds R and batches b that spend a budget of 1,000."""
    all_four = ((10, 100), (4, 250), (2, 500), (1, 1000))
    return tuple((f"R = {R}, b = {b}", R, b) for R, b in at(scale, full=all_four, small=all_four, smoke=all_four[2:]))


def table1(scale: str) -> Benchmark:
    columns = at(
        scale,
        full=(CIFAR_CNN, CIFAR_RESNET, SVHN_VGG, CALTECH),
        small=(CIFAR_CNN, CALTECH),
        smoke=(CIFAR_CNN,),
    )
    rows = [
        Row(
            method=method,
            group=where.group(scale),
            strategy=DynamicAL(),
            counts=where.counts(scale, tuple(500 + b * r for r in range(R + 1))),
            **setting(scale, where),
        )
        for where in columns
        for method, R, b in budgets(scale)
    ]
    return Benchmark(
        name="dal.table1",
        title="dynamicAL, table 1: a budget of 1,000 labels in many rounds or in few",
        rows=tuple(rows),
        seeds=seeds(scale, full=5, small=5),
        scale=scale,
        protocol=protocol(
            scale,
            f"Every plan ends with {at(scale, full='1,500', small='1,500', smoke='60')} labels"
            f"{at(scale, full='', small=' (digits: 300)', smoke='')}; only there they can be compared.",
        ),
        open_points=POINTS,
        baseline="R = 1, b = 1000",
        layout="ends",
        comparable=scale == "full",
        figures=({"kind": "bars", "metrics": ["test_accuracy", "pool_accuracy"]}, {"kind": "curves"}),
        claims="For a fixed budget more rounds of smaller batches are better.",
        **paper("dal.table1"),  # type: ignore[arg-type]
    )


def drift(
    name: str,
    title: str,
    plans: tuple[tuple[str, int, int], ...],
    claims: str,
    figure: dict[str, Any],
    layout: Literal["labels", "ends"] = "labels",
) -> Preset:
    """Figures 1 and 7 and table 10: MMD and B after each round of dynamicAL."""

    def make(scale: str) -> Benchmark:
        rows = []
        for where in at(scale, full=(GAP,), small=(GAP, GAP_DIGITS), smoke=(GAP,)):
            for method, R, b in plans:
                common = setting(scale, where)
                common["measures"] += (MMDAndBound(start=common["start"]),)
                numbers = where.counts(scale, tuple(500 + b * r for r in range(R + 1)))
                rows.append(
                    Row(method=method, group=where.group(scale), strategy=DynamicAL(), counts=numbers, **common)
                )
        return Benchmark(
            name=name,
            title=title,
            rows=tuple(rows),
            seeds=seeds(scale, full=5, small=5),
            scale=scale,
            protocol=protocol(
                scale,
                "The kernel is that of the network after it was trained on the labelled items, those just asked for "
                "among them."
                + at(
                    scale,
                    full="",
                    small=" The CNN with global average pooling on digits, as in the paper on CIFAR-10; PyTorch's "
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
            **paper(name),  # type: ignore[arg-type]
        )

    return Preset(name, title.split(": ", 1)[1], make)


def figure2(scale: str) -> Benchmark:
    rows, sizes = [], []
    draws = at(scale, full=150, small=150, smoke=20)
    for where in at(scale, full=(GAP,), small=(GAP._replace(part=1), GAP_DIGITS), smoke=(GAP,)):
        size, among = where.counts(scale, (250, at(scale, full=20_000, small=500, smoke=1000)))
        common, group = setting(scale, where), where.group(scale)
        sizes.append(
            f"|S| = {common['start']} and {draws} random Q of {size}, drawn from {among:,} items ({group}), so that one "
            "kernel serves all."
        )
        for method, trained in (("at initialisation", False), ("after training", True)):
            measure = DynamicsAndAlignment(draws=draws, size=size, among=among, trained=trained)
            common |= {"measures": (measure,), "along": ()}
            rows.append(Row(method=method, group=group, strategy=Random(), counts=(common["start"],), **common))
    return Benchmark(
        name="dal.fig2",
        title="dynamicAL, figure 2: alignment against training dynamics",
        rows=tuple(rows),
        seeds=seeds(scale, full=5, small=5),
        scale=scale,
        protocol=protocol(scale, " ".join(sizes)),
        open_points=(
            "The paper does not say at which moment of training this is measured: before the first step and after "
            "training are both shown.",
            *NTK_POINTS,
        ),
        baseline=None,
        metrics=("kendall_tau", "test_accuracy"),
        comparable=scale == "full",
        figures=(
            {"kind": "scatter", "x_metric": "dynamics", "y_metric": "alignment"},
            {"kind": "bars", "metrics": ["kendall_tau"]},
        ),
        claims="Training dynamics and alignment agree strongly (Kendall's tau over 150 random queries).",
    )


def figure4(scale: str) -> Benchmark:
    columns = at(scale, full=(CIFAR_RESNET, SVHN_VGG), small=(CIFAR_CNN, SVHN_VGG), smoke=(CIFAR_CNN,))
    rows = []
    for where in columns:
        for b in at(scale, full=(250, 500, 1000), small=(250, 500, 1000), smoke=(250, 500)):
            common = setting(scale, where)
            learner = replace(
                common["learner"],
                steps=at(scale, full=200, small=240, smoke=20),
                evaluate_every=at(scale, full=4, small=60, smoke=10),
                stop_accuracy=None,
            )
            size = where.counts(scale, (b,))[0]
            measure = ApproximationRatio(size=size, draws=at(scale, full=50, small=5, smoke=3))
            options = {**common, "learner": learner, "along": (measure,), "measures": ()}
            rows.append(
                Row(
                    method=f"b = {b}",
                    group=where.group(scale),
                    strategy=DynamicAL(),
                    counts=(common["start"],),
                    **options,
                )
            )
    return Benchmark(
        name="dal.fig4",
        title="dynamicAL, figure 4: the approximation ratio along the training",
        rows=tuple(rows),
        seeds=seeds(scale, full=5, small=5),
        scale=scale,
        protocol=protocol(
            scale,
            f"Trained on the {at(scale, full=500, small=500, smoke=20)} items of the start; the mean ratio of random "
            "queries, at several epochs.",
        ),
        open_points=(
            "The expectation is over queries drawn uniformly from the unlabelled pool, with pseudo labels.",
            *POINTS,
        ),
        baseline=None,
        metrics=("approximation_ratio", "median_approximation_ratio", "test_accuracy"),
        comparable=scale == "full",
        figures=tuple(
            {"kind": "lines", "metric": metric, "x_name": "epoch", "reference": 1.0}
            for metric in ("median_approximation_ratio", "approximation_ratio")
        ),
        claims="The expected approximation ratio converges to 1 with training, for every batch size.",
    )


def figure5(scale: str) -> Benchmark:
    columns = at(scale, full=(CIFAR_CNN, SVHN_VGG, CIFAR_RESNET), small=(CIFAR_CNN, SVHN_DIGITS), smoke=(CIFAR_CNN,))
    gammas = {"gamma = 0": 0.0, "gamma = 1": 1.0, "gamma = 2": 2.0, "gamma = inf": float("inf")}
    rows = [
        Row(
            method=method,
            group=where.group(scale),
            strategy=DynamicAL(gamma=gamma),
            counts=rounds(scale, where, 500, at(scale, full=5, small=3, smoke=1)),
            **setting(scale, where),
        )
        for where in columns
        for method, gamma in gammas.items()
    ]
    return Benchmark(
        name="dal.fig5",
        title="dynamicAL, figure 5: the weight of the second term",
        rows=tuple(rows),
        seeds=seeds(scale, full=5, small=5),
        scale=scale,
        protocol=protocol(scale, at(scale, full="b = 500, rounds 0 to 5.", small="b = 500, rounds 0 to 3.", smoke="")),
        open_points=POINTS,
        baseline="gamma = 2",
        comparable=scale == "full",
        claims="gamma = 2, which the derivation gives, is best of 0, 1, 2 and infinity.",
    )


def retraining(name: str, number: int, where: Setting) -> Preset:
    """Tables 11 and 12: the network begins anew in every round."""

    def make(scale: str) -> Benchmark:
        common = setting(scale, where, retrained=True)
        chosen = {n: s for n, s in strategies().items() if n in ("random", "coreset", "dynamical")}
        return Benchmark(
            name=name,
            title=f"dynamicAL, table {number}: {where.name}, retrained from scratch",
            rows=tuple(
                Row(method=n, strategy=s, counts=rounds(scale, where, 500, 9), **common) for n, s in chosen.items()
            ),
            seeds=seeds(scale, full=5, small=5),
            scale=scale,
            protocol=protocol(scale, retrained=True),
            open_points=POINTS,
            layout="rounds",
            comparable=scale == "full",
            claims="Retrained from scratch, dynamicAL is better than random and coreset or competitive with them.",
            **paper(name),  # type: ignore[arg-type]
        )

    return Preset(name, f"{where.name}, b = 500, retrained from scratch", make)


BATCHES = (("b = 250", 1, 250), ("b = 500", 1, 500), ("b = 1000", 1, 1000))
PRESETS = (
    Preset("dal.table1", "a budget of 1,000 in R rounds of b", table1),
    comparison("dal.table2", 2, CIFAR_CNN, 250),
    comparison("dal.table3", 3, CIFAR_CNN, 500),
    comparison("dal.table4", 4, CIFAR_RESNET, 500),
    comparison("dal.table5", 5, CIFAR_RESNET, 1000),
    comparison("dal.table6", 6, SVHN_VGG, 500),
    comparison("dal.table7", 7, SVHN_VGG, 1000),
    comparison("dal.table8", 8, CALTECH, 500, badge=False),
    comparison("dal.table9", 9, CALTECH, 1000, last=4, badge=False),
    drift(
        "dal.table10",
        "dynamicAL, table 10: MMD / B for a budget of 1,000 in R rounds of b",
        tuple((f"R = {R}, b = {b}", R, b) for R, b in ((10, 100), (4, 250), (2, 500), (1, 1000))),
        "One round for the whole budget gives the largest MMD / B; more rounds lower it.",
        {"kind": "bars", "metrics": ["mmd_over_bound"]},
        layout="ends",
    ),
    retraining("dal.table11", 11, CIFAR_RESNET),
    retraining("dal.table12", 12, SVHN_VGG),
    drift(
        "dal.fig1",
        "dynamicAL, figure 1: MMD against the generalisation bound B",
        BATCHES,
        "MMD is always much smaller than B, so the generalisation bound still holds.",
        {"kind": "bars", "metrics": ["mmd", "bound"], "log": True},
    ),
    Preset("dal.fig2", "alignment against training dynamics, Kendall's tau", figure2),
    several(
        "dal.fig3",
        3,
        ((CIFAR_CNN, 500, 9, True), (SVHN_VGG, 500, 9, True), (CALTECH, 500, 9, False)),
        CLAIM,
        "accuracy by round: the settings of tables 3, 6 and 8",
    ),
    Preset("dal.fig4", "the approximation ratio along the training", figure4),
    Preset("dal.fig5", "gamma = 0, 1, 2, infinity", figure5),
    several(
        "dal.fig6",
        6,
        (
            (CIFAR_CNN, 250, 9, True),
            (CIFAR_RESNET, 500, 9, True),
            (CIFAR_RESNET, 1000, 9, True),
            (SVHN_VGG, 1000, 9, True),
            (CALTECH, 1000, 4, False),
        ),
        CLAIM,
        "accuracy by round: the settings of tables 2, 4, 5, 7 and 9",
    ),
    drift(
        "dal.fig7",
        "dynamicAL, figure 7: MMD / B over several rounds",
        tuple((f"b = {b}", 5, b) for b in (250, 500, 1000)),
        "B stays much larger than MMD over many rounds; in the first one a larger batch gives a larger ratio.",
        {"kind": "curves", "metric": "mmd_over_bound"},
    ),
)
