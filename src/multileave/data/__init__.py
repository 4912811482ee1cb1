"""Data: queries with graded documents and the rankings of rankers, real or made up."""

from multileave.data.catalogue import CATALOGUE, PAPER, DataSet, get_dataset
from multileave.data.folds import available, fold_numbers, load_fold
from multileave.data.letor import Fold, Letor
from multileave.data.metrics import METRICS, average_precision, dcg, ndcg, precision, reciprocal_rank
from multileave.data.queries import QuerySet
from multileave.data.svmlight import read
from multileave.data.synthetic import synthetic, synthetic_fold, synthetic_parts
from multileave.data.trec import GradedTopics, fingerprint, join_runs, read_qrels, read_run, read_runs, system_names
from multileave.data.writing import write_svmlight

__all__ = [
    "CATALOGUE",
    "METRICS",
    "PAPER",
    "DataSet",
    "Fold",
    "GradedTopics",
    "Letor",
    "QuerySet",
    "available",
    "average_precision",
    "dcg",
    "fingerprint",
    "fold_numbers",
    "get_dataset",
    "join_runs",
    "load_fold",
    "ndcg",
    "precision",
    "read",
    "read_qrels",
    "read_run",
    "read_runs",
    "reciprocal_rank",
    "synthetic",
    "synthetic_fold",
    "synthetic_parts",
    "system_names",
    "write_svmlight",
]
