"""The engine gives what `infer` and `Tally` give one by one, however the log is written, cut and shuffled."""

import gzip
import random
import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from replay_logs import START, assert_same, make_log, tallies

import multileave as ml
from multileave.errors import DataError, TallyError
from multileave.log.writer import json_line, spell_time
from multileave.methods.base import methods
from multileave.replay import CLICKS, IMPRESSIONS, JOINED, replay, to_row, write_parquet


def row(shown):
    return to_row(shown.impression, **shown.envelope, clicks=shown.events)


def line(shown, **more):
    events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
    return json_line({**shown.envelope, **shown.impression.to_dict(), "clicks": events, **more})


def event_rows(log):
    return [{"impression_id": shown.impression_id, **event} for shown in log for event in shown.events]


def assert_tallies(found, expected, action="click"):
    assert {c.method for c in found.comparisons if c.action == action} == set(expected)
    for method, tally in expected.items():
        assert_same(found.tally(action, method), tally)


@pytest.fixture(scope="module")
def log():
    return make_log(240)


@pytest.mark.parametrize("form", ["parquet", "jsonl", "jsonl.gz", "jsonl.zst"])
def test_every_form_gives_what_infer_gives(tmp_path, log, form):
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        write_parquet(path, map(row, log), JOINED)
    elif form == "jsonl.gz":
        path.write_bytes(gzip.compress(b"".join(map(line, log))))
    elif form == "jsonl.zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(b"".join(map(line, log)))
    else:
        path.write_bytes(b"".join(map(line, log)))
    found = replay(path)
    assert_tallies(found, tallies(log))
    assert found.counts.rows == found.counts.inferred == len(log)
    assert found.counts.wrong == {}
    assert found.counts.clicks == sum(len(shown.events) for shown in log)
    assert found.counts.without_unit == sum(shown.user_id is None for shown in log)


@pytest.mark.fast
def test_a_small_log_gives_what_infer_gives_uncompiled_as_well(tmp_path):
    log = make_log(24, methods=("ppm", "tdm", "dpm", "pm"), users=4)
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    rows = [{**row(s), "clicks": [{**event, "position": None} for event in s.events]} for s in log]
    write_parquet(tmp_path / "documents.parquet", rows, JOINED)
    for name in ("log.parquet", "documents.parquet"):
        assert_tallies(replay(tmp_path / name), tallies(log))


def test_every_method_gives_what_infer_gives(tmp_path):
    able = [name for name, method in methods().items() if method.most_rankers is None]
    log = make_log(20 * len(able), methods=able)
    log += make_log(40, methods=["bi", "pbi"], names=("old", "new"), seed=1)
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    assert_tallies(replay(tmp_path), tallies(log))


def test_clicks_may_name_documents_only(tmp_path, log):
    for shown in log:
        assert all(shown.impression.shown[e["position"]] == e["document"] for e in shown.events)
    rows = [{**row(s), "clicks": [{**event, "position": None} for event in s.events]} for s in log]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    found = replay(tmp_path)
    assert_tallies(found, tallies(log))
    assert found.counts.clicks_not_shown == 0


def test_ids_that_are_numbers_are_found(tmp_path):
    impression = ml.TeamDraft().combine({"a": [1, 2, 3], "b": [3, 2, 1]}, k=3, seed=1)
    rows = [to_row(impression, user_id=str(user), clicks=[{"document": "3"}]) for user in range(4)]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    (tmp_path / "log.jsonl").write_bytes(
        b"".join(json_line({**impression.to_dict(), "user_id": user, "clicks": [{"document": 3}]}) for user in range(4))
    )
    expected = ml.infer(impression, clicks=[3]).preferences
    for name in ("log.parquet", "log.jsonl"):
        found = replay(tmp_path / name)
        assert found.counts.counted_clicks == 4
        np.testing.assert_array_equal(found.tally().preferences, expected)


def test_a_log_in_a_thousand_files_in_any_order_gives_the_same(tmp_path):
    log = make_log(1000, methods=["ppm"], users=60)
    random.Random(1).shuffle(log)
    for number, shown in enumerate(log):
        folder = tmp_path / f"day={number % 7}" / f"hour={number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        if number % 10 == 0:
            write_parquet(folder / f"{number}.parquet", [row(shown)], JOINED)
        else:
            (folder / f"{number}.jsonl").write_bytes(line(shown))
    files = [str(path) for path in tmp_path.rglob("*.*")]
    expected = tallies(log)
    random.Random(2).shuffle(files)
    found = replay(files)
    assert_tallies(found, expected)
    assert found.files == 1000
    assert_tallies(replay(tmp_path), expected)


