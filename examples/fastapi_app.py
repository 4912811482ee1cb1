"""A search application that runs an experiment on its users; start it with `uvicorn fastapi_app:app`.

Set SERVICE to the service's address, EXPERIMENT to the experiment's number, and KEY to a key with the role ingest.
"""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI

from multileave.client import AsyncClient


@asynccontextmanager
async def lifespan(app):
    where, number, key = os.environ["SERVICE"], int(os.environ["EXPERIMENT"]), os.environ.get("KEY")
    async with AsyncClient(where, number, key=key, control="bm25", spill="events-to-send") as app.state.multileave:
        yield


app = FastAPI(lifespan=lifespan)
RANKERS = {"bm25": lambda query: ["d1", "d2", "d3"], "ltr": lambda query: ["d3", "d1", "d2"]}  # yours


@app.get("/search")
async def search(query: str, user: str):
    page = await app.state.multileave.interleave({name: rank(query) for name, rank in RANKERS.items()}, user, query)
    return {"documents": page.shown, "impression": page.impression}


@app.post("/clicks")
async def click(impression: str, document: str):
    await app.state.multileave.click(impression, document)
