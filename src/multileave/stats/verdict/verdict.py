"""Verdict: preferences with confidence intervals, the winner if there is one, and what is still open."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats
from multileave.stats.health import Health
from multileave.stats.rates.records import Rates
from multileave.stats.records import Record, about
from multileave.stats.verdict.ranking import circles, condorcet, copeland
from multileave.stats.verdict.rules import Rules

DEFAULT = Rules()


class PairVerdict(Record):
    """What is known about two rankers, read as the first against the second."""

    rankers: tuple[str, str] = about("The two rankers.")
    preference: float = about(
        "Mean preference per impression; above 0 if the first ranker is preferred.", column=("preference", "number")
    )
    low: float = about(
        "Lower end of its confidence interval, for this pair alone unless simultaneous.", column=("low", "number")
    )
    high: float = about("Upper end of its confidence interval.", column=("high", "number"))
    p: float = about("Two-sided p-value against no preference.", column=("p", "probability"))
    p_corrected: float = about("The p-value corrected for the number of pairs.", column=("corrected", "probability"))
    significant: bool = about("Whether p_corrected is at most 1 - confidence.")
    share: float = about(
        "Share of units that prefer the first ranker, ties half.", default=0.5, column=("share", "percent")
    )
    share_low: float = about("Lower end of the share's confidence interval.", default=0.0)
    share_high: float = about("Upper end of the share's confidence interval.", default=1.0)
    sign_p: float | None = about(
        "P-value of the exact sign test: do as many units prefer either? For one look; None if the verdict allows "
        "several.",
        default=None,
    )
    sign_p_corrected: float | None = about("The same corrected for the number of pairs.", default=None)
    test: str = about(
        "Test that the p-value is of: t, confidence sequence, group sequential or bootstrap; for one look sign flips, "
        "which is exact, if at most 30 units carry evidence, or at most 200 whose sums are of equal size.",
        default="t",
    )
    evidence: int = about("Units that carry evidence: those whose preferences do not add up to zero.", default=0)
    more_units: int | None = about(
        "Estimated number of further units for significance with 80 % power, if the preference stays as large; None "
        "if it is significant, or takes over 100 times the units.",
        default=None,
    )
    more_units_low: int | None = about(
        "The same if the true preference is one standard error larger; None if it is significant.", default=None
    )
    more_units_high: int | None = about(
        "The same if the true preference is one standard error smaller; None if it is significant, or takes over 100 "
        "times the units, or if that is no preference.",
        default=None,
    )

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
        """The ranker that is significantly preferred, or None."""
        return self.rankers[0 if self.preference > 0 else 1] if self.significant else None


class Verdict(Record):
    """What a tally says about every pair of rankers; `str()` is one sentence, with warnings below it.

    `pair(n, m)` reads a pair in either order.

    >>> from multileave.outcome import Outcome
    >>> from multileave.stats.tally.tally import Tally
    >>> tally = Tally(["bm25", "ltr"])
    >>> for user in range(240):
    ...     for credit in (0.0, 1.0, user % 4 - 1.0):
    ...         tally.add(Outcome(("bm25", "ltr"), "difference", np.array([0.0, credit])), unit=user)
    >>> verdict = tally.verdict()
    >>> print(verdict)
    ltr is preferred to bm25: +0.500 per impression (95 % CI 0.452 to 0.548), 240 users
    >>> verdict.winner
    'ltr'
    >>> verdict.pair("bm25", "ltr").preference
    -0.5
    """

    rankers: tuple[str, ...] = about("The rankers.")
    impressions: int = about("Number of impressions.")
    units: int = about("Number of units (users, sessions).")
    confidence: float = about("Confidence level of the intervals, such as 0.95.")
    pairs: tuple[PairVerdict, ...] = about("Every two rankers, in the order of `rankers`.", last=True)
    rules: Rules = about("How the verdict was reached.", default=DEFAULT, reported=False)
    health: Health | None = about("Whether the data can be trusted.", default=None, last=True)
    rates: Rates | None = about(
        "What each ranker would earn alone, with lifts over the control; None if the method has no propensities.",
        default=None,
    )

    DERIVED: ClassVar = (
        "interval", "anytime", "dropped", "estimand", "correction", "simultaneous", "sentence", "winner", "condorcet",
        "leaders",
        "copeland", "circles", "warnings",
    )  # fmt: skip

    def pair(self, first: str, second: str) -> PairVerdict:
        """Return what is known about two rankers, read as the first against the second."""
        for name in (first, second):
            if name not in self.rankers:
                raise TallyError(
                    f"There is no ranker {name!r} in this verdict; expected one of {', '.join(self.rankers)}."
                    f"{nearest(name, self.rankers)}"
                )
        n, m = self.rankers.index(first), self.rankers.index(second)
        if n == m:
            raise TallyError(f"{first!r} cannot be compared with itself. Name two different rankers.")
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
    def interval(self) -> str:
        """Kind of interval: clustered, anytime, scheduled or bootstrap."""
        return self.rules.interval

    @property
    def anytime(self) -> bool:
        """Whether the intervals are valid at any time, however often one looks."""
        return self.rules.interval == "anytime"

    @property
    def dropped(self) -> tuple[str, ...]:
        """Rankers that were dropped because they lost; later impressions do not compare them."""
        return self.rules.dropped

    @property
    def remaining(self) -> tuple[str, ...]:
        """The rankers that were not dropped."""
        return tuple(name for name in self.rankers if name not in self.dropped)

    @property
    def estimand(self) -> str:
        """What is estimated: the mean preference per impression, or the mean over users of each user's mean."""
        return self.rules.estimand

    @property
    def correction(self) -> str:
        """Correction for the number of pairs: holm, max-t, bh, by or none; holm if max-t cannot be used."""
        return self.rules.correction

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals hold together, rather than each by itself."""
        return self.rules.simultaneous

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        from multileave.stats.verdict.wording import sentence

        return sentence(self)

    @property
    def winner(self) -> str | None:
        """The ranker that is significantly preferred to every other one that was not dropped, or None."""
        wins, remaining = self.wins, self.remaining
        return next((name for name in remaining if wins[name].issuperset(set(remaining) - {name})), None)

    @property
    def condorcet(self) -> str | None:
        """The ranker that is preferred to every other on average, significantly or not, or None."""
        return condorcet(self.rankers, self.preferences)

    @property
    def leaders(self) -> tuple[str, ...]:
        """The top group: rankers to which no other is significantly preferred, best first.

        There is no significant difference between any two of them yet. The group is empty if the preferences form a
        cycle. Best first: by the number of rankers it is significantly preferred to, then by mean preference.
        """
        wins = self.wins
        beaten = set().union(*wins.values())
        means = dict(zip(self.rankers, self.preferences.sum(axis=1), strict=True))
        unbeaten = [name for name in self.remaining if name not in beaten]
        return tuple(sorted(unbeaten, key=lambda name: (-len(wins[name]), -means[name])))

    @property
    def copeland(self) -> dict[str, float]:
        """How many others each ranker is preferred to on average, ties half; best first."""
        return copeland(self.rankers, self.preferences)

    @property
    def circles(self) -> tuple[tuple[str, ...], ...]:
        """Groups of rankers whose significant preferences form a cycle."""
        return circles(self.wins)

    @property
    def undecided(self) -> tuple[tuple[str, str], ...]:
        """The pairs of rankers without a significant difference yet, none of them dropped."""
        gone = set(self.dropped)
        return tuple(pair.rankers for pair in self.pairs if not pair.significant and gone.isdisjoint(pair.rankers))

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
        """What a reader must know besides the sentence."""
        found = [
            f"The preferences between {', '.join(group)} form a cycle, so these rankers cannot be ordered."
            for group in self.circles
        ]
        return (*found, *(self.health.warnings if self.health is not None else ()))

    def table(self) -> str:
        """Return all pairs as a table in plain text, and the warnings.

        A pair is "open" while its difference is not significant after the correction for the number of pairs; the
        intervals are of each pair alone, unless they are simultaneous.
        """
        from multileave.stats.verdict.wording import table

        return table(self)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"warning: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        from multileave.stats.verdict.html import verdict_html

        return verdict_html(self)
