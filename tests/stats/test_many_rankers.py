"""Many rankers: Condorcet, Copeland, circles, the top group and Bradley-Terry strengths."""

import builtins
import json

import numpy as np
import pytest

from multileave.errors import MissingExtra, TallyError
from multileave.outcome import Outcome
from multileave.stats import PairVerdict, Tally, Verdict
from multileave.stats.verdict.ranking import circles, condorcet, copeland


def verdict_of(rankers, decided, means=None):
    """A verdict in which the pairs in `decided` are significant, with means where they are given."""
    pairs = []
    for n, first in enumerate(rankers):
        for second in rankers[n + 1 :]:
            sign = ((first, second) in decided) - ((second, first) in decided)
            mean = (means or {}).get((first, second), 0.5 * sign)
            pairs.append(PairVerdict((first, second), mean, mean - 0.1, mean + 0.1, 0.5, 0.5, bool(sign)))
    return Verdict(tuple(rankers), 300, 100, 0.95, tuple(pairs))


def test_condorcet_needs_no_certainty_and_the_winner_does():
    verdict = verdict_of("abc", {("a", "b")}, {("a", "b"): 0.5, ("a", "c"): 0.01, ("b", "c"): 0.2})
    assert verdict.condorcet == "a"
    assert verdict.winner is None
    assert verdict.leaders == ("a", "c")


def test_copeland_counts_ties_half_and_orders_by_counts():
    preferences = np.array([[0, 0, -1, 1], [0, 0, -1, 1], [1, 1, 0, 1], [-1, -1, -1, 0]], dtype=float)
    assert copeland("abcd", preferences) == {"c": 3.0, "a": 1.5, "b": 1.5, "d": 0.0}
    assert condorcet("abcd", preferences) == "c"
    assert condorcet("abc", np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], dtype=float)) is None


@pytest.mark.parametrize("seed", range(20))
def test_circles_are_the_components_found_by_walking(seed):
    rng = np.random.default_rng(seed)
    names = "abcdefg"
    wins = {name: {other for other in names if other != name and rng.random() < 0.2} for name in names}

    def walk(start):
        seen, left = set(), list(wins[start])
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left.extend(wins[at])
        return seen

    reach = {name: walk(name) for name in names}
    expected = {
        tuple(o for o in names if o in reach[n] and n in reach[o]) for n in names if n in reach[n]
    }  # fmt: skip
    assert set(circles(wins)) == expected


def test_a_circle_below_the_leader_is_a_warning():
    verdict = verdict_of("abcd", {("d", "a"), ("d", "b"), ("d", "c"), ("a", "b"), ("b", "c"), ("c", "a")})
    assert verdict.winner == "d"
    assert verdict.circles == (("a", "b", "c"),)
    assert "warning: The preferences between a, b, c form a cycle" in str(verdict)
    assert verdict.to_dict()["circles"] == [["a", "b", "c"]]
    assert not verdict_of("abcd", {("d", "a"), ("a", "b")}).circles


def tally_of(strengths, users=3000, seed=0):
    """Users who each prefer rankers as Bradley and Terry's model would have it, up to the noise."""
    rng = np.random.default_rng(seed)
    scores = np.array(strengths) + rng.gumbel(size=(users, len(strengths)))
    names = tuple("abcdefgh"[: len(strengths)])
    pairs = len(strengths) * (len(strengths) - 1) // 2
    return Tally.from_sums(names, list(range(users)), np.ones(users, dtype=int), scores, np.full(pairs, 4.0 * users))


def test_strengths_of_the_model_are_found_again_with_intervals_that_hold_them():
    pytest.importorskip("choix")
    truth = np.array([0.0, 1.0, -0.5, 0.4])
    found = tally_of(truth).strengths(seed=1)
    assert [one.ranker for one in found.rankers] == ["b", "d", "a", "c"]
    centred = dict(zip("abcd", truth - truth.mean(), strict=True))
    for one in found.rankers:
        assert one.strength == pytest.approx(centred[one.ranker], abs=0.1)
        assert one.low < one.strength < one.high
        assert one.high - one.low == pytest.approx(0.1, abs=0.06)
    assert sum(one.strength for one in found.rankers) == pytest.approx(0.0, abs=1e-9)
    assert json.loads(json.dumps(found.to_dict()))["rankers"][0]["ranker"] == "b"
    assert str(found).splitlines()[1].startswith("b  +0.7")
    assert found == tally_of(truth).strengths(seed=1)


def test_two_rankers_have_the_log_odds_of_their_share():
    pytest.importorskip("choix")
    tally = Tally(("a", "b"))
    for user in range(100):
        tally.add(Outcome(("a", "b"), "sign", np.array([float(user < 60), float(user >= 80)])), user)
    first = tally.strengths(replicates=20).rankers[0]
    share = tally.verdict().pair("a", "b").share
    assert share == pytest.approx(0.7)
    assert 2 * first.strength == pytest.approx(np.log(0.7 / 0.3), rel=1e-3)


def test_a_ranker_that_nobody_ever_prefers_still_has_a_strength():
    pytest.importorskip("choix")
    tally = Tally(("a", "b", "c"))
    for user in range(50):
        tally.add(Outcome(("a", "b", "c"), "difference", np.array([float(user % 2), 0.5, -9.0])), user)
    found = tally.strengths(replicates=20).rankers
    assert found[-1].ranker == "c"
    assert np.isfinite([one.strength for one in found]).all()


def test_without_units_there_are_strengths_but_no_intervals():
    pytest.importorskip("choix")
    tally = Tally(("a", "b"))
    for value in (1.0, 1.0, -1.0):
        tally.add(Outcome(("a", "b"), "difference", np.array([value, 0.0])))
    first = tally.strengths().rankers[0]
    assert first.ranker == "a"
    assert (first.low, first.high) == (None, None)
    assert "(" not in str(tally.strengths()).splitlines()[1]


def test_strengths_say_what_is_missing(monkeypatch):
    tally = Tally(("a", "b"))
    with pytest.raises(TallyError, match="no impressions; the Bradley-Terry model needs"):
        tally.strengths()
    for user in range(3):
        tally.add(Outcome(("a", "b"), "difference", np.zeros(2)), user)
    with pytest.raises(TallyError, match="No unit prefers any ranker"):
        tally.strengths()
    with pytest.raises(TallyError, match="replicates is 3"):
        tally.strengths(replicates=3)
    tally.add(Outcome(("a", "b"), "difference", np.array([1.0, 0.0])), 1)
    real = builtins.__import__

    def without_choix(name, *rest, **more):
        if name == "choix":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_choix)
    with pytest.raises(MissingExtra, match=r"pip install 'multileave\[stats\]'"):
        tally.strengths()
