"""CRC (convergence rate control): tables 1 to 4 and figures 1 to 3."""

from typing import Any, Literal

from askless.acquire import CRC, EGL, Confidence, Entropy, Random
from askless.bench.measures import Boundary, EpochsToMinimum, GroupEigenvalues, ScoredEigenvalues, TestNumbers
from askless.bench.plan import Data
from askless.bench.presets import common
from askless.bench.presets.common import At, Preset, fixmatch, grid, smoke, text
from askless.learn import FixMatch, MeanTeacher, PiModel

# Views and networks of the implementations that the paper cites; ReLU on CIFAR, as its appendix says.
KEKMODEL = {
    "net_options": (("slope", 0.0), ("wrn_variant", "kekmodel")),
    "views": (
        ("policy", "kekmodel"),
        ("padding", 4),
        ("border", "reflect"),
        ("mean", (0.4914, 0.4822, 0.4465)),
        ("std", (0.2471, 0.2435, 0.2616)),
    ),
}
LEEDOYUP = {
    "net_options": (("slope", 0.0), ("wrn_variant", "leedoyup")),
    "views": (
        ("policy", "leedoyup"),
        ("padding", 4),
        ("border", "zero"),
        ("mean", (129.3 / 255, 124.1 / 255, 112.4 / 255)),
        ("std", (68.2 / 255, 65.4 / 255, 70.4 / 255)),
    ),
}
PERRYING_VIEWS = (("padding", 2), ("border", "reflect"), ("noise", 0.0), ("mean", 0.5), ("std", 0.5))  # and no flips
CITED = (
    "Networks and views at full scale are those of the cited implementations (CIFAR-10: kekmodel, CIFAR-100: LeeDoYup, "
    "SVHN: perrying) in their present form; kekmodel's of 2020, which the paper may have used, had no weight decay and "
    "added .1 after BatchNorm. Activations are the appendix's: ReLU on CIFAR, where the implementations have a slope of "
    ".1, and that slope on SVHN. Weight decay spares all biases (LeeDoYup: not the head's), shifts are drawn for each "
    "image (perrying: for each batch)."
)
POINTS = (
    CITED,
    *common.POINTS,
    "Candidates: a random partition of the pool into groups of G, the remainder unused, the best Q / G groups taken "
    "without judging them again.",
    "The start: balanced; at full scale the labels of the best of 5 starts, by test accuracy, are shared by all "
    "seeds, each of which trains its own first model on them (the paper: the best of several).",
    "Early stopping: on 5,000 images held out of the pool at full scale (the paper does not say how many); a fixed "
    "number of steps below.",
)
EGL_POINT = (
    "EGL: the expected length of the gradient over all layers (frozen features have the head alone). The paper does not say "
    "over which, but likens it to the kernel of all layers (section 4.3)."
)
STRATEGIES = {
    "random": Random(),
    "entropy": Entropy(),
    "confidence": Confidence(),
    "egl": EGL(layers="all"),
    "crc": CRC(),
}


BEST = At((5, "best"), None)
CIFAR: dict[str, Any] = {
    **common.ON_CIFAR10,
    "learner": fixmatch(patience=50, epochs=350),
    "validation": At(5000, 0),
    "trials": BEST,
    "net_options": At(KEKMODEL["net_options"], ()),
    "views": At(KEKMODEL["views"], ()),
}
# Below full scale, where a network is needed whose features change with its weights.
CIFAR_OR_DIGITS = {
    **CIFAR,
    "data": At(Data(name="cifar10"), common.DIGITS, common.TINY),
    "net": At("wrn-28-2", "small-cnn"),
    "learner": At(CIFAR["learner"], FixMatch(steps=250, batch=16, mu=4), FixMatch(steps=3, batch=8, mu=2)),
}


