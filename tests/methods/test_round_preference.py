"""rpm: rounds and pairs, both requirements for users who stop, copies, and what it reads."""

from collections import Counter
from fractions import Fraction as F
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave import theory
from multileave.errors import MethodError
from multileave.methods.round_preference import expect_leads
from multileave.theory.proofs import proved
from multileave.theory.users import PRESETS

IMPATIENT = theory.Cascade(click=(F(1, 20), F(19, 20)), stop=(F(1, 5), F(99, 100)))
FORGIVING = theory.Cascade(click=(F(49, 100), F(1, 2)), stop=(F(99, 100), 0))


def preference(clicks, drawn="ABC", note=(0, 0, 0), rankings=("ABCD", "BCAD"), k=3):
    return ml.RoundPreference().score(tuple(map(tuple, rankings)), tuple(drawn), note, clicks, k)[0][1]


def test_pairs_of_one_round_count_by_the_sum_of_their_moves():
    # Heights of A, B, C: 3, 2, 1 and 1, 3, 2. So A moves up by 2, and B and C down by 1.
    up, down = F(2, 3), F(1, 3)
    assert preference([0]) == 2 * (up + down)
    assert preference([1]) == -(up + down)  # B against A; B and C move in one direction
    assert preference([0, 1]) == up + down
    assert preference([0, 1, 2]) == 0 == preference([])
    assert preference([0], note=(0, 1, 1)) == 0
    assert preference([2], note=(0, 1, 0)) == -(up + down)


def test_a_round_is_every_ranker_s_best_document_that_is_left_in_random_order():
    lists = theory.distribution("rpm(lead=0)", ["ABCD", "BACD", "ACBD"], k=3)
    # Round 1: A and B. Round 2: C, whom all have next. The hidden document is D.
    assert lists == {tuple("ABC"): F(1, 2), tuple("BAC"): F(1, 2)}
    assert theory.distribution("rpm(lead=0)", ["AB", "CD", "EF"], k=1) == {
        ("A",): F(1, 3),
        ("C",): F(1, 3),
        ("E",): F(1, 3),
    }


def test_a_group_takes_part_and_others_join_when_it_has_no_documents_left():
    lists = theory.distribution("rpm(group=2, lead=0)", ["A", "B", "CDE"], k=4)
    assert {shown[:2] for shown in lists} == set(permutations("ABC", 2))
    assert all(len(shown) == 4 for shown in lists)
    assert sum(p for shown, p in lists.items() if set(shown[:2]) == {"A", "B"}) == F(1, 3)


def test_a_lead_shows_what_rounds_alone_never_would():
    rankings = ["ABC", "CAB"]
    assert all("B" not in shown for shown in theory.distribution("rpm(lead=0)", rankings, k=2))
    assert sum(p for shown, p in theory.distribution("rpm(lead=2)", rankings, k=2).items() if "B" in shown) == F(1, 8)


@pytest.mark.parametrize(
    ("user", "holds"), [("navigational", True), ("informational", True), (IMPATIENT, True), (FORGIVING, False)]
)
def test_a_better_ranker_wins_with_users_who_stop(user, holds):
    report = theory.check("rpm", documents=3, rankers=3, user=user)
    assert report.pareto.holds == report.pareto.proved == holds
    assert report.unbiased.holds


def test_what_is_proved():
    assert proved(ml.get_method("rpm")) == {"considerate", "unbiased", "pareto", "clone_proof"}
    assert "pareto" not in proved(ml.get_method("rpm(lead=0)"))
    assert "pareto" in proved(ml.get_method("rpm"), PRESETS["navigational"])
    assert "pareto" not in proved(ml.get_method("rpm"), FORGIVING)


