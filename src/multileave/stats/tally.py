"""Tally: what many outcomes add up to, by unit; small, mergeable, serialisable.

Impressions that belong to a unit (a user, a session) are kept as one row of sums for that unit, as they
are not independent of each other. An impression without a unit is a unit of its own, and needs no
row: sums and sums of squares are enough.

A row holds R credits while all outcomes are differences of credits, for the differences of summed
credits are the summed differences; otherwise it holds one sum for each of the R (R - 1) / 2 pairs.
"""

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from multileave.errors import TallyError
from multileave.outcome import TOLERANCE, Floats, Outcome
from multileave.stats.intervals import Moments
from multileave.stats.verdict import Verdict, judge

__all__ = ["FORMAT_VERSION", "Tally"]

FORMAT_VERSION = 1

Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

# No method gives preferences of this size, and the squares of sums of smaller ones stay finite.
LARGEST = 1e40
LARGEST_SUM = 1e100

BLOCK = 1 << 18  # how many numbers of the units' pairs are looked at at a time


class Tally:
    """The sum of many outcomes between the same rankers, by unit.

    unit: what is independent of each other, such as a user's id; any hashable, but only strings and
        numbers can be written by `to_dict`. Without one, each impression is a unit of its own.

    Impressions without clicks count: their outcome is zero, and they are added like any other. An
    outcome, or a tally to merge, may name the rankers in another order.

    >>> tally = Tally(["bm25", "dense"])
    >>> for user, credits in [("u1", (1.0, 0.0)), ("u1", (0.5, 0.0)), ("u2", (0.0, 0.0))]:
    ...     tally.add(Outcome(("bm25", "dense"), "difference", np.array(credits)), unit=user)
    >>> tally
    Tally(rankers=('bm25', 'dense'), impressions=3, units=2)
    >>> tally.preferences
    array([[ 0. ,  0.5],
           [-0.5,  0. ]])
    >>> (tally + Tally.from_dict(tally.to_dict())).impressions
    6
    """

    def __init__(self, rankers: Sequence[str]) -> None:
        self._rankers = _checked_rankers(rankers)
        pairs = len(self._rankers) * (len(self._rankers) - 1) // 2
        self._single_impressions = 0
        self._single_sums = np.zeros(pairs)
        self._single_squares = np.zeros(pairs)
        self._rows: dict[Hashable, int] = {}
        self._by_pair = False
        self._counts: Ints = np.zeros(0, dtype=np.int64)
        self._sums = np.zeros((0, len(self._rankers)))

    @property
    def rankers(self) -> tuple[str, ...]:
        """The names of the rankers."""
        return self._rankers

    @property
    def impressions(self) -> int:
        """How many impressions were added, with or without clicks."""
        return self._single_impressions + int(self._counts.sum())

    @property
    def units(self) -> int:
        """How many units they came from; an impression without a unit is one of its own."""
        return self._single_impressions + len(self._rows)

    @property
    def preferences(self) -> Floats:
        """Antisymmetric (R, R) array: the mean preference for ranker n over m per impression."""
        if not self.impressions:
            raise TallyError("the tally holds no impressions, so it has no mean preference. Add outcomes first.")
        matrix = np.zeros((len(self._rankers), len(self._rankers)))
        matrix[_pairs(len(self._rankers))] = self._totals() / self.impressions
        return matrix - matrix.T

    def add(self, outcome: Outcome, unit: Hashable = None) -> None:
        """Add the outcome of one impression."""
        values, by_pair = self._read(outcome)
        if unit is None:
            pairs = values if by_pair else _differences(values)
            self._single_impressions += 1
            self._single_sums += pairs
            self._single_squares += pairs * pairs
            return
        row = self._row(unit)
        if row is None:
            row = self._new_rows([_plain(unit)])
        # Before the sums are named, as it may put others in their place.
        held = self._as_held(values, by_pair)
        self._counts[row] += 1
        self._sums[row] += held

    def replace(self, old: Outcome, new: Outcome, unit: Hashable = None) -> None:
        """Take the old outcome of an impression out and put its new one in, as after a late click.

        The impression must have been added with this old outcome and this unit. A tally does not
        remember single impressions, and can check only that it has seen the unit.
        """
        before, before_by_pair = self._read(old)
        after, after_by_pair = self._read(new)
        if unit is None:
            if not self._single_impressions:
                raise TallyError(
                    "there is no impression without a unit in the tally, so none can be replaced. Add its old outcome "
                    "first, or pass the unit it was added with."
                )
            before = before if before_by_pair else _differences(before)
            after = after if after_by_pair else _differences(after)
            self._single_sums += after - before
            self._single_squares += after * after - before * before
            np.maximum(self._single_squares, 0.0, out=self._single_squares)
            return
        row = self._row(unit)
        if row is None:
            raise TallyError(
                f"unit {unit!r} is not in the tally, so none of its impressions can be replaced. Add its old outcome "
                "first, and pass the unit it was added with."
            )
        if before_by_pair or after_by_pair:
            self._hold_pairs()
        self._sums[row] += self._as_held(after, after_by_pair) - self._as_held(before, before_by_pair)

    def merge(self, other: "Tally") -> "Tally":
        """Add all that another tally holds to this one, and return this one.

        The order of merging matters only to rounding. A unit that is in both is one unit.
        """
        other = self._checked_other(other)
        self._single_impressions += other._single_impressions
        self._single_sums += other._single_sums
        self._single_squares += other._single_squares
        if not other._rows:
            return self
        if other._by_pair:
            self._hold_pairs()
        sums = other._sums[: len(other._rows)]
        if self._by_pair and not other._by_pair:
            sums = _differences(sums)
        unseen = [unit for unit in other._rows if unit not in self._rows]
        if unseen:
            self._new_rows(unseen)
        rows = np.fromiter((self._rows[unit] for unit in other._rows), dtype=np.int64, count=len(other._rows))
        self._counts[rows] += other._counts[: len(rows)]
        self._sums[rows] += sums
        return self

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(self._rankers).merge(self).merge(other)

    def __iadd__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        return self.merge(other)

    def verdict(self, confidence: float = 0.95) -> Verdict:
        """Return what the tally says about every pair of rankers, at this confidence.

        The intervals are those of `intervals.clustered`, for one look at a number of units that was
        fixed beforehand; which pairs are decided is corrected for their number by Holm's rule.
        """
        number = isinstance(confidence, int | float | np.number) and not isinstance(confidence, bool)
        if not number or not 0.0 < confidence < 1.0:
            raise TallyError(f"confidence is {confidence!r}; expected a number between 0 and 1, such as 0.95.")
        if self.units < 2:
            found = f"impressions of one unit only ({self.impressions:,})" if self.impressions else "no impressions"
            raise TallyError(
                f"the tally holds {found}; a verdict needs impressions of at least two units. Add outcomes of more "
                "users (unit=...), those without clicks too."
            )
        return judge(self._rankers, self._moments(), float(confidence))

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        for unit in self._rows:
            if not isinstance(unit, str | int | float):
                raise TallyError(
                    f"unit {unit!r} is a {type(unit).__name__}; a tally can be written only if its units are strings "
                    "or numbers. Pass unit=str(...) when adding."
                )
        used = len(self._rows)
        return {
            "version": FORMAT_VERSION,
            "rankers": list(self._rankers),
            "single": {
                "impressions": self._single_impressions,
                "sums": self._single_sums.tolist(),
                "squares": self._single_squares.tolist(),
            },
            "units": {
                "sums_of": "pairs" if self._by_pair else "credits",
                "ids": list(self._rows),
                "impressions": self._counts[:used].tolist(),
                "sums": self._sums[:used].tolist(),
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tally":
        """Return the tally that `to_dict` wrote, checked."""
        _check_version(data)
        names = _field(data, "rankers", list)
        try:
            tally = cls(names)
        except TallyError:
            raise _malformed("rankers", names, "two or more different names") from None
        single, units = _field(data, "single", Mapping), _field(data, "units", Mapping)
        pairs = len(tally._single_sums)
        tally._single_impressions = _field(single, "impressions", int)
        if tally._single_impressions < 0:
            raise _malformed("impressions", tally._single_impressions, "an integer from 0")
        tally._single_sums = _floats(single, "sums", (pairs,))
        tally._single_squares = _floats(single, "squares", (pairs,))
        if (tally._single_squares < 0.0).any():
            raise _malformed("squares", single["squares"], "no number below 0")
        if not tally._single_impressions and (tally._single_sums.any() or tally._single_squares.any()):
            raise _malformed("sums", single["sums"], "zeros, as there are no impressions")
        sums_of = _field(units, "sums_of", str)
        if sums_of not in ("credits", "pairs"):
            raise _malformed("sums_of", sums_of, "'credits' or 'pairs'")
        tally._by_pair = sums_of == "pairs"
        ids = _field(units, "ids", list)
        if not all(isinstance(unit, str | int | float) and unit == unit for unit in ids):
            raise _malformed("ids", ids, "units that are strings or numbers")
        tally._rows = {unit: row for row, unit in enumerate(ids)}
        if len(tally._rows) < len(ids):
            raise _malformed("ids", ids, "every unit once")
        tally._counts = _counts(units, "impressions", len(ids))
        tally._sums = _floats(units, "sums", (len(ids), pairs if tally._by_pair else len(names)))
        return tally

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        if (self._rankers, self._single_impressions, self._by_pair, self._rows.keys()) != (
            other._rankers, other._single_impressions, other._by_pair, other._rows.keys()
        ):  # fmt: skip
            return False
        mine = list(self._rows.values())
        theirs = [other._rows[unit] for unit in self._rows]
        return (
            np.array_equal(self._single_sums, other._single_sums)
            and np.array_equal(self._single_squares, other._single_squares)
            and np.array_equal(self._counts[mine], other._counts[theirs])
            and np.array_equal(self._sums[mine], other._sums[theirs])
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Tally(rankers={self._rankers!r}, impressions={self.impressions}, units={self.units})"

    def _read(self, outcome: Outcome) -> tuple[Floats, bool]:
        """Return an outcome's R credits and False, or its preferences by pair and True, checked."""
        if not isinstance(outcome, Outcome):
            raise TallyError(
                f"a tally adds up outcomes, and this is a {type(outcome).__name__}. Pass what `infer` returned."
            )
        size = len(self._rankers)
        shape = (size, size) if outcome.kind == "matrix" else (size,)
        values = np.asarray(outcome.values)
        if outcome.rankers != self._rankers and set(outcome.rankers) != set(self._rankers):
            raise _other_rankers("the outcome", outcome.rankers, self._rankers)
        if values.shape != shape or values.dtype.kind not in "fiu" or len(outcome.rankers) != size:
            raise TallyError(
                f"the outcome of kind {outcome.kind!r} holds {values.dtype} values of shape {values.shape}; for {size} "
                f"rankers expected numbers of shape {shape}. Was it made by hand?"
            )
        values = values.astype(np.float64, copy=False)
        # Written so that a NaN fails it as well.
        if not (np.abs(values) <= LARGEST).all():
            raise TallyError(
                f"the outcome holds {values[~(np.abs(values) <= LARGEST)].flat[0]}; expected finite numbers of at most "
                f"{LARGEST:g}. Look at the method that inferred it."
            )
        if outcome.rankers != self._rankers:
            order = [outcome.rankers.index(name) for name in self._rankers]
            values = values[np.ix_(order, order)] if outcome.kind == "matrix" else values[order]
        if outcome.kind == "difference":
            return values, False
        if outcome.kind == "matrix" and (np.abs(values + values.T) > 1e-9 * np.abs(values).max()).any():
            raise TallyError(
                "the outcome's matrix is not antisymmetric; ranker n over m is expected to be minus m over n. "
                "Look at the method that inferred it."
            )
        matrix = values if outcome.kind == "matrix" else Outcome(self._rankers, outcome.kind, values).preferences
        return matrix[_pairs(size)], True

    def _as_held(self, values: Floats, by_pair: bool) -> Floats:
        """Return an outcome's credits or pairs as the units' rows hold them; the rows turn into pairs for pairs."""
        if by_pair:
            self._hold_pairs()
            return values
        return _differences(values) if self._by_pair else values

    def _hold_pairs(self) -> None:
        if self._by_pair:
            return
        self._by_pair = True
        self._sums = _differences(self._sums)

    def _row(self, unit: Hashable) -> int | None:
        """Return the row of a unit, None for one not seen before."""
        try:
            return self._rows.get(unit)
        except TypeError:
            raise TallyError(
                f"unit is {unit!r}, a {type(unit).__name__}, which is not hashable; a unit is an id, such as a user's. "
                "Pass a string or a number."
            ) from None

    def _new_rows(self, units: Sequence[Hashable]) -> int:
        """Make a row for each of these new units, and return the first."""
        first = len(self._rows)
        for row, unit in enumerate(units, start=first):
            self._rows[unit] = row
        held = len(self._counts)
        if len(self._rows) > held:
            more = max(len(self._rows), held + held // 2, 16) - held
            self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
            self._sums = np.concatenate([self._sums, np.zeros((more, self._sums.shape[1]))])
        return first

    def _checked_other(self, other: "Tally") -> "Tally":
        """Return a tally of the same rankers in the same order, or raise an error."""
        if not isinstance(other, Tally):
            raise TallyError(f"a tally merges with a tally, and this is a {type(other).__name__}.")
        if other._rankers == self._rankers:
            return other
        if set(other._rankers) != set(self._rankers):
            raise _other_rankers("the other tally", other._rankers, self._rankers)
        order = np.array([other._rankers.index(name) for name in self._rankers])
        column = np.zeros((len(order), len(order)), dtype=np.int64)
        first, second = _pairs(len(order))
        column[first, second] = column[second, first] = np.arange(len(first))
        columns = column[order[first], order[second]]
        signs = np.where(order[first] < order[second], 1.0, -1.0)
        ordered = Tally(self._rankers)
        ordered._single_impressions = other._single_impressions
        ordered._single_sums = other._single_sums[columns] * signs
        ordered._single_squares = other._single_squares[columns]
        ordered._rows, ordered._counts, ordered._by_pair = other._rows, other._counts, other._by_pair
        ordered._sums = other._sums[:, columns] * signs if other._by_pair else other._sums[:, order]
        return ordered

    def _blocks(self) -> Iterator[tuple[Floats, Ints]]:
        """Yield the units' sums by pair and their impressions, a block of units at a time."""
        rows = max(BLOCK // len(self._single_sums), 1)
        for start in range(0, len(self._rows), rows):
            part = slice(start, min(start + rows, len(self._rows)))
            sums = self._sums[part]
            yield sums if self._by_pair else _differences(sums), self._counts[part]

    def _totals(self) -> Floats:
        """Return the sum of preferences by pair."""
        totals = self._single_sums.copy()
        for sums, _ in self._blocks():
            totals += sums.sum(axis=0)
        return totals

    def _moments(self) -> Moments:
        impressions, totals = self.impressions, self._totals()
        means = totals / impressions
        residuals = self._single_squares - means * (2.0 * self._single_sums - means * self._single_impressions)
        # What rounding leaves of equal outcomes is no variance.
        residuals[residuals <= 1e-10 * self._single_squares] = 0.0
        for sums, counts in self._blocks():
            left = sums - means * counts[:, None]
            left[np.abs(left) <= TOLERANCE * np.abs(sums)] = 0.0
            residuals += (left * left).sum(axis=0)
        return Moments(impressions, self.units, totals, residuals)


@functools.cache
def _pairs(size: int) -> tuple[Ints, Ints]:
    """Return the positions n and m of the rankers of each pair, n < m."""
    first, second = np.triu_indices(size, 1)
    return first, second


def _differences(credits: Floats) -> Floats:
    """Return the preferences by pair for credits (..., R); equal credits that differ by rounding have none."""
    first, second = _pairs(credits.shape[-1])
    pairs = credits[..., first] - credits[..., second]
    pairs[np.abs(pairs) <= TOLERANCE * np.abs(credits).max(axis=-1, keepdims=True)] = 0.0
    return pairs


def _plain(unit: Hashable) -> Hashable:
    """Return a NumPy scalar as the Python value that is equal to it, for JSON."""
    if isinstance(unit, np.generic):
        unit = unit.item()
    if isinstance(unit, float) and unit != unit:
        raise TallyError("unit is NaN, a missing value; expected an id. Pass None where the user is not known.")
    return unit


def _checked_rankers(rankers: Sequence[str]) -> tuple[str, ...]:
    names = () if isinstance(rankers, str) or not isinstance(rankers, Sequence) else tuple(rankers)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise TallyError(
            f"rankers is {rankers!r}; expected the names of at least two rankers. Pass `impression.rankers`."
        )
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        raise TallyError(f"rankers names {repeated!r} twice; every ranker has a name of its own. Rename one.")
    return names


def _other_rankers(what: str, found: Sequence[str], expected: Sequence[str]) -> TallyError:
    return TallyError(
        f"{what} compares {', '.join(map(str, found))}; this tally compares {', '.join(expected)}. "
        "Use one tally for each set of rankers."
    )


def _check_version(data: Mapping[str, Any]) -> None:
    if not isinstance(data, Mapping):
        raise TallyError(f"a tally is read from a dictionary, not from a {type(data).__name__}. Parse its JSON first.")
    version = data.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise TallyError(
            f"this tally has format version {version}; this multileave reads up to {FORMAT_VERSION}. "
            "Upgrade multileave."
        )
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise _malformed("version", version, str(FORMAT_VERSION))


def _field(data: Mapping[str, Any], name: str, kind: type) -> Any:
    if name not in data:
        raise TallyError(
            f"the tally has no {name!r} where it has {', '.join(map(repr, data)) or 'nothing'}. "
            "Is this a dictionary written by Tally.to_dict?"
        )
    value = data[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _malformed(name, value, f"a {kind.__name__.lower()}")
    return value


def _array(data: Mapping[str, Any], name: str) -> "np.ndarray[Any, Any]":
    value = _field(data, name, list)
    try:
        return np.array(value)
    except (ValueError, OverflowError):
        return np.array("no array")


def _floats(data: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    array = _array(data, name)
    if not array.size and not shape[0]:
        return np.zeros(shape)
    if array.shape != shape or array.dtype.kind not in "fi" or not (np.abs(array) <= LARGEST_SUM).all():
        raise _malformed(name, data[name], f"finite numbers, shape {shape}")
    return array.astype(np.float64)


def _counts(data: Mapping[str, Any], name: str, size: int) -> Ints:
    array = _array(data, name)
    if not array.size and not size:
        return np.zeros(0, dtype=np.int64)
    if array.shape != (size,) or array.dtype.kind != "i" or array.min(initial=1) < 1:
        raise _malformed(name, data[name], f"{size} integers from 1")
    return array.astype(np.int64)


def _malformed(name: str, found: object, expected: str) -> TallyError:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return TallyError(
        f"the tally's {name!r} is {shown}; expected {expected}. "
        "Is this a dictionary written by Tally.to_dict, unchanged?"
    )
