"""Small collections and runs on them, for the tests of the project."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from askless.run import Run
from askless.run.store.asking import Desk, next_item
from askless.run.store.store import now

COLOURS = {"red": (200, 40, 40), "green": (40, 190, 60), "blue": (50, 70, 210), "grey": (150, 150, 150)}


def draw_shapes(folder: Path, per_class: int = 12, seed: int = 0, prefix: str = "") -> dict[str, str]:
    """Pictures of 32 pixels whose shape's colour is their class; path -> class."""
    rng = np.random.default_rng(seed)
    truth = {}
    for name, colour in COLOURS.items():
        for i in range(per_class):
            pixels = rng.integers(0, 90, (8, 8, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
            image = Image.fromarray(pixels)
            x, y = rng.integers(0, 12, 2).tolist()
            shape = ImageDraw.Draw(image)
            (shape.ellipse if i % 2 else shape.rectangle)((x, y, x + 19, y + 19), fill=colour)
            path = folder / f"{prefix}{i % 3}" / f"{name}-{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
            truth[path.relative_to(folder).as_posix()] = name
    return truth


@dataclass(frozen=True)
class Shapes:
    """A folder of pictures, and the class of each."""

    folder: Path
    truth: dict[str, str]

    def start(self, run: Path, **options) -> Run:
        """A run on the pictures with settings that take no time."""
        quick = {"classes": tuple(COLOURS), "net": "frozen:raw", "size": 32, "steps": 60, "budget": 20, "batch": 5}
        return Run.create(self.folder, run, **{**quick, **options})

    def tell(self, run: Run, paths: list[str] | None = None, annotator: str = "tell") -> None:
        paths = run.waiting() if paths is None else paths
        run.tell({path: self.truth[path] for path in paths}, annotator)

    def finish(self, run: Run) -> list[str]:
        """Answers everything until nothing is left; the steps that were done."""
        steps = []
        while True:
            step = run.advance()
            if step is not None:
                steps.append(step)
            elif run.waiting():
                self.tell(run)
            else:
                return steps


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Shapes:
    """Forty-eight easy pictures of four classes; nobody changes them."""
    folder = tmp_path_factory.mktemp("shapes")
    return Shapes(folder, draw_shapes(folder))


@pytest.fixture
def own_shapes(tmp_path) -> Shapes:
    """The same, for a test that changes the files."""
    folder = tmp_path / "pictures"
    return Shapes(folder, draw_shapes(folder))


@pytest.fixture(scope="session")
def finished(shapes, tmp_path_factory) -> Run:
    """A run that has spent its budget; to be looked at only."""
    run = shapes.start(tmp_path_factory.mktemp("finished") / "run")
    shapes.finish(run)
    return run


@dataclass
class Room:
    """A run on numbers instead of pictures, to which tasks are given by hand: for the tests of asking and answering."""

    run: Run
    count: int = field(default=0)

    def ask(self, items: list[int], number: int = 1) -> None:
        """Puts items out as the chosen ones of a round."""
        with self.run.store.change() as db:
            db.execute("INSERT INTO round VALUES (?, 'random', ?, 0, 'asking')", (number, now()))
            db.executemany(
                "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
                "VALUES (?, 'train', ?, ?, 'random', 'drawn at random', 'open')",
                [(item, number, rank) for rank, item in enumerate(items, 1)],
            )

    def pool(self) -> list[int]:
        with self.run.store.look() as db:
            return [row[0] for row in db.execute("SELECT id FROM item WHERE split = 'pool' ORDER BY id")]

    def request(self) -> str:
        """A request that has not been made before."""
        self.count += 1
        return f"request-{self.count:06d}"

    def take(self, who: str, tab: str = "") -> int | None:
        with self.run.store.lend() as db:
            return next_item(db, Desk(who, tab or f"{who}-tab"), self.run.settings.annotators)

    def rows(self, query: str, *values) -> list[tuple]:
        with self.run.store.look() as db:
            return [tuple(row) for row in db.execute(query, values)]

    def one(self, query: str, *values):
        return self.rows(query, *values)[0][0]


@pytest.fixture
def make_room(tmp_path):
    """`make_room(n, ...)`: a run of n rows of numbers, in which nothing but the check images is asked yet."""
    rooms = []

    def make(n: int = 30, **options) -> Room:
        source = tmp_path / f"rows{len(rooms)}.npz"
        np.savez(source, X=np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32))
        given = {"classes": ("cat", "dog"), "budget": n, "check": 0.0, **options}
        rooms.append(Room(Run.create(source, tmp_path / f"run{len(rooms)}", **given)))
        return rooms[-1]

    yield make
    for room in rooms:
        room.run.close()
