"""Report: what an experiment says about one action, from its tallies."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from multileave.live.aggregation import rules_of
from multileave.live.experiment import Experiment
from multileave.live.records import Traffic
from multileave.stats.health import Health
from multileave.stats.tally.grouped_tally import GroupedTally
from multileave.stats.verdict.verdict import Verdict


@dataclass(frozen=True)
class Report:
    """What an experiment says about one action.

    as_of: all impressions before this time, with their events, are counted. stale: newer ones are not, since they could
    not be added now.
    """

    experiment: Experiment
    action: str
    tallies: dict[str, GroupedTally]
    as_of: datetime
    stale: bool = False

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the action; None with fewer than two units."""
        tally = self.tallies[self.action]
        return tally.verdict(rules_of(self.experiment.definition)) if tally.units > 1 else None

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
            fallbacks=first.evidence.fallbacks,
        )
