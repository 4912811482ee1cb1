"""What rates are worth: their bias if users stop, and how many impressions they take.

    .venv/bin/python benchmarks/rates.py [--users-from users.toml] [--quick] [--write] [--json]

Limits: for every kind of user, the rate and the lift of the best ranker estimated from combined pages are compared with
the clicks of the same users on each ranker's own page. Precision: the variance of the difference between the first two
rankers, by method and estimator, relative to that of an A/B test of all rankers with as many impressions. Seeds are
fixed. --write: into docs/rates.md.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np

from earning import Earning
from multileave.clicks import PositionBased
from multileave.clicks.fitted import find_user, fitted_names
from multileave.data import synthetic
from multileave.methods.base import get_method
from multileave.stats.rates.estimating import ESTIMATORS, adjusted, estimate
from multileave.stats.verdict.rules import Rules
from multileave.study.own_pages import simulate_own_pages

PAGE = Path(__file__).parents[1] / "docs" / "rates.md"
IMPRESSIONS = 2_000_000
QUERIES = 400
CLICK = (0.05, 0.1, 0.2, 0.3, 0.4)
EXAMINE = (1.0, 0.71, 0.59, 0.48, 0.39, 0.33, 0.29, 0.26, 0.24, 0.22)


def users(files):
    """Yield the name and the model of every kind of user."""
    yield "position-based", PositionBased(CLICK, EXAMINE)
    for name in ("perfect", "navigational", "informational", *fitted_names(files)):
        yield name, find_user(name, 5, files)


def limits(files, impressions):
    """Yield a record for every kind of user and number of rankers."""
    for rankers in (2, 5):
        # The first ranker is the best, and the last the worst.
        data = synthetic(queries=QUERIES, rankers=rankers, seed=3)
        for name, user in users(files):
            world = Earning(data, get_method("dpm"), user)
            tables = world.tables()
            queries = np.random.default_rng(1).integers(QUERIES, size=impressions)
            sums = world.sums(tables, np.arange(impressions), queries, f"limits/{name}/{rankers}")
            found = estimate(sums, data.rankers, Rules(control=data.rankers[-1]))
            truth = simulate_own_pages(data, user, impressions, seed=f"alone/{name}/{rankers}").means[0]
            best, control = found.rankers[0], found.rankers[-1]
            yield {
                "user": name,
                "rankers": rankers,
                "alone": truth[0],
                "rate": best.rate,
                "rate_error": (best.high - best.low) / 3.92,
                "bias": best.rate / truth[0] - 1.0,
                "control_bias": control.rate / truth[-1] - 1.0,
                "lift_alone": truth[0] / truth[-1] - 1.0,
                "lift": best.lift,
                "lift_error": (best.lift_high - best.lift_low) / 3.92,
            }


def precision(impressions):
    """Yield a record for every method and number of rankers."""
    for rankers in (2, 5):
        data = synthetic(queries=QUERIES, rankers=rankers, seed=3)
        for spec in ("dpm", "rpm", "rpm(lead=2)"):
            world = Earning(data, get_method(spec), PositionBased(CLICK, EXAMINE))
            tables = world.tables()
            queries = np.random.default_rng(2).integers(QUERIES, size=impressions)
            sums = world.sums(tables, np.arange(impressions), queries, f"precision/{spec}/{rankers}")
            alone = simulate_own_pages(data, world.user, impressions, seed=f"precise/{rankers}").variances[0]
            found = {"method": spec, "rankers": rankers}
            for estimator in ESTIMATORS:
                covariance = adjusted(sums, estimator).covariance
                between = covariance[0, 0] - 2.0 * covariance[0, 1] + covariance[1, 1]
                # Each arm of an A/B test gets one impression of as many as there are rankers.
                found[estimator] = between / impressions / (rankers * (alone[0] + alone[1]))
            yield found


def limits_table(records):
    """Return the records as a table in Markdown."""
    lines = [
        "| users | rankers | clicks alone | estimated | bias | lift alone | estimated lift |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['user']} | {r['rankers']} | {r['alone']:.3f} | {r['rate']:.3f} ± {r['rate_error']:.3f} | "
        f"{100 * r['bias']:+.0f} % | {100 * r['lift_alone']:+.1f} % | "
        f"{100 * r['lift']:+.1f} ± {100 * r['lift_error']:.1f} % |"
        for r in records
    ]
    return "\n".join(lines)


def precision_table(records):
    """Return the records as a table in Markdown."""
    lines = [f"| method | rankers | {' | '.join(ESTIMATORS)} |", "|---|---|---|---|---|"]
    lines += [
        f"| {r['method']} | {r['rankers']} | {' | '.join(f'{r[name]:.2f}' for name in ESTIMATORS)} |" for r in records
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users-from", nargs="*", default=[], help="files that multileave fit-users wrote")
    parser.add_argument("--quick", action="store_true", help="a tenth of the impressions")
    parser.add_argument("--write", action="store_true", help="also write the tables into docs/rates.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    impressions = IMPRESSIONS // 10 if arguments.quick else IMPRESSIONS
    records = {"limits": list(limits(arguments.users_from, impressions)), "precision": list(precision(impressions))}
    tables = {"limits": limits_table(records["limits"]), "precision": precision_table(records["precision"])}
    print(json.dumps(records, indent=1) if arguments.json else "\n\n".join(tables.values()))
    if arguments.write:
        text = PAGE.read_text()
        for name, table in tables.items():
            place = re.compile(f"(<!-- {name} -->\\n).*?(<!-- end of {name} -->)", re.DOTALL)
            text = place.sub(lambda held, table=table: f"{held[1]}\n{table}\n\n{held[2]}", text)
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
