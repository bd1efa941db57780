"""What papers only hoped for or warned of, as benchmarks: dynamicAL with better pseudo-labels (its appendix F), and labels
that outlive the model they were chosen with (Lowell, Lipton and Wallace, EMNLP 2019)."""

from typing import Any, NamedTuple

from askless.acquire import Askless, DynamicAL, Margin, Random, TypiClust
from askless.bench.certain import Certain
from askless.bench.measures import UnlabelledAccuracy
from askless.bench.plan import Data, Successor
from askless.bench.presets.common import DIGITS, TINY, At, Fields, Preset, adam, grid, smoke
from askless.features.frozen import Frozen
from askless.learn import FixMatch, LabelPropagation, Learner, Supervised

# --- dynamicAL, appendix F --------------------------------------------------------------------------------------------


def fixmatch_by_adam(steps: int, batch: int, mu: int) -> FixMatch:
    """FixMatch with the optimiser of dynamicAL."""
    return FixMatch(steps=steps, batch=batch, mu=mu, optimiser="adam", lr=0.001, weight_decay=0.0, schedule="constant")


FIXMATCH = At(fixmatch_by_adam(280 * 44, 128, 7), fixmatch_by_adam(150, 25, 2), fixmatch_by_adam(10, 8, 2))
SETTINGS = [
    (semi, retrained, chosen) for semi in (False, True) for retrained in (False, True) for chosen in (False, True)
]


def with_pseudo_labels(semi: bool, retrained: bool, chosen: bool) -> Fields:
    """A panel: how the network that gives the pseudo-labels is trained, and from which labels it starts."""
    learner, network = ("FixMatch" if semi else "supervised"), ("retrained" if retrained else "continued")
    return {
        "group": f"{learner}, {network}, {'chosen' if chosen else 'random'} start",
        "data": At(Data(name="cifar10"), DIGITS, TINY),
        "net": At("resnet-18", "small-cnn"),
        "net_options": At((("dropout", 0.5),), (("dropout", 0.1),)),
        "learner": FIXMATCH if semi else adam(25, retrained),
        "start": At(500, 40, 20),
        "start_by": TypiClust() if chosen else "random",
        "counts": At(tuple(range(500, 3001, 500)), (40, 70, 100), (20, 40)),
        "fresh": "new" if retrained else False,
        "augment": semi,
        "measures": (UnlabelledAccuracy(),),
    }


dynamical = Preset(
    name="outlook.dynamical",
    title="dynamicAL, appendix F: better pseudo-labels by semi-supervised training, a chosen start, or certainty",
    rows=grid(
        At(
            full=[with_pseudo_labels(*setting) for setting in SETTINGS],
            smoke=[with_pseudo_labels(*setting) for setting in (SETTINGS[0], SETTINGS[-1])],
        ),
        {"random": Random(), "dynamical": DynamicAL(), "dynamical, certain": Certain(of=DynamicAL())},
    ),
    protocol=At(
        full="CIFAR-10 and ResNet-18: 500 labels, then 500 per round to 3,000; otherwise as below, FixMatch 12,320 steps of "
        "128 + 896.",
        small="The 1,397 digits, 400 for test; a small CNN with dropout (.1); 40 labels, then 30 per round to 100; 5 paired "
        "seeds. Supervised: dynamicAL's training (Adam at .001, no augmentation, to a training accuracy of .97). FixMatch: "
        "150 steps of 25 + 50 by the same Adam, with augmentation. The network is continued from round to round, or "
        "retrained from new weights. The start is random, or chosen by TypiClust from the pixels. “Certain”: dynamicAL "
        "among the items whose pseudo-label is certain as in UPS (probability of .7, standard deviation of .05 over 10 "
        "passes with dropout).",
        smoke=smoke("a small network, 10 to 20 steps"),
    ),
    open_points=(
        "The appendix names directions, not experiments: all settings are ours.",
        "UPS keeps the certain pseudo-labels for training. DynamicAL uses them to choose only, so here an item is a "
        "candidate if its pseudo-label is certain, and the others come after all of these.",
        "Retrained, supervised training ends above a training accuracy of .99, as in the paper's tables 11 and 12. "
        "Continued, FixMatch has trained for as many times its steps as there were rounds.",
    ),
    metrics=("test_accuracy", "unlabelled_accuracy"),
    figures=({"kind": "curves"}, {"kind": "curves", "metric": "unlabelled_accuracy"}, {"kind": "win_loss"}),
    claims="Semi-supervised training, a properly selected initial set and uncertainty-aware pseudo-labels would improve "
    "dynamicAL.",
    comparable=False,
)


