"""Are verdicts calibrated? Simulated experiments in which the truth is known.

    .venv/bin/python benchmarks/calibration.py                  all parts
    .venv/bin/python benchmarks/calibration.py --part one-look  some parts
    .venv/bin/python benchmarks/calibration.py --quick          a tenth of the repetitions
    .venv/bin/python benchmarks/calibration.py --repetitions N  another number of them than 2,000
    .venv/bin/python benchmarks/calibration.py --write          also write the tables in docs/verdicts.md

Seeds are fixed: the same command prints the same table. `calibration_parts/world.py` describes the users;
every other file in `calibration_parts` holds some parts.
"""

import argparse
import importlib
import json
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path

import calibration_parts
from calibration_parts import table

PAGE = Path(__file__).parents[1] / "docs" / "verdicts.md"


def all_parts() -> dict[str, Callable[[int], None]]:
    """Return the parts of all files by name."""
    found: dict[str, Callable[[int], None]] = {}
    for file in pkgutil.iter_modules(calibration_parts.__path__):
        module = importlib.import_module(f"calibration_parts.{file.name}")
        found |= getattr(module, "PARTS", {})
    return found


def main() -> None:
    parts = all_parts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--repetitions", type=int, help="another number of repetitions than 2,000")
    parser.add_argument("--part", nargs="+", choices=parts, default=list(parts), help="run only these parts")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    parser.add_argument("--write", action="store_true", help="also write the tables in docs/verdicts.md")
    arguments = parser.parse_args()
    repetitions = arguments.repetitions or (200 if arguments.quick else 2000)
    print(f"{'part':<13} {'what':<66} {'found':<18} {'target':<14} met")
    for name in arguments.part:
        started, before = time.perf_counter(), len(table.ROWS)
        parts[name](repetitions)
        print(f"             ({name}: {time.perf_counter() - started:.0f} s)", flush=True)
        if arguments.write:
            table.write(PAGE, name, table.ROWS[before:])
    if arguments.json:
        arguments.json.write_text(json.dumps({"repetitions": repetitions, "rows": table.ROWS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
