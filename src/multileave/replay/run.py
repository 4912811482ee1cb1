"""A replay under way, in either engine: its settings, and the counts and sums of what has been inferred."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from multileave.errors import DataError
from multileave.log.reader import MICROSECONDS
from multileave.methods.base import Method, get_method
from multileave.replay.arms import ArmComparison
from multileave.replay.inferring.arms import ArmUnits, in_two
from multileave.replay.inferring.batches import BatchCredits, infer_batch
from multileave.replay.inferring.events import Actions
from multileave.replay.inferring.unit_sums import UnitSums
from multileave.replay.reading.comparisons import Headers
from multileave.replay.reading.parts import Loaded
from multileave.replay.report import Comparison, Counts, Quarantine, Replay
from multileave.stats import SegmentedTally, Tally

MOST_ACTIONS = 32


@dataclass(frozen=True)
class Settings:
    """The settings that both engines share, checked.

    unit: the column of the unit. cap: the maximum impressions of a unit. method: to infer all rows with.
    segment: the column that divides the traffic into segments.
    """

    actions: Actions
    unit: str | None
    cap: int | None
    method: str | Method | None
    segment: str | None = None

    @classmethod
    def checked(
        cls,
        actions: Sequence[str],
        dwell: float,
        window: timedelta | None,
        *,
        unit: str | None,
        cap: int | None,
        method: str | Method | None = None,
        whole_pages: bool = True,
        rates: bool = True,
        segment: str | None = None,
    ) -> "Settings":
        """Return the settings, or raise an error if one is invalid."""
        names = [actions] if isinstance(actions, str) else list(actions)
        if not 1 <= len(names) <= MOST_ACTIONS or len(set(names)) < len(names):
            raise DataError(f"actions are {names}; expected 1 to {MOST_ACTIONS} different names, such as 'click'.")
        if not dwell >= 0:
            raise DataError(f"dwell is {dwell}; expected seconds from 0.")
        if window is not None and window < timedelta(0):
            raise DataError(f"window is {window}; expected a duration from 0.")
        if cap is not None and cap < 1:
            raise DataError(f"cap is {cap}; expected the maximum impressions of a unit, from 1.")
        if segment is not None and cap is not None:
            raise DataError("A cap counts a unit's impressions in all segments. Leave out cap, or segment.")
        if method is not None:
            get_method(method)
        micro = None if window is None else round(window.total_seconds() * MICROSECONDS)
        return cls(Actions(tuple(names), dwell, micro, whole_pages, rates), unit, cap, method, segment)


class Run:
    """The state of a replay: counts, the quarantine, and sums by unit for each header.

    separate: clicks are in other files, and are counted when those are read.
    """

    def __init__(self, settings: Settings, quarantine: Quarantine, *, separate: bool = False) -> None:
        self.settings, self.quarantine, self.separate = settings, quarantine, separate
        method = None if settings.method is None else get_method(settings.method)
        self.headers = Headers(method, settings.segment)
        self.counts = Counts()
        self._sums: dict[int, UnitSums] = {}
        self._arms: dict[int, ArmUnits] = {}

    def infer(self, loaded: Loaded, find: Callable[[list[BatchCredits]], Any] | None = None) -> list[BatchCredits]:
        """Infer what was loaded; rows that turn out to be invalid are then wrong.

        find: returns which rows are repeated, bool by row number; if there are any, the rest is inferred again.
        """
        found = [
            infer_batch(batch, self.headers, self.settings.actions, separate=self.separate) for batch in loaded.batches
        ]
        repeated = None if find is None else find(found)
        if repeated is not None and repeated.any():
            loaded.leave_out(repeated)
            return self.infer(loaded)
        loaded.wrong.extend(entry for credits in found for entry in credits.wrong)
        loaded.batches.clear()
        return found

    def take(self, loaded: Loaded, found: list[BatchCredits], wrong: list[dict[str, Any]]) -> None:
        """Add rows; wrong: the entries of invalid ones."""
        counts = self.counts
        counts.rows += loaded.rows
        counts.filtered += loaded.filtered
        counts.repeated_impressions += loaded.repeated
        counts.lost_parts += len(loaded.lost)
        newer = sum(error.kind == "unknown version" for _, error in loaded.wrong)
        counts.unknown_versions += newer
        counts.malformed += self.quarantine.add(wrong) - newer
        for credits in found:
            counts.clicks += 0 if self.separate else credits.events
            not_shown, duplicate, unused, counted = credits.outcomes.tolist()
            counts.clicks_not_shown += not_shown
            counts.duplicate_clicks += duplicate
            counts.unused_clicks += unused
            counts.counted_clicks += counted
            counts.late_clicks += credits.late
            counts.undated_clicks += credits.undated
            counts.without_id -= len(credits.keys)
            for number, units, values in credits.groups:
                counts.inferred += len(units)
                counts.without_id += len(units)
                counts.without_unit += units.null_count
                self.sums(number).add(units, values)
            for number, units, pages in credits.arms:
                counts.in_arms += len(units)
                counts.without_id += len(units)
                counts.without_unit += units.null_count
                self.arm_units(number).add(units, pages)

    def restart(self, counts: Counts, mark: Any) -> None:
        """Go back to earlier counts and a mark of the quarantine, without sums."""
        self.counts, self._sums, self._arms = counts, {}, {}
        self.quarantine.rewind(mark)

    def sums(self, number: int) -> UnitSums:
        """Return the sums of a header."""
        if number not in self._sums:
            header = self.headers.known[number]
            actions = self.settings.actions
            self._sums[number] = UnitSums(
                header.rankers, len(actions.names), by_pair=header.by_pair, cap=self.settings.cap, valued=actions.valued
            )
        return self._sums[number]

    def arm_units(self, number: int) -> ArmUnits:
        """Return the sums of an arm."""
        return self._arms.setdefault(number, ArmUnits(len(self.settings.actions.names)))

    def all_sums(self) -> list[tuple[int, UnitSums | ArmUnits]]:
        """Return the sums of all headers and arms with their numbers, in order."""
        return sorted([*self._sums.items(), *self._arms.items()], key=lambda one: one[0])

    def finish(self, files: int = 0) -> Replay:
        """Return the result."""
        self.counts.count_other_clicks()
        held: dict[tuple[str, frozenset[str], str], Comparison] = {}
        for number, sums in sorted(self._sums.items(), key=lambda one: one[0]):
            header = self.headers.known[number]
            for place, action in enumerate(self.settings.actions.names):
                tally, left_out = sums.tally(place)
                self.counts.units_over_cap += left_out if place == 0 else 0
                found = Comparison(str(header.method), action, tally, rated=self.settings.actions.rates)
                if header.segment is not None and self.settings.segment is not None:
                    by_segment = SegmentedTally(tally.rankers, self.settings.segment)
                    by_segment.tallies[header.segment] = tally
                    found = replace(found, tally=Tally(tally.rankers).merge(tally), segments=by_segment)
                there = held.get(found.key)
                held[found.key] = found if there is None else there.merge(found)
        arms = self._finish_arms()
        return Replay(tuple(held.values()), self.counts, files, **self.quarantine.results(), arms=arms)

    def _finish_arms(self) -> tuple[ArmComparison, ...]:
        """Return the sums of all arms, without units that are in more than one: they belong to none."""
        if not self._arms:
            return ()
        shared = in_two(list(self._arms.values()))
        self.counts.units_in_two_arms += len(shared)
        arms = {self.headers.arm(number): units for number, units in self._arms.items()}
        return tuple(
            ArmComparison(action, {arm: arms[arm].sums(place, shared) for arm in sorted(arms)})
            for place, action in enumerate(self.settings.actions.names)
        )
