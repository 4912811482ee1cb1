"""Writes the pinned log. Run once for a new version of the format, never for an old one."""

import json
from pathlib import Path

from replay_logs import make_log, tallies

from multileave.log.writer import json_line, spell_time
from multileave.methods.base import methods
from multileave.replay import JOINED, to_row, write_parquet

HERE = Path(__file__).parent / "pinned"


def main():
    able = tuple(name for name, method in methods().items() if method.most_rankers is None)
    log = make_log(6 * len(able), methods=able, users=8)
    log += make_log(24, methods=("bi", "pbi"), users=8, seed=1, names=("old", "new"))
    with (HERE / "v1.jsonl").open("wb") as file:
        for shown in log:
            events = [{**event, "timestamp": spell_time(event["timestamp"])} for event in shown.events]
            file.write(json_line({**shown.envelope, **shown.impression.to_dict(), "clicks": events}))
    write_parquet(HERE / "v1.parquet", [to_row(s.impression, **s.envelope, clicks=s.events) for s in log], JOINED)
    expected = {
        f"{method} {action}": tally.preferences.tolist()
        for action in ("click", "purchase")
        for method, tally in tallies(log, lambda shown, event, a=action: event["action"] == a).items()
    }
    (HERE / "v1.expected.json").write_text(json.dumps({"rows": len(log), "preferences": expected}, indent=1) + "\n")


if __name__ == "__main__":
    main()
