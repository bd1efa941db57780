"""Tars of images in WebDataset's manner: an image and what is said of it (.cls, .txt, .json) share a name."""

import io
import json
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

from askless.base.errors import InputError
from askless.sources.image_file import has_image_suffix
from askless.sources.items import Item, Skipped, Source
from askless.sources.limits import CHUNK, Gunzipped, check_bytes
from askless.sources.names import label_text

LABELS = (".cls", ".txt", ".json")  # beside an image in a tar
TARS = (".tar", ".tar.gz", ".tgz")
NOTES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
LONGEST_NOTE = 32_768  # bytes, in a header of pax or GNU, such as a long path
DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError)


def tar_source(root: Path) -> Source:
    """The images of a tar, or of all tars in a folder. Ids are the names up to the first dot, with the tar's name before
    them where there are several."""
    files = sorted(file for file in root.iterdir() if file.name.endswith(TARS)) if root.is_dir() else [root]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{root}: expected a .tar, .tar.gz or .tgz file, or a folder of them, found none")

    def found() -> Iterator[Item | Skipped]:
        for file in files:
            try:
                with file.open("rb") as raw:
                    yield from tar_items(raw, file.name, f"{file.name}/" if len(files) > 1 else "")
            except DAMAGE as error:
                raise InputError(
                    f"{file}: expected a complete tar file, got one that cannot be read ({error})"
                ) from None

    return Source("encoded", root, found())


def tar_items(file: Any, path: str, prefix: str) -> Iterator[Item]:
    """The images of an opened tar, named by their keys; where several have one key, each by its own name."""
    with whole_tar(file, path) as tar:
        for key, members in by_key(tar):
            beside = dict(members)
            label = next((label_in(beside[key + end], end) for end in LABELS if key + end in beside), "")
            images = [(name, content) for name, content in members if has_image_suffix(Path(name))]
            seen: Counter[str] = Counter()
            for name, content in images:
                seen[name] += 1
                own = name if seen[name] == 1 else f"{name}#{seen[name]}"
                yield Item(prefix + (key if len(images) == 1 else own), content, label)


@contextmanager
def whole_tar(file: Any, path: str) -> Iterator[tarfile.TarFile]:
    """An opened file as a tar, and once all of it was read, an error where that was not all: a whole tar ends in blocks of
    zeros, and tarfile stops at the first odd block without a word."""
    is_packed = path.endswith((".gz", ".tgz"))
    opened: Any = io.BufferedReader(Gunzipped(fileobj=file), CHUNK) if is_packed else nullcontext(file)
    with opened as plain:
        with odd_headers():
            tar = tarfile.open(fileobj=plain, mode="r:", tarinfo=Header)  # noqa: SIM115
        with tar:
            yield tar
            plain.seek(tar.offset)
            rest, zeros = 0, True
            while zeros and (part := plain.read(CHUNK)):
                rest, zeros = rest + len(part), part.count(0) == len(part)
        if rest < 512 or not zeros:
            raise tarfile.ReadError(f"damaged or cut off after byte {tar.offset}")


class Header(tarfile.TarInfo):
    """A header that neither sends tarfile backwards, in an endless loop, nor makes it search megabytes of notes."""

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
