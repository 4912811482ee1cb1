"""Responses that hold more than one record, and the shape of every error."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from multileave.live.http.derived_models import (
    AgreementModel,
    ArmVerdictModel,
    ExperimentAnswer,
    HealthModel,
    InteractionModel,
    VerdictModel,
)
from multileave.live.records import AuditEntry, Key, Receipt, RecentImpression, Traffic
from multileave.live.verdicts.segments import MOST_SEGMENTS, OTHER
from multileave.live.verdicts.summary import Summary
from multileave.stats.verdict.segments import NO_SEGMENT

TOO_FEW = "Null with fewer than two units."
AsOf = Annotated[datetime, Field(description="All impressions before this time are counted, with their events.")]
Stale = Annotated[bool, Field(description="Whether newer impressions could not be counted now; they will be later.")]


class ErrorDetail(BaseModel):
    """What is wrong with one part of a request."""

    where: Annotated[str, Field(description="The part, such as rankings.bm25.0.")]
    reason: str


class Error(BaseModel):
    """Why a request was refused."""

    code: Annotated[str, Field(description="For programs.", examples=["invalid"])]
    message: Annotated[str, Field(description="For people.")]
    details: list[ErrorDetail] | None
    request_id: Annotated[str, Field(description="The request's id, as in the log.")]


class ErrorResponse(BaseModel):
    """The shape of every error."""

    error: Error


class ServiceState(BaseModel):
    """Whether the service is up."""

    status: Annotated[str, Field(examples=["ok"])]
    version: str


class ListedExperiment(ExperimentAnswer):  # type: ignore[misc]
    """An experiment, and its result in short."""

    summary: Annotated[Summary | None, Field(description="Null before the first impression.")]


class ExperimentList(BaseModel):
    """Experiments, newest first."""

    experiments: list[ListedExperiment]
    total: Annotated[int, Field(description="How many there are without `offset` and `limit`.")]
    as_of: AsOf
    stale: Stale


class EventsAnswer(BaseModel):
    """The receipts of a batch of events, in its order."""

    accepted: int
    duplicates: Annotated[int, Field(description="How many of the accepted had been accepted before.")]
    rejected: int
    receipts: list[Receipt]


class VerdictAnswer(BaseModel):
    """Which ranker is preferred, as far as is known."""

    experiment: int
    action: str
    verdict: Annotated[VerdictModel | None, Field(description=TOO_FEW)]
    rates_note: Annotated[
        str,
        Field(description="Why rates are missing or too imprecise to act on, and what to do; empty if they are fine."),
    ]
    traffic: Traffic
    as_of: AsOf
    stale: Stale


class HealthAnswer(BaseModel):
    """Whether the data can be trusted."""

    experiment: int
    health: Annotated[HealthModel | None, Field(description=TOO_FEW)]
    traffic: Traffic
    as_of: AsOf
    stale: Stale


class ArmsAnswer(BaseModel):
    """What the arms of an experiment say, as an A/B test, beside its comparison."""

    experiment: int
    action: str
    verdict: Annotated[
        ArmVerdictModel | None,
        Field(description="Null without arms, and with fewer than two units in the arm that others are compared with."),
    ]
    agreements: Annotated[
        list[AgreementModel], Field(description="Whether the comparison and the arms agree about each ranker.")
    ]
    as_of: AsOf
    stale: Stale


class SegmentsAnswer(BaseModel):
    """Which ranker is preferred in each segment of the traffic."""

    experiment: int
    action: str
    segments: Annotated[
        dict[str, VerdictModel],
        Field(
            description="The verdict in each segment, valid at any time and corrected for the pairs of all segments. "
            f"Empty if no impression has a segment. Without one, an impression is in `{NO_SEGMENT}`."
        ),
    ]
    left_out: Annotated[list[str], Field(description="Segments with a single unit.")]
    merged: Annotated[
        int,
        Field(description=f"How many segments are together in `{OTHER}`: all but the {MOST_SEGMENTS} largest."),
    ]
    interactions: Annotated[
        list[InteractionModel],
        Field(
            description="How the preference of each pair differs between segments: shrunken estimates, and a test for "
            "one look. Unlike the verdicts, the test is valid only if it is read once, at a time fixed beforehand."
        ),
    ]
    impressions: Annotated[int, Field(description="Impressions counted here: none that is past its retention.")]
    as_of: AsOf
    stale: Stale


class ImpressionList(BaseModel):
    """Impressions, newest first."""

    impressions: list[RecentImpression]


class KeyList(BaseModel):
    """All API keys, without their texts."""

    keys: list[Key]


class AuditList(BaseModel):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntry]
    next: Annotated[int | None, Field(description="The `before` of the next page; null on the last.")]


class Deleted(BaseModel):
    """How many impressions were deleted, with their events."""

    deleted: int
