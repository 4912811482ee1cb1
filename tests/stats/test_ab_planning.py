"""What an A/B test would take, from a pilot that interleaved: its power is as promised, and its effect is of rates."""

import json

import numpy as np
import pytest

import multileave as ml
from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import plan_pairs
from multileave.stats.ab_planning import click_design, plan_ab

RANKERS = ("bm25", "dense", "ltr")


def visits(rng, users, lift=0.0):
    """Return impressions and clicks of users who differ in how often they search and click."""
    counts = np.ceil(rng.lognormal(0.7, 0.8, users)).astype(np.int64)
    rates = rng.gamma(2.0, 0.2, users) * (1.0 + lift)
    return counts, rng.poisson(rates * counts)


def piloted(users=4000, seed=1):
    rng = np.random.default_rng(seed)
    tally = ml.Tally(RANKERS)
    for unit, (count, clicks) in enumerate(zip(*visits(rng, users), strict=True)):
        for x in range(count):
            credits = Outcome(RANKERS, "difference", rng.normal([0.0, 0.05, 0.1], 1.0))
            tally.add(credits, unit=unit, clicks=int(clicks) if x == 0 else 0)
    return tally


def test_so_many_users_of_an_ab_test_find_the_lift_as_often_as_promised():
    """With three rankers an arm gets a third of the users; the test is that of ratios of sums over users."""
    made = plan_ab(piloted(), 0, 1, 0.15)
    arm = made.units // 3
    rng, found = np.random.default_rng(2), 0
    for _ in range(600):
        means, errors = [], []
        for lift in (0.0, 0.15):
            counts, clicks = visits(rng, arm, lift)
            means.append(clicks.sum() / counts.sum())
            errors.append(((clicks - means[-1] * counts) ** 2).sum() / counts.sum() ** 2)
        found += abs(means[1] - means[0]) > 1.96 * sum(errors) ** 0.5
    assert found / 600 == pytest.approx(0.8, abs=0.05)


def test_the_effect_is_the_difference_of_rates_with_its_error():
    rng = np.random.default_rng(5)
    tally = ml.Tally(("a", "b"))
    for unit in range(300):
        lists = {name: list(rng.permutation(list("pqrstuvw"))) for name in "ab"}
        impression = ml.DepthPreference().combine(lists, 4, seed=unit)
        clicked = [x for x in range(4) if rng.random() < 0.4 / (1 + x)]
        tally.add(ml.infer(impression, positions=clicked), unit=unit % 90, clicks=len(clicked))
    ((_, made),) = plan_pairs(tally)
    rates = tally.rates()
    assert made.ab["clicks"].effect == pytest.approx(abs(rates["b"].difference))
    assert made.ab["clicks"].units_low < made.ab["clicks"].units
    said = json.loads(json.dumps(made.to_dict()))["ab"]["clicks"]
    assert said["times"] == pytest.approx(made.ab["clicks"].units / made.units)
    assert plan_pairs(tally, lift=0.1)[0][1].ab["clicks"].units_low is None


def test_without_clicks_or_a_difference_nothing_is_said():
    tally = piloted(50)
    assert plan_ab(tally, 0, 1) is None  # no rates and no lift
    silent = ml.Tally(RANKERS)
    for unit in range(9):
        silent.add(Outcome(RANKERS, "difference", np.array([1.0, 0.0, unit])), unit=unit)
    assert click_design(silent) is None
    assert plan_ab(silent, 0, 1, 0.1) is None
    assert plan_pairs(silent, lift=0.1)[0][1].ab == {}


@pytest.mark.parametrize("lift", [0.0, float("nan"), "2 %"])
def test_a_lift_that_makes_no_sense_is_refused(lift):
    with pytest.raises(TallyError, match="The lift is"):
        plan_ab(piloted(50), 0, 1, lift)
