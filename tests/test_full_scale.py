"""The papers at full scale: the plan has every preset, and presets run on small files in the official formats."""

import importlib.util
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from askless.base.errors import AsklessError
from askless.bench import PRESETS
from askless.data.fetch import DATA_SETS

PATH = Path(__file__).parents[1] / "tools" / "full_scale.py"
spec = importlib.util.spec_from_file_location("full_scale", PATH)
full_scale = importlib.util.module_from_spec(spec)
spec.loader.exec_module(full_scale)
CLASSES = 12  # each has to get a label or two


def images(n):
    return np.random.default_rng(n).integers(256, size=(n, 3072), dtype=np.uint8)


def pickled(path, **content):
    path.write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """CIFAR-10 and CIFAR-100 as Python's batches, SVHN in MATLAB's format, Caltech-101 as folders of photographs."""
    home = tmp_path / "data"
    monkeypatch.setenv("ASKLESS_DATA", str(home))
    for folder in ("cifar10", "cifar100", "svhn"):
        (home / folder).mkdir(parents=True)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        pickled(home / "cifar10" / name, data=images(20), labels=[i % 10 for i in range(20)])
    for name in ("train", "test"):
        labels = [i % CLASSES for i in range(80)]
        pickled(home / "cifar100" / name, data=images(80), fine_labels=labels, coarse_labels=labels)
        pixels = images(60).reshape(60, 3, 32, 32).transpose(2, 3, 1, 0)
        savemat(home / "svhn" / f"{name}_32x32.mat", {"X": pixels, "y": np.arange(60)[:, None] % 10 + 1})
    names = [f"class {i}" for i in range(CLASSES)]
    pickled(home / "cifar100" / "meta", fine_label_names=names, coarse_label_names=names)
    for kind in ("BACKGROUND_Google", "accordion", "anchor", "ant"):
        folder = home / "caltech101" / "101_ObjectCategories" / kind
        folder.mkdir(parents=True)
        for i in range(15):
            photograph = Image.fromarray(images(1 + i).reshape(-1, 32, 3)[:32])
            photograph.save(folder / f"image_{i:04}.jpg")
    return home


def test_the_plan_has_every_preset_of_the_papers_with_its_hours_and_its_cost(capsys):
    assert full_scale.main(["--dry-run", "--gpu-hour-price", "2", "--speed", "2"]) == 0
    said = capsys.readouterr().out
    rows = {line.split(" | ")[1]: line.split(" | ") for line in said.splitlines() if re.match(r"\| \d+ \|", line)}
    assert set(rows) == {name for name in PRESETS if name.startswith(("npc.", "crc.", "dal."))}
    for row in rows.values():
        assert float(row[6].replace(",", "")) == pytest.approx(2 * float(row[5].replace(",", "")), abs=1)
    # 2^20 steps of 960 images at 8,800 in a second, in 65 trainings: 20 cells less the 5 trials have four of them
    assert rows["npc.table1"][3:5] == ["20", "65"]
    assert float(rows["npc.table1"][5].replace(",", "")) == pytest.approx(65 * 2**20 * 960 / 8800 / 3600, abs=0.1)
    assert list(rows).index("npc.table2") < list(rows).index("npc.fig1")
    assert rows["npc.fig1"][3:6] == ["0", "0", "0.0"]
    for home in (home for name in full_scale.ITEMS for home in DATA_SETS[name].homes):
        assert f"{home.url} (MD5 {home.md5})" in said


def test_two_presets_run_on_files_of_all_four_data_sets_and_resume(data, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["--tiny", "--only", "crc.table4", "--only", "dal.table1", "--out", str(out)]
    assert full_scale.main(command) == 0
    for name, groups in (("crc.table4", ["SVHN", "CIFAR-100"]), ("dal.table1", ["SVHN + VGG", "Caltech-101 + ResNet"])):
        report = (out / name / "report.html").read_text()
        assert all(group in report for group in groups)
        assert f'<a href="{name}/report.html">{name}</a>' in (out / "index.html").read_text()
    results = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.glob("*/cells/*/result.json")}
    assert len(results) == 2 * (2 + 2) + 4 * 4  # of crc.table4: two panels of two methods, and two trials of each
    assert full_scale.main(command) == 0
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in results} == results
    assert "crc.table4: finished" in capsys.readouterr().out


def test_a_figure_alone_takes_the_cells_of_its_tables_that_are_there(data, tmp_path, capsys):
    command = ["--tiny", "--out", str(tmp_path / "out"), "--only"]
    assert full_scale.main([*command, "npc.table2"]) == 0
    count = len(list((tmp_path / "out" / "npc.table2" / "cells").glob("*/result.json")))
    capsys.readouterr()
    assert full_scale.main([*command, "npc.fig1"]) == 0
    assert f"npc.fig1: {count} cells are those of other presets" in capsys.readouterr().out


@pytest.mark.slow
def test_every_preset_runs_on_them(data, tmp_path):
    assert full_scale.main(["--tiny", "--out", str(tmp_path / "out")]) == 0
    reports = {path.parent.name for path in (tmp_path / "out").glob("*/report.html")}
    assert reports == set(full_scale.NAMES)


def test_data_that_are_not_the_official_files_are_refused(data, monkeypatch):
    monkeypatch.setattr(full_scale, "fetch", lambda name, report: data / name)
    with pytest.raises(AsklessError, match=r"data_batch_1, .* differ from the official files; remove them"):
        full_scale.get_data(["cifar10"])
    with pytest.raises(AsklessError, match=r"expected \(8677, 0\) images of caltech101 \(pool, test\), got \(45, 0\)"):
        full_scale.get_data(["caltech101"])


def test_without_a_gpu_full_scale_is_not_begun(tmp_path, capsys):
    assert full_scale.main(["--only", "crc.fig1", "--device", "cpu", "--out", str(tmp_path / "out")]) == 2
    assert "expected a GPU for full scale" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_speeds_are_measured(capsys):
    assert full_scale.main(["--dry-run", "--only", "crc.fig1", "--calibrate", "--device", "cpu"]) == 0
    found = re.search(r"trains on: mlp ([\d,]+)\.", capsys.readouterr().out)
    assert int(found[1].replace(",", "")) > 0
