"""Frozen option objects that name what is wrong with an option."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from typing_extensions import dataclass_transform  # typing has it from Python 3.11 on

from askless.base.errors import InputError, OptionError

T = TypeVar("T")
LATER = {"later": True}  # metadata of an option that came later: at its default all is as it was before there was one


@dataclass_transform(frozen_default=True, kw_only_default=True)
def options(cls: type[T]) -> type[T]:
    """A frozen keyword-only dataclass whose unknown options are an error that lists the known ones."""
    cls = dataclass(frozen=True, kw_only=True)(cls)
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    plain_init = cls.__init__

    @functools.wraps(plain_init)
    def init(self: T, *args: Any, **given: Any) -> None:
        unknown = [name for name in given if name not in known]
        if args or unknown:
            got = f"got {', '.join(unknown)}" if unknown else "got an option without its name"
            raise OptionError(f"{cls.__name__}: {got}; its options are {', '.join(known) or 'none'}")
        plain_init(self, **given)

    cls.__init__ = init  # type: ignore[method-assign, assignment]
    return cls


def check_choice(owner: str, option: str, got: object, known: tuple[object, ...]) -> None:
    if got not in known:
        raise OptionError(f"{owner}: {option} must be one of {', '.join(map(str, known))}, got {got!r}")


def check_count(owner: str, option: str, got: object, least: int = 1) -> None:
    if isinstance(got, bool) or not isinstance(got, int | np.integer) or got < least:
        raise InputError(f"{owner}: {option} must be a whole number >= {least}, got {got!r}")


def check_flag(owner: str, option: str, got: object) -> None:
    if not isinstance(got, bool | np.bool_):
        raise InputError(f"{owner}: {option} must be True or False, got {got!r}")


def check_number(owner: str, option: str, got: object, least: float = 0.0, most: float = float("inf")) -> None:
    if isinstance(got, bool) or not isinstance(got, int | float | np.number) or not least <= got <= most:
        limit = f"from {least} to {most}" if most < float("inf") else f">= {least}"
        raise InputError(f"{owner}: {option} must be a number {limit}, got {got!r}")
