"""Few units that carry evidence: the exact test, intervals that agree with it, and what tallies keep for it."""

import itertools
import json
import math

import numpy as np
import pytest

from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.intervals.sign_flips import FEW, FEW_EQUAL, sign_flip_p
from multileave.stats.tally.few_sums import MOST, FewSums
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of
from multileave.stats.verdict.rules import Rules

TWO = ("a", "b")


def one(value, rankers=TWO):
    return Outcome(rankers, "difference", np.array([value] + [0.0] * (len(rankers) - 1)))


def purchases(values, users=1000, unit=lambda user: user):
    tally = Tally(TWO)
    for user in range(users):
        tally.add(one(values[user] if user < len(values) else 0.0), unit(user))
    return tally


def by_definition(sums):
    signs = list(itertools.product((-1, 1), repeat=len(sums)))
    reached = sum(abs(np.dot(sign, sums)) >= abs(sum(sums)) - 1e-9 for sign in signs)
    return reached / len(signs)


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_the_p_value_counts_all_signs(seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 11)
    sums = rng.normal(0.3, 1.0, size) if seed % 2 else rng.integers(1, 4, size) * rng.choice([-1.0, 1.0], size) / 3
    assert sign_flip_p(sums) == pytest.approx(by_definition(sums), abs=1e-12)


@pytest.mark.fast
@pytest.mark.parametrize("unit", [lambda user: user, lambda user: None])
def test_four_of_four_purchases_among_a_thousand_users_are_not_significant(unit):
    pair = purchases([1.0] * 4, unit=unit).verdict().pairs[0]
    assert (pair.p, pair.test, pair.evidence, pair.significant) == (1 / 8, "sign flips", 4, False)
    assert pair.low < 0 < pair.high
    assert purchases([1.0] * 6, unit=unit).verdict().pairs[0].p == 1 / 32


@pytest.mark.fast
@pytest.mark.parametrize("interval", ["clustered", "bootstrap"])
@pytest.mark.parametrize("confidence", [0.875, 0.9, 0.95, 0.99])
def test_intervals_exclude_zero_exactly_if_the_test_is_significant(interval, confidence):
    rng = np.random.default_rng(5)
    for size in (*range(1, 13), 20, 29):
        for values in (np.ones(size), rng.lognormal(0, 1, size) * rng.choice([1, 1, 1, -1], size)):
            tally = purchases(values.tolist(), users=max(60, 4 * size))
            pair = tally.verdict(confidence, interval=interval, replicates=199).pairs[0]
            assert pair.test == "sign flips"
            assert (pair.low > 0 or pair.high < 0) == (pair.p <= 1 - confidence), (size, pair)
            assert pair.low <= pair.preference <= pair.high


@pytest.mark.fast
def test_beyond_a_few_units_it_is_students_t_with_as_many_degrees_of_freedom_as_evidence():
    tally = purchases([1.0, -2.0, 1.0] * 20, users=5000)
    pair, moments = tally.verdict().pairs[0], tally.moments()
    assert pair.test == "t"
    assert moments.freedom == pytest.approx([80**2 / 120 - 1])
    assert moments.effective == pytest.approx(5000)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "unit"),
    [
        *(
            (options, unit)
            for options in ({}, {"estimand": "users"})
            for unit in (lambda user: user, lambda user: None)
        ),
        ({"interval": "bootstrap", "replicates": 199}, lambda user: user),  # the bootstrap needs units
    ],
)
def test_units_that_vote_alike_are_tested_exactly_beyond_a_few(options, unit):
    pair = purchases([0.3] * 32 + [-0.3] * 18, 50, unit).verdict(**options).pairs[0]
    assert (pair.test, pair.significant, pair.low < 0) == ("sign flips", False, True)
    assert pair.p == pytest.approx(sum(math.comb(50, wins) for wins in range(19)) / 2**49)
    assert purchases([0.3] * 33 + [-0.3] * 17, 50, unit).verdict(**options).pairs[0].significant
    assert purchases([0.3] * (FEW_EQUAL + 1), 500, unit).verdict().pairs[0].test == "t"


@pytest.mark.fast
def test_the_anytime_sequence_counts_evidence_too():
    few, many = purchases([1.0] * 9, 5000), purchases([1.0] * 9 + [1.0, -1.0] * 200, 5000)
    assert few.moments().freedom == pytest.approx([8.0])
    pair = few.verdict(interval="anytime").pairs[0]
    assert (pair.test, pair.significant) == ("confidence sequence", False)
    assert many.moments().freedom == pytest.approx([408.0])


