"""What each ranker would earn alone: sums that merge, estimates with intervals, and how they are worded."""
