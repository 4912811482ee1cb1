"""Answers: what the service says, as OpenAPI describes it.

What is answered to impressions and events may reach a searcher's browser: it names no ranker.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from multileave.live.experiment import Experiment, Status
from multileave.live.records import ImpressionDetail, Key, Look, RecentImpression, Role, Traffic

__all__ = [
    "DeletedAnswer",
    "EventsAnswer",
    "ExperimentAnswer",
    "ExperimentsAnswer",
    "HealthAnswer",
    "HistoryAnswer",
    "ImpressionAnswer",
    "KeyAnswer",
    "KeysAnswer",
    "NewKeyAnswer",
    "RecentAnswer",
    "Refusal",
    "ShownAnswer",
    "StateAnswer",
    "VerdictAnswer",
]


class Answer(BaseModel):
    """What every answer has in common; values of the service are read by their attributes."""

    model_config = ConfigDict(from_attributes=True)


class Detail(Answer):
    """What is wrong with one part of a request."""

    where: Annotated[str, Field(description="the part, such as rankings.bm25.0")]
    reason: str


class Trouble(Answer):
    """Why a request was refused."""

    code: Annotated[str, Field(description="for programs", examples=["invalid"])]
    message: Annotated[str, Field(description="for people")]
    details: list[Detail] | None
    request_id: Annotated[str, Field(description="which the log line carries too")]


class Refusal(Answer):
    """The one shape of all refusals."""

    error: Trouble


class StateAnswer(Answer):
    """Whether the service is there."""

    status: Annotated[str, Field(examples=["ok"])]
    version: str


class ExperimentAnswer(Answer):
    """An experiment, its settings and its state."""

    number: int
    version: int
    parent: Annotated[int | None, Field(description="the experiment it was cloned from")]
    status: Status
    created: datetime
    started: datetime | None
    stopped: datetime | None
    name: str
    rankers: list[str]
    control: str
    method: str
    k: int
    pages: int
    actions: list[str]
    unit: str
    confidence: float
    window: float
    group: str | None
    share: float
    hash_units: bool
    keep_queries: bool
    retention_days: float | None

    @classmethod
    def of(cls, experiment: Experiment) -> "ExperimentAnswer":
        """Return what is said of an experiment."""
        return cls(
            number=experiment.number,
            version=experiment.version,
            parent=experiment.parent,
            status=experiment.status,
            created=experiment.created,
            started=experiment.started,
            stopped=experiment.stopped,
            **experiment.definition.to_dict(),
        )


class ExperimentsAnswer(Answer):
    """All experiments, newest first."""

    experiments: list[ExperimentAnswer]


class ShownAnswer(Answer):
    """What to show."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"impression": "MTc...", "shown": ["d1", "d3", "d2"], "page": 1, "recorded": True}]
        }
    )

    impression: Annotated[
        str | None,
        Field(description="to be sent with events; null where nothing is recorded: show the list all the same"),
    ]
    shown: Annotated[list[str | int], Field(description="this page's documents, in order")]
    page: int
    recorded: bool


class ReceiptAnswer(Answer):
    """What became of one event."""

    id: Annotated[str | None, Field(description="of the event; null where it has none that can be read")]
    accepted: bool
    duplicate: Annotated[bool, Field(description="accepted before; counted once")] = False
    code: Annotated[str | None, Field(description="why it was rejected, for programs")] = None
    reason: Annotated[str | None, Field(description="why it was rejected, for people")] = None


class EventsAnswer(Answer):
    """What became of a batch of events, in its order."""

    accepted: int
    duplicates: Annotated[int, Field(description="of the accepted, those that were there before")]
    rejected: int
    receipts: list[ReceiptAnswer]


class TrafficAnswer(Answer):
    """What was recorded."""

    impressions: int
    units: int
    events: Annotated[dict[str, int], Field(description="by action")]
    without_clicks: int | None
    fallbacks: Annotated[int, Field(description="impressions that lacked a ranker")]

    @classmethod
    def of(cls, traffic: Traffic) -> "TrafficAnswer":
        """Return what is said of the traffic."""
        return cls.model_validate(traffic)


class PairAnswer(Answer):
    """What is known about two rankers, read as the first against the second."""

    rankers: Annotated[list[str], Field(min_length=2, max_length=2)]
    preference: Annotated[float | None, Field(description="mean per impression; above 0: the first is preferred")]
    low: Annotated[float | None, Field(description="of its interval; null: unbounded yet")]
    high: float | None
    p: float | None
    p_corrected: float | None
    significant: bool
    share: Annotated[float | None, Field(description="of the units that prefer the first, ties half")]
    share_low: float | None
    share_high: float | None
    sign_p: float | None
    more_units: Annotated[int | None, Field(description="about how many more units a decision takes")]


