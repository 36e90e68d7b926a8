# Everything runs in a virtual environment of its own, .venv, built on first use.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3 python; do \
	"$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo "$$python" && break; done)
PY := .venv/bin/python
OLDEST := .venv-oldest/bin/python
# One process of tests more than cores: tests of Spark wait for a good part of their time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min((os.cpu_count() or 1) + 1, 4))')
CASES ?= 20000
SUITES ?= $(filter-out tests/spark/% %/test_checked.py, $(shell grep -l SLICING_CASES tests/*/test_*.py))
ASV := $(PY) -m asv --config asv_benchmarks/asv.conf.json
ASV_RUN := $(ASV) run --show-stderr --environment existing:$(CURDIR)/$(PY)
MACHINE ?= $(shell uname -n)
BENCH ?= .
A ?= HEAD~1
B ?= HEAD

# PySpark's wheel is built of its sources: 43 -> 26 s of CPU where it is not compressed. Tests that install it do the same.
export DIST_EXTRA_CONFIG := $(CURDIR)/.ci/stored.cfg

.PHONY: help docs docs-links docs-look docs-serve demo demo-here test test-oldest fuzz fuzz-checked bench compare lint format clean distclean
.DELETE_ON_ERROR:

# Where this is set, each of the some hundred processes of the tests would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make demo      a stream on a Spark of this machine, with a restart, against Spark's own windows"
	@echo "make demo-here a stream in this process, its windows, and what they cost"
	@echo "make test      ruff, mypy and all tests"
	@echo "make test-oldest  the tests with the oldest versions (constraints-oldest.txt); TESTS=tests/semantics for some"
	@echo "make fuzz      CASES=$(CASES) random cases a test against the oracles (hours); SUITES=tests/joins/test_*_random.py for some"
	@echo "make fuzz-checked  the same with kernels that check bounds (slower; CASES=1000 for fewer)"
	@echo "make bench     the benchmarks (asv); BENCH=push: those whose name matches. Figures are kept by commit"
	@echo "make compare   the figures of two commits, A=$(A) B=$(B); MACHINE=$(MACHINE)"
	@echo "make docs      the documentation as a site in build/site; make docs-serve shows it, make docs-look tests it in Chromium"
	@echo "make docs-links  asks every address on the internet that pages name (mkdocs checks links between pages)"
	@echo "make lint      ruff and mypy alone; make format rewrites"
	@echo "make clean     removes caches and builds; make distclean also .venv"

demo: .venv/.spark
	@$(PY) -m spark_udfs

demo-here: .venv/.core
	@$(PY) -m slicing demo

# All three speak even if the first one fails; ruff and mypy beside the first tests, so that pytest has the last word.
# Tests are collected once before: otherwise each process would compile all of them. A file of tests stays in one
# process; those with few tests, which take longest, do not come last.
test: .venv/.test
	@status=0; { $(PY) -m ruff check . || status=1; $(PY) -m mypy || status=1; exit $$status; } & checks=$$!; \
	$(PY) -m pytest --collect-only -q >/dev/null 2>&1; \
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder || status=1; \
	wait $$checks || status=1; \
	exit $$status

test-oldest: .venv-oldest/.test
	@$(OLDEST) -m pytest $(TESTS)

fuzz: .venv/.test
	@SLICING_CASES=$(CASES) $(PY) -m pytest -n auto --dist worksteal $(SUITES)

fuzz-checked: .venv/.test
	@SLICING_CHECK=1 SLICING_CASES=$(CASES) $(PY) -m pytest -n auto --dist worksteal $(SUITES)

bench: .venv/.bench
	@$(ASV) machine --machine $(MACHINE) --yes >/dev/null
	@$(ASV_RUN) --machine $(MACHINE) --bench '$(BENCH)' --set-commit-hash $$(git rev-parse HEAD)

compare: .venv/.bench
	@$(ASV_RUN) --machine $(MACHINE) --bench just-discover --set-commit-hash $$(git rev-parse HEAD) >/dev/null
	@$(ASV) compare --machine $(MACHINE) $(A) $(B)

lint: .venv/.test
	@$(PY) -m ruff check .
	@$(PY) -m mypy

format: .venv/.test
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

# .venv/.core has the library; .venv/.test, .venv/.bench, .venv/.spark have it with that extra. Modules are compiled when
# they are imported, which most are not: compiling all of them takes 30 s of CPU.
.venv/.core: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer (with venv) is needed; none was found on PATH" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "setting up .venv ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-compile -c constraints.txt -e .
	@touch $@

# Tests begin with most kernels compiled: 50 s of CPU, on the core that pip leaves idle.
.venv/.test: BESIDE := $(PY) -m slicing warm >/dev/null
.venv/.%: .venv/.core
	@echo "adding to .venv what '$*' needs ..."
	@$(or $(BESIDE),:) & $(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-compile -c constraints.txt \
	-e '.[$*]' && wait && touch $@

# The oldest numpy has wheels for Python 3.11 and 3.12.
.venv-oldest/.test: pyproject.toml constraints-oldest.txt
	@$(OLDEST) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv-oldest
	@echo "setting up .venv-oldest ..."
	@$(OLDEST) -m pip install --quiet --disable-pip-version-check --no-input --no-compile -c constraints-oldest.txt -e '.[test]'
	@touch $@

docs: .venv/.docs
	@$(PY) -m mkdocs build --strict

docs-links: .venv/.core
	@$(PY) -m website.links

docs-look: .venv/.test
	@$(PY) -m pytest tests/documents/test_browser.py tests/documents/test_website.py

docs-serve: .venv/.docs
	@$(PY) -m mkdocs serve

clean:
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .asv asv_benchmarks/.asv *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-oldest
