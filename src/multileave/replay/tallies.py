"""The one place where sums by unit become a `Tally`."""

from typing import Any

import numpy as np

from multileave.replay.units import UnitSums
from multileave.stats import Tally

__all__ = ["tally_of"]


def tally_of(rankers: tuple[str, ...], found: UnitSums, action: int, cap: int | None) -> tuple[Tally, int]:
    """Return the tally of one action, and how many units had more than `cap` impressions and were left out."""
    kept = np.ones(found.units, dtype=bool) if cap is None else found.counts <= cap
    left_out = int((~kept).sum())
    everything = not left_out
    ids = found.ids()
    if not everything:
        ids = [unit for unit, keep in zip(ids, kept.tolist(), strict=True) if keep]
    counts, clicks, sums = (a if everything else a[kept] for a in (found.counts, found.clicks, found.sums))
    tally = _of_units(
        rankers, ids, counts, clicks[:, action], sums[:, action], found.squares(kept)[action], by_pair=found.by_pair
    )
    return tally.merge(_of_singles(rankers, found, action)), left_out


def _of_units(
    rankers: tuple[str, ...], ids: list[str], counts: Any, clicks: Any, sums: Any, squares: Any, *, by_pair: bool
) -> Tally:
    sums_of = "pairs" if by_pair else "credits"
    if hasattr(Tally, "from_sums"):
        tally: Tally = Tally.from_sums(
            rankers, ids, counts, np.ascontiguousarray(sums), squares, sums_of=sums_of, clicks=clicks
        )
        return tally
    fields = {
        "sums_of": sums_of,
        "ids": ids,
        "impressions": counts.tolist(),
        "clicks": clicks.tolist(),
        "sums": sums.tolist(),
        "squares": squares.tolist(),
    }
    return _filled(rankers, "units", fields)


def _of_singles(rankers: tuple[str, ...], found: UnitSums, action: int) -> Tally:
    sums, squares, wins, losses = found.singles[:, action]
    fields = {
        "impressions": found.single_impressions,
        "clicks": int(found.single_clicks[action]),
        "sums": sums.tolist(),
        "squares": squares.tolist(),
        "wins": wins.astype(np.int64).tolist(),
        "losses": losses.astype(np.int64).tolist(),
    }
    return _filled(rankers, "single", fields)


def _filled(rankers: tuple[str, ...], part: str, fields: dict[str, Any]) -> Tally:
    """Return a tally with the fields that its dictionary has in a part."""
    data = Tally(rankers).to_dict()
    data[part] = {name: fields.get(name, value) for name, value in data[part].items()}
    return Tally.from_dict(data)
