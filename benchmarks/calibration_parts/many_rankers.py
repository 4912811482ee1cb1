"""Family-wise errors with many rankers."""

from calibration_parts.table import report, share
from calibration_parts.world import People, World, experiments, moments_of
from multileave.methods.base import get_method
from multileave.stats.intervals.clustered import clustered
from multileave.stats.intervals.confidence_sequence import anytime
from multileave.stats.intervals.corrections import holm


def many_rankers(repetitions: int) -> None:
    """Fifteen equal rankers, 105 pairs."""
    for spec in ("ppm", "tdm"):
        world = World(get_method(spec), 15)
        wrong = dict.fromkeys(("holm", "anytime", "none"), 0)
        for counts, sums, squares, *_ in experiments(
            world, People(1000, taste=(2.0,) * 15), repetitions, f"many/{spec}"
        ):
            moments = moments_of(counts, sums, squares.sum(axis=0))
            p = clustered(moments, 0.95).p
            wrong["holm"] += bool((holm(p) <= 0.05).any())
            wrong["none"] += bool((p <= 0.05).any())
            wrong["anytime"] += bool((holm(anytime(moments, 0.95).p) <= 0.05).any())
        where = f"{spec}, 15 equal rankers, 105 pairs, 1,000 users"
        report(
            "many rankers", f"{where}: Holm, any false alarm", share(wrong["holm"], repetitions), "<= 5.5 %",
            wrong["holm"] <= 0.055 * repetitions,
        )  # fmt: skip
        report("many rankers", f"{where}: Holm on anytime", share(wrong["anytime"], repetitions), "", None)
        report("many rankers", f"{where}: no correction", share(wrong["none"], repetitions), "", None)


PARTS = {"many-rankers": many_rankers}
