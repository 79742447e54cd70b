# `make` lists the targets. Every target builds .venv first if it is missing or its pins have changed.
PYTHON ?= python3
ARGS ?=
BENCH ?= overhead

BIN := .venv/bin
STAMP := .venv/.installed

# Idle threads that spin slow everything else down on a loaded machine.
OMP_WAIT_POLICY ?= passive
export OMP_WAIT_POLICY

.DEFAULT_GOAL := help
.PHONY: help venv test lint format types docs unit demo bench clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.12 chooses the interpreter of .venv; ARGS='…' is passed on by unit, demo and bench."

venv: $(STAMP) ## install the package and everything it can use into .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "leastpath needs Python 3.11 or newer, but $(PYTHON) is missing or older. Try: make venv PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

test: lint types docs unit ## all that CI checks: lint, types, docs, unit

lint: $(STAMP) ## style, formatting and the layers of imports, without changing a file
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

format: $(STAMP) ## mend what lint can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(STAMP) ## mypy, strict on src
	$(BIN)/mypy

docs: $(STAMP) ## run the tutorials and build docs/_build/html, warnings are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

# One thread a worker: thread teams of several workers would fight over the same cores.
unit: $(STAMP) ## the tests alone, on two workers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(ARGS)

# One thread a process: the command starts one process a core.
demo: $(STAMP) ## the paper's first experiment in two minutes: trains, explains, writes out/moons-quick/report.html
	OMP_NUM_THREADS=1 $(BIN)/python -m studies.moons --quick $(ARGS)

bench: $(STAMP) ## time beside Captum and a bare gradient loop; BENCH=name runs benchmarks/name.py
	$(BIN)/python benchmarks/$(BENCH).py $(ARGS)

clean: ## remove what builds and tests leave behind
	rm -rf build dist docs/_build docs/_generated/tutorials htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src studies tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## clean, and remove .venv
	rm -rf .venv
