"""What teams and users pay: impressions to a verdict, wrong signs and page quality. Prints the tables of docs/power.md.

    python benchmarks/power.py --data DIR --out DIR [--datasets A B] [--methods ...] [--figures DIR] [--clones]
    python benchmarks/power.py --data DIR --out DIR --users-from benchmarks/users/*.toml --share 0.5

--data is a folder with the data sets. Every run picks rankers at random, and all methods and users get the same ones.
There are at least 100 pairs of rankers per data set with 2, 3, 5 and 15 rankers (fewer rankers if a data set has
fewer). Users: the paper's three, and one who examines ranks by position; or those of files that `multileave fit-users`
wrote. An interrupted run resumes.

The recommendation follows a rule that was written down before the first run: among methods for which both requirements
of fidelity are proved, cascades included, and whose pages have at least 98 % of tdm's DCG with every number of rankers,
the one with the lowest geometric mean of impressions to a verdict over numbers of rankers, data sets and users.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from measuring import markdown_table
from multileave.clicks import user as preset
from multileave.clicks.fitted import fitted_names
from multileave.data import QuerySet, available, load_fold
from multileave.methods import get_method
from multileave.methods.round_preference import TeamExchange
from multileave.random import below, seed_state
from multileave.study.engine import Simulation
from multileave.study.plots import power_figure, save
from multileave.study.power import impressions_to_verdict, upper_pairs
from multileave.study.results import gather
from multileave.study.runner import run_study
from multileave.study.settings import PAPER_USERS, Settings
from multileave.study.summaries import paired_ratios
from multileave.theory.proofs import proved
from multileave.theory.users import PRESETS

METHODS = ("rpm", "tdm", "pm", "sosm", "ppm", "dpm", "opm")  # om takes twenty times as long: --methods om
RUNS = {2: 40, 3: 14, 5: 8, 15: 4}  # of each of five folds
BY_POSITION = {"click": [0.1, 0.3, 0.6], "examine": [1.0, 0.71, 0.59, 0.48, 0.39, 0.33, 0.28, 0.25, 0.22, 0.2]}
USERS = (*PAPER_USERS, "by_position")
# The targets set for rpm beforehand, for each of the paper's users; on other data; and DCG of the pages.
LINES = {2: (1.0, 1.15), 5: (0.60, 0.90), 15: (0.26, 0.56)}
PAGES = 0.98
EARLY = 10_000  # impressions of the paper's runs
NEAR_COPIES = 3


def run(given):
    """Run what is missing, and return all results."""
    results = []
    for rankers, runs in RUNS.items():
        names = [name for name in given.datasets if len(load_fold(given.data, name, 1).rankers) >= rankers]
        if names:
            settings = Settings(
                tuple(names), tuple(given.methods), tuple(given.users), (rankers,), given.impressions,
                max(1, round(given.share * runs)), data=given.data, own_users={"by_position": BY_POSITION},
                users_from=tuple(given.users_from),
            )  # fmt: skip
            results += run_study(settings, given.out, jobs=given.jobs)
    return results


def wrong_signs(runs):
    """Return the share of pairs with the wrong sign at the end, and its standard error over runs."""
    errors = np.array([one.error_same_queries[-1] for one in runs])
    return errors.mean(), errors.std(ddof=1) / len(errors) ** 0.5


def early_errors(runs):
    """Return the paper's error after 10,000 impressions, held out and on the same queries, and the standard error."""
    at = runs[0].impressions.index(EARLY)
    errors = np.array([(one.error_heldout[at], one.error_same_queries[at]) for one in runs])
    return *errors.mean(axis=0).tolist(), float(errors[:, 1].std(ddof=1) / len(errors) ** 0.5)


def relative_dcg(runs, base):
    """Return the DCG of the pages shown relative to the base's, each the mean over data sets."""
    ours, theirs = (
        np.mean([np.mean([one.dcg_shown for one in part]) for part in gather(some, lambda r: r.dataset).values()])
        for some in (runs, base)
    )
    return ours / theirs


