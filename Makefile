# Two commands matter: `make demo` shows the main job, `make test` passes every check and test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-bench-peers

.PHONY: demo test test-drafting test-tuning test-vllm lint format types layers pytest coverage fuzz openapi schema \
	bench-capacity bench-drafter bench-gateway bench-gateway-memory bench-published bench-roofline bench-routing \
	bench-tuning drafter clean

demo:
	@PYTHON=$(PYTHON) scripts/demo

test: lint types layers pytest

# Minutes, and nothing beside it: it measures which of two configurations is faster.
test-tuning: $(STAMP)
	$(BIN)/python -m pytest -m tuning -p randomly --durations=5

# Minutes: it builds vLLM's environment once, and serves a real model with it on the CPU.
test-vllm: $(STAMP)
	$(BIN)/python -m pytest -m vllm -p randomly --durations=5

# Minutes: it trains small drafters with torch, and serves them with real engines.
test-drafting: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m drafting -p randomly --durations=5

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz

pytest: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -p randomly

# The same with a report of what the tests' own processes ran; it takes a third longer.
coverage: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term -p randomly

bench-capacity: $(STAMP)
	$(BIN)/python benchmarks/capacity/measure.py smollm2-135m-instruct/llamacpp-cpu --concurrency 1 2 4

bench-gateway: $(STAMP) $(PEERS)/.installed
	$(BIN)/python -m benchmarks.gateway
	$(PEERS)/bin/python -m benchmarks.gateway.plot
	$(BIN)/python -m benchmarks.gateway.page

bench-gateway-memory: $(STAMP)
	$(BIN)/python -m benchmarks.gateway.memory
	$(BIN)/python -m benchmarks.gateway.page

# HAProxy comes from the system: apt-get install haproxy
$(PEERS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
		$$($(BIN)/python -m benchmarks.gateway.peers)
	touch $@

bench-routing: $(STAMP)
	$(BIN)/python benchmarks/routing/measure.py

bench-published: $(STAMP)
	$(BIN)/python -m benchmarks.published

DRAFTER_WORK ?= .drafter
# The drafter that ships, from nothing; a GPU of 80 GB, about 25 minutes. scripts/drafter.yaml has its settings.
drafter: $(STAMP)
	$(BIN)/python scripts/drafter --work $(DRAFTER_WORK)

# What `make drafter` leaves in its work directory; an hour on one core.
bench-drafter: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.drafter.measure --target $(DRAFTER_WORK)/target \
		--data $(DRAFTER_WORK)/data $(if $(wildcard $(DRAFTER_WORK)/dflash2/model.safetensors),--second $(DRAFTER_WORK)/dflash2)
	$(BIN)/python -m benchmarks.drafter.plot
	$(BIN)/python -m benchmarks.drafter.page

bench-roofline: $(STAMP)
	$(BIN)/python -m benchmarks.roofline
	$(BIN)/python -m benchmarks.roofline.page

# An hour at most on a quiet machine, and vLLM's environment before, where it is not there yet.
bench-tuning: $(STAMP)
	$(BIN)/python -m benchmarks.tuning.measure

openapi: $(STAMP)
	$(BIN)/python scripts/openapi > docs/reference/openapi.json

schema: $(STAMP)
	$(BIN)/outrider endpoint schema > docs/reference/endpoint.schema.json

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,train,dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(PEERS) .demo .mypy_cache .ruff_cache .pytest_cache .coverage* .import_linter_cache
