"""Sparse outcomes, such as purchases: few of the users carry evidence.

A user has ceil(lognormal(1, 1)) impressions and buys with a small probability per user. What is bought was found by
either ranker. Amounts: all 1; lognormal(0, 1); or skewed, +2 for one ranker half as often as -1 for the other, so that
the mean is zero but a user's sum is not symmetric, as the exact test assumes. Per impression: a user buys once
for every hundred or ten impressions, so that heavy users buy more often.

Skewed outcomes: a mean of zero without symmetry, for which Student's t is only asymptotic.
"""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import excludes, hash_of, moments_of
from multileave.stats import Tally
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.sign_flips import FEW, FEW_EQUAL, exact_for_few

RATES = (0.01, 0.03, 0.1)
AMOUNTS = ("all 1", "lognormal", "skewed", "per impression")


def buy(rng, users: int, rate: float, amounts: str, lean: float = 0.0):
    """Return impressions and sums by user; lean: how much more often the first ranker is bought from."""
    counts = np.ceil(rng.lognormal(1.0, 1.0, users)).astype(np.int64)
    if amounts == "per impression":
        bought = rng.poisson(rate * counts / 4.5)
        return counts, (2.0 * rng.binomial(bought, (1 + lean) / 2) - bought)[:, None]
    bought = rng.random(users) < rate
    signs = np.where(rng.random(users) < (1 + lean) / 2, 1.0, -1.0)
    if amounts == "skewed":
        sums = np.where(rng.random(users) < (1 + lean) / 3, 2.0, -1.0)
    else:
        sums = signs * (rng.lognormal(0.0, 1.0, users) if amounts == "lognormal" else 1.0)
    return counts, (bought * sums)[:, None]


def one_look(counts, sums):
    """Return the interval for one look and the moments, as a verdict computes them."""
    moments = moments_of(counts, sums, (sums * sums).sum(axis=0))
    some = sums[sums != 0.0]
    exact = len(some) <= (FEW_EQUAL if len(np.unique(np.abs(some))) == 1 else FEW)
    few = {0: some} if len(some) and exact else {}
    return exact_for_few(clustered(moments, 0.95), few, 0.95), moments


def sparse(repetitions: int) -> None:
    """False alarms of one look, of the anytime sequence over 28 looks, and coverage of a true preference."""
    for users in (50, 200, 1000):
        for amounts in AMOUNTS:
            for rate in RATES:
                rng = np.random.default_rng(hash_of(f"sparse/{users}/{amounts}/{rate}"))
                alarms = before = 0
                for _ in range(repetitions):
                    found, moments = one_look(*buy(rng, users, rate, amounts))
                    alarms += bool(found.p[0] <= 0.05)
                    before += bool(excludes(clustered(moments._replace(evidence=None), 0.95))[0])
                what = f"{users:,} users, {100 * rate:g} % buy, amounts {amounts}"
                report(
                    "sparse", f"{what}: one look", share(alarms, repetitions), "<= 6 %", alarms <= 0.06 * repetitions
                )
                report("sparse", f"{what}: t by impressions, as before", share(before, repetitions))
    for rate in RATES:
        rng = np.random.default_rng(hash_of(f"sparse/looks/{rate}"))
        ever = sum(_ever(*buy(rng, 1000, rate, "per impression"), rng) for _ in range(repetitions))
        what = f"1,000 users, {100 * rate:g} % buy, 28 looks: anytime"
        report("sparse", what, share(ever, repetitions), "<= 5 %", ever <= 0.05 * repetitions)
    for users in (200, 1000, 5000):
        for amounts in ("all 1", "lognormal", "per impression"):
            rng = np.random.default_rng(hash_of(f"sparse/cover/{users}/{amounts}"))
            size = {"all 1": 1.0, "lognormal": np.exp(0.5), "per impression": 1.0}[amounts]
            mean = np.ceil(rng.lognormal(1.0, 1.0, 2_000_000)).mean()
            per_user = mean / 4.5 if amounts == "per impression" else 1.0
            truth = 0.05 * 0.4 * size * per_user / mean
            held = sum(
                not excludes(one_look(*buy(rng, users, 0.05, amounts, lean=0.4))[0], truth)[0]
                for _ in range(repetitions)
            )
            what = f"{users:,} users, 5 % buy, amounts {amounts}, 70 % from one ranker: coverage"
            report("sparse", what, share(held, repetitions), ">= 94 %", held >= 0.94 * repetitions)


def _ever(counts, sums, rng) -> bool:
    """Return whether the anytime sequence excludes zero at any of 28 looks; a user comes on one of the days."""
    day = rng.integers(28, size=len(counts))
    for look in range(1, 29):
        seen = day < look
        if seen.sum() < 2:
            continue
        moments = moments_of(counts[seen], sums[seen], (sums[seen] ** 2).sum(axis=0))
        if bool(excludes(anytime(moments, 0.95))[0]):
            return True
    return False


def skewed(repetitions: int) -> None:
    """False alarms if the mean is zero but users' sums are skewed."""
    for users in (50, 200, 1000):
        for name in ("exponential", "lognormal"):
            rng = np.random.default_rng(hash_of(f"skewed/{users}/{name}"))
            alarms = ever = 0
            for _ in range(repetitions):
                sums = rng.exponential(1.0, users) - 1.0 if name == "exponential" else _skew_6(rng, users)
                alarms += significant(sums)
                ever += any(
                    significant(sums[: users * look // 5], interval="scheduled", looks=5, look=look)
                    for look in range(1, 6)
                )
            what = f"{users:,} users, {name}"
            report("skewed", f"{what}: one look", share(alarms, repetitions))
            report("skewed", f"{what}: 5 scheduled looks, obrien-fleming", share(ever, repetitions))


def _skew_6(rng, users: int):
    return rng.lognormal(0.0, 1.0, users) - np.exp(0.5)


def significant(sums, **options) -> bool:
    credits, ones = np.column_stack([sums, np.zeros(len(sums))]), np.ones(len(sums), dtype=np.int64)
    tally = Tally.from_sums(["a", "b"], list(range(len(sums))), ones, credits, [float((sums * sums).sum())])
    return tally.verdict(**options).pairs[0].significant


PARTS = {"sparse": sparse, "skewed": skewed}
