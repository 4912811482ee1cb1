"""The catalogue: the data sets of the paper, their grades, and the features that serve as rankers."""

from dataclasses import dataclass

from multileave.data.queries import check_features, check_grades
from multileave.errors import DataError, nearest


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set in the layout of LETOR; `load_fold` reads it.

    name: its folder's name.
    grades: the number of grades of relevance; None to derive it from the highest label.
    rankers: numbers, from 1, of the features that serve as rankers; None for all.
    group: the collection it belongs to, as the paper groups its results.
    spellings: other names of its folder.
    folds: the number of folds; None for those in its folder.

    >>> DataSet("mine", grades=3, rankers=(1, 2, 5)).group
    'mine'
    """

    name: str
    grades: int | None = None
    rankers: tuple[int, ...] | None = None
    group: str = ""
    spellings: tuple[str, ...] = ()
    folds: int | None = None

    def __post_init__(self) -> None:
        check_grades(self.grades, f" of {self.name}")
        check_features(self.rankers, f"The rankers of {self.name}")
        if not self.group:
            object.__setattr__(self, "group", self.name)


def _span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


_MILLION = _span(11, 15) + _span(21, 25) + _span(26, 40)  # TF-IDF, BM25, LMIR
_GOV = _MILLION + _span(41, 42) + _span(49, 50)  # and sitemap, HITS
_OHSUMED = _span(9, 12) + _span(15, 27) + (28,)
_WEB = _span(71, 90) + _span(106, 110) + _span(111, 125)

CATALOGUE: tuple[DataSet, ...] = (
    *(
        DataSet(f"{task.upper()}{year}", 2, _GOV, "LETOR 3.0", (f"{year}_{task}_dataset", f"{year}_{task}"), 5)
        for task in ("hp", "np", "td")
        for year in (2003, 2004)
    ),
    DataSet("OHSUMED", 3, _OHSUMED, folds=5),
    DataSet("MQ2007", 3, _MILLION, folds=5),
    DataSet("MQ2008", 3, _MILLION, folds=5),
    DataSet("MSLR-WEB10K", 5, _WEB, folds=5),
    DataSet("MSLR-WEB30K", 5, _WEB, folds=5),
    DataSet("MQ2007-partial", 3, _MILLION, folds=5),
)
"""The data sets that are known by name."""


def get_dataset(name: str) -> DataSet:
    """Return a data set of the catalogue by its name, whatever its case.

    >>> get_dataset("mq2008").grades
    3
    """
    for known in CATALOGUE:
        if name.lower() == known.name.lower():
            return known
    names = [known.name for known in CATALOGUE]
    raise DataError(
        f"There is no data set {name!r} in the catalogue, which has {', '.join(names)}."
        f"{nearest(name.upper(), names)} For your own data, name a folder that holds them, or pass a DataSet."
    )
