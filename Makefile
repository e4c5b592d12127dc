# Every target that needs the environment depends on .venv/.ready, so any of them can be the first command of a clone.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
BENCH ?= q4
PYTEST ?=
# One more than there are cores: tests that need Spark, or kill processes, wait a lot.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: help setup demo test test-long lint format bench lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-9s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready ## Create .venv from the lock, and check that Java is there

.venv/.ready: pyproject.toml setup.py requirements-dev.lock scripts/setup.sh
	@scripts/setup.sh
	@touch $@

demo: .venv/.ready ## Run the demonstration network
	@$(BIN)/penstock demo

test: .venv/.ready .venv/cache ## Run the tests, the doctests and the snippets of the docs (PYTEST="-k union" narrows)
	@$(BIN)/pytest --numprocesses $(WORKERS) --maxprocesses 4 --dist loadgroup $(PYTEST)

test-long: .venv/.ready .venv/cache ## Run the tests with all cases, ten kills each, and the long examples
	@PENSTOCK_THOROUGH=1 PENSTOCK_KILLS=10 PENSTOCK_ATTACH_KILLS=10 PENSTOCK_CHANGE_KILLS=10 PENSTOCK_ARRANGED_KILLS=10 \
	    PENSTOCK_POWER_CUTS=8 PENSTOCK_EXAMPLES=1 $(BIN)/pytest --numprocesses 2 --dist loadgroup --timeout 3600 $(PYTEST)

# The JVMs that the tests start, some dozens, start from it in half of the time.
.venv/cache: .venv/.ready
	@echo "penstock tests: archiving the classes of Spark"
	@mkdir -p $@ && touch $@ && XDG_CACHE_HOME=$(CURDIR)/$@ $(BIN)/python -m penstock.spark.archive_builder || true

lint: .venv/.ready ## Check style, format, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/.ready ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.ready ## Run a benchmark (BENCH=q4 is the default)
	@$(BIN)/penstock bench $(BENCH)

lock: .venv/.ready ## Resolve the dependencies again into requirements*.lock
	@scripts/lock.sh

clean: ## Remove the environment and everything that was built or cached
	rm -rf .venv build dist src/*.egg-info artifacts metastore_db spark-warehouse derby.log .penstock
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
