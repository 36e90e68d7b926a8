"""What every test may rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slicing.answers import emit, stacks
from slicing.slices import combining, eager


@pytest.fixture(autouse=True)
def the_engine_chooses() -> Iterator[None]:
    """Random cases force a strategy (``harness.choose_strategies``); the next test has its own again."""
    chosen = combining.choose, emit.worth_adding_up, stacks.worth_stacking
    trees = eager.DEEP, eager.FANOUT, eager.FEWEST, eager.LARGEST
    yield
    combining.choose, emit.worth_adding_up, stacks.worth_stacking = chosen
    eager.DEEP, eager.FANOUT, eager.FEWEST, eager.LARGEST = trees
