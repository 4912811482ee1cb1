# make demo   compare five rankers with simulated users
# make test   every check: style, types, layers, tests, doctests, the README
# make soak   what is too long for every day
# make bench  what things cost, and what of it must hold; PEERS=1: beside a peer that you installed
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint tests soak bench clean

demo: .venv/core
	$(BIN)/multileave demo

test: lint tests

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: .venv/dev
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 --dist loadgroup --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -m fast --cov --cov-append --cov-report=
	$(BIN)/coverage report --skip-covered

soak: .venv/dev
	$(BIN)/pytest -m soak

bench: .venv/dev
	$(BIN)/python benchmarks/report.py $(if $(PEERS),--peers)

.venv/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage*
