"""Dropping losers: family-wise errors, and users until the best ranker is found."""

import math

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import People, World, hash_of
from multileave.clicks import user
from multileave.data import QuerySet
from multileave.data.metrics import ndcg
from multileave.data.synthetic import search_engines
from multileave.methods.base import get_method
from multileave.stats import Tally
from multileave.stats.dropping import losses
from multileave.stats.intervals.moments import pair_positions
from multileave.stats.tally.grouped_sums import Group
from multileave.study.engine import Simulation

RANKERS = 15
NAMES = tuple(f"r{n:02}" for n in range(RANKERS))
FIRST, SECOND = pair_positions(RANKERS)
MOST = 400_000  # users of an experiment
GOOD = 10  # rankers that are equally good; the others are worse


def pairs_among(kept):
    """Return which of all pairs are between these rankers."""
    return np.isin(FIRST, kept) & np.isin(SECOND, kept)


def family_wise_errors(repetitions: int) -> None:
    """Ten equal rankers and five worse ones, which are dropped: is any difference between equal ones significant?"""
    days, users = 28, 2000
    worse = np.array([2.0] * GOOD + [0.1] * (RANKERS - GOOD))
    null = pairs_among(np.arange(GOOD))
    repetitions = max(repetitions // 5, 100)
    for drop in (False, True):
        rng = np.random.default_rng(hash_of("dropping/errors"))
        wrong = gone = 0
        for repetition in range(repetitions):
            activity, weights = People(users, taste=tuple(worse)).draw(rng)
            at = np.sort(rng.integers(days, size=users))
            sums, squares = np.zeros((users, len(FIRST))), np.zeros(len(FIRST))
            missing, dropped, error = np.zeros(RANKERS, dtype=np.int64), (), False
            for day in range(days):
                new = np.flatnonzero(at == day)
                kept = np.array([n for n in range(RANKERS) if NAMES[n] not in dropped])
                columns = pairs_among(kept)
                rows = np.repeat(np.arange(len(new)), activity[new])
                tastes = weights[new][:, kept]
                found, squared, _, _ = World(get_method("tdm"), len(kept)).visit(
                    rows, (tastes / tastes.sum(axis=1, keepdims=True))[rows], len(new), f"drop/{repetition}/{day}"
                )
                sums[np.ix_(new, columns)] = found
                squares[columns] += squared.sum(axis=0)
                missing += np.where(np.isin(np.arange(RANKERS), kept), 0, activity[new].sum())
                seen = int(np.searchsorted(at, day, side="right"))
                if seen < 2:
                    continue
                tally = Tally.from_sums(NAMES, range(seen), activity[:seen], sums[:seen], squares, sums_of="pairs")
                tally.evidence.missing += missing
                verdict = tally.verdict(interval="anytime", tuned_for=5000.0, dropped=dropped)
                error |= any(pair.significant for pair, equal in zip(verdict.pairs, null, strict=True) if equal)
                if drop:
                    dropped += tuple(loss.ranker for loss in losses(verdict, NAMES[0]))
            wrong += error
            gone += len(dropped)
        words = f"{gone / repetitions:.1f} rankers dropped on average" if drop else "nothing dropped"
        report(
            "dropping", f"tdm, 10 equal and 5 worse rankers, 2,000 users, 28 looks, {words}: any false alarm",
            share(wrong, repetitions), "<= 5 %", wrong <= 0.05 * repetitions,
        )  # fmt: skip


def search_team(seed):
    """Return fifteen rankers that mix the same three signals in different ways; the first, hybrid, is the control."""
    data = search_engines(queries=2000, documents=30, rankers=40, seed=seed)
    own = [n for n, name in enumerate(data.rankers) if name[:3] != "mix" or int(name[3:]) % 2 == 0]  # no copies
    own = [n for n in own if data.rankers[n] not in ("hybrid", "bm25-tuned")]
    return only(data, [data.rankers.index("hybrid"), *own][:RANKERS])


def only(data, kept):
    """Return the same queries with these rankers only."""
    queries = len(data)
    rankings = data.rankings.reshape(queries, len(data.rankers), -1)[:, kept]
    names = tuple(data.rankers[n] for n in kept)
    return QuerySet(names, data.grades, data.offsets, data.labels, np.ascontiguousarray(rankings).ravel())


def simulated(data, seed):
    return Simulation(data, "rpm", user("navigational", grades=data.grades), seed=seed)


def best_found(data, seed, *, drop, tuned_for, most):
    """Return the impressions until a ranker wins, infinite without one, and its name.

    Users come once, and a look is taken whenever there are 5 % more impressions, as the service does.
    """
    names, (first, second) = data.rankers, pair_positions(len(data.rankers))
    sums, squares = np.zeros(len(first)), np.zeros(len(first))
    missing, dropped, unknown = np.zeros(len(names), dtype=np.int64), (), np.full(len(first), np.nan)
    total, look, simulation = 0, 500, None
    while look < most:
        if simulation is None:
            kept = np.array([n for n, name in enumerate(names) if name not in dropped])
            simulation = simulated(only(data, kept), f"{seed}/{len(kept)}")
            columns, own = np.isin(first, kept) & np.isin(second, kept), pair_positions(len(kept))
            start = sums[columns], squares[columns]
        simulation.run(look - total)
        found = simulation.preferences[own]
        sums[columns] = start[0] + found
        count = simulation.impressions
        squares[columns] = start[1] + simulation.variances[own] * count + found**2 / count
        missing += np.where(np.isin(np.arange(len(names)), kept), 0, look - total)
        total, look = look, math.ceil(1.05 * look)
        tally = Tally(names)
        group = Group.empty(len(first))
        group.units, group.sums, group.squares, group.absolute = total, sums.copy(), squares.copy(), unknown
        tally._grouped.groups[1] = group
        tally.evidence.missing += missing
        verdict = tally.verdict(interval="anytime", tuned_for=tuned_for, dropped=dropped)
        if verdict.winner is not None:
            return total, verdict.winner
        if drop and (lost := losses(verdict, names[0])):
            dropped += tuple(loss.ranker for loss in lost)
            simulation = None
    return math.inf, None


def best_of_fifteen(repetitions: int) -> None:
    """Users until the best of fifteen rankers is found, with and without dropping; the best is that by NDCG@10."""
    teams = max(repetitions // 20, 8)
    found: dict[bool, list[tuple[float, bool]]] = {True: [], False: []}
    for team in range(teams):
        data = search_team(f"team/{team}")
        best = data.rankers[int(np.argmax(ndcg(data)))]
        for drop, stops in found.items():
            users, winner = best_found(data, f"best/{team}", drop=drop, tuned_for=20_000.0, most=MOST)
            stops.append((users, winner == best))
    for drop, stops in found.items():
        users = np.array([count for count, _ in stops])
        ended, right = np.isfinite(users), np.array([good for _, good in stops])
        words = "losers dropped" if drop else "all shown to the end"
        what = f"best of 15 rankers, {teams} teams, {words}: best found, another, none by {MOST:,} users"
        report("dropping", what, f"{(ended & right).sum()}, {(ended & ~right).sum()}, {(~ended).sum()}")
        report("dropping", f"best of 15 rankers, {teams} teams, {words}: mean users, at most {MOST:,}",
               f"{np.minimum(users, MOST).mean():,.0f}")  # fmt: skip
    users = np.minimum([[count for count, _ in stops] for stops in found.values()], MOST)  # with drops, without
    ratio = users[0].mean() / users[1].mean()
    error = (users[0] - ratio * users[1]).std(ddof=1) / users[1].mean() / math.sqrt(teams)
    what = f"best of 15 rankers, {teams} teams: mean users with dropping / without"
    report("dropping", what, f"{ratio:.2f} ± {error:.2f}", "< 1", ratio < 1.0)


PARTS = {"dropping-errors": family_wise_errors, "dropping-users": best_of_fifteen}
