"""What the model sees of each item, made once and kept in the run's `cache`: features of images or texts, or small pixels.

The plain view of every item comes first, so that the first batch can be chosen; the augmented views of the pool's images,
which training needs, come after. All of it is written in pieces: an interrupted one resumes. Runs in the worker.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.files import write_whole
from askless.base.machine import cores
from askless.features.stored import Piece, Progress, ViewKey, augmented, by_threads, is_whole, mapped, write_rows
from askless.run.pictures import Pictures
from askless.run.settings import Settings
from askless.run.steps.round_files import CACHE_FORMAT, is_cache_whole, is_of_before
from askless.run.store.fits import outdate_fits
from askless.run.store.items import readable_items, unreadable_items
from askless.sources import Source, UnreadableError, read_arrays, read_image, real_file

if TYPE_CHECKING:
    from askless.features.backbones.backbone import Backbone
    from askless.features.frozen import Frozen
    from askless.run.run import Report, Run

CHUNK = 32  # images that are read and embedded together
TEXTS = 1024  # texts that are embedded together
TINY = 16  # side of the thumbnails that near-duplicates are found by
FROZEN_SIZE, OWN_SIZE = 128, 32  # sides of images for a backbone, and for a network trained from scratch
Reader = Callable[[int, int], np.ndarray]  # item, side -> (H, W, 3) uint8 of about that size, or an UnreadableError


class CachedItems:
    """What was made of each item: `x` (N, ...) features or pixels uint8, `tiny` (N, 16, 16, 3) uint8; `side` in pixels that
    images were read at."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / "material.json").read_text(encoding="utf-8"))
        self.name, self.side = str(about["name"]), int(about["side"])
        self.x, self.tiny = mapped(folder / about["file"]), mapped(folder / "tiny.npy")


def frozen_of(settings: Settings) -> "Frozen":
    """The frozen backbone of a run as `ActiveLearner` has it, with the views that the run's learner looks at."""
    from askless.features.frozen import Frozen
    from askless.learn import LEARNERS

    weak, strong = LEARNERS[settings.learner].embedded_views
    name, weights = settings.net.removeprefix("frozen:"), settings.weights or None
    return Frozen(backbone=name, size=raw_side(settings), weights=weights, weak=weak, strong=strong, plain=True)


def image_side(settings: Settings, backbone: "Backbone | None") -> int:
    """The side in pixels that images are read at: what was asked for, else what the backbone sees."""
    if settings.size or backbone is None:
        return settings.size or OWN_SIZE
    return FROZEN_SIZE if settings.net == "frozen:raw" else backbone.size or FROZEN_SIZE


def raw_side(settings: Settings) -> int | None:
    """Pixels as features are taken from small images: 16 x 16 x 3 numbers."""
    return 16 if settings.net == "frozen:raw" else settings.size or None


def embed(run: "Run", report: "Report") -> None:
    """The plain view of every item, then, when a batch is out or training is due, the augmented views of the pool."""
    cache, settings, n_items = run.folder / "cache", run.settings, len(run.paths)
    plain = not run.meta("prepared") or not is_cache_whole(cache)
    step, verb = ("embedding", "Looking at") if settings.frozen else ("decoding", "Reading")
    what = f"{n_items:,} {run.noun}s" if plain else f"changed copies of the {run.noun}s, which training needs"

    def progress(done: int, total: int) -> None:
        report(step, f"{verb} {what}", done, total)

    run.forget_pool()
    if run.kind == "features":
        keep_features(cache, read_arrays(Path(run.meta("root"))), run.paths)
        run.note("prepared", True)
        return
    progress(0, n_items)
    with run.store.look() as db:
        known_bad, pool = unreadable_items(db), readable_items(db, "pool")
    if run.kind == "texts":
        fit_on = run.readable("pool", "out").tolist()
        embed_texts(cache, list(run.texts().values()), fit_on, settings, progress)
        with run.store.change() as db:
            outdate_fits(db)  # another version may make other features of the same texts
    else:
        read = partial(read_item, run.pictures)
        if plain:
            is_older = is_of_before(cache)
            embed_images(cache, n_items, settings, read, run.mark_unreadable, progress, known_bad)
            if is_older:
                with run.store.change() as db:
                    outdate_fits(db)
        else:
            embed_augmented(cache, settings, pool, read, run.check_there, progress)
    run.note("prepared", True)


