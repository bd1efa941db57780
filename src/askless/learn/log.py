"""Metrics as they come: JSON lines, and TensorBoard where it is installed."""

import json
import logging
from pathlib import Path
from typing import Any

from askless.errors import AsklessError

logger = logging.getLogger(__name__)


class Log:
    """Each `add` appends one line of JSON to `path`, and one point per number to the TensorBoard folder."""

    def __init__(self, path: str | Path | None, tensorboard: str | Path | None = None, after: int = 0) -> None:
        self.path = None if path is None else Path(path)
        self.after = after  # a training that goes on repeats nothing that was logged before it stopped
        if self.path is not None and self.path.exists():
            last = self.path.read_text(encoding="utf-8").splitlines()[-1:]
            self.after = max([after, *(_step_of(line) for line in last if after)])
        self.writer: Any = None
        if tensorboard is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise AsklessError(
                    f"TensorBoard cannot be imported ({error}); run `pip install askless[tensorboard]`, or leave it out"
                ) from None
            self.writer = SummaryWriter(str(tensorboard))

    def add(self, numbers: dict[str, float]) -> None:
        if self.path is not None and numbers["step"] > self.after:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(numbers) + "\n")
            except OSError as error:
                logger.warning("metrics could not be written to %s (%s); training goes on without", self.path, error)
                self.path = None
        if self.writer is not None:
            for name, value in numbers.items():
                if name != "step":
                    self.writer.add_scalar(name, value, int(numbers["step"]))
            self.writer.flush()


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 0
