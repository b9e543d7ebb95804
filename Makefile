# Muster's one command surface. Everything that is made lies in build/.
#   make demo    a distributed training job on this machine, from nothing
#   make test    all tests, from nothing
SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: tidy-gate configure build demo test unit e2e bench format check tidy sanitize fuzz clean deps help venv

PYTHON ?= python3
JOBS ?= $(shell nproc)

help:
	@sed -n 's/^#   //p' Makefile; echo "build bench format check tidy sanitize fuzz clean"

deps:
	@tools/install_deps.sh build

configure: deps
	@[ -f build/build.ninja ] || cmake --preset release

# The programs; tests are built by `make test`.
build: configure
	@cmake --build build -j $(JOBS) --target musterd muster muster-agent

venv:
	@tools/venv.sh demo

# The main job: chief and two workers train a classifier on real images.
demo: build venv
	@$(PYTHON) tools/demo.py

test: configure
	@cmake --build build -j $(JOBS)
	@tools/install_deps.sh test lint
	@$(MAKE) --no-print-directory check tidy-gate unit e2e

unit:
	@cd build && ctest --output-on-failure -j $(JOBS)

e2e:
	@tools/venv.sh test
	@build/venv/bin/python -m pytest tests/e2e -n $(JOBS)

# Format, the graph of modules, the scripts' syntax.
check:
	@tools/check_format.sh
	@$(PYTHON) tools/check_includes.py

format:
	@tools/install_deps.sh lint
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

# What `make test` holds clean; the rest follows module by module. All of it: make tidy.
tidy-gate:
	@tools/tidy.sh build $$(git ls-files 'src/base/*.cc' 'src/config/*.cc' 'src/control/*.cc' | grep -v _test.cc) > build/tidy.log 2>&1 \
	  || { grep -A3 'error:' build/tidy.log; exit 1; }
	@echo "clang-tidy: base, config and control are clean"

tidy:
	@tools/install_deps.sh build lint
	@[ -f build/clang/build.ninja ] || cmake --preset clang
	@cmake --build build/clang -j $(JOBS)
	@tools/tidy.sh build/clang

# The unit tests and simulations under address, undefined-behaviour and thread sanitizers.
sanitize:
	@tools/install_deps.sh build
	@tools/sanitize.sh asan
	@tools/sanitize.sh tsan

# SECONDS=600 for a longer run of each target.
SECONDS ?= 30
fuzz:
	@tools/install_deps.sh build lint
	@[ -f build/fuzz/build.ninja ] || cmake --preset fuzz
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@tools/fuzz.sh build/fuzz $(SECONDS)

bench: build
	@tools/venv.sh test
	@tools/venv.sh ray
	@build/venv/bin/python bench/control_plane.py

clean:
	@rm -rf build
