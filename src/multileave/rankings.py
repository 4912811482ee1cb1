"""Rankings: what the rankers returned for one query, checked and numbered for a draw.

The documents of a query are numbered by the best rank any ranker gives them, so that the documents
which some ranker places at rank x or above are the numbers 0 to entering[x - 1] - 1: the choice sets
of ppm, and what a considerate method may show at x.

An (R, n) array of integers is read by kernels. Lists are first turned into such an array, with no step of Python for
any document that is an integer or a string.
"""

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from multileave.errors import RankingsError
from multileave.impression import Ints
from multileave.numbering import number_documents, rank_documents, table_size
from multileave.strings import Longs, number_strings

__all__ = ["RankingsLike", "Source", "Table", "read_rankings", "with_pins"]

RankingsLike: TypeAlias = (
    "Mapping[str, Sequence[Hashable] | None] | Sequence[Sequence[Hashable]] | np.ndarray[Any, Any]"
)
D = TypeVar("D", bound=Hashable)
LISTS = {list, tuple}


@dataclass(frozen=True, slots=True)
class Table:
    """The tops of R rankings in numbers.

    top: int32 (R, depth), document numbers, -1 past the end of a ranking.
    entering: int32 (depth,), how many documents some ranker places at each rank or above.
    """

    top: Ints
    entering: Ints

    @property
    def documents(self) -> int:
        """How many documents are numbered."""
        return int(self.entering[-1]) if len(self.entering) else 0


def read_rankings(
    rankings: RankingsLike, without: Set[Hashable] = frozenset(), *, some_absent: bool = False
) -> "Source":
    """Check and name rankings, leaving some documents out.

    some_absent: rankers that are mapped to None did not answer. They are left out, and named in `Source.asked`.
    """
    if isinstance(rankings, np.ndarray):
        return _read_array(rankings, _numbered_names(len(rankings) if rankings.ndim else 0), without)
    if isinstance(rankings, (dict, Mapping)):  # a dictionary is told at once, other mappings take a while
        names = _checked_names(tuple(rankings))
        values: list[Any] = list(rankings.values())
    elif isinstance(rankings, Set | str | bytes) or not hasattr(rankings, "__iter__"):
        raise RankingsError(
            f"rankings is a {type(rankings).__name__}; expected a mapping of ranker names to lists of documents, "
            "a sequence of such lists, or a two-dimensional integer array."
        )
    else:
        values = list(rankings)
        names = _numbered_names(len(values))
    kinds = set(map(type, values))
    if some_absent and type(None) in kinds and isinstance(rankings, Mapping):
        source = read_rankings({name: value for name, value in rankings.items() if value is not None}, without)
        source.asked = names
        return source
    if len(values) < 2:
        raise RankingsError(
            f"there {'is one ranking' if values else 'are no rankings'}; a comparison takes two or more. "
            "Add the ranker to compare with."
        )
    if kinds <= LISTS:
        return _ListSource(names, values, without)
    if isinstance(values[0], np.ndarray) and all(
        isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "iu" and v.shape == values[0].shape
        for v in values
    ):
        return _read_array(np.stack(values), names, without)
    return _ListSource(names, list(map(_as_list, names, values)), without)


