import logging
import os

import numpy as np
import pytest
import torch
from PIL import Image

from askless.base.errors import InputError
from askless.data import caltech101, folder


def save(path, colour=0, size=(6, 5)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (colour, colour, colour)).save(path)


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    save(root / "b.PNG", 1)
    save(root / "deep" / "er" / "a.bmp", 2)
    save(root / "a.jpeg", 3)
    (root / "notes.txt").write_text("not an image, by its name")
    save(root / ".thumbs" / "hidden.png")
    save(root / ".hidden.png")
    return root


def test_images_of_any_depth_and_case_are_found_in_order(photos):
    pool = folder(photos)
    assert pool.ids == ("a.jpeg", "b.PNG", "deep/er/a.bmp")
    assert pool.x.shape == (3, 3, 5, 6)
    assert pool.x[:, 0, 0, 0].tolist() == [3, 1, 2]
    assert (pool.kind, pool.name, pool.skipped) == ("image", "photos", ())
    assert pool.labels.tolist() == [-1, -1, -1]


def test_unreadable_files_are_left_out_and_reported(photos, caplog):
    (photos / "broken.png").write_text("no")
    pool = folder(photos)
    assert len(pool) == 3
    assert pool.skipped == (("broken.png", "not an image, or an unknown format"),)
    assert "1 of 4 images cannot be read" in caplog.text


def test_a_file_damaged_behind_its_header_is_left_out_too(photos):
    noise = np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(photos / "half.jpg")
    (photos / "half.jpg").write_bytes((photos / "half.jpg").read_bytes()[:1500])
    pool = folder(photos, size=16)
    assert pool.ids == ("a.jpeg", "b.PNG", "deep/er/a.bmp")
    assert [name for name, _ in pool.skipped] == ["half.jpg"]
    assert "truncated" in pool.skipped[0][1]


def test_a_folder_by_a_relative_path_has_its_name(photos, monkeypatch):
    monkeypatch.chdir(photos)
    assert folder(".").name == "photos"


def test_it_is_an_error_when_nothing_can_be_read(tmp_path):
    (tmp_path / "broken.png").write_text("no")
    with pytest.raises(InputError, match=r"found none; 1 left out, the first, broken.png: not an image"):
        folder(tmp_path)


def test_different_sizes_ask_for_a_size(photos):
    save(photos / "wide.png", size=(20, 5))
    message = (
        r"got 2 sizes \(width x height 6 x 5: 3 images, such as a.jpeg; 20 x 5: 1 images, such as wide.png\); pass"
    )
    with pytest.raises(InputError, match=message):
        folder(photos)
    assert folder(photos, size=8).x.shape == (4, 3, 8, 8)
    assert folder(photos, size=(4, 8)).x.shape == (4, 3, 4, 8)


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path):
    (tmp_path / "file.png").write_text("")
    with pytest.raises(InputError, match="expected a folder of images, got a file"):
        folder(tmp_path / "file.png")
    with pytest.raises(InputError, match="expected a folder of images, found nothing there"):
        folder(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"expected images \(png, jpg, .*\), found none"):
        folder(tmp_path / "empty")


def test_links_that_leave_the_folder_are_skipped_unless_followed(photos, tmp_path):
    save(tmp_path / "outside" / "secret.png", 9)
    (photos / "link.png").symlink_to(tmp_path / "outside" / "secret.png")
    (photos / "inside.png").symlink_to(photos / "b.PNG")
    (photos / "linked").symlink_to(tmp_path / "outside")
    pool = folder(photos)
    assert pool.ids == ("a.jpeg", "b.PNG", "deep/er/a.bmp", "inside.png")
    assert pool.skipped == (
        ("link.png", "a link that leaves the folder; pass follow_links (--follow-links) to allow it"),
        ("linked", "a link to a folder; pass follow_links (--follow-links) to allow it"),
    )
    followed = folder(photos, follow_links=True)
    assert {"link.png", "linked/secret.png"} <= set(followed.ids)


def test_only_links_outside_says_what_was_left_out(tmp_path):
    save(tmp_path / "outside" / "a.png")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "outside" / "a.png")
    with pytest.raises(InputError, match=r"found none; 1 left out, the first, link.png: a link that leaves the folder"):
        folder(tmp_path / "photos")


