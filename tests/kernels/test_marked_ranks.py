"""Values of windows by rank: ranks are found among marks of any distance, in both directions."""

import bisect
import random

import numpy as np
import pytest

from slicing.kernels import marked as k


def room(ranks: int, alone: bool) -> list[np.ndarray]:
    """``alone``: each rank has one row."""
    counts = np.zeros(0 if alone else ranks + 1, np.int64)
    return [counts] + [np.zeros((ranks >> 6 * n) + 1, np.uint64) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("ranks", [5, 63, 64, 65, 5_000, 300_000, 60_000_000])
@pytest.mark.parametrize("seed", range(3))
def test_the_largest_rows_of_windows_are_found_by_rank(ranks: int, seed: int, alone: bool) -> None:
    chance = random.Random(seed)
    cells = 60
    at = np.cumsum([0, *(chance.choice([0, 1, 1, 3]) for _ in range(cells))])
    near = [chance.randrange(ranks) for _ in range(4)]
    numbers = [chance.choice([0, ranks - 1, chance.choice(near), chance.randrange(ranks)]) for _ in range(at[-1])]
    if alone:
        numbers = chance.sample(range(min(ranks, 300)), min(at[-1], ranks)) + numbers
        numbers = [*dict.fromkeys([ranks - 1, *numbers])][: at[-1]]
        at = np.minimum(at, len(numbers))
    rank = np.array(numbers, np.int64)
    before = np.cumsum([0, *(1 if alone else chance.choice([1, 1, 2, 5]) for _ in range(at[-1]))])
    first, last, rows = [], [], []
    for _ in range(80):
        a = chance.randrange(cells)
        b = chance.randrange(a + 1, cells + 1)
        held = sorted(n for i in range(at[a], at[b]) for n in [int(rank[i])] * int(before[i + 1] - before[i]))
        if held:
            rows.append(held)
            first.append(a)
            last.append(b)
    order = sorted(range(len(first)), key=lambda j: (first[j], last[j])) if chance.random() < 0.7 else range(len(first))
    rows = [rows[j] for j in order]
    ends = [np.array(column)[list(order)] for column in (first, last)]
    most, nan = np.int64(3), np.int64(ranks - 1 if seed else -1)
    out_at, found = np.empty(len(rows) + 1, np.int64), np.empty(3 * len(rows), np.int64)
    k.largest_ranked(*ends, at, rank, before, most, nan, *room(ranks, alone), out_at, found)
    for j, held in enumerate(rows):
        numbers = held[: bisect.bisect_left(held, nan)] if nan >= 0 else held
        wanted = [*numbers[::-1], *held[len(numbers) :]][:3]
        assert found[out_at[j] : out_at[j + 1]].tolist() == wanted
