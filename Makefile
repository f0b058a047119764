PY     ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
STAGE  ?= test50k
COMPAT ?= 2.6.0 2.11.0 2.13.0
KAGGLE ?= kaggle-environments==1.33.2
CYTHON := $(wildcard envs/*/*.pyx envs/*/*.pxi policies/*/*.pyx policies/*/*.pxi)
C      := $(wildcard policies/*/*.h)

# Installs compile nothing ahead, so what is imported must be kept compiled: torch takes 5 s instead of 2 otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: train test slow lint types check compat kaggle s3 docs build clean

train: $(VENV)/.built
	$(BIN)/league train --stage $(STAGE)

test: build  # a worker more than cores, since tests wait for processes
	$(BIN)/python -m pytest -q -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4 --dist worksteal --durations=30

slow: build
	$(BIN)/python -m pytest -q -m slow

lint: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH=$(CURDIR)/$(BIN):$$PATH cython-lint $(CYTHON)

types: build build/typed/league
	$(BIN)/mypy

check: lint types test

# The networks' tests under other torch versions, each in a venv of its own (gigabytes: torch comes with CUDA there).
compat: build
	for version in $(COMPAT); do \
	  folder=build/compat/$$version; \
	  test -x $$folder/bin/python || $(PY) -m venv $$folder || exit 1; \
	  $$folder/bin/python -m pip install --quiet --disable-pip-version-check torch==$$version . pytest pytest-timeout \
	    pytest-xdist hypothesis || exit 1; \
	  $$folder/bin/python -m pytest -q -n 0 tests/policies tests/snapshots || exit 1; \
	done

# The tests of Kaggle's environments, which are skipped without the package (its pins conflict with ours): 65 MB.
kaggle: build
	$(PIP) jsonschema requests
	$(PIP) --no-deps $(KAGGLE)
	$(BIN)/python -m pytest -q -n 0 -m "slow or not slow" tests/envs/test_kaggle.py

# The store in a bucket, on a server of S3's calls: 300 MB.
s3: build
	$(PIP) s3fs 'moto[server]>=5'
	$(BIN)/python -m pytest -q -n 0 -m "slow or not slow" tests/store/test_remote.py

# The documentation site, in build/site: open build/site/index.html.
docs: $(VENV)/.documented build/typed/league
	$(BIN)/python docs/pages.py build/pages
	$(BIN)/zensical build --clean --strict --config-file mkdocs.yml

build: $(VENV)/.built $(VENV)/.installed

# 1. A venv. Debian's python3 has no ensurepip unless python3-venv is there: then the system's pip
#    (22.3 or later) fills the venv from outside. Nothing is installed outside .venv.
$(BIN)/python:
	$(PY) -m venv $(VENV) || { $(PY) -m venv --clear --without-pip $(VENV) && \
	  $(PY) -m pip --python $(BIN)/python install --quiet pip; }

# 2. What training needs, and this package as an editable install (first time, or when its metadata changed).
$(VENV)/.runtime: $(BIN)/python pyproject.toml setup.py constraints.txt
	$(PIP) -c constraints.txt -e '.[build]'
	touch $@ $(VENV)/.built

# 3. After an edit of a .pyx only the extension is rebuilt, without pip.
$(VENV)/.built: $(VENV)/.runtime $(CYTHON) $(C)
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@

# 4. What tests, linters and types need beside it.
$(VENV)/.installed: $(VENV)/.runtime | $(VENV)/.built
	LEAGUE_EXTENSIONS=0 $(PIP) --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $@

# 5. What the site needs.
$(VENV)/.documented: $(VENV)/.runtime | $(VENV)/.built
	LEAGUE_EXTENSIONS=0 $(PIP) --no-build-isolation -c constraints.txt -e '.[docs]'
	touch $@

# The installed layout as links, for mypy and the site (it runs no import hooks).
build/typed/league: $(wildcard league/* cli.py envs/* policies/* snapshots/*)
	rm -rf build/typed && mkdir -p $@
	cd $@ && ln -s ../../../league/* ../../../envs ../../../policies ../../../snapshots ../../../cli.py . && rm -f __pycache__

clean:
	rm -rf build $(VENV) *.egg-info envs/*/*.so policies/*/*.so
