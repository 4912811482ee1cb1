import json
import warnings

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import PairVerdict, Tally, Verdict
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.corrections import holm
from multileave.stats.intervals.moments import Moments

ABC = ("bm25", "dense", "ltr")


def tally_of(credits, rankers=ABC, unit=lambda u: u):
    """A tally with the credits (units, R) of one impression per unit."""
    tally = Tally(rankers)
    for u, row in enumerate(credits):
        tally.add(Outcome(rankers, "difference", np.array(row, dtype=float)), unit(u))
    return tally


def noisy(means, units=400, seed=0, noise=1.0):
    return np.random.default_rng(seed).normal(means, noise, (units, len(means)))


def made(rankers, decided, others=0.01, units=100):
    """A verdict in which the pairs named in `decided` are significant, in that direction."""
    pairs = []
    for n, first in enumerate(rankers):
        for second in rankers[n + 1 :]:
            sign = 1 if (first, second) in decided else -1 if (second, first) in decided else 0
            mean = sign * 0.5 or others
            p = 0.001 if sign else 0.8
            pairs.append(PairVerdict((first, second), mean, mean - 0.1, mean + 0.1, p, p, bool(sign)))
    return Verdict(tuple(rankers), 3 * units, units, 0.95, tuple(pairs))


def test_the_sentence_names_preference_interval_users_and_what_is_open():
    verdict = made(["bm25", "dense", "ltr"], {("ltr", "bm25")}, units=18_240)
    assert str(verdict) == (
        "ltr is preferred to bm25: +0.50 per impression (95 % CI 0.40 to 0.60), 18,240 users; "
        "no significant difference between ltr and dense yet"
    )
    assert verdict.winner is None
    assert verdict.undecided == (("bm25", "dense"), ("dense", "ltr"))
    assert verdict.leaders == ("ltr", "dense")


def test_the_winner_is_preferred_to_every_other_ranker():
    verdict = made(ABC, {("ltr", "bm25"), ("ltr", "dense")})
    assert verdict.winner == "ltr"
    assert verdict.leaders == ("ltr",)
    assert str(verdict) == (
        "ltr is preferred to bm25 and dense: at least +0.50 per impression "
        "(95 % CI 0.40 to 0.60; against bm25), 100 users"
    )


def test_many_rankers_are_counted_rather_than_listed():
    rankers = [f"r{i}" for i in range(15)]
    verdict = made(rankers, {("r3", other) for other in rankers if other != "r3"})
    assert str(verdict) == (
        "r3 is preferred to all 14 others: at least +0.50 per impression (95 % CI 0.40 to 0.60; against r0), "
        "100 users; 14 of 105 pairs significant"
    )
    some = made(rankers, {("r3", other) for other in rankers[6:]})
    assert some.winner is None
    assert "r3 is preferred to 9 others" in str(some)
    assert "; no significant difference from 5 others yet; 9 of 105 pairs significant" in str(some)
    assert str(made(rankers, set())).startswith("No significant difference between 15 rankers yet: at most +0.01")


def test_the_number_of_the_sentence_is_that_of_the_closest_beaten_ranker():
    verdict = tally_of(noisy([0.0, 1.0, 3.0])).verdict()
    closest = verdict.pair("ltr", "dense")
    assert f"at least +{closest.preference:.2f} per impression (95 % CI {closest.low:.2f} to" in str(verdict)
    assert "against dense" in str(verdict)


def test_who_is_preferred_to_more_rankers_leads_before_who_has_the_higher_mean():
    verdict = made(list("abcd"), {("b", "c")}, others=0.4)
    assert verdict.preferences[0].sum() > verdict.preferences[1].sum()
    assert verdict.leaders == ("b", "a", "d")
    assert str(verdict).startswith("b is preferred to c")
    assert str(verdict).endswith("; no significant difference from a and d yet; 1 of 6 pairs significant")


def test_two_rankers_that_cannot_be_told_apart():
    assert str(made(["a", "b"], set(), others=-0.02)) == (
        "No significant difference between b and a yet: +0.02 per impression (95 % CI -0.08 to 0.12), 100 users"
    )


