"""Tables of partial aggregates: sort edges, fuse neighbours, merge runs.

``meta`` has one row for each cell: END, CODE, ROWS, and for cells of sessions LEVEL, FIRST, LAST. Tables are sorted by
(end, code, level, first).
"""

import numpy as np

from slicing.kernels.kernel import helper, kernel
from slicing.kernels.prefetch import fetch
from slicing.kernels.search import first_after

END, CODE, ROWS, LEVEL, FIRST, LAST = range(6)
NEAR = 256  # cells that are read word by word
ORDER = (END, CODE, LEVEL, FIRST)


@helper(inline="always")
def apart(last, first, gap):
    """Whether two times are more than a gap apart; their difference may exceed int64."""
    return first > last and np.uint64(first - last) > gap


@helper
def merge_slices(table, older, out, into):
    """As ``merge`` for cells of slices, without branches that depend on the cells (27,000 cells 250 -> 140 us). Returns
    -1 if a table has equal cells."""
    n, i, j = np.int64(0), np.int64(0), np.int64(older)
    end, code, equal = np.int64(0), np.int64(-1), False
    while i < older and j < table.shape[0]:
        end_i, end_j, code_i, code_j = table[i, END], table[j, END], table[i, CODE], table[j, CODE]
        first = (end_i < end_j) | ((end_i == end_j) & (code_i <= code_j))
        other = (end_j < end_i) | ((end_i == end_j) & (code_j <= code_i))
        rows_i, rows_j = table[i, ROWS], table[j, ROWS]
        last_end, last_code = end, code
        end, code = (end_i if first else end_j), (code_i if first else code_j)
        equal |= (end == last_end) & (code == last_code)
        out[n, END], out[n, CODE] = end, code
        out[n, ROWS] = (rows_i if first else np.int64(0)) + (rows_j if other else np.int64(0))
        into[i], into[j] = n, n  # of the one that is not taken now, written again later
        i, j, n = i + np.int64(first), j + np.int64(other), n + 1
    first, last = (i, np.int64(older)) if i < older else (j, np.int64(table.shape[0]))
    for p in range(first, last):
        equal |= (table[p, END] == end) & (table[p, CODE] == code)
        end, code = table[p, END], table[p, CODE]
        out[n, END], out[n, CODE], out[n, ROWS] = end, code, table[p, ROWS]
        into[p], n = n, n + 1
    return np.int64(-1) if equal else n


@kernel
def merge(table, older, gaps, out, into):
    """Merge the sorted tables table[:older] and table[older:], fusing equal cells. Returns the number of cells.

    ``into`` says where each row went. A cell of a slice is (end, code). A cell of sessions also ends where the next one
    begins later than the gap of its level after the latest time so far. The last gap is endless: it is for rows that
    are in no session any more.
    """
    sessions = table.shape[1] > LEVEL
    if not sessions and older < table.shape[0]:  # a single table is only merged if it has equal cells
        n = merge_slices(table, older, out, into)
        if n >= 0:
            return n
    n = np.int64(0)
    i = np.int64(0)
    j = np.int64(older)
    while i < older or j < table.shape[0]:
        newer = i == older
        if not newer and j < table.shape[0]:
            for w in ORDER:
                if w >= table.shape[1]:
                    break
                if table[i, w] != table[j, w]:
                    newer = table[j, w] < table[i, w]
                    break
        p = j if newer else i
        if newer:
            j += 1
        else:
            i += 1
        last = n - 1
        same = n > 0 and out[last, END] == table[p, END] and out[last, CODE] == table[p, CODE]
        if same and sessions:
            level = table[p, LEVEL]
            same = out[last, LEVEL] == level and not apart(out[last, LAST], table[p, FIRST], gaps[level])
        if not same:
            for w in range(table.shape[1]):
                out[n, w] = table[p, w]
            into[p] = n
            n += 1
            continue
        into[p] = last
        out[last, ROWS] += table[p, ROWS]
        if sessions:
            out[last, FIRST] = min(out[last, FIRST], table[p, FIRST])
            out[last, LAST] = max(out[last, LAST], table[p, LAST])
    return n


@kernel
def ascending(meta):
    """Whether a table is sorted."""
    for i in range(1, meta.shape[0]):
        for w in ORDER:
            if w >= meta.shape[1] or meta[i, w] > meta[i - 1, w]:
                break
            if meta[i, w] < meta[i - 1, w]:
                return False
    return True


@kernel
def code_ranges(code, starts, low, high, first, last):
    """For each slice with the cells ``starts[s] : starts[s + 1]``, its cells with codes low..high-1."""
    for s in range(first.size):
        first[s] = first_after(code, low - 1, starts[s], starts[s + 1])
        last[s] = first_after(code, high - 1, first[s], starts[s + 1])


@kernel
def gather(cells, order, columns):
    """columns[w, i] = cells[order[i], w]: reorders cells and turns rows into columns in one pass.

    Word by word of so many cells that they stay in the nearest cache, while the next ones are fetched. 1 M cells of 2
    to 5 words take 2 to 9 ns each, and 8 to 21 ns cell by cell (loaded machine).
    """
    last = cells[:, cells.shape[1] - 1]
    for start in range(0, order.size, NEAR):
        stop = min(start + NEAR, order.size)
        for i in range(start, stop):
            fetch(cells, last, order, i + NEAR)
        for w in range(cells.shape[1]):
            for i in range(start, stop):
                columns[np.uint64(w), np.uint64(i)] = cells[np.uint64(order[np.uint64(i)]), np.uint64(w)]


