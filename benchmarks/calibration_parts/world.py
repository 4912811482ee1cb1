"""Simulated users who search and click through the library's own draw and credit kernels.

For every impression each ranker ranks ten documents in its own random order and the page shows five. A user has a
taste, a weight for each ranker, and clicks the document d at position x (from 0) with probability

    0.9 / (1 + 0.3 x) * sum over rankers r of weight_r / rank_r(d).

Tastes are Beta(2, 2) for two rankers and Dirichlet(2) for more: exchangeable, so no ranker is better and every
significant preference is a false alarm, although single users may prefer one strongly. A user's impressions are
ceil(lognormal(1, 1)).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multileave.kernels import kernel
from multileave.methods.base import Method
from multileave.outcome import add_signs
from multileave.random import below, seed_state, uniform
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.moments import Moments

DOCUMENTS, PAGE = 10, 5


def draw(*arguments):
    """Placeholder for a method's draw kernel."""
    return 0


def credit(*arguments):
    """Placeholder for a method's credit kernel."""


@kernel
def search_and_click(days, weights, size, kind, reads, params, rng, sums, squares, clicks, click_sums, work_i, work_f):
    """Simulate days i4[i] (the row of each impression) of users weights f8[i, R]; add up by row.

    sums f8[rows, P]: preferences by pair; squares f8[rows, P]; clicks i8[rows]: those on documents that
    favour one of the first two rankers; click_sums f8[rows]: those for the first minus those for the second.
    """
    rankers = weights.shape[1]
    k, length = size
    reads_ranks, keeps_note = reads
    lists = np.empty((rankers, DOCUMENTS), dtype=np.int32)
    top = np.empty((rankers, DOCUMENTS), dtype=np.int32)
    entering = np.empty(DOCUMENTS, dtype=np.int32)
    ranks = np.empty((DOCUMENTS, rankers), dtype=np.int32)
    number = np.empty(DOCUMENTS, dtype=np.int32)
    lengths = np.full(rankers, DOCUMENTS, dtype=np.int32)
    shown = np.empty(length, dtype=np.int32)
    note = np.empty(length, dtype=np.int32)
    stat = np.empty(2)
    rows = np.empty((length, rankers), dtype=np.int32)
    clicked = np.empty(length, dtype=np.uint8)
    values = np.zeros((1, rankers))
    preferences = np.zeros((rankers, rankers))
    depth = min(length, DOCUMENTS)
    for i in range(len(days)):
        for r in range(rankers):
            for x in range(DOCUMENTS):
                lists[r, x] = x
            for x in range(DOCUMENTS - 1):
                y = x + below(rng, DOCUMENTS - x)
                swap = lists[r, x]
                lists[r, x] = lists[r, y]
                lists[r, y] = swap
        number[:] = -1
        count = 0
        for x in range(DOCUMENTS):
            for r in range(rankers):
                if number[lists[r, x]] < 0:
                    number[lists[r, x]] = count
                    count += 1
            entering[x] = count
        for r in range(rankers):
            for x in range(DOCUMENTS):
                top[r, x] = number[lists[r, x]]
                ranks[top[r, x], r] = x + 1
        note[:] = 0
        m = draw(
            top[:, :depth].copy(), entering[:depth], ranks[: reads_ranks * DOCUMENTS], lengths, k, params, rng,
            shown, note, stat, work_i, work_f,
        )  # fmt: skip
        row = days[i]
        some = False
        clicked[:] = 0
        for x in range(min(k, m)):
            chance = 0.0
            for r in range(rankers):
                chance += weights[i, r] / ranks[shown[x], r]
            if uniform(rng) < 0.9 / (1.0 + 0.3 * x) * chance:
                some = True
                clicked[x] = 1
                if kind == 1:
                    vote = (note[x] == 0) - (note[x] == 1)
                else:
                    better = ranks[shown[x], 1] - ranks[shown[x], 0]
                    vote = (better > 0) - (better < 0)
                clicks[row] += vote * vote
                click_sums[row] += vote
        if not some:
            continue
        for x in range(m):
            rows[x] = ranks[shown[x]]
        values[:] = 0.0
        credit(rows[:m], lengths, note[: keeps_note * m], clicked[:m], k, params, values[0], work_i, work_f)
        preferences[:] = 0.0
        if kind == 1:
            add_signs(values, preferences)
        else:
            for n in range(rankers):
                for other in range(rankers):
                    preferences[n, other] = values[0, n] - values[0, other]
        p = 0
        for n in range(rankers):
            for other in range(n + 1, rankers):
                sums[row, p] += preferences[n, other]
                squares[row, p] += preferences[n, other] ** 2
                p += 1


@dataclass(frozen=True)
class World:
    """Users of one method: their impressions' preferences, added up by row."""

    method: Method
    rankers: int = 2

    def visit(self, rows, weights, size, seed):
        """Return sums, squares, clicks and click sums by row, for impressions of users with these weights."""
        pairs = self.rankers * (self.rankers - 1) // 2
        sums, squares = np.zeros((size, pairs)), np.zeros((size, pairs))
        clicks, click_sums = np.zeros(size, dtype=np.int64), np.zeros(size)
        method = self.method
        integers, floats = method.workspace(self.rankers, DOCUMENTS, PAGE)
        loop = search_and_click.bind(draw=method.draw_kernel, credit=method.credit_kernel)
        loop(
            np.asarray(rows, dtype=np.int32), np.ascontiguousarray(weights), (PAGE, PAGE + method.beyond()),
            ("difference", "sign").index(method.outcome), (int(method.draw_reads_ranks), int(method.keeps_note)),
            method.parameters, seed_state(seed), sums, squares, clicks, click_sums,
            np.empty(integers, dtype=np.int32), np.empty(floats),
        )  # fmt: skip
        return sums, squares, clicks, click_sums


