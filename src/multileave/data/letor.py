"""Letor and Fold: learning-to-rank data as it is distributed, with features that serve as rankers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multileave.data.queries import Labels, Longs, QuerySet, check_labels, check_offsets, rank
from multileave.errors import DataError
from multileave.outcome import Floats
from multileave.random import Seed


@dataclass(frozen=True, eq=False, slots=True)
class Letor:
    """Q queries, their documents' grades of relevance, and F features of every document.

    grades: how many grades there are; labels are 0 to grades - 1.
    offsets: int64 (Q + 1,); the documents of query q are offsets[q] to offsets[q + 1] of all.
    labels: uint8, one for every document.
    features: float64 (documents, F), finite, exactly as in the text: as float32, different values could tie.
    numbers: the features' numbers, from 1 as in the files, one per column.
    qids: the queries' ids, as text.

    >>> labels, features = np.array([0, 1], dtype=np.uint8), np.array([[3.0, 0.5], [4.0, 0.2]])
    >>> data = Letor(2, np.array([0, 2]), labels, features, (7, 9), ("q1",))
    >>> data.rank([9]).query(0)[1]
    array([[0, 1]], dtype=int32)
    """

    grades: int
    offsets: Longs
    labels: Labels
    features: Floats
    numbers: tuple[int, ...]
    qids: tuple[str, ...]

    def __post_init__(self) -> None:
        check_offsets(self.offsets, len(self.labels))
        if self.features.shape != (len(self.labels), len(self.numbers)):
            raise DataError(
                f"Features have the shape {self.features.shape}; expected {(len(self.labels), len(self.numbers))}, "
                "documents by features."
            )
        if len(self.qids) != len(self):
            raise DataError(f"There are {len(self.qids)} query ids; expected {len(self)}, one per query.")
        check_labels(self.labels, self.grades)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Longs:
        """The number of documents of every query."""
        return np.diff(self.offsets)

    def part(self, first: int, end: int) -> "Letor":
        """Return queries first to end - 1; labels and features are views."""
        documents = slice(int(self.offsets[first]), int(self.offsets[end]))
        return Letor(
            self.grades,
            self.offsets[first : end + 1] - self.offsets[first],
            self.labels[documents],
            self.features[documents],
            self.numbers,
            self.qids[first:end],
        )

    def rank(self, features: Sequence[int] | None = None, *, seed: Seed = 0) -> QuerySet:
        """Rank the documents of every query by features, highest first, ties in random order.

        features: numbers of the features that serve as rankers; all if None. Feature 7 is ranker "f7".
        """
        chosen = self.numbers if features is None else tuple(features)
        columns = {number: column for column, number in enumerate(self.numbers)}
        for number in chosen:
            if number not in columns:
                raise DataError(f"Feature {number} is not in the data, which have {spans(self.numbers)}.")
        names = tuple(f"f{number}" for number in chosen)
        where = np.array([columns[number] for number in chosen], dtype=np.int64)
        if not len(where):
            raise DataError("No features are chosen; expected one or more to serve as rankers.")
        rankings = rank(self.offsets, self.features, where, seed)
        return QuerySet(names, self.grades, self.offsets, self.labels, rankings)


@dataclass(frozen=True, eq=False, slots=True)
class Fold:
    """One fold of a data set: the queries that users issue, and those held out for the truth.

    number: which fold, from 1.
    users: the queries of train and vali; an id in both denotes two queries.
    heldout: the queries of test.
    rankers: numbers of the features that serve as rankers.
    """

    name: str
    number: int
    users: Letor
    heldout: Letor
    rankers: tuple[int, ...]

    @property
    def grades(self) -> int:
        """How many grades of relevance there are."""
        return self.users.grades


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as ranges.

    >>> spans([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, span)) for span in found)
