"""om: kernel against definition, known values, and that it always ends with distinct lists."""

import itertools
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.stats import chisquare

from multileave.errors import MethodError
from multileave.impression import ABSENT
from multileave.methods._lexicographic import least_squares, nearest_to_origin, refine, solver_workspace
from multileave.methods._lexicographic_exact import ExactPolytope, exact_nearest, exact_optimum
from multileave.methods.base import get_method, infer
from multileave.methods.optimized import MOST_LISTS, Optimized, possible_lists, sampled_sets
from multileave.random import seed_state
from multileave.rankings import read_rankings
from numbered_rankings import NumberedRankings

ABC = list(itertools.permutations("ABC"))
ALL = Optimized(samples="all")


def solve(method, rankings, k, seed=0):
    """Return what the draw kernel leaves in its scratch, {list: probability}, and what it drew and reported."""
    source = read_rankings(rankings)
    table = NumberedRankings(source, method.read_depth(k, source.longest))
    integers, floats = method.workspace(len(rankings), table.documents, k)
    work_i, work_f = np.full(integers, 77, dtype=np.int32), np.full(floats, np.nan)
    shown, note, stat = np.empty(k, dtype=np.int32), np.zeros(k, dtype=np.int32), np.zeros(2)
    m = method.draw_kernel(
        table.top, table.entering, table.ranks, source.lengths, k, method.parameters, seed_state(seed),
        shown, note, stat, work_i, work_f,
    )  # fmt: skip
    count = int(stat[1])
    lists = [tuple(table.ids(row)) for row in work_i[: count * m].reshape(count, m)]
    assert len(set(lists)) == count
    return dict(zip(lists, work_f[:count].tolist(), strict=True)), tuple(table.ids(shown[:m])), stat


def assert_kernel_is_exact(method, rankings, k, tolerance=1e-9):
    lists = [drawn for drawn, _ in possible_lists(rankings, k)]
    exact, slack = method.optimum(rankings, lists)
    found, shown, stat = solve(method, rankings, k)
    assert set(found) == set(lists)
    assert sum(exact) == 1
    assert found == pytest.approx(dict(zip(lists, map(float, exact), strict=True)), abs=tolerance, rel=0)
    assert stat[0] == pytest.approx(float(slack), abs=tolerance)
    assert found[shown] > 0


def random_rankings(rng):
    documents = "ABCDEF"[: rng.randint(4, 6)]
    unequal = rng.random() < 0.5
    return tuple(
        tuple(rng.sample(documents, rng.randint(1, len(documents)) if unequal else len(documents)))
        for _ in range(rng.randint(2, 4))
    )


@pytest.mark.fast
def test_optimized_interleaving_of_abc_and_bca_has_the_known_probabilities():
    rankings = (tuple("ABC"), tuple("BCA"))
    expected = {tuple("ABC"): Fraction(3, 7), tuple("BAC"): Fraction(13, 35), tuple("BCA"): Fraction(1, 5)}
    assert {drawn: p for drawn, _, p in ALL.lists(rankings, 3)} == expected
    found, _, stat = solve(ALL, rankings, 3)
    assert found == pytest.approx(expected, abs=1e-14)
    assert stat.tolist() == [0, 3]


# Renaming documents changes nothing that the kernel sees, so the first ranking is ABC.
@pytest.mark.fast
@pytest.mark.parametrize("credit", ["inverse", "linear"])
@pytest.mark.parametrize("others", [1, 2])
def test_kernel_equals_definition_on_every_pair_and_triple_over_three_documents(credit, others):
    for rest in itertools.product(ABC, repeat=others):
        for k in (1, 2, 3):
            for samples in (10, "all"):
                assert_kernel_is_exact(Optimized(samples, credit), (ABC[0], *rest), k)


@pytest.mark.parametrize("credit", ["inverse", "linear"])
def test_kernel_equals_definition_on_larger_and_unequal_rankings(credit):
    rng = random.Random(f"larger {credit}")
    checked = 0
    while checked < 120:
        rankings, k = random_rankings(rng), rng.randint(1, 6)
        if len(list(possible_lists(rankings, k))) <= 24:
            assert_kernel_is_exact(Optimized("all", credit), rankings, k)
            checked += 1


def test_six_of_the_21_triples_over_three_documents_have_slack():
    triples = itertools.combinations_with_replacement(ABC, 2)
    slacks = [ALL.exact_slack((ABC[0], *rest), 3) for rest in triples]
    assert len(slacks) == 21
    assert sum(slack > 0 for slack in slacks) == 6
    assert min(slacks) == 0


