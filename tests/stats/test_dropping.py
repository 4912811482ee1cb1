"""Dropping losers: who is dropped, and what verdicts say afterwards."""

import numpy as np
import pytest

import multileave as ml
from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.dropping import losses

NAMES = ("control", "best", "fair", "bad", "worst")
MEANS = np.array([0.0, 0.6, 0.3, -0.5, -0.9])


def tally_of(users, means=MEANS, seed=1, names=NAMES):
    tally, rng = Tally(names), np.random.default_rng(seed)
    for user in range(users):
        tally.add(Outcome(names, "difference", rng.normal(means, 1.0)), user)
    return tally


def anytime(tally, **options):
    return tally.verdict(interval="anytime", tuned_for=300, **options)


def test_those_that_lose_to_the_leader_or_the_control_are_dropped_but_never_the_control():
    verdict = anytime(tally_of(400))
    found = losses(verdict, "control")
    assert [loss.ranker for loss in found] == ["fair", "bad", "worst"]
    assert verdict.pair("best", "control").significant
    for loss in found:
        assert loss.pair.rankers[1] == loss.ranker
        assert loss.pair.significant
        assert loss.pair.preference > 0.0
    assert "control" in {loss.ranker for loss in losses(verdict)}


def test_nobody_is_dropped_without_significance_and_nobody_twice():
    assert losses(anytime(tally_of(400, 0 * MEANS)), "control") == ()
    first = [loss.ranker for loss in losses(anytime(tally_of(400)), "control")]
    assert losses(anytime(tally_of(400), dropped=first), "control") == ()


def test_two_rankers_stay():
    names = ("a", "b", "c")
    verdict = anytime(tally_of(500, np.array([1.0, 0.0, -1.0]), names=names))
    assert [loss.ranker for loss in losses(verdict, "a")] == ["b"]
    assert losses(anytime(tally_of(500, np.array([1.0, 0.0, -1.0]), names=names), dropped=["b"]), "a") == ()


def test_the_winner_is_one_of_the_others_and_open_pairs_are_theirs():
    tally = tally_of(150)
    before, after = anytime(tally), anytime(tally, dropped=["control", "bad"])
    assert [pair.p for pair in before.pairs] == [pair.p for pair in after.pairs]  # no impression lacks a ranker here
    assert after.pair("control", "fair").more_units is None
    assert (after.dropped, after.remaining) == (("control", "bad"), ("best", "fair", "worst"))
    assert not any({"control", "bad"} & set(pair) for pair in after.undecided)
    assert after.to_dict()["dropped"] == ["control", "bad"]
    assert after.sentence.endswith("control and bad dropped")
    many = anytime(tally_of(1000), dropped=["control"])
    assert many.winner == "best"
    assert many.leaders == ("best",)


def test_one_look_and_dropping_exclude_each_other():
    with pytest.raises(TallyError, match='Choose interval="anytime"'):
        tally_of(100).verdict(dropped=["bad"])
    with pytest.raises(TallyError, match="valid at any"):
        losses(tally_of(100).verdict(), "control")
    with pytest.raises(TallyError, match=r"'badd' was dropped.*Did you mean 'bad'"):
        anytime(tally_of(100), dropped=["badd"])


def combined(tally, users, seed, *, without=()):
    """Show pages to users who click on what dense ranks first; some rankers are not shown."""
    method, rng = ml.get_method("rpm"), np.random.default_rng(seed)
    for user in range(users):
        order = [f"d{n}" for n in rng.permutation(6)]
        rankings = {"bm25": order[::-1], "dense": order, "ltr": order[1:] + order[:1]}
        shown = {name: None if name in without else ranking for name, ranking in rankings.items()}
        impression = method.combine(shown, k=3, seed=f"{seed}/{user}")
        clicks = [document for document in impression.shown if rng.random() < 0.8 / (1 + order.index(document))]
        unit = f"{seed}/{user}"
        tally.add(ml.infer(impression, clicks), unit=unit, clicks=len(clicks), impression=impression)
    return tally


def test_a_dropped_rankers_pairs_keep_the_evidence_up_to_the_drop():
    tally = combined(Tally(("bm25", "dense", "ltr")), 300, 1)
    before = anytime(tally).pair("dense", "bm25")
    combined(tally, 600, 2, without=("bm25",))
    diluted, after = anytime(tally).pair("dense", "bm25"), anytime(tally, dropped=["bm25"])
    pair = after.pair("dense", "bm25")
    assert diluted.preference == pytest.approx(before.preference / 3)
    assert pair.preference == pytest.approx(before.preference)
    assert pair.low == pytest.approx(before.low, rel=0.15)
    assert pair.low <= before.low  # the variance about the mean of all impressions is a little larger
    assert pair.p >= before.p
    assert pair.significant
    assert after.pair("dense", "ltr") == anytime(tally).pair("dense", "ltr")


def test_a_dropped_ranker_is_not_reported_as_failing():
    tally = combined(combined(Tally(("bm25", "dense", "ltr")), 100, 1), 100, 2, without=("bm25",))
    assert any("returned nothing" in warning for warning in anytime(tally).warnings)
    after = anytime(tally, dropped=["bm25"])
    assert not any("returned nothing" in warning for warning in after.warnings)
    assert after.health.missing["bm25"] == after.health.fallbacks == 0.0
