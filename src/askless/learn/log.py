"""Metrics as they come, as JSON lines."""

import json
import logging
from pathlib import Path

logger = logging.getLogger(__name__)


class Log:
    """Each `add` appends one line of JSON to `path`."""

    def __init__(self, path: str | Path | None, after: int = 0) -> None:
        self.path = None if path is None else Path(path)
        self.after = after  # a resumed training repeats nothing logged before it stopped
        if self.path is not None and self.path.exists():
            last = self.path.read_text(encoding="utf-8").splitlines()[-1:]
            self.after = max([after, *(_step_of(line) for line in last if after)])

    def add(self, numbers: dict[str, float]) -> None:
        if self.path is not None and numbers["step"] > self.after:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(numbers) + "\n")
            except OSError as error:
                logger.warning(
                    "metrics could not be written to %s (%s); training continues without them", self.path, error
                )
                self.path = None


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 0
