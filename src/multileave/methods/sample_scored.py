"""SOSM, sample-only scored multileaving [brost2016].

Lists are team drafts. For each clicked document a ranker gets the credit 1 / rank^tau, with the rank among the shown
documents only; per impression the ranker with more credit is preferred, by one. Documents that a ranker did not return
share the mean of the remaining ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._parameters import check_number
from multileave.methods.base import Method, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, exact_power, merged, rank_in
from multileave.methods.team_draft import draw_teams, expect_first_pick, team_draft_lists

TABLE = 128  # ranks with tabulated credits; others are computed


@kernel
def credit_ranks(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add 1 / rank^tau; params[1] is tau, followed by the credits of ranks 1 to TABLE.

    Equal credits must be equal to the last bit, so more than two are added in the order of the ranks.
    """
    m, rankers = ranks.shape
    tau = params[1]
    clicked = 0
    for x in range(m):
        clicked += clicks[x]
    in_order = clicked > 2
    better = work_i[:rankers]  # documents that each ranker places above the one at x
    credits = work_f[: in_order * m * rankers].reshape(in_order * m, rankers)  # by rank among the shown documents
    credits[:] = 0.0
    absent = False
    for x in range(m):
        if clicks[x] == 0:
            continue
        place = ranks[x]
        better[:] = 0
        for y in range(m):
            other = ranks[y]
            for n in range(rankers):
                better[n] += other[n] < place[n]
        for n in range(rankers):
            if place[n] == ABSENT:
                absent = True
                continue
            worth = params[2 + better[n]] if better[n] < TABLE else 1.0 / (better[n] + 1.0) ** tau
            if in_order:
                credits[better[n], n] = worth
            else:
                out[n] += worth
    for y in range(in_order * m):
        for n in range(rankers):
            out[n] += credits[y, n]
    if absent:
        add_absent(ranks, clicks, tau, out)


@kernel
def add_absent(ranks, clicks, tau, out):  # type: ignore[no-untyped-def]
    """Add what clicked documents count for the rankers that did not return them."""
    m, rankers = ranks.shape
    for n in range(rankers):
        missing = 0
        clicked_missing = 0
        for x in range(m):
            if ranks[x, n] == ABSENT:
                missing += 1
                clicked_missing += clicks[x]
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
    proof = "docs/theory.md"
    draw_kernel = draw_teams
    credit_kernel = credit_ranks
    balance_kernel = expect_first_pick

    tau: float = 3.0

    def __post_init__(self) -> None:
        check_number(self, "tau", 0, 10)

    def params(self) -> Sequence[float]:
        """Return 1, for a common prefix without teams, tau, and the table of credits."""
        return (1.0, self.tau, *(1.0 / float(rank) ** self.tau for rank in range(1, TABLE + 1)))

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return room for a team draft, and for the credits of every rank and ranker."""
        return 2 * rankers + documents, rankers * k

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, no note, probability): a team draft whose teams are forgotten."""
        drafts = team_draft_lists(rankings, k, neutral=True)
        return merged((drawn, (), probability) for drawn, _, probability in drafts)

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
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