# Where ppm or dpm prefer the dominated ranker, or want proof: docs/theory.md.
DEFEATS = [
    (("ABCDEF", "AFCEDB", "BDACEF"), "ACE", (1, 0), 4),
    (("ABCDEF", "ADCEFB", "BECADF"), "ACF", (1, 0), 5),
    (("XJIVKMW", "XKIJVMW", "KMJWXIV"), "XIV", (0, 1), 4),
]


@pytest.mark.parametrize(("rankings", "relevant", "pair", "k"), DEFEATS)
@pytest.mark.parametrize("user", ["perfect", "navigational", IMPATIENT])
def test_it_holds_on_instances_that_defeat_ppm_and_dpm(rankings, relevant, pair, k, user):
    better, worse = pair
    assert theory.expectation("rpm", rankings, user, relevant, k)[better][worse] > 0


@st.composite
def lists(draw, rankers=3, most=5):
    documents = list(range(most))
    return [draw(st.permutations(documents))[: draw(st.integers(1, most))] for _ in range(rankers)]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rankings=lists(), k=st.integers(1, 4), data=st.data())
def test_lists_of_any_length_and_content_are_unbiased(rankings, k, data):
    chances = data.draw(st.lists(st.fractions(0, 1, max_denominator=7), min_size=k, max_size=k))
    user = theory.Independent(relevant=chances, other=chances)
    assert not any(map(any, theory.expectation("rpm(lead=2)", rankings, user, (), k)))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rankings=lists(rankers=2), k=st.integers(1, 4), relevant=st.frozensets(st.integers(0, 4)), data=st.data())
def test_copies_of_a_ranker_change_nothing_between_the_others(rankings, k, relevant, data):
    copied = [*rankings, rankings[data.draw(st.integers(0, 1))]]
    for user in ("perfect", "navigational"):
        alone = theory.expectation("rpm", rankings, user, relevant, k)
        beside = theory.expectation("rpm", copied, user, relevant, k)
        assert [row[:2] for row in beside[:2]] == [tuple(row) for row in alone]


def test_clones_do_not_decide():
    """tdm prefers the copied ranker here; both are equally good."""
    rankings, relevant = ["ABCD", "ABCD", "CDAB"], {"A", "C"}
    assert theory.expectation("tdm", rankings, "perfect", relevant, 2)[0][2] != 0
    for user in ("perfect", "navigational"):
        assert theory.expectation("rpm", rankings, user, relevant, 2)[0][2] == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), rankers=st.integers(2, 7), k=st.integers(1, 6), seed=st.integers(0, 2**64 - 1))
def test_nothing_below_rank_k_plus_1_is_read(data, rankers, k, seed):
    whole = [data.draw(st.permutations(range(14))) for _ in range(rankers)]
    cut = [ranking[: data.draw(st.integers(k + 1, 14))] for ranking in whole]
    method = ml.RoundPreference(lead=2)
    seen, again = (method.combine(rankings, k, seed=seed) for rankings in (whole, cut))
    assert seen.drawn == again.drawn
    assert np.array_equal(seen.note, again.note)
    for clicks in ([0], range(0, k, 2), range(1, k, 2)):
        assert ml.infer(seen, positions=clicks) == ml.infer(again, positions=clicks)


def test_many_rankers_and_copies_of_all():
    rng = np.random.default_rng(1)
    distinct = [rng.permutation(40) for _ in range(3)]
    rankings = np.array([distinct[n % 3] for n in range(200)])
    firsts = Counter(ml.RoundPreference(lead=0).combine(rankings, 10, seed=s).shown[0] for s in range(300))
    assert set(firsts) == {int(ranking[0]) for ranking in distinct}
    assert min(firsts.values()) > 60
    impression = ml.RoundPreference().combine(rankings, 10, seed=1)
    matrix = ml.infer(impression, positions=[0, 3]).preferences
    assert matrix.shape == (200, 200)
    assert not matrix[0, 3::3].any()


