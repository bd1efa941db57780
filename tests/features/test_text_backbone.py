"""Texts as features, and the loop on them."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

import askless as al
from askless.base.errors import InputError, OptionError
from askless.features.scaling import evened
from askless.features.text_backbone import load_text_backbone, text_backbone

from ..texts import reviews


def test_tfidf_is_what_scikit_learn_computes():
    texts = [text for text, _ in reviews(250)]
    words = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.5, stop_words="english", dtype=np.float32)
    weights = words.fit_transform(texts)
    svd = TruncatedSVD(min(256, weights.shape[1] - 1), random_state=0).fit(weights)
    backbone = text_backbone("tfidf", texts)
    new = [text for text, _ in reviews(20, seed=1)]
    for some in (texts, new):
        expected = normalize(svd.transform(words.transform(some)))
        assert np.abs(backbone.embed(some) - expected).max() < 1e-5
    assert not backbone.embed(["zzz"]).any()
    assert backbone.embed([]).shape == (0, len(svd.components_))


def test_a_saved_backbone_gives_the_same_numbers(tmp_path):
    texts = [text for text, _ in reviews(60)]
    backbone = text_backbone("tfidf", texts)
    backbone.save(tmp_path)
    assert (load_text_backbone(tmp_path).embed(texts) == backbone.embed(texts)).all()
    assert (text_backbone("tfidf", texts).embed(texts) == backbone.embed(texts)).all()
    (tmp_path / "backbone.json").write_text("{}")
    with pytest.raises(InputError, match="expected a text backbone saved by askless"):
        load_text_backbone(tmp_path)


def test_texts_without_words_and_unknown_names_are_refused():
    with pytest.raises(InputError, match="expected texts with words in common"):
        text_backbone("tfidf", ["!!", "??", "..", "--"])
    with pytest.raises(OptionError, match="unknown backbone 'nope' for texts"):
        text_backbone("nope", ["a"])


def test_the_loop_on_texts_learns_saves_and_goes_on(tmp_path):
    (x, y), (new, truth) = (zip(*reviews(120, seed=s), strict=True) for s in (0, 1))
    pool = al.data.as_pool((list(x), list(y)), test=(list(new), list(truth)))
    assert repr(pool) == "<Pool pool: 120 text items, 120 with a label, 2 classes, 120 for test>"
    learner = al.ActiveLearner(pool, net="frozen:tfidf", learner=al.FixMatch(steps=25, batch=16, mu=2))
    for _ in range(2):
        batch = learner.ask(15)
        learner.tell(batch.indices, pool.labels[batch.indices])
        learner.fit()
    assert learner.score() > 0.85
    assert learner.predict("a superb and lovely day").tolist() == [1]
    learner.save(tmp_path / "saved")
    again = al.ActiveLearner.load(tmp_path / "saved")
    assert again.pool.x == pool.x
    assert (again.predict_proba(list(new)) == learner.predict_proba(list(new))).all()
    assert (again.ask(5).indices == learner.ask(5).indices).all()
    with pytest.raises(InputError, match="item 0: expected a text, as in the pool, got int"):
        learner.predict([5])


def test_a_pool_of_texts_has_the_features_of_embed_texts():
    texts = [text for text, _ in reviews(40)]
    frozen = al.Frozen(backbone="tfidf", hidden=8, dropout=0.25)
    learner = al.ActiveLearner(texts, net=frozen, classes=2, learner=al.Supervised(steps=2))
    rows = torch.from_numpy(al.embed_texts(texts, frozen))
    mean, scale = evened(rows)
    torch.testing.assert_close(learner.views.plain(torch.arange(40)), (rows - mean) / scale)
    torch.testing.assert_close(learner.views.of(texts), learner.views.plain(torch.arange(40)))
    assert next(tuple(p.shape) for p in learner.first_network.parameters()) == (8, rows.shape[1])


def test_texts_need_a_backbone_for_texts():
    with pytest.raises(InputError, match="use net='frozen:tfidf'"):
        al.ActiveLearner(["one text", "another text"], classes=["a", "b"])
    with pytest.raises(InputError, match="texts are not numbers"):
        al.data.as_pool(["one", "two"]).take([0])
    with pytest.raises(InputError, match="expected image items, got texts"):
        al.data.as_pool(["one", "two"], kind="image")


def test_a_pool_of_texts_from_files(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("text,label,split,by\ngood day,pos,train,ann\nbad day,neg,test,bob\nodd day,,,\n ,pos,,\n")
    pool = al.data.load(table)
    assert (pool.kind, pool.classes, pool.ids, pool.labels.tolist()) == ("text", ("neg", "pos"), ("1", "3"), [1, -1])
    assert pool.test[0] == ("bad day",)
    assert pool.skipped == (("4", "an empty text"),)
    assert pool.columns["by"] == ("ann", "")
    for name in ("train/pos/1", "train/neg/2", "test/pos/3"):
        (tmp_path / "imdb" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "imdb" / f"{name}.txt").write_text(name)
    pool = al.data.load(tmp_path / "imdb", labels_from_folders=True)
    assert (pool.x, pool.labels.tolist()) == (("train/neg/2", "train/pos/1"), [0, 1])
    assert pool.test[0] == ("test/pos/3",)