def protocol(steps: int = 300) -> At:
    """`steps` of the training at small scale."""
    return At(
        full="The paper's: WRN-28-2, FixMatch, stopped after 50 epochs (of 1,024 steps) without gain on held-out "
        "images or after 350, retrained from scratch in every step; 3 trials.",
        small="5,000 images of CIFAR-10 and 2,000 test images, embedded once by EfficientNet-Lite0 (trained on "
        f"ImageNet); a linear head is retrained from scratch in every step by FixMatch, {steps} steps of 64 + 448. Every "
        "seed has its own balanced start, shared by all methods. With 1,280 features the Gram matrix never runs out of "
        "rank, as the paper's 128 do.",
        smoke=smoke("a linear head on the pixels, 10 steps"),
    )


def multiples(Q: int, steps: int) -> tuple[int, ...]:
    """Q labels, and Q more in each step."""
    return tuple(Q * i for i in range(1, steps + 1))


def groups_of_five_or_two(by: Literal["features", "kernel"]) -> At:
    return At(CRC(group=5, by=by), CRC(group=2, by=by), CRC(group=5, by=by))


table1 = Preset(
    name="crc.table1",
    title="CRC, table 1: the kernel of the last layer or of all layers",
    rows=grid(
        [
            {
                **CIFAR_OR_DIGITS,
                "group": "random-init first query",
                "other_init": True,  # another draw of the weights is trained than the one that asked first
                "counts": At(multiples(50, 3), multiples(10, 3), multiples(10, 2)),
                "trials": None,
            },
            {
                **CIFAR_OR_DIGITS,
                "group": "random first query",
                "start": At(50, 10),
                "counts": At(multiples(50, 4), multiples(10, 4), multiples(10, 2)),
            },
        ],
        {
            "crc last layer": {"strategy": groups_of_five_or_two("features"), "layers": "last"},
            "crc all layers": {"strategy": groups_of_five_or_two("kernel"), "layers": "all"},
        },
    ),
    seeds=(3, 5),
    protocol=At(
        full=f"{protocol().full} Q = 50, groups of 5.",
        small="1,397 digits of 8 x 8 pixels and 400 for test, the small convolutional network under FixMatch "
        "(250 steps of 16 + 64), Q = 10, groups of 2: a network with more than one layer to look at, unlike "
        "a head on frozen features. All layers: the exact trace kernel.",
        smoke=smoke("the small CNN, 3 steps"),
    ),
    open_points=(
        "All layers: the paper's kernel has a C x C block for each pair of images; here it is the trace of that block, "
        "exactly, over all trainable parameters. For the last layer both have the same eigenvalues.",
        common.CALIBRATED,
        *POINTS,
    ),
    baseline="crc last layer",
    claims="The last layer's kernel does as well as that of all layers and is about a hundred times faster.",
)

table2 = Preset(
    name="crc.table2",
    title="CRC, table 2: the size of the groups",
    rows=grid(
        [{**CIFAR, "start": At(full=100, smoke=20), "counts": At(full=multiples(100, 6), smoke=multiples(20, 2))}],
        At(
            full={**{f"G = {G}": CRC(group=G) for G in (2, 5, 10, 100)}, "random": Random()},
            smoke={**{f"G = {G}": CRC(group=G) for G in (2, 20)}, "random": Random()},
        ),
    ),
    seeds=(3, 10),
    protocol=text(protocol(), At(full="Q = 100, groups of 2, 5, 10, 100.", smoke="Q = 20, groups of 2, 20.")),
    open_points=(common.YARDSTICK, *POINTS),
    layout="steps",
    claims="Small groups search more accurately, large ones weigh the batch as a whole and are faster; G = Q / "
    "10 is taken as the compromise. The printed numbers show no clear order.",
)


def queries(Q: int, steps: int) -> dict[str, Any]:
    return {**CIFAR, "group": f"Q = {Q}", "start": Q, "counts": multiples(Q, steps)}


