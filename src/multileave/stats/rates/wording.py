"""Wording: rates as lines of plain text, for reports and the dashboard."""

from multileave.methods.base import Method
from multileave.stats.rates.records import RankerRate, Rates
from multileave.stats.rates.values import split_action
from multileave.stats.verdict.numbers import decimals_of, fixed, percent

COUNTED = {"click": "clicks", "satisfied": "satisfied clicks"}


def counted(action: str) -> str:
    """Return what a rate counts for an action.

    >>> counted("click"), counted("purchase"), counted("purchase:value")
    ('clicks', 'purchase events', 'purchase value')
    """
    base, valued = split_action(action)
    return f"{base} value" if valued else COUNTED.get(action, f"{action} events")


def note_on(rates: Rates | None, method: Method) -> str:
    """Return why rates are missing or too imprecise to act on, and what to do; empty if they are fine.

    >>> from multileave.methods import get_method
    >>> note_on(None, get_method("dpm"))
    'No rates yet: fewer than two units have impressions whose propensities are known.'
    """
    if rates is None:
        few = "fewer than two units have impressions whose propensities are known."
        return f"No rates: {method.rates_advice}" if method.rates_advice else f"No rates yet: {few}"
    if rates.precise:
        return ""
    return f"Too imprecise to act on. {method.rates_advice or 'More impressions make rates more precise.'}"


def lines(rates: Rates, what: str = "clicks") -> list[str]:
    """Return a line for each ranker; what: what is counted."""
    return [f"{rate.ranker} alone: {rate_words(rates, rate, what)}" for rate in rates.rankers]


def rate_words(rates: Rates, rate: RankerRate, what: str = "clicks") -> str:
    """Return "0.43 clicks per page, +6 %, 95 % CI 2 to 10"; for the control, the interval of its rate.

    If the interval is too wide to act on, it stands alone, so that nobody reads an estimate that could be anything.
    """
    decimals = decimals_of(rate.low, rate.high)
    words, low, high = (fixed(value, decimals) for value in (rate.rate, rate.low, rate.high))
    words = f"{words} {what} per page" if rate.precise else f"between {low} and {high} {what} per page"
    interval = f"{percent(rates.confidence)} CI"
    valid = ", valid at any time" if rates.anytime else ""
    if rate.difference is None:
        return f"{words}, {interval} {low} to {high}{valid}" if rate.precise else f"{words} ({interval}{valid})"
    if rate.lift is None or rate.lift_low is None or rate.lift_high is None:
        return f"{words} ({interval}{valid}), no lift yet as {rates.control}'s rate could be 0"
    places = max(decimals_of(100.0 * rate.lift_low, 100.0 * rate.lift_high) - 1, 0)
    mean, low, high = (fixed(100.0 * value, places) for value in (rate.lift, rate.lift_low, rate.lift_high))
    if not rate.precise:
        return f"{words}, lift between {low} and {high} % ({interval}{valid})"
    sign = "" if mean.startswith("-") else "+"
    return f"{words}, {sign}{mean} %, {interval} {low} to {high}{valid}"
