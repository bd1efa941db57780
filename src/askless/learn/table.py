"""The learners by name."""

from typing import Any, NamedTuple

from askless.base.errors import OptionError, unknown
from askless.learn.fixmatch import FixMatch
from askless.learn.label_propagation import LabelPropagation
from askless.learn.learner import Learner, check_learner
from askless.learn.mean_teacher import MeanTeacher
from askless.learn.pi_model import PiModel
from askless.learn.supervised import Supervised


class Info(NamedTuple):
    """`views`: how many weak and strong ones of each image a run embeds for it, where its backbone is frozen."""

    make: type
    paper: str
    learns_from: str
    views: tuple[int, int]


LEARNERS: dict[str, Info] = {
    "fixmatch": Info(FixMatch, "Sohn et al. 2020", "all items", (1, 2)),
    "supervised": Info(Supervised, "-", "labelled items", (1, 0)),
    "mean-teacher": Info(MeanTeacher, "Tarvainen & Valpola 2017", "all items", (2, 0)),
    "pi-model": Info(PiModel, "Laine & Aila 2017", "all items", (2, 0)),
    "label-propagation": Info(LabelPropagation, "Zhou et al. 2003", "all items, on feature vectors", (0, 0)),
}


def make(name: str, /, **options: Any) -> Learner:
    """The learner called `name` with these options.

    >>> make("fixmatch", steps=500).steps
    500
    """
    if name not in LEARNERS:
        raise OptionError(unknown("learner", name, LEARNERS))
    made: Learner = LEARNERS[name].make(**options)
    return made


def as_learner(given: "str | Learner") -> Learner:
    """A learner, or the one of this name with its defaults."""
    return make(given) if isinstance(given, str) else check_learner(given)
