"""Data: queries with graded documents and the rankings of rankers, real or made up."""

from multileave.data.ndcg import ndcg
from multileave.data.queries import QuerySet
from multileave.data.synthetic import synthetic

__all__ = ["QuerySet", "ndcg", "synthetic"]
