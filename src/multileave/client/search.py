"""Searches, clicks and pages: the arguments of an application, checked, and what it gets back."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from multileave.errors import DataError, MultileaveError
from multileave.rankings import with_pins

Document: TypeAlias = str | int
LARGEST_VALUE = 1e9  # of an event, as in the log's reader, which needs Arrow


class NoAnswer(MultileaveError):
    """There is no usable answer to a search; the message says why."""


@dataclass(frozen=True)
class Page:
    """A page of results to show.

    shown: its documents. impression: what clicks refer to; None if nothing is recorded.
    fallback: whether this is the control's list because rankings could not be combined in time; reason: why.
    """

    shown: tuple[Document, ...]
    impression: str | None = None
    fallback: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class Search:
    """One search: its rankings, the unit, the query and the page of results."""

    rankings: dict[str, list[Document] | None]
    unit: str
    query: str
    page: int
    pinned: dict[int, Document]
    salt: str
    segment: str | None

    @classmethod
    def checked(
        cls,
        rankings: Mapping[str, Sequence[Document] | None],
        unit: str,
        query: str,
        page: int,
        pinned: Mapping[int, Document] | None,
        salt: str,
        segment: str | None,
    ) -> "Search":
        """Return a search; raise `DataError` for arguments of the wrong types."""
        if not isinstance(rankings, Mapping):
            raise DataError(
                f"rankings is a {type(rankings).__name__}; expected rankers mapped to their documents, best first."
            )
        if pinned is not None and not isinstance(pinned, Mapping):
            raise DataError(f"pinned is a {type(pinned).__name__}; expected positions mapped to documents.")
        for name, value in (("unit", unit), ("query", query), ("salt", salt)):
            if not isinstance(value, str):
                raise DataError(f"{name} is {_spell(value)}; expected a string.")
        if segment is not None and (not isinstance(segment, str) or not segment):
            raise DataError(f"segment is {_spell(segment)}; expected a string such as 'phone', or None.")
        if not unit:
            raise DataError("unit is empty; expected the id of a user or a session.")
        if type(page) is not int or page < 1:
            raise DataError(f"page is {_spell(page)}; expected an integer from 1.")
        read = {_name(ranker): _documents(ranker, documents) for ranker, documents in rankings.items()}
        pins = {_position(place): _document("pinned", document) for place, document in (pinned or {}).items()}
        return cls(read, unit, query, page, pins, salt, segment)

    def to_dict(self) -> dict[str, Any]:
        """Return the request body."""
        body: dict[str, Any] = {"rankings": self.rankings, "unit": self.unit, "query": self.query, "page": self.page}
        if self.pinned:
            body["pinned"] = {str(position): document for position, document in self.pinned.items()}
        if self.salt:
            body["salt"] = self.salt
        if self.segment is not None:
            body["segment"] = self.segment
        return body

    def first_choice(self, control: str) -> list[Document]:
        """Return the control's ranking, or that of the first ranker that answered, or nothing."""
        present = [documents for documents in self.rankings.values() if documents]
        return self.rankings.get(control) or (present[0] if present else [])

    def fall_back(self, control: str, k: int, reason: str) -> Page:
        """Return this page of the control's list, or of the first ranker that answered if the control did not."""
        shown = with_pins(
            dict.fromkeys(self.first_choice(control)), self.pinned, max(self.page * k, *self.pinned, 0) + 1
        )
        return Page(tuple(shown[(self.page - 1) * k : self.page * k]), None, fallback=True, reason=reason)


@dataclass(frozen=True)
class Click:
    """What a user did with a document of a page, checked; impression: None if the page was not recorded."""

    impression: str | None
    document: Document | None
    position: int | None
    action: str
    dwell: float | None
    value: float | None = None

    def __post_init__(self) -> None:
        if self.impression is not None and (not isinstance(self.impression, str) or not self.impression):
            raise DataError(f"impression is {self.impression!r}; expected the impression of a page, or None.")
        if self.document is None and self.position is None:
            raise DataError("A click has neither a document nor a position. Pass one of them.")
        if not isinstance(self.document, str | int | None) or isinstance(self.document, bool):
            raise DataError(f"document is {self.document!r}; expected its id, a string or an integer.")
        if self.position is not None and (type(self.position) is not int or self.position < 0):
            raise DataError(f"position is {self.position!r}; expected an integer from 0.")
        if not isinstance(self.action, str) or not self.action:
            raise DataError(f"action is {self.action!r}; expected a name, such as 'click'.")
        if self.dwell is not None and not (math.isfinite(self.dwell) and self.dwell >= 0):
            raise DataError(f"dwell is {self.dwell!r}; expected seconds from 0.")
        if self.value is not None and not (isinstance(self.value, int | float) and abs(self.value) <= LARGEST_VALUE):
            raise DataError(f"value is {self.value!r}; expected a number of at most {LARGEST_VALUE:g}.")


def check_control(control: str, k: int) -> None:
    """Raise `DataError` for a control or k that no fallback can be made from."""
    if not isinstance(control, str) or not control:
        raise DataError(f"control is {_spell(control)}; expected the name of the ranker to fall back to.")
    if type(k) is not int or k < 1:
        raise DataError(f"k is {_spell(k)}; expected the number of results on a page, from 1.")


def _name(ranker: Any) -> str:
    if not isinstance(ranker, str):
        raise DataError(f"A ranker is {_spell(ranker)}; expected its name, a string.")
    return ranker


def _documents(ranker: str, documents: Any) -> list[Document] | None:
    if documents is None:
        return None
    try:
        found = list(documents)
    except TypeError:
        raise DataError(
            f"rankings[{ranker!r}] is {_spell(documents)}; expected documents, best first, or None if it failed."
        ) from None
    if all(type(document) is str or type(document) is int for document in found):
        return found
    return [_document(f"rankings[{ranker!r}]", document) for document in found]


def _document(where: str, document: Any) -> Document:
    if isinstance(document, str):
        return str(document)
    try:
        if isinstance(document, bool):
            raise TypeError
        return operator.index(document)
    except TypeError:
        raise DataError(f"{where} contains {_spell(document)}; expected ids, which are strings or integers.") from None


def _position(place: Any) -> int:
    if type(place) is not int or place < 0:
        raise DataError(f"A pinned position is {_spell(place)}; expected an integer from 0.")
    return place


def _spell(value: Any) -> str:
    found = repr(value)
    return found if len(found) <= 80 else found[:77] + "..."
