# Every task of the project. `make` alone lists them. A virtual environment in .venv is made when it is missing.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One torch thread per test process: two threads beside other work slow small operations many times.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-seeds test-slow test-browser test-ray test-ecosystem test-labelstudio campaign hashes audit chromium dist test-dist oracle check check-types format peers speed benchmark site screenshots clean

help: ## list every task
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# A bare environment first (what `pip install askless` gives), tried before any developer's tool is there to hide a gap.
.stamps/bare: pyproject.toml constraints.txt
	rm -rf .venv .stamps && mkdir -p .stamps
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	$(BIN)/python -c "import askless; print('bare install: askless', askless.__version__)"
	$(BIN)/askless --help > /dev/null
	$(BIN)/askless strategies > /dev/null
	@touch $@

.stamps/dev: .stamps/bare
	$(PIP) -e '.[dev]'
	@touch $@

install: .stamps/dev ## make .venv with askless and the developers' tools

demo: .stamps/bare ## askless against random on the digits, about two minutes; writes demo/report.html
	$(BIN)/askless demo --out demo

test: .stamps/dev check ## check format, lint and types, then run the tests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist loadfile

test-seeds: .stamps/dev ## every fast test that draws numbers, under 50 seeds: an hour or two, resumed where it was stopped
	$(ONE_THREAD) $(BIN)/python tools/seed_audit.py

test-slow: .stamps/dev ## the tests that take minutes
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m slow

# What people use instead, in an environment of their own: they need not agree with ours on versions.
.stamps/peers: benchmarks/peers/requirements.txt constraints.txt
	rm -rf .venv-peers && mkdir -p .stamps
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	@touch $@

peers: .stamps/peers ## make .venv-peers with the libraries that the speed suite compares with

speed: .stamps/dev .stamps/peers ## how fast it is, against floors, references and peers; writes benchmarks/results
	$(BIN)/python benchmarks/speed.py

# Debian's Chromium; elsewhere install any Chromium or Chrome and set CHROMIUM to its path.
chromium:
	@command -v "$${CHROMIUM:-chromium}" > /dev/null || { \
	  echo "installing Chromium for the page's tests"; \
	  as=; [ "$$(id -u)" = 0 ] || as=sudo; \
	  $$as apt-get update -qq > /dev/null 2>&1 || true; \
	  $$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; }

test-browser: .stamps/dev chromium ## the page in headless Chromium; screenshots in build/screenshots
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m browser tests/label

# Ray alone is 0.7 GB: it has its own stamp, and everything else works without it.
.stamps/ray: .stamps/dev
	$(PIP) -e '.[dev,ray]'
	@touch $@

test-ray: .stamps/ray ## what runs on Ray: embedding in actors, benchmark cells as tasks, killed workers
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m ray

# The packages that askless works with (transformers, onnxruntime, mlflow, ...), in an environment of their own.
.stamps/ecosystem: pyproject.toml constraints.txt
	rm -rf .venv-ecosystem && mkdir -p .stamps
	$(PYTHON) -m venv .venv-ecosystem
	.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ecosystem]'
	@touch $@

test-ecosystem: .stamps/ecosystem ## askless with timm, transformers, datasets, ONNX, trackers, scikit-activeml, baal
	$(ONE_THREAD) .venv-ecosystem/bin/python -m pytest -q -m ecosystem

# neural-tangents, a second opinion on kernels of infinite width: jax of its time and numpy 1, so an environment of its own.
.stamps/oracle: benchmarks/oracle/requirements.txt
	rm -rf .venv-oracle && mkdir -p .stamps
	$(PYTHON) -m venv .venv-oracle
	.venv-oracle/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-oracle/bin/python -m pip install --quiet --disable-pip-version-check --no-deps neural-tangents==0.6.5
	@touch $@

oracle: .stamps/oracle ## remake the kernels of neural-tangents that the tests compare with
	.venv-oracle/bin/python benchmarks/oracle/kernels.py

# Label Studio, a server of its own with hundreds of packages, in an environment of its own.
.stamps/labelstudio: tests/label/labelstudio-requirements.txt
	rm -rf .venv-labelstudio && mkdir -p .stamps
	$(PYTHON) -m venv .venv-labelstudio
	.venv-labelstudio/bin/python -m pip install --quiet --disable-pip-version-check -r tests/label/labelstudio-requirements.txt
	@touch $@

