"""Tars in WebDataset's manner: files that follow each other under one name belong together."""

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from askless.base.errors import InputError
from askless.sources.limits import CHUNK, Gunzipped, check_bytes
from askless.sources.table import label_text

LABELS = (".cls", ".txt", ".json")  # beside an image in a tar
TARS = (".tar", ".tar.gz", ".tgz")
NOTES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
LONGEST_NOTE = 32_768  # bytes, in a header of pax or GNU, such as a long path


@contextmanager
def unzipped(file: Any, path: str) -> Iterator[Any]:
    """The file itself, or what is packed in it; small steps back are cheap."""
    if not path.endswith((".gz", ".tgz")):
        yield file
        return
    with io.BufferedReader(Gunzipped(fileobj=file), buffer_size=CHUNK) as plain:
        yield plain


@contextmanager
def whole_tar(file: Any, path: str) -> Iterator[tarfile.TarFile]:
    """An opened file as a tar, and once all of it was read, an error where that was not all: a whole tar ends in blocks of
    zeros, and tarfile stops at the first odd block without a word."""
    with unzipped(file, path) as plain:
        with odd_headers():
            tar = tarfile.open(fileobj=plain, mode="r:", tarinfo=Header)  # noqa: SIM115
        with tar:
            yield tar
            plain.seek(tar.offset)
            rest, zeros = 0, True
            while zeros and (part := plain.read(CHUNK)):
                rest, zeros = rest + len(part), part.count(0) == len(part)
        if rest < 512 or not zeros:
            raise tarfile.ReadError(f"damaged or cut after byte {tar.offset}")


class Header(tarfile.TarInfo):
    """A header that neither sends tarfile backwards, and so round for ever, nor has it search megabytes of notes."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> "Header":
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in NOTES and header.size > LONGEST_NOTE):
            raise tarfile.ReadError(f"a header of {header.size:,} bytes")
        return header


@contextmanager
def odd_headers() -> Iterator[None]:
    """What else tarfile says of headers that nobody writes, as its own error."""
    try:
        yield
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise tarfile.ReadError(f"a header that cannot be read ({type(error).__name__})") from None


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while True:
        with odd_headers():
            member = tar.next()
        if member is None:
            return
        if member.size < 0:  # as its notes say
            raise tarfile.ReadError(f"{member.name!a} has {member.size:,} bytes")
        yield member


def by_key(tar: tarfile.TarFile) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Members that follow each other under one name up to its first dot: that name, and they with their contents."""
    key, size = "", 0
    members: list[tuple[str, bytes]] = []
    for member in members_of(tar):
        path = PurePosixPath(member.name)
        if not member.isfile() or not path.name or path.name.startswith("."):
            continue
        mine = str(path.with_name(path.name.split(".")[0]))
        if mine != key and members:
            yield key, members
            members, size = [], 0
        size += member.size
        check_bytes(f"{member.name!a} in {getattr(tar.fileobj, 'name', 'a tar')}", size)
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
        return label_text(said.get("label")) if isinstance(said, dict) else ""
    except (ValueError, RecursionError):  # no JSON, or braces in braces by the thousand
        return ""
