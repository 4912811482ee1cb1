"""Folds: data sets in a folder, in the layouts in which they are distributed.

    DIR/NAME/Fold1..5/{train,vali,test}.txt

also with .gz or .xz added; trainingset, validationset and testset as in LETOR 3.0; QueryLevelNorm between NAME and
Fold, or before NAME; DIR itself as the data set's folder; in any case. Your own data set has any number of folds, or
the three files without folds, and may lack vali.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from multileave.data.catalogue import CATALOGUE, DataSet, get_dataset
from multileave.data.letor import Fold
from multileave.data.svmlight import read_files
from multileave.errors import DataError

PARTS = {
    "train": ("train", "training", "trainset", "trainingset"),
    "vali": ("vali", "valid", "validation", "validationset"),
    "test": ("test", "testset"),
}
NORMALISED = "querylevelnorm"


def load_fold(directory: str | os.PathLike[str], dataset: str | DataSet, fold: int = 1, *, cache: bool = True) -> Fold:
    """Read a fold of a data set, with the features that serve as rankers.

    directory: the folder that holds the data sets.
    dataset: a name in the catalogue, the name of a folder in the directory, or a `DataSet`.
    fold: which fold, from 1.
    cache: keep the parsed data on disk, so that the next read is instant.
    """
    wanted = _resolve(directory, dataset)
    folder = _folder(directory, wanted)
    paths = _files(folder, wanted, fold)
    everything, ends = read_files(paths, features=wanted.rankers, grades=wanted.grades, cache=cache)
    queries = ends[-2]
    users, heldout = everything.part(0, queries), everything.part(queries, len(everything))
    return Fold(wanted.name, fold, users, heldout, everything.numbers)


def available(directory: str | os.PathLike[str]) -> tuple[DataSet, ...]:
    """Return the data sets of the catalogue that a folder holds."""
    _check_directory(directory)
    return tuple(known for known in CATALOGUE if _found(directory, known) is not None)


def fold_numbers(directory: str | os.PathLike[str], dataset: str | DataSet) -> tuple[int, ...]:
    """Return the numbers of a data set's folds: those it should have, or those in its folder."""
    wanted = _resolve(directory, dataset)
    folder = _folder(directory, wanted)
    if wanted.folds is not None:
        return tuple(range(1, wanted.folds + 1))
    return tuple(sorted(_fold_folders(folder))) or (1,)


def _resolve(directory: str | os.PathLike[str], dataset: str | DataSet) -> DataSet:
    if isinstance(dataset, DataSet):
        return dataset
    _check_directory(directory)
    try:
        return get_dataset(dataset)
    except DataError:
        own = DataSet(dataset)
        if _found(directory, own) is None:
            raise
        return own


def _check_directory(directory: str | os.PathLike[str]) -> None:
    if not Path(directory).is_dir():
        raise DataError(f"{os.fspath(directory)!r} is not a folder. Name one that holds data sets.")


def _folder(directory: str | os.PathLike[str], dataset: DataSet) -> Path:
    """Return the folder of a data set, the one that holds its folds."""
    _check_directory(directory)
    found = _found(directory, dataset)
    if found is None:
        raise DataError(
            f"The data set {dataset.name} is not in {os.fspath(directory)!r}; expected a folder "
            f"{os.path.join(directory, dataset.name)!r} with Fold1 or train.txt."
        )
    return found


def _found(directory: str | os.PathLike[str], dataset: DataSet) -> Path | None:
    names = {name.lower() for name in (dataset.name, *dataset.spellings)}
    for parent in _parents(Path(directory)):
        within = [child for child in _folders(parent) if child.name.lower() in names]
        for folder in [*within, *([parent] if parent.resolve().name.lower() in names else [])]:
            normalised = [child for child in _folders(folder) if child.name.lower() == NORMALISED]
            for place in (folder, *normalised):
                if _fold_folders(place) or any(_file(place, part) for part in PARTS):
                    return place
    return None


def _parents(directory: Path) -> Iterator[Path]:
    """Yield the folders that may contain a data set's folder."""
    yield directory
    for child in _folders(directory):
        if child.name.lower() == NORMALISED:
            yield child
        elif child.name.lower() == "gov":  # LETOR 3.0's six
            yield child
            yield from (inner for inner in _folders(child) if inner.name.lower() == NORMALISED)


def _folders(folder: Path) -> list[Path]:
    return [child for child in _children(folder) if child.is_dir()]


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"{str(folder)!r} cannot be read: {error.strerror}.") from None


def _fold_folders(folder: Path) -> dict[int, Path]:
    matches = ((re.fullmatch(r"fold[ _-]?0*([1-9]\d*)", child.name.lower()), child) for child in _folders(folder))
    return {int(match[1]): child for match, child in matches if match}


def _file(folder: Path, part: str) -> Path | None:
    """Return the file of a part, uncompressed if there are several."""
    endings = ("", ".gz", ".xz")
    names = {f"{name}.txt{ending}": endings.index(ending) for name in PARTS[part] for ending in endings}
    found = [child for child in _children(folder) if child.name.lower() in names and child.is_file()]
    return min(found, key=lambda child: (names[child.name.lower()], child.name), default=None)


def _files(folder: Path, dataset: DataSet, fold: int) -> list[Path]:
    """Return the files of a fold: train, vali if there is one, and test."""
    folders = _fold_folders(folder)
    if fold in folders:
        place = folders[fold]
    elif not folders and fold == 1 and dataset.folds is None:
        place = folder
    else:
        has = f"Its folder has {', '.join(f'Fold{number}' for number in sorted(folders)) or 'no folds'}."
        raise DataError(f"{dataset.name} has no fold {fold}; expected a folder {str(folder / f'Fold{fold}')!r}. {has}")
    paths = []
    for part in PARTS:
        path = _file(place, part)
        if path is not None:
            paths.append(path)
        elif part != "vali" or dataset.folds is not None:
            raise DataError(
                f"Fold {fold} of {dataset.name} lacks its {part} file; expected {str(place / part) + '.txt'!r}, or the "
                "same with .gz or .xz."
            )
    return paths
