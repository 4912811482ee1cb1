"""Results: a run survives its file, damage is named, and summaries are the arithmetic they say they are."""

import json
import math
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from multileave.errors import DataError
from multileave.study.results import RunResult, gather, row_names, write_aside
from multileave.study.summaries import mean, p_value, spread, summarise, z_bound

RUN = RunResult(
    dataset="MQ2008",
    method="ppm(pairs='all')",
    user="navigational",
    rankers=15,
    fold=2,
    run=7,
    impressions=(1, 10, 100),
    error_heldout=(0.5, 1 / 3, 0.1),
    error_same_queries=(0.5, 0.25, 0.05),
    floor=0.125,
    bias=0.01,
    bias_z=2.5,
    seconds=0.5,
    other={"dcg@10": (0.4, 0.3, 0.2)},
)


def test_a_run_is_the_same_after_json() -> None:
    assert RunResult.from_dict(json.loads(json.dumps(RUN.to_dict(), allow_nan=False))) == RUN


def test_a_run_is_the_same_after_its_file_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.json"
    RUN.write(path)
    replace(RUN, run=8).write(path)
    assert RunResult.read(path) == replace(RUN, run=8)
    assert os.listdir(path.parent) == ["run.json"]


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    odd = replace(RUN, fold=np.int64(2), impressions=tuple(np.array([1, 10, 100])), floor=np.float64(0.125))
    assert RunResult.from_dict(json.loads(json.dumps(odd.to_dict()))) == RUN


def test_a_bias_that_is_not_a_number_is_null_in_json() -> None:
    document = replace(RUN, bias=math.nan, bias_z=math.inf).to_dict()
    assert document["bias"] is None
    assert document["bias_z"] is None
    assert math.isnan(RunResult.from_dict(document).bias)


