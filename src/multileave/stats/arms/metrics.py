"""What a page of one ranker is worth to its user: the metrics of an A/B test, from the clicks on the page."""

from collections.abc import Collection, Mapping

import numpy as np

from multileave.errors import TallyError
from multileave.impression import Impression
from multileave.outcome import Floats

METRICS = ("clicks", "success", "reciprocal_rank", "value")
"""The metrics that are summed: clicked documents, whether there is one, 1 / rank of the highest, and their value."""
SUCCESS, VALUE = 1, 3
LARGEST_VALUE = 1e12


def page_metrics(
    impression: Impression, positions: Collection[int], values: Mapping[int, float] | None = None
) -> Floats:
    """Return the metrics of a page, (4,); pinned results do not count.

    positions: of the clicked results, from 0. values: what clicked results are worth, such as revenue, by position.

    >>> page = Impression.alone("bm25", ["d1", "d2", "d3"], k=3)
    >>> page_metrics(page, [1, 2], {2: 9.5}).tolist()
    [2.0, 1.0, 0.5, 9.5]
    """
    pinned = {position for position, _ in impression.pinned}
    clicked = {int(position) for position in positions} - pinned
    wrong = next((position for position in clicked if not 0 <= position < len(impression.shown)), None)
    if wrong is not None:
        raise TallyError(
            f"Position {wrong} was clicked, but the page has positions 0 to {len(impression.shown) - 1}. "
            "Pass positions of the shown documents."
        )
    found = np.zeros(len(METRICS))
    if clicked:
        worth = float(sum((values or {}).get(position, 0.0) for position in clicked))
        if not abs(worth) <= LARGEST_VALUE:
            raise TallyError(f"The page's value is {worth}; expected a number of at most {LARGEST_VALUE:g}.")
        found[:] = len(clicked), 1.0, 1.0 / (1 + min(clicked)), worth
    return found
