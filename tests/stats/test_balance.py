"""The balance test: sound experiments pass, also if draws are repeated, and real imbalance is found."""

import json

import numpy as np
import pytest

import multileave as ml
from multileave.errors import TallyError
from multileave.stats import Tally
from multileave.stats.balance import Balance, group_count, unit_group
from multileave.stats.health import UNBALANCED

RANKERS = 3
EVEN = np.full(RANKERS, 1 / RANKERS)


def visits(rng, users, tail, queries):
    """Return the user and the query of each impression; users differ widely in activity, queries in frequency."""
    activity = np.ceil(rng.lognormal(1.0, tail, users)).astype(int)
    weights = 1.0 / np.arange(1, queries + 1)
    user = np.repeat(np.arange(users), activity)
    return user, rng.choice(queries, len(user), p=weights / weights.sum())


def balance_of(user, first, expected=EVEN):
    balance = Balance(len(expected))
    for one, team in zip(user.tolist(), first.tolist(), strict=True):
        balance.add(np.eye(len(expected))[team], expected, f"user-{one}")
    return balance


def is_unbalanced(balance):
    found = balance.test()
    return found is not None and found[2] < UNBALANCED


@pytest.mark.parametrize(
    ("users", "tail", "queries"), [(60, 1.0, 10), (150, 1.5, 5), (400, 1.0, 1)], ids=["few users", "heavy", "one query"]
)
def test_pages_drawn_again_with_the_same_seed_are_balanced(users, tail, queries):
    rng = np.random.default_rng(users)
    warned = warned_by_impression = tested = 0
    repetitions = 120
    for _ in range(repetitions):
        user, query = visits(rng, users, tail, queries)
        draws = rng.integers(RANKERS, size=(users, queries))  # one for each user and query, however often it is shown
        balance = balance_of(user, draws[user, query])
        tested += balance.test() is not None
        warned += is_unbalanced(balance)
        alone = Balance(RANKERS)
        alone.impressions, alone.observed, alone.expected = balance.impressions, balance.observed, balance.expected
        difference = np.eye(RANKERS)[draws[user, query]] - EVEN
        alone.products = difference.T @ difference
        warned_by_impression += is_unbalanced(alone)
    assert warned <= 0.01 * repetitions
    assert warned_by_impression > 0.03 * repetitions
    assert tested > 0.3 * repetitions


def test_fresh_draws_are_rejected_about_as_often_as_the_level_says():
    rng = np.random.default_rng(4)
    p = [balance_of(np.arange(400), rng.integers(RANKERS, size=400)).test()[2] for _ in range(300)]
    assert np.mean(np.array(p) < 0.1) == pytest.approx(0.1, abs=0.06)
    assert np.mean(p) == pytest.approx(0.5, abs=0.06)


def test_one_draw_per_query_for_all_users_is_found():
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(20):
        user, query = visits(rng, 300, 1.0, 10)
        found += is_unbalanced(balance_of(user, rng.integers(RANKERS, size=10)[query]))
    assert found >= 17  # ten draws may be balanced by chance


def test_a_page_that_moves_one_ranker_up_is_found():
    rng = np.random.default_rng(6)
    found = 0
    for _ in range(20):
        user, query = visits(rng, 500, 1.0, 10)
        first = rng.integers(RANKERS, size=(500, 10))[user, query]
        found += is_unbalanced(balance_of(user, np.where(rng.random(len(user)) < 0.15, 0, first)))
    assert found >= 19


def test_a_ranker_that_is_often_late_is_found():
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(20):
        user, query = visits(rng, 500, 1.0, 10)
        draws = rng.integers(RANKERS, size=(500, 10))
        late = rng.integers(RANKERS - 1, size=(500, 10))
        first = np.where(rng.random((500, 10)) < 0.3, late, draws)[user, query]
        found += is_unbalanced(balance_of(user, first))
    assert found >= 19


