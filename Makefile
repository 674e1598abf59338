# Everything runs in .venv, created on first use from the versions in constraints.txt.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types check docs package clean

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

$(READY): pyproject.toml constraints.txt
	test -d $(VENV) || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
