"""Values of events: what an action on a document is worth, such as the price of what was bought."""

from collections.abc import Iterable
from typing import Any


def values_by_position(events: Iterable[Any]) -> dict[int, float]:
    """Return the largest value of the events on each position, of those that have one."""
    found: dict[int, float] = {}
    for event in events:
        if event.value is not None:
            found[event.position] = max(event.value, found.get(event.position, event.value))
    return found
