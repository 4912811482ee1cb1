"""Does the exchange condition hold for users who go back up? Floats, pages of up to 10 results.

    python benchmarks/research_going_back.py [--users-from FILE ...] [--k 10]

`multileave.theory.exchange` decides the condition in Fractions, for pages of up to 6 results. This script does so in
floats for longer pages, for the model `returning` of files that `multileave fit-users` wrote and for a grid of users.
It prints the least tau divided by the difference between the click probabilities, which must not be negative. Where
nobody looks, tau is 0.
"""

import argparse
import itertools
from fractions import Fraction

import numpy as np

from measuring import markdown_table
from multileave import theory
from multileave.clicks import Returning, find_user
from multileave.clicks.fitted import read_users
from multileave.kernels import kernel
from multileave.theory.exchange import expected_clicks

CLICKS = ((0.05, 0.25), (0.05, 0.5), (0.25, 0.5), (0.05, 0.95), (0.5, 0.95), (0.4, 0.5), (0.49, 0.5))
GO_ON = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
BACK = (0.0, 0.25, 0.5, 1.0)


@kernel
def click_chances(k, click, after_click, after_skip, back, chances, walks):
    """Fill chances, (2^k, k): the probability of a click at every rank, for every pattern of relevance as a mask.

    walks: (2^k, k + 2, 2), the probability of going to a position, shifted by 1, downwards or upwards, by what is
    clicked. A walk keeps that set until it clicks, so sets are finished in increasing order.
    """
    for page in range(1 << k):
        walks[:] = 0.0
        walks[0, 1, 0] = 1.0
        for x in range(k):
            chances[page, x] = 0.0
        for clicked in range(1 << k):
            ended = 0.0
            for direction in range(2):
                for step in range(k):
                    at = step if direction == 0 else k - 1 - step
                    chance = walks[clicked, at + 1, direction]
                    if chance == 0.0:
                        continue
                    ahead = at + 2 if direction == 0 else at
                    if clicked >> at & 1:
                        walks[clicked, ahead, direction] += chance
                        continue
                    a = click[page >> at & 1]
                    after = clicked | 1 << at
                    up = back if at > 0 else 0.0
                    stays = chance * a * after_click
                    walks[after, at + 2, 0] += stays * (1.0 - up)
                    walks[after, at, 1] += stays * up
                    walks[clicked, ahead, direction] += chance * (1.0 - a) * after_skip
                    ended += chance * (1.0 - a) * (1.0 - after_skip)
                    left = chance * a * (1.0 - after_click)
                    for x in range(k):
                        if after >> x & 1:
                            chances[page, x] += left
                ended += walks[clicked, k + 1, 0] if direction == 0 else walks[clicked, 0, 1]
            for x in range(k):
                if clicked >> x & 1:
                    chances[page, x] += ended


def least_gain(user, k):
    """Return the least tau over pages of exactly k results and pairs of ranks, the hidden one included."""
    chances, walks = np.empty((1 << k, k)), np.empty((1 << k, k + 2, 2))
    (after_click,), (after_skip,), (back,) = user.go_on_after_click, user.go_on_after_skip, user.back
    click_chances(k, np.array(user.click), after_click, after_skip, back, chances, walks)
    pages = np.arange(1 << k)
    least = np.inf
    for x, y in itertools.combinations(range(k + 1), 2):
        here = pages[(pages >> x & 1 == 1) & ((y == k) | (pages >> y & 1 == 0))]
        there = here & ~(1 << x) | (0 if y == k else 1 << y)
        gain = chances[here, x] - chances[there, x]
        if y < k:
            gain += chances[there, y] - chances[here, y]
        least = min(least, float(gain.min()))
    return least / (user.click[1] - user.click[0])


def check_against_fractions():
    """Compare the compiled chances with the exact law."""
    user = Returning((0.1, 0.5), (0.0, 0.0), False, (0.6,), (0.9,), back=(0.3,))
    chances, walks = np.empty((16, 4)), np.empty((16, 6, 2))
    click_chances(4, np.array(user.click), 0.6, 0.9, 0.3, chances, walks)
    exact = theory.exact(user)
    for page in range(16):
        expected = expected_clicks(exact, tuple(page >> x & 1 for x in range(4)))
        assert np.allclose(chances[page], [float(Fraction(chance)) for chance in expected], atol=1e-12)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users-from", nargs="+", default=[])
    parser.add_argument("--k", type=int, default=10)
    given = parser.parse_args()
    check_against_fractions()
    rows = []
    for name in read_users(given.users_from):
        user = find_user(f"{name}.returning", 2, given.users_from)
        rows.append([name, *(f"{least_gain(user, k):.3g}" for k in range(2, given.k + 1))])
    grid = [
        Returning(click, (0.0, 0.0), False, (after_click,), (after_skip,), back=(back,))
        for click, after_click, after_skip, back in itertools.product(CLICKS, GO_ON, GO_ON, BACK)
    ]
    least = [min(least_gain(user, k) for user in grid) for k in range(2, min(given.k, 7) + 1)]
    rows.append([f"{len(grid):,} others", *(f"{value:.3g}" for value in least), *[""] * (given.k - 1 - len(least))])
    print(markdown_table(["users", *(f"k = {k}" for k in range(2, given.k + 1))], rows))


if __name__ == "__main__":
    main()
