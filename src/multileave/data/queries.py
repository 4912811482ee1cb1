"""QuerySet: labelled documents and their rankings, query by query in flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from multileave.data.ranking import misranked_query, rank_queries
from multileave.errors import DataError
from multileave.impression import Ints
from multileave.outcome import Floats
from multileave.random import Seed, seed_state

Labels: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Longs: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, eq=False, slots=True)
class QuerySet:
    """Q queries, their documents' grades of relevance, and how R rankers rank them.

    rankers: the names of the R rankers.
    grades: how many grades there are; labels are 0 to grades - 1.
    offsets: int64 (Q + 1,); the documents of query q are offsets[q] to offsets[q + 1] of all.
    labels: uint8, one per document.
    rankings: int32, R times as many. Those of query q are R rows of n document positions within the query, best first,
        starting at R * offsets[q].
    lengths: int32 (Q, R), how many documents each ranker returned; the rest of its row it did not return. By default
        every ranker returned every document.

    >>> data = QuerySet.from_scores(["bm25", "age"], [0, 3], [0, 2, 1], [[5, 1], [7, 3], [6, 2]], grades=3)
    >>> data.query(0)[1]
    array([[1, 2, 0],
           [1, 2, 0]], dtype=int32)
    """

    rankers: tuple[str, ...]
    grades: int
    offsets: Longs
    labels: Labels
    rankings: Ints
    lengths: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))

    def __post_init__(self) -> None:
        if not self.rankers:
            raise DataError("There are no rankers; a query set needs one or more.")
        if len(set(self.rankers)) < len(self.rankers):
            raise DataError(f"Rankers are {', '.join(self.rankers)}; names must be unique. Rename one.")
        check_offsets(self.offsets, len(self.labels))
        check_labels(self.labels, self.grades)
        if len(self.rankings) != len(self.rankers) * len(self.labels):
            raise DataError(
                f"Rankings hold {len(self.rankings)} documents; expected {len(self.rankers)} rankers times "
                f"{len(self.labels)} documents."
            )
        seen = np.zeros(int(self.sizes.max()), dtype=np.int64)
        query = misranked_query(self.offsets, self.rankings, len(self.rankers), seen)
        if query >= 0:
            raise DataError(
                f"The rankings of query {query} are invalid; expected every ranker to rank every document of a query "
                "once, by its position from 0."
            )
        if not self.lengths.size:
            whole = np.repeat(self.sizes.astype(np.int32)[:, None], len(self.rankers), axis=1)
            object.__setattr__(self, "lengths", whole)
        elif self.lengths.shape != (len(self), len(self.rankers)):
            raise DataError(
                f"Lengths have the shape {self.lengths.shape}; expected {(len(self), len(self.rankers))}, queries by "
                "rankers."
            )
        elif (self.lengths < 1).any() or (self.lengths > self.sizes[:, None]).any():
            raise DataError("A length is invalid; expected 1 to the number of documents of the query.")

    @classmethod
    def from_scores(
        cls,
        rankers: Sequence[str],
        offsets: "Sequence[int] | Longs",
        labels: "Sequence[int] | np.ndarray[Any, Any]",
        scores: "Sequence[Sequence[float]] | np.ndarray[Any, Any]",
        *,
        grades: int,
        seed: Seed = 0,
    ) -> "QuerySet":
        """Rank the documents of every query by scores, highest first, ties in random order.

        scores: (documents, R), such as the columns of features that serve as rankers.
        """
        bounds = np.ascontiguousarray(offsets, dtype=np.int64)
        values: Floats = np.ascontiguousarray(scores, dtype=np.float64)
        found = np.asarray(labels)
        check_offsets(bounds, len(found))
        if values.shape != (len(found), len(rankers)):
            raise DataError(
                f"Scores have the shape {values.shape}; expected {(len(found), len(rankers))}, documents by rankers."
            )
        if not np.isfinite(values).all():
            raise DataError("A score is not a finite number. Replace missing scores, for example by 0.")
        if found.dtype.kind not in "iu" or found.min() < 0 or found.max() > 255:
            raise DataError("Some labels are not grades of relevance; expected integers from 0 to 255.")
        rankings = rank(bounds, values, np.arange(len(rankers)), seed)
        return cls(tuple(rankers), grades, bounds, found.astype(np.uint8), rankings)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Longs:
        """The number of documents of every query."""
        return np.diff(self.offsets)

    @property
    def longest(self) -> Longs:
        """The length of the longest ranking of every query."""
        longest: Longs = self.lengths.max(axis=1).astype(np.int64)
        return longest

    def grade_shares(self, k: int = 10) -> tuple[float, ...]:
        """Return the share of the documents on the rankers' own pages of k results that has each grade.

        >>> data = QuerySet.from_scores(["bm25", "age"], [0, 3], [0, 2, 1], [[5, 1], [7, 3], [6, 2]], grades=3)
        >>> data.grade_shares(2)
        (0.0, 0.5, 0.5)
        """
        counts = np.zeros(self.grades)
        for q in range(len(self)):
            labels, rankings = self.query(q)
            top = rankings[:, :k]
            shown = np.arange(top.shape[1]) < self.lengths[q][:, None]
            counts += np.bincount(labels[top[shown]], minlength=self.grades)
        return tuple((counts / counts.sum()).tolist())

    def cut(self, returned: int) -> "QuerySet":
        """Return the same queries with only the first documents of every ranking returned."""
        return replace(self, lengths=np.minimum(self.lengths, np.int32(returned)))

    def query(self, q: int) -> tuple[Labels, Ints]:
        """Return the labels (n,) and the rankings (R, n) of a query, as views."""
        first, end = int(self.offsets[q]), int(self.offsets[q + 1])
        rankers = len(self.rankers)
        rankings = self.rankings[rankers * first : rankers * end]
        return self.labels[first:end], rankings.reshape(rankers, end - first)


def rank(offsets: Longs, scores: Floats, columns: Longs, seed: Seed) -> Ints:
    """Return the rankings of a `QuerySet`, one ranker per named column of scores."""
    rankings = np.empty(len(columns) * len(scores), dtype=np.int32)
    room = 2 * int(np.diff(offsets).max())
    order, keys = np.empty(room, dtype=np.int32), np.empty(room)
    rank_queries(offsets, scores, columns.astype(np.int64), seed_state(seed), rankings, order, keys)
    return rankings


def check_offsets(offsets: Longs, documents: int) -> None:
    """Raise an error if the offsets do not divide that many documents into queries."""
    if len(offsets) < 2:
        raise DataError("There are no queries; a query set needs one or more.")
    if offsets[0] != 0 or offsets[-1] != documents:
        raise DataError(
            f"Offsets go from {offsets[0]} to {offsets[-1]}; expected 0 to {documents}, the number of documents."
        )
    if (np.diff(offsets) < 1).any():
        query = int(np.argmax(np.diff(offsets) < 1))
        raise DataError(f"Query {query} has no documents; every query needs one or more. Leave it out.")


def check_labels(labels: Labels, grades: int) -> None:
    """Raise an error if a label is not one of that many grades."""
    if labels.max() >= grades:
        raise DataError(
            f"There is a label {labels.max()}; with {grades} grades labels are 0 to {grades - 1}. Use more grades."
        )


def check_grades(grades: int | None, of: str = "") -> None:
    """Raise an error if there cannot be so many grades; None is to be derived from the labels."""
    if grades is not None and not 2 <= grades <= 256:
        raise DataError(f"The number of grades{of} is {grades}; expected 2 to 256.")


def check_features(numbers: Sequence[int] | None, what: str) -> None:
    """Raise an error if these are not distinct numbers of features."""
    if numbers is not None and (not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers)):
        raise DataError(f"{what} are {list(numbers)}; expected distinct feature numbers from 1, or None for all.")
