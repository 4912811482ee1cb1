"""Experiments: their state, and which units take part.

    draft --start--> running --stop--> stopped

The settings of an experiment are fixed once it runs, except its share of the traffic. To change others, clone it
as a new version.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Literal, get_args

from pydantic import Field

from multileave.live.definition import Definition
from multileave.live.errors import Conflict, Invalid

Status = Literal["draft", "running", "stopped"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class Drop:
    """A ranker that lost and is no longer shown, with the evidence at that time."""

    ranker: str
    at: datetime
    lost_to: str
    impressions: int
    units: int
    preference: Annotated[float, Field(description="Mean preference for `lost_to` per impression.")]
    low: Annotated[float, Field(description="Lower end of its confidence interval.")]
    high: Annotated[float, Field(description="Upper end of its confidence interval.")]
    p_corrected: float


@dataclass(frozen=True)
class Experiment:
    """An experiment and its state. start_of_slice: where its share of the units begins, between 0 and 1."""

    number: int
    definition: Definition
    version: Annotated[int, Field(description="1, or one more than that of the experiment it was cloned from.")]
    parent: Annotated[int | None, Field(description="Number of the experiment it was cloned from.")]
    status: Status
    start_of_slice: float
    created: datetime
    started: datetime | None = None
    stopped: datetime | None = None
    drops: Annotated[tuple[Drop, ...], Field(description="Rankers that lost and are no longer shown, in order.")] = ()

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the rankers that are no longer shown."""
        return tuple(drop.ranker for drop in self.drops)

    @property
    def slice(self) -> "Slice":
        """The part of the units that takes part."""
        return Slice(self.start_of_slice, self.definition.share)

    def takes(self, position: float) -> bool:
        """Whether a unit at this position takes part now."""
        return self.status == "running" and self.slice.holds(position)

    def action(self, wanted: str | None) -> str:
        """Return the action that is asked for, the primary one by default; refuse one that is not counted."""
        actions = self.definition.actions
        if wanted is not None and wanted not in actions:
            raise Invalid(f"There is no action {wanted[:100]!r}; experiment {self.number} counts {', '.join(actions)}.")
        return actions[0] if wanted is None else wanted

    @property
    def traffic_key(self) -> str:
        """What positions of units are hashed with; the same for all experiments of a group."""
        group = self.definition.group
        return f"experiment:{self.number}" if group is None else f"group:{group}"


@dataclass(frozen=True)
class Slice:
    """A share of the units, starting at a position."""

    start: float
    share: float

    def holds(self, position: float) -> bool:
        """Whether a position from 0 to 1 is in it; it may wrap around at 1."""
        return (position - self.start) % 1.0 < self.share


def position_of(digest: bytes) -> float:
    """Return a unit's position between 0 and 1 from a hash of it."""
    return int.from_bytes(digest[:7], "big") / 2**56


def free_slices(taken: Iterable[Slice]) -> list[Slice]:
    """Return the slices of a group that are still free, largest first.

    >>> free_slices([Slice(0.0, 0.25), Slice(0.5, 0.25)])
    [Slice(start=0.25, share=0.25), Slice(start=0.75, share=0.25)]
    """
    held = sorted((s for s in taken if s.share > 0.0), key=lambda s: s.start)
    if not held:
        return [Slice(0.0, 1.0)]
    found = []
    for this, following in zip(held, held[1:] + held[:1], strict=True):
        end = this.start + this.share
        ahead = following.start if following.start > this.start else following.start + 1.0
        if ahead - end > 1e-12:
            found.append(Slice(end % 1.0, ahead - end))
    return sorted(found, key=lambda s: -s.share)


def place(experiment: Experiment, others: Iterable[Experiment]) -> Experiment:
    """Return an experiment with a free slice for its share, beside the running ones of its group."""
    if experiment.definition.group is None:
        return replace(experiment, start_of_slice=0.0)
    free = free_slices(other.slice for other in others)
    room = free[0].share if free else 0.0
    if room + 1e-9 < experiment.definition.share:
        raise Conflict(
            f"The share is {experiment.definition.share:g}, but the other running experiments of group "
            f"{experiment.definition.group!r} leave at most {room:g} free. Lower the share or stop one of them."
        )
    return replace(experiment, start_of_slice=free[0].start)


def grow(experiment: Experiment, share: float, others: Iterable[Experiment]) -> Experiment:
    """Return an experiment with another share; units that take part keep taking part."""
    changed = replace(experiment, definition=experiment.definition.changed(share=share))
    if experiment.definition.group is None or experiment.status != "running":
        return changed
    start = experiment.start_of_slice
    ahead = min(((other.slice.start - start) % 1.0 or 1.0 for other in others if other.definition.share), default=1.0)
    if share > ahead + 1e-9:
        raise Conflict(
            f"The share cannot be {share:g}: another running experiment of group {experiment.definition.group!r} "
            f"begins after {ahead:g}. Lower the share or stop the other experiment."
        )
    return changed
