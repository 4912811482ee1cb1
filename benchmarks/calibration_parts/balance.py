"""Balance warnings: in sound experiments, with fresh and with repeated draws, and with real imbalance.

Rankers stand first with equal probability, as in tdm; a draw is one for each user and query, and shown as often as the
user repeats the query. Queries follow Zipf's law. `per impression` is the chi-square test that takes each impression
for a new draw.
"""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import hash_of
from multileave.stats.balance import Balance, unit_group
from multileave.stats.health import UNBALANCED


def warns(balance: Balance) -> bool:
    """Return whether a verdict would warn."""
    found = balance.test()
    return found is not None and found[2] < UNBALANCED


def balances(users, first, rankers: int) -> tuple[Balance, Balance]:
    """Return the balance of first places by unit, and by impression; as `Balance.add` does."""
    by_unit, alone = Balance(rankers), Balance(rankers)
    groups = np.array([unit_group(f"user-{user}", len(by_unit.groups)) for user in range(users.max() + 1)])[users]
    differences = np.eye(rankers)[first] - 1.0 / rankers
    for balance in (by_unit, alone):
        balance.impressions = len(users)
        balance.observed = np.bincount(first, minlength=rankers).astype(float)
        balance.expected = np.full(rankers, len(users) / rankers)
    np.add.at(by_unit.groups, groups, np.column_stack([np.ones(len(users)), differences]))
    alone.products = differences.T @ differences
    return by_unit, alone


def visits(rng, users: int, tail: float, queries: int):
    """Return the user and the query of each impression."""
    activity = np.ceil(rng.lognormal(1.0, tail, users)).astype(np.int64)
    weights = 1.0 / np.arange(1, queries + 1)
    user = np.repeat(np.arange(users), activity)
    return user, rng.choice(queries, len(user), p=weights / weights.sum())


def sound(repetitions: int) -> None:
    """Sound experiments: how often a verdict warns."""
    cases = [
        ("fresh draws, lognormal(1, 1)", 1.0, 0),
        ("10 queries, lognormal(1, 1)", 1.0, 10),
        ("5 queries, lognormal(1, 1.5)", 1.5, 5),
        ("a draw per user, lognormal(1, 1.5)", 1.5, 1),
    ]
    for rankers in (2, 5, 15):
        for users in (50, 300, 1000):
            for what, tail, queries in cases:
                rng = np.random.default_rng(hash_of(f"balance/{rankers}/{users}/{what}"))
                warned = alone_warned = 0
                for _ in range(repetitions):
                    user, query = visits(rng, users, tail, queries or 1)
                    if queries:
                        first = rng.integers(rankers, size=(users, queries))[user, query]
                    else:
                        first = rng.integers(rankers, size=len(user))
                    by_unit, alone = balances(user, first, rankers)
                    warned += warns(by_unit)
                    alone_warned += warns(alone)
                where = f"{rankers} rankers, {users:,} users, {what}"
                report("balance", f"{where}: warns", share(warned, repetitions), "<= 1 %", warned <= 0.01 * repetitions)
                if users == 1000:
                    report("balance", f"{where}: per impression", share(alone_warned, repetitions))


def unsound(repetitions: int) -> None:
    """Experiments with a fault: how often a verdict warns."""
    repetitions = max(repetitions // 10, 20)
    users, rankers, queries = 1000, 5, 50
    faults = {
        "a cache shows one draw per query to all": lambda rng, first, user, query: rng.integers(rankers, size=queries)[
            query
        ],
        "10 % of pages put one ranker first": lambda rng, first, user, query: np.where(
            rng.random(len(user)) < 0.1, 0, first
        ),
        "one ranker is late for 30 % of draws": lambda rng, first, user, query: np.where(
            rng.random((users, queries))[user, query] < 0.3, first % (rankers - 1), first
        ),
    }
    for what, fault in faults.items():
        rng = np.random.default_rng(hash_of(f"fault/{what}"))
        warned = alone_warned = 0
        for _ in range(repetitions):
            user, query = visits(rng, users, 1.0, queries)
            first = rng.integers(rankers, size=(users, queries))[user, query]
            by_unit, alone = balances(user, fault(rng, first, user, query), rankers)
            warned += warns(by_unit)
            alone_warned += warns(alone)
        where = f"5 rankers, 1,000 users, 50 queries; {what}"
        report("balance", f"{where}: warns", share(warned, repetitions), ">= 95 %", warned >= 0.95 * repetitions)
        report("balance", f"{where}: per impression", share(alone_warned, repetitions))


PARTS = {"balance": sound, "imbalance": unsound}
