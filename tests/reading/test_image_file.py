import numpy as np
import pytest
from PIL import Image

from askless.errors import InputError
from askless.reading import image_file
from askless.reading.image_file import UnreadableError, as_size, image_size, pixels_of, read_image


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


def test_size_is_checked():
    assert as_size(None) is None
    assert as_size(8) == (8, 8)
    assert as_size((8, 9)) == (8, 9)
    for wrong in (0, (8,), (8, -1), (8, 9.5)):
        with pytest.raises(InputError, match="size: expected pixels"):
            as_size(wrong)
