"""An impression counts once, however often and wherever it is logged, and the report says what was left out."""

import gzip
import json
import random
import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from replay_logs import START, Shown, assert_same, make_log, tallies

import multileave as ml
from multileave.cli import main
from multileave.log.writer import json_line, spell_time
from multileave.replay import CLICKS, IMPRESSIONS, JOINED, replay, to_row, write_parquet
from multileave.replay import repeats as repeats_module
from multileave.replay.inferring.row_keys import ID, IDENTITY, ONE, TWO, hash_rows

LOG = make_log(60)
EVENTS = [{"impression_id": shown.impression_id, **event} for shown in LOG for event in shown.events]


def row(shown, **changes):
    return {**to_row(shown.impression, **shown.envelope, clicks=shown.events), **changes}


def line(shown, **changes):
    events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
    return json_line({**shown.envelope, **shown.impression.to_dict(), "clicks": events, **changes})


def write(path, log):
    """Write a log in the form that the path names."""
    if path.suffix == ".parquet":
        write_parquet(path, map(row, log), JOINED)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(b"".join(map(line, log))))
    else:
        path.write_bytes(b"".join(map(line, log)))
    return path


def assert_once(found, log, *, repeated, conflicts=0):
    """Check that each impression of a log counts once, and that the counts add up."""
    counts = found.counts
    assert (counts.inferred, counts.repeated_impressions) == (len(log), repeated)
    assert counts.conflicting_impressions == conflicts
    assert counts.rows == len(log) + repeated + counts.malformed + counts.filtered
    assert counts.clicks == (
        counts.counted_clicks + counts.unused_clicks + counts.duplicate_clicks + counts.clicks_not_shown
        + counts.orphan_clicks + counts.malformed_clicks + counts.clicks_of_other_rows
    )  # fmt: skip
    assert counts.clicks_of_other_rows >= 0
    for method, tally in tallies(log).items():
        assert_same(found.tally("click", method), tally)


@pytest.mark.parametrize("copy", ["b.parquet", "b.jsonl", "b.jsonl.gz"])
@pytest.mark.parametrize("held", [0, 1 << 20])
def test_a_log_in_two_files_counts_once(tmp_path, monkeypatch, copy, held):
    monkeypatch.setattr(repeats_module, "MOST_HELD", held)  # on disk, and in memory
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "logs").mkdir()
    once = replay(write(tmp_path / "logs" / "a.parquet", LOG))
    assert_once(once, LOG, repeated=0)
    write(tmp_path / "logs" / copy, LOG)
    found = replay(tmp_path / "logs")
    assert_once(found, LOG, repeated=60)
    assert "repeated_impressions" in found.counts.wrong
    for mine, theirs in zip(found.comparisons, once.comparisons, strict=True):
        assert mine.tally.to_dict() == theirs.tally.to_dict()
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_repeats_within_a_file_and_over_row_groups_are_found(tmp_path):
    rows = [row(shown) for shown in (*LOG, *LOG[:7], LOG[3])]
    with pq.ParquetWriter(tmp_path / "log.parquet", JOINED) as writer:
        for start in range(0, len(rows), 9):
            writer.write_table(pa.Table.from_pylist(rows[start : start + 9], schema=JOINED))
    assert_once(replay(tmp_path), LOG, repeated=8)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_separate_clicks_are_counted_once(tmp_path, form):
    for name in ("a", "b"):
        if form == "parquet":
            rows = [to_row(shown.impression, **shown.envelope) for shown in LOG]
            write_parquet(tmp_path / f"{name}.parquet", rows, IMPRESSIONS)
        else:
            lines = [json_line({**shown.envelope, **shown.impression.to_dict()}) for shown in LOG]
            (tmp_path / f"{name}.jsonl").write_bytes(b"".join(lines))
    write_parquet(tmp_path / "clicks.pq", [*EVENTS, {"impression_id": "nowhere", "position": 0}], CLICKS)
    found = replay(sorted(tmp_path.glob(f"*.{form}")), clicks=tmp_path / "clicks.pq")
    assert_once(found, LOG, repeated=60)
    assert found.counts.clicks == len(EVENTS) + 1
    assert (found.counts.orphan_clicks, found.counts.clicks_of_other_rows) == (1, 0)


def other_clicks(shown):
    """Return the impression of a log with other clicks."""
    clicks = {"document": shown.impression.shown[0], "position": 0, "action": "click", "timestamp": START, "dwell": 1.0}
    return Shown(int(shown.impression_id[1:]), shown.impression, shown.user_id, [clicks])


