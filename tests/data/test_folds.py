"""Folds and the catalogue: data sets are found in every layout they come in, and what is missing is named."""

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from multileave.data import CATALOGUE, DataSet, available, fold_numbers, get_dataset, load_fold
from multileave.errors import DataError

pytestmark = pytest.mark.fast


def line(label: int, qid: str, width: int, value: float = 0.0) -> str:
    return f"{label} qid:{qid} " + " ".join(f"{number}:{number + value}" for number in range(1, width + 1))


def make_fold(folder: Path, *, width: int = 46, names: str = "train vali test", ending: str = "") -> Path:
    """Write a fold of 2 + 1 + 1 queries; the query "a" is in train and in vali."""
    folder.mkdir(parents=True)
    train, vali, test = names.split()
    for name, lines in {
        train: [line(0, "a", width), line(1, "a", width, 0.5), line(2, "b", width)],
        vali: [line(1, "a", width)],
        test: [line(0, "c", width), line(1, "c", width)],
    }.items():
        text = "\n".join(lines).encode()
        packed = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending](text)
        (folder / f"{name}.txt{ending}").write_bytes(packed)
    return folder


# -- the catalogue --


def test_the_ten_data_sets_of_the_paper_are_there() -> None:
    paper = ["HP2003", "HP2004", "NP2003", "NP2004", "TD2003", "TD2004", "OHSUMED", "MQ2007", "MQ2008", "MSLR-WEB10K"]
    assert [known.name for known in CATALOGUE] == [*paper, "MSLR-WEB30K", "MQ2007-partial"]


@pytest.mark.parametrize(
    ("names", "grades", "rankers", "group"),
    [
        ("HP2003 HP2004 NP2003 NP2004 TD2003 TD2004", 2, [*range(11, 16), *range(21, 43), 49, 50], "LETOR 3.0"),
        ("OHSUMED", 3, [9, 10, 11, 12, *range(15, 29)], "OHSUMED"),
        ("MQ2007", 3, [*range(11, 16), *range(21, 41)], "MQ2007"),
        ("MQ2008", 3, [*range(11, 16), *range(21, 41)], "MQ2008"),
        ("MQ2007-partial", 3, [*range(11, 16), *range(21, 41)], "MQ2007-partial"),
        ("MSLR-WEB10K", 5, [*range(71, 91), *range(106, 126)], "MSLR-WEB10K"),
        ("MSLR-WEB30K", 5, [*range(71, 91), *range(106, 126)], "MSLR-WEB30K"),
    ],
)
def test_grades_rankers_and_groups_are_those_of_the_paper(
    names: str, grades: int, rankers: list[int], group: str
) -> None:
    for name in names.split():
        known = get_dataset(name.lower())
        assert (known.name, known.grades, known.group, known.folds) == (name, grades, group, 5)
        assert known.rankers == tuple(rankers)


def test_an_unknown_data_set_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    for ask in (lambda: get_dataset("mq208"), lambda: load_fold(tmp_path, "mq208")):
        with pytest.raises(DataError, match=r"no data set 'mq208'.*Did you mean 'MQ2008'\?"):
            ask()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grades": 1}, "grades of mine is 1"),
        ({"rankers": ()}, r"rankers of mine are \[\]"),
        ({"rankers": (0, 1)}, "numbers from 1"),
        ({"rankers": (1, 1)}, "distinct"),
    ],
)
def test_data_sets_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        DataSet("mine", **change)  # type: ignore[arg-type]


# -- folds --


