# mptcplab: `make build` leaves .venv/bin/mptcplab, `make demo` shows what it does, `make test` is what CI runs.
VENV    := .venv
BIN     := $(VENV)/bin
RUST    := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock $(wildcard bpf/objects/*.o)
PYTHON_FILES := python tests benches examples crates/mptcp/tests/kernel fuzz scripts/check-dependencies scripts/test-kernels scripts/probe-kernels scripts/site.py scripts/synthetic_traces.py

# The kernel back-end can load congestion controls in eBPF where the tools are that its C libraries need.
EBPF := $(if $(shell scripts/prepare --ebpf && echo found),realtime/ebpf agent/ebpf mptcplab-python/ebpf)
# What the tests of the workspace and the extension of Python are built with.
FEATURES   := $(if $(EBPF),--features '$(EBPF)')
EXTENSION_FEATURES := 'pyo3/extension-module $(if $(EBPF),ebpf)'
EXTENSION  := --release --features $(EXTENSION_FEATURES)

# Where the package looks for it.
AGENT      := python/mptcplab/mptcplab-agent

.DEFAULT_GOAL := help
.PHONY: help build agent wheel portable try bpf pages demo fidelity packetdrill test kernel-test test-kernels kernels check vectors format \
	bench soak worlds fuzz schema docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(VENV)/.built  ## a working .venv/bin/mptcplab

$(VENV)/.python: pyproject.toml scripts/prepare
	scripts/prepare $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1' 'maturin>=1.16,<2'
	touch $@

$(VENV)/.tools: $(VENV)/.python
	$(BIN)/pip install --quiet --group tools
	touch $@

# Bytecode is written here, because where PYTHONDONTWRITEBYTECODE is set, each of the thousands of
# commands of the tests would compile the package again.
$(VENV)/.built: $(VENV)/.python $(RUST)
	@echo 'compiling mptcplab, some minutes the first time' >&2
	. $(BIN)/activate && PIP_QUIET=1 maturin develop $$([ -t 2 ] || echo --quiet) $(EXTENSION)
	$(BIN)/python -m compileall -q python/mptcplab
	touch $@

wheel: $(VENV)/.python  ## a wheel for Linux with glibc 2.28 or newer in dist/
	scripts/wheel dist

# Linked statically, so that it runs on every Linux of this architecture. With --target, that does not
# apply to build scripts and macros, which cannot be linked so.
AGENT_TARGET := $(shell uname -m)-unknown-linux-gnu
agent: $(AGENT)  ## the program that runs experiments on other machines and in guests: --on ssh://HOST, --on qemu:6.12

$(AGENT): $(RUST)
	@echo 'compiling the agent, some minutes the first time' >&2
	RUSTFLAGS='-Ctarget-feature=+crt-static -Cstrip=symbols' cargo build --quiet --release --package agent \
		$(if $(EBPF),--features ebpf) --target $(AGENT_TARGET)
	cp target/$(AGENT_TARGET)/release/mptcplab-agent $@
	touch $@

portable:  ## check that what is not Linux's alone compiles for Windows and macOS
	cd scripts/portable && cargo check --quiet --manifest-path ../../Cargo.toml --target-dir ../../target \
		$(addprefix --target ,x86_64-pc-windows-msvc aarch64-apple-darwin) \
		$(addprefix --package ,mptcp experiment emulation capture simulator mptcplab-python)

try: build $(VENV)/.tools  ## the commands of README and tutorial from a wheel, as a user without privileges and without a compiler
	. $(BIN)/activate && maturin build --quiet $(EXTENSION) --out target/wheels
	$(BIN)/pytest tests/test_newcomer.py || $(BIN)/pytest tests/test_newcomer.py --last-failed

bpf:  ## rebuild the eBPF objects of bpf/ with the system's clang; they are committed
	scripts/build-bpf

pages:  ## rebuild the scripts of the pages from web/ with node; they are committed
	cd web && npm ci --ignore-scripts --no-audit --no-fund --silent && npm run --silent check && npm run --silent build

demo: build  ## two paths of which one fails, in the simulator and on this kernel; a published figure: tables, pictures, reports
	$(BIN)/mptcplab run examples/two-paths-mptcp.yaml --out results/demo --fresh
	$(BIN)/mptcplab report results/demo/two-paths-mptcp --export results/demo/figures
	$(BIN)/mptcplab run alenazi2019/fig5 --out results/demo --fresh
	$(BIN)/mptcplab report results/demo/alenazi2019/fig5/mptcp --export results/demo/fig5
	@$(BIN)/mptcplab run examples/two-paths-mptcp.yaml --on kernel --out results/demo --fresh || \
		{ [ $$? = 3 ] && echo 'left out: the same on the kernel, which this machine cannot do for the reason above' >&2; }

# Cargo is always asked for the whole workspace: with the features of one package alone all would be compiled once more.
check: build $(VENV)/.tools  ## format, lints and the fast tests
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --quiet --workspace --all-targets $(FEATURES) -- -D warnings
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/mypy
	cargo test --quiet --workspace $(FEATURES)
	$(BIN)/pytest --ignore tests/kernel -n logical -m 'not slow and not soak and not newcomer'

# The committed bundles are those that the lock file gives.
test: check docs vectors kernel-test  ## everything but the soak: what CI runs
	@command -v npm >/dev/null || echo 'no npm: the scripts of the pages are not rebuilt' >&2
	! command -v npm >/dev/null || { $(MAKE) pages && git diff --exit-code --stat -- web python/mptcplab; }
	PROPTEST_CASES=2000 cargo test --quiet --workspace $(FEATURES) --test connection random_worlds
	PROPTEST_CASES=2000 cargo test --quiet --workspace $(FEATURES) --test sim random_faults
	cargo run --quiet --example metered
	cargo run --quiet --manifest-path fuzz/Cargo.toml --target-dir target -- --seconds 6
	$(BIN)/python fuzz/descriptions.py --seconds 2
	$(BIN)/python scripts/check-dependencies
	$(BIN)/pytest --ignore tests/kernel -n logical --dist loadfile -m 'slow and not soak'
	$(MAKE) try

vectors: build $(VENV)/.tools  ## the test vectors, those of the file MPTCPLAB_VECTORS or of tests/vectors.json
	@$(BIN)/python tests/vectors.py

# They run in real time and wait most of it, so several run at once: what a busy machine spoils gets a second try.
kernel-test: build $(VENV)/.tools  ## the tests on this machine's kernel, which need root
ifeq ($(shell id -u),0)
	cargo test --quiet --workspace $(FEATURES) -- --ignored --test-threads 1 || \
		cargo test --quiet --workspace $(FEATURES) -- --ignored --test-threads 1
	cargo build --quiet --workspace $(FEATURES) --bins
	$(BIN)/pytest tests/kernel -n 4 --dist loadgroup -m 'not alone and not soak' || \
		$(BIN)/pytest tests/kernel -m 'not alone and not soak' --last-failed
	$(BIN)/pytest tests/kernel -m 'alone and not guest and not soak' || \
		$(BIN)/pytest tests/kernel -m 'alone and not guest and not soak' --last-failed
else
	@echo 'not root: the tests on the kernel are left out' >&2
endif

fidelity: build $(VENV)/.tools  ## the simulator against a kernel on record, as root also against this one; ONLY=case for some, RECORD=1 to record
	$(BIN)/python -m mptcplab.fidelity tests/fidelity $(if $(ONLY),--only '$(ONLY)') $(if $(RECORD),--record) \
		$(if $(filter 0,$(shell id -u)),--kernel) --page docs/results/simulator-beside-kernel.md

soak: build $(VENV)/.tools  ## the long matrices
	PROPTEST_CASES=1000000 cargo test --quiet --package mptcp --release --test connection random_worlds
	PROPTEST_CASES=1000000 cargo test --quiet --package simulator --release --test sim random_faults
	PROPTEST_CASES=20000 cargo test --quiet --workspace --release
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest --timeout 0 -n logical -m 'not kernel'
	[ "$$(id -u)" != 0 ] || MPTCP_MATRIX=full cargo test --quiet --package mptcp --release --test kernel -- --ignored --nocapture understand
	[ "$$(id -u)" != 0 ] || $(BIN)/pytest --timeout 0 -m kernel

worlds:  ## random worlds of the engine in parts of a million, from SEED=1, PARTS=1; a row for each in docs/results/random-worlds.md
	scripts/worlds $(or $(SEED),1) $(or $(PARTS),1)

test-kernels: build agent  ## the kernel's coupled controls and examples/regression under Debian's kernels in QEMU; SERIES='6.12 7.3', ONLY=stale for some
	$(BIN)/python scripts/test-kernels $(SERIES) $(if $(ONLY),--only '$(ONLY)')

kernels: build agent  ## probe what Debian's kernels offer for Multipath TCP, for the reference page; SERIES='6.12 7.3' for some
	$(BIN)/python scripts/probe-kernels $(SERIES)
	$(BIN)/python -m mptcplab.reference .

packetdrill:  ## the engine as a shared object for packetdrill --so_filename; prints its path
	@cargo build --quiet --release --package packetdrill
	@echo $(CURDIR)/target/release/libmptcplab_packetdrill.so

fuzz: build $(VENV)/.tools  ## random input for all that reads something of others, TIME=60 seconds for the core and for descriptions
	cargo run --quiet --release --manifest-path fuzz/Cargo.toml -- --seconds $(or $(TIME),60)
	$(BIN)/python fuzz/descriptions.py --seconds $(or $(TIME),60)

format:  ## rewrite the sources in the house style
	cargo fmt --all
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)

bench: $(VENV)/.guided $(VENV)/.tools  ## the benchmarks, ONLY=name for one; writes benches/results.json
	$(BIN)/python benches/run.py $(ONLY)

# As in the wheel, a profile guides the extension that is measured. It also serves all else that needs one.
$(VENV)/.guided: $(VENV)/.python $(RUST) scripts/guided scripts/train
	. $(BIN)/activate && PIP_QUIET=1 scripts/guided $(EXTENSION_FEATURES) develop
	touch $@ $(VENV)/.built

schema: build $(VENV)/.tools  ## write the JSON Schemas and the reference that are generated from the code
	$(BIN)/python -m mptcplab.reference .

# Not --quiet, which hides warnings from strict mode. The theme advertises a successor of MkDocs unless told otherwise.
docs: $(VENV)/.docs  ## the documentation as a site in site/; a link without a target is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/.docs: $(VENV)/.python
	$(BIN)/pip install --quiet --group docs
	touch $@

clean:  ## remove what was built here
	rm -rf target $(VENV) dist site .cache
