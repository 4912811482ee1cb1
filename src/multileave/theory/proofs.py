"""What docs/theory.md proves, for every size: equal-length rankings of the same documents."""

from multileave.methods import (
    Balanced,
    Optimized,
    PairwisePreference,
    PreferenceBalanced,
    Probabilistic,
    SampleScored,
    TeamDraft,
)
from multileave.methods.base import Method

__all__ = ["proved"]


def proved(method: Method) -> frozenset[str]:
    """Return the requirements that are proved for a method."""
    if isinstance(method, PairwisePreference):
        pareto = {"pareto"} if method.hidden and method.pairs in ("local", "all") else set()
        return frozenset({"considerate", "unbiased"} | pareto)
    if isinstance(method, TeamDraft):
        return frozenset({"considerate", "unbiased"})
    if isinstance(method, Probabilistic):
        return frozenset({"unbiased"})
    if isinstance(method, SampleScored | Optimized | Balanced | PreferenceBalanced):
        return frozenset({"considerate"})
    return frozenset()
