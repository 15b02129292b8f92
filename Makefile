# make demo, make test: each is all that a fresh clone needs; Python 3.11 or newer and pip have to be there.
# Another interpreter: make demo PYTHON=/path/to/python3.13

.DEFAULT_GOAL := help
.PHONY: help demo axe test slow all check docs pictures bench bench-peers bench-operations bench-survival bench-recall \
	prove site format constraints dist release clean

VENV := .venv
BIN := $(VENV)/bin
MODEL := .venv-model
BENCH_PYTHON ?= $(BIN)/python

# The newest Python from 3.11 on that can fill a virtual environment; python3 if there is none.
PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 python3.11; do \
	if $$name -c 'import venv, importlib.util as u; assert u.find_spec("ensurepip") or u.find_spec("pip")' 2>/dev/null; \
	then echo $$name; exit; fi; done; echo python3)

help:
	@echo "make demo         install, start the embedded Postgres, and show the main job on examples/team.jsonl"
	@echo "make test         install with the development tools, and run the tests but the slow ones"
	@echo "make slow         run the slow tests"
	@echo "make all          both in one go, as .ci/run does"
	@echo "make axe          fetch axe-core by npm, with which slow tests check accessibility in Chromium"
	@echo "make check        ruff, mypy, import-linter; secrets, licences and advisories of dependencies"
	@echo "make docs         write the reference pages from the code"
	@echo "make pictures     take the pictures of the inspector again, where it has changed"
	@echo "make site         build the site of docs/ in build/html"
	@echo "make bench        run the benchmarks"
	@echo "make bench-peers  the same operations, then the same accidents, by this library and others; or bench-operations, bench-survival"
	@echo "make bench-recall   questions on the whole path; with DATA=DIR those of DIR, of this library and of others"
	@echo "make prove        run the slow proofs (races, kills, sizes, a small language model)"
	@echo "make format       sort imports and format"
	@echo "make constraints  write constraints.txt from what is installed"
	@echo "make dist         build wheel and sdist, check them, and try them on each Python that there is"
	@echo "make release      VERSION=0.1.0: set the version, date the changelog, freeze the migrations"
	@echo "make clean        remove the environment and caches (not the data of the embedded Postgres)"

demo: $(VENV)/.installed
	@$(BIN)/memory-sql demo

PYTEST := $(BIN)/python -m pytest

test: $(VENV)/.installed-dev
	@$(PYTEST) -n auto --dist worksteal -m "not slow and not prove"

# For the accessibility of the inspector's pages; tests say that it wasn't checked where npm is missing.
axe:
	@if command -v npm >/dev/null; then npm install --no-save --no-audit --no-fund --silent axe-core@4.14.1 || echo "make axe: it can't be fetched, so accessibility isn't checked" >&2; \
	else echo "make axe: npm is missing, so accessibility isn't checked" >&2; fi

slow: $(VENV)/.installed-dev
	@$(PYTEST) -n auto --dist worksteal -m "slow and not prove"

# Both in one go: collecting takes half a minute, and the last tests of a run leave a worker idle.
all: $(VENV)/.installed-dev
	@$(PYTEST) -n auto --dist worksteal -m "not prove"

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.checks.secrets
	$(BIN)/python -m tests.checks.licences
	$(BIN)/python -m tests.checks.advisories

bench: $(VENV)/.installed-dev
	@test -f benchmarks/__main__.py || { echo "make bench: there is no benchmarks/__main__.py to run" >&2; exit 1; }
	@$(BIN)/python -m benchmarks

docs: $(VENV)/.installed-dev
	@$(BIN)/python -m docs.generate

# Needs Chromium at /usr/bin/chromium.
pictures: $(VENV)/.installed-dev
	@$(BIN)/python -m docs.pictures

# The variable silences a notice about the builder's successor. With --quiet, --strict would see no warning.
site: $(VENV)/.installed-dev
	@$(BIN)/python -m docs.site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The others need benchmarks/requirements.txt, best in an environment of its own, beside the project: BENCH_PYTHON=…
bench-peers: bench-operations bench-survival

bench-operations: $(VENV)/.installed-dev
	@$(BENCH_PYTHON) -m benchmarks.peers $(ARGS)

bench-survival: $(VENV)/.installed-dev
	@$(BENCH_PYTHON) -m benchmarks.survival $(ARGS)

bench-recall: $(VENV)/.installed-dev
	@$(BENCH_PYTHON) -m $(if $(DATA),benchmarks.recall --data "$(DATA)",benchmarks.recall.whole_path) $(ARGS)

prove: $(VENV)/.installed-dev $(MODEL)/.installed
	@$(PYTEST) -m prove --hypothesis-profile=full
	@$(BIN)/python -m tests.prove.weak_model --environment $(MODEL)

# In an environment of its own: 1.2 GB of a language model and its server.
$(MODEL)/.installed: tests/prove/model-requirements.txt
	@$(PYTHON) -m venv $(MODEL)
	@$(MODEL)/bin/pip install --quiet -r $<
	@touch $@

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

constraints: $(VENV)/.installed-dev
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$' > constraints.txt

# Builds both packages, checks what an index reads of them, and tries the wheel on each Python that there is.
dist: $(VENV)/.installed-dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/python -m tests.prove.installed dist/*.whl dist/*.tar.gz $(if $(VERSION),--version $(VERSION))

release: $(VENV)/.installed-dev
	@$(BIN)/python -m migrations.release $(VERSION)
	@$(BIN)/python -m tests.migrations.keeping

clean:
	rm -rf $(VENV) $(MODEL) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Debian's python3 can have pip without ensurepip: then the environment gets no pip, and the host's pip fills it.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "memory_sql needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing)." >&2; \
		echo "Say which one to use: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.13" >&2; exit 1; }
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then pip=; else pip=--without-pip; fi; \
		$(PYTHON) -m venv --clear $$pip $(VENV)

define install
	@echo "installing memory_sql into $(VENV) …"
	@if $(BIN)/python -c 'import pip' 2>/dev/null; then pip="$(BIN)/python -m pip"; \
		else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi; \
		$$pip --disable-pip-version-check install --quiet --quiet -c constraints.txt -e ".[$(1)]"
endef

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,embedded$(comma)openai$(comma)server)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,dev)
	@touch $(VENV)/.installed $@

comma := ,
