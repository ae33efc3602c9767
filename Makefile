# The front door. CMake does the work (CMakeLists.txt, CMakePresets.json); everything it makes is in build/<preset>.

JOBS    ?= $(shell nproc)
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
# How long `make soak` goes on, and how it trains and is disturbed meanwhile.
SOAK_MINUTES ?= 20
SOAK_ARGS    ?= --strategy ps -w 3 -s 2 --model mlp --data synthetic --step-ms 50 --checkpoint-every 500 \
                --faults kill,kill,stop,slow --roles worker,server,master --every 200

.PHONY: help demo build test asan tsan bench soak check format tidy clean install install-minimal

help:
	@echo "Trireme trains neural networks on many processes."
	@echo
	@echo "  make demo     install what is missing, build, and train LeNet on Fashion-MNIST"
	@echo "                with $(WORKERS) workers and $(SERVERS) server; change it like this:"
	@echo "                    make demo EPOCHS=5 WORKERS=4 SERVERS=2 CONSISTENCY=ssp:4"
	@echo "                    make demo DATA=synthetic ARGS='--lr 0.01 --out runs/mine'"
	@echo "                    make demo ARGS='--strategy allreduce'"
	@echo "  make test     install what is missing, build, and run every check and test"
	@echo "  make bench    measure parameter server and all-reduce beside this machine's own speed and their peers"
	@echo "  make soak     train for $(SOAK_MINUTES) minutes while processes are killed and stopped, and see that nothing grows"
	@echo "                (SOAK_MINUTES=5 SOAK_ARGS='--strategy allreduce --faults kill')"
	@echo
	@echo "For those who change it:"
	@echo "  make build    build everything into build/release  (PRESET=debug: build/debug)"
	@echo "  make check    layers, files, format: the checks that need no build"
	@echo "  make asan     all tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "  make tsan     the tests without LibTorch under ThreadSanitizer"
	@echo "  make tidy     clang-tidy over all sources  (FILES='a.cc b.cc': only these)"
	@echo "  make format   let clang-format lay out the sources"
	@echo "  make clean    remove build/"
	@echo
	@echo "JOBS=$(JOBS) compilers and tests run at a time. The program is build/release/bin/trireme --help."

install:
	@tools/install_dependencies

install-minimal:
	@tools/install_dependencies --minimal

# Without the tests, so that a first look needs neither GoogleTest nor their compile time.
demo: install-minimal
	@cmake --preset release -DTRIREME_BUILD_TESTS=OFF
	@cmake --build --preset release --parallel $(JOBS) --target trireme trireme-worker
	build/release/bin/trireme train --model $(MODEL) --data $(DATA) --workers $(WORKERS) --epochs $(EPOCHS) \
	  $(if $(findstring --strategy,$(ARGS)),,--servers $(SERVERS) --consistency $(CONSISTENCY)) $(ARGS)

build: install
	@cmake --preset $(PRESET) -DTRIREME_BUILD_TESTS=ON
	@cmake --build --preset $(PRESET) --parallel $(JOBS)

# The checks come first because they fail in seconds; CTest's summary comes last.
test: install
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory build
	@ctest --preset $(PRESET) --parallel $(JOBS)

asan tsan:
	@$(MAKE) --no-print-directory build PRESET=$@
	@ctest --preset $@ --parallel $(JOBS)

bench:
	@tools/install_dependencies --bench
	@$(MAKE) --no-print-directory build
	build/$(PRESET)/bin/trireme bench ps $(ARGS)
	build/$(PRESET)/bin/trireme bench allreduce --peers $(ARGS)

soak:
	@$(MAKE) --no-print-directory build
	build/$(PRESET)/bin/trireme chaos --soak-minutes $(SOAK_MINUTES) $(SOAK_ARGS) $(ARGS)

check:
	@tools/check_layers
	@tools/check_files
	@tools/check_events
	@tools/check_format
	@tools/check_checks

tidy: install
	@cmake --preset tidy >/dev/null
	@JOBS=$(JOBS) tools/check_tidy build/tidy $(FILES)

format:
	@tools/check_format --fix

clean:
	rm -rf build
