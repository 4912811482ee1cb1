"""RPM, round preference multileaving: a few rankers nominate documents in rounds, each in random order.

The list. A group of at most `group` rankers is drawn at random; rankers with the same first k + 1 documents count as
one. In each round every ranker of the group nominates its best document that is not yet in the list, and the nominated
documents, each once, are added in random order. If the group runs out of documents, all rankers join it. One document
more than k is drawn and stays hidden. In one of `lead` impressions the list starts with the first documents of one
ranker of the group, in its order, each its own round; their number, 1 to k - 1, is drawn at random.

Inference. Let h_n(d) = max(k + 1 - r_n(d), 0) be the height of a document on ranker n's own page, and h_n(d) - h_m(d)
its move from m to n. For every two documents i, j of one round,

    P_nm += (c_i - c_j) * ((move of i) - (move of j)) / k    if one moves up and the other down, else 0,

where c is 1 for a clicked document and 0 otherwise. So a pair counts for n against m only if n has one document higher
than m and the other lower.

Which documents are in a round depends only on earlier rounds, so a list and the same list with two documents of one
round exchanged are equally likely. That is all the proofs need (docs/theory.md): clicks that do not depend on the
documents cancel, and if n dominates m, every pair favours n or is even.

The file is long because reading team drafts in this way (`TeamExchange`) and drawing rounds refer to each other.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._drawing import stored_propensities
from multileave.methods._parameters import check_integer
from multileave.methods._round_propensities import is_copy, nominate, weigh_rounds
from multileave.methods._unstated import OTHER_RATES, unknown_propensities, weigh_nothing
from multileave.methods.base import Method, Pareto, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, merged, rank_in
from multileave.methods.team_draft import TeamDraft, draw_teams, expect_teams
from multileave.random import below

MOST = 2**20  # of either parameter, far beyond what makes a difference
LEADS_OFTEN = 4  # the largest lead whose pages are worth estimating rates from (docs/rates.md)


@kernel
def draw_rounds(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Draw a group and fill `shown` in rounds; params: group and lead. note: the round, from 0."""
    rankers, depth = top.shape
    documents = entering[depth - 1]
    group, lead = np.int64(params[0]), np.int64(params[1])
    order = work_i[:rankers]
    place = work_i[rankers : 2 * rankers]
    nominated = work_i[2 * rankers : 3 * rankers]
    stamp = work_i[3 * rankers : 3 * rankers + documents]
    stamp[:] = 0
    for r in range(rankers):
        order[r] = r
        place[r] = 0
    members = 0
    turn = 0
    while turn < rankers and members < group:
        other = turn + below(rng, rankers - turn)
        ranker = order[other]
        order[other] = order[turn]
        if is_copy(top, ranker):
            order[turn] = ranker
        else:
            order[turn] = order[members]
            order[members] = ranker
            members += 1
        turn += 1
    m = 0
    end = min(len(shown), documents)
    if lead > 0 and k > 1 and below(rng, lead) == 0:
        first = 1 + below(rng, k - 1)
        while m < min(first, depth) and top[order[0], m] >= 0:
            shown[m] = top[order[0], m]
            note[m] = m
            m += 1
            stamp[shown[m - 1]] = m
    number = m
    while m < end:
        size = 0
        for member in range(members):
            document = nominate(top, order[member], place, stamp, number)
            if document >= 0:
                nominated[size] = document
                size += 1
        if size == 0:
            members = rankers
            continue
        for turn in range(min(size, end - m)):
            other = turn + below(rng, size - turn)
            shown[m] = nominated[other]
            nominated[other] = nominated[turn]
            note[m] = number
            m += 1
        number += 1
    return m


@kernel
def fill_heights(ranks, k, heights):  # type: ignore[no-untyped-def]
    """Fill heights (m, R) with max(k + 1 - rank, 0)."""
    for x in range(ranks.shape[0]):
        for n in range(ranks.shape[1]):
            heights[x, n] = k + 1 - min(ranks[x, n], k + 1)


@kernel
def add_pair(upper, lower, sign, total):  # type: ignore[no-untyped-def]
    """Add sign times the moves of two documents, given by their heights, for all rankers that move them apart."""
    rankers = len(upper)
    for n in range(rankers):
        row = total[n]
        for other in range(n + 1, rankers):
            up, down = upper[n] - upper[other], lower[other] - lower[n]
            row[other] += sign * (up + down) * ((up > 0) & (down > 0) | (up < 0) & (down < 0))


@kernel
def take_total(total, k, out):  # type: ignore[no-untyped-def]
    """Fill out with the sums over pairs, divided by k."""
    for n in range(len(total)):
        for other in range(n):
            out[other, n] = total[other, n] / k
            out[n, other] = -out[other, n]


