"""Exposure balance: does every ranker stand first, and take up room, as often as the method intends?

A method draws lists so that no ranker is favoured by chance alone. If a cache shows one draw to many users, a page
reorders results or a ranker answers too late, clicks compare pages and not rankers. So for each impression we compare
what was drawn for each ranker with what the method expected given the rankings, and add both up. Nothing but the
impression is needed: each method says in its `balance_kernel` what is observed and what is expected.

om's probabilities are solved for each query and are not in the impression; its slack says how far from balance they
are.

The differences have mean zero whatever the rankings, but a page that is drawn again with the same seed, as for the same
user and query, is the same draw counted twice. Draws for different units are independent; those for one unit need not
be. So units are assigned to G groups by a hash of their id, and the differences are added up by group. The groups' sums
D_g are independent and have mean zero, however a unit's draws depend on each other. With d = sum_g D_g,

    T = d' (sum_g D_g D_g')^-1 d

is about chi-square with q degrees of freedom, q the rank of the matrix. With few groups its tail is lighter, as T is at
most G: it is the squared length of the projection of (1, ..., 1) on the columns of D. An impression without a unit is a
group of its own. If a few heavy units make up most of a sum, a ranker that none of them drew seems to be left out. As
for a table of counts, there must be several independent draws for each ranker: the effective number of groups,
(sum_g n_g)^2 / sum_g n_g^2 with n_g impressions, must be at least 6 q and 20.

A cache that shows one draw to many users is not excused by this: the sums of different groups are then alike, and T is
near G.
"""

from collections.abc import Hashable, Mapping
from typing import Any
from zlib import crc32

import numpy as np

from multileave.impression import Impression
from multileave.methods.base import Method
from multileave.outcome import Floats
from multileave.stats.parsing import written_tally

FEWEST = 50  # impressions, for a test
FEWEST_GROUPS = 20  # effective, for a test
GROUPS_PER_DEGREE = 6  # of freedom, as well


def group_count(rankers: int) -> int:
    """Return into how many groups units are divided: enough for the test, few enough for a tally to stay small."""
    return max(64, 8 * rankers)


def unit_group(unit: Hashable, groups: int) -> int:
    """Return the group of a unit: the CRC-32 of its id modulo their number, the same in every process.

    >>> unit_group("user-17", 64), unit_group(17, 64) == unit_group(17.0, 64)
    (57, True)
    """
    if not isinstance(unit, str):
        unit = hash(unit) if isinstance(unit, int | float) else repr(unit)
    return crc32(str(unit).encode("utf-8", "surrogatepass")) % groups


class Balance:
    """Sums of what was drawn for every ranker, and of what the method expected.

    groups: (G, 1 + R), by group of units, their impressions and the sums of their differences.
    products: (R, R), the sum of the products of differences of impressions without a unit, and of all in tallies
        written before there were groups.
    """

    def __init__(self, rankers: int) -> None:
        self.impressions = 0
        self.observed = np.zeros(rankers)
        self.expected = np.zeros(rankers)
        self.products = np.zeros((rankers, rankers))
        self.groups = np.zeros((group_count(rankers), 1 + rankers))

    def add(self, observed: Floats, expected: Floats, unit: Hashable = None) -> None:
        """Add one impression."""
        difference = observed - expected
        self.impressions += 1
        self.observed += observed
        self.expected += expected
        if unit is None:
            self.products += np.outer(difference, difference)
        else:
            group = self.groups[unit_group(unit, len(self.groups))]
            group[0] += 1.0
            group[1:] += difference

    def merge(self, other: "Balance", times: int = 1) -> None:
        """Add another's sums, so many times."""
        self.impressions += times * other.impressions
        self.observed += times * other.observed
        self.expected += times * other.expected
        self.products += times * other.products
        self.groups += times * other.groups
        # What is taken out may have been added before there were groups.
        np.maximum(self.groups[:, 0], 0.0, out=self.groups[:, 0])

    def reordered(self, order: Any) -> "Balance":
        """Return the same with the rankers in another order."""
        other = Balance(len(order))
        other.impressions = self.impressions
        other.observed, other.expected = self.observed[order], self.expected[order]
        other.products = self.products[np.ix_(order, order)]
        other.groups = self.groups[:, [0, *(1 + np.asarray(order))]]
        return other

    def test(self) -> tuple[float, int, float] | None:
        """Return T, its degrees of freedom and the p-value; None if there are too few impressions or groups."""
        if self.impressions < FEWEST:
            return None
        from scipy.special import chdtrc

        # Eigenvalues are exactly zero if no impression separates rankers, and rounding if they always sum to one.
        values, vectors = np.linalg.eigh(self.products + self.groups[:, 1:].T @ self.groups[:, 1:])
        kept = values > 1e-9 * max(float(values.max()), 1e-300)
        if not kept.any() or values.max() <= 0.0:
            return 0.0, 0, 1.0
        along = (self.observed - self.expected) @ vectors[:, kept]
        statistic = float((along * along / values[kept]).sum())
        freedom = int(kept.sum())
        if self.effective_groups < max(FEWEST_GROUPS, GROUPS_PER_DEGREE * freedom):
            return None
        return statistic, freedom, float(chdtrc(freedom, statistic))

    @property
    def effective_groups(self) -> float:
        """The effective number of groups, with an impression without a unit as its own group."""
        sizes = self.groups[:, 0]
        singles = max(self.impressions - float(sizes.sum()), 0.0)
        return float((singles + sizes.sum()) ** 2 / max(singles + float((sizes * sizes).sum()), 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values that JSON can hold."""
        return {
            "impressions": self.impressions,
            "observed": self.observed.tolist(),
            "expected": self.expected.tolist(),
            "products": self.products.tolist(),
            **({"groups": self.groups.tolist()} if self.groups.any() else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int) -> "Balance":
        """Return what `to_dict` wrote, checked; earlier versions had no groups."""
        balance, written = cls(rankers), written_tally(data)
        balance.impressions = written.count("impressions")
        balance.observed = written.floats("observed", (rankers,))
        balance.expected = written.floats("expected", (rankers,))
        balance.products = written.floats("products", (rankers, rankers))
        if "groups" in data:
            balance.groups = written.floats("groups", balance.groups.shape)
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
