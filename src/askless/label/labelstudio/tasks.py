"""Items -> Label Studio's tasks, and its annotations -> answers. Nothing here knows a server or a run.

A task of ours has, beside the image or the text, the fields of `FIELDS` in its data: by them its answers are known again,
whatever numbers the server gives, and nothing is pushed twice. They stand in its `meta` too, which is listed without them.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple
from xml.etree import ElementTree

from askless.base.errors import InputError

RUN, ITEM, ROUND, RANK = FIELDS = ("askless_run", "askless_item", "askless_round", "askless_rank")
JSON = "Label Studio's JSON export (not JSON-MIN or CSV)"


class Guess(NamedTuple):
    """What the model says of an item."""

    label: str
    prob: float


class Asked(NamedTuple):
    """An item that is to be labelled; `rank` is its place in the batch, from 1."""

    item: int
    path: str
    round: int
    rank: int
    guess: Guess | None = None


@dataclass(frozen=True)
class Control:
    """The part of a labelling configuration that askless uses: one `Choices` about an `Image` or a `Text`, the `tag`."""

    name: str = "label"
    to_name: str = "image"
    key: str = "image"  # of the task's data
    choices: tuple[str, ...] = ()
    single: bool = True
    tag: str = "Image"


IMAGE = Control()
TEXT = Control(to_name="text", key="text", tag="Text")


# --- the labelling configuration ---------------------------------------------------------------------------------------


def config_xml(classes: Sequence[str], control: Control = IMAGE) -> str:
    """The configuration of a project for these classes: one of them for each image or text.

    >>> print(config_xml(["cat", "dog & <owl>"]))
    <View>
      <Image name="image" value="$image" />
      <Choices name="label" toName="image" choice="single" required="true" showInline="true">
        <Choice value="cat" />
        <Choice value="dog &amp; &lt;owl&gt;" />
      </Choices>
    </View>
    """
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, control.tag, name=control.to_name, value=f"${control.key}")
    options = {"name": control.name, "toName": control.to_name, "choice": "single"}
    choices = ElementTree.SubElement(view, "Choices", {**options, "required": "true", "showInline": "true"})
    for name in classes:
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode")


def read_config(xml: str, tag: str = "Image") -> Control:
    """The first `Choices` of a configuration that is about an `Image`, or another `tag`."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise InputError(f"the project's labelling configuration: expected XML, got something else ({error})") from None
    shown = {each.get("name"): each.get("value", "") for each in root.iter(tag)}
    for each in root.iter("Choices"):
        value = shown.get(each.get("toName"), "")
        if value.startswith("$"):
            return Control(
                name=each.get("name", ""),
                to_name=each.get("toName", ""),
                key=value.removeprefix("$"),
                choices=tuple(c.get("alias") or c.get("value") or "" for c in each.iter("Choice")),
                single=each.get("choice", "single").startswith("single"),
                tag=tag,
            )
    raise InputError(
        f"the project's labelling configuration: expected <{tag}> and <Choices> about it, found none; "
        "run `askless export RUN --to labelstudio`, which writes one, or push to a new project"
    )


def with_choices(xml: str, classes: Sequence[str], tag: str = "Image") -> str:
    """The configuration with those of the classes that it lacks, after the choices that it has."""
    control = read_config(xml, tag)
    root = ElementTree.fromstring(xml)
    choices = next(each for each in root.iter("Choices") if each.get("name") == control.name)
    for name in classes:
        if name not in control.choices:
            ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


# --- items -> tasks ----------------------------------------------------------------------------------------------------


def task(run: str, asked: Asked, shown: str, model: str, control: Control) -> dict[str, Any]:
    """A task as Label Studio imports it; `model` names the version of the model whose guess goes with it."""
    known = dict(zip(FIELDS, (run, asked.path, asked.round, asked.rank), strict=True))
    made = {"data": {control.key: shown, **known}, "meta": known}
    if asked.guess is None:
        return made
    score = round(asked.guess.prob, 6)
    prediction = {"model_version": model, "score": score, "result": guessed(asked.guess, control)}
    return {**made, "predictions": [prediction]}


def guessed(guess: Guess | None, control: Control) -> list[dict[str, Any]]:
    """The result of a prediction that says this; the empty one says nothing."""
    if guess is None:
        return []
    result = {"from_name": control.name, "to_name": control.to_name, "type": "choices"}
    return [{**result, "value": {"choices": [guess.label]}}]


