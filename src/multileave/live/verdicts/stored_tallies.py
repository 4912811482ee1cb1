"""Stored tallies: reading what an experiment's verdicts are computed from, and the rules they are judged by."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from multileave.live.experiment import Experiment
from multileave.live.store import aggregates
from multileave.live.store.database import Connection
from multileave.methods import get_method
from multileave.stats.rates.values import split_action
from multileave.stats.tally.grouped_tally import GroupedTally, UnitRow, outdated
from multileave.stats.verdict.rules import Rules


def rules_of(experiment: Experiment, look: int = 0) -> Rules:
    """Return the rules of an experiment's verdict: at a scheduled look, or else at any time."""
    definition = experiment.definition
    rules = Rules(
        definition.confidence, interval="anytime", tuned_for=definition.tuned_for, estimand=definition.estimand,
        cap=definition.cap, winsorise=definition.winsorise, control=definition.control,
    )  # fmt: skip
    if not definition.looks:
        return replace(rules, dropped=experiment.dropped)
    fractions = tuple(units / definition.looks[-1] for units in definition.looks)
    return replace(rules, interval="scheduled", tuned_for=None, looks=fractions, look=look)


def read_scheduled(row: Any) -> tuple[int, dict[str, GroupedTally]]:
    """Return the number of a scheduled look and its tallies; 0 and none without one."""
    if row is None:
        return 0, {}
    found = {action: kept for action, (_, _, kept) in json.loads(row.state).items()}
    look: int = next(iter(found.values()))["look"]
    return look, {action: GroupedTally.from_dict(kept["tally"]) for action, kept in found.items()}


def read_tallies(connection: Connection, experiment: Experiment, state: str | None) -> dict[str, GroupedTally]:
    """Return the tally of each action; what tallies of an earlier version lack is taken from their units."""
    definition = experiment.definition
    if not state:
        rated = get_method(definition.method).estimates_rates
        return {
            action: GroupedTally(definition.rankers, rated=rated, valued=split_action(action)[1])
            for action in definition.actions
        }
    read = json.loads(state)
    tallies = {action: GroupedTally.from_dict(read[action]) for action in definition.actions}
    if is_outdated(state):
        end = 1 + next(iter(tallies.values())).pairs
        for unit, count, raw in aggregates.load_all_units(connection, experiment.number):
            rows = np.frombuffer(raw).reshape(len(tallies), -1)[:, :end]
            for row, tally in zip(rows, tallies.values(), strict=True):
                tally.change(None, UnitRow(count, int(row[0]), row[1:]), unit)
    return tallies


def is_outdated(state: str | None) -> bool:
    """Return whether an earlier version, which kept less, wrote these tallies."""
    return bool(state) and any(outdated(tally) for tally in json.loads(state or "").values())
