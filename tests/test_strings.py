"""Strings are told apart as Python does, whatever they hold and however they are hashed."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import multileave as ml
from multileave import strings
from multileave.kernels import kernel

pytestmark = pytest.mark.fast

# Few letters, so that strings are equal, begin alike and end anywhere in eight bytes; two and four bytes long, too, and
# a half of a pair, which is no text.
letters = st.sampled_from(["a", "b", "\x01", "\x7f", "\x80", "é", "\U0001f600", "\ud800"])
texts = st.one_of(st.text(letters, max_size=4), st.text(st.sampled_from("ab"), min_size=6, max_size=26))
tables = st.lists(st.lists(texts, max_size=6), min_size=1, max_size=5)


def check_numbers(kernel_, rows, width):
    """Check that strings have one number where they are equal, all from 0 on, and stand where it is said."""
    lengths = np.array(list(map(len, rows)), dtype=np.int32)
    before, strings.number_texts = strings.number_texts, kernel_
    try:
        found = strings.number_strings([row[:width] for row in rows], lengths, width)
    finally:
        strings.number_texts = before
    if not all(row[:width] for row in rows):
        assert found is None
        return
    numbers, places = found
    cells = {r * width + x: string for r, row in enumerate(rows) for x, string in enumerate(row[:width])}
    assert len(places) == len(set(cells.values()))
    assert {cell: cells[places[numbers.flat[cell]]] for cell in cells} == cells
    assert {int(numbers.flat[cell]) for cell in cells} == set(range(len(places)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(tables, st.integers(0, 6))
@example([[""], ["", "a"]], 2)
@example([[""], [], ["", "a"]], 2)
@example([["a"], []], 1)
@example([["é", "a"], ["a"], ["é", "b", "a"]], 3)
@example([["abcdefgh", "abcdefg", "abcdefghi"], ["abcdefgh\x80", "abcdefg\x80", "abcdefgh"]], 3)
def test_equal_strings_have_one_number(rows, width):
    check_numbers(strings.number_texts, rows, width)


@kernel
def hash_nothing(mixed, word):
    return np.uint64(7)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(tables, st.integers(0, 6))
@example([["abcdefgh" + "1" * 8 + "x"], ["abcdefgh" + "2" * 8 + "x"]], 1)
@example([["abcdefgh" * 2 + "x", "abcdefghx"], ["abcdefghx", "abcdefgh" * 3 + "x"]], 2)
@example([["abcdefgh", "abcdefg", "abcdefghi"], ["abcdefgh\x80", "abcdefg\x80", "abcdefgh"]], 3)
def test_nothing_rests_on_the_hash(rows, width):
    collided = strings.number_texts.bind(find_equal=strings.find_equal.bind(mix=hash_nothing))
    check_numbers(collided, rows, width)


@pytest.mark.parametrize("other", ["a\0b", "\0", 1, None, b"a", ("a",)])
def test_what_cannot_be_joined_is_left_to_others(other):
    rows = [["a", other, "b"], ["b", "a", "c"]]
    for given_rows in (rows, rows[::-1], [rows[1], rows[1], rows[0]]):
        assert strings.number_strings(given_rows, np.full(len(given_rows), 3, dtype=np.int32), 3) is None
    named = {"x": rows[0], "y": ["b", other, "a"]}
    assert set(ml.PairwisePreference().combine(named, 3, seed=1).drawn) == {"a", other, "b"}


def test_more_than_the_kernel_can_count_is_left_to_others(monkeypatch):
    monkeypatch.setattr(strings, "LONGEST", 10)
    assert strings.number_strings([["a"], ["b"]], np.array([1, 1], dtype=np.int32), 1) is None
    assert ml.TeamDraft().combine([["a"], ["b"]], 1, seed=1).shown in {("a",), ("b",)}


def test_a_string_of_another_class_is_shown_as_it_was_given():
    class Key(str):
        pass

    key = Key("b")
    rankings = {"x": ["a", key, "c"], "y": ["c", "b", "a"]}
    shown = ml.TeamDraft().combine(rankings, 3, seed=2).shown
    assert sorted(shown) == ["a", "b", "c"]
    assert next(d for d in shown if d == "b") is key
