"""UBI logs: our impressions in query_attributes are inferred, and so are team drafts of others."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import multileave as ml
from multileave.cli import main
from multileave.errors import DataError
from multileave.integrations.ubi import query_attributes, replay_ubi
from multileave.integrations.ubi_teams import replay_team_draft

PINNED = Path(__file__).parent / "pinned"
REPLAY = {"ours": replay_ubi, "teams": replay_team_draft}


def rows(name):
    return [json.loads(line) for line in (PINNED / f"{name}.jsonl").read_text().splitlines()]


def pinned(name, **options):
    return REPLAY[name](PINNED / f"{name}-queries.jsonl", PINNED / f"{name}-events.jsonl", **options)


def written(folder, queries, events):
    for name, given in (("queries", queries), ("events", events)):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in given]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "queries.jsonl", folder / "events.jsonl"


def assert_adds_up(found):
    counts = found.counts
    valid = counts.inferred + counts.repeated_impressions
    assert counts.rows == valid + counts.malformed + counts.unknown_versions + counts.filtered
    assert counts.clicks == (
        counts.counted_clicks + counts.unused_clicks + counts.duplicate_clicks + counts.clicks_not_shown
        + counts.orphan_clicks + counts.malformed_clicks + counts.clicks_of_other_rows
    )  # fmt: skip


@pytest.mark.parametrize("action", ["click", "add_to_cart"])
def test_our_impressions_give_what_infer_gives(action):
    clicked = {}
    for event in rows("ours-events"):
        if event["action_name"] == action and event["query_id"] < "q500":
            clicked.setdefault(event["query_id"], set()).add(event["event_attributes"]["object"]["object_id"])
    expected = ml.Tally(["bm25", "dense", "ltr"])
    for query in rows("ours-queries")[:-2]:
        impression = ml.Impression.from_dict(json.loads(query["query_attributes"]["multileave"]))
        expected.add(ml.infer(impression, clicked.get(query["query_id"], ())), query["client_id"])
    found = pinned("ours", actions=[action])
    np.testing.assert_allclose(found.tally(action).preferences, expected.preferences, atol=1e-12)
    assert (found.tally(action).units, expected.units) == (23, 23)
    assert_adds_up(found)


def test_queries_of_others_and_events_on_no_result_are_left_out_and_nothing_is_wrong():
    found = pinned("ours")
    assert (found.counts.inferred, found.counts.filtered, found.counts.wrong) == (120, 2, {})
    assert found.counts.clicks == len(rows("ours-events"))
    assert found.counts.clicks_of_other_rows == 1
    assert found.counts.unused_clicks >= 120


def test_a_team_draft_counts_clicks_by_ranker():
    clicks = Counter()
    for event in rows("teams-events"):
        attributes = event["event_attributes"]
        target = attributes["object"]
        ranker = attributes.get("search_config") or target.get("search_config") or target["search_configuration_uuid"]
        clicks[event["query_id"], ranker] += event["action_name"] == "click"
    signs = [np.sign(clicks[q["query_id"], "bm25"] - clicks[q["query_id"], "dense"]) for q in rows("teams-queries")]
    found = pinned("teams")
    tally = found.tally()
    assert tally.rankers == ("bm25", "dense")
    assert (tally.impressions, tally.units) == (90, 23)
    assert tally.preferences[0, 1] == pytest.approx(np.mean(signs), abs=1e-12)
    assert tally.verdict().winner == "dense"
    assert found.counts.wrong == {}
    assert found.counts.counted_clicks == sum(clicks.values())
    assert tally.health().without_clicks == pytest.approx(
        np.mean([not clicks[q["query_id"], "bm25"] + clicks[q["query_id"], "dense"] for q in rows("teams-queries")])
    )
    assert (tally.health().first, tally.health().exposure) == (None, None)
    assert_adds_up(found)


@pytest.mark.parametrize("name", ["ours", "teams"])
def test_exports_and_files_that_hold_both_are_read(tmp_path, name):
    both = []
    for row in (*rows(f"{name}-queries"), *rows(f"{name}-events")):
        both.extend([json.dumps({"index": {"_index": "ubi"}}), json.dumps({"_index": "ubi", "_source": row})])
    (tmp_path / "export.ndjson").write_text("\n".join(both))
    found = REPLAY[name](tmp_path / "export.ndjson", tmp_path / "export.ndjson")
    np.testing.assert_array_equal(found.tally().preferences, pinned(name).tally().preferences)
    assert found.counts.inferred == pinned(name).counts.inferred
    assert found.counts.wrong == {}
    assert_adds_up(found)


@pytest.mark.parametrize("name", ["ours", "teams"])
def test_times_in_milliseconds_and_windows_are_understood(tmp_path, name):
    queries = [{**row, "timestamp": 1_777_900_000_000} for row in rows(f"{name}-queries")]
    events = [
        {**row, "timestamp": 1_777_900_000_000 + 1000 * (600 if n % 2 else 5)}
        for n, row in enumerate(rows(f"{name}-events"))
    ]
    found = REPLAY[name](*written(tmp_path, queries, events), window=timedelta(minutes=1))
    assert found.counts.late_clicks > 0
    assert found.counts.undated_clicks == 0
    assert found.counts.counted_clicks == sum(
        row["action_name"] == "click" and row["query_id"] < "q500" for row in events[::2]
    )


def test_ordinals_are_read_where_there_is_no_object_id(tmp_path):
    impression = ml.TeamDraft(prefix="drafted").combine({"a": ["d1", "d2"], "b": ["d2", "d1"]}, k=2, seed=1)
    queries = [{"query_id": 7, "client_id": "c", "query_attributes": {"multileave": impression.to_dict()}}]
    click = {"action_name": "click", "query_id": 7, "event_attributes": {"position": {"ordinal": 1}}}
    expected = {0: ml.infer(impression, positions=[1]), 1: ml.infer(impression, positions=[0])}
    for first, outcome in expected.items():
        found = replay_ubi(*written(tmp_path, queries, [click]), first_ordinal=first)
        np.testing.assert_array_equal(found.tally().preferences, outcome.preferences)


def test_experiments_are_told_apart_by_ab_test_id(tmp_path):
    queries = [{"query_id": f"q{n}", "client_id": f"c{n % 5}"} for n in range(20)]
    queries += [{"query_id": "silent", "query_attributes": {"ab_test_id": "first"}}, {"query_id": "nobody's"}]
    events = [
        {
            "action_name": "click",
            "query_id": f"q{n}",
            "event_attributes": {
                "object": {"id": "d1", "search_configuration_uuid": ("a" if n % 4 < 2 else "b") + str(n % 2)},
                "ab_test_id": "first" if n % 2 else "second",
            },
        }
        for n in range(20)
    ]
    found = replay_team_draft(*written(tmp_path, queries, events))
    assert {c.tally.rankers: c.tally.impressions for c in found.comparisons} == {("a0", "b0"): 10, ("a1", "b1"): 11}
    assert found.counts.filtered == 1
    assert_adds_up(found)


WRONG = {
    "ours": {
        "queries": {
            "is not JSON": {"query_id": "x", "query_attributes": {"multileave": '{"version": 1'}},
            "expected an impression": {"query_id": "x", "query_attributes": {"multileave": [1]}},
            "has no 'query_id'": {"query_attributes": {"multileave": "{}"}},
            "'query_attributes' is 'all'": {"query_id": "x", "query_attributes": "all"},
            "'version' is None": {"query_id": "x", "query_attributes": {"multileave": "{}"}},
            "The line is not JSON": '{"query_id": ',
            "expected an object": "[1]",
        },
        "events": {
            "'action' of a click": {"action_name": 3, "query_id": "q1", "event_attributes": {"object": {"id": "d"}}},
            "'event_attributes' is 7": {"action_name": "click", "query_id": "q1", "event_attributes": 7},
            "'ordinal' of a position is 1.5": {
                "action_name": "click", "query_id": "q1", "event_attributes": {"position": {"ordinal": 1.5}},
            },
            "'timestamp' is 'noon'": {
                "action_name": "click", "query_id": "q1", "timestamp": "noon",
                "event_attributes": {"object": {"id": "d"}},
            },
        },
    },
    "teams": {
        "queries": {
            "has no 'query_id'": {"user_query": "shoes"},
            "'timestamp' is 'noon'": {"query_id": "x", "timestamp": "noon"},
            "The line is not JSON": '{"query_id": ',
            "expected an object": "[1]",
        },
        "events": {
            "names its ranker but no 'query_id'": {
                "action_name": "click",
                "event_attributes": {"object": {"id": "d", "search_configuration_uuid": "bm25"}},
            },
            "'action' of a click": {"action_name": 3, "query_id": "q1", "event_attributes": {"object": {"id": "d"}}},
            "'document' of a click is ['d']": {
                "action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": ["d"]}},
            },
        },
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "reason"), [(n, k, r) for n, kinds in WRONG.items() for k, given in kinds.items() for r in given]
)
def test_wrong_rows_are_quarantined_with_reason_line_and_content(tmp_path, name, kind, reason):
    given = {"queries": rows(f"{name}-queries"), "events": rows(f"{name}-events")}
    wrong = WRONG[name][kind][reason]
    given[kind].insert(2, wrong)
    found = REPLAY[name](*written(tmp_path, **given), quarantine=tmp_path / "wrong.txt")
    [entry] = [json.loads(line) for line in (tmp_path / "wrong.txt").open()]
    assert reason in entry["reason"]
    assert (entry["line"], Path(entry["file"]).name) == (3, f"{kind}.jsonl")
    assert entry["content"] == (wrong if isinstance(wrong, str) else json.dumps(wrong))
    assert found.counts.malformed + found.counts.malformed_clicks == 1
    np.testing.assert_array_equal(found.tally().preferences, pinned(name).tally().preferences)
    assert_adds_up(found)


def test_what_events_contradict_repeat_or_lose_is_counted(tmp_path):
    queries, events = rows("teams-queries"), rows("teams-events")
    shown = next(row for row in events if row["query_id"] == "q000")
    other = json.loads(json.dumps(shown).replace("bm25", "DENSE").replace("dense", "bm25").replace("DENSE", "dense"))
    orphan = {**shown, "query_id": "nobody"}
    found = replay_team_draft(
        *written(tmp_path, [*queries, queries[5]], [*events, other, orphan, events[-1]]), quarantine=tmp_path / "wrong"
    )
    assert found.counts.wrong == {
        "malformed": 1,
        "repeated_impressions": 1,
        "orphan_clicks": 1,
        **({"duplicate_clicks": 1} if events[-1]["query_id"] != "q000" else {}),
    }
    [entry] = [json.loads(line) for line in (tmp_path / "wrong").open()]
    assert "expected one ranker" in entry["reason"]
    assert (entry["line"], json.loads(entry["content"])) == (1, {"query_id": "q000"})
    assert_adds_up(found)


def test_nonsense_is_refused(tmp_path):
    queries, events = written(tmp_path, [{"query_id": "q"}], [{"action_name": "click", "query_id": "q"}])
    with pytest.raises(DataError, match="name none as rankers"):
        replay_team_draft(queries, events)
    (tmp_path / "log.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="is Parquet"):
        replay_ubi(tmp_path / "log.parquet", events)


@pytest.mark.parametrize(("form", "name"), [("ubi", "ours"), ("ubi-team-draft", "teams")])
def test_the_command_line_reads_both(capsys, form, name):
    given = [str(PINNED / f"{name}-{kind}.jsonl") for kind in ("queries", "events")]
    assert main(["replay", given[0], "--clicks", given[1], "--format", form, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"]["inferred"] == pinned(name).counts.inferred
    assert main(["replay", given[0], "--format", form]) == 2
    assert "needs the UBI events" in capsys.readouterr().err
    assert main(["replay", given[0], "--format", "csv"]) == 2
    assert "expected multileave, ubi or ubi-team-draft" in capsys.readouterr().err


def test_an_impression_travels_as_text():
    impression = ml.TeamDraft().combine({"a": "abc", "b": "bca"}, k=2, seed=1)
    attributes = query_attributes(impression)
    assert all(isinstance(value, str) for value in attributes.values())
    assert ml.Impression.from_dict(json.loads(attributes["multileave"])) == impression
