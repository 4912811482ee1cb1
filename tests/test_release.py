"""What is released: built, installed into an empty environment without extras, and tried there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("uv", reason="pip install 'multileave[dev]'")

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[1]
UV = (sys.executable, "-m", "uv")
MOST_BYTES = 1_000_000
COMMANDS = {
    "stats": ["plan", "--effect", "0.1", "--sd", "1", "--plot", "power.png"],
    "study": ["study", "--datasets", "synthetic"],
    "replay": ["replay", "log.jsonl"],
    "live": ["serve"],
}
CALLS = {
    "stats": "from multileave.stats.verdict.strengths import _fit; import numpy as np; _fit(2, np.ones(1), np.ones(1))",
    "study": "from multileave.study.plots import require_matplotlib; require_matplotlib()",
    "replay": "import multileave.replay",
    "live": "import multileave.live.http.app",
    "client": "from multileave.client import Client; Client('http://127.0.0.1:1', 1, control='a', k=10)",
    "pyterrier": "import multileave.integrations.pyterrier",
    "dask": "from multileave.study.runner import _backend; _backend('dask', None)",
    "ray": "from multileave.study.runner import _backend; _backend('ray', None)",
    "spark": "from multileave.study.runner import _backend; _backend('spark', None)",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the sdist and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run([*UV, "build", "--quiet", "--out-dir", folder, ROOT])
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def empty(built, tmp_path_factory):
    """Return the programs of an environment without extras."""
    return environment(tmp_path_factory.mktemp("empty"), built[1])


def environment(folder, wheel):
    """Return the folder of programs of a new environment that holds the wheel and what it needs, no more."""
    run([*UV, "venv", "--quiet", "--python", sys.executable, folder])
    # --only-binary: what needs a compiler is refused
    run([*UV, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", folder / "bin" / "python", wheel])
    return folder / "bin"


def run(command, code=0, cwd=None):
    """Run a program outside the repository's own packages, and return what it printed."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=variables, cwd=cwd, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_wheel_is_small_and_holds_all_that_is_not_python(built):
    wheel = built[1]
    assert wheel.stat().st_size < MOST_BYTES
    assert wheel.name.endswith("-py3-none-any.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
            assert path.relative_to(source).as_posix() in held
    for name in (
        "py.typed",
        "live/pages/templates/base.html",
        "live/pages/static/style.css",
        "live/store/migrations/env.py",
    ):
        assert f"multileave/{name}" in held


def test_the_sdist_holds_what_is_needed_to_test_it(built):
    with tarfile.open(built[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("Makefile", "mkdocs.yml", "README.md", "LICENSE", "tests/test_release.py", "docs/theory.md"):
        assert name in held


def test_the_core_works_alone(empty):
    version = run([empty / "multileave", "--version"]).split()[1]
    assert run([empty / "python", "-c", "import multileave; print(multileave.__version__)"]).strip() == version
    methods = json.loads(run([empty / "multileave", "methods", "--json"]))["methods"]
    assert {"ppm", "tdm"} <= {method["name"] for method in methods}
    outcome = "import multileave as ml; i = ml.PairwisePreference().combine([['a', 'b'], ['b', 'a']], k=2, seed=1); "
    assert run([empty / "python", "-c", outcome + "print(ml.infer(i, clicks=['a']).preferences.shape)"]) == "(2, 2)\n"


def test_one_install_and_one_command_give_the_documented_verdict_on_run_files(built, tmp_path):
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    section = page[page.index("## Run files") :]
    install, command = re.search(r"```sh\n(.*)\n(.*)\n```", section).groups()
    verdict = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1]
    extra = re.fullmatch(r"pip install 'multileave(\[\w+\])'", install)[1]
    programs = environment(tmp_path / "new", f"{built[1]}{extra}")
    for path in (ROOT / "examples" / "runs").glob("*.[rq]*"):
        shutil.copy(path, tmp_path)
    program, *arguments = shlex.split(command)
    # Of the six methods the one of the verdict: to compile the others takes a minute.
    said = run([programs / program, *arguments, "--methods", "rpm"], cwd=tmp_path)
    assert said.endswith(verdict)
    assert '<img src="data:image/svg+xml' in (tmp_path / "study" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("extra", COMMANDS)
def test_a_command_without_its_extra_says_the_install_line(empty, tmp_path, extra):
    said = run([empty / "multileave", *COMMANDS[extra]], code=2, cwd=tmp_path)
    assert f"pip install 'multileave[{extra}]'" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("extra", CALLS)
def test_python_without_an_extra_says_the_install_line(empty, tmp_path, extra):
    said = run([empty / "python", "-c", CALLS[extra]], code=1, cwd=tmp_path)
    assert said.splitlines()[-1].startswith("multileave.errors.MissingExtra: ")
    assert said.rstrip().endswith(f"pip install 'multileave[{extra}]'")


def test_all_names_every_extra_that_users_have():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("multileave[").removesuffix("]").split(","))
    assert named == set(extras) - {"all", "dev", "docs"} == set(CALLS)
