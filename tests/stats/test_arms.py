"""Arms: the A/B verdict is what a cluster-robust regression says, sums merge, and bad input is refused."""

import json
import math

import numpy as np
import pytest

from multileave import Impression, errors, infer
from multileave.stats.arms import ArmTally
from multileave.stats.arms.judging import agreements, judge_arms
from multileave.stats.arms.metrics import METRICS, page_metrics
from multileave.stats.arms.sums import ArmSums
from multileave.stats.verdict.rules import Rules

DOCUMENTS = ("a", "b", "c", "d")


def simulated(seed, users=200, appeal=(0.2, 0.3), spread=1.0):
    """Yield (arm, unit, positions, values) of users of unequal activity and taste."""
    rng = np.random.default_rng(seed)
    for user in range(users):
        arm = user % len(appeal)
        taste = rng.beta(2, 2) * 2 * appeal[arm]
        for _ in range(1 + int(rng.lognormal(0.5, spread))):
            clicked = np.flatnonzero(rng.random(len(DOCUMENTS)) < taste / np.arange(1, 5))
            yield "xyz"[arm], user, clicked.tolist(), {DOCUMENTS[x]: float(rng.integers(1, 50)) for x in clicked}


def tally_of(rows):
    tally = ArmTally()
    for arm, unit, positions, values in rows:
        tally.add(Impression.alone(arm, DOCUMENTS, k=4), positions=positions, unit=unit, values=values)
    return tally


@pytest.mark.parametrize("seed", range(3))
def test_verdict_equals_the_cluster_robust_regression_of_statsmodels(seed):
    sm = pytest.importorskip("statsmodels.api", reason="pip install statsmodels")
    rows = list(simulated(seed))
    verdict = tally_of(rows).verdict(control="x")
    pages = np.array([
        page_metrics(Impression.alone(arm, DOCUMENTS, k=4), clicked, {DOCUMENTS.index(d): v for d, v in values.items()})
        for arm, _, clicked, values in rows
    ])  # fmt: skip
    design = sm.add_constant(np.array([arm == "y" for arm, *_ in rows], dtype=float))
    units = np.array([unit for _, unit, *_ in rows])
    for place, metric in enumerate(METRICS):
        fit = sm.OLS(pages[:, place], design).fit(cov_type="cluster", cov_kwds={"groups": units}, use_t=True)
        found = verdict[metric]["y"]
        low, high = fit.conf_int()[1]
        expected = (fit.params[1], fit.bse[1], fit.pvalues[1], low, high)
        ours = (found.difference, found.error, found.p, found.difference_low, found.difference_high)
        assert ours == pytest.approx(expected, rel=1e-9, abs=1e-12), metric
    fit = sm.OLS(1.0 - pages[:, 1], design).fit(cov_type="cluster", cov_kwds={"groups": units}, use_t=True)
    assert verdict["abandonment"]["y"].difference == pytest.approx(fit.params[1], rel=1e-9)
    assert verdict["abandonment"]["y"].p == pytest.approx(fit.pvalues[1], rel=1e-9)


