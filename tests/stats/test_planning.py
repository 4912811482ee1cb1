"""Plans: closed forms where there are some, and simulated experiments that reach the promised power."""

import math
from functools import partial
from statistics import NormalDist

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.stats import Design, Rules, Tally, plan, plan_pairs
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime, boundary
from multileave.stats.intervals.moments import Moments
from multileave.stats.planning import power, units_to_decide

AB = ("a", "b")


def test_many_units_follow_the_textbook_formula():
    for effect, wanted, z in ((0.01, 0.8, 0.8416), (0.02, 0.9, 1.2816)):
        made = plan(Design(1.0), effect, power=wanted)
        assert made.units == pytest.approx(((1.96 + z) / effect) ** 2, rel=0.001)
        assert (
            power(Design(1.0), effect, made.units, Rules())
            >= wanted
            > power(Design(1.0), effect, made.units - 1, Rules())
        )


def test_few_units_need_more_for_students_t():
    made = plan(Design(1.0), 1.0)
    assert made.units == 10  # the textbook's n for a t test of d = 1; the normal formula gives 8
    assert plan(Design(1.0, effective=0.3), 0.2).units > plan(Design(1.0), 0.2).units


def test_more_pairs_and_any_number_of_looks_take_more_units():
    one = plan(Design(1.0), 0.1).units
    assert plan(Design(1.0), 0.1, comparisons=10).units > 1.5 * one
    assert 1.3 * one < plan(Design(1.0), 0.1, interval="anytime").units < 1.6 * one


def test_assumptions_about_users_give_the_variance_of_their_mean():
    rng = np.random.default_rng(0)
    users, r, sd = 200_000, 0.3, 2.0
    counts = np.ceil(rng.lognormal(1.0, 0.7, users)).astype(int)
    taste = rng.normal(0.0, sd * math.sqrt(r), users)
    sums = taste * counts + rng.normal(0.0, sd * math.sqrt(1 - r), users) * np.sqrt(counts)
    tally = Tally.from_sums(
        AB, list(range(users)), counts, np.column_stack([sums, 0 * sums]), np.array([sd**2 * counts.sum()])
    )
    (found,) = Design.of_moments(tally.moments())
    assumed = Design.assumed(sd, counts.mean(), correlation=r, spread=counts.std() / counts.mean())
    for name in ("deviation", "impressions", "clock", "effective"):
        assert getattr(found, name) == pytest.approx(getattr(assumed, name), rel=0.03), name


def reached(made, effect, looks, repetitions=400):
    """The share of simulated experiments of the planned size that see the effect at a look; new users come."""
    rng = np.random.default_rng(5)
    seen = 0
    at = [math.ceil(made.units * n / looks) for n in range(1, looks + 1)]
    interval = partial(anytime, tuned_for=made.tuned_for) if made.interval == "anytime" else clustered
    for _ in range(repetitions):
        counts = 1 + rng.poisson(2.0, made.units)
        taste = rng.normal(effect, 0.4, made.units)
        sums = taste * counts + rng.normal(0.0, 1.0, made.units) * np.sqrt(counts)
        for n in at:
            tally = Tally.from_sums(
                AB, range(n), counts[:n], np.column_stack([sums, 0 * sums])[:n], np.array([1.16 * counts[:n].sum()])
            )
            if interval(tally.moments(), 0.95).lows[0] > 0.0:
                seen += 1
                break
    return seen / repetitions


@pytest.mark.acceptance  # a simulation of seconds
@pytest.mark.parametrize(("kind", "looks"), [("clustered", 1), ("anytime", 20)])
def test_a_planned_sample_reaches_its_power(kind, looks):
    sd = math.sqrt(1.16)
    design = Design.assumed(sd, 3.0, correlation=0.16 / 1.16, spread=math.sqrt(2.0) / 3.0)
    made = plan(design, 0.12, interval=kind)
    # The standard error of 400 repetitions is 2 %.
    assert reached(made, 0.12, looks) == pytest.approx(0.8, abs=0.06)


def test_the_verdict_says_how_many_more_users_it_takes():
    rng = np.random.default_rng(1)
    credits = np.column_stack([rng.normal(0.0, 1.0, 400), np.zeros(400)])
    credits[:, 0] += 0.05 - credits[:, 0].mean()
    tally = Tally.from_sums(AB, list(range(400)), np.ones(400, dtype=int), credits, np.array([400.0]))
    for interval in ("clustered", "anytime"):
        verdict = tally.verdict(interval=interval)
        (design,) = Design.of_moments(tally.moments())
        total = planned(design, 0.05, interval)
        assert verdict.pairs[0].more_units == pytest.approx(total - 400, rel=0.02)


