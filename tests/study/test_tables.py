"""Tables: the paper's layout, the marks of the tests, and text that no name can break."""

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from multileave.study.results import RunResult
from multileave.study.summaries import summarise
from multileave.study.table_formats import Table, to_csv, to_latex, to_markdown
from multileave.study.tables import make_tables, reference_method

HOSTILE = "evil|`*_<b>\\&%$#{}~^\"' [x](y)\n| - |"
USERS = ("perfect", "navigational")


def runs(
    method: str,
    errors: Sequence[float],
    *,
    dataset: str = "MQ2008",
    user: str = "perfect",
    rankers: int = 15,
    floor: float = 0.15,
    start: int = 0,
) -> list[RunResult]:
    return [
        RunResult(
            dataset=dataset,
            method=method,
            user=user,
            rankers=rankers,
            fold=1,
            run=start + i,
            impressions=(100, 10_000),
            error_heldout=(0.5, float(error)),
            error_same_queries=(0.5, float(error) / 2),
            floor=floor,
            bias=0.0,
            bias_z=0.0,
            seconds=1.0,
        )
        for i, error in enumerate(errors)
    ]


def sample(centre: float, *, seed: int, size: int = 25, deviation: float = 0.05) -> list[float]:
    return np.random.default_rng(seed).normal(centre, deviation, size).clip(0, 1).tolist()


def grid(
    methods: Sequence[str] = ("tdm", "om", "ppm"), datasets: Sequence[str] = ("MQ2008", "OHSUMED")
) -> list[RunResult]:
    return [
        run
        for d, dataset in enumerate(datasets)
        for u, user in enumerate(USERS)
        for m, method in enumerate(methods)
        for run in runs(method, sample(0.3 - 0.05 * m, seed=100 * d + 10 * u + m), dataset=dataset, user=user)
    ]


def heldout(results: list[RunResult], **options: object) -> Table:
    return make_tables(results, **options)[0]  # type: ignore[arg-type]


def cells(table: Table) -> dict[str, object]:
    """Return the cells of the only row by column."""
    ((row,),) = [section.rows for section in table.sections]
    return dict(zip(table.columns, row.cells, strict=True))


def test_rows_are_data_sets_under_users_and_columns_methods_and_the_floor() -> None:
    table = heldout(grid())
    assert table.columns == ("tdm", "om", "ppm", "floor")
    assert [section.heading for section in table.sections] == ["perfect", "navigational"]
    assert [[row.name for row in section.rows] for section in table.sections] == [["MQ2008", "OHSUMED"]] * 2


def test_with_a_single_data_set_the_rows_are_users_as_in_the_papers_table_of_40_rankers() -> None:
    table = heldout(grid(datasets=["MSLR-WEB10k"]))
    assert [section.heading for section in table.sections] == [""]
    assert [row.name for row in table.sections[0].rows] == ["perfect", "navigational"]
    assert "MSLR-WEB10k" in table.caption


def test_there_is_a_table_for_each_number_of_rankers_and_each_truth() -> None:
    results = [run for rankers in (15, 5) for run in runs("ppm", [0.1, 0.3], rankers=rankers)]
    results = [replace(run, other={"ap": (0.9, 0.75)}) for run in results]
    tables = make_tables(results)
    assert [table.name for table in tables] == [
        f"error-{truth}-{rankers}-rankers" for rankers in (5, 15) for truth in ("heldout", "same-queries", "ap")
    ]
    shown = [cells(table)["ppm"].text for table in tables[:3]]  # type: ignore[attr-defined]
    assert shown == ["0.20", "0.10", "0.75"]


def test_a_cell_is_the_mean_and_the_deviation_and_the_floor_stands_beside() -> None:
    errors = [0.1, 0.2, 0.6]
    found = cells(heldout(runs("ppm", errors, floor=0.123)))
    assert found["ppm"].text == f"{np.mean(errors):.2f}"  # type: ignore[attr-defined]
    assert found["ppm"].aside == f"{np.std(errors, ddof=1):.2f}"  # type: ignore[attr-defined]
    assert found["floor"].text == "0.12"  # type: ignore[attr-defined]


def test_the_floor_counts_every_run_once_however_many_methods_have_it() -> None:
    results = runs("tdm", [0.1, 0.1], floor=0.1) + runs("ppm", [0.1, 0.1], floor=0.1)
    results += runs("ppm", [0.1], floor=0.4, start=2)
    assert cells(heldout(results))["floor"].text == "0.20"  # type: ignore[attr-defined]


