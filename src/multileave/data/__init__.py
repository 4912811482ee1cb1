"""Data: queries with graded documents, and how rankers rank them.

queries, ranking, metrics      `QuerySet`, how documents are ranked by scores, and how good rankings are
letor, svmlight, parsing       learning-to-rank data in memory, and the reader of its files
folds, catalogue, cache        data sets in a folder, those known by name, and the cache of parsed files
trec, synthetic                TREC runs with qrels, and synthetic data
"""

from multileave.data.catalogue import CATALOGUE, DataSet, get_dataset
from multileave.data.folds import available, fold_numbers, load_fold
from multileave.data.letor import Fold, Letor
from multileave.data.metrics import METRICS, average_precision, dcg, ndcg, precision, reciprocal_rank
from multileave.data.queries import QuerySet
from multileave.data.svmlight import read
from multileave.data.synthetic import search_engines, synthetic, synthetic_fold
from multileave.data.trec import GradedTopics, fingerprint, join_runs, read_qrels, read_run, read_runs, system_names

__all__ = [
    "CATALOGUE", "METRICS", "DataSet", "Fold", "GradedTopics", "Letor", "QuerySet", "available", "average_precision",
    "dcg", "fingerprint", "fold_numbers", "get_dataset", "join_runs", "load_fold", "ndcg", "precision", "read",
    "read_qrels", "read_run", "read_runs", "reciprocal_rank", "search_engines", "synthetic", "synthetic_fold",
    "system_names",
]  # fmt: skip
