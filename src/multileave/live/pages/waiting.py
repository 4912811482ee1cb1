"""Waiting: how long until a decision, in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from multileave.live.records import Look
from multileave.stats import Verdict

__all__ = ["new_units_per_day", "outlook", "span", "wait"]

DAY = 86_400.0
RECENT = timedelta(days=7)
LEAST = 20.0  # seconds of traffic that a rate is read from
SPANS = ((60.0, "minute"), (3600.0, "hour"), (DAY, "day"), (7 * DAY, "week"), (30.4 * DAY, "month"))


def new_units_per_day(history: Sequence[Look], now: datetime) -> float | None:
    """Return how many new units came per day in about the last week, None where too little is known."""
    if len(history) < 2:
        return None
    earlier = [look for look in history if now - look.at >= RECENT]
    base = earlier[-1] if earlier else history[0]
    seconds = (now - base.at).total_seconds()
    new = history[-1].units - base.units
    return new / seconds * DAY if seconds >= LEAST and new > 0 else None


def span(seconds: float) -> str:
    """Return a duration in words, rounded as one would say it.

    >>> [span(s) for s in (20, 90, 5_000, 100_000, 2_000_000, 1e9)]
    ['under a minute', '2 minutes', '1 hour', '28 hours', '3 weeks', 'over two years']
    """
    if seconds < 45.0:
        return "under a minute"
    if seconds > 2 * 365 * DAY:
        return "over two years"
    length, noun = SPANS[0]
    for size, name in SPANS:
        if seconds >= (1.0 if name == "hour" else 2.0) * size:
            length, noun = size, name
    number = max(round(seconds / length), 1)
    return f"{number} {noun}{'s' if number > 1 else ''}"


def wait(more_units: int, per_day: float) -> str:
    """Return how long so many more units take, in words."""
    return f"about {span(more_units / per_day * DAY)}".replace("about under", "under").replace("about over", "over")


def outlook(verdict: Verdict | None, control: str, unit: str, per_day: float | None) -> str:
    """Return in a sentence or two how long it takes until the rankers are told from the control."""
    if verdict is None:
        return f"The first verdict comes with the second {unit}."
    pairs = [verdict.pair(name, control) for name in verdict.rankers if name != control]
    open_pairs = [pair for pair in pairs if not pair.significant]
    if not open_pairs:
        return f"Every ranker is told from {control}."
    near = {pair.rankers[0]: pair.more_units for pair in open_pairs if pair.more_units is not None}
    far = len(open_pairs) - len(near)
    if not near:
        return (
            f"No decision is in sight: to tell {_rankers(far)} from {control}, over 100 times as many {unit}s "
            "would be needed."
        )
    first = min(near, key=lambda name: near[name])
    most = max(near.values())
    if per_day is None:
        words = f"About {_round(near[first]):,} more {unit}s until {first} is told from {control}"
        words += f", {_round(most):,} until {_rankers(len(near))} are." if len(near) > 1 else "."
        words += f" How long that takes is said once {unit}s have come for a while."
    else:
        words = f"{wait(near[first], per_day).capitalize()} until {first} is told from {control}"
        words += f", {wait(most, per_day)} until {_rankers(len(near))} are" if len(near) > 1 else ""
        words += f", if preferences stay as they are and {_round(per_day):,} new {unit}s come per day."
    if far:
        words += f" {_rankers(far).capitalize()} more would take over 100 times as many {unit}s."
    return words


def _rankers(number: int) -> str:
    return f"{number} ranker{'s' if number > 1 else ''}"


def _round(number: float) -> int:
    digits = max(len(str(int(number))) - 2, 0)
    return max(int(round(number, -digits)), 1)