def test_definition_satisfies_the_optimality_conditions_of_each_stage():
    """With SciPy as the oracle: HiGHS for (2), SLSQP for (1) and (3)."""
    rng = random.Random("oracle")
    for _ in range(12):
        rankings, k = random_rankings(rng), rng.randint(2, 4)
        lists = [drawn for drawn, _ in possible_lists(rankings, k)]
        if not 2 <= len(lists) <= 16:
            continue
        p, slack = ALL.optimum(rankings, lists)
        points, costs = programme(rankings, lists)
        p = np.array(p, dtype=float)
        start = np.full(len(lists), 1 / len(lists))
        simplex = {"type": "eq", "fun": lambda q: q.sum() - 1}
        bounds = [(0, 1)] * len(lists)

        def least(q, points=points):
            return ((q @ points) ** 2).sum()

        first = minimize(least, start, bounds=bounds, constraints=[simplex], tol=1e-12)
        assert float(slack) == pytest.approx(least(p), abs=1e-12)
        assert float(slack) == pytest.approx(first.fun, abs=1e-6)
        equal = np.vstack([points.T, np.ones(len(lists))])
        second = linprog(costs, A_eq=equal, b_eq=equal @ p, bounds=bounds, method="highs")
        assert costs @ p == pytest.approx(second.fun, abs=1e-6)
        null = null_space(np.vstack([equal, costs]))
        if null.shape[1]:
            third = minimize(
                lambda t, p=p, null=null: ((p + null @ t) ** 2).sum(),
                np.zeros(null.shape[1]),
                constraints=[{"type": "ineq", "fun": lambda t, p=p, null=null: p + null @ t}],
                tol=1e-12,
            )
            assert (p**2).sum() <= third.fun + 1e-7


def programme(rankings, lists):
    """Return deviations and costs of lists for inverse credit, in floats and written anew."""
    points, costs = [], []
    for drawn in lists:
        rank = [[r.index(d) + 1 if d in r else len(r) + 1 for r in rankings] for d in drawn]
        credit = 1 / np.array(rank, dtype=float)
        credit -= credit.mean(axis=1, keepdims=True)
        points.append(credit.cumsum(axis=0).ravel())
        costs.append(((credit / np.arange(1, len(drawn) + 1)[:, None]).sum(axis=0) ** 2).sum())
    return np.array(points), np.array(costs)


def null_space(matrix):
    _, values, rows = np.linalg.svd(matrix)
    return rows[(values > 1e-10 * values[0]).sum() :].T


def test_a_thousand_lists_of_two_rankers_are_solved_right_and_soon():
    rng = random.Random("oi")
    rankings = tuple(tuple(rng.sample(range(100), 100)) for _ in range(2))
    solve(ALL, rankings, 2)  # compiles
    began = time.perf_counter()
    found, _, stat = solve(ALL, rankings, 10)
    assert time.perf_counter() - began < 2
    assert len(found) > 500
    p = np.array(list(found.values()))
    points, costs = programme(rankings, list(found))
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    assert ((p @ points) ** 2).sum() == pytest.approx(stat[0], abs=1e-12)
    assert stat[0] == pytest.approx(0, abs=1e-12)
    equal = np.vstack([points.T, np.ones(len(p))])
    oracle = linprog(costs, A_eq=equal, b_eq=equal @ p, bounds=(0, 1), method="highs")
    assert costs @ p == pytest.approx(oracle.fun, abs=1e-7)


def test_symmetry_makes_equal_probabilities_where_only_the_squares_decide():
    """Six disjoint rankings: a list of four rankers' tops is one of 6 * 5 * 4 * 3 that renaming makes the same."""
    rankings = tuple(tuple(range(10 * n, 10 * n + 7)) for n in range(6))
    found, _, stat = solve(ALL, rankings, 4)
    assert stat.tolist() == [0, 6**4]
    positive = [p for p in found.values() if p > 1e-12]
    assert positive == pytest.approx([1 / 360] * 360, abs=1e-12)


@pytest.mark.fast
def test_solver_equals_definition_on_points_with_many_ties():
    """Small integers, so that most optima are faces with degenerate vertices and every stage has work to do."""
    rng = random.Random("ties")
    for _ in range(150):
        dimensions, count = rng.randint(1, 3), rng.randint(2, 12)
        points = [[rng.randint(-1, 1) for _ in range(dimensions)] for _ in range(count)]
        costs = [rng.randint(0, rng.choice((0, 1, 3))) for _ in range(count)]
        exact, slack = exact_optimum([tuple(map(Fraction, p)) for p in points], list(map(Fraction, costs)))
        integers, floats = solver_workspace(count, dimensions)
        p, face = np.empty(count), np.empty(count, dtype=np.int32)
        work_i, work_f = np.empty(integers, dtype=np.int32), np.full(floats, np.nan)
        array = np.array(points, dtype=float)
        square, c, n = nearest_to_origin(array, p, face, work_i, work_f)
        if n > c:
            refine(array, np.array(costs, dtype=float), p, face, c, n, work_i, work_f)
        assert square == pytest.approx(float(slack), abs=1e-12)
        assert p == pytest.approx(np.array(exact, dtype=float), abs=1e-10)


