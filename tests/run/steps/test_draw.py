import numpy as np
import pytest
from scipy.stats import chi2

from askless.run.steps.draw import draw_check


@pytest.mark.parametrize(
    ("n", "budget", "share", "check", "held"),
    [
        (1000, 200, 0.2, 40, 120),
        (100, 20, 0.2, 4, 12),
        (48, 20, 0.2, 4, 9),  # a fifth of all items at most
        (20, 20, 0.9, 10, 10),  # half of all items at most
        (10, 4, 0.0, 0, 0),
        (2, 2, 0.5, 1, 1),
    ],
)
def test_so_many_are_drawn(n, budget, share, check, held):
    draw = draw_check(n, budget, share, seed=0)
    assert (draw.check, draw.held) == (check, held)
    splits = [draw.split(i) for i in range(n)]
    assert splits.count("check") == check
    assert splits.count("reserve") == held - check
    assert sorted(draw.place.tolist()) == list(range(n))


def test_a_larger_budget_begins_with_the_same_images():
    """So that growing the budget later is the same as having had it from the start."""
    small, large = draw_check(500, 50, 0.2, seed=3), draw_check(500, 300, 0.2, seed=3)
    assert (small.place == large.place).all()
    assert {i for i in range(500) if small.split(i) == "check"} <= {i for i in range(500) if large.split(i) == "check"}


def test_the_draw_depends_on_the_seed_and_the_number_of_items_alone():
    assert (draw_check(100, 20, 0.2, seed=0).place == draw_check(100, 20, 0.2, seed=0).place).all()
    assert (draw_check(100, 20, 0.2, seed=0).place != draw_check(100, 20, 0.2, seed=1).place).any()


def test_every_item_is_equally_likely_to_be_a_check_image():
    n, draws = 40, 500
    counts = np.zeros(n)
    for seed in range(draws):
        draw = draw_check(n, 40, 0.25, seed=seed)
        counts += draw.place < draw.check
    expected = draws * 10 / n
    # Within a draw the counts are negatively dependent: the statistic shrinks by the share that is left.
    statistic = ((counts - expected) ** 2 / expected).sum() / (1 - 10 / n)
    assert chi2.ppf(0.001, n - 1) < statistic < chi2.ppf(0.999, n - 1)


def test_check_images_are_drawn_alike_from_all_strata(tmp_path, make_room):
    """Whatever the items are: the first and the last, labelled and unlabelled ones, in proportion."""
    strata = np.arange(60) % 3
    counts = np.zeros(3)
    for seed in range(150):
        draw = draw_check(60, 60, 0.2, seed=seed)
        counts += np.bincount(strata[draw.place < draw.check], minlength=3)
    expected = counts.sum() / 3
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, 2)


def test_the_content_of_the_items_has_no_part_in_the_draw(tmp_path):
    from askless.run import Run

    splits = []
    for number, scale in enumerate((1.0, -50.0)):
        source = tmp_path / f"{number}.npz"
        rows = np.random.default_rng(number).normal(size=(30, 4)).astype(np.float32) * scale
        np.savez(source, X=rows, y=np.arange(30) % (number + 2))  # labelled or not
        run = Run.create(source, tmp_path / f"run{number}", budget=10, seed=7)
        with run.store.look() as db:
            splits.append([tuple(row) for row in db.execute("SELECT split, place FROM item ORDER BY id")])
        run.close()
    assert splits[0] == splits[1]
    assert {split for split, _ in splits[0]} == {"check", "reserve", "pool"}
