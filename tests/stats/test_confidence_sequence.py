"""The confidence sequence: its boundary, its p-values, and that it holds however often one looks."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.integrate

from multileave.stats import Tally
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime, boundary
from multileave.stats.intervals.moments import Moments

AB = ("a", "b")


def moments(mean, error, impressions=10_000, single=1.0, effective=1e9):
    """Moments of one pair with this mean and standard error."""
    total, variance = mean * impressions, (error * impressions) ** 2
    squares = impressions * (single + mean**2)
    one = np.array([1])
    return Moments(
        impressions, impressions, effective, np.array([total]), np.array([variance]), np.array([squares]), one, one
    )


def mixture(z, v, rates, density):
    """The mixture of exp(rate s - rate^2 v / 2) over rates with this density, by quadrature, at s = z sqrt(v)."""
    return scipy.integrate.trapezoid(np.exp(rates * z * math.sqrt(v) - rates**2 * v / 2.0) * density, rates)


@pytest.mark.parametrize("clock", [300.0, 3_000.0, 50_000.0])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_at_the_boundary_the_mixture_has_reached_two_over_alpha(clock, alpha):
    rho = 10_000 / 8.2
    rates = np.linspace(0.0, 12.0 / math.sqrt(rho), 200_001)
    half_normal = 2.0 * math.sqrt(rho / (2.0 * math.pi)) * np.exp(-rho * rates**2 / 2.0)
    z = float(boundary(np.array([clock]), alpha)[0])
    reached = mixture(z, clock, rates, half_normal)
    assert reached >= 2.0 / alpha
    assert reached == pytest.approx(2.0 / alpha, rel=1.5 * alpha)


@pytest.mark.parametrize("clock", [30.0, 1_000.0, 50_000.0])
@pytest.mark.parametrize("alpha", [0.9, 0.05, 1e-6])
def test_a_plan_mixes_rates_around_the_one_it_is_for(clock, alpha):
    mean = 2.5 / math.sqrt(1_000)
    rates = np.linspace(-8 * mean / 4, 12 * mean / 4, 200_001) + mean
    normal = np.exp(-(((rates - mean) / (mean / 4)) ** 2) / 2.0) / (mean / 4 * math.sqrt(2.0 * math.pi))
    z = float(boundary(np.array([clock]), alpha, 1_000)[0])
    assert mixture(z, clock, rates, normal) == pytest.approx(2.0 / alpha, rel=1e-6)


def test_the_boundary_is_lowest_where_it_is_tuned():
    clocks = np.geomspace(10, 1e8, 2000)
    for tuned in (1_000, 10_000, 1_000_000):
        lowest = clocks[np.argmin(boundary(clocks, 0.05, tuned))]
        assert tuned < lowest < 1.2 * tuned
        assert boundary(np.array([float(tuned)]), 0.05, tuned)[0] == pytest.approx(2.79, abs=0.005)
    assert boundary(np.array([10_000.0]), 0.05)[0] == pytest.approx(3.04, abs=0.005)


@pytest.mark.parametrize("tuned_for", [None, 500.0])
@pytest.mark.parametrize("effective", [5.0, 60.0, 1e9])
@pytest.mark.parametrize("z", [0.5, 2.0, 3.0, 3.5, 5.0, 9.0, 25.0])
def test_p_is_at_most_alpha_just_where_the_interval_excludes_zero(z, effective, tuned_for):
    found = anytime(moments(z * 0.01, 0.01, effective=effective), 0.95, tuned_for)
    assert (found.p[0] <= 0.05) == (found.lows[0] > 0.0)
    if 1e-12 < found.p[0] < 1.0:
        at = anytime(moments(z * 0.01, 0.01, effective=effective), 1.0 - found.p[0], tuned_for)
        assert at.lows[0] == pytest.approx(0.0, abs=1e-5)


def test_it_is_wider_than_for_one_look_and_few_units_are_met_with_t():
    many, few = (anytime(moments(0.05, 0.01, effective=e), 0.95) for e in (1e9, 20.0))
    one_look = clustered(moments(0.05, 0.01), 0.95)
    assert one_look.highs[0] < many.highs[0] < few.highs[0]


def test_the_clock_is_the_accumulated_variance_not_the_number_of_units():
    impressions, days = 200, 50
    users = [f"u{n}" for n in range(impressions)]
    rng = np.random.default_rng(1)
    clocks, sums, squares = [], np.zeros((impressions, 2)), 0.0
    for day in range(1, days + 1):
        credits = rng.normal(0.0, 1.0, (impressions, 2))
        sums += credits
        squares += float(((credits[:, 0] - credits[:, 1]) ** 2).sum())
        counts = np.full(impressions, day)
        tally = Tally.from_sums(AB, users, counts, sums, np.array([squares]))
        clocks.append(tally.moments().clocks[0])
    assert tally.units == 200
    assert clocks[-1] == pytest.approx(200 * days, rel=0.35)
    assert clocks[-1] > 20 * clocks[0]


def test_without_units_the_clock_counts_impressions():
    from multileave.outcome import Outcome

    tally = Tally(AB)
    for x in np.random.default_rng(2).normal(0.3, 2.0, 1000):
        tally.add(Outcome(AB, "difference", np.array([x, 0.0])))
    assert tally.moments().clocks[0] == pytest.approx(1000, rel=0.01)


def ever_wrong(interval, *, tastes, looks=120, repetitions=400, users=300):
    """The share of A/A experiments in which some look is significant; the same users return every day."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(repetitions):
        taste = rng.normal(0.0, tastes, users)
        per_day = rng.poisson(rng.lognormal(-1.0, 1.0, users)[:, None], (users, looks))
        sums = (taste[:, None] * per_day + rng.normal(0.0, 1.0, (users, looks)) * np.sqrt(per_day)).cumsum(axis=1)
        counts = per_day.cumsum(axis=1)
        for look in range(looks):
            n, s = counts[:, look], sums[:, look]
            total = n.sum()
            units = int((n > 0).sum())
            left = (s - s.sum() / total * n) / (1.0 - n / total)
            variance = (units - 1) / units * (left @ left)
            if s.sum() ** 2 < 1.9**2 * variance:
                continue
            found = interval(
                Moments(
                    int(total), units, total**2 / float(n @ n), np.array([s.sum()]), np.array([variance]),
                    np.array([total * (1.0 + tastes**2)]), np.array([1]), np.array([1]),
                ),
                0.95,
            )  # fmt: skip
            if found.lows[0] > 0.0 or found.highs[0] < 0.0:
                wrong += 1
                break
    return wrong / repetitions


