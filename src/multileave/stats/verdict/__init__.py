"""Verdict: judging a tally, wording, tables and segments."""
