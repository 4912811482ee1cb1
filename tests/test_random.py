"""The generator is xoshiro256++, seeded as documented, on every machine."""

import hashlib

import numpy as np
import pytest

from multileave.errors import SeedError
from multileave.random import below, next_word, seed_state, uniform

pytestmark = pytest.mark.fast

# Published with the generators: xoshiro256++ from the state 1, 2, 3, 4; SplitMix64 from the seed 1234567.
XOSHIRO = [
    41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205,
    9973669472204895162, 14011001112246962877, 12406186145184390807, 15849039046786891736, 10450023813501588000,
]  # fmt: skip
SPLITMIX = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]


def test_words_equal_the_published_vector():
    state = np.array([1, 2, 3, 4], dtype=np.uint64)
    assert [int(next_word(state)) for _ in XOSHIRO] == XOSHIRO


def test_an_integer_seed_is_expanded_by_splitmix64():
    assert seed_state(1234567).tolist() == SPLITMIX


def test_a_string_seed_is_its_sha256_in_little_endian_words():
    digest = hashlib.sha256(b"user-17/schuhe rot").digest()
    words = [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8)]
    assert seed_state("user-17/schuhe rot").tolist() == words


def test_lone_surrogates_are_a_seed_too():
    assert seed_state("\ud800").tolist() != seed_state("").tolist()


def test_a_generator_is_a_source_of_seeds_and_advances():
    rng = np.random.default_rng(5)
    first, second = seed_state(rng), seed_state(rng)
    assert first.tolist() != second.tolist()
    assert seed_state(np.random.default_rng(5)).tolist() == first.tolist()


def test_no_seed_is_a_new_one_each_time():
    assert seed_state(None).tolist() != seed_state(None).tolist()


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, [1], b"x"])
def test_what_is_not_a_seed_is_refused(seed):
    with pytest.raises(SeedError, match="seed is"):
        seed_state(seed)


def test_numbers_below_n_are_uniform_and_in_range():
    state = seed_state(3)
    counts = np.bincount([below(state, 6) for _ in range(6000)], minlength=6)
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5  # chi-square, 5 degrees of freedom, p = .001


def test_rejection_in_below_follows_lemire():
    """With n = 3 * 2**30 every fourth word falls into the rejected quarter, on average."""
    n = 3 * 2**29 + 1

    def slow(words):
        threshold = (2**32 - n) % n
        while True:
            product = (next(words) >> 32) * n
            if product % 2**32 >= threshold:
                return product >> 32

    state, twin = seed_state(8), seed_state(8)
    words = iter(lambda: int(next_word(twin)), None)
    assert [int(below(state, n)) for _ in range(200)] == [slow(words) for _ in range(200)]
    assert state.tolist() == twin.tolist()


def test_uniform_is_the_upper_53_bits():
    state, twin = seed_state(9), seed_state(9)
    assert [float(uniform(state)) for _ in range(50)] == [(int(next_word(twin)) >> 11) / 2**53 for _ in range(50)]
