"""Powers: sums over units of products of three and four numbers, from which the shape of residuals follows.

Of a unit, ranker r has z = (C, W, n): what it earned, its surplus and the impressions. Let q be the six different
products of two of these. The sums over units of q z' and q q' give those of e^3 and e^4 for any residual

    e = C - b W - mu n = l' z,    l = (1, -b, -mu),

as e^2 = m' q, where m has the squares and twice the products of l. So b and mu need not be known when units are added.
"""

import numpy as np

from multileave.outcome import Floats

SHAPE = (6, 9)  # of one ranker: q by (z, q)
_FIRST, _SECOND = np.triu_indices(3)
_TWICE = np.where(_FIRST == _SECOND, 1.0, 2.0)
_BLOCK = 20_000  # units whose products are held at once


def powers_of(rows: Floats) -> Floats:
    """Return the sums over units' rows of `RateSums`, (u, 2R + 1), of q (z, q)' by ranker, (R, 6, 9)."""
    rankers = rows.shape[1] // 2
    found = np.zeros((rankers, *SHAPE))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        shown = np.broadcast_to(block[:, -1:], (len(block), rankers))
        z = np.stack([block[:, :rankers], block[:, rankers:-1], shown], axis=-1)
        q = z[..., _FIRST] * z[..., _SECOND]
        found += np.matmul(q.transpose(1, 2, 0), np.concatenate([z, q], axis=-1).transpose(1, 0, 2))
    return found


def residual_powers(powers: Floats, slopes: Floats, means: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the sums over units of e^3, e^4 and e^2 n by ranker, each (R,).

    >>> earned = np.array([4.0, 2.0, 0.0])
    >>> rows = np.column_stack([earned, np.zeros(3), np.ones(3)])
    >>> residual_powers(powers_of(rows), np.zeros(1), np.ones(1))
    (array([27.]), array([83.]), array([11.]))
    """
    line = np.stack([np.ones_like(slopes), -slopes, -means], axis=-1)
    weights = line[:, _FIRST] * line[:, _SECOND] * _TWICE
    squared: Floats = np.einsum("rq,rqp->rp", weights, powers)  # sums of e^2 z and e^2 q
    cubes = (squared[:, :3] * line).sum(axis=1)
    return cubes, (squared[:, 3:] * weights).sum(axis=1), squared[:, 2]
