"""What verdicts take: the formula finds what it promises, summaries are paired, old results are read."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multileave.data import ndcg
from multileave.errors import DataError
from multileave.methods.base import get_method
from multileave.study.power import effort, impressions_to_verdict, quartiles
from multileave.study.results import RunResult
from multileave.study.runner import all_tasks, rank_fold, run_study
from multileave.study.settings import Settings
from multileave.study.summaries import p_value, paired_ratios, summarise, verdicts_of
from multileave.study.table_formats import to_csv, to_latex, to_markdown
from multileave.study.tables import make_tables


def run(method: str, number: int, preferences: tuple[float, ...], variances: tuple[float, ...]) -> RunResult:
    return RunResult(
        "MQ2008", method, "perfect", 3, 1, number, (10,), (0.0,), (0.0,), 0.0, 0.0, 0.0, 1.0, {},
        preferences, variances, 2.0, 0.5, (0.3, 0.4, 0.5),
    )  # fmt: skip


@pytest.mark.parametrize(("power", "level"), [(0.8, 0.05), (0.9, 0.05), (0.8, 0.01)])
def test_so_many_impressions_find_a_difference_as_often_as_promised(power: float, level: float) -> None:
    rng = np.random.default_rng(7)
    mean, share = 0.06, 0.3  # a preference of +1 or -1 in 30 % of impressions
    up = (share + mean) / 2
    needed = math.ceil(impressions_to_verdict([mean], [share - mean**2], power=power, level=level)[0])
    counts = rng.multinomial(needed, [up, share - up, 1 - share], size=4000)
    means = (counts[:, 0] - counts[:, 1]) / needed
    errors = np.sqrt((counts[:, :2].sum(axis=1) / needed - means**2) / needed)
    bound = math.sqrt(effort(power=0.5, level=level))  # z of the level alone
    assert np.mean(means / errors > bound) == pytest.approx(power, abs=0.02)


@pytest.mark.parametrize(("power", "level"), [(0.0, 0.05), (1.0, 0.05), (0.8, 0.0), (0.8, 1.0), (0.01, 0.05)])
def test_a_test_that_cannot_be_is_refused(power: float, level: float) -> None:
    with pytest.raises(DataError, match="between 0 and 1"):
        effort(power, level)


def test_quartiles_are_numpy_s_and_take_infinity() -> None:
    values = np.random.default_rng(3).exponential(size=10)
    assert quartiles(values) == pytest.approx(tuple(np.quantile(values, [0.5, 0.25, 0.75])))
    assert quartiles([1.0, math.inf, math.inf]) == (math.inf, pytest.approx(math.inf), math.inf)


def test_ratios_are_of_the_same_pair_of_the_same_run() -> None:
    ours = [run("rpm", 0, (0.1, 0.2, 0.0), (1.0, 1.0, 1.0)), run("rpm", 1, (0.1, 0.1, 0.1), (1.0, 2.0, 4.0))]
    base = [run("tdm", 1, (0.1, 0.1, 0.1), (2.0, 2.0, 2.0)), run("tdm", 0, (0.1, 0.1, 0.0), (1.0, 1.0, 1.0))]
    assert sorted(paired_ratios(ours, base)) == pytest.approx([0.25, 0.5, 1.0, 1.0, 2.0])
    found = {summary.method: summary for summary in summarise([*ours, *base])}
    assert (found["rpm"].ratio, found["rpm"].ratio_q1, found["rpm"].ratio_q3) == pytest.approx((1.0, 0.5, 1.0))
    assert found["rpm"].base == "tdm"
    assert found["tdm"].ratio == 1.0
    needed = [n for one in ours for n in verdicts_of(one)]
    assert found["rpm"].impressions_to_verdict == pytest.approx(quartiles(needed)[0])
    assert found["rpm"].ndcg_shown == 0.5
    assert found["rpm"].ndcg_to_mean == pytest.approx(0.5 / 0.4)
    assert found["rpm"].ndcg_to_best == pytest.approx(1.0)
    assert summarise(ours)[0].ratio is None
    strict = summarise([*ours, *base], power=0.95)[0]
    assert strict.impressions_to_verdict > found["rpm"].impressions_to_verdict
    assert strict.ratio == found["rpm"].ratio


def test_tables_hold_verdicts_ratios_and_pages_in_every_format() -> None:
    results = [run("rpm", 0, (0.1, 0.2, 0.1), (1.0, 1.0, 1.0)), run("tdm", 0, (0.1, 0.1, 0.1), (1.0, 1.0, 1.0))]
    tables = {table.name: table for table in make_tables(results)}
    assert list(tables)[:3] == ["verdict-3-rankers", "ratio-3-rankers", "pages-3-rankers"]
    cells = tables["ratio-3-rankers"].sections[0].rows[0].cells
    assert [cell.text for cell in cells] == ["1.00", "1.00"]
    assert cells[0].aside == "0.62 to 1.00"
    assert tables["verdict-3-rankers"].sections[0].rows[0].cells[0].text == "785"
    assert tables["pages-3-rankers"].sections[0].rows[0].cells[0].aside == "125.0 %, 100.0 %"
    for text in (to_markdown(tables.values()), to_latex(tables.values())):
        assert "Impressions to a verdict relative to tdm" in text
    header = to_csv(summarise(results)).splitlines()[0].split(",")
    assert {"impressions_to_verdict", "ratio", "ndcg_shown", "ndcg_to_mean"} <= set(header)
    assert "ratio-3-rankers" not in [table.name for table in make_tables(results, base="ppm")]


def test_results_without_measured_pages_are_read_and_summarised() -> None:
    whole = run("tdm", 0, (0.1, 0.1, 0.1), (1.0, 1.0, 1.0))
    unknown = {"preferences": (), "variances": (), "dcg_shown": math.nan, "ndcg_shown": math.nan, "ndcg_rankers": ()}
    old = replace(whole, **unknown)
    assert RunResult.from_dict(json.loads(json.dumps(old.to_dict()))).ndcg_rankers == ()
    [summary] = summarise([old])
    assert summary.impressions_to_verdict is summary.ratio is summary.ndcg_shown is None
    assert [table.name for table in make_tables([old])] == ["error-heldout-3-rankers", "error-same-queries-3-rankers"]
    both = summarise([old, replace(whole, run=1)])[0]
    assert both.impressions_to_verdict == pytest.approx(785, abs=1)


def test_a_study_measures_what_verdicts_take_and_what_users_see(tmp_path: Path) -> None:
    settings = Settings(
        methods=("rpm", "tdm", "ppm"), users=("perfect",), rankers=(3,), runs=1, folds=(1,), impressions=4000
    )
    results = run_study(settings, tmp_path)
    [task] = all_tasks(settings)
    users, _ = rank_fold(settings, task)
    for result in results:
        assert len(result.preferences) == len(result.variances) == 3
        assert min(result.variances) > 0
        assert result.ndcg_rankers == tuple(ndcg(users))
        assert 0.5 * min(result.ndcg_rankers) < result.ndcg_shown < 1.05 * max(result.ndcg_rankers)
    again = run_study(settings, tmp_path)
    assert again == results
    found = {summary.method: summary for summary in summarise(results)}
    assert found["rpm"].ndcg_to_mean > 0.97
    assert 0 < found["rpm"].impressions_to_verdict < found["ppm"].impressions_to_verdict * 2
    assert get_method("recommended").name in found


def test_thousands_of_runs_do_not_overflow_the_test() -> None:
    assert p_value([0.5] * 1000, [0.4] * 1000) == 0.0