@pytest.mark.parametrize("spec", ["rpm", "opm"])
def test_an_impression_with_many_hidden_documents_is_inferred(spec):
    data = ml.get_method(spec).combine([list(range(30)), list(range(29, -1, -1))], k=20, seed=1).to_dict()
    data |= {"k": 1, "shown": data["shown"][:1], "hidden": data["shown"][1:] + data["hidden"]}
    assert ml.infer(ml.Impression.from_dict(data), positions=[0]).preferences.shape == (2, 2)


def test_leads_of_rounds():
    ranks = np.array([[1, 2, 3], [2, 1, ml.impression.ABSENT], [3, 3, 1], [4, 4, ml.impression.ABSENT]], dtype=np.int32)
    for every, observed, expected in ((False, [1, 0, 1], [1 / 2] * 3), (True, [2, 1, 2], [1.0] * 3)):
        own, due = np.zeros((2, 3))
        note, lengths = np.array([0, 0, 1, 1], dtype=np.int32), np.full(3, 4, dtype=np.int32)
        assert expect_leads(ranks, lengths, note, 4, every, np.zeros(2), own, due, np.zeros(6)) == 1 + every
        assert own.tolist() == observed
        assert due.tolist() == expected


@pytest.mark.parametrize("wrong", ["group=1", "group=2.5", "lead=-1", "lead=True", "group='all'"])
def test_parameters_are_checked(wrong):
    with pytest.raises(MethodError, match="expected an integer from"):
        ml.get_method(f"rpm({wrong})")


PREFIXES = st.sampled_from(["neutral", "drafted"])


class Drafted:
    """Team drafts inferred by exchanges, as a definition: what `TeamExchange` is to be compared with."""

    @staticmethod
    def score(drafts, rankings, drawn, teams, clicks, k):
        """P_nm by all pairs that, exchanged with their teams in one round, are a draft of the same probability."""
        total = [[F(0)] * len(rankings) for _ in rankings]
        pairs = [(x, y) for x in range(len(drawn)) for y in range(x + 1, len(drawn))]
        for x, y in pairs:
            one_round = min(teams[x : y + 1]) >= 0 and len(set(teams[x : y + 1])) == y - x + 1
            place = {x: y, y: x}
            order = [place.get(z, z) for z in range(len(drawn))]
            exchanged = tuple(drawn[z] for z in order), tuple(teams[z] for z in order)
            if not one_round or y >= min(map(len, rankings)) or exchanged not in drafts:
                continue
            assert drafts[exchanged] == drafts[drawn, teams]
            note = tuple(x if z in (x, y) else -1 - z for z in range(len(drawn)))
            score = ml.RoundPreference().score(rankings, drawn, note, clicks, k)
            total = [[t + s for t, s in zip(*rows, strict=True)] for rows in zip(total, score, strict=True)]
        return total

    @classmethod
    def expectation(cls, prefix, rankings, user, relevant, k):
        """E[P] over all drafts, exactly."""
        rankings = tuple(map(tuple, rankings))
        drafts = {(drawn, teams): p for drawn, teams, p in ml.TeamDraft(prefix=prefix).lists(rankings, k)}
        total = [[F(0)] * len(rankings) for _ in rankings]
        for (drawn, teams), chance in drafts.items():
            for clicks, part in user.law([int(d in relevant) for d in drawn]):
                score = cls.score(drafts, rankings, drawn, teams, clicks, k)
                total = [
                    [t + chance * part * s for t, s in zip(*rows, strict=True)]
                    for rows in zip(total, score, strict=True)
                ]
        return total


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rankings=lists(most=4),
    k=st.integers(1, 4),
    prefix=PREFIXES,
    seed=st.integers(0, 999),
)
def test_team_drafts_are_inferred_by_their_definition(rankings, k, prefix, seed):
    from multileave.integrations.team_drafts import team_draft_impression

    method = ml.TeamDraft(prefix=prefix)
    rankings = tuple(map(tuple, rankings))
    drafted = method.combine(rankings, k, seed=seed)
    drafts = {(drawn, teams): p for drawn, teams, p in method.lists(rankings, k)}
    names = {str(n): ranking for n, ranking in enumerate(rankings)}
    teams = tuple(drafted.note.tolist())
    impression = team_draft_impression(names, drafted.shown, [None if team < 0 else str(team) for team in teams])
    for clicks in ([0], range(0, len(teams), 2), range(1, len(teams), 2)):
        expected = Drafted.score(drafts, rankings, drafted.shown, teams, clicks, len(teams))
        assert ml.infer(impression, positions=clicks, method="rpm").preferences == pytest.approx(
            np.array(expected, dtype=float)
        )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(rankings=lists(most=4), k=st.integers(1, 4), prefix=PREFIXES, data=st.data())
