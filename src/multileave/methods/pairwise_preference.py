"""PPM, pairwise preference multileaving [oosterhuis2017].

The list: at each rank x a document is drawn uniformly from the choice set, the documents that some ranker places at x
or above and that are not yet in the list. So no document is shown higher than every ranker would, and every list that
can be drawn is equally likely.

Inference: clicks prefer some documents to others. For documents i, j let rbar(i, j) be the first rank at which both
could be drawn, the larger of their best ranks over rankers. If i is preferred to j and both are at or below rbar, each
ranker's score S_n gains +1/w if it agrees and -1/w if it does not, with w the probability that both are at or below
rbar,

    w = product over x from the smaller best rank to rbar - 1 of (1 - 1 / (|Omega(x)| - x + 1)),

and P_nm = S_n - S_m. (Algorithm 3 of the paper prints -1 for the last +1, which its text contradicts, and omits S_m.)
Which documents a click prefers:

    pairs="equation"  every clicked document to every unclicked one above the last click or directly below a click: the
                      paper's equation
    pairs="local"     a clicked document to every unclicked one above it, and to the one directly below it if that is
                      unclicked: the paper's prose
    pairs="all"       every clicked document to every unclicked one

The paper permutes all documents; a page shows k. One more document is drawn and kept hidden: it counts as unclicked at
k + 1, and without it the guarantee for the best ranker is lost (``hidden=False``).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from multileave.impression import ABSENT
from multileave.kernels import kernel
from multileave.methods._parameters import check_choice
from multileave.methods.base import Method, Pareto, register
from multileave.methods.exact import Clicks, Documents, ExactRankings, Lists, Note, rank_in
from multileave.random import below

RULES = ("equation", "local", "all")
LEAST_CHANCE = 1e-290  # below it, quotients of chances are no longer exact


def choice_set(rankings: ExactRankings, x: int) -> Documents:
    """Return Omega(x): the documents that some ranker places at rank x or above."""
    return tuple(dict.fromkeys(document for ranking in rankings for document in ranking[:x]))


def chance_to_wait(rankings: ExactRankings, first: int, threshold: int) -> Fraction:
    """Return w, the probability that a document that enters at rank `first` is not drawn above the threshold."""
    chance = Fraction(1)
    for x in range(first, threshold):
        chance *= 1 - Fraction(1, len(choice_set(rankings, x)) - x + 1)
    return chance


def preferred_pairs(rule: str, length: int, clicks: Clicks) -> Iterator[tuple[int, int]]:
    """Yield the pairs of positions (i, j) where the clicks prefer the document at i to the one at j."""
    for i in clicks:
        for j in range(length):
            if j in clicks:
                continue
            if rule == "equation":
                preferred = any(click > j for click in clicks) or j - 1 in clicks
            elif rule == "local":
                preferred = j < i or j == i + 1
            else:
                preferred = True
            if preferred:
                yield i, j


def pair_scores(
    rankings: ExactRankings, drawn: Documents, pairs: Iterable[tuple[int, int]], use: Callable[[float], Fraction]
) -> list[Fraction]:
    """Return S_n of every ranker; use(rank): how much a pair counts by the higher of its ranks in the ranker's list."""
    scores = [Fraction(0)] * len(rankings)
    best = [min(rank_in(ranking, document) for ranking in rankings) for document in drawn]
    for i, j in pairs:
        first, threshold = int(min(best[i], best[j])), int(max(best[i], best[j]))
        if min(i, j) + 1 < threshold:
            continue
        weight = chance_to_wait(rankings, first, threshold)
        for n, ranking in enumerate(rankings):
            place_i, place_j = rank_in(ranking, drawn[i]), rank_in(ranking, drawn[j])
            scores[n] += ((place_i < place_j) - (place_i > place_j)) / weight * use(min(place_i, place_j))
    return scores


