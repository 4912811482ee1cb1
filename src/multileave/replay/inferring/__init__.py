"""Inferring: from prepared batches to credits, sums by unit and tallies."""
