"""Corrections of p-values for looking at many pairs."""

from collections.abc import Callable

import numpy as np

from multileave.errors import TallyError, nearest
from multileave.outcome import Floats

__all__ = ["CORRECTIONS", "benjamini_hochberg", "corrected", "holm"]


def holm(p: Floats) -> Floats:
    """Return p-values corrected for looking at all of them, by Holm's step-down rule [holm1979].

    The i-th smallest of m is multiplied by m - i + 1, and none may be smaller than one before it. The
    chance that any true null hypothesis has a corrected value of at most alpha is at most alpha. That
    stays so at any time for p-values that are valid at any time: a mistake needs one of the m0 true
    hypotheses to fall to alpha / m0, whenever one looks.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(stepped, 1.0)
    return result


def benjamini_hochberg(p: Floats) -> Floats:
    """Return p-values corrected for the share of false discoveries [benjamini1995].

    The i-th smallest of m is multiplied by m / i, and none may be larger than one after it. Of the
    pairs at or below alpha a share of at most alpha is false in expectation, for one look.

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p, kind="stable")
    stepped = p[order] * len(p) / np.arange(1, len(p) + 1)
    result = np.empty_like(p)
    result[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return result


CORRECTIONS: dict[str, Callable[[Floats], Floats]] = {"holm": holm, "bh": benjamini_hochberg, "none": np.copy}


def corrected(p: Floats, correction: str) -> Floats:
    """Return p-values corrected by a rule's name."""
    if correction not in CORRECTIONS:
        raise TallyError(
            f"correction is {correction!r}; expected one of {', '.join(CORRECTIONS)}.{nearest(correction, CORRECTIONS)}"
        )
    return CORRECTIONS[correction](p)
