"""Write core.json; see README.md before running it."""

import json
from pathlib import Path

import numpy as np

import multileave as ml
from multileave.random import below, next_word, seed_state, uniform

RANKINGS = {
    "equal": {"bm25": list("abcdefgh"), "dense": list("cfbgahde"), "ltr": list("habdcgfe")},
    "unequal": {"bm25": ["d1", "d2", "d3", "d4", "d5"], "dense": ["d9", "d2"], "ltr": ["d4", "d7", "d1"]},
    "numbers": {"0": [3, 1, 4, 15, 9, 2, 6], "1": [2, 7, 1, 8, 28, 3, 4]},
}
SPECS = [
    "tdm", "tdm(prefix='drafted')", "om", "om(samples='all', credit='linear')", "pm", "pm(credit='sign')", "sosm",
    "rpm", "rpm(group=2, lead=2)", "opm", "opm(pairs='below')",
    "dpm", "dpm(depth='linear')", "ppm", "ppm(pairs='local')", "ppm(pairs='all', hidden=False)", "bi", "pbi",
]  # fmt: skip


def generator():
    for seed in (0, 1, 42, 2**64 - 1, "", "user-17", "Straße 北京"):
        state = seed_state(seed)
        record = {"seed": seed, "state": [str(word) for word in state]}
        record["words"] = [str(next_word(state)) for _ in range(4)]
        record["below_10"] = [int(below(state, 10)) for _ in range(8)]
        record["uniform"] = [float(uniform(state)) for _ in range(4)]
        yield record


def cases():
    for spec in SPECS:
        method = ml.get_method(spec)
        for name, rankings in RANKINGS.items():
            rankings = dict(list(rankings.items())[: method.most_rankers])
            for seed, k, pinned in ((1, 5, {}), ("user-17/shoes", 3, {}), (2, 4, {1: "ad"})):
                impression = method.combine(rankings, k, seed=seed, pinned=pinned)
                for clicks in ([0], [0, 2], [len(impression.shown) - 1]):
                    preferences = ml.infer(impression, positions=clicks).preferences
                    yield {
                        "method": spec, "rankings": rankings, "k": k, "seed": seed,
                        "pinned": [[position, document] for position, document in pinned.items()],
                        "impression": impression.to_dict(), "clicks": clicks, "preferences": preferences.tolist(),
                        "from": name,
                    }  # fmt: skip


def main():
    path = Path(__file__).with_name("core.json")
    lines = {"generator": list(generator()), "cases": list(cases())}
    body = ",\n".join(
        f'"{key}": [\n' + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "\n]"
        for key, records in lines.items()
    )
    path.write_text("{\n" + body + "\n}\n", encoding="utf-8")
    print(f"wrote {path.name}: {', '.join(f'{len(records)} {key}' for key, records in lines.items())}")


if __name__ == "__main__":
    np.seterr(all="raise", over="ignore")
    main()
