"""Rules: how a verdict is reached, to be chosen before looking at the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.stats.intervals.corrections import CORRECTIONS
from multileave.stats.intervals.group_sequential import MOST_LOOKS, SPENDING, information
from multileave.stats.tally.weighting import Weighting

INTERVALS = ("clustered", "anytime", "scheduled", "bootstrap")


@dataclass(frozen=True)
class Rules:
    """How a verdict is reached; `Tally.verdict` explains each option."""

    confidence: float = 0.95
    interval: str = "clustered"
    correction: str = "holm"
    simultaneous: bool = False
    tuned_for: float | None = None
    replicates: int = 1999
    seed: int = 0
    looks: int | tuple[float, ...] | None = None
    look: int | None = None
    spending: str = "obrien-fleming"
    control: str | None = None
    dropped: tuple[str, ...] = ()
    estimand: str = "impressions"
    cap: int | None = None
    winsorise: int | None = None

    def __post_init__(self) -> None:
        if not is_number(self.confidence) or not 0.0 < self.confidence < 1.0:
            raise TallyError(f"The confidence is {self.confidence!r}; expected a number between 0 and 1, such as 0.95.")
        object.__setattr__(self, "confidence", float(self.confidence))
        for name, choices in (
            ("interval", INTERVALS), ("correction", tuple(CORRECTIONS)), ("spending", tuple(SPENDING)),
        ):  # fmt: skip
            value = getattr(self, name)
            if value not in choices:
                raise TallyError(
                    f"The {name} is {value!r}; expected one of {', '.join(choices)}.{nearest(value, choices)}"
                )
        if self.tuned_for is not None and (not is_number(self.tuned_for) or not 1.0 <= self.tuned_for <= 1e15):
            raise TallyError(
                f"The value of tuned_for is {self.tuned_for!r}; expected the number of impressions that a plan names, "
                "such as 10000, or None."
            )
        self._check_looks()
        object.__setattr__(self, "dropped", tuple(self.dropped))
        if self.dropped and self.interval != "anytime":
            raise TallyError(
                f"Rankers were dropped ({', '.join(self.dropped)}), which depends on the data, but the interval is "
                f'{self.interval!r}. Choose interval="anytime", the only one that stays valid then.'
            )
        Weighting(self.estimand, self.cap, self.winsorise)  # which checks them
        if isinstance(self.replicates, bool) or not isinstance(self.replicates, int) or self.replicates < 99:
            raise TallyError(f"The number of replicates is {self.replicates!r}; expected an integer of at least 99.")

    def _check_looks(self) -> None:
        """Raise an error unless a schedule is given for scheduled looks, and only for these."""
        if self.interval != "scheduled":
            if self.looks is not None or self.look is not None:
                raise TallyError(
                    f"looks and look are given, but the interval is {self.interval!r}, which has no schedule. Choose "
                    'interval="scheduled", or leave them out.'
                )
            return
        looks: object = tuple(self.looks) if isinstance(self.looks, Sequence) else self.looks
        whole = isinstance(looks, int) and not isinstance(looks, bool)
        if not whole and not (isinstance(looks, tuple) and all(map(is_number, looks))):
            raise TallyError(
                f"The planned looks are {self.looks!r}; expected their number, such as 5, or the share of the planned "
                "information that each has seen, such as (0.25, 0.5, 1)."
            )
        object.__setattr__(self, "looks", looks)
        shares = () if whole and not 1 <= self.looks <= MOST_LOOKS else self.fractions  # type: ignore[operator]
        if not 1 <= len(shares) <= MOST_LOOKS or shares[-1] > 1.0 or any(np.diff((0.0, *shares)) <= 0.0):
            raise TallyError(
                f"The planned looks are {self.looks!r}; expected 1 to {MOST_LOOKS}, whose shares of the information "
                'increase up to 1. Use interval="anytime" to look more often.'
            )
        if isinstance(self.look, bool) or not isinstance(self.look, int) or not 1 <= self.look <= len(shares):
            raise TallyError(f"This is look {self.look!r}; expected a number from 1 to {len(shares)}.")

    @property
    def one_look(self) -> bool:
        """Whether the verdict is the only look, so that tests for one look are valid beside it."""
        return self.interval in ("clustered", "bootstrap")

    @property
    def fractions(self) -> tuple[float, ...]:
        """The information fractions of all scheduled looks."""
        return () if self.looks is None else information(self.looks)

    @property
    def weighting(self) -> Weighting:
        """How much each unit counts."""
        return Weighting(self.estimand, self.cap, self.winsorise)

    def level(self, comparisons: int) -> float:
        """Return the confidence of each interval."""
        return 1.0 - (1.0 - self.confidence) / comparisons if self.simultaneous else self.confidence


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(np.isfinite(value))
