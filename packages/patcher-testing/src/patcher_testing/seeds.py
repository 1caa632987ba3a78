"""Random inputs: other ones in each run, the same ones again on request."""

from __future__ import annotations

import os
import random

#: Set this to the number that a failure printed to get the same inputs again.
SEED_VARIABLE = "PATCHER_TESTING_SEED"


def fresh_seed() -> int:
    """The seed in PATCHER_TESTING_SEED, or one that Python's `random` draws, so that who seeds that repeats these."""
    configured = os.environ.get(SEED_VARIABLE)
    return int(configured) if configured else random.randrange(2**31)


def how_to_repeat(seed: int) -> str:
    """One line for the report of a failure."""
    return f"seed {seed} (repeat with {SEED_VARIABLE}={seed})"
