"""Tests of data keep what they parse in a folder of their own."""

from pathlib import Path

import pytest

from multileave.data import cache


@pytest.fixture(autouse=True)
def data_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(cache, "cache_directory", lambda: folder)
    return folder
