"""Singles: impressions without a unit, each a unit of its own; O(R^2) numbers however many there are."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.moments import Ints
from multileave.stats.parsing import count_of, counts_of, floats_of, malformed

__all__ = ["Singles"]


class Singles:
    """Sums by pair (P,) of preferences, of their squares, and of wins and losses."""

    def __init__(self, pairs: int) -> None:
        self.impressions = 0
        self.clicks = 0
        self.sums = np.zeros(pairs)
        self.squares = np.zeros(pairs)
        self.wins: Ints = np.zeros(pairs, dtype=np.int64)
        self.losses: Ints = np.zeros(pairs, dtype=np.int64)

    def add(self, pairs: Floats, clicks: int) -> None:
        """Add one impression's preferences by pair."""
        self.impressions += 1
        self.clicks += clicks
        self.sums += pairs
        self.squares += pairs * pairs
        self.wins += pairs > 0.0
        self.losses += pairs < 0.0

    def change(self, before: Floats, after: Floats, clicks: int) -> None:
        """Take one impression's old preferences out and put its new ones in."""
        self.clicks = max(self.clicks + clicks, 0)
        self.sums += after - before
        self.squares += after * after - before * before
        np.maximum(self.squares, 0.0, out=self.squares)
        self.wins += (after > 0.0).astype(np.int64) - (before > 0.0)
        self.losses += (after < 0.0).astype(np.int64) - (before < 0.0)

    def merge(self, other: "Singles") -> None:
        """Add another's sums."""
        self.impressions += other.impressions
        self.clicks += other.clicks
        self.sums += other.sums
        self.squares += other.squares
        self.wins += other.wins
        self.losses += other.losses

    def reordered(self, columns: Ints, signs: Floats) -> "Singles":
        """Return the same with the pairs in another order, some of them turned round."""
        other = Singles(len(columns))
        other.impressions, other.clicks = self.impressions, self.clicks
        other.sums, other.squares = self.sums[columns] * signs, self.squares[columns]
        other.wins = np.where(signs > 0.0, self.wins[columns], self.losses[columns])
        other.losses = np.where(signs > 0.0, self.losses[columns], self.wins[columns])
        return other

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain values that JSON can hold."""
        return {
            "impressions": self.impressions,
            "clicks": self.clicks,
            "sums": self.sums.tolist(),
            "squares": self.squares.tolist(),
            "wins": self.wins.tolist(),
            "losses": self.losses.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], pairs: int) -> "Singles":
        """Return what `to_dict` wrote, checked."""
        singles = cls(pairs)
        singles.impressions, singles.clicks = count_of(data, "impressions"), count_of(data, "clicks")
        singles.sums = floats_of(data, "sums", (pairs,))
        singles.squares = floats_of(data, "squares", (pairs,), least=0.0)
        singles.wins, singles.losses = counts_of(data, "wins", pairs, 0), counts_of(data, "losses", pairs, 0)
        if not singles.impressions and (singles.sums.any() or singles.squares.any()):
            raise malformed("sums", data["sums"], "zeros, as there are no impressions")
        if (singles.wins + singles.losses > singles.impressions).any():
            raise malformed("wins", data["wins"], f"with 'losses' at most the {singles.impressions} impressions")
        return singles

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Singles):
            return NotImplemented
        return (self.impressions, self.clicks) == (other.impressions, other.clicks) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("sums", "squares", "wins", "losses")
        )

    __hash__ = None  # type: ignore[assignment]  # it changes
