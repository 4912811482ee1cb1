"""Intervals of rates allow for skewed units, by sums that merge and that earlier versions did not keep."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import multileave as ml
from multileave.stats.intervals.clustered import t_quantile
from multileave.stats.rates.estimating import ESTIMATORS, adjusted, estimate
from multileave.stats.rates.sums import RateSums
from multileave.stats.tally.grouped_tally import GroupedTally
from multileave.stats.verdict.rules import Rules

INTERVALS = [Rules(), Rules(interval="anytime"), Rules(interval="scheduled", looks=3, look=2)]


def units_of(seed=1, units=50, rankers=3):
    """Return rows of units that earn lognormal values; more impressions, more earned."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(1, 12, units).astype(float)
    earned = rng.lognormal(0.0, 1.2, (units, rankers)) * shown[:, None] ** 1.5
    return np.column_stack([earned, rng.normal(0.0, 2.0, (units, rankers)) * np.sqrt(shown)[:, None], shown])


def sums_of(rows):
    sums = RateSums(rows.shape[1] // 2)
    sums.add_units(rows)
    sums.seen, sums.valued = int(rows[:, -1].sum()), True
    return sums


def by_definition(rows, ranker, slope):
    """Return residuals' sums, unit by unit."""
    rankers, total = rows.shape[1] // 2, math.fsum(rows[:, -1])
    adjusted_units = [row[ranker] - slope * row[rankers + ranker] for row in rows]
    mean = math.fsum(adjusted_units) / total
    left = [(value - mean * row[-1], row[-1]) for value, row in zip(adjusted_units, rows, strict=True)]
    powers = (2, 0), (3, 0), (4, 0), (1, 1), (2, 1)
    return [math.fsum(e**power * n**times for e, n in left) for power, times in powers]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_residuals_add_up_to_is_that_of_a_list_of_units(estimator):
    rows = units_of()
    sums = sums_of(rows)
    sums.pages[:] = 1.0
    slopes = adjusted(sums, estimator).slopes
    assert slopes.any() == (estimator != "weighted")
    found = sums.residuals(slopes)
    for ranker in range(3):
        expected = by_definition(rows, ranker, slopes[ranker])
        assert [column[ranker] for column in found] == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_ends_are_as_many_errors_away_as_the_transformation_says(confidence):
    rows = units_of(units=200)
    found = estimate(sums_of(rows), ("a", "b", "c"), Rules(confidence), "weighted")
    n, units, drifts = rows[:, -1].sum(), len(rows), []
    for ranker, rate in enumerate(found.rankers):
        squares, cubes, fourths, shown, squares_shown = by_definition(rows, ranker, 0.0)
        error = math.sqrt((1 - 1 / units) * squares) / n / (1 - squares_shown / squares / n)
        g, c = cubes / squares**1.5, shown / (n * math.sqrt(squares))
        freedom = 2.0 / (fourths / squares**2 - 1.0 / units)
        assert 5.0 < freedom < n**2 / (rows[:, -1] ** 2).sum() - 1.0
        drifts.append(abs(c))
        multiplier = float(t_quantile((1.0 - confidence) / 2.0, freedom))
        assert (multiplier > 2.0) == (confidence > 0.9)
        for end, side in ((rate.low, 1.0), (rate.high, -1.0)):
            t = (rate.rate - end) / error / max(multiplier / 2.0, 1.0)
            transformed = t + (g - 3 * c) * t**2 / 3 + (g - 3 * c) ** 2 * t**3 / 27 + g / 6
            assert transformed == pytest.approx(side * min(multiplier, 2.0))
    assert max(drifts) > 1e-3


def test_the_interval_of_losses_is_that_of_gains_reversed():
    rows = units_of()
    mirrored = rows * np.array([-1.0] * 6 + [1.0])
    for rules in INTERVALS:
        gains, losses = (estimate(sums_of(found), ("a", "b", "c"), rules) for found in (rows, mirrored))
        for gain, loss in zip(gains.rankers, losses.rankers, strict=True):
            assert (loss.rate, loss.low, loss.high) == pytest.approx((-gain.rate, -gain.high, -gain.low))
            assert gain.high - gain.rate > gain.rate - gain.low


def covered(rng, draw, users, experiments, mean):
    """Return how often the interval with and without powers holds the mean."""
    held = np.zeros(2)
    for _ in range(experiments):
        shown = np.ceil(rng.lognormal(1.0, 1.0, users))
        rows = np.column_stack([draw(rng, users) * shown, np.zeros((users, 1)), np.zeros((users, 2)), shown])
        known, unknown = sums_of(rows), sums_of(rows)
        unknown.powers[:] = np.nan
        for place, sums in enumerate((known, unknown)):
            rate = estimate(sums, ("a", "b"), Rules())["a"]
            held[place] += rate.low <= mean <= rate.high
    return held / experiments


def test_intervals_of_prices_cover_and_symmetric_ones_do_not():
    rng = np.random.default_rng(8)
    known, unknown = covered(rng, lambda rng, users: rng.lognormal(0.0, 1.0, users), 300, 1000, math.exp(0.5))
    assert unknown < 0.925
    assert 0.935 < known < 0.965


def test_intervals_of_normal_units_are_those_without_powers():
    rows = units_of(units=2000)
    rows[:, :3] = np.random.default_rng(3).normal(1.0, 1.0, (2000, 3))
    rows[:, -1] = 1.0
    sums = sums_of(rows)
    found = estimate(sums, ("a", "b", "c"), Rules())
    sums.powers[:] = np.nan
    for rate, other in zip(found.rankers, estimate(sums, ("a", "b", "c"), Rules()).rankers, strict=True):
        half = (other.high - other.low) / 2.0
        assert (rate.low, rate.high) == pytest.approx((other.low, other.high), abs=0.03 * half)
        assert rate.difference_low == other.difference_low
        assert (rate.lift, rate.lift_high, rate.p) == (other.lift, other.lift_high, other.p)


HARD = {
    "two units": np.array([[1.0, 3.0, 0.2, -0.1, 1.0], [0.0, 9.0, 0.1, 0.3, 7.0]]),
    "two units, one heavy": np.array([[1.0, 3.0, 0.2, -0.1, 1.0], [0.0, 9.0, 0.1, 0.3, 1e6]]),
    "alike": np.tile([0.3, 0.7, 0.0, 0.0, 3.0], (20, 1)),
    "nothing earned": np.tile([0.0, 0.0, 0.0, 0.0, 2.0], (20, 1)),
    "one of a thousand earns": np.vstack([np.tile([0.0, 1.0, 0.0, 0.0, 1.0], (999, 1)), [1e6, -1e6, 0.0, 0.0, 1.0]]),
    "large and alike": np.tile([1e15 / 3, 1e-9, 1e7 / 3, 0.1, 3.0], (50, 1)),
}


@pytest.mark.parametrize("rules", INTERVALS, ids=lambda rules: rules.interval)
@pytest.mark.parametrize("case", HARD)
def test_intervals_of_hard_cases_are_finite_and_hold_the_estimate(case, rules):
    for confidence in (0.05, 0.95):
        for rate in estimate(sums_of(HARD[case]), ("a", "b"), replace(rules, confidence=confidence)).rankers:
            assert math.isfinite(rate.low)
            assert rate.low <= rate.rate <= rate.high < math.inf


def test_powers_merge_reorder_and_can_be_undone():
    rows = units_of(units=45_000)
    sums, parts = sums_of(rows), [sums_of(part) for part in np.array_split(rows, 3)]
    for part in parts[1:]:
        parts[0].merge(part)
    np.testing.assert_allclose(parts[0].powers, sums.powers, rtol=1e-9)
    parts[0].add_units(rows[-7:], -1)
    np.testing.assert_allclose(parts[0].powers, sums_of(rows[:-7]).powers, rtol=1e-9)
    order = np.array([2, 0, 1])
    columns = [2, 0, 1, 5, 3, 4, 6]
    np.testing.assert_array_equal(sums.reordered(order).powers, sums_of(rows[:, columns]).powers)
    np.testing.assert_array_equal(sums.by_unit().powers, sums.powers)


def test_sums_of_earlier_versions_keep_their_symmetric_intervals():
    sums = sums_of(units_of())
    written = json.loads(json.dumps(sums.to_dict()))
    again = RateSums.from_dict(written, 3)
    assert estimate(again, ("a", "b", "c"), Rules()) == estimate(sums, ("a", "b", "c"), Rules())
    del written["powers"]
    older = RateSums.from_dict(written, 3)
    for rate in estimate(older, ("a", "b", "c"), Rules()).rankers:
        assert rate.high - rate.rate == pytest.approx(rate.rate - rate.low)
    assert older.to_dict() == written
    for merged in (older.reordered(np.arange(3)), older.by_unit(), sums_of(units_of(2))):
        merged.merge(older)
        assert merged.residuals(np.zeros(3)) is None
        assert "powers" not in merged.to_dict()
    empty = RateSums.from_dict(RateSums(3).to_dict(), 3)
    empty.merge(sums)
    assert empty.residuals(np.zeros(3)) is not None


def test_values_too_large_to_be_written_are_unknown_when_read():
    sums = sums_of(units_of() * 1e30)
    again = RateSums.from_dict(json.loads(json.dumps(sums.to_dict())), 3)
    assert again.residuals(np.zeros(3)) is None
    assert estimate(again, ("a", "b", "c"), Rules())["b"].rate == estimate(sums, ("a", "b", "c"), Rules())["b"].rate


def test_tallies_of_earlier_versions_know_how_skewed_their_units_are():
    """They keep a row for each unit; only impressions without a unit are in sums."""
    rng, tally = np.random.default_rng(4), ml.Tally(("a", "b"))
    for number in range(60):
        impression = ml.DepthPreference().combine({"a": "wxyz", "b": "zyxw"}, k=2, seed=number)
        tally.add(ml.infer(impression, positions=[0] if rng.random() < 0.2 else []), unit=number % 20)
    written = tally.to_dict()
    assert "powers" not in written["rates"]
    assert ml.Tally.from_dict(written).rates() == tally.rates()
    tally.add(ml.infer(impression, positions=[0]))
    written = tally.to_dict()
    assert ml.Tally.from_dict(written).rates() == tally.rates()
    del written["rates"]["powers"]
    assert ml.Tally.from_dict(written).rates() != tally.rates()


def test_a_grouped_tally_keeps_powers_as_units_change():
    rows, tally = units_of(), GroupedTally(("a", "b", "c"), valued=True)
    for row in rows:
        tally.change_rates(None, row * 0.5)
        tally.change_rates(row * 0.5, row)
    np.testing.assert_allclose(tally.rate_sums().powers, sums_of(rows).powers, rtol=1e-9)
    again = GroupedTally.from_dict(json.loads(json.dumps(tally.to_dict())))
    np.testing.assert_array_equal(again.rate_sums().powers, tally.rate_sums().powers)
    again.change_rates(rows[0], None)
    np.testing.assert_allclose(again.rate_sums().powers, sums_of(rows[1:]).powers, rtol=1e-9)
