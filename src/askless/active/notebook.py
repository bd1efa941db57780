"""`ActiveLearner.label`: a batch in a notebook, one item at a time, with a button for each class."""

from dataclasses import dataclass, field
from typing import Any

from askless.acquire.notebook import content, name, reason, thumbnail
from askless.active.tracking import measured
from askless.base.errors import AsklessError
from askless.base.machine import required
from askless.report.markup import Markup, markup, tag
from askless.report.page import terms

SIDE, LETTERS, NUMBERS = 256, 20_000, 60  # pixels of a picture, letters of a text, numbers of a row
TEXT = "white-space:pre-wrap; max-width:50em; max-height:30em; overflow:auto"


@dataclass
class Batch:
    """What `label(n)` asked for: why each item, and which were answered in the notebook, in the order of the clicks."""

    n: int
    reasons: dict[int, str]
    answered: list[int] = field(default_factory=list)


class Labelling:
    """The widget `box`. The learner keeps the batch and every answer; only the item that is shown is known here."""

    def __init__(self, learner: Any, n: int) -> None:
        self.widgets = required("ipywidgets", "notebook")
        self.learner, self.n = learner, n
        self.head, self.item, self.said = (self.widgets.HTML() for _ in range(3))
        self.answers = [self.button(name, lambda c=c: self.answer(c)) for c, name in enumerate(learner.class_names)]
        self.skip = self.button("Skip", lambda: self.answer(None))
        self.undo = self.button("Undo", self.take_back)
        self.next = self.button(f"Train, and ask for {n} more", self.proceed)
        row = self.widgets.HBox
        classes = row(self.answers, layout=self.widgets.Layout(flex_flow="row wrap"))
        self.while_open = (self.head, self.item, classes, row([self.skip, self.undo]), self.said)
        self.when_done = (self.head, row([self.next, self.undo]), self.said)
        self.box = self.widgets.VBox()
        self.resume()
        self.show()

    def button(self, text: str, action: Any) -> Any:
        made = self.widgets.Button(description=text, layout=self.widgets.Layout(width="auto"))
        made.on_click(lambda _: action())
        return made

    # --- what happens ----------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Takes up the unfinished batch of n, or asks for a new one."""
        learner = self.learner
        if learner.batch is None or learner.batch.n != self.n or not waiting(learner, learner.batch):
            learner.batch = Batch(self.n, {})
            if n := min(self.n, unanswered(learner)):
                picks = learner.ask(n, exclude=sorted(learner.skipped))
                learner.batch.reasons |= {i: reason(picks, k) for k, i in enumerate(picks)}
        self.batch: Batch = learner.batch

    def answer(self, c: int | None) -> None:
        """Class c, or None to skip, for the item that is shown, if nobody answered it elsewhere in the meantime."""
        if self.shown in waiting(self.learner, self.batch):
            if c is None:
                self.learner.skipped.add(self.shown)
            else:
                self.learner.tell([self.shown], [c])
            self.batch.answered.append(self.shown)
        self.show()

    def take_back(self) -> None:
        if self.can_take_back():
            self.learner.forget(self.batch.answered.pop())
        self.show()

    def can_take_back(self) -> bool:
        return bool(self.batch.answered) and self.learner.can_forget(self.batch.answered[-1])

    def proceed(self) -> None:
        said = ""
        try:
            if self.learner.labels and not waiting(self.learner, self.batch):  # else a second click, while it trained
                self.say("Training…")
                self.learner.fit(watch=lambda done, total, _: self.say(f"Training: {100 * done // total} %"))
                said = in_words(len(self.learner.labels), measured(self.learner))
            self.resume()
        except AsklessError as error:
            said = str(error)
        self.show(said)

    # --- what is seen ----------------------------------------------------------------------------------------------

    def show(self, said: str = "") -> None:
        """The next item, or what was done."""
        learner, left, many = self.learner, waiting(self.learner, self.batch), len(self.batch.reasons)
        self.shown = left[0] if left else None
        self.undo.disabled = not self.can_take_back()
        self.next.disabled = not unanswered(learner)
        self.box.children = self.when_done if self.shown is None else self.while_open
        self.say(said)
        if self.shown is not None:
            why = self.batch.reasons[self.shown]
            place = tag("b", f"{many - len(left) + 1} of {many}")
            self.head.value = markup(place, f" · item {name(learner.pool, self.shown)}", f" · {why}" if why else "")
            self.item.value = picture_of(learner.pool, self.shown)
            return
        skipped = sum(i in learner.skipped for i in self.batch.reasons)
        done = f"{many - skipped} of {many} labelled, {skipped} skipped." if many else ""
        self.head.value = markup(done, "" if unanswered(learner) else " No item is left to label.")

    def say(self, text: str) -> None:
        self.said.value = markup(text)


def waiting(learner: Any, batch: Batch) -> list[int]:
    """The batch's items without an answer, in the order in which they were asked for."""
    return [i for i in batch.reasons if i not in learner.labels and i not in learner.skipped]


def unanswered(learner: Any) -> int:
    """How many items of the pool have neither a label nor been skipped."""
    return len(learner.pool) - len(learner.labels) - len(learner.skipped)


def picture_of(pool: Any, i: int) -> Markup:
    """An item as a person can tell its class: the picture, the text or the row, with what else a manifest said of it."""
    about = terms({column: values[i] for column, values in pool.columns.items()})
    if pool.kind == "image":
        return markup(thumbnail(pool, i, SIDE), about)
    return markup(tag("div", content(pool, i, LETTERS, NUMBERS), style=TEXT), about)


def in_words(labels: int, numbers: dict[str, float]) -> str:
    """
    >>> in_words(20, {"test_accuracy": 0.8125})
    'Trained on 20 labels. Accuracy on the held-out test: 81.2 %.'
    """
    said = f"Trained on {labels} labels."
    if "test_accuracy" in numbers:
        said += f" Accuracy on the held-out test: {100 * numbers['test_accuracy']:.1f} %."
    if "check_accuracy" in numbers:
        said += f" Accuracy on {numbers['check_n']} random items: {100 * numbers['check_accuracy']:.1f} %."
    return said
