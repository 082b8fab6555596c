# up · test · coverage · check · bench · torture · failover · docs · dist · try · try-image: each sets up what it needs; only
# Python 3.11 or newer and make are required.

# An interpreter compiled without optimisations, as pyenv does by default, needs a third more CPU per claim. If python3 is one,
# use the distribution's interpreter, provided it is new enough.
NEW_ENOUGH := import sys, ensurepip; assert sys.version_info >= (3, 11)
OPTIMISED := $(NEW_ENOUGH); import sysconfig; assert "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
PYTHON ?= $(shell \
	if ! python3 -c '$(OPTIMISED)' 2>/dev/null && /usr/bin/python3 -c '$(NEW_ENOUGH)' 2>/dev/null; \
	then echo /usr/bin/python3; else echo python3; fi)
VENV ?= .venv
UV_VERSION := 0.13.7
BIN := $(VENV)/bin

export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1

.PHONY: up test tests coverage check audit format bench torture failover docs dist try try-image clean
.DEFAULT_GOAL := up

up: $(VENV)/.runtime
	@exec $(BIN)/python manage.py up --stop-with-parent

# More processes than cores: many tests wait for servers, browsers and clocks.
TEST_PROCESSES = $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 )))

# The checks run beside the tests: both leave cores idle.
test: $(VENV)/.development
	@$(MAKE) --no-print-directory --jobs check tests

# The long ones are part of `make torture`.
TESTS = not long

# Otherwise each process of the tests would compile the project again where the environment forbids to write bytecode.
tests: export PYTHONDONTWRITEBYTECODE :=

# Many tests are real processes with real clocks. One that fails only while the machine is overloaded is no defect, but it
# is printed: look at it if it comes back. The values of a failed assertion are printed the second time only: preparing
# them takes each process six seconds.
tests: $(VENV)/.development
	@$(BIN)/python -m tests.install
	@$(BIN)/python -m pytest -m "$(TESTS)" --assert plain --numprocesses $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder \
		$(PYTEST_ARGS) || { \
		echo "What failed beside the other tests is run once more, one test at a time:"; \
		$(BIN)/python -m pytest -m "$(TESTS)" --last-failed --last-failed-no-failures none \
			--numprocesses 1 --dist loadgroup $(PYTEST_ARGS); }

# Tracing every line makes the tests a third slower.
coverage:
	@$(MAKE) --no-print-directory tests PYTEST_ARGS="--cov --cov-report term:skip-covered $(PYTEST_ARGS)"

# Lets Django's checks run without a database.
CHECK := SECRET_KEY=only-for-checks-and-nothing-else-at-all OCTO_DATA_DIR=$(VENV)/check DATABASE_URL= $(BIN)

CHECKS := style types imports templates migrations schema vulnerabilities

.PHONY: $(CHECKS:%=check-%)

# In parallel: each uses one core.
check: $(VENV)/.development
	@$(MAKE) --no-print-directory --jobs $(CHECKS:%=check-%)
	@echo "Checks passed."

check-style:
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

check-types:
	@$(CHECK)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file client/pyproject.toml client/octo

check-imports:
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

check-templates:
	@git ls-files --cached --others --exclude-standard 'templates/*.html' | xargs $(BIN)/djade --target-version 5.2 --check

check-migrations:
	@$(CHECK)/python -W ignore manage.py makemigrations --check --dry-run --verbosity 0 || \
		{ echo "The models have changed: run manage.py makemigrations." >&2; exit 1; }

check-schema:
	@$(CHECK)/python manage.py spectacular --validate --fail-on-warn --file /dev/null

check-vulnerabilities:
	@$(BIN)/python -m tests.audit --may-skip

audit: $(VENV)/.development
	@$(BIN)/python -m tests.audit

format: $(VENV)/.development
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/python client/unasync.py
	@$(CHECK)/python manage.py metrics_reference > docs/metrics.md
	@git ls-files 'templates/*.html' | xargs -r $(BIN)/djade --target-version 5.2

# Needs etcd and haproxy (apt-get install etcd-server haproxy). Three times each fault takes ten minutes.
ROUNDS ?= 3

failover: $(VENV)/.development
	@$(BIN)/uv sync --quiet --frozen --inexact --group failover
	@$(BIN)/python -W ignore -m tests.torture.failover --rounds $(ROUNDS) $(FAILOVER_ARGS)

bench: $(VENV)/.development
	@$(BIN)/python -m bench

# The documentation, served at /help/. Every warning is an error: a link without a target, a page in no table of contents.
docs: $(VENV)/.development
	@rm -rf build/help
	@$(CHECK)/python -m sphinx --quiet --fresh-env --fail-on-warning --builder html --doctree-dir $(VENV)/doctrees docs build/help
	@echo "Built build/help/index.html."

# The long tests, then recorded histories under faults, on the loopback interface, for MINUTES (5), by SEED (random); see
# docs/reliability.md.
torture: $(VENV)/.development
	@$(MAKE) --no-print-directory tests TESTS=long; long=$$?; $(BIN)/python -m tests.torture && exit $$long

# Both wheels, the server's with the documentation, the locked dependencies with their hashes, and a bill of materials of each wheel (CycloneDX).
DIST ?= dist
EXPORT := export --quiet --frozen --no-emit-project --no-header
SERVER := --no-default-groups --all-extras --no-emit-local
BILL := --format cyclonedx1.5 --output-file

dist: docs
	@rm -rf $(DIST)
	@$(BIN)/hatchling build --target wheel --directory $(DIST) > /dev/null
	@$(BIN)/uv build --quiet --wheel --out-dir $(DIST) client
	@$(BIN)/uv $(EXPORT) $(SERVER) --output-file $(DIST)/requirements.txt
	@$(BIN)/uv $(EXPORT) $(SERVER) $(BILL) $(DIST)/octoadmin.cdx.json
	@$(BIN)/uv $(EXPORT) --only-group client $(BILL) $(DIST)/octoadmin-client.cdx.json
	@ls $(DIST)

# What an operator does, from the wheels of the last release to a restored backup; see deploy/try.py.
try: $(VENV)/.development
	@$(BIN)/python deploy/try.py --venv $(VENV) $(TRY_ARGS)

# The steps of the Dockerfile without a container engine, and the image they make; see deploy/dockerfile.py. Needs root and debootstrap.
try-image:
	@$(PYTHON) deploy/dockerfile.py build/image $(TRY_ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Octoadmin needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Could not create $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# --inexact keeps the packages of the other target, so that `up` after `test` removes nothing.
$(VENV)/.runtime: $(BIN)/uv pyproject.toml uv.lock client/pyproject.toml
	@$(BIN)/uv sync --quiet --frozen --inexact --no-default-groups --all-extras
	@touch $@

$(VENV)/.development: $(BIN)/uv pyproject.toml uv.lock client/pyproject.toml
	@$(BIN)/uv sync --quiet --frozen --inexact --all-extras
	@touch $@ $(VENV)/.runtime
