"""MedMNIST's files: written in their shape, read by askless and by the package itself."""

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.data import load, npz
from askless.run.steps.index import scan


def write(path, channels: int, n: int = 24):
    """An .npz as MedMNIST has them: (N, 28, 28) or (N, 28, 28, 3) uint8, labels (N, 1)."""
    rng = np.random.default_rng(channels)
    arrays = {}
    for split, size in (("train", n), ("val", 6), ("test", 8)):
        shape = (size, 28, 28) if channels == 1 else (size, 28, 28, 3)
        arrays[f"{split}_images"] = rng.integers(0, 256, shape, dtype=np.uint8)
        arrays[f"{split}_labels"] = rng.integers(0, 4, (size, 1)).astype(np.uint8)
    np.savez_compressed(path, **arrays)
    return arrays


@pytest.mark.parametrize("channels", [1, 3])
def test_pool_and_test_are_those_of_the_file(tmp_path, channels):
    arrays = write(tmp_path / "m.npz", channels)
    pool = load(tmp_path / "m.npz")
    as_chw = (lambda x: x[:, None]) if channels == 1 else (lambda x: x.transpose(0, 3, 1, 2))
    assert (np.asarray(pool.x) == as_chw(arrays["train_images"])).all()
    assert (pool.labels == arrays["train_labels"][:, 0]).all()
    assert (np.asarray(pool.test[0]) == as_chw(arrays["test_images"])).all()
    assert (pool.test[1] == arrays["test_labels"][:, 0]).all()
    both = npz(tmp_path / "m.npz", with_validation=True)
    assert len(both) == 30
    assert (both.labels[24:] == arrays["val_labels"][:, 0]).all()
    assert (np.asarray(both.x[24:]) == as_chw(arrays["val_images"])).all()


def test_a_run_reads_it_and_says_what_it_leaves(tmp_path):
    arrays = write(tmp_path / "m.npz", 3)
    index = scan(tmp_path / "m.npz")
    assert index.kind == "images"
    assert [item.label for item in index.items] == [str(y) for y in arrays["train_labels"][:, 0]]
    assert index.hints == ["not used from m.npz: val_images, val_labels, test_images, test_labels"]


def test_several_labels_of_an_image_are_refused(tmp_path):
    arrays = write(tmp_path / "m.npz", 1)
    np.savez(tmp_path / "chest.npz", **{**arrays, "train_labels": np.zeros((24, 14), np.uint8)})
    with pytest.raises(InputError, match="expected one per item"):
        load(tmp_path / "chest.npz")
    np.savez(tmp_path / "plain.npz", X=np.zeros((3, 4), np.float32))
    with pytest.raises(InputError, match="expected val_images and val_labels"):
        npz(tmp_path / "plain.npz", with_validation=True)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("flag", "channels"), [("pathmnist", 3), ("pneumoniamnist", 1)])
def test_the_package_medmnist_reads_the_same(tmp_path, monkeypatch, flag, channels):
    import medmnist

    monkeypatch.setitem(medmnist.INFO[flag], "n_samples", {"train": 24, "val": 6, "test": 8})  # it counts what it reads
    write(tmp_path / f"{flag}.npz", channels)
    pool = load(tmp_path / f"{flag}.npz")
    of_package = getattr(medmnist, medmnist.INFO[flag]["python_class"])
    for split, (x, y) in {"train": (pool.x, pool.labels), "test": pool.test}.items():
        theirs = of_package(split=split, root=str(tmp_path), download=False)
        assert len(theirs) == len(y)
        for i in range(len(theirs)):
            image, label = theirs[i]
            ours = np.asarray(x[i]).transpose(1, 2, 0).squeeze()
            assert (np.asarray(image) == ours).all()
            assert int(label[0]) == y[i]
