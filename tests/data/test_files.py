import numpy as np
import pytest
import torch

from askless.base.errors import InputError
from askless.data import npz


def test_features_labels_ids_and_classes(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=[1, -1, 0], ids=["p", "q", "r"], classes=["cat", "dog"])
    pool = npz(tmp_path / "a.npz")
    assert (pool.kind, pool.ids, pool.classes, pool.name) == ("features", ("p", "q", "r"), ("cat", "dog"), "a")
    assert pool.labels.tolist() == [1, -1, 0]


def test_medmnist_names(tmp_path):
    images = np.zeros((4, 28, 28), np.uint8)
    labels = np.array([[0], [1], [0], [1]], np.uint8)
    np.savez(
        tmp_path / "a.npz",
        train_images=images,
        train_labels=labels,
        val_images=images,
        test_images=images,
        test_labels=labels,
    )
    pool = npz(tmp_path / "a.npz", flip=False)
    assert (pool.shape, pool.flip) == ((1, 28, 28), False)
    assert pool.labels.tolist() == pool.test[1].tolist() == [0, 1, 0, 1]
    assert pool.test[0].shape == (4, 1, 28, 28)


def test_train_and_test_names_for_images_and_features(tmp_path):
    images = np.zeros((4, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "a.npz", x_train=images, y_train=np.arange(4), x_test=images[:2], y_test=np.arange(2))
    assert npz(tmp_path / "a.npz").shape == (3, 8, 8)
    features = np.ones((4, 5), np.float16)
    np.savez(tmp_path / "f.npz", f_train=features, y_train=np.arange(4), f_test=features[:2], y_test=np.arange(2))
    pool = npz(tmp_path / "f.npz")
    assert pool.take([0]).dtype == pool.test[0].dtype == torch.float32


def test_a_test_set_without_labels_is_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3), X_test=np.eye(3))
    assert npz(tmp_path / "a.npz").test is None


def test_npy_stays_on_disk_and_finds_its_ids(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    assert npz(tmp_path / "a.npy").ids is None
    (tmp_path / "ids.txt").write_text("p\nq\nr\n")
    pool = npz(tmp_path / "a.npy")
    assert isinstance(pool.x, np.memmap)
    assert pool.ids == ("p", "q", "r")
    assert pool.take([2, 0]).tolist() == [[4, 5], [0, 1]]


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"expected an .npz file of plain arrays, got another"):
        npz(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"expected an .npy file with a plain array, got another"):
        npz(tmp_path / "a.npy")


def test_other_names_and_files_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", data=np.eye(3))
    with pytest.raises(
        InputError, match="expected an array named X, x, x_train, f_train, train_images, got data; rename"
    ):
        npz(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_text("no")
    with pytest.raises(InputError, match=r"expected an .npz file of plain arrays"):
        npz(tmp_path / "b.npz")
    with pytest.raises(InputError, match=r"absent.npz: expected an .npz or .npy file, found nothing there"):
        npz(tmp_path / "absent.npz")
