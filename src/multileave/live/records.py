"""What goes in and out of the service, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

__all__ = [
    "Document",
    "DocumentDetail",
    "Event",
    "EventDetail",
    "ImpressionDetail",
    "Key",
    "Look",
    "Receipt",
    "RecentImpression",
    "Role",
    "ShowRequest",
    "Shown",
    "Traffic",
]

Document = str | int
Role = Literal["ingest", "read", "admin"]


@dataclass(frozen=True)
class ShowRequest:
    """What an application asks for when a user searches.

    rankings: each ranker's documents, best first; a ranker that failed is left out, or None.
    unit: who searches. query, salt: what else the draw is seeded with.
    page: from 1. pinned: documents at positions from 0, over all pages.
    """

    rankings: Mapping[str, Sequence[Document] | None]
    unit: str
    query: str = ""
    salt: str = ""
    page: int = 1
    pinned: Mapping[int, Document] | None = None


@dataclass(frozen=True)
class Shown:
    """A page of results to show. impression: what clicks refer to; None where nothing is recorded."""

    impression: str | None
    shown: tuple[Document, ...]
    page: int
    recorded: bool


@dataclass(frozen=True)
class Event:
    """What a user did with a shown document, named by its id or its position from 0 over all pages."""

    id: str
    impression: str
    document: Document | None = None
    position: int | None = None
    action: str = "click"
    timestamp: datetime | None = None
    dwell: float | None = None


@dataclass(frozen=True)
class Receipt:
    """What became of an event; one that had been accepted before is accepted again, as a duplicate."""

    id: str
    accepted: bool
    duplicate: bool = False
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Key:
    """A key of the API, without its text."""

    number: int
    name: str
    role: Role
    created: datetime
    revoked: datetime | None = None


@dataclass(frozen=True)
class Traffic:
    """How much an experiment has seen. events: by action. fallbacks: impressions that lacked a ranker."""

    impressions: int
    units: int
    events: dict[str, int]
    without_clicks: int
    fallbacks: int


@dataclass(frozen=True)
class Look:
    """What was known at a time. pairs: first, second, preference, low, high."""

    at: datetime
    impressions: int
    units: int
    pairs: tuple[tuple[str, str, float, float, float], ...]


@dataclass(frozen=True)
class RecentImpression:
    """An impression in a list of them. unit: the beginning of what is stored of it."""

    key: str
    at: datetime
    unit: str
    query: str | None
    shown: int
    clicks: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class DocumentDetail:
    """A drawn document. ranks: in each ranker, None where it was not returned. actions: what users did with it."""

    position: int
    document: Document
    pinned: bool
    hidden: bool
    ranks: dict[str, int | None]
    note: int | None
    actions: tuple[str, ...]


@dataclass(frozen=True)
class EventDetail:
    """An event of an impression."""

    at: datetime
    action: str
    position: int
    dwell: float | None


@dataclass(frozen=True)
class ImpressionDetail:
    """An impression in full. preferences: (R, R) for the first action, None where nothing can be inferred."""

    key: str
    at: datetime
    unit: str
    query: str | None
    method: str
    rankers: tuple[str, ...]
    missing: tuple[str, ...]
    documents: tuple[DocumentDetail, ...]
    preferences: tuple[tuple[float, ...], ...] | None
    events: tuple[EventDetail, ...]
