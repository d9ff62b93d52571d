# SPDX-License-Identifier: Apache-2.0
# The front door: `make run` and `make test` do everything on a fresh Debian 12, from packages to
# result. The build itself is CMake's (CMakeLists.txt, CMakePresets.json); this only calls it.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# What `make run` trains: the defaults (8 nodes on a directed ring, skew 0.8, CHOCO with quasi-global momentum, int8
# messages and arithmetic, ResNet-20 on Fashion-MNIST), cut to a minute and a half on two cores. Anything in ARGS
# comes after and wins.
DEMO = --samples 25000 --epochs 3 --batch 8 --lr 0.05 --schedule cosine --augment none
ARGS ?=

octet = build/release/octet
c_files = $(shell find include src programs tests examples -name "*.[ch]")

.DEFAULT_GOAL = build
.PHONY: setup setup-ci build run test quick bench bench-kernels install bundle debug asan tsan clang min fuzz format \
        format-check lint layers clean help

setup:
	@scripts/setup

setup-ci:
	@scripts/setup ci

build: setup
	@scripts/build release $(JOBS)

run: build
	@$(octet) train $(DEMO) $(ARGS)

test: build
	@scripts/test release -j $(JOBS)

quick: build
	@scripts/test release -j $(JOBS) -L quick

# Without PyTorch, Octet is timed alone; setup has said what is missing.
bench: build
	@scripts/setup golden || true
	@python3 -B bench/compare.py --octet $(octet) $(ARGS)

bench-kernels: build
	@$(octet) bench kernels $(ARGS)

install: build
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" >/dev/null
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true
	@echo "installed in $(DESTDIR)$(PREFIX)"

bundle: build
	@scripts/bundle

debug: setup
	@scripts/build debug $(JOBS)

asan: setup
	@scripts/build asan $(JOBS)
	@scripts/test asan -j $(JOBS)

tsan: setup-ci
	@scripts/build tsan $(JOBS)
	@scripts/test tsan -L threads

clang: setup-ci
	@scripts/build clang $(JOBS)
	@scripts/test clang -j $(JOBS) -L quick

min: setup
	@scripts/build min $(JOBS)
	@scripts/test min -j $(JOBS)

fuzz: setup-ci
	@scripts/build fuzz $(JOBS)
	@scripts/fuzz build/fuzz 60

format: setup-ci
	@clang-format -i $(c_files)

format-check: setup-ci
	@clang-format --dry-run -Werror $(c_files)

lint: setup-ci
	@scripts/lint

layers:
	@tests/layers/layers.sh .

clean:
	@rm -rf build

help:
	@echo "make run       8 nodes on a ring, each with mostly 2 of 10 classes, train a ResNet-20 in 8 bits"
	@echo "               (ARGS='--epochs 8' changes the run)"
	@echo "make test      build and run every test; make quick: those of the first minute"
	@echo "make bench     the training step against PyTorch's: a table, JSON and a chart in build/bench"
	@echo "               (3 minutes; ARGS='--only octet' or '--only peers': one side;"
	@echo "               ARGS=--docs: into docs/; make bench-kernels: kernel by kernel)"
	@echo "make install   PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make bundle    build/octet-VERSION-MACHINE.tar.gz: the program with its libraries, to unpack anywhere"
	@echo "make build     build/release/octet, liboctet.a, liboctet.so (what plain 'make' does)"
	@echo "make debug     build for a debugger"
	@echo "make asan, tsan, clang, min   build and test that preset"
	@echo "make fuzz      each fuzz target for a minute"
	@echo "make format    lay out the C files; make format-check only looks"
	@echo "make lint      clang-tidy, cppcheck, include order"
	@echo "make clean     remove build/"