@kernel
def held_cells(words, held):
    """The cells whose first word is not 0. Returns their number; ``held`` has room for one more."""
    n = np.int64(0)
    for c in range(words.shape[0]):  # without a branch: any cell may be empty
        held[np.uint64(n)] = c
        n += words[c, 0] != 0
    return n


@kernel
def slice_meta(ends, counts, meta):
    """END, CODE and ROWS of the cells of slices without keys: 50,000 cells 180 -> 60 us."""
    for i in range(counts.size):
        meta[i, END], meta[i, CODE], meta[i, ROWS] = ends[i], 0, counts[i]


@kernel
def grid_meta(held, ends, code, words, meta):
    """END, CODE and ROWS of some cells of a grid, ascending. Cell slot * codes + k belongs to slice ``ends[slot]`` and
    to ``code[k]``, and its first word is its number of rows."""
    slot, first = np.int64(0), np.int64(0)
    for i in range(held.size):
        c = held[i]
        while c - first >= code.size:
            slot += 1
            first += code.size
        meta[i, END], meta[i, CODE], meta[i, ROWS] = ends[slot], code[c - first], words[np.uint64(c), 0]


@kernel
def chosen_in_order(order, codes, place, out):
    """The positions of distinct codes in the order of all codes. ``place``: -1 for each code; ``out`` has one place
    more than there are codes."""
    for i in range(codes.size):
        place[np.uint64(codes[i])] = i
    n = np.int64(0)
    for i in range(order.size):
        at = place[np.uint64(order[i])]
        out[n] = at
        n += at >= 0


@kernel
def by_rank(codes, each, rank, room, out):
    """The positions of the codes of adjacent groups, sorted within each group by the rank of the code. ``room``: a zero
    for each rank; ``out`` has one entry more than there are codes."""
    n, at = np.int64(0), np.int64(0)
    for g in range(each.size):
        stop = at + each[g]
        for i in range(at, stop):
            room[np.uint64(rank[np.uint64(codes[np.uint64(i)])])] = i + 1
        for r in range(room.size):  # without a branch: any code may be missing
            i = room[r]
            out[n], room[r] = i - 1, 0
            n += i > 0
        at = stop


@kernel
def chain(code, first, last, taken, gap, latest, reach, run_of, into, start, end):
    """Number the runs of each code's cells whose neighbours are at most ``gap`` apart; cells not taken get -1.

    Cells of each code are in order of time, and codes may be mixed: this is a table's own order, so nothing is sorted.
    ``latest``, ``reach`` and ``run_of`` have room for each code (``run_of`` filled with -1), ``start`` and ``end`` for
    each run. Returns the number of runs, or -1 if cells of a code are not in order of time.
    """
    n = np.int64(0)
    for i in range(code.size):
        if not taken[i]:
            into[i] = -1
            continue
        c = code[i]
        r = run_of[c]
        if r >= 0 and first[i] < latest[c]:
            return np.int64(-1)
        latest[c] = first[i]
        if r < 0 or apart(reach[c], first[i], gap):
            r = n
            n += 1
            run_of[c] = r
            start[r] = first[i]
            reach[c] = last[i]
        reach[c] = max(reach[c], last[i])
        end[r] = reach[c]
        into[i] = r
    return n


@kernel
def chain_rows(group, time, gap, alone, current, cell, group_of, first, last):
    """Number the runs of each group's rows whose neighbours are at most ``gap`` apart, in order of arrival, as cells.

    ``current`` has room for each group, filled with -1; the other three have room for each cell. A row that is too
    early for the newest cell of its group gets its own cell, which the caller fuses with its neighbours. Returns the
    number of cells, or -1 if more than ``alone`` rows are early.
    """
    n = np.int64(0)
    for i in range(cell.size):
        g, t = np.uint64(group[i]), time[i]
        c = np.int64(current[g])
        if c >= 0 and (t >= first[np.uint64(c)] - gap) & (t <= last[np.uint64(c)] + gap):
            first[np.uint64(c)] = min(first[np.uint64(c)], t)
            last[np.uint64(c)] = max(last[np.uint64(c)], t)
        else:
            if c < 0 or t > last[np.uint64(c)]:
                current[g] = n
            else:
                alone -= 1
                if alone < 0:
                    return np.int64(-1)
            c = n
            n += 1
            group_of[c], first[c], last[c] = g, t, t
        cell[i] = c
    return n


@kernel
def slice_starts(end, out):
    """Where each slice of a table begins, found by galloping, as a slice may have many cells. Returns their number."""
    n = np.int64(0)
    at = np.int64(0)
    size = np.int64(end.size)
    while at < size:
        out[n] = at
        n += 1
        value = end[at]
        if at + 1 < size and end[at + 1] != value:  # slices of one cell: 4.2 -> 1.5 ns each
            at += 1
            continue
        step = np.int64(1)
        while at + step < size and end[at + step] == value:
            at += step
            step *= 2
        stop = min(at + step, size)  # the next slice begins after `at` and not after `stop`
        while at + 1 < stop:
            middle = (at + stop) >> 1
            if end[middle] == value:
                at = middle
            else:
                stop = middle
        at = stop
    return n
