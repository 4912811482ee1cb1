"""Corrections of p-values for multiple comparisons."""

from collections.abc import Callable

import numpy as np

from multileave.outcome import Floats


def holm(p: Floats) -> Floats:
    """Return p-values corrected by Holm's step-down rule [holm1979].

    The i-th smallest of m is multiplied by m - i + 1, and none may be smaller than its predecessor. The probability
    that any true null hypothesis has a corrected value of at most alpha is at most alpha. For p-values that are valid
    at any time this holds at any time: an error requires one of the m0 true hypotheses to fall to alpha / m0 at some
    look.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(stepped, 1.0)
    return result


def benjamini_hochberg(p: Floats) -> Floats:
    """Return p-values corrected for the false discovery rate [benjamini1995].

    The i-th smallest of m is multiplied by m / i, and none may be larger than its successor. Of the pairs at or below
    alpha, an expected share of at most alpha are false discoveries, for one look, if the p-values are independent or
    positively dependent. Differences between rankers need not be; `benjamini_yekutieli` assumes nothing.

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p, kind="stable")
    stepped = p[order] * len(p) / np.arange(1, len(p) + 1)
    result = np.empty_like(p)
    result[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return result


def benjamini_yekutieli(p: Floats) -> Floats:
    """Return p-values corrected for the false discovery rate under any dependence [benjamini2001].

    Benjamini and Hochberg's times 1 + 1 / 2 + ... + 1 / m.

    >>> benjamini_yekutieli(np.array([0.01, 0.04, 0.03])).round(4).tolist()
    [0.055, 0.0733, 0.0733]
    """
    result: Floats = np.minimum(benjamini_hochberg(p) * (1.0 / np.arange(1, len(p) + 1)).sum(), 1.0)
    return result


# Where max-t cannot be used, it is Holm's rule; see `intervals.max_t`.
CORRECTIONS: dict[str, Callable[[Floats], Floats]] = {
    "holm": holm, "max-t": holm, "bh": benjamini_hochberg, "by": benjamini_yekutieli, "none": np.copy,
}  # fmt: skip
