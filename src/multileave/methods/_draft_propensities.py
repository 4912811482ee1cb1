"""Propensities of a team draft of two rankers: the probability that a shown document is shown where it is.

They depend on all of both rankings, of which a team draft keeps nothing. So `weigh_teams` computes them with the draw,
and the impression keeps them as its `stat`.

Whatever is drafted was first among what a ranker had left. So after m documents, what is drafted are the first i of
one ranker and the first j of the other, with overlap; and i and m determine j, as both counts include everything at the
top that is drafted. There are at most k + 1 such states for each m, however many drafts lead to them.
"""

from multileave.kernels import kernel


@kernel
def drafted_top(ranking, here, one, two, other_ranks, there):  # type: ignore[no-untyped-def]
    """Return how many documents at the top of a ranker are drafted; len(ranking) if all.

    Drafted are the first `here` of the ranker, the first `there` of the other, and documents one and two, -1 for none.
    """
    for x in range(here, len(ranking)):
        document = ranking[x]
        if document >= 0 and document != one and document != two and other_ranks[document] > there:
            return x
    return len(ranking)


@kernel
def weigh_teams(top, entering, k, params, shown, visible, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Fill out[x] with the probability that shown[x] is shown at rank x + 1, over all drafts; params as of the draw.

    Return 0 if there are more than two rankers, as then the states of a draft are too many.
    """
    rankers, depth = top.shape
    if rankers != 2:
        return 0
    documents = entering[depth - 1]
    ranks = work_i[: 2 * documents].reshape(2, documents)
    others = work_i[2 * documents : 2 * documents + 3 * (depth + 1)].reshape(3, depth + 1)  # j of state i, by m
    chances = work_f[: 3 * (depth + 1)].reshape(3, depth + 1)  # of state i, by m: a round adds at most two documents
    ranks[:] = depth + 1
    for r in range(2):
        for x in range(depth):
            if top[r, x] >= 0:
                ranks[r, top[r, x]] = x + 1
    chances[:] = 0.0
    out[:visible] = 0.0
    start = 0
    while params[0] == 1.0 and start < min(visible, depth) and top[0, start] >= 0 and top[0, start] == top[1, start]:
        out[start] = 1.0
        start += 1
    chances[start % 3, start] = 1.0
    others[start % 3, start] = start
    for m in range(start, visible):
        for i in range(depth + 1):
            chance = chances[m % 3, i] / 2.0
            chances[m % 3, i] = 0.0
            if chance == 0.0:
                continue
            j = others[m % 3, i]
            for begins in range(2):
                here, there = (i, j) if begins == 0 else (j, i)
                mine, theirs = top[begins], top[1 - begins]
                rank, other = ranks[begins], ranks[1 - begins]
                one, two = -1, -1
                x = drafted_top(mine, here, -1, -1, other, there)
                if x < depth:
                    one = mine[x]
                x = drafted_top(theirs, there, one, -1, rank, here)
                if x < depth:
                    two = theirs[x]
                size = m
                for picked in (one, two):
                    if picked >= 0:
                        if size < visible and shown[size] == picked:
                            out[size] += chance
                        size += 1
                if m < size < visible:
                    new_here = drafted_top(mine, here, one, two, other, there)
                    new_there = drafted_top(theirs, there, one, two, rank, here)
                    i_next, j_next = (new_here, new_there) if begins == 0 else (new_there, new_here)
                    chances[size % 3, i_next] += chance
                    others[size % 3, i_next] = j_next
    return 1