def test_sums_merge_and_survive_json_and_units_can_be_taken_out():
    rows = list(simulated(4))
    whole = tally_of(rows).arms
    parts = [tally_of([row for row in rows if row[1] % 4 // 2 == part]).arms for part in (0, 1)]
    for arm, sums in whole.items():
        merged = ArmSums.from_dict(json.loads(json.dumps(parts[0][arm].to_dict())))
        merged.merge(parts[1][arm])
        for name, value in vars(sums).items():
            assert np.asarray(getattr(merged, name)) == pytest.approx(np.asarray(value), rel=1e-12)
    unit = np.array([[2.0, 1.0, 0.5, 0.0, 3.0]])
    before = whole["x"].to_dict()
    whole["x"].add_units(unit)
    whole["x"].add_units(unit, -1)
    assert whole["x"].to_dict() == before


def test_sums_from_which_everything_was_taken_out_can_be_written_and_read():
    pages = np.array([[1.0, 1.0, 1 / rank, 10.0 / rank] for rank in range(1, 200)])
    sums = ArmSums()
    for page in pages:
        sums.add_squares(page)
        sums.add_units(np.append(page, 1.0)[None])
    for page in np.random.default_rng(1).permutation(pages):
        sums.add_squares(page, -1)
        sums.add_units(np.append(page, 1.0)[None], -1)
    read = ArmSums.from_dict(json.loads(json.dumps(sums.to_dict())))
    assert (read.units, read.impressions, read.squares.min()) == (0, 0, 0.0)


def test_a_single_arm_has_means_and_no_differences():
    for interval in ("clustered", "anytime"):
        [arm] = tally_of([row for row in simulated(2) if row[0] == "x"]).verdict(interval=interval)["clicks"].arms
        assert arm.low < arm.mean < arm.high
        assert (arm.difference, arm.p) == (None, None)


@pytest.mark.acceptance  # a simulation of seconds
@pytest.mark.parametrize(("interval", "most"), [("clustered", 0.07), ("anytime", 0.06)])
def test_arms_that_are_alike_are_seldom_told_apart(interval, most):
    # 300 runs of 60 users: at a true rate of 5 % more than 8.5 % have a probability below 1 %.
    wrong = 0
    for seed in range(300):
        verdict = tally_of(simulated(100 + seed, users=60, appeal=(0.25, 0.25))).verdict(interval=interval)
        wrong += verdict["clicks"]["y"].significant
    assert wrong / 300 <= most + 0.015


def test_three_arms_are_corrected_and_compared_with_the_control():
    verdict = tally_of(simulated(7, users=600, appeal=(0.2, 0.45, 0.2))).verdict(control="x")
    clicks = verdict["clicks"]
    assert [one.arm for one in clicks.arms] == ["x", "y", "z"]
    assert clicks["y"].significant
    assert not clicks["z"].significant
    assert clicks["y"].lift == pytest.approx(clicks["y"].mean / clicks["x"].mean - 1.0)
    assert clicks["z"].p_corrected >= clicks["z"].p
    assert json.loads(json.dumps(verdict.to_dict()))["metrics"][0]["metric"] == "clicks"


def test_arms_without_any_variance_are_judged_by_their_assignment():
    tally = ArmTally()
    for user in range(8):
        page = Impression.alone("xy"[user % 2], DOCUMENTS, k=4)
        tally.add(page, positions=[0] if user % 2 else [], unit=user)
    found = tally.verdict()["success"]["y"]
    assert found.p == pytest.approx(2 / math.comb(8, 4))
    assert found.difference == 1.0
    assert found.significant
    assert found.difference_low > 0.0


@pytest.mark.parametrize("interval", ["clustered", "anytime"])
def test_lift_and_difference_of_arms_agree_on_what_excludes_0_and_counts_end_at_minus_100_percent(interval):
    """Also for values, which may be negative and whose lift may be below -100 %."""
    known, below, ended = 0, 0, 0
    users = 12 if interval == "clustered" else 30
    for seed in range(40):
        tally = ArmTally()
        rng = np.random.default_rng(seed)
        for user in range(users):
            arm, appeal = ("x", 0.6) if user % 3 else ("y", 0.1)
            for _ in range(1 + int(rng.integers(4))):
                clicked = np.flatnonzero(rng.random(4) < appeal).tolist()
                values = {DOCUMENTS[x]: float(rng.integers(1, 9)) - 9.0 * (arm == "y") for x in clicked}
                tally.add(Impression.alone(arm, DOCUMENTS, k=4), positions=clicked, unit=user, values=values)
        for metric in tally.verdict(control="x", interval=interval).metrics:
            found = metric["y"]
            if found.lift_low is None:
                continue
            known += 1
            assert found.lift_low <= found.lift <= found.lift_high
            excluded = not found.difference_low <= 0.0 <= found.difference_high
            assert excluded == (not found.lift_low <= 0.0 <= found.lift_high)
            below += found.lift_low < -1.0
            ended += found.lift_low == -1.0
            assert metric.metric == "value" or found.lift_low >= -1.0
    assert min(known, below, ended) > 3


def test_the_lift_of_arms_without_any_variance_is_as_uncertain_as_their_difference():
    """Two users of each arm: one of the six assignments to arms separates them so, and so does its opposite."""
    tally = ArmTally()
    for user in range(4):
        page = Impression.alone("xy"[user % 2], DOCUMENTS, k=4)
        tally.add(page, positions=[0, 1, 2, 3] if user % 2 else [0, 1, 2], unit=user)
    found = tally.verdict(control="x")["clicks"]["y"]
    assert found.p == pytest.approx(2 / math.comb(4, 2))
    assert found.difference_low < 0.0 < found.difference_high
    assert found.lift_low < 0.0 < found.lift_high


def test_a_page_of_one_ranker_is_written_and_read_and_compares_nothing():
    page = Impression.alone("bm25", [1, 2, 3, 4], k=3, pinned={1: 9})
    assert page.shown == (1, 9, 2)
    assert page.pinned == ((1, 9),)
    assert page.arm == "bm25"
    assert Impression.from_dict(json.loads(json.dumps(page.to_dict()))) == page
    assert page_metrics(page, [1]).tolist() == [0.0] * 4  # a pin counts for nobody
    with pytest.raises(errors.ImpressionError, match="'bm25' alone"):
        infer(page, [1])


def test_bad_input_is_refused():
    page = Impression.alone("bm25", DOCUMENTS, k=4)
    tally = ArmTally()
    tally.add(page, unit="u")
    with pytest.raises(errors.TallyError, match="belongs to one arm"):
        tally.add(Impression.alone("ltr", DOCUMENTS, k=4), unit="u")
    with pytest.raises(errors.TallyError, match="No arm has two units"):
        tally.verdict()
    tally.add(page, unit="v")
    with pytest.raises(errors.TallyError, match="The control is 'bm52'"):
        tally.verdict(control="bm52")
    with pytest.raises(errors.ImpressionError, match="different documents"):
        Impression.alone("bm25", ["a", "a"], k=2)
    with pytest.raises(errors.ImpressionError, match="k is 0"):
        Impression.alone("bm25", ["a"], k=0)
    assert judge_arms(tally.arms, Rules())["clicks"].arms[0].mean == 0.0


def test_agreement_names_what_is_still_open(compared):
    arms = tally_of(simulated(7, users=600, appeal=(0.2, 0.45))).verdict(control="x")
    [found] = agreements(compared, arms)
    assert (found.ranker, found.control, found.agree) == ("y", "x", True)


@pytest.fixture
def compared():
    from multileave import Tally, TeamDraft

    tally = Tally(("x", "y"))
    for user in range(60):
        page = TeamDraft().combine({"x": DOCUMENTS, "y": DOCUMENTS[::-1]}, 4, seed=user)
        tally.add(infer(page, clicks=["d"]), unit=user)
    return tally.verdict()
