"""Dictionaries that `to_dict` wrote, perhaps long ago and elsewhere, read back field by field and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.errors import MultileaveError

LARGEST = 1e100  # of numbers in a dictionary


class Written:
    """A dictionary that `to_dict` wrote.

    what: what it describes, such as "tally". error: what is raised, with the field named, if it does not.
    """

    def __init__(self, data: Any, what: str, error: type[MultileaveError]) -> None:
        self.data, self.what, self.error = data, what, error
        if not isinstance(data, Mapping):
            raise error(f"The {what} is a {type(data).__name__}; expected a dictionary. Parse its JSON first.")

    def check_version(self, newest: int) -> None:
        """Raise an error if it has another version than this one."""
        version = self.data.get("version")
        if isinstance(version, int) and version > newest:
            raise self.error(
                f"The {self.what} has format version {version}; this multileave reads up to {newest}. "
                "Upgrade multileave."
            )
        self.require("version", version == newest and not isinstance(version, bool), str(newest))

    def field(self, name: str, kind: type) -> Any:
        """Return a field of this type."""
        if name not in self.data:
            raise self.error(
                f"The {self.what} has no {name!r}, only {', '.join(map(repr, self.data)) or 'nothing'}; expected a "
                f"{kind.__name__.lower()}. Pass a dictionary that to_dict wrote."
            )
        value = self.data[name]
        if kind is list and isinstance(value, tuple):
            return list(value)
        self.require(name, isinstance(value, kind) and not isinstance(value, bool), f"a {kind.__name__.lower()}")
        return value

    def part(self, name: str) -> "Written":
        """Return a field that is a dictionary."""
        return Written(self.field(name, Mapping), self.what, self.error)

    def count(self, name: str) -> int:
        """Return a field that is a non-negative integer."""
        value: int = self.field(name, int)
        self.require(name, value >= 0, "an integer from 0")
        return value

    def integers(self, name: str, shape: tuple[int, ...], least: int = 0, most: int = 2**63 - 1) -> Any:
        """Return a field of integers in a range as an array of this shape."""
        array = self._array(name, shape)
        right = array.shape == shape and (array.dtype.kind in "iu" or not array.size)
        right = right and array.min(initial=least) >= least and array.max(initial=least) <= most
        self.require(name, right, f"integers from {least}, shape {shape}")
        return array.astype(np.int64)

    def floats(self, name: str, shape: tuple[int, ...], least: float = -LARGEST) -> Any:
        """Return a field of finite numbers, none below the least, as an array of this shape."""
        array = self._array(name, shape)
        right = array.shape == shape and array.dtype.kind in "fi" and (np.abs(array) <= LARGEST).all()
        self.require(name, right, f"finite numbers, shape {shape}")
        self.require(name, not (array < least).any(), f"no number below {least:g}")
        return array.astype(np.float64)

    def _array(self, name: str, shape: tuple[int, ...]) -> "np.ndarray[Any, Any]":
        value = self.data.get(name)
        if not isinstance(value, np.ndarray):
            value = self.field(name, list)
        try:
            array = np.array(value)
        except (ValueError, OverflowError):
            return np.array("no array")
        return np.zeros(shape) if not array.size and 0 in shape else array

    def require(self, name: str, holds: bool, expected: str) -> None:
        """Raise an error that says what was expected of a field, unless it holds."""
        if not holds:
            found = repr(self.data.get(name))
            raise self.error(
                f"The {self.what}'s {name!r} is {found if len(found) <= 80 else found[:77] + '...'}; expected "
                f"{expected}. Pass a dictionary that to_dict wrote, unchanged."
            )
