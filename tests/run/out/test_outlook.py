"""What a run says of its next labels: one run on rows of numbers that overlap, with enough check rows and rounds."""

import json

import numpy as np
import pytest

from askless.base.errors import OptionError
from askless.run import Run
from askless.run.out.account import Outlook
from askless.run.out.gather import account_of, gather
from askless.run.out.outlook import in_words
from askless.run.steps.estimate import estimate, level_of_look
from askless.run.steps.forecast import Ahead
from askless.run.steps.round_files import read_held, read_held_sure
from askless.run.store.labels import labels_of_check_items


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("outlook")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    np.savez(place / "rows.npz", X=(rng.normal(size=(400, 8)) + 1.6 * np.eye(8)[y]).astype(np.float32))
    options = {"budget": 100, "check": 0.3, "batch": 20, "net": "linear", "learner": "supervised", "price": 0.1}
    run = Run.create(place / "rows.npz", place / "run", classes=("a", "b", "c"), steps=40, **options)
    seen = []
    for _ in range(3):
        while run.advance(ahead=False) is not None:
            pass
        seen.append(account_of(run))
        run.tell({path: "abc"[y[int(path)]] for path in run.waiting()})
    while run.advance(ahead=False) is not None:
        pass
    yield run, seen
    run.close()


def test_before_there_are_rounds_enough_it_says_why(run):
    _, (before, one, two) = run
    assert before.outlook.why_not == "a forecast needs a model"
    assert one.outlook.why_not == "a forecast needs 3 measured rounds, and this run has 1"
    assert two.outlook.why_not == "a forecast needs 3 measured rounds, and this run has 2"
    assert in_words(two.outlook)[0] == "No forecast yet: a forecast needs 3 measured rounds, and this run has 2."


def test_page_status_report_and_advice_tell_one_forecast(run):
    account, facts = account_of(run[0]), gather(run[0])
    assert [row.labels for row in account.outlook.ahead] == [50, 100, 200]
    assert facts.outlook == account.outlook
    said = json.loads(json.dumps(account.as_json()))["outlook"]
    first = account.outlook.ahead[0]
    assert (said["level"], said["why_not"], said["ahead"][0]["gain"]) == (0.9, "", first.gain)
    of_advice = [account.advice.text, *account.advice.reasons]
    assert any(f"50 more labels would bring about {100 * first.gain:.1f} point" in text for text in of_advice)
    run[0].write_report()
    assert "50 more labels would bring about" in (run[0].folder / "report.html").read_text()
    assert json.loads((run[0].folder / "report.json").read_text())["outlook"]["price"] == 0.1


def test_the_price_of_an_answer_makes_it_money(run):
    said = account_of(run[0]).as_json()["outlook"]
    answers = account_of(run[0]).progress.spent
    assert (said["price"], said["spent"]) == (0.1, pytest.approx(0.1 * answers))
    assert [row["cost"] for row in said["ahead"]] == pytest.approx([5, 10, 20])
    for row in said["ahead"]:
        assert row["per_point"] == pytest.approx(row["cost"] / (100 * row["gain"]))
    other = account_of(run[0], price=0.5).as_json()["outlook"]
    assert (other["price"], other["ahead"][0]["cost"]) == (0.5, 25)
    assert account_of(run[0], price=0).outlook.spent == 0


def test_each_label_costs_an_answer_of_everybody_who_gives_one():
    ahead = [Ahead(50, 0.9, 0.8, 1.0, 0.01, 0.0, 0.02)]
    said = Outlook(ahead, price=0.1, people=2).as_json()["ahead"][0]
    assert (said["cost"], said["per_point"]) == pytest.approx((10, 10))


def test_what_two_people_answered_is_paid_twice(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32))
    options = {"classes": ("a", "b"), "budget": 8, "check": 0.25, "annotators": 2, "price": 0.1}
    with Run.create(tmp_path / "rows.npz", tmp_path / "run", **options) as run:
        for who in ("ann", "bo"):
            run.tell(dict.fromkeys(run.waiting()[:2], "a"), who)
        assert account_of(run).outlook.spent == pytest.approx(0.4)


@pytest.mark.parametrize("price", [-0.01, float("nan"), float("inf")])
def test_a_price_that_nobody_can_pay_is_refused(tmp_path, price):
    np.savez(tmp_path / "rows.npz", X=np.zeros((4, 2), np.float32))
    with pytest.raises(OptionError, match="price: expected the cost of one answer"):
        Run.create(tmp_path / "rows.npz", tmp_path / "run", price=price)


def test_the_confidence_of_the_model_is_used(run):
    """By what the round noted of every held-out row, as the estimate from arrays takes it."""
    run, _ = run
    held, sure = read_held(run.folder, 3), read_held_sure(run.folder, 3)
    with run.store.look() as db:
        truth = labels_of_check_items(db)
    assert set(truth) < set(sure) == set(held)
    others = [p for item, p in sure.items() if item not in truth]
    assert len(others) == 50  # a fifth of 400 is held out
    found = estimate([held[i] == truth[i] for i in truth], [sure[i] for i in truth], others, level_of_look(3, 4))
    assert account_of(run).measure == found
