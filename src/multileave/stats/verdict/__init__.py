"""From a tally to a verdict: judging, wording, tables, segments, strengths."""
