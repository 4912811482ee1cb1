"""Checked input of tallies: outcomes, names, units, and the dictionaries that tallies wrote."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats, Outcome
from multileave.stats.intervals.moments import Ints, differences, pair_positions

# No method yields preferences this large, and squared sums of smaller ones stay finite.
LARGEST = 1e40
LARGEST_SUM = 1e100


def read_outcome(outcome: Outcome, rankers: tuple[str, ...]) -> tuple[Floats, bool]:
    """Return an outcome's R credits and False, or its preferences by pair and True, checked."""
    if not isinstance(outcome, Outcome):
        raise TallyError(f"A tally adds outcomes; this is a {type(outcome).__name__}. Pass what `infer` returned.")
    size = len(rankers)
    shape = (size, size) if outcome.kind == "matrix" else (size,)
    values = np.asarray(outcome.values)
    if outcome.rankers != rankers and set(outcome.rankers) != set(rankers):
        raise other_rankers("The outcome", outcome.rankers, rankers)
    if values.shape != shape or values.dtype.kind not in "fiu" or len(outcome.rankers) != size:
        raise TallyError(
            f"The outcome of kind {outcome.kind!r} holds {values.dtype} values of shape {values.shape}; expected "
            f"numbers of shape {shape} for {size} rankers. Use the outcome that `infer` returned."
        )
    values = values.astype(np.float64, copy=False)
    # Negated so that NaN fails, too.
    if not (np.abs(values) <= LARGEST).all():
        raise TallyError(
            f"The outcome holds {values[~(np.abs(values) <= LARGEST)].flat[0]}; expected finite numbers of at most "
            f"{LARGEST:g}. Check the method that inferred it."
        )
    if outcome.rankers != rankers:
        order = [outcome.rankers.index(name) for name in rankers]
        values = values[np.ix_(order, order)] if outcome.kind == "matrix" else values[order]
    if outcome.kind == "difference":
        return values, False
    if outcome.kind == "matrix" and (np.abs(values + values.T) > 1e-9 * np.abs(values).max()).any():
        raise TallyError(
            "The outcome's matrix is not antisymmetric; expected [n, m] to be minus [m, n]. Check the method that "
            "inferred it."
        )
    matrix = values if outcome.kind == "matrix" else Outcome(rankers, outcome.kind, values).preferences
    return matrix[pair_positions(size)], True


def as_pairs(values: Floats, by_pair: bool) -> Floats:
    """Return what `read_outcome` returned as preferences by pair."""
    return values if by_pair else differences(values, TOLERANCE)


def checked_rankers(rankers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of at least two rankers, all different."""
    names = () if isinstance(rankers, str) or not isinstance(rankers, Sequence) else tuple(rankers)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise TallyError(
            f"Rankers are {rankers!r}; expected the names of at least two rankers. Pass `impression.rankers`."
        )
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        raise TallyError(f"Ranker {repeated!r} is named twice; names must be unique. Rename one.")
    return names


def checked_count(name: str, value: object) -> int:
    """Return a count that is a non-negative integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise TallyError(f"The number of {name} is {value!r}; expected a non-negative integer.")
    return int(value)


def other_rankers(what: str, found: Sequence[str], expected: Sequence[str]) -> TallyError:
    """Return the error for something that compares other rankers than a tally."""
    return TallyError(
        f"{what} compares {', '.join(map(str, found))}; this tally compares {', '.join(expected)}. "
        "Use one tally for each set of rankers."
    )


def plain_unit(unit: Hashable) -> Hashable:
    """Return a NumPy scalar as the Python value that is equal to it, for JSON."""
    if isinstance(unit, np.generic):
        unit = unit.item()
    if isinstance(unit, float) and unit != unit:
        raise TallyError("The unit is NaN, a missing value; expected an id. Pass None if the user is unknown.")
    return unit


def check_version(data: Mapping[str, Any], newest: int) -> None:
    """Raise an error if a dictionary is not a tally, or one of a newer version."""
    if not isinstance(data, Mapping):
        raise TallyError(f"A tally is read from a dictionary, not from a {type(data).__name__}. Parse its JSON first.")
    version = data.get("version")
    if isinstance(version, int) and version > newest:
        raise TallyError(
            f"This tally has format version {version}; this version of multileave reads up to {newest}. Upgrade it."
        )
    if version != newest or isinstance(version, bool):
        raise malformed("version", version, str(newest))


def field_of(data: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a field of a dictionary, of this type."""
    if name not in data:
        raise TallyError(
            f"The tally lacks {name!r}; it has {', '.join(map(repr, data)) or 'nothing'}. Pass a dictionary written by "
            "Tally.to_dict."
        )
    value = data[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise malformed(name, value, f"a {kind.__name__.lower()}")
    return value


def count_of(data: Mapping[str, Any], name: str) -> int:
    """Return a field that is a non-negative integer."""
    value = field_of(data, name, int)
    if value < 0:
        raise malformed(name, value, "an integer from 0")
    return int(value)


def floats_of(data: Mapping[str, Any], name: str, shape: tuple[int, ...], *, least: float = -LARGEST_SUM) -> Floats:
    """Return a field of finite numbers of this shape, none below the least."""
    array = _array(data, name)
    if not array.size and 0 in shape:
        return np.zeros(shape)
    if array.shape != shape or array.dtype.kind not in "fi" or not (np.abs(array) <= LARGEST_SUM).all():
        raise malformed(name, data[name], f"finite numbers, shape {shape}")
    if (array < least).any():
        raise malformed(name, data[name], f"no number below {least:g}")
    return array.astype(np.float64)


def counts_of(data: Mapping[str, Any], name: str, size: int, least: int) -> Ints:
    """Return a field of that many integers, none below the least."""
    array = _array(data, name)
    if not array.size and not size:
        return np.zeros(0, dtype=np.int64)
    if array.shape != (size,) or array.dtype.kind != "i" or array.min(initial=least) < least:
        raise malformed(name, data[name], f"{size} integers from {least}")
    return array.astype(np.int64)


def _array(data: Mapping[str, Any], name: str) -> "np.ndarray[Any, Any]":
    value = data.get(name)
    if not isinstance(value, np.ndarray):
        value = field_of(data, name, list)
    try:
        return np.array(value)
    except (ValueError, OverflowError):
        return np.array("no array")


def malformed(name: str, found: object, expected: str) -> TallyError:
    """Return the error for a field that no tally writes."""
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return TallyError(
        f"The tally's {name!r} is {shown}; expected {expected}. Pass a dictionary written by Tally.to_dict, unchanged."
    )