def test_a_few_users_say_nothing():
    assert balance_of(np.arange(400) % 15, np.zeros(400, dtype=int)).test() is None
    assert is_unbalanced(balance_of(np.arange(400) % 60, np.zeros(400, dtype=int)))


def test_users_without_differences_between_rankers_are_balanced():
    balance = Balance(RANKERS)
    for user in range(80):
        balance.add(EVEN, EVEN, user)
    assert balance.test() == (0.0, 0, 1.0)


@pytest.mark.parametrize("unit", ["", "user-17", "Zoë 東京", 17, -3, 2.5, ("a", 1), "\ud800"])
def test_a_unit_is_always_in_the_same_group(unit):
    assert unit_group(unit, 64) == unit_group(unit, 64) < 64


def test_units_spread_over_the_groups():
    counts = np.bincount([unit_group(f"user-{n}", 64) for n in range(6400)], minlength=64)
    assert counts.min() > 50
    assert counts.max() < 160
    assert unit_group(1, 64) == unit_group(1.0, 64) == unit_group(True, 64)  # these are one unit of a tally


def test_groups_merge_reorder_and_are_written():
    rng = np.random.default_rng(8)
    whole, parts = Balance(RANKERS), [Balance(RANKERS) for _ in range(3)]
    for n in range(300):
        observed, unit = rng.multinomial(8, EVEN).astype(float), None if n % 5 == 0 else f"u{n % 70}"
        whole.add(observed, 8 * EVEN, unit)
        parts[n % 3].add(observed, 8 * EVEN, unit)
    for part in parts[1:]:
        parts[0].merge(Balance.from_dict(json.loads(json.dumps(part.to_dict())), RANKERS))
    assert parts[0].test() == pytest.approx(whole.test())
    order = np.array([2, 0, 1])
    assert whole.reordered(order).test() == pytest.approx(whole.test())
    np.testing.assert_array_equal(whole.reordered(order).groups[:, 1], whole.groups[:, 3])
    whole.merge(parts[0], -1)
    assert np.abs(whole.groups).max() < 1e-9


def test_balances_without_groups_are_read_and_tested_as_before():
    old = Balance(RANKERS)
    for n in range(90):
        old.add(np.eye(RANKERS)[n % 2], EVEN)
    written = old.to_dict()
    assert "groups" not in written
    statistic, freedom, p = Balance.from_dict(written, RANKERS).test()
    assert (freedom, statistic) == (2, pytest.approx(90.0))
    new = Balance.from_dict(written, RANKERS)
    new.add(EVEN, EVEN, "user")
    assert new.test() == pytest.approx((statistic, freedom, p))
    new.merge(balance_of(np.arange(5), np.arange(5) % 3), -1)  # added before there were groups, and now taken out
    assert new.test() is not None
    assert Balance.from_dict(json.loads(json.dumps(new.to_dict())), RANKERS).test() == new.test()


def test_groups_of_another_number_are_refused():
    written = balance_of(np.arange(60), np.zeros(60, dtype=int)).to_dict()
    with pytest.raises(TallyError, match="groups"):
        Balance.from_dict({**written, "groups": written["groups"][1:]}, RANKERS)
    assert len(written["groups"]) == group_count(RANKERS) == 64


def test_a_tally_groups_the_draws_of_a_unit():
    rankings = {"a": ["d1", "d2", "d3"], "b": ["d3", "d2", "d1"]}
    method, tally = ml.TeamDraft(), Tally(("a", "b"))
    pages = [method.combine(rankings, k=2, seed=f"user-{user}/query") for user in range(40)]
    for visit in range(600):
        user = visit % 40 if visit % 2 else 0  # half of the impressions are of one user
        impression = pages[user]
        tally.add(ml.infer(impression, positions=[]), f"user-{user}", clicks=0, impression=impression)
    balance = tally.evidence.first
    assert balance.groups[unit_group("user-0", 64), 0] >= 300
    assert balance.groups[:, 0].sum() == 600
    assert tally.health().first["p"] is None
    assert not any("Sample ratio" in warning for warning in tally.health().warnings)
