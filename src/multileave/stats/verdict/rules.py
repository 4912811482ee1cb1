"""Rules: how a verdict is reached, to be chosen before looking at the data."""

from dataclasses import dataclass

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.stats.intervals.confidence_sequence import TUNED_FOR
from multileave.stats.intervals.corrections import CORRECTIONS

INTERVALS = ("clustered", "anytime", "bootstrap")


@dataclass(frozen=True)
class Rules:
    """How a verdict is reached; `Tally.verdict` explains each option."""

    confidence: float = 0.95
    interval: str = "clustered"
    correction: str = "holm"
    simultaneous: bool = False
    tuned_for: float = TUNED_FOR
    replicates: int = 1999
    seed: int = 0

    def __post_init__(self) -> None:
        if not is_number(self.confidence) or not 0.0 < self.confidence < 1.0:
            raise TallyError(f"The confidence is {self.confidence!r}; expected a number between 0 and 1, such as 0.95.")
        object.__setattr__(self, "confidence", float(self.confidence))
        for name, choices in (("interval", INTERVALS), ("correction", tuple(CORRECTIONS))):
            value = getattr(self, name)
            if value not in choices:
                raise TallyError(
                    f"The {name} is {value!r}; expected one of {', '.join(choices)}.{nearest(value, choices)}"
                )
        if not is_number(self.tuned_for) or not 1.0 <= self.tuned_for <= 1e15:
            raise TallyError(
                f"The value of tuned_for is {self.tuned_for!r}; expected a number of impressions, such as {TUNED_FOR}."
            )
        if isinstance(self.replicates, bool) or not isinstance(self.replicates, int) or self.replicates < 99:
            raise TallyError(f"The number of replicates is {self.replicates!r}; expected an integer of at least 99.")

    def level(self, comparisons: int) -> float:
        """Return the confidence of each interval."""
        return 1.0 - (1.0 - self.confidence) / comparisons if self.simultaneous else self.confidence


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(np.isfinite(value))