def test_threads_do_not_change_a_bit(tmp_path, log):
    with pq.ParquetWriter(tmp_path / "log.parquet", JOINED) as writer:
        for start in range(0, len(log), 16):
            writer.write_table(pa.Table.from_pylist(list(map(row, log[start : start + 16])), schema=JOINED))
    one, many = replay(tmp_path, workers=1), replay(tmp_path, workers=4)
    for method in tallies(log):
        np.testing.assert_array_equal(one.tally(method=method).preferences, many.tally(method=method).preferences)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_separate_clicks_late_doubled_and_shuffled_give_the_same(tmp_path, log, form):
    clicks = event_rows(log)
    doubled = clicks[::10]
    orphans = [{"impression_id": "nobody", "position": 0}, {"impression_id": "no one", "document": "d1"}]
    clicks = clicks + doubled + orphans
    random.Random(3).shuffle(clicks)
    if form == "parquet":
        for number in range(4):
            rows = [to_row(shown.impression, **shown.envelope) for shown in log[number::4]]
            write_parquet(tmp_path / f"i-{number}.parquet", rows, IMPRESSIONS)
            write_parquet(tmp_path / f"c-{number}.parquet", clicks[number::4], CLICKS)
    else:
        lines = [json_line({**shown.envelope, **shown.impression.to_dict()}) for shown in log]
        (tmp_path / "i-0.jsonl").write_bytes(b"".join(lines))
        (tmp_path / "c-0.jsonl").write_bytes(b"".join(map(json_line, clicks)))
    found = replay(sorted(tmp_path.glob("i-*")), clicks=sorted(tmp_path.glob("c-*")))
    assert_tallies(found, tallies(log))
    counts = found.counts
    assert (counts.orphan_clicks, counts.duplicate_clicks) == (len(orphans), len(doubled))
    assert counts.clicks == len(clicks)
    assert counts.counted_clicks + counts.unused_clicks + counts.duplicate_clicks + counts.orphan_clicks == len(clicks)


def test_a_row_with_very_many_clicks_takes_no_longer_than_its_clicks(tmp_path, log):
    shown = next(s for s in log if s.impression.method.startswith("ppm") and len(s.events) > 1)
    event = {"position": 0, "action": "click"}
    times = [START + timedelta(seconds=second % 60_000) for second in range(100_000)]
    many = [{**event, "timestamp": time} for time in times]
    rows = [row(s) for s in log[:5]] + [{**row(shown), "impression_id": "many", "clicks": many}]
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    replay(tmp_path / "log.parquet")  # compiled before the time is taken
    start = time.process_time()
    found = replay(tmp_path / "log.parquet")
    assert time.process_time() - start < 5.0
    assert found.counts.duplicate_clicks == 40_000
    assert found.counts.clicks == 100_000 + sum(len(s.events) for s in log[:5])


@pytest.mark.parametrize("size", [31, 32, 33, 34, 90])
def test_duplicates_of_long_and_short_rows_are_the_same(tmp_path, log, size):
    rng = np.random.default_rng(size)
    rows, expected = [], 0
    for shown in log[:20]:
        events = [
            {"position": int(p), "action": a, "timestamp": START + timedelta(seconds=int(t))}
            for p, a, t in zip(
                rng.integers(0, 5, size), rng.choice(["click", "cart"], size), rng.integers(0, 4, size), strict=True
            )
        ]
        expected += size - len({tuple(event.values()) for event in events})
        rows.append({**row(shown), "clicks": events})
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    found = replay(tmp_path, actions=["click", "cart"])
    assert found.counts.duplicate_clicks == expected


def test_each_action_has_its_verdict(tmp_path, log):
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    found = replay(tmp_path, actions=["click", "purchase", "satisfied"], dwell=20)
    assert_tallies(found, tallies(log))
    assert_tallies(found, tallies(log, lambda s, event: event["action"] == "purchase"), "purchase")
    stayed = tallies(log, lambda s, event: event["action"] == "click" and event["dwell"] >= 20)
    assert_tallies(found, stayed, "satisfied")


def test_clicks_after_the_window_do_not_count(tmp_path, log):
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    window = timedelta(minutes=20)
    inside = tallies(log, lambda s, e: e["action"] == "click" and e["timestamp"] - s.timestamp <= window)
    found = replay(tmp_path, window=window)
    assert_tallies(found, inside)
    assert found.counts.late_clicks == sum(e["timestamp"] - s.timestamp > window for s in log for e in s.events)


def test_units_over_the_cap_are_left_out(tmp_path, log):
    log = [shown for shown in log if shown.impression.method.startswith("ppm")]
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    users = [shown.user_id for shown in log]
    busy = {user for user in users if user is not None and users.count(user) > 4}
    assert busy
    found = replay(tmp_path, cap=4)
    assert_tallies(found, tallies([shown for shown in log if shown.user_id not in busy]))
    assert found.counts.units_over_cap == len(busy)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_filter_leaves_rows_out(tmp_path, log, form):
    folder = tmp_path / "country=nl"
    folder.mkdir()
    if form == "parquet":
        write_parquet(folder / "log.parquet", map(row, log), JOINED)
    else:
        (folder / "log.jsonl").write_bytes(b"".join(map(line, log)))
    kept = [shown for shown in log if shown.user_id in ("user-1", "user-2", "user-3")]
    chosen = pc.field("user_id").isin(["user-1", "user-2", "user-3"])
    found = replay(tmp_path, filter=chosen & (pc.field("country") == "nl"))
    assert_tallies(found, tallies(kept))
    assert found.counts.filtered == len(log) - len(kept)
    assert replay(tmp_path, filter=pc.field("country") == "de").counts.inferred == 0
    with pytest.raises(DataError, match="does not fit the log"):
        replay(tmp_path, filter=pc.field("nowhere") == 1)


