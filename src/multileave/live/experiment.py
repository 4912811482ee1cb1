"""Experiments: their state, and which units take part.

    draft --start--> running --stop--> stopped

The settings of an experiment are fixed once it runs, except its share of the traffic and the shares of its arms. To
change others, clone it as a new version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Annotated, Literal, get_args

from pydantic import Field

from multileave.assignment import Arms, ArmSlice, Slice, free_slices, grown
from multileave.errors import DataError
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
    """An experiment and its state.

    start_of_slice: where its share of the units begins, between 0 and 1. arm_slices: what arms own, since it started.
    """

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
    arm_slices: tuple[ArmSlice, ...] = ()

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the rankers that are no longer shown."""
        return tuple(drop.ranker for drop in self.drops)

    @property
    def slice(self) -> Slice:
        """The part of the units that takes part."""
        return Slice(self.start_of_slice, self.definition.share)

    def takes(self, position: float) -> bool:
        """Whether a unit at this position takes part now."""
        return self.status == "running" and self.slice.holds(position)

    @cached_property
    def arms(self) -> Arms:
        """The arm of each unit that takes part; the arm of a ranker that was dropped is closed."""
        shares = self.definition.arms
        return Arms(self.arm_slices, {name: share for name, share in shares.items() if name not in self.dropped})

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


def place(experiment: Experiment, others: Iterable[Experiment]) -> Experiment:
    """Return an experiment with a free slice for its share, beside the running ones of its group, and with its arms."""
    experiment = replace(experiment, arm_slices=grown((), experiment.definition.arms))
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


def with_arms(experiment: Experiment, arms: Mapping[str, float]) -> Experiment:
    """Return a running experiment with other arms; units that are in an arm stay in it or rest."""
    changed = replace(experiment, definition=experiment.definition.changed(arms=dict(arms)))
    try:
        return replace(changed, arm_slices=grown(experiment.arm_slices, changed.definition.arms))
    except DataError as problem:
        raise Conflict(str(problem)) from None
