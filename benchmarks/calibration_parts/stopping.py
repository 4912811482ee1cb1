"""Experiments that may stop early: false alarms over many looks, and users until a stop.

Users here are simpler than in `world.py`, so that a year of looks is cheap. Each impression has a click that favours a
ranker with probability 0.4, and it favours the first one with probability (1 + taste) / 2. Tastes are normal with
deviation 0.3, cut at 1 either way; a user's impressions are ceil(lognormal(1, 1)).
"""

import math

import numpy as np

from calibration_parts.table import report, share
from calibration_parts.world import excludes, far_from, hash_of, moments_of
from multileave.stats import Design, plan
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.group_sequential import scheduled

CLICK, TASTE = 0.4, 0.3
NEAR = 1.9  # standard errors that every interval extends to, at least


def outcomes(rng, counts, tastes):
    """Return the sums of preferences and of their squares, for numbers of impressions of users with these tastes."""
    clicks = rng.binomial(counts, CLICK)
    sums = 2.0 * rng.binomial(clicks, (1.0 + np.broadcast_to(tastes, counts.shape)) / 2.0) - clicks
    return sums, clicks.astype(float)


def tastes_of(rng, users, mean=0.0):
    return np.clip(rng.normal(mean, TASTE, users), -1.0, 1.0)


def activity_of(rng, users):
    return np.ceil(rng.lognormal(1.0, 1.0, users)).astype(np.int64)


def returning(rng, activity, days):
    """As many impressions in 28 days as their activity, for all the days."""
    return rng.poisson(activity[:, None] / 28.0, (len(activity), days))


def new_users(rng, activity, days):
    """Each user comes on one day."""
    per_day = np.zeros((len(activity), days), dtype=np.int64)
    per_day[np.arange(len(activity)), rng.integers(days, size=len(activity))] = activity
    return per_day


