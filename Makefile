# `make` lists the targets. Every target builds .venv first if it is missing or its pins have changed.
PYTHON ?= python3
ARGS ?=
BENCH ?= history
MINUTES ?= 5

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := .venv/.installed

# Idle threads that spin slow everything else down on a loaded machine.
OMP_WAIT_POLICY ?= passive
export OMP_WAIT_POLICY

.DEFAULT_GOAL := help
.PHONY: help venv lock test lint format types docs unit demo fuzz soak bench release site clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.12 chooses the interpreter of .venv; ARGS='…' is passed on by unit, demo and bench."

venv: $(STAMP) ## install the package and everything it can use into .venv

# First the very files of requirements.lock, checked by their hashes, on the kind of machine that it is for. Then torch,
# whose build is the user's choice, and on other machines everything, in the versions of constraints.txt.
$(STAMP): pyproject.toml constraints.txt requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "leastpath needs Python 3.11 or newer, but $(PYTHON) is missing or older. Try: make venv PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@if [ "$$($(BIN)/python tools/lock.py --fits)" = yes ]; then \
	  echo "$(PIP) --no-deps --require-hashes -r requirements.lock"; \
	  $(PIP) --no-deps --require-hashes -r requirements.lock; fi
	$(PIP) -c constraints.txt -e '.[all]'
	@touch $@

lock: $(STAMP) ## write requirements.lock anew from constraints.txt: versions with the hashes of their files
	$(BIN)/python tools/lock.py

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

# One thread a worker: thread teams of several workers would fight over the same cores. A file stays with one worker, so
# that what its tests share (a net that is trained, a run, a row of the table of invariants) is made once.
unit: $(STAMP) ## the tests alone, on two workers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# One thread a process: the command starts one process a core.
demo: $(STAMP) ## the paper's first experiment in two minutes: trains, explains, writes out/moons-quick/report.html
	OMP_NUM_THREADS=1 $(BIN)/python -m studies.moons --quick $(ARGS)

fuzz: $(STAMP) ## draw calls and damage files for MINUTES=5; what is found is kept in tests/fuzz/found
	PYTHONPATH=tests:. OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --minutes $(MINUTES) $(ARGS)

soak: $(STAMP) ## Ctrl-C at 50 moments, jobs and explorer with a fault every second for MINUTES=5, and 500 repetitions of all
	PYTHONPATH=tests:. OMP_NUM_THREADS=1 $(BIN)/python -m faults --times 50 --minutes $(MINUTES)
	PYTHONPATH=tests:. OMP_NUM_THREADS=1 $(BIN)/python -m resources --times 500

bench: $(STAMP) ## ratios of this commit, added to those of others (docs/history.md); BENCH=name runs benchmarks/name.py
	$(BIN)/python benchmarks/$(BENCH).py $(if $(filter history,$(BENCH)),--record docs/_generated/history.json --draw docs/_generated/history.png) $(ARGS)

# In an environment of its own: neither the package nor its tests need these tools, and these tools need no .venv.
release: ## build wheel and source, check them, and write dist/NOTES.md from the changelog
	rm -rf build dist
	test -x .venv-release/bin/twine || { $(PYTHON) -m venv .venv-release && .venv-release/bin/pip install --quiet 'build>=1.2' 'twine>=6'; }
	.venv-release/bin/python -m build
	.venv-release/bin/twine check --strict dist/*.whl dist/*.tar.gz
	.venv-release/bin/python tools/release_notes.py > dist/NOTES.md
	@ls dist

site: $(STAMP) ## a static page of three examples, out/demo/index.html, which could be hosted anywhere
	OMP_NUM_THREADS=1 $(BIN)/python tools/demo_page.py

clean: ## remove what builds and tests leave behind
	rm -rf build dist docs/_build docs/_generated/tutorials htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src studies tests docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## clean, and remove .venv
	rm -rf .venv .venv-release
