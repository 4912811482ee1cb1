"""Tally: sums of outcomes, by unit, that merge and can be written."""
