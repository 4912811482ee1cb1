"""Wording: a verdict as a sentence and as a table in plain text."""

from collections.abc import Sequence
from dataclasses import fields

from multileave.stats.planning import units_in_words
from multileave.stats.verdict.numbers import decimals_of, fixed, percent
from multileave.stats.verdict.verdict import PairVerdict, Verdict

NAMES_LISTED = 3  # with more rankers than this, the sentence counts them
CORRECTED = {
    "holm": "Holm",
    "max-t": "max-t",
    "bh": "Benjamini-Hochberg",
    "by": "Benjamini-Yekutieli",
    "none": "no correction",
}
COLUMNS = {one.name: one.metadata["column"] for one in fields(PairVerdict) if one.metadata["column"]}
HEADERS = ("ranker", "versus", *(heading for heading, _ in COLUMNS.values()), "verdict")


def sentence(verdict: Verdict) -> str:
    """Return what is significant, by how much, on what evidence, and what is still open."""
    if all(pair.preference == pair.low == pair.high == 0.0 for pair in verdict.pairs):
        seen = f"{verdict.impressions:,} impressions" + (f" of {evidence(verdict)}" if _visits(verdict) else "")
        return (
            f"No preference between {_listed(verdict.rankers, 'rankers')} in {seen}: there are no clicks, or none "
            "favours a ranker"
        )
    wins, leaders = verdict.wins, verdict.leaders
    significant = sum(pair.significant for pair in verdict.pairs)
    counted = f"; {significant} of {len(verdict.pairs)} pairs significant" if len(verdict.rankers) > 3 else ""
    counted += f"; {_listed(verdict.dropped, 'rankers')} dropped" if verdict.dropped else ""
    if not significant:
        return _none_significant(verdict) + counted
    if not leaders or not wins[leaders[0]]:
        return (
            f"No ranker leads because the preferences form a cycle: {significant} of {len(verdict.pairs)} pairs "
            f"significant, {evidence(verdict)}"
        )
    leader = leaders[0]
    beaten = [name for name in verdict.rankers if name in wins[leader]]
    closest = min((verdict.pair(leader, name) for name in beaten), key=lambda pair: pair.preference)
    number = _number(verdict, closest) if len(beaten) == 1 else f"at least {_number(verdict, closest, '; against {1}')}"
    still_open = [name for name in verdict.remaining if name != leader and name not in wins[leader]]
    losers = _listed(beaten, "others") if still_open or len(beaten) <= NAMES_LISTED else f"all {len(beaten)} others"
    words = f"{leader} is preferred to {losers}: {number}, {evidence(verdict)}"
    if still_open:
        needed = _needed(verdict, [verdict.pair(leader, name) for name in still_open])
        whom = (
            f"between {leader} and {still_open[0]}" if len(still_open) == 1 else f"from {_listed(still_open, 'others')}"
        )
        words += f"; no significant difference {whom} yet{needed}"
    return words + counted


def _none_significant(verdict: Verdict) -> str:
    largest = max(verdict.pairs, key=lambda pair: abs(pair.preference))
    largest = largest if largest.preference >= 0 else largest.reversed
    two = len(verdict.rankers) == 2
    number = _number(verdict, largest) if two else f"at most {_number(verdict, largest, '; {} over {}')}"
    names = largest.rankers if two else verdict.rankers
    return (
        f"No significant difference between {_listed(names, 'rankers')} yet: {number}, {evidence(verdict)}"
        f"{_needed(verdict, [largest])}"
    )


def _needed(verdict: Verdict, pairs: Sequence[PairVerdict]) -> str:
    """Return the range of users still needed for all these pairs to be significant, if it is known."""
    found = range_needed(pairs)
    if verdict.health is None or found is None:
        return ""
    far = ", possibly over 100 times the current number" if found[1] is None else ""
    words = units_in_words(*found)
    noun = _noun(verdict).removesuffix("s") if words.endswith(" 1") else _noun(verdict)
    return f", {words} more {noun} needed{far}"


def range_needed(pairs: Sequence[PairVerdict]) -> tuple[int, int | None] | None:
    """Return the range of further units until all these pairs are significant; None if it is not known for one."""
    lows = [pair.more_units_low for pair in pairs if pair.more_units_low is not None]
    highs = [pair.more_units_high for pair in pairs if pair.more_units_high is not None]
    if len(lows) < len(pairs):
        return None
    return max(lows), max(highs) if len(highs) == len(pairs) else None


def heading(verdict: Verdict) -> str:
    """Return what the numbers of the table are."""
    correction = CORRECTED[verdict.correction]
    together = ", simultaneous" if verdict.simultaneous else ""
    return (
        f"mean preference per {_per(verdict)}, {percent(verdict.confidence)} CI{together}{_looks(verdict)}, "
        f"{correction}, {evidence(verdict)}"
    )


def cells(verdict: Verdict) -> list[dict[str, str]]:
    """Return the cells of the table, a row for each pair: both rankers, fields that have a column, and the verdict."""
    decimals = max((decimals_of(pair.low, pair.high) for pair in verdict.pairs if pair.high > pair.low), default=3)
    printed = {
        "number": lambda value: fixed(value, decimals),
        "probability": lambda value: "<0.001" if value < 0.001 else f"{value:.3f}",
        "percent": lambda value: f"{100 * value:.1f} %",
    }
    rows = []
    for pair in verdict.pairs:
        first, second = pair.rankers
        values = {name: printed[style](getattr(pair, name)) for name, (_, style) in COLUMNS.items()}
        upper, lower = (first, second) if pair.preference > 0 else (second, first)
        words = f"{upper} > {lower}" if pair.significant else "open"
        rows.append({"first": first, "second": second, **values, "verdict": words})
    return rows


def table(verdict: Verdict) -> str:
    """Return the pairs as aligned lines, and the warnings."""
    rows = [HEADERS, *(tuple(row.values()) for row in cells(verdict))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if 2 <= column < len(row) - 1 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([heading(verdict), *lines, *(f"warning: {warning}" for warning in verdict.warnings)])


def evidence(verdict: Verdict) -> str:
    """Return how many users, or impressions if each is its own unit, are behind a verdict."""
    return f"{verdict.units if _visits(verdict) else verdict.impressions:,} {_noun(verdict)}"


def _noun(verdict: Verdict) -> str:
    return "users" if _visits(verdict) else "impressions"


def _per(verdict: Verdict) -> str:
    return "user" if verdict.estimand == "users" else "impression"


def _visits(verdict: Verdict) -> bool:
    """Return whether some unit has more than one impression."""
    return verdict.units < verdict.impressions


def _number(verdict: Verdict, pair: PairVerdict, remark: str = "") -> str:
    decimals = decimals_of(pair.low, pair.high)
    low, high = fixed(pair.low, decimals), fixed(pair.high, decimals)
    mean = fixed(pair.preference, decimals)
    sign = "" if mean.startswith("-") else "+"
    return (
        f"{sign}{mean} per {_per(verdict)} ({percent(verdict.confidence)} CI {low} to {high}{_looks(verdict)}"
        f"{remark.format(*pair.rankers)})"
    )


def _looks(verdict: Verdict) -> str:
    """Return how often one may look at the intervals, if more than once."""
    if verdict.interval == "scheduled":
        return f", look {verdict.rules.look} of {len(verdict.rules.fractions)}"
    return ", valid at any time" if verdict.anytime else ""


def _listed(names: Sequence[str], noun: str) -> str:
    if len(names) > NAMES_LISTED:
        return f"{len(names)} {noun}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
