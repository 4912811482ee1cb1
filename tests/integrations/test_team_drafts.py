"""Team drafts of others: what makes an impression, and UBI logs that hold pages, teams and rankings."""

import json

import numpy as np
import pytest

import multileave as ml
from multileave.errors import DataError, ImpressionError
from multileave.integrations.team_drafts import team_draft_impression

LISTS = {"old": ["d1", "d2", "d3", "d4"], "new": ["d3", "d1", "d4", "d2"]}


@pytest.mark.parametrize(
    ("lists", "shown", "teams", "says"),
    [
        ({"old": ["d1"]}, ["d1"], ["old"], "expected two or more"),
        (LISTS, ["d1", "d2"], ["old"], "2 results and 1 teams"),
        (LISTS, ["d1", "d1"], ["old", "new"], "expected different results"),
        (LISTS, ["d1"], ["newest"], "expected old, new or None"),
        (LISTS, ["d9"], ["old"], "in no ranking"),
        ({**LISTS, "new": ["d1", "d1"]}, ["d1"], ["old"], "lists a document twice"),
    ],
)
def test_what_is_no_team_draft_is_refused(lists, shown, teams, says):
    with pytest.raises(ImpressionError, match=says):
        team_draft_impression(lists, shown, teams)


def test_it_is_inferred_by_teams_and_by_rounds():
    impression = team_draft_impression(LISTS, ["d3", "d1", "d2"], ["new", "old", None])
    assert ml.Impression.from_dict(json.loads(json.dumps(impression.to_dict()))) == impression
    assert ml.infer(impression, ["d3"]).preferences[1, 0] == 1
    # d3 moves up by 2 of 3 with the new ranker, d1 down by 1.
    assert ml.infer(impression, ["d3"], method="rpm").preferences[1, 0] == pytest.approx(1.0)


def ubi_log(folder, text):
    """UBI queries with pages, teams and rankings, as objects or as text, and their clicks."""
    pytest.importorskip("duckdb")
    rng = np.random.default_rng(1)
    queries, events, tally = [], [], ml.Tally(("new", "old"))
    for number in range(30):
        lists = {name: [f"d{x}" for x in rng.permutation(9)] for name in ("old", "new")}
        drawn = ml.TeamDraft(prefix="drafted").combine(lists, 4, seed=number)
        teams = [drawn.rankers[team] for team in drawn.note]
        attributes = {"rankings": lists, "teams": teams}
        if text:
            attributes = {name: json.dumps(value) for name, value in attributes.items()}
        queries.append({"query_id": f"q{number}", "client_id": f"c{number % 20}", "query_attributes": attributes,
                        "query_response_hit_ids": list(drawn.shown)})  # fmt: skip
        clicked = [drawn.shown[x] for x in np.flatnonzero(rng.random(4) < 0.4)]
        events += [{"action_name": "click", "query_id": f"q{number}", "event_attributes": {"object": {"object_id": d}}}
                   for d in clicked]  # fmt: skip
        outcome = ml.infer(team_draft_impression(lists, drawn.shown, teams), clicked, method="rpm")
        order = np.ix_([1, 0], [1, 0])
        tally.add(ml.outcome.Outcome(("new", "old"), "matrix", outcome.preferences[order]), unit=f"c{number % 20}")
    for name, rows in (("queries", queries), ("events", events)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tally


@pytest.mark.parametrize("text", [False, True])
def test_ubi_logs_with_rankings_are_inferred_by_rpm(tmp_path, text):
    from multileave.integrations.ubi_teams import replay_team_draft

    expected = ubi_log(tmp_path, text)
    files = tmp_path / "queries.jsonl", tmp_path / "events.jsonl"
    found = replay_team_draft(*files, method="rpm")
    assert found.counts.inferred == 30
    assert not found.counts.wrong
    tally = found.tally()
    pair = [tally.rankers.index(name) for name in ("new", "old")]
    assert tally.preferences[pair[0], pair[1]] == pytest.approx(expected.preferences[0, 1])
    assert found.comparisons[0].method == "rpm"
    assert replay_team_draft(*files).comparisons[0].method == "tdm"


def test_a_ubi_query_whose_page_is_no_team_draft_is_quarantined(tmp_path):
    from multileave.integrations.ubi_teams import replay_team_draft

    ubi_log(tmp_path, text=False)
    lines = (tmp_path / "queries.jsonl").read_text().splitlines()
    wrong = json.loads(lines[3])
    wrong["query_attributes"]["teams"] = ["nobody"] * 4
    lines[3] = json.dumps(wrong)
    (tmp_path / "queries.jsonl").write_text("\n".join(lines) + "\n")
    found = replay_team_draft(tmp_path / "queries.jsonl", tmp_path / "events.jsonl", quarantine=tmp_path / "wrong")
    assert (found.counts.inferred, found.counts.malformed) == (29, 1)
    assert "are not a team draft: A team is 'nobody'" in (tmp_path / "wrong").read_text()
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q"}\n')
    with pytest.raises(DataError, match="name none as rankers"):
        replay_team_draft(tmp_path / "queries.jsonl", tmp_path / "events.jsonl")
