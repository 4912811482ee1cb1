"""Scheduled looks: published boundaries, alpha that is spent as planned, and verdicts that say which look they are."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import Design, Rules, Tally, plan
from multileave.stats.intervals.group_sequential import boundaries, crossing, information, scheduled
from multileave.stats.intervals.moments import Moments

AB = ("a", "b")


def moments(z, effective=1e9):
    one = np.ones(1)
    return Moments(1000, 1000, effective, z * one, one, 2000 * one, one, one)


def filled(users=400, lift=0.0, seed=3):
    tally = Tally(AB)
    for user, value in enumerate(np.random.default_rng(seed).normal(lift, 1.0, users)):
        tally.add(Outcome(AB, "difference", np.array([value, 0.0])), user)
    return tally


def test_five_looks_have_the_published_boundaries():
    # Jennison and Turnbull (2000), and the tables of the lan-demets programs: two-sided 5 %.
    published = {
        "obrien-fleming": (4.8769, 3.3569, 2.6803, 2.2898, 2.0310),
        "pocock": (2.4380, 2.4268, 2.4101, 2.3966, 2.3859),
    }
    for spending, bounds in published.items():
        assert boundaries(information(5), 0.05, spending) == pytest.approx(bounds, abs=2e-4)


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("fractions", [(1.0,), (0.1, 0.15, 0.9, 1.0), information(28)])
def test_all_looks_together_spend_just_alpha(spending, fractions):
    assert crossing(fractions, boundaries(fractions, 0.05, spending)).sum() == pytest.approx(0.05, abs=1e-7)


def test_crossing_agrees_with_simulated_brownian_motion():
    fractions, bounds, drift = (0.2, 0.3, 0.7, 1.0), (2.5, 2.2, 2.4, 2.0), 1.3
    steps = np.diff((0.0, *fractions))
    rng = np.random.default_rng(1)
    paths = (rng.normal(size=(400_000, 4)) * np.sqrt(steps) + drift * steps).cumsum(axis=1)
    beyond = np.abs(paths) > np.array(bounds) * np.sqrt(fractions)
    first = [(beyond[:, k] & ~beyond[:, :k].any(axis=1)).mean() for k in range(4)]
    assert crossing(fractions, bounds, drift) == pytest.approx(first, abs=0.0025)


def test_one_look_is_the_normal_test():
    found = scheduled(moments(1.96), 0.95, (1.0,), "obrien-fleming")
    assert found.p[0] == pytest.approx(0.05, abs=2e-4)
    assert found.multipliers[0] == pytest.approx(1.959964, abs=1e-5)


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("look", [1, 3, 5])
@pytest.mark.parametrize("effective", [12.0, 1e9])
def test_p_is_at_most_alpha_just_where_the_interval_excludes_zero(spending, look, effective):
    fractions = information(5)[:look]
    for z in np.linspace(0.5, 7.0, 60):
        found = scheduled(moments(z, effective), 0.95, fractions, spending)
        assert (found.p[0] <= 0.05) == (found.lows[0] > 0.0)


def test_p_values_decrease_and_agree_with_the_boundaries():
    fractions = information(4)[:3]
    for alpha in (0.3, 0.01, 1e-4, 1e-9):
        bound = boundaries(fractions, alpha)[-1]
        p = scheduled(moments(bound), 0.95, fractions, "obrien-fleming").p[0]
        assert np.log(p) == pytest.approx(np.log(alpha), rel=0.003)


def test_a_verdict_says_which_look_it_is_and_early_looks_are_stricter():
    tally = filled(lift=0.14)
    early = tally.verdict(interval="scheduled", looks=5, look=1)
    late = tally.verdict(interval="scheduled", looks=5, look=5)
    assert early.pairs[0].p > late.pairs[0].p
    assert not early.winner
    assert late.winner == "a"
    assert "look 5 of 5" in late.sentence
    assert "look 1 of 5" in early.table()
    assert (late.to_dict()["interval"], late.anytime) == ("scheduled", False)
    as_fractions = tally.verdict(interval="scheduled", looks=(0.2, 0.4, 0.6, 0.8, 1.0), look=5)
    assert as_fractions.pairs == late.pairs


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"interval": "scheduled"}, "planned looks are None"),
        ({"interval": "scheduled", "looks": 0, "look": 1}, "planned looks are 0"),
        ({"interval": "scheduled", "looks": 5}, "look None; expected a number from 1 to 5"),
        ({"interval": "scheduled", "looks": 5, "look": 6}, "look 6; expected a number from 1 to 5"),
        ({"interval": "scheduled", "looks": (0.5, 0.2), "look": 1}, "increase up to 1"),
        ({"interval": "scheduled", "looks": (0.5, 1.2), "look": 1}, "increase up to 1"),
        ({"interval": "scheduled", "looks": 101, "look": 1}, 'interval="anytime"'),
        ({"interval": "scheduled", "looks": "5", "look": 1}, "expected their number"),
        ({"interval": "anytime", "looks": 5, "look": 1}, "no schedule"),
        ({"interval": "scheduled", "looks": 5, "look": 1, "spending": "pocok"}, "Did you mean 'pocock'"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(options, says):
    with pytest.raises(TallyError, match=says):
        Rules(**options)


def test_plans_need_more_users_at_most_but_fewer_on_average():
    one = plan(Design(1.0), 0.1).units
    scheduled_plan = plan(Design(1.0), 0.1, interval="scheduled", looks=5)
    any_look = plan(Design(1.0), 0.1, interval="anytime")
    assert one < scheduled_plan.units < 1.05 * one
    assert one < any_look.units < 1.5 * one
    assert 0.75 * one < scheduled_plan.expected_units < 0.9 * one
    assert 0.85 * one < any_look.expected_units < one
    assert any_look.tuned_for == pytest.approx(one, rel=0.01)
    assert "5 scheduled looks" in str(scheduled_plan)
    assert f"tuned_for={any_look.tuned_for}" in str(any_look)


def test_a_plan_of_scheduled_looks_has_its_power_and_its_users():
    made = plan(Design(1.0), 0.2, interval="scheduled", looks=4, spending="pocock")
    at = np.ceil(made.units * np.array(information(4))).astype(int)
    bounds = boundaries(information(4), 0.05, "pocock")
    values = np.random.default_rng(8).normal(0.2, 1.0, (20_000, made.units)).cumsum(axis=1)[:, at - 1] / np.sqrt(at)
    beyond = np.abs(values) > bounds
    ended = np.where(beyond.any(axis=1), at[beyond.argmax(axis=1)], made.units)
    assert beyond.any(axis=1).mean() == pytest.approx(0.8, abs=0.01)
    assert ended.mean() == pytest.approx(made.expected_units, rel=0.01)


def chance_of_a_false_alarm(users, every=1, **options):
    """Return the exact chance that a look after so many users is significant, if each votes once, for either ranker."""
    wrong, open_ = Fraction(0), {0: Fraction(1)}
    for seen in range(1, users + 1):
        before, open_ = open_, defaultdict(Fraction)
        for wins, chance in before.items():
            for more in (0, 1):
                open_[wins + more] += chance / 2
        if seen == 1 or seen % every:
            continue
        if options["interval"] == "scheduled":
            options |= {"looks": users // every, "look": seen // every}
        for wins in list(open_):
            votes = np.repeat([[1.0, 0.0], [0.0, 1.0]], [wins, seen - wins], axis=0)
            tally = Tally.from_sums(AB, list(range(seen)), np.ones(seen, dtype=int), votes, [float(seen)])
            if tally.verdict(**options).pairs[0].significant:
                wrong += open_.pop(wins)
    return wrong


@pytest.mark.parametrize(
    ("users", "options"),
    [
        (50, {"interval": "anytime", "tuned_for": 20}),
        (30, {"interval": "scheduled", "every": 3}),
        (30, {"interval": "scheduled", "every": 3, "spending": "pocock"}),
        (100, {"interval": "scheduled", "every": 10, "spending": "pocock"}),
    ],
)
def test_looks_at_few_users_who_vote_once_spend_no_more_than_alpha(users, options):
    assert chance_of_a_false_alarm(users, **options) <= Fraction(5, 100)


def test_intervals_of_few_users_exclude_zero_exactly_if_the_look_is_significant():
    rng = np.random.default_rng(11)
    for users in range(2, 31):
        sums = np.column_stack([np.abs(rng.normal(1.0, 1.0, users)), np.zeros(users)])
        tally = Tally.from_sums(AB, list(range(users)), np.ones(users, dtype=int), sums, [float((sums**2).sum())])
        (pair,) = tally.verdict(interval="scheduled", looks=3, look=1).pairs
        assert (pair.low > 0.0) == pair.significant
        assert pair.test == "group sequential"
