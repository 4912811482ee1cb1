"""The exact test for few units that carry evidence: would their sums add up to as much with random signs?

If two rankers are exchangeable, a unit's summed preference S_u is as likely as -S_u. Given all |S_u|, every choice of
signs is then equally likely, and the p-value is the share of the 2^K choices, for K units whose sum is not zero, with

    |sum_u +-|S_u|| >= |sum_u S_u|.

The test is exact at any size under this symmetry [fisher1935], and asymptotically valid if only the mean is zero, as
the signs leave sum S_u^2, and so the studentised statistic's scale, unchanged [janssen1999]. Units whose sum is zero
carry no evidence and do not take part: with four purchases for one of two rankers p = 2 / 2^4, however many people
bought nothing. With fewer than six such units nothing is significant at 5 %.

If all |S_u| are equal, as if each unit votes once, it is the sign test. The sum then takes every other integer only,
and Student's t would be significant in 6.5 % of A/A comparisons of 50 such units, and in 6.2 % of 104.
"""

from collections.abc import Mapping

import numpy as np

from multileave.outcome import Floats
from multileave.stats.intervals.clustered import Intervals
from multileave.stats.intervals.crosschecks import sign_test

FEW = 30  # units: with more, Student's t is close enough, and 2^K choices take too long to count
FEW_EQUAL = 200  # units with equal sums: with more, Student's t is close enough
_ROUNDING = 1e-9


def sign_flip_p(sums: Floats) -> float:
    """Return the two-sided p-value of units' sums, none of them zero.

    The choices of half the signs are listed, and those of the other half counted by sorting: 2^(K / 2) steps. More than
    `FEW` sums must be of equal size.

    >>> sign_flip_p(np.ones(4)), sign_flip_p(np.array([1.0, 2.0, -4.0])), sign_flip_p(np.array([]))
    (0.125, 1.0, 1.0)
    """
    sizes = np.abs(sums)
    if len(sums) > FEW:
        return float(sign_test((sums > 0.0).sum(), (sums < 0.0).sum()))
    reached = abs(float(sums.sum())) - _ROUNDING * float(sizes.sum())
    if reached <= 0.0:
        return 1.0
    half = len(sizes) // 2
    one, other = _signed_sums(sizes[:half]), _signed_sums(sizes[half:])
    other.sort()
    above = len(other) - np.searchsorted(other, reached - one)
    return min(2.0 * float(above.sum()) / 2.0 ** len(sizes), 1.0)


def _signed_sums(sizes: Floats) -> Floats:
    """Return the sums of the sizes with every choice of signs."""
    found = np.zeros(1)
    for size in sizes.tolist():
        found = np.concatenate([found + size, found - size])
    return found


def exact_for_few(intervals: Intervals, sums: Mapping[int, Floats], confidence: float) -> Intervals:
    """Return intervals for one look with the exact test for pairs whose units' sums are given, by position."""
    return with_p(intervals, {pair: sign_flip_p(values) for pair, values in sums.items()}, confidence)


def with_p(intervals: Intervals, exact: Mapping[int, float], confidence: float) -> Intervals:
    """Return intervals with the p-values of another test for some pairs, by position of the pair.

    The interval stays, except that the end nearer to zero moves to zero if it disagrees with the test: just beyond it
    if p > alpha, just short of it otherwise. So it excludes zero exactly if p <= alpha.
    """
    means, lows, highs, p = (values.copy() for values in intervals[:4])
    for pair, value in exact.items():
        p[pair] = value
        significant = bool(p[pair] <= 1.0 - confidence)
        if bool(lows[pair] > 0.0 or highs[pair] < 0.0) != significant:
            nearer = lows if means[pair] > 0.0 else highs
            nearer[pair] = means[pair] * (_ROUNDING if significant else -_ROUNDING)
    return Intervals(means, lows, highs, p, intervals.multipliers)
