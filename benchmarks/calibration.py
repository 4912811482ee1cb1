"""Are verdicts calibrated? Simulated experiments in which the truth is known.

    .venv/bin/python benchmarks/calibration.py            35 minutes on one core
    .venv/bin/python benchmarks/calibration.py --quick    a tenth of the repetitions

Users search and click through the library's own draw and credit kernels. For every impression each ranker
ranks ten documents in its own random order and the page shows five. A user has a taste, a weight for
each ranker, and clicks the document d at position x (from 0) with probability

    0.9 / (1 + 0.3 x) * sum over rankers r of weight_r / rank_r(d).

Tastes are Beta(2, 2) for two rankers and Dirichlet(2) for more: exchangeable, so no ranker is better
and every significant preference is a false alarm, although single users may prefer one strongly. A user's
impressions are ceil(lognormal(1, 1)). Seeds are fixed: the same command prints the same table.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multileave.errors import MultileaveError
from multileave.kernels import kernel
from multileave.methods.base import Method, get_method
from multileave.outcome import Outcome, add_signs
from multileave.random import below, seed_state, uniform
from multileave.stats import Design, Tally, plan
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.corrections import holm
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
    return Moments(
        total, units, total**2 / float((counts.astype(float) ** 2).sum()), totals,
        (units - 1) / units * (left * left).sum(axis=0), squares, (sums > 0).sum(axis=0), (sums < 0).sum(axis=0),
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


def share(count: int, of: int) -> str:
    """Return a percentage with its standard error."""
    p = count / of
    return f"{100 * p:5.1f} % ± {100 * math.sqrt(max(p * (1 - p), 1e-9) / of):.1f}"


ROWS: list[dict[str, object]] = []


def report(part: str, what: str, found: str, wanted: str, held: bool | None) -> None:
    """Print one line of the table."""
    held = None if held is None else bool(held)  # NumPy's bool is not JSON
    mark = {True: "yes", False: "NO", None: ""}[held]
    ROWS.append({"part": part, "what": what, "found": found, "wanted": wanted, "held": held})
    print(f"{part:<13} {what:<66} {found:<18} {wanted:<14} {mark}", flush=True)


def false_alarms(repetitions: int) -> None:
    """A/A, one look at the end: the default interval, and tests that ignore who clicked."""
    for tail in (1.0, 1.5):
        for spec in ("ppm", "tdm"):
            alarms = dict.fromkeys(("clustered", "anytime", "impressions", "clicks"), 0)
            world = World(get_method(spec))
            for counts, sums, squares, clicks, click_sums in experiments(
                world, People(1000, tail), repetitions, f"aa/{spec}/{tail}"
            ):
                total = squares.sum(axis=0)
                moments = moments_of(counts, sums, total)
                alarms["clustered"] += bool(excludes(clustered(moments, 0.95))[0])
                alarms["anytime"] += bool(excludes(anytime(moments, 0.95))[0])
                n = counts.sum()
                mean = sums.sum() / n
                alarms["impressions"] += abs(mean) > 1.96 * math.sqrt((total[0] / n - mean**2) / n)
                alarms["clicks"] += abs(click_sums.sum()) > 1.96 * math.sqrt(clicks.sum())
            where = f"A/A {spec}, 1,000 users, lognormal(1, {tail:g})"
            rate = alarms["clustered"] / repetitions
            wanted, held = ("4 to 6 %", 0.04 <= rate <= 0.06) if tail == 1.0 else ("", None)
            report("one look", f"{where}: clustered (default)", share(alarms["clustered"], repetitions), wanted, held)
            report("one look", f"{where}: anytime", share(alarms["anytime"], repetitions), "", None)
            report("one look", f"{where}: naive, per impression", share(alarms["impressions"], repetitions), "", None)
            report("one look", f"{where}: naive, per click", share(alarms["clicks"], repetitions), "", None)


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


def peeking(repetitions: int) -> None:
    """A/A with a look every day."""
    inf = math.inf
    cases = [
        ("28 looks, users spread over the days", 28, spread_over, (2.0, 2.0)),
        ("28 looks, new users every day", 28, one_day_each, (2.0, 2.0)),
        ("365 looks, the same users return", 365, every_day, (2.0, 2.0)),
        ("365 looks, the same users return, no tastes", 365, every_day, (inf, inf)),
    ]
    for spec in ("ppm", "tdm"):
        for what, days, visits, taste in cases:
            fixed = ever = 0
            for missed in looks(
                World(get_method(spec)), People(1000, taste=taste), days, visits(days), repetitions,
                f"looks/{spec}/{what}", 0.0,
            ):  # fmt: skip
                fixed += missed[0].any()
                ever += missed[1].any()
            where = f"A/A {spec}, 1,000 users, {what}"
            report("many looks", f"{where}: anytime", share(ever, repetitions), "<= 5 %", ever <= 0.05 * repetitions)
            report("many looks", f"{where}: one-look test", share(fixed, repetitions), "", None)


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


def coverage(repetitions: int) -> None:
    """Coverage if one ranker is better: tastes Beta(3, 2)."""
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec))
        truth, _ = truth_of(world, (3.0, 2.0), 20_000_000 if repetitions >= 1000 else 2_000_000)
        for users in (200, 1000, 5000):
            held = 0
            for counts, sums, squares, *_ in experiments(
                world, People(users, taste=(3.0, 2.0)), repetitions, f"cover/{spec}/{users}"
            ):
                moments = moments_of(counts, sums, squares.sum(axis=0))
                held += not excludes(clustered(moments, 0.95), truth)[0]
            wanted = ">= 94 %" if users >= 1000 else "stated"
            good = held >= 0.94 * repetitions if users >= 1000 else None
            report("coverage", f"{spec}, {users:,} users: clustered, one look", share(held, repetitions), wanted, good)
            held = 0
            for missed in looks(
                world,
                People(users, taste=(3.0, 2.0)),
                28,
                spread_over(28),
                repetitions,
                f"cover28/{spec}/{users}",
                truth,
            ):
                held += not missed[1].any()
            good = held >= 0.94 * repetitions if users >= 1000 else None
            report(
                "coverage", f"{spec}, {users:,} users: anytime, all of 28 looks", share(held, repetitions), wanted, good
            )


def many_rankers(repetitions: int) -> None:
    """Fifteen equal rankers, 105 pairs."""
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec), 15)
        wrong = dict.fromkeys(("holm", "anytime", "none"), 0)
        for counts, sums, squares, *_ in experiments(
            world, People(1000, taste=(2.0,) * 15), repetitions, f"many/{spec}"
        ):
            moments = moments_of(counts, sums, squares.sum(axis=0))
            p = clustered(moments, 0.95).p
            wrong["holm"] += bool((holm(p) <= 0.05).any())
            wrong["none"] += bool((p <= 0.05).any())
            wrong["anytime"] += bool((holm(anytime(moments, 0.95).p) <= 0.05).any())
        where = f"{spec}, 15 equal rankers, 105 pairs, 1,000 users"
        report(
            "many rankers", f"{where}: Holm, any false alarm", share(wrong["holm"], repetitions), "<= 5.5 %",
            wrong["holm"] <= 0.055 * repetitions,
        )  # fmt: skip
        report("many rankers", f"{where}: Holm on anytime", share(wrong["anytime"], repetitions), "", None)
        report("many rankers", f"{where}: no correction", share(wrong["none"], repetitions), "", None)


def planned_power(repetitions: int) -> None:
    """Plan from a pilot of 500 users in which no ranker is better, then run the plan."""
    taste = (2.2, 2.0)
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec))
        truth, deviation = truth_of(world, taste, 20_000_000 if repetitions >= 1000 else 4_000_000)
        counts, sums, squares, *_ = next(experiments(world, People(500), 1, f"pilot/{spec}"))
        first = pilot_design(counts, sums, squares)
        activity = np.ceil(np.random.default_rng(5).lognormal(1.0, 1.0, 1_000_000))
        within = correlation_of(world, f"icc/{spec}")
        assumed = Design.assumed(
            deviation, float(activity.mean()), correlation=within, spread=float(activity.std() / activity.mean())
        )
        cases = (
            ("pilot of 500 users", first, "clustered", 0.8),
            ("pilot of 500 users", first, "clustered", 0.9),
            ("assumptions", assumed, "clustered", 0.8),
            ("assumptions", assumed, "anytime", 0.8),
        )
        for source, design, interval, wanted in cases:
            made = plan(design, truth, power=wanted, interval=interval)
            seen = 0
            for counts, sums, squares, *_ in experiments(
                world, People(made.units, taste=taste), repetitions, f"power/{spec}/{source}/{interval}/{wanted}"
            ):
                moments = moments_of(counts, sums, squares.sum(axis=0))
                chosen = clustered if interval == "clustered" else anytime
                seen += bool(excludes(chosen(moments, 0.95))[0])
            good = abs(seen / repetitions - wanted) <= 0.05
            last = ", last look only" if interval == "anytime" else ""
            what = f"{spec}, {made.units:,} users planned from {source}: {interval}{last}"
            report("power", what, share(seen, repetitions), f"{100 * wanted:.0f} % ± 5", good)


def pilot_design(counts, sums, squares) -> Design:
    """Return the design from a saved tally of the pilot."""
    tally = Tally.from_sums(
        ["a", "b"], list(range(len(counts))), counts, sums, squares.sum(axis=0), sums_of="pairs"
    )  # fmt: skip
    (design,) = Design.of_moments(tally.moments())
    assert design is not None
    return design


def correlation_of(world: World, name: str) -> float:
    """Return the correlation of two impressions of one user, from users with two impressions each."""
    users = 400_000
    weights = np.random.default_rng(3).dirichlet((2.0, 2.0), users)
    rows = np.repeat(np.arange(users), 2)
    sums, squares, _, _ = world.visit(rows, weights[rows], users, name)
    single = squares.sum() / (2 * users)
    return float(((sums**2).sum() / (2 * users) - single) / single)


def merging() -> None:
    """A thousand partial tallies, merged in random order, against one."""
    rng = np.random.default_rng(8)
    names = ("a", "b", "c")
    whole, parts = Tally(names), [Tally(names) for _ in range(1000)]
    for _ in range(20_000):
        kind = ("difference", "sign")[rng.integers(2)]
        outcome = Outcome(names, kind, rng.normal(size=3))
        unit = None if rng.random() < 0.2 else f"u{rng.integers(3000)}"
        whole.add(outcome, unit)
        parts[rng.integers(1000)].add(outcome, unit)
    order = rng.permutation(1000)
    total = Tally(names)
    for at in order:
        total.merge(parts[at])
    worst = 0.0
    for interval in ("clustered", "anytime"):
        for a, b in zip(whole.verdict(interval=interval).pairs, total.verdict(interval=interval).pairs, strict=True):
            worst = max(
                worst, *(abs(getattr(a, f) - getattr(b, f)) for f in ("preference", "low", "high", "p", "share"))
            )
    report("merging", "1,000 partial tallies in random order against one", f"{worst:.1e}", "<= 1e-9", worst <= 1e-9)


def invalid_input() -> None:
    """Invalid input is reported."""
    names = ("a", "b")

    def filled(values):
        tally = Tally(names)
        for user, value in values:
            tally.add(Outcome(names, "difference", np.array([value, 0.0])), user)
        return tally

    cases = {
        "no impressions": lambda: Tally(names).verdict(),
        "one unit": lambda: filled([("u", 1.0)] * 9).verdict(),
        "one ranker": lambda: Tally(["a"]),
        "NaN": lambda: filled([("u", math.nan)]),
        "no clicks": lambda: print("             " + str(filled([(u, 0.0) for u in range(300)]).verdict())),
        "plan without effect": lambda: plan(Design(1.0), 0.0),
        "plan with NaN": lambda: plan(Design(1.0), math.nan),
        "plan without deviation": lambda: Design.assumed(0.0),
    }
    for what, call in cases.items():
        try:
            call()
            reported = what == "no clicks"
        except MultileaveError as error:
            reported = True
            print(f"             {error}")
        report("invalid input", what, "reported" if reported else "not reported", "reported", reported)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument(
        "--only", nargs="*", help="parts: one-look many-looks coverage many-rankers power merging invalid-input"
    )
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    repetitions = 200 if arguments.quick else 2000
    parts = {
        "one-look": lambda: false_alarms(repetitions),
        "many-looks": lambda: peeking(repetitions),
        "coverage": lambda: coverage(repetitions),
        "many-rankers": lambda: many_rankers(repetitions),
        "power": lambda: planned_power(repetitions),
        "merging": merging,
        "invalid-input": invalid_input,
    }
    print(f"{'part':<13} {'what':<66} {'found':<18} {'target':<14} met")
    for name in arguments.only or parts:
        started = time.perf_counter()
        parts[name]()
        print(f"             ({name}: {time.perf_counter() - started:.0f} s)", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"repetitions": repetitions, "rows": ROWS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
