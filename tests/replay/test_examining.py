"""Replay looks at the health of a log as a tally does that is told every impression."""

import numpy as np
import pyarrow as pa
from replay_logs import make_log

import multileave as ml
from multileave.methods.base import methods
from multileave.replay import JOINED, replay, to_row, write_parquet
from multileave.replay.inferring.examining import groups_of
from multileave.stats.balance import group_count, unit_group


def told(log, action="click"):
    """Return the tallies of a log, told all that there is to tell."""
    found = {}
    for shown in log:
        method = str(ml.get_method(shown.impression.method))
        tally = found.setdefault(method, ml.Tally(shown.impression.rankers))
        clicked = {event["position"] for event in shown.events if event["action"] == action}
        outcome = ml.infer(shown.impression, positions=clicked)
        clicks = len(clicked - {position for position, _ in shown.impression.pinned})
        tally.add(outcome, shown.user_id, clicks=clicks, impression=shown.impression)
    return found


def assert_same_health(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, dict):
            assert_same_health(mine[name], value)
        elif isinstance(value, str | None):
            assert mine[name] == value
        elif not isinstance(value, list) or not any(isinstance(one, str) for one in value):
            np.testing.assert_allclose(mine[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_every_method_has_the_health_that_its_tally_has(tmp_path):
    able = [name for name, method in methods().items() if method.most_rankers is None]
    log = make_log(60 * len(able), methods=able)
    log += make_log(120, methods=["bi", "pbi"], names=("old", "new"), seed=1)
    write_parquet(tmp_path / "log.parquet", [to_row(s.impression, **s.envelope, clicks=s.events) for s in log], JOINED)
    found = replay(tmp_path, actions=["click", "purchase"])
    for action in ("click", "purchase"):
        for method, tally in told(log, action).items():
            mine = found.tally(action, method)
            assert_same_health(mine.evidence.to_dict(), tally.evidence.to_dict())
            assert_same_health(mine.health().to_dict(), tally.health().to_dict())


def test_rankers_that_return_nothing_and_agreement_are_seen(tmp_path):
    rows, tally = [], ml.Tally(["a", "b", "c"])
    for number in range(90):
        nothing = ["advert"]  # is pinned, so that nothing is left of this ranking
        rankings = {
            "a": ["d1", "d2"],
            "b": nothing if number % 3 == 0 else ["d1", "d2"],
            "c": ["d1", "d2", "d3"][: 1 + number % 3],
        }
        impression = ml.PairwisePreference().combine(rankings, k=2, seed=number, pinned={1: "advert"})
        tally.add(ml.infer(impression, positions=[]), str(number), clicks=0, impression=impression)
        rows.append(to_row(impression, user_id=str(number), clicks=[]))
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    mine, theirs = replay(tmp_path).tally().health(), tally.health()
    assert min(theirs.fallbacks, theirs.no_preference, theirs.different_documents) > 0
    assert theirs.without_clicks == 1.0
    assert_same_health(mine.to_dict(), theirs.to_dict())
    assert mine.warnings == theirs.warnings


def test_a_page_that_is_shown_to_everybody_is_told(tmp_path):
    rankings = {"a": ["d1", "d2", "d3", "d4"], "b": ["d4", "d3", "d2", "d1"]}
    impression = ml.PairwisePreference().combine(rankings, k=3, seed=1)
    rows = [to_row(impression, user_id=str(user), clicks=[{"position": 0}]) for user in range(300)]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    found = replay(tmp_path)
    [comparison] = found.to_dict()["comparisons"]
    assert any("drawn anew for every user" in warning for warning in comparison["verdict"]["warnings"])
    assert comparison["verdict"]["health"]["first"]["p"] < 0.001


def test_units_are_in_the_groups_that_their_tally_puts_them_in():
    units = ["", "u", "user-17", "Zoë 東京", "x" * 300, None, "user-18"]
    array = pa.array(["left out", *units], pa.string()).slice(1)
    expected = [-1 if unit is None else unit_group(unit, group_count(20)) for unit in units]
    assert groups_of(array, 20).tolist() == expected


def test_repeated_draws_of_the_same_users_are_no_mismatch(tmp_path):
    rankings = {"a": ["d1", "d2", "d3", "d4"], "b": ["d4", "d3", "d2", "d1"]}
    draws = [ml.TeamDraft().combine(rankings, k=3, seed=f"user-{user}/query") for user in range(60)]
    heavy = [user for user, draw in enumerate(draws) if draw.shown[0] == "d1"][:3]
    shown = [user for user in range(60) for _ in range(40 if user in heavy else 1)]
    rows = [to_row(draws[user], user_id=f"user-{user}", clicks=[]) for user in shown]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    by_user, by_impression = replay(tmp_path).tally().health(), replay(tmp_path, unit=None).tally().health()
    assert by_impression.first["p"] < 0.001
    assert by_user.first["p"] is None  # three users are not enough
    assert not any("mismatch" in warning for warning in by_user.warnings)