def test_a_fold_has_the_users_queries_and_those_held_out(tmp_path: Path) -> None:
    make_fold(tmp_path / "MQ2008" / "Fold1")
    fold = load_fold(tmp_path, "MQ2008", 1)
    assert (fold.name, fold.number, fold.grades) == ("MQ2008", 1, 3)
    assert fold.users.qids == ("a", "b", "a")  # in train and in vali: two queries
    assert fold.users.offsets.tolist() == [0, 2, 3, 4]
    assert fold.users.labels.tolist() == [0, 1, 2, 1]
    assert fold.heldout.qids == ("c",)
    assert fold.heldout.offsets.tolist() == [0, 2]
    assert fold.heldout.labels.tolist() == [0, 1]
    assert fold.rankers == fold.users.numbers == fold.heldout.numbers == get_dataset("MQ2008").rankers
    assert fold.users.features[1].tolist() == [number + 0.5 for number in fold.rankers]


@pytest.mark.parametrize("cache", [True, False])
def test_a_fold_ranks_by_features(tmp_path: Path, cache: bool) -> None:
    make_fold(tmp_path / "MQ2008" / "Fold1")
    fold = load_fold(tmp_path, "MQ2008", 1, cache=cache)
    for _ in range(2):
        data = fold.users.rank([40, 11])
        assert data.rankers == ("f40", "f11")
        assert data.query(0)[1].tolist() == [[1, 0], [1, 0]]
        assert data.grades == 3
    with pytest.raises(DataError, match="Feature 16 is not in the data, which have 11-15, 21-40"):
        fold.users.rank([16])
    with pytest.raises(DataError, match="No features are chosen"):
        fold.users.rank([])


@pytest.mark.parametrize(
    "place",
    [
        "{name}/Fold2",
        "{lower}/fold2",
        "{name}/QueryLevelNorm/Fold2",
        "QueryLevelNorm/{name}/Fold2",
        "Gov/QueryLevelNorm/2003_hp_dataset/Fold2",
        "2003_hp_dataset/Fold2",
    ],
)
@pytest.mark.parametrize("names", ["train vali test", "trainingset validationset testset"])
@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_every_layout_is_found(tmp_path: Path, place: str, names: str, ending: str) -> None:
    folder = tmp_path / place.format(name="HP2003", lower="hp2003")
    make_fold(folder, width=64, names=names, ending=ending)
    for path in folder.iterdir():  # its labels are 0 and 1
        if path.name.startswith("train"):
            text = line(1, "b", 64).encode()
            path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending](text))
    fold = load_fold(tmp_path, "HP2003", 2)
    assert (len(fold.users), len(fold.heldout), fold.grades) == (2, 1, 2)
    assert [known.name for known in available(tmp_path)] == ["HP2003"]
    assert fold_numbers(tmp_path, "hp2003") == (1, 2, 3, 4, 5)


def test_the_folder_may_be_the_data_sets_own(tmp_path: Path) -> None:
    make_fold(tmp_path / "OHSUMED" / "Fold1")
    assert load_fold(tmp_path / "OHSUMED", "OHSUMED").name == "OHSUMED"


def test_plain_files_go_before_compressed_ones(tmp_path: Path) -> None:
    folder = make_fold(tmp_path / "MQ2008" / "Fold1")
    (folder / "train.txt.gz").write_bytes(b"broken")
    assert len(load_fold(tmp_path, "MQ2008").users) == 3


def test_data_of_the_users_own_have_any_folds_and_all_features(tmp_path: Path) -> None:
    for number in (1, 2, 7):
        make_fold(tmp_path / "mine" / f"Fold{number}", width=3)
    assert fold_numbers(tmp_path, "mine") == (1, 2, 7)
    fold = load_fold(tmp_path, "mine", 7)
    assert (fold.rankers, fold.grades) == ((1, 2, 3), 3)
    own = DataSet("mine", grades=4, rankers=(3, 1))
    fold = load_fold(tmp_path, own, 2)
    assert (fold.rankers, fold.grades) == ((3, 1), 4)
    assert fold.users.features[0].tolist() == [3.0, 1.0]
    with pytest.raises(DataError, match=r"mine has no fold 3.*Fold3'.*has Fold1, Fold2, Fold7"):
        load_fold(tmp_path, "mine", 3)


