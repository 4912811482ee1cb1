"""The exchange condition, which decides for whom opm and rpm are proved to prefer a better ranker."""

from fractions import Fraction as F

import pytest

import multileave as ml
from multileave import theory
from multileave.theory.exchange import exchange_breaks
from multileave.theory.proofs import proved
from multileave.theory.users import PRESETS

pytestmark = pytest.mark.fast

FORGIVING = theory.Cascade(click=(F(49, 100), F(1, 2)), stop=(F(99, 100), 0))
BACK = theory.Returning((F(1, 10), F(1, 2)), (0, 0), False, (F(3, 5),), (F(9, 10),), back=(F(1, 4),))


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational"])
def test_the_papers_users_meet_it(name):
    assert exchange_breaks(PRESETS[name], 4) is None
    assert exchange_breaks(PRESETS[name], 4, below=True) is None


def test_users_who_leave_after_what_is_not_relevant_break_it():
    assert exchange_breaks(FORGIVING, 2) == ((1, 0), 1, 2)
    assert exchange_breaks(FORGIVING, 2, below=True) is None
    assert exchange_breaks(PRESETS["random"], 1) == ((1,), 1, 2)


@pytest.mark.parametrize("after_click", [F(1, 10), F(1)])
@pytest.mark.parametrize("after_skip", [F(1, 10), F(1)])
def test_users_whose_path_depends_on_clicks_alone_meet_it(after_click, after_skip):
    rows = ((1,), (F(1, 9), 1), (F(1, 9), F(1, 2), 1))
    assert exchange_breaks(theory.Browsing((F(2, 5), F(1, 2)), rows), 3) is None
    dependent = theory.Cascade((F(2, 5), F(1, 2)), (0, 0), False, (after_click,), (after_skip,))
    assert exchange_breaks(dependent, 4) is None
    assert exchange_breaks(theory.Returning(**{**vars(dependent), "back": (F(1, 2),)}), 4) is None


def test_it_decides_what_is_proved():
    for method in ("opm", "rpm"):
        assert "pareto" in proved(ml.get_method(method), BACK, k=3)
        assert "pareto" not in proved(ml.get_method(method), theory.Returning(**vars(FORGIVING)), k=3)
        assert "pareto" not in proved(ml.get_method(method), BACK, k=9)  # too long to decide
    assert "pareto" in proved(ml.get_method("opm(pairs='below')"), theory.Returning(**vars(FORGIVING)), k=3)
    assert "pareto" not in proved(ml.get_method("dpm"), BACK, k=3)


def test_position_based_users_are_covered_by_every_proof_but_must_see_the_page():
    looks = theory.PositionBased((F(1, 10), F(1, 2)), (1, F(1, 2), F(1, 4)))
    by_rank = theory.Independent((F(1, 2), F(1, 4)), (F(1, 10), F(1, 20)))
    for method in ("dpm", "ppm(pairs='all')", "opm", "rpm"):
        assert "pareto" in proved(ml.get_method(method), looks, k=3)
        assert "pareto" not in proved(ml.get_method(method), looks, k=4)
        assert "pareto" in proved(ml.get_method(method), by_rank, k=2)
        assert "pareto" not in proved(ml.get_method(method), by_rank, k=3)
    assert "pareto" not in proved(ml.get_method("tdm"), looks, k=3)
