"""Sums of outcomes by unit that merge, serialise and yield verdicts."""