def test_a_circle_of_preferences_has_no_winner_and_the_sentence_says_so():
    circle = {("a", "b"), ("b", "c"), ("c", "a")}
    for rankers in ("abc", "abcd"):
        verdict = made(list(rankers), circle)
        assert verdict.winner is None
        assert "cycle" in str(verdict)


def test_a_pair_reads_in_both_directions():
    verdict = tally_of(noisy([0.0, 0.3, 1.0])).verdict()
    there, back = verdict.pair("bm25", "ltr"), verdict.pair("ltr", "bm25")
    assert there.rankers == ("bm25", "ltr")
    assert there.preference < 0 < back.preference
    assert (back.preference, back.low, back.high) == (-there.preference, -there.high, -there.low)
    assert there.preferred == back.preferred == "ltr"
    for n, first in enumerate(ABC):
        for m, second in enumerate(ABC):
            if n != m:
                assert verdict.pair(first, second).preference == verdict.preferences[n, m]
    with pytest.raises(TallyError, match="Did you mean 'ltr'"):
        verdict.pair("lrt", "bm25")
    with pytest.raises(TallyError, match="itself"):
        verdict.pair("ltr", "ltr")


def test_dict_holds_every_pair_and_is_json():
    verdict = tally_of(noisy([0.0, 0.0, 1.0])).verdict(0.9)
    data = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert {key: data[key] for key in ("rankers", "impressions", "units", "confidence", "winner")} == {
        "rankers": list(ABC), "impressions": 400, "units": 400, "confidence": 0.9, "winner": "ltr",
    }  # fmt: skip
    assert (data["interval"], data["correction"], data["anytime"]) == ("clustered", "holm", False)
    assert data["sentence"] == verdict.sentence
    assert [pair["rankers"] for pair in data["pairs"]] == [["bm25", "dense"], ["bm25", "ltr"], ["dense", "ltr"]]
    for record, pair in zip(data["pairs"], verdict.pairs, strict=True):
        assert record["low"] < record["preference"] < record["high"]
        assert (record["p"], record["significant"]) == (pair.p, pair.significant)


def test_the_table_has_a_line_per_pair_and_names_the_open_ones():
    lines = made(ABC, {("ltr", "bm25")}).table().splitlines()
    assert len(lines) == 2 + 3
    assert "95 % CI, Holm, 100 users" in lines[0]
    assert lines[2].split() == ["bm25", "dense", "0.01", "-0.09", "0.11", "0.800", "0.800", "50.0", "%", "open"]
    assert lines[3].split() == [
        "bm25", "ltr", "-0.50", "-0.60", "-0.40", "0.001", "0.001", "50.0", "%", "ltr", ">", "bm25"
    ]  # fmt: skip


def test_holm_decides_less_than_each_pair_alone():
    assert holm(np.array([0.04, 0.01, 0.02, 0.5])).tolist() == pytest.approx([0.08, 0.04, 0.06, 0.5])
    assert holm(np.array([0.7, 0.8])).tolist() == [1.0, 1.0]
    verdict = tally_of(noisy([0.0, 0.0, 0.145], seed=6)).verdict()
    alone = [pair for pair in verdict.pairs if pair.p <= 0.05]
    assert any(not pair.significant for pair in alone)
    for pair in verdict.pairs:
        assert (pair.p <= 0.05) == (not pair.low <= 0.0 <= pair.high)
        assert pair.significant == (pair.p_corrected <= 0.05)
        assert pair.p_corrected >= pair.p


def test_a_higher_confidence_is_wider():
    tally = tally_of(noisy([0.0, 0.2], units=50), ("a", "b"))
    low, high = tally.verdict(0.8).pairs[0], tally.verdict(0.99).pairs[0]
    assert high.low < low.low < low.preference < low.high < high.high
    assert low.p == high.p


def test_family_wise_error_of_many_equal_rankers_stays_below_the_level():
    rankers = tuple("abcdef")
    alarms = sum(
        any(pair.significant for pair in tally_of(noisy([0.0] * 6, 100, seed), rankers).verdict().pairs)
        for seed in range(200)
    )
    assert alarms <= 20


