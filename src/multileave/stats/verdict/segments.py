"""Segments: the same comparison for each segment of the traffic, such as devices, corrected for their number."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from multileave.errors import TallyError
from multileave.outcome import Outcome
from multileave.stats.parsing import checked_rankers, written_tally
from multileave.stats.tally.tally import FORMAT_VERSION, Tally
from multileave.stats.verdict.interactions import Interaction, find_interactions
from multileave.stats.verdict.judging import judge_segments
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict

NO_SEGMENT = "unknown"  # of impressions without one


class SegmentedTally:
    """One tally for each segment of the traffic.

    rankers: their names. by: what the traffic is segmented by, such as "device".

    >>> import numpy as np
    >>> tally = SegmentedTally(["bm25", "ltr"], by="device")
    >>> for user in range(400):
    ...     device = "phone" if user % 2 else "desktop"
    ...     credits = np.array([user % 3, 2.0 if device == "phone" else 1.0])
    ...     tally.add(Outcome(("bm25", "ltr"), "difference", credits), user, segment=device)
    >>> {device: verdict.winner for device, verdict in tally.verdict().segments.items()}
    {'desktop': None, 'phone': 'ltr'}
    """

    def __init__(self, rankers: Sequence[str], by: str) -> None:
        if not isinstance(by, str) or not by:
            raise TallyError(f'The traffic is segmented by {by!r}; expected a name, such as "device".')
        self.rankers = checked_rankers(rankers)
        self.by = by
        self.tallies: dict[str, Tally] = {}

    @property
    def total(self) -> Tally:
        """All segments as one tally; a unit in several is one unit."""
        total = Tally(self.rankers)
        for tally in self.tallies.values():
            total.merge(tally)
        return total

    def add(self, outcome: Outcome, unit: Hashable = None, *, segment: str, **options: Any) -> None:
        """Add the outcome of one impression to its segment; options as in `Tally.add`."""
        if not isinstance(segment, str):
            raise TallyError(f"The segment is {segment!r}; expected a {self.by} as a string.")
        tally = self.tallies.get(segment) or Tally(self.rankers)
        tally.add(outcome, unit, **options)
        self.tallies[segment] = tally

    def replace(self, old: Outcome, new: Outcome, unit: Hashable = None, *, segment: str, **options: Any) -> None:
        """Replace the old outcome of an impression by its new one; options as in `Tally.replace`."""
        if segment not in self.tallies:
            names = ", ".join(self.tallies)
            raise TallyError(f"There is no {self.by} {segment!r} in the tally; expected one of {names}.")
        self.tallies[segment].replace(old, new, unit, **options)

    def merge(self, other: "SegmentedTally") -> "SegmentedTally":
        """Add another to this one, segment by segment, and return this one."""
        if not isinstance(other, SegmentedTally) or other.by != self.by:
            raise TallyError(f"A tally by {self.by} merges with another by {self.by}; this is {other!r}.")
        for segment, tally in other.tallies.items():
            self.tallies[segment] = (self.tallies.get(segment) or Tally(self.rankers)).merge(tally)
        return self

    def verdict(self, confidence: float = 0.95, **options: Any) -> "SegmentedVerdict":
        """Return a verdict for each segment, corrected for all their pairs; options as in `Tally.verdict`.

        Segments with a single unit are left out, and named.
        """
        return self.judged(Rules(confidence, **options))

    def judged(self, rules: Rules) -> "SegmentedVerdict":
        """Return the verdict by these rules."""
        judged = {segment: tally for segment, tally in sorted(self.tallies.items()) if tally.units > 1}
        if not judged:
            raise TallyError(
                f"No {self.by} holds impressions of at least two units, which a verdict needs. Add outcomes of more "
                "users."
            )
        left_out = tuple(segment for segment in sorted(self.tallies) if segment not in judged)
        return SegmentedVerdict(self.by, judge_segments(judged, rules), left_out, find_interactions(judged, rules))

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain values that JSON can hold."""
        tallies = {segment: tally.to_dict() for segment, tally in self.tallies.items()}
        return {"version": FORMAT_VERSION, "by": self.by, "rankers": list(self.rankers), "segments": tallies}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SegmentedTally":
        """Return what `to_dict` wrote, checked."""
        written = written_tally(data)
        written.check_version(FORMAT_VERSION)
        made = cls(written.field("rankers", list), written.field("by", str))
        for segment, part in written.field("segments", Mapping).items():
            tally = Tally.from_dict(part)
            same = f"those of all segments, {', '.join(made.rankers)}"
            written_tally(part).require("rankers", tally.rankers == made.rankers, same)
            made.tallies[segment] = tally
        return made

    def __repr__(self) -> str:
        return f"SegmentedTally(rankers={self.rankers!r}, by={self.by!r}, segments={list(self.tallies)!r})"


@dataclass(frozen=True)
class SegmentedVerdict:
    """A verdict for each segment; left_out: segments with a single unit.

    interactions: for each pair of rankers, whether its preference differs between segments, and shrunken estimates;
        none with `estimand`, `cap` or `winsorise`.
    """

    by: str
    segments: dict[str, Verdict]
    left_out: tuple[str, ...] = ()
    interactions: tuple[Interaction, ...] = ()

    @property
    def sentence(self) -> str:
        """Whether preferences differ between segments, in one sentence."""
        tested = [one for one in self.interactions if one.p_corrected is not None]
        if not tested:
            return f"Differences by {self.by} were not tested"
        found = sorted((one for one in tested if one.significant), key=lambda one: one.p_corrected or 0.0)
        if not found:
            return f"No significant difference in preferences by {self.by}"
        first = found[0]
        shares = ", ".join(f"{segment} {mean:+.3g}" for segment, mean in first.shrunken.items())
        more = f"; {len(found)} of {len(tested)} pairs differ" if len(tested) > 1 else ""
        return (
            f"The preference for {first.rankers[0]} over {first.rankers[1]} differs by {self.by} "
            f"(p = {first.p_corrected:.2g}; shrunken estimates: {shares}){more}"
        )

    def __str__(self) -> str:
        lines = [f"{self.by} {segment}: {verdict}" for segment, verdict in self.segments.items()]
        left_out = [f"{self.by} {segment}: too few users" for segment in self.left_out]
        tested = any(one.p is not None for one in self.interactions)
        return "\n".join([*lines, *([self.sentence] if tested else []), *left_out])

    def to_dict(self) -> dict[str, Any]:
        """Return the verdicts as plain values that JSON can hold."""
        return {
            "by": self.by,
            "segments": {segment: verdict.to_dict() for segment, verdict in self.segments.items()},
            "left_out": list(self.left_out),
            "sentence": self.sentence,
            "interactions": [interaction.to_dict() for interaction in self.interactions],
        }
