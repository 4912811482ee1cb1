"""Users weighed equally, capped and winsorised units, and units that no person could be."""

import json
import math

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of
from multileave.stats.verdict.rules import Rules

NAMES = ("a", "b", "c")


def impressions(seed=1, users=80, bot=300):
    rng = np.random.default_rng(seed)
    for user in range(users):
        for _ in range(bot if user == 0 else int(np.ceil(rng.lognormal(1.0, 1.0)))):
            yield f"u{user}", Outcome(NAMES, "difference", rng.integers(-3, 4, 3) / 3)


def filled(rows):
    tally = Tally(NAMES)
    for unit, outcome in rows:
        tally.add(outcome, unit, clicks=1)
    return tally


def grouped(rows):
    units = {}
    tally = GroupedTally(NAMES)
    for unit, outcome in rows:
        n, clicks, sums = units.get(unit) or (0, 0, np.zeros(3))
        after = UnitRow(n + 1, clicks + 1, sums + pairs_of(outcome.preferences))
        tally.change(units.get(unit), after, unit)
        tally.squares += pairs_of(outcome.preferences) ** 2
        units[unit] = after
    return GroupedTally.from_dict(json.loads(json.dumps(tally.to_dict())))


@pytest.mark.fast
def test_the_estimand_of_users_is_the_mean_of_their_means_with_its_usual_error():
    from scipy.stats import t

    rows = list(impressions())
    means = {}
    for unit, outcome in rows:
        means.setdefault(unit, []).append(outcome.preferences[0, 1])
    values = np.array([np.mean(one) for one in means.values()])
    pair = filled(rows).verdict(estimand="users").pair("a", "b")
    error = values.std(ddof=1) / math.sqrt(len(values))
    evidence = np.abs(values).sum() ** 2 / (values**2).sum()
    assert pair.preference == pytest.approx(values.mean())
    assert pair.high - pair.preference == pytest.approx(t.ppf(0.975, evidence - 1) * error)


@pytest.mark.fast
def test_the_cap_leaves_units_out_as_if_they_had_not_come():
    rows = list(impressions())
    found = filled(rows).verdict(cap=100)
    expected = filled([row for row in rows if row[0] != "u0"]).verdict()
    assert (found.units, found.impressions) == (expected.units, expected.impressions)
    for mine, theirs in zip(found.pairs, expected.pairs, strict=True):
        assert (mine.preference, mine.low, mine.p) == pytest.approx((theirs.preference, theirs.low, theirs.p))
    assert found.health.over_limit == 1
    assert found.health.units == 80


@pytest.mark.fast
def test_winsorised_units_count_as_if_they_had_so_many_impressions():
    rows = list(impressions())
    sums, counts = {}, {}
    for unit, outcome in rows:
        sums[unit] = sums.get(unit, 0.0) + outcome.preferences[0, 1]
        counts[unit] = counts.get(unit, 0) + 1
    weights = {unit: min(count, 20) / count for unit, count in counts.items()}
    total = sum(weights[unit] * sums[unit] for unit in sums)
    verdict = filled(rows).verdict(winsorise=20)
    assert verdict.pair("a", "b").preference == pytest.approx(total / sum(min(n, 20) for n in counts.values()))
    assert (verdict.units, verdict.impressions) == (80, len(rows))
    assert verdict.health.effective_units > 2 * filled(rows).verdict().health.effective_units


@pytest.mark.fast
@pytest.mark.parametrize("interval", ["clustered", "anytime"])
@pytest.mark.parametrize("options", [{"estimand": "users"}, {"cap": 9}, {"winsorise": 9}, {"cap": 99, "winsorise": 9}])
def test_a_grouped_tally_is_weighted_as_a_tally_is(options, interval):
    rows = list(impressions())
    expected = filled(rows).verdict(interval=interval, **options)
    found = grouped(rows).verdict(Rules(interval=interval, **options))
    assert (found.units, found.impressions) == (expected.units, expected.impressions)
    for mine, theirs in zip(found.pairs, expected.pairs, strict=True):
        assert (mine.preference, mine.low, mine.high, mine.p) == pytest.approx(
            (theirs.preference, theirs.low, theirs.high, theirs.p), abs=1e-9
        )
        assert (mine.evidence, mine.share) == (theirs.evidence, pytest.approx(theirs.share))
    assert found.health.over_limit == expected.health.over_limit


@pytest.mark.fast
def test_the_bootstrap_and_max_t_use_weighted_units():
    tally = filled(impressions())
    drawn = tally.verdict(interval="bootstrap", estimand="users", correction="none").pair("a", "b")
    exact = tally.verdict(estimand="users").pair("a", "b")
    assert drawn.preference == pytest.approx(exact.preference)
    assert drawn.high - drawn.low == pytest.approx(exact.high - exact.low, rel=0.2)
    assert tally.verdict(estimand="users", correction="max-t").correction == "max-t"


@pytest.mark.fast
def test_the_sentence_says_per_user():
    assert "per user (95 % CI" in filled(impressions()).verdict(estimand="users").sentence


@pytest.mark.fast
def test_weights_that_make_no_sense_are_refused():
    for options, words in (
        ({"estimand": "sessions"}, "expected one of impressions, users"),
        ({"cap": 0}, "cap is 0"),
        ({"winsorise": 2.5}, "winsorise is 2.5"),
    ):
        with pytest.raises(TallyError, match=words):
            Rules(**options)
    with pytest.raises(TallyError, match="larger cap"):
        filled([("u", Outcome(NAMES, "difference", np.ones(3)))] * 5 + list(impressions(users=1))).verdict(cap=1)


@pytest.mark.fast
def test_health_lists_units_that_no_person_could_be():
    rows = list(impressions(bot=1500))
    for tally in (filled(rows), grouped(rows)):
        health = tally.health()
        assert health.implausible == (("u0", 1500, 1500),)
        assert any("Unit u0 (1,500 impressions" in warning for warning in health.warnings)
    assert filled(impressions(bot=900)).health().implausible == ()
    everyone = Tally(("a", "b"))
    for user in range(3):
        for _ in range(1200):
            everyone.add(Outcome(("a", "b"), "difference", np.array([1.0, 0.0])), user)
    assert everyone.health().implausible == ()


@pytest.mark.fast
def test_a_deleted_bot_is_not_listed_any_more():
    tally = GroupedTally(NAMES)
    bot, other = UnitRow(2000, 5, np.ones(3)), UnitRow(1, 1, np.ones(3))
    tally.change(None, bot, "bot")
    for number in range(200):
        tally.change(None, other, f"u{number}")
    assert [unit for unit, *_ in tally.health().implausible] == ["bot"]
    tally.change(bot, None, "bot")
    assert tally.health().implausible == ()
