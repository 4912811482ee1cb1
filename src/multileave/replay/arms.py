"""Arms of a log: the sums of pages of single rankers, and their A/B verdict."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from multileave.stats import Rules, Verdict
from multileave.stats.arms import Agreement, ArmVerdict
from multileave.stats.arms.judging import agreements, judge_arms
from multileave.stats.arms.sums import ArmSums
from multileave.stats.verdict.verdict import DEFAULT


@dataclass(frozen=True, eq=False)
class ArmComparison:
    """The sums of one action for each arm, and the rules of their verdict."""

    action: str
    sums: dict[str, ArmSums]
    rules: Rules = DEFAULT

    @property
    def verdict(self) -> ArmVerdict | None:
        """The A/B verdict, None if the control's arm has too few units; without a control, the first arm by name is it.

        If looks were scheduled, which is about the comparison, it is valid at any time.
        """
        rules, sums = self.rules, dict(sorted(self.sums.items()))
        control = next((name for name in (rules.control, *sums) if name in sums), None)
        if control is None or sums[control].units < 2:
            return None
        one_look = "clustered" if rules.one_look else "anytime"
        return judge_arms(
            sums, Rules(rules.confidence, interval=one_look, correction=rules.correction, control=control), self.action
        )

    def agreements(self, verdicts: Iterable[Verdict | None]) -> tuple[Agreement, ...]:
        """Return whether verdicts on the same action and the A/B verdict agree."""
        mine = self.verdict
        return () if mine is None else tuple(one for other in verdicts if other for one in agreements(other, mine))

    def merge(self, other: "ArmComparison") -> "ArmComparison":
        """Return both together; sums may be merged in place."""
        merged = dict(self.sums)
        for arm, sums in other.sums.items():
            if arm in merged:
                merged[arm].merge(sums)
            else:
                merged[arm] = sums
        return replace(self, sums=merged)


def merged_arms(found: Iterable[ArmComparison]) -> tuple[ArmComparison, ...]:
    """Return one comparison of arms for each action."""
    held: dict[str, ArmComparison] = {}
    for one in found:
        held[one.action] = held[one.action].merge(one) if one.action in held else one
    return tuple(held.values())
