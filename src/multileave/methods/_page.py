"""What users say about a result page, checked: its size, its pinned documents and its clicks."""

import operator
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from multileave.errors import ClicksError, RankingsError
from multileave.methods.exact import Documents
from multileave.outcome import Floats

LARGEST = 1e15  # of a value: far beyond any revenue, and squared sums stay finite


def position_of(shown: Documents, click: Hashable) -> int:
    """Return the position of a clicked document, or the click itself if it is a position and no id is an integer."""
    try:
        return shown.index(click)
    except ValueError:
        pass
    if isinstance(click, int | np.integer) and not any(isinstance(d, int | np.integer) for d in shown):
        return checked_position(shown, click)
    raise ClicksError(
        f"Document {click!r} was clicked but not shown; shown were {', '.join(map(repr, shown[:10]))}"
        f"{', ...' if len(shown) > 10 else ''}. Pass ids of shown documents, or positions=[...]."
    )


def checked_position(shown: Documents, position: Any) -> int:
    """Return a clicked position as an integer; raise an error if the list does not have it."""
    try:
        found = operator.index(position)
    except TypeError:
        found = -1
    if not 0 <= found < len(shown):
        raise ClicksError(
            f"Position {position!r} was clicked; the list has positions 0 to {len(shown) - 1}. "
            "Pass integers, counted from 0."
        )
    return found


def earned_values(shown: Documents, values: Mapping[Hashable, Any]) -> Floats:
    """Return what each shown document earned; raise an error for another document, or for what is not a number."""
    if not isinstance(values, Mapping):
        raise ClicksError(
            f"values is a {type(values).__name__}; expected shown documents mapped to numbers, such as {{'d3': 19.9}}."
        )
    earned = np.zeros(len(shown))
    for document, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) <= LARGEST:
            raise ClicksError(f"The value of document {document!r} is {value!r}; expected a finite number.")
        earned[position_of(shown, document)] = float(value)
    return earned


def page_size(k: Any) -> int:
    """Return k as an integer; raise an error if it is not a number of results."""
    try:
        size = operator.index(k)
    except TypeError:
        size = 0
    if not 1 <= size < 2**20:
        raise RankingsError(f"k is {k!r}; expected an integer of at least 1, the number of results on a page.")
    return size


def read_pins(pinned: Mapping[int, Hashable], k: int) -> dict[int, Hashable]:
    """Return the pinned documents by position, top first; raise an error if they do not fit on a page of k."""
    if not isinstance(pinned, Mapping):
        raise RankingsError(
            f"pinned is a {type(pinned).__name__}; expected positions mapped to documents, such as {{0: 'ad-17'}}."
        )
    for position in pinned:
        if not isinstance(position, int | np.integer) or not 0 <= position < k:
            raise RankingsError(
                f"A pinned position is {position!r}; with k={k} positions are 0 to {k - 1}. Move it, or raise k."
            )
    try:
        repeated = len(set(pinned.values())) < len(pinned)
    except TypeError:
        raise RankingsError("A pinned document is not hashable; pass its id, such as a string.") from None
    if repeated:
        raise RankingsError("pinned holds a document twice; a document is shown only once. Remove the repeat.")
    return {int(position): pinned[position] for position in sorted(pinned)}
