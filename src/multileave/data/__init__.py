"""Data: queries with graded documents and the rankings of rankers, real or made up."""

from multileave.data.catalogue import CATALOGUE, PAPER, DataSet, get_dataset
from multileave.data.folds import available, fold_numbers, load_fold
from multileave.data.letor import Fold, Letor
from multileave.data.metrics import METRICS, average_precision, dcg, ndcg, precision, reciprocal_rank
from multileave.data.queries import QuerySet
from multileave.data.svmlight import read
from multileave.data.synthetic import synthetic, synthetic_fold, synthetic_parts
from multileave.data.writing import write_svmlight

__all__ = [
    "CATALOGUE",
    "METRICS",
    "PAPER",
    "DataSet",
    "Fold",
    "Letor",
    "QuerySet",
    "available",
    "average_precision",
    "dcg",
    "fold_numbers",
    "get_dataset",
    "load_fold",
    "ndcg",
    "precision",
    "read",
    "reciprocal_rank",
    "synthetic",
    "synthetic_fold",
    "synthetic_parts",
    "write_svmlight",
]
