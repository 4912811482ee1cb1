"""Health checks: what a tally keeps of impressions, and what a verdict says about them."""

import json

import numpy as np
import pytest

import multileave as ml
from multileave.errors import TallyError
from multileave.methods.base import methods
from multileave.outcome import Outcome
from multileave.stats import Tally
from multileave.stats.balance import Balance, expected_balance

ABC = ("a", "b", "c")
RANKINGS = {
    "a": ["d1", "d2", "d3", "d4", "d5", "d6"],
    "b": ["d1", "d3", "d2", "d6", "d5", "d4"],
    "c": ["d4", "d1", "d5", "d2", "d3", "d6"],
}


def shown(spec, seed, rankings=RANKINGS, k=4):
    return ml.get_method(spec).combine(rankings, k=k, seed=seed)


def tally_of(impressions, clicks=lambda n: [0]):
    tally = Tally(impressions[0].rankers)
    for n, impression in enumerate(impressions):
        clicked = clicks(n)
        tally.add(ml.infer(impression, positions=clicked), f"u{n}", clicks=len(clicked), impression=impression)
    return tally


def exact_mean(method, rankings, k, every):
    """The mean of observed less expected over every list of the definition, by its probability."""
    from multileave.impression import Impression

    names = tuple(rankings)
    lists = [list(ranking) for ranking in rankings.values()]
    total, weight = np.zeros(len(names)), 0.0
    for drawn, note, probability in method.lists(lists, k):
        ranks = np.array([[ranking.index(d) + 1 for ranking in lists] for d in drawn], dtype=np.int32)
        impression = Impression(
            names, method.spelled, k, tuple(drawn[:k]), tuple(drawn[k:]), (),
            np.array([len(ranking) for ranking in lists], dtype=np.int32),
            ranks if method.keeps_ranks else ranks[:0], np.array(note, dtype=np.int32), (),
        )  # fmt: skip
        found = expected_balance(impression, method, every=every)
        if found is not None:
            total += float(probability) * (found[0] - found[1])
            weight += float(probability)
    return total, weight


@pytest.mark.parametrize("spec", [name for name in methods() if name != "om"])
@pytest.mark.parametrize("every", [False, True])
def test_what_is_observed_is_on_average_what_is_expected_exactly(spec, every):
    method = ml.get_method(spec)
    names = ABC[: method.most_rankers or 3]
    rankings = {name: RANKINGS[name][:5] for name in names}
    rankings = {
        name: [d for d in ranking if d != "d6"] + ["d6"] * ("d6" not in ranking) for name, ranking in rankings.items()
    }
    documents = ["d1", "d2", "d3", "d4", "d5", "d6"]
    rankings = {
        name: ranking[:5] + [d for d in documents if d not in ranking[:5]] for name, ranking in rankings.items()
    }
    difference, weight = exact_mean(method, rankings, 3, every)
    if not every or spec in ("tdm", "ppm", "dpm", "opm", "rpm"):
        assert weight == pytest.approx(1.0)
    np.testing.assert_allclose(difference, 0.0, atol=1e-12)


def test_om_is_not_judged_by_a_balance_it_does_not_promise():
    impression = shown("om", 1)
    assert expected_balance(impression, ml.get_method("om"), every=False) is None
    assert expected_balance(impression, ml.get_method("om"), every=True) is None


@pytest.mark.parametrize("spec", ["tdm", "ppm", "pm", "sosm"])
def test_honest_draws_are_balanced(spec):
    tally = tally_of([shown(spec, seed) for seed in range(600)])
    health = tally.health()
    assert health.first["p"] > 0.001
    assert sum(observed for observed, _ in health.first["rankers"].values()) > 0
    if spec in ("tdm", "ppm"):
        assert health.exposure["p"] > 0.001
    assert not any("expects" in warning for warning in health.warnings)


@pytest.mark.parametrize("spec", ["tdm", "ppm", "pm", "sosm"])
def test_a_draw_that_everybody_is_shown_is_noticed(spec):
    # One draw, cached: the same page for 600 users.
    tally = tally_of([shown(spec, 3)] * 600)
    health = tally.verdict().health
    assert health.first["p"] < 1e-6
    assert any("Are pages shown exactly as drawn" in warning for warning in health.warnings)
    assert "warning: Sample ratio mismatch: documents of" in str(tally.verdict())


def test_few_impressions_say_nothing_about_balance():
    assert tally_of([shown("tdm", 3)] * 20).health().first["p"] is None


