"""What parts of a log gave, merged: in any order, the same but for rounding."""

import json
from collections import Counter
from dataclasses import replace

from multileave.replay.report import EXAMPLES, Comparison, Counts, Replay

__all__ = ["in_order", "merge_counts", "merge_replays"]


def merge_replays(first: Replay, second: Replay) -> Replay:
    """Return what both found, which may be the first's tallies with the second's merged into them."""
    held = {_key(c): c for c in first.comparisons}
    for comparison in second.comparisons:
        there = held.get(_key(comparison))
        if there is not None:
            # Rankers may stand in several orders: the least is kept, whatever comes first.
            into, other = sorted((there.tally, comparison.tally), key=lambda tally: tally.rankers)
            comparison = replace(there, tally=into.merge(other))
        held[_key(comparison)] = comparison
    examples = sorted((*first.examples, *second.examples), key=lambda entry: json.dumps(entry, sort_keys=True))
    return replace(
        first,
        comparisons=tuple(held.values()),
        counts=merge_counts(first.counts, second.counts),
        files=first.files + second.files,
        examples=tuple(examples[:EXAMPLES]),
        reasons=dict(Counter(first.reasons) + Counter(second.reasons)),
    )


def merge_counts(first: Counts, second: Counts) -> Counts:
    """Return the sum of both."""
    return Counts(**{name: value + getattr(second, name) for name, value in vars(first).items()})


def in_order(found: Replay, actions: tuple[str, ...]) -> Replay:
    """Return the same with its comparisons by method, rankers and the order of the actions."""
    ordered = sorted(found.comparisons, key=lambda c: (c.method, c.tally.rankers, actions.index(c.action)))
    return replace(found, comparisons=tuple(ordered))


def _key(comparison: Comparison) -> tuple[str, frozenset[str], str]:
    return comparison.method, frozenset(comparison.tally.rankers), comparison.action
