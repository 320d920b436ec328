# Thin: the work is described in tests/support/setup.sh, CMakeLists.txt and tests/run. Nothing outside the checkout is
# touched but by the package manager, and in one cache folder.
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/mlk
export CCACHE_DIR := $(CACHE)/ccache
# One cache for all checkouts. Not in ccache's depend mode: the groups of a unity build name their files by absolute paths, so
# that what is the same in another checkout is their preprocessed text alone.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
JOBS := $(shell nproc 2>/dev/null || echo 2)

.PHONY: help build demo test soak bench format lint
help:
	@echo "make build    build/mlk and build/mlk-runtime"
	@echo "make demo     build, then train examples/digits-ps.yaml on this machine"
	@echo "make test     all tests, on a real cluster too (tests/run --list: parts of it)"
	@echo "make soak     runs of the runtime disturbed at random, 1000 processes killed (MLK_SOAK_KILLS, MLK_SOAK_SEED)"
	@echo "make bench    figures beside those of peers: a table and build/bench.json"
	@echo "make format   clang-format over all sources that changed since they were checked"
	@echo "make lint     compiler and clang-tidy over each source that changed since it was clean: 30 to 50 minutes at first"

build:
	@tests/support/setup.sh build
	@test -f build/build.ninja || cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS) --target mlk mlk-runtime

demo: build
	@tests/support/demo.sh

test:
	@tests/support/setup.sh test
	@tests/run

soak: build
	@tests/support/setup.sh test
	@tests/run soak

bench: build
	@tests/support/setup.sh test
	@tests/bench/run

format:
	@tests/support/setup.sh format
	@tests/format --fix

lint: build
	@tests/support/setup.sh lint
	@tests/lint --all
