"""Wording: rates as lines of plain text, for reports and the dashboard."""

from multileave.stats.rates.records import RankerRate, Rates
from multileave.stats.verdict.numbers import decimals_of, fixed, percent

COUNTED = {"click": "clicks", "satisfied": "satisfied clicks"}


def counted(action: str) -> str:
    """Return what a rate counts for an action."""
    return COUNTED.get(action, f"{action} events")


def lines(rates: Rates, what: str = "clicks") -> list[str]:
    """Return a line for each ranker; what: what is counted."""
    return [f"{rate.ranker} alone: {rate_words(rates, rate, what)}" for rate in rates.rankers]


def rate_words(rates: Rates, rate: RankerRate, what: str = "clicks") -> str:
    """Return "0.43 clicks per page, +6 %, 95 % CI 2 to 10"; for the control, the interval of its rate."""
    decimals = decimals_of(rate.low, rate.high)
    words = f"{fixed(rate.rate, decimals)} {what} per page"
    valid = ", valid at any time" if rates.anytime else ""
    if rate.difference is None:
        low, high = fixed(rate.low, decimals), fixed(rate.high, decimals)
        return f"{words}, {percent(rates.confidence)} CI {low} to {high}{valid}"
    if rate.lift is None or rate.lift_low is None or rate.lift_high is None:
        return f"{words}, no lift yet as {rates.control}'s rate could be 0"
    places = max(decimals_of(100.0 * rate.lift_low, 100.0 * rate.lift_high) - 1, 0)
    mean, low, high = (fixed(100.0 * value, places) for value in (rate.lift, rate.lift_low, rate.lift_high))
    sign = "" if mean.startswith("-") else "+"
    return f"{words}, {sign}{mean} %, {percent(rates.confidence)} CI {low} to {high}{valid}"
