"""Health: whether the data behind a verdict can be trusted."""

from collections.abc import Collection
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from multileave.stats.balance import Balance
from multileave.stats.intervals.moments import Moments
from multileave.stats.intervals.sign_flips import FEW
from multileave.stats.records import Record, about
from multileave.stats.tally.units import IMPLAUSIBLE

if TYPE_CHECKING:
    from multileave.stats.tally.base import BaseTally

FEW_UNITS = 200
MOSTLY_CLICKLESS = 0.9
MOSTLY_AGREED = 0.5
MANY_FALLBACKS = 0.01
MANY_SHORT = 0.01
MOSTLY_SAME = 0.5
HEAVY = 0.2
IMPLAUSIBLE_TIMES = 50  # the mean impressions or clicks of a unit
LISTED = 20  # units
UNBALANCED = 0.001


class Health(Record):
    """How healthy the data behind a verdict are; shares are None if the tally does not know enough."""

    units: int = about("Number of units (users, sessions).")
    effective_units: float = about(
        "Effective sample size: the number of equally active units with as much information, (sum n)^2 / sum n^2."
    )
    top_share: float = about(
        "Share of the clicks (of the impressions, if clicks are not known) made by the most active 1 % of units."
    )
    evidence_units: int = about(
        "Units that carry evidence: those whose preferences do not add up to zero. Of the pair with the fewest, other "
        "than none.",
        default=0,
    )
    over_limit: int = about(
        "Units with more impressions than the cap, which are left out, or than `winsorise`, which count less.",
        default=0,
    )
    implausible: tuple[tuple[str, int, int], ...] = about(
        "Units that no person could be, with their impressions and clicks: over 1,000 of either, and over 50 times the "
        "mean. At most 20, the most active first.",
        default=(),
    )
    without_clicks: float | None = about("Share of impressions without clicks.", default=None)
    no_preference: float | None = about(
        "Share of impressions in which all rankers rank the drawn documents alike.", default=None
    )
    fallbacks: float | None = about("Share of impressions in which a ranker returned nothing.", default=None)
    missing: dict[str, float] | None = about("The same for each ranker.", default=None)
    different_documents: float | None = about(
        "Share of impressions that showed a document some ranker had not returned; no reason to worry.", default=None
    )
    short_lists: float | None = about(
        "Share of impressions in which a ranker returned fewer than k + 1 documents and lacks some that others "
        "returned, so that the better ranker may not win.",
        default=None,
    )
    short: dict[str, float] | None = about("The same for each ranker.", default=None)
    needed: int = about("The largest k + 1: results to request from every ranker.", default=0)
    same_pages: tuple[tuple[str, str, float], ...] = about(
        "Pairs of rankers that ranked all drawn documents alike in most impressions, with the share, if the method "
        "is sensitive to copies of a ranker.",
        default=(),
    )
    first: dict[str, Any] | None = about(
        "Balance of first places: for each ranker observed and expected, with a chi-square test.", default=None
    )
    exposure: dict[str, Any] | None = about("Balance of the documents shown, as for first places.", default=None)

    DERIVED: ClassVar = ("warnings",)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the verdict must know."""
        found = []
        if self.effective_units < FEW_UNITS:
            found.append(
                f"Effective sample size: {self.effective_units:,.0f} users. Below {FEW_UNITS}, confidence intervals "
                "may be slightly off. Wait for more users."
            )
        if 0 < self.evidence_units <= FEW and self.units > FEW:
            found.append(
                f"For some pair of rankers, only {self.evidence_units} of {self.units:,} users prefer either one. The "
                "others carry no evidence, however many there are."
            )
        if self.implausible:
            unit, impressions, clicks = self.implausible[0]
            more = f" and {len(self.implausible) - 1} more are" if len(self.implausible) > 1 else " is"
            found.append(
                f"Unit {unit} ({impressions:,} impressions, {clicks:,} clicks){more} too active for a person. Leave "
                "bots out with a cap, or winsorise their impressions."
            )
        if self.top_share >= HEAVY and self.units >= 100:
            found.append(
                f"The most active 1 % of users made {_percent(self.top_share)} of the "
                f"{'impressions' if self.without_clicks is None else 'clicks'}. Are they bots?"
            )
        if self.without_clicks is not None and self.without_clicks >= MOSTLY_CLICKLESS:
            found.append(f"{_percent(self.without_clicks)} of impressions have no clicks. Are clicks logged?")
        if self.no_preference is not None and self.no_preference >= MOSTLY_AGREED:
            found.append(
                f"In {_percent(self.no_preference)} of impressions all rankers agreed on the documents drawn, so none "
                "could be preferred."
            )
        if self.fallbacks is not None and self.missing is not None and self.fallbacks >= MANY_FALLBACKS:
            worst = max(self.missing, key=lambda name: (self.missing or {})[name])
            found.append(
                f"In {_percent(self.fallbacks)} of impressions a ranker returned nothing, most often {worst} "
                f"({_percent(self.missing[worst])})."
            )
        for balance, what in ((self.first, "came first"), (self.exposure, "were shown")):
            if balance is not None and balance["p"] is not None and balance["p"] < UNBALANCED:
                off = max(balance["rankers"], key=lambda name: abs(np.subtract(*balance["rankers"][name])))
                observed, expected = balance["rankers"][off]
                found.append(
                    f"Sample ratio mismatch: documents of {off} {what} {observed:,.0f} times, but the method expects "
                    f"{expected:,.0f} (p = {balance['p']:.1g}). Are pages shown exactly as drawn, and drawn anew for "
                    "every user?"
                )
        if self.short_lists is not None and self.short is not None and self.short_lists >= MANY_SHORT:
            named = [name for name, share in self.short.items() if share > 0]
            found.append(
                f"In {_percent(self.short_lists)} of impressions a ranker ({', '.join(named)}) returned fewer than "
                "k + 1 results and lacks documents that others returned, so the better ranker may not win. Request at "
                f"least {self.needed} results from every ranker."
            )
        if self.same_pages:
            n, m, share = max(self.same_pages, key=lambda pair: pair[2])
            found.append(
                f"{n} and {m} returned the same page in {_percent(share)} of impressions, and with this method copies "
                "of a ranker bias the comparison of the others. Remove one of them, or use rpm."
            )
        return tuple(found)


def examine(
    tally: "BaseTally", moments: Moments | None = None, dropped: Collection[str] = (), *, limit: int | None = None
) -> Health:
    """Return the health of a tally's data; it must hold two units.

    moments: of its units as they are weighted. dropped: rankers that need not return anything. limit: of a unit's
    impressions; those above it are left out, or count less.
    """
    moments = tally.moments() if moments is None else moments
    counts, rankers = tally.evidence, tally.rankers
    examined = counts.examined
    delivered = tally.impressions + counts.left_out if examined or counts.fallbacks else 0

    def share(count: int, of: int) -> float | None:
        return count / of if of else None

    def shares(by_ranker: Any, of: int) -> dict[str, float] | None:
        return dict(zip(rankers, (by_ranker / of).tolist(), strict=True)) if of else None

    return Health(
        units=tally.units,
        effective_units=moments.effective,
        evidence_units=int(min(moments.carriers[moments.carriers > 0], default=0)),
        top_share=tally.top_share(),
        over_limit=tally.over(limit)[0],
        implausible=_implausible(tally),
        without_clicks=share(counts.without_clicks, counts.clicks_known),
        no_preference=share(counts.no_preference, examined),
        fallbacks=share(counts.fallbacks_without(rankers, dropped), delivered),
        missing=shares(np.where([name in dropped for name in rankers], 0, counts.missing), delivered),
        different_documents=share(counts.different_documents, examined),
        short_lists=share(counts.short_lists, examined),
        short=shares(counts.short, examined),
        needed=counts.needed,
        same_pages=tuple(
            (rankers[n], rankers[m], float(counts.same_pages[n, m] / examined))
            for n, m in combinations(range(len(rankers)), 2)
            if len(rankers) > 2 and counts.same_pages[n, m] >= max(MOSTLY_SAME * examined, 1)
        ),
        first=_balance(counts.first, rankers),
        exposure=_balance(counts.exposure, rankers),
    )


def _implausible(tally: "BaseTally") -> tuple[tuple[str, int, int], ...]:
    """Return units that no person could be, the most active first."""
    levels, units = tally.activity()
    clicks = float((levels * units).sum()) / tally.units
    least = max(IMPLAUSIBLE, IMPLAUSIBLE_TIMES * tally.impressions / tally.units, IMPLAUSIBLE_TIMES * clicks)
    found = [(str(unit), n, clicked) for unit, n, clicked in tally.heavy_units() if max(n, clicked) > least]
    return tuple(sorted(found, key=lambda unit: (-max(unit[1:]), unit[0]))[:LISTED])


def _balance(balance: Balance, rankers: tuple[str, ...]) -> dict[str, Any] | None:
    if not balance.impressions:
        return None
    both = zip(balance.observed.tolist(), balance.expected.tolist(), strict=True)
    chi_square, freedom, p = balance.test() or (None, None, None)
    return {
        "impressions": balance.impressions,
        "chi_square": chi_square,
        "freedom": freedom,
        "p": p,
        "rankers": {name: list(counts) for name, counts in zip(rankers, both, strict=True)},
    }


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
