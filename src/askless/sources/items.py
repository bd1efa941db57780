"""What every source gives: items, and what was left out and why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["files", "encoded", "images", "features", "texts"]


class Item(NamedTuple):
    """One item. `content` is what its source's kind says: the path of an image file, the bytes of one, the place of a row in
    `array`, a row of features, or a text. `label` and `split` are "" where unknown. `size` is that of a file in bytes;
    `width` and `height` are those of the picture as it will be shown, 0 until somebody has looked."""

    id: str
    content: Any
    label: str = ""
    split: str = ""
    columns: Mapping[str, str] = {}
    size: int = 0
    width: int = 0
    height: int = 0


class Skipped(NamedTuple):
    """What was not taken and why. problem: "outside", "link", "missing", "unreadable", "name" or "duplicate"."""

    path: str
    problem: str
    reason: str


@dataclass(frozen=True)
class Source:
    """What a user pointed at. `found` can be gone through once, and reads as it goes.

    `kind`: "files" of images, "encoded" ones inside another file, "images" and "features" that are numbers already, or
    "texts". `root` is the folder that files must stay inside, or the file. `test` is the split that is held out. `classes`
    are those that the source itself names, in its order. `hints` are sentences for the user. `column` is that of the texts.
    `array` has the rows of a file of arrays (numpy's), on disk where they can stay there.
    """

    kind: Kind
    root: Path
    found: Iterable[Item | Skipped]
    test: str = "test"
    classes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    column: str = ""
    array: Any = None

    def read(self) -> tuple[list[Item], list[Skipped]]:
        found = list(self.found)
        return [each for each in found if isinstance(each, Item)], [each for each in found if isinstance(each, Skipped)]


def first_of(skipped: list[Skipped]) -> str:
    """The end of an error that says that nothing is left."""
    return "".join(f"; {len(skipped)} left out, the first, {path}: {reason}" for path, _, reason in skipped[:1])
