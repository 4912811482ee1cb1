"""Writes the pinned tallies. Run once for a new version of their format, never for an old one."""

import json
from pathlib import Path

import numpy as np

from multileave.methods import get_method, infer
from multileave.stats import Tally

HERE = Path(__file__).parent / "pinned"
RANKERS = ("a", "b", "c")


def without_tests(verdict):
    """A verdict without what depends on the tests and intervals, which get better: what stays are the estimates."""
    derived = ("low", "high", "p", "p_corrected", "significant", "more_units", "share_low", "share_high")
    verdict["pairs"] = [{name: pair[name] for name in pair if name not in derived} for pair in verdict["pairs"]]
    return {name: verdict[name] for name in verdict if name not in ("winner", "leaders", "circles")}


def figures(tally):
    """What a tally says, without sentences."""
    found = {}
    for interval in ("clustered", "anytime"):
        verdict = tally.verdict(interval=interval).to_dict()
        del verdict["sentence"], verdict["warnings"], verdict["health"]["warnings"]
        found[interval] = without_tests(verdict)
    return json.loads(json.dumps(found))


def make(method, units):
    """A tally of 60 impressions; units: of every impression, of none, or of two thirds."""
    generator = np.random.default_rng(22)
    tally = Tally(RANKERS)
    for number in range(60):
        rankings = {name: generator.permutation(8).tolist() for name in RANKERS}
        impression = get_method(method).combine(rankings, 5, seed=generator)
        clicks = [x for x in range(len(impression.shown)) if generator.random() < 0.4]
        unit = {"all": f"u{number % 13}", "none": None, "some": None if number % 3 else number % 5}[units]
        tally.add(infer(impression, positions=clicks), unit, clicks=len(clicks), impression=impression)
    tally.add_fallback(["b"])
    return tally


def main():
    HERE.mkdir(exist_ok=True)
    written = [
        {"tally": (tally := make(method, units)).to_dict(), "figures": figures(tally)}
        for method in ("ppm", "tdm", "sosm", "recommended")
        for units in ("all", "none", "some")
    ]
    (HERE / "v1.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
