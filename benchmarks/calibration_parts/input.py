"""Merged tallies, and invalid input."""

import math

import numpy as np

from calibration_parts.table import report
from multileave.errors import MultileaveError
from multileave.outcome import Outcome
from multileave.stats import Design, Tally, plan


def merging(repetitions: int) -> None:
    """A thousand partial tallies, merged in random order, against one."""
    rng = np.random.default_rng(8)
    names = ("a", "b", "c")
    whole, parts = Tally(names), [Tally(names) for _ in range(1000)]
    for _ in range(20_000):
        kind = ("difference", "sign")[rng.integers(2)]
        outcome = Outcome(names, kind, rng.normal(size=3))
        unit = None if rng.random() < 0.2 else f"u{rng.integers(3000)}"
        whole.add(outcome, unit)
        parts[rng.integers(1000)].add(outcome, unit)
    order = rng.permutation(1000)
    total = Tally(names)
    for at in order:
        total.merge(parts[at])
    worst = 0.0
    for interval in ("clustered", "anytime"):
        for a, b in zip(whole.verdict(interval=interval).pairs, total.verdict(interval=interval).pairs, strict=True):
            worst = max(
                worst, *(abs(getattr(a, f) - getattr(b, f)) for f in ("preference", "low", "high", "p", "share"))
            )
    report("merging", "1,000 partial tallies in random order against one", f"{worst:.1e}", "<= 1e-9", worst <= 1e-9)


def invalid_input(repetitions: int) -> None:
    """Invalid input is reported."""
    names = ("a", "b")

    def filled(values):
        tally = Tally(names)
        for user, value in values:
            tally.add(Outcome(names, "difference", np.array([value, 0.0])), user)
        return tally

    cases = {
        "no impressions": lambda: Tally(names).verdict(),
        "one unit": lambda: filled([("u", 1.0)] * 9).verdict(),
        "one ranker": lambda: Tally(["a"]),
        "NaN": lambda: filled([("u", math.nan)]),
        "no clicks": lambda: print("             " + str(filled([(u, 0.0) for u in range(300)]).verdict())),
        "plan without effect": lambda: plan(Design(1.0), 0.0),
        "plan with NaN": lambda: plan(Design(1.0), math.nan),
        "plan without deviation": lambda: Design.assumed(0.0),
    }
    for what, call in cases.items():
        try:
            call()
            reported = what == "no clicks"
        except MultileaveError as error:
            reported = True
            print(f"             {error}")
        report("invalid input", what, "reported" if reported else "not reported", "reported", reported)


PARTS = {"merging": merging, "invalid-input": invalid_input}
