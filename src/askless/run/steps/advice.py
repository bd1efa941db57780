"""Can I stop? One sentence with its reasons. It advises and never stops anything by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

STABLE = 0.02  # predictions count as stable when a smaller share than this changed ...
TWICE = 2  # ... in each of this many rounds in a row
FEW = 5  # a class with fewer labels is hardly known
QUIET = 60  # labels without a new class before we believe that there is none
WORTH = 0.01  # of accuracy: what the next labels should bring at least


@dataclass(frozen=True)
class Standing:
    """Where a run stands.

    `rounds`: how many times a model was trained. `measure`: the accuracy by the check images, as `estimate.estimate`
    gives it, None without any. `changes`: for each round that could be compared with the one before, oldest first, the
    share of the pool whose predicted class changed. `counts`: the labels of each class to train on. `since_new_class`: how
    many labels were given since a class was first used. `doubtful`: labels that the others contradict.
    `checked`: check images that have a label. `flattered`: images to choose from that look like check images.
    `nothing_left`: no item waits for a label or could be chosen. `noun`: what one item is called. `ahead`: what the next
    labels would bring, by `forecast.Ahead`, None where that cannot be said.
    """

    budget: int
    spent: int
    rounds: int
    counts: Mapping[str, int]
    measure: Mapping[str, Any] | None = None
    target: float | None = None
    changes: Sequence[float | None] = ()
    since_new_class: int | None = None
    checked: int = 0
    flattered: int = 0
    doubtful: int = 0
    nothing_left: bool = False
    noun: str = "image"
    ahead: Mapping[str, Any] | None = None


class Advice(NamedTuple):
    """`verdict`: too early, keep going, likely enough, target reached, budget used or nothing left; `text`: a sentence
    or two."""

    verdict: str
    text: str
    reasons: list[str]


def advise(facts: Standing) -> Advice:
    """What to do next, from the target, the budget, the stability of the predictions and the labels of each class.

    The predictions are stable when less than 2 % of them changed in each of the last two rounds, the stabilising
    predictions of Bloodgood and Vijay-Shanker (2009). The next labels are worth their time where they are expected to bring
    a point of accuracy.
    """
    lacking = _thin_classes(facts.counts) + _new_class(facts.since_new_class)
    steady, stability = _stability(facts)
    worth, coming = _coming(facts)
    if facts.rounds >= 1 and facts.measure and facts.target is not None and facts.measure["low"] >= facts.target:
        reached = (
            f"check accuracy {of_check(facts.measure)}, an interval that lies above the target {_number(facts.target)}"
        )
        looks = [
            f"this is the {_nth(facts.rounds)} look at the same check {facts.noun}s; the interval allows for all of them"
        ]
        return _advice("target reached", [reached], lacking + (looks if facts.rounds > 1 else []), facts)
    if facts.spent >= facts.budget:
        used = f"{facts.spent} of {facts.budget} labels given"
        lacking = ([] if facts.rounds else [_no_model(facts)]) + lacking
        return _advice("budget used", [used], coming + lacking + stability + _short_of_target(facts), facts)
    if facts.nothing_left and facts.rounds >= 1:
        every = f"no {facts.noun} is left to ask about, and {facts.spent} of the budget of {facts.budget} are used"
        return _advice("nothing left", [every], lacking + stability + _short_of_target(facts), facts)
    left = f"{facts.budget - facts.spent} of {_many(facts.budget, 'label')} left"
    if facts.rounds == 0:
        return _advice("too early", [_no_model(facts)], [left], facts)
    if facts.rounds == 1:
        return _advice("too early", ["there is only one model, so nothing to compare it with"], [left], facts)
    against = lacking + ([] if steady else stability) + _short_of_target(facts) + (coming if worth else [])
    if against:
        others = (stability if steady else []) + ([] if worth else coming)
        return _advice("keep going", against[:1], against[1:] + others + [left], facts)
    quiet = "no new class" + (f" in {facts.since_new_class} labels" if facts.since_new_class is not None else "")
    return _advice("likely enough", [f"{stability[0]} and {quiet}"], [*coming, left], facts)


def _coming(facts: Standing) -> tuple[bool, list[str]]:
    """Whether the next labels are worth their time, and the sentence that says what they would bring."""
    if facts.ahead is None:
        return False, []
    return facts.ahead["gain"] >= WORTH, [f"{facts.ahead['labels']} more labels would bring {brings(facts.ahead)}"]


def brings(ahead: Mapping[str, Any]) -> str:
    """A gain in words, in points of accuracy with its interval.

    >>> brings({"gain": 0.008, "gain_low": -0.0021, "gain_high": 0.019})
    'about 0.8 points (−0.2 to 1.9)'
    """
    gain, low, high = (
        f"{100 * ahead[name]:.1f}".replace("-0.0", "0.0").replace("-", "−")
        for name in ("gain", "gain_low", "gain_high")
    )
    return f"about {gain} {'point' if gain == '1.0' else 'points'} ({low} to {high})"


def _no_model(facts: Standing) -> str:
    classes = sum(n > 0 for n in facts.counts.values())
    if classes >= 2 or not (classes or facts.spent):
        return "no model has been trained yet"
    if not classes and facts.checked:
        return f"only check {facts.noun}s have labels so far, and a model needs chosen ones of two classes"
    return f"all labels so far are {'of one class' if classes else 'unsure'}, and a model needs two classes"


def measured(measure: Mapping[str, Any] | None, checked: int = 0, noun: str = "image") -> str:
    """The accuracy in words.

    >>> measured({"n": 40, "correct": 36, "accuracy": 0.9, "low": 0.7695, "high": 0.9604})
    'Check accuracy 0.90 (0.77–0.96, n = 40).'
    """
    if measure is None:
        return f"Check accuracy: not measured ({'no model yet' if checked else f'no labelled check {noun}s'})."
    return f"Check accuracy {of_check(measure)}."


def of_check(measure: Mapping[str, Any]) -> str:
    return f"{measure['accuracy']:.2f} ({measure['low']:.2f}–{measure['high']:.2f}, n = {measure['n']})"


def _advice(verdict: str, first: list[str], others: list[str], facts: Standing) -> Advice:
    tail = "" if verdict == "target reached" else f" {measured(facts.measure, facts.checked, facts.noun)}"
    alike = f"{facts.flattered} {facts.noun}s in the pool look like check {facts.noun}s, which may flatter the accuracy"
    again = f"{_many(facts.doubtful, 'label is', 'labels are')} doubtful; check them under Review"
    more = [alike] * bool(facts.flattered) + [again] * bool(facts.doubtful)
    return Advice(verdict, f"{verdict.capitalize()}: {first[0]}.{tail}", first + others + more)


def _thin_classes(counts: Mapping[str, int]) -> list[str]:
    thin = sorted((n, name) for name, n in counts.items() if n < FEW)
    said = [f"'{name}' has {_many(n, 'label')}" for n, name in thin[:3]]
    more = [f"{_many(len(thin) - 3, 'more class has', 'more classes have')} fewer than {FEW}"] if len(thin) > 3 else []
    return [", ".join(said + more)] if thin else []


def _new_class(since: int | None) -> list[str]:
    if since is None or since >= QUIET:
        return []
    return [f"a new class appeared {_many(since, 'label')} ago, and more may follow"]


def _stability(facts: Standing) -> tuple[bool, list[str]]:
    """Whether the last two rounds predict alike, and the sentence that says so."""
    last = [c for c in facts.changes if c is not None][-TWICE:]
    if not last:
        return False, ["there are no two rounds of predictions to compare yet"]
    if len(last) < TWICE:
        return False, [f"predictions changed for {_percent(last[-1])} of {facts.noun}s, seen over one round only"]
    if max(last) >= STABLE:
        shares = " and ".join(_percent(c) for c in last)
        return False, [f"predictions still changed for {shares} of {facts.noun}s in the last two rounds"]
    return True, [
        f"predictions changed for at most {_percent(max(last))} of {facts.noun}s in each of the last two rounds"
    ]


def _short_of_target(facts: Standing) -> list[str]:
    if facts.target is None:
        return []
    if facts.measure is None:
        return [f"the target {_number(facts.target)} cannot be checked without labelled check {facts.noun}s"]
    if facts.measure["low"] >= facts.target:
        return []
    low, target = facts.measure["low"], _number(facts.target)
    return [f"the interval of the check accuracy starts at {low:.2f}, below the target {target}"]


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _number(value: float) -> str:
    """A target as it was given, at least two decimals: 0.90, 0.995."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _many(n: int, one: str, many: str = "") -> str:
    return f"no {one}" if n == 0 else f"{n:,} {one if n == 1 else many or one + 's'}"


def _nth(n: int) -> str:
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"
