"""OPM, opposed preference multileaving: ppm's lists, and only pairs that two rankers move in opposite directions.

Lists are drawn as ppm draws them: considerate, with one hidden document. Let D(r) be the discount of NDCG,
1 / log2(1 + r) down to rank k and 0 below. Compared with m, ranker n moves a document d up by D(r_n(d)) - D(r_m(d)).
For the pair i, j at the positions x < y, both at or below rbar, the first rank at which both could be drawn,

    P_nm += (c_x - c_y) * F(move of i, move of j),
    F(a, b) = min(a, -b) if a > 0 > b,  -min(-a, b) if a < 0 < b,  else 0.

So a pair counts for n against m only if n has one document higher than m and the other lower. If n dominates m, no
relevant document has a move below 0, and every pair that counts favours n or is even. As each pair does so on its own,
neither equal chances nor equal attention are needed: ppm's weight 1/w is left out, and users may read downwards and
stop depending on what they have read. The proof is in docs/theory.md, the idea in docs/research/cascade-users.md.

    pairs="all"    a clicked document against every unclicked one, as above
    pairs="below"  a clicked document against every one below it: c_x instead of c_x - c_y

The second is for users who are more likely to go on after a relevant document; it learns less from the same clicks. D
is rounded to 30 binary digits, so that sums are exact in floats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from multileave.kernels import kernel
from multileave.methods._parameters import check_choice
from multileave.methods.base import Pareto, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Note, rank_in
from multileave.methods.pairwise_preference import ChoiceMethod, best_ranks

PAIRS = ("all", "below")
DIGITS = 2.0**30


@kernel
def fill_discounts(discounts):  # type: ignore[no-untyped-def]
    """Fill discounts[r] with D(r), r from 1; the last, of rank k + 1 and all below, is 0."""
    last = len(discounts) - 1
    for rank in range(1, last):
        discounts[rank] = math.floor(DIGITS / np.log2(1.0 + rank) + 0.5) / DIGITS
    discounts[last] = 0.0


@kernel
def credit_opposed(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add up the opposed pairs; params[0] is the pair rule: 0 all, 1 below."""
    m, rankers = ranks.shape
    below = params[0] == 1.0
    best = work_i[:m]
    best_ranks(ranks, best)
    gains = work_f[: m * rankers].reshape(m, rankers)
    discounts = work_f[m * rankers : m * rankers + k + 2]
    fill_discounts(discounts)
    for x in range(m):
        for n in range(rankers):
            gains[x, n] = discounts[min(ranks[x, n], k + 1)]
    for x in range(m):
        upper = gains[x]
        for y in range(x + 1, m):
            sign = float(clicks[x]) if below else float(clicks[x]) - float(clicks[y])
            if sign == 0.0 or x + 1 < max(best[x], best[y]):
                continue
            lower = gains[y]
            for n in range(rankers):
                row = out[n]
                for other in range(n + 1, rankers):
                    up, down = upper[n] - upper[other], lower[other] - lower[n]
                    row[other] += sign * (max(min(up, down), 0.0) + min(max(up, down), 0.0))
    for n in range(rankers):
        for other in range(n):
            out[n, other] = -out[other, n]


@register
@dataclass(frozen=True)
class OpposedPreference(ChoiceMethod):
    """Opposed preference multileaving, "opm".

    pairs: what a clicked document is compared with: "all" unclicked ones, or all "below" it.
    """

    name = "opm"
    title = "Opposed Preference Multileaving"
    unbiased_lists = "any"
    clone_proof = True
    fidelity = "both, if users read downwards and stop at least as often after relevant documents"
    reference = "multileave2026"
    outcome = "matrix"  # whether a pair of documents counts depends on both rankers
    proof = "docs/theory.md"
    credit_kernel = credit_opposed

    pairs: str = "all"

    def __post_init__(self) -> None:
        check_choice(self, "pairs", PAIRS)

    @property
    def pareto(self) -> Pareto:
        """Pairs with documents below a click need no assumption on where users stop."""
        return "any reader" if self.pairs == "below" else "reader"

    def params(self) -> Sequence[float]:
        """Return the pair rule."""
        return (float(PAIRS.index(self.pairs)),)

    def reads_to(self, k: int) -> int | None:
        """Neither the draw nor inference reads below rank k + 1."""
        return k + 1

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return room for the draw, the drawn documents' gains with every ranker, and the discounts."""
        return super().workspace(rankers, documents, k)[0], max(documents, k + 1) * rankers + k + 2

    def score(
        self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int
    ) -> list[list[Fraction]]:
        """Return P_nm of every two rankers."""
        everyone = range(len(rankings))
        preferences = [[Fraction(0) for _ in everyone] for _ in everyone]
        best = [min(rank_in(ranking, document) for ranking in rankings) for document in drawn]
        gains = [[discount(rank_in(ranking, document), k) for ranking in rankings] for document in drawn]
        for x in range(len(drawn)):
            for y in range(x + 1, len(drawn)):
                if x + 1 < max(best[x], best[y]):
                    continue
                preferred = int(x in clicks) - (int(y in clicks) if self.pairs == "all" else 0)
                for n in everyone:
                    for m in everyone:
                        of_x, of_y = gains[x][n] - gains[x][m], gains[y][n] - gains[y][m]
                        if of_x > 0 > of_y:
                            preferences[n][m] += preferred * min(of_x, -of_y)
                        elif of_x < 0 < of_y:
                            preferences[n][m] -= preferred * min(-of_x, of_y)
        return preferences


def discount(rank: float, k: int) -> Fraction:
    """Return D(rank) for a page of k."""
    return Fraction(round(DIGITS / math.log2(1 + rank)), int(DIGITS)) if rank <= k else Fraction(0)