def test_links_that_go_round_end(photos):
    (photos / "deep" / "up").symlink_to(photos)
    assert folder(photos, follow_links=True).ids == ("a.jpeg", "b.PNG", "deep/er/a.bmp")


def test_a_name_that_is_no_text_is_reported(photos):
    try:
        (photos / os.fsdecode(b"\xff.png")).write_bytes((photos / "b.PNG").read_bytes())
    except OSError:
        pytest.skip("this file system takes only text as names")
    assert folder(photos).skipped == ((r"'\udcff.png'", "its name is not valid UTF-8; rename it"),)


def test_lazy_reads_when_taken(photos):
    (photos / "broken.png").write_text("no")
    pool = folder(photos, lazy=True)
    assert pool.shape == (3, 5, 6)
    assert torch.equal(pool.take([2, 0]), folder(photos).take([2, 0]))
    assert [name for name, _ in pool.skipped] == ["broken.png"]
    (photos / "a.jpeg").write_text("gone")
    with pytest.raises(InputError, match=r"a.jpeg: can no longer be read"):
        pool.take([0])


def test_folders_are_classes_only_when_said(tmp_path, caplog):
    for name in ("dog/1.png", "cat/2.png", "cat/sub/3.png"):
        save(tmp_path / name)
    with caplog.at_level(logging.INFO):
        assert folder(tmp_path).classes is None
    assert "2 folders; pass labels_from_folders (--labels-from-folders) if these are classes" in caplog.text
    pool = folder(tmp_path, labels_from_folders=True)
    assert pool.classes == ("cat", "dog")
    assert pool.ids == ("cat/2.png", "cat/sub/3.png", "dog/1.png")
    assert pool.labels.tolist() == [0, 0, 1]
    assert pool.test is None
    fixed = folder(tmp_path, labels_from_folders=True, classes=["dog", "cat"])
    assert fixed.labels.tolist() == [1, 1, 0]
    assert folder(tmp_path, classes=["dog", "cat"]).n_classes == 2


def test_train_and_test_folders_are_splits(tmp_path):
    for name in ("train/dog/1.png", "train/cat/2.png", "train/loose.png", "test/dog/3.png", "val/cat/4.png"):
        save(tmp_path / name)
    pool = folder(tmp_path, labels_from_folders=True)
    assert pool.ids == ("train/cat/2.png", "train/dog/1.png", "train/loose.png", "val/cat/4.png")
    assert pool.labels.tolist() == [0, 1, -1, 0]
    assert pool.test[1].tolist() == [1]


def test_labels_from_folders_needs_folders(photos, tmp_path):
    save(tmp_path / "flat" / "1.png")
    with pytest.raises(InputError, match="flat: expected one folder per class below it, found none"):
        folder(tmp_path / "flat", labels_from_folders=True)


def test_progress_is_told(photos):
    told = []
    folder(photos, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.fixture
def caltech(tmp_path):
    for name, n in (("accordion", 5), ("wrench", 10), ("BACKGROUND_Google", 3)):
        for i in range(n):
            save(tmp_path / "caltech" / "101_ObjectCategories" / name / f"image_{i + 1:04d}.jpg", i, size=(30 + i, 20))
    return tmp_path / "caltech"


def test_caltech_holds_out_a_share_of_each_class(caltech):
    pool = caltech101(caltech, size=16)
    assert pool.classes == ("accordion", "wrench")
    assert pool.x.shape == (12, 3, 16, 16)
    assert np.bincount(pool.test[1]).tolist() == [1, 2]
    assert caltech101(caltech, size=16).ids == pool.ids
    assert any(caltech101(caltech, size=16, seed=seed).ids != pool.ids for seed in range(1, 5))
    assert caltech101(caltech / "101_ObjectCategories", size=8, test=0).test is None
    assert "BACKGROUND_Google" in caltech101(caltech, size=8, background=True).classes
    assert torch.equal(caltech101(caltech, size=16, lazy=True).take(range(12)), pool.x)


def test_caltech_says_where_to_get_it(tmp_path):
    with pytest.raises(
        InputError, match=r"caltech101: expected 101_ObjectCategories in .* download https://data.caltech.edu"
    ):
        caltech101(tmp_path)
    with pytest.raises(InputError, match="test: expected a share from 0 to below 1, got 1"):
        caltech101(tmp_path, test=1)