# --- labels that outlive the model ------------------------------------------------------------------------------------


class Model(NamedTuple):
    """What chooses labels, or is trained on those that another chose."""

    net: Any
    learner: Learner


def models(scale: str) -> dict[str, Model]:
    """Four kinds; the last one chooses nothing."""
    if scale == "smoke":
        few, raw = Supervised(steps=5, batch=32), Frozen(backbone="raw", weak=0, strong=0)
        return {
            "linear head": Model(raw, few),
            "MLP": Model("mlp", few),
            "CNN": Model("small-cnn", few),
            "label propagation": Model(raw, LabelPropagation()),
        }
    steps, cnn = (200, "small-cnn") if scale == "small" else (2000, "wrn-28-2")
    return {
        "linear head": Model(Frozen(backbone="efficientnet-lite0", weak=0, strong=0), Supervised(steps=200, batch=32)),
        "MLP": Model("mlp", Supervised(steps=steps, batch=32)),
        "CNN": Model(cnn, Supervised(steps=steps, batch=16)),
        "label propagation": Model(
            Frozen(backbone="efficientnet-lite2", weak=0, strong=0, size=128), LabelPropagation()
        ),
    }


def chosen_by(scale: str) -> Fields:
    """Random labels, and those that each model but the last chooses by two strategies; all four models learn from them."""

    def row(chooser: str, strategy: Any) -> Fields:
        own, others = known[chooser], {name: Successor(**m._asdict()) for name, m in known.items() if name != chooser}
        return {
            "strategy": strategy,
            "net": own.net,
            "learner": own.learner,
            "learner_name": chooser,
            "value": tuple(others.items()),
        }

    known = models(scale)
    choosers = list(known)[:-1]
    out = {"random": row(choosers[0], Random())}
    for name, strategy in {"margin": Margin(), "askless": Askless()}.items():
        out |= {f"{name} by {chooser}": row(chooser, strategy) for chooser in choosers}
    return out


def panel(group: str, data: Data, counts: tuple[int, ...]) -> Fields:
    return {"group": group, "data": data, "start": counts[0], "start_by": "random", "fresh": "new", "counts": counts}


successors = Preset(
    name="outlook.successors",
    title="Labels that outlive the model: chosen with one, valued by four",
    rows=grid(
        At(
            [
                panel("CIFAR-10", Data(name="cifar10"), (100, 300, 700, 1500)),
                panel("Fashion-MNIST", Data(name="fashion-mnist"), (100, 300, 700, 1500)),
            ],
            [
                panel("digits", DIGITS, (20, 60, 140)),
                panel("Fashion-MNIST", Data(name="fashion-mnist", items=3000, test=1000), (20, 60, 140)),
            ],
            [panel("digits", TINY, (20, 40))],
        ),
        At(**{scale: chosen_by(scale) for scale in ("full", "small", "smoke")}),
    ),
    protocol=At(
        full="All of CIFAR-10 and Fashion-MNIST, a WRN-28-2 as CNN, it and the MLP trained for 2,000 steps; otherwise as "
        "below, 100 to 1,500 labels.",
        small="The 1,397 digits (400 for test), and 3,000 images of Fashion-MNIST (1,000 for test). 20 random labels, then "
        "up to 60 and 140, drawn at random or chosen by margin or askless with one of three models: a linear head on "
        "EfficientNet-Lite0 at 128 pixels, an MLP on pixels (200 steps of 32 each), a small CNN from scratch (200 steps of "
        "16). Each set of labels then trains these three, and is propagated on features of EfficientNet-Lite2 at 128 "
        "pixels. New weights in every round; 5 paired seeds.",
        smoke=smoke("a few steps"),
    ),
    open_points=(
        "askless sees the features of the model that chooses: of the linear head the encoder's, of the MLP and the CNN "
        "those of the last layer.",
        "askless is developed on the digits, not on Fashion-MNIST.",
        "Lowell et al. study texts and their networks; the question is theirs, the data and the models are ours.",
    ),
    claims="Labels that one model chose are often no better than random ones for another model (Lowell et al., 2019).",
    comparable=False,
)

PRESETS = (dynamical, successors)
