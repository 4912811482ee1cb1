"""Weightings of pairs and cascade users: prints the tables of docs/research/cascade-users.md.

    python benchmarks/research_cascades.py [sizes] [all] [certificate]

sizes: for every size in reach and every k, a weighting for the paper's three users, by linear programming.
all: whether counting a click against all documents below it is positive for all cascades, and for which sizes.
certificate: seven documents for which there is no weighting for all cascades.
"""

import sys
from collections import defaultdict
from fractions import Fraction

from multileave.theory.instances import dominators, instances, relevant_sets
from multileave.theory.users import PRESETS, Cascade
from weightings import Condition, coefficients, decide

THREE = ("perfect", "navigational", "informational")
SIZES = ((3, 2), (3, 3), (4, 2))
SIZES_OF_ALL = (*SIZES, (4, 3), (5, 2))

# Reads from the top, clicks the first relevant document and leaves; in the limit, what is required for all cascades
# is required for this one. With a single relevant document it does not differ from the perfect user.
FIRST_AND_GONE = Cascade(click=(Fraction(0), Fraction(1)), stop=(Fraction(0), Fraction(1)))
CERTIFICATE = (
    ("KMIJXVW", "KMJIXVW", "WJXVKIM", "I", "perfect"),
    ("XJIVKMW", "XKIJVMW", "KMWJVIX", "XIV", FIRST_AND_GONE),
    ("XJIVKMW", "XKIJVMW", "KMJWXIV", "XIV", FIRST_AND_GONE),
    ("XJIVKMW", "XKIJVMW", "JMIXKVW", "XIV", FIRST_AND_GONE),
)


def dominations(documents, rankers, k):
    """Yield (rankings, relevant documents, better ranker, worse ranker) of all instances."""
    for rankings in instances(documents, rankers, reorder=True):
        for relevant in relevant_sets(tuple(sorted(rankings[0]))):
            for better in dominators(rankings, relevant, k):
                yield from ((rankings, relevant, better, worse) for worse in range(rankers) if worse != better)


def print_sizes():
    print("| documents | rankers | k | conditions | values of kappa | weighting |\n|---|---|---|---|---|---|")
    for documents, rankers in SIZES:
        for k in range(1, documents + 1):
            conditions = [
                Condition(rankings, k, relevant, (better, worse), PRESETS[name])
                for rankings, relevant, better, worse in dominations(documents, rankers, k)
                for name in THREE
            ]
            decision = decide(conditions)
            used = len({key for condition in conditions for key in coefficients(condition)})
            found = "found, exact" if decision else "none"
            print(f"| {documents} | {rankers} | {k} | {len(conditions)} | {used} | {found} |", flush=True)


def polynomial(rankings, k, relevant, better, worse):
    """Return E[P] / (c1 - c0) of a click counted against all documents below it, as {(a, b): coefficient of A^a B^b}.

    A and B are the probabilities that a cascade user continues after a document that is not relevant, and one that is.
    A user who never stops and clicks the relevant document at only one rank isolates that rank.
    """
    total = defaultdict(Fraction)
    for rank in range(1, k + 1):
        for above in range(rank):
            user = _Probe(rank, above)
            row = coefficients(Condition(rankings, k, relevant, (better, worse), user))
            value = sum((c for (x, *_, clicks), c in row.items() if x in clicks), Fraction(0))
            total[rank - 1 - above, above] += value
    return {powers: value for powers, value in total.items() if value}


class _Probe:
    """Clicks at one rank, if the document there is relevant and that many above it are."""

    def __init__(self, rank, above):
        self.rank, self.above = rank, above

    def law(self, grades):
        there = len(grades) >= self.rank and grades[self.rank - 1] and sum(grades[: self.rank - 1]) == self.above
        yield ((self.rank - 1,) if there else ()), Fraction(1)


def print_all():
    print("| documents | rankers | dominated pairs, every k | with a negative coefficient | with no positive one |")
    print("|---|---|---|---|---|")
    for documents, rankers in SIZES_OF_ALL:
        found = [
            polynomial(one[0], k, *one[1:])
            for k in range(1, documents + 1)
            for one in dominations(documents, rankers, k)
        ]
        negative = sum(min(p.values(), default=0) < 0 for p in found)
        none = sum(max(p.values(), default=0) <= 0 for p in found)
        print(f"| {documents} | {rankers} | {len(found)} | {negative} | {none} |", flush=True)


def print_certificate():
    conditions = []
    for first, second, third, relevant, user in CERTIFICATE:
        rankings = tuple(map(tuple, (first, second, third)))
        assert 0 in dominators(rankings, frozenset(relevant), 4)
        person = PRESETS[user] if isinstance(user, str) else user
        conditions.append(Condition(rankings, 4, frozenset(relevant), (0, 1), person, strict=isinstance(user, str)))
    decision = decide(conditions)
    assert not decision
    print("| multiplier | rankings | relevant | user | coefficients: (x, y, later best, earlier best; click) |")
    print("|---|---|---|---|---|")
    for place, multiplier in decision.certificate.items():
        *rankings, relevant, user = CERTIFICATE[place]
        row = ", ".join(
            f"{value} ({x}, {y}, {late}, {early}; {' '.join(map(str, clicks))})"
            for (x, y, late, early, clicks), value in sorted(coefficients(conditions[place]).items())
        )
        who = "perfect, E > 0" if user == "perfect" else "first and gone, E >= 0"
        print(f"| {multiplier} | {' / '.join(rankings)} | {', '.join(relevant)} | {who} | {row} |")


if __name__ == "__main__":
    parts = {"sizes": print_sizes, "all": print_all, "certificate": print_certificate}
    for part in sys.argv[1:] or parts:
        parts[part]()
        print()
