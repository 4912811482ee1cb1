"""RateSums: the sums over units from which rates and their intervals are computed; they merge, and units can change.

A unit's row z has 2R + 1 numbers: what its impressions say each ranker earned alone, the surplus of each ranker (see
`methods._alone`), and its number of impressions. The sums of z and of z z' over units are all that a clustered
covariance needs, and those of products of three and four (`rates.powers`) tell how skewed units are, so no unit needs
to be kept.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.methods._alone import EARNED, PAGE, SURPLUS
from multileave.outcome import Floats
from multileave.stats.intervals.skewness import Residuals
from multileave.stats.parsing import written_tally
from multileave.stats.rates.powers import SHAPE, powers_of, residual_powers
from multileave.written import LARGEST

SUMS = ("totals", "products", "pages", "squares")


def unit_row(alone: Floats) -> Floats:
    """Return the row of a unit with one impression, (2R + 1,)."""
    return np.concatenate([alone[EARNED], alone[SURPLUS], np.ones(1)])


class RateSums:
    """Sums over units, and some over impressions.

    units: how many there are. totals: float (2R + 1,), the sum of z. products: float (2R + 1, 2R + 1), of z z'.
    seen: over how many impressions the following sums are; more than there are if some units were left out.
    powers: float (R, 6, 9), as in `rates.powers`; NaN if it is not known, as earlier versions did not keep it.
    pages: float (R,), the sum over impressions of what a ranker's page adds up to.
    squares: float (R, R), the sum over impressions of earned earned'.
    valued: values are added up, which may be negative, instead of clicks.
    """

    def __init__(self, rankers: int) -> None:
        self.rankers = rankers
        self.units = self.seen = 0
        self.totals = np.zeros(2 * rankers + 1)
        self.products = np.zeros((2 * rankers + 1, 2 * rankers + 1))
        self.powers = np.zeros((rankers, *SHAPE))
        self.pages = np.zeros(rankers)
        self.squares = np.zeros((rankers, rankers))
        self.valued = False

    @property
    def impressions(self) -> int:
        """The number of impressions whose propensities are known."""
        return round(float(self.totals[-1]))

    def add_units(self, rows: Floats, times: int = 1) -> None:
        """Add units by their rows z, float (u, 2R + 1); with times = -1, remove them. No impressions, no unit."""
        rows = rows[rows[:, -1] > 0.0]
        self.units += times * len(rows)
        self.totals += times * rows.sum(axis=0)
        self.products += times * (rows.T @ rows)
        self.powers += times * powers_of(rows)

    def add_impression(self, alone: Floats, times: int = 1) -> None:
        """Add what is kept of impressions; with times = -1, remove it."""
        self.seen += times
        self.pages += times * alone[PAGE]
        self.squares += times * np.outer(alone[EARNED], alone[EARNED])

    def merge(self, other: "RateSums") -> None:
        """Add another's sums; no unit may be in both."""
        self.units += other.units
        self.seen += other.seen
        self.valued |= other.valued
        for name in (*SUMS, "powers"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def by_unit(self) -> "RateSums":
        """Return the same with units as the impressions, if each counts as one: a single one is then a unit's mean."""
        other = RateSums(self.rankers)
        other.merge(self)
        other.pages = self.pages * (self.impressions / max(self.seen, 1))
        other.seen, other.squares = self.impressions, self.products[: self.rankers, : self.rankers].copy()
        return other

    def reordered(self, order: Any) -> "RateSums":
        """Return the same with the rankers in another order."""
        other = RateSums(self.rankers)
        columns = columns_of(order)
        other.units, other.seen, other.totals = self.units, self.seen, self.totals[columns]
        other.valued = self.valued
        other.products = self.products[np.ix_(columns, columns)]
        other.powers = self.powers[order]
        other.pages, other.squares = self.pages[order], self.squares[np.ix_(order, order)]
        return other

    def residuals(self, slopes: Floats) -> Residuals | None:
        """Return what units' C - b W, with a b for each ranker, add up to about its mean; None if that is not known."""
        if not np.isfinite(self.powers).all():
            return None
        size = self.rankers
        lines = np.vstack([np.eye(size), -np.diag(slopes), np.zeros(size)])
        means = self.totals @ lines / self.totals[-1]
        lines[-1] = -means
        squares = np.einsum("zr,zy,yr->r", lines, self.products, lines)
        cubes, fourths, squares_shown = residual_powers(self.powers, slopes, means)
        return Residuals(squares, cubes, fourths, self.products[-1] @ lines, squares_shown)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values that JSON can hold."""
        names = (*SUMS, "powers") if self.units and (np.abs(self.powers) <= LARGEST).all() else SUMS
        arrays = {name: getattr(self, name).tolist() for name in names}
        return {"units": self.units, "seen": self.seen, **arrays, **({"valued": True} if self.valued else {})}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], rankers: int) -> "RateSums":
        """Return what `to_dict` wrote, checked."""
        sums, written = cls(rankers), written_tally(data)
        sums.units, sums.seen = written.count("units"), written.count("seen")
        if sums.units and "powers" not in data:
            sums.powers[:] = np.nan
        for name in (*SUMS, "powers") if "powers" in data else SUMS:
            setattr(sums, name, written.floats(name, getattr(sums, name).shape))
        sums.valued = data.get("valued") is True  # earlier versions did not say
        return sums


def columns_of(order: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return where the columns of rows z were before the rankers were reordered."""
    rankers = len(order)
    return np.concatenate([order, np.asarray(order) + rankers, [2 * rankers]])