def test_team_drafts_of_any_lists_are_unbiased(rankings, k, prefix, data):
    chances = data.draw(st.lists(st.fractions(0, 1, max_denominator=5), min_size=k, max_size=k))
    user = theory.Independent(relevant=chances, other=chances)
    assert not any(map(any, Drafted.expectation(prefix, rankings, user, (), k)))


@pytest.mark.parametrize("user", [theory.Independent(relevant=(1, 1, 1), other=(0, 0, 0)), PRESETS["navigational"]])
def test_team_drafts_never_prefer_the_dominated_ranker(user):
    from multileave.theory.instances import dominators

    seen = won = 0
    for others in permutations(permutations("ABC"), 2):
        rankings = (tuple("ABC"), *others)
        for relevant in ({"A"}, {"C"}, {"A", "B"}, {"B", "C"}):
            for better in dominators(rankings, frozenset(relevant), 2):
                expected = Drafted.expectation("neutral", rankings, user, relevant, 2)[better]
                assert min(expected) >= 0
                seen, won = seen + 2, won + sum(value > 0 for value in expected)
    assert won > seen / 2 > 0


def test_what_can_be_read_by_what():
    tdm, rpm, ppm, opm = map(ml.get_method, ("tdm", "rpm", "ppm", "opm"))
    assert ppm.rereads(opm) is ppm
    assert ml.get_method("ppm(hidden=False)").rereads(opm) is None
    assert rpm.rereads(ml.get_method("rpm(lead=0)")) is rpm
    assert rpm.rereads(ppm) is None
    impression = ppm.combine(["ABC", "CBA"], k=2, seed=1)
    assert ml.infer(impression, positions=[0], method="opm").kind == "matrix"
    with pytest.raises(MethodError, match="rpm cannot infer impressions that ppm drew"):
        ml.infer(impression, positions=[0], method="rpm")
    with pytest.raises(ml.ImpressionError, match="needs one for each"):
        ml.infer(tdm.combine(["ABC", "CBA"], k=2, seed=1), positions=[0], method="rpm")


GRADED = theory.Cascade(click=(F(1, 20), F(1, 2), F(19, 20)), stop=(F(1, 5), F(1, 2), F(9, 10)))


@pytest.mark.parametrize("spec", ["rpm(lead=2)", "opm"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), grades=st.lists(st.integers(0, 2), min_size=4, max_size=4), k=st.integers(1, 3))
def test_a_better_ranker_wins_by_graded_relevance(spec, data, grades, k):
    rankings = [data.draw(st.permutations(range(4))) for _ in range(3)]
    relevant = dict(enumerate(grades))
    expected = theory.expectation(spec, rankings, GRADED, relevant, k)
    seen = [d for d, grade in relevant.items() if grade and any(d in ranking[:k] for ranking in rankings)]
    for n, mine in enumerate(rankings):
        for m, theirs in enumerate(rankings):
            moves = [theirs.index(d) - mine.index(d) for d in seen]
            if n != m and all(move >= 0 for move in moves):
                assert expected[n][m] >= 0
                if any(move > 0 and mine.index(d) < k for d, move in zip(seen, moves, strict=True)):
                    assert expected[n][m] > 0
