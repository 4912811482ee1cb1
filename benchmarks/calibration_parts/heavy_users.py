"""Heavy users: who arrive first, whose tastes differ, and bots; the mean per impression and that over users.

A user has ceil(lognormal(1, 1)) impressions in 28 days, each with a preference that is normal around the user's taste.
*Heavy first*: the more impressions a user has, the earlier the first of them. *Tastes by activity*: users above the
median of activity prefer one ranker, the others the other, so that the mean per impression, or over users, is zero.
*Bots*: 1 % of the users have 500 impressions and prefer one ranker; people prefer neither.
"""

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import hash_of
from multileave.stats import Tally

DAYS = 28


def experiment(rng, users: int, tastes: str, *, heavy_first: bool, bots: float = 0.0):
    """Return impressions and sums by user and day, (U, D)."""
    counts = np.ceil(rng.lognormal(1.0, 1.0, users)).astype(np.int64)
    bot = rng.random(users) < bots
    counts = np.where(bot, 500, counts)
    light = counts <= 2
    taste = rng.normal(0.0, 0.3, users)
    if tastes != "independent":
        sample = np.ceil(rng.lognormal(1.0, 1.0, 400_000))
        weights = sample if tastes == "mean per impression" else np.ones(len(sample))
        ratio = weights[sample <= 2].sum() / weights[sample > 2].sum()
        taste = taste + np.where(light, -0.3, 0.3 * ratio)
    taste = np.where(bot, 0.3, taste)
    start = np.zeros(users)
    if heavy_first:
        start = 0.9 * DAYS * (np.argsort(np.argsort(-counts + rng.random(users))) / users)
    days = np.repeat(np.arange(users), counts)
    when = np.clip(start[days] + (DAYS - start[days]) * rng.random(len(days)), 0, DAYS - 1e-9).astype(np.int64)
    values = taste[days] + rng.normal(size=len(days))
    shown, sums = np.zeros((users, DAYS), dtype=np.int64), np.zeros((users, DAYS))
    np.add.at(shown, (days, when), 1)
    np.add.at(sums, (days, when), values)
    return shown, sums


def tally_of(shown, sums) -> Tally:
    seen = shown > 0
    credits = np.column_stack([sums[seen], np.zeros(int(seen.sum()))])
    return Tally.from_sums(["a", "b"], np.arange(int(seen.sum())).tolist(), shown[seen], credits, [1.2 * shown.sum()])


def misses(shown, sums, looks, **options) -> bool:
    """Return whether any of the looks is significant."""
    for look in looks:
        counts = shown[:, :look].sum(axis=1)
        if (counts > 0).sum() > 1 and tally_of(counts, sums[:, :look].sum(axis=1)).verdict(**options).pairs[
            0
        ].significant:
            return True
    return False


def heavy_users(repetitions: int) -> None:
    """False alarms by estimand, and with bots."""
    runs = max(repetitions // 4, 20)
    by_impressions, by_users = ("mean per impression", "impressions"), ("mean over users", "users")
    cases = (
        ("independent", "impressions", True), ("independent", "users", True),
        (*by_impressions, False), (*by_impressions, True), (*by_users, False), (*by_users, True),
    )  # fmt: skip
    for tastes, estimand, heavy_first in cases:
        rng = np.random.default_rng(hash_of(f"heavy/{tastes}/{estimand}/{heavy_first}"))
        one = middle = ever = 0
        for _ in range(runs):
            shown, sums = experiment(rng, 1000, tastes, heavy_first=heavy_first)
            one += misses(shown, sums, (DAYS,), estimand=estimand)
            middle += misses(shown, sums, (DAYS // 2,), estimand=estimand)
            ever += misses(shown, sums, range(2, DAYS + 1, 2), estimand=estimand, interval="anytime")
        which = "tastes independent of activity" if tastes == "independent" else f"tastes by activity, {tastes} zero"
        what = f"1,000 users, {which}{', heavy users first' if heavy_first else ''}, estimand {estimand}"
        drifts = tastes != "independent"  # early on, heavy users are more of those seen
        for name, found in (("one look at the end", one), ("one look halfway", middle), ("anytime, 14 looks", ever)):
            bound = (
                None if drifts and name != "one look at the end" else found <= 0.06 * runs + 2 * np.sqrt(0.0564 * runs)
            )
            report(
                "heavy-users", f"{what}: {name}", share(found, runs), "" if bound is None else "<= 6 % + 2 SE", bound
            )
    for options in ({}, {"cap": 100}, {"winsorise": 20}, {"estimand": "users"}):
        rng = np.random.default_rng(hash_of("heavy/bots"))
        wrong = sum(
            misses(*experiment(rng, 1000, "independent", heavy_first=False, bots=0.01), (DAYS,), **options)
            for _ in range(runs)
        )
        said = ", ".join(f"{name}={value}" for name, value in options.items()) or "as they are"
        report("heavy-users", f"1,000 users, 1 % bots prefer one ranker: {said}", share(wrong, runs))


PARTS = {"heavy-users": heavy_users}
