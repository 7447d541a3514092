# Short names for the CMake presets. Each target does its own set-up; a second call is incremental
# and installs nothing.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
MODEL ?= tests/data/golden/trained_qwen3_moe
FUZZ_SECONDS ?= 60
TSAN_TESTS = invariance_test parallel_test arguments_test allocation_test golden_test load_test
CTEST = ctest --output-on-failure -j $(JOBS) --test-dir

# $(call build,<preset>,<targets>): configures once (ninja configures again when it must) and builds.
build = @test -f build/$(1)/build.ninja || cmake --preset $(1) --log-level=NOTICE; \
        cmake --build build/$(1) -j $(JOBS) $(if $(2),--target $(2))

.DEFAULT_GOAL := help
.PHONY: help setup build run test bench check format asan tsan fuzz shared test-aarch64 test-old-x86 install \
        ci clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile
	@echo "Variables: JOBS=$(JOBS) PREFIX=$(PREFIX) MODEL=$(MODEL) FUZZ_SECONDS=$(FUZZ_SECONDS)"

setup:
	@tools/setup build test

build: setup  ## Build the library, the program and the tests (build/release)
	$(call build,release)

run: setup  ## Run the MoE layers of MODEL, check them against recorded outputs, show speed and load
	$(call build,release,fusedmoe_cli)
	build/release/fusedmoe verify $(MODEL) --show

test: build  ## Build and run all tests
	$(CTEST) build/release

bench: setup  ## Build and run the benchmarks on this machine (minutes; not a test)
	$(call build,release,fusedmoe_cli)
	build/release/fusedmoe bench --shape all

check:  ## Check format, layering, headers and pages
	@tools/setup build test dev
	tools/check_format
	tools/check_layers.py
	tools/check_headers
	tools/check_docs.py

format:  ## Format all C++ files in place
	@tools/setup dev
	tools/check_format --fix

asan: setup  ## Run all tests under the address and undefined-behavior sanitizers
	$(call build,asan)
	$(CTEST) build/asan

tsan: setup  ## Run the tests that use threads under the thread sanitizer
	$(call build,tsan,$(TSAN_TESTS))
	$(CTEST) build/tsan -R '[Tt]hread|[Ii]nvarian|[Pp]arallel|[Ee]xecutor|[Ww]orkspace|Golden|Load' \
	  -E NOT_BUILT

fuzz:  ## Fuzz each parser for FUZZ_SECONDS
	@tools/setup build test fuzz
	$(call build,fuzz,fuzz_config fuzz_index fuzz_safetensors)
	tools/fuzz build/fuzz $(FUZZ_SECONDS)

shared:  ## Build the shared library with Clang and try it from another project
	@tools/setup build test dev
	$(call build,shared,fusedmoe fusedmoe_cli)
	$(CTEST) build/shared -R '^consumer'

test-aarch64:  ## Cross-compile for 64-bit Arm and compare its results with this machine's, bit by bit
	@tools/setup build test arm
	$(call build,release,fusedmoe_cli)
	$(call build,aarch64,fusedmoe_cli)
	tools/compare_machines build/release/fusedmoe build/aarch64/fusedmoe

test-old-x86:  ## Run golden checkpoints on emulated processors without AVX and without AVX-512
	@tools/setup build test arm
	$(call build,release,fusedmoe_cli)
	tools/verify_on_old_processors build/release/fusedmoe

install: setup  ## Install library, headers and program under PREFIX
	$(call build,release,fusedmoe fusedmoe_cli)
	cmake --install build/release --prefix $(PREFIX)

ci:  ## Everything that continuous integration runs
	.ci/run

clean:  ## Remove all build folders
	rm -rf build
