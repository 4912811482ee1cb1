"""Write the runs and qrels of this folder: three systems of known quality on synthetic topics.

    python examples/runs/make_runs.py [FOLDER]

bm25 returns 30 documents a topic, dense 20 and ltr 30; ltr is the best and bm25 the worst. The qrels
judge what some system ranks in its first 10, so most documents below are unjudged, as in real collections.
"""

import sys
from pathlib import Path

from multileave.data import synthetic

SYSTEMS = {"bm25": (0.44, 30), "dense": (0.47, 20), "ltr": (0.50, 30)}  # quality, documents per topic
POOL = 10


def main(folder: Path) -> None:
    """Write bm25.run, dense.run, ltr.run and topics.qrels."""
    qualities = [quality for quality, _ in SYSTEMS.values()]
    data = synthetic(queries=40, documents=60, rankers=qualities, grades=4, seed="runs")
    runs: dict[str, list[str]] = {system: [] for system in SYSTEMS}
    qrels = []
    for q in range(len(data)):
        labels, rankings = data.query(q)
        topic = 401 + q
        judged = set()
        for (system, (_, depth)), ranking in zip(SYSTEMS.items(), rankings.tolist(), strict=True):
            for rank, document in enumerate(ranking[:depth], 1):
                runs[system].append(f"{topic} Q0 {topic}-{document:02d} {rank} {1 / rank:.4f} {system}\n")
            judged.update(ranking[:POOL])
        qrels += [f"{topic} 0 {topic}-{document:02d} {labels[document]}\n" for document in sorted(judged)]
    folder.mkdir(parents=True, exist_ok=True)
    for system, lines in runs.items():
        (folder / f"{system}.run").write_text("".join(lines), encoding="utf-8")
    (folder / "topics.qrels").write_text("".join(qrels), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
