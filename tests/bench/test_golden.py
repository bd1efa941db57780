"""Folders of an earlier askless, made by golden/make.py before the house was rebuilt, open and go on."""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import askless as al
from askless.bench import run
from askless.bench.results import Results

pytestmark = pytest.mark.own_seed("what is compared was made from these very numbers")
HERE = Path(__file__).parent / "golden"
spec = importlib.util.spec_from_file_location("golden_make", HERE / "make.py")
assert spec is not None
assert spec.loader is not None
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


def numbers(cell: Path) -> dict[str, object]:
    return json.loads((cell / "result.json").read_text())


def test_a_benchmark_folder_of_before_resumes(tmp_path):
    """Half of its cells are computed again, and say what they said. Those on frozen features say something else: since then
    features are taken around their mean with one scale, not column by column (see CHANGELOG.md)."""
    folder = tmp_path / "bench"
    shutil.copytree(HERE / "bench", folder)
    kept, again = [], []
    for cell in sorted((folder / "cells").iterdir()):
        (again if cell.name.endswith("--1") else kept).append(cell.name)
        if cell.name.endswith("--1"):
            shutil.rmtree(cell)
    results = run(golden.benchmark(), folder, workers=1)
    assert isinstance(results, Results)
    assert len(kept) == len(again) == 12
    for name in kept:
        assert (folder / "cells" / name / "result.json").read_bytes() == (
            HERE / "bench" / "cells" / name / "result.json"
        ).read_bytes()
    for name in again:
        made, before = (numbers(place / "cells" / name) for place in (folder, HERE / "bench"))
        assert made.keys() == before.keys()
        assert made["settings"] == before["settings"]
        for (*what, value), (*what_before, value_before) in zip(made["records"], before["records"], strict=True):
            assert what == what_before
            if name.startswith("supervised"):
                # Another processor may round otherwise and choose another item.
                assert value == pytest.approx(value_before, abs=0.2)


def test_a_saved_learner_of_before_goes_on():
    expected = np.load(HERE / "learner" / "expected.npz")
    learner = al.ActiveLearner.load(HERE / "learner")
    np.testing.assert_allclose(learner.predict_pool(), expected["probs"], atol=1e-5)
    assert len(learner.labels) == 12
    batch = learner.ask(5)
    assert set(batch.indices.tolist()).isdisjoint(learner.labels)
    np.testing.assert_array_equal(batch.indices, expected["next"])


def test_an_exported_model_of_before_is_loaded():
    X, _ = golden.rows()
    expected = np.load(HERE / "learner" / "expected.npz")["probs"]
    model = al.load(HERE / "model")
    assert set(model.predict(X)) <= {"a", "b", "c"}
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)
