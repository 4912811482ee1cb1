"""PBI, preference-based balanced interleaving of two rankers [he2009].

The lists are those of balanced interleaving. Clicks constrain the order of documents: a clicked document should be
above every unclicked one shown above it, and above the one directly below it if that is unclicked. The ranker whose
ranking violates fewer constraints is preferred.
"""

from dataclasses import dataclass
from fractions import Fraction

from multileave.kernels import kernel
from multileave.methods.balanced import Balanced
from multileave.methods.base import register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Note, rank_in
from multileave.methods.pairwise_preference import preferred_pairs


@kernel
def credit_constraints(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Subtract one for each violated constraint."""
    m = len(clicks)
    for i in range(m):
        if clicks[i]:
            for j in range(min(i + 2, m)):
                for n in range(2):
                    if not clicks[j] and ranks[j, n] < ranks[i, n]:
                        out[n] -= 1.0


@register
@dataclass(frozen=True)
class PreferenceBalanced(Balanced):
    """Preference-based balanced interleaving, "pbi", for two rankers."""

    name = "pbi"
    title = "Preference-Based Balanced Interleaving"
    reference = "he2009"
    proof = "docs/theory.md"
    credit_kernel = credit_constraints

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return minus the number of constraints each ranking violates."""
        return [
            Fraction(
                -sum(
                    rank_in(ranking, drawn[j]) < rank_in(ranking, drawn[i])
                    for i, j in preferred_pairs("local", len(drawn), clicks)
                )
            )
            for ranking in rankings
        ]