@pytest.mark.parametrize("size", [6, 10, pytest.param(25, marks=pytest.mark.acceptance)])  # 25 takes seconds
def test_no_more_false_alarms_than_stated_however_few_purchases(size):
    rng = np.random.default_rng(size)
    alarms = 0
    for _ in range(2000):
        sums = rng.lognormal(0.0, 1.0, rng.poisson(size))
        alarms += sign_flip_p(sums * rng.choice([-1.0, 1.0], len(sums))) <= 0.05
    assert alarms <= 0.05 * 2000 + 2.5 * np.sqrt(0.05 * 0.95 * 2000)


@pytest.mark.fast
def test_a_grouped_tally_judges_sparse_evidence_as_a_tally_does():
    rng = np.random.default_rng(9)
    names = ("a", "b", "c")
    tally, grouped, rows = Tally(names), GroupedTally(names), {}
    for _ in range(3000):
        unit = f"u{int(rng.gamma(0.5, 400))}"
        outcome = Outcome(names, "difference", rng.integers(-3, 4, 3) / 3 * (rng.random() < 0.006))
        tally.add(outcome, unit)
        before = rows.get(unit)
        n, _, sums = before or (0, 0, np.zeros(3))
        rows[unit] = UnitRow(n + 1, 0, sums + pairs_of(outcome.preferences))
        grouped.change(before, rows[unit])
        grouped.squares += pairs_of(outcome.preferences) ** 2
    found = GroupedTally.from_dict(json.loads(json.dumps(grouped.to_dict()))).verdict(Rules())
    expected = tally.verdict()
    assert {pair.test for pair in expected.pairs} == {"sign flips"}
    for mine, theirs in zip(found.pairs, expected.pairs, strict=True):
        assert (mine.p, mine.test, mine.evidence) == (theirs.p, theirs.test, theirs.evidence)
        assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert found.health.evidence_units == expected.health.evidence_units
    assert any("carry no evidence" in warning for warning in found.warnings)


@pytest.mark.fast
def test_merging_and_writing_keep_what_the_exact_test_needs():
    parts = [purchases([1.0, -2.0], 40, unit=lambda user: None) for _ in range(3)]
    whole = purchases([1.0, -2.0] * 3, 120, unit=lambda user: None).verdict().pairs[0]
    merged = Tally.from_dict(json.loads(json.dumps((parts[0] + parts[1] + parts[2]).to_dict())))
    assert merged.verdict().pairs[0].p == whole.p
    turned = Tally(("b", "a")).merge(merged).verdict().pair("a", "b")
    assert (turned.p, turned.test) == (whole.p, "sign flips")


@pytest.mark.fast
def test_an_old_tally_without_these_sums_is_judged_by_t():
    data = purchases([1.0] * 4, unit=lambda user: None).to_dict()
    del data["single"]["few"], data["single"]["absolute"]
    old = Tally.from_dict(data)
    pair = old.verdict().pairs[0]
    assert (pair.test, pair.significant) == ("t", False)
    assert old.moments().evidence == pytest.approx([4.0])
    assert old.to_dict() == data
    assert (old + purchases([1.0] * 3, unit=lambda user: None)).verdict().pairs[0].evidence == 7


@pytest.mark.fast
def test_few_sums_are_forgotten_if_there_are_many_and_found_again_if_removed():
    few = FewSums(2)
    for value in range(MOST):
        few.add(1, np.array([value + 1.0, 0.0]))
    assert len(few.of(0)[1]) == MOST > FEW
    few.add(2, np.array([3.0, 0.0]), -1)  # never added so
    assert few.known.tolist() == [False, True]
    few = FewSums(1)
    few.add(1, np.array([0.5]))
    few.add(1, np.array([0.5]), -1)
    assert few.to_list() == [[]]
    assert FewSums.from_list(few.to_list()).of(0)[1].tolist() == []


@pytest.mark.fast
def test_sums_that_make_no_sense_are_refused():
    from multileave.errors import TallyError

    for wrong in ([[[1, "x"]]], [[[0, 1.0]]], [[[1, float("inf")]]], [[], []], "few"):
        data = purchases([1.0], 5, unit=lambda user: None).to_dict()
        data["single"]["few"] = wrong
        with pytest.raises(TallyError, match="few"):
            Tally.from_dict(data)
