# Everything runs in .venv, created on first use from the versions in constraints.txt.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
KERNEL := hatch_build.py $(wildcard src/diverset/*/kernel/*.[ch])

.PHONY: demo test lint types check docs package kernel install-locked clean

demo: $(READY)  ## train, compare and search on generated images
	$(BIN)/diverset demo

test: $(READY)  ## all tests
	$(BIN)/python -m pytest -n auto

lint: $(READY)  ## style, formatting and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

check: test lint types  ## what CI runs

docs: $(READY)  ## the documentation site in site/, without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

package: $(READY)  ## wheel and sdist in dist/, checked in an empty environment
	$(BIN)/python scripts/check_release.py

kernel: $(READY)  ## compile the kernels again
	$(INSTALL) --no-deps -e .

$(READY): pyproject.toml constraints.txt $(KERNEL)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(INSTALL) -c constraints.txt torch
	$(INSTALL) -c constraints.txt -e '.[all,dev]'
	touch $@

# torch, and the CUDA libraries where its build needs them, by version only: docs/supply-chain.md.
install-locked:  ## .venv from files whose hashes are in locked.txt; Linux and Python 3.11 only
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --no-deps --only-binary :all: -r locked.txt
	$(INSTALL) -c constraints.txt torch
	$(INSTALL) --no-deps --no-build-isolation -e .
	$(BIN)/pip check
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
