"""The methods, in the order in which they are listed: the recommended one, our others, the paper's, older ones."""

# isort: off
from multileave.methods.base import Method, get_method, infer, methods, register, warmup
from multileave.methods.round_preference import RoundPreference
from multileave.methods.depth_preference import DepthPreference
from multileave.methods.opposed_preference import OpposedPreference
from multileave.methods.pairwise_preference import PairwisePreference
from multileave.methods.probabilistic import Probabilistic
from multileave.methods.optimized import Optimized
from multileave.methods.team_draft import TeamDraft
from multileave.methods.sample_scored import SampleScored
from multileave.methods.balanced import Balanced
from multileave.methods.preference_balanced import PreferenceBalanced
# isort: on

__all__ = [
    "Balanced",
    "DepthPreference",
    "Method",
    "OpposedPreference",
    "Optimized",
    "PairwisePreference",
    "PreferenceBalanced",
    "Probabilistic",
    "RoundPreference",
    "SampleScored",
    "TeamDraft",
    "get_method",
    "infer",
    "methods",
    "register",
    "warmup",
]
