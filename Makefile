# Every target sets up .venv by itself and does nothing again while it is current. `setup` and `demo` also compile the
# timing engine and Graphviz, so that no later command waits for them; tests do so while others run.
# PYTHON: the interpreter (3.11 or newer). PIP_FLAGS: more flags for pip, e.g. an index with CPU builds of torch.
PYTHON ?= python3
PIP_FLAGS ?=
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/archloom.installed
STAMP := $(VENV)/archloom.stamp
DOCS_STAMP := $(VENV)/archloom-docs.stamp

# modules are compiled to bytecode once, not by every process again
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-docs test-site lint bench networks-cores outlines docs clean

help:
	@echo "make demo       train, quantize, compile and run the digits network on Gemmini (build/demo)"
	@echo "make test       the tests;  make test-slow: the long ones too"
	@echo "make test-docs  all blocks of the docs, and the site and reports in a browser (where chromium is installed)"
	@echo "make lint       ruff, mypy and import-linter"
	@echo "make bench      what benchmarks/figures.toml defines, from where it stopped (benchmarks/RESULTS.md)"
	@echo "make networks-cores  all small networks on small meshes and triple rings of cores (half an hour)"
	@echo "make outlines   networks by name without weights, as estimates read them, after a change of models/"
	@echo "make docs       the pages of docs/ as a site in build/site"
	@echo "make clean      remove build/ and the caches of the tools"

setup: $(STAMP)

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile $(PIP_FLAGS) -c constraints.txt -e '.[dev,search,cluster]'
	@touch $@

$(STAMP): $(INSTALLED)
	$(PY) -c "from archloom.acadl_models.timing.engine import warmup; warmup()"
	$(PY) -c "from archloom.acadl_models.acadl.graphviz import warmup; warmup()"
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile $(PIP_FLAGS) -c constraints.txt -e '.[docs]'
	@touch $@

demo: $(STAMP)
	$(PY) examples/demo.py

test: $(INSTALLED)
	$(PY) -m pytest -q -n 2 --dist worksteal -m "not slow"

test-slow: $(STAMP)
	$(PY) -m pytest -q -n 2 --dist worksteal --hypothesis-profile=thorough

test-docs: $(DOCS_STAMP)
	$(PY) -m pytest -q -n 2 --dist worksteal tests/test_pages.py tests/test_site.py tests/tvm_backend/page

test-site: $(DOCS_STAMP)
	$(PY) -m pytest -q tests/test_site.py tests/tvm_backend/page

lint: $(INSTALLED)
	$(PY) -m ruff check .
	$(PY) -m mypy --num-workers 2
	$(VENV)/bin/lint-imports --no-cache

bench: $(STAMP)
	$(PY) benchmarks/run_all.py

networks-cores: $(STAMP)
	$(PY) benchmarks/run.py networks --size tiny --targets mesh --options x=2,y=2
	$(PY) benchmarks/run.py networks --size tiny --targets triple_ring --options rows=2,columns=2

outlines: $(INSTALLED)
	$(PY) -m archloom.tvm_backend.sources.shipping

docs: $(DOCS_STAMP)
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site

clean:
	rm -rf build .pytest_cache .hypothesis .mypy_cache .ruff_cache
