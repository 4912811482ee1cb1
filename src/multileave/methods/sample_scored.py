"""SOSM, sample-only scored multileaving [brost2016].

Lists are team drafts. A ranker is credited for each clicked document with 1 / rank^tau, where the
rank is that among the shown documents only; per impression the ranker with more credit is preferred,
by one. Documents that a ranker did not return share the mean of the ranks left for them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods.base import Method, check_number, register
from multileave.methods.exact import Documents, ExactRankings, Note, exact_power, merged, rank_in
from multileave.methods.team_draft import draw_teams, team_draft_lists

__all__ = ["SampleScored"]


@kernel
def credit_ranks(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add 1 / rank^tau, in the order of the ranks, so that equal credits are equal to the last bit."""
    m, rankers = ranks.shape
    tau = params[1]
    credits = work_f[:m]
    for n in range(rankers):
        for x in range(m):
            credits[x] = 0.0
        missing = 0
        clicked_missing = 0
        for x in range(m):
            if ranks[x, n] == ABSENT:
                missing += 1
                clicked_missing += clicks[x]
            elif clicks[x]:
                better = 0
                for y in range(m):
                    if ranks[y, n] < ranks[x, n]:
                        better += 1
                credits[better] = 1.0 / (better + 1.0) ** tau
        for x in range(m):
            out[n] += credits[x]
        if clicked_missing:
            out[n] += clicked_missing / (m - missing + (missing + 1) / 2) ** tau


@register
@dataclass(frozen=True)
class SampleScored(Method):
    """Sample-only scored multileaving, "sosm".

    tau: how fast credit falls with the rank among the shown documents.
    """

    name = "sosm"
    title = "Sample-Only Scored Multileaving"
    outcome = "sign"
    considerate = True
    fidelity = "both fail"
    reference = "brost2016"
    draw_kernel = draw_teams
    credit_kernel = credit_ranks

    tau: float = 3.0

    def __post_init__(self) -> None:
        check_number(self, "tau", 0, 10)

    def params(self) -> Sequence[float]:
        """Return 1, for a common prefix without teams, and tau."""
        return (1.0, self.tau)

    def lists(self, rankings: ExactRankings, k: int) -> Iterator[tuple[Documents, Note, Fraction]]:
        """Yield every (list, no note, probability): a team draft whose teams are forgotten."""
        drafts = team_draft_lists(rankings, k, neutral=True)
        return merged((drawn, (), probability) for drawn, _, probability in drafts)

    def score(
        self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Sequence[int], k: int
    ) -> list[Fraction]:
        """Return each ranker's sum of 1 / rank^tau over the clicked documents."""
        power = exact_power(self, self.tau)
        credits = []
        for ranking in rankings:
            places = [rank_in(ranking, document) for document in drawn]
            credit = Fraction(0)
            for position in clicks:
                better = sum(place < places[position] for place in places)
                equal = sum(place == places[position] for place in places)
                credit += 1 / (better + Fraction(equal + 1, 2)) ** power
            credits.append(credit)
        return credits
