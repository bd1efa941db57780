"""A labelling project on disk: what is asked, what was answered, what was made of it."""

from askless.project.model import Classifier, load
from askless.project.run import Run
from askless.project.schema import RunError
from askless.project.settings import Settings

__all__ = ["Classifier", "Run", "RunError", "Settings", "load"]