@pytest.mark.fast
def test_least_squares_equals_definition_where_what_was_held_at_zero_is_let_go():
    """Systems drawn so that a third of them need it; lists hardly ever do."""
    rng = random.Random("let go")
    m, n = 6, 12
    for _ in range(40):
        free = [[rng.randint(-9, 9) for _ in range(n - m)] for _ in range(m)]
        rows = [[int(i == j) for j in range(m)] + free[i] for i in range(m)]
        solution = [rng.choice((0, 0, 1, 5)) for _ in range(n)]
        right = [sum(a * q for a, q in zip(row, solution, strict=True)) for row in rows]
        polytope = ExactPolytope([tuple(map(Fraction, row)) for row in rows], tuple(map(Fraction, right)))
        exact = np.array(exact_nearest(polytope.lowest, n), dtype=float)
        q = np.empty(n)
        scratch = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m)
        assert least_squares(np.array(rows, dtype=float), m, n, np.array(right, dtype=float), q, *scratch)
        assert q == pytest.approx(exact, abs=1e-9)


@pytest.mark.fast
def test_all_lists_come_in_the_order_of_the_definition():
    rng = random.Random("order")
    for _ in range(20):
        rankings, k = random_rankings(rng), rng.randint(1, 4)
        assert list(solve(ALL, rankings, k)[0]) == [drawn for drawn, _ in possible_lists(rankings, k)]


rankings_of_any_kind = st.lists(
    st.lists(st.integers(0, 12), min_size=1, max_size=9, unique=True).map(tuple), min_size=2, max_size=6
).map(tuple)


