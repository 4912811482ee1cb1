# make demo   compare five rankers with simulated users
# make live   the dashboard, with simulated users who search
# make test   every check: style, types, layers, tests, doctests, the README
# make acceptance  what needs Postgres, a cluster, a browser, a process to kill, a deadline to pass, a fresh environment, a notebook or a
#             long simulation; first small tests without a compiler (make uncompiled)
# make soak   what is too long for every day
# make bench  what things cost, and what of it must hold; PEERS=1: beside a peer that you installed,
#             GRID=DIR: the paper's grid, too, on the data in DIR
# make docs   the documentation site, into site/
# make lowest the oldest versions of what multileave needs
# make pythons  every supported Python that is installed here

# Without compiled bytecode, each of the hundreds of processes of the tests would parse all libraries again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

# What works without extras, and what studies and replay add, quick enough to be repeated for other versions.
CORE_TESTS := tests/test_impression.py tests/test_random.py tests/test_rankings.py tests/test_vectors.py \
	tests/methods/test_known_values.py tests/methods/test_definitions.py tests/stats/test_tally.py \
	tests/stats/test_verdict.py tests/clicks tests/data/test_svmlight.py tests/data/test_trec.py tests/cli/test_cli.py \
	tests/replay/test_log_schema.py tests/replay/test_engine_replay.py tests/study/test_engine.py tests/study/test_plots.py
# Old versions warn of what newer ones beside them will drop.
CORE_PYTEST := -m pytest -W ignore::DeprecationWarning $(CORE_TESTS)
# What a file's tests share, a cluster for example, is made once.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Only these files have tests that also run uncompiled; collecting the others takes longer than running these.
FAST_FILES = $(shell grep -rl 'mark\.fast' tests)
PYTHONS ?= 3.11 3.12 3.13
# Measuring coverage takes a third of the time, so only CI does it, and COVERAGE=1.
COVERAGE ?= $(CI)
COV := $(if $(COVERAGE),--cov --cov-report=)
REPORT := $(if $(COVERAGE),$(BIN)/coverage report --skip-covered)

.PHONY: demo live test lint tests uncompiled acceptance soak bench docs lowest pythons clean

demo: .venv/core
	$(BIN)/multileave demo

live: .venv/live
	$(BIN)/multileave demo --live --open

test: lint tests

acceptance: .venv/dev uncompiled
	$(BIN)/pytest -n 2 $(BY_FILE) -m "acceptance and not soak" $(COV) $(if $(COVERAGE),--cov-append)
	$(REPORT)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: .venv/dev
	$(if $(COVERAGE),$(BIN)/coverage erase)
	$(BIN)/pytest -n 2 $(BY_FILE) $(COV)
	$(REPORT)

uncompiled: .venv/dev
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 $(BY_FILE) -m fast $(FAST_FILES)

soak: .venv/dev
	$(BIN)/pytest -m soak

bench: .venv/dev
	$(BIN)/python benchmarks/report.py $(if $(PEERS),--peers) $(if $(GRID),--grid $(GRID))

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict

lowest: .venv/dev
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[study,replay]' 'pytest>=8.2' 'hypothesis>=6.100'
	.venv-lowest/bin/python $(CORE_PYTEST)

pythons: .venv/dev
	for version in $(PYTHONS); do \
		if ! $(BIN)/uv python find --no-python-downloads --system $$version; then echo "Python $$version is not here"; continue; fi; \
		$(BIN)/uv venv --quiet --clear --no-python-downloads --system --python $$version .venv-$$version && \
		$(BIN)/uv pip install --quiet --python .venv-$$version -e '.[study,replay]' pytest hypothesis && \
		.venv-$$version/bin/python $(CORE_PYTEST) || exit 1; \
	done

.venv/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/live: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[live,client]'
	touch $@

# uv takes under a minute where pip takes three or more.
.venv/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' || \
		$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv-* site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage*
