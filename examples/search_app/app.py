"""The search site: a box, a page of results, a page per document. It does not show which ranker supplied a result."""

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from engine import RANKERS, Engine
from fastapi import Cookie, FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from multileave.client import Client

EXAMPLES = ("parse json", "copy a directory", "random sample", "thread pool", "regular expression split", "shufle list")
LONGEST_QUERY = 200


def create_app(service: str, experiment: int, deadline: float = 0.15) -> FastAPI:
    """Return the site; `service` is the address of multileave's service, which must draw a list within `deadline`."""
    engine, client = Engine(), Client(service, experiment, control=RANKERS[0], k=10, deadline=deadline)
    templates = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True)
    templates.filters["highlight"] = highlight

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        client.close()

    site = FastAPI(lifespan=life)

    @site.get("/")
    def search(q: str = "", user: str | None = Cookie(None)) -> HTMLResponse:
        query = " ".join(q.split())[:LONGEST_QUERY]
        if not query:
            start = templates.get_template("start.html")
            return HTMLResponse(start.render(query="", documents=len(engine.documents), examples=EXAMPLES))
        user = user or secrets.token_urlsafe(8)
        results = []
        rankings = {ranker: ranking for ranker, ranking in engine.rank(query).items() if ranking}
        if rankings:
            page = client.interleave(rankings, unit=user, query=query)
            for position, name in enumerate(page.shown):
                link = f"/doc/{name}?{urlencode({'i': page.impression or '', 'p': position})}"
                results.append((engine.documents[name], link))
        response = HTMLResponse(templates.get_template("results.html").render(query=query, results=results))
        response.set_cookie("user", user, max_age=10**7, httponly=True, samesite="lax")
        return response

    @site.get("/doc/{name}")
    def show(name: str, i: str = "", p: int = 0) -> Response:
        document = engine.documents.get(name)
        if document is None:
            return RedirectResponse("/")
        if i:
            client.click(i, position=p)
        return HTMLResponse(templates.get_template("document.html").render(query="", document=document))

    return site


def highlight(text: str, query: str) -> Markup:
    """Return a text with the words of a query marked."""
    words = "|".join(re.escape(word) for word in query.split() if len(word) > 2)
    parts = re.split(rf"\b((?:{words})\w*)", text, flags=re.IGNORECASE) if words else [text]
    return Markup("").join(Markup("<mark>{}</mark>").format(p) if n % 2 else escape(p) for n, p in enumerate(parts))
