"""Rankings whose documents are numbered, as kernels read them: for tests that call kernels by themselves."""

import numpy as np

from multileave.numbering import number_documents, rank_documents, table_size


class NumberedRankings:
    """What kernels read of a `Source`, to a depth.

    top: int32 (R, depth), document numbers, -1 past the end of a ranking. entering: int32 (depth,), how many documents
    some ranker places at each rank or above. documents: how many are numbered. ranks: int32 (documents, R).
    """

    def __init__(self, source, depth):
        self.source = source
        depth = min(depth, source.longest)
        array = source.read(source.longest)
        rankers = len(array)
        self.top = np.empty((depth, rankers), dtype=np.int32).T
        self.entering = np.empty(depth, dtype=np.int32)
        codes = np.empty(rankers * depth, dtype=np.int64)
        slots = np.empty(table_size(rankers * depth), dtype=np.int32)
        assert number_documents(array, source.lengths, False, self.top, self.entering, codes, slots) < 0
        self.documents = int(self.entering[-1])
        self.codes = codes[: self.documents]
        self.ranks = np.empty((self.documents, rankers), dtype=np.int32)
        slots = np.empty(table_size(source.longest), dtype=np.int64)
        assert rank_documents(array, source.lengths, self.codes, self.ranks, slots) < 0

    def ids(self, numbers):
        """Return the documents of some numbers."""
        return self.source.decoded(self.codes[numbers])
