import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from askless.run import pictures as module
from askless.run.pictures import NoPictureError, Pictures
from askless.sources import OutsideError, UnreadableError, read_image


def noise(height=40, width=60, seed=0):
    return np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)


def pixels(picture):
    return np.array(Image.open(BytesIO(picture.content)).convert("RGB"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


@pytest.fixture
def of(folder, tmp_path):
    """Pictures of these files of the folder."""
    return lambda *paths, **options: Pictures("files", folder, paths, tmp_path / "cache", **options)


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def write_rgba(path):
    Image.fromarray(np.dstack([noise(), noise(seed=1)[..., :1]])).save(path)


def write_animation(path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])


KINDS = {
    "rgb.png": lambda path: Image.fromarray(noise()).save(path),
    "grey.png": lambda path: Image.fromarray(noise()[..., 0]).save(path),
    "alpha.png": write_rgba,
    "palette.png": lambda path: Image.fromarray(noise()).quantize(4).save(path, transparency=0),
    "bits.png": lambda path: Image.fromarray(noise()[..., 0] > 99).save(path),
    "deep.png": lambda path: Image.fromarray(noise()[..., 0].astype(np.uint16) * 256).save(path),
    "deep.tif": lambda path: Image.fromarray(noise()[..., 0].astype(np.uint16) * 256).save(path),
    "float.tif": lambda path: Image.fromarray(noise()[..., 0].astype(np.float32) / 255).save(path),
    "cmyk.jpg": lambda path: Image.fromarray(noise()).convert("CMYK").save(path),
    "turned.jpg": lambda path: Image.fromarray(noise()).save(path, exif=turned()),
    "turned.png": lambda path: Image.fromarray(noise()).save(path, exif=turned()),
    "animated.gif": write_animation,
    "lossless.webp": lambda path: Image.fromarray(noise()).save(path, lossless=True),
    "b.bmp": lambda path: Image.fromarray(noise()).save(path),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_small_picture_is_a_png_of_the_pixels_that_the_model_sees(folder, of, name):
    KINDS[name](folder / name)
    for picture in (of(name).full(0), of(name).thumb(0)):
        assert picture.content_type == "image/png"
        assert np.array_equal(pixels(picture), read_image(folder / name))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif"])
def test_the_file_s_own_bytes_are_never_sent(folder, of, name):
    Image.fromarray(noise()).save(folder / name)
    with (folder / name).open("ab") as file:
        file.write(b"<script>SECRET</script>")
    for picture in (of(name).full(0), of(name).thumb(0)):
        assert b"SECRET" not in picture.content
        assert pixels(picture).shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("size", "full", "thumb"),
    [
        ((256, 100), ("PNG", (256, 100)), ("PNG", (256, 100))),  # width, height
        ((257, 100), ("JPEG", (257, 100)), ("JPEG", (256, 100))),
        ((2048, 1024), ("JPEG", (2048, 1024)), ("JPEG", (256, 128))),
        ((1500, 3000), ("JPEG", (1024, 2048)), ("JPEG", (128, 256))),
        ((5000, 4), ("JPEG", (2048, 2)), ("JPEG", (256, 1))),
    ],
)
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_large_pictures_are_shrunk_and_small_ones_never_enlarged(folder, of, size, full, thumb, suffix):
    Image.new("RGB", size, (10, 120, 240)).save(folder / f"a.{suffix}")
    pictures = of(f"a.{suffix}")
    for picture, (kind, shape) in ((pictures.full(0), full), (pictures.thumb(0), thumb)):
        image = Image.open(BytesIO(picture.content))
        assert (image.format, picture.content_type) == (kind, f"image/{kind.lower()}")
        assert image.size == shape
        assert np.abs(pixels(picture).astype(int) - [10, 120, 240]).max() <= 4


def test_a_large_turned_jpeg_stands_upright(folder, of):
    wide = np.zeros((1200, 4000, 3), np.uint8)
    wide[:, :2000] = 255  # the left half is white: turned clockwise, the upper one
    Image.fromarray(wide).save(folder / "a.jpg", exif=turned())
    shown = pixels(of("a.jpg").full(0))
    assert shown.shape == (2000, 600, 3)  # half the size as the decoder gives it: near enough to 2048
    assert shown[:900].min() > 250
    assert shown[1100:].max() < 5
    assert pixels(of("a.jpg").thumb(0)).shape == (256, 77, 3)


@pytest.mark.parametrize("size", [(40, 30), (400, 300)])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "webp"])
def test_nothing_but_pixels_is_passed_on(folder, of, size, suffix):
    exif = turned()
    exif[0x010E] = "SECRET description"
    exif.get_ifd(0x8825)[1] = "N"  # where it was taken
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    text = PngImagePlugin.PngInfo()
    text.add_text("note", "SECRET text")
    options = {"png": {"pnginfo": text}, "jpg": {"comment": b"SECRET comment"}}.get(suffix, {})
    Image.new("RGB", size, (9, 9, 9)).save(folder / f"a.{suffix}", exif=exif, icc_profile=profile, **options)
    assert b"SECRET" in (folder / f"a.{suffix}").read_bytes()
    for picture in (of(f"a.{suffix}").full(0), of(f"a.{suffix}").thumb(0)):
        image = Image.open(BytesIO(picture.content))
        image.load()
        assert not {"exif", "icc_profile", "comment", "note", "xmp"} & set(image.info)
        assert not image.getexif()
        assert b"SECRET" not in picture.content


