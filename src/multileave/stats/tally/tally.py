"""Tally: what many outcomes add up to, by unit; small, mergeable, serialisable.

Impressions that belong to a unit (a user, a session) are kept as one row of sums for that unit
(`units`), as they are not independent of each other. An impression without a unit is a unit of its own,
and needs no row: sums and sums of squares are enough (`singles`). What the health of the data is read
from stands beside them (`evidence`).
"""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.impression import Impression
from multileave.outcome import TOLERANCE, Floats, Outcome
from multileave.stats.intervals.confidence_sequence import TUNED_FOR
from multileave.stats.intervals.moments import Ints, Moments, pair_positions, reordered_pairs
from multileave.stats.parsing import (
    as_pairs,
    check_version,
    checked_count,
    checked_rankers,
    field_of,
    floats_of,
    malformed,
    other_rankers,
    plain_unit,
    read_outcome,
)
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.singles import Singles
from multileave.stats.tally.units import PackedIds, Units
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

if TYPE_CHECKING:
    from multileave.stats.health import Health
    from multileave.stats.verdict.strengths import Strengths

__all__ = ["FORMAT_VERSION", "Tally"]

FORMAT_VERSION = 1


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
        self._rankers = checked_rankers(rankers)
        pairs = len(self._rankers) * (len(self._rankers) - 1) // 2
        self._singles = Singles(pairs)
        self._units = Units(len(self._rankers))
        self._squares = np.zeros(pairs)  # of the preferences of impressions that have a unit
        self._evidence = HealthCounts(len(self._rankers))

    @property
    def rankers(self) -> tuple[str, ...]:
        """The names of the rankers."""
        return self._rankers

    @property
    def impressions(self) -> int:
        """How many impressions were added, with or without clicks."""
        return self._singles.impressions + int(self._units.counts.sum())

    @property
    def units(self) -> int:
        """How many units they came from; an impression without a unit is one of its own."""
        return self._singles.impressions + len(self._units)

    @property
    def preferences(self) -> Floats:
        """Antisymmetric (R, R) array: the mean preference for ranker n over m per impression."""
        if not self.impressions:
            raise TallyError("the tally holds no impressions, so it has no mean preference. Add outcomes first.")
        matrix = np.zeros((len(self._rankers), len(self._rankers)))
        matrix[pair_positions(len(self._rankers))] = self._totals() / self.impressions
        return matrix - matrix.T

    def add(
        self,
        outcome: Outcome,
        unit: Hashable = None,
        *,
        clicks: int | None = None,
        impression: Impression | None = None,
    ) -> None:
        """Add the outcome of one impression.

        clicks: how many clicks there were, and impression: what was shown. Both are optional and serve
        the health checks of the verdict only.
        """
        values, by_pair = read_outcome(outcome, self._rankers)
        count = 0 if clicks is None else checked_count("clicks", clicks)
        if unit is not None and self._units.find(unit) is None:
            plain_unit(unit)
        if impression is not None:
            self._evidence.add(impression, self._rankers)
        if clicks is not None:
            self._evidence.add_clicks(count)
        if unit is None:
            self._singles.add(as_pairs(values, by_pair), count)
            return
        if values.any():
            first, second = pair_positions(len(self._rankers))
            pairs = values if by_pair else values[first] - values[second]
            self._squares += pairs * pairs
        self._units.add(unit, values, by_pair=by_pair, clicks=count)

    def add_fallback(self, missing: Collection[str]) -> None:
        """Count an impression that some rankers returned nothing for, for the health checks only.

        Rankers that did not answer are left out of the page, and what is left is another comparison: its
        outcome belongs in another tally, or nowhere. missing: their names.
        """
        self._evidence.add_fallback(missing, self._rankers)

    def replace(
        self, old: Outcome, new: Outcome, unit: Hashable = None, *, clicks: tuple[int, int] | None = None
    ) -> None:
        """Take the old outcome of an impression out and put its new one in, as after a late click.

        The impression must have been added with this old outcome and this unit. A tally does not
        remember single impressions, and can check only that it has seen the unit.

        clicks: how many clicks there were before and are now, where the old were told to `add`.
        """
        before, after = read_outcome(old, self._rankers), read_outcome(new, self._rankers)
        told = (0, 0) if clicks is None else (checked_count("clicks", clicks[0]), checked_count("clicks", clicks[1]))
        row = None if unit is None else self._units.find(unit)
        if unit is None and not self._singles.impressions:
            raise TallyError(
                "there is no impression without a unit in the tally, so none can be replaced. Add its old outcome "
                "first, or pass the unit it was added with."
            )
        if unit is not None and row is None:
            raise TallyError(
                f"unit {unit!r} is not in the tally, so none of its impressions can be replaced. Add its old outcome "
                "first, and pass the unit it was added with."
            )
        if clicks is not None:
            self._evidence.change_clicks(*told)
        out, into = as_pairs(*before), as_pairs(*after)
        if row is None:
            self._singles.change(out, into, told[1] - told[0])
        else:
            self._squares = np.maximum(self._squares + into * into - out * out, 0.0)
            self._units.change(row, before, after, told[1] - told[0])

    def merge(self, other: "Tally") -> "Tally":
        """Add all that another tally holds to this one, and return this one.

        The order of merging matters only to rounding. A unit that is in both is one unit.
        """
        other = self._checked_other(other)
        self._singles.merge(other._singles)
        self._units.merge(other._units)
        self._squares = self._squares + other._squares
        self._evidence.merge(other._evidence)
        return self

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        return Tally(self._rankers).merge(self).merge(other)

    def __iadd__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        return self.merge(other)

    @classmethod
    def from_sums(
        cls,
        rankers: Sequence[str],
        units: Sequence[Hashable] | PackedIds,
        impressions: Ints,
        sums: Floats,
        squares: Floats,
        *,
        sums_of: str = "credits",
        clicks: "Ints | None" = None,
    ) -> "Tally":
        """Return the tally of U units whose impressions were added up elsewhere, as in a compiled loop.

        impressions: int (U,), each at least 1. clicks: int (U,), if they are known.
        sums: float (U, R) of "credits", or float (U, P) of preferences by "pairs", n < m.
        squares: float (P,), the sum over all impressions of their squared preference.

        What comes with `PackedIds` is neither checked nor copied: its arrays belong to the tally then.

        >>> sums = np.array([[1.0, 0.0], [0.0, 0.5]])
        >>> Tally.from_sums(["a", "b"], ["u", "v"], np.array([2, 1]), sums, np.array([1.25]))
        Tally(rankers=('a', 'b'), impressions=3, units=2)
        """
        tally = cls(rankers)
        pairs = len(tally._squares)
        tally._squares = floats_of({"squares": squares}, "squares", (pairs,), least=0.0)
        if isinstance(units, PackedIds):
            clicks = np.zeros(len(units), dtype=np.int64) if clicks is None else clicks
            by_pair = sums_of == "pairs"
            tally._units = Units.packed(len(tally._rankers), units, impressions, clicks, sums, by_pair=by_pair)
            return tally
        tally._units = Units.from_dict(
            {
                "sums_of": sums_of,
                "ids": [plain_unit(unit) for unit in units],
                "impressions": impressions,
                "clicks": np.zeros(len(units), dtype=np.int64) if clicks is None else clicks,
                "sums": sums,
            },
            len(tally._rankers),
        )
        return tally

    def verdict(
        self,
        confidence: float = 0.95,
        *,
        interval: str = "clustered",
        correction: str = "holm",
        simultaneous: bool = False,
        tuned_for: float = TUNED_FOR,
        replicates: int = 1999,
        seed: int = 0,
    ) -> Verdict:
        """Return what the tally says about every pair of rankers, at this confidence.

        interval: "clustered", for one look at a number of units that was fixed beforehand; "anytime", a
            confidence sequence that allows any number of looks and to stop when one likes; "bootstrap", a
            cross-check of the first.
        correction: over pairs, of what is significant: "holm" (the chance of any false alarm), "bh" (the
            share of false discoveries, for one look) or "none".
        simultaneous: let all intervals hold together, not each for itself, by Bonferroni's rule.
        tuned_for: of "anytime", see `stats.sequence`. replicates, seed: of "bootstrap".
        """
        from multileave.stats.verdict.judging import judge

        return judge(self, Rules(confidence, interval, correction, simultaneous, tuned_for, replicates, seed))

    def health(self) -> "Health":
        """Return how healthy the data are; `verdict().health` is the same."""
        from multileave.stats.health import examine

        self.check_units("a look at the health of its data")
        return examine(self)

    def strengths(self, confidence: float = 0.95, *, replicates: int = 200, seed: int = 0) -> "Strengths":
        """Return Bradley-Terry strengths of the rankers; a win is a unit that prefers one, ties are half.

        Their intervals come from a bootstrap of units. Needs `choix`: pip install 'multileave[stats]'.
        """
        from multileave.stats.verdict.strengths import bradley_terry

        Rules(confidence)
        self.check_units("strengths")
        return bradley_terry(self, confidence, replicates=replicates, seed=seed)

    @property
    def evidence(self) -> HealthCounts:
        """What the health of the data is read from."""
        return self._evidence

    def activity(self) -> tuple[Ints, int]:
        """Return the units' clicks, (U,), and those of all singles; impressions where no clicks were told."""
        used = len(self._units)
        if self._evidence.clicks_known or self._units.clicks.any():
            return self._units.clicks[:used], self._singles.clicks
        return self._units.counts[:used], self._singles.impressions

    def top_share(self) -> float:
        """Return the share of the clicks, or of the impressions where none were told, of the most active 1 % of units.

        Units of one impression are as active as their mean.
        """
        active, single = self.activity()
        singles = self.units - len(active)
        total = int(active.sum()) + single
        top = math.ceil(self.units / 100)
        if not total:
            return 0.0
        if len(active) > top:
            active = np.partition(active, len(active) - top)[-top:]
        each = single / singles if singles else 0.0
        return float(np.maximum(active, each).sum() + each * max(top - len(active), 0)) / total

    def check_units(self, what: str) -> None:
        """Raise an error if there are too few units to say anything."""
        if self.units < 2:
            found = f"impressions of one unit only ({self.impressions:,})" if self.impressions else "no impressions"
            raise TallyError(
                f"the tally holds {found}; {what} needs impressions of at least two units. Add outcomes of more "
                "users (unit=...), those without clicks too."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        return {
            "version": FORMAT_VERSION,
            "rankers": list(self._rankers),
            "single": self._singles.to_dict(),
            "units": {**self._units.to_dict(), "squares": self._squares.tolist()},
            "evidence": self._evidence.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tally":
        """Return the tally that `to_dict` wrote, checked."""
        check_version(data, FORMAT_VERSION)
        names = field_of(data, "rankers", list)
        try:
            tally = cls(names)
        except TallyError:
            raise malformed("rankers", names, "two or more different names") from None
        units = field_of(data, "units", Mapping)
        tally._singles = Singles.from_dict(field_of(data, "single", Mapping), len(tally._squares))
        tally._units = Units.from_dict(units, len(names))
        tally._squares = floats_of(units, "squares", tally._squares.shape, least=0.0)
        tally._evidence = HealthCounts.from_dict(field_of(data, "evidence", Mapping), len(names))
        return tally

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return (
            self._rankers == other._rankers
            and self._singles == other._singles
            and self._units == other._units
            and np.array_equal(self._squares, other._squares)
            and self._evidence.to_dict() == other._evidence.to_dict()
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Tally(rankers={self._rankers!r}, impressions={self.impressions}, units={self.units})"

    def _checked_other(self, other: "Tally") -> "Tally":
        """Return a tally of the same rankers in the same order, or raise an error."""
        if not isinstance(other, Tally):
            raise TallyError(f"a tally merges with a tally, and this is a {type(other).__name__}.")
        if other._rankers == self._rankers:
            return other
        if set(other._rankers) != set(self._rankers):
            raise other_rankers("the other tally", other._rankers, self._rankers)
        order = np.array([other._rankers.index(name) for name in self._rankers])
        columns, signs = reordered_pairs(order)
        ordered = Tally(self._rankers)
        ordered._singles = other._singles.reordered(columns, signs)
        ordered._units = other._units.reordered(order, columns, signs)
        ordered._squares = other._squares[columns]
        ordered._evidence = other._evidence.reordered(order)
        return ordered

    def _totals(self) -> Floats:
        """Return the sum of preferences by pair."""
        totals = self._singles.sums.copy()
        for sums, _ in self._units.blocks():
            totals += sums.sum(axis=0)
        return totals

    @property
    def each_has_a_unit(self) -> bool:
        """Whether every impression belongs to a unit with a row of its own."""
        return not self._singles.impressions

    def unit_blocks(self) -> Iterator[tuple[Floats, Ints]]:
        """Yield the units' sums by pair (b, P) and their impressions (b,), a block of units at a time.

        Impressions without a unit have no row of their own, and are refused.
        """
        if self._singles.impressions:
            raise TallyError(
                f"the tally holds {self._singles.impressions:,} impressions without a unit, of which it knows sums "
                "only; a bootstrap draws units anew. Pass unit=... when adding; an impression's own id will do."
            )
        return self._units.blocks()

    def moments(self) -> Moments:
        """Return what intervals are made of; the tally must hold two units."""
        impressions, units, totals = self.impressions, self.units, self._totals()
        means = totals / impressions
        single = self._singles
        left_out = (1.0 - 1.0 / impressions) ** 2
        residuals = (single.squares - means * (2.0 * single.sums - means * single.impressions)) / left_out
        # What rounding leaves of equal outcomes is no variance.
        residuals[residuals <= 1e-10 * single.squares] = 0.0
        wins, losses = single.wins.copy(), single.losses.copy()
        visits = float(single.impressions)
        nothing = 10.0 * TOLERANCE * np.sqrt(self._squares)  # what rounding leaves of sums that cancel
        for sums, counts in self._units.blocks():
            left = sums - means * counts[:, None]
            left[np.abs(left) <= TOLERANCE * np.abs(sums)] = 0.0
            left /= (1.0 - counts / impressions)[:, None]
            residuals += (left * left).sum(axis=0)
            wins += (sums > nothing).sum(axis=0)
            losses += (sums < -nothing).sum(axis=0)
            visits += float((counts.astype(np.float64) ** 2).sum())
        return Moments(
            impressions=impressions,
            units=units,
            effective=impressions**2 / visits,
            totals=totals,
            variances=(units - 1) / units * residuals,
            squares=single.squares + self._squares,
            wins=wins,
            losses=losses,
        )
