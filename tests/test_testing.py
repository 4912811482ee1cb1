"""The published contract passes for every method of ours and finds methods that break it."""

from dataclasses import dataclass

import numpy as np
import pytest

import multileave as ml
from multileave.kernels import kernel
from multileave.methods.base import methods
from multileave.methods.pairwise_preference import credit_pairs, draw_choices
from multileave.methods.probabilistic import draw_ranker_and_document
from multileave.methods.team_draft import credit_teams, draw_teams
from multileave.testing import check_method

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", methods())
def test_every_method_keeps_the_contract(name):
    assert "serialisable" in check_method(name, cases=30)


@kernel
def draw_last_first(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
    documents = entering[len(entering) - 1]
    m = min(k, documents)
    for x in range(m):
        shown[x] = documents - 1 - x
    return m


@kernel
def draw_repeats(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
    for x in range(k):
        shown[x] = 0
    return k


@kernel
def draw_one(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
    shown[0] = 0
    return 1


@kernel
def credit_always(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
    out[0] += 1.0


@kernel
def credit_lopsided(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
    out[0, 1] += 1.0


@kernel
def credit_wrong_weight(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
    credit_pairs(ranks, lengths, note, clicks, k, params, out, work_i, work_f)
    for n in range(len(out)):
        out[n] *= 1.01


def broken(**attributes):
    """Return a method that is ppm but for some attributes, without registering it for good."""
    from multileave.methods import base

    namespace = {"name": "broken", **attributes, "__module__": __name__, "__qualname__": "Broken"}
    parent = attributes.pop("parent", ml.Method)
    namespace.pop("parent", None)
    cls = dataclass(frozen=True)(type("Broken", (parent,), namespace))
    base._registry.pop("broken", None)
    return ml.register(cls)()


@pytest.fixture(autouse=True)
def forget_broken():
    from multileave.methods import base

    yield
    base._registry.pop("broken", None)
    base._from_string.cache_clear()


@pytest.mark.parametrize(
    ("check", "attributes"),
    [
        ("considerate", {"draw_kernel": draw_last_first, "credit_kernel": credit_teams, "considerate": True}),
        ("considerate", {"draw_kernel": draw_ranker_and_document, "credit_kernel": credit_teams, "considerate": True,
                         "read_depth": lambda self, k, longest: longest, "params": ml.Probabilistic().params}),
        ("list", {"draw_kernel": draw_repeats, "credit_kernel": credit_teams}),
        ("list", {"draw_kernel": draw_one, "credit_kernel": credit_teams}),
        ("antisymmetric", {"draw_kernel": draw_choices, "credit_kernel": credit_lopsided, "outcome": "matrix"}),
        ("reads below", {"parent": ml.PairwisePreference, "reads_below": 0}),
        ("definition", {"parent": ml.PairwisePreference, "credit_kernel": credit_wrong_weight}),
        ("definition", {"parent": ml.TeamDraft, "draw_kernel": draw_teams, "params": lambda self: (0.0,)}),
    ],
)  # fmt: skip
def test_a_method_that_breaks_the_contract_is_told_so(check, attributes):
    with pytest.raises(ml.ContractError, match=rf"breaks the contract \({check}\)"):
        check_method(broken(**attributes))


@pytest.mark.parametrize(("spec", "checked"), [("ppm", True), ("ppm(pairs='all')", False), ("tdm", False)])
def test_what_is_read_below_the_last_click_is_checked_where_it_is_stated(spec, checked):
    assert ("reads below" in check_method(spec, cases=5)) == checked


def test_no_clicks_never_reach_a_kernel():
    """The library answers for impressions without clicks, so no method can get that wrong."""
    method = broken(draw_kernel=draw_choices, credit_kernel=credit_always)
    assert not ml.infer(method.combine(["ab", "ba"], 2, seed=1)).preferences.any()


def test_plain_functions_will_do_as_kernels():
    def draw(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f):
        return draw_choices(top, entering, ranks, lengths, k, params, rng, shown, note, stat, work_i, work_f)

    def credit(ranks, lengths, note, clicks, k, params, out, work_i, work_f):
        for x in range(len(clicks)):
            if clicks[x]:
                for n in range(len(out)):
                    out[n] -= ranks[x, n]

    method = broken(draw_kernel=draw, credit_kernel=staticmethod(credit))
    outcome = ml.infer(method.combine([[1, 2], [2, 1]], 2, seed=1), clicks=[1])
    assert np.array_equal(outcome.preferences, [[0, 1], [-1, 0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ml.register(int), "not a subclass of Method"),
        (lambda: broken(name="no name"), "expected an identifier"),
        (lambda: broken(draw_kernel=draw_choices), "has no credit_kernel"),
        (lambda: broken(name="ppm", draw_kernel=draw_choices, credit_kernel=credit_pairs), "already is a method 'ppm'"),
    ],
)
def test_registering_nonsense_is_refused(make, message):
    with pytest.raises(ml.MethodError, match=message):
        make()
