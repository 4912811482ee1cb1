"""Kernels are compiled once per machine, anew when a kernel they reach was edited, and everywhere."""

import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from multileave.errors import MultileaveWarning
from multileave.kernels import Kernel, kernel
from multileave.random import next_word, seed_state

needs_compiler = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="this is about compiled code, and NUMBA_DISABLE_JIT=1 is set"
)

INNER = """
from multileave import kernel

@kernel
def inner(x):
    return x + {number}

@kernel
def other(x):
    return x * 100
"""

OUTER = """
from multileave import kernel
from inner_file import inner, other

def part(x):
    return x

@kernel
def loop(x):
    return part(x) + inner(0)

both = loop.bind(part=other)
direct = loop.bind(part=inner)

if __name__ == "__main__":
    import outer_file
    print(outer_file.both(1), outer_file.direct(1))
    hits = [sum(k.compiled.stats.cache_hits.values()) for k in (outer_file.both, outer_file.direct)]
    print("cached" if all(hits) else "compiled" if not any(hits) else "mixed")
"""


def run(folder, number, **environment):
    (folder / "inner_file.py").write_text(INNER.format(number=number))
    (folder / "outer_file.py").write_text(OUTER)
    done = subprocess.run(
        [sys.executable, "-W", "always", "outer_file.py"], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "MULTILEAVE_CACHE_DIR": str(folder / "cache"), **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:2], done.stderr


@pytest.mark.acceptance
@needs_compiler
def test_a_second_process_finds_the_code_of_the_first(tmp_path):
    assert run(tmp_path, 1)[0] == ["101 3", "compiled"]
    assert run(tmp_path, 1)[0] == ["101 3", "cached"]


@pytest.mark.acceptance
@needs_compiler
def test_an_edited_kernel_in_another_file_is_compiled_anew(tmp_path):
    assert run(tmp_path, 1)[0] == ["101 3", "compiled"]
    assert run(tmp_path, 5)[0] == ["105 11", "compiled"]


@pytest.mark.acceptance
@needs_compiler
def test_two_processes_at_once_do_not_disturb_each_other(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run(tmp_path, 1)[0][0], range(2)))
    assert results == ["101 3", "101 3"]
    assert run(tmp_path, 1)[0] == ["101 3", "cached"]


@pytest.mark.acceptance
@needs_compiler
def test_without_a_writable_directory_there_is_one_warning_and_no_cache(tmp_path):
    (tmp_path / "file").touch()
    for environment in (
        {"MULTILEAVE_CACHE_DIR": str(tmp_path / "file" / "below")},
        {"MULTILEAVE_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": str(tmp_path / "file")},
    ):
        output, warnings = run(tmp_path, 1, **environment)
        assert output == ["101 3", "compiled"]
        assert warnings.count("MultileaveWarning") == 1, warnings
        assert "MULTILEAVE_CACHE_DIR" in warnings


@pytest.mark.acceptance
@needs_compiler
def test_numbas_own_setting_is_left_alone(tmp_path):
    import numba

    before = numba.config.CACHE_DIR
    Kernel(next_word.function).compiled
    assert before == numba.config.CACHE_DIR


@kernel
def not_compilable(x):
    return len({"a": [x]}["a"]) + int(str(x))


@kernel
def allocating(x):
    return np.zeros(3).sum() + x[0]


@kernel
def allocating_unnamed(x):
    doubled = x + x
    return doubled.sum()


@pytest.mark.fast
def test_a_kernel_may_allocate_and_be_called_by_another():
    @kernel
    def both(x):
        return allocating(x) + allocating_unnamed(x)

    for _ in range(2):
        assert allocating(np.array([1.0, 2.0])) == 1
        assert allocating_unnamed(np.array([1.0, 2.0])) == 6
        assert both(np.array([1.0, 2.0])) == 7


@needs_compiler
def test_only_kernels_that_allocate_count_references():
    assert not next_word.compiled.targetoptions["_nrt"]
    assert allocating.compiled.targetoptions["_nrt"]


@needs_compiler
def test_what_cannot_be_compiled_runs_as_python_with_one_warning():
    with pytest.warns(MultileaveWarning, match="cannot be compiled"):
        assert not_compilable(7) == 8
    assert not_compilable(8) == 9


@pytest.mark.fast
def test_an_error_of_the_function_itself_is_not_swallowed():
    @kernel
    def index(values, i):
        return values[i]

    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        with pytest.raises(IndexError):
            index(np.zeros(1), 5)
    with pytest.raises(TypeError):
        index()


@pytest.mark.fast
def test_a_kernel_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(next_word)) is next_word
    assert repr(next_word) == "<kernel next_word>"


@pytest.mark.fast
def test_binding_twice_gives_the_same_kernel():
    @kernel
    def loop(state):
        return next_word(state)

    assert loop.bind(next_word=next_word) is loop.bind(next_word=next_word)
    assert loop.bind(next_word=next_word)(seed_state(1)) == next_word(seed_state(1))


def test_importing_the_library_imports_nothing_heavy():
    code = textwrap.dedent("""
        import sys, multileave
        heavy = "numba scipy matplotlib pandas pyarrow pyspark fastapi sqlalchemy duckdb joblib typer rich".split()
        print(*[name for name in heavy if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


WARMED = """
import numpy as np
import multileave as ml
from numba.core import event

ml.warmup(["ppm", "tdm"])
with event.install_recorder("numba:compile") as compiled:
    for rankings in (
        {"a": ["x", "y", "z"], "b": ["z", "\u00e9"]},
        [(1, 2, 3), (3, 2)],
        [[1, "x"], ["x", None]],
        np.array([[1, 2], [2, 1]], dtype=np.int32),
    ):
        for spec in ("ppm", "tdm"):
            ml.infer(ml.get_method(spec).combine(rankings, 2, seed=1), positions=[1])
assert not compiled.buffer, compiled.buffer
"""


@pytest.mark.acceptance
@needs_compiler
def test_after_warmup_no_call_waits_for_the_compiler(tmp_path):
    environment = {**os.environ, "MULTILEAVE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
