"""OM, optimized multileaving [schuth2014]; with two rankers and all lists, optimized interleaving [radlinski2013].

A list: at each rank a ranker is drawn, with replacement, among those with documents left, and adds its best document
that is not yet in the list. So every document shown is the top of what some ranker has left. From `samples` distinct
lists of this kind one is shown, with probabilities p_l that make the comparison fair and sensitive. Let c_ir be the
credit of ranker r for a click on rank i of the list, 1/rank or -rank in r's ranking. Then p solves a lexicographic
programme:

    (1) the least sum over prefixes i and rankers r of (sum over l of p_l (C_lir - mean over r))^2, with
        C_lir the sum of c_jr over j <= i: users who click at random down to any rank prefer no ranker;
    (2) among those the least sum of p_l s_l, s_l = sum over r of (sum over i of c_ir / i - mean over r)^2;
    (3) among those the least sum of p_l^2.

If (1) is 0, this is the paper's programme; otherwise, which is usual with few samples and many rankers, the paper's has
no solution. That least sum is the slack, which the impression keeps with the number of lists. (Both public codes leave
the last prefix out of (1).)

At most 10 x samples draws look for distinct lists; enumeration supplies the rest. ``samples="all"`` enumerates all
lists, if there are at most 4,096; otherwise it means ``samples=4096``.

A document that a ranker did not return has the rank after its last.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, islice
from math import comb

import numpy as np

from multileave.errors import MethodError
from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._lexicographic import nearest_to_origin, refine, solver_workspace
from multileave.methods._lexicographic_exact import exact_optimum
from multileave.methods._parameters import check_choice, check_integer
from multileave.methods.base import Method, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note
from multileave.random import below, uniform

MOST_LISTS = 4096
MOST_SETS = 5000  # of lists, for the definition to go through


def possible_lists(rankings: ExactRankings, k: int) -> Iterator[tuple[Documents, Fraction]]:
    """Yield every list that can be drawn, depth first in the order of rankers, with its probability."""

    def extend(drawn: Documents, probability: Fraction) -> Iterator[tuple[Documents, Fraction]]:
        left = [[document for document in ranking if document not in drawn] for ranking in rankings]
        tops = [documents[0] for documents in left if documents]
        if len(drawn) == k or not tops:
            yield drawn, probability
            return
        for document in dict.fromkeys(tops):
            yield from extend((*drawn, document), probability * tops.count(document) / len(tops))

    return extend((), Fraction(1))


def sampled_sets(chances: dict[Documents, Fraction], samples: int) -> dict[frozenset[Documents], Fraction]:
    """Return the probability of every set of lists that sampling and completion can produce."""
    sets = {frozenset[Documents](): Fraction(1)}
    for _ in range(10 * samples):
        after: dict[frozenset[Documents], Fraction] = {}
        for found, probability in sets.items():
            if len(found) == samples:
                after[found] = after.get(found, Fraction(0)) + probability
                continue
            for drawn, chance in chances.items():
                grown = found | {drawn}
                after[grown] = after.get(grown, Fraction(0)) + probability * chance
        sets = after
    complete: dict[frozenset[Documents], Fraction] = {}
    for found, probability in sets.items():
        missing = [drawn for drawn in chances if drawn not in found]
        whole = found.union(missing[: samples - len(found)])
        complete[whole] = complete.get(whole, Fraction(0)) + probability
    return complete


@kernel
def credit_for(rank, length, inverse):  # type: ignore[no-untyped-def]
    """Return a ranker's credit for a click on a document that it places at a rank."""
    place = length + 1.0 if rank == ABSENT else float(rank)
    return 1.0 / place if inverse else -place


