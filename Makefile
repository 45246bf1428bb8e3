# Each target does its own set-up: a .venv and what the target needs in it. A second run installs nothing.
#
#   make demo    one self-contained page from a small recorded trace, under demo/
#   make test    everything that can be checked here; what cannot is skipped with its reason
#   make check   the static part of it: style, types, order of imports
#   make bench   load times and page sizes; TRACES="a.json.gz b.json.gz" names other files
#   make lab     JupyterLab on notebooks/
#   make clean   removes all that make has made

# What `test`, `check` and `bench` install beside the core; CI adds torch.
EXTRAS ?= dev
TRACES ?=
export PYTHON

venv := .venv
bin := $(venv)/bin
# Names of stamps: a list of extras holds no space ("dev, torch" is "dev,torch").
empty :=
space := $(empty) $(empty)
tools := $(venv)/.installed-$(subst $(space),,$(EXTRAS))
build_inputs := pyproject.toml hatch_build.py $(wildcard gpuviz/_native/*.c)

.DELETE_ON_ERROR:
.PHONY: demo test check bench lab clean engine

demo: $(venv)/.installed-core
	$(bin)/python -m gpuviz.demo

test: check engine
	$(bin)/pytest

check: $(tools)
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports --no-cache

engine:
	tools/test_engine.sh

bench: $(tools)
	$(bin)/python tools/bench.py $(TRACES)

lab: $(venv)/.installed-lab
	$(bin)/jupyter lab notebooks/

clean:
	rm -rf $(venv) build dist demo/*.html gpuviz/_native/*.so gpuviz/_native/*.dylib
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(venv)/.installed-core: $(build_inputs) | $(bin)/python
	$(bin)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# An install with extras is a core install too.
$(venv)/.installed-%: $(build_inputs) | $(bin)/python
	$(bin)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@ $(venv)/.installed-core

$(bin)/python:
	python=$$(tools/find_python.sh) && "$$python" -m venv $(venv)