# --- the plain view of every item ------------------------------------------------------------------------------------


def embed_images(
    folder: Path,
    n_items: int,
    settings: Settings,
    read: Reader,
    bad: Callable[[int, str], None],
    progress: Progress,
    skip: frozenset[int] = frozenset(),
) -> None:
    """Reads every item that has not been read yet. `bad(item, reason)` receives what cannot be read."""
    from askless.features.frozen import make_backbone

    backbone = make_backbone(frozen_of(settings)) if settings.frozen else None
    side = image_side(settings, backbone)
    seen = (lambda pixels: pixels) if backbone is None else lambda pixels: embedded(backbone, pixels)
    blank = seen(np.zeros((1, 3, side, side), np.uint8)) * 0

    def one_chunk(first: int) -> tuple[Piece, list[tuple[int, str]]]:
        last = min(first + CHUNK, n_items)
        x, tiny = blank.repeat(last - first, axis=0), np.zeros((last - first, TINY, TINY, 3), np.uint8)
        pixels, good, problems = [], [], []
        for item in range(first, last):
            if item not in skip:
                try:
                    image = read(item, side)
                except UnreadableError as error:
                    problems.append((item, str(error)))
                    continue
                good.append(item - first)
                pixels.append(fitted(image, side))
                tiny[item - first] = fitted(image, TINY)
        if good:
            x[good] = seen(np.stack(pixels).transpose(0, 3, 1, 2))  # (n, H, W, 3) -> (n, 3, H, W)
        return Piece([x, tiny]), problems

    def pieces(done: int, _: Any) -> Iterator[Piece]:
        for piece, problems in by_threads(one_chunk, range(done, n_items, CHUNK), cores()):
            for item, reason in problems:
                bad(item, reason)
            yield piece

    file = "pixels.npy" if backbone is None else "embeddings.npy"
    name = f"pixels {side}" if backbone is None else f"{backbone.name} from {side}"
    keep(folder, file, name, side, n_items, pieces, progress)


def embed_texts(
    folder: Path, texts: Sequence[str], fit_on: Sequence[int], settings: Settings, progress: Progress
) -> None:
    """The features of all texts, and the backbone, which is fitted on those at `fit_on`: what is held out to measure with
    has no part in it."""
    from askless.features.text_backbone import text_backbone

    backbone = text_backbone(settings.net.removeprefix("frozen:"), [texts[i] for i in fit_on])
    backbone.save(folder / "text")

    def pieces(done: int, _: Any) -> Iterator[Piece]:
        for i in range(done, len(texts), TEXTS):
            yield without_picture(backbone.embed(texts[i : i + TEXTS]))

    keep(folder, "embeddings.npy", settings.net, 0, len(texts), pieces, progress)


def keep_features(folder: Path, source: Source, paths: list[str]) -> None:
    """A run on features has nothing to embed: the rows of its items are kept as they are."""
    place = {item.id: item.content for item in source.read()[0]}
    rows = np.asarray(source.array[[place[path] for path in paths]], np.float32)
    keep(folder, "embeddings.npy", "features", 0, len(rows), lambda done, _: [without_picture(rows[done:])], None)


def without_picture(rows: np.ndarray) -> Piece:
    return Piece([rows, np.zeros((len(rows), TINY, TINY, 3), np.uint8)])


def keep(folder: Path, file: str, name: str, side: int, n: int, pieces: Any, progress: Progress | None) -> None:
    """Writes what the pieces are into the cache, unless it is there."""
    folder.mkdir(exist_ok=True, mode=0o700)
    about = {"name": name, "file": file, "side": side, "done": n, "format": CACHE_FORMAT}
    paths = [folder / file, folder / "tiny.npy"]
    try:
        there = json.loads((folder / "material.json").read_text(encoding="utf-8")) == about
    except (OSError, ValueError):
        there = False
    if not (there and all(is_whole(path, n) for path in paths)):
        write_rows(paths, n, name, pieces, progress)
    for path in paths:
        path.chmod(0o600)
    write_whole(folder / "material.json", lambda out: out.write(json.dumps(about).encode()))


