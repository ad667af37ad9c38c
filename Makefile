# Everything a fresh machine needs: `make demo`, then `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-engines lint bench soak clean

demo: $(READY)
	$(BIN)/perfguard demo

test: $(READY) lint
	$(BIN)/pytest -n 4 --dist worksteal -m "not gpu and not soak and not engines"

# Real engines on this processor: installs them below .venv-engines (4 GB), minutes a start.
test-engines: $(READY)
	$(BIN)/pytest -m engines --timeout 3600 tests/engines_real

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.verdicts.simulate

soak: $(READY)
	$(BIN)/pytest -m soak --timeout 3600

# The lock file pins every package, torch included: an unpinned torch would pull gigabytes of CUDA.
$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

clean:
	rm -rf .venv .venv-engines .pytest_cache .mypy_cache .ruff_cache dist
