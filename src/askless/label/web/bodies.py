"""What the page sends, checked."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from askless.run.store.looks import COLOURS

RequestId = Annotated[str, Field(min_length=8, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]
Tab = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.:-]+$")]
ItemId = Annotated[int, Field(ge=0, le=2**53)]
ClassId = Annotated[int, Field(ge=0, le=10_000)]


class Body(BaseModel):
    """Unknown fields are refused, and nothing is turned from one type into another."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AtTab(Body):
    tab: Tab


class NextBody(AtTab):
    ahead: bool = True  # whether to show what is chosen ahead, where nothing else is to be had


class Request(Body):
    request_id: RequestId


class RequestAtTab(Request):
    tab: Tab


class OneAnswer(RequestAtTab):
    items: Annotated[list[ItemId], Field(min_length=1, max_length=2000)]
    class_: Annotated[ClassId | None, Field(alias="class")] = None
    unsure: Literal["ambiguous", "quality", "other"] | None = None
    seconds: Annotated[float | None, Field(ge=0, le=86_400, strict=False)] = None
    note: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def one_answer(self) -> "OneAnswer":
        if (self.class_ is None) == (self.unsure is None):
            raise ValueError("expected either class or unsure")
        if len(set(self.items)) < len(self.items):
            raise ValueError("expected each item once")
        return self


class AnswerBody(OneAnswer):
    bulk: bool = False
    change: bool = False


class LabelBody(OneAnswer):
    seen: bool = False


class ItemBody(RequestAtTab):
    item: ItemId


class DecideBody(ItemBody):
    class_: Annotated[ClassId | None, Field(alias="class")] = None
    unsure: Literal["ambiguous", "quality", "other"] | None = None

    @model_validator(mode="after")
    def one_answer(self) -> "DecideBody":
        if (self.class_ is None) == (self.unsure is None):
            raise ValueError("expected either class or unsure")
        return self


class PeekBody(AtTab):
    item: ItemId


class GridBody(AtTab):
    n: Annotated[int, Field(ge=1, le=200)] = 24


class NameBody(Request):
    name: Annotated[str, Field(max_length=1000)]


class LookBody(Request):
    """None: as it is; the key "": that of the class's place."""

    colour: Annotated[int | None, Field(ge=0, lt=COLOURS)] = None
    key: Annotated[str | None, Field(max_length=1)] = None


class MergeBody(Request):
    into: ClassId


class BudgetBody(Request):
    budget: Annotated[int, Field(ge=1, le=10**9)]


class SettingsBody(Request):
    suggestions: Literal["off", "peek", "prefill"]


class AnnotatorBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=60)]


class RightBody(Body):
    item: ItemId
    class_: Annotated[ClassId, Field(alias="class")]


class SortBody(RequestAtTab):
    """A chunk: what is accepted for its class, what was put right, and what was clicked out. Without a class, what is left
    over, of which labels are only ever a person's own."""

    class_: Annotated[ClassId | None, Field(alias="class")] = None
    accepted: Annotated[list[ItemId], Field(max_length=500)] = []
    right: Annotated[list[RightBody], Field(max_length=500)] = []
    out: Annotated[list[ItemId], Field(max_length=500)] = []

    @model_validator(mode="after")
    def each_item_once(self) -> "SortBody":
        items = [*self.accepted, *(one.item for one in self.right), *self.out]
        if len(set(items)) < len(items) or not items:
            raise ValueError("expected each item once, and at least one")
        if self.class_ is None and (self.accepted or self.out):
            raise ValueError("expected a class to accept items for, or to take them out of")
        return self


class ClaimsBody(RequestAtTab):
    name: Annotated[str, Field(min_length=1, max_length=1000)]
    share: Annotated[float, Field(gt=0, lt=1)]


class FoldersBody(Request):
    """`rest`: what becomes of the items without a label: left out, a folder of their own, or by the model's best guess."""

    rest: Literal["leave", "unsorted", "guess"] = "leave"
    out: Annotated[str, Field(max_length=1000)] = ""
    overwrite: bool = False


class ExportBody(Request):
    to: Literal["csv", "jsonl", "npz", "coco"] = "csv"
    accepted: bool = True
    out: Annotated[str, Field(max_length=1000)] = ""
    overwrite: bool = False
