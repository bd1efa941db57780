"""What a terminal shows: text that cannot control it, and progress bars; no bars where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unicodedata import category

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.status import Status
from rich.text import Text

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # they reorder what follows
SHOWN = ("loss", "labelled", "unlabelled", "kept", "validation")  # of the numbers of a training step


def visible(text: str) -> str:
    """The text with every character that could control a terminal written out. Lines and tabs stay.

    >>> print(visible("a\\x1b[31mb"))
    a\\x1b[31mb
    """

    def is_plain(c: str) -> bool:
        return c in "\n\t" or (category(c) not in ("Cc", "Cs", "Zl", "Zp") and c not in BIDI)

    if text.isascii() and text.isprintable():
        return text
    return "".join(c if is_plain(c) else c.encode("unicode_escape").decode() for c in text)


class Screen(Console):
    """A console for text from anywhere: names of files and classes are never read as markup, nor control the terminal."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:  # every string on its way to the terminal, cells included
        return super().render_str(visible(text), **options)

    def status(self, status: Any, **options: Any) -> Status:
        return super().status(Text(visible(status)), **options)

    def write(self, text: str) -> None:
        """Data: as it is into a file or a pipe, `visible` on a terminal."""
        self.file.write(visible(text) if self.file.isatty() else text)


out, notes = Screen(), Screen(stderr=True)


@contextmanager
def progress_bar(text: str, console: Console = notes) -> Iterator[Callable[..., None]]:
    """A function (done, total, latest="") that moves the bar and shows the latest news beside it; the bar goes away at the
    end."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[latest]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(visible(text), total=None, latest="")

        def move(done: float, total: int, latest: str = "") -> None:
            bar.update(task, completed=done, total=total, latest=visible(latest))

        yield move


@contextmanager
def training_bar(text: str, console: Console = notes) -> Iterator[Callable[[int, int, dict[str, float]], None]]:
    """A function (done, total, numbers) that moves the bar and shows the latest numbers beside it."""
    with progress_bar(text, console) as move:
        yield lambda done, total, numbers: move(
            done, total, "  ".join(f"{name} {numbers[name]:.3f}" for name in SHOWN if name in numbers)
        )
