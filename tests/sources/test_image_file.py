import os
import signal
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from askless.base.errors import InputError
from askless.sources import image_file
from askless.sources.image_file import (
    UnreadableError,
    as_size,
    decoded,
    image_size,
    measured,
    open_file,
    pixels_of,
    read_image,
    refusing_bad_image,
)
from askless.sources.items import Item


def gradient(height=6, width=9):
    x = np.zeros((height, width, 3), np.uint8)
    x[..., 0] = np.arange(width) * 20
    x[..., 1] = np.arange(height)[:, None] * 30
    return x


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "gif", "webp", "jpg"])
def test_every_format_is_read_as_rgb(tmp_path, suffix):
    path = tmp_path / f"image.{suffix}"
    options = {"lossless": True} if suffix == "webp" else {}
    Image.fromarray(gradient()).save(path, **options)
    read = read_image(path)
    assert read.shape == (6, 9, 3)
    assert read.dtype == np.uint8
    if suffix in ("png", "bmp", "tif", "webp"):
        assert np.array_equal(read, gradient())


def test_the_first_frame_of_an_animation_is_read(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "a.gif")[0, 0].tolist() == [255, 0, 0]


def test_exif_rotation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    Image.fromarray(gradient()).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png"), np.rot90(gradient(), -1))
    assert image_size(tmp_path / "a.png") == (9, 6)


def exif_chunk(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    return struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))


@pytest.mark.parametrize("decoy", [b"", b"....eXIf....", exif_chunk(3).replace(b"MM", b"II")])
def test_exif_behind_the_pixels_of_a_png_is_found(tmp_path, decoy):
    pixels = np.frombuffer(np.random.default_rng(0).bytes(30 * 40 * 3), np.uint8).reshape(30, 40, 3)
    path = tmp_path / "a.png"
    text = PngImagePlugin.PngInfo()
    text.add(b"teSt", decoy)
    Image.fromarray(pixels).save(path, pnginfo=text)
    whole = path.read_bytes()
    path.write_bytes(whole[:-12] + exif_chunk(6) + whole[-12:])  # before IEND, as ImageMagick does
    assert image_size(path) == (40, 30)
    assert np.array_equal(read_image(path), np.rot90(pixels, -1))


def test_the_size_of_a_png_is_told_without_decoding_it(tmp_path, monkeypatch):
    Image.fromarray(gradient()).save(tmp_path / "a.png")

    def load(image):
        raise AssertionError("decoded")

    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", load)
    assert image_size(tmp_path / "a.png") == (6, 9)


def test_modes_become_rgb(tmp_path):
    half = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert pixels_of(half)[0, 0].tolist() == [255, 255, 255]  # transparent shows white, not the hidden red
    assert pixels_of(Image.new("L", (2, 2), 7))[0, 0].tolist() == [7, 7, 7]
    assert pixels_of(Image.new("L", (2, 2), 7), grey=True).tolist() == [[7, 7], [7, 7]]
    assert pixels_of(Image.new("1", (2, 2), 1))[0, 0].tolist() == [255, 255, 255]
    assert pixels_of(Image.new("CMYK", (2, 2), (0, 0, 0, 255)))[0, 0].tolist() == [0, 0, 0]
    assert pixels_of(Image.new("P", (2, 2)))[0, 0].tolist() == [0, 0, 0]


def test_sixteen_bits_and_floats_are_scaled(tmp_path):
    values = np.array([[0, 257, 65535]], np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png")[0, :, 0].tolist() == [0, 1, 255]
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)).save(tmp_path / "a.tif")
    assert read_image(tmp_path / "a.tif")[0, :, 0].tolist() == [0, 128, 255]
    assert pixels_of(Image.fromarray(np.array([[3, 200]], np.int32)))[0, :, 0].tolist() == [3, 200]


def test_pixels_out_of_range_are_refused(tmp_path):
    with pytest.raises(UnreadableError, match=r"float pixels from 0 to 7; expected \[0, 1\]"):
        pixels_of(Image.fromarray(np.array([[0.0, 7.0]], np.float32)))
    with pytest.raises(UnreadableError, match="pixels from -1 to 5; expected 8 or 16 bits"):
        pixels_of(Image.fromarray(np.array([[-1, 5]], np.int32)))