@kernel
def credit_rounds(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add up the pairs of every round of which one document was clicked."""
    m, rankers = ranks.shape
    heights = work_i[: m * rankers].reshape(m, rankers)
    total = work_i[m * rankers : (m + rankers) * rankers].reshape(rankers, rankers)
    fill_heights(ranks, k, heights)
    total[:] = 0
    for x in range(m):
        y = x + 1
        while y < m and note[y] == note[x]:
            if clicks[x] != clicks[y]:
                add_pair(heights[x], heights[y], np.int32(1) if clicks[x] else np.int32(-1), total)
            y += 1
    take_total(total, k, out)


@kernel
def expect_leads(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Observe whether a round begins with the document of it that the ranker has highest; its order is random.

    Rounds of one document say nothing. every: all rounds, not only the first of several documents.
    """
    m, rankers = ranks.shape
    start = 0
    found = 0
    while start < m and (every or found == 0):
        end = start + 1
        while end < m and note[end] == note[start]:
            end += 1
        if end > start + 1:
            found += 1
            for r in range(rankers):
                best = ranks[start, r]
                for x in range(start + 1, end):
                    best = min(best, ranks[x, r])
                if best != ABSENT:
                    observed[r] += ranks[start, r] == best
                    expected[r] += 1.0 / (end - start)
        start = end
    return found


@register
@dataclass(frozen=True)
class RoundPreference(Method):
    """Round preference multileaving, "rpm".

    group: how many rankers at most nominate documents for one list.
    lead: in one of so many impressions the list starts with documents of one ranker; 0 for none.
    """

    name = "rpm"
    title = "Round Preference Multileaving"
    recommended = True
    considerate = True
    unbiased_lists = "any"
    clone_proof = True
    fidelity = "both, if users read downwards and stop at least as often after relevant documents"
    reference = "multileave2026"
    outcome = "matrix"  # whether a pair of documents counts depends on both rankers
    keeps_note = True
    note_label = "round"
    note_help = "The round in which rankers nominated this document."
    proof = "docs/theory.md"
    draw_kernel = draw_rounds
    credit_kernel = credit_rounds
    balance_kernel = expect_leads
    weigh_kernel = weigh_rounds
    propensity_kernel = stored_propensities

    group: int = 4
    lead: int = 32

    def __post_init__(self) -> None:
        check_integer(self, "group", 2, MOST)
        check_integer(self, "lead", 0, MOST)

    @property
    def pareto(self) -> Pareto:
        """Not without leads."""
        return "reader" if self.lead else ""

    @property
    def estimates_rates(self) -> bool:
        """Not without leads: some documents of a ranker's page could then never be at its rank."""
        return self.lead > 0

    @property
    def rates_advice(self) -> str:
        """Without frequent leads, rates take many times an A/B test's impressions."""
        if not self.estimates_rates:
            return super().rates_advice
        if self.keeps_propensities:
            return ""
        return (
            f"With lead={self.lead}, rpm shows a ranker's own results at its ranks too seldom: rates would take many "
            f"times as many impressions as an A/B test. {OTHER_RATES}"
        )

    @property
    def keeps_propensities(self) -> bool:
        """Only if rankers lead often."""
        return 1 <= self.lead <= LEADS_OFTEN

    def params(self) -> Sequence[float]:
        """Return group and lead."""
        return float(self.group), float(self.lead)

    def beyond(self) -> int:
        """One document is hidden: without it a ranker that is better only at rank k would not be found."""
        return 1

    def reads_to(self, k: int) -> int | None:
        """Neither the draw nor inference reads below rank k + 1."""
        return k + 1

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return room for the draw, its propensities, and the heights of drawn documents with the sums over pairs."""
        return max(5 * rankers + 2 * documents, (max(documents, k + 1) + rankers) * rankers), 1

    def rereads(self, drawn: Method) -> Method | None:
        """Inference reads rounds, and pairs of team drafts that can be exchanged."""
        if isinstance(drawn, TeamDraft):
            return TeamExchange(self.group, self.lead)
        return self if isinstance(drawn, RoundPreference) else None

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, rounds, probability), k + 1 documents long or as many as there are."""
        length = k + 1
        pages = tuple(dict.fromkeys(tuple(ranking[:length]) for ranking in rankings))
        groups = list(combinations(pages, min(self.group, len(pages))))

        def add_rounds(members: ExactRankings, drawn: Documents, note: Note) -> Lists:
            left = [[document for document in page if document not in drawn] for page in members]
            nominated = tuple(dict.fromkeys(documents[0] for documents in left if documents))
            if len(drawn) == length or (not nominated and members == pages):
                yield drawn, note, Fraction(1)
            elif not nominated:
                yield from add_rounds(pages, drawn, note)
            else:
                number = note[-1] + 1 if note else 0
                orders = list(permutations(nominated, min(len(nominated), length - len(drawn))))
                for order in orders:
                    for *rest, probability in add_rounds(members, drawn + order, note + (number,) * len(order)):
                        yield *rest, probability / len(orders)  # type: ignore[misc]

        def draw() -> Lists:
            leading = Fraction(1, self.lead) if self.lead and length > 2 else Fraction(0)
            for members in groups:
                starts: list[tuple[Documents, Fraction]] = [((), 1 - leading)]
                for leader in members if leading else ():
                    for first in range(1, length - 1):
                        starts.append((leader[:first], leading / (len(members) * (length - 2))))
                for start, chance in starts:
                    for *rest, probability in add_rounds(members, start, tuple(range(len(start)))):
                        yield *rest, probability * chance / len(groups)  # type: ignore[misc]

        return merged(draw())

    def propensity(self, rankings: ExactRankings, document: Hashable, rank: int, k: int) -> Fraction:
        """Return the probability that a document is shown at a rank, over all groups and leads.

        Which documents a round holds is fixed by the group and the start, and their order is random: each document of a
        round of s is at each of its s ranks with probability 1 / s.
        """
        pages = tuple(dict.fromkeys(tuple(ranking[: k + 1]) for ranking in rankings))
        groups = list(combinations(pages, min(self.group, len(pages))))
        leading = Fraction(1, self.lead) if self.lead and k > 1 else Fraction(0)

        def course(members: ExactRankings, drawn: Documents) -> Fraction:
            if rank <= len(drawn):
                return Fraction(drawn[rank - 1] == document)
            while True:
                left = [[one for one in page if one not in drawn] for page in members]
                nominated = tuple(dict.fromkeys(documents[0] for documents in left if documents))
                if not nominated and members == pages:
                    return Fraction(0)
                if len(drawn) < rank <= len(drawn) + len(nominated):
                    return Fraction(document in nominated, len(nominated))
                members = members if nominated else pages
                drawn += nominated

        chance = Fraction(0)
        for members in groups:
            chance += (1 - leading) * course(members, ())
            for leader in members if leading else ():
                for first in range(1, k):
                    chance += leading / (len(members) * (k - 1)) * course(members, leader[:first])
        return chance / len(groups)

    def score(
        self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int
    ) -> list[list[Fraction]]:
        """Return P_nm of every two rankers."""
        everyone = range(len(rankings))
        preferences = [[Fraction(0) for _ in everyone] for _ in everyone]
        heights = [[max(k + 1 - rank_in(ranking, document), 0) for ranking in rankings] for document in drawn]
        for i in clicks:
            for j in range(len(drawn)):
                if note[i] != note[j] or j in clicks:
                    continue
                for n in everyone:
                    for m in everyone:
                        of_i, of_j = heights[i][n] - heights[i][m], heights[j][n] - heights[j][m]
                        if of_i * of_j < 0:
                            preferences[n][m] += Fraction(int(of_i - of_j), k)
        return preferences


@kernel
def can_be_exchanged(ranks, teams, x, y):  # type: ignore[no-untyped-def]
    """Return whether a team draft stays possible if two picks of one round, x before y, are exchanged with their teams.

    The later ranker must have had its document at the top from x on, and no ranker in between may have passed over the
    earlier document.
    """
    later = teams[y]
    above = 0
    for before in range(x):
        above += ranks[before, later] < ranks[y, later]
    if above != ranks[y, later] - 1:
        return False
    passed = False
    for between in range(x + 1, y):
        passed = passed or ranks[x, teams[between]] < ranks[between, teams[between]]
    return not passed


@kernel
def credit_drafts(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add up the pairs of a team draft that can be exchanged; note: the teams.

    In a round of the draft every ranker picks once, so a team that comes again starts the next. Nothing below the end
    of the shortest ranking counts: rankers are skipped there, and exchanged drafts may differ in probability.
    """
    m, rankers = ranks.shape
    heights = work_i[: m * rankers].reshape(m, rankers)
    total = work_i[m * rankers : (m + rankers) * rankers].reshape(rankers, rankers)
    fill_heights(ranks, k, heights)
    total[:] = 0
    end = min(m, lengths.min())
    start = 0
    for y in range(end):
        if not 0 <= note[y] < rankers:
            start = y + 1
            continue
        for x in range(start, y):
            if note[x] == note[y]:
                start = y
        for x in range(start, y):
            if clicks[x] != clicks[y] and can_be_exchanged(ranks, note, x, y):
                add_pair(heights[x], heights[y], np.int32(1) if clicks[x] else np.int32(-1), total)
    take_total(total, k, out)


@dataclass(frozen=True)
class TeamExchange(RoundPreference):
    """Infers from team drafts as rpm would, by pairs that can be exchanged; its note is the team."""

    note_label = "team"
    note_help = "The ranker that chose this document."
    note_is_ranker = True
    draw_kernel = draw_teams
    credit_kernel = credit_drafts
    balance_kernel = expect_teams
    weigh_kernel = weigh_nothing
    propensity_kernel = unknown_propensities
    estimates_rates = False

    def beyond(self) -> int:
        """A team draft hides nothing."""
        return 0
