# Needs only python3 >= 3.11, make and git.  `make` without a target lists the targets.
#
# Every target uses the virtual environment .venv, which is created on first use and again whenever
# pyproject.toml or constraints.txt change.  PYTHON=python3.13 selects its interpreter.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
E2E_STAMP := $(VENV)/.installed-e2e
FLEET_STAMP := $(VENV)/.installed-fleet
NODE_STAMP := web/node_modules/.installed
DEMO_VENV := .cache/demo
DEMO_STAMP := $(DEMO_VENV)/.installed
PYTEST = $(PY) -m pytest -q -rs -n $(JOBS) --dist loadgroup --ignore=tests/live --ignore=tests/e2e --ignore=tests/fleet
# The pure packages, the agents' streams, and complete runs: loops of the design, runs of old versions.
FAST_TESTS = $(wildcard $(addprefix tests/,templates fsm authoring hosts design recorded test_project.py))
LIVE_TESTS = $(wildcard tests/live/test_*.py tests/live/*/test_*.py)
# The live tests that start agent programs.
AGENT_TESTS = $(addprefix tests/live/test_,agents.py design_loops.py plugin.py)

# Without bytecode, every start of `ll-loop` in a test or a benchmark would compile it again.
unexport PYTHONDONTWRITEBYTECODE
# Another active environment must not be mistaken for this one.
unexport PYTHONHOME
unexport PYTHONPATH
unexport VIRTUAL_ENV

.DEFAULT_GOAL := help
.PHONY: help test test-fast check web web-check e2e fleet pictures live live-newest soak mutants bench false-done demo docs clean

# An environment whose Python is missing, or that was copied together with the project, is created again.
AT_HOME := import os, sys, little_loops as it; sys.exit(not os.path.samefile(it.__file__, sys.argv[1]))
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell $(PY) -c '$(AT_HOME)' src/little_loops/__init__.py 2>&1 || echo stale),)
.PHONY: $(STAMP)
endif
endif

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

# Many tests start real processes, and on a busy computer one of them may be too late.  In CI, what failed is
# named and run once more, alone; a test that fails twice fails the build, and so does missing coverage.
TEST_AGAIN = $(PYTEST) -n 0 -v --last-failed --last-failed-no-failures none
test: $(STAMP) ## all tests except the live ones and the soak tests; full branch coverage of the pure modules
	$(PYTEST) --hypothesis-profile=ci --cov --cov-report=term || { \
	  test -n "$$CI" || exit 1; \
	  echo "make test: what failed is tried again, alone"; \
	  $(TEST_AGAIN) && $(PY) -m coverage report; }

test-fast: $(STAMP) ## the pure packages and a few complete runs
	$(PYTEST) --hypothesis-profile=fast $(FAST_TESTS)

check: $(STAMP) ## lint, format, types, layers
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo --cache-dir .cache/import_linter
	$(PY) -m tools.web_assets

web: $(NODE_STAMP) ## build the page of `ll-loop web` from web/ (needs Node 20 or newer)
	@cd web && npm run --silent build

# The built files are committed, so that nobody else needs Node; here they are built again and compared.
web-check: $(STAMP) $(NODE_STAMP) ## types and tests of web/, and that the committed page is what it builds to
	cd web && npm run --silent check
	cd web && npm run --silent test
	cd web && node build/build.mjs $(CURDIR)/.cache/web
	diff -r .cache/web src/little_loops/web/assets || { \
	  echo "make web-check: run \`make web\`, and commit what it writes" >&2; exit 1; }

# As with `make test`: on a busy computer a browser may be too late, so in CI what failed is run once more, alone.
E2E_AGAIN = $(PY) -m pytest -q -rs -n 0 --last-failed --last-failed-no-failures none tests/e2e
e2e: $(E2E_STAMP) $(NODE_STAMP) ## the page in a real Chromium (on Debian: the package chromium)
	@test -x "$${CHROMIUM:-$$(command -v chromium || echo /usr/bin/chromium)}" || { \
	  if [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core; \
	  else \
	    echo "make e2e: no Chromium; install it (Debian: apt-get install chromium), or set CHROMIUM=PATH" >&2; exit 1; \
	  fi; }
	$(PY) -m pytest -q -rs -n $(JOBS) --dist loadfile tests/e2e || { \
	  test -n "$$CI" || exit 1; \
	  echo "make e2e: what failed is tried again, alone"; \
	  $(E2E_AGAIN); }

# Each process has a server and two workers of its own.
FLEET_AGAIN = $(PY) -m pytest -q -rs -n 0 --last-failed --last-failed-no-failures none tests/fleet
fleet: $(FLEET_STAMP) ## loops on a real Temporal server, with workers that are killed
	$(PY) -m pytest -q -rs -n $(JOBS) --dist worksteal tests/fleet || { \
	  test -n "$$CI" || exit 1; \
	  echo "make fleet: what failed is tried again, alone"; \
	  $(FLEET_AGAIN); }

MANUAL_PICTURES = $(addprefix .cache/pictures/page-,run.png runs.png edit.png)
pictures: $(E2E_STAMP) ## take pictures of the page: all scenes in .cache/pictures, and those of the manual
	PICTURES=.cache/pictures $(PY) -m pytest -q -n 0 tests/e2e/test_pictures.py
	cp $(MANUAL_PICTURES) docs/pictures

live: $(STAMP) ## the tests with real agent programs (fetched by npm into .cache/agents)
ifneq ($(LIVE_TESTS),)
	$(PY) -m pytest -q -rs tests/live
else
	@echo "make live: there are no live tests"
endif

# A new release of another program must not fail this project's build.
live-newest: $(STAMP) ## the same with the newest agent programs on npm; reports the result, never fails
	@LIVE_AGENTS=newest $(PY) -m pytest -q -rfEs --tb=short $(AGENT_TESTS) || \
	  echo "make live-newest: not everything passed; see docs/reference/agents.md for known differences"

soak: $(FLEET_STAMP) ## the long tests: many kills, many iterations, many examples of each law, many mutants
	$(PY) -m pytest -q -m soak tests
	$(PYTEST) --hypothesis-profile=soak -m "hypothesis and not soak"
	$(PY) -m tools.mutants --jobs $(JOBS)

mutants: $(STAMP) ## change the pure modules in some hundred places, and check that a test fails
	$(PY) -m tools.mutants --jobs $(JOBS)

bench: $(STAMP) ## run the benchmarks; fails if a figure misses its bar
	$(PY) -m bench

false-done: $(STAMP) ## count how often each tool wrongly reports "done"; writes docs/false-done.md
	$(PY) -m bench.false_done --page docs/false-done.md

# Installs only the runtime dependencies, which are much smaller than the development tools.
demo: $(DEMO_STAMP) ## install ll-loop without the development tools, and watch it fix a small project
	@$(DEMO_VENV)/bin/ll-loop demo

docs: $(STAMP) ## write the generated reference pages
	@test -e tools/reference.py || { echo "make docs: nothing is generated yet" >&2; exit 1; }
	$(PY) -m tools.reference

clean: ## remove everything that make created
	rm -rf $(VENV) web/node_modules .cache .hypothesis build dist
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call make_venv,DIRECTORY): a new virtual environment.
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: ll-loop needs Python 3.11 or newer, \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "      select another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "creating $(1) with $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv --clear $(1) || { \
	  echo "make: $(PYTHON) cannot create a virtual environment; on Debian and Ubuntu install the package python3-venv" >&2; \
	  rm -rf $(1); exit 1; }
endef

$(STAMP): pyproject.toml constraints.txt
	$(call make_venv,$(VENV))
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(E2E_STAMP): $(STAMP)
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,e2e]'
	@touch $@

$(FLEET_STAMP): $(STAMP) tests/fleet/requirements.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r tests/fleet/requirements.txt
	@touch $@

# Nothing of a package is run when it is installed.
$(NODE_STAMP): web/package.json web/package-lock.json web/.npmrc
	@node -e 'process.exitCode = parseInt(process.versions.node) < 20 ? 1 : 0' 2>&- || { \
	  echo "make: the page is built with Node 20 or newer and npm; install them (Debian: nodejs npm)" >&2; exit 1; }
	@cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(DEMO_STAMP): pyproject.toml constraints.txt
	$(call make_venv,$(DEMO_VENV))
	@echo "installing ll-loop and its dependencies"
	@$(DEMO_VENV)/bin/python -m pip install --disable-pip-version-check -c constraints.txt -e . | \
	  sed -n 's/^Collecting \([^ ]*\).*/  \1/p; s/^Successfully installed.*/installed/p'
	@test -x $(DEMO_VENV)/bin/ll-loop
	@touch $@
