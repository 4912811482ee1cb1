"""Balance: does every ranker stand first, and take up room, as often as the method would have it?

A method draws lists so that no ranker is favoured by chance alone. Where that breaks, because of a cache
that shows one draw to many, a page that reorders, or a ranker that answers too late, clicks compare
pages and not rankers. So for each impression we set what was drawn, per ranker, against what the method
expected given the rankings, and add both up. Nothing but the impression is needed:

    team draft (tdm)          observed: the ranker whose team has the first drafted document, or each
                              document; expected: 1 / R each
    choice sets               observed at rank x: whether the ranker has the document in its top x;
    (ppm, dpm, opm)           expected: how many of its top x are still to be drawn, over the number of
                              choices, for a choice is drawn uniformly
    rounds (rpm)              observed: whether the first document of a round is the one of it that the ranker
                              has highest; expected: 1 by the documents of the round
    uniform ranker            observed: the chance that the ranker supplied the first document, given the
    (pm, sosm, bi, pbi)       document; expected: 1 / R each, for it was chosen uniformly

om's probabilities are solved for each query and are not in the impression; its slack says how far from
balance they are. The differences have mean zero whatever the rankings, so their sum d over impressions
and the sum G of their products give chi-square = d' G^-1 d, with the rank of G as degrees of freedom.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.impression import ABSENT, Impression
from multileave.kernels import kernel
from multileave.methods.balanced import draw_balanced
from multileave.methods.base import Method
from multileave.methods.pairwise_preference import draw_choices
from multileave.methods.probabilistic import draw_ranker_and_document
from multileave.methods.round_preference import add_leads, draw_rounds
from multileave.methods.team_draft import draw_teams
from multileave.outcome import Floats
from multileave.stats.parsing import count_of, floats_of

__all__ = ["Balance", "expected_exposure", "expected_first"]

FEWEST = 50  # impressions below which nothing is said


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
        """Return chi-square, its degrees of freedom and p-value; None for too few impressions to tell."""
        if self.impressions < FEWEST:
            return None
        from scipy.special import chdtrc

        # Exact zeros where no impression told rankers apart, and rounding where they always sum to one.
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
        balance = cls(rankers)
        balance.impressions = count_of(data, "impressions")
        balance.observed = floats_of(data, "observed", (rankers,))
        balance.expected = floats_of(data, "expected", (rankers,))
        balance.products = floats_of(data, "products", (rankers, rankers))
        return balance


def expected_first(impression: Impression, method: Method) -> tuple[Floats, Floats] | None:
    """Return whose document stands first, (R,), and what was expected; None where that is not known.

    Impressions in which a ranker returned nothing are left out.
    """
    rankers = len(impression.rankers)
    if not (impression.lengths > 0).all() or not (len(impression.ranks) or len(impression.note)):
        return None
    even = np.full(rankers, 1.0 / rankers)
    kernel = method.draw_kernel
    if kernel is draw_teams and method.keeps_note:
        drafted = impression.note[impression.note >= 0]
        return (np.eye(rankers)[drafted[0]], even) if len(drafted) else None
    if not len(impression.ranks):
        return None
    if kernel is draw_rounds:
        return _leads(impression, every=False)
    ranks = impression.ranks[0].astype(np.float64)
    first = (impression.ranks[0] == 1).astype(np.float64)
    if kernel is draw_choices:
        return first, np.full(rankers, 1.0 / float(impression.note[0]))
    if kernel in (draw_teams, draw_balanced):
        return first / first.sum(), even
    tau = getattr(method, "tau", None)
    if kernel is draw_ranker_and_document and tau is not None:
        weights = np.array([(np.arange(1.0, n + 1) ** -tau).sum() for n in impression.lengths.tolist()])
        chances = np.where(impression.ranks[0] == ABSENT, 0.0, ranks**-tau / weights)
        return chances / chances.sum(), even
    return None


def expected_exposure(impression: Impression, method: Method) -> tuple[Floats, Floats] | None:
    """Return how many of the shown documents are each ranker's, (R,), and how many were expected.

    Only where every ranker returned as many documents as are shown.
    """
    rankers = len(impression.rankers)
    visible = len(impression.shown) - len(impression.pinned)
    if not visible or not (impression.lengths >= visible).all():
        return None
    if method.draw_kernel is draw_teams and method.keeps_note:
        drafted = impression.note[impression.note >= 0]
        return np.bincount(drafted, minlength=rankers).astype(np.float64), np.full(rankers, len(drafted) / rankers)
    if method.draw_kernel is draw_rounds:
        return _leads(impression, every=True)
    if method.draw_kernel is draw_choices:
        observed, expected = np.zeros(rankers), np.zeros(rankers)
        add_choices(impression.ranks, impression.note, visible, observed, expected)
        return observed, expected
    return None


def _leads(impression: Impression, *, every: bool) -> tuple[Floats, Floats] | None:
    """Return whose documents lead rounds of several, all or only the first, and what was expected."""
    observed, expected = np.zeros((2, len(impression.rankers)))
    found = add_leads(impression.ranks, impression.note, every, observed, expected)
    return (observed, expected) if found else None


@kernel
def add_choices(ranks, note, visible, observed, expected):  # type: ignore[no-untyped-def]
    """Add for every ranker its documents within each rank, and how many of its top x were left, over the choices."""
    for r in range(ranks.shape[1]):
        for x in range(visible):
            if ranks[x, r] <= x + 1:
                observed[r] += 1.0
            left = x + 1
            for d in range(x):
                if ranks[d, r] <= x + 1:
                    left -= 1
            expected[r] += left / note[x]
