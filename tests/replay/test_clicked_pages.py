"""Pages with clicks from logs of all formats: the same pages, and nothing lost."""

import gzip
import json
import lzma
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multileave import TeamDraft
from multileave.errors import DataError
from multileave.integrations.ubi import query_attributes
from multileave.integrations.ubi_pages import read_ubi_pages
from multileave.log import to_row
from multileave.log.schema import CLICKS, IMPRESSIONS
from multileave.replay.clicked_pages import read_pages

ROWS = [
    {"session": "s1", "query": "cats", "shown": ["d1", "d2", "d3"], "clicks": [2, 0]},
    {"session": None, "query": "cats", "shown": ["d2", "d1", "d3"], "clicks": []},
    {"session": "s1", "query": "dogs", "shown": ["d1", "d2"], "clicks": [1, 1]},
]


def lines(rows):
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows).encode()


def content(pages):
    """Return each page as (list, order of clicks), with documents as they are numbered."""
    return [
        (pages.lists[pages.row_list[row]].tolist(), pages.row_order[row].tolist(), int(session))
        for row, session in zip(pages.page_row, pages.page_session, strict=True)
    ]


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_plain_pages_are_read_packed_or_not(tmp_path, packed):
    path = tmp_path / f"log.jsonl{packed}"
    pack = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress}[packed]
    path.write_bytes(pack(lines(ROWS)))
    pages = read_pages(path).pages
    assert content(pages) == [([0, 1, 2], [2, 0, 1], 0), ([1, 0, 2], [0, 0, 0], 1), ([3, 4, -1], [0, 1, 0], 0)]


def test_invalid_rows_are_quarantined_and_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    wrong = [
        "not json",
        {"query": "cats", "shown": ["d1"], "clicks": [1]},
        {"query": "cats", "shown": ["d1"]},
        {"query": None, "shown": ["d1"], "clicks": []},
        {"query": "cats", "shown": [], "clicks": []},
        {"query": "cats", "shown": [["d1"]], "clicks": []},
        {"query": "cats", "shown": ["d1"], "clicks": [], "session": [1]},
        {"query": "cats", "shown": ["d1"], "clicks": [], "grades": 1},
        {"query": "cats", "shown": ["d1"], "clicks": [{"position": 3}]},
        {"query": "cats", "shown": ["d1"], "clicks": [{"document": "d9"}]},
    ]
    path.write_bytes(lines([*ROWS, *wrong]))
    found = read_pages(path, quarantine=tmp_path / "wrong.jsonl")
    assert (found.counts.rows, found.counts.pages, found.counts.quarantined) == (13, 3, 10)
    assert len((tmp_path / "wrong.jsonl").read_text().splitlines()) == 10
    assert "position 1; expected an integer from 0 to 0" in found.examples[1]["reason"]


def test_a_log_of_invalid_rows_only_says_what_is_wrong(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines([{"query": "cats", "clicks": []}]))
    with pytest.raises(DataError, match=r"1 rows were read, of which 1 are invalid. .*: 'shown' is None"):
        read_pages(path)
    path.write_bytes(b"query,shown\n")
    with pytest.raises(DataError, match=r"\(char 0\)\. Pass a log"):
        read_pages(path)
    path.write_bytes(lines(ROWS))
    with pytest.raises(DataError, match=r"3 rows were read, of which 0 are invalid, and 3 are something else\."):
        read_ubi_pages(path, path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="no valid pages"):
        read_pages(path)


def impressions():
    rankings = {"a": ["d1", "d2", "d3", "d4"], "b": ["d3", "d1", "d5", "d2"]}
    return [TeamDraft().combine(rankings, k=3, seed=seed) for seed in range(4)]


EVENTS = [
    {"impression_id": "i0", "position": 2, "timestamp": "2026-01-01T00:00:09Z"},
    {"impression_id": "i0", "position": 0, "timestamp": "2026-01-01T00:00:05Z"},
    {"impression_id": "i2", "document": "first", "action": "click"},
    {"impression_id": "i2", "position": 1, "action": "purchase"},
]


def read(time):
    return None if time is None else datetime.fromisoformat(time)


