"""Rates: estimates, intervals and lifts follow from the units' rows, and tallies keep, merge and change them."""

import json
from fractions import Fraction

import numpy as np
import pytest

import multileave as ml
from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats.rates.estimating import adjusted, estimate, lift
from multileave.stats.rates.records import RankerRate, Rates
from multileave.stats.rates.sums import RateSums
from multileave.stats.rates.wording import note_on, rate_words
from multileave.stats.verdict.rules import Rules

RANKERS = ("bm25", "dense", "ltr")
DOCUMENTS = [f"d{number}" for number in range(15)]


def outcome(rng, rankers=RANKERS):
    """Return what a simulated user says about rankings that differ."""
    lists = {name: list(rng.permutation(DOCUMENTS)) for name in rankers}
    impression = ml.DepthPreference().combine(lists, k=5, seed=int(rng.integers(2**60)))
    clicked = [x for x in range(5) if rng.random() < 0.3 / (1 + x)]
    return ml.infer(impression, positions=clicked)


def filled(seed=1, impressions=400, units=60):
    rng = np.random.default_rng(seed)
    rows = [(outcome(rng), int(units * rng.random() ** 2)) for _ in range(impressions)]
    tally = ml.Tally(RANKERS)
    for found, unit in rows:
        tally.add(found, unit=unit)
    return tally, rows


def test_the_covariance_is_that_of_units_residuals():
    tally, rows = filled()
    units = sorted({unit for _, unit in rows})
    per_unit = np.array([sum(o.alone[:2] for o, unit in rows if unit == one) for one in units])
    counts = np.array([sum(unit == one for _, unit in rows) for one in units])
    totals, covariance, _ = adjusted(tally.rate_sums(), "weighted")
    np.testing.assert_allclose(totals, per_unit[:, 0].sum(axis=0))
    left = per_unit[:, 0] - np.outer(counts, totals / counts.sum())
    np.testing.assert_allclose(covariance, left.T @ left * len(units) / (len(units) - 1), rtol=1e-9)


def test_doubly_robust_has_the_least_total_variance_of_all_common_slopes():
    tally, rows = filled()
    least = np.trace(adjusted(tally.rate_sums(), "doubly robust").covariance)
    for slope in np.linspace(-1.0, 2.0, 31):
        other = ml.Tally(RANKERS)
        for found, unit in rows:
            earned, surplus, page = found.alone
            moved = np.array([earned - slope * surplus, surplus, page])
            other.add(Outcome(RANKERS, found.kind, found.values, moved), unit=unit)
        assert least <= np.trace(adjusted(other.rate_sums(), "weighted").covariance) * (1 + 1e-9)


def test_the_normalised_estimator_divides_by_what_was_shown_of_the_page():
    tally, rows = filled()
    earned = sum(o.alone[0] for o, _ in rows)
    shown = sum(o.alone[1] + o.alone[2] for o, _ in rows)
    page = sum(o.alone[2] for o, _ in rows) / len(rows)
    found = tally.rates(estimator="normalised")
    np.testing.assert_allclose([rate.rate for rate in found.rankers], earned / shown * page)


def test_lift_and_difference_agree_on_what_is_significant():
    for seed in range(20):
        found = filled(seed, impressions=150, units=30)[0].rates(control="dense")
        for rate in found.rankers:
            if rate.ranker == "dense":
                assert rate.difference is rate.lift is rate.p is None
                continue
            assert rate.difference == pytest.approx(rate.rate - found["dense"].rate)
            if rate.lift_low is None:
                continue
            assert rate.lift == pytest.approx(rate.difference / found["dense"].rate)
            assert rate.lift_low <= rate.lift <= rate.lift_high
            excluded = not rate.difference_low <= 0.0 <= rate.difference_high
            assert excluded == (not rate.lift_low <= 0.0 <= rate.lift_high) == (rate.p < 0.05)


