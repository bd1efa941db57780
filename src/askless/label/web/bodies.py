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
