import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.data import SOURCES, available, load


def test_names_and_paths_are_loaded(tmp_path):
    assert load("two-moons", n=5).name == "two-moons"
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    assert load(tmp_path, size=2).shape == (3, 2, 2)
    (tmp_path / "list.csv").write_text("path\na.png\n")
    assert len(load(str(tmp_path / "list.csv"))) == 1
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    np.save(tmp_path / "x.npy", np.eye(2))
    assert load(tmp_path / "x.npz").kind == load(tmp_path / "x.npy").kind == "features"


def test_the_table_of_data_sets_names_every_source():
    assert [row.name for row in available()] == list(SOURCES)


def test_unknown_names_files_and_options_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"'imagenet': expected a path, or one of digits, two-moons, .*; got neither"):
        load("imagenet")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(
        InputError, match=r"expected a folder of images or .txt files, or a file ending in .csv, .tsv, .npz, .npy"
    ):
        load(tmp_path / "a.txt")
    with pytest.raises(OptionError, match="digits: unknown option 'size'; it has seed, test"):
        load("digits", size=8)
