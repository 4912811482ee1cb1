"""Planning: how many users it takes until a difference is seen, and how likely it is to be seen.

The mean preference of U units has the standard error D / sqrt(U). A difference of size delta is called
significant with the chance, its power, that a normal variable with mean delta sqrt(U) / D passes the
interval's quantile (for few units: that noncentral t passes the quantile of t). For a confidence
sequence it is the chance at the last look; looking before can only add to it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import Floats
from multileave.stats.intervals.clustered import t_quantile
from multileave.stats.intervals.confidence_sequence import boundary
from multileave.stats.intervals.moments import Moments
from multileave.stats.verdict.rules import Rules

__all__ = ["Design", "Plan", "plan", "power", "units_to_decide"]

POWER = 0.8
MOST_UNITS = 10**12


@dataclass(frozen=True)
class Design:
    """What one more unit brings for a pair of rankers.

    deviation: D, the standard error of the mean preference per impression times sqrt(U).
    impressions: the mean number of impressions of a unit.
    clock: how many single impressions' worth of variance a unit adds.
    effective: effective units per unit, (sum n_u)^2 / sum n_u^2 / U.
    """

    deviation: float
    impressions: float = 1.0
    clock: float = 1.0
    effective: float = 1.0

    @classmethod
    def assumed(
        cls, deviation: float, impressions: float = 1.0, *, correlation: float = 0.1, spread: float = 0.0
    ) -> "Design":
        """Return the design for a standard deviation of single impressions' preference.

        impressions: the mean per unit, n. spread: the standard deviation of that number over its mean.
        correlation: how alike two impressions of one unit are, r. Then

            D^2 = deviation^2 ((1 - r) / n + r (1 + spread^2)).

        >>> round(Design.assumed(2.0, 4.0, correlation=0.25).deviation, 3)
        1.323
        """
        for name, value, least, most in (
            ("standard deviation", deviation, 0.0, 1e40),
            ("impressions per user", impressions, 1.0, 1e12),
            ("correlation", correlation, 0.0, 1.0),
            ("spread", spread, 0.0, 1e6),
        ):
            if not _is_number(value) or not least <= value <= most or (value == 0.0 and name == "standard deviation"):
                above = "above 0" if name == "standard deviation" else f"from {least:g} to {most:g}"
                raise TallyError(f"the {name} is {value!r}; expected a number {above}.")
        per_unit = (1.0 - correlation) / impressions + correlation * (1.0 + spread**2)
        return cls(
            deviation * math.sqrt(per_unit), impressions, per_unit * impressions**2, 1.0 / (1.0 + spread**2)
        )  # fmt: skip

    @classmethod
    def of_moments(cls, moments: Moments) -> "list[Design | None]":
        """Return the design of each pair as a tally found it; None where nothing varies."""
        visits = moments.impressions / moments.units
        deviations = moments.errors * math.sqrt(moments.units)
        return [
            cls(deviation, visits, clock / moments.units, moments.effective / moments.units) if deviation > 0 else None
            for deviation, clock in zip(deviations.tolist(), moments.clocks.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Plan:
    """How many units it takes; `str()` says it in a sentence.

    effect: the difference to see, in mean preference per impression.
    units, impressions: how many it takes. comparisons: how many pairs share the chance of a false alarm.
    """

    effect: float
    units: int
    impressions: int
    confidence: float
    power: float
    interval: str
    comparisons: int
    design: Design

    def __str__(self) -> str:
        looks = "looking as often as you like" if self.interval == "anytime" else "one look at the end"
        pairs = f", {self.comparisons} pairs (Bonferroni)" if self.comparisons > 1 else ""
        who = f"{self.units:,} users ({self.impressions:,} impressions)"
        if self.design.impressions == 1.0:
            who = f"{self.units:,} users or impressions"
        return (
            f"about {who} to see a preference of {self.effect:g} per impression with {100 * self.power:g} % power at "
            f"{100 * self.confidence:g} % confidence, {looks}{pairs}"
        )

    def curve(self, points: int = 60) -> list[tuple[int, float]]:
        """Return (units, power) from a tenth of the units to three times as many."""
        units = np.unique(np.geomspace(max(self.units / 10, 2), max(3 * self.units, 10), points).round().astype(int))
        rules = Rules(self.confidence, self.interval)
        return [(n, power(self.design, self.effect, n, rules, self.comparisons)) for n in units.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values that JSON can hold."""
        return {
            "effect": self.effect,
            "units": self.units,
            "impressions": self.impressions,
            "confidence": self.confidence,
            "power": self.power,
            "interval": self.interval,
            "comparisons": self.comparisons,
            "impressions_per_unit": self.design.impressions,
            "deviation": self.design.deviation,
            "curve": [{"units": units, "power": chance} for units, chance in self.curve()],
        }


