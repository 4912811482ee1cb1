"""The engine: the compiled loop is the methods' own kernels, step by step, and nothing else."""

import numpy as np
import pytest

from multileave.clicks import Cascade, cascade_clicks, user
from multileave.data import QuerySet, ndcg, synthetic
from multileave.errors import DataError, MethodError
from multileave.impression import Impression
from multileave.methods.base import Method, get_method, methods
from multileave.outcome import Kind, preference_matrix
from multileave.random import below, seed_state
from multileave.rankings import read_rankings
from multileave.study import Simulation, best_first, binary_error, score_differences, winner
from multileave.study.engine import pack
from multileave.study.sums import ADDING, products
from numbered_rankings import NumberedRankings

VARIANTS = [
    "dpm(depth='linear')",
    "pm(credit='sign')",
    "ppm(pairs='local')",
    "ppm(pairs='all', hidden=False)",
    "tdm(prefix='drafted')",
]


def data_for(method: Method) -> QuerySet:
    return synthetic(queries=7, documents=(1, 20), rankers=method.most_rankers or 4, seed=3)


def step_by_step(
    data: QuerySet, method: Method, model: Cascade, k: int, seed: int, impressions: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
    """Simulate with single calls of the kernels and the API's own reading and inference.

    Return the sum of preferences after each impression, the state of the generator, and DCG and NDCG of each page.
    """
    pages = []
    rng = seed_state(seed)
    rankers = len(data.rankers)
    totals = np.zeros((impressions + 1, rankers, rankers))
    for impression_number in range(impressions):
        labels, rankings = data.query(int(below(rng, len(data))))
        source = read_rankings(rankings)
        table = NumberedRankings(source, method.read_depth(k, len(labels)))
        drawn = np.zeros(k + method.beyond(), dtype=np.int32)
        note = np.zeros(k + method.beyond(), dtype=np.int32)
        integers, floats = method.workspace(rankers, table.documents, k)
        m = method.draw_kernel(
            table.top, table.entering, table.ranks if method.draw_reads_ranks else table.ranks[:0], source.lengths, k,
            method.parameters, rng, drawn, note, np.zeros(2), np.zeros(integers, dtype=np.int32), np.zeros(floats),
        )  # fmt: skip
        drawn = drawn[:m]
        documents = table.ids(drawn)
        dcg, best = (
            sum((2.0**label - 1) / np.log2(rank + 1) for rank, label in enumerate(page[:k], 1))
            for page in (labels[documents].astype(int), np.sort(labels)[::-1].astype(int))
        )
        pages.append((dcg, dcg / best if best else 0.0))
        clicks = np.zeros(m, dtype=np.uint8)
        cascade_clicks(labels[documents], min(k, m), model.parameters, rng, clicks)
        impression = Impression(
            data.rankers, method.spelled, k, tuple(documents[:k]), tuple(documents[k:]), (), source.lengths,
            table.ranks[drawn] if method.keeps_ranks else table.ranks[:0], note[: m if method.keeps_note else 0], (),
        )  # fmt: skip
        totals[impression_number + 1] = totals[impression_number] + method.infer(impression, clicks).preferences
    return totals[1:], rng, pages


@pytest.mark.fast
@pytest.mark.parametrize("spec", [*methods(), *VARIANTS])
@pytest.mark.parametrize("k", [3, 10])
def test_the_loop_equals_the_composition_of_its_steps(spec: str, k: int) -> None:
    method = get_method(spec)
    data, model = data_for(method), user("informational", 5)
    simulation = Simulation(data, method, model, k=k, seed=17)
    found = simulation.run(60, checkpoints=range(1, 61))
    expected, rng, pages = step_by_step(data, method, model, k, seed=17, impressions=60)
    assert np.array_equal(simulation._rng, rng)
    single = np.diff(expected, axis=0, prepend=0.0)
    assert simulation.variances == pytest.approx(single.var(axis=0), rel=1e-9, abs=1e-9)
    assert (simulation.dcg_shown, simulation.ndcg_shown) == pytest.approx(tuple(np.mean(pages, axis=0)), rel=1e-12)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert expected.any(axis=(1, 2)).sum() > 10


@pytest.mark.fast
@pytest.mark.parametrize("kind", ADDING)
@pytest.mark.parametrize("rankers", [2, 9, 40])
@pytest.mark.parametrize("share", [0.03, 0.5, 1.0])
def test_sums_and_squares_are_those_of_preferences(kind: Kind, rankers: int, share: float) -> None:
    rng = np.random.default_rng(rankers)
    shape = (rankers, rankers) if kind == "matrix" else (1, rankers)
    total = np.zeros((1, rankers) if kind == "difference" else (rankers, rankers))
    size = {"difference": rankers + 1, "sign": 0, "matrix": rankers}[kind]
    squares = np.zeros((size, size))
    expected = np.zeros((2, rankers, rankers))
    for _ in range(31):
        values = rng.integers(-2, 3, shape) * (rng.random(shape) < share) * (1.0 + rng.integers(0, 2, shape) * 1e-16)
        values[0, rng.integers(rankers)] = -0.3
        if kind == "matrix":
            values = values - values.T
        ADDING[kind](values, total, squares)
        preferences = preference_matrix(kind, values if kind == "matrix" else values[0])
        expected += preferences, preferences**2
    if kind == "difference":
        both = products(squares)
        own = np.diag(both)
        found = preference_matrix("difference", total[0]), own[:, None] + own[None, :] - 2 * both
    else:
        found = total - total.T, (total if kind == "sign" else squares) + (total if kind == "sign" else squares).T
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.fast
def test_what_is_packed_is_what_the_api_reads() -> None:
    method = get_method("ppm")
    data = synthetic(queries=5, documents=(2, 30), rankers=3, seed=6)
    packed = pack(data, method, 4)
    most = 0
    for q, (at, row) in enumerate(packed.starts.tolist()):
        labels, rankings = data.query(q)
        source = read_rankings(rankings)
        table = NumberedRankings(source, method.read_depth(4, len(labels)))
        depth = table.top.shape[1]
        block = [depth, table.documents, *table.entering, *labels[table.source.decoded(table.codes)]]
        rows = [source.lengths, *table.top.T, *table.ranks]
        assert packed.blocks[at : at + len(block)].tolist() == block
        assert np.array_equal(packed.rows[row : row + len(rows)], rows)
        most = max(most, table.documents)
    assert len(packed.blocks) == at + len(block)
    assert len(packed.rows) == row + len(rows)
    assert packed.documents == most


@pytest.mark.fast
def test_simulations_may_share_what_is_packed() -> None:
    data = synthetic(queries=10, documents=15, rankers=3, seed=2)
    packed = pack(data, get_method("ppm"), 10)
    for name in ("perfect", "informational"):
        own, shared = (Simulation(data, "ppm", user(name, 5), seed=5, packed=p) for p in (None, packed))
        own.run(50)
        shared.run(50)
        assert np.array_equal(own.preferences, shared.preferences)


@pytest.mark.fast
@pytest.mark.parametrize("spec", ["ppm", "tdm", "pm(credit='sign')"])
def test_pieces_and_checkpoints_make_the_same_run(spec: str) -> None:
    data = synthetic(queries=10, documents=15, rankers=3, seed=2)
    whole, pieces = (Simulation(data, spec, user("perfect", 5), seed=5) for _ in range(2))
    kept = whole.run(50, checkpoints=[0, 20, 50])
    assert not kept[0].any()
    pieces.compile()
    pieces.run(20)
    assert np.array_equal(pieces.preferences, kept[1])
    pieces.run(30)
    assert np.array_equal(pieces.preferences, kept[2])
    assert np.array_equal(whole.preferences, kept[2])
    assert whole.impressions == pieces.impressions == 50


@pytest.mark.fast
def test_difference_methods_keep_one_credit_per_ranker() -> None:
    data = synthetic(queries=10, rankers=6, seed=2)
    assert Simulation(data, "ppm", user("perfect", 5))._total.shape == (1, 6)
    assert Simulation(data, "tdm", user("perfect", 5))._total.shape == (6, 6)


@pytest.mark.fast
def test_users_who_never_click_prefer_nobody() -> None:
    never = Cascade(click=(0.0,) * 5, stop=(0.0,) * 5)
    for spec in methods():
        method = get_method(spec)
        simulation = Simulation(data_for(method), method, never, seed=1)
        simulation.run(10)
        assert not simulation.preferences.any()


@pytest.mark.parametrize("spec", [*methods(), *VARIANTS])
def test_every_method_finds_a_clearly_best_ranker(spec: str) -> None:
    method = get_method(spec)
    qualities = (0.3, 0.8, 0.2)[: method.most_rankers or 3]
    data = synthetic(queries=200, documents=20, rankers=qualities, seed=9)
    simulation = Simulation(data, method, user("navigational", 5), seed=9)
    simulation.run(4000)
    assert winner(simulation.preferences) == 1
    assert np.array_equal(simulation.preferences, -simulation.preferences.T)


@pytest.mark.parametrize("spec", ["ppm(pairs='all')", "pm", "tdm"])
def test_random_users_prefer_nobody_in_unbiased_methods(spec: str) -> None:
    data = synthetic(queries=100, documents=20, rankers=3, seed=4)
    runs = []
    for seed in range(40):
        simulation = Simulation(data, spec, user("random", 5), seed=seed)
        simulation.run(2000)
        runs.append(simulation.preferences[np.triu_indices(3, 1)])
    standardised = np.mean(runs, axis=0) / (np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)))
    assert (np.abs(standardised) < 4).all()


