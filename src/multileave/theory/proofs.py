"""What docs/theory.md proves, for every size: of rankings of the same documents, or of the tops that were returned."""

from multileave.methods import OpposedPreference, PairwisePreference, RoundPreference
from multileave.methods.base import Method
from multileave.theory.users import Cascade, User

__all__ = ["proved"]

PROVED = {
    "Balanced": {"considerate"},
    "DepthPreference": {"considerate", "unbiased", "pareto"},
    "OpposedPreference": {"considerate", "unbiased", "pareto"},
    "Optimized": {"considerate"},
    "PairwisePreference": {"considerate", "unbiased"},
    "PreferenceBalanced": {"considerate"},
    "Probabilistic": {"unbiased"},
    "RoundPreference": {"considerate", "unbiased"},
    "SampleScored": {"considerate"},
    "TeamDraft": {"considerate", "unbiased"},
}


def proved(
    method: Method,
    user: User | None = None,
    *,
    returned: int | str | None = None,
    documents: int = 0,
    k: int = 0,
) -> frozenset[str]:
    """Return the requirements that are proved for a method; nothing for what a user derived from one of ours.

    user: of whom "pareto" is asked; None for all with independent clicks.
    returned: how many of the documents each ranker returns; None for all, "any" for every number. k: the most results.
    """
    if not type(method).__module__.startswith("multileave.methods."):
        return frozenset()
    found = frozenset(PROVED.get(type(method).__name__, ()))
    if method.clone_proof:
        found |= {"clone_proof"}
    if isinstance(method, PairwisePreference) and method.hidden and method.pairs in ("local", "all"):
        found |= {"pareto"}
    if isinstance(method, RoundPreference) and method.lead:
        found |= {"pareto"}
    if user is not None and not _is_covered(method, user):
        found -= {"pareto"}
    if returned is not None and (returned == "any" or int(returned) < documents):
        depth = method.reads_to(k)
        if depth is None or returned == "any" or int(returned) < depth:
            found -= {"pareto"}
        if method.unbiased_lists == "k" and (returned == "any" or int(returned) < k):
            found -= {"unbiased"}
    return found


def _is_covered(method: Method, user: User) -> bool:
    """Return whether a user is a cascade of whom a theorem about users who read downwards speaks."""
    if not isinstance(method, OpposedPreference | RoundPreference):
        return False
    if not isinstance(user, Cascade) or not user.correlated:
        return False
    leaves = [s if user.anywhere else c * s for c, s in zip(user.click, user.stop, strict=True)]
    return max(leaves) < 1 and (getattr(method, "pairs", "all") == "below" or leaves == sorted(leaves))