@pytest.mark.parametrize("workers", [1, 4])
def test_of_different_content_the_first_path_counts_whatever_the_order(tmp_path, workers):
    changed = [other_clicks(shown) if number in (2, 8) else shown for number, shown in enumerate(LOG)]
    names = ["2026-05-01.jsonl", "2026-05-02.parquet", "2026-05-03.jsonl"]
    paths = [write(tmp_path / name, log) for name, log in zip(names, (LOG, changed, changed), strict=True)]
    for seed in range(4):
        random.Random(seed).shuffle(paths)
        assert_once(replay(paths, workers=workers), LOG, repeated=120, conflicts=4)
    assert_once(replay(sorted(paths)[1:], workers=workers), changed, repeated=60)


FIELDS = {
    "another unit": {"user_id": "somebody else"},
    "no unit": {"user_id": None},
    "k": {"k": 4},
    "ranks": {"ranks": [2, 1, 1, 2, 3, 3]},
    "note": {"note": [0, 0, 1]},
    "lengths": {"lengths": [3, 4]},
    "pins": {"pinned": [0], "shown": ["advert", "a", "b", "c"]},
    "no clicks": {"clicks": []},
    "another position": {"clicks": [{"position": 1}]},
    "two clicks": {"clicks": [{"position": 0}, {"position": 1}]},
    "another time": {"clicks": [{"position": 0, "timestamp": 17}]},
}


@pytest.mark.parametrize("change", FIELDS)
def test_any_field_that_inference_reads_makes_a_conflict(tmp_path, change):
    base = {
        "version": 1, "impression_id": "x", "user_id": "u", "method": "tdm", "rankers": ["a", "b"], "k": 3,
        "shown": ["a", "b", "c"], "hidden": [], "pinned": [], "lengths": [3, 3], "ranks": [1, 2, 2, 1, 3, 3],
        "note": [0, 1, 0], "stat": [], "clicks": [{"position": 0}],
    }  # fmt: skip
    lines = [base, {**base, "query": "something else"}, {**base, **FIELDS[change]}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    counts = replay(tmp_path).counts
    assert (counts.inferred, counts.malformed) == (1, 0)
    assert (counts.repeated_impressions, counts.conflicting_impressions) == (2, 1)


def test_a_row_that_is_invalid_is_not_the_first(tmp_path):
    lines = [line(shown) for shown in LOG[:6]]
    # Cut, not inferable, of a later version: as a copy that went wrong.
    wrong = [lines[0][:-30] + b"\n", line(LOG[1], k=-1), line(LOG[2], version=2), line(LOG[3], ranks=[[1] * 3] * 6)]
    (tmp_path / "1.jsonl").write_bytes(b"".join([*wrong, *lines[4:]]))
    (tmp_path / "2.jsonl").write_bytes(b"".join(lines))
    found = replay(tmp_path, quarantine=tmp_path / "wrong.txt")
    counts = found.counts
    assert (counts.inferred, counts.malformed, counts.unknown_versions) == (6, 3, 1)
    assert (counts.repeated_impressions, counts.conflicting_impressions) == (2, 0)
    entries = [json.loads(entry) for entry in (tmp_path / "wrong.txt").open()]
    assert len(entries) == sum(found.reasons.values()) == len(found.examples) == 4


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_only_rows_that_pass_the_filter_are_compared(tmp_path, form):
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        write(tmp_path / f"day={day}" / f"log.{form}", LOG)
    found = replay(tmp_path, filter=pc.field("day") == "2")
    assert found.counts.filtered == 60
    assert_once(found, LOG, repeated=0)
    assert_once(replay(tmp_path), LOG, repeated=60)


def test_rows_without_an_id_all_count_and_are_counted(tmp_path):
    def without(shown, number):
        return line(shown, impression_id=[None, ""][number % 2])

    lines = [without(shown, number) for number, shown in enumerate(LOG)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines))
    counts = replay(tmp_path).counts
    assert (counts.inferred, counts.without_id, counts.repeated_impressions) == (120, 120, 0)
    write_parquet(tmp_path / "c.parquet", map(row, LOG), JOINED)
    assert replay(tmp_path).counts.without_id == 120


def test_a_column_of_ids_that_cannot_be_read_does_no_harm(tmp_path):
    table = pa.Table.from_pylist(list(map(row, LOG)), schema=JOINED)
    ids = pa.array([shown.impression_id.encode().rjust(16) for shown in LOG], pa.binary(16))
    table = table.set_column(table.schema.get_field_index("impression_id"), "impression_id", ids)
    pq.write_table(table, tmp_path / "log.parquet")
    counts = replay(tmp_path).counts
    assert (counts.inferred, counts.without_id, counts.malformed) == (60, 60, 0)


