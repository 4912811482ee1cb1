"""The evidence for dpm and opm: prints the tables of docs/beyond-the-paper.md.

    python benchmarks/beyond.py --data DIR --out DIR [--jobs 2] [--runs 25] [--figure docs/images/beyond-the-paper.png]
    python benchmarks/beyond.py --data DIR --out DIR --runs 8 --users-from benchmarks/users/*.toml [--users ...]

DIR contains MQ2008, OHSUMED and MQ2007-partial (85 % of the documents of MQ2007; never to be read as
MQ2007). 18 settings: three data sets, 5 and 15 rankers, three users, 125 runs of 10,000 impressions;
and synthetic data of five grades with 40 rankers, 25 runs. With users fitted to logs only the former, and
rpm beside the others. An interrupted study resumes.
"""

import argparse
from pathlib import Path

import numpy as np

from measuring import markdown_table
from multileave.clicks.fitted import fitted_names
from multileave.study.plots import error_figure, save
from multileave.study.results import RunResult, gather
from multileave.study.runner import run_study
from multileave.study.settings import PAPER_USERS, Settings

METHODS = ("tdm", "om", "pm", "sosm", "ppm", "ppm(pairs='all')", "dpm", "dpm(depth='linear')", "opm")
DATA = ("MQ2008", "OHSUMED", "MQ2007-partial")
POINTS = (1_000, 10_000)


def errors(runs, impressions, truth):
    """Return the error of every run at a number of impressions, by (fold, run)."""
    found = {}
    for run in runs:
        values = {"heldout": run.error_heldout, "same": run.error_same_queries, **run.other}[truth]
        found[run.fold, run.run] = values[run.impressions.index(impressions)]
    return found


def paired(runs, base, impressions, truth):
    """Return the mean difference to another method on the same rankers, and its standard error."""
    mine, theirs = errors(runs, impressions, truth), errors(base, impressions, truth)
    difference = np.array([mine[key] - theirs[key] for key in mine])
    return difference.mean(), difference.std(ddof=1) / len(difference) ** 0.5


def print_table(head, rows):
    print(markdown_table(head, rows))


def settings_of(results: list[RunResult]):
    return gather(results, lambda r: (r.dataset, r.rankers, r.user))


def methods_of(results: list[RunResult]):
    return list(dict.fromkeys(r.method for r in results))


def print_by_user(results, point=10_000):
    """Print each method's mean error on the same queries for every user, and how much less dpm's is than ppm's."""
    rows = []
    for user, of_user in gather(results, lambda r: r.user).items():
        grouped = settings_of(of_user).values()
        means = {
            method: np.mean([
                np.mean([*errors([r for r in runs if r.method == method], point, "same").values()]) for runs in grouped
            ])
            for method in methods_of(results)
        }  # fmt: skip
        gains = [f"{100 * (1 - means[method] / means['ppm']):+.0f} %" for method in ("dpm", "dpm(depth='linear')")]
        rows.append([user, *(f"{mean:.4f}" for mean in means.values()), *gains])
    print_table(["user", *(f"`{m}`" for m in methods_of(results)), "dpm against ppm", "linear against ppm"], rows)


def print_means(results):
    """Print each method's mean error over all settings."""
    grouped = settings_of(results)
    rows = []
    for method in methods_of(results):
        row = [f"`{method}`"]
        for truth in ("same", "heldout"):
            for point in POINTS:
                means = [
                    np.mean([*errors([r for r in runs if r.method == method], point, truth).values()])
                    for runs in grouped.values()
                ]
                row.append(f"{np.mean(means):.4f}")
        rows.append(row)
    print_table(["method", "same, 1,000", "same, 10,000", "held out, 1,000", "held out, 10,000"], rows)


def print_settings(results, truth="same", point=10_000):
    """Print every setting: errors, and the paired differences of dpm to ppm and of opm to dpm in standard errors."""
    rows = []
    for (dataset, rankers, user), runs in settings_of(results).items():
        by_method = gather(runs, lambda r: r.method)
        row = [dataset, str(rankers), user]
        for method in methods_of(results):
            row.append(f"{np.mean([*errors(by_method[method], point, truth).values()]):.3f}")
        for method, base in (("dpm", "ppm"), ("dpm(depth='linear')", "ppm"), ("opm", "dpm")):
            mean, error = paired(by_method[method], by_method[base], point, truth)
            row.append(f"{mean:+.4f} ({mean / error if error else 0:+.1f})")
        rows.append(row)
    head = [
        "data",
        "rankers",
        "user",
        *methods_of(results),
        "dpm - ppm (in s.e.)",
        "linear - ppm (in s.e.)",
        "opm - dpm (in s.e.)",
    ]
    print_table(head, rows)


def print_truths(results, point=10_000):
    """Print mean errors over all settings against other measures on the queries issued."""
    grouped = settings_of(results)
    names = {"same": "NDCG@10", "dcg@10": "DCG@10", "p@10": "P@10", "ap": "AP", "rr": "RR"}
    rows = []
    for method in methods_of(results):
        row = [f"`{method}`"]
        for truth in names:
            means = [
                np.mean([*errors([r for r in runs if r.method == method], point, truth).values()])
                for runs in grouped.values()
            ]
            row.append(f"{np.mean(means):.4f}")
        rows.append(row)
    print_table(["method", *names.values()], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--users", nargs="+", help="default: the paper's, or the fitted ones")
    parser.add_argument("--users-from", nargs="+", default=[], help="files of users fitted to logs")
    given = parser.parse_args()
    real = Settings(
        datasets=DATA, methods=(*METHODS, "rpm") if given.users_from else METHODS, rankers=(5, 15), runs=given.runs,
        users=tuple(given.users or fitted_names(given.users_from) or PAPER_USERS), data=given.data,
        users_from=tuple(given.users_from),
    )  # fmt: skip
    results = run_study(real, given.out, jobs=given.jobs)
    print(f"## Mean over {len(settings_of(results))} settings\n")
    print_means(results)
    print("## Every setting, same queries, 10,000 impressions\n")
    print_settings(results)
    print("## Other measures, same queries, 10,000 impressions\n")
    print_truths(results)
    print("## By user, same queries, 10,000 impressions\n")
    print_by_user(results)
    if given.users_from:
        return
    made_up = Settings(
        datasets=("synthetic",), methods=METHODS, users=PAPER_USERS, rankers=(40,), runs=max(1, given.runs // 5),
        data=given.data,
    )  # fmt: skip
    print("## Synthetic data, five grades, 40 rankers\n")
    print_settings(run_study(made_up, given.out, jobs=given.jobs))
    if given.figure:
        given.figure.parent.mkdir(parents=True, exist_ok=True)
        shown = [r for r in results if r.method not in ("om", "ppm(pairs='all')")]
        given.figure.write_bytes(save(error_figure(shown, 15, truth="same_queries"), "png"))


if __name__ == "__main__":
    main()