@kernel
def draw_list(top, length, rng, stamp, taken, place, able, drawn):  # type: ignore[no-untyped-def]
    """Draw one list; documents in it are marked with a stamp that was not used before."""
    rankers, depth = top.shape
    for r in range(rankers):
        able[r] = r
        place[r] = 0
    x = 0
    left = rankers
    while x < length:
        turn = below(rng, left)
        r = able[turn]
        y = place[r]
        while y < depth and top[r, y] >= 0 and taken[top[r, y]] == stamp:
            y += 1
        place[r] = y
        if y == depth or top[r, y] < 0:
            left -= 1
            able[turn] = able[left]
        else:
            drawn[x] = top[r, y]
            taken[top[r, y]] = stamp
            x += 1


@kernel
def is_new(lists, keys, row, count):  # type: ignore[no-untyped-def]
    """Return whether a row differs from the first `count`; keys are hashes, compared first."""
    key = 0
    for x in range(lists.shape[1]):
        key = (key * 31 + lists[row, x] + 1) & 0x3FFFFFFF
    keys[row] = key
    for other in range(count):
        if keys[other] == key:
            same = True
            for x in range(lists.shape[1]):
                same = same and lists[other, x] == lists[row, x]
            if same:
                return False
    return True


@kernel
def fill_tops(top, taken, seen, stamp, tops):  # type: ignore[no-untyped-def]
    """Fill `tops` with the top document that each ranker has left, -1 if an earlier ranker has the same."""
    rankers, depth = top.shape
    for r in range(rankers):
        y = 0
        while y < depth and top[r, y] >= 0 and taken[top[r, y]] == 1:
            y += 1
        tops[r] = -1
        if y < depth and top[r, y] >= 0 and seen[top[r, y]] != stamp:
            tops[r] = top[r, y]
            seen[top[r, y]] = stamp


@kernel
def enumerate_lists(top, lists, keys, count, most, taken, seen, turn, tops):  # type: ignore[no-untyped-def]
    """Add lists by enumeration, depth first, to the first `count` until there are `most`; return how many."""
    rankers, length = top.shape[0], lists.shape[1]
    taken[:] = 0
    seen[:] = 0
    stamp = 1
    known = count
    x = 0
    turn[0] = -1
    fill_tops(top, taken, seen, np.int64(stamp), tops[0])
    while x >= 0 and count < most:
        if turn[x] >= 0:
            taken[tops[x, turn[x]]] = 0
        turn[x] += 1
        while turn[x] < rankers and tops[x, turn[x]] < 0:
            turn[x] += 1
        if turn[x] == rankers:
            x -= 1
        elif x < length - 1:
            taken[tops[x, turn[x]]] = 1
            x += 1
            stamp += 1
            turn[x] = -1
            fill_tops(top, taken, seen, np.int64(stamp), tops[x])
        else:
            for y in range(length):
                lists[count, y] = tops[y, turn[y]]
            if is_new(lists, keys, count, known):
                count += 1
    return count


@kernel
def find_lists(top, documents, everything, rng, lists, work_i):  # type: ignore[no-untyped-def]
    """Fill `lists`, which has a row to spare, with distinct lists; return how many there are."""
    rankers, length, samples = top.shape[0], lists.shape[1], lists.shape[0] - 1
    taken, seen = work_i[:documents], work_i[documents : 2 * documents]
    used = 2 * documents
    place, able = work_i[used : used + rankers], work_i[used + rankers : used + 2 * rankers]
    used += 2 * rankers
    turn, keys = work_i[used : used + length], work_i[used + length : used + length + samples + 1]
    used += length + samples + 1
    tops = work_i[used : used + length * rankers].reshape(length, rankers)
    count = 0
    if everything:
        found = enumerate_lists(top, lists, keys, np.int64(count), samples + 1, taken, seen, turn, tops)
        if found <= samples:
            return found
    taken[:] = 0
    for stamp in range(1, 10 * samples + 1):
        draw_list(top, length, rng, stamp, taken, place, able, lists[count])
        if is_new(lists, keys, np.int64(count), np.int64(count)):
            count += 1
            if count == samples:
                return count
    return enumerate_lists(top, lists, keys, np.int64(count), samples, taken, seen, turn, tops)


