"""Study: simulated users on learning-to-rank data, and how far what methods infer is from the truth.

settings, runner, engine    what is run, on how many cores, and the compiled loop that simulates impressions
results, summaries, power   what a run found, what all runs of a method say, impressions to a verdict
tables, plots, html_report  how it is reported
systems, demo               run files compared by simulated users; `multileave demo`
"""

from multileave.study.engine import Simulation
from multileave.study.scoring import best_first, binary_error, score_differences, winner

__all__ = ["Simulation", "best_first", "binary_error", "score_differences", "winner"]
