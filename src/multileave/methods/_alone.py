"""What each ranker would earn alone, estimated from one impression of the combined list.

If a click depends only on the document and its rank, a ranker's own page would earn the sum over its ranks x of
q(d, x), the chance of a click on its document d there. An impression that shows d at that very rank x, which happens
with the known propensity P(d, x), says something about q(d, x). So the sum over such documents

    earned_r = sum of c(d) / P(d, x)    over shown documents d with r(d) = x

has exactly that expectation, provided that every document of the ranker's page can be shown at the ranker's rank
(docs/rates.md proves it for the methods that have propensities). The same sum with a known curve g(x) for c,

    surplus_r = sum of g(x) / P(d, x) over the same documents - page_r,    page_r = sum of g(x) over the ranker's page,

has expectation 0, whatever users click. It says by how much chance showed more or less of the ranker's page than it
should, and `stats.rates` uses it to remove most of that noise.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.impression import Impression
from multileave.kernels import Kernel, kernel
from multileave.outcome import Floats

if TYPE_CHECKING:
    from multileave.methods.base import Method

EARNED, SURPLUS, PAGE = range(3)  # the rows of what an impression says
NO_STAT: Floats = np.zeros(0)


@kernel
def attention(rank):  # type: ignore[no-untyped-def]
    """Return g(rank): how attention falls. Any curve is valid; one like that of users removes more noise."""
    return 1.0 / np.sqrt(rank)


def propensity(*arguments: Any) -> int:
    """Stand for a method's propensity kernel in `fill_surplus`."""
    return 0


@kernel
def fill_surplus(ranks, lengths, note, stat, visible, k, params, chances, surplus, pages, work_f):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill in an impression's propensities, f8[visible], and f8[R] surplus and pages; return whether they are known.

    All rankers must have answered. work_f: visible + 2 floats.
    """
    rankers = len(lengths)
    if len(ranks) < visible or not propensity(ranks, lengths, note, stat, visible, params, chances, work_f):
        return 0
    whole = 0.0
    for x in range(k):
        whole += attention(x + 1)
    for r in range(rankers):
        if lengths[r] == 0:
            return 0
        pages[r] = whole
        if lengths[r] < k:
            pages[r] = 0.0
            for x in range(lengths[r]):
                pages[r] += attention(x + 1)
        surplus[r] = -pages[r]
    for x in range(visible):
        weight = attention(x + 1) / chances[x]
        for r in range(rankers):
            surplus[r] += weight * (ranks[x, r] == x + 1)
    return 1


@kernel
def add_earned(ranks, visible, chances, values, earned):  # type: ignore[no-untyped-def]
    """Add what each ranker earned alone; values: what each drawn document earned, 1 for a click."""
    for x in range(visible):
        if values[x] != 0:
            weight = values[x] / chances[x]
            for r in range(len(earned)):
                earned[r] += weight * (ranks[x, r] == x + 1)


@kernel
def fill_alone(ranks, lengths, note, stat, visible, k, params, values, out, work_f):  # type: ignore[no-untyped-def]
    """Fill out f8[3, R], zeroed, with what one impression says; return whether the propensities are known.

    work_f: 2 * visible + 2 floats.
    """
    chances = work_f[:visible]
    known = fill_surplus(
        ranks, lengths, note, stat, visible, k, params, chances, out[SURPLUS], out[PAGE], work_f[visible:]
    )
    if known:
        add_earned(ranks, visible, chances, values, out[EARNED])
    return known


def propensities(method: "Method", impression: Impression) -> "Floats | None":
    """Return the probability that each shown document, without pinned ones, is shown where it is; None if unknown."""
    visible = len(impression.shown) - len(impression.pinned)
    if not impression.lengths.all():
        return None
    found = np.empty(visible)
    known = method.propensity_kernel(
        impression.ranks, impression.lengths, impression.note, np.array(impression.stat), visible, method.parameters,
        found, np.empty(visible + 2),
    )  # fmt: skip
    return found if known else None


def alone(method: "Method", impression: Impression, values: "np.ndarray[Any, Any]") -> "Floats | None":
    """Return what an impression says about each ranker's own page, float (3, R); None if that is unknown.

    values: what each drawn document earned.
    """
    if not method.estimates_rates:
        return None
    visible = len(impression.shown) - len(impression.pinned)
    out = np.zeros((3, len(impression.rankers)))
    stat = np.array(impression.stat) if impression.stat else NO_STAT
    known = _filling(method.propensity_kernel)(
        impression.ranks, impression.lengths, impression.note, stat, visible, impression.k, method.parameters, values,
        out, np.empty(2 * visible + 2),
    )  # fmt: skip
    return out if known else None


@functools.cache
def _filling(kernel: Kernel) -> Kernel:
    """Return `fill_alone` for a propensity kernel."""
    return fill_alone.bind(fill_surplus=fill_surplus.bind(propensity=kernel))
