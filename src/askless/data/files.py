"""Pools from files: each function opens one kind of source, and `pool_of` makes a pool of its items."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError, some
from askless.data.pool import Pool, as_pool, encode_labels
from askless.data.rows import Kind, Rows, rows_at, take_rows
from askless.sources import Item, Skipped, Source, UnreadableError, read_image, read_texts
from askless.sources.arrays import is_npy, listed_ids, load_npy, load_npz, names_of
from askless.sources.arrow import arrow_source
from askless.sources.folders import described_folder, image_folder
from askless.sources.image_file import as_size, decoded, measured
from askless.sources.items import first_of
from askless.sources.layout import Layout
from askless.sources.names import in_order
from askless.sources.table import listed_images
from askless.sources.tars import tar_source

log = logging.getLogger(__name__)

At = str | PathLike[str]
Size = int | tuple[int, int] | None
Progress = Callable[[int, int], None]
Names = Sequence[str] | None
Pair = tuple[int, int] | None
KINDS: dict[str, tuple[Kind, str]] = {"texts": ("text", "texts"), "features": ("features", "rows")}


class ImageFiles:
    """A Dataset of image files, each read when it is asked for: (3, H, W) uint8."""

    def __init__(self, paths: Sequence[str], size: tuple[int, int] | None) -> None:
        self.paths, self.size = tuple(paths), size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        try:
            pixels = read_image(self.paths[index], self.size)
        except UnreadableError as error:
            raise InputError(
                f"{self.paths[index]}: can no longer be read ({error}); restore it, or load the pool again"
            ) from None
        return torch.from_numpy(pixels).movedim(2, 0).contiguous()  # (H, W, 3) -> (3, H, W)


# --- one function for each kind of source


def folder(
    path: At,
    size: Size = None,
    labels_from_folders: bool = False,
    follow_links: bool = False,
    lazy: bool = False,
    flip: bool = True,
    classes: Names = None,
    progress: Progress | None = None,
) -> Pool:
    """All images below `path`, at any depth, as RGB; their ids are the paths relative to it.

    `size` (a side, or height and width) scales each image to cover it and crops the centre; without it all images must
    have one size. `labels_from_folders` takes the first folder below `path` as the class, or the second where the first
    ones are `train` and `test`; then `test` (or else `val`) is held out. Files that cannot be read, and links that leave
    the folder (unless `follow_links`), end in `pool.skipped` with the reason. `lazy` reads the pixels when they are
    needed instead of keeping them all in memory; then only headers are checked. `classes` fixes the order of the classes,
    by default alphabetical.

    `progress(done, total)` counts files, and `flip` says whether a mirrored image keeps its class. A folder without images
    raises InputError.

    >>> from PIL import Image
    >>> for name in ("a", "b"):
    ...     Image.new("RGB", (8, 8)).save(f"{name}.png")
    >>> al.data.folder(".", size=4).ids
    ('a.png', 'b.png')
    """
    source = image_folder(Path(path), follow_links, labels_from_folders)
    return pool_of(source, called(path), size, lazy, flip, classes, progress)


def csv(
    path: At,
    size: Size = None,
    lazy: bool = False,
    flip: bool = True,
    classes: Names = None,
    progress: Progress | None = None,
) -> Pool:
    """The images that a CSV or TSV file lists in its column `path` (relative to it), with the classes in `label`.

    An empty label is unknown; `classes` fixes the order of the classes, by default alphabetical. Other names for the two
    columns are accepted (`file_name`, `filename`, `image`, `file`; `class`, `category`, `target`). Rows with `test` in a
    column `split` are held out. All further columns are kept in `pool.columns`. Files that are missing or cannot be read
    end in `pool.skipped`.

    `size`, `lazy`, `flip` and `progress` as in `folder`.

    >>> from PIL import Image
    >>> Image.new("RGB", (8, 8)).save("a.png")
    >>> with open("list.csv", "w") as file:
    ...     for line in ("path,label", "a.png,cat"):
    ...         print(line, file=file)
    >>> al.data.csv("list.csv")
    <Pool list: 1 image items of 3 x 8 x 8, 1 with a label, 1 classes>
    """
    source = listed_images(Path(path), follow_links=True)
    found = list(source.found)
    first: dict[str, int] = {}
    for row, each in enumerate(found, 2):
        name = each.id if isinstance(each, Item) else each.path
        if first.setdefault(name, row) != row:
            raise InputError(f"{path}: expected each file once, got {name!r} in rows {first[name]} and {row}; drop one")
        if isinstance(each, Item) and each.split == source.test and not each.label:
            raise InputError(f"{path}: expected a label for every test row, {name!r} has none")
    return pool_of(replace(source, found=found), Path(path).stem, size, lazy, flip, classes, progress)


def imagefolder(
    path: At,
    size: Size = None,
    label: str = "",
    flip: bool = True,
    classes: Names = None,
    progress: Progress | None = None,
) -> Pool:
    """Images as `load_dataset("imagefolder", data_dir=path)` of Hugging Face reads them.

    `train/CLASS/*.png` and `test/CLASS/*.png`, or only `CLASS/*.png`; or, in each split's folder, metadata.csv or
    metadata.jsonl with `file_name` and a label (in a column label, class, category or target, or the one that `label`
    names). `train` is the pool, `test` (or else validation) is held out; other folders, such as `pseudo`, are left alone.

    `size`, `flip`, `classes` and `progress` as in `folder`.

    >>> pool = al.data.subset(al.data.digits(), 20)
    >>> _ = al.data.save_imagefolder(pool, "digits")
    >>> len(al.data.imagefolder("digits"))
    20
    """
    return pool_of(described_folder(Path(path), label), called(path), size, False, flip, classes, progress)


def webdataset(path: At, size: Size = None, flip: bool = True, classes: Names = None) -> Pool:
    """The images of a .tar, .tar.gz or .tgz file, or of all of them in a folder, with what stands beside each of them under
    its name: the class in .cls or .txt, or as `label` in .json.

    Ids are the names up to the first dot, with the tar's name before them where there are several. `size` is that of
    `folder`; images that cannot be read end in `pool.skipped`. `classes` gives names to numbers in .cls: 0 is its first.
    For pools larger than memory, `askless embed` reads tars one by one.

    `flip` as in `folder`.

    >>> from PIL import Image
    >>> import tarfile
    >>> Image.new("RGB", (8, 8)).save("a.png")
    >>> with tarfile.open("pool.tar", "w") as tar:
    ...     tar.add("a.png")
    >>> al.data.webdataset("pool.tar").ids
    ('a',)
    """
    source, known = tar_source(Path(path)), tuple(classes or ())

    def by_name(label: str) -> str:
        return known[int(label)] if label.isdecimal() and label not in known and int(label) < len(known) else label

    found = (each._replace(label=by_name(each.label)) if isinstance(each, Item) else each for each in source.found)
    return pool_of(replace(source, found=found), Path(path).name.split(".")[0], size, False, flip, classes)


def text(
    path: At,
    column: str = "",
    label: str = "",
    labels_from_folders: bool = False,
    encoding: str = "utf-8",
    classes: Names = None,
    follow_links: bool = False,
) -> Pool:
    """The texts of a .csv, .tsv, .jsonl or .parquet file, or of all .txt files below a folder; train on them with
    `net="frozen:tfidf"`.

    `column` has the texts (by default `text`), `label` the classes (by default a column label, class, category or target,
    where there is one; "" is unknown). Rows with `test` in a column `split` are held out; so is the folder `test` with
    `labels_from_folders`, which takes the class from the first folder below `path`, or the second where the first ones are
    `train` and `test`. What cannot be read, and empty texts, end in `pool.skipped`. `classes` fixes the order of the
    classes, by default alphabetical.

    `encoding` is that of the file; links that leave the folder are skipped unless `follow_links`.

    >>> with open("mails.csv", "w") as file:
    ...     for line in ("text,label", "cheap pills,spam", "lunch at noon,"):
    ...         print(line, file=file)
    >>> al.data.text("mails.csv")
    <Pool mails: 2 text items, 1 with a label, 1 classes>
    """
    source = read_texts(Path(path), column, label, encoding, follow_links, labels_from_folders)
    return pool_of(source, called(path), classes=classes)


def hf(
    what: Any,
    image: str = "",
    features: str = "",
    text: str = "",
    label: str = "",
    id: str = "",
    size: Size = None,
    flip: bool = True,
    classes: Names = None,
    progress: Progress | None = None,
) -> Pool:
    """A Hugging Face data set; `what` is the folder that `save_to_disk` wrote, Parquet files, a Dataset or a DatasetDict.

    The columns are found by their types: `image` (Image, or bytes of image files), `features` (lists of floats of one
    length) or `text` (text), `label` (ClassLabel, or a column label, class, category or target) and `id`; where several
    could be meant, name one. The split `train` is the pool, `test` (or else `validation`) is held out. `size` is that of
    `folder`. Unreadable images and rows without a value end in `pool.skipped`. Scripts are never run.

    `flip`, `classes` and `progress` as in `folder`.

    >>> import pyarrow, pyarrow.parquet
    >>> table = pyarrow.table({"text": ["cheap pills", "lunch at noon"], "label": ["spam", "ham"]})
    >>> pyarrow.parquet.write_table(table, "mails.parquet")
    >>> al.data.hf("mails.parquet")
    <Pool mails: 2 text items, 2 with a label, 2 classes>
    """
    source = arrow_source(what, {"image": image, "features": features, "text": text}, label, id)
    return pool_of(source, source.root.resolve().stem, size, False, flip, classes, progress)


parquet = hf  # a Parquet file, or a folder of them


def npz(
    path: At, kind: Kind | None = None, layout: Layout = "auto", flip: bool = True, with_validation: bool = False
) -> Pool:
    """The arrays of an .npz file: X and optionally y (-1 = unlabelled), X_test, y_test, ids, classes.

    Also x_train, y_train, x_test, y_test; f_train and f_test for features; train_images, train_labels, test_images,
    test_labels as in MedMNIST, whose val_images stay out of the pool unless `with_validation`. Features
    become float32. An .npy file holds X alone and stays on disk, read as needed; its ids may stand in ids.txt beside it,
    one per line. Pickled objects are refused.

    `kind`, `layout` and `flip` as in `as_pool`.

    >>> np.savez("pool.npz", X=np.eye(4), y=[0, 1, -1, -1])
    >>> al.data.npz("pool.npz")
    <Pool pool: 4 features items of 4, 2 with a label, 2 classes>
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: expected an .npz or .npy file, found nothing there")
    if is_npy(file):
        return as_pool(load_npy(file), ids=listed_ids(file), name=file.stem, kind=kind, layout=layout, flip=flip)
    arrays = load_npz(file)
    x, y, test_x, test_y = (arrays.get(name) for name in names_of(file, arrays))
    test = None if test_x is None or test_y is None else (as_float32(test_x), test_y)
    ids, classes = (tuple(map(str, arrays[key])) if key in arrays else None for key in ("ids", "classes"))
    assert x is not None
    if with_validation:
        more = [arrays.get(name) for name in ("val_images", "val_labels")]
        if y is None or more[0] is None or more[1] is None:
            raise InputError(f"{file}: expected val_images and val_labels to add to the pool, got {some(arrays)}")
        x, y = np.concatenate([x, more[0]]), np.concatenate([y, more[1]])
    return as_pool(
        as_float32(x), y, test=test, ids=ids, classes=classes, name=file.stem, kind=kind, layout=layout, flip=flip
    )


