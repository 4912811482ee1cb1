"""A ledger says what a tally of the same outcomes says, whatever was changed on the way."""

import json

import numpy as np
import pytest

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, pairs_of
from multileave.stats.tally.tally import Tally
from multileave.stats.verdict.rules import Rules

NAMES = ("a", "b", "c")


class Rows:
    """Units' rows, as a store would keep them."""

    def __init__(self):
        self.ledger = GroupedTally(NAMES)
        self.rows = {}

    def change(self, unit, old, new, impressions=0, clicks=0):
        before = self.rows.get(unit)
        n, c, sums = before or (0, 0, np.zeros(3))
        out, into = (np.zeros(3) if o is None else pairs_of(o.preferences) for o in (old, new))
        after = UnitRow(n + impressions, c + clicks, sums - out + into)
        self.ledger.change(before, after)
        self.ledger.squares += into**2 - out**2
        self.rows[unit] = after


def outcomes(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        values = rng.integers(-3, 4, 3) / rng.choice([1.0, 3.0, 7.0]) * (rng.random() < 0.6)
        yield f"u{int(rng.gamma(0.5, 20))}", Outcome(NAMES, "difference", values), int(values.any())


def both(seed, count=600):
    tally, rows = Tally(NAMES), Rows()
    added = []
    for unit, outcome, clicks in outcomes(seed, count):
        tally.add(outcome, unit, clicks=clicks)
        rows.change(unit, None, outcome, 1, clicks)
        added.append((unit, outcome, clicks))
    for (unit, old, before), (_, new, after) in zip(added[::3], outcomes(seed + 1, count), strict=False):
        tally.replace(old, new, unit, clicks=(before, after))
        rows.change(unit, old, new, 0, after - before)
    return tally, rows


@pytest.mark.fast
@pytest.mark.parametrize("interval", ["clustered", "anytime"])
@pytest.mark.parametrize("seed", range(5))
def test_verdicts_are_those_of_a_tally(seed, interval):
    tally, rows = both(seed)
    expected = tally.verdict(interval=interval)
    found = GroupedTally.from_dict(json.loads(json.dumps(rows.ledger.to_dict()))).verdict(Rules(interval=interval))
    assert (found.impressions, found.units) == (expected.impressions, expected.units)
    for mine, theirs in zip(found.pairs, expected.pairs, strict=True):
        for name in ("preference", "low", "high", "p", "p_corrected", "share", "share_low", "share_high", "sign_p"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=1e-9), name
        assert mine.significant == theirs.significant
    assert found.health.effective_units == pytest.approx(expected.health.effective_units)
    assert found.health.top_share == pytest.approx(expected.health.top_share)


@pytest.mark.fast
def test_taking_all_units_out_leaves_nothing():
    _, rows = both(3)
    for row in rows.rows.values():
        rows.ledger.change(row, None)
    left = rows.ledger.to_dict()
    assert (rows.ledger.units, rows.ledger.impressions, left["groups"], left["clicks"]) == (0, 0, [], [])
    assert left["few"] == [[], [], []]


@pytest.mark.fast
def test_too_few_units_and_bootstraps_are_refused():
    ledger = GroupedTally(NAMES)
    ledger.change(None, UnitRow(3, 1, np.ones(3)))
    with pytest.raises(TallyError, match="only one unit"):
        ledger.verdict(Rules())
    ledger.change(None, UnitRow(3, 1, np.ones(3)))
    with pytest.raises(TallyError, match="bootstrap"):
        ledger.verdict(Rules(interval="bootstrap"))


@pytest.mark.fast
def test_units_that_all_say_the_same_have_no_variance():
    ledger, tally = GroupedTally(NAMES), Tally(NAMES)
    same = Outcome(NAMES, "difference", np.array([1 / 3, 0.0, 0.0]))
    for unit in range(40):
        tally.add(same, unit)
        ledger.change(None, UnitRow(1, 1, pairs_of(same.preferences)))
    assert ledger.moments().alike.tolist() == tally.moments().alike.tolist()
