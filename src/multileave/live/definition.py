"""Definition: the settings of an experiment, each described once.

Everything else follows from the fields of `Definition`: the body of POST /experiments, the changes of PATCH and
clone, the answer of GET, OpenAPI, the form, the list of settings on the page, and the stored JSON. A new setting
is a new field here.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic_core import PydanticCustomError

from multileave.errors import MethodError, nearest
from multileave.live.errors import Invalid, sentence_of
from multileave.methods import get_method
from multileave.stats.intervals.group_sequential import MOST_LOOKS
from multileave.stats.rates.values import split_action
from multileave.stats.tally.weighting import Estimand

MOST_SHOWN = 1000
MOST_RANKERS = 100
LONGEST_NAME = 100
DAY = 86_400.0
SATISFIED = "satisfied"
FIELDSETS = COMPARISON, TRAFFIC, STORAGE, PAGES, STATISTICS = (
    "Comparison", "Traffic", "Storage and privacy", "Method and pages", "Statistics",
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """How a form asks for a setting.

    unit: what people type it in. factor: how many of these are one as stored. hint: instead of the description.
    """

    label: str
    fieldset: str
    unit: str = ""
    factor: float = 1.0
    hint: str = ""


def check_name(value: str) -> str:
    """Return a name, or raise an error for anything but 1 to 100 printable characters."""
    printable = not any(unicodedata.category(c) in ("Cc", "Cs", "Cn", "Zl", "Zp") for c in value)
    if not value.strip() or len(value) > LONGEST_NAME or not printable:
        raise PydanticCustomError("name", f"Name should have 1 to {LONGEST_NAME} printable characters")
    return value


def _check_different(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise PydanticCustomError("repeated", "List should name each entry only once")
    return values


def _check_increasing(values: tuple[int, ...]) -> tuple[int, ...]:
    if any(after <= before for before, after in pairwise(values)):
        raise PydanticCustomError("order", "List should be increasing")
    return values


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(check_name)]
Names = Annotated[tuple[Name, ...], Field(fail_fast=True)]

EXAMPLE: dict[str, Any] = {
    "name": "new ranker for the shop", "rankers": ["bm25", "dense", "ltr"], "control": "bm25", "method": "recommended",
    "k": 10, "actions": ["click", "purchase"], "confidence": 0.95, "share": 0.1,
}  # fmt: skip


@checked_dataclass(
    frozen=True,
    config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [EXAMPLE]}),
)
class Definition:
    """The settings of an experiment."""

    name: Annotated[Name, Field(description="What people call the experiment."), Input("Name", COMPARISON)]
    rankers: Annotated[
        Names,
        Field(
            strict=False,
            min_length=2,
            max_length=MOST_RANKERS,
            description="Names of the rankers, as your application sends them.",
        ),
        AfterValidator(_check_different),
        Input("Rankers", COMPARISON),
    ]
    control: Annotated[
        str,
        Field(
            max_length=LONGEST_NAME,
            description="The ranker whose list everyone outside the experiment sees; the first one if left empty.",
        ),
        Input("Control", COMPARISON),
    ] = ""
    method: Annotated[
        str,
        Field(max_length=200, description="The comparison method with its parameters, such as pm(tau=3.0)."),
        Input("Method", PAGES),
    ] = "recommended"
    k: Annotated[
        int, Field(ge=1, le=MOST_SHOWN, description="How many results each page shows."),
        Input("Results per page", PAGES),
    ] = 10  # fmt: skip
    pages: Annotated[
        int,
        Field(ge=1, le=MOST_SHOWN, description="Pages drawn at once, for users who go beyond the first."),
        Input("Pages", PAGES),
    ] = 1
    actions: Annotated[
        Names,
        Field(
            strict=False,
            min_length=1,
            max_length=16,
            description="User actions that count, each with its own verdict; the first is the primary one. "
            "'satisfied' is a click with enough dwell time; 'purchase:value' adds up the values of purchases in its "
            "rates.",
        ),
        AfterValidator(_check_different),
        Input("Actions", PAGES),
    ] = ("click",)
    dwell: Annotated[
        float,
        Field(ge=0.0, le=DAY, description="Seconds on a document after which a click counts as satisfied."),
        Input("Dwell time", PAGES, "seconds"),
    ] = 30.0
    unit: Annotated[
        Name, Field(description="The randomization unit, in one word: user or session."), Input("Unit", TRAFFIC)
    ] = "user"
    confidence: Annotated[
        float,
        Field(gt=0.0, lt=1.0, description="Confidence level of intervals and verdicts."),
        Input("Confidence level", STATISTICS, "%", 100.0),
    ] = 0.95
    tuned_for: Annotated[
        Annotated[float, Field(ge=1.0, le=1e15)] | None,
        Field(
            description="Impressions that a plan names (multileave plan --anytime), for the narrowest intervals there; "
            "not used with scheduled looks. Empty: no plan."
        ),
        Input("Planned impressions", STATISTICS),
    ] = None
    drop: Annotated[
        Literal["none", "losers"],
        Field(
            description="losers: stop showing a ranker once the leader or the control is significantly preferred to "
            "it, but never the control. none: show all rankers to the end."
        ),
        Input("Drop", STATISTICS),
    ] = "none"
    looks: Annotated[
        tuple[Annotated[int, Field(ge=2, le=10**12)], ...],
        Field(
            strict=False,
            max_length=MOST_LOOKS,
            description="Numbers of units at which looks are scheduled, increasing; the verdict is that of the last. "
            "Empty: look at any time.",
        ),
        AfterValidator(_check_increasing),
        Input("Scheduled looks", STATISTICS),
    ] = ()
    estimand: Annotated[
        Estimand,
        Field(
            description="What is estimated: impressions, the mean preference per impression, or users, the mean over "
            "units of each unit's mean preference, so that heavy users count no more than others.",
        ),
        Input("Estimand", STATISTICS),
    ] = "impressions"
    cap: Annotated[
        Annotated[int, Field(ge=1, le=10**12)] | None,
        Field(
            description="Units with more impressions than this, such as bots, are left out of verdicts. Empty: none."
        ),
        Input("Cap", STATISTICS, "impressions"),
    ] = None
    winsorise: Annotated[
        Annotated[int, Field(ge=1, le=10**12)] | None,
        Field(
            description="Units with more impressions than this count as if they had so many. Empty: all count fully."
        ),
        Input("Winsorise", STATISTICS, "impressions"),
    ] = None
    window: Annotated[
        float,
        Field(
            ge=1.0, le=366 * DAY,
            description="Seconds for which the same request stays the same impression and events are accepted.",
        ),
        Input(
            "Window", STORAGE, "hours", 1 / 3600,
            "How long the same request stays the same impression and events are accepted.",
        ),
    ] = DAY  # fmt: skip
    group: Annotated[
        Name | None,
        Field(description="No unit takes part in two running experiments of the same group."),
        Input("Exclusion group", TRAFFIC),
    ] = None
    share: Annotated[
        float,
        Field(ge=0.0, le=1.0, description="Share of the units that take part; can be changed during the experiment."),
        Input("Share of units", TRAFFIC, "%", 100.0),
    ] = 1.0
    arms: Annotated[
        dict[Name, Annotated[float, Field(gt=0.0, lt=1.0)]],
        Field(
            max_length=MOST_RANKERS,
            description="Rankers whose own pages some of the units see, as in an A/B test, each with its share of the "
            "units that take part; recorded, but not compared. Can be changed during the experiment.",
            json_schema_extra={"examples": [{"bm25": 0.1, "ltr": 0.1}]},
        ),
        Input("Arms", TRAFFIC, "%", 100.0),
    ] = field(default_factory=dict)
    hash_units: Annotated[
        bool, Field(description="Store a keyed hash (HMAC) of each unit, never the unit itself."),
        Input("Hash units", STORAGE),
    ] = True  # fmt: skip
    keep_queries: Annotated[
        bool, Field(description="Store query texts and show them with recent impressions."),
        Input("Store queries", STORAGE),
    ] = False  # fmt: skip
    retention_days: Annotated[
        Annotated[float, Field(ge=0.0, le=36_500.0)] | None,
        Field(description="Days until impressions and events are deleted; verdicts still count them. Empty: never."),
        Input("Retention", STORAGE, "days"),
    ] = None

    def __post_init__(self) -> None:
        if not self.control:
            object.__setattr__(self, "control", self.rankers[0])
        if self.control not in self.rankers:
            raise Invalid(
                f"control is {self.control[:LONGEST_NAME]!r}; expected one of the rankers: {', '.join(self.rankers)}."
                f"{nearest(self.control, self.rankers)}"
            )
        try:
            method = get_method(self.method)
            method.check_rankers(len(self.rankers))
        except MethodError as error:
            raise Invalid(str(error)) from None
        object.__setattr__(self, "method", method.spelled)
        self._check_arms()
        if self.drop == "losers" and self.looks:
            raise Invalid(
                "drop is 'losers', but looks are scheduled; losers can only be dropped by verdicts that are valid at "
                "any time. Leave out looks, or drop none."
            )
        if self.k * self.pages > MOST_SHOWN:
            raise Invalid(
                f"k times pages is {self.k * self.pages}; at most {MOST_SHOWN} results are drawn. Reduce k or pages."
            )

    def _check_arms(self) -> None:
        unknown = next((name for name in self.arms if name not in self.rankers), None)
        if unknown is not None:
            raise Invalid(
                f"arms has {unknown!r}; expected rankers: {', '.join(self.rankers)}.{nearest(unknown, self.rankers)}"
            )
        if sum(self.arms.values()) > 1.0 + 1e-9:
            raise Invalid(
                f"The shares of arms add up to {sum(self.arms.values()):g}; expected at most 1. The rest of the units "
                "compare the rankers. Lower some shares."
            )
        object.__setattr__(self, "arms", {name: self.arms[name] for name in self.rankers if name in self.arms})

    def look_at(self, units: int) -> int:
        """Return the number of the latest scheduled look that so many units have reached, 0 before the first."""
        return bisect_right(self.looks, units)

    def accepts(self, action: str) -> bool:
        """Whether events of an action count for anything."""
        counted = [split_action(one)[0] for one in self.actions]
        return action in counted or (action == "click" and SATISFIED in counted)

    def counts(self, event_action: str, dwell: float | None, action: str) -> bool:
        """Whether an event counts for an action."""
        action, _ = split_action(action)
        if action == SATISFIED and event_action == "click":
            return dwell is not None and dwell >= self.dwell
        return event_action == action

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain values that JSON can hold."""
        return {**asdict(self), "rankers": list(self.rankers), "actions": list(self.actions), "looks": list(self.looks)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Definition":
        """Return the definition that `to_dict` wrote, or that a form or a client sent, checked."""
        known = [one.name for one in fields(cls)]
        for name in data:
            if name not in known:
                raise Invalid(f"There is no setting {name!r}; there are {', '.join(known)}.{nearest(name, known)}")
        try:
            return cls(**data)
        except ValidationError as error:
            raise Invalid(sentence_of(error)) from None

    def changed(self, **changes: Any) -> "Definition":
        """Return a definition with some settings changed, checked."""
        return self.from_dict({**self.to_dict(), **changes})
