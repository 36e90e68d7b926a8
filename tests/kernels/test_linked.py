"""Values of windows by rank, of windows in order: against sorting each window's rows."""

import random
from itertools import pairwise

import numpy as np
import pytest

from slicing.aggregates import over_lists
from slicing.aggregates.over_lists import Windows
from slicing.cells.lists import Lists, Picked, Singles
from slicing.kernels import linked

ENDS = [-(2**63), 2**63 - 1, 2**63 - 2, 0]  # NaN is the largest word


def values_of(chance: random.Random, size: int) -> np.ndarray:
    draw = chance.choice([lambda: chance.randrange(-5, 5), lambda: chance.choice(ENDS), lambda: chance.getrandbits(60)])
    found = [draw() for _ in range(size)]
    return np.array(sorted(found) if chance.random() < 0.2 else found, np.int64)


def lists_of(chance: random.Random, cells: int, single: bool) -> Lists:
    if single:
        return Singles(np.arange(cells + 1), values_of(chance, cells))
    each = [sorted(set(values_of(chance, chance.choice([0, 1, 1, 4])).tolist())) for _ in range(cells)]
    items = [[value, chance.choice([1, 1, 3])] for some in each for value in some]
    return Lists(np.cumsum([0, *map(len, each)]), np.array(items, np.int64).reshape(-1, 2))


def ends_of(chance: random.Random, cells: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows of several lengths. Those of one length are in order; there may be gaps between them."""
    found = []
    for _ in range(kinds):
        length, every = chance.randrange(1, cells + 1), chance.randrange(1, 9)
        found += [(a, min(a + length, cells)) for a in range(chance.randrange(cells), cells, every)]
    chance.shuffle(found) if chance.random() < 0.5 else found.sort()
    first, last = np.array(found, np.int64).T
    return np.ascontiguousarray(first), np.ascontiguousarray(last)


@pytest.mark.parametrize("chains", [1, 64])
@pytest.mark.parametrize("short", [0, 8, 1000])
@pytest.mark.parametrize("seed", range(40))
def test_rows_of_windows_are_found_by_rank(seed: int, short: int, chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sorts the blocks, and whether the windows are few chains or too many."""
    monkeypatch.setattr(over_lists, "VISITS", 0)
    monkeypatch.setattr(over_lists, "SORTED_HERE", short)
    monkeypatch.setattr(over_lists, "MOST_CHAINS", chains)
    chance = random.Random(seed)
    cells, single = chance.choice([1, 3, 20, 150]), chance.random() < 0.4
    lists = lists_of(chance, cells, single)
    first, last = ends_of(chance, cells, chance.choice([1, 1, 2, 5]))
    windows = Windows(Picked(lists, first, last))
    shares = np.array([chance.choice([0.0, 0.5, 0.9, 1.0]) for _ in range(windows.count.size)])
    low = (shares * (windows.count - 1)).astype(np.int64)
    high = np.minimum(low + np.arange(low.size) % 2, windows.count - 1)
    found = windows.ranked(low, high)
    made = lists.whole()
    held = [
        sorted(np.repeat(*made.items[made.at[a] : made.at[b]].T).tolist()) for a, b in zip(first, last, strict=True)
    ]
    assert windows.filled.tolist() == [bool(some) for some in held]
    wanted = [[held[j][a], held[j][b]] for j, a, b in zip(windows.place, low, high, strict=True)]
    assert found.tolist() == wanted
    assert windows.count.tolist() == [len(held[j]) for j in windows.place]


@pytest.mark.parametrize("seed", range(20))
def test_windows_of_several_types_are_few_chains(seed: int) -> None:
    chance = random.Random(seed)
    kinds = chance.randrange(2, 6)
    first, last = ends_of(chance, 200, kinds)
    order, bounds = over_lists._in_chains(first, last)
    assert sorted(order.tolist()) == list(range(first.size))
    assert bounds is not None and bounds.size - 1 <= kinds and bounds[-1] == first.size
    for a, b in pairwise(bounds.tolist()):
        assert a < b and (np.diff(first[order][a:b]) >= 0).all() and (np.diff(last[order][a:b]) >= 0).all()


def test_windows_of_one_cell_each_may_be_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_lists, "VISITS", 0)
    windows = Windows(Picked(Singles(np.arange(4), np.array([7, 8, 9])), np.array([2, 0, 1]), np.array([3, 1, 2])))
    assert windows.ranked(np.zeros(3, np.int64), np.zeros(3, np.int64)).tolist() == [[9, 9], [7, 7], [8, 8]]


def test_windows_within_windows_are_many_chains() -> None:
    first = np.arange(100)
    assert over_lists._in_chains(first, 300 - first)[1] is None
    assert linked.chained(first, np.sort(300 - first), np.empty(1, np.int64), np.empty(100, np.int64)) == 1


def test_a_cell_of_one_row_holds_its_value_alone() -> None:
    lists = Singles(np.arange(4), np.array([7, 7, -1]))
    assert lists.nbytes == 4 * 8 + 3 * 8
    assert lists.items.tolist() == [[7, 1], [7, 1], [-1, 1]] and lists.at.tolist() == [0, 1, 2, 3]
