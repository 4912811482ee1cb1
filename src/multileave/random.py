"""The random number generator: xoshiro256++ as four words, the same on every machine and in every version.

A list shown to a user must be reproducible years later, so the generator is our own and pinned by published test
vectors [blackman2021]. NumPy's may change between versions, and costs 16 microseconds per call from compiled code.

* An integer seed fills the state with four outputs of SplitMix64,
* a string seed with the SHA-256 of its UTF-8 bytes, read as four little-endian words,
* a `numpy.random.Generator` with four of its 64-bit integers,
* None with fresh entropy from the operating system.
"""

import hashlib
import operator
import os
from typing import TypeAlias

import numpy as np

from multileave.errors import SeedError
from multileave.kernels import kernel

Seed: TypeAlias = "int | str | np.random.Generator | None"
State: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"

_MASK = (1 << 64) - 1


def seed_state(seed: Seed) -> State:
    """Return the generator's four words for a seed.

    >>> seed_state(1234567)[:2]
    array([6457827717110365317, 3203168211198807973], dtype=uint64)
    """
    if isinstance(seed, str):
        digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
        return np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    if isinstance(seed, np.random.Generator):
        return seed.integers(0, _MASK, size=4, dtype=np.uint64, endpoint=True)
    if seed is None:
        return np.frombuffer(os.urandom(32), dtype=np.uint64).copy()
    try:
        number = operator.index(seed)
    except TypeError:
        raise SeedError(
            f"The seed is a {type(seed).__name__}; expected an integer, a string or a numpy.random.Generator. "
            "Pass one of these, or str(seed)."
        ) from None
    if not 0 <= number <= _MASK:
        raise SeedError(
            f"The seed is {number}; expected an integer from 0 to 2**64 - 1. Pass str(seed) to use any number."
        )
    state = np.empty(4, dtype=np.uint64)
    state[0] = number
    _splitmix(state)
    return state


@kernel
def _splitmix(state):  # type: ignore[no-untyped-def]
    """Fill the state with the first outputs of SplitMix64 [steele2014], whose seed is its first word."""
    seed = state[0]
    for i in range(len(state)):
        seed = seed + np.uint64(0x9E3779B97F4A7C15)
        mixed = (seed ^ (seed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state[i] = mixed ^ (mixed >> np.uint64(31))


@kernel
def next_word(rng):  # type: ignore[no-untyped-def]
    """Return the next 64 bits of xoshiro256++ and advance the state."""
    s0, s1, s2, s3 = rng[0], rng[1], rng[2], rng[3]
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    rng[1] = s1 ^ s2
    rng[0] = s0 ^ s3
    rng[2] = s2 ^ t
    rng[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return word


@kernel
def below(rng, n):  # type: ignore[no-untyped-def]
    """Return an integer from 0 to n - 1, each exactly equally likely (n < 2**31) [lemire2019]."""
    bound = np.uint64(n)
    product = (next_word(rng) >> np.uint64(32)) * bound
    low = product & np.uint64(0xFFFFFFFF)
    if low < bound:
        threshold = (np.uint64(0x100000000) - bound) % bound
        while low < threshold:
            product = (next_word(rng) >> np.uint64(32)) * bound
            low = product & np.uint64(0xFFFFFFFF)
    return np.int64(product >> np.uint64(32))


@kernel
def uniform(rng):  # type: ignore[no-untyped-def]
    """Return a float in [0, 1) from the upper 53 bits of the next word."""
    return np.float64(next_word(rng) >> np.uint64(11)) * 1.1102230246251565e-16