def test_a_single_run_shows_no_deviation_and_no_mark() -> None:
    found = cells(heldout(runs("tdm", [0.1]) + runs("ppm", [0.2])))
    assert (found["tdm"].aside, found["tdm"].mark) == ("", "")  # type: ignore[attr-defined]


def test_all_that_tie_as_printed_are_best() -> None:
    results = runs("tdm", [0.141, 0.141]) + runs("om", [0.139, 0.139]) + runs("ppm", [0.146, 0.146])
    two = cells(heldout(results))
    assert [name for name, cell in two.items() if cell.bold] == ["tdm", "om"]  # type: ignore[attr-defined]
    three = cells(heldout(results, digits=3))
    assert [name for name, cell in three.items() if cell.bold] == ["om"]  # type: ignore[attr-defined]


def test_the_best_of_the_second_table_is_its_own() -> None:
    results = [replace(run, error_same_queries=(0.5, 0.4)) for run in runs("ppm", [0.1, 0.1])]
    results += runs("tdm", [0.3, 0.3])
    first, second = make_tables(results)
    assert (cells(first)["ppm"].bold, cells(second)["ppm"].bold) == (True, False)  # type: ignore[attr-defined]


def sign(ours: list[float], theirs: list[float], p: float) -> str:
    if p >= 0.05:
        return "∘"
    better = np.mean(ours) < np.mean(theirs)
    return ("▼" if better else "▲") if p < 0.01 else ("▽" if better else "△")


def test_marks_are_those_of_welchs_test_at_both_levels_and_in_both_directions() -> None:
    ours = sample(0.2, seed=1)
    others = {f"m{i}": sample(0.2 + shift, seed=2) for i, shift in enumerate(np.linspace(-0.08, 0.08, 161))}
    results = [run for name, errors in others.items() for run in runs(name, errors)] + runs("ppm", ours)
    found = cells(heldout(results))
    expected = {
        name: sign(ours, errors, float(stats.ttest_ind(ours, errors, equal_var=False).pvalue))
        for name, errors in others.items()
    }
    assert set(expected.values()) == set("▼▽▲△∘")  # the test has all cases
    assert {name: found[name].mark for name in others} == expected  # type: ignore[attr-defined]
    assert found["ppm"].mark == ""  # type: ignore[attr-defined]


def test_the_reference_is_the_method_so_spelled_else_the_last_of_that_name() -> None:
    results = runs("ppm(pairs='local')", [0.1, 0.1]) + runs("tdm", [0.3, 0.3]) + runs("ppm(pairs='all')", [0.2, 0.2])
    assert heldout(results).reference == "ppm(pairs='all')"
    assert heldout(results, against="ppm(pairs='local')").reference == "ppm(pairs='local')"
    assert heldout(results, against="tdm").reference == "tdm"
    assert reference_method(["ppmx", "tdm"], "ppm") == ""


def test_without_the_reference_there_are_no_marks_and_the_notes_say_so() -> None:
    table = heldout(runs("tdm", sample(0.1, seed=1)) + runs("pm", sample(0.5, seed=2)))
    assert not any(cell.mark for cell in cells(table).values())  # type: ignore[attr-defined]
    assert "ppm is not among the methods" in table.notes
    assert table.compared == ()


def test_a_method_that_was_not_run_somewhere_has_an_empty_cell() -> None:
    table = heldout(grid() + runs("pm", [0.2, 0.3]))
    row = table.sections[0].rows[1]
    assert row.cells[table.columns.index("pm")].text == "–"


def test_letor_3_is_one_row_over_six_sets_and_pairs_only_within_a_set() -> None:
    six = ["HP2003", "HP2004", "NP2003", "NP2004", "TD2003", "TD2004"]
    table = heldout(grid(datasets=[*six, "MQ2008"]))
    assert [row.name for row in table.sections[0].rows] == ["LETOR 3.0", "MQ2008"]
    assert "25 to 150 runs" in table.caption
    values = [x for d in range(6) for x in sample(0.3, seed=100 * d)]
    assert table.sections[0].rows[0].cells[0].text == f"{np.mean(values):.2f}"