def own_rows():
    rows = [
        {**to_row(one), "impression_id": f"i{x}", "query": "q", "session_id": f"s{x // 2}"}
        for x, one in enumerate(impressions())
    ]
    events = [
        {**event, "document": rows[2]["shown"][0]} if event.get("document") == "first" else event for event in EVENTS
    ]
    return rows, events


def expected():
    orders = {0: [1, 0, 2], 2: [1, 0, 0]}
    return [(tuple(one.shown), orders.get(x, [0, 0, 0]), x // 2) for x, one in enumerate(impressions())]


def named(pages, rows):
    """Return the content of pages with the documents' own names."""
    names = {}
    for page, row in zip(pages.page_row, rows, strict=True):
        names |= dict(zip(pages.lists[pages.row_list[page]].tolist(), row["shown"], strict=False))
    return [(tuple(names[d] for d in shown), order, session) for shown, order, session in content(pages)]


@pytest.mark.parametrize("form", ["jsonl joined", "jsonl separate", "parquet joined", "parquet separate"])
def test_our_own_logs_give_the_same_pages_in_every_form(tmp_path, form):
    rows, events = own_rows()
    joined = [{**row, "clicks": [e for e in events if e["impression_id"] == row["impression_id"]]} for row in rows]
    separate = "separate" in form
    log, clicks = tmp_path / "log", tmp_path / "clicks"
    if "jsonl" in form:
        log, clicks = log.with_suffix(".jsonl"), clicks.with_suffix(".jsonl")
        log.write_bytes(lines(rows if separate else joined))
        clicks.write_bytes(lines(events))
    else:
        log, clicks = log.with_suffix(".parquet"), clicks.with_suffix(".parquet")
        flat = rows if separate else joined
        for row in flat:
            row["ranks"] = [rank for ranks in row["ranks"] for rank in (ranks if isinstance(ranks, list) else [ranks])]
        plain = [{name: value for name, value in row.items() if name != "clicks"} for row in flat]
        table = pa.Table.from_pylist(plain, schema=IMPRESSIONS)
        dated = [{**event, "timestamp": read(event.get("timestamp"))} for event in events]
        if not separate:
            clicked = [[e for e in dated if e["impression_id"] == row["impression_id"]] for row in rows]
            table = table.append_column("clicks", pa.array(clicked))
        pq.write_table(table, log)
        pq.write_table(pa.Table.from_pylist(dated, schema=CLICKS), clicks)
    found = read_pages(log, clicks=clicks if separate else None)
    assert named(found.pages, rows) == expected()
    assert found.counts.unused_clicks == 1


def test_an_impression_logged_twice_counts_once_and_orphans_are_counted(tmp_path):
    rows, events = own_rows()
    (tmp_path / "log.jsonl").write_bytes(lines([*rows, rows[0]]))
    (tmp_path / "clicks.jsonl").write_bytes(lines([*events, {"impression_id": "nobody", "position": 0}]))
    found = read_pages(tmp_path / "log.jsonl", clicks=tmp_path / "clicks.jsonl")
    assert (found.counts.pages, found.counts.repeated, found.counts.orphan_clicks) == (4, 1, 1)


def test_ubi_pages_are_hits_or_our_impressions(tmp_path):
    impression = impressions()[0]
    queries = [
        {"query_id": "1", "client_id": "c1", "user_query": "cats", "query_response_hit_ids": ["d1", "d2"]},
        {"query_id": "2", "client_id": "c1", "user_query": "dogs", "query_attributes": query_attributes(impression)},
        {"query_id": "3", "client_id": "c2", "user_query": "none"},
    ]
    events = [
        {"action_name": "click", "query_id": "1", "event_attributes": {"object": {"object_id": "d2"}}},
        {"action_name": "click", "query_id": "2", "event_attributes": {"position": {"ordinal": 1}}},
    ]
    (tmp_path / "ubi.jsonl").write_bytes(lines([*queries, *events]))
    found = read_ubi_pages(tmp_path / "ubi.jsonl", tmp_path / "ubi.jsonl")
    assert (found.counts.pages, found.counts.other) == (2, 3)
    assert [order for _, order, _ in content(found.pages)] == [[0, 1, 0], [1, 0, 0]]
    assert found.pages.sessions == 1


def test_a_column_of_sessions_that_no_page_has_is_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(lines(ROWS))
    with pytest.raises(DataError, match="No page has a 'visitor'"):
        read_pages(path, unit="visitor")
