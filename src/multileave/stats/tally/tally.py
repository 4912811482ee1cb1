"""Tally: sums of many outcomes, by unit; small, mergeable, serialisable.

Impressions of a unit (a user, a session) are not independent of each other, so each unit has a row of sums (`units`).
An impression without a unit is its own unit and needs no row: grouped sums are enough (`grouped_sums`).

The file is long because users look here for what a verdict can be asked for, so `verdict` explains every rule.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multileave.errors import TallyError
from multileave.impression import Impression
from multileave.outcome import Floats, Outcome
from multileave.stats.intervals.moments import Ints, pair_positions, reordered_pairs
from multileave.stats.parsing import (
    as_pairs,
    checked_count,
    other_rankers,
    plain_unit,
    read_alone,
    read_outcome,
    written_tally,
)
from multileave.stats.rates.sums import RateSums
from multileave.stats.rates.unit_rates import UnitRates
from multileave.stats.tally.base import BaseTally
from multileave.stats.tally.few_sums import FewSums
from multileave.stats.tally.grouped_sums import Group
from multileave.stats.tally.health_counts import HealthCounts
from multileave.stats.tally.units import PackedIds, Units
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict
from multileave.written import Written

if TYPE_CHECKING:
    from multileave.stats.rates.records import Rates
    from multileave.stats.tally.weighting import Weighting
    from multileave.stats.verdict.strengths import Strengths

FORMAT_VERSION = 1


class Tally(BaseTally):
    """The sum of many outcomes between the same rankers, by unit.

    unit: the id of an independent unit, such as a user; any hashable, but `to_dict` can write only strings
        and numbers. Without one, each impression is its own unit.

    Impressions without clicks count: their outcome is zero, and they are added like any other. An outcome, or a tally
    to merge, may name the rankers in another order.

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
        super().__init__(rankers)
        self._squares = np.zeros(self.pairs)  # of the preferences of impressions that have a unit
        self._single_clicks = 0  # of the impressions without a unit, which are all that is grouped
        self._rates = UnitRates(len(self._rankers))

    @property
    def preferences(self) -> Floats:
        """Antisymmetric (R, R) array: the mean preference for ranker n over m per impression."""
        if not self.impressions:
            raise TallyError("The tally holds no impressions, so there is no mean preference. Add outcomes first.")
        matrix = np.zeros((len(self._rankers), len(self._rankers)))
        matrix[pair_positions(len(self._rankers))] = self.totals() / self.impressions
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

        clicks: how many clicks there were; impression: what was shown. Both are optional and used only for the health
        checks of the verdict.
        """
        values, by_pair = read_outcome(outcome, self._rankers)
        alone = read_alone(outcome, self._rankers)
        count = 0 if clicks is None else checked_count("clicks", clicks)
        if unit is not None and self._units.find(unit) is None:
            plain_unit(unit)
        if impression is not None:
            self.evidence.add(impression, self._rankers, unit)
        if clicks is not None:
            self.evidence.add_clicks(count)
        if unit is None:
            self._grouped.add(1, as_pairs(values, by_pair))
            self._single_clicks += count
            if alone is not None:
                self._rates.add(alone, None, valued=outcome.valued)
            return
        if values.any():
            first, second = pair_positions(len(self._rankers))
            pairs = values if by_pair else values[first] - values[second]
            self._squares += pairs * pairs
        self._units.add(unit, values, by_pair=by_pair, clicks=count)
        if alone is not None:
            self._rates.add(alone, self._units.find(unit), valued=outcome.valued)

    def add_fallback(self, missing: Collection[str]) -> None:
        """Count an impression for which some rankers returned nothing, for the health checks only.

        A page without them is another comparison: its outcome belongs in another tally, or nowhere. missing: their
        names.
        """
        self.evidence.add_fallback(missing, self._rankers)

    def replace(
        self, old: Outcome, new: Outcome, unit: Hashable = None, *, clicks: tuple[int, int] | None = None
    ) -> None:
        """Replace the old outcome of an impression by its new one, as after a late click.

        The impression must have been added with this old outcome and this unit. A tally does not remember single
        impressions, so it can only check that it has seen the unit.

        clicks: how many clicks there were before and are now, if `add` was given the old number.
        """
        before, after = read_outcome(old, self._rankers), read_outcome(new, self._rankers)
        counted = (0, 0) if clicks is None else (checked_count("clicks", clicks[0]), checked_count("clicks", clicks[1]))
        row = None if unit is None else self._units.find(unit)
        if unit is None and not self._grouped.units:
            raise TallyError(
                "The tally holds no impression without a unit, so none can be replaced. Add its old outcome first, or "
                "pass the unit it was added with."
            )
        if unit is not None and row is None:
            raise TallyError(
                f"Unit {unit!r} is not in the tally, so none of its impressions can be replaced. Add its old outcome "
                "first, and pass the unit it was added with."
            )
        self._rates.replace(read_alone(old, self._rankers), read_alone(new, self._rankers), row, valued=new.valued)
        if clicks is not None:
            self.evidence.change_clicks(*counted)
        out, into = as_pairs(*before), as_pairs(*after)
        more = counted[1] - counted[0]
        if row is None:
            self._grouped.add(1, into)
            self._grouped.add(1, out, -1)
            self._single_clicks = max(self._single_clicks + more, 0)
        else:
            self._squares = np.maximum(self._squares + into * into - out * out, 0.0)
            self._units.change(row, before, after, more)

    def merge(self, other: "Tally") -> "Tally":
        """Add all that another tally holds to this one, and return this one.

        The order of merging matters only to rounding. A unit in both is one unit.
        """
        other = self._checked_other(other)
        self._grouped.merge(other._grouped)
        self._single_clicks += other._single_clicks
        self._units.merge(other._units)
        self._rates.merge(other._rates, [self._units.find(unit) for unit in other._units.rows])
        self._squares = self._squares + other._squares
        self.evidence.merge(other.evidence)
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
        rates: UnitRates | None = None,
    ) -> "Tally":
        """Return the tally of U units whose impressions were added up elsewhere, as in a compiled loop.

        impressions: int (U,), each at least 1. clicks: int (U,), if they are known.
        sums: float (U, R) of "credits", or float (U, P) of preferences by "pairs", n < m.
        squares: float (P,), the sum over all impressions of the squared preference.
        rates: what each ranker earned alone, with a row for each unit, if that is known.

        Arrays that come with `PackedIds` are neither checked nor copied, and belong to the tally from then on.

        >>> sums = np.array([[1.0, 0.0], [0.0, 0.5]])
        >>> Tally.from_sums(["a", "b"], ["u", "v"], np.array([2, 1]), sums, np.array([1.25]))
        Tally(rankers=('a', 'b'), impressions=3, units=2)
        """
        tally = cls(rankers)
        tally._squares = written_tally({"squares": squares}).floats("squares", (tally.pairs,), least=0.0)
        tally._rates = tally._rates if rates is None else rates
        clicked = np.zeros(len(units), dtype=np.int64) if clicks is None else clicks
        if isinstance(units, PackedIds):
            by_pair = sums_of == "pairs"
            tally._units = Units.packed(len(tally._rankers), units, impressions, clicked, sums, by_pair=by_pair)
            return tally
        tally._units = Units.from_dict(
            {
                "sums_of": sums_of,
                "ids": [plain_unit(unit) for unit in units],
                "impressions": impressions,
                "clicks": clicked,
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
        tuned_for: float | None = None,
        replicates: int = 1999,
        seed: int = 0,
        looks: int | tuple[float, ...] | None = None,
        look: int | None = None,
        spending: str = "obrien-fleming",
        control: str | None = None,
        dropped: Sequence[str] = (),
        estimand: str = "impressions",
        cap: int | None = None,
        winsorise: int | None = None,
    ) -> Verdict:
        """Return what the tally says about every pair of rankers, at this confidence.

        interval: "clustered", for one look at a number of units that was fixed beforehand; "anytime", a confidence
            sequence, which allows any number of looks and stopping at any time; "scheduled", for a number of looks
            that was fixed beforehand; "bootstrap", a cross-check of the first.
        correction: of p-values for the number of pairs: "holm" (controls the probability of any false positive), "bh"
            (the false discovery rate, for one look, if p-values are positively dependent), "by" (the same under any
            dependence) or "none". "max-t" controls the same as "holm" with slightly more power, from the correlation
            of pairs; where that is not known, it is "holm", and `verdict.correction` says so.
        simultaneous: whether all intervals hold together (Bonferroni) rather than each by itself.
        tuned_for: of "anytime": the number of impressions that a plan names (`plan(...).tuned_for`), which makes the
            intervals narrowest there. Like the confidence, it must be chosen before the first look.
        looks, look, spending: of "scheduled": how many looks are planned, or the share of the planned information that
            each has seen, such as (0.25, 0.5, 1); which of them this is, from 1; and how alpha is spent over them:
            "obrien-fleming" (little at first) or "pocock" (evenly).
        dropped: of "anytime": rankers that later impressions do not compare, as they lost (`stats.dropping`). Their
            pairs are judged by the impressions they took part in, and the winner is one of the others.
        replicates, seed: of "bootstrap"; seed: of "max-t", too.
        control: the ranker that `rates` compares others with, by default the first.
        estimand: "impressions", the mean preference per impression, or "users", the mean over units of each unit's mean
            preference: heavy users then count no more than others.
        cap: leave out units with more impressions than this, such as bots. winsorise: let them count as if they had so
            many.
        """
        from multileave.stats.verdict.judging import judge

        rules = Rules(
            confidence, interval, correction, simultaneous, tuned_for, replicates, seed, looks, look, spending,
            control,
            tuple(dropped),
            estimand, cap, winsorise,
        )  # fmt: skip
        return judge(self, rules)

    def rates(self, confidence: float = 0.95, *, estimator: str = "doubly robust", **options: Any) -> "Rates | None":
        """Return what each ranker would earn alone, in clicks per page, and its lift over the control.

        None if the method's propensities are unknown; docs/rates.md lists the methods that have them, and what is
        assumed about users.

        estimator: "doubly robust", "normalised" or "weighted", see `stats.rates.estimating`.
        options: as in `verdict`, whose `rates` are the same; control: the ranker that others are compared with.
        """
        from multileave.stats.rates.estimating import estimate

        rules = Rules(confidence, **options)
        return estimate(self.rate_sums(rules.weighting), self._rankers, rules, estimator)

    def rate_sums(self, weighting: "Weighting | None" = None) -> RateSums:
        """Return the sums from which it follows what each ranker would earn alone, with units weighted."""
        from multileave.stats.tally.weighting import weighted_rates

        if weighting is None:
            return self._rates.sums()
        counts = self._units.counts[: len(self._units)]
        sums = self._rates.sums(lambda rows: weighted_rates(rows[: len(counts)], counts[: len(rows)], weighting))
        return sums.by_unit() if weighting.estimand == "users" else sums

    def strengths(self, confidence: float = 0.95, *, replicates: int = 200, seed: int = 0) -> "Strengths":
        """Return Bradley-Terry strengths of the rankers; a unit that prefers one is a win, a tie counts half.

        Their intervals come from a bootstrap of units. Needs `choix`: pip install 'multileave[stats]'.
        """
        from multileave.stats.verdict.strengths import bradley_terry

        Rules(confidence)
        self.check_units("the Bradley-Terry model")
        return bradley_terry(self, confidence, replicates=replicates, seed=seed)

    @property
    def unit_rows(self) -> Mapping[Hashable, int]:
        """The row of each unit, by its id, for `units_at`."""
        return self._units.rows

    def units_at(self, rows: Ints) -> tuple[Floats, Ints]:
        """Return the sums by pair (n, P) and the impressions (n,) of some units."""
        return self._units.at(rows)

    def clicks_by_unit(self) -> tuple[Ints, Ints]:
        """Return the impressions and the clicks of each unit, without impressions that have no unit."""
        used = len(self._units)
        return self._units.counts[:used], self._units.clicks[:used]

    def squared_preferences(self) -> Floats:
        """Return the sum over impressions of the squared preference, (P,)."""
        squares: Floats = self._grouped.group(1).squares + self._squares
        return squares

    def activity(self) -> "tuple[np.ndarray[Any, Any], Ints]":
        """Return levels of activity (clicks, or impressions if no clicks are known), and how many units have each.

        Impressions without a unit are taken to be as active as their mean.
        """
        used, singles = len(self._units), self._grouped.units
        known = bool(self.evidence.clicks_known or self._units.clicks.any())
        levels, units = np.unique((self._units.clicks if known else self._units.counts)[:used], return_counts=True)
        if not singles:
            return levels, units
        return np.append(levels, self._single_clicks / singles if known else 1.0), np.append(units, singles)

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        rates = self._rates.to_dict(len(self._units))
        return {
            "version": FORMAT_VERSION,
            "rankers": list(self._rankers),
            "single": self._singles(),
            "units": {**self._units.to_dict(), "squares": self._squares.tolist()},
            "evidence": self.evidence.to_dict(),
            **({"rates": rates} if rates else {}),
        }

    def _singles(self) -> dict[str, Any]:
        single = self._grouped.group(1)
        # Tallies of earlier versions do not hold these, and are written as they were.
        known = single.units and not np.isnan(single.absolute).any()
        return {
            "impressions": single.units,
            "clicks": self._single_clicks,
            "sums": single.sums.tolist(),
            "squares": single.squares.tolist(),
            "wins": single.wins.tolist(),
            "losses": single.losses.tolist(),
            **({"absolute": single.absolute.tolist(), "few": self._grouped.few.to_list()} if known else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Tally":
        """Return the tally that `to_dict` wrote, checked."""
        written = written_tally(data)
        written.check_version(FORMAT_VERSION)
        names = written.field("rankers", list)
        different = all(isinstance(name, str) for name in names) and len(set(names)) == len(names) > 1
        written.require("rankers", different, "two or more different names")
        tally, units = cls(names), written.part("units")
        tally._read_singles(written.part("single"))
        tally._units = Units.from_dict(units.data, len(names))
        tally._squares = units.floats("squares", tally._squares.shape, least=0.0)
        tally.evidence = HealthCounts.from_dict(written.field("evidence", Mapping), len(names))
        tally._rates = UnitRates.from_dict(data.get("rates", {}), len(names), len(tally._units))
        return tally

    def _read_singles(self, written: Written) -> None:
        """Read the impressions without a unit, checked."""
        impressions, self._single_clicks = written.count("impressions"), written.count("clicks")
        sums, squares = written.floats("sums", (self.pairs,)), written.floats("squares", (self.pairs,), least=0.0)
        wins, losses = (written.integers(name, (self.pairs,)) for name in ("wins", "losses"))
        empty = not (sums.any() or squares.any())
        written.require("sums", bool(impressions) or empty, "zeros, as there are no impressions")
        few = bool((wins + losses <= impressions).all())
        written.require("wins", few, f"with 'losses' at most the {impressions} impressions")
        if not impressions:
            return
        absolute = np.full(self.pairs, np.nan)
        if "absolute" in written.data:
            absolute = written.floats("absolute", (self.pairs,), least=0.0)
        self._grouped.groups[1] = Group(impressions, sums, squares, absolute, wins, losses)
        if "few" in written.data:
            self._grouped.few = FewSums.checked(written, "few", self.pairs)
        else:
            self._grouped.few.forget(wins + losses > 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return (
            self._rankers == other._rankers
            and self._singles() == other._singles()
            and self._units == other._units
            and np.array_equal(self._squares, other._squares)
            and self.evidence.to_dict() == other.evidence.to_dict()
            and self._rates_by_unit() == other._rates_by_unit()
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _rates_by_unit(self) -> dict[Any, Any]:
        """Return what is known of rates, by unit and not by row."""
        held = self._rates.to_dict(len(self._units))
        return {**held, "rows": dict(zip(self._units.rows, held["rows"], strict=True))} if held else held

    def __repr__(self) -> str:
        return f"Tally(rankers={self._rankers!r}, impressions={self.impressions}, units={self.units})"

    def _checked_other(self, other: "Tally") -> "Tally":
        """Return a tally of the same rankers in the same order, or raise an error."""
        if not isinstance(other, Tally):
            raise TallyError(f"A tally merges with a tally; this is a {type(other).__name__}.")
        if other._rankers == self._rankers:
            return other
        if set(other._rankers) != set(self._rankers):
            raise other_rankers("The other tally", other._rankers, self._rankers)
        order = np.array([other._rankers.index(name) for name in self._rankers])
        columns, signs = reordered_pairs(order)
        ordered = Tally(self._rankers)
        ordered._grouped = other._grouped.reordered(columns, signs)
        ordered._single_clicks = other._single_clicks
        ordered._units = other._units.reordered(order, columns, signs)
        ordered._squares = other._squares[columns]
        ordered.evidence = other.evidence.reordered(order)
        ordered._rates = other._rates.reordered(order)
        return ordered
