"""Study: simulated users on learning-to-rank data, and how far what they say is from the truth."""

from multileave.study.engine import Simulation
from multileave.study.scoring import best_first, binary_error, score_differences, winner

__all__ = ["Simulation", "best_first", "binary_error", "score_differences", "winner"]
