"""Wording: a verdict as a sentence and as a table of plain text."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multileave.stats.verdict.verdict import PairVerdict, Verdict

__all__ = ["cells", "evidence", "heading", "sentence", "table"]

NAMES_LISTED = 3  # the sentence counts rankers where there are more than this
HEADERS = ("ranker", "versus", "preference", "low", "high", "p", "corrected", "share", "verdict")


def sentence(verdict: "Verdict") -> str:
    """Return what is decided, by how much, on what evidence, and what is open."""
    if all(pair.preference == pair.low == pair.high == 0.0 for pair in verdict.pairs):
        seen = f"{verdict.impressions:,} impressions" + (f" of {evidence(verdict)}" if _visits(verdict) else "")
        return (
            f"no preference was seen between {_listed(verdict.rankers, 'rankers')} in {seen}: "
            "no clicks, or none that speaks for a ranker"
        )
    wins, leaders = verdict.wins, verdict.leaders
    decided = len(verdict.pairs) - len(verdict.undecided)
    counted = f"; {decided} of {len(verdict.pairs)} pairs decided" if len(verdict.rankers) > 3 else ""
    if not decided:
        return _nothing_decided(verdict) + counted
    if not leaders or not wins[leaders[0]]:
        return (
            f"no ranker leads, as the preferences run in a circle: {decided} of {len(verdict.pairs)} pairs "
            f"decided, {evidence(verdict)}"
        )
    leader = leaders[0]
    beaten = [name for name in verdict.rankers if name in wins[leader]]
    closest = min((verdict.pair(leader, name) for name in beaten), key=lambda pair: pair.preference)
    number = _number(verdict, closest) if len(beaten) == 1 else f"at least {_number(verdict, closest, '; against {1}')}"
    untold = [name for name in verdict.rankers if name != leader and name not in wins[leader]]
    losers = _listed(beaten, "others") if untold or len(beaten) <= NAMES_LISTED else f"all {len(beaten)} others"
    words = f"{leader} is preferred to {losers}: {number}, {evidence(verdict)}"
    if untold:
        open_pairs = [verdict.pair(leader, name) for name in untold]
        words += f"; {_listed(untold, 'others')} cannot be told from {leader} yet{_needed(verdict, open_pairs)}"
    return words + counted


def _nothing_decided(verdict: "Verdict") -> str:
    widest = max(verdict.pairs, key=lambda pair: abs(pair.preference))
    widest = widest if widest.preference >= 0 else widest.reversed
    if len(verdict.rankers) == 2:
        upper, lower = widest.rankers
        return (
            f"{upper} cannot be told from {lower} yet: {_number(verdict, widest)}, {evidence(verdict)}"
            f"{_needed(verdict, [widest])}"
        )
    return (
        f"{_listed(verdict.rankers, 'rankers')} cannot be told apart yet: at most "
        f"{_number(verdict, widest, '; {} over {}')}, {evidence(verdict)}{_needed(verdict, [widest])}"
    )


def _needed(verdict: "Verdict", pairs: "Sequence[PairVerdict]") -> str:
    """Return how many more users it takes to tell all these pairs apart, if that is in sight."""
    if verdict.health is None:
        return ""
    needed = [pair.more_units for pair in pairs]
    if any(more is None for more in needed):
        return "" if len(pairs) > 1 else f", over 100 times as many {_noun(verdict)} needed"
    most = max(more for more in needed if more is not None)
    digits = max(len(str(most)) - 2, 0)
    return f", about {max(round(most, -digits), 1):,} more {_noun(verdict)} needed"


def heading(verdict: "Verdict") -> str:
    """Return what the numbers of the table are."""
    correction = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "no correction"}[verdict.rules.correction]
    together = ", simultaneous" if verdict.rules.simultaneous else ""
    valid = ", valid at any time" if verdict.anytime else ""
    return (
        f"mean preference per impression, {_percent(verdict.confidence)} CI{together}{valid}, {correction}, "
        f"{evidence(verdict)}"
    )


def cells(verdict: "Verdict") -> list[tuple[str, ...]]:
    """Return the cells of the table, a row for each pair."""
    decimals = max((_decimals(pair) for pair in verdict.pairs if pair.high > pair.low), default=3)
    rows = []
    for pair in verdict.pairs:
        numbers = (_fixed(x, decimals) for x in (pair.preference, pair.low, pair.high))
        upper, lower = pair.rankers if pair.preference > 0 else pair.rankers[::-1]
        rows.append(
            (*pair.rankers, *numbers, _probability(pair.p), _probability(pair.p_corrected), f"{100 * pair.share:.1f} %",
             f"{upper} > {lower}" if pair.significant else "open")
        )  # fmt: skip
    return rows


def table(verdict: "Verdict") -> str:
    """Return the pairs as aligned lines, and the warnings."""
    rows = [HEADERS, *cells(verdict)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if 2 <= column <= 7 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([heading(verdict), *lines, *(f"warning: {warning}" for warning in verdict.warnings)])


def evidence(verdict: "Verdict") -> str:
    """Return how many users, or impressions where each is its own, stand behind a verdict."""
    return f"{verdict.units if _visits(verdict) else verdict.impressions:,} {_noun(verdict)}"


def _noun(verdict: "Verdict") -> str:
    return "users" if _visits(verdict) else "impressions"


def _visits(verdict: "Verdict") -> bool:
    """Return whether some unit has more than one impression."""
    return verdict.units < verdict.impressions


def _number(verdict: "Verdict", pair: "PairVerdict", remark: str = "") -> str:
    decimals = _decimals(pair)
    low, high = _fixed(pair.low, decimals), _fixed(pair.high, decimals)
    mean = _fixed(pair.preference, decimals)
    sign = "" if mean.startswith("-") else "+"
    valid = ", valid at any time" if verdict.anytime else ""
    return (
        f"{sign}{mean} per impression ({_percent(verdict.confidence)} CI {low} to {high}{valid}"
        f"{remark.format(*pair.rankers)})"
    )


def _listed(names: Sequence[str], noun: str) -> str:
    if len(names) > NAMES_LISTED:
        return f"{len(names)} {noun}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _decimals(pair: "PairVerdict") -> int:
    """Return as many decimals as show two digits of the interval's half width."""
    half = (pair.high - pair.low) / 2
    if half <= 0.0:
        return 3
    return min(max(1 - math.floor(math.log10(half)), 0), 12)


def _fixed(value: float, decimals: int) -> str:
    return f"{round(value, decimals) + 0.0:.{decimals}f}"


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g} %"


def _probability(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"