# --- what must not be shown


@pytest.mark.parametrize("item", [-1, 1, 10**30])
def test_an_item_that_nobody_has_is_refused(folder, of, item):
    Image.fromarray(noise()).save(folder / "a.png")
    for show in (of("a.png").full, of("a.png").thumb):
        with pytest.raises(NoPictureError, match="expected a number from 0 to 0"):
            show(item)


def swap_for_link(folder, secret):
    (folder / "sub" / "a.png").unlink()
    (folder / "sub" / "a.png").symlink_to(secret)


def swap_folder_for_link(folder, secret):
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to(secret.parent)


@pytest.mark.parametrize("swap", [swap_for_link, swap_folder_for_link])
def test_a_file_that_became_a_link_to_outside_is_refused(folder, of, tmp_path, swap):
    (folder / "sub").mkdir()
    Image.fromarray(noise()).save(folder / "sub" / "a.png")
    (tmp_path / "outside").mkdir()
    Image.fromarray(noise(seed=1)).save(tmp_path / "outside" / "a.png")
    assert np.array_equal(pixels(of("sub/a.png").full(0)), noise())
    swap(folder, tmp_path / "outside" / "a.png")
    for show in (of("sub/a.png").full, of("sub/a.png").thumb):
        with pytest.raises(OutsideError, match="it leads outside the folder"):
            show(0)
    assert np.array_equal(pixels(of("sub/a.png", follow_links=True).full(0)), noise(seed=1))


def test_paths_that_leave_the_folder_are_refused(folder, of, tmp_path):
    Image.fromarray(noise()).save(tmp_path / "secret.png")
    Image.fromarray(noise()).save(tmp_path / "photos-too.png")  # begins like the folder's name
    pictures = of("../secret.png", str(tmp_path / "secret.png"), "../photos-too.png")
    for item in range(3):
        with pytest.raises(OutsideError):
            pictures.full(item)


def test_a_link_between_the_check_and_the_opening_is_not_followed(folder, of, tmp_path, monkeypatch):
    Image.fromarray(noise()).save(tmp_path / "secret.png")
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    monkeypatch.setattr(module, "real_file", lambda root, name, follow_links: os.path.join(root, name))
    with pytest.raises(UnreadableError, match="symbolic link"):
        of("a.png").full(0)


def make_pipe(path):
    os.mkfifo(path)


def make_bomb(path):
    Image.new("1", (400, 400)).save(path)


