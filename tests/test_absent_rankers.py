"""Rankers that did not answer take no part, and users who saw less are inferred from what they saw."""

import numpy as np
import pytest

import multileave as ml

RANKINGS = {
    "a": ["d1", "d2", "d3", "d4", "d5"],
    "b": None,
    "c": ["d5", "d4", "d3", "d2", "d1"],
    "d": ["d2", "d5", "d1"],
}
MANY = ["rpm", "dpm", "opm", "ppm", "pm", "om", "tdm", "sosm"]


@pytest.mark.parametrize("method", [*MANY, "pm(credit='sign')"])
@pytest.mark.parametrize("clicks", [[], [0], [1, 2]])
def test_preferences_are_those_among_the_rankers_that_answered(method, clicks):
    present = {name: ranking for name, ranking in RANKINGS.items() if ranking}
    for seed in range(20):
        impression = ml.get_method(method).combine(RANKINGS, 3, seed=seed)
        alone = ml.get_method(method).combine(present, 3, seed=seed)
        assert impression.shown == alone.shown
        assert impression.rankers == tuple("abcd")
        assert impression.lengths.tolist() == [5, 0, 5, 3]
        again = ml.Impression.from_dict(impression.to_dict())
        assert again == impression
        found = ml.infer(again, positions=clicks).preferences
        expected = ml.infer(alone, positions=clicks).preferences
        answered = [0, 2, 3]
        assert np.array_equal(found[np.ix_(answered, answered)], expected)
        assert not found[1].any()
        assert not found[:, 1].any()


def test_tallies_take_such_outcomes():
    tally = ml.Tally(tuple("abcd"))
    for seed in range(30):
        impression = ml.DepthPreference().combine(RANKINGS, 3, seed=seed)
        tally.add(ml.infer(impression, ["d5"] if "d5" in impression.shown else []), unit=seed, impression=impression)
    verdict = tally.verdict()
    assert verdict.pair("c", "a").preference > 0
    assert verdict.pair("b", "a").preference == 0
    assert verdict.health.fallbacks == 1
    assert verdict.health.missing == {"a": 0, "b": 1, "c": 0, "d": 0}


def test_too_few_that_answered_are_refused():
    with pytest.raises(ml.RankingsError, match="one ranking"):
        ml.TeamDraft().combine({"a": None, "b": ["d1"]}, 3)


@pytest.mark.parametrize("method", [*MANY, "rpm(lead=0)"])
@pytest.mark.parametrize("pinned", [None, {1: "ad", 4: "other"}])
def test_a_page_is_inferred_as_if_it_had_been_drawn_alone(method, pinned):
    rankings = {name: [f"d{n}" for n in np.random.default_rng(seed).permutation(12)] for seed, name in enumerate("abc")}
    for seed in range(20):
        whole = ml.get_method(method).combine(rankings, 8, seed=seed, pinned=pinned)
        page = whole.until(4)
        alone = ml.get_method(method).combine(
            rankings, 4, seed=seed, pinned={p: d for p, d in (pinned or {}).items() if p < 4}
        )
        if pinned is None and method not in ("om", "rpm"):  # which solves for whole lists; whose lead goes by k
            assert page == alone
        assert page.shown == whole.shown[:4]
        assert ml.Impression.from_dict(page.to_dict()) == page
        ml.infer(page, positions=[0, 3])
