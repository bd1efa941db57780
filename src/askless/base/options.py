"""Frozen option objects that name what is wrong with an option.

What an option may be stands in its annotation, and is checked when the object is made: `Literal["gap", "flatten"]` has its
choices, `bool` is a flag, `Count` and the other numbers below have their limits, and `X | None` may be None.
"""

import dataclasses
import difflib
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from typing_extensions import dataclass_transform  # typing has it from Python 3.11 on

from askless.base.errors import InputError, OptionError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
LATER = {"later": True}  # metadata of an option that came later: at its default all is as it was before there was one
# With "before", it is so at that value: LATER | {"before": 0}.


class Between(NamedTuple):
    """The least and the most that an `Annotated[int, ...]` or `Annotated[float, ...]` may be."""

    least: float = 0
    most: float = float("inf")


Count = Annotated[int, Between(1)]
CountOrZero = Annotated[int, Between(0)]
Several = Annotated[int, Between(2)]
NotNegative = Annotated[float, Between(0)]
Share = Annotated[float, Between(0, 1)]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def options(cls: type[T]) -> type[T]:
    """A frozen keyword-only dataclass whose options are checked by their annotations; unknown ones are an error that lists
    the known. What several options must keep together is checked in `__post_init__`, after each by itself.

    >>> @options
    ... class Nearest:
    ...     neighbours: Count = 5
    >>> Nearest(neighbours=3)
    Nearest(neighbours=3)
    >>> Nearest(neighbours=0)
    Traceback (most recent call last):
        ...
    askless.base.errors.InputError: Nearest: neighbours must be a whole number >= 1, got 0
    """
    cls = dataclass(frozen=True, kw_only=True)(cls)
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    plain_init = cls.__init__

    @functools.wraps(plain_init)
    def init(self: T, *args: Any, **given: Any) -> None:
        unknown = [name for name in given if name not in known]
        if args or unknown:
            got = f"got {', '.join(unknown)}" if unknown else "got an option without a name"
            raise OptionError(f"{cls.__name__}: {got}; its options are {', '.join(known) or 'none'}")
        check_annotated(type(self).__name__, cls, given)
        plain_init(self, **given)

    cls.__init__ = init  # type: ignore[method-assign, assignment]
    cls.__repr__ = lambda self: written(self, short=True)  # type: ignore[method-assign]
    return cls


def written(value: Any, short: bool = False) -> str:
    """Options as they would be typed, `short` without those at their defaults; anything else as it prints."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    given = {f: getattr(value, f.name) for f in dataclasses.fields(value) if f.repr}
    told = [f"{f.name}={written(v, short)}" for f, v in given.items() if not (short and is_default(f, v))]
    return f"{type(value).__qualname__}({', '.join(told)})"


def is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return value is made or (type(value) is type(made) and bool(np.all(value == made)))


def explained(example: str, more: str = "") -> Callable[[F], F]:
    """A function whose callers read what it takes where Python would only count arguments; `more` may say where else a
    name that it does not know belongs."""

    def around(function: F) -> F:
        takes = inspect.signature(function)
        own = [p for p in takes.parameters.values() if p.name not in ("self", "cls")]
        is_method = len(own) < len(takes.parameters)
        bare = [p.name for p in own if p.kind is not p.KEYWORD_ONLY]

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            try:
                takes.bind(*args, **given)
            except TypeError:
                what = function.__qualname__.removesuffix(".__init__")
                raise OptionError(f"{what}: {wrong(args[is_method:], given)}") from None
            return function(*args, **given)

        def wrong(args: tuple[Any, ...], given: dict[str, Any]) -> str:
            known = [p.name for p in own]
            unknown = [name for name in given if name not in known]
            if unknown:
                near = difflib.get_close_matches(unknown[0], known, 1)
                meant = f"; did you mean {near[0]!r}?" if near else ";"
                return f"unknown argument {', '.join(unknown)}{meant} it takes {', '.join(known)}{more}"
            if len(args) > len(bare):
                return f"expected {' and '.join(bare)} without a name, got {len(args)} arguments; write {example}"
            twice = [name for name in bare[: len(args)] if name in given]
            if twice:
                return f"got {', '.join(twice)} twice, with and without the name; write {example}"
            missing = [p.name for p in own if p.default is p.empty and p.name not in (*bare[: len(args)], *given)]
            return f"expected {' and '.join(missing)} as well, got none; write {example}"

        return call  # type: ignore[return-value]

    return around


def check_annotated(owner: str, annotated: Callable[..., object], given: Mapping[str, Any]) -> None:
    """An error for the first of the given values that is not what the annotation of this class or function says. The first
    line of a function may be `check_annotated("me", me, locals())`."""
    annotations = annotations_of(annotated)
    for option, got in given.items():
        check_value(owner, option, got, annotations.get(option, Any))


@functools.cache
def annotations_of(annotated: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(annotated, include_extras=True)
    except NameError:  # of a user's own class, with names that only type checkers see
        return {}


def check_value(owner: str, option: str, got: object, annotation: Any) -> None:
    """What is neither a choice, a flag nor a number with limits, such as a path or another object, is not looked at."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    if got is None and type(None) in parts:
        return
    parts = tuple(part for part in parts if part is not type(None))
    if not parts:  # an option that is only kept: what it may be, its owner says
        return
    if parts == (bool,):
        check_flag(owner, option, got)
    elif all(part is bool or get_origin(part) is Literal for part in parts):
        known = [choice for part in parts for choice in ((True, False) if part is bool else get_args(part))]
        check_choice(owner, option, got, tuple(known))
    elif len(parts) == 1 and get_origin(parts[0]) is Annotated:
        number, *notes = get_args(parts[0])
        for limits in (note for note in notes if isinstance(note, Between)):
            if number is int:
                check_count(owner, option, got, int(limits.least))
            else:
                check_number(owner, option, got, *limits)


def check_choice(owner: str, option: str, got: object, known: tuple[object, ...]) -> None:
    if got not in known:
        raise OptionError(f"{owner}: {option} must be one of {', '.join(map(str, known))}, got {got!r}")


def is_whole_number(got: Any, least: float = -float("inf"), most: float = float("inf")) -> bool:
    """Whether this is a whole number, of Python or numpy and not a truth value, within the limits."""
    return not isinstance(got, bool) and isinstance(got, int | np.integer) and bool(least <= got <= most)


def check_count(owner: str, option: str, got: object, least: int = 1) -> None:
    if not is_whole_number(got, least):
        raise InputError(f"{owner}: {option} must be a whole number >= {least}, got {got!r}")


def check_flag(owner: str, option: str, got: object) -> None:
    if not isinstance(got, bool | np.bool_):
        raise InputError(f"{owner}: {option} must be True or False, got {got!r}")


def check_number(owner: str, option: str, got: object, least: float = 0, most: float = float("inf")) -> None:
    if isinstance(got, bool) or not isinstance(got, int | float | np.number) or not least <= got <= most:
        limit = f"from {least} to {most}" if most < float("inf") else f">= {least}"
        raise InputError(f"{owner}: {option} must be a number {limit}, got {got!r}")
