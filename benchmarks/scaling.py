"""Scaling laws: the cost of an impression as rankers, k, documents and impressions grow, with fitted exponents.

    python benchmarks/scaling.py [--figure FILE] [--rounds 5] [--seconds 2]

One of them grows and the others stay fixed: 10 rankers, k=10, 100 documents (200 if k grows), navigational
users. A line connects the measurements; numbers of impressions that would take longer than --seconds are
extrapolated, and drawn hollow.
"""

import argparse
import functools
import math
from pathlib import Path

import numpy as np

from measuring import Section, calls_for, markdown_table, number, seconds_of, tell
from multileave.clicks import user
from multileave.data import synthetic
from multileave.study import Simulation
from multileave.study.plots import COLOURS, MARKERS, STYLE, save

METHODS = ("ppm", "dpm", "tdm", "sosm", "pm", "om")
BASE = {"rankers": 10, "k": 10, "documents": 100}
GROWING = {
    "rankers": (2, 5, 10, 20, 50, 100, 200),
    "k": (1, 2, 5, 10, 20, 50, 100),
    "documents": (10, 30, 100, 300, 1_000, 3_000, 10_000),
}
IMPRESSIONS = tuple(10**power for power in range(4, 9))
MOST_MEASURED = 10**7
CELLS = 4_000_000  # most rankings kept: the more documents, the fewer queries


@functools.lru_cache(maxsize=1)
def queries_of(rankers, documents):
    """Return data of that size; consecutive methods share it."""
    queries = max(4, min(500, CELLS // (rankers * documents)))
    return synthetic(queries=queries, documents=documents, rankers=rankers, seed=1)


def simulation(method, rankers, k, documents):
    """Return a simulation of that size."""
    return Simulation(queries_of(rankers, documents), method, user("navigational"), k=k, seed=1)


def impression_cost(method, size, least=0.02):
    """Return the microseconds per impression."""
    loop = simulation(method, **size)
    loop.run(20)
    count = 10 * calls_for(lambda: loop.run(10), least)
    return min(seconds_of(lambda: loop.run(count)) for _ in range(2)) / count * 1e6


def impression_costs(growing, rounds):
    """Return by method the cost of an impression at each value of what grows.

    It is the minimum over rounds that each go through all values: other work on the machine only adds time, and lasts
    longer than a single measurement.
    """
    values = GROWING[growing]
    found = {method: [math.inf] * len(values) for method in METHODS}
    base = {**BASE, "documents": 200} if growing == "k" else BASE
    for turn in range(rounds):
        tell(f"scaling: {growing}, round {turn + 1} of {rounds}")
        for place, value in enumerate(values):
            for method, costs in found.items():
                costs[place] = min(costs[place], impression_cost(method, {**base, growing: value}))
    return found


def study_costs(method, seconds):
    """Return the seconds of studies with more and more impressions, as long as they do not take too long."""
    loop = simulation(method, **BASE)
    loop.run(1000)
    found = []
    for impressions in IMPRESSIONS:
        if impressions > MOST_MEASURED or (found and 10 * found[-1] > seconds):
            break
        turns = 5 if impressions <= 100_000 else 1
        found.append(min(seconds_of(lambda n=impressions: loop.run(n)) for _ in range(turns)))
    return found


def fit(values, costs):
    """Return the exponent and the factor of a power law, by least squares on logarithms."""
    if len(costs) < 2:
        return 1.0, costs[0] / values[0]
    exponent, height = np.polyfit(np.log(values[: len(costs)]), np.log(costs), 1)
    return float(exponent), float(np.exp(height))


def law(values, costs):
    """Return the exponent over all measurements and over the last three, and extrapolated costs."""
    exponent, factor = fit(values, costs)
    measured = values[: len(costs)]
    return {
        "values": values, "costs": costs, "exponent": exponent, "last": fit(measured[-3:], costs[-3:])[0],
        "extrapolated": [factor * value**exponent for value in values[len(costs) :]],
    }  # fmt: skip


def measure(rounds, seconds):
    """Return the laws by growing quantity and method."""
    found = {
        growing: {method: law(values, costs) for method, costs in impression_costs(growing, rounds).items()}
        for growing, values in GROWING.items()
    }
    tell("scaling: impressions")
    found["impressions"] = {method: law(IMPRESSIONS, study_costs(method, seconds)) for method in METHODS}
    return found


def label_powers(axis):
    """Write the powers of ten of a logarithmic axis as plain numbers: the style has no maths text."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def figure(found):
    """Return the figure: a panel per growing quantity, a line per method."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(7.2, 6.6), layout="constrained")
        for axes, (growing, methods) in zip(drawn.subplots(2, 2).flat, found.items(), strict=True):
            for method, colour, marker in zip(methods, COLOURS, MARKERS, strict=False):
                record = methods[method]
                measured = len(record["costs"])
                label = f"{method} {record['exponent']:.2f}"
                axes.loglog(
                    record["values"][:measured], record["costs"], color=colour, marker=marker, ms=3.5, lw=1, label=label
                )
                if record["extrapolated"]:
                    axes.loglog(
                        record["values"][measured - 1 :], [record["costs"][-1], *record["extrapolated"]],
                        color=colour, marker=marker, ms=3.5, lw=1, ls=":", mfc="white", markevery=slice(1, None),
                    )  # fmt: skip
            study = growing == "impressions"
            axes.set_xlabel(f"{growing} (hollow: extrapolated)" if study else growing)
            axes.set_ylabel("seconds" if study else "microseconds per impression")
            axes.grid(alpha=0.25, lw=0.5)
            label_powers(axes.xaxis)
            label_powers(axes.yaxis)
            axes.legend(
                frameon=False, fontsize=6.5, ncols=3, title="fitted exponent", title_fontsize=6.5,
                loc="lower center", bbox_to_anchor=(0.5, 1.0),
            )  # fmt: skip
    return drawn


def section(rounds, seconds, path):
    """Return the part of the report on scaling, with its figure written to a file."""
    found = measure(rounds, seconds)
    path.write_bytes(save(figure(found), "png"))
    text = (
        "Cost per impression as one quantity grows, and of whole studies as impressions do; the exponent is fitted to "
        "all measurements, in brackets to the last three. 10 rankers, k=10, 100 documents (200 if k grows).\n\n"
    )
    rows = [
        [method, *(f"{found[g][method]['exponent']:.2f} ({found[g][method]['last']:.2f})" for g in found)]
        for method in METHODS
    ]
    text += markdown_table(["method", *(f"exponent in {growing}" for growing in found)], rows)
    for growing, methods in found.items():
        unit = "s" if growing == "impressions" else "us"
        head = [f"{growing}, {unit}", *(f"{value:,}" for value in methods["ppm"]["values"])]
        rows = [
            [method, *map(number, record["costs"]), *(f"~{number(cost)}" for cost in record["extrapolated"])]
            for method, record in methods.items()
        ]
        text += "\n" + markdown_table(head, rows)
    text += f"\n`~`: extrapolated.\n\n![Cost against size]({path.name})\n"
    return Section("Scaling", text, data=found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, default=Path("scaling.png"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    print(section(given.rounds, given.seconds, given.figure).text)


if __name__ == "__main__":
    main()
