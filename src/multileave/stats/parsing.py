"""Checked input of tallies: outcomes, names and units, and the dictionaries that tallies wrote."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats, Outcome
from multileave.stats.intervals.moments import differences, pair_positions
from multileave.written import Written

# No method yields preferences this large, and squared sums of smaller ones stay finite.
LARGEST = 1e40


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


def read_alone(outcome: Outcome, rankers: tuple[str, ...]) -> "Floats | None":
    """Return what an outcome says about each ranker's own page, (3, R), in the order of rankers; checked."""
    if outcome.alone is None:
        return None
    alone = np.asarray(outcome.alone, dtype=np.float64)
    if alone.shape != (3, len(rankers)) or not (np.abs(alone) <= LARGEST).all():
        raise TallyError(
            f"The outcome's `alone` has shape {alone.shape}, or is not finite; expected finite numbers of shape "
            f"{(3, len(rankers))}. Use the outcome that `infer` returned."
        )
    return alone if outcome.rankers == rankers else alone[:, [outcome.rankers.index(name) for name in rankers]]


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


def written_tally(data: Any) -> Written:
    """Return a dictionary that a tally, or a part of one, wrote."""
    return Written(data, "tally", TallyError)
