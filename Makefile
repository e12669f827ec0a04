# Each target readies the machine itself: see .ci/setup.sh. REPROKIT_NO_INSTALL=1 only says what is missing.
.DEFAULT_GOAL := help
.PHONY: help demo test test-cost test-workspaces test-long test-all test-fast fuzz proof lint bench attention attention-gpu interfaces clean

# Set, it has each process of the tests compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

SETUP := sh .ci/setup.sh
PYTHON_ENV := .venv/bin/python
# Tested by a target of its own.
WITHOUT := tests/workspaces
# By group, in the order of tests/support/suite.py: what one worker runs alone comes first.
PYTEST := $(PYTHON_ENV) -m pytest -n auto --dist loadgroup --no-loadscope-reorder

help: ## Show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: ## Build the recipe fused-attention:cpu, benchmark the extension inside its container, write a report
	@$(SETUP) demo
	.venv/bin/reprokit build --drift fused-attention:cpu
	.venv/bin/reprokit bench fused-attention:cpu
	@echo "next: .venv/bin/reprokit results show fused-attention   # all that was measured"
	@echo "      .venv/bin/reprokit shell fused-attention:cpu      # a terminal in its container"
	.venv/bin/reprokit report fused-attention -o results/fused-attention-report

test: ## Run the tests, those that need an engine too (PYTEST_ARGS="-k lock" narrows)
	@$(SETUP) test
	REPROKIT_REQUIRE_ENGINE=1 $(PYTEST) -m "not long" $(addprefix --ignore=,$(WITHOUT)) $(PYTEST_ARGS)

test-cost: ## Run the tests and report what they cost by folder, file and test, beside the report before
	@$(MAKE) test PYTEST_ARGS="--cost $(PYTEST_ARGS)"

test-workspaces: ## Run the tests of the bundled workspaces: the attention extension and the fusion search
	@$(SETUP) test
	$(PYTEST) -m "not long" tests/workspaces $(PYTEST_ARGS)

test-long: ## Run the tests that take minutes: whole environments, the whole extension, attacks on memory and time
	@$(SETUP) test
	REPROKIT_REQUIRE_ENGINE=1 $(PYTEST) -m long $(PYTEST_ARGS)

test-all: ## Run everything; if it passes on a clean checkout, note the commit in .ci/tested: see tests/depends.yaml
	@$(MAKE) test WITHOUT= PYTEST_ARGS='-m "" $(PYTEST_ARGS)'
	git diff --quiet HEAD && git rev-parse HEAD > .ci/tested

test-fast: ## Run the quick tests that need no engine, no compiler and no network
	@$(SETUP) test-fast
	$(PYTHON_ENV) -m pytest -n $$(nproc) $(addprefix --ignore=tests/,workspaces security/fuzz) \
	    -m "not (engine or compiler or network or browser or slow or long or kills)" $(PYTEST_ARGS)

SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
fuzz: ## Feed 20 000 spoiled inputs to each parser of what strangers write (SEED=N repeats a run)
	@$(SETUP) test-fast
	@echo "SEED=$(SEED)"
	REPROKIT_FUZZ=20000 $(PYTEST) --timeout=0 --hypothesis-seed=$(SEED) tests/security/fuzz $(PYTEST_ARGS)

proof: ## Kill every kind of work 100 times (KILLS=100), to tests/proofs/kills.jsonl; try what the tests try on many cases
	@$(SETUP) test
	REPROKIT_REQUIRE_ENGINE=1 $(PYTHON_ENV) -m pytest -m "kills or proof" --kills $(or $(KILLS),100) $(PYTEST_ARGS)

lint: ## Run ruff, mypy, import-linter and shellcheck
	@$(SETUP) lint
	$(PYTHON_ENV) -m ruff check .
	$(PYTHON_ENV) -m ruff format --check .
	$(PYTHON_ENV) -m mypy
	.venv/bin/lint-imports --no-cache
	.venv/bin/shellcheck .ci/setup.sh .ci/run reprokit/helper/build.sh

bench: ## Measure reprokit's own start-up, check, build and download times as ratios; score `explain` and `check`
	@$(SETUP) demo
	@failed=0; for each in measure build fetch bundle load explain check solve new compare; do \
	    $(PYTHON_ENV) tests/performance/$$each.py || failed=1; done; exit $$failed

ATTENTION := PYTHONPATH=workspaces/fused_attention .venv/bin/python -m fused_attention.bench
attention: ## Measure the attention extension's whole grid (hours; resumes): samples to results/attention, table and verdict to docs/attention
	@$(SETUP) attention
	@mkdir -p results/attention
	$(ATTENTION) --threads 1 --output results/attention/cpu.jsonl $(BENCH_ARGS)
	$(ATTENTION) --summary results/attention/cpu.jsonl > docs/attention/cpu.csv
	-$(ATTENTION) --verdict docs/attention/cpu.csv > docs/attention/verdict.md
	.venv/bin/reprokit report fused-attention --records results/attention/cpu.jsonl -o results/attention/report

attention-gpu: ## Check and time the attention extension on this machine's GPU, forward and backward (10 minutes; torch for CUDA, nvcc)
	python3 tests/performance/attention_gpu.py

interfaces: ## Read which releases of eight packages have which public names, to reprokit/compat/facts/interfaces (TVM=CLONE)
	@$(SETUP) test-fast
	$(PYTHON_ENV) tests/performance/interfaces.py --tvm "$(TVM)"

clean: ## Remove .venv, caches and build trees of this folder; images, the store and results stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