test-labelstudio: .stamps/dev .stamps/labelstudio ## askless with a real server of Label Studio, on this computer with SQLite
	$(ONE_THREAD) ASKLESS_LABEL_STUDIO=$(CURDIR)/.venv-labelstudio/bin/label-studio $(BIN)/python -m pytest -q -m labelstudio tests/label

# What must not break, attacked: each prints how often, and SECURITY.md has the numbers with their date.
ATTACKS := tests/label/test_kill.py tests/run/test_crash.py tests/label/test_openapi.py tests/sources/test_fuzz.py \
  tests/cli/test_command_lines.py tests/cli/test_full_disk.py tests/run/test_machine.py tests/acquire/test_contract.py
campaign: export ASKLESS_KILLS ?= 1000
campaign: export ASKLESS_CRASH_IMAGES ?= 500
campaign: export ASKLESS_FUZZ_CASES ?= 20000
campaign: export ASKLESS_CLI_FUZZ ?= 3000
campaign: export ASKLESS_MACHINE_STEPS ?= 100000
campaign: .stamps/dev ## attack at full size: kills, power cuts, requests, files, command lines, full disks; an hour or two
	@mkdir -p build
	set -o pipefail; $(ONE_THREAD) $(BIN)/python -m pytest -q -s -m slow $(ATTACKS) | tee build/campaign.log
	@grep -oE '[a-z ]+:? [0-9,]+( steps)?[:,] 0 .*' build/campaign.log

hashes: .stamps/dev ## constraints-hashed.txt: the pinned versions with the hashes of their files
	$(BIN)/python tools/hashes.py

# pip-audit asks PyPI, so this needs a network; a version that cannot be looked up fails it, too.
audit: ## look every pinned version up among the known vulnerabilities
	[ -d .venv-audit ] || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes -r constraints-hashed.txt

dist: .stamps/dev ## build the wheel and the source archive into dist, and check them
	rm -rf dist
	$(PIP) build twine
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*

# Each in a bare environment of its own, first steps included. Elsewhere than on Python 3.11 the newest versions are taken.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
test-dist: dist ## install the wheel on every Python of PYTHONS that is here, and try it
	@set -e; for python in $(PYTHONS); do \
	  $$python -c '' 2> /dev/null || { echo "$$python is not here: not tried"; continue; }; \
	  pins=; [ "$$($$python -c 'import sys; print(sys.version_info[:2] == (3, 11))')" = True ] && pins="-c constraints.txt"; \
	  rm -rf build/bare && $$python -m venv build/bare; \
	  build/bare/bin/python -m pip install --quiet --disable-pip-version-check $$pins dist/*.whl; \
	  $(ONE_THREAD) build/bare/bin/python -I tests/bare/try_install.py; \
	done; rm -rf build/bare

check: .stamps/dev ## format, lint and types, nothing changed
	$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && $(BIN)/mypy

# pyright is a program for node: npm brings it into a folder of its own. baal and scikit-activeml are not in .venv.
.stamps/pyright:
	mkdir -p .stamps
	npm install --silent --no-save --no-fund --no-audit --prefix .venv-pyright pyright@1.1.414
	@touch $@

check-types: .stamps/dev .stamps/pyright ## what editors say of the examples, those of the pages too: pyright in basic mode; needs npm
	$(BIN)/python tools/page_examples.py
	.venv-pyright/node_modules/.bin/pyright --pythonpath $(BIN)/python

format: .stamps/dev ## format and mend what can be mended
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

benchmark: .stamps/dev ## speed of the augmented views, and of the page under load
	$(ONE_THREAD) $(BIN)/python benchmarks/views.py
	$(ONE_THREAD) $(BIN)/python benchmarks/labelling.py

# Sphinx in an environment of its own; the pages are made in .venv, for the docstrings. The site needs nothing from elsewhere.
.stamps/site: tools/site.txt
	rm -rf .venv-site && mkdir -p .stamps
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -r tools/site.txt
	@touch $@

site: .stamps/site .stamps/dev ## the documentation as a site in build/site, to be read from there or served; a broken link fails
	$(BIN)/python tools/stage_site.py
	.venv-site/bin/python -m sphinx -q -W --keep-going -b html -c tools/sphinx -d build/site-cache build/site-pages build/site
	@echo "open build/site/index.html"

screenshots: .stamps/dev chromium ## the pictures of the page in docs/pictures, in headless Chromium; after `askless data fetch groceries`
	$(ONE_THREAD) $(BIN)/python tools/screenshots.py

clean: ## remove the environment and everything made
	rm -rf .venv .venv-* .stamps demo build dist .pytest_cache .ruff_cache .mypy_cache
