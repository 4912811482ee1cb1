"""The engine: millions of impressions, each one draw -> clicks -> credit, in a single compiled loop.

`simulate` is compiled once per method, with the method's and the user's own kernels in place of `draw`, `click` and
`credit`: there is no second implementation of a method. What an impression reads is contiguous in memory: for every
query a block of int32 and some rows of R int32,

    depth, U | entering (depth) | labels (U)          lengths | top, transposed (depth) | ranks (U)

of the U documents that some ranker places within the ranks that the method's draw reads (k or k + 1 of them; for pm
all). So except for pm, the time of an impression does not depend on the number of documents of a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from multileave.data import QuerySet
from multileave.data.metrics import GAINS, discounts, ideal_dcg
from multileave.data.queries import Longs
from multileave.errors import DataError
from multileave.impression import ABSENT, Ints
from multileave.kernels import Kernel, kernel
from multileave.methods.base import Method, get_method
from multileave.outcome import Floats, preference_matrix
from multileave.random import Seed, below, seed_state
from multileave.study.sums import ADDING, products


class User(Protocol):
    """A click model; `multileave.clicks.model` documents how its kernel is called."""

    @property
    def grades(self) -> int:
        """How many grades of relevance the user distinguishes."""
        ...

    @property
    def parameters(self) -> Floats:
        """The parameters as the array that the kernel reads."""
        ...

    @property
    def kernel(self) -> Kernel:
        """The compiled model."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Packed:
    """The queries' blocks and rows one after another, where each query starts, and the most documents of a query.

    blocks: int32, flat. rows: int32 (N, R). starts: int64 (Q, 2), of the blocks and of the rows.
    ideals: (Q,), the DCG of the best page of each query.
    """

    blocks: Ints
    rows: Ints
    starts: Longs
    ideals: Floats
    documents: int


def pack(data: QuerySet, method: Method, k: int) -> Packed:
    """Pack what the method's draw and credit read of every query, for a page of k."""
    longest, where = np.unique(data.longest, return_inverse=True)
    depths = np.array([min(method.read_depth(k, int(n)), int(n)) for n in longest], dtype=np.int64)[where]
    rankers = len(data.rankers)
    most = depths + np.minimum(data.sizes, rankers * depths)
    blocks = np.empty(int((2 + most).sum()), dtype=np.int32)  # the unused end is never touched, so it costs nothing
    rows = np.empty((int((1 + most).sum()), rankers), dtype=np.int32)
    starts = np.empty((len(data), 2), dtype=np.int64)
    number = np.empty(int(data.sizes.max()), dtype=np.int32)
    end, row, documents = pack_queries(
        data.offsets, data.labels, data.rankings, data.lengths, depths, blocks, rows, starts, number
    )
    return Packed(blocks[:end], rows[:row], starts, ideal_dcg(data, k), int(documents))


@kernel
def pack_queries(offsets, labels, rankings, lengths, depths, blocks, rows, starts, number):  # type: ignore[no-untyped-def]
    """Fill blocks, rows and starts; return the lengths of the first two, and the most documents of a query."""
    rankers = rows.shape[1]
    end = 0
    row = 0
    most = 0
    for q in range(len(starts)):
        first, size, depth = offsets[q], offsets[q + 1] - offsets[q], depths[q]
        lists = rankings[rankers * first : rankers * (first + size)].reshape(rankers, size)
        starts[q, 0] = end
        starts[q, 1] = row
        entering = blocks[end + 2 : end + 2 + depth]
        top = rows[row + 1 : row + 1 + depth]
        ranks = rows[row + 1 + depth :]
        number[:size] = -1
        count = 0
        for x in range(depth):
            for r in range(rankers):
                if x >= lengths[q, r]:
                    top[x, r] = -1
                    continue
                if number[lists[r, x]] < 0:
                    number[lists[r, x]] = count
                    count += 1
                top[x, r] = number[lists[r, x]]
            entering[x] = count
        blocks[end] = depth
        blocks[end + 1] = count
        for r in range(rankers):  # to assign a row at once takes two seconds longer to compile
            rows[row, r] = lengths[q, r]
        end += 2 + depth
        for document in range(size):
            if number[document] >= 0:
                blocks[end + number[document]] = labels[first + document]
        ranks[:count] = ABSENT
        for r in range(rankers):
            for x in range(lengths[q, r]):
                if number[lists[r, x]] >= 0:
                    ranks[number[lists[r, x]], r] = x + 1
        end += count
        row += 1 + depth + count
        most = max(most, count)
    return end, row, most


def placeholder(*arguments: Any) -> int:
    """Stand for a kernel that `Simulation` binds: the method's draw and credit, the user's click, and others below."""
    return 0


