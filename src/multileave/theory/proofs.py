"""What is proved of a method for every size, as the method itself declares."""

from multileave.methods.base import Method
from multileave.theory.exchange import MOST, exchange_breaks
from multileave.theory.users import Cascade, Independent, PositionBased, User


def proved(
    method: Method,
    user: User | None = None,
    *,
    returned: int | str | None = None,
    documents: int = 0,
    k: int = 0,
) -> frozenset[str]:
    """Return the requirements that are proved for a method; none for a class that only inherits the proof.

    user: whose clicks "pareto" is about; None for all users with independent clicks.
    returned: how many of the documents each ranker returns; None for all, "any" for every number. k: the most results.
    """
    if not vars(type(method)).get("proof"):
        return frozenset()
    claims = {
        "considerate": method.considerate,
        "unbiased": bool(method.unbiased_lists),
        "clone_proof": method.clone_proof,
        "pareto": bool(method.pareto) if user is None else _covers(method, user, k),
    }
    if returned is not None and (returned == "any" or int(returned) < documents):
        depth = method.reads_to(k)
        if depth is None or returned == "any" or int(returned) < depth:
            claims["pareto"] = False
        if method.unbiased_lists == "k" and (returned == "any" or int(returned) < k):
            claims["unbiased"] = False
    return frozenset(name for name, holds in claims.items() if holds)


def _covers(method: Method, user: User, k: int) -> bool:
    """Return whether a user is one of those that the method's theorem is about, on pages of up to k results."""
    if isinstance(user, Independent | PositionBased):
        return bool(method.pareto) and _is_correlated(user, k)
    if method.pareto not in ("reader", "any reader") or not getattr(user, "correlated", False):
        return False
    below = method.pareto == "any reader"
    if type(user) is Cascade and {*user.go_on_after_click, *user.go_on_after_skip} == {1}:
        leaves = [s if user.anywhere else c * s for c, s in zip(user.click, user.stop, strict=True)]
        return max(leaves) < 1 and (below or leaves == sorted(leaves))
    return 0 < k <= MOST and exchange_breaks(user, k, below=below) is None


def _is_correlated(user: Independent | PositionBased, k: int) -> bool:
    """Return whether relevant documents are more likely to be clicked at every rank of a page of k."""
    if isinstance(user, PositionBased):
        return user.correlated and len(user.examine) >= k and all(user.examine[:k])
    return len(user.relevant) >= k and all(a > b for a, b in zip(user.relevant[:k], user.other[:k], strict=True))
