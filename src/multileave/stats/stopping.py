"""Stopping: the power of experiments that may stop early, and after how many units they do.

Everything is in terms of the drift: the expected statistic, in standard errors, at the last look. It grows with the
square root of the units, so a design is planned once for all effects: `drift_for` says what drift it takes, and
`Design` how many units have it.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.confidence_sequence import boundary
from multileave.stats.intervals.group_sequential import boundaries, crossing, information
from multileave.stats.verdict.rules import Rules

ANY_LOOKS = 50  # equally spaced looks that stand for any number of looks
ONE_LOOK = 7.848879734349087  # squared drift that one look at 95 % confidence needs for 80 % power


class Stopping(NamedTuple):
    """The probability of significance by the last look, and the mean share of the units when an experiment ends."""

    power: float
    share: float


def stopping(rules: Rules, alpha: float, drift: float, clock: float) -> Stopping:
    """Return when an experiment ends: at the first significant look, or at the last. clock: at the last look.

    >>> stopping(Rules(interval="scheduled", looks=5, look=5), 0.05, 2.84, 1.0)
    Stopping(power=0.80..., share=0.80...)
    """
    if rules.interval == "scheduled":
        fractions = rules.fractions
        bounds: Floats = np.array(boundaries(fractions, alpha, rules.spending))
    else:
        fractions = information(ANY_LOOKS)
        bounds = boundary(clock * np.array(fractions), alpha, rules.tuned_for)
    first = crossing(fractions, bounds.tolist(), drift)
    found = float(first.sum())
    return Stopping(found, float(first @ np.array(fractions)) + (1.0 - found) * fractions[-1])


def drift_for(rules: Rules, alpha: float, power: float) -> float:
    """Return the drift at which a design has this power; an anytime design is tuned for the planned difference."""
    planned = rules.looks, rules.spending
    return _least_drift(*(planned if rules.interval == "scheduled" else (None, "")), alpha, power)


def tuned_to(drift: float, clock: float) -> float:
    """Return what an anytime design with this drift at this clock is to be tuned for."""
    return max(clock * ONE_LOOK / drift**2, 1.0)


@lru_cache(maxsize=256)
def _least_drift(looks: int | tuple[float, ...] | None, spending: str, alpha: float, power: float) -> float:
    def chance(drift: float) -> float:
        if looks is None:
            rules = Rules(interval="anytime", tuned_for=1e6)
            return stopping(rules, alpha, drift, 1e6 * drift**2 / ONE_LOOK).power
        last = looks if isinstance(looks, int) else len(looks)
        rules = Rules(interval="scheduled", looks=looks, look=last, spending=spending)
        return stopping(rules, alpha, drift, 1.0).power

    return _bisected(chance, power, high=2.0 * math.sqrt(ONE_LOOK))


def _bisected(chance: Callable[[float], float], wanted: float, high: float) -> float:
    while chance(high) < wanted:
        high *= 1.5
    low = 0.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance(middle) < wanted else (low, middle)
    return high