table3 = Preset(
    name="crc.table3",
    title="CRC, table 3: CIFAR-10, queries of 50 and of 100",
    rows=grid(At(full=(queries(50, 6), queries(100, 6)), smoke=(queries(10, 2), queries(20, 2))), STRATEGIES),
    seeds=(3, 10),
    protocol=text(protocol(), "G = Q / 10."),
    open_points=(EGL_POINT, *POINTS),
    figures=common.CURVES_AND_WINS,
    claims="CRC is comparable to entropy or better; of CRC and EGL only CRC beats random; only CRC gains from "
    "smaller queries; confidence is poor.",
)

table4 = Preset(
    name="crc.table4",
    title="CRC, table 4: SVHN under Mean Teacher, CIFAR-100 under FixMatch",
    rows=grid(
        [
            {
                "group": At("SVHN", "MNIST, for SVHN", "digits under Mean Teacher"),
                "data": At(Data(name="svhn"), common.MNIST, common.TINY),
                "net": At("wrn-28-2", "small-cnn"),
                "net_options": At((("slope", 0.1), ("bn_momentum", 0.1)), ()),
                "views": PERRYING_VIEWS,
                "learner": At(  # the ramp ends at 200,000 steps, the rate drops at 400,000
                    MeanTeacher(steps=512 * 1024, batch=50, horizon=500_000),
                    MeanTeacher(steps=300, batch=16),
                    MeanTeacher(steps=5, batch=8),
                ),
                "fresh": "new",
                "start": At(120, 20, 10),
                "counts": At((120, 140, 160, 180, 200, 220), (20, 40, 60, 80), (10, 20)),
                "trials": BEST,
            },
            {
                **CIFAR,
                "group": At("CIFAR-100", "CIFAR-10, for CIFAR-100", "digits under FixMatch"),
                "data": At(Data(name="cifar100"), CIFAR["data"]),
                "net": At("wrn-28-8", CIFAR["net"]),
                "net_options": At(LEEDOYUP["net_options"], ()),
                "views": At(LEEDOYUP["views"], ()),
                "learner": fixmatch(patience=100, epochs=600, weight_decay=common.CIFAR100_DECAY),
                "start": At(200, 20, 10),
                "counts": At((200, 250, 300, 350, 400), (20, 70, 120, 170, 220), (10, 20)),
            },
        ],
        {"random": Random(), "crc": CRC()},
    ),
    seeds=(3, 5),
    protocol=At(
        full="The paper's: SVHN with WRN-28-2 under Mean Teacher, 512 epochs of 1,024 steps (the weight ramps up over "
        "200,000 steps and the rate drops at 400,000, as in Oliver et al.); CIFAR-100 with "
        "WRN-28-8 under FixMatch, stopped after 100 epochs without gain or after 600; 3 trials.",
        small="Neither set is available by package name. 5,000 images of MNIST stand in for SVHN, with the small "
        "convolutional network under Mean Teacher (300 steps; pixels in [-1, 1], shifts of up to 2); CIFAR-10 as in "
        "crc.table3 stands in for CIFAR-100.",
        smoke=smoke("the small CNN under Mean Teacher, 5 steps, and a linear head under FixMatch, 10 steps"),
    ),
    open_points=(
        "CIFAR-100: WRN-28-8 (the appendix) and not -10 (the text); 2 images per class at the start, since 20 "
        "cannot give 250 = 200 + 50.",
        *POINTS,
    ),
    claims="Asking actively lowers the number of labels under Mean Teacher on SVHN and under FixMatch on "
    "CIFAR-100 too.",
)

figure1 = Preset(
    name="crc.fig1",
    title="CRC, figure 1: two moons, from four labelled points",
    rows=grid(
        {
            "data": Data(name="two-moons", options={"pivots": 4}),
            "net": "mlp",
            "learner": At(PiModel(steps=3000, lr=3e-3), PiModel(steps=1500, lr=3e-3), PiModel(steps=100, lr=3e-3)),
            "fresh": "new",
            "start": 4,
            "start_by": "first",
            "counts": At(full=multiples(4, 4), smoke=multiples(4, 2)),
            "measures": At((Boundary(side=200),), (Boundary(side=120),), (Boundary(side=20),)),
        },
        {"crc": CRC(group=2)},
    ),
    seeds=(3, 3),
    protocol="2,000 points on two moons, a multi-layer perceptron under the Pi-model, whose two views have Gaussian "
    "noise of .15 of each coordinate's standard deviation; four pivots are labelled first, then CRC asks for four "
    "points at a time, in groups of two.",
    open_points=(
        "The paper does not give the moons' noise, the network or the numbers of labels: noise .15, pivots "
        "picked by hand, batches of four.",
        common.NEW_WEIGHTS,
    ),
    baseline=None,
    figures=({"kind": "moons", "classes": ["upper", "lower"]}, {"kind": "curves"}),
    comparable=False,
    claims="As CRC enlarges the labelled set, the decision boundary forms near regions of low density.",
)