def test_chi_square_of_even_draws_has_its_distribution():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        balance = Balance(3)
        for team in rng.integers(3, size=200):
            balance.add(np.eye(3)[team], np.full(3, 1 / 3))
        _, freedom, p = balance.test()
        assert freedom == 2
        found.append(p)
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)
    assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.06)


def test_shares_are_counted():
    alike = dict.fromkeys(ABC, RANKINGS["a"])
    cut = {**RANKINGS, "b": ["d1"]}
    impressions = [shown("ppm", n) for n in range(5)] + [shown("ppm", n, alike) for n in range(3)]
    impressions += [shown("ppm", n, cut) for n in range(2)]
    tally = tally_of(impressions, lambda n: [0] if n % 2 else [])
    for missing in (["b"], ["b", "c"]):
        tally.add_fallback(missing)
    health = tally.health()
    assert tally.impressions == 10
    assert health.without_clicks == pytest.approx(5 / 10)
    assert health.no_preference == pytest.approx(3 / 10)
    assert health.fallbacks == pytest.approx(2 / 12)
    assert health.missing == pytest.approx({"a": 0.0, "b": 2 / 12, "c": 1 / 12})
    assert health.different_documents == pytest.approx(2 / 10)
    said = " ".join(health.warnings)
    assert "a ranker returned nothing, most often b (17 %)" in said
    assert "different documents" not in said
    assert health.short_lists == pytest.approx(2 / 10)
    assert health.short == pytest.approx({"a": 0.0, "b": 2 / 10, "c": 0.0})
    assert "a ranker (b) returned fewer than k + 1 results" in said
    assert f"Request at least {health.needed} results from every ranker" in said


@pytest.mark.parametrize(("returned", "warns"), [(30, False), (11, False), (10, True), (6, True)])
@pytest.mark.parametrize("method", ["rpm", "dpm", "opm", "tdm"])
def test_only_short_lists_are_a_warning_about_documents(method, returned, warns):
    tally = ml.Tally(ABC)
    for user in range(40):
        rng = np.random.default_rng(user)
        rankings = {name: [f"{name}{d}" for d in rng.permutation(60)[:returned]] for name in ABC}
        rankings["b"][0] = rankings["a"][0]
        rankings["c"] = [*rankings["c"][: returned - 1]] + ([] if warns and method == "tdm" else ["c99"])
        impression = ml.get_method(method).combine(rankings, 10, seed=user)
        tally.add(ml.infer(impression, positions=[0]), unit=user, impression=impression)
    health = tally.health()
    about = [warning for warning in health.warnings if "results" in warning or "documents" in warning]
    assert bool(about) == warns == (health.short_lists > 0)
    assert all("k + 1" in warning and "at least 11 results" in warning for warning in about)
    again = ml.Tally.from_dict(json.loads(json.dumps(tally.to_dict())))
    assert again.health().short_lists == health.short_lists


@pytest.mark.parametrize(("method", "warns"), [("pm", True), ("sosm", True), ("rpm", False), ("dpm", False)])
def test_copies_are_a_warning_where_they_mislead(method, warns):
    rankings = {"a": list("ABCDEF"), "copy": list("ABCDEF"), "c": list("FEDCBA")}
    tally = ml.Tally(tuple(rankings))
    for user in range(40):
        impression = ml.get_method(method).combine(rankings, 4, seed=user)
        tally.add(ml.infer(impression, positions=[0]), unit=user, impression=impression)
    health = tally.verdict().health
    assert any("a and copy returned the same page in 100 %" in warning for warning in health.warnings) == warns
    assert bool(health.to_dict()["same_pages"]) == warns


def test_tallies_of_earlier_versions_are_read():
    tally = tally_of([shown("ppm", n) for n in range(5)])
    data = tally.to_dict()
    for name in ("short_lists", "short", "needed", "same_pages"):
        del data["evidence"][name]
    assert ml.Tally.from_dict(data).health().short_lists == 0


def test_no_preference_is_read_from_teams_where_there_are_no_ranks():
    alike = dict.fromkeys(ABC, RANKINGS["a"])
    health = tally_of([shown("tdm", 0, alike)] * 3 + [shown("tdm", 0)]).health()
    assert health.no_preference == pytest.approx(3 / 4)
    assert any("none could be preferred" in warning for warning in health.warnings)


def test_impressions_without_clicks_are_a_warning_when_nearly_all_are():
    tally = tally_of([shown("ppm", n) for n in range(40)], lambda n: [0] if n == 7 else [])
    assert any("98 % of impressions have no clicks" in warning for warning in tally.health().warnings)


