"""Which learner to take: all of them on the same labels, drawn at random or chosen by askless, of pools of many kinds."""

from typing import Any

from askless.acquire import Askless, Random
from askless.bench.measures import Calibration, UnlabelledAccuracy
from askless.bench.plan import Data
from askless.bench.presets.common import TINY, At, Fields, Preset, grid, smoke
from askless.bench.presets.pools import Embedded, Measured, Written
from askless.learn import DARP, Auto, FixMatch, LabelPropagation, MeanTeacher, PiModel, Supervised

COUNTS = (10, 20, 40, 100, 200, 400)
IMAGE_ENCODERS: dict[str, Fields] = {
    "Lite0 at 128": {"backbone": "efficientnet-lite0"},
    "Lite2 at 224": {"backbone": "efficientnet-lite2", "size": 224},
}
TEXT_ENCODERS = {"words": "tfidf", "words and sentences": "tfidf+minilm"}
IMAGES: dict[str, Fields] = {
    "CIFAR-10": {"name": "cifar10"},
    "CIFAR-10, long-tailed": {"name": "cifar10", "tail": 50},
    "Fashion-MNIST": {"name": "fashion-mnist"},
    "groceries": {"name": "groceries"},
}
TEXTS = {"Rotten Tomatoes": "rotten-tomatoes", "R8": "r8", "R52": "r52", "20 Newsgroups": "20newsgroups"}
TABLES = {"letter": "letter", "satimage": "satimage", "texture": "texture", "spambase": "spambase"}
FULL_ONLY = ("Fashion-MNIST", "R8", "20 Newsgroups", "satimage", "texture")  # the other eight fit an afternoon


def training(kind: Any, **options: Any) -> At:
    return At(full=kind(steps=300, batch=32, **options), smoke=kind(steps=5, batch=32, **options))


OTHERS = (
    ("label propagation", LabelPropagation()),
    ("supervised", At(full=Supervised(steps=200, batch=32), smoke=Supervised(steps=5, batch=32))),
    ("fixmatch", training(FixMatch, mu=4)),
    ("fixmatch+darp", training(FixMatch, mu=4, darp=DARP(every=20))),
    ("mean teacher", training(MeanTeacher)),
    ("pi-model", training(PiModel)),
)


def drawn(scale: str, **given: Any) -> Data:
    """3,000 items and 1,000 for test; at full scale all there are."""
    return Data(**given) if scale == "full" else Data(items=3000, test=1000, **given)


def panel(group: str, data: object, net: str = "linear", counts: tuple[int, ...] = COUNTS) -> Fields:
    return {
        "group": group,
        "data": data,
        "net": net,
        "learner": Auto(),
        "value": OTHERS,
        "counts": counts,
        "measures": (UnlabelledAccuracy(), Calibration()),
    }


def panels(scale: str) -> list[Fields]:
    out = []
    for pool, given in IMAGES.items():
        small = pool == "groceries"  # 732 photographs
        for encoder, options in IMAGE_ENCODERS.items():
            data = Embedded(data=Data(**given) if small else drawn(scale, **given), **options)
            out.append(panel(f"{pool}, {encoder}", data, counts=COUNTS[:5] if small else COUNTS))
    for pool, name in TEXTS.items():
        for encoder, backbone in TEXT_ENCODERS.items():
            out.append(panel(f"{pool}, {encoder}", Written(data=drawn(scale, name=name), backbone=backbone)))
    for pool, name in TABLES.items():
        out.append(panel(pool, Measured(data=drawn(scale, name=name)), "waves"))
    out.append(panel("digits", Measured(data=Data(name="digits")), "waves"))
    return out if scale == "full" else [row for row in out if not str(row["group"]).startswith(FULL_ONLY)]


learners = Preset(
    name="learners",
    title="Which learner to take: 10 to 400 labels of images, texts and tables",
    rows=grid(
        At(panels("full"), panels("small"), [panel("digits", Measured(data=TINY), "waves", COUNTS[:2])]),
        {"random labels": Random(), "chosen labels": Askless()},
    ),
    seeds=(10, 10),
    protocol=At(
        full="13 complete pools: also Fashion-MNIST, R8, 20 Newsgroups, satimage and texture; otherwise as below.",
        small="8 pools, 3,000 items of each and 1,000 test items; groceries 732 + 661, digits 1,397 + 400. Images by "
        "EfficientNet-Lite0 at 128 pixels and Lite2 at 224, texts by TF-IDF and by TF-IDF beside MiniLM, tables by their "
        "columns; a linear head, on tables with random cosines. CIFAR-10, long-tailed: the first class 50 times as "
        "frequent as the last, the test balanced. Labels from none, in batches up to 10, 20, 40, 100, 200 and 400: "
        "drawn at random, or chosen by askless, which looks at what auto learnt from the earlier ones. Every learner "
        "learns from the same labels. Accuracy is measured on the unlabelled items of the pool.",
        smoke=smoke("their pixels as columns, a few steps"),
    ),
    open_points=(
        "auto was developed on two seeds of these same pools; nothing was chosen per pool, and eight of the ten seeds "
        "here are others.",
        "The other learners have the options that their own tables use: 300 steps of 32 labelled items (supervised 200), "
        "and views of features with Gaussian noise.",
        "Rows are learners and each set of labels is a panel: auto is compared with the others on the same labels.",
    ),
    baseline="auto",
    metrics=("unlabelled_accuracy", "test_accuracy", "calibration_error"),
    figures=({"kind": "curves", "log_x": True}, {"kind": "critical_difference"}, {"kind": "win_loss"}),
    across="learners",
    comparable=False,
)

PRESETS = (learners,)
