"""Fitting logs of simulated users: what was put in comes out."""

import numpy as np
import pytest

from multileave.clicks import Browsing, PositionBased, Returning, fit
from multileave.clicks.fitted import FittedUsers
from multileave.clicks.fitting import MODELS, PageCollector
from multileave.clicks.fitting.estimation import Estimator, accelerated
from multileave.clicks.fitting.held_out import choose, deal, held_out_baseline, held_out_model
from multileave.clicks.fitting.posterior import exposure_classes
from multileave.clicks.fitting.result import toml
from multileave.errors import ClicksError, DataError
from multileave.random import seed_state

CLICK = tuple(np.linspace(0.02, 0.9, 60) ** 1.5)
EXAMINE = ((1.0,), (0.5, 0.95), (0.3, 0.4, 0.9), (0.2, 0.3, 0.4, 0.9))


def simulated(user, *, pages=4000, queries=30, k=4, seed=1):
    rng = np.random.default_rng(seed)
    grades = rng.integers(len(CLICK), size=(queries, 8)).astype(np.uint8)
    quality = rng.normal(size=grades.shape) + grades / 30
    kernel = getattr(user, "order_kernel", user.kernel)
    state, order = seed_state(seed), np.zeros(k, dtype=np.uint8)
    collector = PageCollector(k)
    for page in range(pages):
        query = int(rng.integers(queries))
        shown = np.argsort(-(quality[query] + rng.normal(size=8)))[:k]
        kernel(grades[query, shown], k, user.parameters, state, order)
        places = np.flatnonzero(order)
        collector.add(query, shown.tolist(), places[np.argsort(order[places], kind="stable")].tolist(), page // 2)
    return collector.pages()


@pytest.fixture(scope="module")
def browsing():
    return fit(simulated(Browsing(CLICK, EXAMINE)), samples=40)


def test_the_model_that_made_the_log_is_chosen_and_its_parameters_recovered(browsing):
    assert browsing.best == "browsing"
    found, spans = browsing.models["browsing"].parameters["examine"], browsing.models["browsing"].intervals["examine"]
    inside = []
    for row, span, truth in zip(found, spans, EXAMINE, strict=True):
        for value, (low, high), wanted in zip(row, span, truth, strict=True):
            assert value == pytest.approx(wanted, abs=0.12)
            inside.append(low <= wanted <= high)
    assert np.mean(inside) > 0.7


def test_every_model_predicts_better_than_the_click_rate_by_rank(browsing):
    for model in browsing.models.values():
        assert model.perplexity < browsing.baseline["perplexity"]
        assert model.log_likelihood > browsing.baseline["log_likelihood"]


def test_a_log_clicked_downwards_cannot_show_who_goes_back(browsing):
    assert "strictly downwards" in browsing.unidentified["returning"]
    with pytest.raises(DataError, match="strictly downwards"):
        fit(simulated(PositionBased(CLICK, (1.0, 0.5, 0.4, 0.3)), pages=200), models=["returning"], samples=2)


def test_the_simpler_model_is_chosen_if_it_predicts_as_well():
    users = fit(simulated(PositionBased(CLICK, (1.0, 0.6, 0.4, 0.3))), models=["position", "browsing"], samples=10)
    assert users.best == "position"
    assert "parameters" in users.summary or "better than browsing" in users.summary


def test_a_log_that_ranks_alone_explain_says_so_and_prefers_the_simpler_model():
    rng = np.random.default_rng(7)
    collector = PageCollector()
    for _ in range(300):
        collector.add("q", rng.permutation(["a", "b", "c"]).tolist(), [0])
    users = fit(collector.pages(), models=["position", "browsing"], samples=2)
    assert users.best == "position"
    assert "predicts no better than the click rate by rank" in users.summary
    assert "the difference is not significant" in users.summary


@pytest.mark.acceptance
def test_users_who_go_back_are_found():
    truth = Returning(CLICK, (0.0,) * len(CLICK), False, (0.8,), (0.85,), (0.5,))
    users = fit(simulated(truth), samples=40)
    assert users.best == "returning"
    for name, wanted in (("back", 0.5), ("go_on_after_click", 0.8), ("go_on_after_skip", 0.85)):
        low, high = users.models["returning"].intervals[name]
        assert low - 0.02 < wanted < high + 0.02


def test_equal_seeds_give_equal_fits_with_any_number_of_threads():
    pages = simulated(PositionBased(CLICK, (1.0, 0.6, 0.4, 0.3)), pages=800)
    one, two = (fit(pages, models=["position", "dependent"], samples=6, threads=n, seed=4) for n in (1, 3))
    assert one.to_toml() == two.to_toml()


def test_what_is_written_is_read_as_users(browsing, tmp_path):
    browsing.write(tmp_path / "users.toml")
    read = FittedUsers.read(tmp_path / "users.toml")
    assert set(browsing.models) <= set(read.models)
    user = read.user(grades=3)
    assert isinstance(user, Browsing)
    assert user.click[0] < user.click[-1]


def test_better_grades_are_more_attractive_if_the_log_has_grades():
    rng = np.random.default_rng(2)
    collector = PageCollector(2)
    for _ in range(1500):
        shown = rng.permutation(4)
        clicks = [x for x in range(2) if rng.random() < (0.1, 0.3, 0.5, 0.7)[shown[x]] * (1.0, 0.6)[x]]
        collector.add("q", shown.tolist(), clicks, grades=[int(d) for d in shown])
    users = fit(collector.pages(), models=["position"], samples=5)
    grades = users.to_dict()["attractiveness"]["by_grade"]
    assert grades == pytest.approx([0.1, 0.3, 0.5, 0.7], abs=0.08)


def test_held_out_sessions_are_not_fitted():
    pages = simulated(PositionBased(CLICK, (1.0, 0.6, 0.4, 0.3)), pages=600, queries=200)
    estimator = Estimator(MODELS["position"], pages, exposure_classes(pages))
    estimator.fit(pages.row_weights())
    fold = deal(pages, 5, 0)
    apart = held_out_model(estimator, pages, fold)
    assert np.bincount(fold).tolist() == [60] * 5
    assert apart.per_page < 0.0
    assert held_out_baseline(pages, fold).pages == 600
    assert choose({"a": apart, "b": apart}, [3, 2]) == "b"


def test_a_log_that_never_moves_documents_is_refused():
    collector = PageCollector()
    for turn in range(100):
        collector.add("q", ["a", "b", "c"], [turn % 3], session=turn)
    with pytest.raises(DataError, match="cannot identify examination"):
        fit(collector.pages())


def test_ranks_without_a_link_to_the_top_are_left_out():
    rng = np.random.default_rng(5)
    collector = PageCollector()
    for _ in range(600):
        top = rng.permutation(["a", "b"]).tolist()
        collector.add("q", [*top, "c", "d"], [x for x in range(4) if rng.random() < (0.5, 0.3, 0.2, 0.2)[x]])
    users = fit(collector.pages(), models=["position"], samples=5)
    assert len(users.models["position"].parameters["examine"]) == 2
    assert "Ranks from 3" in users.notes[0]


def test_a_log_without_clicks_is_refused():
    collector = PageCollector()
    for _ in range(50):
        collector.add("q", ["a", "b"], [])
    with pytest.raises(DataError, match="None of the 50 pages has a click"):
        fit(collector.pages())


def test_a_short_log_is_refused():
    collector = PageCollector()
    collector.add("q", ["a", "b"], [0])
    with pytest.raises(DataError, match="has 1; expected at least 20"):
        fit(collector.pages())


def test_an_empty_log_is_refused():
    with pytest.raises(DataError, match="no valid pages"):
        PageCollector().pages()


@pytest.mark.parametrize(
    ("shown", "clicks", "grades", "message"),
    [
        (["a", "b"], [2], None, "position 2"),
        (["a", "b"], [-1], None, "position -1"),
        (["a", "b"], [True], None, "position True"),
        (["a"], ["a"], None, "position 'a'"),
        ([], [], None, "'shown' is empty"),
        (["a", "b"], [], [1], "1 grades for 2 documents"),
        (["a"], [], [300], "A grade is 300"),
    ],
)
def test_invalid_pages_are_refused(shown, clicks, grades, message):
    collector = PageCollector()
    with pytest.raises(ClicksError, match=message):
        collector.add("q", shown, clicks, grades=grades)
    assert len(collector) == 0


def test_equal_pages_are_stored_once_and_repeated_clicks_count_once():
    collector = PageCollector(2)
    for _ in range(5):
        collector.add("q", ["a", "b", "c"], [1, 0, 1, 2], session="s")
    pages = collector.pages()
    assert pages.row_order.tolist() == [[2, 1]]
    assert pages.row_weights().tolist() == [5.0]
    assert (pages.repeats, pages.clicks_below, pages.clicks, pages.sessions) == (5, 5, 10, 1)
    assert pages.ordered


def test_pages_that_show_a_document_twice_are_counted():
    rng = np.random.default_rng(6)
    collector = PageCollector(3)
    for page in range(300):
        shown = ["a", "b", "a"] if page < 7 else rng.permutation(["a", "b", "c"]).tolist()
        collector.add("q", shown, [x for x in range(3) if rng.random() < (0.5, 0.3, 0.2)[x]])
    collector.add("q", ["a"], [])
    pages = collector.pages()
    assert pages.doubled == 7
    assert "7 pages show a document twice" in fit(pages, models=["position"], samples=2).notes[0]


def test_unknown_models_are_refused():
    with pytest.raises(DataError, match="no model 'positon'"):
        fit(simulated(PositionBased(CLICK, (1.0,) * 4), pages=50), models=["positon"])


def test_acceleration_solves_a_linear_map_at_once():
    slope, shift = np.array([[0.9, 0.05], [0.0, 0.8]]), np.array([0.01, 0.02])
    wanted = np.linalg.solve(np.eye(2) - slope, shift)
    points = [np.zeros(2)]
    for _ in range(2):
        points.append(slope @ points[-1] + shift)
    assert accelerated([(x, slope @ x + shift) for x in points]) == pytest.approx(wanted)


def test_toml_is_read_back():
    import tomllib

    document = {"a": 1, "b": 0.25, "c": 1.0, "d": ["x", 'y"z'], "e": {"f": [[0.5, 1.0]], "g": {"h": 2}}}
    assert tomllib.loads(toml(document)) == document


def test_clicks_at_the_ranks_that_are_kept_are_counted_from_1_again():
    collector = PageCollector(4)
    collector.add("q", ["a", "b", "c", "d"], [3, 1, 0])
    collector.add("q", ["a", "b", "c", "d"], [2])
    pages = collector.pages().cut(2)
    assert pages.row_order.tolist() == [[2, 1], [0, 0]]
    assert pages.clicks_below == 2
    estimator = Estimator(MODELS["returning"], pages, exposure_classes(pages))
    estimator.fit(pages.row_weights())
    assert np.isfinite(estimator.theta).all()
