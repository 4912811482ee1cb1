"""How likely each rank is clicked, and how likely a set of clicks is, under each model: what perplexity needs.

Every kernel of rates is called as

    rates(n, theta f8[p], a f8[m], out f8[k], work f8[..])

with the attractiveness of the n documents shown (and, for `bayesian_rates`, from a[k] the probability that a click
does not satisfy), and writes the probability of a click at each rank, whatever else was clicked.
"""

import numpy as np

from multileave.clicks.fitting.behaviour import LEAST, silent_end
from multileave.kernels import kernel

NEGLIGIBLE = 1e-5  # sequences of clicks less likely than this are left out of `returning_rates`
MOST_CLICKS = 12  # of sets whose orders are all counted


@kernel
def position_rates(n, theta, a, out, work):  # type: ignore[no-untyped-def]
    """Write examination times attractiveness."""
    for x in range(n):
        out[x] = theta[x] * a[x]


@kernel
def browsing_rates(n, theta, a, out, work):  # type: ignore[no-untyped-def]
    """Write the click rates by the law of the last click above."""
    work[0] = 1.0
    row = 0
    for x in range(n):
        out[x] = 0.0
        for last in range(x + 1):
            clicked = work[last] * theta[row + last] * a[x]
            out[x] += clicked
            work[last] -= clicked
        work[x + 1] = out[x]
        row += x + 1


@kernel
def dependent_rates(n, theta, a, out, work):  # type: ignore[no-untyped-def]
    """Write the click rates of a reader who goes down."""
    k = len(theta)
    reach = 1.0
    for x in range(n):
        out[x] = reach * a[x]
        stay = theta[x] if x < k - 1 else 0.0
        reach *= a[x] * stay + (1.0 - a[x]) * theta[k - 1]


@kernel
def bayesian_rates(n, theta, a, out, work):  # type: ignore[no-untyped-def]
    """Write the click rates of a reader who goes down until satisfied."""
    k = len(out)
    reach = 1.0
    for x in range(n):
        out[x] = reach * a[x]
        reach *= (a[x] * a[k + x] + 1.0 - a[x]) * theta[0]


@kernel
def returning_rates(n, theta, a, out, work):  # type: ignore[no-untyped-def]
    """Write the click rates of a reader who may go back, by following all sequences of clicks that are not negligible.

    work: for each click of the sequence its position, its probability, and where the walk to the next click stands.
    """
    go_on, stay, back = theta[0], theta[1], theta[2]
    depth = n + 1
    place, chance, step, at, reach = work[:depth], work[depth:], work[2 * depth :], work[3 * depth :], work[4 * depth :]
    clicked = work[5 * depth :]
    for x in range(n):
        out[x] = 0.0
        clicked[x] = 0.0
    place[0] = -1.0
    chance[0] = 1.0
    step[0] = 1.0
    at[0] = 0.0
    reach[0] = 1.0
    level = 0
    while level >= 0:
        x = int(at[level])
        if x < 0 or x >= n or reach[level] < NEGLIGIBLE:
            here = int(place[level])
            if step[level] < 0.0 or here < 0:
                if here >= 0:
                    clicked[here] = 0.0
                level -= 1
                continue
            step[level] = -1.0
            at[level] = here - 1.0
            reach[level] = chance[level] * stay * back if here > 0 else 0.0
            continue
        at[level] += step[level]
        if clicked[x] > 0.0:
            continue
        hit = reach[level] * a[x]
        reach[level] *= (1.0 - a[x]) * go_on
        out[x] += hit
        if hit >= NEGLIGIBLE:
            clicked[x] = 1.0
            level += 1
            place[level] = x
            chance[level] = hit
            step[level] = 1.0
            at[level] = x + 1.0
            reach[level] = hit * stay * (1.0 - back if x > 0 else 1.0)


@kernel
def returning_set(order, n, theta, a, work):  # type: ignore[no-untyped-def]
    """Return log P of the clicked set, over all orders in which it can be clicked.

    work: 2^c (c + 1) numbers for c clicks, the probability of having clicked a subset, by its last click. With more
    than `MOST_CLICKS` clicks, P of the observed order is returned, which is less.
    """
    go_on, stay, back = theta[0], theta[1], theta[2]
    count = 0
    places = np.zeros(len(order), dtype=np.int64)
    for x in range(n):
        if order[x] > 0:
            places[count] = x
            count += 1
    if count == 0:
        return np.log(max(silent_end(order, 0, 1, n, go_on, a), LEAST))
    now = order.copy()
    total = 0.0
    subsets = 1 << count
    reached = work[: subsets * count].reshape((subsets, count))
    reached[:] = 0.0
    chance = 1.0
    for x in range(n):  # the first click
        if order[x] > 0:
            for j in range(count):
                if places[j] == x:
                    reached[1 << j, j] = chance * a[x]
        chance *= (1.0 - a[x]) * go_on
    for subset in range(1, subsets):
        for j in range(count):
            here = reached[subset, j]
            if here <= 0.0:
                continue
            m = places[j]
            for i in range(count):
                now[places[i]] = (subset >> i) & 1
            up = back if m > 0 else 0.0
            if subset == subsets - 1:
                below = silent_end(now, m + 1, 1, n, go_on, a) if m < n - 1 else 1.0
                above = silent_end(now, m - 1, -1, n, go_on, a) if m > 0 else 1.0
                total += here * (1.0 - stay + stay * ((1.0 - up) * below + up * above))
                continue
            for way in range(2):
                step = 1 - 2 * way
                chance = here * stay * (up if way == 1 else 1.0 - up)
                x = m + step
                i = j + step
                while 0 <= x < n:
                    if now[x] == 0:
                        while places[i] != x and 0 <= i + step < count and (places[i] - x) * step < 0:
                            i += step
                        if 0 <= i < count and places[i] == x:
                            reached[subset | (1 << i), i] += chance * a[x]
                        chance *= (1.0 - a[x]) * go_on
                    x += step
    return np.log(max(total, LEAST))
