"""Lists and events over HTTP, from a draft to a verdict."""

import gzip
import io
import json

import pyarrow.parquet as pq
import pytest
from http_service import API, DEFINITION, RANKINGS, check_refusal, forged, serving

EVENTS = f"{API}/events"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(
        f"sqlite:///{tmp_path_factory.mktemp('traffic')}/live.db", most_events=50, origins=("https://shop.example",)
    ) as served:
        yield served


def test_an_experiment_lives_from_a_draft_to_a_verdict(served):
    live_through(served)


@pytest.mark.acceptance
def test_an_experiment_lives_on_postgres_too(postgres_address):
    with serving(postgres_address) as served:
        live_through(served)
        number = served.running(keep_queries=True, hash_units=False)
        hostile = "a\x00\u202e<script>"
        shown = served.show(number, hostile, query=hostile, rankings={"bm25": [hostile, "b"], "dense": ["b", hostile]})
        event = {"id": hostile, "impression": shown.json()["impression"], "document": hostile}
        for duplicate in (False, True):
            (receipt,) = served.send("POST", EVENTS, None, json=[event]).json()["receipts"]
            assert (receipt["accepted"], receipt["duplicate"]) == (True, duplicate)
        (entry,) = served.send("GET", f"{API}/experiments/{number}/impressions").json()["impressions"]
        assert entry["query"] == hostile


def live_through(served):
    made = served.send("POST", f"{API}/experiments", json=DEFINITION)
    assert made.status_code == 201
    path = made.headers["location"]
    number = made.json()["number"]
    assert path == f"{API}/experiments/{number}"
    assert made.json()["status"] == "draft"
    assert served.send("PATCH", path, json={"confidence": 0.9}).json()["confidence"] == 0.9
    draft = served.show(number).json()
    assert (draft["recorded"], draft["impression"], draft["shown"]) == (False, None, ["a", "b", "c"])
    assert served.send("POST", f"{path}/start").json()["status"] == "running"
    none = served.send("GET", f"{path}/verdict", "read").json()
    assert (none["verdict"], none["traffic"]["impressions"], none["action"]) == (None, 0, "click")
    for user in range(40):
        shown = served.show(number, f"user {user}", query="shoes").json()
        assert shown["recorded"]
        event = {"id": f"e{user}", "impression": shown["impression"], "document": "d"}
        if "d" in shown["shown"]:
            assert served.send("POST", EVENTS, None, json=[event]).json()["accepted"] == 1
    verdict = served.send("GET", f"{path}/verdict", "read").json()
    assert verdict["traffic"]["impressions"] == verdict["traffic"]["units"] == 40
    assert verdict["verdict"]["anytime"]
    (pair,) = verdict["verdict"]["pairs"]
    assert pair["rankers"] == ["bm25", "dense"]
    assert pair["preference"] < 0
    health = served.send("GET", f"{path}/health", "read").json()
    assert health["health"]["units"] == 40
    listed = served.send("GET", f"{path}/impressions?limit=5", "read").json()["impressions"]
    assert len(listed) == 5
    detail = served.send("GET", f"{path}/impressions/{listed[0]['key']}", "read").json()
    assert {document["document"] for document in detail["documents"]} <= set("abcd")
    assert detail["rankers"] == ["bm25", "dense"]
    file = served.send("GET", f"{path}/export", "read")
    assert file.headers["content-type"] == "application/vnd.apache.parquet"
    assert f"experiment-{number}.parquet" in file.headers["content-disposition"]
    assert pq.read_table(io.BytesIO(file.content)).num_rows == 40
    assert served.send("POST", f"{path}/stop").json()["status"] == "stopped"
    after = served.show(number, "late user").json()
    assert (after["recorded"], after["impression"], after["shown"]) == (False, None, ["a", "b", "c"])
    clone = served.send("POST", f"{path}/clone", json={"share": 0.5})
    assert clone.status_code == 201
    assert (clone.json()["version"], clone.json()["parent"], clone.json()["share"]) == (2, number, 0.5)
    assert served.send("DELETE", clone.headers["location"]).status_code == 204
    check_refusal(served.send("GET", clone.headers["location"]), 404, "not_found")


def test_the_same_search_is_the_same_impression(served):
    number = served.running()
    first, again = served.show(number, query="q").json(), served.show(number, query="q").json()
    assert first == again
    assert served.show(number, query="other").json()["impression"] != first["impression"]
    assert served.send("GET", f"{API}/experiments/{number}/verdict").json()["traffic"]["impressions"] == 2


def test_a_ranker_that_failed_may_be_missing_or_null(served):
    number = served.running(rankers=["bm25", "dense", "ltr"])
    for rankings in (RANKINGS, {**RANKINGS, "ltr": None}):
        assert served.show(number, rankings=rankings).json()["recorded"]
    alone = served.show(number, rankings={"dense": ["x", "y"]}).json()
    assert (alone["impression"], alone["shown"]) == (None, ["x", "y"])


def events(served, number, count, unit):
    impression = served.show(number, unit).json()["impression"]
    return [{"id": f"{unit}-{i}", "impression": impression, "position": i} for i in range(count)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["array", "object", "lines", "beacon"])
