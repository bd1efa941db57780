"""A labelling project on disk: what is asked, what was answered, what was made of it."""

from askless.run.run import Run
from askless.run.settings import Settings
from askless.run.store.schema import RunError

__all__ = ["Run", "RunError", "Settings"]
