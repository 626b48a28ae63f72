# The two commands a newcomer needs are `make demo` and `make test`; each does its own set-up.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The same tools with the oldest transformers that the models support.
OLDEST := .venv-oldest
# And with another torch than constraints.txt names, the oldest unless told.
TORCH ?= 2.11.0
OTHER := .venv-torch-$(TORCH)
# Both distributions, as they are installed for work on them.
PACKAGES := $(if $(wildcard runtime/pyproject.toml),--editable ./runtime) --editable '.[dev]'
VERSIONS := constraints.txt pyproject.toml $(wildcard runtime/pyproject.toml)
# The runtime alone, as a device has it: no torch, no transformers.
RUNTIME := .venv-runtime
# What the tests run besides Python: g++ compiles what torch.compile writes.
PROGRAMS := g++

.PHONY: help setup system demo examples test long test-runtime test-oldest test-torch check bench docs clean

help:
	@echo "make demo    set up .venv, then train split_kv and standard on the embedded goals, compare and use them"
	@echo "make test    set up .venv (and g++, if root), then run the tests"
	@echo "make long    the tests that take minutes by their nature: many kills, repeated runs"
	@echo "make test-runtime  set up .venv-runtime, without torch and transformers, then run the runtime's tests"
	@echo "make test-oldest   set up .venv-oldest, then run the model tests with the oldest transformers supported"
	@echo "make test-torch   the tests with the oldest torch supported, or with TORCH=2.15.0 (with CUDA, some gigabytes)"
	@echo "make examples   the sources' worked examples with split attention"
	@echo "make check   linter, formatter, types, import contracts"
	@echo "make bench   split against standard attention on this machine"
	@echo "make docs    build the documentation into site/"
	@echo "make setup   only .venv;   make system   only the system's packages;   make clean   remove all .venvs and build files"

setup: $(READY)

$(READY): $(VERSIONS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Twofold needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || { rm -rf .venv; $(MAKE) --no-print-directory venv-package && $(PYTHON) -m venv .venv; }
	@echo "Installing Twofold and its tools into .venv (once, a few minutes)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(PACKAGES)
	@touch $@

# Debian ships Python without its venv module.
.PHONY: venv-package
venv-package:
	@test "$$(id -u)" = 0 || { echo "python3 -m venv does not work here; install Debian's python3-venv"; exit 1; }
	apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv

system:
	@for program in $(PROGRAMS); do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
	else echo "Not installed (no root):$$missing. Tests that need them are skipped and listed."; fi

demo: setup
	@$(BIN)/twofold demo

examples: setup
	@$(BIN)/python examples/worked_examples.py

test: setup system
	@$(BIN)/pytest --numprocesses auto --dist loadscope

long: setup system
	@$(BIN)/pytest --numprocesses auto -m long

test-runtime: $(RUNTIME)/.ready
	@! $(RUNTIME)/bin/python -c 'import torch' 2>/dev/null && ! $(RUNTIME)/bin/python -c 'import transformers' 2>/dev/null
	@$(RUNTIME)/bin/pytest runtime/tests

$(RUNTIME)/.ready: runtime/pyproject.toml constraints.txt
	@test -x $(RUNTIME)/bin/pip || $(PYTHON) -m venv $(RUNTIME)
	@$(RUNTIME)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable './runtime[text,images]' pytest hypothesis
	@touch $@

test-oldest: $(OLDEST)/.ready system
	@$(OLDEST)/bin/pytest --numprocesses auto --dist loadscope tests/models tests/outside tests/retrofit

test-torch: $(OTHER)/.ready system
	@$(OTHER)/bin/pytest --numprocesses auto --dist loadscope

# A .venv of its own: where, which pins of constraints.txt it leaves out, what it installs instead.
define another
	@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1)
	@grep -vE '^($(2))==' constraints.txt > $(1)/constraints.txt
	@echo "Installing Twofold and its tools into $(1) (once, a few minutes)"
	@$(1)/bin/pip install --quiet --disable-pip-version-check --constraint $(1)/constraints.txt $(PACKAGES) '$(3)'
	@touch $@
endef

$(OLDEST)/.ready: $(VERSIONS)
	$(call another,$(OLDEST),transformers|huggingface_hub,transformers==5.17.*)

$(OTHER)/.ready: $(VERSIONS)
	$(call another,$(OTHER),torch|triton,torch==$(TORCH))

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

bench: setup
	@$(BIN)/twofold bench attention

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "site/index.html"

clean:
	rm -rf .venv $(OLDEST) $(RUNTIME) .venv-torch-* site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
