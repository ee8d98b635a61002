# The two entry points of a newcomer are `make demo` (the main job) and `make test`. Each sets up its own
# virtual environment in .venv the first time and does not install again until pyproject.toml or
# constraints.txt changes. Variables: PYTHON (to make the environment with), VENV (where it lies).

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
VLLM_PIP = $(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
QUICK := not gpu and not vllm and not slow and not corpus

TORCH_VERSION := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

EXAMPLE := kernels_examples/rms_norm/reference.py
DEMO_OUT := build/demo

.PHONY: schemas help demo test lint judge gpu slow soak vllm clean
.DELETE_ON_ERROR:

help:
	@echo "make demo   optimise an example on this machine and use the written extension"
	@echo "make test   lint, types, import contracts and every quick test"
	@echo "make lint   lint, types and import contracts only"
	@echo "make slow   the tests left out of make test because they take long"
	@echo "make soak   a hundred SIGKILLs during runs"
	@echo "make judge  the whole planted corpus before the judge (about 20 minutes)"
	@echo "make gpu    the tests that need a CUDA device"
	@echo "make vllm   the tests that need a vLLM server"
	@echo "make clean  remove what the targets above made, the virtual environment included"

demo: $(VENV)/.user
	$(BIN)/kevin optimize $(EXAMPLE) --device auto --baseline eager --trajectories 1 --out $(DEMO_OUT)
	$(BIN)/python kernels_examples/use_extension.py $(EXAMPLE) $(DEMO_OUT)/rms_norm_kevin

# Unit tests run two at a time; whatever measures time has the machine to itself.
test: lint
	$(PYTEST) tests/unit -m "$(QUICK)" -n 2 --dist loadgroup
	$(PYTEST) tests --ignore tests/unit -m "$(QUICK)"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(VENV)/.dev
	$(PYTEST) tests -m "slow and not gpu and not vllm"

# After a change of what is printed or recorded.
schemas: $(VENV)/.user
	$(BIN)/python -m kevin_cli.commands.schemas

soak: $(VENV)/.dev
	KEVIN_KILLS=100 $(PYTEST) tests/soak -x

# All of it, the sample of `make test` included.
judge: $(VENV)/.dev
	$(PYTEST) tests/judge/test_corpus.py -m "not gpu"

gpu: $(VENV)/.dev
	$(PYTEST) tests -m gpu

vllm: $(VLLM_VENV)/.ready
	$(VLLM_VENV)/bin/python -m pytest tests/vllm -m vllm -v -rA

clean:
	rm -rf $(VENV) $(VLLM_VENV) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# torch first and by name: on a machine without a GPU the CPU build, never the CUDA build of several GB.
$(VENV)/.torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("kevin needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	if nvidia-smi --list-gpus >/dev/null 2>&1; then \
		$(PIP) torch==$(TORCH_VERSION); \
	else \
		$(PIP) torch==$(TORCH_VERSION)+cpu || $(PIP) --index-url $(TORCH_CPU_INDEX) torch==$(TORCH_VERSION)+cpu; \
	fi
	touch $@

# vLLM for a CPU, in an environment of its own: four GB, and packaging under the GPL, so nothing else ever uses it.
# On a machine with a GPU name the environment of a vLLM that is there: make vllm VLLM_VENV=...
$(VLLM_VENV)/.ready: tests/vllm/requirements.txt
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PIP) torch==$(TORCH_VERSION)+cpu || $(VLLM_PIP) --index-url $(TORCH_CPU_INDEX) torch==$(TORCH_VERSION)+cpu
	$(VLLM_PIP) --requirement tests/vllm/requirements.txt
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	$(VLLM_VENV)/bin/python tests/vllm/prepare.py
	$(VLLM_PIP) --editable '.[sandbox]' 'pytest>=8.4' 'pytest-timeout>=2.4'
	touch $@

$(VENV)/.user: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[sandbox]'
	touch $@

# What training needs is there too, so that its tests run; DeepSpeed without compiling its kernels.
$(VENV)/.dev: $(VENV)/.user
	DS_BUILD_OPS=0 $(PIP) --editable '.[dev,sandbox,train,zero,plots]'
	touch $@
