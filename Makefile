# The entry point. CMake does the work (CMakeLists.txt, CMakePresets.json); everything it makes is in build/<preset>.

JOBS    ?= $(shell nproc)
# Tests wait for each other's processes more than they compute.
TEST_JOBS ?= $(shell expr 2 \* $(JOBS))
PRESET  ?= release

# What `make demo` trains; any of them can be given: make demo EPOCHS=5 CONSISTENCY=ssp:4
MODEL       ?= lenet
DATA        ?= fashion-mnist
WORKERS     ?= 2
SERVERS     ?= 1
EPOCHS      ?= 2
CONSISTENCY ?= bsp
ARGS        ?=

.DEFAULT_GOAL := help
# How long `make soak` runs, in all; more flags for it.
SOAK_MINUTES ?= 60
SOAK_ARGS    ?=

# Where `make install` puts Trireme; DESTDIR is put before it, for packaging.
PREFIX ?= /usr/local
# How long `make fuzz` searches, per target; which targets.
MINUTES      ?= 1
FUZZ_TARGETS ?= $(patsubst tests/fuzz/%_fuzz.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))

.PHONY: help demo build test test-all test-clusters run-tests asan asan-core tsan fuzz bench soak partitions meshes check format tidy thread-safety public-headers clean deps deps-minimal programs install package

help:
	@echo "Trireme trains neural networks on many processes."
	@echo
	@echo "  make demo     install what is missing, build, and train LeNet on Fashion-MNIST"
	@echo "                with $(WORKERS) workers and $(SERVERS) server; change it like this:"
	@echo "                    make demo EPOCHS=5 WORKERS=4 SERVERS=2 CONSISTENCY=ssp:4"
	@echo "                    make demo DATA=synthetic ARGS='--lr 0.01 --out runs/mine'"
	@echo "                    make demo ARGS='--strategy allreduce'"
	@echo "  make test     install what is missing, build, and run every check and test"
	@echo "  make install  build, and install the command, the library and its headers  (PREFIX=$(PREFIX))"
	@echo "  make package  the same as Debian packages: build/$(PRESET)/packages/*.deb"
	@echo "  make bench    measure the parameter server and all-reduce, beside this machine's raw speed and OpenMPI and gloo"
	@echo "  make soak     train for $(SOAK_MINUTES) minutes with faults of every kind, on every strategy in turn, and check for leaks"
	@echo "                (SOAK_MINUTES=5 SOAK_ARGS='--every 20')"
	@echo "  make meshes      train on meshes of 1, 2, 3, 4, 6 and 8 workers, and print the bits that each ends with"
	@echo "  make partitions  cut every pair of roles off from each other, for 5 s, 30 s and for good, and print what a job does"
	@echo "                (half an hour; ARGS='--jobs 3 worker-server 5s': only some)"
	@echo
	@echo "For developers:"
	@echo "  make deps     install the Debian packages that all of this needs; the other targets do it too"
	@echo "  make build    build everything into build/release  (PRESET=debug: build/debug)"
	@echo "  make check    layers, files, documents, words, events, format: the checks that need no build"
	@echo "  make test-all make test, thread-safety and public-headers, then the Debian packages in a clean Debian  (slow)"
	@echo "  make test-clusters  jobs under a real Slurm, which it starts on this machine (as root)"
	@echo "  make asan     all tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "  make asan-core  the same without LibTorch, which is much faster"
	@echo "  make tsan     the tests without LibTorch under ThreadSanitizer"
	@echo "  make fuzz     search for input that breaks a reader, $(MINUTES) min for each target (MINUTES=10 FUZZ_TARGETS='csv idx')"
	@echo "  make tidy     clang-tidy over all sources  (FILES='a.cc b.cc': only these; FILES=--changed: since the last tag, or 50 commits)"
	@echo "  make thread-safety   Clang's analysis of locks  (FILES: as above)"
	@echo "  make public-headers  check that public headers compile alone, and measure how long they take beside LibTorch's own"
	@echo "  make format   format the sources with clang-format"
	@echo "  make clean    remove build/"
	@echo
	@echo "JOBS=$(JOBS) compilers and TEST_JOBS=$(TEST_JOBS) tests run at a time. The program is build/release/bin/trireme --help."

