"""What a power cut may leave of a folder: every write, rename and sync in it is recorded, and then any moment replayed.

The model is that of POSIX, which promises less than most file systems keep. What was written to a file and not synced since
may be there, missing, cut short, or zeros of the right length. A new, renamed or removed name may or may not be there until
its folder was synced. Above SQLite, whose own promise is taken as given: after a commit the database is as it was then.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from askless.run.store import store

DATABASE = "state.sqlite"
ROOT = 0
Place = tuple[int, str]  # a folder, and a name in it


@dataclass(frozen=True)
class Write:
    file: int
    content: bytes


@dataclass(frozen=True)
class Name:
    """A file or folder that came to `place`, or went from one, or both: what was there before is replaced."""

    thing: int
    came: Place | None
    went: Place | None

    @property
    def folders(self) -> set[int]:
        return {place[0] for place in (self.came, self.went) if place is not None}

    @property
    def of_sqlite(self) -> bool:
        return any(place is not None and place[1].startswith(DATABASE) for place in (self.came, self.went))


@dataclass(frozen=True)
class Sync:
    thing: int


@dataclass(frozen=True)
class Commit:
    """The files of the database, as they are from here on."""

    files: dict[int, bytes]


class Recorder:
    """All that happens in a folder, as `steps`; `marks` are numbers of steps with what was true from then on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[Write | Name | Sync | Commit] = []
        self.marks: list[tuple[int, Any]] = []
        self.things: dict[int, int] = {folder.stat().st_ino: ROOT}  # inode -> number
        self.names: dict[Place, int] = {}
        self.folders: set[int] = {ROOT}
        self.seen: dict[int, tuple[int, int]] = {}
        self.contents: dict[int, bytes] = {}
        self.count = 0

    def mark(self, what: Any) -> None:
        self.marks.append((len(self.steps), what))

    def look(self) -> None:
        """Records what has changed since the last look: whoever did it, numpy, safetensors or we."""
        now: dict[Place, int] = {}
        files: list[tuple[int, Path, os.stat_result]] = []
        live: dict[int, int] = {self.folder.stat().st_ino: ROOT}

        def walk(folder: Path, number: int) -> None:
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                stat = entry.stat(follow_symlinks=False)
                if stat.st_ino not in self.things:
                    self.count += 1
                thing = live[stat.st_ino] = self.things.get(stat.st_ino, self.count)
                now[number, entry.name] = thing
                if entry.is_dir():
                    self.folders.add(thing)
                    walk(Path(entry.path), thing)
                else:
                    files.append((thing, Path(entry.path), stat))

        walk(self.folder, ROOT)
        went = {thing: place for place, thing in self.names.items() if now.get(place) != thing}
        for place, thing in now.items():
            if self.names.get(place) != thing:
                self.steps.append(Name(thing, place, went.pop(thing, None)))
        replaced = {place for place in now if place in self.names}
        self.steps += [Name(thing, None, place) for thing, place in went.items() if place not in replaced]
        for thing, path, stat in files:
            stamp = (stat.st_size, stat.st_mtime_ns)
            # The time of a file that is mapped into memory may lag behind.
            if self.seen.get(thing) != stamp or path.suffix == ".npy":
                content = path.read_bytes()
                if content != self.contents.get(thing, b""):
                    self.steps.append(Write(thing, content))
                self.seen[thing], self.contents[thing] = stamp, content
        self.names, self.things = now, live

    def sync(self, inode: int) -> None:
        self.look()
        if inode in self.things:
            self.steps.append(Sync(self.things[inode]))

    def commit(self) -> None:
        before = len(self.steps)
        self.look()
        kept = {t: self.contents[t] for (_, name), t in self.names.items() if name in (DATABASE, f"{DATABASE}-wal")}
        self.steps.insert(before, Commit(kept))  # SQLite syncs the database before it removes the log

    @contextmanager
    def recording(self) -> Iterator[None]:
        def around(function: Callable[..., Any]) -> Callable[..., Any]:
            def looked(*args: Any, **options: Any) -> Any:
                self.look()
                try:
                    return function(*args, **options)
                finally:
                    self.look()

            return looked

        fsync, flush, transaction, close = os.fsync, np.memmap.flush, store.transaction, store.Store.close

        def synced(file: int) -> None:
            fsync(file)
            self.sync(os.fstat(file).st_ino)

        def flushed(array: np.memmap) -> None:
            flush(array)
            self.sync(os.stat(array.filename).st_ino)

        @contextmanager
        def committed(db: Any, kind: str) -> Iterator[None]:
            with transaction(db, kind):
                yield
            if kind == "IMMEDIATE" and db.execute("PRAGMA synchronous").fetchone()[0] == 2:
                self.commit()

        def closed(database: store.Store) -> None:
            close(database)
            if database.path.is_relative_to(self.folder):
                self.commit()

        with ExitStack() as patches:
            for name in ("replace", "rename", "unlink", "remove", "rmdir", "mkdir"):
                patches.enter_context(mock.patch.object(os, name, around(getattr(os, name))))
            patches.enter_context(mock.patch.object(os, "fsync", synced))
            patches.enter_context(mock.patch.object(np.memmap, "flush", flushed))
            patches.enter_context(mock.patch.object(store, "transaction", committed))
            patches.enter_context(mock.patch.object(store.Store, "close", closed))
            yield

    def image(self, cut: int, rng: random.Random, out: Path, honest: int | None = None) -> None:
        """Writes into `out` what may be there after a cut before step `cut`. The disk lies from step `honest` on: there what
        was synced may be lost, too, but for the database."""
        honest = cut if honest is None else honest
        ordered = rng.random() < 0.5  # names in order, as a journal keeps them, or each folder on its own
        careful = rng.random() < 0.3  # what was not synced is mostly there, or mostly not
        last: dict[int, int] = {}
        for place, step in enumerate(self.steps[:cut]):
            if isinstance(step, Sync) and place < honest:
                last[step.thing] = place
        barrier = max((p for p, step in enumerate(self.steps[:cut]) if isinstance(step, Sync | Commit)), default=0)
        barrier = min(barrier, honest)
        all_until = rng.choice((cut, rng.randint(barrier, cut)))
        until = {f: rng.choice((cut, last.get(f, 0), rng.randint(last.get(f, 0), cut))) for f in sorted(self.folders)}
        names: dict[Place, int] = {}
        for place, step in enumerate(self.steps[:cut]):
            if isinstance(step, Name):
                kept = place < all_until if ordered else all(place < until[f] for f in step.folders)
                if kept or step.of_sqlite:
                    if step.went is not None and names.get(step.went) == step.thing:
                        del names[step.went]
                    if step.came is not None:
                        names[step.came] = step.thing
        database: dict[int, bytes] = {}
        for step in self.steps[:cut]:
            if isinstance(step, Commit):
                database |= {thing: b"" for thing in database} | step.files

        def content(file: int) -> bytes:
            if file in database:
                return database[file]
            durable, later = b"", []
            for place, step in enumerate(self.steps[:cut]):
                if isinstance(step, Write) and step.file == file:
                    if place < last.get(file, -1):
                        durable = step.content
                    else:
                        later.append(step.content)
            if not later or (careful and rng.random() < 0.8):
                return (durable, *later)[-1]
            newest = later[-1]
            torn = newest[: rng.randint(0, len(newest))]
            return rng.choice((durable, b"", torn, torn + bytes(len(newest) - len(torn)), bytes(len(newest)), newest))

        def write(folder: Path, number: int) -> None:
            folder.mkdir(exist_ok=True)
            for (of, name), thing in sorted(names.items()):
                if of == number and not name.endswith("-shm"):
                    if thing in self.folders:
                        write(folder / name, thing)
                    else:
                        (folder / name).write_bytes(content(thing))

        write(out, ROOT)