# --- augmented views of the pool's images ----------------------------------------------------------------------------


def view_paths(folder: Path, settings: Settings, items: Sequence[int]) -> dict[ViewKey, Path]:
    """Where the augmented views of these items are, or will be; none where the run's network takes no embedded images."""
    about = json.loads((folder / "material.json").read_text(encoding="utf-8"))
    if not settings.frozen or not about["side"]:
        return {}
    from askless.learn import LEARNERS

    key = hashlib.sha256(f"{about['name']} of {list(items)}".encode()).hexdigest()[:16]
    views = augmented(*LEARNERS[settings.learner].embedded_views)
    return {view: folder / "views" / f"{key}-{view.kind}-{view.number}.npy" for view in views}


def are_whole(paths: dict[ViewKey, Path], n: int) -> bool:
    return all(is_whole(path, n) for path in paths.values())


class ItemImages:
    """Items of a run as images (3, side, side), for a pool. Those that are gone since they were first read are black, and
    noted; `lost()` may refuse that."""

    def __init__(self, items: Sequence[int], read: Reader, side: int, lost: Callable[[], None]) -> None:
        self.items, self.read, self.side, self.lost = items, read, side, lost
        self.gone: set[int] = set()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> np.ndarray:
        try:
            return fitted(self.read(self.items[place], self.side), self.side).transpose(2, 0, 1)
        except UnreadableError:
            self.lost()
            self.gone.add(place)
            return np.zeros((3, self.side, self.side), np.uint8)


def embed_augmented(
    folder: Path, settings: Settings, items: Sequence[int], read: Reader, lost: Callable[[], None], progress: Progress
) -> None:
    """Embeds the pool's images in the views that `ActiveLearner` has of them. An image that cannot be read any more looks in
    every view as it did at first."""
    from askless.data import Pool
    from askless.features.frozen import embed_views, make_backbone

    frozen, plain = frozen_of(settings), CachedItems(folder)
    images = ItemImages(items, read, plain.side, lost)

    def mend(at: np.ndarray, rows: np.ndarray) -> None:
        for k, place in enumerate(at.tolist()):
            if place in images.gone:
                rows[k] = plain.x[items[place]]

    paths, pool = view_paths(folder, settings, items), Pool(images, kind="image")
    (folder / "views").mkdir(exist_ok=True, mode=0o700)
    embed_views(pool, make_backbone(frozen), paths, frozen.seed, progress, threads=cores(), mend=mend)
    for path in (folder / "views").glob("*.npy"):
        path.chmod(0o600) if path in paths.values() else path.unlink()  # of another pool, or of another backbone
    for unfinished in (folder / "views").glob(".*.unfinished"):
        shutil.rmtree(unfinished, ignore_errors=True)


# --- images as they are read -----------------------------------------------------------------------------------------


def embedded(backbone: Any, stack: np.ndarray) -> np.ndarray:
    import torch

    return backbone.embed(torch.from_numpy(np.ascontiguousarray(stack))).half().numpy()


def fitted(image: np.ndarray, side: int) -> np.ndarray:
    """(side, side, 3): scaled to cover the square, the centre cut out."""
    if image.shape[:2] == (side, side):
        return image
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.fit(Image.fromarray(image), (side, side), Image.Resampling.BICUBIC))


def read_item(pictures: Pictures, item: int, side: int) -> np.ndarray:
    """The image at about the size that is needed."""
    if pictures.kind == "files":
        return read_image(real_file(pictures.root, pictures.paths[item], pictures.follow_links), (side, side))
    row = pictures.row(item)
    return row if row.ndim == 3 else np.repeat(row[:, :, None], 3, axis=2)
