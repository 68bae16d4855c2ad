# The commands of the project. Each one installs what it needs first (scripts/setup.sh), and each is safe to repeat.
# Settings: DISC_VENV=DIR (the virtual environment, default .venv), FUZZ=SECONDS, PYTEST_ARGS="-k name", PEER_TESTS=DIR, PEER_ARGS="--sample 300", BENCH_ARGS="--suite memory", ARCH=aarch64 (the wheel's), CARGO_BUILD_JOBS=N.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

DISC_VENV ?= .venv
export DISC_VENV
VENV := $(abspath $(DISC_VENV))
PYTHON := $(VENV)/bin/python
STEP := scripts/step.sh
PYTEST_ARGS ?=
BENCH_ARGS ?=
PEER_TESTS ?=
PEER_ARGS ?=
FUZZ ?= 60
ARCH ?= x86_64

# Crates below LLVM: they build and test in seconds. disc-ral is a runtime without compiler, so without LLVM too.
WITHOUT_LLVM := disc-abi disc-options disc-import disc-ir disc-filetests disc-passes disc-kernel-macros disc-codegen disc-ral disc-capi disc-serve disc-simt xtask
WITH_LLVM := disc-llvm disc disc-cli
PACKAGES = $(addprefix --package ,$(1))

.PHONY: help setup demo examples zoo test test-tensorflow test-heavy test-simt test-aarch64 test-peer fuzz test-serving bench bench-gpu lint fmt wheel capi develop checks test-rust test-python clean-python sdist charts docs

help: ## say what the targets do
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: LLVM 22, a virtual environment, Python packages
	@scripts/setup.sh dev test

demo: setup develop ## compile BERT once, run it at 42 lengths, compare with eager PyTorch
	@$(PYTHON) examples/demo.py

examples: setup develop ## run every example and notebook, each as a user does
	@scripts/setup.sh examples
	@$(STEP) run "examples" scripts/pytest.sh tests/project/test_examples.py tests/project/test_zoo.py --examples all $(PYTEST_ARGS)

zoo: setup develop ## run some 160 architectures beside eager PyTorch, and write docs/models.md (an hour; it can be interrupted)
	@scripts/setup.sh examples
	@$(PYTHON) benches/zoo.py $(BENCH_ARGS)

test: setup checks test-rust develop test-python ## every check and test: formatting, clippy, tidy, Rust, Python
	@$(STEP) done "make test"

test-heavy: setup ## random programs and files for some minutes: fuzz of text, packages and the pipeline, soak of compiled code
	@$(STEP) run "fuzz, 20 s" cargo xtask fuzz --seconds 20
	@$(STEP) run "random packages, 60 s" env DISC_FUZZ_SECONDS=60 cargo test --package disc-ral --test package random
	@$(STEP) run "soak, 200 programs" cargo xtask soak --graphs 200

test-simt: setup ## the run corpus, the op matrix, random programs and counters on simulated GPUs; part of make test
	@$(STEP) run "simulated GPUs" cargo test --package disc --test simt --test counters

test-aarch64: setup develop ## all of the run corpus, the op matrix, random programs, five models as packages and the runtime, for AArch64 under qemu
	@rm -rf target/aarch64-packages
	@$(STEP) run "packages for AArch64" $(PYTHON) scripts/aarch64_packages.py target/aarch64-packages
	@DISC_AARCH64=all DISC_AARCH64_PACKAGES=$(CURDIR)/target/aarch64-packages cargo test --package disc --test aarch64
	@DISC_AARCH64=all $(STEP) run "runtime for AArch64" scripts/pytest.sh -n 0 tests/packages/test_aarch64.py

test-peer: setup develop ## run PyTorch's own tests of torch.compile with disc; PEER_TESTS=DIR is the folder test/ of a checkout of PyTorch
	@scripts/setup.sh peer
	@PYTHONPATH=tests/torch/compile:python $(PYTHON) -m peer.run --tests "$(PEER_TESTS)" $(PEER_ARGS)

