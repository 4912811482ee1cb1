"""BI, balanced interleaving of two rankers [joachims2003].

The two rankings are merged so that at any point the number of the first ranker's documents considered equals that of
the second's, or exceeds it by one; a coin decides who is first. Let j be the smaller of the two ranks of the lowest
clicked document: the ranker with more clicked documents in its top j is preferred.
"""

from dataclasses import dataclass
from fractions import Fraction

from multileave.kernels import kernel
from multileave.methods.base import Method, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, merged, rank_in
from multileave.methods.team_draft import expect_first_pick
from multileave.random import below


@kernel
def draw_balanced(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Toss the coin and merge."""
    depth = top.shape[1]
    documents = entering[depth - 1]
    taken = work_i[:documents]
    taken[:] = 0
    first = below(rng, 2)
    m = 0
    for x in range(depth):
        for turn in range(2):
            document = top[(first + turn) % 2, x]
            if document >= 0 and taken[document] == 0 and m < k:
                shown[m] = document
                taken[document] = 1
                m += 1
    return m


@kernel
def credit_tops(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Count the clicked documents in each ranker's top j, j from the lowest click."""
    lowest = 0
    for x in range(len(clicks)):
        if clicks[x]:
            lowest = x
    top = min(ranks[lowest, 0], ranks[lowest, 1])
    for x in range(len(clicks)):
        for n in range(2):
            if clicks[x] and ranks[x, n] <= top:
                out[n] += 1.0


@register
@dataclass(frozen=True)
class Balanced(Method):
    """Balanced interleaving, "bi", for two rankers."""

    name = "bi"
    title = "Balanced Interleaving"
    outcome = "sign"
    considerate = True
    fidelity = "both fail"
    reference = "joachims2003"
    most_rankers = 2
    proof = "docs/theory.md"
    draw_kernel = draw_balanced
    credit_kernel = credit_tops
    balance_kernel = expect_first_pick

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield the lists for both sides of the coin."""

        def merge(first: Documents, second: Documents) -> Documents:
            drawn: Documents = ()
            for x in range(max(len(first), len(second))):
                for ranking in (first, second):
                    if x < len(ranking) and ranking[x] not in drawn:
                        drawn += (ranking[x],)
            return drawn[:k]

        a, b = rankings
        return merged([(merge(a, b), (), Fraction(1, 2)), (merge(b, a), (), Fraction(1, 2))])

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return the number of clicked documents in each ranker's top j."""
        if not clicks:
            return [Fraction(0), Fraction(0)]
        lowest = drawn[max(clicks)]
        top = min(rank_in(ranking, lowest) for ranking in rankings)
        return [Fraction(sum(rank_in(ranking, drawn[position]) <= top for position in clicks)) for ranking in rankings]
