"""replay(method=...): logs of one method inferred as another would, and rows of which that cannot be."""

import json

import pytest
from replay_logs import START, Shown, assert_same, make_log

import multileave as ml
from multileave.cli import main
from multileave.errors import MethodError
from multileave.integrations.team_drafts import team_draft_impression
from multileave.replay import JOINED, replay, to_row, write_parquet

pytest.importorskip("pyarrow")


def drafted(size=60, names=("bm25", "dense", "ltr")):
    """Team drafts as others would log them: page, teams and the rankers' own lists."""
    log = []
    for shown in make_log(size, methods=("tdm",), names=names, pins=False):
        seed = int(shown.impression_id[1:])
        lists = {name: [f"d{(7 * x + 3 * n + seed) % 15}" for x in range(8)] for n, name in enumerate(names)}
        impression = ml.TeamDraft(prefix="drafted").combine(lists, 5, seed=seed)
        teams = [names[team] for team in impression.note]
        events = [{**event, "document": impression.shown[event["position"]]} for event in shown.events]
        log.append(Shown(seed, team_draft_impression(lists, impression.shown, teams), shown.user_id, events))
    return log


def row(shown):
    return to_row(shown.impression, **shown.envelope, clicks=shown.events)


def tally_of(log, method):
    """The tally that `infer` gives, one impression after another."""
    tally = ml.Tally(log[0].impression.rankers)
    for shown in log:
        clicks = [event["position"] for event in shown.events if event["action"] == "click"]
        outcome = ml.infer(shown.impression, positions=clicks, method=method)
        unit = shown.user_id or f"alone {shown.impression_id}"
        tally.add(outcome, unit=unit, clicks=len(clicks), impression=shown.impression)
    return tally


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_team_drafts_with_ranks_are_inferred_by_rpm(tmp_path, form):
    log = drafted()
    if form == "parquet":
        write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    else:
        lines = (
            {
                **s.impression.to_dict(),
                "user_id": s.user_id,
                "clicks": [{"position": event["position"], "action": event["action"]} for event in s.events],
            }
            for s in log
        )
        (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = replay(tmp_path, method="rpm")
    [comparison] = found.comparisons
    assert comparison.method == "rpm"
    assert found.counts.inferred == len(log)
    assert_same(comparison.tally, tally_of(log, "rpm"))
    assert not (comparison.tally.preferences == replay(tmp_path).tally().preferences).all()


def test_lists_of_choices_are_read_by_each_other(tmp_path):
    log = make_log(40, methods=("ppm", "dpm"), pins=False)
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    [comparison] = replay(tmp_path, method="opm").comparisons
    assert_same(comparison.tally, tally_of(log, "opm"))


def test_rows_that_cannot_be_read_so_are_quarantined_with_the_reason(tmp_path):
    log = [*drafted(6), *make_log(4, methods=("tdm", "ppm"), pins=False)]
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    found = replay(tmp_path, method="rpm", quarantine=tmp_path / "wrong.jsonl")
    assert (found.counts.inferred, found.counts.malformed) == (6, 4)
    reasons = " ".join(json.loads(line)["reason"] for line in (tmp_path / "wrong.jsonl").open())
    assert reasons.count("'ranks' must be one rank for every drawn document") == 2
    assert reasons.count("rpm cannot infer impressions that ppm drew") == 2


def test_a_ranker_that_did_not_answer_takes_no_part(tmp_path):
    lists = {"a": ["d1", "d2", "d3"], "b": ["d3", "d2", "d1"]}
    whole = team_draft_impression(lists, ["d1", "d3", "d2"], ["a", "b", "a"])
    impression = whole.among(["a", "absent", "b"], note_is_ranker=True)
    events = [{"document": "d1", "position": 0, "action": "click", "timestamp": START, "dwell": 1.0}]
    write_parquet(tmp_path / "log.parquet", [row(Shown(0, impression, "u", events))], JOINED)
    expected = ml.infer(whole, positions=[0], method="rpm").preferences
    found = replay(tmp_path, method="rpm").tally().preferences
    assert found[0, 2] == expected[0, 1] > 0
    assert not found[1].any()


def test_the_command_line_takes_a_method(tmp_path, capsys):
    write_parquet(tmp_path / "log.parquet", map(row, drafted()), JOINED)
    assert main(["replay", str(tmp_path), "--method", "rpm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["comparisons"][0]["method"] == "rpm"
    assert main(["replay", str(tmp_path), "--method", "rmp"]) == 2
    assert "Did you mean 'rpm'" in capsys.readouterr().err
    with pytest.raises(MethodError):
        replay(tmp_path, method="nosuch")