figure2 = Preset(
    name="crc.fig2",
    title="CRC, figure 2: the first query by an untrained network, then another network is trained",
    rows=grid(
        {
            **CIFAR_OR_DIGITS,
            "other_init": True,
            "counts": At(multiples(50, 6), multiples(10, 5), multiples(10, 2)),
            "trials": None,
        },
        STRATEGIES,
    ),
    seeds=(3, 5),
    protocol=At(
        full=f"{protocol().full} Q = 50 from zero labels.",
        small="1,397 digits and 400 for test, the small convolutional network under FixMatch (250 steps of 16 + "
        "64), Q = 10 from zero labels.",
        smoke=smoke("the small CNN, 3 steps"),
    ),
    open_points=(
        "The untrained network is another draw of the first weights than the one that is then trained.",
        common.CALIBRATED,
        EGL_POINT,
        *POINTS,
    ),
    figures=({"kind": "curves"}, {"kind": "gains", "caption": "what each query gained"}, {"kind": "pool_curves"}),
    claims="A first query by an untrained network harms all later ones; entropy and CRC recover, the others "
    "stay below random.",
)

MEASURED = "The test loss is measured along the training, every {} steps: that is the figure's epoch."
figure3 = Preset(
    name="crc.fig3",
    title="CRC, figure 3: the smallest eigenvalue, epochs to the minimum of the test loss, and its spread per step",
    rows=grid(
        {
            **CIFAR,
            "learner": At(
                CIFAR["learner"],
                FixMatch(steps=600, evaluate_every=20),
                FixMatch(steps=10, batch=8, mu=2, evaluate_every=5),
            ),
            "start": At(full=50, smoke=10),
            "counts": At(full=multiples(50, 6), smoke=multiples(10, 2)),
            "along": (TestNumbers(),),
            "measures": (
                EpochsToMinimum(),
                ScoredEigenvalues(),
                At(
                    GroupEigenvalues(group=5, groups=1000),
                    GroupEigenvalues(group=5, groups=200),
                    GroupEigenvalues(group=1, groups=10),
                ),
            ),
        },
        {"crc": CRC()},
    ),
    seeds=(3, 10),
    protocol=text(
        protocol(steps=600),
        At(full="Q = 50.", smoke="Q = 10."),
        At(MEASURED.format("1,024"), MEASURED.format(20), MEASURED.format(5)),
    ),
    open_points=(
        "(a): the eigenvalues of the groups that were then labelled, against the epochs of the training that "
        "followed; (b): those of random groups, by the network after it.",
        "Eigenvalues of different numbers of items are not comparable, and the spread falls towards 0 partly "
        "because the kernel runs out of rank.",
        *POINTS,
    ),
    baseline=None,
    metrics=("test_accuracy", "epochs_to_minimum"),
    figures=(
        {"kind": "scatter", "x_metric": "epochs_to_minimum", "y_metric": "scored_lambda_min", "log_y": True},
        {"kind": "spread", "metric": "group_lambda_min", "log": True},
        {"kind": "curves"},
    ),
    comparable=False,
    claims="The smallest eigenvalue predicts the epochs until the test loss is smallest (a negative slope in "
    "log scale), and its distribution moves towards 0 as labels are added.",
)

PRESETS = (table1, table2, table3, table4, figure1, figure2, figure3)
