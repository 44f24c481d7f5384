# Two commands matter: `make demo` shows the main job, `make test` passes every check and test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-vllm lint format types layers pytest openapi schema bench-capacity clean

demo:
	@PYTHON=$(PYTHON) scripts/demo

test: lint types layers pytest

# Minutes: it builds vLLM's environment once, and serves a real model with it on the CPU.
test-vllm: $(STAMP)
	$(BIN)/python -m pytest -m vllm -p randomly --durations=5

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

pytest: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term -p randomly

bench-capacity: $(STAMP)
	$(BIN)/python benchmarks/capacity/measure.py smollm2-135m-instruct/llamacpp-cpu --concurrency 1 2 4

openapi: $(STAMP)
	$(BIN)/python scripts/openapi > docs/reference/openapi.json

schema: $(STAMP)
	$(BIN)/outrider endpoint schema > docs/reference/endpoint.schema.json

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .coverage* .import_linter_cache
