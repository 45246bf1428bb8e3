# Each target does its own set-up: a .venv and what the target needs in it. A second run installs nothing.
#
#   make demo    under demo/: a self-contained page from a small recorded trace, then a profiled notebook
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

# The page comes first: it needs a small install only. The notebook trains a model, so it needs PyTorch.
demo: $(venv)/.installed-core
	$(bin)/python -m gpuviz.demo
	@test -e $(venv)/.installed-demo || echo "Next, a notebook that trains a small model under %%gpuprofile, on this CPU and a modelled GPU." \
	    "That installs PyTorch into $(venv): about 3 GB to download and 6 GB on disk where it is not there yet." \
	    "Stop here with Ctrl-C if that is too much: the page is done."
	$(MAKE) --no-print-directory $(venv)/.installed-demo
	$(bin)/python tools/run_notebook.py notebooks/01_first_profile.ipynb demo

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
	$(bin)/python benchmarks/load.py $(TRACES)

lab: $(venv)/.installed-lab
	$(bin)/jupyter lab notebooks/

clean:
	rm -rf $(venv) build dist demo gpuviz/_native/*.so gpuviz/_native/*.dylib
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
