"""Whatever a log holds, every row is inferred or quarantined with a reason, and the counts add up."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay_logs import make_log

from multileave.log.writer import json_line, spell_time
from multileave.replay import CLICKS, IMPRESSIONS, JOINED, replay, to_row, write_parquet

LOG = make_log(12, methods=("ppm", "tdm", "ppm", "alone"))


def fields(shown):
    events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
    envelope = {**shown.envelope, "timestamp": spell_time(shown.timestamp)}
    return {**envelope, **shown.impression.to_dict(), "clicks": events}


def assert_adds_up(found, entries=None):
    counts = found.counts
    valid = counts.inferred + counts.in_arms + counts.repeated_impressions
    assert counts.rows == valid + counts.malformed + counts.unknown_versions + counts.filtered
    assert counts.clicks == (
        counts.counted_clicks + counts.unused_clicks + counts.duplicate_clicks + counts.clicks_not_shown
        + counts.orphan_clicks + counts.malformed_clicks + counts.clicks_of_other_rows
    )  # fmt: skip
    assert sum(c.tally.impressions for c in found.comparisons) == counts.inferred
    assert sum(sums.impressions for one in found.arms[:1] for sums in one.sums.values()) == counts.in_arms
    if entries is not None:
        wrong = counts.malformed + counts.unknown_versions + counts.malformed_clicks
        assert sum(entry.get("rows", 1) for entry in entries) == wrong
        assert all(entry["reason"] and entry["file"] for entry in entries)


def replay_lines(lines, **options):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log.jsonl").write_bytes(b"\n".join(lines))
        found = replay(folder / "log.jsonl", quarantine=folder / "wrong.jsonl", **options)
        wrong = folder / "wrong.jsonl"
        entries = [json.loads(line) for line in wrong.open()] if wrong.exists() else []
    assert_adds_up(found, entries)
    return found, entries


def changed(number=0, **more):
    return json.dumps({**fields(LOG[number]), **more}).encode()


WRONG = {
    "not JSON": b'{"version": 1, "ran',
    "expected an object": b"[1, 2]",
    "'version' is None": json.dumps({"shown": []}).encode(),
    "this multileave reads 1": changed(version=2),
    "'version' is True": changed(version=True),
    "'method' is None": changed(method=None),
    "no method 'nosuch'": changed(method="nosuch"),
    "does not name a method": changed(method="__import__('os')"),
    "'rankers' is 'bm25'": changed(rankers="bm25"),
    "two or more different names": changed(rankers=["a", "a", "b"]),
    "'k' contains 'ten'": changed(k="ten"),
    "'k' is below 0": changed(k=-1),
    "'lengths' must be one": changed(lengths=[3, 3]),
    "'lengths' contains 2.5": changed(lengths=[3, 3, 2.5]),
    "expected rows of 3": changed(ranks=[[1, 2], [2, 3]]),
    "'ranks' has 3 entries": changed(ranks=[[1, 2, 3]]),
    "beyond the ranking's length": changed(number=2, ranks=[[10**6] * 3] * 6),
    "in no ranking": changed(number=2, ranks=[[0] * 3] * 6),
    "rank twice": changed(number=2, ranks=[[1] * 3] * 6),
    "'note' must be one": changed(number=2, note=[]),
    "'note' has 2 entries": changed(number=2, note=[1, 1]),
    "below -1": changed(number=2, note=[-5] * 6),
    "'pinned' must be different": changed(number=1, pinned=[[9, "z"]], hidden=["z"]),
    "'shown' is 3": changed(shown=3),
    "expected document ids": changed(shown=[[1]]),
    "'user_id' is 1.5": changed(user_id=1.5),
    "'timestamp' is 'noon'": changed(timestamp="noon"),
    "seconds since 1970": changed(timestamp=1.7e12),
    "'clicks' is 7": changed(clicks=7),
    "A click is 3": changed(clicks=[3]),
    "neither 'document' nor": changed(clicks=[{}]),
    "'position' of a click": changed(clicks=[{"position": 1.5}]),
    "'document' of a click": changed(clicks=[{"document": ["a"]}]),
    "'action' of a click": changed(clicks=[{"position": 1, "action": 3}]),
    "'dwell' of a click": changed(clicks=[{"position": 1, "dwell": "long"}]),
}  # fmt: skip


@pytest.mark.parametrize("reason", WRONG)
def test_a_wrong_row_is_quarantined_with_its_reason_and_line(reason):
    good, other = (json_line(fields(LOG[number])).rstrip() for number in (4, 5))
    found, [entry] = replay_lines([good, b"", WRONG[reason], other])
    assert reason in entry["reason"]
    assert entry["line"] == 3
    assert WRONG[reason].decode().startswith(entry["content"])
    assert len(entry["content"]) == min(len(WRONG[reason]), 1000)
    assert found.counts.inferred == 2
    assert found.counts.unknown_versions == ("reads 1" in reason)


def test_clicks_on_what_was_not_shown_are_counted_and_change_nothing():
    good = json_line(fields(LOG[2])).rstrip()
    events = [{"document": "nowhere"}, {"position": 99}, {"position": -1}, {"position": -7}]
    found, entries = replay_lines([good, changed(number=1, clicks=events)])
    assert entries == []
    assert found.counts.clicks_not_shown == len(events)


def test_wrong_rows_of_parquet_are_named_by_row_group_and_row(tmp_path):
    rows = [to_row(shown.impression, **shown.envelope, clicks=shown.events) for shown in LOG]
    rows[3]["version"], rows[7]["k"], rows[9]["ranks"] = 9, -1, [5]
    with pq.ParquetWriter(tmp_path / "log.parquet", JOINED) as writer:
        for start in (0, 6):
            writer.write_table(pa.Table.from_pylist(rows[start : start + 6], schema=JOINED))
    found = replay(tmp_path, quarantine=tmp_path / "wrong.jsonl")
    entries = [json.loads(line) for line in (tmp_path / "wrong.jsonl").open()]
    assert_adds_up(found, entries)
    assert sorted((e["row_group"], e["row"]) for e in entries) == [(0, 3), (1, 1), (1, 3)]
    for entry in entries:
        shown = LOG[6 * entry["row_group"] + entry["row"]]
        assert json.dumps(shown.impression_id) in entry["content"]
    assert found.counts.inferred + found.counts.in_arms == 9
    assert found.counts.unknown_versions == 1


def test_parquet_that_is_something_else_is_quarantined(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no PAR1")
    (tmp_path / "empty.parquet").write_bytes(b"")
    found = replay(tmp_path, quarantine=tmp_path / "wrong.txt")
    assert_adds_up(found)
    assert (found.counts.rows, found.counts.malformed, found.counts.lost_parts) == (3, 3, 2)
    assert str(found) == "No impression of the log can be inferred."


def test_a_packed_file_that_is_cut_gives_what_it_held(tmp_path):
    import gzip

    whole = gzip.compress(b"".join(json_line(fields(shown)) for shown in LOG * 20))
    (tmp_path / "log.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    found = replay(tmp_path)
    assert_adds_up(found)
    assert found.counts.lost_parts <= 1


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_wrong_clicks_are_quarantined(tmp_path, form):
    rows = [to_row(shown.impression, **shown.envelope) for shown in LOG]
    write_parquet(tmp_path / "i.parquet", rows, IMPRESSIONS)
    good = [{"impression_id": shown.impression_id, "position": 0} for shown in LOG]
    if form == "parquet":
        write_parquet(tmp_path / f"c.{form}", [*good, {"impression_id": "i1"}], CLICKS)
    else:
        bad = [b"\xff\xfe\n", b'{"impression_id": []}\n', b'{"position": 1}\n', b'{"impression_id": "i1"}\n']
        (tmp_path / f"c.{form}").write_bytes(b"".join([*map(json_line, good), *bad]))
    found = replay(tmp_path / "i.parquet", clicks=tmp_path / f"c.{form}", quarantine=tmp_path / "wrong.txt")
    entries = [json.loads(line) for line in (tmp_path / "wrong.txt").open()]
    assert_adds_up(found, entries)
    assert found.counts.malformed_clicks == (1 if form == "parquet" else 4)
    assert found.counts.counted_clicks == len(LOG)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.integers(-3, 12) | st.floats() | st.text(max_size=5)
    | st.sampled_from(["x" * 100_000, "\ud800", "ppm", "tdm", "i1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_fuzzed_fields_are_inferred_or_quarantined(data):
    lines = []
    for shown in LOG[:4]:
        row = fields(shown)
        for name in data.draw(st.lists(st.sampled_from(sorted(row)), max_size=2)):
            if data.draw(st.booleans()):
                row.pop(name, None)
            else:
                row[name] = data.draw(ANYTHING)
        lines.append(json.dumps(row).encode())
    found, _ = replay_lines(lines, workers=1)
    assert found.counts.rows == 4


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes_of_lines_are_inferred_or_quarantined(flips):
    whole = bytearray(b"".join(json_line(fields(shown)) for shown in LOG[:4]))
    for place, value in flips:
        whole[place % len(whole)] = value
    replay_lines(bytes(whole).split(b"\n"), workers=1)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes_of_parquet_are_inferred_or_quarantined(flips):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.parquet"
        rows = [to_row(shown.impression, **shown.envelope, clicks=shown.events) for shown in LOG]
        write_parquet(path, rows, JOINED)
        whole = bytearray(path.read_bytes())
        for place, value in flips:
            whole[place % len(whole)] = value
        path.write_bytes(bytes(whole))
        assert_adds_up(replay(path, workers=1))