@kernel
def draw_choices(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):  # type: ignore[no-untyped-def]
    """Draw uniformly from the choice sets, filling `shown`. note: the number of choices at each rank."""
    pool = work_i  # the documents that may be drawn, the first `size` of it
    size = 0
    known = np.int64(0)
    for x in range(len(shown)):
        if x < len(entering):
            shift = size - known
            for document in range(known, entering[x]):
                pool[shift + document] = document
            size = shift + entering[x]
            known = np.int64(entering[x])
        if size == 0:
            return x
        choice = below(rng, size)
        shown[x] = pool[choice]
        note[x] = size
        size -= 1
        pool[choice] = pool[size]
    return len(shown)


@kernel
def best_ranks(ranks, best):  # type: ignore[no-untyped-def]
    """Fill `best` with each document's best rank over rankers."""
    for x in range(len(best)):
        least = np.int32(ABSENT)
        for n in range(ranks.shape[1]):
            least = min(least, ranks[x, n])
        best[x] = least


@kernel
def chances_to_stay(note, stay):  # type: ignore[no-untyped-def]
    """Fill stay[x] with the chance that a document which is there from the start is not drawn at ranks 1 to x.

    From rank a to b it is stay[b] / stay[a]. At a rank with a single choice it would be 0, but no pair spans such a
    rank, so its factor is left out.
    """
    stay[0] = 1.0
    for x in range(len(stay) - 1):
        stay[x + 1] = stay[x] * (1.0 - 1.0 / note[x] if note[x] > 1 else 1.0)


@kernel
def agreement(better, worse):  # type: ignore[no-untyped-def]
    """Return 1 if the rank of the better document is the smaller, -1 if it is the larger, 0 if both are absent.

    Without a branch, which the processor could not predict; as a difference of int32, clipped to -1..1, several
    rankers are compared at once.
    """
    return max(min(np.int32(worse - better), np.int32(1)), np.int32(-1))


@kernel
def count_pair(weight, better, worse, k, params, out):  # type: ignore[no-untyped-def]
    """Add the weight for every ranker that agrees, subtract it for those that do not."""
    for n in range(len(out)):
        out[n] += weight * agreement(better[n], worse[n])


