"""What is proved of a method for every size, as the method itself declares."""

from multileave.methods.base import Method
from multileave.theory.users import Cascade, User


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
        "pareto": bool(method.pareto) if user is None else _covers(method, user),
    }
    if returned is not None and (returned == "any" or int(returned) < documents):
        depth = method.reads_to(k)
        if depth is None or returned == "any" or int(returned) < depth:
            claims["pareto"] = False
        if method.unbiased_lists == "k" and (returned == "any" or int(returned) < k):
            claims["unbiased"] = False
    return frozenset(name for name, holds in claims.items() if holds)


def _covers(method: Method, user: User) -> bool:
    """Return whether a user is a cascade that the method's theorem about readers covers."""
    if method.pareto not in ("reader", "any reader") or not isinstance(user, Cascade) or not user.correlated:
        return False
    leaves = [s if user.anywhere else c * s for c, s in zip(user.click, user.stop, strict=True)]
    return max(leaves) < 1 and (method.pareto == "any reader" or leaves == sorted(leaves))
