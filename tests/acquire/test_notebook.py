"""What a notebook shows of a selection."""

import numpy as np

import askless as al


def learner_on(pool, **options):
    return al.ActiveLearner(pool, learner=al.Supervised(steps=1), **options)


def test_images_are_shown_as_thumbnails_with_their_reasons():
    picks = learner_on(al.data.digits(), net="small-cnn", strategy="random").ask(3)
    shown = picks._repr_html_()
    assert shown.count("data:image/png;base64,") == 3
    assert shown.count("drawn at random") == 3


def test_rows_are_shown_by_their_first_numbers_scores_and_reasons():
    x = np.arange(80, dtype=np.float32).reshape(10, 8)
    picks = learner_on(x, classes=2, strategy="coreset").ask(2)
    shown = picks._repr_html_()
    row = [f"{number:.3g}" for number in x[picks[0]][:6]]
    assert f"<td>{picks[0]}</td><td>{', '.join(row)}, …</td><td>{picks.scores[0]:.4g}</td>" in shown
    assert shown.count("in a region without labels") == 2


def test_texts_are_escaped_and_cut_and_have_their_ids():
    texts = ["<b>bold</b> " + "word " * 100, "two", "three words here", "four words are here"]
    pool = al.data.as_pool(texts, ids=["a", "b", "c", "d"], classes=["x", "y"])
    shown = al.Selection(np.array([0]), None, {"strategy": "badge"}, pool)._repr_html_()
    assert "0: a" in shown
    assert "&lt;b&gt;bold" in shown
    assert "…" in shown
    assert "chosen by badge" in shown


def test_without_a_pool_there_are_positions_scores_and_reasons_of_the_first():
    picks = al.select("askless", 30, features=np.random.default_rng(0).normal(size=(60, 3)))
    shown = picks._repr_html_()
    assert shown.count("<tr>") == 25
    assert f"typical of {picks.info['stands_for'][0]} similar items" in shown
    assert "what it is" not in shown


def test_random_items_of_a_share_say_so():
    picks = learner_on(np.eye(20, dtype=np.float32), classes=2, strategy="coreset", random_share=0.5).ask(4)
    assert picks._repr_html_().count("drawn at random") == len(picks.info["random"]) > 0