@given(
    rankings_of_any_kind,
    st.integers(1, 12),
    st.sampled_from([1, 2, 3, 10, 40, "all"]),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_valid_rankings_never_raise_and_give_distinct_lists_with_probabilities(rankings, k, samples, inverse, seed):
    method = Optimized(samples, "inverse" if inverse else "linear")
    found, shown, stat = solve(method, rankings, k, seed)
    possible = {drawn for drawn, _ in itertools.islice(possible_lists(rankings, k), MOST_LISTS + 1)}
    assert len(found) == min(method.most_lists, len(possible)) == stat[1]
    if len(possible) <= MOST_LISTS:
        assert set(found) <= possible
    assert all(len(drawn) == min(k, len(set().union(*rankings))) for drawn in found)
    assert min(found.values()) >= 0
    assert sum(found.values()) == pytest.approx(1, abs=1e-9)
    assert found[shown] > 0
    assert stat[0] >= 0


@pytest.mark.fast
@pytest.mark.parametrize("samples", [1, 10, "all"])
def test_identical_rankers_leave_one_list(samples):
    found, shown, stat = solve(Optimized(samples), (tuple("ABC"),) * 3, 10)
    assert found == {tuple("ABC"): 1.0}
    assert shown == tuple("ABC")
    assert stat.tolist() == [0, 1]


@pytest.mark.fast
def test_lists_that_are_rarely_drawn_are_found_by_enumeration():
    rankings = (*[tuple("AB")] * 60, tuple("BA"))  # 20 draws find BA in 28 of 100 tries
    for seed in range(20):
        assert set(solve(Optimized(samples=2), rankings, 2, seed)[0]) == {tuple("AB"), tuple("BA")}


def test_more_lists_than_the_bound_are_sampled():
    rankings = tuple(tuple(range(20 * n, 20 * n + 14)) for n in range(2))
    assert MOST_LISTS < 2**14
    found, _, stat = solve(ALL, rankings, 14)
    assert stat[1] == len(found) == MOST_LISTS
    assert set(found) != {drawn for drawn, _ in itertools.islice(possible_lists(rankings, 14), MOST_LISTS)}
    assert solve(ALL, rankings, 14, seed=1)[0].keys() != found.keys()


def assert_frequencies(method, rankings, k, draws):
    chances = {drawn: float(p) for drawn, _, p in method.lists(rankings, k)}
    counts = dict.fromkeys(chances, 0)
    rng = np.random.default_rng(7)
    for _ in range(draws):
        counts[method.combine(rankings, k, seed=rng).shown] += 1
    assert chisquare(list(counts.values()), [draws * p for p in chances.values()]).pvalue > 1e-3


@pytest.mark.parametrize("samples", [1, 2, 3, 10])
def test_frequencies_of_draws_follow_the_definition(samples):
    rankings = (tuple("ABCD"), tuple("BDA"), tuple("CA"))
    assert len(list(possible_lists(rankings, 2))) > 3
    assert_frequencies(Optimized(samples), rankings, 2, 20_000)


def test_a_ranker_without_documents_left_is_drawn_no_more():
    assert_frequencies(Optimized(samples=1), (tuple("A"), tuple("ABCD"), tuple("BDC")), 4, 20_000)


@pytest.mark.fast
def test_one_sample_is_the_draw_itself():
    rankings = (tuple("ABC"), tuple("BCA"), tuple("BAC"))
    exact = {drawn: p for drawn, _, p in Optimized(samples=1).lists(rankings, 3)}
    assert exact == dict(possible_lists(rankings, 3))
    assert exact[tuple("ABC")] == Fraction(1, 3)
    assert exact[tuple("BCA")] == Fraction(2, 3) * Fraction(1, 3)


@pytest.mark.fast
def test_sampled_sets_count_the_draws_and_the_completion():
    chances = {("A",): Fraction(1, 2), ("B",): Fraction(1, 4), ("C",): Fraction(1, 4)}
    sets = sampled_sets(chances, 2)
    a, b, c = chances
    only = {a: Fraction(1, 2) ** 20, b: Fraction(1, 4) ** 20, c: Fraction(1, 4) ** 20}  # all 20 draws the same
    # {B, C}: the first two distinct are B and C; else A is in it. Alone, B and C are completed by A, A by B.
    both = Fraction(1, 4) * Fraction(1, 4) * 2 * sum(Fraction(1, 4) ** i for i in range(19))
    assert sets[frozenset({b, c})] == both
    with_b = sum(
        Fraction(1, 2) ** (i + 1) * Fraction(1, 4) + Fraction(1, 4) ** (i + 1) * Fraction(1, 2) for i in range(19)
    )
    assert sets[frozenset({a, b})] == with_b + only[a] + only[b]
    assert sum(sets.values()) == 1


@pytest.mark.fast
def test_the_definition_says_where_it_has_no_tractable_form():
    rankings = tuple(tuple(range(20 * n, 20 * n + 10)) for n in range(2))
    with pytest.raises(MethodError, match=r"10 of 1024 lists.*samples=\"all\".*simulate"):
        Optimized().lists(rankings, 10)
    with pytest.raises(MethodError, match=r"4096 of more than 4096 lists"):
        ALL.lists(tuple(tuple(range(20 * n, 20 * n + 14)) for n in range(2)), 14)


@pytest.mark.fast
@pytest.mark.parametrize("credit", ["inverse", "linear"])
def test_credit_is_that_of_the_rank_and_absent_comes_after_the_last(credit):
    rankings = (tuple("ABC"), tuple("CA"), tuple("D"))
    method = Optimized("all", credit)
    impression = method.combine(rankings, 4, seed=3)
    assert (impression.ranks == ABSENT).any()
    for size in range(5):
        for clicks in itertools.combinations(range(4), size):
            values = infer(impression, positions=clicks).values
            assert values == pytest.approx(
                np.array(method.score(rankings, impression.shown, (), clicks, 4), dtype=float), abs=1e-15
            )
    ranks = {"A": (1, 2, 2), "B": (2, 3, 2), "C": (3, 1, 2), "D": (4, 3, 1)}
    place = impression.shown.index("B")
    expected = [Fraction(1, rank) if credit == "inverse" else -rank for rank in ranks["B"]]
    assert method.score(rankings, impression.shown, (), (place,), 4) == expected


@pytest.mark.fast
def test_an_impression_keeps_slack_and_number_of_lists():
    rankings = {"a": "ABC", "b": "BCA", "c": "CBA"}
    slack = ALL.exact_slack(tuple(map(tuple, rankings.values())), 3)
    impression = ALL.combine({name: list(r) for name, r in rankings.items()}, 3, seed=0)
    assert impression.stat == pytest.approx((float(slack), len(list(possible_lists(tuple(rankings.values()), 3)))))


@pytest.mark.fast
@pytest.mark.parametrize("samples", [0, -1, MOST_LISTS + 1, 2.5, True, "some", None])
def test_samples_that_make_no_sense_are_refused(samples):
    with pytest.raises(MethodError, match=r"om: samples is .*; expected an integer from 1 to 4096.*\"all\""):
        Optimized(samples=samples)


@pytest.mark.fast
def test_a_credit_that_is_unknown_is_refused_and_names_parse_back():
    with pytest.raises(MethodError, match=r"credit is 'linaer'.*'linear'"):
        Optimized(credit="linaer")
    assert get_method("om(samples='all')") == ALL
    assert str(Optimized(np.int64(5), "linear")) == "om(samples=5, credit='linear')"
