"""The writer: what it writes is read back equal."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multileave.data import Letor, read, synthetic_parts, write_svmlight
from multileave.errors import DataError

pytestmark = pytest.mark.fast


def letor(features: list[list[float]], numbers: tuple[int, ...]) -> Letor:
    rows = len(features)
    labels = np.arange(rows, dtype=np.uint8)
    return Letor(max(2, rows), np.array([0, rows]), labels, np.array(features, dtype=float), numbers, ("a",))


def test_values_are_written_as_short_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    data = letor([[0.5, 0, -12.000001], [1 / 3, 1e300, 7.25], [100, 2.5e-7, 0.1]], (1, 7, 12))
    written = write_svmlight(path, data)
    assert path.read_text().splitlines() == [
        "0 qid:a 1:0.5 7:0 12:-12.000001",
        "1 qid:a 1:0.3333333333333333 7:1e+300 12:7.25",
        "2 qid:a 1:100.0 7:2.5e-07 12:0.1",
    ]
    assert written == path.stat().st_size


finite = st.floats(allow_nan=False, allow_infinity=False)
near = st.integers(-(10**12), 10**12).map(lambda units: units / 10**6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(near, finite), st.one_of(near, finite)), min_size=1, max_size=5))
def test_any_values_are_read_back_equal(rows: list[tuple[float, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        data = letor([list(row) for row in rows], (3, 4))
        write_svmlight(path, data)
        assert read(path, features=[3, 4]).features.tolist() == data.features.tolist()


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_parts_are_written_one_after_another(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.txt{ending}"
    parts = list(synthetic_parts(queries=70, documents=(1, 3), rankers=2, features=3, seed=1))
    assert len(parts) > 1
    write_svmlight(path, iter(parts))
    data = read(path, grades=5)
    assert data.qids == tuple(qid for part in parts for qid in part.qids)
    assert np.array_equal(data.features, np.concatenate([part.features for part in parts]))
    assert np.array_equal(data.labels, np.concatenate([part.labels for part in parts]))
    assert np.array_equal(data.sizes, np.concatenate([part.sizes for part in parts]))


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="do not rise"):
        write_svmlight(tmp_path / "x.txt", letor([[1, 2]], (2, 1)))
    with pytest.raises(DataError, match="cannot be written: No such file"):
        write_svmlight(tmp_path / "absent" / "x.txt", letor([[1, 2]], (1, 2)))
