"""Interactions: Welch's test against textbook forms, its level with clustered and shared units, and shrinkage."""

import json

import numpy as np
import pytest
from scipy import stats

from multileave.outcome import Outcome
from multileave.stats import Rules, SegmentedTally, Tally
from multileave.stats.intervals.heterogeneity import random_effects, welch
from multileave.stats.verdict.interactions import find_interactions

AB = ("a", "b")


def simulated(rng, users, effects, *, elsewhere=0.0, tail=1.0):
    """Return a tally per segment: users with tastes, of whom some impressions are in another segment than most."""
    activity = np.ceil(rng.lognormal(1.0, tail, users)).astype(int)
    user = np.repeat(np.arange(users), activity)
    home, other = rng.integers(len(effects), size=users)[user], rng.integers(len(effects), size=len(user))
    segment = np.where(rng.random(len(user)) < elsewhere, other, home)
    values = rng.normal(0.0, 0.5, users)[user] + rng.normal(0.0, 1.0, len(user)) + np.asarray(effects)[segment]
    values[rng.random(len(user)) < 0.5] = 0.0  # no click
    found = {}
    for number in range(len(effects)):
        mine = segment == number
        ids, rows = np.unique(user[mine], return_inverse=True)
        sums = np.bincount(rows, weights=values[mine])
        if len(ids) > 1:
            found[f"s{number}"] = Tally.from_sums(
                AB, ids.tolist(), np.bincount(rows), np.column_stack([sums, 0 * sums]), np.array([(values**2).sum()])
            )
    return found


def test_for_two_independent_means_it_is_welchs_t_test():
    rng = np.random.default_rng(0)
    one, two = rng.normal(0.0, 1.0, 12), rng.normal(0.8, 3.0, 30)
    variances = [sample.var(ddof=1) / len(sample) for sample in (one, two)]
    p = welch(np.array([one.mean(), two.mean()]), np.diag(variances), np.array([11.0, 29.0]))
    assert p == pytest.approx(stats.ttest_ind(one, two, equal_var=False).pvalue)


def test_for_several_independent_means_it_is_welchs_anova():
    rng = np.random.default_rng(1)
    samples = [rng.normal(mean, deviation, size) for mean, deviation, size in ((0, 1, 9), (1, 2, 25), (0.3, 0.5, 14))]
    means = np.array([sample.mean() for sample in samples])
    variances = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    weights, freedoms = 1 / variances, np.array([len(sample) - 1.0 for sample in samples])
    common = (weights * means).sum() / weights.sum()
    spread = ((1 - weights / weights.sum()) ** 2 / freedoms).sum()
    statistic = (weights * (means - common) ** 2).sum() / 2 / (1 + 2 * 1 / 8 * spread)
    expected = stats.f.sf(statistic, 2, 8 / (3 * spread))
    assert welch(means, np.diag(variances), freedoms) == pytest.approx(expected)


def test_for_two_means_of_the_same_units_it_is_the_paired_t_test():
    rng = np.random.default_rng(2)
    values = rng.normal([0.0, 0.2], 1.0, (40, 2)) + rng.normal(0.0, 1.0, (40, 1))
    tallies = {
        name: Tally.from_sums(
            AB, list(range(40)), np.ones(40, dtype=int), np.column_stack([column, 0 * column]), [99.0]
        )
        for name, column in zip(("x", "y"), values.T, strict=True)
    }
    (found,) = find_interactions(tallies, Rules())
    # The jackknife of a mean of single impressions is its usual variance; the degrees of freedom count evidence.
    assert found.p == pytest.approx(stats.ttest_rel(*values.T).pvalue, rel=1e-3)


@pytest.mark.parametrize("elsewhere", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("segments", [2, 5])
def test_equal_segments_rarely_differ(segments, elsewhere):
    rng = np.random.default_rng(segments)
    p = [find_interactions(simulated(rng, 60, [0.2] * segments, elsewhere=elsewhere), Rules())[0].p for _ in range(300)]
    # The standard error of 300 repetitions is 1.3 %.
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 0.03


@pytest.mark.parametrize("elsewhere", [0.0, 1.0])
def test_segments_that_differ_are_found(elsewhere):
    rng = np.random.default_rng(3)
    found = [
        find_interactions(simulated(rng, 300, [-0.4, 0.0, 0.4], elsewhere=elsewhere), Rules())[0].significant
        for _ in range(20)
    ]
    assert sum(found) >= 18


def test_shrunken_means_are_nearer_to_the_truth():
    rng = np.random.default_rng(4)
    raw_error = shrunken_error = 0.0
    for _ in range(300):
        truth = rng.normal(0.3, 0.1, 8)
        variances = rng.uniform(0.005, 0.05, 8)
        means = rng.normal(truth, np.sqrt(variances))
        _, shrunken = random_effects(means, variances)
        raw_error += ((means - truth) ** 2).sum()
        shrunken_error += ((shrunken - truth) ** 2).sum()
    assert shrunken_error < 0.6 * raw_error


def test_segments_without_variance_are_left_out_of_the_test():
    between, shrunken = random_effects(np.array([1.0, 5.0]), np.array([0.1, 0.0]))
    assert (between, shrunken.tolist()) == (0.0, [1.0, 5.0])
    rng = np.random.default_rng(5)
    tallies = simulated(rng, 100, [0.0, 0.0])
    tallies["none"] = Tally.from_sums(AB, [1, 2, 3], np.ones(3, dtype=int), np.zeros((3, 2)), np.zeros(1))
    (with_none,) = find_interactions(tallies, Rules())
    del tallies["none"]
    (without,) = find_interactions(tallies, Rules())
    assert with_none.p == pytest.approx(without.p)


def test_the_verdict_states_interactions():
    rng = np.random.default_rng(6)
    tally = SegmentedTally(AB, by="device")
    for user in range(400):
        device = "phone" if user % 2 else "desktop"
        credits = np.array([rng.normal(0.5 if device == "phone" else -0.5), 0.0])
        tally.add(Outcome(AB, "difference", credits), user, segment=device)
    verdict = tally.verdict()
    (found,) = verdict.interactions
    assert found.significant
    assert found.shrunken["desktop"] < -0.3 < 0.3 < found.shrunken["phone"]
    assert verdict.segments["desktop"].pairs[0].preference < found.shrunken["desktop"]
    assert "The preference for a over b differs by device (p = " in str(verdict)
    assert json.loads(json.dumps(verdict.to_dict()))["interactions"][0]["p"] == found.p
    at_any_time = tally.verdict(interval="anytime")
    assert (at_any_time.interactions[0].p, at_any_time.interactions[0].significant) == (None, False)
    assert at_any_time.sentence == "Differences by device were not tested"
