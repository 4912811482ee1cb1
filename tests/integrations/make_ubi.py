"""Writes the pinned UBI logs. Run once; what stands there must be read for ever."""

import json
from pathlib import Path

import numpy as np

import multileave as ml
from multileave.integrations.ubi import query_attributes

HERE = Path(__file__).parent / "pinned"
NAMES = ("bm25", "dense")


def query(number, **more):
    return {
        "application": "shop",
        "query_id": f"q{number:03d}",
        "client_id": f"client-{number % 23}",
        "user_query": f"shoes {number}",
        "timestamp": f"2026-05-04T12:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "query_response_id": f"r{number}",
        **more,
    }


def event(number, action, document, ordinal, **more):
    attributes = {"object": {"object_id": document, "object_id_field": "sku"}, "position": {"ordinal": ordinal}}
    attributes["object"].update(more.pop("object", {}))
    attributes.update(more.pop("attributes", {}))
    return {
        "application": "shop",
        "action_name": action,
        "query_id": f"q{number:03d}",
        "session_id": f"session-{number}",
        "client_id": f"client-{number % 23}",
        "user_id": "",
        "timestamp": f"2026-05-04T12:{number // 60 % 60:02d}:{number % 60:02d}.500Z",
        "message_type": "INFO",
        "event_attributes": attributes,
        **more,
    }


def ours(rng):
    """Queries that hold our impressions, two that do not, and events on them."""
    queries, events = [], []
    for number in range(120):
        documents = [f"sku-{d}" for d in rng.permutation(12)]
        rankings = {"bm25": documents, "dense": sorted(documents), "ltr": sorted(documents, reverse=True)}
        impression = ml.PairwisePreference().combine(rankings, k=4, seed=number)
        queries.append(query(number, query_attributes=query_attributes(impression)))
        for place in rng.choice(4, size=rng.integers(0, 3), replace=False).tolist():
            events.append(event(number, "click", impression.shown[place], place + 1))
            if rng.random() < 0.3:
                events.append(event(number, "add_to_cart", impression.shown[place], place + 1))
        events.append({**event(number, "page_exit", None, -1), "event_attributes": {"position": {}}})
    queries.extend([query(500, query_attributes={"experiment_id": "other"}), query(501)])
    events.append(event(500, "click", "sku-1", 1))
    return queries, events


def teams(rng):
    """A team draft of others: impressions and clicks name the ranker of their hit, in all three places."""
    queries, events = [], []
    spelled = (
        lambda name: {"attributes": {"search_config": name}},
        lambda name: {"object": {"search_config": name}},
        lambda name: {"object": {"search_configuration_uuid": name}},
    )
    for number in range(90):
        queries.append(query(number))
        first = int(rng.integers(2))
        for place in range(4):
            name = NAMES[(first + place) % 2]
            named = spelled[number % 3](name)
            events.append(event(number, "impression", f"sku-{place}", place, **named))
            if rng.random() < (0.5 if name == "dense" else 0.2):
                events.append(event(number, "click", f"sku-{place}", place, **spelled[number % 3](name)))
    return queries, events


def main():
    rng = np.random.default_rng(7)
    for name, (queries, events) in {"ours": ours(rng), "teams": teams(rng)}.items():
        order = rng.permutation(len(events))
        for kind, rows in (("queries", queries), ("events", [events[x] for x in order])):
            lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
            (HERE / f"{name}-{kind}.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
