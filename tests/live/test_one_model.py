"""A setting or a statistic is declared in one place, and is everywhere without another change."""

import json
import re
import subprocess
import sys
from dataclasses import fields, replace
from html import unescape
from pathlib import Path

import pytest
from http_service import API, DEFINITION, serving

from multileave.live.definition import Definition
from multileave.live.pages.forms import definition_of, texts_of

LIVE = Path(__file__).parents[2] / "src" / "multileave" / "live"
SETTINGS = [field.name for field in fields(Definition)]
OTHER = {
    "name": "another", "rankers": ["bm25", "dense", "ltr"], "control": "dense", "method": "pm(tau=2.0)", "k": 7,
    "pages": 3, "actions": ["satisfied", "click"], "dwell": 12.5, "unit": "session", "confidence": 0.9,
    "window": 5400.0, "group": "shop", "share": 0.25, "hash_units": False, "keep_queries": True, "retention_days": 30.0,
    "tuned_for": 5000.0, "drop": "losers", "looks": [250, 500, 1000], "estimand": "users", "cap": 500, "winsorise": 100,
    "arms": {"bm25": 0.1, "dense": 0.25},
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('model')}/live.db", open=True) as served:
        yield served


@pytest.fixture(scope="module")
def description(served):
    return served.client.get(f"{API}/openapi.json").json()["components"]["schemas"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_is_accepted_returned_described_and_stored(served, description, setting):
    def value_of(answer):
        assert answer.status_code < 300, answer.text
        return answer.json()[setting]

    expected = Definition.from_dict({**DEFINITION, setting: OTHER[setting]}).to_dict()[setting]
    assert expected != Definition.from_dict({"name": "default", "rankers": ["x", "y"]}).to_dict()[setting]
    made = served.send("POST", f"{API}/experiments", None, json={**DEFINITION, setting: OTHER[setting]})
    assert value_of(made) == expected
    draft = served.send("POST", f"{API}/experiments", None, json=DEFINITION).headers["location"]
    assert value_of(served.send("PATCH", draft, None, json={setting: OTHER[setting]})) == expected
    assert value_of(served.send("GET", draft, None)) == expected
    clone = served.send("POST", f"{draft}/clone", None, json={})
    assert value_of(clone) == expected
    plain = served.send("POST", f"{API}/experiments", None, json=DEFINITION).headers["location"]
    assert value_of(served.send("POST", f"{plain}/clone", None, json={setting: OTHER[setting]})) == expected
    for schema in ("Definition", "Changes", "Experiment"):
        assert description[schema]["properties"][setting]["description"], schema


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_is_in_the_form_and_survives_it_and_the_stored_json(served, setting):
    definition = Definition.from_dict({**DEFINITION, setting: OTHER[setting]})
    assert definition_of(texts_of(definition)) == definition
    assert Definition.from_dict(json.loads(json.dumps(definition.to_dict()))) == definition
    form = served.client.get("/experiments/new").text
    assert re.search(rf'<(input|textarea|select)[^>]* id="{setting}"', form)
    assert re.search(rf'<label for="{setting}">[^<]+', form)


def test_every_setting_is_on_the_page_and_in_the_export(served, tmp_path):
    import pyarrow.parquet as pq

    number = served.running(**{**OTHER, "looks": []})  # losers are not dropped with scheduled looks
    page = unescape(served.client.get(f"/experiments/{number}").text)
    for text in (
        "12.5 seconds",
        "1.5 hours",
        "25 %",
        "90 %",
        "30 days",
        "satisfied, click",
        "bm25: 10, dense: 25 %",
        "pm(tau=2.0",
    ):
        assert text in page, text
    (tmp_path / "log.parquet").write_bytes(served.send("GET", f"{API}/experiments/{number}/export", None).content)
    metadata = pq.read_schema(tmp_path / "log.parquet").metadata
    assert (
        json.loads(metadata[b"multileave.experiment"])
        == served.app.state.service.experiment(number).definition.to_dict()
    )


STATISTIC = '''
import dataclasses, json, sys
import multileave.stats.verdict.verdict as verdict
import multileave.stats.health as health

def extended(kind, name, value):
    def statistic(self):
        """A new statistic."""
        return value

    statistic.__annotations__["return"] = type(value)
    setattr(kind, name, property(statistic))
    kind.DERIVED = (*getattr(kind, "DERIVED", ()), name)

extended(verdict.PairVerdict, "lift_of_pair", 0.125)
extended(verdict.Verdict, "new_of_verdict", 17)
extended(health.Health, "new_of_health", 23)
sys.path.insert(0, sys.argv[1])
from http_service import API, serving

with serving(f"sqlite:///{sys.argv[2]}/live.db", open=True) as served:
    number = served.running()
    for user in range(3):
        served.show(number, f"user {user}")
    print(json.dumps({
        "verdict": served.send("GET", f"{API}/experiments/{number}/verdict", None).json()["verdict"],
        "health": served.send("GET", f"{API}/experiments/{number}/health", None).json()["health"],
        "schemas": served.client.get(f"{API}/openapi.json").json()["components"]["schemas"],
        "page": served.client.get(f"/experiments/{number}").text,
        "pairs": served.client.get(f"/experiments/{number}/pairs").text,
    }))
'''


def test_a_statistic_added_in_stats_is_in_responses_openapi_and_pages(tmp_path):
    command = [sys.executable, "-c", STATISTIC, str(Path(__file__).parent), str(tmp_path)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    verdict, schemas = found["verdict"], found["schemas"]
    assert verdict["pairs"][0]["lift_of_pair"] == 0.125
    assert verdict["new_of_verdict"] == 17
    assert verdict["health"]["new_of_health"] == found["health"]["new_of_health"] == 23
    assert schemas["PairVerdict"]["properties"]["lift_of_pair"]["anyOf"][0] == {"type": "number"}
    assert schemas["PairVerdict"]["properties"]["lift_of_pair"]["description"] == "A new statistic."
    assert schemas["Verdict"]["properties"]["new_of_verdict"]["type"] == "integer"
    assert schemas["Health"]["properties"]["new_of_health"]["type"] == "integer"
    assert "lift of pair" in found["pairs"]
    assert "0.125" in found["pairs"]
    assert re.search(r"<dt>new of health</dt><dd>23</dd>", found["page"])


def test_all_sql_is_in_the_store():
    for path in LIVE.rglob("*.py"):
        if "store" not in path.relative_to(LIVE).parts:
            assert "sqlalchemy" not in re.sub(r'"sqlalchemy"|an SQLAlchemy', "", path.read_text(encoding="utf-8")), path


def test_dropped_rankers_are_on_the_page_and_in_the_answer(served):
    from datetime import UTC, datetime

    from multileave.live.experiment import Drop
    from multileave.live.store import experiments as stored

    service, number = served.app.state.service, served.running(drop="losers")
    drop = Drop("dense", datetime(2026, 5, 4, 3, 2, tzinfo=UTC), "bm25", 900, 300, 0.2, 0.1, 0.3, 0.01)
    with service._store.write() as connection:
        stored.update(connection, replace(service.experiment(number), drops=(drop,)))
    assert service.experiment(number).drops == (drop,)
    (found,) = served.send("GET", f"{API}/experiments/{number}", None).json()["drops"]
    assert (found["ranker"], found["lost_to"], found["units"]) == ("dense", "bm25", 300)
    page = unescape(served.client.get(f"/experiments/{number}").text)
    text = re.sub(r"<[^>]+>", "", page)
    assert "dense was dropped at 2026-05-04 03:02 UTC, after 300 users: it lost to bm25." in text
