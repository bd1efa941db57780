"""Metrics as they come: JSON lines, and TensorBoard where it is installed."""

import json
from pathlib import Path
from typing import Any

from askless.errors import AsklessError


class Log:
    """Each `add` appends one line of JSON to `path`, and one point per number to the TensorBoard folder."""

    def __init__(self, path: str | Path | None, tensorboard: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
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
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(numbers) + "\n")
        if self.writer is not None:
            for name, value in numbers.items():
                if name != "step":
                    self.writer.add_scalar(name, value, int(numbers["step"]))
            self.writer.flush()
