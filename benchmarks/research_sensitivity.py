"""Ideas to beat dpm: prints the tables of docs/research/beating-dpm.md.

    python benchmarks/research_sensitivity.py --data DIR [--half tuning|judging] [--runs 25] [--impressions 10000]

Every second ranker and the first half of the queries are for tuning; the other rankers and queries are
for judging what was chosen. All ideas score the same impressions, so differences are paired.

An idea is what a pair of documents counts, times what the clicks say, times a weight.

    credits       S_n += .. g(r_n(i), r_n(j)), P_nm = S_n - S_m
      top, linear, log    sgn u(min rank), u = 1, (k + 1 - r) / k, 1 / log2(1 + r) down to k  (top, linear: dpm's)
      gain                D(r_n(i)) - D(r_n(j)), D = 1 / log2(1 + r) down to k, else 0
    opposed       P_nm += .. F(move of i, move of j), if they are of opposite sign; moves by D
      one, sum, min       1, the sum, the smaller of the two moves
      min 1/r, min linear the smaller, with 1 / r and (k + 1 - r) / k for D
    clicks        both: c_x - c_y.  below: c_x.  centred: c_x - p_x - (c_y - p_y), p the click rates so far
    weight        1/w, or 1
    propensity    c_x, or c_x - p_x, to the rankers with the document in their top x, over its probability to be there
"""

import argparse
import itertools
from collections import defaultdict

import numpy as np

from multileave.clicks import user as preset
from multileave.clicks.cascade import cascade_clicks
from multileave.data import load_fold, ndcg
from multileave.kernels import kernel
from multileave.methods import get_method
from multileave.methods.opposed_preference import fill_discounts
from multileave.methods.pairwise_preference import best_ranks, chances_to_stay, draw_choices
from multileave.random import below, seed_state
from multileave.study.engine import pack
from multileave.study.scoring import binary_error, score_differences
from multileave.study.settings import PAPER_USERS

DATA = ("MQ2008", "OHSUMED", "MQ2007-partial")
RANKERS = (5, 8)
FOLDS = (1, 2, 3, 4, 5)
K = 10
CREDITS = ("top", "linear", "log", "gain")
OPPOSED = ("one", "sum", "min", "min 1/r", "min linear")
HOW = tuple(itertools.product(("both", "below", "centred"), ("1/w", "1")))
IDEAS = (
    *((f"credits {g}", *how) for g in CREDITS for how in HOW),
    *(("propensity", clicks, "") for clicks in ("both", "centred")),
    *((f"opposed {f}", *how) for f in OPPOSED for how in HOW),
)
DPM, OPM = IDEAS.index(("credits top", "both", "1/w")), IDEAS.index(("opposed min", "both", "1"))


@kernel
def add_pair(upper, lower, says, gains_x, gains_y, credits, opposed):
    """Add one pair of documents: gains are (3, R), by log, 1/r and linear discounts; says are HOW's coefficients."""
    rankers = gains_x.shape[1]
    for n in range(rankers):
        if gains_x[0, n] == 0.0 and gains_y[0, n] == 0.0:
            continue
        sign = 1.0 if upper[n] < lower[n] else -1.0
        for how in range(len(says)):
            credits[how, n] += says[how] * sign
            credits[6 + how, n] += says[how] * sign * max(gains_x[2, n], gains_y[2, n])
            credits[12 + how, n] += says[how] * sign * max(gains_x[0, n], gains_y[0, n])
            credits[18 + how, n] += says[how] * (gains_x[0, n] - gains_y[0, n])
    for n in range(rankers):
        for m in range(n):
            if (upper[n] - upper[m]) * (lower[n] - lower[m]) >= 0:
                continue
            for d in range(3):
                up, down = gains_x[d, n] - gains_x[d, m], gains_y[d, m] - gains_y[d, n]
                if up == 0.0 and down == 0.0:
                    continue
                sign = 1.0 if upper[n] < upper[m] else -1.0
                least = sign * min(abs(up), abs(down))
                for how in range(len(says)):
                    if d == 0:
                        opposed[how, n, m] += says[how] * sign
                        opposed[6 + how, n, m] += says[how] * (up + down)
                    opposed[12 + 6 * d + how, n, m] += says[how] * least


@kernel
def score_ideas(impressions, packed, person, rng, discounts, seen, scratch, credits, opposed):
    """Show pages, and let every idea score the same clicks. seen: impressions and clicks by rank so far."""
    blocks, rows, starts = packed
    shown, note, stat, labels, clicks, drawn, gains, best, stay, says, work_i, work_f = scratch
    rankers = rows.shape[1]
    k = len(shown) - 1
    for _ in range(impressions):
        q = below(rng, len(starts))
        at, row = starts[q, 0], starts[q, 1]
        depth, documents = np.int64(blocks[at]), np.int64(blocks[at + 1])
        entering = blocks[at + 2 : at + 2 + depth]
        lengths = rows[row]
        top = rows[row + 1 : row + 1 + depth].T
        ranks = rows[row + 1 + depth : row + 1 + depth + documents]
        note[:] = 0
        m = draw_choices(top, entering, ranks[:0], lengths, k, person, rng, shown, note, stat, work_i, work_f)
        for x in range(m):
            labels[x] = blocks[at + 2 + depth + shown[x]]
            for n in range(rankers):
                drawn[x, n] = ranks[shown[x], n]
                for d in range(3):
                    gains[x, d, n] = discounts[d, min(drawn[x, n], k + 1)]
        cascade_clicks(labels[:m], min(k, m), person, rng, clicks[:m])
        best_ranks(drawn[:m], best[:m])
        chances_to_stay(note[:m], stay[: m + 1])
        for x in range(m):
            rate_x = seen[1 + x] / max(seen[0], 1.0)
            if x < k:
                chance = stay[x] / stay[best[x] - 1] / note[x] * (note[x] + x)
                for n in range(rankers):
                    if drawn[x, n] <= x + 1:
                        credits[24, n] += clicks[x] / chance
                        credits[25, n] += (clicks[x] - rate_x) / chance
            for y in range(x + 1, m):
                threshold = max(best[x], best[y])
                if x + 1 < threshold:
                    continue
                weight = stay[min(best[x], best[y]) - 1] / stay[threshold - 1]
                difference = float(clicks[x]) - float(clicks[y])
                says[1], says[3] = difference, float(clicks[x])
                says[5] = difference - rate_x + seen[1 + y] / max(seen[0], 1.0)
                for how in range(0, 6, 2):
                    says[how] = weight * says[how + 1]
                add_pair(drawn[x], drawn[y], says, gains[x], gains[y], credits, opposed)
        seen[0] += 1
        for x in range(m):
            seen[1 + x] += clicks[x]


