"""Writes the pinned database. Run once for a new version of the tables, never for an old one."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings

HERE = Path(__file__).parent / "pinned"
SECRET = "pinned-pinned-pinned"
RANKERS = ("bm25", "dense", "ltr")
DOCUMENTS = [f"d{x}" for x in range(12)]


def requests():
    """Rankings of 90 searches by 25 users; the third ranker fails now and then."""
    generator = np.random.default_rng(20)
    for number in range(90):
        rankings = {
            name: [DOCUMENTS[d] for d in np.argsort(np.arange(12) + generator.normal(0.0, 1.0 + 3.0 * n, 12))]
            for n, name in enumerate(RANKERS)
        }
        if number % 11 == 0:
            rankings["ltr"] = None
        yield {"rankings": rankings, "unit": f"user-{number % 25}", "query": f"query {number % 7}"}


DEFINITIONS = (
    {"name": "first", "rankers": RANKERS, "control": "bm25", "actions": ("click", "purchase", "satisfied")}
    | {"dwell": 12.5, "k": 5, "window": 366 * 86_400.0, "method": "recommended"},
    {"name": "second", "rankers": RANKERS, "control": "dense", "method": "tdm", "k": 3, "pages": 2}
    | {"hash_units": False, "keep_queries": True, "group": "shop", "share": 0.75, "confidence": 0.9},
)


def what_is_read(service, folder):
    """All that the service says about each experiment, as values that JSON can hold."""
    import pyarrow.parquet as pq

    found = []
    for experiment in reversed(service.experiments()):
        number = experiment.number
        target = folder / f"{number}.parquet"
        service.export(number, target)
        rows = sorted(pq.read_table(target).to_pylist(), key=lambda row: row["impression_id"])
        recent = service.recent(number, 500)
        found.append(
            {
                "definition": experiment.definition.to_dict(),
                "status": experiment.status,
                "verdicts": {
                    a: figures(service.report(number, a).verdict.to_dict()) for a in experiment.definition.actions
                },
                "history": [_look(look) for look in service.history(number).looks],
                "traffic": asdict(service.report(number).traffic),
                "recent": sorted((asdict(one) for one in recent), key=lambda one: one["key"]),
                "impressions": {one.key: asdict(service.impression(number, one.key)) for one in recent[:5]},
                "export": rows,
            }
        )
    return json.loads(json.dumps(found, default=str))


def _look(look):
    """A look with its pairs as lists."""
    pairs = [[*pair.rankers, pair.preference, pair.low, pair.high] for pair in look.pairs]
    return {**asdict(look), "pairs": pairs}


def figures(verdict):
    """A verdict without its sentences, which may be worded anew, and without what depends on its tests."""
    for name in ("sentence", "warnings"):
        verdict.pop(name, None)
    verdict["health"].pop("warnings", None)
    derived = ("low", "high", "p", "p_corrected", "significant", "more_units", "share_low", "share_high")
    verdict["pairs"] = [{name: pair[name] for name in pair if name not in derived} for pair in verdict["pairs"]]
    return {name: verdict[name] for name in verdict if name not in ("winner", "leaders", "circles")}


def shown(service):
    """The lists that are drawn for the same searches, whenever they are asked for."""
    return [
        asyncio.run(service.show(e.number, ShowRequest(**request))).shown
        for e in reversed(service.experiments())
        for request in requests()
    ]


def main():
    HERE.mkdir(exist_ok=True)
    path = HERE / "v1.sqlite"
    path.unlink(missing_ok=True)
    service = Service(Settings(database=f"sqlite:///{path}", secret=SECRET))
    numbers = [service.create(Definition.from_dict(given)).number for given in DEFINITIONS]
    for number in numbers:
        service.start(number)
    generator = np.random.default_rng(21)
    for number in numbers:
        actions = ("click", "purchase") if number == numbers[0] else ("click",)
        for place, request in enumerate(requests()):
            answer = asyncio.run(service.show(number, ShowRequest(**request)))
            if answer.impression is None:
                continue
            clicked = np.flatnonzero(generator.random(len(answer.shown)) < 0.3)
            events = [
                Event(f"e{place}-{x}", answer.impression, position=int(x), action=actions[x % len(actions)])
                if x % 3
                else Event(f"e{place}-{x}", answer.impression, position=int(x), dwell=float(generator.integers(30)))
                for x in clicked
            ]
            asyncio.run(service.record(events))
            if place % 20 == 0:
                service.fold()
    service.fold()
    lists = shown(service)
    service.fold()
    service.stop(numbers[1])
    (HERE / "v1.expected.json").write_text(
        json.dumps({"read": what_is_read(service, Path(sys.argv[1])), "shown": lists}) + "\n"
    )
    service.close()


if __name__ == "__main__":
    main()
