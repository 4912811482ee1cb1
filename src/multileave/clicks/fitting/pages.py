"""Result pages with clicks, as the fit reads them: equal pages are stored once.

A page is a query, the documents shown and the positions clicked, in the order of clicking. A document clicked again
counts once. Pages with the same query, documents and clicks are one *row*; what is stored for each page is only its
row and its session, so millions of pages fit into memory.
"""

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from multileave.errors import ClicksError, DataError
from multileave.outcome import Floats

Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MOST_RANKS = 64


@dataclass(frozen=True, eq=False)
class Pages:
    """Pages of a log, aggregated.

    lists: (L, k) the documents of each different list, numbered by query and id; -1 past its end.
    query: (L,) the number of each list's query.
    row_list, row_order: (R,) the list of a row, and (R, k) 0 or the place of each position in the order of clicks.
    page_row, page_session: (P,) the row and the session of each page.
    grades: by document, -1 if unknown; None if the log has none.
    ordered: whether some page was not clicked strictly downwards, so that the order of clicks was recorded.
    clicks_below: clicks below rank k, which are left out.
    """

    lists: Ints
    query: Ints
    row_list: Ints
    row_order: Any
    page_row: Ints
    page_session: Ints
    documents: int
    queries: int
    sessions: int
    grades: Ints | None
    clicks_below: int = 0
    repeats: int = 0

    @property
    def k(self) -> int:
        """How many ranks are kept."""
        return int(self.lists.shape[1])

    @property
    def lengths(self) -> Ints:
        """The number of documents of each list."""
        return np.asarray((self.lists >= 0).sum(axis=1), dtype=np.int64)

    @property
    def ordered(self) -> bool:
        """Whether some page was not clicked strictly downwards, so that the order of clicks carries information."""
        order = self.row_order.astype(np.int64)
        highest = np.maximum.accumulate(order, axis=1)
        return bool(np.any((order > 0) & (order < highest)))

    @property
    def doubled(self) -> int:
        """How many pages show a document twice."""
        order = np.sort(self.lists, axis=1)
        lists = ((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(axis=1)
        return int(lists[self.row_list[self.page_row]].sum())

    @property
    def clicks(self) -> int:
        """How many documents were clicked, over all pages."""
        return int((self.row_order > 0).sum(axis=1)[self.page_row].sum())

    def row_weights(self, sessions: Any = None) -> Floats:
        """Return how many pages each row stands for; sessions: (S,) the weight of each session, by default 1."""
        weights = None if sessions is None else np.asarray(sessions, dtype=np.float64)[self.page_session]
        return np.bincount(self.page_row, weights, minlength=len(self.row_list)).astype(np.float64)

    def cut(self, k: int) -> "Pages":
        """Return the pages with their first k ranks only; clicks below are left out."""
        if k >= self.k:
            return self
        lost = (self.row_order[:, k:] > 0).sum(axis=1)[self.page_row].sum()
        # Clicks that are kept are counted from 1 again.
        last = np.iinfo(self.row_order.dtype).max
        turn = np.where(self.row_order[:, :k] > 0, self.row_order[:, :k], last)
        order = np.argsort(np.argsort(turn, axis=1, kind="stable"), axis=1) + 1
        order = np.where(turn < last, order, 0).astype(self.row_order.dtype)
        return Pages(
            self.lists[:, :k], self.query, self.row_list, order, self.page_row, self.page_session,
            self.documents, self.queries, self.sessions, self.grades, self.clicks_below + int(lost), self.repeats,
        )  # fmt: skip


class PageCollector:
    """Collects pages one by one into `Pages`.

    k: the ranks to keep, from the top.

    >>> collector = PageCollector(k=3)
    >>> collector.add("cats", ["d1", "d2", "d3"], [1, 0, 1], session="s1")
    >>> collector.add("cats", ["d1", "d2", "d3"], [], session="s2")
    >>> pages = collector.pages()
    >>> pages.row_order.tolist()
    [[2, 1, 0], [0, 0, 0]]
    """

    def __init__(self, k: int = 10) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_RANKS:
            raise DataError(f"k is {k!r}; expected the number of ranks to keep, from 1 to {MOST_RANKS}.")
        self.k = k
        self._queries: dict[Hashable, int] = {}
        self._documents: dict[tuple[int, Hashable], int] = {}
        self._sessions: dict[Hashable, int] = {}
        self._lists: dict[tuple[int, ...], int] = {}
        self._rows: dict[tuple[int, bytes], int] = {}
        self._grades: dict[int, int] = {}
        self._page_row = array("i")
        self._page_session = array("i")
        self._anonymous = 0
        self._below = 0
        self._repeats = 0

    def __len__(self) -> int:
        return len(self._page_row)

    def add(
        self,
        query: Hashable,
        shown: Sequence[Hashable],
        clicks: Sequence[int],
        session: Hashable | None = None,
        grades: Sequence[int | None] | None = None,
    ) -> None:
        """Add a page; a page without a session is its own session.

        clicks: positions from 0, in the order of clicking. grades: relevance by document, None if unknown.
        """
        if not shown:
            raise ClicksError("'shown' is empty; expected at least one document.")
        for position in clicks:
            if type(position) is not int or not 0 <= position < len(shown):
                raise ClicksError(
                    f"A click is at position {position!r:.40}; expected an integer from 0 to {len(shown) - 1}, as the "
                    f"page shows {len(shown)} documents."
                )
        if grades is not None and len(grades) != len(shown):
            raise ClicksError(f"There are {len(grades)} grades for {len(shown)} documents; expected one for each.")
        for grade in grades or ():
            if grade is not None and (type(grade) is not int or not 0 <= grade < 256):
                raise ClicksError(f"A grade is {grade!r:.40}; expected an integer from 0 to 255, or null.")
        number = self._queries.setdefault(query, len(self._queries))
        kept = shown[: self.k]
        found = [self._documents.setdefault((number, document), len(self._documents)) for document in kept]
        order = bytearray(len(kept))
        count = 0
        for position in clicks:
            if position >= self.k:
                self._below += 1
            elif order[position]:
                self._repeats += 1
            else:
                count += 1
                order[position] = count
        at = self._lists.setdefault((number, *found), len(self._lists))
        self._page_row.append(self._rows.setdefault((at, bytes(order)), len(self._rows)))
        if session is None:
            self._page_session.append(-1 - self._anonymous)
            self._anonymous += 1
        else:
            self._page_session.append(self._sessions.setdefault(session, len(self._sessions)))
        for document, grade in zip(found, grades or (), strict=False):
            if grade is not None:
                self._grades[document] = grade

    def pages(self) -> Pages:
        """Return what was collected; raise `DataError` if there is nothing."""
        if not self._page_row:
            raise DataError("The log has no valid pages. Pass a log with at least one page of results.")
        k = max(len(key) - 1 for key in self._lists)
        lists = np.full((len(self._lists), k), -1, dtype=np.int32)
        query = np.zeros(len(self._lists), dtype=np.int32)
        for at, (number, *found) in enumerate(self._lists):
            lists[at, : len(found)] = found
            query[at] = number
        order = np.zeros((len(self._rows), k), dtype=np.uint8)
        row_list = np.zeros(len(self._rows), dtype=np.int32)
        for row, (at, clicked) in enumerate(self._rows):
            row_list[row] = at
            order[row, : len(clicked)] = np.frombuffer(clicked, dtype=np.uint8)
        session = np.array(self._page_session, dtype=np.int64)
        session[session < 0] = len(self._sessions) - 1 - session[session < 0]
        grades = None
        if self._grades:
            grades = np.full(len(self._documents), -1, dtype=np.int64)
            grades[list(self._grades)] = list(self._grades.values())
        return Pages(
            lists, query, row_list, order, np.array(self._page_row, dtype=np.int64), session, len(self._documents),
            len(self._queries), len(self._sessions) + self._anonymous, grades, self._below, self._repeats,
        )  # fmt: skip
