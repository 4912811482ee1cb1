"""examples/fastapi_app.py runs an experiment, in few lines."""

import importlib.util
from pathlib import Path

from client_service import Api, service
from starlette.testclient import TestClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_app.py"


def test_the_example_shows_lists_and_reports_clicks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with service(tmp_path, rankers=["bm25", "ltr"]) as address:
        monkeypatch.setenv("SERVICE", address)
        monkeypatch.setenv("EXPERIMENT", "1")
        spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with TestClient(module.app) as http:
            http.app.state.multileave._deadline = 10.0  # the machine may be busy
            for user in range(3):
                page = http.get("/search", params={"query": "shoes", "user": f"u{user}"}).json()
                assert sorted(page["documents"]) == ["d1", "d2", "d3"]
                answer = http.post("/clicks", params={"impression": page["impression"], "document": "d3"})
                assert answer.status_code == 200
        assert Api(address).traffic()["events"] == {"click": 3}


def test_the_example_is_short():
    code = EXAMPLE.read_text().rpartition('"""')[2]
    assert len([line for line in code.splitlines() if line.strip()]) < 30
