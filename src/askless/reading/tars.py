"""Tars in WebDataset's manner: files that follow each other under one name belong together."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from askless.reading.table import label_text

LABELS = (".cls", ".txt", ".json")  # beside an image in a tar
TARS = (".tar", ".tar.gz", ".tgz")


@contextmanager
def unzipped(file: Any, path: str) -> Iterator[Any]:
    """The file itself, or what is packed in it; small steps back are cheap."""
    if not path.endswith((".gz", ".tgz")):
        yield file
        return
    with io.BufferedReader(gzip.GzipFile(fileobj=file), buffer_size=2**20) as plain:
        yield plain


@contextmanager
def whole_tar(file: Any, path: str) -> Iterator[tarfile.TarFile]:
    """An opened file as a tar, and once all of it was read, an error where that was not all: a whole tar ends in blocks of
    zeros, and tarfile stops at the first odd block without a word."""
    with unzipped(file, path) as plain:
        with tarfile.open(fileobj=plain, mode="r:") as tar:
            yield tar
            plain.seek(tar.offset)
            rest = plain.read()
        if len(rest) < 512 or any(rest):
            raise tarfile.ReadError(f"damaged or cut after byte {tar.offset}")


def by_key(tar: tarfile.TarFile) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Members that follow each other under one name up to its first dot: that name, and they with their contents."""
    key = ""
    members: list[tuple[str, bytes]] = []
    for member in tar:
        path = PurePosixPath(member.name)
        if not member.isfile() or path.name.startswith("."):
            continue
        mine = str(path.with_name(path.name.split(".")[0]))
        if mine != key and members:
            yield key, members
            members = []
        file = tar.extractfile(member)
        assert file is not None
        key = mine
        members.append((member.name.removeprefix("./"), file.read()))
    if members:
        yield key, members


def label_in(content: bytes, end: str) -> str:
    """The text of a label, or what a JSON object says of it; "" where that is none, or -1 in .cls, which has numbers."""
    text = content.decode("utf-8", errors="replace").strip()
    if end != ".json":
        return "" if end == ".cls" and text == "-1" else text
    try:
        said = json.loads(text)
    except ValueError:
        return ""
    return label_text(said.get("label")) if isinstance(said, dict) else ""