@kernel
def fill_deviations(lists, ranks, lengths, inverse, known, credits, points):  # type: ignore[no-untyped-def]
    """Fill `points` with the deviations of every list, by prefix and ranker, and `credits` with those of documents."""
    rankers = len(lengths)
    known[:] = 0
    for row in range(points.shape[0]):
        for x in range(lists.shape[1]):
            document = lists[row, x]
            credit = credits[document]
            if known[document] == 0:
                known[document] = 1
                total = 0.0
                for r in range(rankers):
                    credit[r] = credit_for(ranks[document, r], lengths[r], inverse)
                    total += credit[r]
                for r in range(rankers):
                    credit[r] -= total / rankers
            here = points[row, x * rankers : (x + 1) * rankers]
            if x == 0:
                for r in range(rankers):
                    here[r] = credit[r]
            else:
                before = points[row, (x - 1) * rankers : x * rankers]
                for r in range(rankers):
                    here[r] = before[r] + credit[r]


@kernel
def fill_costs(lists, credits, sums, costs):  # type: ignore[no-untyped-def]
    """Fill `costs` with s_l of every list."""
    for row in range(len(costs)):
        sums[:] = 0.0
        for x in range(lists.shape[1]):
            for r in range(len(sums)):
                sums[r] += credits[lists[row, x], r] / (x + 1)
        costs[row] = 0.0
        for r in range(len(sums)):
            costs[row] += sums[r] * sums[r]