def test_a_filter_on_a_column_that_inference_does_not_read(tmp_path, log, monkeypatch):
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    read = []
    original = pq.ParquetFile.read_row_group

    def spied(self, group, columns=None, **options):
        read.append(columns)
        return original(self, group, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spied)
    ppm = [shown for shown in log if shown.impression.method.startswith("ppm")]
    condition = pc.starts_with(pc.field("method"), "ppm") & (pc.list_value_length(pc.field("shown")) > 1)
    found = replay(tmp_path, filter=condition)
    assert_tallies(found, tallies(ppm))
    assert found.counts.filtered == len(log) - len(ppm)
    named = {column for columns in read for column in columns}
    assert {"method", "user_id"} <= named
    assert not named & {"shown", "query", "session_id", "hidden", "timestamp"}


def test_another_column_or_a_partition_is_the_unit(tmp_path, log):
    for number, shown in enumerate(log[:30]):
        folder = tmp_path / f"session={number % 5}"
        folder.mkdir(exist_ok=True)
        write_parquet(folder / f"{number}.parquet", [row(shown)], JOINED)
    assert sum(c.tally.units for c in replay(tmp_path, unit="session").comparisons) == 5 * 3
    assert sum(c.tally.units for c in replay(tmp_path, unit=None).comparisons) == 30


def test_rankers_in_another_order_are_the_same_comparison(tmp_path):
    log = make_log(40, methods=["ppm"], pins=False) + make_log(
        40, methods=["ppm"], seed=5, names=("ltr", "bm25", "dense")
    )
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    found = replay(tmp_path)
    assert len(found.comparisons) == 1
    assert_same(found.tally(), tallies(log)["ppm"])


def test_a_pyarrow_filesystem_is_read(tmp_path, log):
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    system = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    assert_tallies(replay("log.parquet", filesystem=system), tallies(log))
    assert_tallies(replay(tmp_path.as_uri()), tallies(log))


def test_columns_of_other_writers_are_read(tmp_path, log):
    table = pa.Table.from_pylist(list(map(row, log)), schema=JOINED)
    wide = [
        pa.field("k", pa.int64()) if f.name == "k"
        else pa.field(f.name, pa.large_list(pa.int64())) if f.type == pa.list_(pa.int32())
        else pa.field(f.name, pa.large_string()) if f.type == pa.string()
        else f
        for f in table.schema
    ]  # fmt: skip
    pq.write_table(table.cast(pa.schema(wide)), tmp_path / "log.parquet")
    found = replay(tmp_path)
    assert_tallies(found, tallies(log))


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(DataError, match="no file or folder"):
        replay(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no files"):
        replay(tmp_path)
    for bad in ({"cap": 0}, {"actions": []}, {"actions": ["a", "a"]}, {"window": timedelta(-1)}, {"dwell": -1.0}):
        with pytest.raises(DataError):
            replay(tmp_path, **bad)


def test_asking_for_a_tally_that_is_not_there_says_what_is(tmp_path, log):
    write_parquet(tmp_path / "log.parquet", map(row, log), JOINED)
    with pytest.raises(TallyError, match="click by ppm"):
        replay(tmp_path).tally("cart")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_rpm_has_rates_if_its_impressions_keep_propensities(tmp_path, form):
    rng = random.Random(3)
    expected, rows = ml.Tally(["a", "b"]), []
    for number in range(60):
        lists = {name: rng.sample("pqrstuvw", 8) for name in "ab"}
        impression = ml.RoundPreference().combine(lists, 4, seed=number, propensities=True)
        unit, clicked = f"u{number % 7}", [rng.randrange(4)]
        events = [
            {"document": None, "position": x, "action": "click", "timestamp": None, "dwell": None} for x in clicked
        ]
        expected.add(ml.infer(impression, positions=clicked), unit=unit)
        rows.append(to_row(impression, impression_id=str(number), user_id=unit, clicks=events))
    if form == "parquet":
        write_parquet(tmp_path / "log.parquet", rows, JOINED)
    else:
        (tmp_path / "log.jsonl").write_bytes(b"".join(map(json_line, rows)))
    found = replay(tmp_path).tally()
    assert found.rates().impressions == 60
    assert_same(found, expected)
    assert replay(tmp_path, rates=False).tally().rates() is None


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("rates", [True, False])
def test_team_drafts_with_propensities_are_read_and_have_no_rates(tmp_path, form, rates):
    kept, without = (make_log(60, methods=("tdm",), names=("a", "b"), propensities=asked) for asked in (True, False))
    assert all(len(shown.impression.stat) == shown.impression.k for shown in kept)
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        write_parquet(path, map(row, kept), JOINED)
    else:
        path.write_bytes(b"".join(map(line, kept)))
    found = replay(path, rates=rates)
    assert_tallies(found, tallies(without))
    assert (found.tally().rates(), found.counts.inferred) == (None, 60)
