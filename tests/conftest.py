"""What several tests share."""

import gc
import os
import shutil

import numpy as np
import pytest

from multileave.methods import base


def pytest_collection_finish():
    """Leave what was imported out of garbage collections, and collect less often: a tenth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_sessionfinish():
    """Let Python collect everything when it ends; some libraries report what is left as leaks."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI every part is installed, so a skip fails there; only data that cannot be passed on may be absent.

    What is too slow uncompiled is skipped in the run without a compiler, and was run with it.
    """
    report = yield
    reason = str(report.longrepr)
    if (
        report.skipped
        and os.environ.get("CI")
        and not hasattr(report, "wasxfail")
        and not any(word in reason for word in ("data", "NUMBA_DISABLE_JIT"))
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be: {reason}"
    return report


def write_toy(folder, name="toy", folds=2, queries=12, features=6, seed=0):
    """Write a small data set: feature f is relevance with noise that grows with f."""
    rng = np.random.default_rng(seed)
    for fold in range(1, folds + 1):
        for part in ("train", "vali", "test"):
            lines = []
            for q in range(queries):
                for _ in range(14):
                    label = int(rng.integers(0, 3))
                    values = [label + rng.normal(0, 0.3 * f) for f in range(1, features + 1)]
                    lines.append(
                        f"{label} qid:{part}{q} " + " ".join(f"{f}:{v:.6f}" for f, v in enumerate(values, 1)) + " # d\n"
                    )
            path = folder / name / f"Fold{fold}" / f"{part}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(lines))
    return folder


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """Return a folder with a small data set of two folds, six features and three grades."""
    return write_toy(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def chromium():
    """Return a real browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'multileave[dev]'")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def forget_methods():
    """Take methods that a test registers out of the registry again."""
    before = dict(base._registry)
    yield
    base._registry.clear()
    base._registry.update(before)
    base._from_string.cache_clear()