def as_float32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def called(path: At) -> str:
    """A pool's name: of a folder its own, of a file that without its suffix."""
    place = Path(path).resolve()
    return place.name if place.is_dir() else place.stem


# --- items -> a pool


def pool_of(
    source: Source,
    name: str,
    size: Size = None,
    lazy: bool = False,
    flip: bool = True,
    classes: Names = None,
    progress: Progress | None = None,
) -> Pool:
    """The items that can be read; those of the source's test split that have a label are held out."""
    kind, x, items, skipped = take(source, size, lazy, progress)
    for hint in source.hints:
        log.info("%s", hint)
    names = [item.label for item in items]
    known = (*source.classes, *(n for n in in_order(names) if n not in source.classes))
    labels, known = encode_labels(names, known if classes is None else classes)
    held = np.array([item.split == source.test for item in items]) & (labels >= 0)
    stay, test = np.flatnonzero(~held), np.flatnonzero(held)
    if len(stay) == 0:
        raise InputError(f"{name}: expected items for the pool, got only {len(test)} for test")
    read = rows_at if kind == "text" else take_rows
    kept = [items[i] for i in stay]
    return Pool(
        rows_at(x, stay),
        labels[stay],
        tuple(item.id for item in kept),
        known or None,
        (read(x, test), labels[test]) if len(test) else None,
        name,
        kind,
        flip,
        tuple(skipped),
        {column: tuple(item.columns.get(column, "") for item in kept) for column in items[0].columns},
    )


