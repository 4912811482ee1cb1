"""HealthCounts: what a tally counts besides preferences, to tell how healthy its data are."""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.impression import ABSENT, Impression
from multileave.methods.base import get_method
from multileave.stats.balance import Balance, expected_balance
from multileave.stats.intervals.moments import Ints
from multileave.stats.parsing import other_rankers, written_tally

COUNTS = (
    "clicks_known", "without_clicks", "examined", "no_preference", "different_documents", "fallbacks", "left_out",
    "short_lists",
)  # fmt: skip
ARRAYS = ("missing", "short", "same_pages")
PARTS = {
    "without_clicks": "clicks_known", "no_preference": "examined", "short_lists": "examined", "left_out": "fallbacks",
}  # fmt: skip


class HealthCounts:
    """Counts of impressions, all of them sums.

    clicks_known, without_clicks: impressions whose number of clicks is known, and those of them without clicks.
    examined: impressions known in full; the following refer to them.
    no_preference: those in which no click could favour a ranker, as all rank the drawn documents alike.
    different_documents: those in which a ranker had not returned some drawn document.
    short_lists: those in which a ranker returned fewer than k + 1 documents and lacks some that others returned;
        short: int (R,), how often each did; needed: the largest k + 1 of them.
    same_pages: int (R, R), how often two rankers ranked all drawn documents alike, for methods that are sensitive to
        copies of a ranker.
    first, exposure: whose document came first, and whose were shown, against what the method expects.
    fallbacks: impressions in which a ranker returned nothing; missing: int (R,), how often each did.
    left_out: those of them that could not be compared, and are not among the tally's impressions.
    """

    def __init__(self, rankers: int) -> None:
        self.clicks_known = self.without_clicks = 0
        self.examined = self.no_preference = self.different_documents = 0
        self.fallbacks = self.left_out = self.short_lists = self.needed = 0
        self.short: Ints = np.zeros(rankers, dtype=np.int64)
        self.same_pages: Ints = np.zeros((rankers, rankers), dtype=np.int64)
        self.missing: Ints = np.zeros(rankers, dtype=np.int64)
        self.first = Balance(rankers)
        self.exposure = Balance(rankers)

    def add_clicks(self, clicks: int, times: int = 1) -> None:
        """Count one impression's clicks; with times = -1, remove them."""
        self.clicks_known += times
        self.without_clicks += times * (clicks == 0)

    def change_clicks(self, before: int, after: int) -> None:
        """Replace an impression's number of clicks."""
        self.without_clicks = max(self.without_clicks + (after == 0) - (before == 0), 0)

    def add(self, impression: Impression, rankers: tuple[str, ...], unit: Hashable = None) -> None:
        """Count one impression of a unit."""
        if not isinstance(impression, Impression):
            raise TallyError(
                f"The impression is a {type(impression).__name__}; expected the Impression that was shown, or None."
            )
        order: Any = slice(None)
        if impression.rankers != rankers:
            if set(impression.rankers) != set(rankers):
                raise other_rankers("The impression", impression.rankers, rankers)
            order = [impression.rankers.index(name) for name in rankers]
        method = get_method(impression.method)
        absent = impression.lengths[order] == 0
        self.examined += 1
        self.no_preference += _no_preference(impression)
        self.fallbacks += bool(absent.any())
        self.missing += absent
        self.different_documents += bool((impression.ranks == ABSENT).any())
        short = _short_lists(impression)[order]
        if short.any():
            self.short_lists += 1
            self.short += short
            self.needed = max(self.needed, impression.k + 1)
        if not method.clone_proof and len(impression.ranks):
            ranks = impression.ranks[:, order]
            self.same_pages += (ranks[:, :, None] == ranks[:, None, :]).all(axis=0)
        for balance, every in ((self.first, False), (self.exposure, True)):
            found = expected_balance(impression, method, every=every)
            if found is not None:
                balance.add(found[0][order], found[1][order], unit)

    def add_fallback(self, missing: Collection[str], rankers: tuple[str, ...]) -> None:
        """Count an impression shown without some rankers that could not be compared."""
        names = () if isinstance(missing, str) or not isinstance(missing, Collection) else tuple(missing)
        if not names or not set(names) <= set(rankers):
            raise TallyError(
                f"Missing rankers are {missing!r}; expected the names of those that returned nothing, out of "
                f"{', '.join(rankers)}."
            )
        self.fallbacks += 1
        self.left_out += 1
        self.missing += np.array([name in names for name in rankers])

    def fallbacks_without(self, rankers: tuple[str, ...], dropped: Collection[str]) -> int:
        """Return the fallbacks that are not due to rankers that were dropped; at most so many, if several failed."""
        kept = sum(count for name, count in zip(rankers, self.missing.tolist(), strict=True) if name not in dropped)
        return min(self.fallbacks, kept) if dropped else self.fallbacks

    def merge(self, other: "HealthCounts", times: int = 1) -> None:
        """Add another's counts; with times = -1, remove them."""
        for name in (*COUNTS, *ARRAYS):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.needed = max(self.needed, other.needed)
        self.first.merge(other.first, times)
        self.exposure.merge(other.exposure, times)

    def reordered(self, order: Ints) -> "HealthCounts":
        """Return the same with the rankers in another order."""
        other = HealthCounts(len(order))
        for name in (*COUNTS, "needed"):
            setattr(other, name, getattr(self, name))
        other.missing, other.short = self.missing[order], self.short[order]
        other.same_pages = self.same_pages[np.ix_(order, order)]
        other.first, other.exposure = self.first.reordered(order), self.exposure.reordered(order)
        return other

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values that JSON can hold."""
        return {
            **{name: getattr(self, name) for name in COUNTS},
            "missing": self.missing.tolist(),
            "short": self.short.tolist(),
            "needed": self.needed,
            "same_pages": self.same_pages.tolist(),
            "first": self.first.to_dict(),
            "exposure": self.exposure.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int) -> "HealthCounts":
        """Return what `to_dict` wrote, checked; earlier versions did not count short lists and same pages."""
        counts, written = cls(rankers), written_tally(data)
        older = "short" not in data
        for name in COUNTS:
            setattr(counts, name, 0 if older and name == "short_lists" else written.count(name))
        counts.missing = written.integers("missing", (rankers,))
        if not older:
            counts.short, counts.needed = written.integers("short", (rankers,)), written.count("needed")
            counts.same_pages = written.integers("same_pages", (rankers, rankers))
        for part, whole in PARTS.items():
            right = getattr(counts, part) <= getattr(counts, whole)
            written.require(part, right, f"at most {whole!r}, {getattr(counts, whole)}")
        counts.first = Balance.from_dict(written.field("first", Mapping), rankers)
        counts.exposure = Balance.from_dict(written.field("exposure", Mapping), rankers)
        return counts


def _short_lists(impression: Impression) -> Any:
    """Return which rankers returned fewer than k + 1 documents and lack some that others returned, bool (R,)."""
    few = (impression.lengths > 0) & (impression.lengths <= impression.k)
    if len(impression.ranks):
        return few & (impression.ranks == ABSENT).any(axis=0)
    return few & (impression.lengths < impression.lengths.max(initial=0))


def _no_preference(impression: Impression) -> bool:
    """Return whether no click could favour a ranker: all rank the drawn documents alike, or there are no teams."""
    if len(impression.ranks):
        return bool((impression.ranks == impression.ranks[:, :1]).all())
    if len(impression.note):
        return not (impression.note >= 0).any()
    return not len(impression.drawn)
