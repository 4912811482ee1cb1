"""A database of the first version is opened, read and gone on with as it was."""

import json
import shutil
from pathlib import Path

import pytest
from make_pinned_database import SECRET, figures, shown, what_is_read

from multileave.live.service import Service
from multileave.live.settings import Settings
from pinned_values import same

PINNED = Path(__file__).parent / "pinned"


@pytest.fixture
def opened(tmp_path):
    shutil.copy(PINNED / "v1.sqlite", tmp_path / "store.db")
    service = Service(Settings(database=f"sqlite:///{tmp_path}/store.db", secret=SECRET))
    yield service
    service.close()


def test_a_database_of_the_first_version_reads_the_same(opened, tmp_path):
    expected = json.loads((PINNED / "v1.expected.json").read_text())["read"]
    for experiment in expected:
        experiment["verdicts"] = {action: figures(verdict) for action, verdict in experiment["verdicts"].items()}
    assert same(what_is_read(opened, tmp_path), expected)


def test_tallies_of_the_first_version_are_judged_as_a_tally_of_the_export(opened, tmp_path):
    from multileave.replay import replay

    for experiment in opened.experiments():
        opened.export(experiment.number, tmp_path / "log.parquet")
        actions = experiment.definition.actions
        found = replay(tmp_path / "log.parquet", actions=actions, dwell=experiment.definition.dwell)
        for comparison in found.comparisons:
            expected = comparison.tally.verdict(experiment.definition.confidence, interval="anytime")
            verdict = opened.report(experiment.number, comparison.action).verdict
            for mine, theirs in zip(verdict.pairs, expected.pairs, strict=True):
                assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
                assert (mine.p, mine.evidence) == (pytest.approx(theirs.p, abs=1e-9), theirs.evidence)


def test_the_same_searches_are_shown_the_same_lists(opened):
    expected = json.loads((PINNED / "v1.expected.json").read_text())["shown"]
    running = [e.number for e in opened.experiments() if e.status == "running"]
    assert running == [1]
    assert [list(documents) for documents in shown(opened)[:90]] == expected[:90]
