"""Bodies: what clients send, with examples; the service checks what only it can know.

Nothing is converted on the way in: `"10"` is no number and `true` is no document.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictInt, StrictStr, TypeAdapter

from multileave.live.experiment import Definition
from multileave.live.records import Event, ShowRequest

__all__ = [
    "EVENT",
    "ChangesBody",
    "Document",
    "EventBody",
    "EventsBody",
    "ExperimentBody",
    "KeyBody",
    "ShowBody",
    "UnitBody",
    "events_list",
]

LEAST, MOST = -(2**63), 2**63 - 1  # integers that databases and other languages hold
NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"

Text = Annotated[StrictStr, Field(min_length=1, max_length=10_000)]
Document = Annotated[StrictStr | Annotated[StrictInt, Field(ge=LEAST, le=MOST)], Field(description="a document's id")]
Position = Annotated[int, Field(ge=0, le=100_000)]


class Body(BaseModel):
    """What every body has in common."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


DEFINITION: dict[str, Any] = {
    "name": "new ranker for the shop",
    "rankers": ["bm25", "dense", "ltr"],
    "control": "bm25",
    "method": "recommended",
    "k": 10,
    "actions": ["click", "purchase"],
    "confidence": 0.95,
    "share": 0.1,
}


def _leave_out_defaults(schema: dict[str, Any]) -> None:
    """What is not sent is not changed, so a change has no defaults that a client could send by itself."""
    for described in schema["properties"].values():
        described.pop("default", None)
    schema["examples"] = [{"share": 0.5}]


Name = Annotated[str, Field(min_length=1, max_length=100, description="for people")]
Rankers = Annotated[list[str], Field(min_length=2, max_length=100, description="names of the rankers")]
Control = Annotated[str, Field(description="the ranker whose list is shown outside the experiment")]


class SettingsBody(Body):
    """Settings of an experiment that have defaults."""

    method: Annotated[str, Field(max_length=200, description="with parameters, as in pm(tau=3.0)")] = "recommended"
    k: Annotated[int, Field(ge=1, le=1000, description="results on a page")] = 10
    pages: Annotated[int, Field(ge=1, le=1000, description="pages that are drawn at once")] = 1
    actions: Annotated[
        list[str], Field(min_length=1, max_length=16, description="what counts; the first is the main one")
    ] = ["click"]
    unit: Annotated[str, Field(description="what a unit is, in a word")] = "user"
    confidence: Annotated[float, Field(gt=0, lt=1, description="of the verdict")] = 0.95
    window: Annotated[
        float, Field(ge=1, description="seconds in which rankings repeat an impression and events count")
    ] = 86_400.0
    group: Annotated[str | None, Field(description="no unit is in two running experiments of a group")] = None
    share: Annotated[float, Field(ge=0, le=1, description="of the units that take part")] = 1.0
    hash_units: Annotated[bool, Field(description="store units as HMAC only")] = True
    keep_queries: Annotated[bool, Field(description="store the text of queries")] = False
    retention_days: Annotated[float | None, Field(ge=0, description="after which impressions are deleted")] = None

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were sent."""
        return self.model_dump(exclude_unset=True)


class ExperimentBody(SettingsBody):
    """An experiment: a name, rankers and a control, and what differs from the defaults."""

    model_config = ConfigDict(json_schema_extra={"examples": [DEFINITION]})

    name: Name
    rankers: Rankers
    control: Control

    @property
    def definition(self) -> Definition:
        """The definition, checked."""
        return Definition.from_dict(self.given)


class ChangesBody(SettingsBody):
    """Settings of an experiment that are to change."""

    model_config = ConfigDict(json_schema_extra=_leave_out_defaults)

    name: Name = ""
    rankers: Rankers = []
    control: Control = ""


class ShowBody(Body):
    """Rankings of one search, to be shown as one list."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "rankings": {"bm25": ["d1", "d2", "d3"], "dense": ["d3", "d1", "d4"], "ltr": None},
                    "unit": "user-17",
                    "query": "red shoes",
                }
            ]
        }
    )

    rankings: Annotated[
        dict[str, list[Document] | None],
        Field(description="each ranker's list, best first; a ranker that failed is absent or null"),
    ]
    unit: Annotated[str, Field(min_length=1, description="who searches: a user, a session")]
    query: Annotated[str, Field(description="what was searched for")] = ""
    salt: Annotated[str, Field(description="another salt, another draw")] = ""
    page: Annotated[int, Field(ge=1, le=1000, description="from 1")] = 1
    pinned: Annotated[
        dict[int, Document] | None,
        Field(
            description="documents that keep their position, counted from 0",
            json_schema_extra={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,3})$"}},
        ),
    ] = None

    @property
    def request(self) -> ShowRequest:
        """What the service is asked for."""
        rankings = {ranker: documents for ranker, documents in self.rankings.items() if documents is not None}
        return ShowRequest(rankings, self.unit, self.query, self.salt, self.page, self.pinned)


EVENT: dict[str, Any] = {"id": "e-1", "impression": "MTc...", "document": "d3", "action": "click"}


class EventBody(Body):
    """What a user did with a document that was shown; document or position says which."""

    model_config = ConfigDict(json_schema_extra={"examples": [EVENT]})

    id: Annotated[str, Field(min_length=1, max_length=128, description="yours; sent again, it is counted once")]
    impression: Annotated[str, Field(min_length=1, max_length=1000, description="the id that came with the list")]
    document: Document | None = None
    position: Annotated[Position | None, Field(description="from 0, over all pages")] = None
    action: Annotated[str, Field(max_length=100, pattern=NO_CONTROLS, description="what the user did")] = "click"
    timestamp: Annotated[AwareDatetime | None, Field(description="when; now if it is left out")] = None
    dwell: Annotated[float | None, Field(ge=0, description="seconds on the document")] = None

    @property
    def event(self) -> Event:
        """What the service is told."""
        return Event(self.id, self.impression, self.document, self.position, self.action, self.timestamp, self.dwell)


class EventsBody(Body):
    """A batch of events."""

    events: list[EventBody]


events_list: TypeAdapter[list[EventBody]] = TypeAdapter(list[EventBody])


class KeyBody(Body):
    """A key to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "search backend", "role": "ingest"}]})

    name: Annotated[str, Field(min_length=1, max_length=100, description="who or what uses it")]
    role: Annotated[Literal["ingest", "read", "admin"], Field(description="what it may do")]


class UnitBody(Body):
    """A unit whose data are to be deleted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"unit": "user-17"}]})

    unit: Text