def fields_of(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a task says of its item; None for a task that is not ours."""
    known = {name: part[name] for part in (one.get("meta"), one.get("data")) if isinstance(part, dict)
             for name in FIELDS if name in part}  # fmt: skip
    return known if isinstance(known.get(ITEM), str) else None


def chunks(tasks: Sequence[dict[str, Any]], most_bytes: int, most: int = 500) -> Iterator[list[dict[str, Any]]]:
    """The tasks in their order, in parts of at most this many bytes, as they are sent."""
    part: list[dict[str, Any]] = []
    size = 0
    for each in tasks:
        more = len(json.dumps(each)) + 2
        if part and (size + more > most_bytes or len(part) == most):
            yield part
            part, size = [], 0
        part.append(each)
        size += more
    if part:
        yield part


# --- annotations -> answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Annotation:
    """What one person said of one item: `choices` has one class, or `cancelled` is true.

    `uid` is permanent, and `version` changes when it does. `prefilled`: it began from the model's guess.
    """

    path: str
    run: str
    uid: str
    version: str
    who: str
    choices: tuple[str, ...] = ()
    cancelled: bool = False
    at: str = ""
    seconds: float | None = None
    prefilled: bool = False

    @property
    def request_id(self) -> str:
        """By which the run's log knows it again."""
        return f"{self.request_prefix}{self.version}"

    @property
    def request_prefix(self) -> str:
        return f"labelstudio-{self.uid}-"


def annotations_in(
    tasks: object, control: Control | None = None, names: Mapping[int, str] | None = None
) -> tuple[list[Annotation], int]:
    """The annotations of tasks as the server or an export gives them, oldest first; and how many tasks are not ours.

    `control` says which choices count, where a configuration has several. `names` are those of the users by number.
    """
    if not isinstance(tasks, list) or not all(isinstance(each, dict) for each in tasks):
        raise InputError(f"expected {JSON}, a list of tasks, got something else")
    found, foreign = [], 0
    for each in tasks:
        known = fields_of(each)
        if not isinstance(each.get("annotations"), list):
            raise InputError(f"expected {JSON}, got a task without a list of annotations")
        if known is None:
            foreign += 1
            continue
        for one in each["annotations"]:
            found.append(annotation(one, known[ITEM], str(known.get(RUN, "")), control, names or {}))
    return sorted(found, key=lambda a: (a.at, a.uid)), foreign


def annotation(
    one: Mapping[str, Any], path: str, run: str, control: Control | None, names: Mapping[int, str]
) -> Annotation:
    at = in_utc(one.get("created_at"))
    updated = in_utc(one.get("updated_at")) or at
    seconds = one.get("lead_time")
    is_number = isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0
    return Annotation(
        path=path,
        run=run,
        uid=f"{one.get('id')}@{at}",  # the server's own unique_id is in exports only
        version=updated,
        who=person(one.get("completed_by"), names),
        choices=tuple(choices_in(one.get("result"), control)),
        cancelled=bool(one.get("was_cancelled")),
        at=updated,
        seconds=float(seconds) if is_number else None,  # type: ignore[arg-type]
        prefilled=one.get("parent_prediction") is not None,
    )


def choices_in(result: object, control: Control | None) -> list[str]:
    """The classes that a result names, of the right control."""
    named: list[str] = []
    for region in result if isinstance(result, list) else []:
        if region.get("type") == "choices" and (control is None or region.get("from_name") == control.name):
            named += [str(name) for name in region.get("value", {}).get("choices", [])]
    return named


def person(by: object, names: Mapping[int, str]) -> str:
    """Who did it: an export has the number of the user, or a little table."""
    if isinstance(by, Mapping):
        return str(by.get("email") or by.get("username") or person(by.get("id"), names))
    if isinstance(by, int):
        return names.get(by) or f"labelstudio user {by}"
    return "labelstudio"


def in_utc(text: object) -> str:
    """A time as the run writes it, UTC to the millisecond; "" for none.

    >>> in_utc("2026-11-16T17:28:11.123456+02:00")
    '2026-11-16T15:28:11.123Z'
    """
    try:
        at = datetime.fromisoformat(str(text).replace("Z", "+00:00"))  # Python 3.10 does not read the Z
    except ValueError:
        return ""
    at = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
