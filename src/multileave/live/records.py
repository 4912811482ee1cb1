"""Records: what goes in and out of the service.

Each is defined once. Request bodies are validated into these classes, the service works with them, and responses and
OpenAPI follow from them. A response to POST impressions or events may reach a searcher's browser: it names no ranker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema

from multileave.live.access.actor import ActorKind
from multileave.live.definition import DAY, MOST_RANKERS, MOST_SHOWN, Name
from multileave.log.reader import LARGEST_VALUE

LEAST, MOST = -(2**63), 2**63 - 1  # integers that databases and other languages can hold
LONGEST_SEGMENT = 64
NO_CONTROLS = r"^[^\x00-\x1f\x7f]+$"
Document = Annotated[StrictStr | Annotated[StrictInt, Field(ge=LEAST, le=MOST)], Field(description="A document id.")]
Role = Literal["ingest", "read", "admin"]
Scope = Annotated[
    tuple[Annotated[int, Field(ge=1, le=2**31 - 1)], ...],
    Field(min_length=1, max_length=1000, description="Numbers of the experiments that the key is limited to."),
]
AuditAction = Literal[
    "created", "edited", "started", "stopped", "dropped", "cloned", "deleted", "exported", "unit deleted",
    "key created", "key revoked", "secret rotated", "restored", "login", "logout", "login failed",
]  # fmt: skip
Finite = Annotated[float, WithJsonSchema({"type": ["number", "null"]}, mode="serialization")]  # null if infinite


def request_config(example: Any) -> ConfigDict:
    """Return how a request body is validated: nothing is converted, so "10" is not a number."""
    return ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [example]})


@dataclass(frozen=True)
class ShowRequest:
    """The rankings of one search, to be combined into one list."""

    __pydantic_config__ = request_config(
        {
            "rankings": {"bm25": ["d1", "d2", "d3"], "dense": ["d3", "d1", "d4"], "ltr": None},
            "unit": "user-17",
            "query": "red shoes",
        }
    )

    rankings: Annotated[
        Mapping[str, Annotated[list[Document], Field(fail_fast=True)] | None],
        Field(
            max_length=MOST_RANKERS,
            description="Each ranker's documents, best first; leave out a ranker that failed, or send null.",
        ),
    ]
    unit: Annotated[str, Field(min_length=1, description="Who searches: a user or session.")]
    query: Annotated[str, Field(description="The query.")] = ""
    salt: Annotated[str, Field(description="Another salt gives another draw.")] = ""
    page: Annotated[int, Field(ge=1, le=1000, description="The page to show, from 1.")] = 1
    pinned: Annotated[
        dict[int, Document] | None,
        Field(
            max_length=MOST_SHOWN,
            description="Documents with a fixed position, counted from 0 over all pages.",
            json_schema_extra={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,3})$"}},
        ),
    ] = None
    segment: Annotated[
        Annotated[str, Field(max_length=LONGEST_SEGMENT, pattern=NO_CONTROLS)] | None,
        Field(description="The segment of the traffic, such as a device; stored, and no part of the draw."),
    ] = None


@dataclass(frozen=True)
class Shown:
    """A page of results to show."""

    __pydantic_config__ = ConfigDict(
        json_schema_extra={
            "examples": [{"impression": "MTc...", "shown": ["d1", "d3", "d2"], "page": 1, "recorded": True}]
        }
    )

    impression: Annotated[
        str | None, Field(description="Send it with events; null if nothing is recorded. Show the list either way.")
    ]
    shown: Annotated[tuple[str | int, ...], Field(description="This page's documents, in order.")]
    page: int
    recorded: bool


EVENT = {"id": "e-1", "impression": "MTc...", "document": "d3", "action": "click"}


@dataclass(frozen=True)
class Event:
    """What a user did with a shown document, identified by its id or its position.

    An action on a document is counted once. Of several reports, the earliest time, the longest dwell and the largest
    value are kept.
    """

    __pydantic_config__ = request_config(EVENT)

    id: Annotated[str, Field(min_length=1, max_length=128, description="Your id of the event; its receipt has it.")]
    impression: Annotated[str, Field(min_length=1, max_length=1000, description="The id that came with the list.")]
    document: Document | None = None
    position: Annotated[
        Annotated[int, Field(ge=0, le=100_000)] | None, Field(description="Counted from 0 over all pages.")
    ] = None
    action: Annotated[str, Field(max_length=100, pattern=NO_CONTROLS, description="What the user did.")] = "click"
    timestamp: Annotated[
        AwareDatetime | None, Field(description="When it happened, within the impression's window; now if left out.")
    ] = None
    dwell: Annotated[
        Annotated[float, Field(ge=0, le=366 * DAY)] | None,
        Field(description="Seconds that the user spent on the document."),
    ] = None
    value: Annotated[
        Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)] | None,
        Field(description="What it is worth, such as the price of what was bought."),
    ] = None


@dataclass(frozen=True)
class Receipt:
    """Whether an event was accepted."""

    id: Annotated[str | None, Field(description="Id of the event; null if it could not be read.")]
    accepted: bool
    duplicate: Annotated[bool, Field(description="Whether the same action on the same document was known.")] = False
    code: Annotated[str | None, Field(description="Why it was rejected, for programs.")] = None
    reason: Annotated[str | None, Field(description="Why it was rejected, for people.")] = None


@dataclass(frozen=True)
class KeyRequest:
    """A key to be created."""

    __pydantic_config__ = request_config({"name": "search backend", "role": "ingest", "experiments": [3, 5]})

    name: Annotated[Name, Field(description="Who or what uses the key.")]
    role: Annotated[Role, Field(description="What the key may do.")]
    expires: Annotated[AwareDatetime | None, Field(description="When it ceases to be valid; null: never.")] = None
    experiments: Annotated[Scope | None, Field(description="Limit it to these experiments; null: no limit.")] = None


@dataclass(frozen=True)
class UnitRequest:
    """A unit whose data are to be deleted."""

    __pydantic_config__ = request_config({"unit": "user-17"})

    unit: Annotated[str, Field(min_length=1, max_length=10_000)]


@dataclass(frozen=True)
class Key:
    """An API key, without its secret text."""

    number: int
    name: str
    role: Role
    created: datetime
    revoked: datetime | None = None
    expires: datetime | None = None
    experiments: Annotated[tuple[int, ...] | None, Field(description="Limited to these; null: no limit.")] = None
    used: Annotated[datetime | None, Field(description="When it was last used, to a minute or so.")] = field(
        default=None, compare=False
    )


@dataclass(frozen=True)
class NewKey(Key):
    """A new API key with its secret text, which is shown only once."""

    key: Annotated[str, Field(description="Send it as Authorization: Bearer KEY.")] = field(kw_only=True)


@dataclass(frozen=True)
class AuditEntry:
    """Something that was done, and by whom."""

    number: int
    at: datetime
    actor: Annotated[
        ActorKind,
        Field(
            description="key: an API key; session: somebody logged in with a key; visitor: nobody known; open: "
            "anybody, the service requires no keys; command line; program: Python code that uses the service."
        ),
    ]
    key: Annotated[int | None, Field(description="Number of the key.")]
    name: Annotated[str | None, Field(description="Name of the key, or the operating system's user.")]
    action: AuditAction
    experiment: Annotated[int | None, Field(description="Number of the experiment.")]
    details: Annotated[dict[str, Any], Field(description="More about it; `changed` has the old and the new values.")]


@dataclass(frozen=True)
class Traffic:
    """How much an experiment has recorded."""

    impressions: int
    units: int
    events: Annotated[dict[str, int], Field(description="Events by action.")]
    without_clicks: int | None
    fallbacks: Annotated[int, Field(description="Impressions with a missing ranker.")]


@dataclass(frozen=True)
class LookPair:
    """The preference between two rankers at one time."""

    rankers: tuple[str, str]
    preference: Finite
    low: Finite
    high: Finite


@dataclass(frozen=True)
class Look:
    """The preferences at one time."""

    at: datetime
    impressions: int
    units: int
    pairs: tuple[LookPair, ...]


@dataclass(frozen=True)
class History:
    """The preferences over time, oldest first."""

    experiment: int
    action: str
    looks: tuple[Look, ...]


@dataclass(frozen=True)
class RecentImpression:
    """An impression in a list."""

    key: str
    at: datetime
    unit: Annotated[str, Field(description="The first characters of the stored unit.")]
    query: str | None
    shown: int
    clicks: int
    missing: Annotated[tuple[str, ...], Field(description="Rankers that returned nothing.")]
    arm: Annotated[str | None, Field(description="The ranker whose own page it is; null if it compares rankers.")]


@dataclass(frozen=True)
class DocumentDetail:
    """A document of an impression, with its rank in every ranking."""

    position: int
    document: str | int
    pinned: bool
    hidden: Annotated[bool, Field(description="Drawn but not shown; inference treats it as not clicked.")]
    ranks: Annotated[dict[str, int | None], Field(description="Null for rankers that did not return it.")]
    note: int | None
    actions: tuple[str, ...]


@dataclass(frozen=True)
class EventDetail:
    """An event of an impression."""

    at: datetime
    action: str
    position: int
    dwell: float | None
    value: float | None = None


@dataclass(frozen=True)
class ImpressionDetail:
    """An impression and what each ranker contributed to it."""

    key: str
    at: datetime
    unit: str
    query: str | None
    segment: str | None
    method: str
    rankers: tuple[str, ...]
    missing: tuple[str, ...]
    arm: Annotated[str | None, Field(description="The ranker whose own page it is; null if it compares rankers.")]
    documents: tuple[DocumentDetail, ...]
    preferences: Annotated[
        tuple[tuple[float, ...], ...] | None,
        Field(description="Of the primary action, row over column; null if nothing can be inferred."),
    ]
    events: tuple[EventDetail, ...]