deps:
	@tools/install_dependencies

deps-minimal:
	@tools/install_dependencies --minimal

# Without the tests, so that a first look needs neither GoogleTest nor their compile time.
demo: deps-minimal
	@tools/fetch_page_packages
	@cmake --preset release -DTRIREME_BUILD_TESTS=OFF
	@cmake --build --preset release --parallel $(JOBS) --target trireme trireme-worker
	build/release/bin/trireme train --model $(MODEL) --data $(DATA) --workers $(WORKERS) --epochs $(EPOCHS) \
	  $(if $(findstring --strategy,$(ARGS)),,--servers $(SERVERS) --consistency $(CONSISTENCY)) $(ARGS)

# What is installed, and nothing else.
programs: deps-minimal
	@tools/fetch_page_packages
	@cmake --preset $(PRESET) -DTRIREME_BUILD_TESTS=OFF -DTRIREME_BUILD_EXAMPLES=OFF
	@cmake --build --preset $(PRESET) --parallel $(JOBS)

install: programs
	@cmake --install build/$(PRESET) --prefix $(PREFIX)

package: programs
	@tools/install_dependencies --package
	@rm -rf build/$(PRESET)/packages
	@cd build/$(PRESET) && cpack -G DEB -B packages
	@rm -rf build/$(PRESET)/packages/_CPack_Packages

build: deps
	@tools/fetch_page_packages
	@cmake --preset $(PRESET) -DTRIREME_BUILD_TESTS=ON -DTRIREME_BUILD_EXAMPLES=ON
	@cmake --build --preset $(PRESET) --parallel $(JOBS)

# The checks come first because they fail in seconds; CTest's summary comes last.
test: deps
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory run-tests

test-all:
	@TRIREME_TEST_ALL=1 $(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory public-headers thread-safety
	@tools/install_dependencies --all
	@$(MAKE) --no-print-directory package
	@tools/test_package build/$(PRESET)/packages

# Daemons that need root.
test-clusters:
	@tools/install_dependencies --clusters
	@$(MAKE) --no-print-directory build
	@tests/clusters/slurm_test.sh build/$(PRESET)/bin

asan asan-core tsan:
	@$(MAKE) --no-print-directory build PRESET=$@
	@$(MAKE) --no-print-directory run-tests PRESET=$@

run-tests:
	@tools/run_tests $(PRESET) $(TEST_JOBS)

# What is found stays in build/fuzz: fix it, and keep the input in tests/fuzz/corpus/<target>/.
fuzz:
	@tools/install_dependencies --fuzz
	@cmake --preset fuzz
	@cmake --build --preset fuzz --parallel $(JOBS) --target $(FUZZ_TARGETS:%=fuzz_%)
	@JOBS=$(JOBS) tools/fuzz build/fuzz $(MINUTES) $(FUZZ_TARGETS)

bench:
	@tools/install_dependencies --bench
	@$(MAKE) --no-print-directory build
	build/$(PRESET)/bin/trireme bench ps $(ARGS)
	build/$(PRESET)/bin/trireme bench allreduce --peers $(ARGS)

soak:
	@$(MAKE) --no-print-directory build
	@tools/soak build/$(PRESET) $(SOAK_MINUTES) $(SOAK_ARGS) $(ARGS)

# Meshes of 1 to 8 workers, with the bits that each ends with.
meshes:
	@$(MAKE) --no-print-directory build
	@tools/mesh_table build/$(PRESET) gpt
	@tools/mesh_table build/$(PRESET) resnet18

partitions:
	@$(MAKE) --no-print-directory build
	build/$(PRESET)/bin/partitions $(ARGS)

check:
	@tools/check_layers
	@tools/check_files
	@tools/check_docs
	@tools/check_words
	@tools/check_events
	@tools/check_format
	@tools/check_checks

tidy: deps
	@cmake --preset tidy >/dev/null
	@JOBS=$(JOBS) tools/check_tidy build/tidy $(FILES)

thread-safety: deps
	@JOBS=$(JOBS) tools/check_thread_safety $(FILES)

public-headers: deps
	@tools/check_public_headers
	@tools/check_public_headers --time

format:
	@tools/check_format --fix

clean:
	rm -rf build
