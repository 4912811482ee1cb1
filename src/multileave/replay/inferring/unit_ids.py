"""Ids of units, numbered as they are first seen.

Ids are numbered by Arrow's dictionary encoding. As that hashes all known ids again, callers let rows wait until there
are enough of them to be worth it.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = "np.ndarray[Any, Any]"

FEWEST_WAITING = 1 << 17  # rows


class UnitIds:
    """The ids of units, in the order of their numbers."""

    def __init__(self) -> None:
        self.known: pa.Array = pa.array([], pa.large_string())

    def __len__(self) -> int:
        return len(self.known)

    def are_worth(self, rows: int) -> bool:
        """Return whether so many rows are enough to be numbered."""
        return rows > max(FEWEST_WAITING, len(self) // 4)

    def number(self, arrays: Sequence[pa.StringArray]) -> list[Array]:
        """Return the number of each id, -1 for null; new ones get the next numbers."""
        if not arrays:
            return []
        before = len(self)
        ids = pa.chunked_array([self.known, *(units.cast(pa.large_string()) for units in arrays)])
        coded = ids.dictionary_encode().chunks
        self.known = coded[0].dictionary
        numbers = np.concatenate([chunk.indices.fill_null(-1).to_numpy() for chunk in coded])[before:]
        del ids, coded
        pa.default_memory_pool().release_unused()  # what the hash table took
        return np.split(numbers, np.cumsum([len(units) for units in arrays])[:-1])


def with_room(array: Array, size: int) -> Array:
    """Return an array with at least so many rows, the new ones 0."""
    if len(array) >= size:
        return array
    # Pages of zeros that are not touched cost nothing.
    grown = np.zeros((size + size // 4, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
