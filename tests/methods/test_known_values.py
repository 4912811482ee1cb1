"""Values that can be worked out by hand, and the cases where the paper or public codes went wrong."""

from fractions import Fraction as F

import numpy as np
import pytest

import multileave as ml

pytestmark = pytest.mark.fast


def law(method, *rankings, k=None):
    """Return the probability of every visible list, by definition."""
    exact = tuple(tuple(ranking) for ranking in rankings)
    k = k or max(map(len, exact))
    total = {}
    for drawn, _, probability in method.lists(exact, k):
        shown = "".join(drawn[:k])
        total[shown] = total.get(shown, 0) + probability
    return total


def expected_preference(method, rankings, law_of_clicks, k):
    """Return E[P_01] by definition, where law_of_clicks(shown) yields (clicked positions, probability)."""
    from multileave.methods.exact import exact_preferences

    exact = tuple(tuple(ranking) for ranking in rankings)
    total = F(0)
    for drawn, note, probability in method.lists(exact, k):
        for clicks, chance in law_of_clicks(drawn[:k]):
            score = method.score(exact, drawn, note, clicks, k)
            total += probability * chance * exact_preferences(method.outcome, score)[0][1]
    return total


def test_tdm_shows_the_majority_first_two_times_in_three():
    assert law(ml.TeamDraft(), "AB", "BA", "BA") == {"AB": F(1, 3), "BA": F(2, 3)}


def test_ppm_is_uniform_over_its_lists():
    lists = law(ml.PairwisePreference(), "ABC", "BCA")
    assert lists == {"ABC": F(1, 4), "ACB": F(1, 4), "BAC": F(1, 4), "BCA": F(1, 4)}


@pytest.mark.parametrize(
    ("shown", "clicked", "unclicked", "weight"),
    [("BAC", "A", "B", F(1)), ("BCA", "C", "A", F(1, 2)), ("ACB", "C", "B", F(1, 2))],
)
def test_ppm_weights(shown, clicked, unclicked, weight):
    """On ABC / BCA: AB 1, AC 1/2, BC 1/2. All but one pair is left out by a third click."""
    method = ml.PairwisePreference(pairs="all")
    rankings = (tuple("ABC"), tuple("BCA"))
    clicks = [position for position, document in enumerate(shown) if document != unclicked]
    scores = method.score(rankings, tuple(shown), (), clicks, 3)
    others = [document for document in shown if document not in (clicked, unclicked)]
    pair_alone = scores[0]
    for other in others:  # subtract the pair (other, unclicked) where it counts
        best = {"A": 1, "B": 1, "C": 2}
        positions = sorted((shown.index(other), shown.index(unclicked)))
        if positions[0] + 1 >= max(best[other], best[unclicked]):
            other_weight = F(1, 2) if "C" in (other, unclicked) else F(1)
            sign = 1 if "ABC".index(other) < "ABC".index(unclicked) else -1
            pair_alone -= sign / other_weight
    sign = 1 if "ABC".index(clicked) < "ABC".index(unclicked) else -1
    assert pair_alone == sign / weight


def test_the_printed_weight_would_divide_by_zero():
    """Algorithm 3 prints |Omega(x)| - x - 1; on ABC / BCA at x = 1 that is 2 - 1 - 1."""
    method = ml.PairwisePreference()
    impression = next(
        i for i in (method.combine(["ABC", "BCA"], 3, seed=s) for s in range(50)) if i.shown == tuple("BCA")
    )
    outcome = ml.infer(impression, clicks=["C"])
    assert outcome.preferences[1, 0] > 0  # BCA placed C higher


def test_probabilistic_lists_and_credit():
    method = ml.Probabilistic()
    assert law(method, "AB", "BA", "BA")["AB"] == F(10, 27)
    rankings = (tuple("AB"), tuple("BA"), tuple("BA"))
    assert method.score(rankings, ("A", "B"), (), [0], 2) == [F(4, 5), F(1, 10), F(1, 10)]


def test_the_sign_of_pms_expected_credit_would_be_biased_and_the_expected_sign_is_not():
    rankings = ["AB", "BA", "BA"]
    click_first = lambda shown: [((0,), F(1))]  # noqa: E731
    assert expected_preference(ml.Probabilistic(credit="sign"), rankings, click_first, 2) == 0
    expected = law(ml.Probabilistic(), *rankings)
    assert expected["AB"] - expected["BA"] == F(-7, 27)