def heavy_first(rng, activity, days):
    """Each user comes on one day, the most active ones first."""
    per_day = np.zeros((len(activity), days), dtype=np.int64)
    order = np.argsort(-activity)
    per_day[order, np.arange(len(activity)) * days // len(activity)] = activity[order]
    return per_day


def with_bots(rng, activity, days):
    """One user in a hundred, and at least one, is a bot with fifty times the impressions; they return."""
    activity = activity.copy()
    activity[: max(len(activity) // 100, 1)] *= 50
    return returning(rng, activity, days)


PATTERNS = {
    "new users every day": new_users,
    "the same users return": returning,
    "heavy users first": heavy_first,
    "1 % bots": with_bots,
}


def false_alarms(repetitions: int) -> None:
    """A/A: the share of experiments in which any daily look is significant, for the worst kind of traffic."""
    for users in (50, 200, 1000):
        for days in (28, 90, 365):
            wrong: dict[tuple[str, str], int] = {}
            for what, visits in PATTERNS.items():
                name = f"stopping/{users}/{days}/{what}"
                rng = np.random.default_rng(hash_of(name))
                clock = clock_of(np.random.default_rng(hash_of(name + "/pilot")), users, days, visits)
                tuned_for = {"no plan": None, "planned for all users": clock, "planned for a tenth": clock / 10.0}
                for _ in range(repetitions):
                    for rule, any_look in alarms(rng, users, days, visits, tuned_for).items():
                        wrong[rule, what] = wrong.get((rule, what), 0) + any_look
            allowed = 0.06 if users < 200 else 0.05
            for rule in ("no plan", "planned for all users", "planned for a tenth"):
                count, worst = max((wrong[rule, what], what) for what in PATTERNS)
                report(
                    "stopping", f"A/A {users:,} users, {days} daily looks: anytime, {rule}; worst: {worst}",
                    share(count, repetitions), f"<= {100 * allowed:.0f} %", count <= allowed * repetitions,
                )  # fmt: skip


def alarms(rng, users, days, visits, tuned_for):
    """Return for each rule whether any look of one experiment is significant."""
    per_day = visits(rng, activity_of(rng, users), days)
    sums, squares = outcomes(rng, per_day, tastes_of(rng, users)[:, None])
    counts, running, squared = per_day.cumsum(axis=1), sums.cumsum(axis=1), squares.sum(axis=0).cumsum()
    found = dict.fromkeys(tuned_for, False)
    for day in np.flatnonzero(far_from(0.0, counts, running) > NEAR):
        moments = moments_of(counts[:, day], running[:, day, None], squared[day : day + 1])
        for rule, tuned in tuned_for.items():
            found[rule] = found[rule] or bool(excludes(anytime(moments, 0.95, tuned))[0])
    return found


def clock_of(rng, users, days, visits):
    """Return the clock at the end of a similar experiment."""
    per_day = visits(rng, activity_of(rng, users), days)
    sums, squares = outcomes(rng, per_day, tastes_of(rng, users)[:, None])
    return float(moments_of(per_day.sum(axis=1), sums.sum(axis=1)[:, None], squares.sum(keepdims=True)[0]).clocks[0])


def users_to_a_stop(repetitions: int) -> None:
    """The planned difference, new users every day: users until a significant look, relative to one look's.

    "before" is the sequence without a plan, which was the only one; "after" is tuned for the plan.
    """
    design = pilot_design()
    repetitions = max(repetitions // 2, 100)
    for wanted in (100, 300, 1000, 3000):
        effect = design.deviation * 2.8016 / math.sqrt(wanted)
        one = plan(design, effect)
        tuned_for = {"before": None, "after": plan(design, effect, interval="anytime").tuned_for}
        rng = np.random.default_rng(hash_of(f"stopping/effect/{wanted}"))
        per_look = max(one.units // 28, 1)
        stops: dict[str, list[float]] = {name: [] for name in tuned_for}
        for _ in range(repetitions):
            found = first_stops(*users_of(rng, 6 * one.units, effect), per_look, tuned_for)
            for name, users in found.items():
                stops[name].append(users)
        shown = {name: figures(found, 6.0 * one.units) / one.units for name, found in stops.items()}
        where = f"one look needs {one.units:,} users, 28 looks by then"
        for name, values in shown.items():
            report("stopping", f"{where}: anytime {name}", "{:.2f}, {:.2f}, {:.2f}".format(*values))
        ratio = shown["after"] / shown["before"]
        held = ratio[0] <= 0.8 and ratio[1] <= 0.8
        report("stopping", f"{where}: anytime after / before", "{:.2f}, {:.2f}, {:.2f}".format(*ratio), "<= 0.80", held)
        for looks, spending in ((5, "obrien-fleming"), (5, "pocock"), (28, "obrien-fleming")):
            scheduled_users(rng, plan(design, effect, interval="scheduled", looks=looks, spending=spending), one.units)


def figures(stops, most):
    """Return the users for 80 % power, the mean if experiments end there, and the mean if they do not."""
    stops = np.sort(stops)
    eighty = stops[math.ceil(0.8 * len(stops)) - 1]
    return np.array([eighty, np.minimum(stops, eighty).mean(), np.minimum(stops, most).mean()])


def users_of(rng, users, effect):
    """Return the impressions, sums and squares of users who prefer the first ranker by this much per impression."""
    n = activity_of(rng, users)
    return n, *outcomes(rng, n, tastes_of(rng, users, effect / CLICK))


def pilot_design() -> Design:
    n, sums, squares = users_of(np.random.default_rng(hash_of("stopping/pilot")), 400_000, 0.0)
    (design,) = Design.of_moments(moments_of(n, sums[:, None], squares.sum(keepdims=True)))
    assert design is not None
    return design


def first_stops(n, s, q, per_look, tuned_for):
    """Return the users at the first significant look by rule, infinite without one."""
    stops = dict.fromkeys(tuned_for, math.inf)
    squared, summed = q.cumsum(), s.cumsum()
    rough = np.sqrt((s * s).cumsum())  # about the standard error, as the mean is small
    for users in range(max(per_look, 2), len(n) + 1, per_look):
        if abs(summed[users - 1]) < 0.8 * NEAR * rough[users - 1]:
            continue
        moments = moments_of(n[:users], s[:users, None], squared[users - 1 : users])
        for name, tuned in tuned_for.items():
            if stops[name] == math.inf and excludes(anytime(moments, 0.95, tuned))[0]:
                stops[name] = users
        if max(stops.values()) < math.inf:
            break
    return stops


def scheduled_users(rng, made, one_look, repetitions=4000):
    """Report power, users and false alarms of scheduled looks at what the plan says."""
    at = [math.ceil(made.units * fraction) for fraction in made.rules.fractions]
    ended = {}
    for effect in (made.effect, 0.0):
        users = (users_of(rng, made.units, effect) for _ in range(repetitions))
        ended[effect] = np.array([first_scheduled(one, at, made) for one in users])
    seen, alarmed = (int((ended[effect] < math.inf).sum()) for effect in (made.effect, 0.0))
    mean = np.minimum(ended[made.effect], made.units).mean()
    what = f"one look needs {one_look:,} users, {len(at)} scheduled looks, {made.spending}"
    report("stopping", what, f"{made.units / one_look:.2f}, {mean / one_look:.2f}")
    held = abs(seen / repetitions - 0.8) <= 0.05
    report("stopping", f"{what}: power", share(seen, repetitions), "80 % ± 5", held)
    report("stopping", f"{what}: A/A", share(alarmed, repetitions), "<= 6 %", alarmed <= 0.06 * repetitions)


def first_scheduled(users, at, made):
    """Return the users at the first significant look, infinite without one."""
    n, s, q = users
    for look, count in enumerate(at, 1):
        moments = moments_of(n[:count], s[:count, None], q[:count].sum(keepdims=True))
        if count > 1 and excludes(scheduled(moments, 0.95, made.rules.fractions[:look], made.spending))[0]:
            return count
    return math.inf


PARTS = {"stopping-false-alarms": false_alarms, "stopping-users": users_to_a_stop}
