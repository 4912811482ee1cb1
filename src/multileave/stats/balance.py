"""Exposure balance: does every ranker stand first, and take up room, as often as the method intends?

A method draws lists so that no ranker is favoured by chance alone. If a cache shows one draw to many users, a page
reorders results or a ranker answers too late, clicks compare pages and not rankers. So for each impression we compare
what was drawn for each ranker with what the method expected given the rankings, and add both up. Nothing but the
impression is needed: each method says in its `balance_kernel` what is observed and what is expected.

om's probabilities are solved for each query and are not in the impression; its slack says how far from balance they
are. The differences have mean zero whatever the rankings, so their sum d over impressions and the sum G of their
products give chi-square = d' G^-1 d, with the rank of G as degrees of freedom.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.impression import Impression
from multileave.methods.base import Method
from multileave.outcome import Floats
from multileave.stats.parsing import written_tally

FEWEST = 50  # impressions, for a test


class Balance:
    """Sums of what was drawn for every ranker, and of what the method expected."""

    def __init__(self, rankers: int) -> None:
        self.impressions = 0
        self.observed = np.zeros(rankers)
        self.expected = np.zeros(rankers)
        self.products = np.zeros((rankers, rankers))

    def add(self, observed: Floats, expected: Floats) -> None:
        """Add one impression."""
        difference = observed - expected
        self.impressions += 1
        self.observed += observed
        self.expected += expected
        self.products += np.outer(difference, difference)

    def merge(self, other: "Balance", times: int = 1) -> None:
        """Add another's sums, so many times."""
        self.impressions += times * other.impressions
        self.observed += times * other.observed
        self.expected += times * other.expected
        self.products += times * other.products

    def reordered(self, order: Any) -> "Balance":
        """Return the same with the rankers in another order."""
        other = Balance(len(order))
        other.impressions = self.impressions
        other.observed, other.expected = self.observed[order], self.expected[order]
        other.products = self.products[np.ix_(order, order)]
        return other

    def test(self) -> tuple[float, int, float] | None:
        """Return chi-square, its degrees of freedom and the p-value; None if there are too few impressions."""
        if self.impressions < FEWEST:
            return None
        from scipy.special import chdtrc

        # Eigenvalues are exactly zero if no impression separates rankers, and rounding if they always sum to one.
        values, vectors = np.linalg.eigh(self.products)
        kept = values > 1e-9 * max(float(values.max()), 1e-300)
        if not kept.any() or values.max() <= 0.0:
            return 0.0, 0, 1.0
        along = (self.observed - self.expected) @ vectors[:, kept]
        statistic = float((along * along / values[kept]).sum())
        freedom = int(kept.sum())
        return statistic, freedom, float(chdtrc(freedom, statistic))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values that JSON can hold."""
        return {
            "impressions": self.impressions,
            "observed": self.observed.tolist(),
            "expected": self.expected.tolist(),
            "products": self.products.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int) -> "Balance":
        """Return what `to_dict` wrote, checked."""
        balance, written = cls(rankers), written_tally(data)
        balance.impressions = written.count("impressions")
        balance.observed = written.floats("observed", (rankers,))
        balance.expected = written.floats("expected", (rankers,))
        balance.products = written.floats("products", (rankers, rankers))
        return balance


def expected_balance(impression: Impression, method: Method, *, every: bool) -> tuple[Floats, Floats] | None:
    """Return what was drawn for each ranker, (R,), and what was expected: first, or of all shown documents.

    None if that is unknown: the method does not say, or a ranker returned nothing or, of `every` document, fewer than
    are shown.
    """
    visible = len(impression.shown) - len(impression.pinned)
    if not (visible > 0 and (impression.lengths >= visible).all() if every else impression.lengths.all()):
        return None
    observed, expected = np.zeros((2, len(impression.rankers)))
    known = method.balance_kernel(
        impression.ranks, impression.lengths, impression.note, visible, every, method.parameters, observed, expected,
        np.empty(visible + 2),
    )  # fmt: skip
    return (observed, expected) if known else None
