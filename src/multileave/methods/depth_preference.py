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

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._parameters import check_choice
from multileave.methods.base import register
from multileave.methods.exact import Documents, ExactRankings, Note, rank_in
from multileave.methods.pairwise_preference import (
    ChoiceMethod,
    agreement,
    best_ranks,
    chance_to_wait,
    chances_to_stay,
)

DEPTHS = ("top", "linear", "none")


@kernel
def add_within(weight, better, worse, limit, out):  # type: ignore[no-untyped-def]
    """Add the weight for every ranker that agrees, subtract it for those that do not.

    Ranks from `limit` on count as one: a ranker that places both documents there gains and loses nothing.
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
def credit_depths(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add up all pairs; params[0] is the depth: 0 top, 1 linear, 2 none."""
    m = len(clicks)
    depth = params[0]
    limit = np.int32(ABSENT if depth == 2.0 else k + 1)
    best = work_i[:m]
    stay = work_f[: m + 1]
    best_ranks(ranks, best)
    chances_to_stay(note, stay)
    for i in range(m):
        if not clicks[i]:
            continue
        for j in range(m):
            threshold = max(best[i], best[j])
            if clicks[j] or min(i, j) + 1 < threshold:
                continue
            weight = stay[min(best[i], best[j]) - 1] / stay[threshold - 1]
            if depth == 1.0:
                add_by_height(weight / k, ranks[i], ranks[j], limit, out)
            else:
                add_within(weight, ranks[i], ranks[j], limit, out)


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
    credit_kernel = credit_depths

    depth: str = "top"

    def __post_init__(self) -> None:
        check_choice(self, "depth", DEPTHS)

    @property
    def reads_late(self) -> bool:
        """A clicked document is paired with a lower one only if that could have been drawn in its place."""
        return False

    def params(self) -> Sequence[float]:
        """Return the depth's number."""
        return (float(DEPTHS.index(self.depth)),)

    def reads_to(self, k: int) -> int | None:
        """Nothing below rank k + 1 is read, unless all depths count equally."""
        return None if self.depth == "none" else k + 1

    def score(
        self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Sequence[int], k: int
    ) -> list[Fraction]:
        """Return S_n of every ranker."""
        scores = [Fraction(0)] * len(rankings)
        best = [int(min(rank_in(ranking, document) for ranking in rankings)) for document in drawn]
        for x in range(len(drawn)):
            for y in range(x + 1, len(drawn)):
                threshold = max(best[x], best[y])
                if (x in clicks) == (y in clicks) or x + 1 < threshold:
                    continue
                weight = ((x in clicks) - (y in clicks)) / chance_to_wait(rankings, min(best[x], best[y]), threshold)
                for n, ranking in enumerate(rankings):
                    r_x, r_y = rank_in(ranking, drawn[x]), rank_in(ranking, drawn[y])
                    scores[n] += weight * ((r_y > r_x) - (r_y < r_x)) * self._use(min(r_x, r_y), k)
        return scores

    def _use(self, rank: float, k: int) -> Fraction:
        """Return u(rank)."""
        if self.depth == "none":
            return Fraction(1)
        if rank > k:
            return Fraction(0)
        return Fraction(1) if self.depth == "top" else Fraction(k + 1 - int(rank), k)