def test_experiments_may_number_their_impressions_alike(tmp_path):
    other = make_log(24, methods=("ppm",), names=("old", "new"))
    write_parquet(tmp_path / "log.parquet", map(row, (*LOG, *other)), JOINED)
    found = replay(tmp_path)
    assert (found.counts.inferred, found.counts.repeated_impressions) == (84, 0)
    # Clicks that refer to an id cannot tell them apart.
    write_parquet(tmp_path / "clicks.pq", EVENTS, CLICKS)
    found = replay(tmp_path / "log.parquet", clicks=tmp_path / "clicks.pq")
    assert_once(found, LOG, repeated=24, conflicts=24)


def test_ids_of_any_kind_are_told_apart():
    ids = [f"i{number:09d}" for number in range(150_000)]
    ids += [str(number) for number in range(50_000)]
    ids += ["x" * length for length in range(1, 40)] + ["\x00" * length for length in range(1, 40)]
    ids += [f"{1 << bit:064b}" for bit in range(64)]
    text = pa.array(ids, pa.string())
    keys = hashed(text)
    assert len(np.unique(keys[:, IDENTITY])) == len(np.unique(keys[:, ID])) == len(set(ids))
    # All partitions get a fair share.
    shares = np.bincount((keys[:, IDENTITY] >> np.uint64(56)).astype(np.int64), minlength=256) / len(ids) * 256
    assert 0.7 < shares.min() < shares.max() < 1.3


def naive_hash(text, factor, shift, *more):
    """Return the hash of a string and further words, in Python's integers."""
    if len(text) < 8:
        words = [int.from_bytes(text, "big")]
    else:
        words = [int.from_bytes(text[min(x, len(text) - 8) :][:8], "little") for x in range(0, len(text), 8)]
    found = factor
    for word in (len(text), *words, *more):
        found = ((found ^ word) * factor) % 2**64
        found ^= found >> shift
    return found


@pytest.mark.fast
def test_hashes_are_what_their_definition_gives():
    ids = ["", "a", "i000000017", "0123456789abcdef", "0123456789abcdef0123456789abcdef", "é\x00"]
    keys = hashed(pa.array(ids, pa.string()))
    for text, key in zip(ids, keys.tolist(), strict=True):
        assert key[IDENTITY] == naive_hash(text.encode(), int(ONE), 32, 0)
        assert key[ID] == naive_hash(text.encode(), int(TWO), 29)


def hashed(text):
    """Return the keys of ids in rows that are otherwise empty."""
    size = len(text)
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[: size + 1]
    nothing = np.zeros(size + 1, dtype=np.int32)
    words = np.zeros(size, dtype=np.uint32)
    keys = np.zeros((size, 4), dtype=np.uint64)
    hash_rows(
        np.arange(size),
        (offsets, np.frombuffer(text.buffers()[2], dtype=np.uint8)),
        (nothing, np.zeros(0, dtype=np.uint8)),
        words,
        words,
        ((nothing, words),) * 4,
        (nothing, words, words, np.zeros(0, dtype=np.uint64)),
        False,
        keys,
    )
    return keys


def test_the_command_line_says_what_was_left_out(tmp_path, capsys):
    changed = [other_clicks(shown) if number == 2 else shown for number, shown in enumerate(LOG)]
    write(tmp_path / "a.parquet", LOG)
    write(tmp_path / "b.jsonl", changed)
    assert main(["replay", str(tmp_path), "--json", "--check-ids", "--out", str(tmp_path / "report")]) == 0
    shown = capsys.readouterr()
    counts = json.loads(shown.out)["counts"]
    assert (counts["repeated_impressions"], counts["conflicting_impressions"], counts["inferred"]) == (60, 1, 60)
    assert json.loads((tmp_path / "report" / "report.json").read_text())["wrong"]["conflicting_impressions"] == 1
    assert "60 impressions with a repeated id, left out" in " ".join(shown.err.split())
    assert "1 of them with other content than the first" in " ".join(shown.err.split())
    assert main(["replay", str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl"), "--strict"]) == 1
    assert "repeated id, left out" in " ".join(capsys.readouterr().out.split())


def test_merged_replays_add_up(tmp_path):
    write(tmp_path / "a.parquet", [*LOG, *LOG])
    found = replay(tmp_path)
    both = replace(found.counts) + found.counts
    assert (both.repeated_impressions, both.without_id) == (120, 0)
    assert ml.Tally.from_dict(found.comparisons[0].tally.to_dict()) == found.comparisons[0].tally
