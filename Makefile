# make setup        create .venv with ROS wheels, test tools and poam; update it if something changed
# make sim          simulate an AUV over a real terrain (some minutes), and draw figures
# make benchmark    run missions in parallel, write tables and figures; continues after an interruption
# make test         run lint and the tests, files in parallel (some minutes)
# make test-all     run the slow tests, which make test leaves out: whole missions, each scenario, each restart
# make generate     write docs/parameters.md, config/*.yaml and docs/display-*.svg
# make sanitize     run the C code with odd inputs under the sanitizers of the compiler
# make soak         run the long tests: 50,000 pings over topics, killed nodes, set clocks, damage
# make screenshots  make the pictures of docs/view.md; needs Chromium
# make docs         build the documentation as a site in build/site
# make build        run colcon build into install/
# make clean        remove what was built or installed here, but not runs/
#
# PYTHON       interpreter of .venv (3.10 to 3.14)
# ROS          wheels: ROS 2 Jazzy from PyPI. system: this machine's ROS 2, which must be sourced.
#              Default: that of .venv; otherwise system if a ROS 2 is sourced, or wheels
# TORCH_INDEX  package index of torch (default: pip's). For the small build without CUDA:
#              make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu
# SIM_ARGS     further options of `poam sim`, as in make sim SIM_ARGS="--seed 3 --speed 5"
# CONFIG       configuration of make benchmark: smoke (minutes), paper, ablation, robustness, or a file
# OUTPUT       folder of results of make benchmark
# SOAK_ARGS    further options of pytest in make soak, as in SOAK_ARGS="-k killed"
# WORKERS      number of processes of make test
# BENCHMARK_ARGS  further options of `poam benchmark`, as in BENCHMARK_ARGS="--terrains DIR"

PYTHON ?= python3
SOURCED := $(if $(and $(ROS_DISTRO),$(AMENT_PREFIX_PATH)),system)
ROS ?= $(or $(patsubst .venv/.setup-%,%,$(wildcard .venv/.setup-*)),$(SOURCED),wheels)
TORCH_INDEX ?=
SIM_ARGS ?=
CONFIG ?= smoke
OUTPUT ?= runs/benchmark-$(basename $(notdir $(CONFIG)))
BENCHMARK_ARGS ?=
SOAK_ARGS ?=
# Tests of nodes wait for most of their time: one process more than there are cores, up to six.
WORKERS ?= $(shell n=$$(env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2); echo $$(( n < 5 ? n + 1 : 6 )))

BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Compiled at the end, on all cores: pip uses one.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile
RUN := runs/sim
STAMP := .venv/.setup-$(ROS)

# With a sourced ROS 2 its own versions count (numpy above all, which its messages are compiled for).
ifeq ($(ROS),system)
VENV_FLAGS := --system-site-packages
PINS :=
EXTRAS := sim,benchmark,geo,geotiff,bags,nmea,mavlink,download,view,test,dev
else
VENV_FLAGS :=
PINS := -c constraints.txt
EXTRAS := sim,benchmark,geo,geotiff,bags,nmea,mavlink,download,view,test,dev,ros
endif

.DEFAULT_GOAL := help
.PHONY: help generate setup sim benchmark test test-all sanitize soak screenshots lint docs build clean

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

setup: $(STAMP)

$(STAMP): setup.py setup.cfg constraints.txt $(wildcard poam_ros/models/native/*.[ch])
	@case "$$(ls .venv/.setup-* 2>/dev/null)" in ""|$@) ;; \
	  *) echo "setup: .venv was made for another ROS, so it is made anew"; rm -rf .venv ;; esac
	@test -x $(BIN)/python || { echo "setup 1/3: .venv with $(PYTHON)"; \
	  $(PYTHON) -m venv $(VENV_FLAGS) .venv; }
	@# The pip of Python's own installation may be old, and takes twice as long.
	@$(INSTALL) $(PINS) --upgrade pip
	@echo "setup 2/3: torch (the large one)"
	@$(INSTALL) $(PINS) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@echo "setup 3/3: the rest, and poam_ros itself"
	@$(INSTALL) $(PINS) -e ".[$(EXTRAS)]"
	@$(BIN)/python -m compileall -qq -j 0 \
	  -x '/tests?/|/pip/|/dialects/v../(?!ardupilotmega)' .venv/lib poam_ros || true
	@touch $@

sim: setup
	$(BIN)/poam sim --speed 20 --terrain jacksboro --max-samples 1500 --sonar-rate 2.5 \
	  --output $(RUN) $(SIM_ARGS)

benchmark: setup
	$(BIN)/poam benchmark $(CONFIG) --output $(OUTPUT) $(BENCHMARK_ARGS)

test: lint
	$(PYTEST)

test-all: setup
	$(PYTEST) -m slow

generate: setup
	$(BIN)/python tools/parameter_files.py
	$(BIN)/python tools/display_pictures.py

sanitize: setup
	$(BIN)/python -m pytest -q -m "not soak" -k undefined test/models/test_native.py

soak: setup
	$(BIN)/python -m pytest -m soak -s -o faulthandler_timeout=0 $(SOAK_ARGS)

screenshots: setup
	$(BIN)/poam run --terrain lake --method nngp --planner path-entropy --sonar-rate 2.5 --max-samples 3000 \
	  --output runs/lake
	$(BIN)/python test/screenshots.py runs/lake docs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo --no-cache

# The theme's notice is about its successor, not about this site.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.venv/.docs: $(STAMP)
	@$(INSTALL) $(PINS) -e ".[docs]"
	@touch $@

build: setup
	$(BIN)/python -m colcon build

clean:
	rm -rf .venv build install log dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
