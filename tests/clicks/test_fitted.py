"""Fitted users: read from a file with clear errors, and given the attractiveness of the data's grades."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from multileave.clicks import Browsing, Cascade, FittedUsers, PositionBased, Returning, default_user, find_user, user
from multileave.clicks.fitted import match_quantiles
from multileave.data import synthetic
from multileave.errors import DataError

pytestmark = pytest.mark.fast

FILE = """
version = 1
best = "browsing"
[log]
pages = 100
[attractiveness]
quantiles = [0.0, 0.1, 0.2, 0.3, 0.8]
[models.position]
examine = [1.0, 0.7, 0.5]
attractiveness = [0.5, 0.5]
[models.dependent]
go_on_after_click = [0.6, 0.7]
go_on = 0.9
[models.bayesian]
satisfied = 0.5
satisfied_quantiles = [0.0, 1.0]
go_on_after_click = 0.8
go_on_after_skip = 0.75
[models.browsing]
examine = [[1.0], [0.7, 0.9]]
[models.returning]
go_on_after_click = 0.6
go_on_after_skip = 0.9
back = 0.2
[models.returning.intervals]
back = [0.1, 0.3]
"""


def fitted(text=FILE, name="ours"):
    return FittedUsers.from_dict(tomllib.loads(text), name)


def test_every_model_becomes_a_user():
    click = (0.1, 0.25, 0.55)
    shares = (0.5, 0.25, 0.25)
    users = {model: fitted().user(model, grades=3, shares=shares) for model in fitted().models}
    assert users["position"] == PositionBased((0.5, 0.5, 0.5), (1.0, 0.7, 0.5))  # has quantiles of its own
    assert users["dependent"] == Cascade(click, (0.0,) * 3, False, (0.6, 0.7), (0.9,))
    assert users["browsing"] == Browsing(click, ((1.0,), (0.7, 0.9)))
    assert users["returning"] == Returning(click, (0.0,) * 3, False, (0.6,), (0.9,), back=(0.2,))
    assert fitted().user(grades=3, shares=shares) == users["browsing"]
    bayesian = users["bayesian"]
    assert (bayesian.click, bayesian.go_on_after_click, bayesian.go_on_after_skip) == (click, (0.8,), (0.75,))
    # Of clicks, 0.05 / 0.25 are on grade 0, and so on; satisfaction is uniform over them.
    assert bayesian.stop == pytest.approx((0.1, 0.2 + 0.125, 0.45 + 0.275))


def test_quantiles_are_matched_so_that_the_mean_stays():
    random = np.random.default_rng(1)
    quantiles = np.sort(random.beta(0.5, 3.0, 101))
    for grades in (1, 2, 3, 5):
        shares = random.dirichlet(np.ones(grades))
        means = match_quantiles(quantiles, shares)
        assert list(means) == sorted(means)
        assert np.dot(means, shares) == pytest.approx((quantiles[1:] + quantiles[:-1]).mean() / 2)
    assert match_quantiles([0.0, 1.0], [0.5, 0.0, 0.5]) == (0.25, 0.5, 0.75)
    assert match_quantiles([0.4], [1.0]) == (0.4,)


def test_measured_grades_are_used_if_they_fit():
    measured = fitted(FILE.replace("[models.position]", "by_grade = [0.01, 0.3]\n[models.position]"))
    assert measured.user(grades=2).click == (0.01, 0.3)
    assert measured.user(grades=2, attractiveness="quantiles").click == fitted().user(grades=2).click
    assert measured.user(grades=3).click == fitted().user(grades=3).click
    with pytest.raises(DataError, match="attractiveness for 2 grades, and the data have 3"):
        measured.user(grades=3, attractiveness="measured")
    with pytest.raises(DataError, match="attractiveness of no grade"):
        fitted().user(grades=2, attractiveness="measured")
    with pytest.raises(DataError, match="Did you mean 'quantiles'"):
        fitted().user(grades=2, attractiveness="quantile")


def test_the_grades_shown_are_counted():
    data = synthetic(queries=30, documents=20, rankers=3, grades=3, seed=2)
    counts = np.zeros(3)
    for q in range(len(data)):
        labels, rankings = data.query(q)
        for ranking in rankings:
            for document in ranking[:10]:
                counts[labels[document]] += 1
    assert data.grade_shares(10) == pytest.approx(tuple(counts / (30 * 3 * 10)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 1", "version = 2", "format version 2; this multileave reads version 1"),
        ("version = 1", "", "no 'version'"),
        ('best = "browsing"', 'best = "browsng"', "no model 'browsng'; expected one of position.*Did you mean 'browsi"),
        ('best = "browsing"', "", "The users ours have no 'best'"),
        ("[models.dependent]", "[models.dependant]", "model 'dependant'.*Did you mean 'dependent'"),
        ("go_on = 0.9", "go_on = 1.9", r"\[dependent\]: go_on\[0\] is 1.9; a probability lies between"),
        ("go_on = 0.9", "", r"\[models\] \[dependent\] have no 'go_on'"),
        ("[0.7, 0.9]", "[0.7]", r"examine\[1\] has 1 probabilities; expected 2"),
        ("[0.7, 0.9]", '"x"', r"examine\[1\] is 'x'; expected a list"),
        ("back = 0.2", 'back = "often"', r"back\[0\] is 'often'"),
        ("quantiles = [0.0, 0.1, 0.2, 0.3, 0.8]", "", "no 'quantiles'"),
        ("[attractiveness]", "[attraction]", "no 'attractiveness'"),
    ],
)
def test_files_that_make_no_sense_are_refused(old, new, message):
    assert old in FILE
    with pytest.raises(DataError, match=message):
        fitted(FILE.replace(old, new, 1))


def test_a_model_that_the_log_cannot_identify_says_so():
    unidentified = FILE.replace("examine = [[1.0], [0.7, 0.9]]", 'unidentified = "No document at two ranks."')
    with pytest.raises(DataError, match=r"No document at two ranks. Use position or dependent"):
        fitted(unidentified)
    others = fitted(unidentified.replace('best = "browsing"', 'best = "position"'))
    assert "browsing" not in others.models
    assert others.user(grades=2).examine == (1.0, 0.7, 0.5)


def test_the_users_recorded_for_benchmarks_can_be_read():
    files = sorted((Path(__file__).parents[2] / "benchmarks" / "users").glob("*.toml"))
    assert {"yandex", "clara2"} <= {path.stem for path in files}
    for path in files:
        for model in FittedUsers.read(path).models:
            click = find_user(f"{path.stem}.{model}", 3, files, shares=(0.7, 0.2, 0.1)).click
            assert list(click) == sorted(click)


def test_users_are_found_by_file_and_model(tmp_path):
    path = tmp_path / "our.shop.toml"
    path.write_text(FILE)
    files = [path]
    assert default_user() == "navigational"
    assert default_user(files) == "our.shop.browsing"
    assert find_user("our.shop", 3, files) == find_user("our.shop.browsing", 3, files) == fitted().user(grades=3)
    assert find_user("our.shop.position", 3, files) == fitted().user("position", grades=3)
    assert find_user("navigational", 3, files) == user("navigational", 3)
    with pytest.raises(DataError, match=r"no user 'our.shp'; expected .*our.shop.returning"):
        find_user("our.shp", 3, files)
    with pytest.raises(DataError, match=r"our.shop have no model 'x'"):
        find_user("our.shop.x", 3, files)
    with pytest.raises(DataError, match=r"Two files of users are called our.shop"):
        find_user("our.shop", 3, [path, path])
    path.write_text("version = ")
    with pytest.raises(DataError, match="not valid TOML"):
        find_user("our.shop", 3, files)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        find_user("other", 3, [tmp_path / "other.toml"])