@dataclass(frozen=True)
class People:
    """Who the users are: tail, the sigma of their lognormal activity; taste, Beta's or Dirichlet's parameters."""

    users: int
    tail: float = 1.0
    taste: tuple[float, ...] = (2.0, 2.0)

    def draw(self, rng):
        """Return each user's impressions and weights."""
        activity = np.ceil(rng.lognormal(1.0, self.tail, self.users)).astype(np.int64)
        if math.isinf(self.taste[0]):
            return activity, np.full((self.users, len(self.taste)), 1.0 / len(self.taste))
        return activity, rng.dirichlet(self.taste, self.users)


def moments_of(counts, sums, squares):
    """Return the moments of units that each have an impression, as `Tally.moments` does (a test compares them)."""
    seen = counts > 0
    counts, sums = counts[seen], sums[seen]
    total, units = int(counts.sum()), len(counts)
    totals = sums.sum(axis=0)
    left = (sums - totals / total * counts[:, None]) / (1.0 - counts / total)[:, None]
    evidence = np.full(len(totals), total**2 / float((counts.astype(float) ** 2).sum()))
    squared = (sums * sums).sum(axis=0)
    np.divide(np.abs(sums).sum(axis=0) ** 2, squared, out=evidence, where=squared > 0.0)
    return Moments(
        total, units, total**2 / float((counts.astype(float) ** 2).sum()), totals,
        (units - 1) / units * (left * left).sum(axis=0), squares, (sums > 0).sum(axis=0), (sums < 0).sum(axis=0),
        evidence,
    )  # fmt: skip


def experiments(world: World, people: People, repetitions: int, name: str) -> Iterator[tuple]:
    """Yield counts, sums, squares, clicks and click sums by user of one experiment after another."""
    rng = np.random.default_rng(abs(hash_of(name)))
    for repetition in range(repetitions):
        activity, weights = people.draw(rng)
        rows = np.repeat(np.arange(people.users), activity)
        found = world.visit(rows, weights[rows], people.users, f"{name}/{repetition}")
        yield activity, *found


def hash_of(name: str) -> int:
    return int(seed_state(name)[0] >> np.uint64(1))


def excludes(intervals, truth=0.0):
    return (intervals.lows > truth) | (intervals.highs < truth)


def looks(world: World, people: People, days: int, visits_per_day, repetitions: int, name: str, truth: float):
    """Yield for each experiment, by look: whether one-look and anytime intervals missed the truth."""
    rng = np.random.default_rng(abs(hash_of(name)))
    for repetition in range(repetitions):
        activity, weights = people.draw(rng)
        per_day = visits_per_day(rng, activity)  # (users, days)
        users, at = np.nonzero(per_day)
        rows = users * days + at
        visits = np.repeat(rows, per_day[users, at])
        sums, squares, _, _ = world.visit(
            visits, weights[np.repeat(users, per_day[users, at])], people.users * days, f"{name}/{repetition}"
        )
        counts = per_day.cumsum(axis=1)
        running = sums.reshape(people.users, days).cumsum(axis=1)
        squared = squares.reshape(people.users, days).sum(axis=0).cumsum()
        missed = np.zeros((2, days), dtype=bool)
        for day in np.flatnonzero(far_from(truth, counts, running) > 1.9):  # no interval is narrower than that
            moments = moments_of(counts[:, day], running[:, day, None], squared[day : day + 1])
            missed[0, day] = excludes(clustered(moments, 0.95), truth)[0]
            missed[1, day] = excludes(anytime(moments, 0.95), truth)[0]
        yield missed


def far_from(truth: float, counts, sums):
    """Return how many standard errors each look's mean is from the truth, 0 before there are two users."""
    seen = counts > 0
    units, total = seen.sum(axis=0), counts.sum(axis=0)
    means = sums.sum(axis=0) / np.maximum(total, 1)
    shares = np.where(units > 1, counts / np.maximum(total, 1), 0.0)
    left = (sums - means * counts) / (1.0 - shares)
    errors = np.sqrt((1.0 - 1.0 / np.maximum(units, 2)) * (left * left).sum(axis=0)) / np.maximum(total, 1)
    return np.where((units > 1) & (errors > 0.0), np.abs(means - truth) / np.where(errors > 0.0, errors, 1.0), 0.0)


def spread_over(days: int):
    """Return a function that spreads a user's impressions over the days at random."""
    return lambda rng, activity: rng.multinomial(activity, np.full(days, 1.0 / days))


def every_day(days: int):
    """Return a function that lets users return: as many impressions in 28 days as their activity, for all the days."""
    return lambda rng, activity: rng.poisson(activity[:, None] / 28.0, (len(activity), days))


def one_day_each(days: int):
    """Return a function that lets each user come on one day only: new users every day."""

    def visits(rng, activity):
        per_day = np.zeros((len(activity), days), dtype=np.int64)
        per_day[np.arange(len(activity)), rng.integers(days, size=len(activity))] = activity
        return per_day

    return visits


def truth_of(world: World, taste: tuple[float, ...], impressions: int) -> tuple[float, float]:
    """Return the mean preference of the first ranker, and an impression's standard deviation, by brute force."""
    rng = np.random.default_rng(99)
    total = squared = 0.0
    for part in range(10):
        size = impressions // 10
        sums, squares, _, _ = world.visit(np.zeros(size), rng.dirichlet(taste, size), 1, f"truth/{part}")
        total += sums[0, 0]
        squared += squares[0, 0]
    n = 10 * (impressions // 10)
    return total / n, math.sqrt(squared / n - (total / n) ** 2)
