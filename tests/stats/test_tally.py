import itertools
import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.tally.units import PackedIds

NAMES = ("bm25", "dense", "ltr")


def outcome(*credits, kind="difference", rankers=NAMES):
    return Outcome(rankers[: len(credits)], kind, np.array(credits, dtype=float))


def matrix(a, b, c, rankers=NAMES):
    """The outcome that prefers the first ranker by a to the second, by b to the third, the second by c to the third."""
    return Outcome(rankers, "matrix", np.array([[0, a, b], [-a, 0, c], [-b, -c, 0]], dtype=float))


def tallied(impressions, rankers=NAMES):
    tally = Tally(rankers)
    for given_outcome, unit in impressions:
        tally.add(given_outcome, unit)
    return tally


def slow_interval(impressions, n, m):
    """The mean, its variance with one unit left out at a time, the effective units, and the exact p-value, slowly."""
    sums, counts = {}, {}
    for position, (given_outcome, unit) in enumerate(impressions):
        key = ("alone", position) if unit is None else unit
        sums[key] = sums.get(key, 0.0) + float(given_outcome.preferences[n, m])
        counts[key] = counts.get(key, 0) + 1
    total = math.fsum(counts.values())
    mean = math.fsum(sums.values()) / total
    left_out = [(math.fsum(sums.values()) - sums[key]) / (total - counts[key]) for key in sums]
    variance = (len(sums) - 1) / len(sums) * math.fsum((one - mean) ** 2 for one in left_out)
    effective = total**2 / math.fsum(count**2 for count in counts.values())
    evidence = math.fsum(map(abs, sums.values())) ** 2 / math.fsum(one**2 for one in sums.values())
    return mean, variance, min(effective, evidence), slow_sign_flips([round(3 * one) for one in sums.values()])


def slow_sign_flips(sums):
    """The share of all signs of integers with a sum as far from zero, None if Student's t is used.

    That is with more than 30 integers other than zero, or more than 200 of equal size.
    """
    sums = [one for one in sums if one]
    if len(sums) > (200 if len({abs(one) for one in sums}) == 1 else 30):
        return None
    ways = {0: 1}
    for one in sums:
        ways = {
            key: ways.get(key - one, 0) + ways.get(key + one, 0)
            for key in {key + sign * one for key in ways for sign in (-1, 1)}
        }
    reached = sum(count for key, count in ways.items() if abs(key) >= abs(sum(sums)))
    return Fraction(reached, 2 ** len(sums))


def random_impressions(seed, size, kinds, unit_share=0.7, users=6):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(size):
        kind = kinds[rng.integers(len(kinds))]
        clicked = rng.random() < 0.8
        if kind == "matrix":
            one = matrix(*(rng.integers(-1, 2, 3) * clicked))
        else:
            one = outcome(*(rng.integers(-6, 7, 3) / 3 * clicked), kind=kind)
        made.append((one, f"u{rng.integers(users)}" if rng.random() < unit_share else None))
    return made


KINDS = [("difference",), ("sign",), ("matrix",), ("difference", "sign", "matrix")]


def close(one, other):
    """Whether two tallies say the same, to rounding."""
    assert (one.rankers, one.impressions, one.units) == (other.rankers, other.impressions, other.units)
    if one.impressions:
        np.testing.assert_allclose(one.preferences, other.preferences, atol=1e-12)
    if one.units > 1:
        mine, theirs = one.verdict(), other.verdict()
        for a, b in zip(mine.pairs, theirs.pairs, strict=True):
            assert (a.low, a.high, a.p) == pytest.approx((b.low, b.high, b.p), abs=1e-9)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("unit_share", [0.0, 0.6, 1.0])
def test_interval_is_the_jackknife_over_units_computed_slowly(kinds, unit_share):
    from scipy.stats import t

    impressions = random_impressions(3, 80, kinds, unit_share)
    verdict = tallied(impressions).verdict(0.9)
    for n, m in itertools.combinations(range(3), 2):
        mean, variance, units, exact = slow_interval(impressions, n, m)
        pair = verdict.pair(NAMES[n], NAMES[m])
        half = t.ppf(0.95, units - 1) * math.sqrt(variance)
        assert variance > 0
        assert pair.preference == pytest.approx(mean, rel=1e-12, abs=1e-12)
        by_t = 2 * t.sf(abs(mean) / math.sqrt(variance), units - 1)
        assert pair.p == pytest.approx(by_t if exact is None else float(exact), rel=1e-9)
        assert pair.test == ("t" if exact is None else "sign flips")
        if (by_t <= 0.1) == (pair.p <= 0.1):
            assert (pair.low, pair.high) == pytest.approx((mean - half, mean + half), rel=1e-9)
        assert (pair.low > 0 or pair.high < 0) == (pair.p <= 0.1)


