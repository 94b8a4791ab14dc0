# `make explain` and `make test` do all the set-up themselves; everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TESTS ?= tests

.PHONY: explain test test-slow lint bench clean
.DELETE_ON_ERROR:

explain: $(VENV)/.installed
	@$(BIN)/neurogame explain "A man in a blue shirt is sleeping on a bench in the park." "Nobody is asleep." --html report.html

test: $(VENV)/.tested lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(TESTS)

test-slow: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m slow $(TESTS)

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.benched
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/tradeoff.py
	$(BIN)/python benchmarks/alive.py
	$(BIN)/python benchmarks/alternatives.py
	$(BIN)/python benchmarks/record.py couplings values attention throughput

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "neurogame needs Python 3.11 or newer; set PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/.tested: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.benched: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[bench]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
