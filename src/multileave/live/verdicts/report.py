"""Report: what an experiment says about one action, now from its tallies, and over time from its looks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from multileave.live.experiment import Experiment
from multileave.live.records import History, Look, LookPair, Traffic
from multileave.live.store.times import from_micros
from multileave.live.verdicts.arms import SumsByAction
from multileave.live.verdicts.stored_tallies import rules_of
from multileave.methods import get_method
from multileave.stats.arms import Agreement, ArmVerdict
from multileave.stats.arms.judging import agreements, judge_arms
from multileave.stats.health import Health
from multileave.stats.rates.wording import note_on
from multileave.stats.tally.grouped_tally import GroupedTally
from multileave.stats.verdict.rules import Rules
from multileave.stats.verdict.verdict import Verdict


@dataclass(frozen=True)
class Report:
    """What an experiment says about one action.

    as_of: all impressions before this time, with their events, are counted. stale: newer ones are not, since they could
    not be added now. look: the number of the last scheduled look, and the tallies as they were then. arm_sums: of its
    arms, by action.
    """

    experiment: Experiment
    action: str
    tallies: dict[str, GroupedTally]
    as_of: datetime
    stale: bool = False
    look: tuple[int, dict[str, GroupedTally]] = field(default=(0, {}))
    arm_sums: SumsByAction = field(default_factory=dict)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the action; None with fewer than two units, or before the first scheduled look."""
        definition, (look, tallies) = self.experiment.definition, self.look
        tally = (tallies if definition.looks else self.tallies).get(self.action)
        return None if tally is None or tally.units < 2 else tally.verdict(rules_of(self.experiment, look))

    @cached_property
    def arms(self) -> ArmVerdict | None:
        """The A/B verdict on the action, valid at any time; None without arms, or with too few units in them.

        If the control has an arm, others are compared with it, or else with the first arm.
        """
        definition, sums = self.experiment.definition, self.arm_sums.get(self.action, {})
        control = next((name for name in (definition.control, *sums) if name in sums), None)
        if control is None or sums[control].units < 2:
            return None
        return judge_arms(sums, Rules(definition.confidence, interval="anytime", control=control), self.action)

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """Whether the comparison and the A/B verdict agree about each ranker with an arm."""
        return () if self.verdict is None or self.arms is None else agreements(self.verdict, self.arms)

    @property
    def rates_note(self) -> str:
        """Why rates are missing or imprecise, and what to do; empty if they are fine, or there is no verdict."""
        method = get_method(self.experiment.definition.method)
        return "" if self.verdict is None else note_on(self.verdict.rates, method)

    @property
    def health(self) -> Health | None:
        """The health of the data; None with fewer than two units."""
        tally = self.tallies[self.action]
        return tally.health() if tally.units > 1 else None

    @property
    def traffic(self) -> Traffic:
        """How much the experiment has recorded."""
        first = next(iter(self.tallies.values()))
        return Traffic(
            impressions=first.impressions,
            units=first.units,
            events={action: tally.clicks for action, tally in self.tallies.items()},
            without_clicks=first.evidence.without_clicks,
            fallbacks=first.evidence.fallbacks_without(first.rankers, self.experiment.dropped),
        )


def history_of(experiment: Experiment, action: str, rows: Sequence[Any]) -> History:
    """Return the preferences over time from stored looks, oldest first."""
    names = experiment.definition.rankers
    pairs = [(first, second) for n, first in enumerate(names) for second in names[n + 1 :]]
    looks = []
    for row in rows:
        units, values, *_ = json.loads(row.state)[action]
        known = tuple(LookPair(pair, *three) for pair, three in zip(pairs, values, strict=True))
        looks.append(Look(from_micros(row.at), row.impressions, units, known))
    return History(experiment.number, action, tuple(looks))
