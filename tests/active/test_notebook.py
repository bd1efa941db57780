"""A batch in a notebook: what its buttons do to the learner, and what is lost when a cell is run again, which is nothing."""

import re
import sys

import nbclient
import nbformat
import numpy as np
import pytest

import askless as al

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
POOL = al.data.as_pool((X[:30], Y[:30]), test=(X[30:], Y[30:]), classes=["down", "up"])


def learner_on(pool=POOL, **options):
    options = {"net": "linear", "learner": "label-propagation", "strategy": "typiclust"} | options
    return al.ActiveLearner(pool, **options)


def widgets_in(box):
    yield box
    for child in getattr(box, "children", ()):
        yield from widgets_in(child)


def buttons(box):
    return {w.description: w for w in widgets_in(box) if hasattr(w, "click")}


def seen(box):
    """The text of the widget, without markup."""
    texts = [w.value for w in widgets_in(box) if hasattr(w, "value")]
    return re.sub(r"<[^>]*>", "", " | ".join(texts))


def press(box, *names):
    for name in names:
        buttons(box)[name].click()


def test_every_click_labels_the_item_that_is_shown():
    learner, same = learner_on(), learner_on()
    batch = same.ask(4).indices.tolist()
    box = learner.label(4)
    assert list(buttons(box)) == ["down", "up", "Skip", "Undo"]
    for k, (i, name) in enumerate(zip(batch, ["up", "down", "down", "up"], strict=True)):
        assert f"{k + 1} of 4 · item {i} · " in seen(box)
        press(box, name)
        assert learner.labels == dict(zip(batch, [1, 0, 0, 1][: k + 1], strict=False))
    assert "4 of 4 labelled, 0 skipped." in seen(box)
    assert list(buttons(box)) == ["Train, and ask for 4 more", "Undo"]


def test_the_cell_run_again_resumes_and_loses_no_answer():
    learner = learner_on()
    press(learner.label(5), "up", "Skip", "down")
    labels, skipped = dict(learner.labels), set(learner.skipped)
    again = learner.label(5)
    assert (learner.labels, learner.skipped) == (labels, skipped)
    assert "4 of 5" in seen(again)
    press(again, "up", "up")
    assert "4 of 5 labelled, 1 skipped." in seen(again)
    assert list(learner.labels.values()) == [1, 0, 1, 1]


def test_another_n_or_a_finished_batch_asks_for_new_items():
    learner = learner_on()
    press(learner.label(5), "up")
    other = learner.label(2)
    assert "1 of 2" in seen(other)
    press(other, "up", "down")
    assert len(learner.labels) == 3
    assert "1 of 2" in seen(learner.label(2))
    assert learner.labels.keys().isdisjoint(learner.batch.reasons)


def test_skipped_items_do_not_come_back_until_they_get_a_label(tmp_path):
    learner = learner_on()
    press(learner.label(3), "Skip", "up", "Skip")
    skipped = set(learner.skipped)
    assert len(skipped) == 2
    again = al.ActiveLearner.load(learner.save(tmp_path / "saved"))
    assert again.skipped == skipped
    for active in (learner, again):
        active.label(20)
        assert skipped.isdisjoint(active.batch.reasons)
    learner.tell(sorted(skipped), ["up", "up"])
    assert learner.skipped == set()


def test_undo_takes_answers_back_one_by_one_even_of_a_full_batch():
    learner = learner_on(random_share=0.5)
    press(learner.label(4), "up", "up", "up", "up")
    learner.fit()
    before, comparison = dict(learner.labels), learner.comparison()
    box = learner.label(3)
    first = seen(box)
    press(box, "up", "Skip", "down")
    assert learner.comparison() != comparison
    press(box, "Undo")
    assert "3 of 3" in seen(box)
    press(box, "Undo", "Undo")
    assert seen(box) == first
    assert (learner.labels, learner.skipped, learner.comparison()) == (before, set(), comparison)
    assert buttons(box)["Undo"].disabled
    press(box, "Undo")  # a click that was on its way
    assert learner.labels == before


def test_undo_leaves_labels_that_a_training_has_used():
    learner = learner_on()
    box = learner.label(4)
    press(box, "up", "down")
    first, second = learner.labels
    learner.fit()
    box = learner.label(4)
    assert buttons(box)["Undo"].disabled
    press(box, "Undo")
    assert list(learner.labels) == learner.batch.answered == [first, second]
    with pytest.raises(al.InputError, match=f"no training has used, got {second}; change a label by tell"):
        learner.forget(second)


def test_a_full_batch_trains_says_how_accurate_and_asks_as_the_loop_would():
    learner, same = learner_on(random_share=0.4), learner_on(random_share=0.4)
    for _ in range(2):
        batch = same.ask(5)
        same.tell(batch, Y[batch])
        same.fit()
    box = learner.label(5)
    for k in range(10):
        press(box, POOL.classes[Y[box_item(box)]])
        if k % 5 == 4:
            press(box, "Train, and ask for 5 more")
    assert list(learner.labels.items()) == list(same.labels.items())
    assert learner.comparison() == same.comparison()
    assert f"Trained on 10 labels. Accuracy on the held-out test: {100 * same.score():.1f} %." in seen(box)
    random = same.comparison()["random"]
    assert f"Accuracy on {random['n']} random items: {100 - 100 * random['wrong']:.1f} %." in seen(box)
    assert list(learner.batch.reasons) == same.ask(5).indices.tolist()


def box_item(box):
    return int(re.search(r"item (\d+)", seen(box))[1])


