"""CRC (convergence rate control): tables 1 to 4 and figures 1 to 3."""

from typing import Any

from askless.acquire import CRC, EGL, Confidence, Entropy, Random, Strategy
from askless.bench.measures import Boundary, EpochsToMinimum, GroupEigenvalues, ScoredEigenvalues, TestNumbers
from askless.bench.plan import Benchmark, Data, Row
from askless.bench.presets.common import (
    BIAS,
    CALIBRATED,
    CIFAR10,
    CIFAR100_DECAY,
    DIGITS,
    FROZEN,
    FROZEN_SMOKE,
    LOOKS,
    MNIST,
    NEW_WEIGHTS,
    RANKS,
    TINY,
    Preset,
    at,
    fixmatch,
    paper,
    seeds,
)
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
CIFAR_FULL = {"validation": 5000, "trials": (5, "best"), **KEKMODEL}
CITED = (
    "Networks and views at full scale are those of the cited implementations (CIFAR-10: kekmodel, CIFAR-100: LeeDoYup, "
    "SVHN: perrying) in their present form; kekmodel's of 2020, which the paper may have used, had no weight decay and "
    "added .1 after BatchNorm. Activations are the appendix's: ReLU on CIFAR, where the implementations have a slope of "
    ".1, and that slope on SVHN. Weight decay spares all biases (LeeDoYup: not the head's), shifts are drawn for each "
    "image (perrying: for each batch)."
)
POINTS = (
    CITED,
    RANKS,
    BIAS,
    LOOKS,
    NEW_WEIGHTS,
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


def strategies() -> dict[str, Strategy]:
    egl = EGL(layers="all")
    return {"random": Random(), "entropy": Entropy(), "confidence": Confidence(), "egl": egl, "crc": CRC()}


def cifar(scale: str) -> dict[str, Any]:
    """Data, network and training of the CIFAR-10 experiments."""
    return {
        "data": at(scale, full=Data(name="cifar10"), small=CIFAR10, smoke=TINY),
        "net": at(scale, full="wrn-28-2", small=FROZEN, smoke=FROZEN_SMOKE),
        "learner": fixmatch(scale, darp=False, patience=50, epochs=350),
        "fresh": "new",
        **at(scale, full=CIFAR_FULL, small={}, smoke={}),
    }


def protocol(scale: str, extra: str = "", steps: int = 300) -> str:
    """`steps` of the training at small scale."""
    own = at(
        scale,
        full="The paper's: WRN-28-2, FixMatch, stopped after 50 epochs (of 1,024 steps) without gain on held-out "
        "images or after 350, retrained from scratch in every step; 3 trials.",
        small="5,000 images of CIFAR-10 and 2,000 test images, embedded once by EfficientNet-Lite0 (trained on "
        f"ImageNet); a linear head is trained afresh in every step by FixMatch, {steps} steps of 64 + 448. Every seed "
        "has its own balanced start, shared by all methods. With 1,280 features the Gram matrix never runs out of "
        "rank, as the paper's 128 do.",
        smoke=smoke("a linear head on the pixels, 10 steps"),
    )
    return f"{own} {extra}".strip()


def smoke(what: str) -> str:
    return f"300 digits, {what}: it shows that everything runs, nothing else."


def figure1(scale: str) -> Benchmark:
    row = Row(
        method="crc",
        strategy=CRC(group=2),
        data=Data(name="two-moons", options={"pivots": 4}),
        net="mlp",
        learner=PiModel(steps=at(scale, full=3000, small=1500, smoke=100), lr=3e-3),
        fresh="new",
        start=4,
        start_by="first",
        counts=at(scale, full=(4, 8, 12, 16), small=(4, 8, 12, 16), smoke=(4, 8)),
        measures=(Boundary(side=at(scale, full=200, small=120, smoke=20)),),
    )
    return Benchmark(
        name="crc.fig1",
        title="CRC, figure 1: two moons, from four labelled points",
        rows=(row,),
        seeds=seeds(scale, full=3, small=3),
        scale=scale,
        protocol="2,000 points on two moons, a multi-layer perceptron under the Pi-model, whose two views have Gaussian "
        "noise of .15 of each coordinate's standard deviation; four pivots are labelled first, then CRC asks for four "
        "points at a time, in groups of two.",
        open_points=(
            "The paper does not give the moons' noise, the network or the numbers of labels: noise .15, pivots "
            "picked by hand, batches of four.",
            NEW_WEIGHTS,
        ),
        baseline=None,
        figures=({"kind": "moons", "classes": ["upper", "lower"]}, {"kind": "curves"}),
        claims="As CRC enlarges the labelled set, the decision boundary forms near regions of low density.",
    )


def table1(scale: str) -> Benchmark:
    Q = at(scale, full=50, small=10, smoke=10)
    common: dict[str, Any] = {
        "data": at(scale, full=Data(name="cifar10"), small=DIGITS, smoke=TINY),
        "net": at(scale, full="wrn-28-2", small="small-cnn", smoke="small-cnn"),
        "learner": at(
            scale,
            full=fixmatch(scale, darp=False, patience=50, epochs=350),
            small=FixMatch(steps=250, batch=16, mu=4),
            smoke=FixMatch(steps=3, batch=8, mu=2),
        ),
        "fresh": "new",
        **at(scale, full=CIFAR_FULL, small={}, smoke={}),
    }
    group = at(scale, full=5, small=2, smoke=5)
    rows = []
    for name, start, counts in (
        ("random-init first query", 0, (Q, 2 * Q, 3 * Q)),
        ("random first query", Q, (Q, 2 * Q, 3 * Q, 4 * Q)),
    ):
        for method, by, layers in (("crc last layer", "features", "last"), ("crc all layers", "kernel", "all")):
            rows.append(
                Row(
                    method=method,
                    group=name,
                    strategy=CRC(group=group, by=by),  # type: ignore[arg-type]
                    layers=layers,  # type: ignore[arg-type]
                    start=start,
                    other_init=start == 0,  # another draw of the weights is trained than the one that asked first
                    counts=counts if scale != "smoke" else counts[:2],
                    **(common | ({"trials": None} if start == 0 else {})),
                )
            )
    return Benchmark(
        name="crc.table1",
        title="CRC, table 1: the kernel of the last layer or of all layers",
        rows=tuple(rows),
        seeds=seeds(scale, full=3, small=5),
        scale=scale,
        protocol=at(
            scale,
            full=protocol("full", "Q = 50, groups of 5."),
            small="1,397 digits of 8 x 8 pixels and 400 for test, the small convolutional network under FixMatch "
            "(250 steps of 16 + 64), Q = 10, groups of 2: a network that has more than one layer to look at, where "
            "a head on frozen features has not. All layers: the exact trace kernel.",
            smoke=smoke("the small CNN, 3 steps"),
        ),
        open_points=(
            "All layers: the paper's kernel has a C x C block for each pair of images; here it is the trace of that block, "
            "exactly, over all trainable parameters. For the last layer both have the same eigenvalues.",
            CALIBRATED,
            *POINTS,
        ),
        baseline="crc last layer",
        comparable=scale == "full",
        claims="The last layer's kernel does as well as that of all layers and is about a hundred times faster.",
        **paper("crc.table1"),  # type: ignore[arg-type]
    )


def table2(scale: str) -> Benchmark:
    Q = at(scale, full=100, small=100, smoke=20)
    steps = at(scale, full=5, small=5, smoke=1)
    sizes = at(scale, full=(2, 5, 10, 100), small=(2, 5, 10, 100), smoke=(2, 20))
    common: dict[str, Any] = {**cifar(scale), "start": Q, "counts": tuple(Q * i for i in range(1, steps + 2))}
    rows = [Row(method=f"G = {G}", strategy=CRC(group=G), **common) for G in sizes]
    return Benchmark(
        name="crc.table2",
        title="CRC, table 2: the size of the groups",
        rows=(*rows, Row(method="random", strategy=Random(), **common)),
        seeds=seeds(scale, full=3, small=10),
        scale=scale,
        protocol=protocol(scale, f"Q = {Q}, groups of {', '.join(map(str, sizes))}."),
        open_points=("Random is not in the paper's table; it is here as the yardstick.", *POINTS),
        layout="steps",
        comparable=scale == "full",
        claims="Small groups search more accurately, large ones weigh the batch as a whole and are faster; G = Q / "
        "10 is taken as the compromise. The printed numbers show no clear order.",
        **paper("crc.table2"),  # type: ignore[arg-type]
    )


def table3(scale: str) -> Benchmark:
    rows = []
    for Q in at(scale, full=(50, 100), small=(50, 100), smoke=(10, 20)):
        for name, strategy in strategies().items():
            counts = tuple(Q * i for i in range(1, at(scale, full=7, small=7, smoke=3)))
            rows.append(Row(method=name, group=f"Q = {Q}", strategy=strategy, start=Q, counts=counts, **cifar(scale)))
    return Benchmark(
        name="crc.table3",
        title="CRC, table 3: CIFAR-10, queries of 50 and of 100",
        rows=tuple(rows),
        seeds=seeds(scale, full=3, small=10),
        scale=scale,
        protocol=protocol(scale, "G = Q / 10."),
        open_points=(EGL_POINT, *POINTS),
        comparable=scale == "full",
        figures=({"kind": "curves"}, {"kind": "pool_curves"}, {"kind": "win_loss"}),
        claims="CRC is comparable to entropy or better; of CRC and EGL only CRC beats random; only CRC gains from "
        "smaller queries; confidence is poor.",
        **paper("crc.table3"),  # type: ignore[arg-type]
    )


def table4(scale: str) -> Benchmark:
    both: dict[str, Strategy] = {"random": Random(), "crc": CRC()}
    svhn: dict[str, Any] = {
        "group": at(scale, full="SVHN", small="MNIST, for SVHN", smoke="digits under Mean Teacher"),
        "data": at(scale, full=Data(name="svhn"), small=MNIST, smoke=TINY),
        "net": at(scale, full="wrn-28-2", small="small-cnn", smoke="small-cnn"),
        "learner": MeanTeacher(
            steps=at(scale, full=512 * 1024, small=300, smoke=5),
            batch=at(scale, full=50, small=16, smoke=8),
            horizon=at(scale, full=500_000, small=None, smoke=None),  # the ramp ends at 200,000, the rate drops at 400,000
        ),
        "start": at(scale, full=120, small=20, smoke=10),
        "counts": at(
            scale, full=(120, 140, 160, 180, 200, 220), small=(20, 40, 60, 80), smoke=(10, 20)
        ),
        "trials": at(scale, full=(5, "best"), small=None, smoke=None),
        "views": PERRYING_VIEWS,
        "fresh": "new",
        "net_options": at(scale, full=(("slope", 0.1), ("bn_momentum", 0.1)), small=(), smoke=()),
    }  # fmt: skip
    c100: dict[str, Any] = {
        "group": at(scale, full="CIFAR-100", small="CIFAR-10, for CIFAR-100", smoke="digits under FixMatch"),
        **cifar(scale),
        **at(
            scale,
            full={
                "data": Data(name="cifar100"),
                "net": "wrn-28-8",
                **LEEDOYUP,
                "learner": fixmatch("full", darp=False, patience=100, epochs=600, weight_decay=CIFAR100_DECAY),
            },
            small={},
            smoke={},
        ),
        "start": at(scale, full=200, small=20, smoke=10),
        "counts": at(scale, full=(200, 250, 300, 350, 400), small=(20, 70, 120, 170, 220), smoke=(10, 20)),
    }
    rows = [Row(method=name, strategy=s, **setting) for setting in (svhn, c100) for name, s in both.items()]
    return Benchmark(
        name="crc.table4",
        title="CRC, table 4: SVHN under Mean Teacher, CIFAR-100 under FixMatch",
        rows=tuple(rows),
        seeds=seeds(scale, full=3, small=5),
        scale=scale,
        protocol=at(
            scale,
            full="The paper's: SVHN with WRN-28-2 under Mean Teacher, 512 epochs of 1,024 steps (the weight ramps up over "
            "200,000 steps and the rate drops at 400,000, as in Oliver et al.); CIFAR-100 with "
            "WRN-28-8 under FixMatch, stopped after 100 epochs without gain or after 600; 3 trials.",
            small="Neither set can be had by package name. 5,000 images of MNIST stand in for SVHN, with the small "
            "convolutional network under Mean Teacher (300 steps; pixels in [-1, 1], shifts of up to 2); CIFAR-10 as in "
            "crc.table3 stands in for CIFAR-100.",
            smoke=smoke("the small CNN under Mean Teacher, 5 steps, and a linear head under FixMatch, 10 steps"),
        ),
        open_points=(
            "CIFAR-100: WRN-28-8 (the appendix) and not -10 (the text); 2 images per class at the start, since 20 "
            "cannot give 250 = 200 + 50.",
            *POINTS,
        ),
        comparable=scale == "full",
        claims="Asking actively lowers the number of labels under Mean Teacher on SVHN and under FixMatch on "
        "CIFAR-100 too.",
        **paper("crc.table4"),  # type: ignore[arg-type]
    )


def figure2(scale: str) -> Benchmark:
    Q = at(scale, full=50, small=50, smoke=10)
    counts = tuple(Q * i for i in range(1, at(scale, full=7, small=6, smoke=3)))
    setting = cifar(scale) | {"trials": None}
    if scale != "full":  # frozen features are the same for every first draw: a network is needed that is not
        setting = {
            "data": at(scale, full=CIFAR10, small=DIGITS, smoke=TINY),
            "net": "small-cnn",
            "learner": at(
                scale, full=None, small=FixMatch(steps=250, batch=16, mu=4), smoke=FixMatch(steps=3, batch=8, mu=2)
            ),
            "fresh": "new",
        }
        counts = at(scale, full=(), small=(10, 20, 30, 40, 50), smoke=(10, 20))
    rows = tuple(
        Row(method=name, strategy=s, start=0, counts=counts, other_init=True, **setting)
        for name, s in strategies().items()
    )
    return Benchmark(
        name="crc.fig2",
        title="CRC, figure 2: the first query by an untrained network, then another one is trained",
        rows=rows,
        seeds=seeds(scale, full=3, small=5),
        scale=scale,
        protocol=at(
            scale,
            full=protocol("full", "Q = 50 from zero labels."),
            small="1,397 digits and 400 for test, the small convolutional network under FixMatch (250 steps of 16 + "
            "64), Q = 10 from zero labels.",
            smoke=smoke("the small CNN, 3 steps"),
        ),
        open_points=(
            "The untrained network is another draw of the first weights than the one that is then trained.",
            CALIBRATED,
            EGL_POINT,
            *POINTS,
        ),
        comparable=scale == "full",
        figures=({"kind": "curves"}, {"kind": "gains", "caption": "what each query gained"}, {"kind": "pool_curves"}),
        claims="A first query by an untrained network harms all later ones; entropy and CRC recover, the others "
        "stay below random.",
    )


def figure3(scale: str) -> Benchmark:
    Q = at(scale, full=50, small=50, smoke=10)
    counts = tuple(Q * i for i in range(1, at(scale, full=7, small=7, smoke=3)))
    setting = cifar(scale)
    if scale == "small":
        setting["learner"] = FixMatch(steps=600, evaluate_every=20)
    if scale == "smoke":
        setting["learner"] = FixMatch(steps=10, batch=8, mu=2, evaluate_every=5)
    row = Row(
        method="crc",
        strategy=CRC(),
        start=Q,
        counts=counts,
        along=(TestNumbers(),),
        measures=(
            EpochsToMinimum(),
            ScoredEigenvalues(),
            GroupEigenvalues(group=max(1, Q // 10), groups=at(scale, full=1000, small=200, smoke=10)),
        ),
        **setting,
    )
    return Benchmark(
        name="crc.fig3",
        title="CRC, figure 3: the smallest eigenvalue, epochs to the minimum of the test loss, and its spread per step",
        rows=(row,),
        seeds=seeds(scale, full=3, small=10),
        scale=scale,
        protocol=protocol(
            scale,
            f"Q = {Q}. The test loss is measured along the training, every {setting['learner'].evaluate_every:,} steps: "
            "that is the figure's epoch.",
            steps=setting["learner"].steps,
        ),
        open_points=(
            "(a): the eigenvalues that scored the groups which were then asked for, against the epochs of the training that "
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
        claims="The smallest eigenvalue predicts the epochs until the test loss is smallest (a negative slope in "
        "log scale), and its distribution moves towards 0 as labels are added.",
    )


PRESETS = (
    Preset("crc.table1", "CRC by the last layer or by all layers", table1),
    Preset("crc.table2", "group sizes 2, 5, 10, 100 with Q = 100", table2),
    Preset("crc.table3", "CIFAR-10, five strategies, Q = 50 and 100", table3),
    Preset("crc.table4", "SVHN under Mean Teacher, CIFAR-100 under FixMatch", table4),
    Preset("crc.fig1", "two moons, decision boundaries", figure1),
    Preset("crc.fig2", "first query by an untrained network", figure2),
    Preset("crc.fig3", "smallest eigenvalue against epochs to the minimum", figure3),
)