def test_lift_of_known_numbers():
    """Fieller's interval with independent sums of 120 and 100, each with variance 25, at two standard errors."""
    first, second, squared = Fraction(120), Fraction(100), Fraction(4)
    leading, middle = second**2 - squared * 25, first * second
    root = middle**2 - leading * (first**2 - squared * 25)
    ends = [float(middle / leading) + sign * float(root) ** 0.5 / float(leading) - 1.0 for sign in (-1, 1)]
    assert lift(120.0, 100.0, 25.0 * np.eye(2), 2.0, counts=True) == pytest.approx((0.2, *ends))
    assert lift(5.0, 4.0, 25.0 * np.eye(2), 2.0, counts=True) == (0.25, None, None)
    assert lift(5.0, 0.0, 25.0 * np.eye(2), 2.0, counts=True) == (None, None, None)


def one_sided(values=None, units=40):
    """Return a tally in which hardly anyone clicks what only "b" has, so that its rate may be 0."""
    rng = np.random.default_rng(5)
    tally = ml.Tally(("a", "b"))
    for unit in range(400):
        impression = ml.DepthPreference().combine({"a": "wxyz", "b": "zyxw"}, k=2, seed=unit)
        clicked = [d for d in impression.shown if rng.random() < {"w": 0.5, "x": 0.4, "y": 0.01, "z": 0.005}[d]]
        valued = None if values is None else dict.fromkeys(clicked, values)
        tally.add(ml.infer(impression, clicked, values=valued), unit=unit % units)
    return tally


@pytest.mark.parametrize("interval", ["clustered", "anytime"])
def test_the_lift_of_counts_ends_at_minus_100_percent_and_that_of_values_does_not(interval):
    clicks, values = one_sided(), one_sided(1.0)
    found, free = (tally.verdict(interval=interval).rates["b"] for tally in (clicks, values))
    assert (free.difference, free.p) == (found.difference, found.p)
    assert free.lift_low < -1.0
    assert found.lift_low == -1.0
    assert (found.lift, found.lift_high) == (max(free.lift, -1.0), max(free.lift_high, -1.0))
    assert (found.difference_high < 0.0) == (found.lift_high < 0.0)
    again = ml.Tally.from_dict(json.loads(json.dumps(values.to_dict())))
    merged = one_sided(units=3).merge(again)
    assert merged.rate_sums().valued
    assert ml.Tally(("b", "a")).merge(again).rate_sums().valued
    assert "valued" not in clicks.to_dict()["rates"]


@pytest.mark.parametrize("interval", ["clustered", "anytime"])
def test_the_rate_of_counts_ends_at_0_and_that_of_values_does_not(interval):
    found, free = (tally.verdict(interval=interval).rates["b"] for tally in (one_sided(), one_sided(1.0)))
    assert free.low < 0.0
    assert (found.rate, found.low, found.high) == (max(free.rate, 0.0), 0.0, free.high)
    assert found.difference == free.difference
    below = RateSums(2)
    below.add_units(np.array([[1.0, -2.0 - unit % 2, 0.0, 0.0, 1.0] for unit in range(9)]))
    below.seen = 9
    rates = estimate(below, ("a", "b"), Rules())
    assert (rates["b"].rate, rates["b"].low, rates["b"].high) == (0.0, 0.0, 0.0)
    below.valued = True
    assert estimate(below, ("a", "b"), Rules())["b"].high < 0.0


def test_a_value_that_replaces_a_click_is_remembered():
    impression = ml.DepthPreference().combine({"a": "wxyz", "b": "zyxw"}, k=2, seed=1)
    tally = ml.Tally(("a", "b"))
    clicked = ml.infer(impression, positions=[0])
    tally.add(clicked, unit="u")
    assert not tally.rate_sums().valued
    tally.replace(clicked, ml.infer(impression, values={impression.shown[0]: -2.0}), unit="u")
    assert tally.rate_sums().valued


def test_equal_rankers_have_no_difference():
    tally = ml.Tally(("a", "b"))
    for seed in range(50):
        impression = ml.PairwisePreference().combine({"a": DOCUMENTS, "b": DOCUMENTS}, k=3, seed=seed)
        tally.add(ml.infer(impression, positions=[seed % 3] if seed % 4 else []), unit=seed)
    rates = tally.verdict().rates
    assert (rates["b"].difference, rates["b"].lift, rates["b"].lift_low, rates["b"].lift_high) == (0, 0, 0, 0)
    assert rates["b"].p == 1.0
    assert rates["a"].rate == pytest.approx(sum(seed % 4 > 0 for seed in range(50)) / 50)