draw = click = keep = credit = add = placeholder


@kernel
def keep_all(shown, clicks, entering, below, late):  # type: ignore[no-untyped-def]
    """Keep all drawn documents: `keep_read` for methods whose credit reads them all, 5 % faster for tdm."""
    return len(shown)


@kernel
def keep_read(shown, clicks, entering, below, late):  # type: ignore[no-untyped-def]
    """Move the documents that credit reads to the front of `shown`, and return how many they are.

    below: how many documents below the last click it reads, -1 for all. late: whether it reads those of them that no
    ranker places as high as the last click. `entering` identifies these by their numbers, so that their ranks, which
    are far apart in memory, need not be read.
    """
    m = len(shown)
    last = m - 1
    while clicks[last] == 0:
        last -= 1
    if below >= 0:
        m = min(m, last + 1 + below)
    if late:
        return m
    kept = last + 1
    for x in range(last + 1, m):
        shown[kept] = shown[x]
        kept += shown[x] < entering[last]
    return kept


@kernel
def simulate(impressions, packed, k, reads, params, user, rng, scratch, out, values, sums, work_i, work_f):  # type: ignore[no-untyped-def]
    """Show pages for queries chosen uniformly, and add up preferences and the quality of pages.

    packed: blocks, rows, starts and ideals, see `Packed`, and the gains and discounts of DCG. k: results per page.
    reads: 1 or 0 for whether the draw reads ranks, and whether credit reads ranks and notes; how many documents below
        the last click credit reads, -1 for all; 1 or 0 for whether it reads late ones among them, see `Method`.
    scratch: shown, note, stat, labels, clicks and drawn, which has a row of ranks per drawn document.
    out: one impression's credits, (R,) or (R, R) for a matrix; values: the same memory, (1, R) or (R, R).
    sums: total and squares, of the shapes that `add` takes, and DCG and NDCG of the pages.
    """
    blocks, rows, starts, ideals, gains, discount = packed
    total, squares, quality = sums
    draw_reads_ranks, credit_reads_ranks, credit_reads_note, credit_reads_below, credit_reads_late = reads
    rankers = values.shape[1]
    shown, note, stat, labels, clicks, drawn = scratch
    for _ in range(impressions):
        q = below(rng, len(starts))
        at, row = starts[q, 0], starts[q, 1]
        depth, documents = np.int64(blocks[at]), np.int64(blocks[at + 1])
        at += 2
        entering = blocks[at : at + depth]
        at += depth
        lengths = rows[row]
        row += 1
        top = rows[row : row + depth].T
        row += depth
        ranks = rows[row : row + documents]

        note[:] = 0
        m = draw(
            top, entering, ranks[: draw_reads_ranks * documents], lengths, k, params, rng,
            shown, note, stat, work_i, work_f,
        )  # fmt: skip
        dcg = 0.0
        for x in range(m):
            labels[x] = blocks[at + shown[x]]
            if x < k:
                dcg += gains[labels[x]] * discount[x]
        quality[0] += dcg
        if dcg > 0.0:
            quality[1] += dcg / ideals[q]
        if click(labels[:m], min(k, m), user, rng, clicks[:m]) == 0:
            continue
        m = keep(shown[:m], clicks[:m], entering, credit_reads_below, credit_reads_late)

        for x in range(credit_reads_ranks * m):
            copy, wanted = drawn[x], ranks[shown[x]]
            for r in range(rankers):
                copy[r] = wanted[r]
        values[:] = 0.0
        credit(
            drawn[: credit_reads_ranks * m], lengths, note[: credit_reads_note * m], clicks[:m], k, params,
            out, work_i, work_f,
        )  # fmt: skip
        add(values, total, squares)


