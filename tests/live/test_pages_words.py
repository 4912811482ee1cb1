"""What the pages say and draw, from real verdicts."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="pip install 'multileave[live]'")

from multileave.errors import MultileaveError
from multileave.live.definition import Definition
from multileave.live.pages.forecast import duration, forecast, new_units_per_day, schedule, wait
from multileave.live.pages.forms import definition_of, method_choices, texts_of
from multileave.live.pages.health_figures import balances_of, figures_of
from multileave.live.pages.pairs import curves_of, drawn_rankers, forest_of, matrix_of
from multileave.live.pages.rendering import harmless, render
from multileave.live.pages.svg import Scale, scale_of
from multileave.live.records import Look, LookPair
from multileave.methods import methods
from multileave.outcome import Outcome
from multileave.stats import Tally

RANKERS = ("bm25", "dense", "ltr")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def verdict_of(units, means=(0.0, 0.02, 0.4)):
    rng = np.random.default_rng(5)
    tally = Tally(RANKERS)
    for user in range(units):
        tally.add(Outcome(RANKERS, "difference", rng.normal(means, 1.0)), unit=user)
    return tally.verdict(interval="anytime")


def look_of(verdict, at):
    pairs = tuple(LookPair(pair.rankers, pair.preference, pair.low, pair.high) for pair in verdict.pairs)
    return Look(at, verdict.impressions, verdict.units, pairs)


def test_pairs_with_the_control_come_first_and_are_read_over_it():
    verdict = verdict_of(600)
    forest = forest_of(verdict, "dense", drawn_rankers(verdict, "dense"), None)
    assert [(row.first, row.second) for row in forest.against_control] == [("ltr", "dense"), ("bm25", "dense")]
    assert [(row.first, row.second) for row in forest.others] == [("ltr", "bm25")]
    assert forest.against_control[0].words == "significantly better"
    assert forest.against_control[1].words == "not significant"
    pair = verdict.pair("ltr", "dense")
    assert float(forest.against_control[0].preference) == pytest.approx(pair.preference, abs=0.005)
    assert 'class="strip up"' in forest.against_control[0].strip


def test_the_matrix_is_antisymmetric_and_marks_what_is_decided():
    matrix = dict(matrix_of(verdict_of(600), RANKERS))
    assert [cell is None for cell in matrix["bm25"]] == [True, False, False]
    upper, lower = matrix["ltr"][0], matrix["bm25"][2]
    assert (upper.text[0], lower.text[0]) == ("+", "−")
    assert upper.text[1:] == lower.text[1:]
    assert (upper.shade, lower.shade, upper.significant) == ("up-3", "down-3", True)
    assert not matrix["dense"][0].significant


def test_a_strip_is_cut_where_an_interval_is_far_wider_than_the_rest():
    verdict = verdict_of(600)
    wide = replace(verdict, pairs=(replace(verdict.pairs[0], low=-9e4, high=9e4), *verdict.pairs[1:]))
    forest = forest_of(wide, "bm25", RANKERS, None)
    assert forest.against_control[0].strip.count('class="cut"') == 2
    assert forest.against_control[1].strip.count('class="cut"') == 0


def test_curves_read_pairs_either_way_and_have_a_table():
    looks = [look_of(verdict_of(units), NOON + timedelta(hours=units)) for units in (50, 100, 200)]
    verdict = verdict_of(200)
    curves = curves_of(looks, verdict, "ltr", RANKERS)
    assert [name for name, _, _ in curves.panels] == ["bm25", "dense"]
    assert [units for _, units, _ in curves.rows] == [50, 100, 200]
    assert float(curves.rows[-1][2][0].split()[0].replace("−", "-")) == pytest.approx(
        verdict.pair("bm25", "ltr").preference, abs=0.005
    )
    assert curves_of(looks[:1], verdict, "ltr", RANKERS) is None


def test_many_looks_are_spread_and_the_page_says_of_how_many():
    verdict = verdict_of(50)
    looks = [replace(look_of(verdict, NOON + timedelta(minutes=n)), units=n) for n in range(200)]
    curves = curves_of(looks, verdict, "bm25", RANKERS)
    assert (len(curves.rows), curves.looks) == (40, 200)
    assert (curves.rows[0][1], curves.rows[-1][1]) == (0, 199)


def test_scales_hold_zero_and_every_preference():
    for estimates in ([], [(0.0, 0.0, 0.0)], [(0.3, 0.2, 0.4)], [(-2.0, -1e9, 1e9)], [(1e-9, -1e-9, 3e-9)]):
        scale = scale_of(estimates)
        assert scale.low < 0.0 < scale.high
        assert all(scale.low <= preference <= scale.high for preference, _, _ in estimates)
        assert 0.0 in scale.ticks()
        assert 2 <= len(Scale(scale.low, scale.high).ticks()) <= 10 or math.isclose(scale.low, -scale.high)


def test_the_rate_is_of_new_units_in_about_the_last_week_up_to_now():
    looks = [
        Look(NOON - timedelta(days=30), 1, 1, ()),
        Look(NOON - timedelta(days=2), 9, 100, ()),
        Look(NOON, 9, 300, ()),
    ]
    assert new_units_per_day(looks, NOON) == pytest.approx(299 / 30)
    assert new_units_per_day(looks[1:], NOON) == pytest.approx(100)
    assert new_units_per_day(looks, NOON + timedelta(days=5)) == pytest.approx(200 / 7)
    assert new_units_per_day(looks, NOON + timedelta(days=30)) is None
    assert new_units_per_day(looks[:1], NOON) is None


def test_seconds_of_traffic_are_not_extrapolated_to_days():
    looks = [Look(NOON, 2, 2, ()), Look(NOON + timedelta(seconds=45), 900, 500, ())]
    for hours in (0.0125, 1, 23):
        assert new_units_per_day(looks, NOON + timedelta(hours=hours)) is None
    assert new_units_per_day(looks, NOON + timedelta(hours=24)) == pytest.approx(498)


def test_waiting_is_said_in_words():
    assert [wait(more, more, 100.0) for more in (1, 50, 300, 2_000, 10**6)] == [
        "about 14 minutes", "about 12 hours", "about 3 days", "about 3 weeks", "over two years",
    ]  # fmt: skip
    assert [wait(low, 10 * low, 100.0) for low in (1, 300, 10**5)] == [
        "14 minutes to 2 hours", "3 days to 4 weeks", "over two years",
    ]  # fmt: skip
    assert wait(50, None, 100.0) == "at least 12 hours"
    assert duration(0.0) == "under a minute"
    verdict = verdict_of(60)
    until = "until ltr differs significantly from bm25"
    assert forecast(verdict, "bm25", "user", None).startswith(f"About 270 to 1,400 more users {until}")
    assert forecast(verdict, "bm25", "user", 1e7).startswith(f"Under a minute {until}")
    assert forecast(verdict, "bm25", "user", 1e6).startswith(f"Up to 2 minutes {until}")
    assert forecast(verdict, "bm25", "user", 9.0).startswith(f"4 weeks to 5 months {until}")
    assert forecast(None, "bm25", "session", None) == "A verdict needs at least two sessions."
    assert (
        forecast(verdict_of(3000, (0, 0.3, 0.4)), "bm25", "user", 9.0)
        == "Every ranker differs significantly from bm25."
    )
    alike = verdict_of(400, (0.0, 0.0, 0.0))
    far = replace(alike, pairs=tuple(replace(pair, more_units=None) for pair in alike.pairs))
    assert "over 100 times as many users" in forecast(far, "bm25", "user", 9.0)


def test_health_is_put_into_words():
    health = replace(
        verdict_of(60).health,
        fallbacks=0.25,
        missing={"ltr": 0.25, "bm25": 0.0},
        first={"p": 0.0001, "rankers": {"ltr": [10.0, 20.0]}},
    )
    figures = {words: value for value, words in figures_of(health, "user")}
    assert figures["effective sample size, users"] == "60"
    assert figures["impressions without ltr"] == "25 %"
    assert not any("bm25" in words for words in figures)
    [balance] = balances_of(health)
    assert (balance.p, balance.rows) == ("p < 0.001", (("ltr", "10", "20.0"),))


@pytest.mark.parametrize("share", [0.07, 0.1, 1 / 3, 1.0])
@pytest.mark.parametrize("method", [*methods()])
def test_a_definition_survives_its_form(method, share):
    definition = Definition(
        "A <name>", ("b", "c"), "c", method, group="g", share=share, retention_days=0.5, window=90.0,
        actions=("click", "a, b"), keep_queries=True, hash_units=False,
    )  # fmt: skip
    made = definition_of(texts_of(definition))
    assert replace(made, share=share) == definition
    assert made.share == pytest.approx(share, abs=1e-9)


def test_the_recommended_method_is_offered_first_and_all_are():
    choices = method_choices()
    assert choices[0][0] == "rpm"
    assert "recommended" in choices[0][1]
    assert {name for name, _ in choices} == set(methods())


def test_nothing_invisible_reaches_a_page():
    every = "".join(map(chr, range(0x11000)))
    shown = harmless(every)
    shown.encode("utf-8")
    assert not set(shown) & {"\x00", "\x1b", "\x7f", "\x85", "\u202e", "\u2028", "\ufeff", "\udfff", "\u200b"}
    assert {"é", "漢", "\n", "א"} <= set(shown)
    assert "<b>" not in render("error.html", viewer=_Nobody, path="/", title="t", message="<b>\x00")


class _Nobody:
    reader = False


def test_scheduled_looks_say_which_look_the_verdict_is_and_when_the_next_is():
    definition = Definition.from_dict({"name": "n", "rankers": list(RANKERS), "looks": [100, 600, 1000]})
    assert schedule(Definition.from_dict({"name": "n", "rankers": list(RANKERS)}), None, 5) == ""
    assert schedule(definition, None, 70) == "The next look is at 100 users; there are 70."
    assert schedule(definition, verdict_of(600), 700) == (
        "The verdict is that of look 2 of 3. The next look is at 1,000 users; there are 700."
    )
    assert schedule(definition, verdict_of(1010), 2000).startswith("This is the last of 3 scheduled looks")


@pytest.mark.parametrize("looks", [[100, 100], [200, 100], [1], ["a"]])
def test_scheduled_looks_must_increase(looks):
    with pytest.raises(MultileaveError, match="looks"):
        Definition.from_dict({"name": "n", "rankers": list(RANKERS), "looks": looks})
