"""Interleaving against an A/B test: how many impressions each takes for the same power, with the same simulated users.

    python benchmarks/versus_ab.py --data DIR [--users-from benchmarks/users/*.toml] [--quick] [--write] [--json]

--data is a folder with the data sets. A run picks R rankers at random: two, five, or two that are alike, of which the
second is the first with a fifth of another mixed in (documents by .8 of their rank in one and .2 of that in the other).
Users see combined pages, and in an A/B test one ranker's own pages: each of R arms gets one in R impressions. A pair of
rankers then takes

    interleaving    7.85 v / m^2 impressions, with mean m and variance v of its preference per impression
    A/B test        7.85 R (v_a + v_b) / (m_a - m_b)^2, with the means and variances of a metric per page

impressions in all, for 80 % power at the 5 % level. Both count impressions, as if each were of another user. The tables
hold A/B impressions per impression of interleaving, for the same pair of the same R rankers, median over pairs with
quartiles. Abandonment is 1 - success and takes as many. Rates are estimated clicks per page of a ranker alone, from
combined pages (docs/rates.md): they are compared with the A/B test on clicks. Seeds are fixed; about ten minutes on
one core. --write: into docs/power.md.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np

from earning import Earning
from measuring import markdown_table, number, tell
from multileave.clicks import PositionBased
from multileave.clicks.fitted import fitted_names
from multileave.data import QuerySet, available, load_fold, ndcg
from multileave.methods import get_method
from multileave.random import below, seed_state
from multileave.stats.rates.estimating import adjusted
from multileave.study.engine import Simulation
from multileave.study.own_pages import PAGE_METRICS, simulate_own_pages
from multileave.study.power import impressions_to_verdict, quartiles, upper_pairs
from multileave.study.users import user_for

PAGE = Path(__file__).parents[1] / "docs" / "power.md"
METHODS = ("rpm", "tdm", "dpm", "opm", "ppm", "pm", "sosm")  # om takes twenty times as long: --methods
PAPER_USERS = ("perfect", "navigational", "informational")
BY_POSITION = PositionBased((0.1, 0.3, 0.6), (1.0, 0.71, 0.59, 0.48, 0.39, 0.33, 0.28, 0.25, 0.22, 0.2))
ALIKE = "2 alike"
RUNS = {"2": 6, ALIKE: 3, "5": 2}  # of each of five folds
COMBINED, OWN = 120_000, 1_200_000  # impressions of combined pages, and of each ranker's own
CLOSE = 2  # times as many for rankers that are alike
# Rates, in the first run of each fold; rpm weighs every group of rankers and every lead, which takes long.
RATES = {"dpm": {2: 40_000, 5: 40_000}, "rpm(lead=2)": {2: 20_000, 5: 3_000}, "rpm": {2: 20_000, 5: 3_000}}
SURE = 3.0  # standard errors; a smaller difference between own pages is unclear


def users(files, names):
    """Return the names of all users."""
    return names or [*PAPER_USERS, "by position", *fitted_names(files)]


def clicker(name, data, files):
    """Return a user for the grades of these data."""
    if name == "by position":
        return BY_POSITION
    return user_for(data, 10, name, () if name in PAPER_USERS else files)


def choose(fold, dataset, kind, run):
    """Return the queries of a fold as ranked by some of its rankers."""
    rng = seed_state(f"versus-ab/{dataset}/{fold.number}/{kind}/{run}")
    left = list(fold.rankers)
    chosen = [left.pop(int(below(rng, len(left)))) for _ in range(2 if kind == ALIKE else int(kind))]
    data = fold.users.rank(chosen, seed=f"versus-ab/{run}")
    if kind == ALIKE:
        return with_a_fifth(data)
    return data


def with_a_fifth(data):
    """Return the first ranker, and the same with a fifth of the second mixed in."""
    parts = []
    for q in range(len(data)):
        _, (first, second) = data.query(q)
        places = 0.8 * np.argsort(first) + 0.2 * np.argsort(second)
        parts += [first, np.argsort(places, kind="stable").astype(np.int32)]
    return QuerySet(data.rankers, data.grades, data.offsets, data.labels, np.concatenate(parts))


def measure(data, user, methods, rated, close, seed):
    """Return, for each pair of rankers, impressions by metric and by method, and signs against NDCG@10."""
    own = simulate_own_pages(data, user, OWN * close, seed=f"{seed}/own")
    rankers = len(data.rankers)
    truth = np.array(upper_pairs(np.subtract.outer(*[ndcg(data)] * 2)))
    ab = {metric: upper_pairs(own.ab_impressions(metric)) for metric in PAGE_METRICS}
    signs = {
        metric: np.array(upper_pairs(np.subtract.outer(row, row)))
        for metric, row in zip(PAGE_METRICS, own.means, strict=True)
    }
    verdicts = {}
    for method in methods:
        loop = Simulation(data, method, user, seed=f"{seed}/{method}")
        loop.run(COMBINED * close)
        means = upper_pairs(loop.preferences / loop.impressions)
        verdicts[method] = impressions_to_verdict(means, upper_pairs(loop.variances)).tolist()
        signs[method] = np.array(means)
    rates = {}
    for method, impressions in RATES.items() if rated else ():
        world = Earning(data, get_method(method), user)
        count = impressions[rankers]
        queries = np.random.default_rng(7).integers(len(data), size=count)
        sums = world.sums(world.tables(), np.arange(count), queries, f"{seed}/rates/{method}")
        covariance = adjusted(sums, "doubly robust").covariance
        spread = np.diag(covariance)[:, None] + np.diag(covariance)[None, :] - 2.0 * covariance
        arms = rankers * np.add.outer(own.variances[0], own.variances[0])
        rates[method] = [
            arm * count / one for arm, one in zip(*map(upper_pairs, (arms, spread)), strict=True) if one > 0
        ]
    differ = truth != 0.0
    wrong = {name: (np.sign(found) != np.sign(truth))[differ].tolist() for name, found in signs.items()}
    noise = np.sqrt((own.variances[:, :, None] + own.variances[:, None, :]) / own.pages)
    unclear = np.abs(own.means[:, :, None] - own.means[:, None, :]) < SURE * noise
    unclear = {metric: upper_pairs(part) for metric, part in zip(PAGE_METRICS, unclear, strict=True)}
    return {"ab": ab, "verdicts": verdicts, "rates": rates, "wrong": wrong, "unclear": unclear}


def run(given):
    """Return what every run, user and data set says, as records."""
    names = users(given.users_from, given.users)
    records = []
    for kind, runs in RUNS.items():
        for dataset in given.datasets:
            for fold_number in range(1, 6):
                fold = load_fold(given.data, dataset, fold_number)
                for one in range(1 if given.quick else runs):
                    data = choose(fold, dataset, kind, one)
                    for name in names:
                        seed = f"versus-ab/{dataset}/{fold_number}/{kind}/{one}/{name}"
                        found = measure(
                            data, clicker(name, data, given.users_from), given.methods, one == 0,
                            CLOSE if kind == ALIKE else 1, seed,
                        )  # fmt: skip
                        records.append({"rankers": kind, "dataset": dataset, "user": name, **found})
            tell(f"{kind} rankers, {dataset} done")
    return records


def ratios(records, metric, method):
    """Return A/B impressions on a metric per impression of a method's verdict, for all pairs with a preference."""
    found = []
    for record in records:
        pairs = zip(record["ab"][metric], record["verdicts"][method], strict=True)
        found += [ab / ours for ab, ours in pairs if np.isfinite(ours) and ours > 0.0]
    return found


