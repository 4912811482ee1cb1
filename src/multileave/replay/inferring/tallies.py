"""The one place where sums by unit become a `Tally`."""

from collections.abc import Sequence

import numpy as np

from multileave.replay.inferring.unit_sums import UnitSums
from multileave.stats import Tally
from multileave.stats.tally.units import PackedIds

__all__ = ["tally_of"]


def tally_of(rankers: tuple[str, ...], found: UnitSums, action: int, cap: int | None) -> tuple[Tally, int]:
    """Return the tally of one action, and how many units had more than `cap` impressions and were left out.

    What the health of the data is read from is not kept by unit, and is that of all units.
    """
    counts, clicks, sums = found.counts, found.clicks[:, action], found.sums[:, action]
    units: Sequence[str] | PackedIds = found.packed_ids()
    kept, left_out = np.ones(found.units, dtype=bool), 0
    if cap is not None:
        kept = counts <= cap
        left_out = int((~kept).sum())
        counts, clicks, sums = counts[kept], clicks[kept], sums[kept]
        units = [unit for unit, keep in zip(units, kept.tolist(), strict=True) if keep]
    elif found.clicks.shape[1] > 1:  # the tally of each action has its own
        counts, clicks, sums = counts.copy(), clicks.copy(), sums.copy()
    tally = Tally.from_sums(
        rankers, units, counts, sums, found.squares(kept)[action], sums_of="pairs" if found.by_pair else "credits",
        clicks=clicks,
    )  # fmt: skip
    return tally.merge(_of_singles(rankers, found, action)), left_out


def _of_singles(rankers: tuple[str, ...], found: UnitSums, action: int) -> Tally:
    """Return the tally of impressions without a unit, with the evidence of all."""
    sums, squares, wins, losses = found.singles[:, action]
    data = Tally(rankers).to_dict()
    data["single"].update(
        impressions=found.single_impressions,
        clicks=int(found.single_clicks[action]),
        sums=sums.tolist(),
        squares=squares.tolist(),
        wins=wins.astype(np.int64).tolist(),
        losses=losses.astype(np.int64).tolist(),
    )
    without_clicks = found.impressions - int(found.clicked[action])
    data["evidence"] = found.examined.to_evidence(found.impressions, without_clicks)
    return Tally.from_dict(data)
