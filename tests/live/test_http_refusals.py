"""Whatever is refused, and whoever refuses it, the answer has one shape, comes quickly and repeats nothing hostile."""

import gzip
import time
import zlib

import pytest
from http_service import API, DEFINITION, RANKINGS, check_refusal, serving

HOSTILE = [
    "<script>alert(1)</script>",
    "a\x00b",
    "\u202e\u2066x",
    "'; DROP TABLE impressions; --",
    "{{7*7}}",
    "\U0001f469" * 9,
]
SHOW = f"{API}/experiments/1/impressions"
EVENTS = f"{API}/events"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('refusals')}/live.db") as served:
        assert served.running() == 1
        yield served


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v2/experiments", 404),
        ("GET", f"{API}/experiments/", 404),
        ("GET", "/%00%ff<script>", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", f"{API}/experiments/999", 404),
        ("GET", f"{API}/experiments/999/verdict", 404),
        ("GET", f"{API}/experiments/999/health", 404),
        ("GET", f"{API}/experiments/999/history", 404),
        ("GET", f"{API}/experiments/999/impressions", 404),
        ("GET", f"{API}/experiments/999/export", 404),
        ("GET", f"{API}/experiments/1/impressions/none", 404),
        ("DELETE", f"{API}/experiments/999", 404),
        ("DELETE", f"{API}/keys/999", 404),
        ("POST", f"{API}/experiments/999/start", 404),
        ("POST", f"{API}/experiments/999/stop", 404),
        ("PUT", f"{API}/experiments", 405),
        ("POST", "/healthz", 405),
        ("TRACE", f"{API}/keys", 405),
        ("OPTIONS", f"{API}/events", 405),
        ("GET", f"{API}/events", 405),
        ("GET", f"{API}/experiments/none", 422),
        ("GET", f"{API}/experiments/0", 422),
        ("GET", f"{API}/experiments/99999999999999999999999", 422),
        ("GET", f"{API}/experiments/1/verdict?action=none", 422),
        ("GET", f"{API}/experiments/1/verdict?action=%00", 422),
        ("GET", f"{API}/experiments/1/history?action=none", 422),
        ("GET", f"{API}/experiments/1/impressions?limit=x", 422),
        ("GET", f"{API}/experiments/1/impressions/%00", 422),
        ("DELETE", f"{API}/experiments/1", 409),
        ("POST", f"{API}/experiments/1/start", 409),
    ],
)
def test_an_address_that_makes_no_sense(served, method, path, status):
    check_refusal(served.send(method, path), status)


def test_a_refused_method_is_told_all_that_are_taken(served):
    assert served.send("PUT", f"{API}/experiments").headers["allow"] == "GET, POST"
    assert served.send("PUT", f"{API}/experiments/1").headers["allow"] == "DELETE, GET, PATCH"


BAD_BODIES = [
    (b"", 400, "malformed"),
    (b"{", 400, "malformed"),
    (b"\xff\xfe", 400, "malformed"),
    (b'{"unit": "\\ud800", "rankings": {}}', 400, "malformed"),
    (b'{"unit": "\xed\xa0\x80", "rankings": {}}', 400, "malformed"),
    (b"[" * 100_000, 400, "malformed"),
    (b'{"a":' * 100_000, 400, "malformed"),
    (b'{"rankings": {"bm25": ' + b"[" * 5_000 + b"]" * 5_000 + b'}, "unit": "u"}', 400, "malformed"),
    (b"null", 422, "invalid"),
    (b"[]", 422, "invalid"),
    (b"NaN", 422, "invalid"),
    (b"{}", 422, "invalid"),
    (b'{"rankings": [], "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": "abc"}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": [true]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": [1.5]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": [null]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": [[1]]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": [1' + b"0" * 5_000 + b']}, "unit": "u"}', 400, "malformed"),
    (b'{"rankings": {"bm25": [9223372036854775808]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {}, "unit": 7}', 422, "invalid"),
    (b'{"rankings": {}, "unit": ""}', 422, "invalid"),
    (b'{"rankings": {}, "unit": "u", "page": "1"}', 422, "invalid"),
    (b'{"rankings": {}, "unit": "u", "page": 0}', 422, "invalid"),
    (b'{"rankings": {}, "unit": "u", "other": 1}', 422, "invalid"),
    (b'{"rankings": {"bm25": ["a"]}, "unit": "u", "pinned": {"x": "b"}}', 422, "invalid"),
    (b'{"rankings": {"bm25": ["a"], "dense": ["a"]}, "unit": "u", "pinned": {"900": "b"}}', 422, "invalid"),
    (b'{"rankings": {"bm25": ["a"], "dense": ["a"]}, "unit": "u", "pinned": {"-1": "b"}}', 422, "invalid"),
    (b'{"rankings": {"bm25": ["a", "b", "a"], "dense": ["a"]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"other": ["a"]}, "unit": "u"}', 422, "invalid"),
    (b'{"rankings": {"bm25": ["a"], "dense": ["b"]}, "unit": "u", "page": 2}', 422, "invalid"),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD_BODIES, ids=lambda value: str(value)[:40])
