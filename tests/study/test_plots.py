"""Plots: what is drawn is what the runs say, in lines that can be told apart."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from multileave.errors import DataError, MissingExtra
from multileave.study.plots import COLOURS, curve, error_figure, require_matplotlib, save
from multileave.study.results import RunResult

matplotlib = pytest.importorskip("matplotlib")

STEPS = (1, 10, 100, 1000)


def grid(
    methods: Sequence[str] = ("tdm", "ppm"),
    datasets: Sequence[str] = ("MQ2008", "OHSUMED"),
    users: Sequence[str] = ("perfect", "navigational", "informational"),
    runs: int = 4,
) -> list[RunResult]:
    rng = np.random.default_rng(1)
    return [
        RunResult(
            dataset=dataset,
            method=method,
            user=user,
            rankers=15,
            fold=1,
            run=run,
            impressions=STEPS,
            error_heldout=tuple(rng.uniform(low, low + 0.2) for low in (0.4, 0.3, 0.2, 0.1)),
            error_same_queries=tuple(rng.uniform(low, low + 0.1) for low in (0.4, 0.3, 0.2, 0.0)),
            floor=0.1 + 0.01 * run,
            bias=0.0,
            bias_z=0.0,
            seconds=1.0,
        )
        for dataset in datasets
        for user in users
        for method in methods
        for run in range(runs)
    ]


def test_a_band_is_the_95_percent_interval_of_the_mean() -> None:
    runs = grid(["ppm"], ["MQ2008"], ["perfect"], runs=7)
    centre, half = curve(runs)
    errors = np.array([run.error_heldout for run in runs])
    low, high = stats.t.interval(0.95, 6, errors.mean(axis=0), stats.sem(errors))
    np.testing.assert_allclose(centre - half, low)
    np.testing.assert_allclose(centre + half, high)
    np.testing.assert_allclose(
        curve(runs, "same_queries")[0], np.mean([run.error_same_queries for run in runs], axis=0)
    )


def test_a_single_run_has_no_band() -> None:
    assert not curve(grid(["ppm"], ["MQ2008"], ["perfect"], runs=1))[1].any()


def test_there_is_a_panel_per_data_set_and_user_with_a_line_per_method_and_the_floor() -> None:
    results = grid()
    figure = error_figure(results, 15)
    assert len(figure.axes) == 2 * 3
    assert [axes.get_title() for axes in figure.axes[:3]] == ["perfect", "navigational", "informational"]
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["MQ2008\nbinary error", "OHSUMED\nbinary error"]
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        tdm, _, floor = axes.get_lines()
        assert tuple(tdm.get_xdata()) == STEPS
        np.testing.assert_allclose(floor.get_ydata(), np.mean([0.1, 0.11, 0.12, 0.13]))
        assert floor.get_linestyle() == "--"
    own = [run for run in results if (run.dataset, run.user, run.method) == ("OHSUMED", "navigational", "ppm")]
    np.testing.assert_allclose(figure.axes[4].get_lines()[1].get_ydata(), curve(own)[0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["tdm", "ppm", "floor"]


def test_the_error_on_the_same_queries_has_no_floor() -> None:
    figure = error_figure(grid(), 15, truth="same_queries")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["tdm", "ppm"]


def test_lines_differ_in_more_than_colour() -> None:
    figure = error_figure(grid([f"m{i}" for i in range(11)], ["MQ2008"], ["perfect"]), 15)
    lines = figure.axes[0].get_lines()[:-1]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines[: len(COLOURS)]}) == len(COLOURS)
    assert len({line.get_marker() for line in lines}) == 11
    reused = [line for line in lines if line.get_color() == lines[0].get_color()]
    assert len({str(line._dash_pattern) for line in reused}) == len(reused) == 2


def test_a_panel_without_runs_says_so() -> None:
    results = [run for run in grid() if (run.dataset, run.user) != ("OHSUMED", "perfect")]
    figure = error_figure(results, 15)
    assert [text.get_text() for text in figure.axes[3].texts] == ["no runs"]


def test_random_users_are_left_out() -> None:
    results = grid() + [replace(run, user="random") for run in grid(users=["perfect"])]
    assert len(error_figure(results, 15).axes) == 2 * 3
    with pytest.raises(DataError, match="5 rankers"):
        error_figure(results, 5)
    with pytest.raises(DataError, match="15 rankers"):
        error_figure([run for run in results if run.user == "random"], 15)


def test_names_are_drawn_as_they_are() -> None:
    names = ["$\\frac{$", "_hidden", "a\nb", "floor", "100% & <b>"]
    figure = error_figure(grid(names, ["$x_"], ["$u^"]), 15)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["$\\frac{$", "_hidden", "a b", "floor", "100% & <b>", "floor"]
    assert len(save(figure, "png")) > 1000


@pytest.mark.parametrize("steps", [(0, 1, 10, 1000), (0, 1, 2, 3)])
def test_an_axis_may_begin_at_no_impressions_and_be_short(steps: tuple[int, ...]) -> None:
    figure = error_figure([replace(run, impressions=steps) for run in grid()], 15)
    assert figure.axes[0].get_xlim() == (1, steps[-1])
    save(figure, "png")


def test_a_single_checkpoint_can_be_drawn() -> None:
    one = [replace(run, impressions=(50,), error_heldout=(0.2,), error_same_queries=(0.1,)) for run in grid(runs=1)]
    save(error_figure(one, 15), "png")


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_same_results_give_the_same_bytes_without_a_date(form: str, start: bytes) -> None:
    results = grid(datasets=["MQ2008"], users=["perfect"], runs=2)
    figure = error_figure(results, 15)
    save(figure, "png")  # a file saved before makes no difference
    content = save(figure, form)
    assert content.startswith(start)
    assert content == save(error_figure(results, 15), form)
    assert b"CreationDate" not in content
    assert b"<dc:date>" not in content


def test_fonts_in_pdf_are_the_kind_that_journals_accept() -> None:
    assert b"/Type3" not in save(error_figure(grid(datasets=["MQ2008"], runs=1), 15), "pdf")


def test_global_settings_of_matplotlib_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    save(error_figure(grid(datasets=["MQ2008"], runs=1), 15), "svg")
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_install_line_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'multileave\[study\]'"):
        require_matplotlib()
    with pytest.raises(MissingExtra):
        error_figure(grid(), 15)
