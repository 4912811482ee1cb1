"""Real data, where they are: what the files hold, against the slow reader and what is known of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from slow_svmlight import gathered, slow_read

from multileave.data import available, fold_numbers, load_fold, ndcg, read

SHARED = Path(__file__).parents[2].parent / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not (SHARED / "make-folds").exists(), reason=f"real data are not part of the project; none in {SHARED}"
)

# queries, documents, features, as the data's own description says
KNOWN = {"MQ2008": (784, 15_211, 46), "OHSUMED": (106, 16_140, 45), "MQ2007-partial": (1_692, 59_135, 46)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("letor")
    for name in KNOWN:
        subprocess.run([sys.executable, SHARED / "make-folds", name, path], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("name", list(KNOWN))
def test_a_fold_has_the_queries_and_documents_that_are_known(folder: Path, name: str) -> None:
    queries, documents, features = KNOWN[name]
    assert fold_numbers(folder, name) == (1, 2, 3, 4, 5)
    fold = load_fold(folder, name, 2)
    assert len(fold.users) + len(fold.heldout) == queries
    assert len(fold.users.labels) + len(fold.heldout.labels) == documents
    assert fold.grades == int(fold.users.labels.max()) + 1 == 3
    assert read(folder / name / "Fold1" / "test.txt").numbers == tuple(range(1, features + 1))


def test_all_that_is_there_is_found(folder: Path) -> None:
    assert [known.name for known in available(folder)] == ["OHSUMED", "MQ2008", "MQ2007-partial"]


@pytest.mark.parametrize("name", ["MQ2008", "OHSUMED"])
def test_every_value_is_that_of_the_slow_reader(folder: Path, name: str) -> None:
    path = folder / name / "Fold1" / "test.txt"
    data, queries = read(path), gathered(slow_read(path.read_text()))
    assert data.qids == tuple(queries)
    documents = [document for query in queries.values() for document in query]
    assert data.labels.tolist() == [document.label for document in documents]
    assert data.features.tolist() == [[document.features[n] for n in data.numbers] for document in documents]


def test_the_folds_hold_out_every_query_once(folder: Path) -> None:
    heldout = [qid for fold in range(1, 6) for qid in load_fold(folder, "MQ2008", fold).heldout.qids]
    assert len(heldout) == len(set(heldout)) == 784


def test_the_truth_hardly_depends_on_how_ties_fall(folder: Path) -> None:
    fold = load_fold(folder, "MQ2008", 1)
    first, second = (ndcg(fold.users.rank(seed=seed)) for seed in (1, 2))
    assert 0.0 < np.abs(first - second).max() < 0.05
    assert ((first > 0.2) & (first < 0.6)).all()
