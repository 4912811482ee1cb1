"""Single calls against those of mpkato's `interleaving`: by its figures, or measured where it is installed.

    python benchmarks/peers.py [--measure] [--rounds 7]

None of its code is here: `pip install git+https://github.com/mpkato/interleaving` it, or put a checkout on
PYTHONPATH.
"""

import argparse
import importlib.util

from measuring import Line, Section, Spread, markdown_table, microseconds_in_turn, number, tell
from single_calls import measure, rankings_of

SIZES = ((5, 100), (40, 100))
PEER = "mpkato's `interleaving`"
CLASSES = {"ppm": "PairwisePreference", "tdm": "TeamDraft", "pm": "Probabilistic"}
# Microseconds of combine + infer at 5 and 40 rankers of 100 documents, k=10, on two shared cores, as this project's
# requirements state them; there is none for pm.
FIGURES = {("ppm", 5): 250.0, ("ppm", 40): 1_878.0, ("tdm", 5): 224.0, ("tdm", 40): 303.0}
# How many times faster we must be, on lists and on integer arrays.
WANTED = {
    ("ppm", 5): (4, 8), ("ppm", 40): (5, 15), ("tdm", 5): (5, None), ("tdm", 40): (5, None),
    ("pm", 5): (100, None), ("pm", 40): (100, None),
}  # fmt: skip


def theirs(rounds):
    """Return the rounds of the peer's combine + infer, by method and rankers; nothing where it is absent."""
    if importlib.util.find_spec("interleaving") is None:
        tell(f"{PEER} is not installed; its figures are those of the requirements")
        return {}
    import interleaving

    found = {}
    for rankers, documents in SIZES:
        rankings = list(rankings_of(rankers, documents)[0].values())
        for spec, name in CLASSES.items():
            tell(f"peers: {spec}, {rankers} rankers")
            cls = getattr(interleaving, name)

            def combine(cls=cls, rankings=rankings):
                return cls(rankings, max_length=10).interleave()

            page = combine()
            combined, inferred = microseconds_in_turn(
                [combine, lambda cls=cls, page=page: cls.evaluate(page, [1, 4])], rounds
            )
            found[spec, rankers] = [a + b for a, b in zip(combined, inferred, strict=True)]
    return found


def section(rounds, *, measured):
    """Return the part of the report on single calls."""
    tell("single calls")
    ours = list(measure(SIZES, rounds=rounds))
    peer = theirs(rounds) if measured else {}
    rows, lines = [], []
    for record in ours:
        spec, rankers = record["method"], record["rankers"]
        whole = {
            form: [a + b for a, b in zip(record[key], record["infer"], strict=True)]
            for form, key in (("lists", "combine_lists"), ("an integer array", "combine_array"))
        }
        figures = [Spread.of(record[key]) for key in ("combine_lists", "combine_array", "infer")]
        floor = Spread.ratio(record["combine_lists"], record["dictionaries"])
        rows.append([spec, rankers, *map(str, figures), f"{floor}x"])
        for (form, times), wanted in zip(whole.items(), WANTED.get((spec, rankers), ()), strict=False):
            if wanted is not None:
                lines.append(against(spec, rankers, form, times, wanted, peer))
    text = (
        "Microseconds of processor time, 100 documents per ranking, k=10. The last column has `combine` on lists "
        "against the dictionaries `[dict(zip(r, range(len(r)))) for r in rankings]`, without which they cannot be read.\n\n"
    )
    head = ["method", "rankers", "combine, lists", "combine, integer array", "infer", "against dictionaries"]
    text += markdown_table(head, rows)
    if peer:
        rows = [[spec, rankers, str(Spread.of(times))] for (spec, rankers), times in peer.items()]
        text += f"\n{PEER}, combine + infer, measured in the same run:\n\n"
        text += markdown_table(["method", "rankers", "us"], rows)
    return Section("Single calls", text, lines, {"ours": ours, "peer": [[*key, times] for key, times in peer.items()]})


def against(spec, rankers, form, ours, wanted, peer):
    """Return the line on one method against the peer: measured, or else by its figures."""
    what = f"{spec}, combine + infer on {form}, {rankers} rankers, against {PEER}"
    if (spec, rankers) in peer:
        return Line.at_least(f"{what}, measured", Spread.ratio(peer[spec, rankers], ours), wanted)
    figure = FIGURES.get((spec, rankers))
    if figure is None:
        return Line.unknown(what, "only with PEERS=1, where it is installed", f"at least {number(wanted)} x")
    return Line.at_least(f"{what} ({number(figure)} us)", Spread.of([figure / time for time in ours]), wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure the peer, too")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found = section(given.rounds, measured=given.measure)
    print(found.text, *found.lines, sep="\n")


if __name__ == "__main__":
    main()
