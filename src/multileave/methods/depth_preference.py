"""DPM, depth preference multileaving: ppm's lists, all pairs, and each ranker judged by what it would have shown.

Lists are drawn as ppm draws them: considerate, with one hidden document. Of every two drawn documents of which exactly
one was clicked, the clicked one is preferred, if both are at or below rbar, the first rank at which both could be
drawn. With w the probability of that, and for the pair i, j at the positions x < y with clicks c_x, c_y, every ranker's
score gains

    S_n += (c_x - c_y) / w * sgn(r_n(j) - r_n(i)) * u(min(r_n(i), r_n(j))),

and P_nm = S_n - S_m. The factor u is what ppm does not have: it is positive down to rank k and never rises with the
rank, so that a ranker gains and loses less by pairs deep in its own ranking,

    depth="top"     u = 1 for ranks up to k, else 0: only pairs of which the ranker would have shown one
    depth="linear"  u = (k + 1 - rank) / k, 0 below k: pairs higher up count more
    depth="none"    u = 1: ppm with all pairs

sgn times u is antisymmetric in the pair, which is all that the proof of unbiasedness needs; the proof for a better
ranker needs that u does not rise. Both are in docs/theory.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from multileave.kernels import kernel
from multileave.methods._parameters import check_choice
from multileave.methods.base import register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Note
from multileave.methods.pairwise_preference import (
    RULES,
    ChoiceMethod,
    agreement,
    count_pair,
    credit_pairs,
    pair_scores,
    preferred_pairs,
)

DEPTHS = ("top", "linear", "none")


@kernel
def add_within(weight, better, worse, limit, out):  # type: ignore[no-untyped-def]
    """As `count_pair`, but ranks from `limit` on count as one.

    A ranker that places both documents there gains and loses nothing.
    """
    for n in range(len(out)):
        out[n] += weight * agreement(min(better[n], limit), min(worse[n], limit))


@kernel
def add_by_height(weight, better, worse, limit, out):  # type: ignore[no-untyped-def]
    """As `add_within`, times the height of the ranker's higher document: how many ranks it is above `limit`."""
    for n in range(len(out)):
        height, other = np.int32(limit - min(better[n], limit)), np.int32(limit - min(worse[n], limit))
        out[n] += weight * np.int32(max(height, other) * agreement(other, height))


@kernel
def count_by_depth(weight, better, worse, k, params, out):  # type: ignore[no-untyped-def]
    """Count a pair by how high each ranker places it; params[1]: the position in DEPTHS."""
    limit = np.int32(k + 1)
    if params[1] == 1.0:
        add_by_height(weight / k, better, worse, limit, out)
    elif params[1] == 2.0:
        count_pair(weight, better, worse, k, params, out)
    else:
        add_within(weight, better, worse, limit, out)


@register
@dataclass(frozen=True)
class DepthPreference(ChoiceMethod):
    """Depth preference multileaving, "dpm".

    depth: how much a pair counts by how high a ranker places it: "top", "linear" or "none".
    """

    name = "dpm"
    title = "Depth Preference Multileaving"
    unbiased_lists = "any"
    clone_proof = True
    fidelity = "both, if clicks at a rank depend only on that rank and its document"
    reference = "multileave2026"
    proof = "docs/theory.md"
    pareto = "independent"
    credit_kernel = credit_pairs.bind(count_pair=count_by_depth)
    reads_late = False  # as for ppm

    depth: str = "top"

    def __post_init__(self) -> None:
        check_choice(self, "depth", DEPTHS)

    def params(self) -> Sequence[float]:
        """Return the pair rule, all pairs, and the depth."""
        return float(RULES.index("all")), float(DEPTHS.index(self.depth))

    def reads_to(self, k: int) -> int | None:
        """Nothing below rank k + 1 is read, unless all depths count equally."""
        return None if self.depth == "none" else k + 1

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return S_n of every ranker."""
        pairs = preferred_pairs("all", len(drawn), clicks)
        return pair_scores(rankings, drawn, pairs, lambda rank: self._use(rank, k))

    def _use(self, rank: float, k: int) -> Fraction:
        """Return u(rank)."""
        if self.depth == "none":
            return Fraction(1)
        if rank > k:
            return Fraction(0)
        return Fraction(1) if self.depth == "top" else Fraction(k + 1 - int(rank), k)