def test_random_users_are_in_the_table_of_bias_alone() -> None:
    random_runs = [
        replace(run, user="random", bias=0.01 + 0.001 * run.run, bias_z=4.0 if run.run < 2 else 1.0)
        for run in runs("tdm", [0.5] * 10)
    ]
    tables = make_tables(grid() + random_runs)
    assert [table.name for table in tables] == [
        "error-heldout-15-rankers", "error-same-queries-15-rankers", "bias-15-rankers",
    ]  # fmt: skip
    assert "random" not in {section.heading for table in tables[:2] for section in table.sections}
    (section,) = tables[2].sections
    preference, interval, clearest, beyond = section.rows[0].cells
    low, high = stats.t.interval(0.95, 9, 0.0145, stats.sem([0.01 + 0.001 * i for i in range(10)]))
    assert (preference.text, preference.bold) == ("0.0145", True)
    assert interval.text == f"{low:.4f} to {high:.4f}"
    assert (clearest.text, beyond.text, beyond.bold) == ("1.60", "20 %", True)


def test_a_bias_whose_interval_holds_zero_is_not_bold() -> None:
    results = [replace(run, user="random", bias=0.01 * (-1) ** run.run) for run in runs("tdm", [0.5] * 4)]
    (table,) = make_tables(results)
    assert not table.sections[0].rows[0].cells[0].bold
    assert table.sections[0].rows[0].cells[0].text == "0.0000"
    assert table.sections[0].rows[0].cells[1].text.startswith("−0.01")


def columns_of(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_markdown_has_every_row_in_full_whatever_a_method_is_called() -> None:
    tables = make_tables(grid(["tdm", HOSTILE, "ppm"], ["MQ2008", "a|b"]))
    text = to_markdown(tables)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {columns_of(line) for line in rows} == {5}
    assert len(rows) == 2 * (2 + 2 * 3)
    assert "<b>" not in text
    assert re.search(r"\| MQ2008 \| 0\.\d\d \(0\.\d\d\) ▼ \| .* \| \*\*0\.\d\d\*\* \(0\.\d\d\) \| 0\.15 \|", text)
    assert text.count("Two-tailed") == 1  # notes stand once for all tables of a kind


def test_latex_rows_have_as_many_cells_as_there_are_columns() -> None:
    text = to_latex(make_tables(grid()))
    assert r"\begin{tabular}{@{}llll@{~}c@{}cr@{}}" in text
    rows = [line for line in text.splitlines() if line.startswith(("MQ2008", "OHSUMED"))]
    assert len(rows) == 2 * 4
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3 + 2 + 1}
    assert all(row.endswith(r"\\") for row in rows)
    assert r"\textbf{0.20} {\tiny(0.05)}" in text
    assert r"{\tiny \dubbelneer{}}" in text
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 2
    assert r"Notation as in Table~\ref{tab:error-heldout-15-rankers}" in text


def test_latex_escapes_names() -> None:
    text = to_latex(make_tables(grid([HOSTILE, "ppm"])))
    assert r"evil\ensuremath{|}\textasciigrave{}*\_\ensuremath{<}b\ensuremath{>}\textbackslash{}\&\%\$\#\{\}" in text


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="apt-get install texlive-latex-recommended")
@pytest.mark.parametrize("alone", [True, False])
def test_latex_compiles_alone_and_within_a_paper(tmp_path: Path, alone: bool) -> None:
    results = grid(["tdm", HOSTILE, "ppm"], ["MQ2008", "a_b"])
    results += [replace(run, user="random", bias=-0.01) for run in runs("tdm", [0.5, 0.5])]
    (tmp_path / "tables.tex").write_text(to_latex(make_tables(results)), encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage{amssymb,booktabs,graphicx}"
        r"\begin{document}Before.\input{tables}After.\end{document}"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex" if alone else "paper.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert (tmp_path / ("tables.pdf" if alone else "paper.pdf")).stat().st_size > 1000


def test_csv_reads_back_with_a_line_per_summary() -> None:
    results = [replace(run, other={"ap": (0.5, 0.25)} if run.method == "ppm" else {}) for run in grid([HOSTILE, "ppm"])]
    summaries = summarise(results)
    lines = list(csv.DictReader(io.StringIO(to_csv(summaries), newline="")))
    assert len(lines) == len(summaries) == 2 * 2 * 2
    for line, summary in zip(lines, summaries, strict=True):
        assert (line["method"], line["dataset"], line["user"]) == (summary.method, summary.dataset, summary.user)
        assert float(line["error_heldout"]) == summary.error_heldout
        assert float(line["error_heldout_sd"]) == summary.error_heldout_sd
        assert int(line["runs"]) == 25
        assert line["bias"] == ""
        assert line["error_ap"] == ("0.25" if summary.method == "ppm" else "")
