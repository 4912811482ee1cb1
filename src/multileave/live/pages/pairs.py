"""Pairs: a verdict as rows of a forest plot, a matrix, curves over time, and a table of all statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from markupsafe import Markup

from multileave.live.pages.forecast import waiting
from multileave.live.pages.svg import Point, Scale, curve, forest_axis, forest_strip, scale_of
from multileave.live.records import Look, LookPair
from multileave.stats import PairVerdict, Verdict
from multileave.stats.verdict.wording import cells

MOST_DRAWN = 12  # rankers on the page that refreshes itself; a separate page shows all
MOST_LOOKS = 40


@dataclass(frozen=True)
class PairRow:
    """A row of the forest plot: the first ranker against the second."""

    first: str
    second: str
    kind: str
    strip: Markup
    preference: str
    low: str
    high: str
    p: str
    share: str
    words: str


@dataclass(frozen=True)
class Forest:
    """The pairs with the control, the other pairs, and the axis below them."""

    against_control: tuple[PairRow, ...]
    others: tuple[PairRow, ...]
    axis: Markup


@dataclass(frozen=True)
class Cell:
    """A cell of the matrix: how much the ranker of the row is preferred to that of the column."""

    text: str
    shade: str
    significant: bool


@dataclass(frozen=True)
class Curves:
    """Preferences over time against the control: a panel per ranker, and a table of them all."""

    panels: tuple[tuple[str, str, Markup], ...]
    rows: tuple[tuple[datetime, int, tuple[str, ...]], ...]
    looks: int


def drawn_rankers(verdict: Verdict, control: str, most: int = MOST_DRAWN) -> tuple[str, ...]:
    """Return the rankers to draw, best first: the most preferred ones and the control."""
    best = [name for name in verdict.copeland if name != control][: most - 1]
    return tuple(name for name in verdict.copeland if name in best or name == control)


def forest_of(verdict: Verdict, control: str, drawn: Sequence[str], per_day: float | None) -> Forest:
    """Return the pairs of some rankers as rows; per_day: new units, for how long a pair stays open."""
    others = [name for name in drawn if name != control]
    against = [verdict.pair(name, control) for name in others]
    between = [verdict.pair(first, second) for n, first in enumerate(others) for second in others[n + 1 :]]
    between = [pair if pair.preference >= 0.0 else pair.reversed for pair in between]
    rows, axis = rows_of(verdict, (*against, *between), per_day)
    return Forest(rows[: len(against)], rows[len(against) :], axis)


def rows_of(
    verdict: Verdict, pairs: Sequence[PairVerdict], per_day: float | None = None
) -> tuple[tuple[PairRow, ...], Markup]:
    """Return pairs as rows on a common scale, and the axis below them."""
    scale = scale_of([(pair.preference, pair.low, pair.high) for pair in pairs])
    texts = cells(replace(verdict, pairs=tuple(pairs)))
    return tuple(
        _row(pair, text, scale, per_day) for pair, text in zip(pairs, texts, strict=True)
    ), forest_axis(scale)  # fmt: skip


def _row(pair: PairVerdict, text: dict[str, str], scale: Scale, per_day: float | None) -> PairRow:
    if pair.significant:
        words = "significantly better" if pair.preference > 0.0 else "significantly worse"
    else:
        words = "not significant"
        words += "" if per_day is None or pair.more_units is None else f" yet, {waiting([pair], '', per_day)}"
    strip = forest_strip(pair.preference, pair.low, pair.high, scale, _kind(pair))
    return PairRow(
        *pair.rankers,
        _kind(pair),
        strip,
        _signed(text["preference"]),
        _minus(text["low"]),
        _minus(text["high"]),
        text["p_corrected"],
        text["share"],
        words,
    )


def matrix_of(verdict: Verdict, drawn: Sequence[str]) -> list[tuple[str, list[Cell | None]]]:
    """Return each ranker with its cells against all others, None against itself."""
    pairs = {(n, m): verdict.pair(n, m) for n in drawn for m in drawn if n != m}
    limit = max((abs(pair.preference) for pair in pairs.values()), default=0.0) or 1.0
    keys = list(pairs)
    texts = cells(replace(verdict, pairs=tuple(pairs.values())))
    made = {key: _cell(pairs[key], text["preference"], limit) for key, text in zip(keys, texts, strict=True)}
    return [(n, [made.get((n, m)) for m in drawn]) for n in drawn]


def _cell(pair: PairVerdict, text: str, limit: float) -> Cell:
    part = abs(pair.preference) / limit
    strength = 0 if part < 0.02 else 1 if part < 0.34 else 2 if part < 0.67 else 3
    side = "even" if not strength else f"{'up' if pair.preference > 0 else 'down'}-{strength}"
    return Cell(_signed(text), side, pair.significant)


def all_statistics(verdict: Verdict) -> tuple[list[str], list[list[str]]]:
    """Return the names of all statistics of a pair, and a row of them for each pair."""
    rows = [pair.to_dict() for pair in verdict.pairs]
    names = [name for name in rows[0] if name != "rankers"]
    return names, [[" over ".join(row["rankers"]), *(_statistic(row[name]) for name in names)] for row in rows]


def _statistic(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else "yes" if value else "no"
    return _minus(f"{value:.4g}") if isinstance(value, float) else str(value)


def curves_of(history: Sequence[Look], verdict: Verdict, control: str, drawn: Sequence[str]) -> Curves | None:
    """Return the curves of rankers against the control, None with fewer than two looks."""
    if len(history) < 2:
        return None
    chosen = _spread(history, MOST_LOOKS)
    others = [name for name in drawn if name != control]
    lines = {name: [_point(look, name, control) for look in chosen] for name in others}
    settled = [point for line in lines.values() for point in line[len(line) // 4 :] if point is not None]
    values = scale_of([(point.preference, point.low, point.high) for point in settled])
    moments = Scale(chosen[0].at.timestamp(), max(chosen[-1].at.timestamp(), chosen[0].at.timestamp() + 1.0))
    panels = []
    for name, line in lines.items():
        kind = _kind(verdict.pair(name, control))
        panels.append((name, kind, curve([point for point in line if point is not None], moments, values, kind)))
    rows = tuple(
        (look.at, look.units, tuple(_spelled(lines[name][n]) for name in others)) for n, look in enumerate(chosen)
    )  # fmt: skip
    return Curves(tuple(panels), rows, len(history))


def with_current(history: Sequence[Look], verdict: Verdict, at: datetime) -> list[Look]:
    """Return the stored looks and the current preferences; looks are stored ever more rarely."""
    pairs = tuple(LookPair(pair.rankers, pair.preference, pair.low, pair.high) for pair in verdict.pairs)
    return [*history, Look(at, verdict.impressions, verdict.units, pairs)]


def _spread(history: Sequence[Look], most: int) -> list[Look]:
    """Return at most this many looks, evenly spread, with the first and the last."""
    if len(history) <= most:
        return list(history)
    return [history[round(n * (len(history) - 1) / (most - 1))] for n in range(most)]


def _point(look: Look, name: str, control: str) -> Point | None:
    for pair in look.pairs:
        if pair.rankers == (name, control):
            return Point(look.at.timestamp(), pair.preference, pair.low, pair.high)
        if pair.rankers == (control, name):
            return Point(look.at.timestamp(), -pair.preference, -pair.high, -pair.low)
    return None


def _kind(pair: PairVerdict) -> str:
    return "open" if not pair.significant else "up" if pair.preference > 0.0 else "down"


def _spelled(point: Point | None) -> str:
    if point is None:
        return "none yet"
    return _minus(f"{point.preference:+.3g} ({point.low:.3g} to {point.high:.3g})")


def _signed(number: str) -> str:
    return _minus(number if number.startswith("-") or not float(number) else f"+{number}")


def _minus(number: str) -> str:
    return number.replace("-", "−")