def test_events_come_in_every_form_and_count_once(served, form, packed):
    number = served.running()
    batch = events(served, number, 3, f"{form} {packed}")
    body = {
        "array": json.dumps(batch),
        "beacon": json.dumps(batch),
        "object": json.dumps({"events": batch}),
        "lines": "\n".join(map(json.dumps, batch)) + "\n\n",
    }[form].encode()
    kind = {"lines": LINES["Content-Type"], "beacon": "text/plain;charset=UTF-8"}.get(form, "application/json")
    headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
    for duplicates in (0, 3):
        answer = served.send("POST", EVENTS, None, content=gzip.compress(body) if packed else body, headers=headers)
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert (said["accepted"], said["duplicates"], said["rejected"]) == (3, duplicates, 0)
        assert [receipt["id"] for receipt in said["receipts"]] == [event["id"] for event in batch]
    counted = served.send("GET", f"{API}/experiments/{number}/verdict").json()["traffic"]["events"]
    assert counted == {"click": 3}


def test_each_event_is_judged_by_itself(served):
    number = served.running()
    good, made_up, other = events(served, number, 3, "judged")
    made_up["impression"] = forged(made_up["impression"])
    bad = [{"id": "no impression"}, 7, None, {"id": "typed", "impression": good["impression"], "position": "1"}]
    bad += [{**good, "id": "x" * 129}, {**good, "id": ""}, {**good, "id": "when", "timestamp": "2024-01-01T00:00:00"}]
    batch = [*bad[:4], good, made_up, *bad[4:], other]
    said = served.send("POST", EVENTS, None, json=batch).json()
    assert [receipt["accepted"] for receipt in said["receipts"]] == [False] * 4 + [True, False] + [False] * 3 + [True]
    assert [receipt["id"] for receipt in said["receipts"][:4]] == ["no impression", None, None, "typed"]
    assert {receipt["code"] for receipt in said["receipts"]} == {"invalid", "unknown_impression", None}
    assert all(receipt["reason"] for receipt in said["receipts"] if not receipt["accepted"])
    lines = b'{"id": "cut"\n' + json.dumps(other).encode() + b'\n"\\ud800"\n' + b"[" * 1000
    said = served.send("POST", EVENTS, None, content=lines, headers=LINES).json()
    assert [receipt["code"] for receipt in said["receipts"]] == ["malformed", None, "malformed", "malformed"]
    assert said["receipts"][1]["duplicate"]


@pytest.mark.parametrize(
    "timestamp", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z"]
)
def test_times_out_of_the_ordinary_are_judged_too(served, timestamp):
    (event,) = events(served, served.running(), 1, "times")
    said = served.send("POST", EVENTS, None, json=[{**event, "timestamp": timestamp}])
    assert said.status_code == 200, said.text


def test_a_batch_has_a_most(served):
    batch = [{"id": str(i), "impression": "none"} for i in range(51)]
    lines = "\n".join(map(json.dumps, batch)).encode()
    check_refusal(served.send("POST", EVENTS, None, json=batch), 413, "too_large")
    check_refusal(served.send("POST", EVENTS, None, json={"events": batch}), 413, "too_large")
    check_refusal(served.send("POST", EVENTS, None, json=[*batch[:-1], 7]), 413, "too_large")
    check_refusal(served.send("POST", EVENTS, None, content=lines, headers=LINES), 413, "too_large")
    assert served.send("POST", EVENTS, None, json=batch[:50]).json()["rejected"] == 50


@pytest.mark.parametrize("body", ["7", '"events"', "{}", '{"events": 7}', '{"events": [], "more": 1}', "null"])
def test_what_is_no_batch_is_refused(served, body):
    answer = served.send("POST", EVENTS, None, content=body, headers={"Content-Type": "application/json"})
    check_refusal(answer, 422, "invalid")


def test_nothing_a_browser_sees_names_a_ranker(served):
    number = served.running(rankers=["secretalpha", "secretbeta"], control="secretalpha", method="tdm")
    rankings = dict(zip(("secretalpha", "secretbeta"), RANKINGS.values(), strict=True))
    seen = []
    for user in range(5):
        shown = served.show(number, f"user {user}", rankings=rankings)
        event = {"id": f"{user}", "impression": shown.json()["impression"], "position": 0}
        batch = [event, event, {**event, "id": "other", "position": 99}, {**event, "id": "not", "document": "z"}, 7]
        seen += [shown, served.send("POST", EVENTS, None, json=batch)]
    seen.append(served.show(number, rankings={"secretalpha": ["a"]}))
    for answer in seen:
        assert answer.status_code == 200
        told = (answer.text + str(answer.headers.values())).lower()
        assert not any(word in told for word in ("secretalpha", "secretbeta", "team", "tdm", "control"))


def test_browsers_of_configured_origins_may_post_events(served):
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    allowed = served.send("OPTIONS", EVENTS, None, headers={"Origin": "https://shop.example", **ask})
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
    posted = served.send("POST", EVENTS, None, json=[], headers={"Origin": "https://shop.example"})
    assert posted.headers["access-control-allow-origin"] == "https://shop.example"
    assert "access-control-allow-credentials" not in posted.headers
    refused = served.send("OPTIONS", EVENTS, None, headers={"Origin": "https://evil.example", **ask})
    check_refusal(refused, 405)
    for path in (f"{API}/experiments", f"{API}/keys"):
        answer = served.send("OPTIONS", path, None, headers={"Origin": "https://shop.example", **ask})
        assert "access-control-allow-origin" not in answer.headers
