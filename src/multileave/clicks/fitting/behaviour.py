"""What each user model says about one page: its likelihood, and what it tells about documents and parameters.

A page's likelihood is linear in the attractiveness a of each document whose examination is uncertain. All a page says
about a document is therefore a number of certain clicks and of certain skips, and one factor 1 - rho a: rho is the
probability that the document was examined, given all else on the page, if it cannot be clicked. Parameters are updated
by expected counts (EM): of the times a user could have gone on, say, how often did the user?

Every kernel is called as

    page(order u1[k], n, theta f8[p], a f8[m], rho f8[m], sure f8[m], hit f8[m], weight, num f8[p], den f8[p]) -> log P

with the order of clicks (0: not clicked) of the n documents shown and the expected attractiveness of each. It writes
rho, the certain skips and the certain clicks by document, and adds its expected counts to num and den. m is k, or 2 k
for `bayesian_page`: the second half of a, rho, sure and hit is about the probability that a click does not satisfy.
"""

import numpy as np

from multileave.kernels import kernel

LEAST = 1e-12


@kernel
def position_page(order, n, theta, a, rho, sure, hit, weight, num, den):  # type: ignore[no-untyped-def]
    """Position-based: theta is the examination of each rank."""
    total = 0.0
    for x in range(n):
        sure[x] = 0.0
        den[x] += weight
        if order[x] > 0:
            hit[x] = 1.0
            rho[x] = 0.0
            num[x] += weight
            total += np.log(max(theta[x] * a[x], LEAST))
        else:
            hit[x] = 0.0
            rho[x] = theta[x]
            missed = max(1.0 - theta[x] * a[x], LEAST)
            num[x] += weight * theta[x] * (1.0 - a[x]) / missed
            total += np.log(missed)
    return total


@kernel
def browsing_page(order, n, theta, a, rho, sure, hit, weight, num, den):  # type: ignore[no-untyped-def]
    """User browsing model: theta is the examination by rank and by the rank of the last click above, 0 for none."""
    total = 0.0
    row = 0
    last = 0
    for x in range(n):
        at = row + last
        sure[x] = 0.0
        den[at] += weight
        if order[x] > 0:
            hit[x] = 1.0
            rho[x] = 0.0
            num[at] += weight
            total += np.log(max(theta[at] * a[x], LEAST))
            last = x + 1
        else:
            hit[x] = 0.0
            rho[x] = theta[at]
            missed = max(1.0 - theta[at] * a[x], LEAST)
            num[at] += weight * theta[at] * (1.0 - a[x]) / missed
            total += np.log(missed)
        row += x + 1
    return total


@kernel
def silent_end(order, start, step, n, go_on, a):  # type: ignore[no-untyped-def]
    """Return the probability of no click on the way from `start` in steps of +1 or -1 to the end of the page."""
    chance = 1.0
    x = 0 if step < 0 else n - 1
    while x != start - step:
        if order[x] == 0:
            chance = (1.0 - a[x]) * (1.0 - go_on + go_on * chance)
        x -= step
    return chance


@kernel
def silent_way(order, start, step, n, go_on, reach, whole, a, rho, weight, num, den):  # type: ignore[no-untyped-def]
    """Account for unclicked documents that may have been examined after the last click.

    reach: the probability of coming to `start`, together with all that was observed; whole: that of what was observed.
    Counts of going on after a skip go to num[0] and den[0].
    """
    end = n if step > 0 else -1
    after = 1.0
    x = end - step
    while x != start - step:  # from the end: rho[x] is the probability of no click after x, until it is replaced below
        if order[x] == 0:
            rho[x] = after
            after = (1.0 - a[x]) * (1.0 - go_on + go_on * after)
        x -= step
    x = start
    while x != end:
        if order[x] == 0:
            after = rho[x]
            silent = 1.0 - go_on + go_on * after
            examined = reach * (1.0 - a[x]) * silent
            rho[x] = min(reach * silent / max(whole + reach * a[x] * silent, LEAST), 1.0)
            if x + step != end:
                den[0] += weight * examined / whole
                num[0] += weight * reach * (1.0 - a[x]) * go_on * after / whole
            reach *= (1.0 - a[x]) * go_on
        x += step


@kernel
def cascade_start(order, n, a, rho, sure, hit, weight, go_on, num, den):  # type: ignore[no-untyped-def]
    """Account for all down to the last click, which reading downwards has examined for certain; return that click.

    num, den: where to count going on after a skip.
    """
    last = -1
    for x in range(n):
        rho[x] = 0.0
        sure[x] = 0.0
        hit[x] = 0.0
        if order[x] > 0:
            last = x
            hit[x] = 1.0
    for x in range(last):
        if order[x] == 0:
            sure[x] = 1.0
            num[0] += weight
            den[0] += weight
    return last


