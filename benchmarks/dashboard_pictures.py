"""Screenshots of the dashboard for the docs: simulated searchers use a service, and Chromium opens its pages.

    python benchmarks/dashboard_pictures.py --out docs/images [--all] [--users 2500] [--seconds 20]

Needs `pip install 'multileave[dev]'` and Chromium. Writes PNGs with few colours; --all writes every page, wide and
narrow, light and dark, for review.
"""

import argparse
import asyncio
import io
import os
import random
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from multileave.live.definition import Definition
from multileave.live.http.app import create_app
from multileave.live.records import Event, ShowRequest
from multileave.live.service import Service
from multileave.live.settings import Settings

QUALITY = {"bm25": 1.1, "dense": 0.95, "hybrid": 0.75, "ltr-2026": 0.55}  # how much noise hides relevance
OTHERS = (  # experiments in the list besides the main one, with their users
    ("Query rewriting", {"bm25": 1.1, "rewrite-small": 1.6, "rewrite-large": 0.7}, 500),
    ("Synonyms", {"bm25": 1.1, "bm25-synonyms": 1.0}, 300),
    ("Freshness boost", {"bm25": 0.7, "fresh": 1.3}, 350),
)
QUERIES = ("trail running shoes", "wool socks", "rain jacket", "tent for two", "head torch", "water filter")
SIZES = {"wide": (1180, 760), "narrow": (390, 780)}
PAGES = {
    "experiments": "/",
    "experiment": f"/experiments/{len(OTHERS) + 1}",
    "new": "/experiments/new",
    "keys": "/keys",
    "impression": f"/experiments/{len(OTHERS) + 1}",
}
IN_THE_DOCS = (
    "experiments-wide-dark", "experiments-narrow-light", "experiment-wide-light", "experiment-narrow-dark",
    "impression-wide-dark", "new-narrow-light",
)  # fmt: skip
COLOURS = 96


def rankings(rng: random.Random, quality: Mapping[str, float]) -> tuple[dict[str, list[str] | None], dict[str, float]]:
    """Return the rankings of a query with 25 products, and how relevant each product is."""
    relevance = {f"sku-{rng.randrange(10_000):04d}": rng.random() ** 2 for _ in range(25)}
    ranked: dict[str, list[str] | None] = {
        name: sorted(relevance, key=lambda item: -relevance[item] + rng.gauss(0.0, noise) * 0.35)
        for name, noise in quality.items()
    }
    if rng.random() < 0.004:
        ranked[list(quality)[1]] = None
    return ranked, relevance


async def search(service: Service, number: int, user: int, rng: random.Random, quality: Mapping[str, float]) -> None:
    """Let a user search once or twice, click what is relevant, and buy some of it."""
    for visit in range(rng.choice((1, 1, 2))):
        ranked, relevance = rankings(rng, quality)
        request = ShowRequest(ranked, unit=f"user-{user}", query=rng.choice(QUERIES), salt=str(visit))
        shown = await service.show(number, request)
        events = []
        for position, item in enumerate(shown.shown):
            if shown.impression is not None and rng.random() < 0.5 * relevance[str(item)]:
                name = f"{user}-{visit}-{position}"
                events.append(Event(name, shown.impression, position=position, dwell=round(rng.expovariate(0.03), 1)))
                if rng.random() < 0.15:
                    events.append(Event(f"{name}-order", shown.impression, position=position, action="order"))
        await service.record(events)


async def searchers(service: Service, number: int, users: int, seconds: float, quality: Mapping[str, float]) -> None:
    """Let users search one after the other, spread over some time."""
    rng = random.Random(8)
    began = time.monotonic()
    for user in range(users):
        await search(service, number, user, rng, quality)
        await asyncio.sleep(max(0.0, began + seconds * user / users - time.monotonic()))
        if user % 50 == 0:
            await asyncio.to_thread(service.fold)


def pictures(browser: Browser, address: str, key: str, out: Path, names: Sequence[str]) -> None:
    """Take screenshots; a name gives the page, the size and the colour scheme."""
    for name in names:
        what, size, scheme = name.split("-")
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(address)
        page.fill("#key", key)
        page.click("main button")
        page.goto(address + PAGES[what])
        if what == "impression":
            clicks = page.locator("td:nth-child(6)", has_text=re.compile("[2-5]"))
            page.locator("#live-recent tbody tr", has=clicks).locator("a").first.click()
        save_with_few_colours(page.screenshot(full_page=True), out / f"dashboard-{name}.png")
        context.close()


def save_with_few_colours(screenshot: bytes, path: Path) -> None:
    """Write a PNG, smaller than Chromium's by a third or more."""
    with Image.open(io.BytesIO(screenshot)) as image:
        few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main() -> None:
    """Run a service, fill it with traffic, and take screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--users", type=int, default=2500)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is absent: apt-get install chromium")
    every = [f"{what}-{size}-{scheme}" for what in PAGES for size in SIZES for scheme in ("light", "dark")]
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(database=f"sqlite:///{folder}/pictures.db"))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.05)
            service: Service = app.state.service
            main_one = Definition(
                "Autumn rerankers", tuple(QUALITY), "bm25", actions=("click", "order"), keep_queries=True, share=1.0
            )
            for name, quality, users in OTHERS:
                number = service.create(main_one.changed(name=name, rankers=list(quality))).number
                service.start(number)
                asyncio.run(searchers(service, number, users, 0.0, quality))
            service.stop(number)
            main_number = service.create(main_one).number
            service.start(main_number)
            service.create(main_one.changed(name="Winter rerankers", method="tdm"))
            asyncio.run(searchers(service, main_number, given.users, given.seconds, QUALITY))
            service.fold()
            key = service.access.create_key("search team", "admin")[1]
            address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            given.out.mkdir(parents=True, exist_ok=True)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
                pictures(browser, address, key, given.out, every if given.all else IN_THE_DOCS)
                browser.close()
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