class Simulation:
    """One method with simulated users, impression after impression.

    data: queries, labels and rankings. method: a method or its name. user: a click model, such as
    `multileave.clicks.user("navigational")`. k: results per page. packed: what `pack` returned for these data, this
    method and this k, to share it between simulations.

    >>> from multileave.clicks import user
    >>> from multileave.data import synthetic
    >>> simulation = Simulation(synthetic(queries=20, seed=1), "tdm", user("perfect"), seed=1)
    >>> simulation.run(100).shape
    (0, 5, 5)
    >>> simulation.impressions
    100
    """

    def __init__(
        self,
        data: QuerySet,
        method: Method | str,
        user: User,
        *,
        k: int = 10,
        seed: Seed = None,
        packed: Packed | None = None,
    ) -> None:
        self.method = get_method(method)
        rankers = len(data.rankers)
        if rankers < 2:
            raise DataError(f"The data have {rankers} ranker; a comparison needs two or more.")
        self.method.check_rankers(rankers)
        if user.grades < data.grades:
            raise DataError(
                f"The data have {data.grades} grades of relevance, but the user model only {user.grades}. Use one for "
                f"{data.grades} grades."
            )
        if k < 1:
            raise DataError(f"k is {k}; expected the number of results per page, at least 1.")
        self.user = user
        self.k = k
        self.impressions = 0
        self._packed = pack(data, self.method, k) if packed is None else packed
        self._rng = seed_state(seed)
        self._loop = simulate.bind(
            draw=self.method.draw_kernel,
            click=user.kernel,
            keep=keep_all if self.method.reads_below is None and self.method.reads_late else keep_read,
            credit=self.method.credit_kernel,
            add=ADDING[self.method.outcome],
        )
        matrix = self.method.outcome == "matrix"
        self._values = np.zeros((rankers if matrix else 1, rankers))
        self._out = self._values if matrix else self._values[0]
        kind = self.method.outcome
        self._total = np.zeros((1 if kind == "difference" else rankers, rankers))
        size = {"difference": rankers + 1, "sign": 0, "matrix": rankers}[kind]
        self._squares = np.zeros((size, size))
        self._quality = np.zeros(2)
        kept = self._packed
        self._read = kept.blocks, kept.rows, kept.starts, kept.ideals, GAINS, discounts(k)
        integers, floats = self.method.workspace(rankers, self._packed.documents, k)
        self._work = np.empty(integers, dtype=np.int32), np.empty(floats)
        length = k + self.method.beyond()
        self._scratch = (
            np.empty(length, dtype=np.int32),
            np.empty(length, dtype=np.int32),
            np.empty(2),
            np.empty(length, dtype=np.uint8),
            np.empty(length, dtype=np.uint8),
            np.empty((length, rankers), dtype=np.int32),
        )

    @property
    def preferences(self) -> Floats:
        """The sum of all impressions' preferences, (R, R): [n, m] > 0 if ranker n is preferred to m."""
        if self.method.outcome == "difference":
            return preference_matrix("difference", self._total[0])
        return self._total - self._total.T  # wins minus losses; of a matrix only the upper triangle is summed

    @property
    def variances(self) -> Floats:
        """The variance of every pair's preference from one impression to the next, (R, R)."""
        if self.method.outcome == "sign":
            squares = self._total + self._total.T
        elif self.method.outcome == "matrix":
            squares = self._squares + self._squares.T
        else:
            both = products(self._squares)
            squares = np.diag(both)[:, None] + np.diag(both)[None, :] - 2.0 * both
        count = max(self.impressions, 1)
        return np.maximum(squares / count - (self.preferences / count) ** 2, 0.0)

    @property
    def dcg_shown(self) -> float:
        """The mean DCG of the pages that users saw."""
        return float(self._quality[0] / max(self.impressions, 1))

    @property
    def ndcg_shown(self) -> float:
        """The mean NDCG of the pages that users saw; 0 for queries without relevant documents."""
        return float(self._quality[1] / max(self.impressions, 1))

    def compile(self) -> None:
        """Compile the loop now rather than at the first impression."""
        self._advance(0)

    def run(self, impressions: int, checkpoints: Sequence[int] = ()) -> Floats:
        """Simulate that many more impressions; return the preferences at checkpoints, (checkpoints, R, R).

        checkpoints: increasing numbers of impressions since the start.
        """
        if impressions < 0:
            raise DataError(f"The number of impressions is {impressions}; expected 0 or more.")
        end = self.impressions + impressions
        steps = [self.impressions, *checkpoints, end]
        if sorted(steps) != steps:
            raise DataError(
                f"Checkpoints are {list(checkpoints)}; expected increasing numbers from {self.impressions} to {end}."
            )
        rankers = self._values.shape[1]
        kept = np.empty((len(checkpoints), rankers, rankers))
        for place, checkpoint in enumerate(checkpoints):
            self._advance(checkpoint - self.impressions)
            kept[place] = self.preferences
        self._advance(end - self.impressions)
        return kept

    def _advance(self, impressions: int) -> None:
        method = self.method
        self._loop(
            impressions,
            self._read,
            self.k,
            (
                int(method.draw_reads_ranks),
                int(method.keeps_ranks),
                int(method.keeps_note),
                -1 if method.reads_below is None else method.reads_below,
                int(method.reads_late),
            ),
            method.parameters,
            self.user.parameters,
            self._rng,
            self._scratch,
            self._out,
            self._values,
            (self._total, self._squares, self._quality),
            *self._work,
        )
        self.impressions += impressions
