"""What operators see of the service: logs, metrics, whether it lives and whether it is ready."""

import io
import json
import logging
import threading
import time

import pytest
from http_service import API, RANKINGS, check_refusal, serving
from prometheus_client.parser import text_string_to_metric_families

from multileave.live.http import json_logging
from multileave.live.service import Service

HOSTILE = '<script>\x00"}\n{"level": "error"}'


@pytest.fixture
def served(tmp_path):
    with serving(f"sqlite:///{tmp_path}/live.db") as served:
        yield served


@pytest.fixture
def lines():
    """Collect what is logged, as the service writes it."""
    stream = io.StringIO()
    before = {name: (logging.getLogger(name).handlers, logging.getLogger(name).level) for name in json_logging.LOGGERS}
    json_logging.configure("info", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for name, (handlers, level) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.level, logger.propagate = handlers, level, True


def test_a_request_is_one_line_with_its_id_and_its_route(served, lines):
    served.send("GET", f"{API}/experiments/17/verdict", headers={"X-Request-ID": "trace-1.b_c"})
    (line,) = [line for line in lines() if line["event"] == "request"]
    assert line["request_id"] == "trace-1.b_c"
    assert (line["method"], line["route"], line["status"]) == ("GET", f"{API}/experiments/{{number}}/verdict", 404)
    assert 0 < line["ms"] < 10_000
    assert line["level"] == "info"


@pytest.mark.parametrize("given", [HOSTILE.replace("\n", "").replace("\x00", ""), "x" * 65, "a b", "é", ""])
def test_an_id_that_is_not_sane_is_replaced(served, given):
    answer = served.send("GET", "/healthz", None, headers={"X-Request-ID": given.encode()})
    assert len(answer.headers["x-request-id"]) == 16
    other = served.send("GET", "/healthz", None, headers={"X-Request-ID": given.encode()})
    assert other.headers["x-request-id"] != answer.headers["x-request-id"]


def test_logs_and_metrics_hold_nothing_secret_and_nothing_raw(served, lines):
    number = served.running()
    secret = {"unit": "unit-secret", "query": "query-secret", "salt": "salt-secret"}
    rankings = {"bm25": ["document-secret", HOSTILE], "dense": [HOSTILE]}
    shown = served.show(number, **secret, rankings=rankings).json()
    event = {"id": "event-secret", "impression": shown["impression"], "document": "document-secret"}
    served.send("POST", f"{API}/events", None, json=[event, {**event, "action": HOSTILE}, {"id": HOSTILE}])
    served.send("GET", f"/path-secret/{HOSTILE!r}?key=parameter-secret", headers={"Cookie": "session=cookie-secret"})
    served.send("GET", f"{API}/experiments/{number}/verdict", params={"action": HOSTILE})
    served.client.request("<SCRIPT>", "/healthz")
    served.client.get(f"{API}/keys", headers={"Authorization": "Bearer bearer-secret"})
    served.show(number, rankings={HOSTILE: ["a"], "secret": ["b"]})
    served.send("POST", f"{API}/privacy/delete-unit", json={"unit": "unit-secret"})
    written = json.dumps(lines())
    page = served.send("GET", "/metrics", "read").text
    for text in (written, page):
        assert "secret" not in text.replace('"secret', "")
        assert "script" not in text.lower()
        assert shown["impression"] not in text
        assert all(key not in text for key in served.keys.values())
    assert len(lines()) >= 8


def test_an_error_is_logged_with_its_place_and_without_its_message(served, lines, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("unit-secret")

    monkeypatch.setattr(served.app.state.service, "search", fail)
    served.send("GET", f"{API}/experiments")
    failed, request = [line for line in lines() if "request_id" in line]  # chores may have failed, too
    assert (failed["level"], failed["error"], failed["request_id"]) == ("error", "RuntimeError", request["request_id"])
    assert any("experiments.py" in place for place in failed["where"])
    assert "unit-secret" not in json.dumps(failed)


def samples(served):
    page = served.send("GET", "/metrics", "read").text
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_metrics_count_what_happened(served):
    number = served.running()
    impression = served.show(number).json()["impression"]
    served.show(number)
    served.send("POST", f"{API}/experiments/{number}/stop")
    served.show(number)
    event = {"id": "e", "impression": impression, "position": 0}
    served.send("POST", f"{API}/events", None, json=[event, event, {**event, "impression": "forged"}, 7])
    found = samples(served)
    assert found["multileave_impressions_total", ("recorded", "yes")] == 2
    assert found["multileave_impressions_total", ("recorded", "no")] == 1
    assert found["multileave_events_total", ("code", ""), ("result", "accepted")] == 1
    assert found["multileave_events_total", ("code", ""), ("result", "duplicate")] == 1
    assert found["multileave_events_total", ("code", "unknown_impression"), ("result", "rejected")] == 1
    assert found["multileave_events_total", ("code", "invalid"), ("result", "rejected")] == 1
    assert found["multileave_experiments", ("status", "stopped")] == 1
    route = ("route", f"{API}/experiments/{{number}}/impressions")
    assert found["multileave_requests_total", ("method", "POST"), route, ("status", "200")] == 3
    assert found["multileave_request_seconds_count", ("method", "POST"), route] == 3


def test_no_label_holds_what_a_client_chose(served):
    for name in ("one", "two", "three"):
        served.send("GET", f"/{name}")
        served.client.request(name, "/healthz")
        served.send("GET", f"{API}/experiments/{len(name)}")
    labels = {value for name, *pairs in samples(served) for _, value in pairs}
    assert not labels & {"one", "two", "three", "/one", "ONE"}
    assert "unknown" in labels
    assert "other" in labels


def test_it_is_ready_once_kernels_are_warm(tmp_path, monkeypatch):
    go = threading.Event()
    warm = Service.warm
    monkeypatch.setattr(Service, "warm", lambda self: go.wait(20) and warm(self))
    with serving(f"sqlite:///{tmp_path}/live.db", ready=False) as served:
        assert served.client.get("/healthz").json()["status"] == "ok"
        check_refusal(served.client.get("/readyz"), 503, "not_ready")
        assert "multileave_ready 0.0" in served.send("GET", "/metrics").text
        go.set()
        served.wait_until_ready()
        assert served.client.get("/readyz").json()["status"] == "ready"


def test_a_chore_that_fails_is_logged_and_done_again(tmp_path, monkeypatch, lines):
    calls = []

    def fail(self):
        calls.append(1)
        raise OSError("disk of user-17")

    monkeypatch.setattr(Service, "fold", fail)
    with serving(f"sqlite:///{tmp_path}/live.db", fold_seconds=0.02) as served:
        ends = time.monotonic() + 20
        while len(calls) < 3 and time.monotonic() < ends:
            time.sleep(0.02)
        assert served.client.get("/healthz").status_code == 200
    assert len(calls) >= 3
    failed = [line for line in lines() if line["event"] == "background task failed"]
    assert (failed[0]["task"], failed[0]["error"]) == ("fold", "OSError")
    assert "user-17" not in json.dumps(failed)


def test_verdicts_are_folded_beside_the_requests(served):
    number = served.running()
    for user in range(3):
        assert served.show(number, f"user {user}", rankings=RANKINGS).status_code == 200
    ends = time.monotonic() + 20
    history = f"{API}/experiments/{number}/history"
    while not served.send("GET", history).json()["looks"] and time.monotonic() < ends:
        time.sleep(0.1)
    look = served.send("GET", history).json()["looks"][-1]
    assert look["units"] <= 3
