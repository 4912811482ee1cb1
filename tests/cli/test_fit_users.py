"""multileave fit-users: from a log to a file of users, a table, JSON and a page."""

import json
import lzma
import tomllib

import numpy as np
import pytest

from multileave.cli import main


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "pages.jsonl"
    rng = np.random.default_rng(3)
    a = rng.beta(1, 2, (10, 5))
    with path.open("w") as out:
        for page in range(1500):
            query = int(rng.integers(10))
            shown = rng.permutation(5)[:3]
            clicks = [x for x in range(3) if rng.random() < (1.0, 0.6, 0.3)[x] * a[query, shown[x]]]
            row = {"session": page // 2, "query": f"<q{query}>", "shown": shown.tolist(), "clicks": clicks}
            out.write(json.dumps(row) + "\n")
        out.write("{}\n")
    return path


def test_fit_users_writes_users_and_a_page_and_prints_a_table(log, tmp_path, capsys):
    out, html = tmp_path / "users.toml", tmp_path / "users.html"
    arguments = ["--models", "position", "dependent", "--samples", "10", "--out", str(out), "--html", str(html)]
    assert main(["fit-users", str(log), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "click rate by rank" in printed
    assert "quarantined: 1; the first: 'query' is None" in printed
    assert "Best: position" in printed
    users = tomllib.loads(out.read_text())
    assert users["version"] == 1
    assert users["models"]["position"]["examine"] == pytest.approx([1.0, 0.6, 0.3], abs=0.12)
    page = html.read_text()
    assert page.count("<img") == 3
    assert "<script" not in page
    assert "dependent: go on after click, rank 1" in page


def test_fit_users_prints_one_json_document(log, capsys):
    assert main(["fit-users", str(log), "--models", "position", "--samples", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == "position"
    assert found["rows"] == {
        "rows": 1501, "pages": 1500, "quarantined": 1, "repeated": 0, "other": 0, "lost_parts": 0,
        "malformed_clicks": 0, "orphan_clicks": 0, "unused_clicks": 0,
    }  # fmt: skip


def test_fit_users_refuses_a_log_that_cannot_identify_examination(tmp_path, capsys):
    path = tmp_path / "static.jsonl"
    rows = [{"query": "q", "shown": ["a", "b"], "clicks": [x % 2]} for x in range(50)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["fit-users", str(path), "--out", str(tmp_path / "users.toml")]) == 2
    assert "cannot identify examination" in capsys.readouterr().err
    assert not (tmp_path / "users.toml").exists()


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_fit_users_refuses_a_file_in_no_folder_before_it_fits(log, tmp_path, capsys, option):
    assert main(["fit-users", str(log), option, str(tmp_path / "nowhere" / "users")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_fit_users_tells_of_files_that_end_early(log, tmp_path, capsys):
    cut = tmp_path / "cut.jsonl.xz"
    cut.write_bytes(lzma.compress(log.read_bytes())[:-40])
    assert main(["fit-users", str(log), str(cut), "--models", "position", "--samples", "2"]) == 0
    assert "lost parts: 1" in capsys.readouterr().out
    assert main(["fit-users", str(cut)]) == 2
    assert "The first problem: The file cannot be read to its end" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--html", "--quarantine"])
def test_fit_users_never_replaces_the_log(log, tmp_path, capsys, option):
    copy = tmp_path / "pages.jsonl"
    copy.write_bytes(log.read_bytes())
    assert main(["fit-users", str(tmp_path), option, str(tmp_path / "." / "pages.jsonl"), "--samples", "2"]) == 2
    assert f"is a file of the log, which {option} would replace. Choose another file." in capsys.readouterr().err
    assert copy.read_bytes() == log.read_bytes()


@pytest.mark.parametrize("option", ["--out", "--html", "--quarantine"])
def test_fit_users_refuses_a_folder_as_a_file_before_it_fits(log, tmp_path, capsys, option):
    assert main(["fit-users", str(log), option, str(tmp_path)]) == 2
    assert "it is a folder. Choose a file." in capsys.readouterr().err


def test_fit_users_replaces_its_own_file_but_not_one_by_another(log, tmp_path, capsys):
    out = tmp_path / "users.toml"
    arguments = ["fit-users", str(log), "--models", "position", "--samples", "2", "--out", str(out)]
    assert main(arguments) == 0
    first = out.read_bytes()
    assert main(arguments) == 0
    assert out.read_bytes() == first
    assert main([*arguments, "--html", str(out)]) == 2
    assert "is the file of --out, which --html would replace" in capsys.readouterr().err


def test_fit_users_says_what_was_left_out_if_nothing_can_be_fitted(tmp_path, capsys):
    path = tmp_path / "from_one.jsonl"
    rows = [{"query": "q", "shown": ["a", "b"], "clicks": [1 + x % 2]} for x in range(50)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["fit-users", str(path)]) == 2
    printed = capsys.readouterr().err
    assert "None of the 25 clicks is at rank 1" in printed
    assert "Check that positions of clicks count from 0." in printed
    assert "quarantined: 25; the first: A click is at position 2; expected an integer from 0 to 1" in printed


def test_fit_users_refuses_a_negative_seed(log, capsys):
    assert main(["fit-users", str(log), "--seed", "-1"]) == 2
    assert "seed is -1; expected an integer from 0." in capsys.readouterr().err


def test_fit_users_needs_two_ranks(log, capsys):
    assert main(["fit-users", str(log), "--k", "1"]) == 2
    assert "pages were read to rank 1 only" in capsys.readouterr().err