def test_optimized_interleaving():
    method = ml.Optimized(samples="all", credit="inverse")
    assert law(method, "ABC", "BCA") == {"ABC": F(3, 7), "BAC": F(13, 35), "BCA": F(1, 5)}


def test_sosm_is_biased_by_position():
    """AB / BA / BA with clicks at rank 1 with p1 and at rank 2 with p2: E[P_12] = -(p1 - p2) / 3."""
    p1, p2 = F(3, 5), F(1, 5)
    clicks = [((0,), p1 * (1 - p2)), ((1,), (1 - p1) * p2), ((0, 1), p1 * p2), ((), (1 - p1) * (1 - p2))]
    found = expected_preference(ml.SampleScored(), ["AB", "BA", "BA"], lambda shown: clicks, 2)
    assert found == -(p1 - p2) / 3


def test_the_hidden_document_brings_back_what_the_cut_lost():
    """AB / BA, A relevant, k = 1, the user clicks A: without the hidden document nothing is learnt."""
    click_relevant = lambda shown: [((0,), F(1))] if shown == ("A",) else [((), F(1))]  # noqa: E731
    assert expected_preference(ml.PairwisePreference(hidden=False), ["AB", "BA"], click_relevant, 1) == 0
    assert expected_preference(ml.PairwisePreference(), ["AB", "BA"], click_relevant, 1) == 1


def test_ppm_is_not_divided_by_the_number_of_pairs():
    """ABC / BCA with clicks at rank 2 only or at rank 3 only must prefer nobody; dividing would."""
    for positions in ((1,), (2,)):
        assert expected_preference(ml.PairwisePreference(), ["ABC", "BCA"], lambda s, p=positions: [(p, F(1))], 3) == 0


def test_pair_rules_differ_where_they_should():
    """Shown ABCDE, clicks on A and D: what is preferred to what."""
    from multileave.methods.pairwise_preference import preferred_pairs

    def pairs(rule):
        return {("ABCDE"[i], "ABCDE"[j]) for i, j in preferred_pairs(rule, 5, [0, 3])}

    unclicked_above = {("A", "B"), ("A", "C"), ("D", "B"), ("D", "C")}
    assert pairs("equation") == unclicked_above | {("A", "E"), ("D", "E")}
    assert pairs("local") == {("A", "B"), ("D", "B"), ("D", "C"), ("D", "E")}
    assert pairs("all") == unclicked_above | {("A", "E"), ("D", "E")}


def test_the_common_prefix_has_no_team():
    impression = ml.TeamDraft().combine(["ABCD", "ABDC"], k=4, seed=1)
    assert impression.note[:2].tolist() == [-1, -1]
    assert not ml.infer(impression, clicks=["A", "B"]).preferences.any()
    drafted = ml.TeamDraft(prefix="drafted").combine(["ABCD", "ABDC"], k=4, seed=1)
    assert sorted(drafted.note[:2].tolist()) == [0, 1]


def test_absent_documents_come_last_and_tie():
    """A document a ranker did not return comes after all it returned; between two such it has no preference."""
    method = ml.PairwisePreference(pairs="all")
    rankings = (("A",), ("B", "C", "A"))
    shown = ("A", "B", "C")
    by_b = method.score(rankings, shown, (), [1], 3)  # B before A and C
    assert by_b[0] == -1  # ranker 0 prefers A to B, and does not know C
    assert by_b[1] == 1 + 2  # B before A, weight 1, and before C, weight 1/2


def test_om_reads_an_absent_document_as_one_past_the_end():
    method = ml.Optimized(samples="all")
    assert method.score((("A",), ("B", "C", "A")), ("A", "B"), (), [1], 2) == [F(1, 2), F(1)]


def test_sosm_shares_the_mean_rank_among_absent_documents():
    method = ml.SampleScored(tau=1)
    credits = method.score((("A",), ("B", "C", "A")), ("A", "B", "C"), (), [1], 3)
    assert credits == [1 / F(5, 2), F(1)]


def test_an_outcome_reads_as_an_order():
    outcome = ml.Outcome(("a", "b", "c"), "difference", np.array([0.0, 2.0, 0.0]))
    assert str(outcome) == "b > a = c"
    assert str(ml.Outcome(("a", "b"), "sign", np.zeros(2))) == "no preference between a, b"
