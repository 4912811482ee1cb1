"""Kernels of methods that do not state what they expect, or how likely their lists are."""

from multileave.kernels import kernel

OTHER_RATES = (
    "To estimate what each ranker would earn alone, use dpm, or rpm(lead=2) with at most six rankers. To measure it, "
    "run an A/B test."
)


@kernel
def expect_nothing(ranks, lengths, note, visible, every, params, observed, expected, work_f):  # type: ignore[no-untyped-def]
    """Expect nothing: the balance of a method that does not say what is expected."""
    return 0


@kernel
def unknown_propensities(ranks, lengths, note, stat, visible, params, out, work_f):  # type: ignore[no-untyped-def]
    """Return 0: the method has no closed form for them."""
    return 0


@kernel
def weigh_nothing(top, entering, k, params, shown, visible, out, work_i, work_f):  # type: ignore[no-untyped-def]
    """Store no propensities: the weigh kernel of a method that does not need to."""
    return 0
