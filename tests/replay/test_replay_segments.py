"""Replay by segment: the same as a segmented tally that is told every impression."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

import multileave as ml
from multileave.cli import main
from multileave.errors import DataError
from multileave.replay import JOINED, replay, to_row, write_parquet
from multileave.replay.run import Settings
from multileave.replay.spark import tasks as spark_tasks
from multileave.replay.spark.batches import FILE, KEEP
from multileave.stats import SegmentedTally

RANKINGS = {"bm25": ["d1", "d2", "d3", "d4"], "dense": ["d3", "d1", "d5", "d2"], "ltr": ["d3", "d5", "d1", "d4"]}


def rows_and_tally(specs=("ppm",), impressions=240):
    """Return rows with a device, null for some, and the tally by device of the first method."""
    rng = np.random.default_rng(3)
    rows, tally = [], SegmentedTally(tuple(RANKINGS), by="device")
    for number in range(impressions):
        spec = specs[number % len(specs)]
        device = [None, "phone", "desktop"][min(int(rng.integers(7)), 2)]
        absent = number % 40 == 7  # all that dense returned is pinned
        rankings = {**RANKINGS, "dense": ["ad"]} if absent else RANKINGS
        impression = ml.get_method(spec).combine(rankings, k=3, seed=number, pinned={1: "ad"} if absent else None)
        chance = 0.8 if device == "phone" else 0.3
        chances = {"d5": chance, "ad": 0.0}
        clicked = [p for p, d in enumerate(impression.shown) if rng.random() < chances.get(d, 0.3)]
        user = f"user-{number % 50}"
        clicks = [{"position": position} for position in clicked]
        rows.append({**to_row(impression, user_id=user, impression_id=f"i{number}", clicks=clicks), "device": device})
        if spec == specs[0]:
            outcome = ml.infer(impression, positions=clicked)
            tally.add(outcome, user, segment=device or "unknown", clicks=len(clicked), impression=impression)
    return rows, tally


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet_with_device(path, rows):
    write_parquet(path, rows, pa.schema([*JOINED, ("device", pa.string())]))


def assert_same(mine, theirs):
    assert mine.segments.keys() == theirs.segments.keys()
    for name, verdict in theirs.segments.items():
        for one, other in zip(mine.segments[name].pairs, verdict.pairs, strict=True):
            assert one.preference == pytest.approx(other.preference, abs=1e-12)
            assert (one.p, one.p_corrected) == pytest.approx((other.p, other.p_corrected))
        assert mine.segments[name].health.first["p"] == verdict.health.first["p"]
    for one, other in zip(mine.interactions, theirs.interactions, strict=True):
        assert one.p == pytest.approx(other.p)
        assert one.shrunken == pytest.approx(other.shrunken)


@pytest.mark.parametrize("specs", [("ppm",), ("tdm", "ppm")])
@pytest.mark.parametrize(("name", "write"), [("log.jsonl", write_lines), ("log.parquet", write_parquet_with_device)])
def test_a_log_by_segment_is_its_segmented_tally(tmp_path, specs, name, write):
    rows, tally = rows_and_tally(specs)
    write(tmp_path / name, rows)
    found = replay(tmp_path, segment="device")
    assert len(found.comparisons) == len(specs)
    method = str(ml.get_method(specs[0]))
    (comparison,) = [one for one in found.comparisons if one.method == method]
    assert_same(comparison.verdict_by_segment, tally.verdict())
    whole = replay(tmp_path).tally("click", method)
    assert comparison.tally.impressions == whole.impressions == tally.total.impressions
    for one, other in zip(comparison.verdict.pairs, whole.verdict().pairs, strict=True):
        assert (one.preference, one.p) == pytest.approx((other.preference, other.p))


def test_a_row_that_is_logged_twice_counts_once_whatever_its_segment(tmp_path):
    rows, tally = rows_and_tally()
    write_lines(tmp_path / "log.jsonl", [*rows, {**rows[0], "device": "watch"}, rows[5]])
    found = replay(tmp_path, segment="device")
    assert found.counts.repeated_impressions == 2
    assert_same(found.comparisons[0].verdict_by_segment, tally.verdict())


def test_segments_can_be_folders(tmp_path):
    rows, tally = rows_and_tally()
    for device in (None, "phone", "desktop"):
        folder = tmp_path / f"device={device or 'unknown'}"
        folder.mkdir()
        chosen = [{k: v for k, v in row.items() if k != "device"} for row in rows if row["device"] == device]
        write_lines(folder / "log.jsonl", chosen)
    assert_same(replay(tmp_path, segment="device").comparisons[0].verdict_by_segment, tally.verdict())


def test_segments_are_printed_written_and_json(tmp_path, capsys):
    rows, tally = rows_and_tally()
    write_lines(tmp_path / "log.jsonl", rows)
    log = str(tmp_path / "log.jsonl")
    assert main(["replay", log, "--segment", "device", "--json", "--out", str(tmp_path / "out")]) == 0
    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert comparison["segments"]["by"] == "device"
    assert comparison["segments"]["interactions"][0]["p"] == pytest.approx(tally.verdict().interactions[0].p)
    (written,) = json.loads((tmp_path / "out" / "tallies.json").read_text())
    assert_same(SegmentedTally.from_dict(written["segments"]).verdict(), tally.verdict())
    assert main(["replay", log, "--segment", "device"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "device phone: " in out
    assert f"{tally.verdict().sentence}." in out


def test_columns_that_are_no_segments_are_refused(tmp_path, capsys):
    rows, _ = rows_and_tally(impressions=250)
    write_lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(DataError, match=r"has a value in the column 'devise'.*Check the column's name"):
        replay(tmp_path, segment="devise")
    with pytest.raises(DataError, match="'impression_id' has more than 200 different values"):
        replay(tmp_path, segment="impression_id")
    with pytest.raises(DataError, match="Leave out cap, or segment"):
        replay(tmp_path, segment="device", cap=3)
    assert main(["replay", str(tmp_path), "--segment", "devise"]) == 2
    assert "'devise'" in capsys.readouterr().err


@pytest.mark.parametrize("folders", [False, True])
def test_tasks_of_spark_give_the_same(tmp_path, folders):
    rows, tally = rows_and_tally(("tdm", "ppm"))
    write_lines(tmp_path / "log.jsonl", rows)
    table = pa.Table.from_pylist(rows, schema=pa.schema([*JOINED, ("device", pa.string())]))
    table = table.append_column(KEEP, pa.array([True] * len(rows)))
    files = [f"/log/device={row['device']}/part" if folders and row["device"] else "/log/part" for row in rows]
    table = table.append_column(FILE, pa.array(files))
    table = table.drop_columns(["device"]) if folders else table
    job = spark_tasks.Job(Settings.checked(["click"], 30.0, None, unit="user_id", cap=None, segment="device"))
    pieces = [spark_tasks.infer_rows(job, [piece]) for piece in table.to_batches(max_chunksize=50)]
    partial = pa.Table.from_batches([batch for piece in pieces for batch in piece])
    partial = partial.sort_by([("key", "ascending"), ("unit", "ascending")])
    [merged] = spark_tasks.merge_units(job, partial.to_batches(max_chunksize=30))
    found = pickle.loads(merged.column("found")[0].as_py()).check_segments("device")
    (comparison,) = [one for one in found.comparisons if one.method.startswith("tdm")]
    assert_same(comparison.verdict_by_segment, tally.verdict())
