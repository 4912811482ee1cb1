"""The search site: a box, a page of results, a page per recipe. It does not show which ranker supplied a result."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import quote

from engine import RANKERS, Engine
from fastapi import Cookie, FastAPI, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from multileave.client import Client

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>body{{font:16px/1.5 system-ui;max-width:42rem;margin:2rem auto;padding:0 1rem}}
li{{margin:.8rem 0}} small{{color:#555;display:block}} input{{font:inherit;width:70%}}</style>
<main><h1><a href="/">Recipes</a></h1><form action="/"><label>Search <input name="q" value="{query}"></label>
<button>Go</button></form>{body}</main></html>"""


def create_app(service: str, experiment: int, deadline: float = 0.15) -> FastAPI:
    """Return the site; `service` is the address of multileave's service, which must draw a list within `deadline`."""
    engine, client = Engine(), Client(service, experiment, control=RANKERS[0], k=10, deadline=deadline)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        client.close()

    site = FastAPI(lifespan=life)

    @site.get("/", response_class=HTMLResponse)
    def search(response: Response, q: str = "", user: str | None = Cookie(None)) -> str:
        user = user or secrets.token_urlsafe(8)
        response.set_cookie("user", user, max_age=10**7, httponly=True, samesite="lax")
        rankings = engine.rank(q[:200])
        if not any(rankings.values()):
            return PAGE.format(title="Recipes", query=escape(q), body="<p>Nothing found.</p>" if q else "")
        page = client.interleave(rankings, unit=user, query=q[:200])
        items = []
        for position, recipe in enumerate(map(engine.recipes.__getitem__, page.shown)):
            link = f"/recipe/{recipe.id}?i={quote(page.impression or '')}&p={position}"
            items.append(f'<li><a href="{link}">{escape(recipe.title)}</a><small>{escape(recipe.body[:110])}…</small>')
        return PAGE.format(title=escape(q), query=escape(q), body=f"<ol>{''.join(items)}</ol>")

    @site.get("/recipe/{name}", response_class=HTMLResponse)
    def show(name: str, i: str = "", p: int = 0) -> Response:
        recipe = engine.recipes.get(name)
        if recipe is None:
            return RedirectResponse("/")
        if i:
            client.click(i, position=p)
        body = f"<h2>{escape(recipe.title)}</h2><p>{escape(recipe.body)}</p><p>Cooked by {recipe.cooked} people.</p>"
        return HTMLResponse(PAGE.format(title=escape(recipe.title), query="", body=body))

    return site
