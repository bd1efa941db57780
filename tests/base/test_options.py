"""Option objects: what each option may be stands in its annotation."""

import dataclasses
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
import pytest

import askless as al
from askless.base.errors import InputError, OptionError
from askless.base.options import (
    Between,
    Count,
    CountOrZero,
    NotNegative,
    Several,
    Share,
    annotations_of,
    options,
    written,
)
from askless.kernels import InfiniteCNN, InfiniteMLP
from askless.learn import Training


@options
class Cake:
    eggs: Count = 3
    layers: Several = 2
    candles: CountOrZero = 0
    sugar: NotNegative = 0.5
    cocoa: Share | None = None
    heat: Annotated[float, Between(1e-3, 250)] = 180.0
    glaze: bool = True
    form: Literal["round", "square"] = "round"
    cut: bool | Literal["twice"] = False
    guests: tuple[str, ...] | Any = ()
    height: Annotated[float, "in metres"] = 0.1

    def __post_init__(self) -> None:
        if self.candles > 10 * self.eggs:
            raise InputError("Cake: too many candles")


@options
class Layered(Cake):
    layers: Several = 5


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"eggs": 0}, "Cake: eggs must be a whole number >= 1, got 0"),
        ({"eggs": True}, "Cake: eggs must be a whole number >= 1, got True"),
        ({"eggs": 2.0}, "Cake: eggs must be a whole number >= 1, got 2.0"),
        ({"eggs": None}, "Cake: eggs must be a whole number >= 1, got None"),
        ({"layers": 1}, "Cake: layers must be a whole number >= 2, got 1"),
        ({"candles": -1}, "Cake: candles must be a whole number >= 0, got -1"),
        ({"sugar": -0.1}, "Cake: sugar must be a number >= 0, got -0.1"),
        ({"sugar": float("nan")}, "Cake: sugar must be a number >= 0, got nan"),
        ({"sugar": "much"}, "Cake: sugar must be a number >= 0, got 'much'"),
        ({"cocoa": 1.5}, "Cake: cocoa must be a number from 0 to 1, got 1.5"),
        ({"heat": 300}, "Cake: heat must be a number from 0.001 to 250, got 300"),
        ({"glaze": 1}, "Cake: glaze must be True or False, got 1"),
        ({"form": "star"}, "Cake: form must be one of round, square, got 'star'"),
        ({"cut": "thrice"}, "Cake: cut must be one of True, False, twice, got 'thrice'"),
    ],
)
def test_an_option_is_checked_by_its_annotation(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        Cake(**given)
    assert str(refused.value) == says
    assert isinstance(refused.value, OptionError) == ("one of" in says)


def test_what_an_annotation_allows_is_taken_as_it_is() -> None:
    cake = Cake(
        eggs=np.int64(4), sugar=np.float32(1), cocoa=None, glaze=np.True_, cut="twice", guests=object, height="low"
    )
    assert (cake.eggs, cake.cocoa, cake.cut, cake.guests) == (4, None, "twice", object)
    assert repr(Cake()) == "Cake()"
    assert repr(Cake(eggs=4, form="square", guests=(Cake(),))) == "Cake(eggs=4, form='square', guests=(Cake(),))"
    assert written(Cake()) == (
        "Cake(eggs=3, layers=2, candles=0, sugar=0.5, cocoa=None, heat=180.0, glaze=True, form='round', cut=False, "
        "guests=(), height=0.1)"
    )


def test_options_that_go_together_are_checked_after_each_by_itself() -> None:
    with pytest.raises(InputError, match="too many candles"):
        Cake(eggs=1, candles=11)
    with pytest.raises(InputError, match="eggs must be a whole number"):
        Cake(eggs="one", candles=11)  # type: ignore[arg-type]


def test_a_class_built_on_another_checks_both_and_says_its_own_name() -> None:
    with pytest.raises(InputError, match="Layered: eggs must be a whole number >= 1, got 0"):
        Layered(eggs=0)
    with pytest.raises(InputError, match="Layered: layers must be a whole number >= 2, got 1"):
        dataclasses.replace(Layered(), layers=1)


def test_names_that_only_type_checkers_see_are_not_asked_for():
    @options
    class Own:
        guests: "Nobody | None" = None  # type: ignore[name-defined]  # noqa: F821
        eggs: "Count" = 1

    assert Own(guests=3).guests == 3


EVERY = [
    *(info.make for info in al.acquire.STRATEGIES.values()),
    *(al.TwoLevel, al.Frozen, al.DARP, al.LabelPropagation, InfiniteMLP, InfiniteCNN),
    *(Training, al.Supervised, al.FixMatch, al.MeanTeacher, al.PiModel),
]


@pytest.mark.parametrize("cls", EVERY)
def test_every_number_among_our_options_has_limits(cls: type) -> None:
    """A plain int or float, as a subclass may write it by mistake, would not be checked."""
    assert annotations_of(cls) or not dataclasses.fields(cls)
    for option, annotation in annotations_of(cls).items():
        if option not in ("stride", "backbone", "weights", "cache", "final"):  # a number or several, names, paths
            parts = (annotation,) if get_origin(annotation) is Annotated else (annotation, *get_args(annotation))
            assert not {int, float, str} & set(parts), option
