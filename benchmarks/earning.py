"""Simulated users on combined pages, and what they say about each ranker's own page.

Users are the library's click models (`multileave.clicks`), and lists are drawn by its kernels. A user searches a few
queries of their own again and again, so that a user's impressions are alike, and does so ceil(lognormal(1, tail))
times.
"""

from dataclasses import dataclass

import numpy as np

from multileave.data import QuerySet
from multileave.impression import ABSENT
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
    all_tops, enterings, all_ranks, all_labels, all_worths, all_lengths, depths = tables
    k, length = size
    rankers = all_tops.shape[1]
    shown = np.empty(length, dtype=np.int32)
    note = np.empty(length, dtype=np.int32)
    ranks = np.empty((length, rankers), dtype=np.int32)
    labels = np.empty(length, dtype=np.uint8)
    clicked = np.empty(length, dtype=np.uint8)
    values = np.empty(length)
    stat = np.zeros(max(k, 2))
    out = np.zeros((3, rankers))
    room = np.empty(2 * length + 2)
    for i in range(len(units)):
        q = queries[i]
        top, entering, lengths = all_tops[q][:, : depths[q]], enterings[q][: depths[q]], all_lengths[q]
        note[:] = 0
        m = draw(top, entering, all_ranks[q][:0], lengths, k, params, rng, shown, note, stat, work_i, work_f)
        for x in range(m):
            ranks[x] = all_ranks[q, shown[x]]
            labels[x] = all_labels[q, shown[x]]
        visible = min(k, m)
        weighed = weigh(top, entering, k, params, shown, visible, stat, work_i, work_f)
        click(labels[:m], visible, traits, rng, clicked[:m])
        for x in range(m):
            values[x] = all_worths[q, shown[x]] if clicked[x] else 0.0
        out[:] = 0.0
        fill_alone(ranks[:m], lengths, note[:m], stat[: weighed * visible], visible, k, params, values[:m], out, room)
        row = rows[units[i]]
        row[2 * rankers] += 1.0
        for r in range(rankers):
            row[r] += out[0, r]
            row[rankers + r] += out[1, r]
            pages[r] += out[2, r]
            for other in range(rankers):
                squares[r, other] += out[0, r] * out[0, other]


@dataclass(frozen=True)
class Earning:
    """Users of one kind who search some queries, whose rankings are `data`'s, on pages of k.

    worths: what a click on each document of each query is worth, 1 by default.
    """

    data: QuerySet
    method: Method
    user: object
    k: int = 10
    worths: object = None

    def tables(self):
        """Return what every query's draw and credit read, for documents numbered by their best rank.

        Tops (Q, R, k + 1), entering (Q, k + 1), ranks (Q, U, R), labels and worths (Q, U), lengths (Q, R), and how many
        ranks of the tops some ranker fills (Q,).
        """
        depth, rankers, queries = self.k + self.method.beyond(), len(self.data.rankers), len(self.data)
        most = rankers * depth
        tops, entering = np.full((queries, rankers, depth), -1, np.int32), np.zeros((queries, depth), np.int32)
        ranks, labels = np.full((queries, most, rankers), ABSENT, np.int32), np.zeros((queries, most), np.uint8)
        worths = np.ones((queries, most))
        depths = np.minimum(self.data.lengths.max(axis=1), depth).astype(np.int32)
        for q in range(queries):
            grades, rankings = self.data.query(q)
            lists = [row[:length].tolist() for row, length in zip(rankings, self.data.lengths[q], strict=True)]
            number = {}
            for x in range(depth):
                for r, ranking in enumerate(lists):
                    if x < len(ranking):
                        tops[q, r, x] = number.setdefault(ranking[x], len(number))
                entering[q, x] = len(number)
            for r, ranking in enumerate(lists):
                for x, document in enumerate(ranking):
                    if document in number:
                        ranks[q, number[document], r] = x + 1
            labels[q, : len(number)] = grades[list(number)]
            if self.worths is not None:
                worths[q, : len(number)] = self.worths[q][list(number)]
        return tops, entering, ranks, labels, worths, self.data.lengths, depths

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


def visits(rng, users, queries, tail=1.0, own=3):
    """Return the unit and the query of every impression; each user has `own` queries."""
    activity = np.ceil(rng.lognormal(1.0, tail, users)).astype(np.int64)
    favourites = rng.integers(queries, size=(users, own))
    units = np.repeat(np.arange(users), activity)
    return units, favourites[units, rng.integers(own, size=len(units))]
