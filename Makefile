# Both set-up commands of the README, and what contributors run.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test quick slow lint format defaults release clean

run: $(VENV)/experiments
	$(BIN)/python -m experiments run stochastic_volatility

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist loadgroup

quick: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m quick

slow: $(VENV)/test,peers
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

lint: $(VENV)/test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/test
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

defaults: $(VENV)/experiments
	$(BIN)/python -m experiments run defaults

# source distribution and wheel in dist/, and a trial of the wheel in an environment of its own
release:
	PYTHON=$(PYTHON) .ci/release

$(VENV)/%:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -e ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) build dist results *.egg-info .mypy_cache .pytest_cache .ruff_cache