def test_heavy_users_are_noticed_by_their_clicks_or_else_by_their_impressions():
    tally = Tally(("a", "b"))
    outcome = Outcome(("a", "b"), "difference", np.array([1.0, 0.0]))
    other = Outcome(("a", "b"), "difference", np.array([0.0, 1.0]))
    for user in range(300):
        for visit in range(200 if user < 3 else 1):
            tally.add(outcome if visit % 2 else other, user)
    assert tally.health().top_share == pytest.approx(600 / 897)
    assert tally.health().effective_units == pytest.approx(897**2 / (3 * 200**2 + 297))
    said = " ".join(tally.health().warnings)
    assert "made 67 % of the impressions" in said
    assert "Effective sample size: 7 users" in said
    for user in range(300):
        tally.add(other, user, clicks=1)
    assert tally.health().top_share == pytest.approx(3 / 300)


def test_impressions_without_a_unit_are_units_of_mean_activity():
    tally = Tally(("a", "b"))
    outcome = Outcome(("a", "b"), "difference", np.array([1.0, 0.0]))
    for _ in range(200):
        tally.add(outcome, clicks=2)
    assert tally.health().top_share == pytest.approx(0.01)


def test_200_effective_users_are_enough_and_fewer_are_not():
    for users, warned in ((199, True), (200, False)):
        tally = Tally.from_sums(
            ("a", "b"),
            list(range(users)),
            np.ones(users, dtype=int),
            np.random.default_rng(0).random((users, 2)),
            np.ones(1),
        )
        verdict = tally.verdict()
        assert any("Effective sample size" in warning for warning in verdict.warnings) == warned
        assert ("warning" in str(verdict)) == warned
        assert verdict.sentence == str(verdict).splitlines()[0]


def test_late_clicks_change_what_was_counted():
    tally = Tally(("a", "b"))
    none, some = (Outcome(("a", "b"), "difference", np.array([x, 0.0])) for x in (0.0, 1.0))
    for unit in ("u", None, "v"):
        tally.add(none, unit, clicks=0)
    tally.replace(none, some, "u", clicks=(0, 2))
    tally.replace(none, some, clicks=(0, 1))
    assert tally.health().without_clicks == pytest.approx(1 / 3)
    levels, units = tally.activity()
    assert (levels.tolist(), units.tolist()) == ([0, 2, 1], [1, 1, 1])
    assert tally.verdict().pairs[0].share == pytest.approx(2.5 / 3)


def test_evidence_merges_in_any_order_of_rankers_and_goes_through_json():
    first = tally_of([shown("ppm", n) for n in range(60)])
    turned = {name: RANKINGS[name] for name in ("c", "a", "b")}
    second = tally_of([shown("tdm", n, turned) for n in range(60)])
    total = Tally(ABC).merge(first).merge(second)
    other = Tally(("c", "a", "b")).merge(second).merge(first)
    assert json.loads(json.dumps(total.to_dict()))["evidence"]["examined"] == 120
    again = Tally.from_dict(json.loads(json.dumps(total.to_dict())))
    assert again == total
    assert again.health() == total.health()
    assert other.health().first["chi_square"] == pytest.approx(total.health().first["chi_square"])
    for name, both in total.health().first["rankers"].items():
        assert other.health().first["rankers"][name] == pytest.approx(both)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clicks": -1}, "clicks is -1"),
        ({"clicks": 1.5}, "clicks is 1.5"),
        ({"clicks": True}, "clicks is True"),
        ({"impression": {"shown": []}}, "impression is a dict"),
        ({"impression": shown("bi", 1, {"x": ["d1"], "y": ["d2"]})}, "The impression compares x, y"),
    ],
)
def test_what_is_told_must_make_sense(options, words):
    tally = Tally(ABC)
    before = tally.to_dict()
    with pytest.raises(TallyError, match=words):
        tally.add(Outcome(ABC, "difference", np.zeros(3)), "u", **options)
    assert tally.to_dict() == before


@pytest.mark.parametrize("missing", [[], "b", ["d"], None, 3])
def test_fallbacks_name_the_rankers_that_are_missing(missing):
    with pytest.raises(TallyError, match="expected the names of those that returned nothing, out of a, b, c"):
        Tally(ABC).add_fallback(missing)


def test_a_tally_that_was_told_nothing_claims_nothing():
    tally = Tally(("a", "b"))
    for user in range(3):
        tally.add(Outcome(("a", "b"), "difference", np.array([float(user), 0.0])), user)
    data = tally.health().to_dict()
    assert [data[name] for name in ("without_clicks", "no_preference", "fallbacks", "first", "exposure")] == [None] * 5
    with pytest.raises(TallyError, match="health"):
        Tally(("a", "b")).health()