def only(runs, dataset):
    """Return the runs of one data set."""
    return [one for one in runs if one.dataset == dataset]


def measure(results, methods):
    """Return {rankers: {method: {"ratio": {user: median}, "wrong": {user: (share, s.e.)}, "pages": ..., ...}}}."""
    found = {}
    for rankers, of_rankers in gather(results, lambda one: one.rankers).items():
        of_method = gather(of_rankers, lambda one: one.method)
        datasets = list(dict.fromkeys(one.dataset for one in of_rankers))
        found[rankers] = {}
        for method in methods:
            mine, base = of_method[method], of_method["tdm"]
            of_user, base_of_user = (gather(runs, lambda one: one.user) for runs in (mine, base))

            def ratio(user, dataset=None, of_user=of_user, base_of_user=base_of_user):
                pair = of_user[user], base_of_user[user]
                pair = pair if dataset is None else [only(runs, dataset) for runs in pair]
                return float(np.median(paired_ratios(*pair)))

            found[rankers][method] = {
                "ratio": {user: ratio(user) for user in of_user},
                "by_data": {name: {user: ratio(user, name) for user in of_user} for name in datasets},
                "wrong": {user: wrong_signs(of_user[user]) for user in of_user},
                "early": {user: early_errors(of_user[user]) for user in of_user},
                "pages": float(relative_dcg(mine, base)),
                "pages_by_data": {name: float(relative_dcg(only(mine, name), only(base, name))) for name in datasets},
                "own_pages": float(np.mean([one.ndcg_shown / np.mean(one.ndcg_rankers) for one in mine])),
            }
    return found


def recommend(found, methods):
    """Return the methods that the rule admits with their geometric means, the recommended one first."""
    means = {}
    for method in methods:
        proofs = proved(get_method(method), PRESETS["navigational"])
        pages = min(of_method[method]["pages"] for of_method in found.values())
        if {"unbiased", "pareto"} <= proofs and pages >= PAGES:
            ratios = [
                ratio
                for of_method in found.values()
                for of_user in of_method[method]["by_data"].values()
                for ratio in of_user.values()
            ]
            means[method] = float(np.exp(np.mean(np.log(ratios))))
    return dict(sorted(means.items(), key=lambda item: item[1]))


def with_near_copies(data, which, swaps, seed):
    """Return two rankers, and NEAR_COPIES of one of them with some neighbours swapped."""
    rng = seed_state(seed)
    parts = []
    for q in range(len(data)):
        _, rankings = data.query(q)
        rows = [rankings[0], rankings[1]]
        for _ in range(NEAR_COPIES):
            copy = rankings[which].copy()
            for _ in range(swaps if len(copy) > 1 else 0):
                x = int(below(rng, min(len(copy), 11) - 1))
                copy[x], copy[x + 1] = copy[x + 1], copy[x]
            rows.append(copy)
        parts.append(np.concatenate(rows))
    names = (*data.rankers, *(f"copy {n}" for n in range(NEAR_COPIES)))
    return QuerySet(names, data.grades, data.offsets, data.labels, np.concatenate(parts).astype(np.int32))


def clones(given, methods, pairs=20, swaps=(0, 1, 3)):
    """Return {(method, swaps): (flips, pairs)}: how often copies of one ranker reverse a clear preference."""
    flips = {}
    for dataset in given.datasets:
        fold = load_fold(given.data, dataset, 1)
        for number in range(pairs):
            rng = seed_state(f"clones/{dataset}/{number}")
            left = list(fold.rankers)
            chosen = sorted(left.pop(int(below(rng, len(left)))) for _ in range(2))
            alone = fold.users.rank(chosen, seed=f"clones/{number}")
            for method in methods:
                for count in swaps:
                    beside = with_near_copies(alone, number % 2, count, f"clones/{dataset}/{number}/{count}")
                    z = []
                    for data in (alone, beside):
                        one = Simulation(data, method, preset("navigational", data.grades), seed=f"clones/{number}")
                        one.run(given.impressions)
                        spread = np.sqrt(max(one.variances[0, 1], 1e-12) / given.impressions)
                        z.append(one.preferences[0, 1] / given.impressions / spread)
                    if min(map(abs, z)) > 3:
                        flipped, total = flips.get((method, count), (0, 0))
                        flips[method, count] = flipped + (z[0] * z[1] < 0), total + 1
    return flips


