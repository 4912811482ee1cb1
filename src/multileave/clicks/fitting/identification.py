"""Whether a log can tell examination from attractiveness: only if clicked documents were shown at several ranks."""

import numpy as np

from multileave.clicks.fitting.conditional import rank_situations
from multileave.clicks.fitting.pages import Pages
from multileave.errors import DataError


def linked_ranks(pages: Pages) -> int:
    """Return how many ranks from the top are linked with rank 1 by clicked documents shown at several ranks."""
    table = rank_situations(pages)
    weights = pages.row_weights()[table.rows]
    clicked = np.bincount(table.cell, weights * table.clicked, minlength=len(table.situation))
    group = list(range(pages.k))
    starts = table.start
    several = np.flatnonzero((np.diff(starts) > 1) & (np.add.reduceat(np.append(clicked, 0.0), starts[:-1]) > 0))
    for links in {tuple(table.situation[starts[d] : starts[d + 1]].tolist()) for d in several}:
        joined = {group[rank] for rank in links}
        group = [min(joined) if g in joined else g for g in group]
    linked = [g == group[0] for g in group]
    return linked.index(False) if False in linked else pages.k


def require_identified(pages: Pages) -> int:
    """Return how many ranks can be fitted, or raise `DataError` if examination cannot be told from attractiveness."""
    if pages.clicks == 0:
        raise DataError(
            f"None of the {len(pages.page_row):,} pages has a click, so there is nothing to fit. Pass a log with "
            "clicks; if clicks are in separate files, pass them with --clicks."
        )
    if pages.k < 2:
        raise DataError(
            "The log cannot identify examination: pages were read to rank 1 only. Expected pages of at least two "
            "results, and k of at least 2."
        )
    if not (pages.row_order[:, 0] > 0).any():
        raise DataError(
            f"None of the {pages.clicks:,} clicks is at rank 1, and examination is relative to it. Check that "
            "positions of clicks count from 0."
        )
    ranks = linked_ranks(pages)
    if ranks < 2:
        raise DataError(
            "The log cannot identify examination: no clicked document was shown at rank 1 and at another rank for the "
            "same query, so a low click rate can mean that a rank is rarely examined or that its documents are not "
            "attractive. Log pages whose order varies, such as those of an interleaving experiment."
        )
    return ranks