@kernel
def dependent_page(order, n, theta, a, rho, sure, hit, weight, num, den):  # type: ignore[no-untyped-def]
    """Cascade; theta: going on after a click at each rank but the last, then going on after a skip."""
    k = len(order)
    go_on = theta[k - 1]
    last = cascade_start(order, n, a, rho, sure, hit, weight, go_on, num[k - 1 :], den[k - 1 :])
    total = 0.0
    for x in range(last + 1):
        if order[x] == 0:
            total += np.log(max((1.0 - a[x]) * go_on, LEAST))
        else:
            total += np.log(max(a[x], LEAST))
            if x < last:
                total += np.log(max(theta[x], LEAST))
                num[x] += weight
                den[x] += weight
    if last == n - 1:
        return total
    stay = theta[last] if last >= 0 else 1.0
    silent = silent_end(order, last + 1, 1, n, go_on, a)
    whole = max(1.0 - stay + stay * silent, LEAST)
    if last >= 0:
        den[last] += weight
        num[last] += weight * stay * silent / whole
    silent_way(order, last + 1, 1, n, go_on, stay, whole, a, rho, weight, num[k - 1 :], den[k - 1 :])
    return total + np.log(whole)


@kernel
def bayesian_page(order, n, theta, a, rho, sure, hit, weight, num, den):  # type: ignore[no-untyped-def]
    """Dynamic Bayesian network; theta: going on if not satisfied, mean satisfaction. a[k:]: chance not to satisfy."""
    k = len(order)
    go_on = theta[0]
    last = cascade_start(order, n, a, rho, sure, hit, weight, go_on, num, den)
    total = 0.0
    for x in range(n):
        rho[k + x] = 0.0
        sure[k + x] = 0.0
        hit[k + x] = 0.0
    for x in range(last + 1):
        if order[x] == 0:
            total += np.log(max((1.0 - a[x]) * go_on, LEAST))
        else:
            total += np.log(max(a[x], LEAST))
            if x < last:
                total += np.log(max(a[k + x] * go_on, LEAST))
                hit[k + x] = 1.0
                num[0] += weight
                den[0] += weight
                den[1] += weight
    if last == n - 1:
        return total
    open_end = a[k + last] if last >= 0 else 1.0
    silent = silent_end(order, last + 1, 1, n, go_on, a)
    reach = 1.0
    if last >= 0:
        ends = 1.0 - go_on + go_on * silent
        whole = max(1.0 - open_end + open_end * ends, LEAST)
        rho[k + last] = 1.0 - ends
        den[1] += weight
        num[1] += weight * (1.0 - open_end) / whole
        den[0] += weight * open_end * ends / whole
        num[0] += weight * open_end * go_on * silent / whole
        reach = open_end * go_on
    else:
        whole = max(silent, LEAST)
    silent_way(order, last + 1, 1, n, go_on, reach, whole, a, rho, weight, num, den)
    return total + np.log(whole)


@kernel
def returning_page(order, n, theta, a, rho, sure, hit, weight, num, den):  # type: ignore[no-untyped-def]
    """Cascade that may go back; theta: going on after a skip, after a click, and going back. log P is of the order."""
    go_on, stay, back = theta[0], theta[1], theta[2]
    count = np.int64(0)
    for x in range(n):
        rho[x] = 0.0
        sure[x] = 0.0
        hit[x] = 1.0 if order[x] > 0 else 0.0
        if order[x] > count:
            count = np.int64(order[x])
    total = 0.0
    here = -1
    for turn in range(1, count + 1):
        there = 0
        while order[there] != turn:
            there += 1
        step = 1 if there > here else -1
        if here >= 0:
            num[1] += weight
            den[1] += weight
            total += np.log(max(stay, LEAST))
            if here > 0:
                den[2] += weight
                num[2] += weight if step < 0 else 0.0
                total += np.log(max(back if step < 0 else 1.0 - back, LEAST))
        x = here + step
        while x != there:
            if order[x] == 0 or order[x] > turn:
                sure[x] += 1.0
                num[0] += weight
                den[0] += weight
                total += np.log(max((1.0 - a[x]) * go_on, LEAST))
            x += step
        total += np.log(max(a[there], LEAST))
        here = there
    if here < 0:
        whole = max(silent_end(order, 0, 1, n, go_on, a), LEAST)
        silent_way(order, 0, 1, n, go_on, 1.0, whole, a, rho, weight, num, den)
        return total + np.log(whole)
    up = back if here > 0 else 0.0
    below = silent_end(order, here + 1, 1, n, go_on, a) if here < n - 1 else 1.0
    above = silent_end(order, here - 1, -1, n, go_on, a) if here > 0 else 1.0
    on = stay * ((1.0 - up) * below + up * above)
    whole = max(1.0 - stay + on, LEAST)
    den[1] += weight
    num[1] += weight * on / whole
    if here > 0:
        den[2] += weight * on / whole
        num[2] += weight * stay * up * above / whole
    silent_way(order, here + 1, 1, n, go_on, stay * (1.0 - up), whole, a, rho, weight, num, den)
    if here > 0:
        silent_way(order, here - 1, -1, n, go_on, stay * up, whole, a, rho, weight, num, den)
    return total + np.log(whole)
