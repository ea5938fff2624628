# Everything sets itself up: a Python of 3.11 or later and make are all that has to be there.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# Four processes go through the tests in front of control planes, which mostly wait; the others have the cores.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 4)')
# Tests start hundreds of processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
SEED ?= 1
NODES ?= 4
# Every package comes at its pinned version and with one of its recorded hashes, or not at all.
VERIFIED := -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
PROJECT := -m pip install --quiet --disable-pip-version-check --no-deps
COMPILED_VENV := build/compiled
COMPILED_READY := $(COMPILED_VENV)/.ready
BENCH_VENV := $(if $(filter 0,$(COMPILED)),$(VENV),$(COMPILED_VENV))
COMPILED_TESTS := tests/compiled.py tests/scenarios tests/unit/state tests/unit/control tests/unit/engine \
  tests/unit/simulation/test_replay.py tests/unit/simulation/test_simulated_cluster.py tests/unit/store

.DEFAULT_GOAL := help
.PHONY: help properties test check format docs demo kubernetes replay bench soak constraints sbom clean web web-test screenshots wheel package test-compiled test-machine

help:
	@echo "make test    set up and run the tests        make check   format, lint, types, layers, docs"
	@echo "make demo    take the tour, in a minute      make bench   measure it"
	@echo "make kubernetes  try it on a control plane of this machine, with NODES=4 simulated GPU nodes"
	@echo "make replay  two real weeks of ten teams, with fixed parts and with guaranteed quotas"
	@echo "make soak    simulate seed after seed, from SEED=1, until one fails"
	@echo "make format  format and fix what can be      make docs    build the manual"
	@echo "make web     build the dashboard's page  make web-test  its unit tests and types"
	@echo "make wheel   build Weir with its engine compiled, which makes it faster, into dist/"
	@echo "make package build wheel and sdist, and try each in an empty environment"
	@echo "make sbom    write the bill of materials of what is shipped, as CycloneDX, into dist/"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Weir needs Python 3.11 or later; name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) $(VERIFIED)
	$(PY) $(PROJECT) --no-build-isolation -e .
	@touch $@

# The page of the dashboard; nothing is done if it is built from these very files.
web: $(READY)
	@$(PY) -m tools.web

web-test: $(READY)
	@$(PY) -m tools.web test

# Pictures of the dashboard for the docs, of a pool that it starts; they need chromium.
screenshots: $(READY) web
	@$(PY) -m tools.screenshots

test: $(READY) web
	@$(PY) -m tools.controlplane.binaries
	@$(PY) -m tools.node.programs
	@$(PY) -m tools.controlplane.operators
	@$(PY) -m tools.olm_validator
	@$(PY) -m tools.slurm.programs
	@$(PY) -m tools.prometheus
	@$(PY) -m tools.sessions.programs
	@$(PY) -m tools.compile_tests
	$(PY) -m pytest -n $(JOBS) $(ARGS)

check: $(READY) docs web-test
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy --strict src
	$(VENV)/bin/lint-imports

format: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

docs: $(READY)
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs docs/_build/html

demo: $(READY) web
	@$(PY) -m weir demo

kubernetes: $(READY)
	@$(PY) -m tools.controlplane --nodes $(NODES)

replay: $(READY)
	@$(PY) -m weir.cli.simulation.replay

# Of the engine as the wheel and the image have it, unless COMPILED=0.
bench: $(BENCH_VENV)/.ready
	$(BENCH_VENV)/bin/python -m bench $(ARGS)

# Compiled unless COMPILED=0. It takes three minutes of a processor and a C compiler.
wheel: $(READY) web
	rm -f dist/weir-*.whl
	WEIR_COMPILED=$(if $(filter 0,$(COMPILED)),0,1) \
	  $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

$(COMPILED_READY): pyproject.toml constraints.txt tools/compiled.py $(shell find src -name '*.py')
	$(MAKE) wheel COMPILED=1
	$(PYTHON) -m venv --clear $(COMPILED_VENV)
	$(COMPILED_VENV)/bin/python $(VERIFIED)
	$(COMPILED_VENV)/bin/python $(PROJECT) "$$(ls dist/weir-*.whl)"
	@touch $@

test-compiled: $(COMPILED_READY)
	$(COMPILED_VENV)/bin/python -m pytest -n $(JOBS) $(or $(ARGS),$(COMPILED_TESTS))

# Of a machine with systemd and version 2 of control groups alone. It needs root, and changes nothing here.
test-machine: $(READY)
	$(PY) -m tools.machine $(PY) -m pytest -n 0 --color=no $(or $(ARGS),tests/machine tests/users)

# Neither is compiled: compiling takes minutes and changes no metadata.
package: $(READY) web
	$(PY) -m tools.package_smoke

properties: $(READY)
	WEIR_EFFORT=20 $(PY) -m pytest -n $(JOBS) tests/properties tests/unit/scenario_io/test_properties.py \
	  tests/unit/kubernetes/state/test_any_order.py

soak: $(READY)
	$(PY) -m tests.simulation.simulate --from $(SEED)

# Versions stay as they are where they can; UPGRADE=--upgrade takes the newest.
constraints: $(READY)
	$(PY) -m uv pip compile --quiet pyproject.toml --all-extras --universal --generate-hashes --no-annotate \
	  --no-header $(UPGRADE) --output-file constraints.txt
	$(PY) -m uv pip compile --quiet tools/sessions/jupyter.in --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header $(UPGRADE) --output-file tools/sessions/jupyter.txt

# What an installation for a cluster and for PostgreSQL consists of, as CycloneDX.
sbom: $(READY)
	@mkdir -p build dist
	$(PY) -m uv pip compile --quiet pyproject.toml --extra server --extra kubernetes --extra postgres --universal --generate-hashes \
	  --no-annotate --no-header --constraints constraints.txt --output-file build/shipped.txt
	$(VENV)/bin/cyclonedx-py requirements build/shipped.txt --pyproject pyproject.toml --output-reproducible \
	  --of JSON --output-file dist/weir.cdx.json
	@echo "dist/weir.cdx.json"

clean:
	rm -rf $(VENV) web/node_modules src/weir/dashboard/page .cache .pytest_cache .mypy_cache .ruff_cache docs/_build dist build
