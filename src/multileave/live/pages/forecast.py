"""Forecast: how long until differences become significant, in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from multileave.live.records import Look
from multileave.stats import Verdict

DAY = 86_400.0
RECENT = timedelta(days=7)
LEAST = 20.0  # seconds of traffic that a rate needs
DURATIONS = ((60.0, "minute"), (3600.0, "hour"), (DAY, "day"), (7 * DAY, "week"), (30.4 * DAY, "month"))


def new_units_per_day(looks: Sequence[Look], now: datetime) -> float | None:
    """Return the number of new units per day over about the last week, None if too little is known."""
    if len(looks) < 2:
        return None
    earlier = [look for look in looks if now - look.at >= RECENT]
    base = earlier[-1] if earlier else looks[0]
    seconds = (now - base.at).total_seconds()
    new = looks[-1].units - base.units
    return new / seconds * DAY if seconds >= LEAST and new > 0 else None


def duration(seconds: float) -> str:
    """Return a duration in words, rounded as one would say it.

    >>> [duration(s) for s in (20, 90, 5_000, 100_000, 2_000_000, 1e9)]
    ['under a minute', '2 minutes', '1 hour', '28 hours', '3 weeks', 'over two years']
    """
    if seconds < 45.0:
        return "under a minute"
    if seconds > 2 * 365 * DAY:
        return "over two years"
    length, noun = DURATIONS[0]
    for size, name in DURATIONS:
        if seconds >= (1.0 if name == "hour" else 2.0) * size:
            length, noun = size, name
    number = max(round(seconds / length), 1)
    return f"{number} {noun}{'s' if number > 1 else ''}"


def wait(more_units: int, per_day: float) -> str:
    """Describe the time until this many more units have arrived."""
    return f"about {duration(more_units / per_day * DAY)}".replace("about under", "under").replace("about over", "over")


def forecast(verdict: Verdict | None, control: str, unit: str, per_day: float | None) -> str:
    """Return how long it takes until the rankers differ significantly from the control."""
    if verdict is None:
        return f"A verdict needs at least two {unit}s."
    pairs = [verdict.pair(name, control) for name in verdict.rankers if name != control]
    open_pairs = [pair for pair in pairs if not pair.significant]
    if not open_pairs:
        return f"Every ranker differs significantly from {control}."
    near = {pair.rankers[0]: pair.more_units for pair in open_pairs if pair.more_units is not None}
    far = len(open_pairs) - len(near)
    if not near:
        return (
            f"No significant difference is in sight: {_rankers(far)} would need over 100 times as many {unit}s to "
            f"differ significantly from {control}."
        )
    first = min(near, key=lambda name: near[name])
    most = max(near.values())
    if per_day is None:
        words = f"About {_round(near[first]):,} more {unit}s until {first} differs significantly from {control}"
        words += f", {_round(most):,} until {len(near)} rankers do." if len(near) > 1 else "."
    else:
        words = f"{wait(near[first], per_day).capitalize()} until {first} differs significantly from {control}"
        words += f", {wait(most, per_day)} until {len(near)} rankers do" if len(near) > 1 else ""
        words += f", if preferences stay the same and {_round(per_day):,} new {unit}s arrive per day."
    if far:
        words += f" {_rankers(far).capitalize()} more would need over 100 times as many {unit}s."
    return words


def _rankers(number: int) -> str:
    return f"{number} ranker{'s' if number > 1 else ''}"


def _round(number: float) -> int:
    digits = max(len(str(int(number))) - 2, 0)
    return max(int(round(number, -digits)), 1)
