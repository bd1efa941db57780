"""MiniLM-L6-v2 from its package: alone, beside TF-IDF, saved and exported."""

import importlib.util
import json
import shutil

import numpy as np
import pytest

import askless as al
from askless.features.backbones import minilm as module
from askless.features.text_backbone import load_text_backbone, rows_of, text_backbone

from ...texts import reviews, truth_of, write_csv

MISSING = [name for name in (module.PACKAGE, "transformers") if importlib.util.find_spec(name) is None]
here = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} of the extra `text`")
pytestmark = pytest.mark.filterwarnings("default")  # transformers' own
TEXTS = ["a lovely day", "an awful film, too long by half", "", "word " * 600]
BOTH = pytest.mark.parametrize("name", ["minilm", "tfidf+minilm"])


@here
def test_minilm_is_the_mean_of_its_tokens_at_length_one():
    backbone = text_backbone("minilm", ())
    rows = backbone.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    plain = al.embed_texts(TEXTS[:3], al.Frozen(backbone=f"hf/{module.packaged()}", pooling="mean"))
    np.testing.assert_allclose(rows[:3], plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-5)
    near, far = rows[0] @ backbone.embed(["what a beautiful morning"])[0], rows[0] @ backbone.embed(["tax law"])[0]
    assert near > far + 0.2
    assert backbone.embed([]).shape == (0, 384)


@here
def test_where_the_package_lies_is_not_part_of_the_name(tmp_path):
    shutil.copytree(module.packaged(), tmp_path / "copy")
    assert module.minilm(tmp_path / "copy").key == module.minilm().key
    assert str(module.packaged()) not in module.minilm().key


@here
def test_words_and_sentences_stand_side_by_side():
    texts = [text for text, _ in reviews(60)]
    both, words, sentences = (text_backbone(name, texts) for name in ("tfidf+minilm", "tfidf", "minilm"))
    np.testing.assert_allclose(
        both.embed(texts), np.hstack([0.5 * words.embed(texts), sentences.embed(texts)]), atol=1e-6
    )
    assert both.embed([]).shape == (0, both.embed(texts[:1]).shape[1])


@here
def test_sentences_are_read_once_whatever_the_words_were_fitted_on(tmp_path, monkeypatch):
    texts = [text for text, _ in reviews(60)]
    fitted = [text_backbone("tfidf+minilm", some) for some in (texts, texts[:50])]
    frozen = al.Frozen(backbone="tfidf+minilm", cache=tmp_path)
    first = rows_of(texts, fitted[0], frozen)
    np.testing.assert_allclose(first, fitted[0].embed(texts), atol=1e-5)
    kept = list(tmp_path.glob("*.npy"))
    assert [np.load(path).shape for path in kept] == [(60, 384)], "of the sentences alone"
    words, sentences = fitted[1].parts
    unread = fitted[1]._replace(parts=(words, sentences._replace(embed=lambda texts: 1 / 0)))
    second = rows_of(texts, unread, frozen)
    assert not np.array_equal(second[:, :-384], first[:, : second.shape[1] - 384]), "words of another fit"
    np.testing.assert_array_equal(second[:, -384:], first[:, -384:])


@here
@BOTH
@pytest.mark.parametrize("whole", [False, True])
def test_a_saved_backbone_gives_the_same_numbers(name, whole, tmp_path, monkeypatch):
    texts = [text for text, _ in reviews(30)]
    backbone = text_backbone(name, texts)
    backbone.save(tmp_path / "text", whole)
    assert (tmp_path / "text" / "model").exists() == whole
    if whole:
        monkeypatch.setattr(module, "packaged", lambda: 1 / 0)  # a copy needs no package
    again = load_text_backbone(tmp_path / "text")
    assert again.name == name
    np.testing.assert_allclose(again.embed(texts), backbone.embed(texts), atol=1e-5)


@here
@BOTH
def test_a_learner_and_a_run_take_it_and_their_models_need_nothing_else(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    made = reviews(40)
    texts, labels = [text for text, _ in made], [name for _, name in made]
    learner = al.ActiveLearner(texts, net=f"frozen:{name}", classes=["neg", "pos"], learner=al.Supervised(steps=40))
    learner.tell(range(20), labels[:20])
    learner.fit()
    table = write_csv(tmp_path / "reviews.csv", ["text"], [[text] for text in texts])
    options = {"classes": ("neg", "pos"), "budget": 20, "batch": 10, "steps": 40, "net": f"frozen:{name}"}
    with al.Run.create(table, tmp_path / "run", text="text", **options) as run:
        assert run.settings.net == f"frozen:{name}"
        while not run.is_finished():
            while run.advance():
                pass
            asked = dict(zip(run.paths, run.texts().values(), strict=True))
            run.tell({path: truth_of(asked[path]) for path in run.waiting()})
        want = [learner.predict_proba(texts), al.load(run.folder).predict_proba(texts)]
        folders = [learner.export(tmp_path / "of_learner"), run.export_model(tmp_path / "of_run")]
    assert json.loads((tmp_path / "run" / "model" / "text" / "backbone.json").read_text())["name"] == name
    monkeypatch.setattr(module, "packaged", lambda: 1 / 0)
    for folder, probs in zip(folders, want, strict=True):
        np.testing.assert_allclose(al.load(folder).predict_proba(texts), probs, atol=1e-4)
        assert al.load(folder).predict_proba([]).shape == (0, 2)


@BOTH
@pytest.mark.parametrize("package", [module.PACKAGE, "transformers"])
def test_a_missing_package_names_the_extra(name, package, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda asked: None if asked == package else object())
    with pytest.raises(al.ModelError, match=rf"expected the package {package}.*pip install 'askless\[text\]'"):
        al.embed_texts(["a text"], name)


def test_it_is_not_for_images():
    with pytest.raises(al.OptionError, match="the backbone minilm embeds texts, got images; use one for images"):
        al.ActiveLearner(np.zeros((4, 3, 8, 8), np.uint8), net="frozen:minilm", classes=2)
