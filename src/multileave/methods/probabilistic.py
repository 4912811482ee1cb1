"""PM, probabilistic multileaving [schuth2015], [hofmann2011].

Every ranker is a distribution over documents, P(d) proportional to 1 / rank^tau. At each rank of the list a ranker is
drawn, with replacement, and then a document from its distribution over those not yet in the list. A click counts for
the ranker that gave the document; as it could be any of several, credit is the expectation over all assignments. Since
rankers are drawn with replacement, the assignments of the documents are independent given the list, so

    credit of n for the document d at x  =  P_n(d | above x) / sum over m of P_m(d | above x),

exactly, in O(R k). ``credit="sign"`` is the expected sign of the difference in clicks instead, exact by a sum over the
possible differences. (The sign of the expectation is biased.)

PM may show any document anywhere, so it is not considerate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import Kernel, kernel
from multileave.methods._parameters import check_choice, check_number
from multileave.methods.base import Method, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, exact_power, merged
from multileave.outcome import Kind
from multileave.random import below, uniform

TABLE = 1024  # ranks with tabulated powers; others are computed
LOST = 1e-4  # if less than this share of a ranker's mass is left, subtraction has lost digits, and the rest is summed


def chances(ranking: Documents, gone: Documents, power: int) -> dict[object, Fraction]:
    """Return a ranker's distribution over its documents that are not gone; empty if all are."""
    mass = {d: Fraction(1, rank**power) for rank, d in enumerate(ranking, 1) if d not in gone}
    total = sum(mass.values())
    return {d: share / total for d, share in mass.items()}


@kernel
def power(rank, params):  # type: ignore[no-untyped-def]
    """Return rank^-tau; params[1] is tau, and the table of powers starts at params[2]."""
    if rank <= TABLE:
        return params[1 + rank]
    return rank ** -params[1]


@kernel
def power_sum(length, params):  # type: ignore[no-untyped-def]
    """Return the sum of rank^-tau from 1 to length: from a table, then by Euler and Maclaurin's formula."""
    if length <= TABLE:
        return params[1 + TABLE + length]
    tau, a, b = params[1], TABLE + 1.0, float(length)
    total = params[1 + 2 * TABLE]
    if abs(tau - 1.0) < 1e-9:
        total += math.log(b / a)
    else:
        total += (a ** (1.0 - tau) - b ** (1.0 - tau)) / (tau - 1.0)
    total += (a**-tau + b**-tau) / 2 + tau * (a ** (-tau - 1) - b ** (-tau - 1)) / 12
    return total - tau * (tau + 1) * (tau + 2) * (a ** (-tau - 3) - b ** (-tau - 3)) / 720


@kernel
def mass_left(n, ranks, gone, length, params):  # type: ignore[no-untyped-def]
    """Return ranker n's sum of rank^-tau over the documents left after ranks[:gone], term by term."""
    left = 0.0
    for rank in range(length, 0, -1):
        there = True
        for y in range(gone):
            there = there and ranks[y, n] != rank
        if there:
            left += power(rank, params)
    return left


