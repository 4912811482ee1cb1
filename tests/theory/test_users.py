"""Exact users: laws sum to one and are what the paper says."""

from fractions import Fraction as F
from itertools import product

import pytest

import multileave as ml
from multileave.clicks import user as simulated_user
from multileave.theory.users import PRESETS, Cascade, Independent, as_user, grades_of, user_from_dict

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("user", [*PRESETS.values(), Cascade((F(1, 3), F(1)), (F(1, 2), F(1)), anywhere=True)])
def test_a_law_sums_to_one(user):
    for grades in product((0, 1), repeat=3):
        assert sum(chance for _, chance in user.law(grades)) == 1


def test_a_cascade_stops_only_after_a_click():
    user = Cascade(click=(F(1, 4), F(1, 2)), stop=(F(0), F(1)))
    law = {}
    for clicks, chance in user.law([1, 0]):
        law[clicks] = law.get(clicks, 0) + chance
    assert law == {(0,): F(1, 2), (1,): F(1, 2) * F(1, 4), (): F(1, 2) * F(3, 4)}


def test_a_cascade_may_stop_anywhere_if_told():
    user = Cascade(click=(F(0), F(1)), stop=(F(1, 3), F(0)), anywhere=True)
    law = {}
    for clicks, chance in user.law([0, 1]):
        law[clicks] = law.get(clicks, 0) + chance
    assert law == {(): F(1, 3), (1,): F(2, 3)}


def test_independent_clicks_multiply():
    user = Independent(relevant=(F(1, 2), F(1, 3)), other=(F(1, 5), F(0)))
    law = dict(user.law([0, 1, 1]))
    assert law[0, 1] == F(1, 5) * F(1, 3)
    assert law[()] == F(4, 5) * F(2, 3)
    assert all(2 not in clicks for clicks in law)


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational"])
def test_the_presets_are_those_of_the_simulation(name):
    exact, simulated = PRESETS[name], simulated_user(name, 2)
    assert tuple(map(float, exact.click)) == tuple(simulated.click)
    assert tuple(map(float, exact.stop)) == tuple(simulated.stop)


def test_users_come_back_from_plain_values():
    for user in (*PRESETS.values(), Independent((F(1), F(1, 3)), (F(0), F(1, 7)))):
        assert user_from_dict(user.to_dict()) == user


def test_floats_are_read_as_they_are_written():
    assert Cascade(click=(0.05, 0.95), stop=(0.2, 0.9)) == PRESETS["navigational"]


def test_grades():
    assert grades_of("abc", {"a", "c"}) == [1, 0, 1]
    assert grades_of("abc", {"a": 2, "c": 1}) == [2, 0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cascade(click=(2, 0), stop=(0, 0)), "click holds 2; expected probabilities"),
        (lambda: Cascade(click=("x",), stop=(0,)), "click holds 'x'"),
        (lambda: Cascade(click=(0, 1), stop=(0,)), "2 probabilities in click and 1 probabilities in stop"),
        (lambda: Independent(relevant=(1,), other=()), "1 probabilities in relevant and 0 probabilities in other"),
        (lambda: list(PRESETS["perfect"].law([2])), "grade 2, and this user knows grades 0 to 1"),
        (lambda: as_user("navigation"), "no user 'navigation'.*Did you mean 'navigational'"),
        (lambda: as_user(3), "user is a int"),
        (lambda: user_from_dict({"kind": "other"}), "not a user"),
    ],
)
def test_users_that_make_no_sense_are_refused(make, message):
    with pytest.raises(ml.DataError, match=message):
        make()
