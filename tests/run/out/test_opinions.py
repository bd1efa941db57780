"""What the account of a run says of several people's answers."""

import pytest

from askless.run.out.account import Confused, Disagreements
from askless.run.out.gather import account_of
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.deciding import decide

CAT, DOG = 0, 1


@pytest.fixture
def told(make_room):
    """`told({"ann": [0, 1], ...})`: the account of a run in which each of these people gave these classes to the items."""

    def make(said, decided=()):
        room = make_room(annotators=len(said), classes=("cat", "dog"))
        room.ask(list(range(len(next(iter(said.values()))))))
        for name, labels in said.items():
            for label in labels:
                item = room.take(name)
                with room.run.store.change() as db:
                    answer(db, Desk(name, f"{name}-tab"), room.request(), [item], Given(label=label), overlap=len(said))
        for item, label in decided:
            with room.run.store.change() as db:
                decide(db, room.request(), "dora", item, label)
        return account_of(room.run)

    return make


def test_two_people_have_kappa_and_alpha_and_their_disagreements_are_open_until_decided(told):
    said = {"ann": [CAT, CAT, DOG, CAT], "bo": [CAT, DOG, DOG, DOG]}
    found = told(said, decided=[(1, DOG)])
    assert found.disagreements == Disagreements(1, 1)
    a = found.agreement
    assert (a.items, a.people, a.same["correct"], a.same["n"], a.kappa) == (4, 2, 2, 4, 0.2)
    assert a.alpha == pytest.approx(1 - 7 * 4 / (8**2 - 4**2 - 4**2))  # n = 8, four of each class, two pairs differ
    assert found.confused == [
        Confused("ann", CAT, 3, 1, DOG, 2),
        Confused("ann", DOG, 1, 1),
        Confused("bo", CAT, 1, 1),
        Confused("bo", DOG, 3, 2, CAT, 1),  # on item 1 it is the decision that counts
    ]
    assert found.as_json()["disagreements"] == {"open": 1, "without_majority": 1}


def test_three_people_have_alpha_only_and_a_majority_is_a_disagreement_still(told):
    found = told({"ann": [CAT, DOG], "bo": [CAT, DOG], "cy": [DOG, DOG]})
    assert found.disagreements == Disagreements(1, 0)
    assert (found.agreement.people, found.agreement.kappa) == (3, None)
    assert found.agreement.alpha == pytest.approx(1 - 5 * 2 / (6**2 - 2**2 - 4**2))


def test_one_person_agrees_with_nobody(told):
    found = told({"ann": [CAT, DOG]})
    assert (found.agreement, found.confused, found.disagreements) == (None, [], Disagreements())
