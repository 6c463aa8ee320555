# A thin front to CMake. `make` builds the programs into build/release/bin; `make help` lists the rest.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
VENV := build/venv
PERF_ANALYZER := build/perf-analyzer
# The thread sanitizer of GCC 12 cannot place its shadow under newer kernels' address randomisation.
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.DEFAULT_GOAL := build
.PHONY: build programs help deps test-deps demo test check unit asan tsan rdma e2e bench format format-check compose-test sweep sweep-random clean

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

deps:
	@scripts/install-deps

test-deps: $(VENV)/.installed $(PERF_ANALYZER)/perf_analyzer
	@scripts/install-deps --test

$(VENV)/.installed: tests/requirements.txt
	@scripts/install-deps --test
	@scripts/make-venv $(VENV) tests/requirements.txt

$(PERF_ANALYZER)/perf_analyzer: scripts/get-perf-analyzer $(VENV)/.installed
	@scripts/get-perf-analyzer $(PERF_ANALYZER) $(VENV)/bin/python

build: deps ## build the release preset into build/release/bin
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

programs: deps ## build what users run, and no tests or benchmarks
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target programs

demo: ## install, build, start all, classify pictures, stop
	@echo "== Building Fermata"
	@scripts/quietly build/demo/packages.log "Packages and libraries" scripts/install-deps
	@scripts/quietly build/demo/configure.log "Configuration" cmake --preset release
	@scripts/quietly build/demo/build.log "Programs" cmake --build --preset release -j $(JOBS) --target programs
	@echo
	@scripts/demo build/release/bin

test: ## all checks and tests
	@scripts/install-deps --test
	@$(MAKE) -j 2 --no-print-directory test-deps build # one waits for the network, the other for the compiler
	@$(MAKE) -j 1 --no-print-directory check unit asan tsan e2e rdma

check: test-deps build ## format, length of functions, dependencies, second compiler
	scripts/format --check
	scripts/check-deps
	scripts/check-functions
	scripts/check-dialect
	scripts/check-docs
	scripts/draw-modules --check
	scripts/check-clang build/release $(JOBS)

unit: build ## unit tests, release
	ctest --preset release -LE 'e2e|bench' -j $(JOBS)

asan: deps ## unit tests with address, leak and behaviour sanitizers
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS) --target unit-tests
	ctest --preset asan -j $(JOBS)

tsan: deps ## unit tests that have threads, with the thread sanitizer
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS) --target unit-tests
	$(NO_ASLR) ctest --preset tsan -j $(JOBS)

rdma: test-deps ## the build with RDMA, its tests, the data plane over UCX
	@scripts/install-deps --rdma
	cmake --preset rdma
	cmake --build --preset rdma -j $(JOBS) --target programs \
	    transfer_fetch transfer_push transfer_relink transfer_ucx transfer_rdma transfer_rdma_buffers transfer_rdma_device \
	    transfer_rdma_memlock transfer_rdma_refused transfer_rdma_stuck
	ctest --preset rdma -R '^(transfer/(.*(ucx|rdma)|relink)|e2e/rdma)' -j $(JOBS)

e2e: test-deps build ## the running system against stock clients
	ctest --preset release -L e2e -j $(JOBS)

bench: build ## measure, and print each figure beside its goal
	tests/bench/run-all build/release/bin

format: test-deps ## format the C sources
	scripts/format

format-check: test-deps ## check the format of the C sources
	scripts/format --check

compose-test: ## build the image, run compose.yaml with podman (as root)
	deploy/compose-test

sweep: build ## simulate Symphony's Table 1 (hours; resumes)
	build/release/bin/fermata-sim scenario --dir tests/sim/sweeps table1 --resume build/sweep.txt --out build/sweep.md

sweep-random: build ## compare the policies on 40 random workloads (10 minutes)
	tests/sim/random-workloads --requests 1500 --seeds 4 --jobs $(JOBS) --out build/sweep-random.md

clean: ## remove everything that was built
	rm -rf build
