"""ArmTally: the pages of arms and the clicks on them, by unit, for an A/B test."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from multileave.errors import TallyError
from multileave.impression import Impression
from multileave.methods._page import checked_position, earned_values, position_of
from multileave.outcome import Floats
from multileave.stats.arms.judging import judge_arms
from multileave.stats.arms.metrics import page_metrics
from multileave.stats.arms.records import ArmVerdict
from multileave.stats.arms.sums import WIDTH, ArmSums
from multileave.stats.parsing import plain_unit
from multileave.stats.verdict.rules import Rules


class ArmTally:
    """Pages of arms by unit. A unit belongs to one arm; None is its own unit.

    >>> tally = ArmTally()
    >>> for user in range(300):
    ...     arm, appeal = ("ltr", 3) if user % 2 else ("bm25", 4)
    ...     page = Impression.alone(arm, ["d1", "d2"], k=2)
    ...     tally.add(page, clicks=["d1"] if user % appeal == 0 else [], unit=user)
    >>> verdict = tally.verdict(control="bm25")
    >>> print("\\n".join(str(verdict).splitlines()[:3]))
    clicks
      bm25: 0.500 per page, 95 % CI 0.419 to 0.581
      ltr: 0.333 per page, -33 %, 95 % CI -51 to -13, p = 0.003
    """

    def __init__(self) -> None:
        self._units: dict[str, dict[Hashable, Floats]] = {}
        self._arm_of: dict[Hashable, str] = {}
        self._sums: dict[str, ArmSums] = {}  # of units that are not kept: those of None, and squares

    def add(
        self,
        impression: Impression,
        clicks: Iterable[Hashable] = (),
        *,
        positions: Iterable[int] = (),
        unit: Hashable = None,
        values: Mapping[Hashable, float] | None = None,
    ) -> None:
        """Add a page that `Impression.alone` made; clicks, positions and values are as in `infer`."""
        arm = impression.arm
        if arm is None:
            raise TallyError(
                f"The impression compares {', '.join(impression.rankers)}; expected a page of one ranker, made by "
                "Impression.alone. Add the outcome that `infer` returns to a Tally instead."
            )
        shown = impression.shown
        clicked = {position_of(shown, click) for click in clicks}
        clicked |= {checked_position(shown, position) for position in positions}
        worth = {} if values is None else dict(enumerate(earned_values(shown, values).tolist()))
        self.add_page(arm, page_metrics(impression, clicked, worth), unit)
        self._sums[arm].missing += int(impression.lengths[0] == 0)

    def add_page(self, arm: str, page: Floats, unit: Hashable = None) -> None:
        """Add a page by its metrics, (4,)."""
        sums = self._sums.setdefault(arm, ArmSums())
        row = np.append(page, 1.0)
        sums.add_squares(page)
        if unit is None:
            sums.add_units(row[None])
            return
        unit = plain_unit(unit)
        if self._arm_of.setdefault(unit, arm) != arm:
            raise TallyError(
                f"Unit {unit!r} saw pages of {self._arm_of[unit]!r} and of {arm!r}; a unit belongs to one arm. "
                "Assign arms by a hash of the unit."
            )
        held = self._units.setdefault(arm, {})
        held[unit] = held.get(unit, 0.0) + row

    @property
    def arms(self) -> dict[str, ArmSums]:
        """The sums of each arm."""
        found = {}
        for arm, singles in sorted(self._sums.items()):
            found[arm] = ArmSums()
            found[arm].merge(singles)
            rows: Any = list(self._units.get(arm, {}).values())
            found[arm].add_units(np.array(rows).reshape(-1, WIDTH))
        return found

    def verdict(
        self,
        *,
        control: str | None = None,
        confidence: float = 0.95,
        interval: str = "clustered",
        correction: str = "holm",
    ) -> ArmVerdict:
        """Return the verdict of the A/B test.

        control: the arm that others are compared with; the first by name if left out.
        interval: "clustered" for one look, "anytime" if you look as often as you like.
        """
        return judge_arms(self.arms, Rules(confidence, interval=interval, correction=correction, control=control))
