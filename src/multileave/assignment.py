"""Assignment: which units take part in an experiment, and which of them see a single ranker's own pages.

A unit's position, between 0 and 1, is a hash of it. An experiment takes the units in a slice of the positions. Of
these, each arm owns slices of a second, independent position; all others compare rankers.

What an arm owns only grows, from positions that no arm owns. So a unit is never in two arms, not even one after the
other; a unit in an arm stays there when shares grow; and no change of one arm moves a unit of another. If an arm's
share is lowered, the units that leave it rest: they are in no arm and in no comparison, until it is raised again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from multileave.errors import DataError

LEAST = 1e-12  # shares below this are rounding
CLOSE = 1e-9


@dataclass(frozen=True)
class Slice:
    """A share of the units, starting at a position."""

    start: float
    share: float

    def holds(self, position: float) -> bool:
        """Whether a position from 0 to 1 is in it; it may wrap around at 1."""
        return (position - self.start) % 1.0 < self.share


@dataclass(frozen=True)
class ArmSlice(Slice):
    """A slice that an arm owns."""

    arm: str


def position_of(digest: bytes) -> float:
    """Return a unit's position between 0 and 1 from a hash of it."""
    return int.from_bytes(digest[:7], "big") / 2**56


def free_slices(taken: Iterable[Slice]) -> list[Slice]:
    """Return the slices that are still free, largest first.

    >>> free_slices([Slice(0.0, 0.25), Slice(0.5, 0.25)])
    [Slice(start=0.25, share=0.25), Slice(start=0.75, share=0.25)]
    """
    held = sorted((s for s in taken if s.share > 0.0), key=lambda s: s.start)
    if not held:
        return [Slice(0.0, 1.0)]
    found = []
    for this, following in zip(held, held[1:] + held[:1], strict=True):
        end = this.start + this.share
        ahead = following.start if following.start > this.start else following.start + 1.0
        if ahead - end > LEAST:
            found.append(Slice(end % 1.0, ahead - end))
    return sorted(found, key=lambda s: -s.share)


def grown(owned: Sequence[ArmSlice], shares: Mapping[str, float]) -> tuple[ArmSlice, ...]:
    """Return what arms own once each has its share: all that they own now, and more where that is too little.

    The arms of n begin 1 / n apart, so that up to there each grows in one piece.

    >>> before = grown((), {"bm25": 0.125, "ltr": 0.125})
    >>> before
    (ArmSlice(start=0.0, share=0.125, arm='bm25'), ArmSlice(start=0.5, share=0.125, arm='ltr'))
    >>> grown(before, {"bm25": 0.125, "ltr": 0.25})[2:]
    (ArmSlice(start=0.625, share=0.125, arm='ltr'),)
    """
    found = list(owned)
    for place, (arm, share) in enumerate(shares.items()):
        mine = [one for one in found if one.arm == arm]
        lacks = share - sum(one.share for one in mine)
        begin = (mine[-1].start + mine[-1].share) % 1.0 if mine else place / len(shares)
        while lacks > CLOSE:
            room = [_from(begin, one) for one in free_slices(found)]
            if not room:
                raise DataError(
                    f"The arm {arm!r} needs {lacks:.3g} more of the units, but all of them belong to arms, also to "
                    "arms whose share was lowered: a unit never changes its arm. Lower the share."
                )
            nearest = min(room, key=lambda one: (one.start - begin) % 1.0)
            more = ArmSlice(nearest.start, min(lacks, nearest.share), arm)
            found.append(more)
            lacks -= more.share
            begin = (more.start + more.share) % 1.0
    return tuple(found)


def _from(begin: float, free: Slice) -> Slice:
    """Return the rest of a free slice from a position on, or all of it if the position is not in it."""
    skipped = (begin - free.start) % 1.0
    return Slice(begin, free.share - skipped) if skipped < free.share - LEAST else free


class Arms:
    """The arm of each position. owned: the slices of all arms. shares: of the arms that are open now."""

    def __init__(self, owned: Sequence[ArmSlice], shares: Mapping[str, float]) -> None:
        left = dict(shares)
        self._parts: list[tuple[float, float, float, str]] = []  # start, share, how much of it is open, arm
        for one in owned:
            open_share = min(one.share, left.get(one.arm, 0.0))
            open_share = one.share if open_share > one.share - CLOSE else open_share
            left[one.arm] = max(left.get(one.arm, 0.0) - one.share, 0.0)
            self._parts.append((one.start, one.share, open_share, one.arm))

    def find(self, position: float) -> tuple[str | None, bool]:
        """Return the arm that owns a position, None if no arm does, and whether the unit is in it now or rests."""
        for start, share, open_share, arm in self._parts:
            inside = (position - start) % 1.0
            if inside < share:
                return arm, inside < open_share
        return None, False
