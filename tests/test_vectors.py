"""What a seed draws and infers is pinned: the same on every machine and in every version."""

import json
from pathlib import Path

import numpy as np
import pytest

import multileave as ml
from multileave.methods.base import methods
from multileave.random import below, next_word, seed_state, uniform

pytestmark = pytest.mark.fast

VECTORS = json.loads((Path(__file__).parent / "vectors" / "core.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("record", VECTORS["generator"], ids=lambda record: repr(record["seed"]))
def test_generator(record):
    state = seed_state(record["seed"])
    assert [str(word) for word in state] == record["state"]
    assert [str(next_word(state)) for _ in range(4)] == record["words"]
    assert [int(below(state, 10)) for _ in range(8)] == record["below_10"]
    assert [float(uniform(state)) for _ in range(4)] == record["uniform"]


def test_draws_and_outcomes():
    for case in VECTORS["cases"]:
        method = ml.get_method(case["method"])
        pinned = dict(case["pinned"])
        impression = method.combine(case["rankings"], case["k"], seed=case["seed"], pinned=pinned)
        recorded = ml.Impression.from_dict(case["impression"])
        np.testing.assert_allclose(impression.stat, recorded.stat, rtol=1e-9, atol=1e-12)
        assert {**impression.to_dict(), "stat": []} == {**case["impression"], "stat": []}, case
        for one in (impression, recorded):
            found = ml.infer(one, positions=case["clicks"]).preferences
            np.testing.assert_allclose(found, case["preferences"], rtol=1e-12, atol=1e-12)


def test_every_method_is_pinned():
    assert {case["method"].split("(")[0] for case in VECTORS["cases"]} == set(methods())
