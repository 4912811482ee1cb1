"""Verdict: preferences with confidence, the winner if there is one, and what is still open."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.health import Health
from multileave.stats.verdict.ranking import circles, condorcet, copeland
from multileave.stats.verdict.rules import Rules

__all__ = ["PairVerdict", "Verdict"]

DEFAULT = Rules()


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What is known about two rankers, read as the first against the second.

    preference: the mean per impression, above zero where the first is preferred.
    low, high: its confidence interval, of this pair alone unless the verdict's are simultaneous.
    p: the two-sided p-value against no preference, and p_corrected, for looking at all pairs.
    significant: p_corrected is at most 1 - confidence.
    share, share_low, share_high: the share of units that prefer the first, ties half, and its interval.
    sign_p: the exact sign test's p-value, of as many units preferring either.
    more_units: about how many more units it takes, with a chance of 80 %, until the preference is
        significant if it stays as it is; None where it is, or where it takes over 100 times as many.
    """

    rankers: tuple[str, str]
    preference: float
    low: float
    high: float
    p: float
    p_corrected: float
    significant: bool
    share: float = 0.5
    share_low: float = 0.0
    share_high: float = 1.0
    sign_p: float = 1.0
    more_units: int | None = None

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
            share=1.0 - self.share,
            share_low=1.0 - self.share_high,
            share_high=1.0 - self.share_low,
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
            "share": self.share,
            "share_low": self.share_low,
            "share_high": self.share_high,
            "sign_p": self.sign_p,
            "more_units": self.more_units,
        }


@dataclass(frozen=True)
class Verdict:
    """What a tally says about every pair of rankers; `str()` says it in one sentence, warnings below it.

    pairs: one for each two rankers, n before m in the order of `rankers`; `pair(n, m)` reads either way.
    rules: how it was reached. health: whether the data can be trusted.

    >>> from multileave.outcome import Outcome
    >>> from multileave.stats.tally.tally import Tally
    >>> tally = Tally(["bm25", "ltr"])
    >>> for user in range(240):
    ...     for credit in (0.0, 1.0, user % 4 - 1.0):
    ...         tally.add(Outcome(("bm25", "ltr"), "difference", np.array([0.0, credit])), unit=user)
    >>> verdict = tally.verdict()
    >>> print(verdict)
    ltr is preferred to bm25: +0.500 per impression (95 % CI 0.453 to 0.547), 240 users
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
    rules: Rules = DEFAULT
    health: Health | None = None

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
    def anytime(self) -> bool:
        """Whether it holds however often one looks."""
        return self.rules.interval == "anytime"

    @property
    def winner(self) -> str | None:
        """The ranker that is significantly preferred to every other one, or None."""
        wins = self.wins
        return next((name for name in self.rankers if len(wins[name]) == len(self.rankers) - 1), None)

    @property
    def condorcet(self) -> str | None:
        """The ranker that is preferred to every other on average, certain or not, or None."""
        return condorcet(self.rankers, self.preferences)

    @property
    def copeland(self) -> dict[str, float]:
        """How many others each ranker is preferred to on average, ties half; best first."""
        return copeland(self.rankers, self.preferences)

    @property
    def undecided(self) -> tuple[tuple[str, str], ...]:
        """The pairs of rankers that cannot be told apart yet."""
        return tuple(pair.rankers for pair in self.pairs if not pair.significant)

    @property
    def leaders(self) -> tuple[str, ...]:
        """The top group: rankers to which no other is significantly preferred, best first.

        No two of them can be told apart yet. There is none if the preferences run in a circle. Best
        first: by the number of rankers it is preferred to, then by mean preference.
        """
        wins = self.wins
        beaten = set().union(*wins.values())
        means = dict(zip(self.rankers, self.preferences.sum(axis=1), strict=True))
        unbeaten = [name for name in self.rankers if name not in beaten]
        return tuple(sorted(unbeaten, key=lambda name: (-len(wins[name]), -means[name])))

    @property
    def circles(self) -> tuple[tuple[str, ...], ...]:
        """Groups of rankers whose significant preferences run in a circle."""
        return circles(self.wins)

    @property
    def wins(self) -> dict[str, set[str]]:
        """For each ranker, those it is significantly preferred to."""
        wins: dict[str, set[str]] = {name: set() for name in self.rankers}
        for pair in self.pairs:
            if pair.preferred is not None:
                wins[pair.preferred].update(set(pair.rankers) - {pair.preferred})
        return wins

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know beside the sentence."""
        found = [
            f"the preferences between {', '.join(group)} run in a circle; no order of them is right"
            for group in self.circles
        ]
        return (*found, *(self.health.warnings if self.health is not None else ()))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values that JSON can hold."""
        return {
            "rankers": list(self.rankers),
            "impressions": self.impressions,
            "units": self.units,
            "confidence": self.confidence,
            "interval": self.rules.interval,
            "anytime": self.anytime,
            "correction": self.rules.correction,
            "simultaneous": self.rules.simultaneous,
            "sentence": self.sentence,
            "winner": self.winner,
            "condorcet": self.condorcet,
            "leaders": list(self.leaders),
            "copeland": self.copeland,
            "circles": [list(group) for group in self.circles],
            "warnings": list(self.warnings),
            "pairs": [pair.to_dict() for pair in self.pairs],
            "health": None if self.health is None else self.health.to_dict(),
        }

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        from multileave.stats.verdict.wording import sentence

        return sentence(self)

    def table(self) -> str:
        """Return all pairs as a table in plain text, and the warnings.

        "open" pairs cannot be told apart yet once the number of pairs is taken into account; the
        intervals are of each pair alone, unless they were asked to hold together.
        """
        from multileave.stats.verdict.wording import table

        return table(self)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"warning: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        from multileave.stats.verdict.html import verdict_html

        return verdict_html(self)
