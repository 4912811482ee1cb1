"""Corrections, shares, the bootstrap and the sign test against slow or known values."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import Rules, Tally
from multileave.stats.intervals.clustered import wilson
from multileave.stats.intervals.corrections import CORRECTIONS, benjamini_hochberg, holm
from multileave.stats.intervals.crosschecks import sign_test

AB = ("a", "b")


def visits(users, mean=0.3, seed=0, tail=1.0):
    """A tally of users with tastes who come back; the truth is the mean."""
    rng = np.random.default_rng(seed)
    counts = np.ceil(rng.lognormal(1.0, tail, users)).astype(int)
    taste = rng.normal(mean, 0.5, users)
    sums = taste * counts + rng.normal(0.0, 1.0, users) * np.sqrt(counts)
    credits = np.column_stack([sums, np.zeros(users)])
    return Tally.from_sums(AB, list(range(users)), counts, credits, np.array([1.34 * counts.sum()]))


def test_benjamini_hochberg_finds_the_largest_step_that_holds():
    p = np.array([0.01, 0.013, 0.014, 0.19, 0.35, 0.5, 0.63, 0.67, 0.75, 0.81])
    found = benjamini_hochberg(p)
    assert (found <= 0.05).tolist() == [True] * 3 + [False] * 7
    assert found[:3] == pytest.approx([0.14 / 3] * 3)
    assert (found <= holm(p)).all()


@pytest.mark.parametrize("seed", range(5))
def test_corrections_equal_their_definitions(seed):
    p = np.random.default_rng(seed).random(7) ** 3
    order = np.argsort(p)
    for rank, at in enumerate(order):
        smaller = [(7 - r) * p[order[r]] for r in range(rank + 1)]
        larger = [7 / (r + 1) * p[order[r]] for r in range(rank, 7)]
        assert holm(p)[at] == pytest.approx(min(max(smaller), 1.0))
        assert benjamini_hochberg(p)[at] == pytest.approx(min(min(larger), 1.0))
    assert CORRECTIONS["none"](p).tolist() == p.tolist()
    with pytest.raises(TallyError, match=r"Did you mean 'holm'\?"):
        Rules(correction="home")


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 0), (3, 3), (9, 1), (12, 30)])
def test_sign_test_counts_the_tails(wins, losses):
    from math import comb

    n = wins + losses
    tail = sum(comb(n, x) for x in range(min(wins, losses) + 1)) / 2**n
    assert sign_test(np.array([wins]), np.array([losses]))[0] == pytest.approx(min(2 * tail, 1.0) if n else 1.0)


def test_wilson_solves_its_equation_and_stays_between_zero_and_one():
    share, low, high = wilson(np.array([30]), np.array([70]), 100, np.array([1.96]))
    assert share[0] == 0.3
    for edge in (low[0], high[0]):
        assert (0.3 - edge) ** 2 == pytest.approx(1.96**2 * edge * (1 - edge) / 100)
    for wins, losses in itertools.product((0, 10), repeat=2):
        share, low, high = wilson(np.array([wins]), np.array([losses]), 20, np.array([1.96]))
        assert 0.0 <= low[0] <= share[0] <= high[0] <= 1.0


def test_the_share_of_users_is_read_from_their_sums_ties_half():
    tally = Tally(AB)
    for user, values in {"u": (1, 1, -3), "v": (1,), "w": (1, -1), "x": (2,)}.items():
        for value in values:
            tally.add(Outcome(AB, "difference", np.array([float(value), 0.0])), user)
    tally.add(Outcome(AB, "difference", np.array([0.0, 1.0])))
    pair = tally.verdict().pairs[0]
    assert pair.share == pytest.approx((2 + 0.5) / 5)
    assert pair.share_low < pair.share < pair.share_high
    assert pair.reversed.share == pytest.approx(1 - pair.share)
    assert pair.reversed.share_low == pytest.approx(1 - pair.share_high)


def test_the_bootstrap_agrees_with_the_default_interval_on_many_users():
    tally = visits(800)
    default, drawn = tally.verdict().pairs[0], tally.verdict(interval="bootstrap", seed=4).pairs[0]
    assert drawn.preference == default.preference
    width = default.high - default.low
    assert (drawn.low, drawn.high) == pytest.approx((default.low, default.high), abs=0.1 * width)
    assert drawn == tally.verdict(interval="bootstrap", seed=4).pairs[0]
    assert drawn != tally.verdict(interval="bootstrap", seed=5).pairs[0]


def test_the_bootstrap_is_wider_where_few_heavy_users_decide():
    tally = visits(30, seed=3, tail=1.5)
    normal = tally.moments().errors[0] * 1.96
    drawn = tally.verdict(interval="bootstrap").pairs[0]
    assert (drawn.high - drawn.low) / 2 > normal


def test_bootstrap_p_and_interval_agree():
    for seed in range(8):
        pair = visits(60, mean=0.15, seed=seed).verdict(interval="bootstrap", seed=seed).pairs[0]
        if abs(pair.p - 0.05) > 0.002:
            assert (pair.p <= 0.05) == (not pair.low <= 0.0 <= pair.high)


def test_the_bootstrap_says_what_it_cannot_do():
    tally = Tally(AB)
    for x in (1.0, 0.0, 2.0):
        tally.add(Outcome(AB, "difference", np.array([x, 0.0])))
    with pytest.raises(TallyError, match="3 units of this tally"):
        tally.verdict(interval="bootstrap")
    names = tuple("abcdefghijklmno")
    many = Tally.from_sums(names, [1, 2], np.ones(2, dtype=int), np.random.default_rng(0).random((2, 15)), np.ones(105))
    with pytest.raises(TallyError, match=r"replicates=1999.*105 comparisons.*replicates=21000 or more"):
        many.verdict(interval="bootstrap")


def test_simultaneous_intervals_exclude_zero_only_for_significant_pairs():
    rng = np.random.default_rng(2)
    credits = rng.normal([0.0, 0.1, 0.2, 0.25], 1.0, (500, 4))
    squares = np.full(6, 1000.0)
    tally = Tally.from_sums(tuple("abcd"), list(range(500)), np.ones(500, dtype=int), credits, squares)
    for interval in ("clustered", "anytime"):
        alone, together = (tally.verdict(interval=interval, simultaneous=s) for s in (False, True))
        for a, b in zip(alone.pairs, together.pairs, strict=True):
            assert b.low < a.low < a.high < b.high
            assert (a.p, a.significant) == (b.p, b.significant)
            if not b.low <= 0.0 <= b.high:
                assert b.significant
            assert (b.p <= 0.05 / 6) == (not b.low <= 0.0 <= b.high)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval": "anytme"}, "Did you mean 'anytime'"),
        ({"correction": "bonferroni"}, "expected one of holm, max-t, bh, by, none"),
        ({"tuned_for": 0}, "tuned_for is 0"),
        ({"tuned_for": float("nan")}, "tuned_for is nan"),
        ({"replicates": 5}, "replicates is 5"),
        ({"replicates": 1e3}, "replicates is 1000.0"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options, words):
    with pytest.raises(TallyError, match=words):
        Rules(**options)


@pytest.mark.parametrize("correction", ["holm", "bh", "by", "none"])
def test_each_correction_decides_what_it_says(correction):
    credits = np.random.default_rng(6).normal([0.0, 0.0, 0.145], 1.0, (400, 3))
    tally = Tally.from_sums(tuple("abc"), list(range(400)), np.ones(400, dtype=int), credits, np.full(3, 800.0))
    verdict = tally.verdict(correction=correction)
    expected = CORRECTIONS[correction](np.array([pair.p for pair in verdict.pairs]))
    assert [pair.p_corrected for pair in verdict.pairs] == expected.tolist()
    words = {"holm": "Holm", "bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli", "none": "no correction"}
    assert words[correction] in verdict.table()
    signs = CORRECTIONS[correction](np.array([pair.sign_p for pair in verdict.pairs]))
    assert [pair.sign_p_corrected for pair in verdict.pairs] == signs.tolist()


def test_benjamini_and_yekutieli_bound_false_discoveries_where_differences_depend_on_each_other():
    rng = np.random.default_rng(9)
    first, second = np.triu_indices(4, 1)
    means = np.array([0.0, 0.0, 0.0, 4.0])
    shares = {"bh": 0.0, "by": 0.0}
    for _ in range(2000):
        noisy = rng.normal(means, 1.0)
        p = 2.0 * ndtr(-np.abs(noisy[first] - noisy[second]) / np.sqrt(2.0))
        null = means[first] == means[second]
        for name in shares:
            found = CORRECTIONS[name](p) <= 0.05
            shares[name] += (found & null).sum() / max(found.sum(), 1) / 2000
    assert shares["by"] <= 0.02 < shares["bh"] <= 0.05


def test_the_sign_test_is_left_out_of_verdicts_that_are_valid_at_any_time():
    tally = visits(60, mean=0.15)
    (pair,), (at_any_time,) = tally.verdict().pairs, tally.verdict(interval="anytime").pairs
    assert pair.sign_p == pair.sign_p_corrected == sign_test(*[[tally.moments()[at][0]] for at in (6, 7)])[0]
    assert (at_any_time.sign_p, at_any_time.sign_p_corrected) == (None, None)


TENTHS, HALVES = (0.1, 0.2, -0.3), (0.5, -0.5)


@pytest.mark.parametrize("interval", ["clustered", "anytime", "bootstrap"])
@pytest.mark.parametrize("visit", [TENTHS, HALVES])
@pytest.mark.filterwarnings("error")
def test_preferences_that_cancel_have_an_interval_about_zero(interval, visit):
    tally = Tally(AB)
    for user in range(50):
        for value in visit:
            tally.add(Outcome(AB, "difference", np.array([value, 0.0])), user)
    verdict = tally.verdict(interval=interval)
    (pair,) = verdict.pairs
    assert (pair.preference, pair.p, pair.significant, pair.share) == (0.0, 1.0, False, 0.5)
    assert pair.high == -pair.low >= 1.9 * np.sqrt(50 * np.square(visit).sum()) / (50 * len(visit))
    assert verdict.sentence.startswith("No significant difference between a and b yet: +0.0")


@pytest.mark.filterwarnings("error")
def test_units_that_are_alike_need_no_forecast():
    tally = Tally(AB)
    for user in range(10):
        for value in (2.0, -1.0):
            tally.add(Outcome(AB, "difference", np.array([value, 0.0])), user)
    assert tally.verdict(interval="anytime").winner == "a"


def coverage(interval, users, tail, repetitions=500):
    held = 0
    for seed in range(repetitions):
        pair = visits(users, mean=0.3, seed=seed, tail=tail).verdict(interval=interval).pairs[0]
        held += pair.low <= 0.3 <= pair.high
    return held / repetitions


@pytest.mark.parametrize(("users", "tail"), [(60, 1.5), (300, 1.0)])
def test_coverage_with_heavy_users_is_near_95_percent(users, tail):
    # The standard error of 500 repetitions is 1 %.
    assert coverage("clustered", users, tail) == pytest.approx(0.95, abs=0.03)


def test_coverage_of_the_sequence_at_one_look_is_above_that():
    assert coverage("anytime", 300, 1.0, 200) >= 0.97