def preferences(data, person, impressions, seed):
    """Return every idea's preferences, (ideas, R, R), after some impressions."""
    packed = pack(data, get_method("dpm"), K)
    rankers = len(data.rankers)
    discounts = np.zeros((3, K + 2))
    fill_discounts(discounts[0])
    discounts[1, 1 : K + 1] = 1 / np.arange(1, K + 1)
    discounts[2, 1 : K + 1] = np.arange(K, 0, -1) / K
    scratch = (
        *(np.zeros(K + 1, dtype=np.int32) for _ in range(2)), np.zeros(2),
        *(np.zeros(K + 1, dtype=np.uint8) for _ in range(2)), np.zeros((K + 1, rankers), dtype=np.int32),
        np.zeros((K + 1, 3, rankers)), np.zeros(K + 1, dtype=np.int32), np.zeros(K + 2), np.zeros(len(HOW)),
        np.zeros(packed.documents + 1, dtype=np.int32), np.zeros(K + 2),
    )  # fmt: skip
    credits = np.zeros((len(CREDITS) * len(HOW) + 2, rankers))
    opposed = np.zeros((len(OPPOSED) * len(HOW), rankers, rankers))
    score_ideas(
        impressions, (packed.blocks, packed.rows, packed.starts), person.parameters, seed_state(seed), discounts,
        np.zeros(K + 2), scratch, credits, opposed,
    )  # fmt: skip
    return np.concatenate([credits[:, :, None] - credits[:, None, :], opposed - opposed.transpose(0, 2, 1)])


def run(given, half):
    """Return {setting: errors (runs, ideas)}."""
    errors = defaultdict(list)
    for dataset, number in itertools.product(DATA, FOLDS):
        fold = load_fold(given.data, dataset, number)
        middle = len(fold.users) // 2
        queries = fold.users.part(0, middle) if half == 0 else fold.users.part(middle, len(fold.users))
        for rankers, one in itertools.product(RANKERS, range(given.runs)):
            name = f"{dataset}/{number}/{half}/{rankers}/{one}"
            rng = seed_state(name)
            left = list(fold.rankers[half::2])
            chosen = sorted(left.pop(int(below(rng, len(left)))) for _ in range(rankers))
            ranked = queries.rank(chosen, seed=f"{name}/ties")
            truth = score_differences(ndcg(ranked))
            for person in PAPER_USERS:
                found = preferences(ranked, preset(person, ranked.grades), given.impressions, f"{name}/{person}")
                errors[dataset, rankers, person].append([binary_error(one, truth) for one in found])
    return {setting: np.array(values) for setting, values in errors.items()}


def in_errors(values, base):
    """Return the mean difference to another idea in standard errors, for every idea, paired over runs."""
    difference = values - values[:, [base]]
    spread = difference.std(axis=0, ddof=1) / len(values) ** 0.5
    return difference.mean(axis=0) / np.where(spread > 0, spread, 1)


def print_ideas(errors):
    """Print every idea's mean over settings, the best first."""
    means = np.mean([values.mean(axis=0) for values in errors.values()], axis=0)
    worst = np.max([in_errors(values, DPM) for values in errors.values()], axis=0)
    print("| idea | clicks | weight | error | to dpm | worst setting, in s.e. |\n|---|---|---|---|---|---|")
    for idea in np.argsort(means, kind="stable"):
        named = {DPM: " (dpm)", OPM: " (opm)"}.get(int(idea), "")
        what, clicks, weight = IDEAS[idea]
        print(
            f"| {what}{named} | {clicks} | {weight} | {means[idea]:.4f} | {means[idea] / means[DPM] - 1:+.1%} "
            f"| {worst[idea]:+.1f} |"
        )


def print_settings(errors):
    """Print opm next to dpm in every setting."""
    linear = IDEAS.index(("credits linear", "both", "1/w"))
    print("\n| data | rankers | user | dpm | linear | opm | opm - dpm (in s.e.) | opm - linear (in s.e.) |")
    print("|---|---|---|---|---|---|---|---|")
    for (dataset, rankers, person), values in errors.items():
        mean = values.mean(axis=0)
        print(
            f"| {dataset} | {rankers} | {person} | {mean[DPM]:.3f} | {mean[linear]:.3f} | {mean[OPM]:.3f} "
            f"| {mean[OPM] - mean[DPM]:+.4f} ({in_errors(values, DPM)[OPM]:+.1f}) "
            f"| {mean[OPM] - mean[linear]:+.4f} ({in_errors(values, linear)[OPM]:+.1f}) |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--half", choices=("tuning", "judging"), default="judging")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--impressions", type=int, default=10_000)
    given = parser.parse_args()
    errors = run(given, ("tuning", "judging").index(given.half))
    print_ideas(errors)
    print_settings(errors)


if __name__ == "__main__":
    main()
