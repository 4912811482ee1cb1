"""Segments in the service: from the request to the page, the same as a replay of the export says."""

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest
from http_service import API, check_refusal, serving

from multileave.client import LocalClient
from multileave.client.search import Search
from multileave.errors import DataError
from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings
from multileave.live.verdicts import segments as computing
from multileave.live.verdicts.stored_tallies import rules_of
from multileave.replay import replay
from multileave.stats import Rules

RANKINGS = {"bm25": list("abcdef"), "dense": list("fedcba"), "ltr": list("cafebd")}
HTML = "<img src=x onerror=alert(1)>"


def opened(address):
    return Service(Settings(database=address, secret="s" * 32))


def send(service, number, users=60, segments=("phone", "desktop", None), seed=0):
    """Let users search twice in changing segments, and click."""
    rng = np.random.default_rng(seed)

    async def traffic():
        for user in range(users):
            for query in ("x", "y"):
                segment = segments[int(rng.integers(len(segments)))]
                request = ShowRequest(RANKINGS, f"u{user}", query, segment=segment)
                shown = await service.show(number, request)
                liked = "a" if segment == "phone" else "f"
                clicks = [p for p, d in enumerate(shown.shown) if rng.random() < (0.8 if d == liked else 0.1)]
                await service.record([Event(f"{p}", shown.impression, position=p) for p in clicks])

    asyncio.run(traffic())


def started(service, **settings):
    definition = Definition(name="x", rankers=tuple(RANKINGS), control="bm25", k=4, **settings)
    return service.start(service.create(definition).number).number


def figures(verdict):
    pairs = {name: [[p.preference, p.low, p.high, p.p_corrected] for p in v.pairs] for name, v in verdict.items()}
    return {name: np.array(rows) for name, rows in pairs.items()}


@pytest.fixture
def service(address):
    service = opened(address)
    yield service
    service.close()


def test_segments_are_what_a_replay_of_the_export_says(service, tmp_path):
    number = started(service)
    send(service, number)
    found = service.segments(number)
    service.export(number, tmp_path / "log.parquet")
    [comparison] = replay(tmp_path / "log.parquet", segment="segment").comparisons
    expected = comparison.segments.judged(rules_of(service.experiment(number)))
    assert set(found.verdict.segments) == set(expected.segments) == {"phone", "desktop", "unknown"}
    for name, rows in figures(expected.segments).items():
        assert figures(found.verdict.segments)[name] == pytest.approx(rows, abs=1e-9)
        assert found.verdict.segments[name].impressions == expected.segments[name].impressions
    for one, other in zip(found.verdict.interactions, comparison.segments.judged(Rules()).interactions, strict=True):
        assert one.p_corrected == pytest.approx(other.p_corrected, abs=1e-9)
        assert one.shrunken == pytest.approx(other.shrunken, abs=1e-9)
    assert found.verdict.interactions[0].significant
    assert found.impressions == found.report.traffic.impressions == 120


def test_all_but_the_largest_segments_are_one(service, monkeypatch):
    monkeypatch.setattr(computing, "MOST_SEGMENTS", 2)
    number = started(service)
    send(service, number, segments=("a", "a", "a", "b", "b", "c", "d"))
    found = service.segments(number)
    assert (set(found.verdict.segments), found.merged) == ({"a", "b", "other"}, 2)
    assert sum(one.impressions for one in found.verdict.segments.values()) == 120


def test_without_segments_there_is_nothing_and_too_many_impressions_are_refused(service, monkeypatch):
    number = started(service)
    assert service.segments(number).verdict is None
    send(service, number, users=3, segments=(None,))
    assert service.segments(number).verdict is None
    monkeypatch.setattr(computing, "MOST_IMPRESSIONS", 5)
    with pytest.raises(computing.Conflict, match=r"6 impressions.*replay --segment segment"):
        service.segments(number)


def test_weighted_units_have_verdicts_but_no_interactions(service):
    number = started(service, estimand="users", cap=50)
    send(service, number)
    found = service.segments(number).verdict
    assert found.interactions == ()
    assert {one.estimand for one in found.segments.values()} == {"users"}


def test_scheduled_looks_do_not_make_segments_scheduled(service):
    number = started(service, looks=(1000, 2000))
    send(service, number, users=20)
    assert all(one.anytime for one in service.segments(number).verdict.segments.values())


def test_a_segment_is_no_part_of_the_impression(service):
    number = started(service)
    first, again = (
        asyncio.run(service.show(number, ShowRequest(RANKINGS, "u", "q", segment=segment))) for segment in ("a", "b")
    )
    assert first == again
    [recent] = service.recent(number)
    assert service.impression(number, recent.key).segment == "a"


def test_an_old_database_has_no_segments_and_takes_them(tmp_path):
    shutil.copy(Path(__file__).parent / "pinned" / "v1.sqlite", tmp_path / "store.db")
    service = Service(Settings(database=f"sqlite:///{tmp_path}/store.db", secret="pinned-pinned-pinned"))
    assert service.segments(1).verdict is None
    rankings = {name: list("abcdef") for name in ("bm25", "dense", "ltr")}
    for user in range(2):
        asyncio.run(service.show(1, ShowRequest(rankings, f"new {user}", segment="phone")))
    assert set(service.segments(1).verdict.segments) == {"phone", "unknown"}
    service.close()


def test_segments_over_http_and_on_the_page(tmp_path):
    with serving(f"sqlite:///{tmp_path}/live.db", open=True) as served:
        number = served.running()
        for user in range(4):
            for segment in (HTML, "phone"):
                shown = served.show(number, f"{segment}{user}", segment=segment).json()
                event = {"id": "e", "impression": shown["impression"], "position": user % 2}
                served.send("POST", f"{API}/events", json=[event])
        for refused in ("x" * 65, "x" * 10_000, "a\x00b", "a\nb", "\x1b[31m", "", 7, ["a"]):
            check_refusal(served.show(number, segment=refused), 422, "invalid")
        found = served.send("GET", f"{API}/experiments/{number}/segments", "read").json()
        assert {name: one["impressions"] for name, one in found["segments"].items()} == {HTML: 4, "phone": 4}
        assert (found["impressions"], found["merged"], found["stale"]) == (8, 0, False)
        assert set(found["interactions"][0]["shrunken"]) == {HTML, "phone"}
        page = served.client.get(f"/experiments/{number}/segments").text
        assert "&lt;img src=x" in page
        assert "<img" not in page
        assert "for one look" in page or found["interactions"][0]["p"] is None
        assert f"/experiments/{number}/segments" in served.client.get(f"/experiments/{number}").text
        assert served.client.get(f"/experiments/{number}/segments?action=none").status_code == 404
        check_refusal(served.send("GET", f"{API}/experiments/{number}/segments?action=none", "read"), 422)


def test_clients_send_and_log_segments(tmp_path):
    search = Search.checked(RANKINGS, "u", "q", 1, None, "", "phone")
    assert search.to_dict()["segment"] == "phone"
    assert "segment" not in Search.checked(RANKINGS, "u", "q", 1, None, "", None).to_dict()
    with LocalClient(control="bm25", folder=tmp_path) as client:
        for user in range(20):
            client.interleave(RANKINGS, f"u{user}", segment="phone" if user % 2 else None)
        with pytest.raises(DataError, match="segment is 7"):
            client.interleave(RANKINGS, "u", segment=7)
    [comparison] = replay(sorted(tmp_path.glob("impressions-*")), segment="segment").comparisons
    assert {name: one.impressions for name, one in comparison.segments.tallies.items()} == {"phone": 10, "unknown": 10}
