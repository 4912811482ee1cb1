"""Confidence intervals and p-values, as formulas on arrays."""