def test_no_clicks_are_said_and_no_number_is_printed():
    verdict = tally_of(np.zeros((40, 3)), unit=lambda u: u // 2).verdict()
    assert verdict.sentence == (
        "No preference between bm25, dense and ltr in 40 impressions of 20 users: "
        "there are no clicks, or none favours a ranker"
    )
    assert verdict.winner is None
    assert len(verdict.undecided) == 3
    assert [(pair.preference, pair.low, pair.high, pair.p) for pair in verdict.pairs] == [(0, 0, 0, 1)] * 3
    assert "open" in verdict.table()


@pytest.mark.parametrize("unit", [lambda u: u, lambda u: None, lambda u: u % 30], ids=["units", "single", "visits"])
def test_rankers_that_are_always_credited_alike_are_undecided_beside_others(unit):
    credits = noisy([0.0, 1.0], units=200)
    verdict = tally_of(np.column_stack([credits[:, 0], credits]), unit=unit).verdict()
    assert verdict.undecided == (("bm25", "dense"),)
    assert verdict.winner == "ltr"
    assert verdict.pair("bm25", "dense").p == 1.0


@pytest.mark.parametrize("preference", [1.0, 0.1, -1 / 3])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("units", [2, 5, 6, 50, 199, 3000])
def test_units_that_all_say_the_same_are_judged_by_the_sign_test(preference, alone, units):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tally = tally_of([(preference, 0.0)] * units, ("a", "b"), unit=lambda u: None if alone else u)
        verdict = tally.verdict()
    pair = verdict.pairs[0]
    assert pair.p == pytest.approx(0.5 ** (units - 1), rel=1e-6)
    assert pair.significant == (units >= 6) == (not pair.low <= 0 <= pair.high)
    assert pair.low <= pair.preference <= pair.high
    assert json.dumps(verdict.to_dict(), allow_nan=False)
    assert str(verdict)


def test_units_that_all_say_the_same_with_different_activity_have_no_variance():
    tally = Tally(["a", "b"])
    for user in range(20):
        for _ in range(user + 1):
            tally.add(Outcome(("a", "b"), "difference", np.array([0.1, 0.0])), user)
    assert tally.verdict().pairs[0].p == pytest.approx(0.5**19)


def test_enormous_statistics_neither_warn_nor_leave_the_range_of_a_probability():
    totals, counts = np.array([1e6, -1e6, 0.0]), np.array([1000, 0, 0])
    variances = np.array([1e-3, 1e-200, 0.0])
    moments = Moments(1000, 1000, 1000.0, totals, variances, totals**2 / 1000, counts, counts[::-1])
    for interval in (clustered, anytime):
        means, lows, highs, p, _ = interval(moments, 0.95)
        assert p.tolist() == [0.0, 0.0, 1.0]
        assert (lows <= means).all()
        assert (means <= highs).all()


@pytest.mark.parametrize(
    ("tally", "words"),
    [
        (Tally(ABC), "holds no impressions; a verdict needs impressions of at least two units"),
        (tally_of([(1, 0, 0)]), r"impressions of only one unit"),
        (tally_of([(1, 0, 0)] * 5, unit=lambda u: "the only user"), r"only one unit"),
    ],
)
def test_too_few_units_for_a_verdict_are_named(tally, words):
    with pytest.raises(TallyError, match=words):
        tally.verdict()


def test_an_empty_tally_has_no_mean_preference():
    with pytest.raises(TallyError, match="no impressions"):
        Tally(ABC).preferences


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan"), "95%", None, True])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(TallyError, match="between 0 and 1"):
        tally_of(noisy([0, 0, 0])).verdict(confidence)


def test_impressions_are_counted_where_each_is_a_unit():
    assert "400 impressions" in str(tally_of(noisy([0, 0, 1]), unit=lambda u: None).verdict())


def test_decimals_follow_the_width_of_the_interval():
    tiny = tally_of(noisy([0.0, 2e-4], noise=1e-4), ("a", "b")).verdict()
    large = tally_of(noisy([0.0, 2e4], noise=1e4), ("a", "b")).verdict()
    assert "+0.00019" in str(tiny) or "+0.00020" in str(tiny) or "+0.00021" in str(tiny)
    assert "." not in str(large).split("(")[0]
    assert "-0.000" not in tiny.table().replace("-0.0002", "").replace("-0.0001", "")
