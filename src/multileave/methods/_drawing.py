"""One list from rankings in one compiled call: documents are numbered, a list is drawn, its ranks are found.

Allocating an array in Python or entering compiled code takes as long as a draw. So `Method.combine` makes one call,
with one block of scratch for each type of number, which this file divides.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from multileave.kernels import Kernel, kernel
from multileave.methods._unstated import weigh_nothing
from multileave.numbering import number_documents, rank_documents, table_size

if TYPE_CHECKING:
    from multileave.methods.base import Method


def draw(*arguments: Any) -> int:
    """Stand for a method's draw kernel in `draw_list`."""
    return 0


def weigh(*arguments: Any) -> int:
    """Stand for a method's weigh kernel in `draw_list`."""
    return 0


class DrawPlan(NamedTuple):
    """What drawing a list takes: everything that depends on sizes and not on documents.

    depth: how many ranks are numbered. read: how many are read. length: of a drawn list, at most.
    tables: the sizes of the two hash tables. longs, integers, floats: the sizes of the scratch blocks.
    figures: of the floats, how many are the draw's `stat`.
    """

    draw: Kernel
    depth: int
    read: int
    length: int
    tables: tuple[int, int]
    longs: int
    integers: int
    floats: int
    figures: int


def plan_draw(method: "Method", rankers: int, longest: int, k: int, weighed: bool) -> DrawPlan:
    """Return what a method needs to draw a list of k documents from rankings of at most `longest`.

    weighed: also compute the propensities of what is shown, if the method has a weigh kernel.
    """
    length = k + method.beyond()
    depth = min(method.read_depth(k, longest), longest)
    most = rankers * depth
    tables = table_size(most), table_size(longest)
    numbered = most * rankers if method.draw_reads_ranks else 0
    integers, floats = method.workspace(rankers, most, k)
    figures = max(2, k) if weighed else 2
    return DrawPlan(
        draw=draw_list.bind(draw=method.draw_kernel, weigh=method.weigh_kernel if weighed else weigh_nothing),
        depth=depth,
        read=longest if method.keeps_ranks or method.draw_reads_ranks else depth,
        length=length,
        tables=tables,
        longs=length + most + tables[1],
        integers=most + depth + length + tables[0] + numbered + integers,
        floats=figures + floats,
        figures=figures,
    )


@kernel
def draw_list(ids, lengths, k, depth, tables, figures, reads_ranks, params, rng, note, ranks, longs, work_i, work_f):  # type: ignore[no-untyped-def]
    """Draw a list from rankings; return the number of drawn documents m, or -1 - r if ranking r repeats one.

    ids i8[R, n]: the rankings, or the part of them that is read, of `lengths`. depth: how many ranks are numbered.
    reads_ranks: whether the draw reads the ranks of all numbered documents.
    note i4[length], ranks i4[length, R], or i4[0, R] if they are not kept: out, the first m of each.
    longs, work_i, work_f: out, the first m longs the drawn documents' ids and the first `figures` floats the draw's
        `stat`; the rest is scratch of the sizes in `DrawPlan`, the end of which is the method's `workspace`. A method
        that stores propensities has them in `stat`, whose first number is 0 if they are unknown.
    """
    rankers = len(lengths)
    length = len(note)
    most = rankers * depth
    drawn = longs[:length]
    documents = longs[length : length + most]
    slots = longs[length + most :]
    stat = work_f[:figures]
    stat[:] = 0.0
    note[:] = 0
    top = work_i[:most].reshape(depth, rankers).T
    at = most
    entering = work_i[at : at + depth]
    at += depth
    shown = work_i[at : at + length]
    at += length
    table = work_i[at : at + tables[0]]
    at += tables[0]
    keeps_ranks = len(ranks) > 0

    row = number_documents(ids, lengths, not (keeps_ranks or reads_ranks), top, entering, documents, table)
    if row >= 0:
        return -1 - row
    count = entering[depth - 1] if depth > 0 else 0
    numbered = work_i[at : at + reads_ranks * count * rankers].reshape(reads_ranks * count, rankers)
    at += reads_ranks * most * rankers
    if reads_ranks:
        row = rank_documents(ids, lengths, documents[:count], numbered, slots)
        if row >= 0:
            return -1 - row
    m = 0
    if count > 0 and k > 0:
        m = draw(top, entering, numbered, lengths, k, params, rng, shown, note, stat, work_i[at:], work_f[figures:])
        weigh(top, entering, k, params, shown, min(k, m), stat, work_i[at:], work_f[figures:])
    for x in range(m):
        drawn[x] = documents[shown[x]]
    if keeps_ranks and reads_ranks:
        for x in range(m):
            for r in range(rankers):
                ranks[x, r] = numbered[shown[x], r]
    elif keeps_ranks:
        row = rank_documents(ids, lengths, drawn[:m], ranks[:m], slots)
        if row >= 0:
            return -1 - row
    return m


@kernel
def stored_propensities(ranks, lengths, note, stat, visible, params, out, work_f):  # type: ignore[no-untyped-def]
    """Read what a weigh kernel stored with the impression; without one, or in earlier versions, nothing is there."""
    if len(stat) < visible:
        return 0
    for x in range(visible):
        if not 0.0 < stat[x] <= 1.0 + 1e-9:
            return 0
        out[x] = stat[x]
    return 1