def test_data_of_the_users_own_may_be_files_without_folds_and_without_vali(tmp_path: Path) -> None:
    folder = make_fold(tmp_path / "mine", width=3)
    assert fold_numbers(tmp_path, "mine") == (1,)
    assert len(load_fold(tmp_path, "mine").users) == 3
    (folder / "vali.txt").unlink()
    fold = load_fold(tmp_path, "mine")
    assert (fold.users.qids, fold.heldout.qids) == (("a", "b"), ("c",))


def test_users_and_heldout_have_the_same_features_though_a_file_lacks_the_last(tmp_path: Path) -> None:
    folder = make_fold(tmp_path / "mine", width=5)
    (folder / "test.txt").write_text("1 qid:c 1:4\n")
    fold = load_fold(tmp_path, "mine")
    assert fold.heldout.features.tolist() == [[4, 0, 0, 0, 0]]
    assert load_fold(tmp_path, DataSet("mine", rankers=(5,))).heldout.features.tolist() == [[0]]


# -- what is missing --


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for ask in (load_fold, fold_numbers):
        with pytest.raises(DataError, match=r"absent' is not a folder"):
            ask(tmp_path / "absent", "MQ2008")
        with pytest.raises(DataError, match=r"MQ2008 is not in .*expected a folder '.*/MQ2008'"):
            ask(tmp_path, "MQ2008")
        with pytest.raises(DataError, match=r"mine is not in .*expected a folder '.*/mine'"):
            ask(tmp_path, DataSet("mine"))
    with pytest.raises(DataError, match=r"absent' is not a folder"):
        available(tmp_path / "absent")


def test_a_missing_fold_or_file_is_named(tmp_path: Path) -> None:
    folder = make_fold(tmp_path / "MQ2008" / "Fold1")
    with pytest.raises(DataError, match=r"MQ2008 has no fold 2; expected a folder '.*MQ2008/Fold2'"):
        load_fold(tmp_path, "MQ2008", 2)
    (folder / "vali.txt").unlink()
    with pytest.raises(DataError, match=r"Fold 1 of MQ2008 lacks its vali file; expected '.*Fold1/vali\.txt'"):
        load_fold(tmp_path, "MQ2008", 1)


def test_a_broken_line_and_a_label_out_of_range_are_named_with_their_file(tmp_path: Path) -> None:
    folder = make_fold(tmp_path / "MQ2008" / "Fold1")
    (folder / "vali.txt").write_text(f"{line(2, 'x', 46)}\n{line(3, 'x', 46)}\n")
    with pytest.raises(DataError, match=r"Fold1/vali\.txt', line 2: the label is '3'; expected an integer from 0 to 2"):
        load_fold(tmp_path, "MQ2008", 1)


def test_a_feature_list_that_the_data_lack_is_named(tmp_path: Path) -> None:
    make_fold(tmp_path / "MQ2008" / "Fold1", width=30)
    with pytest.raises(DataError, match=r"Features 31-40 are not in .*train\.txt.*highest feature number is 30"):
        load_fold(tmp_path, "MQ2008", 1)


def test_the_cache_gives_the_same_fold(tmp_path: Path) -> None:
    make_fold(tmp_path / "MQ2008" / "Fold1")
    first, second = (load_fold(tmp_path, "MQ2008", 1) for _ in range(2))
    for one, same in ((first.users, second.users), (first.heldout, second.heldout)):
        assert np.array_equal(one.features, same.features)
        assert one.qids == same.qids
        assert np.array_equal(one.rank(seed=3).rankings, same.rank(seed=3).rankings)


@pytest.mark.parametrize("inside", ["MQ2008/Fold1", "MQ2008/QueryLevelNorm"])
def test_a_folder_within_a_data_set_holds_none(inside: str, tmp_path: Path) -> None:
    (tmp_path / "MQ2008/QueryLevelNorm/Fold1").mkdir(parents=True)
    (tmp_path / "MQ2008/Fold1").mkdir()
    assert available(tmp_path / inside) == ()


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"cannot be read: Permission denied"):
        available(tmp_path)
