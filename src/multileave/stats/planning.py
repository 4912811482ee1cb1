"""Planning: how many users it takes to detect a difference, and with what power.

The mean preference of U units has the standard error D / sqrt(U). The power to detect a difference of size delta is the
probability that a normal variable with mean delta sqrt(U) / D exceeds the interval's quantile (with few units: that
noncentral t exceeds the quantile of t). If an experiment may stop early, it is the probability of significance at any
look (`stopping`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import Floats
from multileave.stats.intervals.clustered import t_quantile
from multileave.stats.intervals.confidence_sequence import boundary
from multileave.stats.intervals.group_sequential import boundaries
from multileave.stats.intervals.moments import Moments, pair_positions
from multileave.stats.stopping import drift_for, stopping, tuned_to
from multileave.stats.verdict.rules import Rules, is_number

if TYPE_CHECKING:
    from multileave.stats.tally.tally import Tally

POWER = 0.8
MOST_UNITS = 10**12
MANY_LOOKS = ("anytime", "scheduled")
AB_FIGURES = ("effect", "units", "impressions", "units_low", "units_high", "expected_units")  # of an A/B test
ONE_ERROR = 0.15865525393145707  # a normal variable exceeds its mean by one standard deviation this often


@dataclass(frozen=True)
class Design:
    """What one more unit contributes for a pair of rankers.

    deviation: D, the standard error of the mean preference per impression times sqrt(U).
    impressions: the mean number of impressions of a unit.
    clock: the variance that a unit adds, in units of a single impression's.
    effective: the effective sample size per unit, (sum n_u)^2 / sum n_u^2 / U.
    """

    deviation: float
    impressions: float = 1.0
    clock: float = 1.0
    effective: float = 1.0

    @classmethod
    def assumed(
        cls, deviation: float, impressions: float = 1.0, *, correlation: float = 0.1, spread: float = 0.0
    ) -> "Design":
        """Return the design for an assumed standard deviation of a single impression's preference.

        impressions: the mean per unit, n. spread: the standard deviation of that number, divided by its mean.
        correlation: between two impressions of one unit, r. Then

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
            if not is_number(value) or not least <= value <= most or (value == 0.0 and name == "standard deviation"):
                above = "above 0" if name == "standard deviation" else f"from {least:g} to {most:g}"
                raise TallyError(f"The {name} is {value!r}; expected a number {above}.")
        per_unit = (1.0 - correlation) / impressions + correlation * (1.0 + spread**2)
        return cls(
            deviation * math.sqrt(per_unit), impressions, per_unit * impressions**2, 1.0 / (1.0 + spread**2)
        )  # fmt: skip

    @classmethod
    def of_moments(cls, moments: Moments) -> "list[Design | None]":
        """Return the design of each pair as found in a tally; None if nothing varies."""
        visits = moments.impressions / moments.units
        deviations = moments.errors * math.sqrt(moments.units)
        return [
            cls(deviation, visits, clock / moments.units, moments.effective / moments.units) if deviation > 0 else None
            for deviation, clock in zip(deviations.tolist(), moments.clocks.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Plan:
    """How many units it takes; `str()` is a sentence.

    effect: the difference to detect, in mean preference per impression.
    units, impressions: how many it takes. comparisons: the number of pairs to correct for (Bonferroni).
    tuned_for: with any number of looks, what `Tally.verdict` and a service's experiment are to be told.
    looks, spending: with scheduled looks, as in `Tally.verdict`. expected_units: if an experiment may stop early, the
        mean number of units when it does, or has reached `units`, if the preference is as large as planned.
    units_low, units_high: if the effect is a tally's own estimate, how many it takes if the true preference is one
        standard error larger or smaller; units_high is None if that is no preference, or takes too many to plan for.
    ab: what an A/B test of all rankers would take for the same pair, by metric, as far as is known; its effect is the
        difference of the metric per page.
    """

    effect: float
    units: int
    impressions: int
    confidence: float
    power: float
    interval: str
    comparisons: int
    design: Design
    units_low: int | None = None
    units_high: int | None = None
    tuned_for: int | None = None
    looks: int | tuple[float, ...] | None = None
    spending: str | None = None
    expected_units: int | None = None
    ab: "Mapping[str, Plan]" = field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        """The rules of the verdict that was planned, at its last look."""
        return _rules(self.confidence, self.interval, self.tuned_for, self.looks, self.spending)

    @property
    def when(self) -> str:
        """When one may look, in words."""
        if self.interval == "scheduled":
            return f"{len(self.rules.fractions)} scheduled looks"
        return "any number of looks" if self.interval == "anytime" else "one look at the end"

    @property
    def range(self) -> str:
        """The range of units in words, empty if the effect was given."""
        return "" if self.units_low is None else units_in_words(self.units_low, self.units_high)

    def __str__(self) -> str:
        stop = f"; {self.expected_units:,} on average, as it may stop early" if self.expected_units else ""
        stop += f"; tuned_for={self.tuned_for}" if self.tuned_for else ""
        pairs = f", {self.comparisons} pairs (Bonferroni)" if self.comparisons > 1 else ""
        who = f"{self.units:,} users ({self.impressions:,} impressions)"
        if self.design.impressions == 1.0:
            who = f"{self.units:,} users or impressions"
        if self.range:
            who += f", {self.range} if the true preference is within one standard error,"
        return (
            f"about {who} to detect a preference of {self.effect:g} per impression with {100 * self.power:g} % power "
            f"at {100 * self.confidence:g} % confidence, with {self.when}{pairs}{stop}"
        )

    def curve(self, points: int = 60) -> list[tuple[int, float]]:
        """Return (units, power) from a tenth of the units to three times as many."""
        units = np.unique(np.geomspace(max(self.units / 10, 2), max(3 * self.units, 10), points).round().astype(int))
        return [(n, power(self.design, self.effect, n, self.rules, self.comparisons)) for n in units.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values that JSON can hold."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("design", "ab")},
            "impressions_per_unit": self.design.impressions,
            "deviation": self.design.deviation,
            "curve": [{"units": units, "power": chance} for units, chance in self.curve()],
            "ab": {
                metric: {**{name: getattr(other, name) for name in AB_FIGURES}, "times": other.units / self.units}
                for metric, other in self.ab.items()
            },
        }


def power(design: Design, effect: float, units: float, rules: Rules, comparisons: int = 1) -> float:
    """Return the probability that a difference of this size is significant with that many units.

    >>> round(power(Design(1.0), 0.1, 785, Rules()), 3)
    0.799
    """
    from scipy.special import nctdtr, ndtr

    alpha = (1.0 - rules.confidence) / comparisons
    freedom = max(design.effective * units - 1.0, 1.0)
    shift = abs(effect) * math.sqrt(units) / design.deviation
    if rules.interval in MANY_LOOKS:
        return stopping(rules, alpha, shift, design.clock * units).power
    critical = float(t_quantile(alpha / 2.0, freedom))
    if freedom < 1000.0 and shift < 30.0:
        # Far from 0 SciPy has NaN for the lower tail, which is then below 1e-5.
        lower = np.nan_to_num(nctdtr(freedom, shift, -critical))
        return float(1.0 - nctdtr(freedom, shift, critical) + lower)
    return float(ndtr(shift - critical) + ndtr(-shift - critical))


def plan(
    design: Design,
    effect: float,
    *,
    confidence: float = 0.95,
    power: float = POWER,
    interval: str = "clustered",
    comparisons: int = 1,
    looks: int | tuple[float, ...] | None = None,
    spending: str | None = None,
) -> Plan:
    """Return how many units it takes to detect a preference of this size per impression.

    looks, spending: of interval="scheduled", as in `Tally.verdict`. With interval="anytime", the plan is for a verdict
    that is tuned for it: pass its `tuned_for` on.

    >>> print(plan(Design(1.0), 0.1))
    about 787 users or impressions to detect a preference of 0.1 per impression with 80 % power at 95 % confidence,
    with one look at the end
    """
    if not is_number(effect) or effect == 0.0:
        raise TallyError(
            f"The effect is {effect!r}; expected the preference per impression to detect, a number other than 0. "
            "Choose the smallest difference that would matter."
        )
    if not is_number(power) or not 0.05 < power < 1.0:
        raise TallyError(f"The power is {power!r}; expected a number between 0.05 and 1, such as 0.8.")
    if isinstance(comparisons, bool) or not isinstance(comparisons, int) or comparisons < 1:
        raise TallyError(f"The number of comparisons is {comparisons!r}; expected a number of pairs, at least 1.")
    rules = _rules(confidence, interval, None, looks, spending)
    if power <= (1.0 - rules.confidence) / comparisons:
        raise TallyError(f"The power is {power!r}, no more than the significance level. Choose more, such as 0.8.")
    units = _fewest(design, abs(effect), power, rules, comparisons)
    if units is None:
        raise TallyError(
            f"A preference of {effect:g} per impression takes more than {MOST_UNITS:g} users to detect, as the "
            f"standard deviation of a user's mean is {design.deviation:g}. Choose a larger effect."
        )
    impressions = math.ceil(units * design.impressions)
    made = Plan(abs(effect), units, impressions, rules.confidence, power, interval, comparisons, design)
    if interval not in MANY_LOOKS:
        return made
    drift = abs(effect) * math.sqrt(units) / design.deviation
    if interval == "scheduled":
        made = replace(made, looks=looks, spending=rules.spending)
    else:
        made = replace(made, tuned_for=math.ceil(tuned_to(drift, design.clock * units)))
    alpha = (1.0 - rules.confidence) / comparisons
    ended = stopping(made.rules, alpha, drift, design.clock * units)
    return replace(made, expected_units=math.ceil(ended.share * units))


def _rules(
    confidence: float,
    interval: str,
    tuned_for: int | None,
    looks: int | tuple[float, ...] | None,
    spending: str | None,
) -> Rules:
    """Return the rules of a plan, at its last look."""
    last = looks if isinstance(looks, int) or looks is None else len(looks)
    rules = Rules(confidence, interval, tuned_for=tuned_for, looks=looks, look=last)
    return rules if spending is None else replace(rules, spending=spending)


def plan_pairs(
    tally: "Tally",
    effect: float | None = None,
    *,
    pair: tuple[str, str] | None = None,
    comparisons: int | None = None,
    lift: float | None = None,
    **options: Any,
) -> list[tuple[tuple[str, str], Plan]]:
    """Return a plan for each pair of a tally whose preferences vary, by the number of units.

    effect: the preference to detect; by default the one each pair has. pair: plan for these two rankers only.
    comparisons: the number of pairs to correct for, by default all of the tally's. options: of `plan`.
    lift: what an A/B test on clicks is to detect, 0.02 for 2 %; by default the difference of the pair's rates, if the
        tally has them (see `ab_planning`).
    """
    from multileave.stats.ab_planning import plan_ab

    tally.check_units("a plan")
    moments = tally.moments()
    if pair is not None:
        tally.verdict().pair(*pair)  # raises an error if it names no two rankers of the tally
    found, without = [], []
    comparisons = len(moments.totals) if comparisons is None else comparisons
    first, second = pair_positions(len(tally.rankers))
    errors = one_error(moments).tolist()
    pairs = zip(first, second, Design.of_moments(moments), moments.means.tolist(), errors, strict=True)
    for n, m, design, mean, error in pairs:
        names = (tally.rankers[n], tally.rankers[m])
        if pair is not None and set(pair) != set(names):
            continue
        size = mean if effect is None else effect
        if design is None or size == 0.0:
            without.append(" and ".join(names))
        else:
            made = plan(design, size, comparisons=comparisons, **options)
            if effect is None:
                made = with_range(made, error * design.deviation / math.sqrt(moments.units))
            ab = plan_ab(tally, int(n), int(m), lift, comparisons=comparisons, **options)
            found.append((names, made if ab is None else replace(made, ab={"clicks": ab})))
    if not found:
        raise TallyError(
            f"The tally's {moments.impressions:,} impressions show no preference between {'; '.join(without)}, so the "
            "variance of preferences is unknown. Check that clicks are logged, or plan from an assumed effect and "
            "standard deviation."
        )
    return sorted(found, key=lambda one: one[1].units)


def with_range(made: Plan, error: float) -> Plan:
    """Return a plan with the range of units that an error of its effect causes."""
    wanted = made.power, made.rules, made.comparisons
    low = _fewest(made.design, made.effect + error, *wanted)
    high = _fewest(made.design, made.effect - error, *wanted) if made.effect > error else None
    return replace(made, units_low=low, units_high=high)


def one_error(moments: Moments) -> Floats:
    """Return how many estimated standard errors are as likely as one that is known, (P,): 1 with many units.

    >>> few, many = (Moments(n, n, float(n), *[np.ones(1)] * 5) for n in (5, 5000))
    >>> one_error(few).round(2), one_error(many).round(2)
    (array([1.14]), array([1.]))
    """
    errors: Floats = t_quantile(ONE_ERROR, moments.freedom)
    return errors


def units_in_words(low: int, high: int | None) -> str:
    """Return a range of units, rounded to two digits; high is None if there is no end.

    >>> units_in_words(2_968, 40_321), units_in_words(2_968, None), units_in_words(2_968, 2_991)
    ('about 3,000 to 40,000', 'at least 3,000', 'about 3,000')
    """
    if high is None:
        return f"at least {two_digits(low):,}"
    low, high = two_digits(low), two_digits(high)
    return f"about {low:,} to {high:,}" if low < high else f"about {low:,}"


def two_digits(number: float) -> int:
    """Return a number rounded to two digits, at least 1."""
    return max(int(round(number, -max(len(str(int(number))) - 2, 0))), 1)


def units_to_decide(moments: Moments, rules: Rules, comparisons: int, errors: "Floats | float" = 0.0) -> Floats:
    """Return about how many units in all it takes until each preference, (P,), is significant if it stays as large.

    With the current variance and 80 % power at the last look alone; infinite if there is no preference. errors: so
    many standard errors are added to the preference's size, or taken away.
    """
    from scipy.special import ndtri

    alpha = (1.0 - rules.confidence) / comparisons
    ratios = np.full_like(moments.totals, np.inf)  # standard error with one unit, over the preference
    deviations = np.sqrt(moments.variances)
    sizes = np.abs(moments.totals) + errors * deviations
    seen = (sizes > 0.0) & (moments.variances > 0.0)
    np.divide(deviations * math.sqrt(moments.units), sizes, out=ratios, where=seen)
    chance = float(ndtri(POWER))
    critical = np.full_like(ratios, -float(ndtri(alpha / 2.0)))
    needed = (ratios * (critical + chance)) ** 2
    if rules.interval == "scheduled":
        last = boundaries(rules.fractions, alpha, rules.spending)[-1]
        return (ratios * (last + chance)) ** 2
    if rules.interval == "anytime":
        per_unit = np.maximum(moments.clocks, 1e-300) / moments.units  # so that none is infinitely many times 0
        for _ in range(60):  # damped, as early on the boundary falls as fast as units are added
            clocks = np.clip(needed * per_unit, 1e-3, 1e30)
            step = ratios * (boundary(clocks, alpha, rules.tuned_for) + chance)
            needed = np.sqrt(needed) * step
    return needed


def _fewest(design: Design, effect: float, wanted: float, rules: Rules, comparisons: int) -> int | None:
    """Return the least number of units with this power, which increases with units except for the first few."""
    if rules.interval in MANY_LOOKS:
        drift = drift_for(rules, (1.0 - rules.confidence) / comparisons, wanted)
        units = (drift * design.deviation / effect) ** 2
        return max(math.ceil(units), 2) if units <= MOST_UNITS else None
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