@lru_cache(256)
def _checked_names(names: tuple[Any, ...]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise RankingsError(f"ranker {name!r} is a {type(name).__name__}; a ranker's name is a string. Use str().")
    return names


@lru_cache
def _numbered_names(rankers: int) -> tuple[str, ...]:
    return tuple(map(str, range(rankers)))


class Source:
    """Rankings of one query, as an (R, n) array of integers; a ranking shorter than n is followed by anything.

    names: of the R rankers. lengths: int32 (R,), how many documents each returned. longest: the largest of them.
    asked: all rankers' names, where some did not answer.
    codes: of how many documents the array last read has codes, from 0 on; 0 if it holds their ids.
    """

    asked: tuple[str, ...] | None = None
    codes = 0

    def __init__(self, names: tuple[str, ...], array: "np.ndarray[Any, Any]", lengths: Ints) -> None:
        self.names = names
        self.lengths = lengths
        self.longest = array.shape[1]
        self.unsigned = array.dtype == np.uint64
        self.array: Longs = np.ascontiguousarray(array, dtype=np.int64)
        self.documents: Longs = np.zeros(0, dtype=np.int64)

    def read(self, depth: int) -> Longs:
        """Return an (R, n) array of codes that stand for documents, of the first `depth` ranks or of more."""
        return self.array

    def decoded(self, codes: Longs) -> list[Hashable]:
        """Return the documents that codes of the array last read stand for."""
        return (codes.view(np.uint64) if self.unsigned else codes).tolist()  # type: ignore[no-any-return]

    def repeat(self, row: int) -> RankingsError:
        """Return the error for a ranking that holds a document twice in the array last read."""
        ranking = self.decoded(self.array[row, : int(self.lengths[row])])
        return _repeated(self.names[row], ranking)

    def number(self, depth: int, *, whole: bool) -> Table:
        """Number the documents of the first `depth` ranks.

        whole: `ranks` will be asked for, and checks the whole rankings; otherwise no more than these
        ranks is read, and checked here.
        """
        depth = min(depth, self.longest)
        array = self.read(self.longest if whole else depth)
        rankers = len(array)
        top = np.empty((depth, rankers), dtype=np.int32).T
        entering = np.empty(depth, dtype=np.int32)
        self.documents = np.empty(rankers * depth, dtype=np.int64)
        slots = np.empty(table_size(rankers * depth), dtype=np.int32)
        row = number_documents(array, self.lengths, not whole, False, top, entering, self.documents, slots)
        if row >= 0:
            raise self.repeat(row)
        return Table(top, entering)

    def ids(self, numbers: Ints) -> list[Hashable]:
        """Return the documents of some numbers."""
        return self.decoded(self.documents[numbers])

    def ranks(self, numbers: Ints) -> Ints:
        """Return (m, R) ranks of numbered documents, and check that no ranking repeats a document."""
        ranks = np.empty((len(numbers), len(self.names)), dtype=np.int32)
        slots = np.empty(table_size(self.longest), dtype=np.int64)
        row = rank_documents(self.array, self.lengths, self.documents[numbers], ranks, slots)
        if row >= 0:
            raise self.repeat(row)
        return ranks


class _ListSource(Source):
    """Rankings as lists, turned into an array of codes when it is known how much of them is read.

    What codes stand for: strings are found at their places in the lists, other documents are kept in `known`.
    """

    known: list[Hashable] | None = None

    def __init__(self, names: tuple[str, ...], values: list[Any], without: Set[Hashable]) -> None:
        self.names = names
        self.lists = values
        lengths = set(map(len, values))
        if 0 in lengths:
            name = names[list(map(len, values)).index(0)]
            raise RankingsError(
                f"rankings[{name!r}] is empty; a ranking lists one document or more. Leave the ranker out."
            )
        if without:
            self.lists = [[d for d in ranking if d not in without] for ranking in self._hashable()]
            lengths = set(map(len, self.lists))
        self.lengths = np.empty(len(values), dtype=np.int32)
        if len(lengths) == 1:
            self.shortest = self.longest = lengths.pop()
            self.lengths.fill(self.longest)
        else:
            self.shortest, self.longest = min(lengths), max(lengths)
            self.lengths[:] = list(map(len, self.lists))

    def read(self, depth: int) -> Longs:
        depth = min(depth, self.longest)
        rows = self.lists if depth == self.longest else [ranking[:depth] for ranking in self.lists]
        kinds = {type(rows[0][0]), type(rows[-1][-1])} if self.shortest and depth else set()
        self.codes, self.known = 0, None
        if kinds == {int} and (integers := self._integers(rows, depth)) is not None:
            self.array = integers
        elif kinds == {str} and (found := number_strings(rows, self.lengths, depth)) is not None:
            self.array, self.places = found
            self.codes = len(self.places)
        else:
            self.array, self.known = self._numbered(rows, depth)
            self.codes = len(self.known)
        return self.array

    def _integers(self, rows: list[Any], depth: int) -> "Longs | None":
        """Return the rankings themselves, if all documents are integers that an array can hold."""
        flat: list[Any] = []
        for row in rows:
            flat += row
        found = np.empty(len(flat), dtype=np.int64)
        try:
            struct.pack_into(f"={len(flat)}q", found.data, 0, *flat)
        except struct.error:
            return None
        if depth <= self.shortest:
            return found.reshape(len(rows), depth)
        padded = np.zeros((len(rows), depth), dtype=np.int64)
        padded[np.arange(depth) < self.lengths[:, None]] = found
        return padded

    def _numbered(self, rows: list[Any], depth: int) -> tuple[Longs, list[Hashable]]:
        """Return numbers as `number_strings` does, for documents of any kind, and the first document of each."""
        numbers = np.zeros((len(rows), depth), dtype=np.int64)
        known: defaultdict[Hashable, int] = defaultdict()
        known.default_factory = known.__len__
        try:
            for row, ranking in zip(numbers, rows, strict=True):
                row[: len(ranking)] = list(map(known.__getitem__, ranking))
        except TypeError:
            self._hashable()
            raise
        return numbers, list(known)

    def decoded(self, codes: Longs) -> list[Hashable]:
        if not self.codes:
            return codes.tolist()  # type: ignore[no-any-return]
        if self.known is not None:
            return [self.known[code] for code in codes.tolist()]
        width = self.array.shape[1]
        return [self.lists[place // width][place % width] for place in self.places[codes].tolist()]

    def _hashable(self) -> list[Any]:
        for name, ranking in zip(self.names, self.lists, strict=True):
            for position, document in enumerate(ranking):
                try:
                    hash(document)
                except TypeError:
                    raise RankingsError(
                        f"rankings[{name!r}] holds a {type(document).__name__} at position {position}; a document id "
                        "must be hashable, such as a string or an integer. Pass the documents' ids."
                    ) from None
        return self.lists


def _as_list(name: str, value: Any) -> "list[Hashable] | tuple[Hashable, ...]":
    if type(value) in LISTS:
        return value  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind == "f":
            raise RankingsError(
                f"rankings[{name!r}] is an array of {value.dtype}, shape {value.shape}; expected document ids, best "
                "first, in one dimension. Sort by score and pass the ids."
            )
        documents: list[Hashable] = value.tolist()
        return documents
    if isinstance(value, Set | Mapping) or not hasattr(value, "__iter__"):
        raise RankingsError(
            f"rankings[{name!r}] is a {type(value).__name__}; a ranking is a sequence of document ids, best first. "
            "Pass a list."
        )
    return list(value)


def _repeated(name: str, ranking: Sequence[Hashable]) -> RankingsError:
    seen: dict[Hashable, int] = {}
    for position, document in enumerate(ranking):
        first = seen.setdefault(document, position)
        if first < position:
            break
    return RankingsError(
        f"rankings[{name!r}] lists document {document!r} twice (positions {first} and {position}); a ranking lists a "
        "document once. Remove the repeat."
    )


def _read_array(array: "np.ndarray[Any, Any]", names: tuple[str, ...], without: Set[Hashable]) -> Source:
    if array.ndim != 2:
        raise RankingsError(
            f"rankings is an array of shape {array.shape}; expected two dimensions, rankers by documents."
        )
    if len(array) < 2:
        raise RankingsError(
            f"there {'is one ranking' if len(array) else 'are no rankings'}; a comparison takes two or more. "
            "Add the ranker to compare with."
        )
    if array.dtype.kind == "f":
        raise RankingsError(
            f"rankings is an array of {array.dtype}; expected document ids, best first, as integers. "
            "Sort by score and pass the ids."
        )
    if array.dtype.kind not in "iu" or without or not array.shape[1]:
        return _ListSource(names, array.tolist(), without)
    lengths = np.empty(len(array), dtype=np.int32)
    lengths.fill(array.shape[1])
    return Source(names, array, lengths)


def with_pins(ranking: Iterable[D], pinned: Mapping[int, D], size: int) -> list[D]:
    """Return at most `size` documents of a ranking, with the pinned ones in their places, as a drawn list has them.

    >>> with_pins("abcd", {1: "d"}, 3)
    ['a', 'd', 'b']
    """
    held = set(pinned.values())
    shown = [document for document in ranking if document not in held][: max(size - len(pinned), 0)]
    for position in sorted(pinned):
        shown.insert(min(position, len(shown)), pinned[position])
    return shown[:size]
