# Needs python3 >= 3.11, make and git, nothing else.  `make` alone lists the words.
#
# Every word works in the virtual environment .venv, made on first use and again whenever
# pyproject.toml or constraints.txt change.  PYTHON=python3.13 picks the interpreter for it.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DEMO_VENV := .cache/demo
DEMO_STAMP := $(DEMO_VENV)/.installed
PYTEST = $(PY) -m pytest -q -rs -n $(JOBS) --dist loadgroup --ignore=tests/live
# The pure packages, the agents' streams, and loops run by the real command: the design's, old versions'.
FAST_TESTS = $(wildcard $(addprefix tests/,templates fsm authoring hosts design recorded test_project.py))
LIVE_TESTS = $(wildcard tests/live/test_*.py tests/live/*/test_*.py)
# Those of the live tests that start agent programs.
AGENT_TESTS = $(addprefix tests/live/test_,agents.py design_loops.py plugin.py)

# Without bytecode every start of `ll-loop` in a test or a measurement would compile it anew.
unexport PYTHONDONTWRITEBYTECODE
# An environment of somebody else's must not be taken for this one.
unexport PYTHONHOME
unexport PYTHONPATH
unexport VIRTUAL_ENV

.DEFAULT_GOAL := help
.PHONY: help test test-fast check live live-newest soak mutants bench false-done demo docs clean

# An environment whose Python is gone, or which was copied along with its tree, is made anew.
AT_HOME := import os, sys, little_loops as it; sys.exit(not os.path.samefile(it.__file__, sys.argv[1]))
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell $(PY) -c '$(AT_HOME)' src/little_loops/__init__.py 2>&1 || echo stale),)
.PHONY: $(STAMP)
endif
endif

help: ## list these words
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

test: $(STAMP) ## all tests but the live ones and the soaks; full branch coverage of the pure modules
	$(PYTEST) --hypothesis-profile=ci --cov --cov-report=term

test-fast: $(STAMP) ## the pure packages and some whole runs
	$(PYTEST) --hypothesis-profile=fast $(FAST_TESTS)

check: $(STAMP) ## lint, format, types, layers
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo --cache-dir .cache/import_linter

live: $(STAMP) ## the tests against real agent programs (fetched by npm into .cache/agents)
ifneq ($(LIVE_TESTS),)
	$(PY) -m pytest -q -rs tests/live
else
	@echo "make live: there are no live tests"
endif

# What somebody else has published must not fail this project's build.
live-newest: $(STAMP) ## the same with the newest agent programs that npm has; reports, and never fails
	@LIVE_AGENTS=newest $(PY) -m pytest -q -rfEs --tb=short $(AGENT_TESTS) || \
	  echo "make live-newest: not everything passed; docs/reference/agents.md says what is known"

soak: $(STAMP) ## the long tests: many kills, many iterations, many examples of each law, many mutants
	$(PY) -m pytest -q -m soak tests
	$(PYTEST) --hypothesis-profile=soak -m "hypothesis and not soak"
	$(PY) -m tools.mutants --jobs $(JOBS)

mutants: $(STAMP) ## change the pure modules in some hundred places, and see whether a test notices
	$(PY) -m tools.mutants --jobs $(JOBS)

bench: $(STAMP) ## measure against the floors and the bars
	$(PY) -m bench

false-done: $(STAMP) ## count how often each tool says "done" wrongly; writes docs/false-done.md
	$(PY) -m bench.false_done --page docs/false-done.md

# What runs need and nothing else: a fraction of the development tools.
demo: $(DEMO_STAMP) ## install ll-loop without the development tools, and watch it fix a small project
	@$(DEMO_VENV)/bin/ll-loop demo

docs: $(STAMP) ## write the generated reference pages anew
	@test -e tools/reference.py || { echo "make docs: nothing is generated yet" >&2; exit 1; }
	$(PY) -m tools.reference

clean: ## remove all that make has made
	rm -rf $(VENV) .cache .hypothesis build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call make_venv,DIRECTORY): a new virtual environment.
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: little-loops needs Python 3.11 or newer, \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "      name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "making $(1) with $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv --clear $(1) || { \
	  echo "make: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu install the package python3-venv" >&2; \
	  rm -rf $(1); exit 1; }
endef

$(STAMP): pyproject.toml constraints.txt
	$(call make_venv,$(VENV))
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(DEMO_STAMP): pyproject.toml constraints.txt
	$(call make_venv,$(DEMO_VENV))
	@echo "installing ll-loop and what it needs"
	@$(DEMO_VENV)/bin/python -m pip install --disable-pip-version-check -c constraints.txt -e . | \
	  sed -n 's/^Collecting \([^ ]*\).*/  \1/p; s/^Successfully installed.*/installed/p'
	@test -x $(DEMO_VENV)/bin/ll-loop
	@touch $@