def only(records, **wanted):
    """Return the records with these values."""
    return [one for one in records if all(one[name] == value for name, value in wanted.items())]


def summarise(records, methods):
    """Return medians and quartiles by number of rankers, user, data set, metric and method."""
    found = []
    cells = dict.fromkeys((r["rankers"], r["user"]) for r in records)
    for rankers, user in cells:
        mine = only(records, rankers=rankers, user=user)
        for dataset in ("all", *dict.fromkeys(r["dataset"] for r in mine)):
            part = mine if dataset == "all" else only(mine, dataset=dataset)
            row = {"rankers": rankers, "user": user, "dataset": dataset}
            row["pairs"] = sum(len(r["ab"]["clicks"]) for r in part)
            row["ratios"] = {
                metric: {method: quartiles(ratios(part, metric, method)) for method in methods}
                for metric in PAGE_METRICS
            }
            row["impressions"] = {
                **{metric: quartiles([n for r in part for n in r["ab"][metric]]) for metric in PAGE_METRICS},
                **{m: quartiles([n for r in part for n in r["verdicts"][m]]) for m in methods},
            }
            row["rates"] = {
                method: quartiles([n for r in part if r["rates"] for n in r["rates"][method]]) for method in RATES
            }
            row["wrong"] = {
                name: float(np.mean([w for r in part for w in r["wrong"][name]])) for name in (*PAGE_METRICS, *methods)
            }
            row["unclear"] = {
                metric: float(np.mean([u for r in part for u in r["unclear"][metric]])) for metric in PAGE_METRICS
            }
            found.append(row)
    return found


