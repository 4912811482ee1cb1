"""A study gives the same numbers on one process, on many, on Dask, and after an interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import multileave as ml
from multileave.errors import DataError
from multileave.study.results import RunResult
from multileave.study.runner import Task, all_tasks, checkpoints, result_path, run_study, run_task
from multileave.study.settings import Settings


def settings_for(toy, **changes):
    values = {
        "data": str(toy), "datasets": ("toy",), "methods": ("tdm", "ppm"), "users": ("perfect", "navigational"),
        "rankers": (3,), "impressions": 300, "runs": 2,
    }  # fmt: skip
    return Settings(**{**values, **changes})


def numbers(results):
    """Return results without what differs from run to run: time."""
    return sorted(
        (r.dataset, r.method, r.user, r.rankers, r.fold, r.run, r.impressions, r.error_heldout, r.error_same_queries,
         r.floor, r.bias, r.bias_z)
        for r in results
    )  # fmt: skip


@pytest.fixture(scope="module")
def serial(toy, tmp_path_factory):
    return run_study(settings_for(toy), tmp_path_factory.mktemp("serial"))


def test_every_run_of_the_grid_is_there(serial):
    assert len(serial) == 2 * 2 * 1 * 2 * 2
    for result in serial:
        assert result.impressions == checkpoints(300)
        assert len(result.error_heldout) == len(result.impressions)
        assert 0 <= min(result.error_heldout) <= max(result.error_heldout) <= 1


def test_better_rankers_are_found(serial):
    perfect = [r.error_same_queries[-1] for r in serial if r.user == "perfect" and r.method == "ppm"]
    assert np.mean(perfect) < 0.4


def test_two_processes_give_the_same_numbers_to_the_bit(toy, serial, tmp_path):
    assert numbers(run_study(settings_for(toy), tmp_path, jobs=2)) == numbers(serial)


@pytest.mark.acceptance
def test_a_dask_cluster_gives_the_same_numbers_to_the_bit(toy, serial, tmp_path):
    distributed = pytest.importorskip("distributed", reason="pip install 'multileave[dask]'")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        results = run_study(settings_for(toy), tmp_path, backend="dask", scheduler=cluster.scheduler_address, jobs=2)
    assert numbers(results) == numbers(serial)


def test_a_run_does_not_depend_on_what_else_is_run(toy, serial, tmp_path):
    alone = run_study(settings_for(toy, methods=("ppm",), users=("navigational",), folds=(2,)), tmp_path)
    assert set(numbers(alone)) <= set(numbers(serial))


def test_a_finished_study_is_read_and_not_run_again(toy, tmp_path):
    settings = settings_for(toy)
    first = run_study(settings, tmp_path)
    steps = []
    second = run_study(settings, tmp_path, progress=lambda *step: steps.append(step))
    assert second == first
    assert steps == []


def test_a_study_grows(toy, serial, tmp_path):
    run_study(settings_for(toy, runs=1), tmp_path)
    steps = []
    results = run_study(settings_for(toy), tmp_path, progress=lambda *step: steps.append(step))
    assert numbers(results) == numbers(serial)
    assert steps[0][0] == 300 * 8  # what was there
    assert steps[-1][:2] == (300 * 16, 300 * 16)


def test_other_settings_do_not_mix_into_a_folder(toy, tmp_path):
    run_study(settings_for(toy, runs=1, folds=(1,)), tmp_path)
    with pytest.raises(ml.DataError, match="holds a study with impressions=300, but this one has impressions=400"):
        run_study(settings_for(toy, impressions=400), tmp_path)


@pytest.mark.acceptance
def test_a_study_killed_half_way_goes_on(toy, tmp_path):
    """SIGKILL while it runs; started again, it gives what an undisturbed study gives."""
    settings = settings_for(toy, impressions=20_000, runs=8)
    code = (
        "import sys, json\n"
        "from multileave.study.runner import run_study\n"
        "from multileave.study.settings import Settings\n"
        "values = json.loads(sys.argv[1])\n"
        "run_study(Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}), sys.argv[2])\n"
    )
    folder = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", code, json.dumps(settings.to_dict()), str(folder)])
    deadline = time.monotonic() + 120
    while len(list(folder.glob("runs/**/*.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    there = len(list(folder.glob("runs/**/*.json")))
    assert 5 <= there < 64
    steps = []
    results = run_study(settings, folder, progress=lambda *step: steps.append(step))
    assert steps[0][0] >= 5 * 20_000
    assert numbers(results) == numbers(run_study(settings, tmp_path / "whole"))


def test_a_damaged_result_is_told_with_its_file(toy, tmp_path):
    settings = settings_for(toy, runs=1, folds=(1,), methods=("tdm",), users=("perfect",))
    run_study(settings, tmp_path)
    path = next(tmp_path.glob("runs/**/*.json"))
    path.write_text(path.read_text()[:40])
    with pytest.raises(ml.DataError, match=path.name):
        run_study(settings, tmp_path)


def test_a_method_that_does_not_compile_still_runs(toy, tmp_path, monkeypatch):
    from dataclasses import dataclass

    from multileave.methods import base

    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    monkeypatch.setattr(base, "_registry", dict(base._registry))

    def credit(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
        for name in {"a": [1], "b": ["x"]}:  # no such dictionary in compiled code
            if name == "a":
                ml.TeamDraft.credit_kernel(ranks, lengths, note, clicks, k, params, out, work_i, work_f)

    @ml.register
    @dataclass(frozen=True)
    class Slow(ml.TeamDraft):
        name = "slow"
        credit_kernel = credit

    settings = settings_for(toy, methods=("slow",), users=("perfect",), runs=1, folds=(1,), impressions=50)
    with pytest.warns(ml.MultileaveWarning, match="cannot be compiled"):
        results = run_study(settings, tmp_path)
    assert len(results) == 1


def test_random_users_have_a_bias_with_its_spread(toy, tmp_path):
    settings = settings_for(toy, methods=("tdm",), users=("random",), impressions=3000)
    for result in run_study(settings, tmp_path):
        assert abs(result.bias) < 0.2
        assert result.bias_z >= 0


def test_checkpoints_are_on_a_log_scale():
    assert checkpoints(1) == (1,)
    points = checkpoints(10_000)
    assert points[0] == 1
    assert points[-1] == 10_000
    assert {10, 100, 1000} <= set(points)
    assert len(points) < 35
    assert list(points) == sorted(set(points))


def test_tasks_and_files():
    settings = Settings(methods=("ppm(pairs='all')", "tdm"), runs=1, rankers=(5,))
    tasks = list(all_tasks(settings))
    assert len(tasks) == 5
    result = RunResult("d", "ppm(pairs='all')", "perfect", 5, 1, 0, (1,), (0.5,), (0.5,), 0.1, 0.0, 0.0, 1.0, {})
    task = Task("d", 1, 5, 0, ())
    from pathlib import Path

    assert result_path(Path("x"), result) == result_path(Path("x"), task, "ppm(pairs='all')", "perfect")
    assert result_path(Path("x"), task, "tdm", "perfect") != result_path(Path("x"), task, "ppm", "perfect")


def test_too_many_rankers_for_the_data(toy):
    task = Task("toy", 1, 9, 0, (("tdm", "perfect"),))
    with pytest.raises(ml.DataError, match="toy has 6 features that serve as rankers, fewer than 9"):
        run_task(settings_for(toy), task)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ()}, "methods is"),
        ({"methods": ("pppm",)}, "Did you mean 'ppm'"),
        ({"users": ("perfekt",)}, "no user 'perfekt'"),
        ({"rankers": (1,)}, "needs two or more"),
        ({"rankers": ("5",)}, "expected positive integers"),
        ({"methods": ("bi",), "rankers": (3,)}, "exactly 2 rankers"),
        ({"impressions": 0}, "impressions is 0"),
        ({"runs": 1.5}, "runs is 1.5"),
        ({"data": None}, "no folder to look for toy in"),
        ({"own_users": {"mine": {"click": [0.1, 0.9]}}, "users": ("mine",)}, "needs click, and either stop"),
        ({"own_users": {"mine": {"clik": [0.1, 0.9]}}, "users": ("mine",)}, "Did you mean 'click'"),
    ],
)
def test_settings_that_make_no_sense(toy, changes, message):
    with pytest.raises(ml.MultileaveError, match=message):
        settings_for(toy, **changes)


def test_settings_from_toml(toy, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        f'data = "{toy}"\ndatasets = ["toy"]\nrankers = [3, 4]\nusers = ["mine", "eyes"]\nmethods = ["tdm"]\n'
        "[own_users.mine]\nclick = [0.1, 0.2, 0.9]\nstop = [0, 0, 0.5]\n"
        "[own_users.eyes]\nclick = [0.1, 0.2, 0.9]\nexamine = [1.0, 0.5]\n"
    )
    settings = Settings.from_toml(path)
    assert settings.rankers == (3, 4)
    assert settings.user("mine", 3).stop == (0.0, 0.0, 0.5)
    assert settings.user("eyes", 3).examine == (1.0, 0.5)
    results = run_study(settings.changed(runs=1, impressions=50, rankers=(3,), folds=(1,)), tmp_path / "out")
    assert {r.user for r in results} == {"mine", "eyes"}
    path.write_text("ranker = 3")
    with pytest.raises(ml.DataError, match=r"'ranker' is not a setting.*Did you mean 'rankers'"):
        Settings.from_toml(path)
    path.write_text("rankers = [")
    with pytest.raises(ml.DataError, match="not valid TOML"):
        Settings.from_toml(path)
    with pytest.raises(ml.DataError, match="cannot be read"):
        Settings.from_toml(tmp_path / "nowhere.toml")


def test_folds_that_are_not_there(toy, tmp_path):
    with pytest.raises(ml.DataError, match="toy has no fold 7"):
        run_study(settings_for(toy, folds=(7,)), tmp_path)


def test_unknown_backends(toy, tmp_path):
    with pytest.raises(ml.DataError, match=r"backend is 'dusk'.*Did you mean 'dask'"):
        run_study(settings_for(toy), tmp_path, backend="dusk")
    with pytest.raises(ml.DataError, match="Use --backend dask"):
        run_study(settings_for(toy), tmp_path, scheduler="tcp://127.0.0.1:1")


def test_cut_lists_change_nothing_for_methods_that_read_k_plus_1_ranks(tmp_path):
    base = Settings(
        methods=("rpm", "dpm", "opm", "tdm", "ppm", "pm"), users=("navigational",), rankers=(4,), runs=1, folds=(1,),
        impressions=300,
    )  # fmt: skip
    whole = {result.method: result for result in run_study(base, tmp_path / "whole")}
    cut = {result.method: result for result in run_study(base.changed(returned=11), tmp_path / "cut")}
    same = {name for name in whole if replace(whole[name], seconds=0.0) == replace(cut[name], seconds=0.0)}
    assert {"rpm", "dpm", "opm", "tdm"} <= same
    assert {"ppm", "pm"}.isdisjoint(same)
    with pytest.raises(DataError, match="returned=11"):
        run_study(base, tmp_path / "cut")
    with pytest.raises(DataError, match="returned is 0"):
        base.changed(returned=0)
