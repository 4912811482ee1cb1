"""A service whose database and secret are looked at as files."""

import asyncio
from pathlib import Path

from multileave.live.definition import Definition
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings

PINNED = Path(__file__).parent / "pinned" / "v1.sqlite"
RANKINGS = {"a": ["x", "y", "z"], "b": ["z", "y", "x"]}
HALF = Definition("half", ("a", "b"), k=3, share=0.5, method="tdm", window=3600.0)
ONE, TWO, THREE = "first secret of the tests", "second secret of the tests", "third secret of the tests"


def opened(address, **settings):
    return Service(Settings(database=address, **settings))


def show(service, number, unit):
    return asyncio.run(service.show(number, ShowRequest(RANKINGS, unit)))


def click(service, impression):
    return asyncio.run(service.record([Event("e", impression, position=0)]))[0]