def drafts(given, runs):
    """Return {rankers: {user: median ratio}} of team drafts inferred by exchanges, relative to clicks per team."""
    found = {}
    for rankers, count in runs.items():
        ratios = {user: [] for user in PAPER_USERS}
        for dataset, number, one in itertools.product(given.datasets, range(1, 6), range(count)):
            fold = load_fold(given.data, dataset, number)
            rng = seed_state(f"drafts/{dataset}/{number}/{one}")
            left = list(fold.rankers)
            if len(left) < rankers:
                continue
            chosen = sorted(left.pop(int(below(rng, len(left)))) for _ in range(rankers))
            data = fold.users.rank(chosen, seed=f"drafts/{one}")
            for user in PAPER_USERS:
                needed = []
                for method in (TeamExchange(), "tdm(prefix='drafted')"):
                    loop = Simulation(data, method, preset(user, data.grades), seed=f"drafts/{one}/{user}")
                    loop.run(given.impressions)
                    means = upper_pairs(loop.preferences / given.impressions)
                    needed.append(impressions_to_verdict(means, upper_pairs(loop.variances)))
                ratios[user] += [ours / theirs for ours, theirs in zip(*needed, strict=True) if np.isfinite(theirs)]
        found[rankers] = {user: float(np.median(values)) for user, values in ratios.items()}
    return found


def print_tables(found, methods):
    """Print one table each for ratios, wrong signs and pages."""
    users = list(next(iter(found.values()))[methods[0]]["ratio"])
    short = " / ".join(user.replace("_", " ") for user in users)
    print(f"\nImpressions to a verdict relative to tdm, median over pairs of rankers: {short}\n")
    rows = [
        [rankers, *(" ".join(f"{row[m]['ratio'][u]:.2f}" for u in users) for m in methods if m != "tdm")]
        for rankers, row in found.items()
    ]
    print(markdown_table(["rankers", *(f"`{m}`" for m in methods if m != "tdm")], rows))
    print(f"\nWrong signs at the end, share of pairs (standard error over runs): {short}\n")
    rows = [
        [rankers, *(" ".join(f"{row[m]['wrong'][u][0]:.3f}" for u in users)
                    + f" ({max(row[m]['wrong'][u][1] for u in users):.3f})" for m in methods)]
        for rankers, row in found.items()
    ]  # fmt: skip
    print(markdown_table(["rankers", *(f"`{m}`" for m in methods)], rows))
    print(f"\nError after {EARLY:,} impressions on the queries issued (held out): {short}\n")
    rows = [
        [rankers, *(" ".join("{1:.3f} ({0:.3f})".format(*row[m]["early"][u]) for u in users) for m in methods)]
        for rankers, row in found.items()
    ]
    print(markdown_table(["rankers", *(f"`{m}`" for m in methods)], rows))
    print("\nDCG of the pages shown relative to tdm's; in brackets NDCG relative to the mean ranker's own pages\n")
    rows = [
        [rankers, *(f"{row[m]['pages']:.3f} ({row[m]['own_pages']:.3f})" for m in methods)]
        for rankers, row in found.items()
    ]
    print(markdown_table(["rankers", *(f"`{m}`" for m in methods)], rows))
    print("\nrpm by data set: impressions to a verdict relative to tdm, and DCG of the pages\n")
    rows = [
        [
            name,
            rankers,
            " ".join(f"{ratio:.2f}" for ratio in of_user.values()),
            f"{row['rpm']['pages_by_data'][name]:.3f}",
        ]
        for rankers, row in found.items()
        for name, of_user in row["rpm"]["by_data"].items()
    ]
    print(markdown_table(["data", "rankers", short, "pages"], rows))


