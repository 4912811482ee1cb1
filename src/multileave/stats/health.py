"""Health: whether the data are such that a verdict can be trusted."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from multileave.stats.balance import Balance
from multileave.stats.intervals.moments import Moments
from multileave.stats.tally.health_counts import HealthCounts

__all__ = ["Examined", "Health", "examine"]

FEW_UNITS = 200
MOSTLY_CLICKLESS = 0.9
MOSTLY_AGREED = 0.5
MANY_FALLBACKS = 0.01
MANY_SHORT = 0.01
MOSTLY_SAME = 0.5
HEAVY = 0.2
UNBALANCED = 0.001


@dataclass(frozen=True)
class Health:
    """How healthy the data of a verdict are; shares are None where the tally was not told enough.

    effective_units: (sum n_u)^2 / sum n_u^2 of the units' impressions, the number of equally active units
        that would know as much.
    without_clicks: share of impressions without clicks. top_share: share of the clicks (of the impressions,
        where clicks are not known) that the most active 1 % of units made.
    no_preference: share of impressions in which all rankers rank alike what was drawn.
    fallbacks: share of impressions in which a ranker returned nothing; missing: the same by ranker.
    different_documents: share of impressions that showed what some ranker had not returned: nothing to worry about.
    short_lists: share of impressions in which a ranker returned fewer than k + 1 documents while others returned some
        that it lacks, where the better ranker may not win; short: the same by ranker; needed: the largest k + 1.
    same_pages: pairs of rankers that ranked alike all that was drawn in most impressions, with the share, where the
        method lets copies of a ranker change what is said about the others.
    first, exposure: per ranker (observed, expected) and the chi-square test: see `stats.balance`.
    """

    units: int
    effective_units: float
    top_share: float
    without_clicks: float | None = None
    no_preference: float | None = None
    fallbacks: float | None = None
    missing: dict[str, float] | None = None
    different_documents: float | None = None
    short_lists: float | None = None
    short: dict[str, float] | None = None
    needed: int = 0
    same_pages: tuple[tuple[str, str, float], ...] = ()
    first: dict[str, Any] | None = None
    exposure: dict[str, Any] | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the verdict must know, a sentence each."""
        found = []
        if self.effective_units < FEW_UNITS:
            found.append(
                f"the data are worth {self.effective_units:,.0f} equally active users; below {FEW_UNITS} intervals "
                "(Student's t) may be off by a little. Wait for more users"
            )
        if self.top_share >= HEAVY and self.units >= 100:
            found.append(
                f"the most active 1 % of users made {_percent(self.top_share)} of the "
                f"{'impressions' if self.without_clicks is None else 'clicks'}. Are they people?"
            )
        if self.without_clicks is not None and self.without_clicks >= MOSTLY_CLICKLESS:
            found.append(f"{_percent(self.without_clicks)} of the impressions have no clicks. Are clicks logged?")
        if self.no_preference is not None and self.no_preference >= MOSTLY_AGREED:
            found.append(
                f"in {_percent(self.no_preference)} of the impressions all rankers ranked alike what was drawn, and "
                "nobody could be preferred"
            )
        if self.fallbacks is not None and self.missing is not None and self.fallbacks >= MANY_FALLBACKS:
            worst = max(self.missing, key=lambda name: (self.missing or {})[name])
            found.append(
                f"in {_percent(self.fallbacks)} of the impressions a ranker returned nothing, most often {worst} "
                f"({_percent(self.missing[worst])})"
            )
        for balance, what in ((self.first, "stand first"), (self.exposure, "are shown")):
            if balance is not None and balance["p"] is not None and balance["p"] < UNBALANCED:
                off = max(
                    balance["rankers"], key=lambda name: abs(np.subtract(*balance["rankers"][name]))
                )  # fmt: skip
                observed, expected = balance["rankers"][off]
                found.append(
                    f"documents of {off} {what} {observed:,.0f} times where the method expects {expected:,.0f} (p = "
                    f"{balance['p']:.1g}). Are pages shown as they were drawn, and drawn anew for every user?"
                )
        if self.short_lists is not None and self.short is not None and self.short_lists >= MANY_SHORT:
            named = [name for name, share in self.short.items() if share > 0]
            found.append(
                f"in {_percent(self.short_lists)} of the impressions a ranker ({', '.join(named)}) returned fewer than "
                f"k + 1 results while others returned documents that it lacks; there the better ranker may not win. "
                f"Request at least {self.needed} results from every ranker"
            )
        if self.same_pages:
            n, m, share = max(self.same_pages, key=lambda pair: pair[2])
            found.append(
                f"{n} and {m} returned the same page in {_percent(share)} of the impressions, and with this method "
                "copies of a ranker change what is said about the others. Leave one of them out, or use rpm"
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values that JSON can hold."""
        return {
            "units": self.units,
            "effective_units": self.effective_units,
            "top_share": self.top_share,
            "without_clicks": self.without_clicks,
            "no_preference": self.no_preference,
            "fallbacks": self.fallbacks,
            "missing": self.missing,
            "different_documents": self.different_documents,
            "short_lists": self.short_lists,
            "short": self.short,
            "needed": self.needed,
            "same_pages": [list(pair) for pair in self.same_pages],
            "first": self.first,
            "exposure": self.exposure,
            "warnings": list(self.warnings),
        }


class Examined(Protocol):
    """What a tally and a ledger have in common: all that verdicts and their health are made of."""

    @property
    def rankers(self) -> tuple[str, ...]:
        """The names of the rankers."""

    @property
    def evidence(self) -> HealthCounts:
        """What the health of the data is read from."""

    def moments(self) -> Moments:
        """Return what intervals are made of."""

    def top_share(self) -> float:
        """Return the share of the most active 1 % of units."""

    def check_units(self, what: str) -> None:
        """Raise an error if there are too few units to say anything."""

    def unit_blocks(self) -> Any:
        """Yield the units' sums by pair and their impressions."""


def examine(tally: Examined, moments: Moments | None = None) -> Health:
    """Return the health of a tally's data; it must hold two units."""
    moments = tally.moments() if moments is None else moments
    evidence = tally.evidence
    examined = evidence.examined
    told = moments.impressions + evidence.left_out if examined or evidence.fallbacks else 0
    missing = dict(zip(tally.rankers, (evidence.missing / told).tolist(), strict=True)) if told else None
    short = dict(zip(tally.rankers, (evidence.short / examined).tolist(), strict=True)) if examined else None
    return Health(
        units=moments.units,
        effective_units=moments.effective,
        top_share=tally.top_share(),
        without_clicks=evidence.without_clicks / evidence.clicks_known if evidence.clicks_known else None,
        no_preference=evidence.no_preference / examined if examined else None,
        fallbacks=evidence.fallbacks / told if told else None,
        missing=missing,
        different_documents=evidence.different_documents / examined if examined else None,
        short_lists=evidence.short_lists / examined if examined else None,
        short=short,
        needed=evidence.needed,
        same_pages=tuple(
            (tally.rankers[n], tally.rankers[m], float(evidence.same_pages[n, m] / examined))
            for n, m in combinations(range(len(tally.rankers)), 2)
            if len(tally.rankers) > 2 and evidence.same_pages[n, m] >= max(MOSTLY_SAME * examined, 1)
        ),
        first=_balance(evidence.first, tally.rankers),
        exposure=_balance(evidence.exposure, tally.rankers),
    )


def _balance(balance: Balance, rankers: tuple[str, ...]) -> dict[str, Any] | None:
    if not balance.impressions:
        return None
    both = zip(balance.observed.tolist(), balance.expected.tolist(), strict=True)
    tested = balance.test()
    chi_square, freedom, p = (None, None, None) if tested is None else tested
    return {
        "impressions": balance.impressions,
        "chi_square": chi_square,
        "freedom": freedom,
        "p": p,
        "rankers": {name: [observed, expected] for name, (observed, expected) in zip(rankers, both, strict=True)},
    }


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