@kernel
def draw_optimized(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Find lists, weigh them and draw one; params: samples, all lists?, inverse credit? stat: slack, lists.

    The lists and their probabilities stay at the start of work_i and work_f.
    """
    rankers, documents = len(lengths), entering[len(entering) - 1]
    length, samples = min(k, documents), int(params[0])
    used = (samples + 1) * length
    lists = work_i[:used].reshape(samples + 1, length)
    count = find_lists(top, documents, params[1] == 1.0, rng, lists, work_i[used:])
    known, face = work_i[used : used + documents], work_i[used + documents : used + documents + count]
    rest_i = work_i[used + documents + count :]
    p, costs, sums = work_f[:count], work_f[count : 2 * count], work_f[2 * count : 2 * count + rankers]
    used = 2 * count + rankers
    credits = work_f[used : used + documents * rankers].reshape(documents, rankers)
    used += documents * rankers
    points = work_f[used : used + count * length * rankers].reshape(count, length * rankers)
    rest_f = work_f[used + count * length * rankers :]
    fill_deviations(lists, ranks, lengths, params[2] == 1.0, known, credits, points)
    slack, c, n = nearest_to_origin(points, p, face, rest_i, rest_f)
    if n > c:
        fill_costs(lists, credits, sums, costs)
        refine(points, costs, p, face, c, n, rest_i, rest_f)
    stat[0] = slack
    stat[1] = count
    total = 0.0
    for row in range(count):
        total += p[row]
    wanted = uniform(rng) * total
    chosen = 0
    reached = 0.0
    for row in range(count):
        if p[row] > 0.0 and reached <= wanted:
            chosen = row
        reached += p[row]
    for x in range(length):
        shown[x] = lists[chosen, x]
    return length


@kernel
def credit_ranks(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add every ranker's credit for the clicked documents."""
    for x in range(len(clicks)):
        if clicks[x]:
            for r in range(len(lengths)):
                out[r] += credit_for(ranks[x, r], lengths[r], params[2] == 1.0)


@register
@dataclass(frozen=True)
class Optimized(Method):
    """Optimized multileaving, "om".

    samples: how many distinct lists to choose from, at most 4,096, or "all".
    credit: what a click on rank i of a ranking counts, "inverse" 1/i or "linear" -i.
    """

    name = "om"
    title = "Optimized Multileaving"
    considerate = True
    fidelity = "unbiased where the slack is 0; Pareto fails from 4 documents"
    reference = "schuth2014"
    keeps_stat = 2
    draw_reads_ranks = True
    slow_to_compile = True
    proof = "docs/theory.md"
    draw_kernel = draw_optimized
    credit_kernel = credit_ranks

    samples: int | str = 10
    credit: str = "inverse"

    def __post_init__(self) -> None:
        check_choice(self, "credit", ("inverse", "linear"))
        if self.samples != "all":
            check_integer(self, "samples", 1, MOST_LISTS, ' lists to choose from, or "all"')

    @property
    def most_lists(self) -> int:
        """How many lists there are at most to choose from."""
        return MOST_LISTS if isinstance(self.samples, str) else self.samples

    def params(self) -> Sequence[float]:
        """Return the number of samples, whether all lists are wanted, and whether credit is 1/rank."""
        return float(self.most_lists), float(self.samples == "all"), float(self.credit == "inverse")

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return room for the lists, their deviations and the solver."""
        length, samples = min(k, documents), self.most_lists
        most = min(samples, rankers ** min(length, 12))  # 2**12 is MOST_LISTS
        integers, floats = solver_workspace(most, length * rankers)
        search = documents + 2 * rankers + length * (rankers + 1) + samples + 1
        return (
            (samples + 1) * length + documents + max(search, most + integers),
            2 * most + rankers + documents * rankers + most * length * rankers + floats,
        )

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, no note, probability)."""
        chances = dict(islice(possible_lists(rankings, k), MOST_LISTS + 1))
        samples, count = self.most_lists, len(chances)
        if count <= samples:
            sets = {frozenset(chances): Fraction(1)}
        elif count > MOST_LISTS or sum(comb(count, size) for size in range(samples + 1)) > MOST_SETS:
            raise MethodError(
                f"{self} chooses among {samples} of {'more than ' * (count > MOST_LISTS)}{min(count, MOST_LISTS)} "
                'lists, sampled each time, which has no tractable exact form. Use samples="all" with at most '
                f"{MOST_LISTS} lists, or simulate."
            )
        else:
            sets = sampled_sets(chances, samples)
        total = dict.fromkeys(chances, Fraction(0))
        for found, probability in sets.items():
            some = [drawn for drawn in chances if drawn in found]
            for drawn, share in zip(some, self.optimum(rankings, some)[0], strict=True):
                total[drawn] += probability * share
        return ((drawn, (), probability) for drawn, probability in total.items() if probability)

    def exact_slack(self, rankings: ExactRankings, k: int) -> Fraction:
        """Return the optimum of (1) over all lists: 0 if the programme is feasible and om unbiased.

        >>> Optimized(samples="all").exact_slack((tuple("ABC"), tuple("BCA")), 3)
        Fraction(0, 1)
        """
        return self.optimum(rankings, [drawn for drawn, _ in possible_lists(rankings, k)])[1]

    def optimum(self, rankings: ExactRankings, lists: Sequence[Documents]) -> tuple[tuple[Fraction, ...], Fraction]:
        """Return the probabilities of the lists to choose from, and the slack, exactly."""
        points, costs = [], []
        for drawn in lists:
            credits = [self._deviations(rankings, document) for document in drawn]
            by_ranker = list(zip(*credits, strict=True))
            points.append(tuple(total for column in by_ranker for total in accumulate(column)))
            sums = [sum((c / i for i, c in enumerate(column, 1)), Fraction(0)) for column in by_ranker]
            costs.append(sum((value * value for value in sums), Fraction(0)))
        return exact_optimum(points, costs)

    def _deviations(self, rankings: ExactRankings, document: Hashable) -> list[Fraction]:
        """Return every ranker's credit for a document, less their mean."""
        credits = [self._credit(ranking, document) for ranking in rankings]
        mean = sum(credits, Fraction(0)) / len(credits)
        return [credit - mean for credit in credits]

    def _credit(self, ranking: Documents, document: Hashable) -> Fraction:
        rank = ranking.index(document) + 1 if document in ranking else len(ranking) + 1
        return Fraction(1, rank) if self.credit == "inverse" else Fraction(-rank)

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return every ranker's credit for the clicked documents."""
        return [sum((self._credit(r, drawn[x]) for x in clicks), Fraction(0)) for r in rankings]
