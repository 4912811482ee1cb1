"""Forecast: how long until differences become significant, in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from multileave.live.definition import Definition
from multileave.live.records import Look
from multileave.stats import PairVerdict, Verdict
from multileave.stats.planning import two_digits, units_in_words
from multileave.stats.verdict.wording import range_needed

DAY = 86_400.0
RECENT = timedelta(days=7)
LEAST = DAY  # of traffic that a rate needs: nights and days differ, and seconds say nothing about either
DURATIONS = ((60.0, "minute"), (3600.0, "hour"), (DAY, "day"), (7 * DAY, "week"), (30.4 * DAY, "month"))


def new_units_per_day(looks: Sequence[Look], now: datetime) -> float | None:
    """Return the number of new units per day over about the last week, None with less than a day of traffic."""
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


def wait(low: int, high: int | None, per_day: float) -> str:
    """Describe the time until a number of units in this range have arrived; high is None if there is no end.

    >>> wait(300, 2_000, 100.0), wait(300, None, 100.0), wait(10**6, None, 100.0), wait(1, 1, 1e6)
    ('3 days to 3 weeks', 'at least 3 days', 'over two years', 'under a minute')
    """
    first = duration(low / per_day * DAY)
    last = None if high is None else duration(high / per_day * DAY)
    if first == last or first.startswith("over"):
        return f"about {first}".replace("about under", "under").replace("about over", "over")
    if last is None:
        return f"at least {first}".replace("at least under", "over")
    return f"up to {last}" if first.startswith("under") else f"{first} to {last}"


def waiting(pairs: Sequence[PairVerdict], unit: str, per_day: float | None) -> str:
    """Describe how long it takes until all these pairs are significant, in units if their rate is not known."""
    found = range_needed(pairs)
    if found is None:
        return ""
    return f"{units_in_words(*found)} more {unit}s" if per_day is None else wait(*found, per_day)


def schedule(definition: Definition, verdict: Verdict | None, units: int) -> str:
    """Return which scheduled look the verdict is, and when the next is; empty if looks are not scheduled."""
    looks = definition.looks
    if not looks:
        return ""
    done = definition.look_at(0 if verdict is None else verdict.units)
    if done == len(looks):
        return f"This is the last of {done} scheduled looks; later {definition.unit}s do not change it."
    words = f"The verdict is that of look {done} of {len(looks)}. " if done else ""
    return f"{words}The next look is at {looks[done]:,} {definition.unit}s; there are {units:,}."


def forecast(verdict: Verdict | None, control: str, unit: str, per_day: float | None) -> str:
    """Return how long it takes until the rankers differ significantly from the control."""
    if verdict is None:
        return f"A verdict needs at least two {unit}s."
    pairs = [verdict.pair(name, control) for name in verdict.remaining if name != control]
    open_pairs = [pair for pair in pairs if not pair.significant]
    if not open_pairs:
        return f"Every ranker differs significantly from {control}."
    near = [pair for pair in open_pairs if pair.more_units is not None]
    far = len(open_pairs) - len(near)
    if not near:
        return (
            f"No significant difference is in sight: {_rankers(far)} may need over 100 times as many {unit}s to "
            f"differ significantly from {control}."
        )
    first = min(near, key=lambda pair: pair.more_units or 0)
    until = f"until {first.rankers[0]} differs significantly from {control}"
    words = f"{waiting([first], unit, per_day).capitalize()} {until}"
    words += f", {waiting(near, unit, per_day)} until {len(near)} rankers do" if len(near) > 1 else ""
    words += f", if {two_digits(per_day):,} new {unit}s arrive per day." if per_day is not None else "."
    if far:
        words += f" {_rankers(far).capitalize()} more may need over 100 times as many {unit}s."
    return words


def _rankers(number: int) -> str:
    return f"{number} ranker{'s' if number > 1 else ''}"