class HealthFigures(Answer):
    """Whether the data can be trusted; shares are null where too little is known."""

    units: int
    effective_units: float | None
    top_share: float | None
    without_clicks: float | None
    no_preference: float | None
    fallbacks: float | None
    missing: dict[str, float] | None
    different_documents: float | None
    short_lists: Annotated[
        float | None, Field(description="share of impressions in which a ranker returned too few results")
    ]
    short: dict[str, float] | None
    needed: Annotated[int, Field(description="results to request from every ranker, where some returned fewer")]
    same_pages: Annotated[list[list[Any]], Field(description="rankers that return the same page, with the share")]
    first: dict[str, Any] | None
    exposure: dict[str, Any] | None
    warnings: list[str]


class VerdictFigures(Answer):
    """Preferences with confidence, the winner if there is one, and what is still open."""

    rankers: list[str]
    impressions: int
    units: int
    confidence: float
    interval: str
    anytime: Annotated[bool, Field(description="whether it may be looked at as often as one likes")]
    correction: str
    simultaneous: bool
    sentence: str
    winner: str | None
    condorcet: str | None
    leaders: list[str]
    copeland: dict[str, float]
    circles: list[list[str]]
    warnings: list[str]
    pairs: list[PairAnswer]
    health: HealthFigures | None


class VerdictAnswer(Answer):
    """Who is preferred, as far as is known."""

    experiment: int
    action: str
    verdict: Annotated[VerdictFigures | None, Field(description="null before there are two units")]
    traffic: TrafficAnswer


class HealthAnswer(Answer):
    """Whether the data can be trusted."""

    experiment: int
    health: Annotated[HealthFigures | None, Field(description="null before there are two units")]
    traffic: TrafficAnswer


class LookPair(Answer):
    """A pair at one time."""

    rankers: Annotated[list[str], Field(min_length=2, max_length=2)]
    preference: float | None
    low: float | None
    high: float | None


class LookAnswer(Answer):
    """What was known at one time."""

    at: datetime
    impressions: int
    units: int
    pairs: list[LookPair]

    @classmethod
    def of(cls, look: Look) -> "LookAnswer":
        """Return what is said of a look."""
        pairs = [
            LookPair(rankers=[first, second], preference=preference, low=low, high=high)
            for first, second, preference, low, high in look.pairs
        ]
        return cls(at=look.at, impressions=look.impressions, units=look.units, pairs=pairs)


class HistoryAnswer(Answer):
    """How the preferences came about, oldest first."""

    experiment: int
    action: str
    looks: list[LookAnswer]


class RecentEntry(Answer):
    """An impression in a list."""

    key: str
    at: datetime
    unit: Annotated[str, Field(description="the beginning of its HMAC")]
    query: str | None
    shown: int
    clicks: int
    missing: Annotated[list[str], Field(description="rankers that returned nothing")]


class RecentAnswer(Answer):
    """Impressions, newest first."""

    impressions: list[RecentEntry]

    @classmethod
    def of(cls, entries: list[RecentImpression]) -> "RecentAnswer":
        """Return what is said of recent impressions."""
        return cls(impressions=[RecentEntry.model_validate(entry) for entry in entries])


class DocumentEntry(Answer):
    """A document of an impression, and who ranked it where."""

    position: int
    document: str | int
    pinned: bool
    hidden: Annotated[bool, Field(description="drawn, not shown, and taken as not clicked")]
    ranks: dict[str, int | None]
    note: int | None
    actions: list[str]


class EventEntry(Answer):
    """An event of an impression."""

    at: datetime
    action: str
    position: int
    dwell: float | None


class ImpressionAnswer(Answer):
    """An impression and who contributed what."""

    key: str
    at: datetime
    unit: str
    query: str | None
    method: str
    rankers: list[str]
    missing: list[str]
    documents: list[DocumentEntry]
    preferences: list[list[float]] | None
    events: list[EventEntry]

    @classmethod
    def of(cls, detail: ImpressionDetail) -> "ImpressionAnswer":
        """Return what is said of an impression."""
        return cls.model_validate(detail)


class KeyAnswer(Answer):
    """A key, without its text."""

    number: int
    name: str
    role: Role
    created: datetime
    revoked: datetime | None

    @classmethod
    def of(cls, key: Key) -> "KeyAnswer":
        """Return what is said of a key."""
        return cls.model_validate(key)


class NewKeyAnswer(KeyAnswer):
    """A new key; its text is shown this once."""

    key: Annotated[str, Field(description="to be sent as Authorization: Bearer KEY")]


class KeysAnswer(Answer):
    """All keys, without their texts."""

    keys: list[KeyAnswer]


class DeletedAnswer(Answer):
    """How many impressions were deleted, with their events."""

    deleted: int
