"""Max-t: as strict as the pairs' dependence requires, never stricter than Holm, never laxer than one test."""

import numpy as np
import pytest

from multileave.outcome import Outcome
from multileave.stats import SegmentedTally, Tally
from multileave.stats.intervals.corrections import holm
from multileave.stats.intervals.max_t import max_t, unit_rows


def tally_of(rankers, users, seed, means=None, taste=0.3):
    rng = np.random.default_rng(seed)
    counts = np.ceil(rng.lognormal(1.0, 1.0, users)).astype(np.int64)
    tastes = rng.normal(0.0, taste, (users, rankers)) + (0.0 if means is None else means)
    credits = counts[:, None] * tastes + np.sqrt(counts)[:, None] * rng.normal(size=(users, rankers))
    names = [f"r{n}" for n in range(rankers)]
    squares = np.full(rankers * (rankers - 1) // 2, 2.2 * counts.sum())
    return Tally.from_sums(names, list(range(users)), counts, credits, squares)


@pytest.mark.fast
def test_independent_pairs_are_corrected_by_sidak_step_by_step():
    p = np.array([0.01, 0.3, 0.02, 0.9])
    found = max_t(p, [(np.eye(4), 0.0)], 0.95, draws=200_000).p
    expected = 1 - (1 - p) ** np.array([4, 2, 3, 1])
    assert found == pytest.approx(np.maximum(expected, [0, expected[2], 0, expected[1]]), abs=0.004)


@pytest.mark.fast
def test_pairs_that_are_the_same_need_no_correction_and_alone_makes_them_independent():
    p = np.array([0.01, 0.02, 0.04])
    same = np.ones((3, 1))
    assert max_t(p, [(same, 0.0)], 0.95, draws=50_000).p == pytest.approx(p, abs=0.003)
    alone = max_t(p, [(same, 1.0)], 0.95, draws=50_000).p
    assert alone == pytest.approx(max_t(p, [(np.eye(3), 0.0)], 0.95, draws=50_000, seed=1).p, abs=0.004)


@pytest.mark.fast
def test_differences_of_equal_credits_have_the_quantile_of_the_studentised_range():
    from scipy.stats import studentized_range

    contrasts = np.array([[1, -1, 0, 0], [1, 0, -1, 0], [1, 0, 0, -1], [0, 1, -1, 0], [0, 1, 0, -1], [0, 0, 1, -1.0]])
    rows = unit_rows(np.eye(4), contrasts)
    assert rows @ rows.T == pytest.approx(contrasts @ contrasts.T / 2)
    found = max_t(np.full(6, 0.5), [(rows, 0.0)], 0.95, draws=200_000).critical
    assert found == pytest.approx(studentized_range.ppf(0.95, 4, 1e6) / np.sqrt(2), abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_verdict_is_between_no_correction_and_holm_and_the_same_again(seed):
    tally = tally_of(6, 800, seed, means=np.linspace(0.0, 0.2, 6))
    verdict, by_holm = tally.verdict(correction="max-t"), tally.verdict()
    assert verdict.correction == "max-t"
    assert verdict == tally.verdict(correction="max-t")
    for mine, theirs in zip(verdict.pairs, by_holm.pairs, strict=True):
        assert theirs.p <= mine.p_corrected <= theirs.p_corrected + 1e-12
    pairs = zip(verdict.pairs, by_holm.pairs, strict=True)
    assert sum(mine.p_corrected < theirs.p_corrected for mine, theirs in pairs) > 5
    again = Tally.from_dict(tally.to_dict()).verdict(correction="max-t")
    assert [pair.p_corrected for pair in again.pairs] == [pair.p_corrected for pair in verdict.pairs]


def test_simultaneous_intervals_that_exclude_zero_are_significant_and_narrower_than_bonferroni():
    tally = tally_of(6, 800, 1, means=np.linspace(0.0, 0.2, 6))
    joint, bonferroni = (tally.verdict(correction=name, simultaneous=True) for name in ("max-t", "holm"))
    for mine, theirs in zip(joint.pairs, bonferroni.pairs, strict=True):
        assert mine.high - mine.low < theirs.high - theirs.low
        assert mine.significant or mine.low <= 0 <= mine.high


@pytest.mark.acceptance  # a simulation of seconds
def test_family_wise_error_with_few_users_and_heavy_ones():
    wrong = 0
    for seed in range(200):
        verdict = tally_of(8, 50, seed).verdict(correction="max-t")
        wrong += any(pair.significant for pair in verdict.pairs)
    assert wrong <= 0.05 * 200 + 2.5 * np.sqrt(0.05 * 0.95 * 200)


@pytest.mark.fast
def test_it_is_holm_where_the_joint_law_is_not_known_and_says_so():
    names = ("a", "b", "c")
    rng = np.random.default_rng(3)
    signs, alone, sparse = Tally(names), Tally(names), Tally(names)
    for user in range(200):
        signs.add(Outcome(names, "sign", rng.normal(size=3)), user)
        alone.add(Outcome(names, "difference", rng.normal(size=3)))
        sparse.add(Outcome(names, "difference", rng.normal(size=3) * (user < 9)), user)
    dense = tally_of(3, 200, 0)
    for tally, options in ((signs, {}), (alone, {}), (sparse, {}), (dense, {"interval": "anytime"})):
        verdict = tally.verdict(correction="max-t", **options)
        assert verdict.correction == "holm"
        assert [pair.p_corrected for pair in verdict.pairs] == pytest.approx(
            holm(np.array([pair.p for pair in verdict.pairs]))
        )
        assert "Holm" in verdict.table()
    assert "max-t" in dense.verdict(correction="max-t").table()


@pytest.mark.fast
def test_segments_are_corrected_together():
    names = ("a", "b", "c")
    rng = np.random.default_rng(4)
    tally = SegmentedTally(names, by="device")
    for user in range(600):
        tally.add(Outcome(names, "difference", rng.normal([0, 0, 0.3])), user, segment=("x", "y")[user % 2])
    both = tally.verdict(correction="max-t").segments
    for segment, verdict in both.items():
        one = tally.tallies[segment].verdict(correction="max-t")
        for mine, theirs in zip(verdict.pairs, one.pairs, strict=True):
            assert mine.p_corrected >= theirs.p_corrected - 0.01
