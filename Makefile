# Two commands set everything up on a machine with python3 (3.11 or newer), python3-venv and make:
#   make ladder    creates .venv, installs gpusim, runs the main job
#   make test      creates .venv, installs gpusim with its test tools, runs the whole suite
# Everything else here is for people who work on gpusim.  Use another Python with PYTHON=python3.12.

PYTHON ?= python3
VENV   ?= .venv
SIZE   ?= 4096
BIN    := $(VENV)/bin

.PHONY: ladder test lint typecheck pytest docs accuracy bench clean

ladder: $(VENV)/.installed
	$(BIN)/gpusim ladder --size $(SIZE)

test: lint typecheck pytest

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .

typecheck: $(VENV)/.installed-test
	$(BIN)/mypy

pytest: $(VENV)/.installed-test
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

# Pages that are made from the program itself; tests/test_docs.py fails when they are stale.
docs: $(VENV)/.installed
	@for page in cli opcodes devices; do \
	  $(BIN)/python -m gpusim.cli.reference $$page > docs/$$page.md.tmp && mv docs/$$page.md.tmp docs/$$page.md || exit 1; \
	done
	@$(BIN)/python -m gpusim.validation.deviations > docs/new.tmp && mv docs/new.tmp validation/DEVIATIONS.md
	@$(BIN)/python -m gpusim.validation.accuracy validation/measurements/h200/comparison.json > docs/new.tmp && mv docs/new.tmp docs/accuracy.md
	@$(BIN)/python -m gpusim.report.dram_table > docs/new.tmp && mv docs/new.tmp docs/dram.md
	@$(BIN)/gpusim simulate --manifest examples/gemm.json --figure docs/img/traffic.png \
	  --reuse-figure docs/img/reuse.png --dram-figure docs/img/dram.png > /dev/null

# Predictions against every record (minutes), the page about it, and what the source texts claim.
accuracy: $(VENV)/.installed
	$(BIN)/gpusim validate --recorded --json validation/measurements/h200/comparison.json \
	  --page docs/accuracy.md --figure docs/accuracy.png
	$(BIN)/python -m gpusim.validation.claims --figures docs/img > docs/new.tmp && mv docs/new.tmp docs/claims.md

bench: $(VENV)/.installed
	@for f in benchmarks/bench_*.py; do echo "== $$f"; $(BIN)/python $$f || exit 1; done

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# The stamps are older than pyproject.toml whenever the dependencies may have changed.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,dev]"
	touch $@ $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gpusim needs Python 3.11 or newer; $(PYTHON) is older or missing. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "Python's venv module is not installed. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
