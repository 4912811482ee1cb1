"""Arms over HTTP and on the page: one record, the same figures, and nothing where there are no arms."""

from html import unescape

import pytest
from http_service import API, check_refusal, serving

ARMS = {"bm25": 0.4, "dense": 0.4}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(f"sqlite:///{tmp_path_factory.mktemp('arms')}/live.db", open=True) as served:
        yield served


@pytest.fixture(scope="module")
def number(served):
    number = served.running(arms=ARMS)
    for user in range(80):
        page = served.show(number, f"user {user}").json()
        wanted = [x for x, document in enumerate(page["shown"]) if document == "d" or (document == "a" and user % 4)]
        events = [{"id": f"e{x}", "impression": page["impression"], "position": x} for x in wanted]
        assert served.send("POST", f"{API}/events", None, json=events).json()["rejected"] == 0
    return number


def test_the_verdict_of_arms_is_the_services(served, number):
    found = served.send("GET", f"{API}/experiments/{number}/arms").json()
    report = served.app.state.service.report(number)
    assert found["verdict"] == report.arms.to_dict()
    assert found["agreements"] == [one.to_dict() for one in report.agreements]
    assert [one["ranker"] for one in found["agreements"]] == ["dense"]
    assert (found["experiment"], found["action"], found["stale"]) == (number, "click", False)
    check_refusal(served.send("GET", f"{API}/experiments/{number}/arms?action=buy"), 422)


def test_openapi_describes_every_figure(served):
    schemas = served.client.get(f"{API}/openapi.json").json()["components"]["schemas"]
    for name in ("ArmVerdict", "ArmMetric", "ArmEstimate", "ArmSize", "Agreement"):
        assert all(one.get("description") for one in schemas[name]["properties"].values()), name


def test_a_list_names_no_ranker_and_no_arm(served, number):
    assert set(served.show(number, "another").json()) == {"impression", "shown", "page", "recorded"}


def test_the_page_shows_the_ab_test(served, number):
    page = unescape(served.client.get(f"/experiments/{number}").text)
    for text in ("A/B test between arms", "Pages with a click", "Reciprocal rank of the highest click", "control"):
        assert text in page, text
    assert "yet by" in page or "agree" in page
    keys = served.send("GET", f"{API}/experiments/{number}/impressions?limit=100").json()["impressions"]
    assert {one["arm"] for one in keys} == {"bm25", "dense", None}
    key = next(one["key"] for one in keys if one["arm"] == "dense")
    assert "A page of dense alone" in served.client.get(f"/experiments/{number}/impressions/{key}").text


def test_nothing_is_shown_without_arms(served):
    number = served.running()
    for user in range(5):
        served.show(number, f"user {user}")
    page = served.client.get(f"/experiments/{number}").text
    assert "A/B test" not in page
    assert ">Arm<" not in page
    answer = served.send("GET", f"{API}/experiments/{number}/arms").json()
    assert (answer["verdict"], answer["agreements"]) == (None, [])


def test_a_running_experiments_arms_can_be_changed_and_the_change_is_audited(served):
    number = served.running(arms={"bm25": 0.1})
    changed = served.send("PATCH", f"{API}/experiments/{number}", json={"arms": {"bm25": 0.2, "dense": 0.1}})
    assert changed.json()["arms"] == {"bm25": 0.2, "dense": 0.1}
    entries = served.send("GET", f"{API}/audit?experiment={number}").json()["entries"]
    assert entries[0]["details"]["changed"]["arms"] == [{"bm25": 0.1}, {"bm25": 0.2, "dense": 0.1}]
    check_refusal(served.send("PATCH", f"{API}/experiments/{number}", json={"arms": {"bm52": 0.2}}), 422)
    served.send("PATCH", f"{API}/experiments/{number}", json={"arms": {"bm25": 0.2}})
    refused = served.send("PATCH", f"{API}/experiments/{number}", json={"arms": {"bm25": 0.95}})
    assert "a unit never changes its arm" in check_refusal(refused, 409)["message"]


def test_a_draft_without_data_says_when_there_will_be_figures(served):
    number = served.running(arms=ARMS)
    assert "Available once there are impressions of two users in the arms" in served.client.get(
        f"/experiments/{number}"
    ).text  # fmt: skip