def finite(found):
    """Return the same for JSON, with None for what is infinite."""
    if isinstance(found, dict):
        return {name: finite(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [finite(value) for value in found]
    return None if isinstance(found, float) and np.isinf(found) else found


def spelled(values):
    """Return "31 (12 to 90)", the median and the quartiles."""
    median, low, high = ("∞" if np.isinf(value) else number(value) for value in values)
    return f"{median} ({low} to {high})"


def span(values):
    """Return "12 to 90", the smallest and the largest."""
    return f"{number(min(values))} to {number(max(values))}"


def tables(rows, methods):
    """Return the tables in Markdown by name."""
    whole = [row for row in rows if row["dataset"] == "all"]
    heads = [metric.replace("_", " ") for metric in PAGE_METRICS]
    first = markdown_table(
        ["rankers", "users", "impressions of rpm", *heads, "wrong signs"],
        [
            [
                row["rankers"], row["user"], number(row["impressions"]["rpm"][0]),
                *(spelled(row["ratios"][metric]["rpm"]) for metric in PAGE_METRICS),
                " ".join(f"{row['wrong'][name]:.2f}" for name in (*PAGE_METRICS, "rpm")),
            ]
            for row in whole
        ],
    )  # fmt: skip
    second = markdown_table(
        ["rankers", "method", *heads],
        [
            [rankers, f"`{method}`",
             *(span([row["ratios"][metric][method][0] for row in whole if row["rankers"] == rankers])
               for metric in PAGE_METRICS)]
            for rankers in RUNS
            for method in methods
        ],
    )  # fmt: skip
    third = markdown_table(
        ["rankers", "data", *heads],
        [
            [rankers, dataset,
             *(span([row["ratios"][metric]["rpm"][0] for row in only(rows, rankers=rankers, dataset=dataset)])
               for metric in PAGE_METRICS)]
            for rankers in RUNS
            for dataset in dict.fromkeys(row["dataset"] for row in rows if row["dataset"] != "all")
        ],
    )  # fmt: skip
    fourth = markdown_table(
        ["rankers", *(f"`{method}`" for method in RATES)],
        [
            [rankers, *(span([row["rates"][method][0] for row in whole if row["rankers"] == rankers])
                        for method in RATES)]
            for rankers in RUNS
        ],
    )  # fmt: skip
    return {"versus-ab": first, "versus-ab-methods": second, "versus-ab-data": third, "versus-ab-rates": fourth}


def main():
    global COMBINED, OWN
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--datasets", nargs="+", help="default: all in DIR")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--users", nargs="+", help="default: the paper's, one by position, and all fitted ones")
    parser.add_argument("--users-from", nargs="*", default=[], help="files that multileave fit-users wrote")
    parser.add_argument("--quick", action="store_true", help="one run of each fold, a tenth of the impressions")
    parser.add_argument("--write", action="store_true", help="also write the tables into docs/power.md")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    given = parser.parse_args()
    given.datasets = given.datasets or [held.name for held in available(given.data)]
    given.methods = list(dict.fromkeys(["rpm", *given.methods]))
    if given.quick:
        COMBINED, OWN = COMBINED // 10, OWN // 10
    rows = summarise(run(given), given.methods)
    made = tables(rows, given.methods)
    print(json.dumps(finite(rows), indent=1) if given.json else "\n".join(made.values()))
    if given.write:
        text = PAGE.read_text()
        for name, table in made.items():
            place = re.compile(f"(<!-- {name} -->\\n).*?(<!-- end of {name} -->)", re.DOTALL)
            text = place.sub(lambda held, table=table: f"{held[1]}\n{table}\n{held[2]}", text)
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
