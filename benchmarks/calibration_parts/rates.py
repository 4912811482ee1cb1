"""Rates: coverage of what each ranker would earn alone and of its lift, and false alarms if no ranker is better."""

from functools import partial

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import hash_of
from earning import Earning, visits
from multileave.clicks import PositionBased
from multileave.data import QuerySet, synthetic
from multileave.methods.base import get_method
from multileave.stats.rates.estimating import estimate
from multileave.stats.verdict.rules import Rules

# Examination by rank as measured in a public log, then falling; clicks by grade.
USER = PositionBased((0.05, 0.1, 0.2, 0.3, 0.4), (1.0, 0.71, 0.59, 0.48, 0.39, 0.33, 0.29, 0.26, 0.24, 0.22))
QUERIES, LOOKS = 400, 10
DESIGNED = (("dpm", 2, "clicks"), ("dpm", 5, "clicks"))
VALUES = ("dpm", 2, "values")
ADDED = (("rpm(lead=2)", 2, "clicks"), VALUES)  # after the design


def exchangeable(data: QuerySet) -> QuerySet:
    """Return every query twice, the second time with the rankers in reverse order, so that none is better."""
    rankings = [data.query(q)[1] for q in range(len(data))]
    return QuerySet(
        data.rankers,
        data.grades,
        np.concatenate([data.offsets, data.offsets[-1] + data.offsets[1:]]),
        np.tile(data.labels, 2),
        np.concatenate([part.ravel() for part in (*rankings, *(rows[::-1] for rows in rankings))]),
    )


def prices(data: QuerySet, what: str) -> list[np.ndarray] | None:
    """Return what a click on each document of each query is worth; lognormal like prices; None for 1."""
    rng = np.random.default_rng(7)
    return None if what == "clicks" else [rng.lognormal(3.0, 1.0, len(data.query(q)[0])) for q in range(len(data))]


def experiments(world, tables, users, tail, repetitions, name):
    """Yield the sums of one experiment after another."""
    rng = np.random.default_rng(abs(hash_of(name)))
    for repetition in range(repetitions):
        units, queries = visits(rng, users, len(world.data), tail)
        yield world.sums(tables, units, queries, f"{name}/{repetition}")


def rates(repetitions: int, salt: str = "") -> None:
    """Coverage of rates and lifts for one look, and false alarms of the lift if no ranker is better."""
    part = f"{salt}rates"
    one_look = Rules(correction="none")
    for spec, rankers, counted in (*DESIGNED, VALUES) if salt else DESIGNED + ADDED:
        data = synthetic(queries=QUERIES, rankers=rankers, seed=3)
        worths = prices(data, counted)
        world = Earning(data, get_method(spec), USER, worths=worths)
        tables = world.tables()
        curve = np.array(USER.examine)
        labels = np.array(
            [[grades[rows[r, :10]] for r in range(rankers)] for grades, rows in map(data.query, range(QUERIES))]
        )
        earned = np.array(USER.click)[labels] * curve
        if worths is not None:
            earned *= [[worths[q][rows[:10]] for rows in data.query(q)[1]] for q in range(QUERIES)]
        truth = earned.sum(axis=2).mean(axis=0)
        named = spec if counted == "clicks" else f"{spec}, {counted}"
        for users, tail in ((1000, 1.0), (1000, 1.4), (5000, 1.0)):
            held, lifts = np.zeros(rankers), np.zeros(rankers - 1)
            name = f"{part}/{named}/{rankers}/{users}/{tail}"
            for sums in experiments(world, tables, users, tail, repetitions, name):
                found = estimate(sums, data.rankers, one_look)
                held += [rate.low <= true <= rate.high for rate, true in zip(found.rankers, truth, strict=True)]
                lifts += [  # without ends, an interval holds every lift
                    rate.lift_low is None or rate.lift_low <= true / truth[0] - 1.0 <= rate.lift_high
                    for rate, true in zip(found.rankers[1:], truth[1:], strict=True)
                ]
            what = f"{named}, {rankers} rankers, {users:,} users, tail {tail}"
            for kind, counts in (("rates", held), ("lifts", lifts)):
                found = int(counts.sum())
                of = repetitions * len(counts)
                good = 0.94 <= found / of <= 0.96
                report("rates", f"{what}: coverage of {kind}", share(found, of), "94 to 96 %", good)
        same = exchangeable(data)
        world = Earning(same, get_method(spec), USER, worths=None if worths is None else worths + worths)
        tables = world.tables()
        alarms = np.zeros(rankers - 1)
        for sums in experiments(world, tables, 1000, 1.0, repetitions, f"{part}/aa/{named}/{rankers}"):
            alarms += [rate.p < 0.05 for rate in estimate(sums, same.rankers, one_look).rankers[1:]]
        # With five rankers in reverse order, only the last is as good as the first.
        count = int(alarms[-1])
        report(
            "rates", f"{named}, {rankers} rankers, 1,000 users, A/A: lift significant", share(count, repetitions),
            "<= 6 %", count <= 0.06 * repetitions,
        )  # fmt: skip


def rates_anytime(repetitions: int, salt: str = "") -> None:
    """False alarms of anytime lifts over ten looks."""
    rankers = 2
    data = exchangeable(synthetic(queries=QUERIES, rankers=rankers, seed=3))
    world = Earning(data, get_method("dpm"), USER)
    tables = world.tables()
    rules = Rules(interval="anytime", correction="none")
    rng = np.random.default_rng(hash_of(salt) if salt else 11)
    alarms = 0
    for repetition in range(repetitions):
        units, queries = visits(rng, 1000, len(data))
        order = rng.permutation(len(units))
        units, queries = units[order], queries[order]
        found = False
        for look in range(1, LOOKS + 1):
            end = len(units) * look // LOOKS
            sums = world.sums(tables, units[:end], queries[:end], f"{salt}rates-anytime/{repetition}")
            found = found or estimate(sums, data.rankers, rules).rankers[1].p < 0.05
        alarms += found
    report(
        "rates", f"dpm, 2 rankers, 1,000 users, A/A: anytime lift ever significant in {LOOKS} looks",
        share(alarms, repetitions), "<= 5 %", alarms <= 0.05 * repetitions,
    )  # fmt: skip


def both(repetitions: int, salt: str = "") -> None:
    """All of rates; salt: for other seeds than those that were looked at when rates were designed."""
    rates(repetitions, salt)
    rates_anytime(max(repetitions // 4, 1), salt)


PARTS = {"rates": both, "rates-fresh": partial(both, salt="unseen ")}
