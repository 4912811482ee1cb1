"""Verdicts: adding up what users did, and judging it."""