DAMAGE = {
    "gone": (lambda path: None, "No such file or directory"),
    "a folder": (lambda path: path.mkdir(), "not a regular file"),
    "a pipe": (make_pipe, "not a regular file"),
    "no image": (lambda path: path.write_text("<svg/>"), "not an image, or an unknown format"),
    "a bomb": (make_bomb, "more than 1000 pixels"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_file_that_became_unreadable_says_so(folder, of, how, monkeypatch):
    change, message = DAMAGE[how]
    change(folder / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    for show in (of("a.png").full, of("a.png").thumb):
        with pytest.raises(UnreadableError, match=message) as caught:
            show(0)
        assert str(folder) not in str(caught.value)


def test_a_picture_that_does_not_fit_in_memory_says_so(folder, of, monkeypatch):
    Image.fromarray(noise()).save(folder / "a.png")

    def too_large(image):
        raise MemoryError

    monkeypatch.setattr(module, "as_8_bit", too_large)
    with pytest.raises(UnreadableError, match="too large for this computer"):
        of("a.png").full(0)


def test_a_truncated_file_is_unreadable_and_fine_when_it_is_mended(folder, of):
    Image.fromarray(noise(300, 300)).save(folder / "a.jpg")
    whole = (folder / "a.jpg").read_bytes()
    (folder / "a.jpg").write_bytes(whole[: len(whole) // 2])
    pictures = of("a.jpg")
    for show in (pictures.full, pictures.thumb):
        with pytest.raises(UnreadableError, match="truncated"):
            show(0)
    (folder / "a.jpg").write_bytes(whole)
    assert pixels(pictures.full(0)).shape == (300, 300, 3)
    assert pixels(pictures.thumb(0)).shape == (256, 256, 3)


# --- what is kept


def test_small_pictures_are_stored_for_their_owner_only(folder, of, tmp_path):
    Image.fromarray(noise(300, 400)).save(folder / "a.png")
    first = of("a.png").thumb(0)
    stored = tmp_path / "cache" / "thumbs" / "0"
    assert stored.read_bytes() == first.content
    assert (stored.stat().st_mode & 0o777, stored.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert os.listdir(stored.parent) == ["0"]
    (folder / "a.png").unlink()
    assert of("a.png").thumb(0) == first  # from the cache alone


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:-20], lambda b: bytes(len(b)), lambda b: b"<script>" + b]
)
@pytest.mark.parametrize("size", [(40, 30), (400, 300)])  # PNG, JPEG
def test_a_damaged_small_picture_is_made_again(folder, of, tmp_path, damage, size):
    Image.new("RGB", size, (9, 99, 9)).save(folder / "a.png")
    first = of("a.png").thumb(0)
    stored = tmp_path / "cache" / "thumbs" / "0"
    stored.write_bytes(damage(first.content))
    assert of("a.png").thumb(0) == first
    assert stored.read_bytes() == first.content


def test_a_full_disk_stops_no_picture(folder, of, tmp_path, monkeypatch):
    Image.fromarray(noise()).save(folder / "a.png")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "replace", full)
    assert np.array_equal(pixels(of("a.png").thumb(0)), noise())
    assert os.listdir(tmp_path / "cache" / "thumbs") == []


def test_the_latest_pictures_stay_in_memory_up_to_a_limit(folder, of):
    for i in range(3):
        Image.fromarray(noise(seed=i)).save(folder / f"{i}.png")
    names = [f"{i}.png" for i in range(3)]
    size = len(of(*names).full(0).content)  # noise: all of about one size
    pictures = of(*names, memory=2 * size + 500)
    shown = [pictures.full(0), pictures.full(1)]
    for name in names[:2]:
        (folder / name).unlink()
    assert [pictures.full(1), pictures.full(0)] == shown[::-1]
    pictures.full(2)  # pushes out item 1, which was asked for longest ago
    assert pictures.full(0) == shown[0]
    with pytest.raises(UnreadableError):
        pictures.full(1)


def test_a_picture_larger_than_the_memory_is_shown_all_the_same(folder, of):
    Image.fromarray(noise()).save(folder / "a.png")
    pictures = of("a.png", memory=10)
    for _ in range(2):
        assert np.array_equal(pixels(pictures.full(0)), noise())


def until_they_wait(pictures, count):
    """Until so many wait for the one picture that is being made, or a minute has passed."""
    [mine] = pictures._kept.making.values()
    end = time.monotonic() + 60
    while len(mine._condition._waiters) < count and time.monotonic() < end:
        time.sleep(0.001)


def test_eight_who_ask_at_once_share_one_making(folder, of, monkeypatch):
    Image.fromarray(noise()).save(folder / "a.png")
    made, all_there = [], threading.Barrier(8)
    from_file = module.from_file

    def slow(file, limit):
        made.append(file)
        until_they_wait(pictures, 7)
        return from_file(file, limit)

    monkeypatch.setattr(module, "from_file", slow)
    pictures = of("a.png")

    def ask(_):
        all_there.wait(60)
        return pictures.full(0)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len(set(answers)) == 1
    assert len(made) == 1


def test_those_who_wait_for_a_failure_get_it_and_the_next_one_tries_again(folder, of, monkeypatch):
    all_there = threading.Barrier(4)
    tries = []

    def fail(file, limit):
        tries.append(file)
        if len(tries) == 1:
            until_they_wait(pictures, 3)
        raise UnreadableError("no luck")

    monkeypatch.setattr(module, "from_file", fail)
    pictures = of("a.png")

    def ask(_):
        all_there.wait(60)
        with pytest.raises(UnreadableError, match="no luck"):
            pictures.full(0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert len(tries) == 1
    with pytest.raises(UnreadableError, match="no luck"):
        pictures.full(0)
    assert len(tries) == 2


def test_many_threads_get_the_right_pictures(folder, of):
    names = [f"{i}.png" for i in range(20)]
    for i, name in enumerate(names):
        Image.fromarray(noise(seed=i)).save(folder / name)
    pictures = of(*names, memory=30_000)  # a few of them
    asked = np.random.default_rng(0).integers(20, size=400)

    def right(i):
        show = pictures.full if i % 3 else pictures.thumb
        return np.array_equal(pixels(show(int(i))), noise(seed=int(i)))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, asked))
    assert pictures._kept.used == sum(len(p.content) for p in pictures._kept.done.values()) <= 30_000


# --- arrays


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("x", "row_1"),
    [
        (noise(3 * 8, 9).reshape(3, 8, 9, 3), noise(3 * 8, 9).reshape(3, 8, 9, 3)[1]),
        (noise(3 * 8, 9).reshape(3, 8, 9, 3).transpose(0, 3, 1, 2), noise(3 * 8, 9).reshape(3, 8, 9, 3)[1]),
        (noise(3 * 8, 9)[..., 0].reshape(3, 8, 9), np.dstack([noise(3 * 8, 9)[..., 0].reshape(3, 8, 9)[1]] * 3)),
        (np.full((3, 1, 4, 4), 0.5, np.float16), np.full((4, 4, 3), 128, np.uint8)),
    ],
)
def test_rows_of_an_array_are_shown_as_png(tmp_path, save, x, row_1):
    save(tmp_path / "a.npz", X=x, ids=["p", "q", "r"])
    pictures = Pictures("images", tmp_path / "a.npz", ["r", "q"], tmp_path / "cache")  # row p was left out
    assert pictures.has_pictures
    for picture in (pictures.full(1), pictures.thumb(1)):
        assert picture.content_type == "image/png"
        assert np.array_equal(pixels(picture), row_1)


