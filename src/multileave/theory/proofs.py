"""What docs/theory.md proves, for every size: equal-length rankings of the same documents."""

from multileave.methods import PairwisePreference
from multileave.methods.base import Method

__all__ = ["proved"]

PROVED = {
    "Balanced": {"considerate"},
    "DepthPreference": {"considerate", "unbiased", "pareto"},
    "Optimized": {"considerate"},
    "PairwisePreference": {"considerate", "unbiased"},
    "PreferenceBalanced": {"considerate"},
    "Probabilistic": {"unbiased"},
    "SampleScored": {"considerate"},
    "TeamDraft": {"considerate", "unbiased"},
}


def proved(method: Method) -> frozenset[str]:
    """Return the requirements that are proved for a method; nothing for what a user derived from one of ours."""
    if not type(method).__module__.startswith("multileave.methods."):
        return frozenset()
    found = frozenset(PROVED.get(type(method).__name__, ()))
    if isinstance(method, PairwisePreference) and method.hidden and method.pairs in ("local", "all"):
        found |= {"pareto"}
    return found
