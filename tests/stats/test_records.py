"""What a verdict reports is declared once: types and descriptions, JSON and tables follow from it."""

from typing import ClassVar

import numpy as np
import pytest

from multileave.outcome import Outcome
from multileave.stats import Health, PairVerdict, Tally, Verdict
from multileave.stats.records import about, reported_fields
from multileave.stats.verdict.wording import HEADERS


@pytest.fixture(scope="module")
def verdict():
    tally = Tally(("a", "b"))
    for user in range(60):
        tally.add(Outcome(("a", "b"), "difference", np.array([user % 3, 1.0])), user % 40, clicks=1)
    return tally.verdict()


@pytest.mark.parametrize("record", [Verdict, PairVerdict, Health])
def test_every_reported_field_has_a_type_and_a_description(record):
    for name, one in reported_fields(record).items():
        assert one.description.endswith(".") or one.description.endswith("?"), name
        assert not isinstance(one.type, str), name


def test_json_holds_what_is_reported_in_its_order(verdict):
    data = verdict.to_dict()
    assert list(data) == list(reported_fields(Verdict))
    assert list(data["pairs"][0]) == list(reported_fields(PairVerdict))
    assert list(data["health"]) == list(reported_fields(Health))
    assert list(data)[-2:] == ["pairs", "health"]
    assert "rules" not in data


def test_a_statistic_that_is_declared_is_reported():
    class Wider(PairVerdict):
        lift: float = about("Relative difference.", default=0.25, column=("lift", "percent"))
        DERIVED: ClassVar = ("preferred",)

    made = Wider(("a", "b"), 1.0, 0.5, 1.5, 0.01, 0.01, True)
    assert made.to_dict() == {**PairVerdict(*[getattr(made, name) for name in reported_fields(PairVerdict)]).to_dict(),
                           "lift": 0.25, "preferred": "a"}  # fmt: skip
    assert reported_fields(Wider)["lift"] == (float, "Relative difference.")


def test_the_table_has_a_column_for_each_field_that_asks_for_one(verdict):
    assert HEADERS == ("ranker", "versus", "preference", "low", "high", "p", "corrected", "share", "verdict")
    assert verdict.table().splitlines()[1].split() == list(HEADERS)
