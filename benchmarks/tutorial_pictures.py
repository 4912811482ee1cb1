"""Screenshots for the tutorial: run its site until people have searched 3,000 times, and open it in Chromium.

    python benchmarks/tutorial_pictures.py --out docs/images [--searches 3000]

Needs `pip install 'multileave[dev]'` and Chromium.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from dashboard_pictures import save_with_few_colours

PROGRAM = Path(__file__).parents[1] / "examples" / "search_app" / "run.py"
PICTURES = {"tutorial-site": ((1000, 760), "/?q=copy+a+directory"), "tutorial-verdict": ((1280, 900), "/experiments/1")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--searches", type=int, default=3000, help="searches before the pictures are taken")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is absent: apt-get install chromium")
    command = [sys.executable, str(PROGRAM), "--searchers", "4", "--port", "0", "--service-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            site, service = re.findall(r"http://127\.0\.0\.1:\d+", running.stdout.readline())
            verdict = f"{service}/api/v1/experiments/1/verdict"
            while httpx.get(verdict, timeout=60.0).json()["traffic"]["impressions"] < given.searches:
                time.sleep(1.0)
            with sync_playwright() as playwright:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
                for name, ((width, height), path) in PICTURES.items():
                    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
                    page.goto((site if name == "tutorial-site" else service) + path)
                    save_with_few_colours(page.screenshot(), given.out / f"{name}.png")
                browser.close()
        finally:
            running.send_signal(signal.SIGINT)
        print(running.stdout.read())


if __name__ == "__main__":
    main()