@pytest.mark.acceptance  # a simulation of seconds
@pytest.mark.parametrize("tastes", [0.0, 0.5])
@pytest.mark.parametrize("tuned_for", [None, 3_000])
def test_returning_users_and_120_looks_raise_few_false_alarms(tastes, tuned_for):
    # At a true rate of 5 % the chance of more than 8 % in 400 repetitions is 0.3 %.
    assert ever_wrong(partial(anytime, tuned_for=tuned_for), tastes=tastes) <= 0.08


def test_brownian_motion_ever_crosses_the_planned_boundary_in_at_most_5_percent_and_not_much_less():
    # 4,000 looks from a hundredth to forty times the planned clock; the rest is overshoot between looks.
    clocks = np.geomspace(1.0, 4_000.0, 4_000)
    steps = np.sqrt(np.diff(np.concatenate([[0.0], clocks])))
    bounds = boundary(clocks, 0.05, 100.0) * np.sqrt(clocks)
    rng = np.random.default_rng(5)
    crossed = sum(
        (np.abs((rng.normal(size=(500, len(steps))) * steps).cumsum(axis=1)) > bounds).any(axis=1).sum()
        for _ in range(12)
    )
    assert 0.037 <= crossed / 6_000 <= 0.05


def test_an_interval_for_one_look_would_raise_many():
    assert ever_wrong(clustered, tastes=0.0, repetitions=100) >= 0.2


def test_units_that_all_say_the_same_are_judged_by_the_sign_test_at_any_time():
    tally = Tally.from_sums(AB, list(range(9)), np.ones(9, dtype=int), np.tile([1.0, 0.0], (9, 1)), np.array([9.0]))
    pair = tally.verdict(interval="anytime").pairs[0]
    assert pair.p == pytest.approx(8 * 0.5**8)
    assert pair.significant
    assert pair.low > 0.0