def print_lines(found, held_back):
    """Print the targets of rpm, and whether it meets them."""
    print("\nTargets of rpm\n")
    rows = []

    def line(what, measured, asked, holds):
        rows.append([what, f"{measured:.3f}", asked, "yes" if holds else "no"])

    for rankers, limits in LINES.items():
        if rankers not in found:
            continue
        ours, dpm = found[rankers]["rpm"], found[rankers]["dpm"]
        for user in (user for user in PAPER_USERS if user in ours["ratio"]):
            ratio, limit = ours["ratio"][user], limits[held_back]
            line(f"impressions, {rankers} rankers, {user}", ratio, f"at most {limit}", ratio <= limit)
            share, (theirs, error) = ours["wrong"][user][0], dpm["wrong"][user]
            asked = f"at most {theirs:.3f} + {error:.3f}"
            line(f"wrong signs, {rankers} rankers, {user}", share, asked, share <= theirs + error)
        line(f"DCG of pages, {rankers} rankers", ours["pages"], f"at least {PAGES}", ours["pages"] >= PAGES)
    print(markdown_table(["target", "measured", "required", "met"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--datasets", nargs="+", help="default: all in DIR")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--impressions", type=int, default=60_000)
    parser.add_argument("--users", nargs="+", help="default: the paper's and one by position, or the fitted ones")
    parser.add_argument("--users-from", nargs="+", default=[], help="files of users fitted to logs")
    parser.add_argument("--share", type=float, default=1.0, help="of the runs; half still has 100 pairs of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figures", type=Path, help="folder for power-R-rankers.png")
    parser.add_argument("--held-back", action="store_true", help="use the targets for data not used in the design")
    parser.add_argument("--clones", action="store_true", help="also count how often near-copies reverse a preference")
    parser.add_argument("--drafts", action="store_true", help="also infer from team drafts with rpm")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.datasets = given.datasets or [held.name for held in available(given.data)]
    given.methods = list(dict.fromkeys(["rpm", "tdm", "dpm", *given.methods]))
    given.users = given.users or fitted_names(given.users_from) or USERS
    results = run(given)
    found = measure(results, given.methods)
    chosen = recommend(found, given.methods)
    flips = clones(given, given.methods) if given.clones else {}
    reread = drafts(given, {2: 20, 5: 4, 15: 2}) if given.drafts else {}
    if given.json:
        print(json.dumps({"measured": found, "recommended": chosen}, indent=2))
        return
    print_tables(found, given.methods)
    if not given.users_from:
        print_lines(found, given.held_back)
    listed = ", ".join(f"{method} ({mean:.2f})" for method, mean in chosen.items()) or "none"
    print(f"\nAdmitted by the rule, with the geometric mean of the ratios: {listed}")
    if flips:
        print(f"\nClear preferences between two rankers that {NEAR_COPIES} near-copies of one reverse\n")
        counts = sorted({count for _, count in flips})
        rows = [[f"`{m}`", *("{} of {}".format(*flips.get((m, c), (0, 0))) for c in counts)]
                for m in dict.fromkeys(m for m, _ in flips)]  # fmt: skip
        print(markdown_table(["method", *(f"{count} swaps" for count in counts)], rows))
    if reread:
        print("\nTeam drafts inferred by exchanges: impressions relative to clicks per team\n")
        rows = [[rankers, *(f"{ratio:.2f}" for ratio in of_user.values())] for rankers, of_user in reread.items()]
        print(markdown_table(["rankers", *PAPER_USERS], rows))
    if given.figures:
        for rankers in found:
            figure = power_figure(results, rankers)
            (given.figures / f"power-{rankers}-rankers.png").write_bytes(save(figure, "png"))


if __name__ == "__main__":
    main()
