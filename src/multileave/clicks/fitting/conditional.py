"""Examination by comparing each document with itself at other ranks.

In the position-based and the user browsing model a document d is clicked n_dj e_j a_d times in expectation if it is
shown n_dj times in situation j (a rank, or a rank and the last click above). Given its number of clicks C_d,
attractiveness a_d drops out of the Poisson likelihood

    sum over d of ( sum over j of c_dj log e_j  -  C_d log sum over j of n_dj e_j )

whose maximum is consistent for whatever attractiveness documents have and wherever rankers put them [wooldridge1999]:
only the expectation has to be right. Documents shown in a single situation say nothing. The first situation, rank 1,
has e = 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from multileave.clicks.fitting.pages import Pages
from multileave.kernels import kernel
from multileave.outcome import Floats

RIDGE = 0.2  # weight of the centre, in clicks
STEPS = 30


@kernel
def conditional_slopes(start, situation, shown, clicked, e, gradient, hessian, part):  # type: ignore[no-untyped-def]
    """Add up the derivatives by log e; part: work space for the situations of a document."""
    gradient[:] = 0.0
    hessian[:] = 0.0
    for d in range(len(start) - 1):
        clicks = total = 0.0
        for cell in range(start[d], start[d + 1]):
            clicks += clicked[cell]
            total += shown[cell] * e[situation[cell]]
        if clicks == 0.0:
            continue
        for cell in range(start[d], start[d + 1]):
            j = situation[cell]
            part[cell - start[d]] = shown[cell] * e[j] / total
            gradient[j] += clicked[cell] - clicks * part[cell - start[d]]
        for cell in range(start[d], start[d + 1]):
            share = clicks * part[cell - start[d]]
            hessian[situation[cell], situation[cell]] += share
            for other in range(start[d], cell + 1):  # a document's situations ascend: this is the lower triangle
                hessian[situation[cell], situation[other]] -= share * part[other - start[d]]
    for j in range(len(hessian)):
        for i in range(j):
            hessian[i, j] = hessian[j, i]


@dataclass(eq=False)
class Situations:
    """In which situations each document was shown: a table of documents by situations, stored by document."""

    start: Any
    situation: Any
    cell: Any
    rows: Any
    clicked: Any
    size: int

    @classmethod
    def of(cls, pages: Pages, number: Any, size: int) -> "Situations":
        """Return the situations of all rows; number: (R, k) the situation of each row at each rank."""
        shown = pages.lists[pages.row_list]
        rows, ranks = np.nonzero(shown >= 0)
        found = shown[rows, ranks].astype(np.int64) * size + number[rows, ranks]
        keys, cell = np.unique(found, return_inverse=True)
        start = np.searchsorted(keys // size, np.arange(pages.documents + 1))
        return cls(start, keys % size, cell, rows, pages.row_order[rows, ranks] > 0, size)

    def fit(self, weights: Floats, centre: Floats, start: Any = None) -> Floats:
        """Return e by situation, at most 1, for rows with weights; centre: log e where there is little data."""
        cells = len(self.situation)
        shown = np.bincount(self.cell, weights[self.rows], minlength=cells)
        clicked = np.bincount(self.cell, weights[self.rows] * self.clicked, minlength=cells)
        gradient, hessian = np.zeros(self.size), np.zeros((self.size, self.size))
        part = np.zeros(self.size)
        logs = centre.copy() if start is None else np.log(start)
        for _ in range(STEPS):
            conditional_slopes(self.start, self.situation, shown, clicked, np.exp(logs), gradient, hessian, part)
            slope = gradient[1:] - RIDGE * (logs - centre)[1:]
            curve = hessian[1:, 1:] + RIDGE * np.eye(self.size - 1)
            step = np.clip(np.linalg.solve(curve, slope), -1.0, 1.0) if self.size > 1 else np.zeros(0)
            logs[1:] += step
            if np.abs(step).max(initial=0.0) < 1e-6:
                break
        return np.exp(logs)

    def evidence(self, weights: Floats, e: Floats) -> tuple[Floats, Floats]:
        """Return by situation the clicks, and the clicks expected if all is examined, of documents in several."""
        document = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        shown = np.bincount(self.cell, weights[self.rows], minlength=len(document))
        clicked = np.bincount(self.cell, weights[self.rows] * self.clicked, minlength=len(document))
        examined = np.bincount(document, shown * e[self.situation])
        attractive = np.bincount(document, clicked) / np.maximum(examined, 1e-12)
        several = (np.bincount(document, shown > 0.0) > 1)[document]
        expected = shown * np.minimum(attractive, 1.0)[document]
        found = [np.bincount(self.situation, x * several, minlength=self.size) for x in (clicked, expected)]
        return found[0].astype(np.float64), found[1].astype(np.float64)


def click_rates(pages: Pages, weights: Floats) -> Floats:
    """Return the click rate of each rank: the baseline."""
    there = pages.lists[pages.row_list] >= 0
    shown = (weights[:, None] * there).sum(axis=0)
    return np.asarray((weights[:, None] * (pages.row_order > 0)).sum(axis=0) / np.maximum(shown, 1.0))


def rank_situations(pages: Pages) -> Situations:
    """Return situations that are ranks."""
    number = np.broadcast_to(np.arange(pages.k), pages.row_order.shape)
    return Situations.of(pages, number, pages.k)


def browsing_situations(pages: Pages) -> Situations:
    """Return situations that are a rank and the rank of the last click above, 0 for none."""
    k = pages.k
    ranks = np.arange(k)
    last = np.maximum.accumulate(np.where(pages.row_order > 0, ranks + 1, 0), axis=1)
    above = np.concatenate([np.zeros((len(last), 1), dtype=np.int64), last[:, :-1]], axis=1)
    return Situations.of(pages, ranks * (ranks + 1) // 2 + above, k * (k + 1) // 2)


def rank_centre(pages: Pages, weights: Floats) -> Floats:
    """Return the log click rate of each rank relative to rank 1."""
    rates = np.maximum(click_rates(pages, weights), 1e-6)
    return np.asarray(np.log(np.minimum(rates / rates[0], 1.0)))