@kernel
def draw_ranker_and_document(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Draw a ranker, with replacement, among those with documents left, then one of its documents."""
    rankers, depth = top.shape
    documents = entering[depth - 1]
    taken = work_i[:documents]
    taken[:] = 0
    m = 0
    while m < min(k, documents):
        ranker = below(rng, rankers)
        length = lengths[ranker]
        everything = power_sum(length, params)
        left = everything
        gone = 0
        x = 0
        while gone < m and x < length:  # until the last document that is gone
            if taken[top[ranker, x]]:
                left -= power(x + 1, params)
                gone += 1
            x += 1
        if gone == length:
            continue
        if left < LOST * everything:
            left = 0.0
            for x in range(length):
                if taken[top[ranker, x]] == 0:
                    left += power(x + 1, params)
        wanted = uniform(rng) * left
        reached = 0.0
        chosen = -1
        for x in range(length):
            if taken[top[ranker, x]] == 0:
                chosen = top[ranker, x]
                reached += power(x + 1, params)
                if reached > wanted:
                    break
        shown[m] = chosen
        taken[chosen] = 1
        m += 1
    return m


@kernel
def all_mass(lengths, params, left):  # type: ignore[no-untyped-def]
    """Fill `left` with each ranker's sum of rank^-tau over all its documents."""
    for n in range(len(lengths)):
        left[n] = power_sum(lengths[n], params)


@kernel
def pass_document(x, ranks, lengths, params, left, share):  # type: ignore[no-untyped-def]
    """Fill `share` with the chance that each ranker gave the document at x, and take it out of `left`."""
    total = 0.0
    for n in range(len(lengths)):
        share[n] = 0.0
        if ranks[x, n] != ABSENT:
            mass = power(ranks[x, n], params)
            share[n] = mass / left[n]
            left[n] -= mass
            if left[n] < LOST * power_sum(lengths[n], params):
                left[n] = mass_left(n, ranks, x + 1, lengths[n], params)
        total += share[n]
    for n in range(len(lengths)):
        share[n] /= total


@kernel
def last_click(clicks):  # type: ignore[no-untyped-def]
    """Return the position of the last click, -1 without clicks."""
    for x in range(len(clicks) - 1, -1, -1):
        if clicks[x]:
            return x
    return -1


@kernel
def credit_expected(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add to each ranker its chance to have given each clicked document."""
    rankers = len(lengths)
    left, share = work_f[:rankers], work_f[rankers : 2 * rankers]
    all_mass(lengths, params, left)
    for x in range(last_click(clicks) + 1):
        pass_document(x, ranks, lengths, params, left, share)
        if clicks[x]:
            for n in range(rankers):
                out[n] += share[n]


@kernel
def credit_sign(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add P(n has more clicks than m) - P(fewer), from the law of their difference, click by click."""
    rankers = len(lengths)
    left = work_f[:rankers]
    all_mass(lengths, params, left)
    shares = work_f[rankers:]  # `count` rows of R, the next row being filled
    count = 0
    for x in range(last_click(clicks) + 1):
        pass_document(x, ranks, lengths, params, left, shares[count * rankers : (count + 1) * rankers])
        count += clicks[x]
    law = shares[count * rankers : count * rankers + 2 * count + 3]  # law[count + 1 + d] = P(difference = d)
    middle = count + 1
    for n in range(rankers):
        for m in range(n + 1, rankers):
            law[:] = 0.0
            law[middle] = 1.0
            for click in range(count):
                up, down = shares[click * rankers + n], shares[click * rankers + m]
                before = 0.0
                for place in range(middle - click - 1, middle + click + 2):
                    here = law[place]
                    law[place] = here * (1.0 - up - down) + before * up + law[place + 1] * down
                    before = here
            sign = 0.0
            for difference in range(1, count + 1):
                sign += law[middle + difference] - law[middle - difference]
            out[n, m] += sign
            out[m, n] -= sign


@kernel
def expect_even_sources(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Observe the chance that each ranker gave the first document, given the document; each is drawn as often."""
    if every or len(ranks) == 0:
        return 0
    all_mass(lengths, params, expected)
    pass_document(0, ranks, lengths, params, expected, observed)
    expected[:] = 1.0 / len(lengths)
    return 1


@register
@dataclass(frozen=True)
class Probabilistic(Method):
    """Probabilistic multileaving, "pm".

    tau: how fast a document's chance falls with its rank.
    credit: the "expected" clicks of each ranker, or the expected "sign" of the difference in clicks.
    """

    name = "pm"
    title = "Probabilistic Multileaving"
    unbiased_lists = "k"
    considerate = False
    fidelity = "unbiased; Pareto fails from 4 documents"
    reference = "schuth2015"
    proof = "docs/theory.md"
    draw_kernel = draw_ranker_and_document
    balance_kernel = expect_even_sources

    tau: float = 3.0
    credit: str = "expected"

    def __post_init__(self) -> None:
        check_number(self, "tau", 0, 30)
        check_choice(self, "credit", ("expected", "sign"))

    @property
    def outcome(self) -> Kind:
        """R expected credits, or the matrix of expected signs."""
        return "matrix" if self.credit == "sign" else "difference"

    @property
    def credit_kernel(self) -> Kernel:  # type: ignore[override]
        """The kernel of the chosen credit."""
        return credit_sign if self.credit == "sign" else credit_expected

    def params(self) -> Sequence[float]:
        """Return tau and the tables of rank^-tau and of its sums."""
        powers = np.arange(1, TABLE + 1, dtype=np.float64) ** -self.tau
        return [0.0, self.tau, *powers, *np.cumsum(powers)]

    def read_depth(self, k: int, longest: int) -> int:
        """Every document may be drawn."""
        return longest

    def workspace(self, rankers: int, documents: int, k: int) -> tuple[int, int]:
        """Return room for marks on documents, and for shares and a law of differences."""
        return documents, rankers * (k + 3) + 2 * k + 3

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, no note, probability)."""
        tau = exact_power(self, self.tau)

        def extend(drawn: Documents, probability: Fraction) -> Lists:
            able = [law for law in (chances(ranking, drawn, tau) for ranking in rankings) if law]
            if len(drawn) == k or not able:
                yield drawn, (), probability
                return
            for document in {document: None for law in able for document in law}:
                chance = sum((law.get(document, Fraction(0)) for law in able), Fraction(0)) / len(able)
                yield from extend((*drawn, document), probability * chance)

        return merged(extend((), Fraction(1)))

    def score(
        self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int
    ) -> list[Fraction] | list[list[Fraction]]:
        """Return the expected clicks of each ranker, or the expected signs, over all assignments."""
        tau = exact_power(self, self.tau)
        laws = []
        for position in clicks:
            given = [chances(r, drawn[:position], tau).get(drawn[position], Fraction(0)) for r in rankings]
            laws.append([chance / sum(given) for chance in given])
        everyone = range(len(rankings))
        if self.credit == "expected":
            return [sum((law[n] for law in laws), Fraction(0)) for n in everyone]
        signs = [[Fraction(0) for _ in everyone] for _ in everyone]
        for assignment in product(everyone, repeat=len(laws)):
            chance = math.prod((law[n] for law, n in zip(laws, assignment, strict=True)), start=Fraction(1))
            for n in everyone:
                for m in everyone:
                    more = assignment.count(n) - assignment.count(m)
                    signs[n][m] += chance * ((more > 0) - (more < 0))
        return signs