@pytest.mark.fast
def test_binary_error_by_hand() -> None:
    truth = score_differences(np.array([0.5, 0.4, 0.3]))
    assert binary_error(truth, truth) == 0
    assert binary_error(-truth, truth) == 1
    assert binary_error(np.zeros((3, 3)), truth) == 1
    swapped = score_differences(np.array([0.4, 0.5, 0.3]))
    assert binary_error(swapped, truth) == 2 / 6
    tied = score_differences(np.array([0.5, 0.5, 0.3]))
    assert binary_error(tied, truth) == 2 / 6
    assert binary_error(truth, tied) == 2 / 6
    with pytest.raises(DataError, match="shapes"):
        binary_error(np.zeros((2, 2)), truth)


@pytest.mark.fast
def test_order_and_winner_by_hand() -> None:
    preferences = score_differences(np.array([1.0, 3.0, 2.0]))
    assert best_first(preferences) == [1, 2, 0]
    assert winner(preferences) == 1
    circle = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]], dtype=float)
    assert winner(circle) is None
    assert winner(np.zeros((2, 2))) is None


@pytest.mark.fast
def test_settings_that_make_no_sense_are_refused() -> None:
    data, model = synthetic(queries=3, rankers=3), user("perfect", 5)
    with pytest.raises(DataError, match="the user model only 3"):
        Simulation(data, "ppm", user("perfect", 3))
    with pytest.raises(MethodError, match="exactly 2 rankers"):
        Simulation(data, "bi", model)
    with pytest.raises(DataError, match="needs two or more"):
        Simulation(synthetic(queries=3, rankers=1), "ppm", model)
    with pytest.raises(DataError, match="k is 0"):
        Simulation(data, "ppm", model, k=0)
    with pytest.raises(DataError, match="impressions is -1"):
        Simulation(data, "ppm", model).run(-1)
    for checkpoints in ([5, 3], [11], [-1]):
        with pytest.raises(DataError, match="increasing numbers from 0 to 10"):
            Simulation(data, "ppm", model).run(10, checkpoints)


def test_ppm_comes_near_the_truth() -> None:
    data = synthetic(queries=500, documents=30, rankers=5, seed=1)
    simulation = Simulation(data, "ppm", user("perfect", 5), seed=1)
    early, late = simulation.run(20_000, checkpoints=[50, 20_000])
    truth = score_differences(ndcg(data))
    assert binary_error(late, truth) <= 0.1
    assert binary_error(early, truth) >= binary_error(late, truth)
