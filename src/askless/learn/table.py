"""The learners by name."""

from typing import Any

from askless.base.errors import InputError, OptionError, unknown
from askless.base.plain import short
from askless.learn.auto import Auto
from askless.learn.fixmatch import FixMatch
from askless.learn.label_propagation import LabelPropagation
from askless.learn.learner import Learner
from askless.learn.mean_teacher import MeanTeacher
from askless.learn.pi_model import PiModel
from askless.learn.supervised import Supervised

LEARNERS: dict[str, Any] = {  # name -> its class
    "auto": Auto,
    "fixmatch": FixMatch,
    "supervised": Supervised,
    "mean-teacher": MeanTeacher,
    "pi-model": PiModel,
    "label-propagation": LabelPropagation,
}


def make(name: str, /, **options: Any) -> Learner:
    """The learner called `name` with these options.

    >>> make("fixmatch", steps=500).steps
    500
    """
    if name not in LEARNERS:
        raise OptionError(unknown("learner", name, LEARNERS))
    made: Learner = LEARNERS[name](**options)
    return made


def as_learner(given: "str | Learner") -> Learner:
    """A learner, or the one of this name with its defaults.

    `given`: a name, or a learner, which comes back as it is. An unknown name raises OptionError.

    >>> as_learner("fixmatch")
    FixMatch()
    """
    if isinstance(given, str):
        return make(given)
    if isinstance(given, type) or not isinstance(given, Learner):
        if hasattr(given, "predict"):
            todo = "wrap a scikit-learn classifier as ActiveClassifier(it)"
        else:
            todo = f"pass one of {', '.join(map(repr, LEARNERS))}, or such an object"
        raise InputError(f"expected a learner such as FixMatch(steps=500), got {short(given)}; {todo}")
    return given
