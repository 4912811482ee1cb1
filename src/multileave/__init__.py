"""multileave finds out which ranker users prefer, from their clicks, for two rankers or forty.

rankings --combine--> Impression --(shown to a user)--> clicks --infer--> Outcome --add--> Tally --> Verdict

>>> import multileave as ml
>>> method = ml.PairwisePreference()
>>> impression = method.combine({"bm25": ["d1", "d2", "d3"], "dense": ["d3", "d1", "d4"]}, k=3, seed=42)
>>> impression.shown
('d3', 'd1', 'd4')
>>> outcome = ml.infer(impression, clicks=["d3"])
>>> print(outcome)
dense > bm25
>>> tally = ml.Tally(impression.rankers)
>>> tally.add(outcome, unit="user-17")
"""

from typing import TYPE_CHECKING, Any

from multileave import errors
from multileave.errors import MultileaveError, MultileaveWarning
from multileave.impression import Impression
from multileave.kernels import kernel
from multileave.methods import (
    Balanced,
    DepthPreference,
    Method,
    OpposedPreference,
    Optimized,
    PairwisePreference,
    PreferenceBalanced,
    Probabilistic,
    RoundPreference,
    SampleScored,
    TeamDraft,
    get_method,
    infer,
    register,
    warmup,
)
from multileave.outcome import Outcome
from multileave.version import __version__

if TYPE_CHECKING:
    from multileave.stats import Tally, Verdict

__all__ = [
    "Balanced",
    "DepthPreference",
    "Impression",
    "Method",
    "MultileaveError",
    "MultileaveWarning",
    "OpposedPreference",
    "Optimized",
    "Outcome",
    "PairwisePreference",
    "PreferenceBalanced",
    "Probabilistic",
    "RoundPreference",
    "SampleScored",
    "Tally",
    "TeamDraft",
    "Verdict",
    "__version__",
    "get_method",
    "infer",
    "kernel",
    "register",
    "warmup",
]


def __getattr__(name: str) -> Any:
    """Import statistics when they are first used, as combining and inferring need none; find errors in their module."""
    if name in ("Tally", "Verdict"):
        from multileave import stats

        globals()[name] = value = getattr(stats, name)
        return value
    if name in errors.__all__:
        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
