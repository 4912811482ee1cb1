"""Folds: data sets in a folder, in the layouts in which they are distributed.

    DIR/NAME/Fold1..5/{train,vali,test}.txt

also with .gz or .xz added; trainingset, validationset and testset as in LETOR 3.0; QueryLevelNorm between NAME and
Fold, or before NAME; DIR itself as the data set's folder; in any case. Your own data set has any number of folds, or
the three files without folds, and may lack vali.
"""

import os
import re
from pathlib import Path
from typing import NoReturn

from multileave.data.catalogue import CATALOGUE, DataSet, get_dataset
from multileave.data.letor import Fold
from multileave.data.svmlight import read_files
from multileave.errors import DataError

PARTS = {
    **dict.fromkeys(("train", "training", "trainset", "trainingset"), "train"),
    **dict.fromkeys(("vali", "valid", "validation", "validationset"), "vali"),
    **dict.fromkeys(("test", "testset"), "test"),
}
FILE = re.compile(rf"({'|'.join(PARTS)})\.txt(|\.gz|\.xz)")
FOLD = re.compile(r"fold[ _-]?0*([1-9]\d*)")
NORMALISED = "querylevelnorm"
BETWEEN = (NORMALISED, "gov")  # gov holds LETOR 3.0's six

StrPath = str | os.PathLike[str]
Parts = dict[str, Path]


def load_fold(directory: StrPath, dataset: str | DataSet, fold: int = 1, *, cache: bool = True) -> Fold:
    """Read a fold of a data set, with the features that serve as rankers.

    directory: the folder that holds the data sets.
    dataset: a name in the catalogue, the name of a folder in the directory, or a `DataSet`.
    fold: which fold, from 1.
    cache: keep the parsed data on disk, so that the next read is instant.
    """
    wanted = _resolve(directory, dataset)
    paths = _files(*_folds(directory, wanted), wanted, fold)
    everything, ends = read_files(paths, features=wanted.rankers, grades=wanted.grades, cache=cache)
    queries = ends[-2]
    users, heldout = everything.part(0, queries), everything.part(queries, len(everything))
    return Fold(wanted.name, fold, users, heldout, everything.numbers)


def available(directory: StrPath) -> tuple[DataSet, ...]:
    """Return the data sets of the catalogue that a folder holds."""
    return tuple(known for known in CATALOGUE if _find(directory, known))


def fold_numbers(directory: StrPath, dataset: str | DataSet) -> tuple[int, ...]:
    """Return the numbers of a data set's folds: those it should have, or those in its folder."""
    wanted = _resolve(directory, dataset)
    _, folds = _folds(directory, wanted)
    if wanted.folds is not None:
        return tuple(range(1, wanted.folds + 1))
    return tuple(sorted(number for number in folds if number)) or (1,)


def _resolve(directory: StrPath, dataset: str | DataSet) -> DataSet:
    if isinstance(dataset, DataSet):
        return dataset
    try:
        return get_dataset(dataset)
    except DataError:
        own = DataSet(dataset)
        if not _find(directory, own):
            raise
        return own


def _folds(directory: StrPath, dataset: DataSet) -> tuple[Path, dict[int, Parts]]:
    """Return the folder of a data set, and the files in it by fold, or by 0 if they are not in folds."""
    found = _find(directory, dataset)
    if not found:
        raise DataError(
            f"The data set {dataset.name} is not in {os.fspath(directory)!r}; expected a folder "
            f"{os.path.join(directory, dataset.name)!r} with Fold1 or train.txt."
        )
    return next(iter(found.items()))


def _find(directory: StrPath, dataset: DataSet) -> dict[Path, dict[int, Parts]]:
    """Return all folders of a data set with their files, as `_folds` returns the first."""
    root = Path(directory)
    if not root.is_dir():
        raise DataError(f"{os.fspath(directory)!r} is not a folder. Name one that holds data sets.")
    names = {name.lower() for name in (dataset.name, *dataset.spellings)}
    found: dict[Path, dict[int, Parts]] = {}
    for path, folders, files in os.walk(root, onerror=_fail_to_list, followlinks=True):
        folders[:] = sorted(f for f in folders if f.lower() in (*names, *BETWEEN) or FOLD.fullmatch(f.lower()))
        place, parts = Path(path), _parts(Path(path), files)
        fold = FOLD.fullmatch(place.name.lower()) if place != root else None
        holder = place.parent if fold else place
        named = holder.parent if holder != root and holder.name.lower() == NORMALISED else holder
        if named.resolve().name.lower() in names and (fold or parts):
            found.setdefault(holder, {})[int(fold[1]) if fold else 0] = parts
    return found


def _fail_to_list(error: OSError) -> NoReturn:
    raise DataError(f"{error.filename!r} cannot be read: {error.strerror}.") from None


def _parts(place: Path, files: list[str]) -> Parts:
    """Return the file of each part, uncompressed if there are several."""
    matches = [match for name in files if (match := FILE.fullmatch(name.lower()))]
    of_name = {name.lower(): place / name for name in sorted(files, reverse=True)}
    worst_first = sorted(matches, key=lambda match: (match[2], match[0]), reverse=True)
    return {PARTS[match[1]]: of_name[match[0]] for match in worst_first}


def _files(folder: Path, folds: dict[int, Parts], dataset: DataSet, fold: int) -> list[Path]:
    """Return the files of a fold: train, vali if there is one, and test."""
    numbers = sorted(number for number in folds if number)
    without = not numbers and fold == 1 and dataset.folds is None
    if fold not in numbers and not without:
        has = f"Its folder has {', '.join(f'Fold{number}' for number in numbers) or 'no folds'}."
        raise DataError(f"{dataset.name} has no fold {fold}; expected a folder {str(folder / f'Fold{fold}')!r}. {has}")
    parts = folds[0 if without else fold]
    for part in ("train", "vali", "test"):
        if part not in parts and (part != "vali" or dataset.folds is not None):
            raise DataError(
                f"Fold {fold} of {dataset.name} lacks its {part} file; expected "
                f"{str(folder / ('' if without else f'Fold{fold}') / part) + '.txt'!r}, or the same with .gz or .xz."
            )
    return [parts[part] for part in ("train", "vali", "test") if part in parts]
