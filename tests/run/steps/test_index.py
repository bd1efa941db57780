import csv
import io
import os
import shutil
import struct
import subprocess
import sys
import zlib
from hashlib import sha256

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError
from askless.run import Run
from askless.run.out.export import export_run
from askless.run.steps import index as module
from askless.run.steps.index import Skipped, scan, write_skipped
from askless.sources import UnreadableError, image_file, read_image

ODD_NAMES = [
    "with space.png",
    "é.png",
    "😀.png",
    "new\nline.png",
    "-rf.png",
    "<img src=x onerror=alert(1)>.png",
    'quote".png',
    "=1+1.png",
    "%2e%2e.png",
    "a" * 251 + ".png",
    "UPPER.PNG",
]


def save(path, shade=0, size=(6, 5), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, 255 - shade, shade // 2)).save(path, **options)


def noise(height=64, width=64, seed=0):
    return np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)


BOMB = (
    "more than 89478485 pixels (a decompression bomb?); scale it down, or raise the limit with the environment variable "
    "ASKLESS_MAX_PIXELS"
)


def png_header(width, height):
    """A PNG file that claims a size and holds hardly a pixel."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def bmp_header(width, height):
    return struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)


def paths(index):
    return [item.id for item in index.items]


def reasons(index):
    return {s.path: (s.problem, s.reason) for s in index.skipped}


def by_path(index):
    return {item.id: item for item in index.items}


def snapshot(root):
    """Everything about a folder that could change: names, kinds, modes, times of change, links and contents."""
    seen = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files, "."]:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else ""
            if not content and os.path.isfile(path):
                with open(path, "rb") as file:
                    content = sha256(file.read()).hexdigest()
            seen[path] = (about.st_mode, about.st_mtime_ns, about.st_ctime_ns, about.st_size, content)
    return seen


# --- folders


def test_images_of_any_depth_are_found_in_order_with_their_sizes(tmp_path):
    save(tmp_path / "b.PNG", 1, (7, 3))
    save(tmp_path / "deep" / "er" / "a.bmp", 2)
    save(tmp_path / "a.jpeg", 3)
    save(tmp_path / ".hidden.png", 4)
    save(tmp_path / ".thumbs" / "a.png", 5)
    (tmp_path / "notes.txt").write_text("no image, by its name")
    index = scan(tmp_path)
    assert paths(index) == ["a.jpeg", "b.PNG", "deep/er/a.bmp"]
    assert [(item.width, item.height) for item in index.items] == [(6, 5), (7, 3), (6, 5)]
    assert (index.kind, index.root, index.skipped, index.classes, index.hints) == ("files", tmp_path, [], (), [])
    assert {item.label for item in index.items} == {""}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_names(tmp_path, name):
    save(tmp_path / name)
    assert paths(scan(tmp_path)) == [name]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.png", b"", "an empty file"),
        ("corrupt.png", b"\x89PNG\r\n\x1a\nbut no more of it", "not an image, or an unknown format"),
        ("text.jpg", b"dear diary", "not an image, or an unknown format"),
        (
            "vector.png",
            b'<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>',
            "not an image, or an unknown format",
        ),
        ("script.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image, or an unknown format"),
        ("bomb.png", png_header(30_000, 30_000), BOMB),
        ("bomb.bmp", bmp_header(30_000, 30_000), BOMB),
        ("large.png", png_header(10_000, 10_000), BOMB),
    ],
)
def test_what_is_no_image_is_listed_with_the_reason(tmp_path, name, content, reason):
    save(tmp_path / "good.png")
    (tmp_path / name).write_bytes(content)
    index = scan(tmp_path)
    assert paths(index) == ["good.png"]
    assert index.skipped == [Skipped(name, "unreadable", reason)]


def test_images_of_formats_that_are_not_read_are_listed(tmp_path):
    save(tmp_path / "good.png")
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / "IMG_1.HEIC").write_bytes(b"ftypheic")
    index = scan(tmp_path)
    assert paths(index) == ["good.png"]
    reason = "askless cannot read .heic images; convert them to .jpg or .png"
    assert index.skipped == [Skipped("phone/IMG_1.HEIC", "unreadable", reason)]
    (tmp_path / "good.png").unlink()
    (tmp_path / "notes.txt").write_text("what is on them")
    with pytest.raises(
        InputError, match=r"found none; 1 left out, the first, phone/IMG_1.HEIC: askless cannot read .heic"
    ):
        scan(tmp_path)  # and the notes are not what is to be labelled


def test_a_header_of_allowed_size_is_enough(tmp_path):
    (tmp_path / "wide.png").write_bytes(
        png_header(9_000, 9_000)
    )  # so is one whose pixels are missing, until it is read
    assert [(item.width, item.height) for item in scan(tmp_path).items] == [(9_000, 9_000)]


def test_a_name_that_is_no_text_is_listed(tmp_path):
    save(tmp_path / "good.png")
    try:
        os.rename(tmp_path / "good.png", os.fsencode(tmp_path) + b"/\xff.png")
        os.mkdir(os.fsencode(tmp_path) + b"/\xfe")
    except OSError:
        pytest.skip("this file system takes only text as names")
    save(tmp_path / os.fsdecode(b"\xfe") / "a.png", 1)
    save(tmp_path / "good.png", 2)
    index = scan(tmp_path)
    assert paths(index) == ["good.png"]
    assert reasons(index) == {
        r"'\udcff.png'": ("name", "its name is not valid UTF-8; rename it"),
        r"'\udcfe/a.png'": ("name", "its name is not valid UTF-8; rename it"),
    }
    write_skipped(index.skipped, tmp_path / "skipped.csv")  # and it can be written down


def test_a_pipe_is_listed_and_nobody_waits_for_it(tmp_path):
    save(tmp_path / "good.png")
    os.mkfifo(tmp_path / "pipe.png")
    index = scan(tmp_path)
    assert paths(index) == ["good.png"]
    assert reasons(index) == {"pipe.png": ("unreadable", "not a regular file")}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_may_not_be_read_is_listed(tmp_path):
    save(tmp_path / "good.png")
    save(tmp_path / "secret.png", 1)
    save(tmp_path / "locked" / "a.png", 2)
    (tmp_path / "secret.png").chmod(0)
    (tmp_path / "locked").chmod(0)
    try:
        index = scan(tmp_path)
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert paths(index) == ["good.png"]
    assert reasons(index) == {
        "locked/": ("unreadable", "cannot be listed (Permission denied)"),
        "secret.png": ("unreadable", "Permission denied"),
    }


def test_a_run_inside_is_no_part_of_the_images(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "my-run" / "cache" / "thumbs" / "1.png", 1)
    (tmp_path / "my-run" / "state.sqlite").write_bytes(b"")
    index = scan(tmp_path)
    assert (paths(index), index.skipped) == (["a.png"], [])
    assert index.hints == ["my-run is a run of askless, not part of the images"]
    with pytest.raises(
        InputError, match=r"expected images, got a run of askless; continue it with `askless start .*my-run`"
    ):
        scan(tmp_path / "my-run")


def test_a_file_too_large_for_the_memory_is_listed(tmp_path, monkeypatch):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png", 1)
    image_size = image_file.image_size

    def sparing(file):
        if file.endswith("b.png"):
            raise MemoryError
        return image_size(file)

    monkeypatch.setattr(image_file, "image_size", sparing)
    assert reasons(scan(tmp_path)) == {"b.png": ("unreadable", "too large for this computer's memory")}


def test_progress_is_told(tmp_path):
    for i in range(130):
        save(tmp_path / f"{i}.png", i)
    told = []
    scan(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(64, 130), (128, 130), (130, 130)]


# --- links


@pytest.fixture
def linked(tmp_path):
    """photos/ with links to a file and a folder outside, to a file and a folder inside, to nothing, and round in a ring."""
    root = tmp_path / "photos"
    save(root / "a.png", 1)
    save(root / "sub" / "b.png", 2)
    save(tmp_path / "outside" / "secret.png", 9)
    (root / "out.png").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "ring.png").symlink_to(root / "ring.png")
    (root / "ring").symlink_to(root / "ring")
    (root / "void.png").symlink_to(root / "nowhere.png")
    (root / "sub" / "up").symlink_to(root)
    (root / "sub" / "z.png").symlink_to(root / "a.png")
    return root


def test_links_that_leave_the_folder_are_listed(linked):
    index = scan(linked)
    assert paths(index) == ["a.png", "sub/b.png"]
    assert reasons(index) == {
        "out": ("outside", "a link to a folder; pass follow_links (--follow-links) to allow it"),
        "out.png": ("outside", "a link that leaves the folder; pass follow_links (--follow-links) to allow it"),
        "ring.png": ("unreadable", "Too many levels of symbolic links"),
        "sub/up": ("link", "a link to another folder in this one; pass follow_links (--follow-links) to allow it"),
        "sub/z.png": ("duplicate", "the same content as a.png"),
        "void.png": ("missing", "a link to nothing"),
    }


def test_links_are_followed_when_said_and_never_round(linked):
    index = scan(linked, follow_links=True)
    assert paths(index) == ["a.png", "out.png", "sub/b.png"]
    assert reasons(index)["out/secret.png"] == ("duplicate", "the same content as out.png")
    assert not any(s.problem in ("outside", "link") for s in index.skipped)


def test_a_source_that_is_a_link_is_its_own_root(linked, tmp_path):
    (tmp_path / "here").symlink_to(linked)
    assert paths(scan(tmp_path / "here")) == ["a.png", "sub/b.png"]
    assert scan(tmp_path / "here").root == linked


# --- copies


def test_of_exact_copies_the_first_by_path_stays(tmp_path):
    save(tmp_path / "b.png", 7)
    shutil.copy(tmp_path / "b.png", tmp_path / "c.png")
    (tmp_path / "a").mkdir()
    shutil.copy(tmp_path / "b.png", tmp_path / "a" / "z.png")
    save(tmp_path / "other.png", 8)
    index = scan(tmp_path)
    assert paths(index) == ["a/z.png", "other.png"]
    assert index.skipped == [
        Skipped("b.png", "duplicate", "the same content as a/z.png"),
        Skipped("c.png", "duplicate", "the same content as a/z.png"),
    ]


def test_only_files_of_equal_size_are_read_and_only_alike_ones_whole(tmp_path, monkeypatch):
    pixels = noise()  # 64 x 64 x 3 = 12,288 bytes, more than are compared at first
    corner, middle = pixels.copy(), pixels.copy()
    corner[0, 0] ^= 1
    middle[32, 32] ^= 1
    images = {"a": pixels, "b": pixels, "corner": corner, "middle": middle, "other": pixels[:32]}
    for name, image in images.items():
        Image.fromarray(image).save(tmp_path / f"{name}.bmp")
    read, digest = [], module.digest

    def watched(candidate, part=0):
        read.append((candidate.id, part))
        return digest(candidate, part)

    monkeypatch.setattr(module, "digest", watched)
    index = scan(tmp_path)
    assert paths(index) == ["a.bmp", "corner.bmp", "middle.bmp", "other.bmp"]
    assert reasons(index) == {"b.bmp": ("duplicate", "the same content as a.bmp")}
    assert sorted(read) == [
        ("a.bmp", 0),
        ("a.bmp", 4096),
        ("b.bmp", 0),
        ("b.bmp", 4096),
        ("corner.bmp", 0),
        ("corner.bmp", 4096),
        ("middle.bmp", 4096),
    ]


def test_a_file_that_vanishes_is_nobody_s_copy(tmp_path, monkeypatch):
    for name in ("a.png", "b.png"):
        save(tmp_path / name)
    monkeypatch.setattr(module, "open_file", lambda path: (_ for _ in ()).throw(FileNotFoundError(path)))
    assert paths(scan(tmp_path)) == ["a.png", "b.png"]


def table(tmp_path, *rows, name="list.csv", header="path,label"):
    (tmp_path / name).write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / name


def test_copies_that_disagree_lose_the_label(tmp_path):
    save(tmp_path / "a.png")
    shutil.copy(tmp_path / "a.png", tmp_path / "b.png")
    index = scan(table(tmp_path, "a.png,cat", "b.png,dog"))
    assert [(item.id, item.label) for item in index.items] == [("a.png", "")]
    assert index.skipped == [
        Skipped("b.png", "duplicate", "the same content as a.png; the labels differ (cat, dog), so none is used")
    ]
    assert index.hints == ["1 images have copies with other labels, such as a.png; they count as unlabelled"]
    assert index.classes == ("cat", "dog")


def test_a_copy_lends_its_label_to_the_first(tmp_path):
    save(tmp_path / "a.png")
    shutil.copy(tmp_path / "a.png", tmp_path / "b.png")
    index = scan(table(tmp_path, "a.png,", "b.png,dog", "a.png,dog"))
    assert [(item.id, item.label) for item in index.items] == [("a.png", "dog")]
    assert index.skipped == [
        Skipped("a.png", "duplicate", "listed more than once"),
        Skipped("b.png", "duplicate", "the same content as a.png"),
    ]
    assert index.hints == []


# --- labels from folders


def test_folders_are_classes_only_when_said(tmp_path):
    for i, name in enumerate(["dog/1.png", "cat/2.png", "cat/sub/3.png"]):
        save(tmp_path / name, i)
    hint = "the images are in 2 folders; pass labels_from_folders (--labels-from-folders) if these are classes"
    assert (scan(tmp_path).classes, scan(tmp_path).hints) == ((), [hint])
    index = scan(tmp_path, labels_from_folders=True)
    assert [(item.id, item.label) for item in index.items] == [
        ("cat/2.png", "cat"),
        ("cat/sub/3.png", "cat"),
        ("dog/1.png", "dog"),
    ]
    assert (index.classes, index.hints) == (("cat", "dog"), [])
    save(tmp_path / "loose.png", 9)
    assert scan(tmp_path).hints == []  # no longer one folder per class


def test_train_and_test_folders_are_splits(tmp_path):
    for i, name in enumerate(["train/dog/1.png", "Train/cat/2.png", "val/cat/3.png", "train/loose.png"]):
        save(tmp_path / name, i)
    index = scan(tmp_path, labels_from_folders=True)
    assert {item.id: (item.label, item.columns["split"]) for item in index.items} == {
        "train/dog/1.png": ("dog", "train"),
        "Train/cat/2.png": ("cat", "train"),
        "val/cat/3.png": ("cat", "val"),
        "train/loose.png": ("", "train"),
    }


def test_labels_from_folders_needs_folders(tmp_path):
    save(tmp_path / "a.png")
    with pytest.raises(InputError, match="expected one folder per class below it, found none"):
        scan(tmp_path, labels_from_folders=True)
    with pytest.raises(InputError, match="expected a folder to take the labels from its folders"):
        scan(table(tmp_path, "a.png,"), labels_from_folders=True)


# --- tables


def test_a_table_gives_paths_labels_and_further_columns(tmp_path):
    for i, name in enumerate(["b.png", "sub/a.png", "plain"]):
        save(tmp_path / name, i, format="png")
    rows = "b.png\tdog\ttest\tx", "sub/a.png\t\ttrain\ty", "plain\tcat\ttrain\tz"
    index = scan(table(tmp_path, *rows, name="list.tsv", header="Filename\tclass\tsplit\tgroup"))
    assert [(item.id, item.label, item.columns) for item in index.items] == [
        ("b.png", "dog", {"split": "test", "group": "x"}),
        ("sub/a.png", "", {"split": "train", "group": "y"}),
        ("plain", "cat", {"split": "train", "group": "z"}),
    ]
    assert (index.kind, index.root, index.classes) == ("files", tmp_path, ("cat", "dog"))
    assert (index.items[0].width, index.items[0].height) == (6, 5)


def test_what_a_table_cannot_mean_is_listed(tmp_path):
    root = tmp_path / "photos"
    save(root / "good.png")
    save(tmp_path / "out.png", 1)
    save(tmp_path / "elsewhere" / "far.png", 2)
    (root / "link.png").symlink_to(tmp_path / "out.png")
    (root / "way").symlink_to(tmp_path / "elsewhere")
    (root / "text.png").write_text("no")
    os.mkfifo(root / "pipe.png")
    (root / "folder").mkdir()
    names = "good.png", "../out.png", f"{tmp_path}/out.png", "link.png", "way/far.png", "/etc/passwd", "no.png"
    odd = "text.png", "pipe.png", "folder", "good.png/x.png", "b" * 300, "zero\0byte.png", "~/x.png"
    listed = table(root, *(f"{name},x" for name in names + odd), ",x")
    outside = ("outside", "outside the table's folder; pass follow_links (--follow-links) to allow it")
    index = scan(listed)
    assert paths(index) == ["good.png"]
    assert reasons(index) == {
        "../out.png": outside,
        f"{tmp_path}/out.png": outside,
        "link.png": outside,
        "way/far.png": outside,
        "/etc/passwd": outside,
        "no.png": ("missing", "no such file"),
        "text.png": ("unreadable", "not an image, or an unknown format"),
        "pipe.png": ("unreadable", "not a regular file"),
        "folder": ("unreadable", "not a regular file"),
        "good.png/x.png": ("missing", "no such file"),
        "b" * 300: ("unreadable", "File name too long"),
        "zero\0byte.png": ("unreadable", "embedded null byte"),
        "~/x.png": ("missing", "no such file"),
        "": ("missing", "a row without a path"),
    }
    followed = scan(listed, follow_links=True)
    assert paths(followed) == ["good.png", "../out.png", "way/far.png"]
    assert reasons(followed)["/etc/passwd"] == ("unreadable", "not an image, or an unknown format")
    assert not any(s.problem == "outside" for s in followed.skipped)


def test_an_absolute_path_that_stays_inside_is_taken(tmp_path):
    save(tmp_path / "a.png")
    assert paths(scan(table(tmp_path, f"{tmp_path}/a.png,x"))) == [f"{tmp_path}/a.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\n", "expected a header and at least one row"),
        ("name,label\na.png,x\n", "expected a column path or file_name"),
        ("path,label\na.png,x,y\n", "line 2 has 3 fields and the header 2"),
        ('path,label\n"a.png,' + "x" * 600_000, "line 2 is not valid CSV"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, message):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        scan(tmp_path / "list.csv")


# --- arrays


def test_rows_of_images_with_labels_ids_and_classes(tmp_path):
    x = noise(3 * 8, 9).reshape(3, 8, 9, 3)
    np.savez(tmp_path / "a.npz", X=x, y=[1, -1, 0], ids=["p", "q", "r"], classes=["cat", "dog"], X_test=x)
    index = scan(tmp_path / "a.npz")
    assert [(item.id, item.label, item.width, item.height) for item in index.items] == [
        ("p", "dog", 9, 8),
        ("q", "", 9, 8),
        ("r", "cat", 9, 8),
    ]
    assert (index.kind, index.root, index.classes) == ("images", tmp_path / "a.npz", ("cat", "dog"))
    assert index.hints == ["not used from a.npz: X_test"]


def test_numbers_are_names_of_classes(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=[1, -1, 0])
    assert [item.label for item in scan(tmp_path / "a.npz").items] == ["1", "", "0"]
    assert scan(tmp_path / "a.npz").classes == ("0", "1")
    np.savez(tmp_path / "b.npz", X=np.eye(3), y=["a", "", "b"])
    assert [item.label for item in scan(tmp_path / "b.npz").items] == ["a", "", "b"]


def test_features_keep_equal_rows_and_lose_broken_ones(tmp_path):
    x = np.ones((4, 3), np.float32)
    x[1, 2], x[2, 0] = np.nan, -np.inf
    np.save(tmp_path / "f.npy", x)
    index = scan(tmp_path / "f.npy")
    assert [(item.id, item.width) for item in index.items] == [("0", 0), ("3", 0)]
    assert reasons(index) == {name: ("unreadable", "contains NaN or infinity") for name in "12"}
    assert index.kind == "features"


def test_equal_images_and_float_pixels_out_of_range_are_left_out(tmp_path):
    x = np.random.default_rng(0).random((6, 1, 5, 4))
    x[2] = x[0]
    x[3, 0, 2], x[3, 0, 0] = x[0, 0, 2], 0.5  # only the middle line is equal
    x[4] *= 255
    x[5, 0, 0, 0] = np.nan
    np.savez_compressed(tmp_path / "a.npz", X=x)
    index = scan(tmp_path / "a.npz")
    assert paths(index) == ["0", "1", "3"]
    assert reasons(index) == {
        "2": ("duplicate", "the same content as 0"),
        "4": ("unreadable", f"pixels from {x[4].min():g} to {x[4].max():g}; expected [0, 1]"),
        "5": ("unreadable", "contains NaN or infinity"),
    }


def test_it_looks_at_all_tiles(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TILE", 100)  # bytes: four rows
    x = np.zeros((10, 3))
    x[9] = np.inf
    np.save(tmp_path / "f.npy", x)
    assert [s.path for s in scan(tmp_path / "f.npy").skipped] == ["9"]


@pytest.mark.parametrize("name", ["X", "y", "else"])
def test_pickled_objects_are_refused(tmp_path, name):
    arrays = {"X": np.eye(2), name: np.array([{}, {}], dtype=object)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(
        InputError, match=f"expected an .npz file of plain arrays, got another .{name} holds Python objects"
    ):
        scan(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", arrays[name], allow_pickle=True)
    with pytest.raises(InputError, match=r"expected an .npy file with a plain array, got another"):
        scan(tmp_path / "a.npy")


# --- the whole


@pytest.fixture
def torture(tmp_path):
    """A folder with everything that goes wrong with image files."""
    root = tmp_path / "photos"
    root.mkdir()
    for i, name in enumerate(ODD_NAMES):
        save(root / "odd" / name, i)
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(root / "animated.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(noise(8, 8, 1)).convert("CMYK").save(root / "cmyk.jpg")
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(root / "deep.png")
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 999).save(root / "deep.tif")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise(10, 20, 2)).save(root / "turned.jpg", exif=exif)
    palette = Image.fromarray(noise(8, 8, 3)).quantize(4)
    palette.save(root / "palette.png", transparency=0)
    Image.fromarray(noise(64, 64, 4)).save(root / "whole.jpg")
    (root / "truncated.jpg").write_bytes((root / "whole.jpg").read_bytes()[:1500])
    shutil.copy(root / "whole.jpg", root / "whole copy.jpg")
    (root / "corrupt.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    (root / "empty.jpg").write_bytes(b"")
    (root / "text.jpg").write_text("no image")
    (root / "vector.svg").write_text("<svg/>")
    (root / "vector.png").write_text("<svg/>")
    (root / "bomb.png").write_bytes(png_header(30_000, 30_000))
    os.mkfifo(root / "pipe.png")
    save(tmp_path / "outside" / "secret.png", 200)
    (root / "out.png").symlink_to(tmp_path / "outside" / "secret.png")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    save(root / "my-run" / "cache" / "thumbs" / "1.png", 100)
    (root / "my-run" / "state.sqlite").write_bytes(b"")
    return root


GOOD = [
    "animated.gif",
    "cmyk.jpg",
    "deep.png",
    "deep.tif",
    "palette.png",
    "truncated.jpg",
    "turned.jpg",
    "whole.jpg",
]


def test_the_torture_folder_is_indexed_right_and_left_untouched(torture):
    before = snapshot(torture)
    index = scan(torture)
    assert paths(index) == sorted(GOOD + [f"odd/{name}" for name in ODD_NAMES])
    assert {path: problem for path, (problem, _) in reasons(index).items()} == {
        "bomb.png": "unreadable",
        "corrupt.png": "unreadable",
        "empty.jpg": "unreadable",
        "loop": "link",
        "out": "outside",
        "out.png": "outside",
        "pipe.png": "unreadable",
        "text.jpg": "unreadable",
        "vector.png": "unreadable",
        "whole copy.jpg": "duplicate",
    }
    turned = by_path(index)["turned.jpg"]
    assert (turned.width, turned.height) == (10, 20)
    with pytest.raises(UnreadableError, match="truncated"):  # its header is fine
        read_image(torture / "truncated.jpg")
    assert snapshot(torture) == before


def test_two_scans_agree(torture):
    assert scan(torture) == scan(torture)


def test_what_was_left_out_is_written_down(torture, tmp_path):
    skipped = [*scan(torture).skipped, Skipped("a\n,\"b'.png", "unreadable", "é, 😀")]
    write_skipped(skipped, tmp_path / "run" / "skipped.csv")
    with (tmp_path / "run" / "skipped.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["path", "problem", "reason"]
    assert [Skipped(**row) for row in rows] == skipped


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", ".csv, .tsv, .npz, .npy, .jsonl, .ndjson, .parquet, found nothing there"),
        ("a.txt", ".csv, .tsv, .npz, .npy, .jsonl, .ndjson, .parquet, got 'a.txt'"),
        ("empty", "expected images .png, jpg, .* found none$"),
        ("bad", "found none; 1 left out, the first, a.png: an empty file"),
    ],
)
def test_a_source_without_items_is_refused(tmp_path, name, message):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_bytes(b"")
    with pytest.raises(InputError, match=message):
        scan(tmp_path / name)


def test_torch_is_not_needed():
    code = "import sys, askless.run.steps.index, askless.run.pictures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_whole_run_on_the_torture_folder_loses_only_the_bad_files_and_touches_nothing(torture, tmp_path):
    before = snapshot(torture)
    with Run.create(
        torture, tmp_path / "run", classes=("a", "b"), budget=12, batch=4, net="frozen:raw", steps=5
    ) as run:
        given = 0
        while not run.is_finished():
            while run.advance():
                pass
            waiting = run.waiting()
            run.tell({path: "ab"[(given + i) % 2] for i, path in enumerate(waiting)})
            given += len(waiting)
        good = sorted({*GOOD, *(f"odd/{name}" for name in ODD_NAMES)} - {"truncated.jpg"})
        assert sorted(run.paths[i] for i in run.readable()) == good
        for item in run.readable():
            for picture in (run.pictures.full(item), run.pictures.thumb(item)):
                Image.open(io.BytesIO(picture.content)).load()
        out = export_run(run, "imagefolder", tmp_path / "out")
        assert (out.labels, out.left_out) == (
            given,
            [],
        )  # the odd names look alike: some are kept from the check images
        assert given >= 5
    with (tmp_path / "run" / "skipped.csv").open(encoding="utf-8", newline="") as file:
        listed = {row["path"]: row["problem"] for row in csv.DictReader(file)}
    assert listed["truncated.jpg"] == listed["bomb.png"] == listed["empty.jpg"] == "unreadable"
    assert snapshot(torture) == before


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("IMG_1 copy.png", "IMG_1.png"), "IMG_1.png"),
        (("IMG_1 (1).png", "IMG_1.png"), "IMG_1.png"),
        (("Copy of IMG_1.png", "IMG_1_long.png"), "IMG_1_long.png"),
        (("IMG_1 - Kopie.png", "IMG_1_later.png"), "IMG_1_later.png"),
        (("IMG_1_copy.png", "IMG_1_edited.png"), "IMG_1_edited.png"),
        (("IMG_1 copy 2.png", "IMG_1 copy.png"), "IMG_1 copy.png"),
        (("a/IMG_1.png", "b/IMG_1.png"), "a/IMG_1.png"),
        (("IMG_10.png", "IMG_9.png"), "IMG_9.png"),
        (("copy.png", "photocopy shop.png"), "copy.png"),  # these are names, not marks of copies
    ],
)
def test_of_exact_copies_the_original_is_kept(tmp_path, names, kept):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (9, 9), "red").save(tmp_path / name)
    index = scan(tmp_path)
    (other,) = set(names) - {kept}
    assert [item.id for item in index.items] == [kept]
    assert [tuple(s) for s in index.skipped] == [(other, "duplicate", f"the same content as {kept}")]