def take(
    source: Source, size: Size, lazy: bool, progress: Progress | None
) -> tuple[Kind, Rows, list[Item], list[tuple[str, str]]]:
    """The kind and rows of a source's items, those items, and what cannot be read and why; an error when that is all."""
    kind, what = KINDS.get(source.kind, ("image", "images (png, jpg, jpeg, webp, bmp, tif, gif)"))
    side = as_size(size)
    if source.kind == "files":
        peek = lazy or side is None  # into the headers, for their sizes: that is soon done
        source = replace(source, found=[measured(f) if peek and isinstance(f, Item) else f for f in source.found])
        side = side or only_size(i for i in source.found if isinstance(i, Item))
    if kind == "image" and not lazy:
        source = replace(source, found=decoded_all(source.found, side, progress))
    items, left_out = source.read()
    skipped = [(path, reason) for path, _, reason in left_out]
    if not items:
        raise InputError(f"{source.root}: expected {what}, found none{first_of(left_out)}")
    if kind == "text":
        x: Any = tuple(item.content for item in items)
    elif kind == "features":
        items, x = vectors(items, skipped, source.test)
    elif lazy:
        x = ImageFiles([item.content for item in items], side)
    else:
        only_size(items)
        x = torch.stack([torch.from_numpy(item.content) for item in items])
    if skipped:
        n, noun = len(items) + len(left_out), what.split()[0]
        log.warning("%d of %d %s cannot be read and are left out; see pool.skipped", len(skipped), n, noun)
    return kind, x, items, sorted(skipped)