def test_verdicts_hold_the_rates_of_their_tally():
    tally, _ = filled()
    for interval in ("clustered", "anytime"):
        assert tally.verdict(interval=interval, control="ltr").rates == tally.rates(interval=interval, control="ltr")
    wider, narrower = tally.rates(interval="anytime")["ltr"], tally.rates()["ltr"]
    assert wider.low < narrower.low < narrower.rate == wider.rate
    assert wider.lift_high > narrower.lift_high
    assert json.loads(json.dumps(tally.verdict().to_dict()))["rates"]["rankers"][0]["ranker"] == "bm25"


def test_any_split_and_order_merges_to_the_same_rates():
    tally, rows = filled()
    parts = [ml.Tally(RANKERS if number % 2 else RANKERS[::-1]) for number in range(3)]
    for number, (found, unit) in enumerate(rows):
        parts[number % 3].add(found, unit=unit)
    merged = ml.Tally(RANKERS).merge(parts[2]).merge(parts[0]).merge(parts[1])
    np.testing.assert_allclose(merged.rate_sums().products, tally.rate_sums().products, rtol=1e-12, atol=1e-9)
    assert merged.rates()["ltr"].lift == pytest.approx(tally.rates()["ltr"].lift)


@pytest.mark.parametrize("unit", ["u", None])
def test_a_late_click_replaces_what_its_impression_said(unit):
    rng = np.random.default_rng(5)
    impression = ml.DepthPreference().combine({name: list(rng.permutation(DOCUMENTS)) for name in RANKERS}, 5, seed=2)
    before, after = ml.infer(impression), ml.infer(impression, positions=[0, 3])
    late, direct = filled()[0], filled()[0]
    late.add(before, unit=unit)
    late.replace(before, after, unit)
    direct.add(after, unit=unit)
    for name in ("totals", "products", "powers", "seen", "pages", "squares"):
        ours, theirs = getattr(late.rate_sums(), name), getattr(direct.rate_sums(), name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-9)


def test_tallies_written_and_read_have_the_same_rates():
    tally, _ = filled()
    tally.add(outcome(np.random.default_rng(9)))
    again = ml.Tally.from_dict(json.loads(json.dumps(tally.to_dict())))
    assert again == tally
    assert again.rates() == tally.rates()
    older = {key: value for key, value in tally.to_dict().items() if key != "rates"}
    assert ml.Tally.from_dict(older).rates() is None


def test_impressions_without_propensities_are_left_out():
    tally, rows = filled()
    for number in range(50):
        tally.add(Outcome(RANKERS, "difference", np.array([1.0, 0.0, 0.5])), unit=number)
    assert tally.rates().impressions == len(rows) < tally.impressions
    assert tally.rates()["ltr"] == filled()[0].rates()["ltr"]
    other = ml.Tally(RANKERS)
    other.add(Outcome(RANKERS, "difference", np.zeros(3)), unit=1)
    other.add(Outcome(RANKERS, "difference", np.zeros(3)), unit=2)
    assert other.verdict().rates is None


def test_rates_are_worded_and_shown_in_notebooks():
    tally, _ = filled()
    verdict = tally.verdict(control="dense")
    lines = str(verdict.rates).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(f"dense alone: {verdict.rates['dense'].rate:.2f} clicks per page, 95 % CI ")
    assert " %, 95 % CI " in lines[0]
    assert all(line in verdict._repr_html_() for line in lines)
    assert verdict.rates.assumption in verdict._repr_html_()
    assert "valid at any time" in str(tally.rates(interval="anytime"))


@pytest.mark.parametrize(("half", "words"), [
    (0.49, "0.40 clicks per page, +20 %, 95 % CI -29 to 69"),
    (0.51, "between 0.10 and 0.70 clicks per page, lift between -31 and 71 % (95 % CI)"),
])  # fmt: skip
def test_an_estimate_that_could_be_anything_is_not_worded(half, words):
    control = RankerRate("bm25", 0.4, 0.3, 0.5)
    other = RankerRate("ltr", 0.4, 0.1, 0.7, 0.1, -0.1, 0.3, 0.2, 0.2 - half, 0.2 + half, 0.4, 0.4, False)
    rates = Rates("bm25", "doubly robust", 900, 100, 0.95, False, (control, other))
    assert rate_words(rates, other) == words
    assert rates.precise == other.precise == (half < 0.5)
    assert note_on(rates, ml.get_method("dpm")).startswith("" if rates.precise else "Too imprecise to act on. More")
    assert bool(note_on(rates, ml.get_method("rpm"))) == (not rates.precise)


