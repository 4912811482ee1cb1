"""Simulated users on combined pages and on each ranker's own page: what rates estimate, and what is true.

Users are the library's click models (`multileave.clicks`), and lists are drawn by its kernels. A user searches a few
queries of their own again and again, so that a user's impressions are alike, and does so ceil(lognormal(1, tail))
times.
"""

from dataclasses import dataclass

import numpy as np

from multileave.data import QuerySet
from multileave.kernels import kernel
from multileave.methods._alone import fill_alone, fill_surplus
from multileave.methods.base import Method
from multileave.random import seed_state
from multileave.stats.rates.sums import RateSums


def draw(*arguments):
    """Placeholder for a method's draw kernel."""
    return 0


def weigh(*arguments):
    """Placeholder for a method's weigh kernel."""
    return 0


def click(*arguments):
    """Placeholder for a user's kernel."""
    return 0


@kernel
def show_and_click(units, queries, tables, size, params, traits, rng, rows, pages, squares, work_i, work_f):
    """Show combined pages for impressions of units i4[n] and queries i4[n]; add what they say to rows f8[U, 2R + 1]."""
    tops, enterings, all_ranks, all_labels, lengths = tables
    k, length = size
    rankers = tops.shape[1]
    shown = np.empty(length, dtype=np.int32)
    note = np.empty(length, dtype=np.int32)
    ranks = np.empty((length, rankers), dtype=np.int32)
    labels = np.empty(length, dtype=np.uint8)
    clicked = np.empty(length, dtype=np.uint8)
    stat = np.zeros(max(k, 2))
    out = np.zeros((3, rankers))
    room = np.empty(2 * length + 2)
    for i in range(len(units)):
        q = queries[i]
        note[:] = 0
        m = draw(
            tops[q], enterings[q], all_ranks[q][:0], lengths, k, params, rng, shown, note, stat, work_i, work_f
        )  # fmt: skip
        for x in range(m):
            ranks[x] = all_ranks[q, shown[x]]
            labels[x] = all_labels[q, shown[x]]
        visible = min(k, m)
        weighed = weigh(tops[q], enterings[q], k, params, shown, visible, stat, work_i)
        click(labels[:m], visible, traits, rng, clicked[:m])
        out[:] = 0.0
        fill_alone(ranks[:m], lengths, note[:m], stat[: weighed * visible], visible, k, params, clicked[:m], out, room)
        row = rows[units[i]]
        row[2 * rankers] += 1.0
        for r in range(rankers):
            row[r] += out[0, r]
            row[rankers + r] += out[1, r]
            pages[r] += out[2, r]
            for other in range(rankers):
                squares[r, other] += out[0, r] * out[0, other]


@kernel
def click_alone(queries, tops, all_labels, k, traits, rng, clicks):
    """Show every ranker's own page for queries i4[n]; add up the clicks, f8[R], and their squares, f8[2, R]."""
    labels = np.empty(k, dtype=np.uint8)
    clicked = np.empty(k, dtype=np.uint8)
    for i in range(len(queries)):
        for r in range(tops.shape[1]):
            for x in range(k):
                labels[x] = all_labels[queries[i], tops[queries[i], r, x]]
            found = click(labels, k, traits, rng, clicked)
            clicks[0, r] += found
            clicks[1, r] += found * found


@dataclass(frozen=True)
class Earning:
    """Users of one kind who search some queries, whose rankings are `data`'s, on pages of k."""

    data: QuerySet
    method: Method
    user: object
    k: int = 10

    def tables(self):
        """Return tops (Q, R, k + 1), entering (Q, k + 1), ranks (Q, U, R) and labels (Q, U) of numbered documents."""
        depth, rankers, queries = self.k + self.method.beyond(), len(self.data.rankers), len(self.data)
        most = rankers * depth
        tops, entering = np.zeros((queries, rankers, depth), np.int32), np.zeros((queries, depth), np.int32)
        ranks, labels = np.zeros((queries, most, rankers), np.int32), np.zeros((queries, most), np.uint8)
        for q in range(queries):
            grades, rankings = self.data.query(q)
            number = {}
            for x in range(depth):
                for r in range(rankers):
                    number.setdefault(int(rankings[r, x]), len(number))
                entering[q, x] = len(number)
            for document, place in number.items():
                labels[q, place] = grades[document]
                for r in range(rankers):
                    ranks[q, place, r] = int(np.flatnonzero(rankings[r] == document)[0]) + 1
            for r in range(rankers):
                tops[q, r] = [number[int(document)] for document in rankings[r, :depth]]
        return tops, entering, ranks, labels, np.full(rankers, rankings.shape[1], np.int32)

    def sums(self, tables, units, queries, seed) -> RateSums:
        """Return what impressions of units and queries say."""
        rankers = len(self.data.rankers)
        size = int(units.max()) + 1
        found, rows = RateSums(rankers), np.zeros((size, 2 * rankers + 1))
        integers, floats = self.method.workspace(rankers, tables[2].shape[1], self.k)
        surplus = fill_surplus.bind(propensity=self.method.propensity_kernel)
        loop = show_and_click.bind(
            draw=self.method.draw_kernel,
            weigh=self.method.weigh_kernel,
            click=self.user.kernel,
            fill_alone=fill_alone.bind(fill_surplus=surplus),
        )
        loop(
            units.astype(np.int32), queries.astype(np.int32), tables, (self.k, self.k + self.method.beyond()),
            self.method.parameters, self.user.parameters, seed_state(seed), rows, found.pages, found.squares,
            np.empty(integers, np.int32), np.empty(floats),
        )  # fmt: skip
        found.add_units(rows)
        found.seen = len(units)
        return found

    def truth(self, tables, repetitions, seed):
        """Return the mean clicks on each ranker's own page, (R,), and their variance."""
        queries = np.tile(np.arange(len(self.data), dtype=np.int32), repetitions)
        clicks = np.zeros((2, len(self.data.rankers)))
        click_alone.bind(click=self.user.kernel)(
            queries, tables[0], tables[3], self.k, self.user.parameters, seed_state(seed), clicks
        )
        mean = clicks[0] / len(queries)
        return mean, clicks[1] / len(queries) - mean**2


def visits(rng, users, queries, tail=1.0, own=3):
    """Return the unit and the query of every impression; each user has `own` queries."""
    activity = np.ceil(rng.lognormal(1.0, tail, users)).astype(np.int64)
    favourites = rng.integers(queries, size=(users, own))
    units = np.repeat(np.arange(users), activity)
    return units, favourites[units, rng.integers(own, size=len(units))]
