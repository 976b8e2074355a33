# `make help` lists what there is. Everything works on a fresh machine with Python 3.10 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GENERATOR := .venv-proto

.DEFAULT_GOAL := help
.PHONY: help demo system system-all test test-all lint audit format proto faults fuzz docs experiment screenshots bench clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed ## Train through the service for about two minutes and show what came of it
	$(BIN)/python trainer_ref/demo.py

system:
	tests/system.sh redis-server promtool

system-all: system
	tests/system.sh node npm prometheus prometheus-alertmanager chromium

test: system $(VENV)/.installed ## Run the tests (about five minutes)
	$(BIN)/pytest -m 'not heavy'

test-all: system-all $(VENV)/.installed ## Run the heavier tests with real parts too
	$(BIN)/pytest -m heavy

lint: $(VENV)/.installed ## Check style and types, that packages fit each other, and that no secret is checked in
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pip check
	git ls-files -z | xargs -0 $(BIN)/detect-secrets-hook \
		--exclude-files '^(tests/service/store/files|service/fade_service/web/static/vendor|proto/fade_proto)/' \
		--exclude-lines 'sha256|secretName|^ *(async )?def test_'

audit: $(VENV)/.installed ## Look up known vulnerabilities of what is installed (asks PyPI)
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable

format: $(VENV)/.installed ## Put the code into the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

$(GENERATOR)/.installed:
	$(PYTHON) -m venv $(GENERATOR)
	$(GENERATOR)/bin/pip install --quiet --disable-pip-version-check 'grpcio-tools==1.62.3' 'setuptools<81'
	@touch $@

proto: $(VENV)/.installed $(GENERATOR)/.installed ## Generate proto/fade_proto from proto/fade
	GENERATOR_PYTHON=$(abspath $(GENERATOR)/bin/python) PLUGIN_DIR=$(abspath $(BIN)) proto/generate.sh

faults: system $(VENV)/.installed ## Inject faults for about ten minutes: STORE=sqlite|redis SEED=1 N=2000
	$(BIN)/python -m tests.faults --store $(or $(STORE),sqlite) --faults $(or $(N),2000) $(if $(SEED),--seed $(SEED))

fuzz: $(VENV)/.installed ## Send requests changed at random to a live server: SEED=1 N=100000
	$(BIN)/python -m tests.fuzz --requests $(or $(N),100000) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.installed ## Write the pages that are made from the code
	$(BIN)/python docs/render.py

experiment: $(VENV)/.installed ## Train all that docs/evidence.md rests on, over all cores (days on two); stops and goes on
	$(BIN)/fade compare --plan --results trainer_ref/evidence/results.jsonl --report var/compare

screenshots: system-all $(VENV)/.installed ## Take the pictures of the dashboard anew
	$(BIN)/python -m tests.web.screenshots

bench: system-all $(VENV)/.installed ## Measure the service against its floor; JSON in var/bench
	$(BIN)/python -m tests.bench

clean: ## Remove what the targets made
	rm -rf $(VENV) $(GENERATOR) var build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