def test_large_rows_are_shrunk_and_stay_png(tmp_path):
    np.save(tmp_path / "a.npy", np.full((1, 10, 3000), 7, np.uint8))
    pictures = Pictures("images", tmp_path / "a.npy", ["0"], tmp_path / "cache")
    assert pixels(pictures.full(0)).shape == (7, 2048, 3)
    assert pictures.full(0).content_type == "image/png"
    assert pixels(pictures.thumb(0)).shape == (1, 256, 3)


def test_an_array_file_that_changed_is_unreadable(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.full((2, 1, 4, 4), 3.0))
    pictures = Pictures("images", tmp_path / "a.npz", ["0", "7"], tmp_path / "cache")
    with pytest.raises(UnreadableError, match="pixels from 3 to 3"):
        pictures.full(0)
    with pytest.raises(UnreadableError, match="row '7' is no longer in the file"):
        pictures.full(1)
    np.savez(tmp_path / "b.npz", X=np.eye(3))
    with pytest.raises(UnreadableError, match="the file no longer has images"):
        Pictures("images", tmp_path / "b.npz", ["0"], tmp_path / "cache").full(0)
    with pytest.raises(UnreadableError, match=r"expected an .npz file"):
        Pictures("images", tmp_path / "c.npz", ["0"], tmp_path / "cache").full(0)


def test_features_have_no_pictures(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    pictures = Pictures("features", tmp_path / "a.npz", ["0"], tmp_path / "cache")
    assert not pictures.has_pictures
    np.testing.assert_array_equal(pictures.numbers(0), [1, 0, 0])
    for show in (pictures.full, pictures.thumb):
        with pytest.raises(NoPictureError, match="a row of features, which cannot be shown as an image"):
            show(0)
