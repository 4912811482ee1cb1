"""Experiments: what is compared, for whom, and what may still be changed.

    draft --start--> running --stop--> stopped

What defines an experiment is fixed once it runs: a `Definition` is replaced by cloning the experiment as
a new version. Its share of the traffic may be ramped up and down while it runs.
"""

import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal

from multileave.errors import nearest
from multileave.live.errors import Conflict, Invalid
from multileave.methods import get_method
from multileave.stats.verdict.rules import Rules

__all__ = ["Definition", "Experiment", "Slice", "Status", "free_slices", "position_of"]

Status = Literal["draft", "running", "stopped"]

MOST_RANKERS = 100
MOST_SHOWN = 1000
LONGEST_NAME = 100
DAY = 86_400.0
SATISFIED = "satisfied"


@dataclass(frozen=True)
class Definition:
    """What defines an experiment.

    name: what people call it. rankers: their names. control: the one whose list is shown outside the experiment.
    method: with its parameters, as `get_method` reads it. k: results on a page. pages: how many pages are
        drawn at once.
    actions: what users do that counts, each with a verdict of its own; the first is the main one.
        "satisfied" is a click with at least `dwell` seconds on the document.
    unit: what a unit is, in a word.
    confidence: of the verdict.
    window: seconds in which the same rankings are the same impression, and in which events are welcome.
    group: no unit takes part in two running experiments of a group.
    share: of the units, from 0 to 1.
    hash_units: store units as HMAC only. keep_queries: store the text of queries.
    retention_days: after which impressions and events are deleted; the verdict keeps what they said.
    """

    name: str
    rankers: tuple[str, ...]
    control: str
    method: str = "recommended"
    k: int = 10
    pages: int = 1
    actions: tuple[str, ...] = ("click",)
    dwell: float = 30.0
    unit: str = "user"
    confidence: float = 0.95
    window: float = DAY
    group: str | None = None
    share: float = 1.0
    hash_units: bool = True
    keep_queries: bool = False
    retention_days: float | None = None

    def __post_init__(self) -> None:
        for name in ("rankers", "actions"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Collection):
                raise Invalid(f"{name} is {value!r}; expected a list of names.")
            object.__setattr__(self, name, tuple(value))
        check_name("name", self.name)
        check_name("unit", self.unit)
        if self.group is not None:
            check_name("group", self.group)
        _check_names("rankers", self.rankers, 2, MOST_RANKERS)
        _check_names("actions", self.actions, 1, 16)
        if self.control not in self.rankers:
            raise Invalid(
                f"control is {self.control!r}; expected one of the rankers, {', '.join(self.rankers)}."
                f"{nearest(self.control, self.rankers)}"
            )
        object.__setattr__(self, "method", get_method(self.method).spelled)
        get_method(self.method).check_rankers(len(self.rankers))
        _check_number("k", self.k, 1, MOST_SHOWN, whole=True)
        _check_number("pages", self.pages, 1, MOST_SHOWN, whole=True)
        if self.k * self.pages > MOST_SHOWN:
            raise Invalid(
                f"k x pages is {self.k * self.pages}; at most {MOST_SHOWN} results are drawn. Take fewer pages."
            )
        Rules(self.confidence)
        _check_number("window", self.window, 1.0, 366 * DAY)
        _check_number("dwell", self.dwell, 0.0, DAY)
        _check_number("share", self.share, 0.0, 1.0)
        if self.retention_days is not None:
            _check_number("retention_days", self.retention_days, 0.0, 36_500.0)

    def hears(self, action: str) -> bool:
        """Whether events of an action count for anything."""
        return action in self.actions or (action == "click" and SATISFIED in self.actions)

    def counts(self, event_action: str, dwell: float | None, action: str) -> bool:
        """Whether an event counts for an action."""
        if action == SATISFIED and event_action == "click":
            return dwell is not None and dwell >= self.dwell
        return event_action == action

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain values that JSON can hold."""
        return {**asdict(self), "rankers": list(self.rankers), "actions": list(self.actions)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Definition":
        """Return the definition that `to_dict` wrote, or a client sent, checked."""
        known = [field.name for field in fields(cls)]
        for name in data:
            if name not in known:
                raise Invalid(f"there is no setting {name!r}; there are {', '.join(known)}.{nearest(name, known)}")
        for name in ("name", "rankers", "control"):
            if name not in data:
                raise Invalid(f"the experiment has no {name!r}; it is needed.")
        return cls(**data)

    def changed(self, **changes: Any) -> "Definition":
        """Return a definition that differs in some settings, checked."""
        return self.from_dict({**self.to_dict(), **changes})


@dataclass(frozen=True)
class Experiment:
    """An experiment and its state.

    number: what its addresses carry. version: 1, or one more than that of the experiment it was cloned from.
    parent: the number of that one. start_of_slice: where its part of the units begins, between 0 and 1.
    """

    number: int
    definition: Definition
    version: int
    parent: int | None
    status: Status
    start_of_slice: float
    created: datetime
    started: datetime | None = None
    stopped: datetime | None = None

    @property
    def slice(self) -> "Slice":
        """The part of the units that take part."""
        return Slice(self.start_of_slice, self.definition.share)

    def takes(self, position: float) -> bool:
        """Whether a unit at this position takes part now."""
        return self.status == "running" and self.slice.holds(position)

    @property
    def traffic_key(self) -> str:
        """What positions of units are hashed with: experiments of a group share it."""
        group = self.definition.group
        return f"experiment:{self.number}" if group is None else f"group:{group}"

    def with_share(self, share: float) -> "Experiment":
        """Return the experiment with another share of the traffic."""
        return replace(self, definition=self.definition.changed(share=share))


@dataclass(frozen=True)
class Slice:
    """A part of the units, from a position on."""

    start: float
    share: float

    def holds(self, position: float) -> bool:
        """Whether a position from 0 to 1 is in it; it may run over 1 and go on at 0."""
        return (position - self.start) % 1.0 < self.share


def position_of(digest: bytes) -> float:
    """Return where a unit stands between 0 and 1, by a hash of it."""
    return int.from_bytes(digest[:7], "big") / 2**56


def free_slices(taken: Iterable[Slice]) -> list[Slice]:
    """Return what others leave free of a group, largest first.

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
    """Return an experiment with room for its share beside the running ones of its group, or refuse."""
    if experiment.definition.group is None:
        return replace(experiment, start_of_slice=0.0)
    free = free_slices(other.slice for other in others)
    room = free[0].share if free else 0.0
    if room + 1e-9 < experiment.definition.share:
        raise Conflict(
            f"the share is {experiment.definition.share:g}, and other running experiments of group "
            f"{experiment.definition.group!r} leave {room:g} free at most. Lower the share, or stop one of them."
        )
    return replace(experiment, start_of_slice=free[0].start)