def test_size_scales_to_cover_and_crops_the_centre(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", (10, 10)).min() == 200
    assert read_image(tmp_path / "a.png", (5, 15)).shape == (5, 15, 3)


def test_a_large_jpeg_shrinks_to_the_right_colours(tmp_path):
    Image.new("RGB", (1600, 800), (10, 120, 240)).save(tmp_path / "a.jpg", quality=95)
    small = read_image(tmp_path / "a.jpg", (16, 16))
    assert np.abs(small.astype(int) - [10, 120, 240]).max() <= 3


def test_damaged_and_foreign_files_give_a_reason(tmp_path):
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(UnreadableError, match="not an image, or an unknown format"):
        read_image(tmp_path / "text.png")
    Image.fromarray(np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)).save(
        tmp_path / "whole.jpg"
    )
    (tmp_path / "half.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:1500])
    with pytest.raises(UnreadableError, match="truncated"):
        read_image(tmp_path / "half.jpg")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    Image.new("1", (400, 400)).save(tmp_path / "bomb.png")
    for limit in (100_000, 1_000):  # Pillow warns above the limit and refuses above twice the limit
        monkeypatch.setattr(image_file.Image, "MAX_IMAGE_PIXELS", limit)
        for read in (read_image, image_size):
            with pytest.raises(UnreadableError, match=f"more than {limit} pixels"):
                read(tmp_path / "bomb.png")


@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",  # Pillow would run Ghostscript on it
        b"P6 1 1 255\n\0\0\0",
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    ],
)
def test_other_formats_are_refused_whatever_their_name(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    for read in (read_image, image_size):
        with pytest.raises(UnreadableError, match="not an image, or an unknown format"):
            read(tmp_path / "a.png")


def test_nobody_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")

    def too_long(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        for read in (read_image, image_size, open_file):
            with pytest.raises(UnreadableError, match="not a regular file"):
                read(tmp_path / "pipe.png")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_links_are_refused_when_said(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with open_file(tmp_path / "link") as file:
        assert file.read() == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "link", follow=False)


def test_reasons_are_short(tmp_path):
    with pytest.raises(UnreadableError, match=r"^No such file or directory$"):
        image_size(tmp_path / "absent.png")


def test_the_filters_of_warnings_are_put_back_whoever_leaves_first():
    before = list(warnings.filters)
    inside, leave = threading.Event(), threading.Event()

    def read():
        with refusing_bad_image():
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=read)
    with refusing_bad_image():
        other.start()
        assert inside.wait(60)
    assert list(warnings.filters) != before  # the other one still reads
    leave.set()
    other.join()
    assert list(warnings.filters) == before


def test_pillow_s_warnings_are_silent_and_others_are_not():
    with refusing_bad_image():
        warnings.warn_explicit("odd tag", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
    with pytest.warns(UserWarning, match="mine"), refusing_bad_image():
        warnings.warn_explicit("mine", UserWarning, "mine.py", 1, module="mine")


def test_size_is_checked():
    assert as_size(None) is None
    assert as_size(8) == (8, 8)
    assert as_size((8, 9)) == (8, 9)
    for wrong in (0, (8,), (8, -1), (8, 9.5)):
        with pytest.raises(InputError, match="size: expected pixels"):
            as_size(wrong)


def test_an_item_is_decoded_from_its_file_or_its_bytes_or_skipped(tmp_path):
    Image.new("RGB", (5, 3), "red").save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    of_file, of_bytes = (decoded(Item("a", each, "cat")) for each in (str(tmp_path / "a.png"), content))
    assert np.array_equal(of_file.content, of_bytes.content)
    assert (of_file.content.shape, of_file.height, of_file.width, of_file.label) == ((3, 3, 5), 3, 5, "cat")
    assert decoded(Item("b", content[:40])).problem == "unreadable"
    assert measured(Item("a", str(tmp_path / "a.png")))[-2:] == (5, 3)
