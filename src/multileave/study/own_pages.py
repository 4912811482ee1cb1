"""Own pages: simulated users on pages of a single ranker, and how many impressions an A/B test between them takes.

An A/B test of R rankers shows each of them in its own arm, to one in R impressions. With means m and variances v
of a metric per page, it detects the difference between rankers a and b with the given power after about

    n = R (z(1 - level / 2) + z(power))^2 (v_a + v_b) / (m_a - m_b)^2

impressions in all. Interleaving compares all rankers on every page (`power`). Both count impressions, as if each were
of another user.
"""

from dataclasses import dataclass

import numpy as np

from multileave.clicks import ClickModel
from multileave.data import QuerySet
from multileave.errors import DataError
from multileave.kernels import kernel
from multileave.outcome import Floats
from multileave.random import Seed, seed_state
from multileave.stats.arms.metrics import METRICS
from multileave.study.power import LEVEL, POWER, impressions_to_verdict

PAGE_METRICS = METRICS[:3]
"""The metrics of a page: its clicks, success (whether there is one), and 1 / rank of the highest click.

Abandonment is 1 - success, so an A/B test on it takes as many impressions.
"""


def click(*arguments: object) -> int:
    """Stand for a user's kernel, which is bound into `click_own_pages`."""
    return 0


@kernel
def click_own_pages(repetitions, offsets, labels, rankings, lengths, k, user, rng, shown, clicks, sums):  # type: ignore[no-untyped-def]
    """Show every ranker's page of every query some times; add up metrics and their squares, f8[2, 3, R]."""
    rankers = lengths.shape[1]
    for q in range(len(offsets) - 1):
        first, size = offsets[q], offsets[q + 1] - offsets[q]
        for r in range(rankers):
            start = rankers * first + r * size
            m = min(k, lengths[q, r])
            for x in range(m):
                shown[x] = labels[first + rankings[start + x]]
            for _ in range(repetitions):
                count = click(shown[:m], m, user, rng, clicks[:m])
                if count == 0:
                    continue
                highest = 0
                while clicks[highest] == 0:
                    highest += 1
                sums[0, 0, r] += count
                sums[1, 0, r] += count * count
                sums[0, 1, r] += 1.0
                sums[0, 2, r] += 1.0 / (highest + 1)
                sums[1, 2, r] += 1.0 / (highest + 1) ** 2
    for r in range(rankers):
        sums[1, 1, r] = sums[0, 1, r]


@dataclass(frozen=True, eq=False)
class OwnPages:
    """Metrics of each ranker's own pages: means and variances per page, float (3, R) by `PAGE_METRICS`.

    pages: how many of each ranker were simulated.
    """

    rankers: tuple[str, ...]
    pages: int
    means: Floats
    variances: Floats

    def ab_impressions(self, metric: str = "clicks", *, power: float = POWER, level: float = LEVEL) -> Floats:
        """Return how many impressions an A/B test of all rankers takes for each pair, (R, R); infinite if equal."""
        if metric not in PAGE_METRICS:
            raise DataError(f"The metric is {metric!r}; expected one of {', '.join(PAGE_METRICS)}.")
        means, variances = (part[PAGE_METRICS.index(metric)] for part in (self.means, self.variances))
        between = len(self.rankers) * (variances[:, None] + variances[None, :])
        return impressions_to_verdict(means[:, None] - means[None, :], between, power=power, level=level)


def simulate_own_pages(data: QuerySet, user: ClickModel, pages: int, *, k: int = 10, seed: Seed = 0) -> OwnPages:
    """Return the metrics of each ranker's own pages; every query is shown equally often, at least `pages` in all.

    >>> from multileave.clicks import user
    >>> from multileave.data import synthetic
    >>> found = simulate_own_pages(synthetic(queries=50, rankers=2, seed=1), user("perfect"), 1000, seed=1)
    >>> found.pages, found.means.shape
    (1000, (3, 2))
    """
    if pages < 1 or k < 1:
        raise DataError(f"pages is {pages} and k is {k}; expected integers from 1.")
    if user.grades < data.grades:
        raise DataError(
            f"The data have {data.grades} grades of relevance, but the user model only {user.grades}. Use one for "
            f"{data.grades} grades."
        )
    repetitions = -(-pages // len(data))
    sums = np.zeros((2, len(PAGE_METRICS), len(data.rankers)))
    click_own_pages.bind(click=user.kernel)(
        repetitions, data.offsets, data.labels, data.rankings, data.lengths, k, user.parameters, seed_state(seed),
        np.empty(k, dtype=np.uint8), np.empty(k, dtype=np.uint8), sums,
    )  # fmt: skip
    shown = repetitions * len(data)
    means, squares = sums / shown
    return OwnPages(data.rankers, shown, means, np.maximum(squares - means**2, 0.0))