def test_a_body_that_makes_no_sense(served, body, status, code):
    began = time.perf_counter()
    answer = served.send("POST", SHOW, "ingest", content=body, headers=JSON)
    check_refusal(answer, status, code)
    assert time.perf_counter() - began < 2.0
    assert len(answer.content) < 5_000


@pytest.mark.parametrize(
    "changes",
    [
        {"rankers": ["bm25"]}, {"control": "other"}, {"method": "none"}, {"method": "__import__('os')"}, {"k": 0},
        {"k": 10**9}, {"k": "3"}, {"k": True}, {"pages": 500, "k": 500}, {"share": 1.5}, {"share": "1"},
        {"confidence": 1}, {"window": 0}, {"actions": []}, {"rankers": ["a", "a"], "control": "a"}, {"name": "a\x00"},
        {"name": ""}, {"name": "x" * 101}, {"group": ""}, {"retention_days": -1}, {"window": 1e300}, {"rankers": 7},
        {"none": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_definition_that_makes_no_sense(served, changes):
    check_refusal(served.send("POST", f"{API}/experiments", json={**DEFINITION, **changes}), 422, "invalid")
    check_refusal(served.send("POST", f"{API}/experiments/1/clone", json=changes), 422, "invalid")


def test_a_body_of_another_type_or_encoding(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "<script>", ""):
        answer = served.send("POST", SHOW, "ingest", content=b"{}", headers={"Content-Type": kind})
        check_refusal(answer, 415, "unsupported_media_type")
        assert "<script>" not in answer.text or "application/json" in answer.headers["content-type"]
    check_refusal(served.send("POST", SHOW, "ingest", content=b"{}"), 415)
    check_refusal(served.send("POST", EVENTS, None, content=b"[]", headers={"Content-Type": "text/html"}), 415)
    for encoding in ("br", "gzip, gzip", "deflate"):
        answer = served.send("POST", EVENTS, None, content=b"[]", headers={**JSON, "Content-Encoding": encoding})
        check_refusal(answer, 415)


def bomb(size):
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(size // 1_000_000)) + packer.flush()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (bomb(1_000_000_000), 413),
        (b"no gzip", 400),
        (gzip.compress(b"[]")[:-4], 400),
        (gzip.compress(b"[]") + b"more", 400),
        (gzip.compress(b"") * 50_000, 400),
        (gzip.compress(b"[" * 100_000), 400),
    ],
    ids=["bomb", "none", "cut", "trailing", "members", "deep"],
)
def test_a_packed_body_that_makes_no_sense(served, body, status):
    began = time.perf_counter()
    for path in (EVENTS, SHOW):
        answer = served.send("POST", path, "ingest", content=body, headers={**JSON, "Content-Encoding": "gzip"})
        check_refusal(answer, status)
    assert time.perf_counter() - began < 3.0


def chunks(size):
    for _ in range(size // 100_000):
        yield b"x" * 100_000


@pytest.mark.parametrize("path", [SHOW, EVENTS, f"{API}/experiments", f"{API}/keys", f"{API}/privacy/delete-unit"])
def test_a_body_of_50_mb_is_refused_at_once(served, path):
    began = time.perf_counter()
    check_refusal(served.send("POST", path, content=b"x" * 50_000_000, headers=JSON), 413, "too_large")
    check_refusal(served.send("POST", path, content=chunks(50_000_000), headers=JSON), 413, "too_large")
    assert time.perf_counter() - began < 3.0


def test_rankings_of_100_000_documents_are_refused_quickly(served):
    for ids in ([f"d{i}" for i in range(100_000)], list(range(100_000))):
        began = time.perf_counter()
        answer = served.show(1, rankings={"bm25": ids, "dense": ids[:5]})
        assert answer.status_code in (413, 422)
        check_refusal(answer, answer.status_code)
        assert time.perf_counter() - began < 2.0


def test_ids_are_refused_above_their_length_and_taken_up_to_it(served):
    for changes in (
        {"unit": "x" * 513},
        {"query": "x" * 513},
        {"salt": "x" * 513},
        {"rankings": {**RANKINGS, "bm25": ["x" * 513]}},
        {"rankings": {**RANKINGS, "bm25": ["x" * 1_000_000]}},
        {"pinned": {"0": "x" * 513}},
    ):
        check_refusal(served.show(1, **changes), 413, "too_large")
    fine = served.show(1, "x" * 512, query="x" * 512, rankings={"bm25": ["x" * 512], "dense": ["y" * 512]})
    assert fine.status_code == 200, fine.text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_ids_are_shown_as_they_came(served, text):
    rankings = {"bm25": [text, "b"], "dense": ["b", text]}
    answer = served.show(1, text, query=text, salt=text, rankings=rankings)
    assert answer.status_code == 200, answer.text
    assert sorted(answer.json()["shown"]) == sorted(["b", text])
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    event = {"id": text, "impression": answer.json()["impression"], "document": text}
    for duplicate in (False, True):
        receipt = served.send("POST", EVENTS, None, json=[event]).json()["receipts"][0]
        assert receipt == {"id": text, "accepted": True, "duplicate": duplicate, "code": None, "reason": None}
    for path in ("verdict", "health", "impressions", "history", "export"):
        assert served.send("GET", f"{API}/experiments/1/{path}", "read").status_code == 200
    assert served.send("POST", f"{API}/privacy/delete-unit", json={"unit": text}).json() == {"deleted": 1}


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_names_do_not_come_back_raw(served, text):
    for answer in (
        served.show(1, rankings={**RANKINGS, text: ["a"]}),
        served.send("POST", f"{API}/experiments", json={**DEFINITION, "control": text}),
        served.send("POST", f"{API}/experiments", json={**DEFINITION, text: 1}),
        served.send("POST", f"{API}/experiments", json={**DEFINITION, "method": text}),
        served.send("GET", f"{API}/experiments/1/verdict", params={"action": text}),
    ):
        check_refusal(answer, 422, "invalid")
        assert all(c.isprintable() for c in answer.text)


def test_settings_of_a_running_experiment_are_fixed_but_its_share(served):
    number = served.running()
    check_refusal(served.send("PATCH", f"{API}/experiments/{number}", json={"k": 5}), 409, "conflict")
    check_refusal(served.send("PATCH", f"{API}/experiments/{number}", json={"k": 5, "share": 1}), 409, "conflict")
    assert served.send("PATCH", f"{API}/experiments/{number}", json={"share": 0.25}).json()["share"] == 0.25
    assert served.send("PATCH", f"{API}/experiments/{number}", json={}).json()["share"] == 0.25


def test_what_nobody_foresaw_is_answered_in_the_shape_and_says_nothing(served, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("secret of user-17")

    monkeypatch.setattr(served.app.state.service, "search", fail)
    with caplog.at_level("INFO", "multileave.live"):
        answer = served.send("GET", f"{API}/experiments")
    error = check_refusal(answer, 500, "failed")
    assert "user-17" not in answer.text
    failed = [record for record in caplog.records if record.levelname == "ERROR" and record.module == "middleware"]
    assert [record.fields["request_id"] for record in failed] == [error["request_id"]]  # chores may have failed, too


def test_security_headers_are_on_every_answer(served):
    for method, path in (("GET", "/healthz"), ("GET", "/nothing"), ("GET", f"{API}/keys"), ("POST", EVENTS)):
        headers = served.client.request(method, path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
