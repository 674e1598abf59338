# Everything runs in .venv, which the first target makes from the locked versions.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
FAILED := --last-failed --last-failed-no-failures none

.PHONY: demo test lint types check clean

demo: $(READY)  ## the main job, on a small worked example
	$(BIN)/diverset demo

test: $(READY)  ## all tests; AGAIN=1: those that failed, and nothing worse, get one more try, alone
	$(PYTEST) -n auto || { [ $$? = 1 ] && [ -n "$(AGAIN)" ] && $(PYTEST) $(FAILED); }

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: test lint types  ## what CI runs

$(READY): pyproject.toml constraints.txt
	test -d $(VENV) || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
