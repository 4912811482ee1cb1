"""A method states the facts about itself in its own file, and everything that needs them reads them there."""

from dataclasses import dataclass

import numpy as np
import pytest

import multileave as ml
from multileave import theory
from multileave.kernels import kernel
from multileave.methods.team_draft import credit_teams, draw_teams, team_draft_lists
from multileave.stats.balance import expected_balance

RANKINGS = {"a": ["d1", "d2", "d3"], "b": ["d3", "d2", "d1"]}


@kernel
def expect_last(ranks, lengths, note, visible, every, params, observed, expected, work_f):
    """Observe whose document stands last; only for the first place, and never otherwise."""
    observed[note[visible - 1]] = 1.0
    expected[:] = 0.25
    return 0 if every else 1


@pytest.fixture
def toy(forget_methods):
    @ml.register
    @dataclass(frozen=True)
    class Toy(ml.Method):
        """A team draft that states other facts."""

        name = "toy"
        outcome = "sign"
        considerate = True
        unbiased_lists = "k"
        proof = "this file"
        pareto = "independent"
        keeps_note = True
        note_label = "side"
        note_is_ranker = True
        slow_to_compile = True
        draw_kernel = draw_teams
        credit_kernel = credit_teams
        balance_kernel = expect_last

        def lists(self, rankings, k):
            return team_draft_lists(rankings, k, neutral=False)

        def params(self):
            return (0.0,)

        def score(self, rankings, drawn, note, clicks, k):
            return [sum(note[position] == n for position in clicks) for n in range(len(rankings))]

    return Toy()


def test_balance_is_what_the_method_expects(toy):
    impression = toy.combine(RANKINGS, k=3, seed=1)
    observed, expected = expected_balance(impression, toy, every=False)
    assert observed.tolist() == np.eye(2)[impression.note[-1]].tolist()
    assert expected.tolist() == [0.25, 0.25]
    assert expected_balance(impression, toy, every=True) is None


def test_replay_examines_the_same_balance(toy, tmp_path):
    pytest.importorskip("pyarrow", reason="pip install 'multileave[replay]'")
    from multileave.replay import JOINED, replay, to_row, write_parquet

    tally, rows = ml.Tally(("a", "b")), []
    for number in range(20):
        impression = toy.combine(RANKINGS, k=3, seed=number)
        tally.add(ml.infer(impression), str(number), clicks=0, impression=impression)
        rows.append(to_row(impression, user_id=str(number), clicks=[]))
    write_parquet(tmp_path / "log.parquet", rows, JOINED)
    found = replay(tmp_path).tally().evidence
    assert found.first.to_dict() == tally.evidence.first.to_dict()
    assert found.first.impressions == 20
    assert found.first.expected.tolist() == [5.0, 5.0]


def test_theory_reports_what_the_method_says_is_proved(toy):
    report = theory.check(toy, documents=2, rankers=2)
    assert [finding.proved for finding in report.findings] == [True, True, True, False]
    inherited = dataclass(frozen=True)(type("Inherited", (type(toy),), {"name": "inherited"}))()
    assert not any(finding.proved for finding in theory.check(inherited, documents=2, rankers=2).findings)


def test_a_study_compiles_what_is_slow_first(toy):
    from multileave.study.runner import _slowest_first

    assert _slowest_first(["tdm", "toy", "ppm", "om(samples=5)"]) == ["toy", "om(samples=5)", "tdm", "ppm"]


def test_the_dashboard_labels_the_note(toy, tmp_path):
    pytest.importorskip("fastapi", reason="pip install 'multileave[live]'")
    from starlette.testclient import TestClient

    from multileave.live import Settings, create_app

    app = create_app(Settings(database=f"sqlite:///{tmp_path}/toy.db", open=True))
    with TestClient(app, base_url="http://127.0.0.1:8421") as client:
        path = "/api/v1/experiments"
        client.post(path, json={"name": "toy", "rankers": ["a", "b"], "control": "a", "method": "toy", "k": 3})
        client.post(f"{path}/1/start")
        assert client.post(f"{path}/1/impressions", json={"rankings": RANKINGS, "unit": "u"}).json()["recorded"]
        (recent,) = client.get(f"{path}/1/impressions").json()["impressions"]
        page = client.get(f"/experiments/1/impressions/{recent['key']}").text
    assert ">Side</th>" in page
    assert "Side: " not in page
    assert "<td>a</td>" in page
