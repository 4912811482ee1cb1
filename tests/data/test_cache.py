"""The cache: the same data without parsing, for the same files only, and never a reason to fail."""

import os
from pathlib import Path

import numpy as np
import pytest

from multileave.data import Letor, cache, read, svmlight
from multileave.errors import MultileaveWarning

pytestmark = pytest.mark.fast


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:a 1:0.5 2:1\n0 qid:b 1:0.25\n2 qid:é 2:3\n", encoding="utf-8")
    return path


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every file that is parsed."""
    seen: list[str] = []
    original = svmlight._Reader.read

    def noted(self: svmlight._Reader, path: Path) -> None:
        seen.append(path.name)
        original(self, path)

    monkeypatch.setattr(svmlight._Reader, "read", noted)
    return seen


def check_same(one: Letor, other: Letor) -> None:
    for name in ("offsets", "labels", "features"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype
    assert (one.grades, one.numbers, one.qids) == (other.grades, other.numbers, other.qids)


def test_a_file_is_parsed_once(path: Path, parses: list[str]) -> None:
    plain, first, second = read(path), read(path, cache=True), read(path, cache=True)
    assert len(parses) == 2
    check_same(plain, first)
    check_same(plain, second)
    assert isinstance(second.features.base, np.memmap)


def test_writing_to_cached_arrays_leaves_the_cache_as_it_is(path: Path) -> None:
    read(path, cache=True).features[0, 0] = 9.0
    assert read(path, cache=True).features[0, 0] == 0.5


def test_other_features_or_grades_are_another_entry(path: Path, parses: list[str]) -> None:
    for options in ({}, {"features": [2]}, {"features": [2, 1]}, {"grades": 3}, {"grades": 5}):
        check_same(read(path, **options), read(path, cache=True, **options))  # type: ignore[arg-type]
    assert len(parses) == 10


def test_a_changed_file_is_parsed_again_and_its_entry_replaced(path: Path, parses: list[str], data_cache: Path) -> None:
    read(path, cache=True)
    text = path.read_text(encoding="utf-8").replace("0.5", "0.7")
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert read(path, cache=True).features[0, 0] == 0.7
    assert len(parses) == 2
    assert len(list((data_cache / "data").iterdir())) == 1


def test_a_newer_reader_parses_again(path: Path, parses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read(path, cache=True)
    monkeypatch.setattr(svmlight, "READER_VERSION", svmlight.READER_VERSION + 1)
    read(path, cache=True)
    assert len(parses) == 2


@pytest.mark.parametrize("kept", [0, 1, 100, 130, 170, 250, 300, 400, -1])
def test_a_broken_entry_is_parsed_again(kept: int, path: Path, data_cache: Path, parses: list[str]) -> None:
    plain = read(path)
    read(path, cache=True)
    (entry,) = (data_cache / "data").iterdir()
    entry.write_bytes(entry.read_bytes()[:kept])
    check_same(plain, read(path, cache=True))
    check_same(plain, read(path, cache=True))
    assert len(parses) == 3
    assert len(list((data_cache / "data").iterdir())) == 1


def test_without_a_writable_cache_data_are_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "cache_directory", lambda: None)
    check_same(read(path), read(path, cache=True))


def test_a_full_disk_warns_and_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, data_cache: Path) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(MultileaveWarning, match="cannot be cached.*No space left"):
        data = read(path, cache=True)
    check_same(read(path), data)
    assert not list((data_cache / "data").iterdir())


def test_an_entry_that_another_process_wrote_meanwhile_is_replaced(path: Path, data_cache: Path) -> None:
    plain = read(path)
    read(path, cache=True)
    (entry,) = (data_cache / "data").iterdir()
    kept = entry.read_bytes()

    def overtaken() -> cache.Parsed:
        entry.write_bytes(kept)
        return plain, (3,)

    key = [str(path.resolve())], None, None
    check_same(plain, cache.cached(key, [0], overtaken)[0])
    assert list((data_cache / "data").iterdir()) == [entry]


def test_what_killed_processes_left_is_removed(path: Path, data_cache: Path) -> None:
    read(path, cache=True)
    (entry,) = (data_cache / "data").iterdir()
    old, new = entry.with_name("old.part"), entry.with_name("new.part")
    for left in (old, new):
        left.touch()
    os.utime(old, (1, 1))
    os.utime(path, (1, 1))
    read(path, cache=True)
    assert sorted((data_cache / "data").iterdir()) == sorted([entry, new])


def test_the_reader_stops_at_errors_even_with_an_old_entry(path: Path) -> None:
    read(path, cache=True)
    path.write_text("broken\n")
    with pytest.raises(ValueError, match="line 1"):
        read(path, cache=True)