def damaged(**changes: object) -> str:
    return json.dumps({**RUN.to_dict(), **changes})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        (json.dumps(RUN.to_dict())[:-40], "delimiter|Expecting"),
        ("[1, 2]", "Found list"),
        (json.dumps({k: v for k, v in RUN.to_dict().items() if k != "floor"}), "floor"),
        (damaged(novel=1), "novel"),
        (damaged(fold="2"), "not an integer"),
        (damaged(fold=True), "not an integer"),
        (damaged(method=3), "not text"),
        (damaged(seconds=None), "A field is not"),
        (damaged(other=[]), "A field is not"),
        (damaged(error_heldout=[0.1]), "error_heldout has 1 values; expected 3"),
        (damaged(error_heldout=[0.1, 0.2, 1.5]), "error_heldout holds 1.5"),
        (damaged(other={"ap": [0.1]}), "ap has 1 values"),
        (damaged(floor=-0.1), "floor holds -0.1"),
        (damaged(impressions=[1, 10, 10]), "increasing"),
        (damaged(impressions=[]), "increasing"),
        (damaged(seconds=-1.0), "seconds are -1.0"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "fold1-run3.json"
    path.write_text(text)
    with pytest.raises(DataError, match=says) as caught:
        RunResult.read(path)
    assert str(path) in str(caught.value)
    assert "Delete it" in str(caught.value)


def test_a_file_of_noise_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "noise.json"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataError, match=r"noise\.json"):
        RunResult.read(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    RUN.write(path)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        write_aside(path, "half")
    assert os.listdir(tmp_path) == ["run.json"]
    assert RunResult.read(path) == RUN


def some_runs(**changes: object) -> list[RunResult]:
    ends = [(0.1, 0.0), (0.2, 0.05), (0.6, 0.1)]
    return [
        replace(
            RUN,
            run=run,
            error_heldout=(0.5, 0.4, held),
            error_same_queries=(0.5, 0.4, same),
            floor=held / 2,
            **changes,  # type: ignore[arg-type]
        )
        for run, (held, same) in enumerate(ends)
    ]


def test_a_summary_is_of_the_last_checkpoint() -> None:
    (summary,) = summarise(some_runs())
    assert summary.error_heldout == pytest.approx(0.9 / 3)
    assert summary.error_heldout_sd == pytest.approx(math.sqrt((0.2**2 + 0.1**2 + 0.3**2) / 2))
    assert summary.error_same_queries == pytest.approx(0.05)
    assert summary.error_same_queries_sd == pytest.approx(0.05)
    assert summary.floor == pytest.approx(0.15)
    assert summary.runs == 3
    assert summary.impressions == 100
    assert summary.impressions_per_second == 300 / 1.5
    assert summary.other == {"dcg@10": 0.2}
    assert summary.bias is None


def test_a_summary_has_the_fields_that_the_command_prints() -> None:
    (summary,) = summarise(some_runs())
    document = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    wanted = {
        "dataset", "method", "user", "rankers", "error_heldout", "error_heldout_sd", "error_same_queries", "floor",
        "runs", "impressions_per_second",
    }  # fmt: skip
    assert wanted <= document.keys()
    assert (document["dataset"], document["method"], document["rankers"]) == ("MQ2008", "ppm(pairs='all')", 15)


def test_there_is_a_summary_per_data_set_user_rankers_and_method_in_order_of_appearance() -> None:
    results = [
        replace(RUN, dataset=dataset, user=user, rankers=rankers, method=method)
        for dataset in ("OHSUMED", "MQ2008")
        for user in ("perfect", "navigational")
        for rankers in (15, 5)
        for method in ("tdm", "ppm")
    ]
    summaries = summarise(results)
    assert [(s.dataset, s.user, s.rankers, s.method) for s in summaries] == [
        (r.dataset, r.user, r.rankers, r.method) for r in results
    ]


def test_a_summary_does_not_depend_on_the_order_of_the_runs() -> None:
    rng = random.Random(1)
    runs = [
        replace(RUN, run=i, error_heldout=(0.5, 0.5, rng.random()), seconds=rng.random(), user="random")
        for i in range(99)
    ]
    for _ in range(20):
        assert summarise(rng.sample(runs, len(runs))) == summarise(runs)


def test_a_single_run_has_no_deviation_and_no_interval() -> None:
    (summary,) = summarise([replace(RUN, user="random")])
    assert summary.error_heldout_sd == 0.0
    assert summary.bias == RUN.bias
    assert summary.bias_low is None


@pytest.mark.parametrize("user", ["random", "almost_random"])
def test_bias_has_the_t_interval_of_its_mean_over_runs(user: str) -> None:
    values = [0.01, -0.02, 0.03, 0.0]
    largest = [1.0, 2.0, 3.0, 9.0]
    runs = [replace(RUN, user=user, run=i, bias=values[i], bias_z=largest[i]) for i in range(4)]
    (summary,) = summarise(runs)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (summary.bias, summary.bias_low, summary.bias_high) == pytest.approx((np.mean(values), low, high))
    assert summary.bias_z == 3.75
    assert summary.bias_found == 1 / 4  # only 9 is beyond what 105 pairs reach by chance


def test_a_run_without_a_bias_is_left_out_of_the_bias() -> None:
    runs = [replace(RUN, user="random", run=i, bias=b, bias_z=b) for i, b in enumerate([math.nan, 1.0, 3.0])]
    (summary,) = summarise(runs)
    assert (summary.bias, summary.bias_z, summary.runs) == (2.0, 2.0, 3)


def test_the_bound_holds_for_all_pairs_together() -> None:
    assert z_bound(15) == pytest.approx(stats.norm.isf(0.05 / 2 / 105))


def test_a_run_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(DataError, match=r"Run 7 of fold 2 of ppm\(pairs='all'\) on MQ2008 .* twice"):
        summarise([RUN, RUN])


def test_runs_of_different_lengths_do_not_mix() -> None:
    longer = replace(RUN, run=8, impressions=(1, 10, 1000))
    with pytest.raises(DataError, match="up to 100 and 1,000 impressions"):
        summarise([RUN, longer])
    assert len(summarise([RUN, replace(longer, rankers=5)])) == 2


def test_no_results_are_an_error() -> None:
    with pytest.raises(DataError, match="no results"):
        gather([], lambda result: result.run)


def test_the_six_sets_of_letor_3_are_one_row_and_fewer_are_named() -> None:
    six = ["HP2003", "HP2004", "NP2003", "NP2004", "TD2003", "TD2004"]
    assert row_names(["td2004", "hp2003", "MQ2003"])["MQ2003"] == "MQ2003"
    assert row_names(["td2004", "hp2003", "MQ2003"])["hp2003"] == "LETOR 3.0 (td2004, hp2003)"
    assert set(row_names([*six, "MQ2008"]).values()) == {"LETOR 3.0", "MQ2008"}
    assert row_names(six[:5])["HP2003"] == f"LETOR 3.0 ({', '.join(six[:5])})"
    assert row_names(six[:1]) == {"HP2003": "HP2003"}


def test_means_are_exact_where_all_are_equal() -> None:
    assert mean([0.1] * 3) == 0.1
    assert spread([0.1] * 3) == 0.0


@pytest.mark.parametrize("sizes", [(2, 2), (5, 9), (125, 120)])
@pytest.mark.parametrize("shift", [0.0, 0.02, 0.5])
def test_the_unpaired_test_is_welchs(sizes: tuple[int, int], shift: float) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, 0.05, sizes[0]).tolist(), rng.normal(0.3 + shift, 0.1, sizes[1]).tolist()
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert p_value(a, b) == pytest.approx(expected, rel=1e-9)
    assert p_value(b, a) == pytest.approx(expected, rel=1e-9)


def test_where_nothing_varies_the_test_is_exact() -> None:
    assert p_value([0.1] * 5, [0.1] * 5) == 1.0
    assert p_value([0.1] * 5, [0.2] * 5) == 2 / math.comb(10, 5)
    assert p_value([0.1] * 2, [0.2] * 2) == 1 / 3
    assert p_value([0.1] * 125, [0.2] * 125) < 0.01


def test_one_run_proves_nothing() -> None:
    assert p_value([0.1], [0.2, 0.3]) == 1.0
