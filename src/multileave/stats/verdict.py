"""Verdict: preferences with confidence, the winner if there is one, and what is still open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.intervals import Moments, clustered, holm

__all__ = ["PairVerdict", "Verdict", "judge"]

NAMES_LISTED = 3  # the sentence counts rankers where there are more than this


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What is known about two rankers, read as the first against the second.

    preference: the mean per impression, above zero where the first is preferred.
    low, high: its confidence interval, of this pair alone.
    p: the two-sided p-value against no preference, and p_corrected, for looking at all pairs.
    significant: p_corrected is at most 1 - confidence.
    """

    rankers: tuple[str, str]
    preference: float
    low: float
    high: float
    p: float
    p_corrected: float
    significant: bool

    @property
    def reversed(self) -> "PairVerdict":
        """The same, read as the second ranker against the first."""
        first, second = self.rankers
        return replace(
            self,
            rankers=(second, first),
            preference=0.0 - self.preference,
            low=0.0 - self.high,
            high=0.0 - self.low,
        )

    @property
    def preferred(self) -> str | None:
        """The ranker that is significantly preferred, None while the pair is undecided."""
        return self.rankers[0 if self.preference > 0 else 1] if self.significant else None

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as plain values that JSON can hold."""
        return {
            "rankers": list(self.rankers),
            "preference": self.preference,
            "low": self.low,
            "high": self.high,
            "p": self.p,
            "p_corrected": self.p_corrected,
            "significant": self.significant,
        }


@dataclass(frozen=True)
class Verdict:
    """What a tally says about every pair of rankers; `str()` says it in one sentence.

    pairs: one for each two rankers, n before m in the order of `rankers`; `pair(n, m)` reads either way.

    >>> from multileave.outcome import Outcome
    >>> from multileave.stats.tally import Tally
    >>> tally = Tally(["bm25", "ltr"])
    >>> for user in range(40):
    ...     for credit in (0.0, 1.0, user % 4 - 1.0):
    ...         tally.add(Outcome(("bm25", "ltr"), "difference", np.array([0.0, credit])), unit=user)
    >>> verdict = tally.verdict()
    >>> print(verdict)
    ltr is preferred to bm25: +0.50 per impression (95 % CI 0.38 to 0.62), 40 users
    >>> verdict.winner
    'ltr'
    >>> verdict.pair("bm25", "ltr").preference
    -0.5
    """

    rankers: tuple[str, ...]
    impressions: int
    units: int
    confidence: float
    pairs: tuple[PairVerdict, ...]

    def pair(self, first: str, second: str) -> PairVerdict:
        """Return what is known about two rankers, read as the first against the second."""
        for name in (first, second):
            if name not in self.rankers:
                raise TallyError(
                    f"there is no ranker {name!r} in this verdict; there are {', '.join(self.rankers)}."
                    f"{nearest(name, self.rankers)}"
                )
        n, m = self.rankers.index(first), self.rankers.index(second)
        if n == m:
            raise TallyError(f"{first!r} was asked for against itself; a pair is two different rankers.")
        if n > m:
            return self.pair(second, first).reversed
        return self.pairs[n * (2 * len(self.rankers) - n - 1) // 2 + m - n - 1]

    @property
    def preferences(self) -> Floats:
        """Antisymmetric (R, R) array of mean preferences per impression."""
        matrix = np.zeros((len(self.rankers), len(self.rankers)))
        matrix[np.triu_indices(len(self.rankers), 1)] = [pair.preference for pair in self.pairs]
        return matrix - matrix.T

    @property
    def winner(self) -> str | None:
        """The ranker that is significantly preferred to every other one, or None."""
        wins = self._wins()
        return next((name for name in self.rankers if len(wins[name]) == len(self.rankers) - 1), None)

    @property
    def undecided(self) -> tuple[tuple[str, str], ...]:
        """The pairs of rankers that cannot be told apart yet."""
        return tuple(pair.rankers for pair in self.pairs if not pair.significant)

    @property
    def leaders(self) -> tuple[str, ...]:
        """The rankers to which no other is significantly preferred, best first; none if they run in a circle.

        Best first: by the number of rankers it is preferred to, then by mean preference.
        """
        wins = self._wins()
        beaten = set().union(*wins.values())
        means = dict(zip(self.rankers, self.preferences.sum(axis=1), strict=True))
        unbeaten = [name for name in self.rankers if name not in beaten]
        return tuple(sorted(unbeaten, key=lambda name: (-len(wins[name]), -means[name])))

    def _wins(self) -> dict[str, set[str]]:
        """Return, for each ranker, those it is significantly preferred to."""
        wins: dict[str, set[str]] = {name: set() for name in self.rankers}
        for pair in self.pairs:
            if pair.preferred is not None:
                wins[pair.preferred].update(set(pair.rankers) - {pair.preferred})
        return wins

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values that JSON can hold."""
        return {
            "rankers": list(self.rankers),
            "impressions": self.impressions,
            "units": self.units,
            "confidence": self.confidence,
            "winner": self.winner,
            "pairs": [pair.to_dict() for pair in self.pairs],
        }

    def __str__(self) -> str:
        if all(pair.preference == pair.low == pair.high == 0.0 for pair in self.pairs):
            seen = f"{self.impressions:,} impressions" + (f" of {self._evidence()}" if self._visits else "")
            return (
                f"no preference was seen between {_listed(self.rankers, 'rankers')} in {seen}: "
                "no clicks, or none that speaks for a ranker"
            )
        wins, leaders = self._wins(), self.leaders
        decided = len(self.pairs) - len(self.undecided)
        counted = f"; {decided} of {len(self.pairs)} pairs decided" if len(self.rankers) > 3 else ""
        if not decided:
            widest = max(self.pairs, key=lambda pair: abs(pair.preference))
            widest = widest if widest.preference >= 0 else widest.reversed
            if len(self.rankers) == 2:
                upper, lower = widest.rankers
                return f"{upper} cannot be told from {lower} yet: {self._number(widest)}, {self._evidence()}"
            return (
                f"{_listed(self.rankers, 'rankers')} cannot be told apart yet: at most "
                f"{self._number(widest, '; {} over {}')}, {self._evidence()}{counted}"
            )
        if not leaders or not wins[leaders[0]]:
            return (
                f"no ranker leads, as the preferences run in a circle: {decided} of {len(self.pairs)} pairs "
                f"decided, {self._evidence()}"
            )
        leader = leaders[0]
        beaten = [name for name in self.rankers if name in wins[leader]]
        closest = min((self.pair(leader, name) for name in beaten), key=lambda pair: pair.preference)
        if len(beaten) == 1:
            number = self._number(closest)
        else:
            number = "at least " + self._number(closest, "; against {1}")
        untold = [name for name in self.rankers if name != leader and name not in wins[leader]]
        losers = _listed(beaten, "others") if untold or len(beaten) <= NAMES_LISTED else f"all {len(beaten)} others"
        sentence = f"{leader} is preferred to {losers}: {number}, {self._evidence()}"
        if untold:
            sentence += f"; {_listed(untold, 'others')} cannot be told from {leader} yet"
        return sentence + counted

    def table(self) -> str:
        """Return all pairs as a table in plain text.

        The intervals are of each pair alone; "open" pairs cannot be told apart yet once the number of
        pairs is taken into account.
        """
        decimals = max((_decimals(pair) for pair in self.pairs if pair.high > pair.low), default=3)
        rows: list[tuple[str, ...]] = [("ranker", "versus", "preference", "low", "high", "p", "p (Holm)", "verdict")]
        for pair in self.pairs:
            numbers = (_fixed(x, decimals) for x in (pair.preference, pair.low, pair.high))
            upper, lower = pair.rankers if pair.preference > 0 else pair.rankers[::-1]
            rows.append(
                (*pair.rankers, *numbers, _probability(pair.p), _probability(pair.p_corrected),
                 f"{upper} > {lower}" if pair.significant else "open")
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if 2 <= column <= 6 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        heading = f"mean preference per impression, {_percent(self.confidence)} CI, {self._evidence()}"
        return "\n".join([heading, *lines])

    @property
    def _visits(self) -> bool:
        """Whether some unit has more than one impression."""
        return self.units < self.impressions

    def _evidence(self) -> str:
        return f"{self.units:,} users" if self._visits else f"{self.impressions:,} impressions"

    def _number(self, pair: PairVerdict, remark: str = "") -> str:
        decimals = _decimals(pair)
        low, high = _fixed(pair.low, decimals), _fixed(pair.high, decimals)
        mean = _fixed(pair.preference, decimals)
        sign = "" if mean.startswith("-") else "+"
        return (
            f"{sign}{mean} per impression ({_percent(self.confidence)} CI {low} to {high}"
            f"{remark.format(*pair.rankers)})"
        )


def judge(rankers: tuple[str, ...], moments: Moments, confidence: float) -> Verdict:
    """Return the verdict for the moments of all pairs, n < m in the order of `np.triu_indices`."""
    intervals = clustered(moments, confidence)
    corrected = holm(intervals.p)
    first, second = np.triu_indices(len(rankers), 1)
    alpha = 1.0 - confidence
    pairs = tuple(
        PairVerdict(
            (rankers[n], rankers[m]), preference, low, high, p, p_corrected, p_corrected <= alpha
        )
        for n, m, preference, low, high, p, p_corrected in zip(
            first.tolist(), second.tolist(), *(column.tolist() for column in (*intervals, corrected)), strict=True
        )
    )  # fmt: skip
    return Verdict(rankers, moments.impressions, moments.units, confidence, pairs)


def _listed(names: Sequence[str], noun: str) -> str:
    if len(names) > NAMES_LISTED:
        return f"{len(names)} {noun}"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _decimals(pair: PairVerdict) -> int:
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
