"""The exchange condition: for which users opm and rpm are proved to prefer a better ranker, whatever they read first.

Take a page with a relevant document at rank x and one that is not relevant at rank y > x, and exchange the two. A user
meets the condition if this never makes rank x gain on rank y,

    tau = E[c_x - c_y | page] - E[c_x - c_y | exchanged] >= 0,

and tau > 0 for neighbours y = x + 1. The document at rank k + 1 is hidden and never clicked. For `opm(pairs="below")`
tau has only c_x. This is all that the proofs of theorems 8 and 9 use of a user (docs/theory.md). It says nothing of
the order in which a page is read, and can be decided for pages of up to k results by looking at all of them.
"""

from fractions import Fraction
from itertools import combinations, product

from multileave.theory.users import User

MOST = 6  # results on a page for which the condition is decided


def expected_clicks(user: User, grades: tuple[int, ...]) -> list[Fraction]:
    """Return the probability of a click at every rank of a page.

    >>> from multileave.theory import Cascade
    >>> [str(chance) for chance in expected_clicks(Cascade(click=(0, 0.5), stop=(0, 0.5)), (1, 1))]
    ['1/2', '3/8']
    """
    found = [Fraction(0)] * len(grades)
    for clicked, chance in user.law(grades):
        for x in clicked:
            found[x] += chance
    return found


def exchange_breaks(user: User, k: int, *, below: bool = False) -> tuple[tuple[int, ...], int, int] | None:
    """Return a page, as the relevance of its ranks, and two ranks at which the condition fails; None if there are none.

    k: the most results on a page. below: whether only the upper rank counts, as for `opm(pairs="below")`.
    """
    for length in range(1, k + 1):
        clicks = {page: [*expected_clicks(user, page), Fraction(0)] for page in product((0, 1), repeat=length)}
        for page, here in clicks.items():
            for x, y in combinations(range(length + (length == k)), 2):
                if not page[x] or (y < length and page[y]):
                    continue
                changed = [*page, 0]
                changed[x], changed[y] = 0, 1
                there = clicks[tuple(changed[:length])]
                gain = here[x] - there[x]
                if not below:
                    gain += there[y] - here[y]
                if gain < 0 or (gain == 0 and y == x + 1):
                    return page, x + 1, y + 1
    return None
