# `make explain` and `make test` do all the set-up themselves; everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TESTS ?= tests

# Of `make compat`: which torch, and the tests that cover what we ask of torch and transformers.
TORCH ?= 2.13.0
COMPAT := mathematics/test_attention.py modeling/test_modeling.py modeling/test_dam_esim.py modeling/test_families.py
COMPAT += modeling/test_other_tools.py modeling/test_nli.py modeling/test_embedded.py training/test_training_run.py house/test_packaging.py

.PHONY: explain test test-slow lint bench docs fuzz load attack cluster compat clean
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
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/export.py
	$(BIN)/python benchmarks/growth.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/explain_list.py
	$(BIN)/python benchmarks/cost_page.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/predict.py

# The site, in site/; a warning is an error.
docs: $(VENV)/.tested
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# At least 10⁵ inputs: coverage-guided bytes for readers and pages where atheris can be had, hypothesis for the rest.
fuzz: $(VENV)/.tested
	$(PIP) -e '.[test,fuzz]' || echo "atheris cannot be installed here: hypothesis makes the bytes" >&2
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --inputs 100000 --output results/fuzz.json

# Throughput, latency, batching and memory of `neurogame serve`, by wrk.
load: $(VENV)/.benched
	@command -v wrk >/dev/null || { echo "make load needs wrk (apt install wrk)" >&2; exit 1; }
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/cost_page.py

# What once stopped `neurogame serve`, against a real one on 127.0.0.1, and files that mean harm:
# a table of figures in results/attack.json and docs/how-to/serve.md, fifteen minutes at most.
attack: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/python tests/attack/run.py --output results/attack.json

# A real Ray on this machine: two workers, one of them killed.
cluster: $(VENV)/.tested
	$(PIP) -e '.[test,cluster]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow tests/jobs/test_batch.py

# The oldest and the newest versions that pyproject.toml admits, each in an environment of its own. What they warn of in
# each other (an old typer of a new click) is not ours to fail on.
compat: compat-oldest compat-newest
compat-%:
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH) $(if $(filter oldest,$*),-c constraints-oldest.txt) -e '.[train]' beartype build hatchling hypothesis jaxtyping pytest pytest-xdist scipy
	.venv-$*/bin/python -m pip list --disable-pip-version-check | grep -iE '^(torch|transformers|tokenizers|numpy) '
	OMP_NUM_THREADS=1 .venv-$*/bin/python -m pytest -q -n 2 -W default $(addprefix tests/, $(COMPAT))

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
	rm -rf $(VENV) .venv-oldest .venv-newest .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