def planned(design, effect, interval):
    """The units that a verdict without a plan needs for 80 % power at its last look."""
    if interval == "clustered":
        return plan(design, effect).units
    return next(n for n in np.geomspace(100, 1e7, 15_000) if last_look_power(design, effect, n) >= 0.8)


def last_look_power(design, effect, units):
    shift = effect * math.sqrt(units) / design.deviation
    return NormalDist().cdf(shift - boundary(np.array([design.clock * units]), 0.05)[0])


@pytest.mark.parametrize("interval", ["clustered", "anytime"])
def test_the_verdict_says_how_uncertain_the_number_of_further_users_is(interval):
    tally = tally_with(0.07)
    verdict = tally.verdict(interval=interval)
    (pair,), (design,), error = verdict.pairs, Design.of_moments(tally.moments()), tally.moments().errors[0]
    for more, size in ((pair.more_units_low, 0.07 + error), (pair.more_units_high, 0.07 - error)):
        assert more == pytest.approx(planned(design, size, interval) - 400, rel=0.02, abs=10)
    low, high = (round(more, 2 - len(str(more))) for more in (pair.more_units_low, pair.more_units_high))
    assert high > 10 * low
    assert verdict.sentence.endswith(f", about {low:,} to {high:,} more impressions needed")


def test_a_range_without_an_end_is_said_to_have_none():
    verdict = tally_with(0.05).verdict()  # 1.0 standard errors
    (pair,) = verdict.pairs
    assert (pair.more_units > 1000, pair.more_units_high) == (True, None)
    low = round(pair.more_units_low, -1)
    assert verdict.sentence.endswith(
        f", at least {low} more impressions needed, possibly over 100 times the current number"
    )


def test_what_is_significant_needs_no_more_users():
    (pair,) = tally_with(0.2).verdict().pairs
    assert (pair.significant, pair.more_units, pair.more_units_low, pair.more_units_high) == (True, None, None, None)


def test_the_true_need_is_within_the_range_about_as_often_as_one_standard_error_says():
    rng = np.random.default_rng(3)
    truth, held, repetitions = 0.08, 0, 2000
    needed = units_to_decide(exact_moments(truth, 1.0), Rules(), 1)[0]
    for mean in rng.normal(truth, 1.0 / 20.0, repetitions):
        moments = exact_moments(mean, 1.0)
        low, high = (units_to_decide(moments, Rules(), 1, errors)[0] for errors in (1.0, -1.0))
        held += low <= needed <= high
    assert held / repetitions == pytest.approx(0.68, abs=0.03)


def exact_moments(mean, deviation, users=400):
    one = np.ones(1)
    return Moments(users, users, float(users), users * mean * one, users * deviation**2 * one, users * one, one, one)


def tally_with(mean, users=400):
    """Return a tally of units with one impression each, whose preferences have this mean and deviation 1."""
    values = np.random.default_rng(1).normal(0.0, 1.0, users)
    values = (values - values.mean()) / values.std(ddof=1) + mean
    credits = np.column_stack([values, np.zeros(users)])
    return Tally.from_sums(AB, list(range(users)), np.ones(users, dtype=int), credits, np.array([float(users)]))


def test_a_pilot_that_estimates_the_effect_gives_a_range():
    import json

    ((names, made),) = plan_pairs(tally_with(0.1))
    error = 1.0 / 20.0
    assert names == AB
    assert made.units_low == pytest.approx(plan(made.design, 0.1 + error).units, rel=0.01)
    assert made.units_high == pytest.approx(plan(made.design, 0.1 - error).units, rel=0.01)
    assert f"about {made.units:,} users or impressions, about 350 to 3,200 if the true preference" in str(made)
    assert json.loads(json.dumps(made.to_dict()))["units_high"] == made.units_high
    ((_, given),) = plan_pairs(tally_with(0.1), 0.1)
    assert (given.range, given.units_low, given.units_high) == ("", None, None)
    ((_, unsure),) = plan_pairs(tally_with(0.03))
    assert (unsure.range.startswith("at least"), unsure.units_high) == (True, None)


