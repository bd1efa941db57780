"""What the page sends, checked."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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


class AnswerBody(RequestAtTab):
    items: Annotated[list[ItemId], Field(min_length=1, max_length=2000)]
    class_: Annotated[ClassId | None, Field(alias="class")] = None
    unsure: Literal["ambiguous", "quality", "other"] | None = None
    seconds: Annotated[float | None, Field(ge=0, le=86_400, strict=False)] = None
    bulk: bool = False
    change: bool = False
    note: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def one_answer(self) -> "AnswerBody":
        if (self.class_ is None) == (self.unsure is None):
            raise ValueError("expected either class or unsure")
        if len(set(self.items)) < len(self.items):
            raise ValueError("expected each item once")
        return self


class ItemBody(RequestAtTab):
    item: ItemId


class PeekBody(AtTab):
    item: ItemId


class GridBody(AtTab):
    n: Annotated[int, Field(ge=1, le=200)] = 24


class NameBody(Request):
    name: Annotated[str, Field(max_length=1000)]


class MergeBody(Request):
    into: ClassId


class BudgetBody(Request):
    budget: Annotated[int, Field(ge=1, le=10**9)]


class SettingsBody(Request):
    suggestions: Literal["off", "peek", "prefill"]


class AnnotatorBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=60)]