def vectors(items: list[Item], skipped: list[tuple[str, str]], test: str) -> tuple[list[Item], Tensor]:
    """(N, d) float32 of the rows that are as long as the first; an error where no test row is."""
    wide = len(items[0].content)
    held = {len(item.content) for item in items if item.split == test}
    if held and wide not in held:
        raise InputError(f"expected test items of shape ({wide},) as in the pool, got ({min(held)},)")
    skipped += [(i.id, f"{len(i.content)} features; the first row has {wide}") for i in items if len(i.content) != wide]
    good = [item for item in items if len(item.content) == wide]
    return good, torch.from_numpy(np.stack([item.content for item in good]))


def decoded_all(found: Iterable[Item | Skipped], size: Pair, progress: Progress | None) -> Iterator[Item | Skipped]:
    """The images one by one: of those inside another file, only the pixels are kept."""
    total = len(found) if isinstance(found, list) else 0
    for done, each in enumerate(found, 1):
        yield decoded(each, size) if isinstance(each, Item) else each
        if progress is not None:
            progress(done, max(done, total))


def only_size(items: Iterable[Item]) -> Pair:
    """The one size (height, width) that all images have, None if there are none; an error tells the sizes found."""
    first: dict[tuple[int, int], str] = {}
    counts: Counter[tuple[int, int]] = Counter()
    for item in items:
        counts[item.height, item.width] += 1
        first.setdefault((item.height, item.width), item.id)
    if len(counts) <= 1:
        return next(iter(counts), None)
    common = "; ".join(f"{w} x {h}: {n} images, such as {first[h, w]}" for (h, w), n in counts.most_common(3))
    raise InputError(
        f"expected images of one size, got {len(counts)} sizes (width x height {common}); pass size=, for example "
        "size=64, to scale and crop them"
    )
