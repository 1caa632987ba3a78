"""Every test draws its random inputs from a seed of its own, which the seed of the run and the test's name make.

`TEST_SEED=7 python -m pytest ...` draws what a run drew whose header says `TEST_SEED=7`. `nox -s tests` gives one, so
that what CI says depends on the change alone; `nox -s matrix` and pytest by itself draw a new one every time.
"""

from __future__ import annotations

import os
import random
import sys
import zlib

import pytest

VARIABLE = "TEST_SEED"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Processes that this one starts, pytest-xdist's among them, have it from the environment.
    run = os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(2**31)))
    if getattr(config.option, "hypothesis_seed", 0) is None:
        config.option.hypothesis_seed = run


def pytest_report_header() -> str:
    return f"{VARIABLE}={os.environ[VARIABLE]}"


def seed_of(item: pytest.Item) -> int:
    return zlib.crc32(f"{os.environ[VARIABLE]} {item.nodeid}".encode())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    value = seed_of(item)
    random.seed(value)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(value)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(value)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this test, for what is drawn elsewhere."""
    return seed_of(request.node)
