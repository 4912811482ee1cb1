"""TDM, team draft multileaving [schuth2014], [radlinski2008].

As when teams are picked on a playground: in each round the rankers, in random order, add their best document that is
not yet in the list to their team. A click counts for the team of the clicked document; per impression, a ranker with
more clicks than another is preferred to it, by one.

What all rankers agree on at the top carries no preference, so the common prefix has no team (``prefix="neutral"``, as
in the paper's experiments); ``prefix="drafted"`` drafts it as well.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations

from multileave.kernels import kernel
from multileave.methods._draft_propensities import weigh_teams
from multileave.methods._drawing import stored_propensities
from multileave.methods._parameters import check_choice
from multileave.methods.base import Method, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, merged
from multileave.random import below


def common_prefix(rankings: ExactRankings, k: int) -> Documents:
    """Return the first documents, at most k, on which all rankers agree."""
    prefix: Documents = ()
    for column in zip(*rankings, strict=False):
        if len(prefix) == k or any(document != column[0] for document in column):
            break
        prefix += (column[0],)
    return prefix


def team_draft_lists(rankings: ExactRankings, k: int, *, neutral: bool) -> Lists:
    """Yield every (list, teams, probability) of a team draft; teams are ranker positions, -1 for none."""
    prefix = common_prefix(rankings, k) if neutral else ()
    orders = list(permutations(range(len(rankings))))

    def draft(drawn: Documents, teams: Note, waiting: Sequence[int]) -> Lists:
        if len(drawn) == k or all(document in drawn for ranking in rankings for document in ranking):
            yield drawn, teams, Fraction(1)
        elif not waiting:
            for order in orders:
                for *rest, probability in draft(drawn, teams, order):
                    yield *rest, probability / len(orders)  # type: ignore[misc]
        else:
            picks = [document for document in rankings[waiting[0]] if document not in drawn]
            if picks:
                yield from draft((*drawn, picks[0]), (*teams, waiting[0]), waiting[1:])
            else:
                yield from draft(drawn, teams, waiting[1:])

    return merged(draft(prefix, (-1,) * len(prefix), ()))


@kernel
def draw_teams(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Draft teams; params[0] is 1 if the common prefix has no team. note: the team, -1 for none."""
    rankers, depth = top.shape
    documents = entering[depth - 1]
    order = work_i[:rankers]
    place = work_i[rankers : 2 * rankers]  # how far each ranker has read its ranking
    taken = work_i[2 * rankers : 2 * rankers + documents]
    taken[:] = 0
    m = 0
    if params[0] == 1.0:
        while m < min(k, depth):
            agreed = top[0, m] >= 0
            for r in range(1, rankers):
                agreed = agreed and top[r, m] == top[0, m]
            if not agreed:
                break
            shown[m] = top[0, m]
            note[m] = -1
            taken[top[0, m]] = 1
            m += 1
    for r in range(rankers):
        order[r] = r
        place[r] = m
    end = min(k, documents)
    while m < end:
        for turn in range(rankers):
            other = turn + below(rng, rankers - turn)
            ranker = order[other]
            order[other] = order[turn]
            order[turn] = ranker
            x = place[ranker]
            while x < depth and top[ranker, x] >= 0 and taken[top[ranker, x]] == 1:
                x += 1
            place[ranker] = x
            if x < depth and top[ranker, x] >= 0:
                shown[m] = top[ranker, x]
                note[m] = ranker
                taken[top[ranker, x]] = 1
                m += 1
                if m == end:
                    break
    return m


@kernel
def credit_teams(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Count the clicks on each team."""
    for x in range(len(clicks)):
        if clicks[x] and 0 <= note[x] < len(out):
            out[note[x]] += 1.0


@kernel
def expect_teams(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Observe whose team has each drafted document, or only the first; each ranker is as likely."""
    rankers = len(observed)
    drafted = 0
    for x in range(len(note)):
        if 0 <= note[x] < rankers and (every or drafted == 0):
            observed[note[x]] += 1.0
            drafted += 1
    expected[:] = drafted / rankers
    return 1 if every or drafted > 0 else 0


@kernel
def expect_first_pick(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Observe the chance that each ranker picked the first document, given the document; each is as likely to begin."""
    rankers = len(observed)
    able = 0
    for r in range(rankers if len(ranks) else 0):
        able += ranks[0, r] == 1
    if every or able == 0:
        return 0
    for r in range(rankers):
        observed[r] = (ranks[0, r] == 1) / able
    expected[:] = 1.0 / rankers
    return 1


@register
@dataclass(frozen=True)
class TeamDraft(Method):
    """Team draft multileaving, "tdm".

    prefix: "neutral" gives no team to what all rankers agree on at the top, "drafted" drafts it too.
    """

    name = "tdm"
    title = "Team Draft Multileaving"
    outcome = "sign"
    considerate = True
    unbiased_lists = "k"
    fidelity = "unbiased; Pareto fails"
    reference = "schuth2014"
    keeps_ranks = False
    keeps_note = True
    note_label = "team"
    note_help = "The ranker that chose this document."
    note_is_ranker = True
    proof = "docs/theory.md"
    draw_kernel = draw_teams
    credit_kernel = credit_teams
    balance_kernel = expect_teams
    weigh_kernel = weigh_teams
    propensity_kernel = stored_propensities

    prefix: str = "neutral"

    def __post_init__(self) -> None:
        check_choice(self, "prefix", ("neutral", "drafted"))

    def params(self) -> Sequence[float]:
        """Return 1 if the common prefix has no team."""
        return (float(self.prefix == "neutral"),)

    def reads_to(self, k: int) -> int | None:
        """The draft reads k ranks, and inference none."""
        return k

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, teams, probability)."""
        return team_draft_lists(rankings, k, neutral=self.prefix == "neutral")

    def propensity(self, rankings: ExactRankings, document: Hashable, rank: int, k: int) -> Fraction:
        """Return the probability that a document is shown at a rank: rounds depend only on the set drafted before."""
        orders = list(permutations(range(len(rankings))))

        @cache
        def chance(drafted: frozenset[Hashable]) -> Fraction:
            total = Fraction(0)
            for order in orders:
                picks: list[Hashable] = []
                for ranker in order:
                    left = [one for one in rankings[ranker] if one not in drafted and one not in picks]
                    picks += left[:1]
                    if len(drafted) + len(picks) == rank:
                        total += picks[-1] == document
                        break
                else:
                    total += chance(drafted.union(picks)) if picks else 0
            return total / len(orders)

        prefix = common_prefix(rankings, k) if self.prefix == "neutral" else ()
        return Fraction(prefix[rank - 1] == document) if rank <= len(prefix) else chance(frozenset(prefix))

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return the number of clicks on each ranker's team."""
        return [Fraction(sum(note[position] == n for position in clicks)) for n in range(len(rankings))]
