"""`Run`: one labelling project on disk. `open` and `advance` are all that a resume needs."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import InputError, OptionError
from askless.base.files import replace_folder, write_whole
from askless.base.locks import held
from askless.run.nouns import noun
from askless.run.out.export import write_labels_csv
from askless.run.pictures import Pictures
from askless.run.settings import TEXT_BACKBONE, Settings, read_settings, toml, with_backbone_here
from askless.run.steps.draw import draw_check
from askless.run.steps.index import Index, Kind, write_skipped
from askless.run.steps.making import make_run, read_source
from askless.run.steps.rounds import (
    Predictions,
    damage_of_fit,
    is_whole,
    list_files,
    read_map,
    read_predictions,
    round_folder,
)
from askless.run.steps.tracking import round_event, start_event
from askless.run.store import facts
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk, take
from askless.run.store.classes import all_classes, is_shown
from askless.run.store.labels import columns_by_path, label_rows, last_predictions
from askless.run.store.schema import RunError
from askless.run.store.store import Store, get_meta, now, record, set_meta
from askless.sources import Skipped, read_arrays
from askless.sources.names import is_text, printable
from askless.track import Event, Trail, settled

if TYPE_CHECKING:
    from askless.run.steps.training import RunPool

Report = Callable[[str, str, int, int], None]  # step, text, done, total
NAME = "state.sqlite"
OPEN = "SELECT 1 FROM task WHERE state = 'open' AND kind = 'train' LIMIT 1"
WRITTEN = ("labels.csv", "classes.txt", "skipped.csv", "project.toml", "model/model.safetensors", "model/config.json")


def quiet(step: str, text: str, done: int, total: int) -> None:
    """Where nobody is told."""


class Run:
    """A run's folder, opened.

    run = Run.create("photos", "photos-run", classes=["cat", "dog"], budget=200)
    while run.advance():      # index, embed, train, choose: the next missing step, until people are to answer
        pass
    run.waiting()             # items that are to be labelled
    run.tell({"a.jpg": "cat", "b.jpg": "dog"})
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.settings = read_settings(self.folder / "project.toml")
        self.store = Store(self.folder / NAME)
        self._base: RunPool | None = None

    # --- make, open, close -------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        source: str | Path,
        folder: str | Path,
        *,
        progress: Callable[[int, int], None] | None = None,
        notes: Callable[[str], None] = lambda text: None,
        **options: Any,
    ) -> "Run":
        """A new run on a folder of images, a .csv or .tsv that lists them, an .npz, or texts; options are those of
        `Settings`."""
        settings, missing = settings_of(source, options)
        index = read_source(source, settings, progress)
        return cls.of_index(index, folder, settings, notes=notes, first_note=missing)

    @classmethod
    def of_index(
        cls,
        index: Index,
        folder: str | Path,
        settings: Settings,
        *,
        notes: Callable[[str], None] = lambda text: None,
        first_note: str = "",
    ) -> "Run":
        settings = fit_for(settings, index.kind, index.text)
        first_note = "" if index.kind == "texts" else first_note
        for text in filter(None, [first_note, *make_run(Path(folder), settings, index)]):
            notes(text)
        run = cls(folder)
        run.write_views()
        return run

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """A run that is there, as it was left."""
        return cls(folder)

    def close(self) -> None:
        self._end_trail()
        self.store.close()

    def _end_trail(self) -> None:
        """What is told later, as after a larger budget, begins with the run's id again."""
        if "trail" in self.__dict__:
            self.trail.close()
            del self.trail

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def settings_by(self, options: Mapping[str, Any]) -> Settings:
        """The settings that a run on this one's items would get from options of `create`."""
        settings, _ = settings_of(self.settings.source, options)
        return fit_for(settings, self.kind, settings.text or self.settings.text)

    # --- what is known -----------------------------------------------------------------------------------------------

    @cached_property
    def kind(self) -> Kind:
        kind: Kind = self.meta("kind")
        return kind

    @property
    def noun(self) -> str:
        """What one item is called."""
        return noun(self.kind)

    def texts(self, items: Sequence[int] | None = None) -> dict[int, str]:
        """The texts of these items, or of all, in a run on texts."""
        column = self.meta("text")
        with self.store.look() as db:
            if items is None:
                rows = db.execute("SELECT id, columns FROM item ORDER BY id").fetchall()
            else:
                rows = [db.execute("SELECT id, columns FROM item WHERE id = ?", (i,)).fetchone() for i in items]
        return {row["id"]: json.loads(row["columns"])[column] for row in rows if row is not None}

    @cached_property
    def trail(self) -> Trail:
        """Who is told how rounds and trainings go; the first they hear is which run this is."""
        trail = Trail.of(self.settings.track)
        if trail:
            trail.tell(start_event(self))
        return trail

    @cached_property
    def paths(self) -> list[str]:
        """The path of every item, by its number."""
        with self.store.look() as db:
            return [row["path"] for row in db.execute("SELECT path FROM item ORDER BY id")]

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
        """The paths that are to be labelled now, chosen ones first."""
        with self.store.look() as db:
            rows = db.execute(
                "SELECT i.path FROM task t JOIN item i ON i.id = t.item WHERE t.state = 'open' "
                "ORDER BY t.kind DESC, t.skips, t.round, t.rank"
            )
            return [row["path"] for row in rows]

    def predictions(self, number: int | None = None) -> Predictions | None:
        """What the model of a round, by default the last, says of every item."""
        if number is None:
            with self.store.look() as db:
                number = db.execute("SELECT max(round) FROM fit").fetchone()[0]
        return None if number is None else read_predictions(self.folder, number)

    def tell(self, labels: dict[str, str], annotator: str = "tell") -> None:
        """Answers for items that are waiting: path -> class name. All of them are taken, or with an error none."""
        with self.store.change() as db:
            numbers = {c.name: c.id for c in all_classes(db) if is_shown(c)}
            desk = Desk(annotator, "tell")
            for path, name in labels.items():
                if name not in numbers:
                    raise InputError(f"unknown class {name!r}; the classes are {', '.join(numbers) or 'none yet'}")
                row = db.execute("SELECT id FROM item WHERE path = ?", (path,)).fetchone()
                if row is None:
                    raise InputError(f"the run has no item {path!r}")
                if db.execute("SELECT 1 FROM task WHERE item = ?", (row["id"],)).fetchone():
                    take(db, desk, [row["id"]])
                request = f"tell-{time.time_ns()}-{row['id']}"
                answer(db, desk, request, [row["id"]], Given(label=numbers[name]), overlap=self.settings.annotators)
        self.write_views()

    # --- the next missing step ---------------------------------------------------------------------------------------

    def advance(self, report: Report = quiet, ahead: bool = True) -> str | None:
        """Does the next missing step and says which; None where people have to answer first, or all is done. With `ahead`
        also what is needed only when they have."""
        step = self.next_step(ahead)
        if step is not None:
            getattr(self, f"_{step}")(report)
        return step

    def next_step(self, ahead: bool = True) -> str | None:
        with self.store.look() as db:
            if not get_meta(db, "prepared") or not is_whole(self.folder / "cache"):
                return "embedding" if self.settings.frozen and self.kind != "features" else "decoding"
            if not get_meta(db, "compared") or read_map(self.folder / "cache", len(self.paths)) is None:
                return "comparing"
            if db.execute(OPEN).fetchone():
                again = self.damaged(db) is not None and trainable(db)
                return "embedding" if (ahead or again) and self.lacks_views(db) else "training" if again else None
            if db.execute("SELECT count(*) FROM round WHERE state = 'asking'").fetchone()[0]:
                return "closing"
            current = self.current_round(db)
            last = db.execute("SELECT labels_key FROM fit WHERE round = ?", (current,)).fetchone()
            if trainable(db) and (last is None or last[0] != facts.labels_key(db) or self.damaged(db) is not None):
                return "embedding" if self.lacks_views(db) else "training"
            if self.left_to_choose(db) > 0:
                return "embedding" if last is not None and self.lacks_views(db) else "choosing"
            still_open = db.execute("SELECT count(*) FROM task WHERE state = 'open'").fetchone()[0]
            if not still_open and get_meta(db, "reported") != last_event(db):
                return "reporting"
        return None

    def is_finished(self) -> bool:
        """Whether the budget is spent and everything has been made of it."""
        with self.store.look() as db:
            if db.execute("SELECT count(*) FROM task WHERE state = 'open'").fetchone()[0]:
                return False
        return self.next_step() is None

    def current_round(self, db: Any) -> int:
        return int(db.execute("SELECT coalesce(max(id), 0) FROM round").fetchone()[0])

    def damaged(self, db: Any) -> int | None:
        """The round of the last fit, where a power cut or something else has damaged its files."""
        number = db.execute("SELECT max(round) FROM fit").fetchone()[0]
        return None if number is None or damage_of_fit(self.folder, number) is None else int(number)

    def left_to_choose(self, db: Any) -> int:
        """How many items may still be chosen."""
        budget, check = facts.plan(db)
        chosen = db.execute("SELECT count(*) FROM task WHERE kind = 'train'").fetchone()[0]
        free = db.execute(
            "SELECT count(*) FROM item WHERE split = 'pool' AND problem IS NULL AND id NOT IN (SELECT item FROM task)"
        ).fetchone()[0]
        return max(0, min(budget - check - chosen, free))

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _embedding(self, report: Report) -> None:
        """The plain view of every item, then, when a batch is out or training is due, the augmented views of the pool."""
        from askless.run.steps import embedding

        self._base = None
        step, verb = ("embedding", "Embedding") if self.settings.frozen else ("decoding", "Reading")
        cache, plain = self.folder / "cache", not self.meta("prepared") or not is_whole(self.folder / "cache")
        what = f"{len(self.paths):,} {self.noun}s" if plain else "augmented views, which training needs"

        def progress(done: int, total: int) -> None:
            report(step, f"{verb} {what}", done, total)

        progress(0, len(self.paths))
        if self.kind == "texts":
            fit_on = self.readable("split IN ('pool', 'out')").tolist()
            embedding.embed_texts(cache, list(self.texts().values()), fit_on, self.settings, progress)
        elif plain:
            with self.store.look() as db:
                known_bad = frozenset(r["id"] for r in db.execute("SELECT id FROM item WHERE problem IS NOT NULL"))
            backbone = embedding.backbone_of(self.settings)
            read = embedding.reader(self.pictures, embedding.image_side(self.settings, backbone))
            embedding.embed_images(
                cache, len(self.paths), self.settings, read, self.mark_unreadable, progress, known_bad, backbone
            )
        else:
            read = embedding.reader(self.pictures, embedding.CachedItems(cache).side)
            with self.store.look() as db:
                items = self.pool_items(db)
            embedding.embed_augmented(cache, self.settings, items, read, self.check_there, progress)
        self._note("prepared", True)

    def _decoding(self, report: Report) -> None:
        if self.kind != "features":
            self._embedding(report)
            return
        from askless.run.steps import embedding

        embedding.keep_features(self.folder / "cache", read_arrays(Path(self.meta("root"))), self.paths)
        self._note("prepared", True)

    def _comparing(self, report: Report) -> None:
        """Draws the map, and the first time keeps what looks like a check image out of the pool."""
        from askless.run.steps import comparing
        from askless.run.steps.embedding import CachedItems

        text = f"Looking for near-duplicates of the check {self.noun}s"
        report("comparing", text, 0, 1)
        read = CachedItems(self.folder / "cache")
        with self.store.look() as db:
            rows = db.execute("SELECT id, split FROM item WHERE problem IS NULL ORDER BY id").fetchall()
        places = comparing.flat_map(read.x, np.array([r["id"] for r in rows], np.int64))
        write_whole(self.folder / "cache" / "map.npy", lambda file: np.save(file, places, allow_pickle=False))
        if self.meta("compared"):  # the cache was deleted: the pool stays as it is, for some of it has been asked
            return
        held = [r["id"] for r in rows if r["split"] in ("check", "reserve")]
        pool = [r["id"] for r in rows if r["split"] == "pool"]
        if self.kind == "texts":
            alike = comparing.nearly_same(list(self.texts().values()), held, pool)
        else:
            alike = comparing.look_alikes(read.tiny, read.x, held, pool, pictures=self.kind != "features")
        with self.store.look() as db:
            budget, check = facts.plan(db)
        # Where almost everything looks alike, as in a film, too few would be left: then it is only said.
        flattered = len(alike) if len(pool) - len(alike) < max(2, budget - check) else 0
        if flattered:
            alike = []
        with self.store.change() as db:
            record(db, f"compared-{time.time_ns()}", "near_check", "worker", {"items": alike})
            db.executemany("UPDATE item SET split = 'out' WHERE id = ?", [(i,) for i in alike])
            set_meta(db, "flattered", flattered)
            skipped = [Skipped(*row) for row in get_meta(db, "skipped", [])]
            skipped += [
                Skipped(self.paths[i], "look-alike", f"looks like a check {self.noun}; never chosen") for i in alike
            ]
            set_meta(db, "skipped", skipped)
            set_meta(db, "compared", True)
        write_skipped(skipped, self.folder / "skipped.csv")
        report("comparing", text, 1, 1)

    def _closing(self, report: Report) -> None:
        with self.store.change() as db:
            db.execute("UPDATE round SET state = 'closed' WHERE state = 'asking'")

    def _training(self, report: Report) -> None:
        from askless.run.out.model import save_model
        from askless.run.steps import training

        base = self.run_pool()
        with self.store.look() as db:
            number, key, labels = self.current_round(db), facts.labels_key(db), facts.train_labels(db)
            damaged = self.damaged(db)
            if damaged is not None and db.execute(OPEN).fetchone():
                number = damaged  # a batch is out: the model that chose it is made again, from the labels of then
                later = {row["item"] for row in db.execute("SELECT item FROM task WHERE round > ?", (number,))}
                labels = {item: label for item, label in labels.items() if item not in later}
            classes = [c for c in all_classes(db) if is_shown(c)]
            before = db.execute("SELECT max(round) FROM fit WHERE round < ?", (number,)).fetchone()[0]
            if before is not None and damage_of_fit(self.folder, before, last=False) is not None:
                before = None
        place = {c.id: i for i, c in enumerate(classes)}
        names = [c.name for c in classes]
        learner = training.make_learner(
            base,
            self.settings,
            names,
            {item: place[label] for item, label in labels.items()},
            None if before is None else round_folder(self.folder, before) / "learner",
        )
        unlabelled = len(base.items) - len(learner.labels)
        text = f"Training on {len(learner.labels):,} labels and {unlabelled:,} unlabelled {self.noun}s"
        report("training", text, 0, self.settings.steps)
        begun = time.perf_counter()
        beside = self.folder / "rounds" / f".{number:03d}.making"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o700)
        known = self.readable()

        def watch(done: int, total: int, numbers: dict[str, float]) -> None:
            report("training", text, done, total)
            rest = {name: value for name, value in numbers.items() if name != "step"}
            at = number * self.settings.steps + done
            self.trail.tell(Event("step", self.folder.name, at, rest), last=done == total)

        metrics = training.fit_round(
            learner,
            base,
            len(self.paths),
            known,
            self.readable("split IN ('check', 'reserve')"),
            [c.id for c in classes],
            None if before is None else read_predictions(self.folder, before),
            beside,
            watch,
        )
        assert learner.learnt is not None
        model_beside = self.folder / ".model.making"
        shutil.rmtree(model_beside, ignore_errors=True)
        about = {
            **{"round": number, "labels": len(learner.labels), "unlabelled": unlabelled},
            **{"learner": self.settings.learner, "seed": self.settings.seed, "versions": dict(self.settings.versions)},
            "strategy": self.settings.strategy,
        }
        texts = self.folder / "cache" / "text" if self.kind == "texts" else None
        save_model(model_beside, learner.learnt.as_network(), base, self.settings, names, about, texts)
        self._write_picked(beside, number)
        for folder in (beside, model_beside):
            list_files(folder)
        replace_folder(beside, round_folder(self.folder, number))
        replace_folder(model_beside, self.folder / "model")
        seconds = time.perf_counter() - begun
        with self.store.change() as db:
            db.execute(
                "INSERT OR REPLACE INTO fit (round, labels, labels_key, seconds, metrics, at) VALUES (?, ?, ?, ?, ?, ?)",
                (number, len(learner.labels), key, seconds, json.dumps(metrics), now()),
            )
        self.write_views()
        if self.trail:
            self.trail.tell(round_event(self, number))

    def _choosing(self, report: Report) -> None:
        from askless.run.steps import training

        report("choosing", "Choosing the next batch", 0, 1)
        begun = time.perf_counter()
        base = self.run_pool()
        with self.store.look() as db:
            labels = facts.train_labels(db)
            current, n = self.current_round(db), min(self.settings.batch, self.left_to_choose(db))
            classes = [c for c in all_classes(db) if is_shown(c)]
            fitted = db.execute("SELECT 1 FROM fit WHERE round = ?", (current,)).fetchone() is not None
            fitted = fitted and self.damaged(db) is None
            # All that was asked, labelled or not: a label that came after the training is none to the learner.
            out = [r["item"] for r in db.execute("SELECT item FROM task ORDER BY item")]
        names = [c.name for c in classes]
        if fitted:
            saved = round_folder(self.folder, current) / "learner"
            learner = training.load_learner(saved, base)
        else:
            place = {c.id: i for i, c in enumerate(classes)}
            learner = training.make_learner(base, self.settings, names, {i: place[y] for i, y in labels.items()}, None)
        choice = training.choose(learner, base, n, names, fitted, out, self.noun)
        if fitted:
            learner.save(saved, pool=False)  # what the strategy remembers of this batch
        seconds = time.perf_counter() - begun
        with self.store.change() as db:
            # Labels may have come in from elsewhere, or the budget been lowered, while this was thinking.
            taken = {r["item"] for r in db.execute("SELECT item FROM task")}
            rows = [row for row in zip(choice.items, choice.reasons, choice.scores, strict=True) if row[0] not in taken]
            rows = rows[: self.left_to_choose(db)]
            if not rows:
                return
            db.execute(
                "INSERT INTO round (id, strategy, made_at, seconds, state) VALUES (?, ?, ?, ?, 'asking')",
                (current + 1, choice.picked_by, now(), seconds),
            )
            for rank, (item, reason, score) in enumerate(rows, start=1):
                db.execute(
                    "INSERT INTO task (item, kind, round, rank, picked_by, reason, score, state) "
                    "VALUES (?, 'train', ?, ?, ?, ?, ?, 'open')",
                    (item, current + 1, rank, choice.picked_by, reason, score),
                )
            payload = {"round": current + 1, "items": [row[0] for row in rows], "info": choice.info}
            record(db, f"worker/round-{current + 1}", "round", "worker", payload)
        report("choosing", f"Chosen by {choice.picked_by}", 1, 1)

    def _reporting(self, report: Report) -> None:
        report("reporting", "Writing the report", 0, 1)
        with self.store.look() as db:
            seen = last_event(db)
        self.write_report()
        self._note("reported", seen)
        self._end_trail()
        report("reporting", "Writing the report", 1, 1)

    # --- helpers of the steps ----------------------------------------------------------------------------------------

    def run_pool(self) -> "RunPool":
        """The pool that every round works on; made once."""
        if self._base is None:
            from askless.run.steps import embedding, training

            with self.store.look() as db:
                items = self.pool_items(db)
            cached = embedding.CachedItems(self.folder / "cache")
            views = embedding.view_paths(self.folder / "cache", self.settings, items)
            self._base = training.run_pool(cached, self.settings, items, views)
        return self._base

    def pool_items(self, db: Any) -> list[int]:
        """The items that may be chosen or have been."""
        rows = db.execute("SELECT id FROM item WHERE split = 'pool' AND problem IS NULL ORDER BY id")
        return [row["id"] for row in rows]

    def lacks_views(self, db: Any) -> bool:
        """Whether augmented views that training needs are still to be embedded."""
        from askless.run.steps.embedding import are_whole, view_paths

        items = self.pool_items(db)
        return not are_whole(view_paths(self.folder / "cache", self.settings, items), len(items))

    def readable(self, which: str = "1") -> np.ndarray:
        """The items that can be read, of those for which an SQL condition holds."""
        with self.store.look() as db:
            rows = db.execute(f"SELECT id FROM item WHERE problem IS NULL AND {which} ORDER BY id")
            return np.array([row["id"] for row in rows], np.int64)

    def mark_unreadable(self, item: int, reason: str) -> None:
        """An item that turned out to be damaged: nobody is asked about it, and another check image takes its place. Where
        all images are away, as on a disk that is not mounted, nothing is marked, and an error says so."""
        self.check_there()
        with self.store.change() as db:
            if db.execute("SELECT problem FROM item WHERE id = ?", (item,)).fetchone()["problem"] is not None:
                return
            record(db, f"worker/unreadable-{item}", "unreadable", "worker", {"reason": reason}, item)
            db.execute("UPDATE item SET problem = ? WHERE id = ?", (reason, item))
            split = db.execute("SELECT split FROM item WHERE id = ?", (item,)).fetchone()["split"]
            if not db.execute("SELECT 1 FROM answer WHERE item = ?", (item,)).fetchone():
                db.execute("DELETE FROM lease WHERE item = ?", (item,))
                db.execute("DELETE FROM task WHERE item = ?", (item,))
                if split == "check" and not draw_more(db, 1):
                    set_meta(db, "check", facts.plan(db)[1] - 1)
            skipped = [Skipped(*row) for row in get_meta(db, "skipped", [])]
            path = db.execute("SELECT path FROM item WHERE id = ?", (item,)).fetchone()["path"]
            skipped.append(Skipped(path, "unreadable", reason))
            set_meta(db, "skipped", skipped)
        write_skipped(skipped, self.folder / "skipped.csv")

    def check_there(self) -> None:
        """An error where all images are away."""
        root = Path(self.meta("root"))
        if not root.exists() or (root.is_dir() and not any(root.iterdir())):
            raise RunError(f"the {self.noun}s were at {root}, and nothing is there now; put them back, and start again")

    def set_budget(self, request_id: str, annotator: str, budget: int) -> None:
        """A larger or smaller budget; the share of check images stays, as far as there are any held out."""
        if budget > len(self.paths):
            raise InputError(f"the budget cannot exceed the {len(self.paths)} {self.noun}s of the run, got {budget}")
        with self.store.change() as db:
            chosen = db.execute("SELECT count(*) FROM task WHERE kind = 'train'").fetchone()[0]
            measured = db.execute("SELECT count(*) FROM task WHERE kind = 'check' AND answers > 0").fetchone()[0]
            if budget < chosen + measured:
                least = chosen + measured
                raise InputError(
                    f"the budget cannot be below the {least} {self.noun}s that are labelled or chosen already"
                )
            old, check = facts.plan(db)
            record(db, request_id, "budget", annotator, {"before": old, "after": budget})
            wanted = draw_check(len(self.paths), budget, self.settings.check, self.settings.seed).check
            wanted = max(measured, min(wanted, budget - chosen))
            check += draw_more(db, wanted - check) if wanted > check else -draw_fewer(db, check - wanted)
            set_meta(db, "budget", budget)
            set_meta(db, "check", check)

    def train_now(self, request_id: str, annotator: str) -> int:
        """Closes the batch: what is open of it is withdrawn (and may be chosen again); how many that were."""
        with self.store.change() as db:
            rows = db.execute("SELECT item, answers FROM task WHERE state = 'open' AND kind = 'train'").fetchall()
            items = [r["item"] for r in rows]
            record(db, request_id, "train_now", annotator, {"withdrawn": items})
            db.executemany("DELETE FROM lease WHERE item = ?", [(i,) for i in items])
            db.executemany("DELETE FROM task WHERE item = ?", [(r["item"],) for r in rows if r["answers"] == 0])
            db.executemany(
                "UPDATE task SET state = 'done' WHERE item = ?", [(r["item"],) for r in rows if r["answers"]]
            )
        return len(items)

    def write_views(self) -> None:
        """labels.csv and classes.txt: what the tables say, for people and other programs."""
        # The page or the worker, one at a time: else the one that has looked first may be the last to write.
        lock = self.folder / ".views.lock"
        lock.touch(mode=0o600)
        with held(lock, f"{self.folder}: another process is at labels.csv", seconds=60.0):
            with self.store.look() as db:
                rows = label_rows(db, last_predictions(db, self.folder))
                columns = columns_by_path(db)
                names = [c.name for c in all_classes(db) if is_shown(c)]
            write_labels_csv(self.folder / "labels.csv", rows, columns)
            text = "".join(f"{name}\n" for name in names)
            write_whole(self.folder / "classes.txt", lambda file: file.write(text.encode()))
            for name in ("labels.csv", "classes.txt"):
                os.chmod(self.folder / name, 0o600)

    def write_report(self, out: str | Path | None = None) -> Path:
        """report.html and report.json, in the run's folder or in another one."""
        from askless.run.out.account import gather
        from askless.run.out.report import file_facts, write

        if self.store.read_only and out is None:
            raise RunError(f"{self.folder} is read-only; pass --out FOLDER for the report")
        if not self.store.read_only:
            self.write_views()
        told = gather(self)
        told.files = file_facts(self.folder, WRITTEN)
        return write(told, self.folder if out is None else Path(out), self.thumb)

    def export_model(self, out: str | Path, *, to: str = "model", overwrite: bool = False) -> Path:
        """The last model as a folder that can be taken anywhere: weights as safetensors or, with `to="onnx"`, all of it as
        ONNX; preprocessing, classes, and a card with the accuracy on check images."""
        from askless.run.out.model import export_model

        return export_model(self, Path(out), to, overwrite)

    def thumb(self, item: int) -> bytes | None:
        try:
            return self.pictures.thumb(item)[0]
        except Exception:  # a picture that is gone must not cost the report
            return None

    def _note(self, name: str, value: Any) -> None:
        with self.store.change() as db:
            set_meta(db, name, value)

    def _write_picked(self, folder: Path, number: int) -> None:
        """picked.csv: what was chosen in this round and why."""
        import csv

        with self.store.look() as db:
            rows = db.execute(
                "SELECT t.rank, i.path, t.picked_by, t.score, t.reason FROM task t JOIN item i ON i.id = t.item "
                "WHERE t.round = ? ORDER BY t.rank",
                (number,),
            ).fetchall()
        with (folder / "picked.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("rank", "path", "picked_by", "score", "reason"))
            writer.writerows(tuple(row) for row in rows)


def settings_of(source: str | Path, options: Mapping[str, Any]) -> tuple[Settings, str]:
    """The settings that options of `Run.create` make here, paths in full, and a sentence where the backbone is another."""
    given = {
        "classes": tuple(options.get("classes", ())),
        "track": tuple(map(settled, options.get("track", ()))),
        "command": printable(options.get("command", "")),
    }
    settings = Settings(source=str(Path(source).resolve()), **{**options, **given})
    for name, value in asdict(settings).items():
        if not is_text(toml(value)):
            raise OptionError(f"{name}: expected a name that is valid UTF-8, got {value!a}; rename it")
    return with_backbone_here(settings)


def fit_for(settings: Settings, kind: Kind, text: str) -> Settings:
    """The settings with a network that takes such items; `text` is the column of texts."""
    if kind == "features" and settings.frozen:
        return replace(settings, net="linear")
    if kind != "texts" and settings.net == TEXT_BACKBONE:
        raise OptionError(f"net: {TEXT_BACKBONE} is for texts, got images; leave it out")
    if kind == "texts":
        from askless.run.steps.texts import with_text_net

        return with_text_net(settings, text)
    return settings


def trainable(db: Any) -> bool:
    """Whether there are labels of two classes at least."""
    return len(set(facts.train_labels(db).values())) >= 2


def last_event(db: Any) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


def draw_fewer(db: Any, n: int) -> int:
    """Puts n open check images back into the reserve, the last of the draw first; how many there were."""
    rows = db.execute(
        "SELECT t.item FROM task t JOIN item i ON i.id = t.item WHERE t.kind = 'check' AND t.state = 'open' "
        "AND t.answers = 0 ORDER BY i.place DESC LIMIT ?",
        (n,),
    ).fetchall()
    for row in rows:
        db.execute("DELETE FROM lease WHERE item = ?", (row["item"],))
        db.execute("DELETE FROM task WHERE item = ?", (row["item"],))
        db.execute("UPDATE item SET split = 'reserve' WHERE id = ?", (row["item"],))
    return len(rows)


def draw_more(db: Any, n: int) -> int:
    """Makes the next n held-out items check images, in the order of the draw; how many there were."""
    rows = db.execute(
        "SELECT id FROM item WHERE split = 'reserve' AND problem IS NULL ORDER BY place LIMIT ?", (n,)
    ).fetchall()
    for row in rows:
        db.execute("UPDATE item SET split = 'check' WHERE id = ?", (row["id"],))
        db.execute(
            "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
            "SELECT id, 'check', NULL, place, 'random', ?, 'open' FROM item WHERE id = ? "
            "ON CONFLICT (item) DO UPDATE SET kind = 'check'",
            (f"random check {noun(get_meta(db, 'kind'))}", row["id"]),
        )
    return len(rows)
