"""One list from rankings in one compiled call: documents numbered, a list drawn, its ranks found.

Making an array in Python or entering compiled code takes as long as a draw, so `Method.combine` does each as
seldom as it can: one call, and one block of scratch for each type of number, which this file divides.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from multileave.kernels import Kernel, kernel
from multileave.numbering import number_documents, rank_documents, rank_numbered, table_size, take_codes

if TYPE_CHECKING:
    from multileave.methods.base import Method

__all__ = ["Plan", "plan"]


def draw(*arguments: Any) -> int:
    """Stand for a method's draw kernel in `draw_list`."""
    return 0


class Plan(NamedTuple):
    """What drawing a list takes: all that depends on sizes, and not on documents.

    depth: how many ranks are numbered. read: how many are read. length: of a drawn list, at most.
    tables: the sizes of the two hash tables. longs, integers, floats: of scratch.
    """

    draw: Kernel
    depth: int
    read: int
    length: int
    tables: tuple[int, int]
    longs: int
    integers: int
    floats: int


def plan(method: "Method", rankers: int, longest: int, k: int) -> Plan:
    """Return what a method takes to draw a list of k documents from rankings, the longest of which has this length."""
    length = k + method.beyond()
    depth = min(method.read_depth(k, longest), longest)
    read = longest if method.keeps_ranks or method.draw_reads_ranks else depth
    most = rankers * depth
    tables = table_size(most), table_size(longest)
    codes = rankers * read  # where the documents are codes, the tables have an entry for each instead
    numbered = most * rankers if method.draw_reads_ranks else 0
    integers, floats = method.workspace(rankers, most, k)
    return Plan(
        draw=draw_list.bind(draw=method.draw_kernel),
        depth=depth,
        read=read,
        length=length,
        tables=tables,
        longs=length + most + max(tables[1], codes),
        integers=most + depth + length + max(tables[0], codes) + numbered + integers,
        floats=2 + floats,
    )


@kernel
def draw_list(  # type: ignore[no-untyped-def]
    ids, lengths, codes, k, depth, tables, reads_order, reads_ranks, params, rng, note, ranks, longs, work_i, work_f
):
    """Draw a list from rankings; return the number of drawn documents m, or -1 - r if ranking r repeats one.

    ids i8[R, n]: the rankings, or the part of them that is read, of `lengths`. codes: if they are codes of documents,
        from 0 on, of how many, else 0. depth: how many ranks are numbered. reads_order, reads_ranks: see `Method`.
    note i4[length], ranks i4[length, R], or i4[0, R] if they are not kept: out, the first m of each.
    longs, work_i, work_f: out, the first m longs the drawn documents' ids and two floats the draw's `stat`; the
        rest is scratch, as much as the `Plan` says, at its end what the method's `workspace` says.
    """
    rankers = len(lengths)
    length = len(note)
    most = rankers * depth
    drawn = longs[:length]
    documents = longs[length : length + most]
    slots = longs[length + most :]
    stat = work_f[:2]
    stat[:] = 0.0
    note[:] = 0
    top = work_i[:most].reshape(depth, rankers).T
    at = most
    entering = work_i[at : at + depth]
    at += depth
    shown = work_i[at : at + length]
    at += length
    table = work_i[at : at + (codes if codes > 0 else tables[0])]
    at += len(table)
    kept = len(ranks) > 0
    whole = depth == ids.shape[1]
    taken = codes > 0 and whole and kept and not (reads_order or reads_ranks)  # repeats are found with the ranks

    if taken:
        take_codes(ids, lengths, top, entering, codes)
    else:
        row = number_documents(ids, lengths, not (kept or reads_ranks), codes > 0, top, entering, documents, table)
        if row >= 0:
            return -1 - row
    count = entering[depth - 1] if depth > 0 else 0
    numbered = work_i[at : at + reads_ranks * count * rankers].reshape(reads_ranks * count, rankers)
    at += reads_ranks * most * rankers
    if reads_ranks:
        row = rank_documents(ids, lengths, documents[:count], numbered, slots[: tables[1]])
        if row >= 0:
            return -1 - row
    m = 0
    if count > 0 and k > 0:
        m = draw(
            top, entering, numbered, lengths, k, params, rng, shown, note, stat, work_i[at:], work_f[2:],
        )  # fmt: skip
    for x in range(m):
        drawn[x] = shown[x] if taken else documents[shown[x]]
    if kept and reads_ranks:
        for x in range(m):
            for r in range(rankers):
                ranks[x, r] = numbered[shown[x], r]
    elif kept:
        if whole:
            row = rank_numbered(top, lengths, shown[:m], ranks[:m], slots[:count])
        elif codes > 0:
            row = rank_numbered(ids, lengths, drawn[:m], ranks[:m], slots[:codes])
        else:
            row = rank_documents(ids, lengths, drawn[:m], ranks[:m], slots[: tables[1]])
        if row >= 0:
            return -1 - row
    return m
