"""Where rankers differ, before any user has seen them."""

import json
from fractions import Fraction

import numpy as np
import pytest

from multileave.cli import main
from multileave.errors import DataError
from multileave.methods import get_method, infer
from multileave.study.differences import EXAMINATION, find_differences, rank_biased_overlap, rough_users
from multileave.study.differences_page import differences_page

RANKINGS = {
    "a": {"q1": list("abcdef"), "q2": list("abcdef"), "only a": ["x"]},
    "b": {"q1": list("abcdef"), "q2": list("fedcba"), "q<3>": ["y"]},
}


def defined_overlap(first, second, p, depth):
    """Rank-biased overlap as defined, for endless rankings: (1 - p) sum_d p^(d - 1) A_d, cut at a depth."""
    total = Fraction(0)
    for d in range(1, depth + 1):
        total += p ** (d - 1) * Fraction(len(set(first[:d]) & set(second[:d])), d)
    return (1 - p) * total


def test_rank_biased_overlap_is_the_definition_for_long_rankings():
    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second = ([int(d) for d in rng.permutation(100)] for _ in range(2))
        exact = defined_overlap(first, second, Fraction(8, 10), 100)
        assert rank_biased_overlap(first, second, 0.8) == pytest.approx(float(exact), abs=1e-6)


def test_rank_biased_overlap_extrapolates_agreement():
    # Extended by rankings that keep the agreement of their last rank, the definition gives the same value.
    first, second = "abcd", "abxy"
    p = Fraction(9, 10)
    agreement = [Fraction(1), Fraction(1), Fraction(2, 3), Fraction(2, 4)]
    exact = (1 - p) * sum(p**d * a for d, a in enumerate(agreement)) + p**4 * agreement[-1]
    assert rank_biased_overlap(first, second, 0.9) == pytest.approx(float(exact))


def test_rank_biased_overlap_of_rankings_of_different_lengths_is_between_0_and_1():
    rng = np.random.default_rng(2)
    for _ in range(200):
        first = [int(d) for d in rng.permutation(12)[: rng.integers(1, 12)]]
        second = [int(d) for d in rng.permutation(12)[: rng.integers(1, 12)]]
        found = rank_biased_overlap(first, second)
        assert 0.0 <= found <= 1.0
        assert found == rank_biased_overlap(second, first)
    assert rank_biased_overlap("abc", "abcdef") == pytest.approx(1.0)


def test_the_figures_of_a_pair():
    (pair,) = find_differences(RANKINGS, k=3)
    assert (pair.queries, pair.only) == (2, (1, 1))
    assert pair.overlap == pytest.approx(0.5)
    assert (pair.different_pages, pair.different_tops) == (0.5, 0.5)
    assert [query.query for query in pair.largest] == ["q2", "q1"]
    assert pair.users is not None


def test_equal_rankers_cannot_be_told_apart():
    (pair,) = find_differences({"a": RANKINGS["a"], "b": RANKINGS["a"]})
    assert pair.users is None
    assert pair.rbo == pytest.approx(1.0)


@pytest.mark.acceptance  # a simulation of seconds
def test_the_number_of_users_has_about_the_power_it_promises():
    """Simulate experiments of that size with people who are 20 % likelier to click what `one` puts higher."""
    rng = np.random.default_rng(3)
    pages = [(rng.permutation(12)[:10].tolist(), rng.permutation(12)[:10].tolist()) for _ in range(20)]
    users, _ = rough_users(pages, 10, 1.0, seed=4)
    method = get_method("recommended")
    look = np.array(EXAMINATION)
    values = []
    for n in range(40_000):
        one, other = pages[int(rng.integers(len(pages)))]
        impression = method.combine({"one": one, "other": other}, 10, seed=n)
        ranks = [[page.index(d) if d in page else 99 for d in impression.shown] for page in (one, other)]
        favour = np.sign(np.subtract(ranks[1], ranks[0]))
        chances = look / look.sum() * (1.0 + 0.1 * favour)
        positions = np.flatnonzero(rng.random(10) < chances).tolist()
        values.append(infer(impression, positions=positions).preferences[0, 1])
    experiments = rng.choice(values, size=(2000, users))
    errors = experiments.std(axis=1) / np.sqrt(users)
    power = (experiments.mean(axis=1) / errors > 1.96).mean()
    assert 0.65 < power < 0.92


def test_the_page_escapes_what_comes_from_outside():
    rankings = {"<b>": {"<i>": ["<u>", "x"]}, "c": {"<i>": ["x"]}}
    page = differences_page(find_differences(rankings), rankings)
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in page


@pytest.fixture
def files(tmp_path):
    for name, rankings in RANKINGS.items():
        lines = [json.dumps({"query": query, "ranking": ranking}) for query, ranking in rankings.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]


def test_the_command_prints_a_table_json_and_a_page(files, tmp_path, capsys):
    assert main(["compare", *files, "--html", str(tmp_path / "page.html")]) == 0
    told = capsys.readouterr().out
    assert "a, b" in told
    assert "Left out: 1 query that only a answered." in told
    assert "q2" in (tmp_path / "page.html").read_text()
    assert main(["compare", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"][0]["queries"] == 2


def test_trec_runs_and_json_lines_can_be_mixed(files, tmp_path, capsys):
    run = tmp_path / "c.run"
    run.write_text("q1 Q0 a 1 2.0 c\nq1 Q0 b 2 1.0 c\n")
    assert main(["compare", files[0], str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"][0]["queries"] == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"query": "q"}\n', "is not a ranking"),
        ('{"query": 1, "ranking": []}\n', "not a string"),
        ('{"query": "q", "ranking": ["a", "a"]}\n', "listed twice"),
        ('{"query": "q", "ranking": ["a"]}\n{"query": "q", "ranking": ["a"]}\n', "listed twice"),
        ('{"query": "other", "ranking": ["a"]}\n', "no query in common"),
        ("", "is empty"),
        ("\0\1", "expected"),
    ],
)
def test_wrong_files_are_refused_in_one_line(files, tmp_path, capsys, content, expected):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(content)
    assert main(["compare", files[0], str(wrong)]) == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1


def test_a_single_file_is_refused(files, capsys):
    assert main(["compare", files[0]]) == 2
    assert "two or more" in capsys.readouterr().err


def test_impossible_options_are_refused():
    for wrong in ({"k": 0}, {"persistence": 1.0}, {"clicks_per_page": 0.0}):
        with pytest.raises(DataError):
            find_differences(RANKINGS, **wrong)
