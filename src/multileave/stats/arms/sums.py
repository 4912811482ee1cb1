"""ArmSums: the sums over an arm's units from which its means and their variances follow; they merge exactly.

A unit's row z holds its sums of the metrics and its number of impressions. The sums of z and of z z' over units give
the clustered variance of every mean, so no unit needs to be kept. Units can be taken out again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.outcome import Floats
from multileave.stats.arms.metrics import METRICS
from multileave.stats.parsing import written_tally

WIDTH = len(METRICS) + 1  # of a unit's row: metrics, then impressions


class ArmSums:
    """Sums over the units of one arm.

    units: how many there are. active: how many of them clicked. totals: float (5,), the sum of z.
    products: float (5, 5), the sum of z z'. squares: float (4,), the sum over impressions of each metric squared.
    missing: the impressions in which the ranker returned nothing, so that its users saw another list.
    """

    def __init__(self) -> None:
        self.units = self.active = self.missing = 0
        self.totals = np.zeros(WIDTH)
        self.products = np.zeros((WIDTH, WIDTH))
        self.squares = np.zeros(len(METRICS))

    @property
    def impressions(self) -> int:
        """The number of impressions."""
        return round(float(self.totals[-1]))

    @property
    def means(self) -> Floats:
        """The mean of each metric per impression, (4,)."""
        found: Floats = self.totals[:-1] / self.totals[-1]
        return found

    @property
    def deviations(self) -> Floats:
        """The sum over units of the squared deviation of their sums from what the means expect, (4,)."""
        means = self.means
        found = np.diag(self.products)[:-1] - 2 * means * self.products[-1, :-1] + means**2 * self.products[-1, -1]
        # Where all units have the same mean, only rounding is left.
        scale = np.diag(self.products)[:-1] + means**2 * self.products[-1, -1]
        kept: Floats = np.where(found > 1e-13 * scale, found, 0.0)
        return kept

    @property
    def variances(self) -> Floats:
        """The variance of each metric among single impressions, (4,)."""
        found: Floats = np.maximum(self.squares / self.totals[-1] - self.means**2, 0.0)
        return found

    def add_units(self, rows: Floats, times: int = 1) -> None:
        """Add units by their rows z, float (u, 5); with times = -1, take them out. No impressions, no unit."""
        rows = rows[rows[:, -1] > 0.0]
        self.units += times * len(rows)
        self.active += times * int(np.count_nonzero(rows[:, 0]))
        self.totals += times * rows.sum(axis=0)
        self.products += times * (rows.T @ rows)

    def add_squares(self, page: Floats, times: int = 1) -> None:
        """Add the metrics of an impression, (4,), or of many, (n, 4), squared; with times = -1, take them out."""
        changed = self.squares + times * (page * page).reshape(-1, len(METRICS)).sum(axis=0)
        self.squares = np.maximum(changed, 0.0)  # rounding may leave less than nothing

    def merge(self, other: "ArmSums") -> None:
        """Add another's sums; no unit may be in both."""
        for name in ("units", "active", "missing", "totals", "products", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values that JSON can hold."""
        arrays = {name: getattr(self, name).tolist() for name in ("totals", "products", "squares")}
        return {"units": self.units, "active": self.active, "missing": self.missing, **arrays}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ArmSums":
        """Return what `to_dict` wrote, checked."""
        sums, written = cls(), written_tally(data)
        sums.units, sums.active, sums.missing = map(written.count, ("units", "active", "missing"))
        sums.totals = written.floats("totals", (WIDTH,))
        sums.products = written.floats("products", (WIDTH, WIDTH))
        sums.squares = written.floats("squares", (len(METRICS),), least=0.0)
        return sums
