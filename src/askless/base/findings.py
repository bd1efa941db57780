"""What a check found, and what to do about it."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """`state`: ok, warn (works, but) or bad (does not); `do`: what to type or to change."""

    state: Literal["ok", "warn", "bad"]
    what: str
    found: str
    do: str = ""
