"""`Run`: one labelling project on disk. `open` and `advance` are all you need to resume it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from askless.acquire.table import Name
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.locks import held
from askless.base.options import explained
from askless.base.plain import short
from askless.base.rng import drawn_seed
from askless.run.out.label_table import label_rows, write_labels_csv
from askless.run.pictures import Pictures
from askless.run.settings import BACKBONE, Settings, fit_for, read_settings, settings_of
from askless.run.steps.draw import draw_check
from askless.run.steps.embedding import CachedItems, are_whole, view_paths
from askless.run.steps.index import Kind, write_skipped
from askless.run.steps.new_run import make_run, read_source
from askless.run.steps.round_files import (
    Predictions,
    damaged_fit,
    is_cache_whole,
    last_predictions,
    read_map,
    read_predictions,
)
from askless.run.store.answering import Given, answer
from askless.run.store.asking import (
    Desk,
    close_rounds,
    current_round,
    is_anything_open,
    is_asking,
    is_batch_open,
    left_to_choose,
    lose_item,
    open_tasks,
    set_budget,
    take,
    task_of,
    withdraw_batch,
)
from askless.run.store.classes import shown_classes
from askless.run.store.fits import all_fits, last_fitted
from askless.run.store.items import columns_by_path, item_number, item_paths, item_texts, noun, readable_items
from askless.run.store.labels import is_trainable, labels_key
from askless.run.store.progress import progress_of
from askless.run.store.rounds import is_ahead, lacks_reserve
from askless.run.store.schema import RunError
from askless.run.store.store import Store, get_meta, last_event, set_meta
from askless.track import Event, Trail

if TYPE_CHECKING:
    from askless.features.stored import ViewKey
    from askless.learn.learner import Learnt
    from askless.run.steps.one_round import RunPool

Report = Callable[[str, str, int, int], None]  # step, text, done, total
NAME = "state.sqlite"


def quiet(step: str, text: str, done: int, total: int) -> None:
    """Receives progress and ignores it."""


class Run:
    """A labelling project in a folder.

    >>> with open("mails.csv", "w") as file:
    ...     for line in ("text", *(f"{word} number {k}" for k in range(20) for word in ("pill", "lunch"))):
    ...         print(line, file=file)
    >>> run = al.Run.create("mails.csv", "run", classes=["spam", "ham"], budget=10, text="text", net="frozen:tfidf")
    >>> while run.advance():  # index, embed, train, choose: the next missing step, until people are to answer
    ...     pass
    >>> run.tell({item: "spam" for item in run.waiting()})  # waiting: the names of the items to label
    >>> run.is_finished()
    False
    >>> run.close()
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.settings = read_settings(self.folder / "project.toml")
        self.store = Store(self.folder / NAME)
        self._base: RunPool | None = None
        self._made_of: tuple[list[int], dict[ViewKey, Path], bool] | None = None
        self.learnt: Learnt | None = None  # in the last training, from this pool
        self._views: tuple[int, dict[ViewKey, Path], int] | None = None

    def __repr__(self) -> str:
        try:
            with self.store.look() as db:
                far = progress_of(db)
            about = f"{len(self.paths)} {self.noun}s, {far.spent} of {far.budget} labels, by {self.settings.strategy}"
        except Exception:  # one that is closed or damaged prints, too
            about = "closed"
        return f"<Run {self.folder.name}: {about}>"

    # --- make, open, close -------------------------------------------------------------------------------------------

    @classmethod
    @explained("Run.create('photos', 'photos-run', classes=['cat', 'dog'])")
    def create(
        cls,
        source: str | Path,
        folder: str | Path,
        *,
        classes: Sequence[str] = (),
        budget: int = 200,
        check: float = 0.2,
        batch: int = 20,
        strategy: Name = "askless",
        net: str = BACKBONE,
        learner: str = "auto",
        steps: int = 300,
        size: int = 0,
        weights: str = "",
        seed: int | None = 0,
        annotators: int = 1,
        second_opinions: float = 0.0,
        suggestions: Literal["off", "peek", "prefill"] = "off",
        target: float = 0.0,
        price: float = 0.0,
        follow_links: bool = False,
        labels_from_folders: bool = False,
        text: str = "",
        encoding: str = "utf-8",
        track: Sequence[str] = (),
        keys: Mapping[str, str] | None = None,
        command: str = "",
        progress: Callable[[int, int], None] | None = None,
        notes: Callable[[str], None] = lambda text: None,
    ) -> "Run":
        """Create a run on a folder of images, a .csv or .tsv file that lists them, an .npz file, or texts.

        `source`: that folder or file. `budget`: answers that people give in all, in batches of `batch`. `check`: the share
        of the budget for random check images. `net`: "frozen:BACKBONE", or a network that is trained whole in `steps`
        steps, with FixMatch for `learner` "auto". `size`: side in pixels to which images are resized for the model, 0 for
        its default. `weights`: file or folder with the weights of a timm or torchvision backbone. seed=None draws one and
        records it in project.toml.

        `annotators`: how many people answer each item. `second_opinions`: the largest share of the budget for second
        answers to doubtful labels. `suggestions`: whether the page shows the model's guess. `keys`: class -> key on the
        page. `target`: accuracy to reach. `price`: of one answer, in any currency. `track`: trackers of rounds, as texts
        that `askless.track.make` takes.

        `labels_from_folders`: folders are known labels. `follow_links`: read links that leave the folder. `text`: the
        column with the texts, "" for images; `encoding` is theirs. `command`: for the record. `progress(done, total)`
        counts files; `notes` receives remarks about them.

        A bad option, a source without items or a folder with a run raises AsklessError.
        """
        options = {k: v for k, v in locals().items() if k not in ("cls", "source", "folder", "progress", "notes")}
        options |= {"seed": drawn_seed() if seed is None else seed, "keys": dict(keys or {})}
        settings, missing = settings_of(source, options)
        index = read_source(source, settings, progress)
        settings = fit_for(settings, index.kind, index.text)
        said = [missing] if missing and index.kind != "texts" else []
        for text in said + make_run(Path(folder), settings, index):
            notes(text)
        run = cls(folder)
        run.write_views()
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Open an existing run.

        A folder without a run, or one of a newer askless, raises AsklessError.
        """
        return cls(folder)

    def close(self) -> None:
        self.end_trail()
        self.store.close()

    def end_trail(self) -> None:
        """The next event, such as after a larger budget, starts with the run's id again."""
        if "trail" in self.__dict__:
            self.trail.close()
            del self.trail

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def settings_by(self, options: Mapping[str, Any]) -> Settings:
        """The settings that `create` would make from these options on this run's items."""
        settings, _ = settings_of(self.settings.source, options)
        return fit_for(settings, self.kind, settings.text or self.settings.text)

    # --- what is known -----------------------------------------------------------------------------------------------

    @cached_property
    def kind(self) -> Kind:
        kind: Kind = self.meta("kind")
        return kind

    @property
    def noun(self) -> str:
        """The noun for an item: image, text or row."""
        return noun(self.kind)

    def texts(self, items: Sequence[int] | None = None) -> dict[int, str]:
        """The texts of these items, or of all, in a run on texts."""
        with self.store.look() as db:
            return item_texts(db, items)

    @cached_property
    def trail(self) -> Trail:
        """Set the trackers of rounds and trainings. They first receive the run's permanent id, by which they resume."""
        trail, settings = Trail.of(self.settings.track), self.settings
        if trail:
            options = {
                name: getattr(settings, name) for name in ("strategy", "learner", "net", "seed", "batch", "steps")
            }
            about = {"id": self.meta("run"), "items": len(self.paths), **options}
            trail.tell(Event("start", self.folder.name, about={name: str(value) for name, value in about.items()}))
        return trail

    @cached_property
    def paths(self) -> list[str]:
        """The path of every item, by its number."""
        with self.store.look() as db:
            return item_paths(db)

    @cached_property
    def pictures(self) -> Pictures:
        return Pictures(
            kind=self.kind,
            root=Path(self.meta("root")),
            paths=self.paths,
            cache=self.folder / "cache",
            follow_links=self.settings.follow_links,
        )

    def meta(self, name: str, default: Any = None) -> Any:
        with self.store.look() as db:
            return get_meta(db, name, default)

    def waiting(self) -> list[str]:
        """The paths to label now, chosen ones first, without those chosen ahead for the page."""
        with self.store.look() as db:
            return [task.path for task in open_tasks(db)]

    def predictions(self, number: int | None = None) -> Predictions | None:
        """The predictions of a round's model, by default the last, for every item.

        `number`: the round's.
        """
        if number is None:
            with self.store.look() as db:
                number = last_fitted(db)
        return None if number is None else read_predictions(self.folder, number)

    def tell(self, labels: Mapping[str, str], annotator: str = "tell") -> None:
        """Answer waiting items: path -> class name. Stores all of them or, on an error, none.

        `annotator`: whose answers they are.
        """
        if not isinstance(labels, Mapping):
            raise InputError(f"expected labels by path, got {short(labels)}; pass dict(zip(run.waiting(), labels))")
        with self.store.change() as db:
            numbers = {c.name: c.id for c in shown_classes(db)}
            desk = Desk(annotator, "tell")
            for path, name in labels.items():
                if name not in numbers:
                    raise InputError(f"unknown class {name!r}; the classes are {', '.join(numbers) or 'none yet'}")
                item = item_number(db, path)
                if item is None:
                    raise InputError(f"expected a path of the run, got {path!r}; run.waiting() lists those to label")
                if task_of(db, item) is not None:
                    take(db, desk, [item])
                request = f"tell-{time.time_ns()}-{item}"
                answer(db, desk, request, [item], Given(label=numbers[name]), overlap=self.settings.annotators)
        self.write_views()

    # --- the next missing step ---------------------------------------------------------------------------------------

    def advance(self, report: Report = quiet, ahead: bool = True, reserve: bool = False) -> str | None:
        """Run the next missing step and return its name; None if people must answer first or everything is done.
        `report(step, text, done, total)` receives the progress. With `ahead` it also computes what is needed only
        afterwards: the augmented views, for which the first batch does not wait. With `reserve`, as for the page, it also
        chooses items to label while the next model trains.

        Every step writes its files first and its row in the database last, so an interrupted step runs again from the
        start.
        """
        step = self.next_step(ahead, reserve)
        if step is None:
            return None
        from askless.run.steps import choosing_ahead, comparing, embedding, one_round

        steps: dict[str, Callable[[Run, Report], None]] = {
            "embedding": embedding.embed,
            "decoding": embedding.embed,
            "comparing": comparing.compare,
            "closing": close_round,
            "training": one_round.train,
            "choosing": one_round.choose,
            "choosing ahead": choosing_ahead.choose_ahead,
            "reporting": write_report,
        }
        steps[step](self, report)
        return step

    def next_step(self, ahead: bool = True, reserve: bool = False) -> str | None:
        with self.store.look() as db:
            step, after_views = self.due(db, ahead, reserve)
            return "embedding" if after_views and self.lacks_views(db) else step

    def due(self, db: Connection, ahead: bool, reserve: bool = False) -> tuple[str | None, bool]:
        """The next missing step, and whether missing augmented views come before it."""
        if not get_meta(db, "prepared") or not is_cache_whole(self.folder / "cache"):
            return "embedding" if self.settings.frozen and self.kind != "features" else "decoding", False
        if not get_meta(db, "compared") or read_map(self.folder / "cache", len(self.paths)) is None:
            return "comparing", False
        damaged = damaged_fit(db, self.folder)
        if is_batch_open(db):
            again = damaged is not None and is_trainable(db)
            if reserve and not again and lacks_reserve(db):
                return "choosing ahead", False
            return "training" if again else None, ahead or again
        if is_asking(db):
            return "closing", False
        last = all_fits(db).get(current_round(db))
        if is_trainable(db) and (last is None or last.labels_key != labels_key(db) or damaged is not None):
            return "training", True
        if left_to_choose(db) > 0 or is_ahead(db):
            return "choosing", last is not None
        if not is_anything_open(db) and get_meta(db, "reported") != last_event(db):
            return "reporting", False
        return None, False

    def lacks_views(self, db: Connection) -> bool:
        """Whether augmented views for training are still to be embedded. If the images are away, such as on an unmounted
        disk, training works without them. The whole pool is read only if an item may have left it."""
        left = last_event(db, "near_check", "unreadable")
        if self._views is None or self._views[0] != left:
            items = readable_items(db, "pool")
            self._views = left, view_paths(self.folder / "cache", self.settings, items), len(items)
        _, paths, n = self._views
        return not are_whole(paths, n) and not self.is_away()

    def is_finished(self) -> bool:
        """Whether the budget is spent and every step is done."""
        with self.store.look() as db:
            return not is_anything_open(db) and self.due(db, ahead=True)[0] is None

    # --- what the steps need ------------------------------------------------------------------------------------------

    def run_pool(self) -> "RunPool":
        """The pool of all rounds; built once."""
        return self.pool_now() if self._base is None else self._base

    def pool_now(self) -> "RunPool":
        """The pool, built again if items have left it or augmented views have been added since."""
        from askless.run.steps.one_round import run_pool

        with self.store.look() as db:
            items = readable_items(db, "pool")
        views = view_paths(self.folder / "cache", self.settings, items)
        whole = are_whole(views, len(items))
        if self.is_away() and not whole:
            views = {}  # trained on the plain view alone
        if self._base is None or (items, views, whole) != self._made_of:
            self.forget_pool()
            self._base = run_pool(CachedItems(self.folder / "cache"), self.settings, items, views)
            self._made_of = items, views, whole
        return self._base

    def forget_pool(self) -> None:
        """The cache is made again."""
        self._base = self._made_of = self._views = self.learnt = None

    def readable(self, *splits: str) -> np.ndarray:
        """The items that can be read: those of these splits, or all."""
        with self.store.look() as db:
            return np.array(readable_items(db, *splits), np.int64)

    def note(self, name: str, value: Any) -> None:
        with self.store.change() as db:
            set_meta(db, name, value)

    def mark_unreadable(self, item: int, reason: str) -> None:
        """Mark a damaged item: nobody is asked about it, and another check image replaces it. If all images are away, such
        as on an unmounted disk, this marks nothing and raises."""
        self.check_there()
        with self.store.change() as db:
            skipped = lose_item(db, item, reason)
        if skipped:
            write_skipped(skipped, self.folder / "skipped.csv")

    def is_away(self) -> bool:
        """Whether all images are away."""
        root = Path(self.meta("root"))
        return not root.exists() or (root.is_dir() and not any(root.iterdir()))

    def check_there(self) -> None:
        """Raise if all images are away."""
        if self.is_away():
            root = self.meta("root")
            raise RunError(f"the {self.noun}s were at {root}, where nothing is left; put them back, then start again")

    # --- steering ------------------------------------------------------------------------------------------------------

    def set_budget(self, request_id: str, annotator: str, budget: int) -> None:
        """Change the budget; the share of check images stays, as far as held-out ones last."""
        if budget > len(self.paths):
            raise InputError(f"the budget cannot exceed the {len(self.paths)} {self.noun}s of the run, got {budget}")
        wanted = draw_check(len(self.paths), budget, self.settings.check, self.settings.seed).check
        with self.store.change() as db:
            set_budget(db, request_id, annotator, budget, wanted)

    def train_now(self, request_id: str, annotator: str) -> int:
        """Close the batch and withdraw its open items, which may be chosen again; returns their number."""
        with self.store.change() as db:
            return withdraw_batch(db, request_id, annotator)

    # --- what it hands out ----------------------------------------------------------------------------------------------

    def write_views(self) -> None:
        """Write labels.csv and classes.txt, for people and other programs."""
        # The page or the worker, one at a time: else the one that has looked first may be the last to write.
        lock = self.folder / ".views.lock"
        lock.touch(mode=0o600)
        with held(lock, f"{self.folder}: another process is writing labels.csv", seconds=60.0):
            with self.store.look() as db:
                rows = label_rows(db, last_predictions(db, self.folder))
                columns = columns_by_path(db)
                names = [c.name for c in shown_classes(db)]
            write_labels_csv(self.folder / "labels.csv", rows, columns)
            text = "".join(f"{name}\n" for name in names)
            write_whole(self.folder / "classes.txt", lambda file: file.write(text.encode()))
            for name in ("labels.csv", "classes.txt"):
                os.chmod(self.folder / name, 0o600)

    def write_report(self, out: str | Path | None = None) -> Path:
        """Write report.html and report.json, in the run's folder or another one."""
        from askless.run.out.gather import gather
        from askless.run.out.report import write

        if self.store.read_only and out is None:
            raise RunError(f"{self.folder} is read-only; pass --out FOLDER for the report")
        if not self.store.read_only:
            self.write_views()
        return write(gather(self), self.folder if out is None else Path(out), self.thumb)

    def export_model(self, out: str | Path, *, to: str = "model", overwrite: bool = False, final: bool = False) -> Path:
        """Export the last model as a portable folder: weights as safetensors or, with `to="onnx"`, the model as ONNX;
        preprocessing, classes, and a card with the accuracy on check images. With `final` the model is also trained on the
        check images, and the card has the accuracy from before."""
        from askless.run.out.model import export_model

        return export_model(self, Path(out), to, overwrite, final)

    def thumb(self, item: int) -> bytes | None:
        try:
            return self.pictures.thumb(item)[0]
        except Exception:  # a picture that is gone must not cost the report
            return None


def close_round(run: Run, report: Report) -> None:
    with run.store.change() as db:
        close_rounds(db)


def write_report(run: Run, report: Report) -> None:
    report("reporting", "Writing the report", 0, 1)
    with run.store.look() as db:
        seen = last_event(db)
    run.write_report()
    run.note("reported", seen)
    run.end_trail()
    report("reporting", "Writing the report", 1, 1)
