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
    make: type
    paper: str
    learns_from: str


LEARNERS: dict[str, Info] = {
    "fixmatch": Info(FixMatch, "Sohn et al. 2020", "all items"),
    "supervised": Info(Supervised, "-", "labelled items"),
    "mean-teacher": Info(MeanTeacher, "Tarvainen & Valpola 2017", "all items"),
    "pi-model": Info(PiModel, "Laine & Aila 2017", "all items"),
    "label-propagation": Info(LabelPropagation, "Zhou et al. 2003", "all items, on feature vectors"),
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