def power(design: Design, effect: float, units: float, rules: Rules, comparisons: int = 1) -> float:
    """Return the chance that a difference of this size is significant with that many units.

    >>> round(power(Design(1.0), 0.1, 785, Rules()), 3)
    0.799
    """
    from scipy.special import nctdtr, ndtr

    alpha = (1.0 - rules.confidence) / comparisons
    freedom = max(design.effective * units - 1.0, 1.0)
    shift = abs(effect) * math.sqrt(units) / design.deviation
    if rules.interval == "anytime":
        critical = float(boundary(np.array([design.clock * units]), alpha, rules.tuned_for)[0])
    else:
        critical = t_quantile(alpha / 2.0, freedom)
        if freedom < 1000.0 and shift < 30.0:
            return float(1.0 - nctdtr(freedom, shift, critical) + nctdtr(freedom, shift, -critical))
    return float(ndtr(shift - critical) + ndtr(-shift - critical))


def plan(
    design: Design,
    effect: float,
    *,
    confidence: float = 0.95,
    power: float = POWER,
    interval: str = "clustered",
    comparisons: int = 1,
) -> Plan:
    """Return how many units it takes until a preference of this size per impression is seen.

    >>> print(plan(Design(1.0), 0.1))
    about 787 users or impressions to see a preference of 0.1 per impression with 80 % power at 95 % confidence, one
    look at the end
    """
    if not _is_number(effect) or effect == 0.0:
        raise TallyError(
            f"the effect is {effect!r}; expected the preference per impression that is to be seen, a number other "
            "than 0. How large a difference would matter?"
        )
    if not _is_number(power) or not 0.05 < power < 1.0:
        raise TallyError(f"the power is {power!r}; expected a number between 0.05 and 1, such as 0.8.")
    if isinstance(comparisons, bool) or not isinstance(comparisons, int) or comparisons < 1:
        raise TallyError(f"comparisons is {comparisons!r}; expected the number of pairs, from 1.")
    rules = Rules(confidence, interval)
    if power <= (1.0 - rules.confidence) / comparisons:
        raise TallyError(f"the power is {power!r}, the chance of a false alarm or less. Ask for more, such as 0.8.")
    units = _fewest(design, abs(effect), power, rules, comparisons)
    if units is None:
        raise TallyError(
            f"a preference of {effect:g} per impression takes more than {MOST_UNITS:g} users; the standard deviation "
            f"of a user's mean is {design.deviation:g}. Look for a larger difference."
        )
    impressions = math.ceil(units * design.impressions)
    return Plan(abs(effect), units, impressions, rules.confidence, power, interval, comparisons, design)


def units_to_decide(moments: Moments, rules: Rules, comparisons: int) -> Floats:
    """Return about how many units in all it takes to see each preference, (P,), if it stays as large as it is.

    With the variance there is and a chance of 80 %; infinite where there is no preference.
    """
    from scipy.special import ndtri

    alpha = (1.0 - rules.confidence) / comparisons
    ratios = np.full_like(moments.totals, np.inf)  # standard error with one unit, over the preference
    seen = (moments.totals != 0.0) & (moments.variances > 0.0)
    np.divide(np.sqrt(moments.variances * moments.units), np.abs(moments.totals), out=ratios, where=seen)
    chance = float(ndtri(POWER))
    critical = np.full_like(ratios, -float(ndtri(alpha / 2.0)))
    needed = (ratios * (critical + chance)) ** 2
    if rules.interval == "anytime":
        per_unit = moments.clocks / moments.units
        for _ in range(60):  # halfway each time, as before its time the boundary falls as fast as units are added
            clocks = np.clip(needed * per_unit, 1e-3, 1e30)
            step = ratios * (boundary(clocks, alpha, rules.tuned_for) + chance)
            needed = np.sqrt(needed) * step
    return needed


def _fewest(design: Design, effect: float, wanted: float, rules: Rules, comparisons: int) -> int | None:
    """Return the least number of units with the wanted power; it rises with units, but for the first few."""
    high = 2
    while power(design, effect, high, rules, comparisons) < wanted:
        high *= 2
        if high > MOST_UNITS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if power(design, effect, middle, rules, comparisons) < wanted:
            low = middle
        else:
            high = middle
    return max(high, 2)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
