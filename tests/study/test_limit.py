"""The limit in C draws, clicks and infers what the engine does: the comparison of their speed is fair."""

import importlib.util
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from multileave.clicks import user
from multileave.data import synthetic
from multileave.methods.base import get_method
from multileave.outcome import preference_matrix
from multileave.study.engine import Simulation, pack

FILE = Path(__file__).parents[2] / "benchmarks" / "limit" / "limit.py"


@pytest.fixture(scope="module")
def limit():
    spec = importlib.util.spec_from_file_location("limit", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def loop(limit, tmp_path_factory):
    try:
        return limit.compile_limit(tmp_path_factory.mktemp("limit"))
    except limit.NoCompilerError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational"])
@pytest.mark.parametrize(("rankers", "documents", "k"), [(2, (1, 4), 3), (5, 30, 10), (15, (1, 40), 10), (40, 20, 5)])
def test_c_gives_the_engines_sums_and_leaves_its_generator(limit, loop, name, rankers, documents, k):
    data = synthetic(queries=30, documents=documents, rankers=rankers, seed=rankers)
    method, model = get_method("ppm"), user(name, 5)
    packed = pack(data, method, k)
    engine = Simulation(data, method, model, k=k, seed=7, packed=packed)
    other = limit.Limit(loop, packed, rankers, model, k, seed=7)
    for impressions in (1, 500, 2000):
        engine.run(impressions)
        other.run(impressions)
        assert np.array_equal(engine._rng, other.rng)
        expected = preference_matrix("difference", other.total)
        assert engine.preferences == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert engine.preferences.any()


def test_what_the_c_program_does_not_do_is_refused(limit, loop):
    data = synthetic(queries=2, documents=5, rankers=2, seed=1)
    packed = pack(data, get_method("ppm"), 10)
    with pytest.raises(ValueError, match="only after a click"):
        limit.Limit(loop, packed, 2, user("perfect", 5, anywhere=True), 10, seed=1)
    with pytest.raises(ValueError, match="no room"):
        limit.Limit(loop, packed, 2, user("perfect", 5), 100, seed=1).run(1)


def test_without_a_compiler_the_install_line_is_named(limit, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(limit.NoCompilerError, match="apt-get install gcc"):
        limit.compile_limit(tmp_path)