def test_a_second_click_on_train_while_it_trained_trains_once():
    learner = learner_on()
    box = learner.label(2)
    press(box, "up", "down")
    train = buttons(box)["Train, and ask for 2 more"]
    train.click()
    train.click()
    assert len(learner.rounds) == 1


def test_the_progress_of_a_training_in_steps_is_shown():
    learner = learner_on(learner=al.Supervised(steps=4))
    box = learner.label(2)
    press(box, "up", "down")
    said = box.children[-1]
    told = []
    said.observe(lambda change: told.append(change["new"]), "value")
    press(box, "Train, and ask for 2 more")
    assert "Training: 100 %" in told


def test_what_stops_a_training_is_said_in_the_widget_and_the_batch_stays():
    learner = learner_on(learner=al.Supervised(steps=50, lr=1e30, optimiser="sgd"))
    box = learner.label(2)
    press(box, "up", "down", "Train, and ask for 2 more")
    assert "lr" in seen(box)
    assert len(learner.labels) == 2
    assert "2 of 2 labelled" in seen(box)


def test_when_everything_is_skipped_more_is_asked_without_training():
    learner = learner_on()
    box = learner.label(3)
    press(box, "Skip", "Skip", "Skip", "Train, and ask for 3 more")
    assert not learner.is_fitted
    assert "1 of 3" in seen(box)


def test_the_last_batch_is_what_is_left_and_then_nothing_is_asked():
    learner = learner_on(al.data.as_pool((X[:5], Y[:5]), classes=["down", "up"]))
    box = learner.label(3)
    press(box, "up", "down", "Skip", "Train, and ask for 3 more")
    assert "1 of 2" in seen(box)
    press(box, "up", "up")
    assert "2 of 2 labelled, 0 skipped. No item is left to label." in seen(box)
    assert buttons(box)["Train, and ask for 3 more"].disabled
    assert "No item is left to label." in seen(learner.label(3))


def test_a_click_in_an_older_widget_answers_only_what_it_shows():
    learner = learner_on()
    old, new = learner.label(3), learner.label(3)
    press(new, "up")
    press(old, "down")  # shows an item that was answered in the other one
    assert list(learner.labels.values()) == [1]
    assert "2 of 3" in seen(old)
    press(old, "down")
    assert list(learner.labels.values()) == [1, 0]


def test_images_texts_and_rows_are_shown_with_names_reasons_and_columns():
    box = learner_on(al.data.digits(), net=al.Frozen(backbone="raw"), strategy="random").label(2)
    shown = " ".join(w.value for w in widgets_in(box) if hasattr(w, "value"))
    assert shown.count("data:image/png;base64,") == 1
    assert "drawn at random" in shown
    texts = ["<b>bold</b> " + "word " * 100 + "end", "two words", "three words here", "four words are here"] * 3
    pool = al.data.Pool(
        texts, ids=tuple("abcdefghijkl"), classes=("<x>", "y"), kind="text", columns={"who": ("<i>me",) * 12}
    )
    learner = learner_on(pool, net="frozen:tfidf", strategy="random")
    for _ in range(12):
        box = learner.label(12)
        shown = " ".join(w.value for w in widgets_in(box) if hasattr(w, "value"))
        i = box_item(box)
        assert f"item {i}: {pool.ids[i]}" in seen(box)
        assert "<dt>who</dt><dd>&lt;i&gt;me</dd>" in shown
        assert texts[i].replace("<", "&lt;").replace(">", "&gt;") in shown
        press(box, "<x>")
    box = learner_on().label(1)
    assert ", ".join(f"{number:.3g}" for number in X[box_item(box)].tolist()) in seen(box)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", True])
def test_a_batch_has_at_least_one_item(n):
    with pytest.raises(al.InputError, match=r"n must be a whole number >= 1, got .*; pass how many items to show"):
        learner_on().label(n)


def test_a_missing_ipywidgets_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(al.ModelError, match=r"the package ipywidgets, .*; run `pip install 'askless\[notebook\]'`"):
        learner_on().label(3)


MAKE = """
import askless as al
learner = al.ActiveLearner(al.data.digits(), net=al.Frozen(backbone="raw"), learner="label-propagation", classes=10)
"""


def test_in_a_notebook_the_clicks_of_the_browser_reach_the_learner(monkeypatch):
    """The cells run in a kernel of their own; clicks are sent as the browser sends them, to the buttons it was shown."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cells = [
        nbformat.v4.new_code_cell(text) for text in (MAKE, "learner.label(3)", "learner.label(3)", "learner.labels")
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, kernel_name="python3", timeout=300)

    def click(cell, name):
        view = cell.outputs[0]["data"]["application/vnd.jupyter.widget-view+json"]
        (key,) = inside(client.widget_state, view["model_id"], name)
        content = {"comm_id": key, "data": {"method": "custom", "content": {"event": "click"}}}
        client.kc.shell_channel.send(client.kc.session.msg("comm_msg", content))

    with client.setup_kernel():
        client.execute_cell(cells[0], 0)
        client.execute_cell(cells[1], 1)
        click(cells[1], "7")
        client.execute_cell(cells[2], 2)
        click(cells[2], "4")
        click(cells[2], "Skip")
        client.execute_cell(cells[3], 3)
    labels = eval(cells[3].outputs[0]["data"]["text/plain"])
    assert list(labels.values()) == [7, 4]


def inside(states, key, name):
    """The models of the buttons of this name inside a widget, as the browser knows them."""
    state = states[key]
    if state.get("description") == name:
        yield key
    for child in state.get("children", ()):
        yield from inside(states, child.removeprefix("IPY_MODEL_"), name)