def test_with_equal_activity_it_is_the_delta_method():
    impressions = [(outcome(float(u % 3), 0.0), u // 2) for u in range(60)]
    pair = tallied(impressions, NAMES[:2]).verdict().pairs[0]
    sums = np.array([one.values[0] for one, _ in impressions]).reshape(30, 2).sum(axis=1)
    from scipy.stats import t

    evidence = sums.sum() ** 2 / (sums**2).sum()
    expected = t.ppf(0.975, evidence - 1) * sums.std(ddof=1) / math.sqrt(30) / 2
    assert pair.high - pair.preference == pytest.approx(expected, rel=1e-9)


def test_preferences_are_means_per_impression_and_those_without_clicks_count():
    tally = tallied([(outcome(1, 0, 0), "u"), (outcome(0, 0, 0), "u"), (outcome(0, 0, 1), None)])
    third = float(Fraction(1, 3))
    np.testing.assert_allclose(tally.preferences, [[0, third, 0], [-third, 0, -third], [0, third, 0]], atol=1e-15)
    assert (tally.impressions, tally.units) == (3, 2)


def test_equal_credits_added_in_another_order_are_no_preference():
    one, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert one != other
    for unit in (lambda u: u, lambda u: None):
        tally = tallied([(outcome(one, other), unit(u)) for u in range(50)], NAMES[:2])
        assert tally.preferences[0, 1] == 0.0
        assert tally.verdict().pairs[0].p == 1.0


def test_a_unit_is_wider_than_its_impressions_taken_for_independent():
    impressions = [(outcome(taste, 0), user) for user, taste in enumerate((1, -1, 1, 0)) for _ in range(50)]
    by_user = tallied(impressions, NAMES[:2]).verdict().pairs[0]
    naive = tallied([(one, None) for one, _ in impressions], NAMES[:2]).verdict().pairs[0]
    assert by_user.preference == naive.preference == 0.25
    assert by_user.high - by_user.low > 8 * (naive.high - naive.low)


@pytest.mark.parametrize("kinds", KINDS)
def test_replace_equals_a_fresh_tally_of_the_new_outcomes(kinds):
    old = random_impressions(1, 60, kinds)
    new = [(one, unit) for (one, _), (_, unit) in zip(random_impressions(2, 60, kinds), old, strict=True)]
    tally = tallied(old)
    for (before, unit), (after, _) in zip(old, new, strict=True):
        tally.replace(before, after, unit)
    close(tally, tallied(new))


def test_replacing_credits_by_a_sign_turns_the_rows_into_pairs():
    tally = tallied([(outcome(3, 0, 0), "u"), (outcome(0, 0, 0), "v")])
    tally.replace(outcome(0, 0, 0), outcome(0, 0, 5, kind="sign"), "v")
    assert tally.to_dict()["units"] == {
        "sums_of": "pairs", "ids": ["u", "v"], "impressions": [1, 1], "clicks": [0, 0],
        "sums": [[3, 3, 0], [0, -1, -1]], "squares": [9, 10, 1],
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.sampled_from(KINDS),
    cuts=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_merging_parts_in_any_order_and_grouping_equals_one_tally(seed, kinds, cuts, order):
    impressions = random_impressions(seed, 40, kinds)
    edges = [0, *sorted(cuts), 40]
    parts = [tallied(impressions[a:b]) for a, b in itertools.pairwise(edges)]
    whole = tallied(impressions)
    order.shuffle(parts)
    while len(parts) > 1:
        at = order.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    close(parts[0], whole)


def test_plus_leaves_both_alone_and_merge_returns_the_tally_it_changed():
    one, other = tallied([(outcome(1, 0, 0), "u")]), tallied([(outcome(0, 1, 0, kind="sign"), "u")])
    before = one.to_dict(), other.to_dict()
    total = one + other
    assert (one.to_dict(), other.to_dict()) == before
    assert (total.impressions, total.units) == (2, 1)
    assert one.merge(other) is one
    assert one == total
    one += other
    assert one.impressions == 3
    assert one.merge(one).impressions == 6


def test_merging_a_thousand_parts_in_random_order_equals_one_tally_to_1e_9():
    impressions = random_impressions(5, 3000, ("difference",), users=400)
    parts = [tallied(impressions[start::1000]) for start in range(1000)]
    np.random.default_rng(0).shuffle(parts)
    total = Tally(NAMES)
    for part in parts:
        total.merge(part)
    close(total, tallied(impressions))


@pytest.mark.parametrize("kinds", KINDS)
def test_rankers_may_be_named_in_another_order(kinds):
    impressions = random_impressions(7, 40, kinds)
    turned = NAMES[2], NAMES[0], NAMES[1]
    order = [NAMES.index(name) for name in turned]
    others = [
        (Outcome(turned, o.kind, o.values[np.ix_(order, order)] if o.kind == "matrix" else o.values[order]), u)
        for o, u in impressions
    ]
    close(tallied(others), tallied(impressions))
    close(Tally(NAMES).merge(tallied(others, turned)), tallied(impressions))
    assert tallied(others, turned).verdict().pair("ltr", "bm25").preference == pytest.approx(
        tallied(impressions).verdict().pair("ltr", "bm25").preference
    )


@pytest.mark.parametrize("kinds", KINDS)
def test_json_and_pickle_round_trip(kinds):
    tally = tallied(random_impressions(9, 50, kinds))
    again = Tally.from_dict(json.loads(json.dumps(tally.to_dict(), allow_nan=False)))
    assert again == tally
    assert again.verdict() == tally.verdict()
    assert pickle.loads(pickle.dumps(tally)) == tally
    again.add(outcome(1, 0, 0), "someone new")
    assert again != tally
    assert Tally.from_dict(Tally(NAMES).to_dict()) == Tally(NAMES)


def test_numpy_scalars_are_units_like_the_values_they_are_equal_to():
    tally = Tally(NAMES)
    tally.add(outcome(1, 0, 0), np.int64(7))
    tally.add(outcome(1, 0, 0), 7)
    tally.add(outcome(1, 0, 0), np.str_("u"))
    assert tally.units == 2
    assert Tally.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally


def test_rows_hold_one_number_per_ranker_for_differences_and_little_else():
    rankers = tuple("abcde")
    tally = Tally(rankers)
    one = Outcome(rankers, "difference", np.arange(5.0))
    for user in range(20_000):
        tally.add(one, user)
    assert tally._units.sums.shape[1] == 5
    held = tally._units
    assert held.sums.nbytes + held.counts.nbytes + held.clicks.nbytes <= 1.6 * 20_000 * 8 * 7
    lonely = Tally(rankers)
    for _ in range(1000):
        lonely.add(one)
    assert len(json.dumps(lonely.to_dict())) < 2000


@pytest.mark.parametrize("unit", [lambda u: u // 3, lambda u: None], ids=["units", "single"])
def test_blocks_of_units_add_up_to_the_whole(unit, monkeypatch):
    impressions = [(one, unit(u)) for u, (one, _) in enumerate(random_impressions(11, 90, ("difference",)))]
    whole = tallied(impressions)
    expected = whole.verdict()
    monkeypatch.setattr("multileave.stats.tally.units.BLOCK", 7)
    for a, b in zip(whole.verdict().pairs, expected.pairs, strict=True):
        assert (a.preference, a.low, a.p) == pytest.approx((b.preference, b.low, b.p))


def coverage(by_unit, repetitions=500, users=60):
    """The share of A/A comparisons whose 95 % interval holds zero: users have tastes and come back."""
    rng = np.random.default_rng(20240)
    held = 0
    for _ in range(repetitions):
        tastes, visits = rng.beta(2, 2, users), 1 + rng.poisson(4, users)
        user = np.repeat(np.arange(users), visits)
        values = np.where(rng.random(len(user)) < 0.3, 0.0, np.where(rng.random(len(user)) < tastes[user], 1.0, -1.0))
        unit = user if by_unit else np.arange(len(user))
        sums = np.bincount(unit, values)
        counts = np.bincount(unit)
        credits = np.column_stack([sums, np.zeros_like(sums)])
        tally = Tally.from_sums(["a", "b"], range(len(sums)), counts, credits, np.array([(values**2).sum()]))
        pair = tally.verdict().pairs[0]
        held += pair.low <= 0.0 <= pair.high
    return held / repetitions


def test_a_95_percent_interval_holds_the_truth_in_95_percent_of_a_a_comparisons():
    assert coverage(by_unit=True) == pytest.approx(0.95, abs=0.03)


def test_taking_impressions_for_units_would_raise_too_many_false_alarms():
    assert coverage(by_unit=False) < 0.90


@pytest.mark.parametrize("rankers", [[], ["one"], "ab", ["a", "a"], ["a", 1], None])
def test_rankers_that_are_no_two_different_names_are_refused(rankers):
    with pytest.raises(TallyError, match=r"[Rr]anker"):
        Tally(rankers)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (outcome(1, 0), "compares bm25, dense; this tally compares bm25, dense, ltr"),
        (outcome(1, 0, 0, rankers=("a", "b", "c")), "compares a, b, c"),
        (outcome(1, math.nan, 0), "nan"),
        (outcome(1, math.inf, 0), "inf"),
        (outcome(1, 1e200, 0), "1e\\+200"),
        (matrix(1, math.nan, 0), "nan"),
        (Outcome(NAMES, "matrix", np.ones((3, 3))), "antisymmetric"),
        (Outcome(NAMES, "matrix", np.zeros(3)), "shape"),
        (Outcome(NAMES, "difference", np.array(["1", "2", "3"])), "shape"),
        ({"preferences": 1}, "dict"),
    ],
)
@pytest.mark.parametrize("unit", [None, "u"])
def test_an_outcome_that_does_not_fit_is_refused_and_nothing_is_added(wrong, words, unit):
    tally = tallied([(outcome(1, 0, 0), "u"), (outcome(0, 1, 0), None)])
    before = tally.to_dict()
    with pytest.raises(TallyError, match=words):
        tally.add(wrong, unit)
    with pytest.raises(TallyError, match=words):
        tally.replace(outcome(0, 1, 0), wrong, unit)
    with pytest.raises(TallyError, match=words):
        tally.replace(wrong, outcome(0, 1, 0), unit)
    assert tally.to_dict() == before


def test_units_that_cannot_be_told_apart_are_refused():
    tally = Tally(NAMES)
    for unit, words in [(["u"], "not hashable"), ({}, "not hashable"), (math.nan, "NaN")]:
        with pytest.raises(TallyError, match=words):
            tally.add(outcome(1, 0, 0), unit)
    assert tally.impressions == tally.units == 0


def test_only_what_was_seen_can_be_replaced():
    tally = tallied([(outcome(0, 0, 0), "u")])
    with pytest.raises(TallyError, match=r"'v' is not in the tally.*Add its old outcome"):
        tally.replace(outcome(0, 0, 0), outcome(1, 0, 0), "v")
    with pytest.raises(TallyError, match="no impression without a unit"):
        tally.replace(outcome(0, 0, 0), outcome(1, 0, 0))
    assert tally.units == 1


def test_tallies_of_other_rankers_do_not_merge():
    with pytest.raises(TallyError, match="The other tally compares a, b; this tally compares bm25, dense, ltr"):
        Tally(NAMES).merge(Tally(["a", "b"]))
    with pytest.raises(TallyError, match="dict"):
        Tally(NAMES).merge({})
    with pytest.raises(TypeError):
        Tally(NAMES) + 1


def test_a_unit_that_json_cannot_hold_is_refused_when_written():
    tally = tallied([(outcome(1, 0, 0), ("de", 17))])
    with pytest.raises(TallyError, match=r"\('de', 17\) is a tuple.*unit=str"):
        tally.to_dict()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["version"], 2, "Upgrade"),
        (["version"], None, "'version' is None; expected 1"),
        (["version"], True, "'version'"),
        (["rankers"], ["a"], "'rankers'"),
        (["rankers"], "abc", "'rankers'"),
        (["single"], [], "'single'"),
        (["single", "impressions"], -1, "from 0"),
        (["single", "impressions"], 1.5, "'impressions'"),
        (["single", "impressions"], 0, "no impressions"),
        (["single", "sums"], [1.0], "shape"),
        (["single", "sums"], [1.0, "2", 3.0], "'sums'"),
        (["single", "squares"], [1.0, -1.0, 0.0], "below 0"),
        (["units", "sums_of"], "rankers", "'credits' or 'pairs'"),
        (["units", "sums_of"], "sign", "'credits' or 'pairs'"),
        (["units", "ids"], ["u", "u"], "once"),
        (["units", "ids"], ["u", None], "strings or numbers"),
        (["units", "ids"], ["u", ["v"]], "strings or numbers"),
        (["units", "ids"], ["u"], r"integers from 1, shape \(1,\)"),
        (["units", "impressions"], [1, 0], "from 1"),
        (["units", "impressions"], [1, 2.5], "from 1"),
        (["units", "impressions"], [1, 10**30], "from 1"),
        (["units", "sums"], [[1, 2], [3, 4]], "shape"),
        (["units", "sums"], [[1, 2, 3], [3, 4]], "shape"),
        (["units", "sums"], [[1, 2, 3], [3, 4, math.nan]], "finite"),
        (["units", "sums"], [[1, 2, 3], [3, 4, None]], "finite"),
    ],
)
def test_a_malformed_dict_is_refused_with_the_field_named(path, value, words):
    data = tallied([(outcome(1, 0, 0), "u"), (outcome(0, 1, 0), "v"), (outcome(0, 2, 0), None)]).to_dict()
    Tally.from_dict(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(TallyError, match=words):
        Tally.from_dict(data)
    del inner[path[-1]]
    with pytest.raises(TallyError, match=path[-1]):
        Tally.from_dict(data)


def test_what_is_no_dict_at_all_is_refused():
    with pytest.raises(TallyError, match="is a str; expected a dictionary"):
        Tally.from_dict("{}")


def test_importing_stats_imports_nothing_heavy():
    heavy = ("numba", "scipy", "matplotlib", "choix")
    code = f"import sys, multileave.stats; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_million_units_of_five_rankers_take_well_under_a_gigabyte():
    import tracemalloc

    rankers, units = tuple("abcde"), 20_000
    one = Outcome(rankers, "difference", np.arange(5.0))
    tracemalloc.start()
    tally = Tally(rankers)
    for user in range(units):
        tally.add(one, f"user-{user}")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tally.units == units
    assert held * 50 < 400e6


def test_sums_that_were_made_elsewhere_are_the_same_tally():
    impressions = [
        (one, unit or f"alone{n}") for n, (one, unit) in enumerate(random_impressions(3, 80, ("difference",)))
    ]
    whole = tallied(impressions)
    units = list(dict.fromkeys(unit for _, unit in impressions))
    at = {unit: n for n, unit in enumerate(units)}
    counts, credits, pairs, squares = (
        np.zeros(len(units), int),
        np.zeros((len(units), 3)),
        np.zeros((len(units), 3)),
        0.0,
    )
    for one, unit in impressions:
        counts[at[unit]] += 1
        credits[at[unit]] += one.values
        preferences = one.preferences[np.triu_indices(3, 1)]
        pairs[at[unit]] += preferences
        squares = squares + preferences**2
    close(Tally.from_sums(NAMES, units, counts, credits, squares), whole)
    close(Tally.from_sums(NAMES, units, counts, pairs, squares, sums_of="pairs"), whole)
    for interval in ("clustered", "anytime"):
        mine = Tally.from_sums(NAMES, units, counts, credits, squares).verdict(interval=interval)
        for a, b in zip(mine.pairs, whole.verdict(interval=interval).pairs, strict=True):
            assert (a.low, a.high, a.p) == pytest.approx((b.low, b.high, b.p), rel=1e-9)
    with pytest.raises(TallyError, match="shape"):
        Tally.from_sums(NAMES, units, counts, credits[:, :2], squares)
    with pytest.raises(TallyError, match="once"):
        Tally.from_sums(NAMES, ["u", "u"], np.ones(2, int), np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(TallyError, match="from 1"):
        Tally.from_sums(NAMES, ["u", "v"], np.zeros(2, int), np.zeros((2, 3)), np.zeros(3))


def test_the_calibration_benchmark_computes_moments_as_the_tally_does(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from calibration_parts.world import moments_of

    rng = np.random.default_rng(4)
    counts, sums, squares = rng.integers(1, 9, 50), rng.normal(size=(50, 3)), np.array([90.0, 80.0, 70.0])
    tally = Tally.from_sums(NAMES, list(range(50)), counts, sums, squares, sums_of="pairs")
    mine, theirs = moments_of(counts, sums, squares), tally.moments()
    for name in mine._fields:
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-12, err_msg=name)


def test_packed_ids_are_a_tally_like_any_other():
    ids, sums = ["u1", "ü", "", "u22"], np.arange(12.0).reshape(4, 3)
    text = "".join(ids).encode()
    ends = np.cumsum([0, *(len(unit.encode()) for unit in ids)])
    counts, clicks, squares = np.array([1, 2, 3, 4]), np.array([0, 1, 0, 2]), np.ones(3)
    packed = Tally.from_sums(
        ["a", "b", "c"],
        PackedIds(ends, np.frombuffer(text, dtype=np.uint8)),
        counts.copy(),
        sums.copy(),
        squares,
        clicks=clicks.copy(),
    )
    listed = Tally.from_sums(["a", "b", "c"], ids, counts, sums, squares, clicks=clicks)
    assert packed.verdict() == listed.verdict()
    assert packed == listed
    assert (packed + listed).units == 4
    outcome = Outcome(("c", "b", "a"), "difference", np.array([1.0, 2.0, 3.0]))
    for tally in (packed, listed):
        tally.add(outcome, unit="ü")
        tally.add(outcome, unit="new")
    assert packed.to_dict() == listed.to_dict()