fuzz: ## fuzz the reader of packages with libFuzzer, each target for FUZZ seconds; needs nightly Rust
	@$(STEP) run "libFuzzer, $(FUZZ) s a target" scripts/fuzz.sh $(FUZZ)

test-serving: setup develop ## the Ray Serve example on a cluster of two nodes, in an environment of its own
	@$(STEP) run "Ray Serve" scripts/test_serving.sh

bench: setup develop ## measure against eager, Inductor, ONNX Runtime and OpenVINO
	@scripts/setup.sh bench
	@$(PYTHON) benches/run.py $(BENCH_ARGS)

bench-gpu: setup develop ## measure on a GPU against eager, Inductor and JAX: three commands of 8 minutes, benches/gpu/README.md
	@status=0; for command in truth memory models; do $(PYTHON) benches/gpu/run.py $$command $(BENCH_ARGS) || status=1; done; exit $$status

lint: ## formatting, clippy, ruff and tidy
	@scripts/setup.sh dev
	@$(MAKE) --no-print-directory checks

fmt: ## format the Rust and Python sources
	@scripts/setup.sh dev
	@cargo fmt --all
	@$(VENV)/bin/ruff format --quiet .
	@$(VENV)/bin/ruff check --quiet --fix --select I .

wheel: ## build one abi3 wheel for manylinux_2_28 into dist/; ARCH=aarch64 builds it for that, and imports it under qemu
	@scripts/setup.sh dev wheel
	@scripts/wheel.sh $(ARCH)

sdist: ## build the source distribution into dist/
	@scripts/setup.sh dev
	@$(STEP) run "licences" cargo xtask licenses
	@$(STEP) run "sdist" $(VENV)/bin/maturin sdist --out dist

charts: setup ## draw the pictures of docs/images again, the chart from the newest record of a sentence encoder
	@$(PYTHON) scripts/pictures.py

docs: develop ## build the documentation site into dist/docs, and look at it, and at the page of `disc view`, in a headless Chromium
	@scripts/setup.sh docs
	@$(STEP) run "site" env NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict
	@$(STEP) run "pages" $(PYTHON) scripts/check_site.py dist/docs dist/docs-pictures
	@$(STEP) run "disc view" $(PYTHON) scripts/check_view.py dist/view

capi: ## build the C API: header and libraries into dist/capi/
	@$(STEP) run "C API" scripts/capi.sh dist/capi

clean-python: ## remove the virtual environment, the built extension and caches of Python tools
	rm -rf "$(VENV)" "$(VENV).lock" .tools .pytest_cache .ruff_cache .hypothesis
	rm -f python/disc/*.so
	find python tests benches examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The steps below are parts of the targets above.

checks:
	@$(STEP) run "rustfmt" cargo fmt --all --check
	@$(STEP) run "ruff check" $(VENV)/bin/ruff check .
	@$(STEP) run "ruff format" $(VENV)/bin/ruff format --check .
	@$(STEP) run "mypy" $(VENV)/bin/mypy
	@$(STEP) run "tidy" cargo xtask tidy
	@$(STEP) run "clippy" cargo clippy --workspace --all-targets -- -D warnings

test-rust:
	@$(STEP) run "tests without LLVM" cargo test $(call PACKAGES,$(WITHOUT_LLVM)) --features disc-ral/cuda
	@$(STEP) run "tests with LLVM" cargo test $(call PACKAGES,$(WITH_LLVM))

test-tensorflow: develop ## run the tests of the TensorFlow front end, in an environment that has TensorFlow (DISC_TENSORFLOW, 2.21.0)
	@$(STEP) run "TensorFlow" scripts/test_tensorflow.sh $(PYTEST_ARGS)

develop: setup
	@$(STEP) run "Python extension" scripts/develop.sh

test-python: setup
	@$(STEP) run "stubtest" scripts/stubtest.sh
	@$(STEP) run "Python tests" scripts/pytest.sh $(PYTEST_ARGS)
