"""The one place where sums by unit become a `Tally`."""

import numpy as np

from multileave.replay.units import UnitSums
from multileave.stats import Tally

__all__ = ["tally_of"]


def tally_of(rankers: tuple[str, ...], found: UnitSums, action: int, cap: int | None) -> tuple[Tally, int]:
    """Return the tally of one action, and how many units had more than `cap` impressions and were left out.

    What the health of the data is read from is not kept by unit, and is that of all units.
    """
    kept = np.ones(found.units, dtype=bool) if cap is None else found.counts <= cap
    left_out = int((~kept).sum())
    everything = not left_out
    ids = found.ids()
    if not everything:
        ids = [unit for unit, keep in zip(ids, kept.tolist(), strict=True) if keep]
    counts, clicks, sums = found.counts, found.clicks, found.sums
    if not everything:
        counts, clicks, sums = counts[kept], clicks[kept], sums[kept]
    tally = Tally.from_sums(
        rankers,
        ids,
        counts,
        np.ascontiguousarray(sums[:, action]),
        found.squares(kept)[action],
        sums_of="pairs" if found.by_pair else "credits",
        clicks=clicks[:, action],
    )
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
