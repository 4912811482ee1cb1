"""Dropping: leaving rankers that lost out of later pages, decided by the verdict on the primary action."""

from dataclasses import asdict, replace

from multileave.live.access.actor import PROGRAM
from multileave.live.experiment import Drop, Experiment
from multileave.live.store import audit
from multileave.live.store import experiments as stored
from multileave.live.store.database import Connection, Store
from multileave.live.store.times import from_micros, now
from multileave.live.verdicts.aggregation import Aggregator
from multileave.live.verdicts.stored_tallies import rules_of
from multileave.stats.dropping import losses


def drop_losers(store: Store, aggregator: Aggregator, experiment: Experiment) -> bool:
    """Drop the rankers that lost by the tallies as they are now, if the experiment does so; return whether any did."""
    if not _drops(experiment):
        return False
    with store.read() as connection:
        if not _losses(connection, aggregator, experiment):
            return False
    with store.write() as connection:
        found = stored.load(connection, experiment.number, lock=True)
        for drop in _losses(connection, aggregator, found):
            found = replace(found, drops=(*found.drops, drop))
            audit.record(connection, "dropped", found.number, asdict(drop), actor=PROGRAM)
        stored.update(connection, found)
    return True


def _drops(experiment: Experiment) -> bool:
    return experiment.definition.drop == "losers" and experiment.status == "running"


def _losses(connection: Connection, aggregator: Aggregator, experiment: Experiment) -> list[Drop]:
    if not _drops(experiment):  # perhaps it was stopped meanwhile
        return []
    tally = next(iter(aggregator.tallies(connection, experiment).values()))
    if tally.units < 2:
        return []
    verdict, at = tally.verdict(rules_of(experiment)), from_micros(now())
    return [
        Drop(
            loser, at, pair.rankers[0], verdict.impressions, verdict.units, pair.preference, pair.low, pair.high,
            pair.p_corrected,
        )
        for loser, pair in losses(verdict, experiment.definition.control)
    ]  # fmt: skip
