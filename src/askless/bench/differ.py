"""Which settings differ between two rows: settings are texts, as `plan.text_of` writes them."""

import re
from collections.abc import Mapping

LONGEST = 30  # characters of a value


def differences(was: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """What changed, as "name: old → new"; of options such as `Auto(seed=0, folds=10)` only those that differ.

    >>> differences({"learner": "Auto(steps=5, lr=0.1)", "seed": "0"}, {"learner": "Auto(steps=9, lr=0.1)", "seed": "0"})
    ['learner.steps: 5 → 9']
    """
    names = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    return [text for name in names for text in _changed(name, was.get(name), now.get(name))]


def _changed(name: str, was: str | None, now: str | None) -> list[str]:
    (kind, before), (other, after) = _parts(was), _parts(now)
    if kind and kind == other:
        keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
        return [text for key in keys for text in _changed(f"{name}{key}", before.get(key), after.get(key))]
    unset = "1" if name.endswith(".revision") else "not set"  # the first revision is not written
    return [f"{name}: {_short(was or unset)} → {_short(now or unset)}"]


def _parts(text: str | None) -> tuple[str, dict[str, str]]:
    """Of `Name(option=value, ...)` the name and its options, of a list of such its items by place; of others nothing."""
    if listed := re.fullmatch(r"\[(.*\(.*)\]", text or "", flags=re.DOTALL):
        items = _split(listed[1])
        return f"list of {len(items)}", {f"[{i}]": item for i, item in enumerate(items)}
    found = re.fullmatch(r"([\w.]+)\((.*)\)", text or "", flags=re.DOTALL)
    parts = [part.partition("=") for part in _split(found[2])] if found else []
    if found is None or not all(sign and name.isidentifier() for name, sign, _ in parts):
        return "", {}
    return found[1], {f".{name}": value for name, _, value in parts}


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket and no quotes."""
    parts, depth, quote = [""], 0, ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        depth += (c in "([{") - (c in ")]}") if not quote else 0
        if c == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _short(text: str) -> str:
    """The value; of long options the name alone, of another long value both ends."""
    if len(text) <= LONGEST:
        return text
    return f"{text.partition('(')[0]}(…)" if _parts(text)[1] else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