@kernel
def credit_pairs(ranks, lengths, note, clicks, k, params, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Add up the preferences; params: the position in RULES, and what `count_pair` reads."""
    m = len(clicks)
    rule = params[0]
    clicked = work_i[:m]
    count = 0
    last = -1
    for x in range(m):
        if clicks[x]:
            clicked[count] = x
            count += 1
            last = x
    seen = m if rule == 2.0 else min(last + 2, m)  # no document further down is in a pair
    best = work_i[m : m + seen]
    stay = work_f[: seen + 1]
    best_ranks(ranks, best)
    chances_to_stay(note, stay)
    for j in range(seen):
        if clicks[j]:
            continue
        for click in range(count):
            i = clicked[click]
            if rule == 1.0 and i < j - 1:
                continue
            threshold = max(best[i], best[j])
            if min(i, j) + 1 < threshold:
                continue
            weight = stay[min(best[i], best[j]) - 1] / stay[threshold - 1]
            count_pair(weight, ranks[i], ranks[j], k, params, out)


@kernel
def expect_choices(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Observe at rank x, or only at rank 1, whether a ranker has the document in its top x; choices are uniform.

    A ranker's top x has x documents, less those drawn before, and each is drawn with chance 1 / note[x - 1]. So a
    document of rank q, drawn at rank y, lowers what is expected by these chances at all ranks from max(q, y + 1) on:
    left[x] is their sum from x on, x from 1.
    """
    m, rankers = min(visible, len(ranks)) if every else min(1, len(ranks)), len(observed)
    left = work_f[: m + 2]
    left[m + 1] = 0.0
    total = 0.0
    for x in range(m, 0, -1):
        if note[x - 1] <= 0:
            return 0
        left[x] = left[x + 1] + 1.0 / note[x - 1]
        total += x / note[x - 1]
    expected[:] = total
    for y in range(1, m + 1):
        for r in range(rankers):
            rank = ranks[y - 1, r]
            observed[r] += rank <= y
            expected[r] -= left[min(max(rank, y + 1), m + 1)]
    return 1 if m > 0 else 0


@kernel
def choice_propensities(ranks, lengths, note, stat, visible, params, out, work_f):  # type: ignore[no-untyped-def]
    """Fill in 1 / N_x times the chance that the document was not drawn from its best rank to x - 1."""
    if min(len(ranks), len(note)) < visible:
        return 0
    stay = work_f[: visible + 1]
    chances_to_stay(note, stay)
    for x in range(visible):
        best = np.int32(ABSENT)
        for r in range(ranks.shape[1]):
            best = min(best, ranks[x, r])
        # Neither happens to a list that was drawn; the last does on pages of over a thousand documents.
        if best > x + 1 or note[x] < 1 or stay[x] < LEAST_CHANCE:
            return 0
        out[x] = stay[x] / stay[best - 1] / note[x]
    return 1


@dataclass(frozen=True)
class ChoiceMethod(Method):
    """A method that draws uniformly from the choice sets, with one hidden document."""

    considerate = True
    keeps_note = True
    note_label = "choices"
    note_help = "The number of documents from which this one was drawn."
    draw_kernel = draw_choices
    credit_kernel = credit_pairs
    balance_kernel = expect_choices
    propensity_kernel = choice_propensities
    estimates_rates = True

    def beyond(self) -> int:
        """One document is hidden: without it a ranker that is better only at rank k would not be found."""
        return 1

    def rereads(self, drawn: Method) -> Method | None:
        """Lists of uniform choices are alike, whichever method infers from them."""
        return self if drawn.draw_kernel is draw_choices and drawn.beyond() == self.beyond() else None

    def lists(self, rankings: ExactRankings, k: int) -> Lists:
        """Yield every (list, numbers of choices, probability)."""

        def extend(drawn: Documents, note: Note, probability: Fraction) -> Lists:
            left = [document for document in choice_set(rankings, len(drawn) + 1) if document not in drawn]
            if len(drawn) == k + self.beyond() or not left:
                yield drawn, note, probability
                return
            for document in left:
                yield from extend((*drawn, document), (*note, len(left)), probability / len(left))

        return extend((), (), Fraction(1))

    def propensity(self, rankings: ExactRankings, document: Hashable, rank: int, k: int) -> Fraction:
        """Return the probability that a document is drawn at a rank: not before, and then as one of N_x choices."""
        best = min(rank_in(ranking, document) for ranking in rankings)
        choices = len(choice_set(rankings, rank)) - rank + 1
        if best > rank or choices < 1:
            return Fraction(0)
        return chance_to_wait(rankings, int(best), rank) / choices


@register
@dataclass(frozen=True)
class PairwisePreference(ChoiceMethod):
    """Pairwise preference multileaving, "ppm".

    pairs: which documents clicks prefer to which: "equation", "local" or "all".
    hidden: draw one document beyond k and keep it hidden.
    """

    name = "ppm"
    title = "Pairwise Preference Multileaving"
    unbiased_lists = "any"
    clone_proof = True
    fidelity = "both, for independent clicks and pairs='local' or 'all'"
    reference = "oosterhuis2017"
    proof = "docs/theory.md"
    reads_late = False  # a lower document is in a pair only if it could have been drawn in the clicked one's place

    pairs: str = "equation"
    hidden: bool = True

    def __post_init__(self) -> None:
        check_choice(self, "pairs", RULES)
        check_choice(self, "hidden", (True, False))

    @property
    def pareto(self) -> Pareto:
        """Not with the paper's equation, nor without the hidden document."""
        return "independent" if self.hidden and self.pairs in ("local", "all") else ""

    @property
    def reads_below(self) -> int | None:
        """The document directly below the last click is the last in a pair, but for "all" pairs."""
        return None if self.pairs == "all" else 1

    def params(self) -> Sequence[float]:
        """Return the pair rule."""
        return (float(RULES.index(self.pairs)),)

    def beyond(self) -> int:
        """One document is hidden, unless `hidden` is False."""
        return int(self.hidden)

    def score(self, rankings: ExactRankings, drawn: Documents, note: Note, clicks: Clicks, k: int) -> list[Fraction]:
        """Return S_n of every ranker."""
        pairs = preferred_pairs(self.pairs, len(drawn), clicks)
        return pair_scores(rankings, drawn, pairs, lambda rank: Fraction(1))