def grow(experiment: Experiment, share: float, others: Iterable[Experiment]) -> Experiment:
    """Return an experiment with another share; units that take part go on taking part, or it is refused."""
    changed = experiment.with_share(share)
    if experiment.definition.group is None or experiment.status != "running":
        return changed
    start = experiment.start_of_slice
    ahead = min(((other.slice.start - start) % 1.0 or 1.0 for other in others if other.definition.share), default=1.0)
    if share > ahead + 1e-9:
        raise Conflict(
            f"the share cannot be {share:g}: another running experiment of group {experiment.definition.group!r} "
            f"begins after {ahead:g}. Lower the share, or stop the other."
        )
    return changed


def check_name(setting: str, value: object) -> None:
    """Refuse what is not a name: 1 to 100 printable characters."""
    fine = isinstance(value, str) and len(value.strip()) > 0 and len(value) <= LONGEST_NAME and _printable(value)
    if not fine:
        found = repr(value)
        raise Invalid(
            f"{setting} is {found if len(found) <= 80 else found[:77] + '...'}; expected 1 to {LONGEST_NAME} "
            "printable characters."
        )


def _check_names(setting: str, values: tuple[Any, ...], least: int, most: int) -> None:
    if not least <= len(values) <= most:
        raise Invalid(f"there are {len(values)} {setting}; expected {least} to {most}.")
    for value in values:
        check_name(setting, value)
    if len(set(values)) < len(values):
        raise Invalid(f"{setting} names one twice; expected different names.")


def _check_number(setting: str, value: object, least: float, most: float, *, whole: bool = False) -> None:
    kind = int if whole else (int, float)
    fine = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value) and least <= value <= most
    if not fine:
        raise Invalid(
            f"{setting} is {value!r}; expected {'an integer' if whole else 'a number'} from {least:g} to {most:g}."
        )


def _printable(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Cn", "Zl", "Zp") for c in text)
