"""Label Studio: the batch goes there as tasks, the answers come back into the run; by its server or by files."""

from askless.label.labelstudio.annotations import Taken, take_annotations
from askless.label.labelstudio.batch import Images
from askless.label.labelstudio.checking import check
from askless.label.labelstudio.client import Client, LabelStudioError
from askless.label.labelstudio.exchange import pull, push, read_export, write_tasks

__all__ = [
    "Client",
    "Images",
    "LabelStudioError",
    "Taken",
    "check",
    "pull",
    "push",
    "read_export",
    "take_annotations",
    "write_tasks",
]
