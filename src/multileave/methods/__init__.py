"""The methods, in the order in which they are listed: recommended first, then the paper's, then the ancestors."""

from multileave.methods.balanced import Balanced
from multileave.methods.base import Method, get_method, infer, methods, register
from multileave.methods.pairwise_preference import PairwisePreference
from multileave.methods.preference_balanced import PreferenceBalanced
from multileave.methods.probabilistic import Probabilistic
from multileave.methods.sample_scored import SampleScored
from multileave.methods.team_draft import TeamDraft

__all__ = [
    "Balanced",
    "Method",
    "PairwisePreference",
    "PreferenceBalanced",
    "Probabilistic",
    "SampleScored",
    "TeamDraft",
    "get_method",
    "infer",
    "methods",
    "register",
]
