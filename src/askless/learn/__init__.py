"""Learners: training schemes on labelled and unlabelled data, and the pure functions they are made of."""

from askless.learn.auto import Auto
from askless.learn.checkpoint import CheckpointError
from askless.learn.darp import darp, estimate_target
from askless.learn.fixmatch import DARP, FixMatch
from askless.learn.label_propagation import LabelPropagation
from askless.learn.learner import Course, Learner, Learnt, Task
from askless.learn.mean_teacher import MeanTeacher
from askless.learn.pi_model import PiModel
from askless.learn.rate import admissible_rate
from askless.learn.supervised import Supervised
from askless.learn.table import LEARNERS, as_learner, make
from askless.learn.training import Training, TrainingError

__all__ = [
    # learners
    "Auto",
    "Supervised",
    "FixMatch",
    "DARP",
    "MeanTeacher",
    "PiModel",
    "LabelPropagation",
    "Learner",
    "LEARNERS",
    "make",
    "as_learner",
    # training
    "Task",
    "Course",
    "Learnt",
    "Training",
    "TrainingError",
    "CheckpointError",
    # functions
    "darp",
    "estimate_target",
    "admissible_rate",
]
