# SPDX-License-Identifier: Apache-2.0
# The front door: `make run` and `make test` do everything on a fresh Debian 12, from packages to
# result. The build itself is CMake's (CMakeLists.txt, CMakePresets.json); this only calls it.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# What `make run` trains, in 8 bits and then in fp32; anything in ARGS comes after and wins.
DEMO = --data fashion-mnist --samples 25000 --epochs 2 --norm range-batchnorm --lr 0.05 --augment none --compare fp32
ARGS ?=

octet = build/release/octet
c_files = $(shell find include src programs tests examples -name "*.[ch]")

.DEFAULT_GOAL = build
.PHONY: setup setup-ci build run test quick bench install debug asan tsan clang min fuzz format \
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

bench: build
	@$(octet) bench step $(ARGS)
	@$(octet) bench kernels

install: build
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" >/dev/null
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true
	@echo "installed in $(DESTDIR)$(PREFIX)"

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
	@echo "make run       train ResNet-20 on Fashion-MNIST in 8 bits and in fp32, side by side"
	@echo "               (ARGS='--epochs 5' changes the run)"
	@echo "make test      build and run every test; make quick: those of the first minute"
	@echo "make bench     time the training step and the kernels"
	@echo "make install   PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make build     build/release/octet, liboctet.a, liboctet.so (what plain 'make' does)"
	@echo "make debug     build for a debugger"
	@echo "make asan, tsan, clang, min   build and test that preset"
	@echo "make fuzz      each fuzz target for a minute"
	@echo "make format    lay out the C files; make format-check only looks"
	@echo "make lint      clang-tidy, cppcheck, include order"
	@echo "make clean     remove build/"