def test_what_is_out_of_sight_is_not_promised():
    credits = np.column_stack([np.random.default_rng(1).normal(0.0, 1.0, 400), np.zeros(400)])
    credits[:, 0] += 0.0005 - credits[:, 0].mean()
    tally = Tally.from_sums(AB, list(range(400)), np.ones(400, dtype=int), credits, np.array([400.0]))
    verdict = tally.verdict()
    assert verdict.pairs[0].more_units is None
    assert verdict.sentence.endswith("more impressions needed, possibly over 100 times the current number")


def test_needs_are_solved_for_the_sequence_before_and_after_its_time():
    for effect in (0.01, 0.1, 0.5):
        rng = np.random.default_rng(1)
        credits = np.column_stack([rng.normal(0.0, 1.0, 300), np.zeros(300)])
        credits[:, 0] += effect - credits[:, 0].mean()
        tally = Tally.from_sums(AB, list(range(300)), np.ones(300, dtype=int), credits, np.array([300.0]))
        moments = tally.moments()
        (design,) = Design.of_moments(moments)
        rules = Rules(interval="anytime")
        needed = float(units_to_decide(moments, rules, 1)[0])
        assert last_look_power(design, effect, needed) == pytest.approx(0.8, abs=0.01)


def test_a_plan_reads_as_a_sentence_and_as_json():
    import json

    made = plan(Design.assumed(1.0, 4.0), 0.05, interval="anytime", comparisons=3)
    assert str(made).startswith(
        f"about {made.units:,} users ({4 * made.units:,} impressions) to detect a preference of 0.05"
    )
    assert "with any number of looks, 3 pairs (Bonferroni)" in str(made)
    data = json.loads(json.dumps(made.to_dict()))
    curve = {point["units"]: point["power"] for point in data["curve"]}
    assert sorted(curve.values()) == list(curve.values())
    assert min(curve) < made.units < max(curve)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plan(Design(1.0), 0.0), "The effect is 0.0"),
        (lambda: plan(Design(1.0), math.nan), "The effect is nan"),
        (lambda: plan(Design(1.0), None), "The effect is None"),
        (lambda: plan(Design(1.0), 0.1, power=1.0), "The power is 1.0"),
        (lambda: plan(Design(1.0), 0.1, power=0.2, confidence=0.5), "significance level"),
        (lambda: plan(Design(1.0), 0.1, confidence=95), "confidence is 95"),
        (lambda: plan(Design(1.0), 0.1, comparisons=0), "comparisons is 0"),
        (lambda: plan(Design(1.0), 0.1, interval="x"), "interval is 'x'"),
        (lambda: plan(Design(1.0), 1e-9), "more than 1e\\+12 users"),
        (lambda: Design.assumed(0.0), "standard deviation is 0.0"),
        (lambda: Design.assumed(-1.0), "standard deviation is -1.0"),
        (lambda: Design.assumed(1.0, 0.5), "impressions per user is 0.5"),
        (lambda: Design.assumed(1.0, correlation=2.0), "correlation is 2.0"),
        (lambda: Design.assumed(1.0, spread=-1.0), "spread is -1.0"),
        (lambda: Design.assumed(math.inf), "standard deviation is inf"),
    ],
)
def test_plans_that_make_no_sense_say_what_is_missing(call, words):
    with pytest.raises(TallyError, match=words):
        call()


def test_a_tally_without_preferences_has_no_design():
    tally = Tally.from_sums(AB, [1, 2], np.ones(2, dtype=int), np.zeros((2, 2)), np.zeros(1))
    assert Design.of_moments(tally.moments()) == [None]


def test_power_is_a_probability_that_grows_with_units_however_large_the_effect():
    for effective in (0.1, 1.0):
        design = Design(1.0, effective=effective)
        chances = [power(design, 0.5, units, Rules()) for units in (3, 10, 30, 100, 300, 1000, 4000)]
        assert all(0.0 <= chance <= 1.0 for chance in chances)
        assert chances == sorted(chances)


@pytest.mark.fast
def test_a_single_further_impression_is_singular():
    tally = Tally.from_sums(
        ("a", "b"), ["u", "v"], np.array([1, 1]), np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0])
    )
    assert tally.verdict().sentence.endswith(
        ", at least 1 more impression needed, possibly over 100 times the current number"
    )
