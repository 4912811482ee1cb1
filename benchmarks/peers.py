"""Single calls compared with mpkato's `interleaving`: by its stated figures, or measured if it is installed.

    python benchmarks/peers.py [--measure] [--rounds 7]

None of its code is here: run `pip install git+https://github.com/mpkato/interleaving`, or put a checkout on
PYTHONPATH.
"""

import argparse
import importlib.util
import random

import numpy as np

from measuring import Line, Section, Spread, markdown_table, number, tell
from single_calls import CLICKED, measure

SIZES = ((5, 100), (40, 100))
PEER = "mpkato's `interleaving`"
FORMS = {"combine_lists": "lists of strings", "combine_integers": "lists of integers", "combine_array": "an array"}
CLASSES = {"ppm": "PairwisePreference", "tdm": "TeamDraft", "pm": "Probabilistic"}
# Its pm adds up assignments that it draws at random, few or thousands: one page takes it 1 to 25 milliseconds, which
# varies from call to call. So its time is the mean over many pages.
PAGES = 64
# The peer's time for other numbers of clicks is reported too: it grows with them, pm's exponentially.
OTHERS = {"one": (1,), "two": (1, 4), "ten": range(10)}
OTHER_PAGES = 8
# Microseconds of combine + infer at 5 and 40 rankers of 100 documents, k=10, on two shared cores, as this project's
# requirements state them; there is none for pm.
FIGURES = {("ppm", 5): 250.0, ("ppm", 40): 1_878.0, ("tdm", 5): 224.0, ("tdm", 40): 303.0}
# How many times faster we must be, on lists of strings, lists of integers and integer arrays.
WANTED = {
    ("ppm", 5): (2.5, 4, 8), ("ppm", 40): (4, 5, 15), ("tdm", 5): (2.5, 5, 5), ("tdm", 40): (4, 5, 5),
    ("pm", 5): (20, 100, 100), ("pm", 40): (20, 100, 100),
}  # fmt: skip


def theirs(spec, strings, integers):
    """Return the peer's calls of a method, by name."""
    import interleaving

    if spec not in CLASSES:
        return {}
    cls = getattr(interleaving, CLASSES[spec])
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002, its own generator is this one

    def inferring(rankings, clicks, pages=PAGES):
        drawn = [cls(rankings, max_length=10).interleave() for _ in range(pages)]
        return lambda: [cls.evaluate(page, list(clicks)) for page in drawn]

    return {
        "peer_combine": lambda: cls(strings, max_length=10).interleave(),
        "peer_infer": inferring(strings, CLICKED),
        "peer_combine_integers": lambda: cls(integers, max_length=10).interleave(),
        "peer_infer_integers": inferring(integers, CLICKED),
        **{f"peer_infer_{name}": inferring(strings, clicks, OTHER_PAGES) for name, clicks in OTHERS.items()},
    }


def per_page(record):
    """Return a record with the time of inference per page."""
    pages = dict.fromkeys(("peer_infer", "peer_infer_integers"), PAGES)
    pages |= {f"peer_infer_{name}": OTHER_PAGES for name in OTHERS}
    return {key: [time / pages[key] for time in value] if key in pages else value for key, value in record.items()}


def section(rounds, *, measured):
    """Return the part of the report on single calls."""
    tell("single calls")
    if measured and importlib.util.find_spec("interleaving") is None:
        tell(f"{PEER} is not installed; using the figures in the requirements")
        measured = False
    found = list(map(per_page, measure(SIZES, rounds, theirs if measured else None)))
    rows, lines, compared = [], [], []
    for record in found:
        spec, rankers = record["method"], record["rankers"]
        figures = [Spread.of(record[key]) for key in (*FORMS, "infer")]
        floor = Spread.ratio(record["combine_lists"], record["dictionaries"])
        rows.append([spec, rankers, *map(str, figures), f"{floor}x"])
        if (spec, rankers) in WANTED:
            for key, wanted in zip(FORMS, WANTED[spec, rankers], strict=True):
                lines.append(against(record, key, wanted))
        if "peer_combine" in record:
            keys = ["peer_combine", "peer_infer_one", "peer_infer_two", "peer_infer", "peer_infer_ten"]
            compared.append([spec, rankers, *(str(Spread.of(record[key])) for key in keys)])
    text = (
        "Microseconds of CPU time, 100 documents per ranking, k=10, four clicks. "
        "The last column compares `combine` on lists of strings with the dictionaries "
        "`[dict(zip(r, range(len(r)))) for r in rankings]`, as Python would read them.\n\n"
    )
    head = ["method", "rankers", *(f"combine, {form}" for form in FORMS.values()), "infer", "against dictionaries"]
    text += markdown_table(head, rows)
    if compared:
        text += f"\n{PEER}, on lists of strings, in the same rounds; the targets are for four clicks:\n\n"
        head = ["method", "rankers", "combine", "infer, one click", "two", "four", "ten"]
        text += markdown_table(head, compared)
    return Section("Single calls", text, lines, found)


def against(record, combine, wanted):
    """Return the target for one method against the peer: measured, or else by its figures."""
    what = f"{record['method']}, combine + infer on {FORMS[combine]}, {record['rankers']} rankers, against {PEER}"
    ours = both(record[combine], record["infer"])
    if "peer_combine" in record:
        kind = "" if combine == "combine_lists" else "_integers"
        peers = both(record[f"peer_combine{kind}"], record[f"peer_infer{kind}"])
        return Line.at_least(what, Spread.ratio(peers, ours), wanted)
    figure = FIGURES.get((record["method"], record["rankers"]))
    if figure is None:
        return Line.unknown(what, "only with PEERS=1, if it is installed", f"at least {number(wanted)} x")
    return Line.at_least(f"{what} ({number(figure)} us)", Spread.highest([figure / time for time in ours]), wanted)


def both(one, other):
    """Return the sums of two figures, round by round."""
    return [a + b for a, b in zip(one, other, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="also measure the peer")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    found = section(given.rounds, measured=given.measure)
    print(found.text, *found.lines, sep="\n")


if __name__ == "__main__":
    main()
