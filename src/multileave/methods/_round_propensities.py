"""Propensities of rpm: the probability that a shown document is shown where it is, over all groups and leads.

They depend on all of the rankings, of which an impression keeps only the shown documents' ranks. So `weigh_rounds`
computes them with the draw, and the impression keeps them as its `stat`.
"""

from multileave.kernels import kernel

MOST_GROUPS = 15  # whose courses are added up for propensities: up to six different rankers, by fours


@kernel
def is_copy(top, ranker):  # type: ignore[no-untyped-def]
    """Return whether an earlier ranker has the same documents in the same order."""
    for other in range(ranker):
        x = 0
        while x < top.shape[1] and top[other, x] == top[ranker, x]:
            x += 1
        if x == top.shape[1]:
            return True
    return False


@kernel
def nominate(top, ranker, place, stamp, number):  # type: ignore[no-untyped-def]
    """Return a ranker's first document of no earlier round, stamped; -1 if it has none or another ranker was first.

    place: how far each ranker has read its ranking. stamp: 0, or one more than the round of each document.
    """
    x = place[ranker]
    while x < top.shape[1] and top[ranker, x] >= 0 and 0 < stamp[top[ranker, x]] <= number:
        x += 1
    place[ranker] = x
    if x == top.shape[1] or top[ranker, x] < 0 or stamp[top[ranker, x]] != 0:
        return -1
    stamp[top[ranker, x]] = number + 1
    return top[ranker, x]


@kernel
def add_course(top, members, group, start, weight, end, where, out, place, stamp, nominated):  # type: ignore[no-untyped-def]
    """Add one course of the draw to the propensities: the rounds of a group after a start, which is stamped.

    Without its random orders a course is fixed: a round is full of the same documents in any order, so each of its s
    documents is at each of its ranks with chance 1 / s. where: the position of each shown document, else -1.
    """
    rankers = len(top)
    m = start
    number = start
    everyone = False
    place[:] = 0
    while m < end:
        size = 0
        for member in range(rankers if everyone else group):
            document = nominate(top, member if everyone else members[member], place, stamp, number)
            if document >= 0:
                nominated[size] = document
                size += 1
        if size == 0:
            if everyone:
                return
            everyone = True
            continue
        for turn in range(size):
            position = where[nominated[turn]]
            if m <= position < m + size:
                out[position] += weight / size
        m += size
        number += 1


@kernel
def weigh_rounds(top, entering, k, params, shown, visible, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Fill out[x] with the probability that shown[x] is shown at rank x + 1, over all groups and leads.

    Return 0 if there are more than MOST_GROUPS groups, as that would take longer than the draw is worth.
    """
    rankers, depth = top.shape
    documents = entering[depth - 1]
    rooms = work_i[: 5 * rankers].reshape(5, rankers)
    place, nominated, pages, members, chosen = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]
    stamp = work_i[5 * rankers : 5 * rankers + documents]
    where = work_i[5 * rankers + documents : 5 * rankers + 2 * documents]
    different = 0
    for r in range(rankers):
        if not is_copy(top, r):
            pages[different] = r
            different += 1
    group = min(int(params[0]), different)
    groups = 1.0
    for x in range(group):
        groups = groups * (different - x) / (x + 1)
        chosen[x] = x
    if groups > MOST_GROUPS:
        return 0
    where[:] = -1
    for x in range(visible):
        where[shown[x]] = x
        out[x] = 0.0
    leading = 1.0 / params[1] if params[1] > 0.0 and k > 1 else 0.0
    end = min(k, documents)
    following = 0
    while following >= 0:
        for x in range(group):
            members[x] = pages[chosen[x]]
        stamp[:] = 0
        add_course(top, members, group, 0, (1.0 - leading) / groups, end, where, out, place, stamp, nominated)
        weight = leading / (groups * group * max(k - 1, 1))
        for leader in range(group if leading > 0.0 else 0):
            for first in range(1, k):
                stamp[:] = 0
                m = 0
                while m < min(first, depth) and top[members[leader], m] >= 0:
                    document = top[members[leader], m]
                    if where[document] == m:
                        out[m] += weight
                    m += 1
                    stamp[document] = m
                add_course(top, members, group, m, weight, end, where, out, place, stamp, nominated)
        # The next group in lexicographic order.
        following = group - 1
        while following >= 0 and chosen[following] == different - group + following:
            following -= 1
        if following >= 0:
            chosen[following] += 1
            for x in range(following + 1, group):
                chosen[x] = chosen[x - 1] + 1
    return 1