def test_a_wide_interval_of_the_control_stands_alone():
    control = RankerRate("bm25", 0.4, -0.1, 0.9)
    rates = Rates("bm25", "doubly robust", 900, 100, 0.95, True, (control,))
    assert rate_words(rates, control) == "between -0.10 and 0.90 clicks per page (95 % CI, valid at any time)"


@pytest.mark.parametrize("spec", ["tdm", "om", "pm", "rpm", "rpm(lead=0)", "rpm(lead=5)"])
def test_methods_without_useful_rates_say_what_to_do(spec):
    note = note_on(None, ml.get_method(spec))
    assert note.startswith("No rates: ")
    assert "use dpm, or rpm(lead=2)" in note


@pytest.mark.parametrize("spec", ["ppm", "dpm", "opm", "rpm(lead=1)", "rpm(lead=4)"])
def test_methods_with_useful_rates_have_no_advice(spec):
    assert ml.get_method(spec).rates_advice == ""


def weighted(rows, factor_of):
    """Return a tally of units whose impressions are one, with everything they say multiplied by a factor."""
    tally = ml.Tally(RANKERS)
    for unit in {unit for _, unit in rows}:
        own = [found for found, other in rows if other == unit]
        factor = factor_of(len(own))
        if factor:
            tally._units.add(unit, np.zeros(3), by_pair=False, clicks=0)
            row = tally._units.find(unit)
            for found in own:
                tally._rates.add(found.alone, row)
            tally._rates.rows[row] *= factor
    return tally


@pytest.mark.parametrize(("options", "factor_of"), [
    ({"cap": 8}, lambda n: float(n <= 8)),
    ({"winsorise": 5}, lambda n: min(n, 5) / n),
    ({"estimand": "users"}, lambda n: 1 / n),
    ({"estimand": "users", "cap": 8}, lambda n: (n <= 8) / n),
], ids=["cap", "winsorise", "users", "users and cap"])  # fmt: skip
def test_rates_weight_units_as_preferences_are_weighted(options, factor_of):
    tally, rows = filled()
    found, expected = tally.rates(**options), weighted(rows, factor_of).rates()
    for rate, other in zip(found.rankers, expected.rankers, strict=True):
        assert (rate.rate, rate.low, rate.high) == pytest.approx((other.rate, other.low, other.high))
        assert rate.rate != pytest.approx(tally.rates()[rate.ranker].rate)
    assert (found.units, found.impressions) == (expected.units, expected.impressions)
    assert tally.verdict(**options).rates == found
    assert tally.rates(interval="anytime", **options)["ltr"].low < found["ltr"].low


def test_unknown_names_are_refused():
    tally, _ = filled()
    with pytest.raises(TallyError, match="expected one of the rankers"):
        tally.verdict(control="lrt")
    with pytest.raises(TallyError, match="estimator"):
        tally.rates(estimator="ips")
    with pytest.raises(TallyError, match="no ranker"):
        tally.rates()["lrt"]
    broken = Outcome(RANKERS, "difference", np.zeros(3), np.zeros((2, 3)))
    with pytest.raises(TallyError, match="shape"):
        tally.add(broken)


def test_removing_a_unit_leaves_the_others():
    rng = np.random.default_rng(3)
    sums, rows = RateSums(3), rng.normal(size=(40, 7)) + 2.0
    rows[:, -1] = rng.integers(1, 9, 40)
    sums.add_units(rows)
    sums.add_units(rows[:10], -1)
    kept = RateSums(3)
    kept.add_units(rows[10:])
    np.testing.assert_allclose(sums.products, kept.products, rtol=1e-10)
    assert (sums.units, sums.impressions) == (kept.units, kept.impressions)
