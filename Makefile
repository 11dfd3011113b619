# mptcplab: `make build` leaves .venv/bin/mptcplab, `make demo` shows what it does, `make test` is what CI runs.
VENV    := .venv
BIN     := $(VENV)/bin
RUST    := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock $(wildcard bpf/objects/*.o)
PYTHON_FILES := python tests benches examples crates/mptcp/tests/kernel fuzz scripts/check-dependencies scripts/site.py

.DEFAULT_GOAL := help
.PHONY: help build bpf demo fidelity packetdrill test kernel-test test-kernels check vectors format bench soak worlds fuzz schema clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(VENV)/.built  ## a working .venv/bin/mptcplab

$(VENV)/.python: pyproject.toml scripts/prepare
	scripts/prepare $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1' 'maturin>=1.9,<2'
	$(BIN)/pip install --quiet --group dev
	touch $@

$(VENV)/.built: $(VENV)/.python $(RUST)
	. $(BIN)/activate && PIP_QUIET=1 maturin develop --quiet --release
	touch $@

bpf:  ## rebuild the eBPF objects of bpf/ with the system's clang; they are committed
	scripts/build-bpf

demo: build  ## a link that fails; eight links under MPTCP, as root also under the kernel's: tables, pictures, reports
	$(BIN)/mptcplab run examples/failing-link.yaml --out results/demo --fresh
	$(BIN)/mptcplab report results/demo/failing-link --export results/demo/figures
	$(BIN)/mptcplab run alenazi2019/fig5 --out results/demo/sim --fresh
	$(BIN)/mptcplab report results/demo/sim/alenazi2019/fig5/mptcp --export results/demo/fig5-sim
ifeq ($(shell id -u),0)
	$(BIN)/mptcplab run alenazi2019/fig5 --on kernel --out results/demo --fresh
	$(BIN)/mptcplab report results/demo/alenazi2019/fig5/mptcp --export results/demo/fig5
else
	@echo 'as root, make demo also runs figure 5 on this kernel' >&2
endif

# Cargo is always asked for the whole workspace: with the features of one package alone all would be compiled once more.
check: build  ## format, lints and the fast tests
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/mypy
	cargo test --quiet --workspace
	$(BIN)/pytest -n logical -m 'not slow and not kernel and not soak'

test: check docs vectors kernel-test  ## everything but the soak: what CI runs
	PROPTEST_CASES=10000 cargo test --quiet --workspace --test connection random_worlds
	PROPTEST_CASES=10000 cargo test --quiet --workspace --test sim random_faults
	cargo run --quiet --example metered
	cargo run --quiet --manifest-path fuzz/Cargo.toml --target-dir target -- --seconds 6
	$(BIN)/python fuzz/descriptions.py --seconds 2
	$(BIN)/python scripts/check-dependencies
	$(BIN)/pytest -n logical -m 'slow and not kernel and not soak'

vectors: build  ## the test vectors, those of the file MPTCPLAB_VECTORS or of tests/vectors.json
	@$(BIN)/python tests/vectors.py

# They run in real time and wait most of it, so several run at once: what a busy machine spoils gets a second try.
kernel-test: build  ## the tests on this machine's kernel, which need root
ifeq ($(shell id -u),0)
	cargo test --quiet --workspace -- --ignored --test-threads 1 || \
		cargo test --quiet --workspace -- --ignored --test-threads 1
	$(BIN)/pytest -n 4 --dist loadfile -m 'kernel and not alone and not soak' || \
		$(BIN)/pytest -m 'kernel and not alone and not soak' --last-failed
	$(BIN)/pytest -m 'kernel and alone and not soak' || $(BIN)/pytest -m 'kernel and alone and not soak' --last-failed
else
	@echo 'not root: the tests on the kernel are left out' >&2
endif

fidelity: build  ## the simulator against a kernel on record, as root also against this one; ONLY=case for some, RECORD=1 to record
	$(BIN)/python -m mptcplab.fidelity tests/fidelity $(if $(ONLY),--only '$(ONLY)') $(if $(RECORD),--record) \
		$(if $(filter 0,$(shell id -u)),--kernel) --page docs/results/simulator-beside-kernel.md

soak: build  ## the long matrices
	PROPTEST_CASES=1000000 cargo test --quiet --package mptcp --release --test connection random_worlds
	PROPTEST_CASES=1000000 cargo test --quiet --package simulator --release --test sim random_faults
	PROPTEST_CASES=20000 cargo test --quiet --workspace --release
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n logical -m 'not kernel'
	[ "$$(id -u)" != 0 ] || MPTCP_MATRIX=full cargo test --quiet --package mptcp --release --test kernel -- --ignored --nocapture understand
	[ "$$(id -u)" != 0 ] || $(BIN)/pytest -m kernel

worlds:  ## random worlds of the engine in parts of a million, from SEED=1, PARTS=1; a row for each in docs/results/random-worlds.md
	scripts/worlds $(or $(SEED),1) $(or $(PARTS),1)

test-kernels:  ## the kernel's coupled controls under Debian's kernels in QEMU, SERIES='6.12 7.3' for some
	scripts/test-kernels $(SERIES)

packetdrill:  ## the engine as a shared object for packetdrill --so_filename; prints its path
	@cargo build --quiet --release --package packetdrill
	@echo $(CURDIR)/target/release/libmptcplab_packetdrill.so

fuzz: build  ## random input for all that reads something of others, TIME=60 seconds for the core and for descriptions
	cargo run --quiet --release --manifest-path fuzz/Cargo.toml -- --seconds $(or $(TIME),60)
	$(BIN)/python fuzz/descriptions.py --seconds $(or $(TIME),60)

format:  ## rewrite the sources in the house style
	cargo fmt --all
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)

bench: build  ## the benchmarks, ONLY=name for one; writes benches/results.json
	$(BIN)/python benches/run.py $(ONLY)

schema: build  ## write the JSON Schemas and the reference that are generated from the code
	$(BIN)/python -m mptcplab.reference .

.PHONY: docs
# Not --quiet, which hides warnings from strict mode. The theme advertises a successor of MkDocs unless told otherwise.
docs: $(VENV)/.docs  ## the documentation as a site in site/; a link without a target is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/.docs: $(VENV)/.python
	$(BIN)/pip install --quiet --group docs
	touch $@

clean:  ## remove what was built here
	rm -rf target $(VENV) dist site .cache
