"""Early results: what a push does for windows that triggers also report before they are complete.

These are the stages of ``slicing.push`` for plans with triggers. Cells that some trigger has not reported stay apart
from the store, the watermark passes cuts as it passes ends of windows, and triggers of pushes fire last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slicing.cells.table import Cells, merged
from slicing.closing import open_runs, results, row_cuts
from slicing.closing.answer import all_windows
from slicing.closing.answers import Answers
from slicing.closing.open_runs import PushedRuns, reported
from slicing.closing.panes import EARLY, LAST, LATE, ON_TIME, Found, Kept, Panes, news_by_push, news_by_time
from slicing.closing.revise import Revisions, windows_changed
from slicing.closing.settle import news
from slicing.closing.ways import Closing
from slicing.columns.order import distinct, none
from slicing.lifecycle.state import State
from slicing.query.plan import Plan
from slicing.query.processing_time import microseconds
from slicing.query.triggers import EachPush, EveryProcessingTime, Trigger
from slicing.reducing.batch import Rows
from slicing.storage.apart import Apart, with_cells
from slicing.storage.row_panes import RowPanes
from slicing.storage.session_store import store_for
from slicing.system.arrays import Ints, Mask
from slicing.system.replace import but
from slicing.windows.bounds import BEGIN, END


class Group(NamedTuple):
    """Windows, by number, whose triggers last fired at the same time."""

    windows: Mask
    fired: int


def admit(state: State, cells: Cells, changing: Cells, rows: Sequence[Rows]) -> list[Panes]:
    """Put cells into the store or apart from it. Returns the complete windows that late rows change, and panes at rows
    that need not wait."""
    panes = _admit(state, cells, changing)
    if state.plan.early.panes_of_rows:
        watermark = BEGIN if state.watermark is None else state.watermark
        state.row_panes, more = row_cuts.arrived(state.plan, state.row_panes, rows, watermark)
        panes += more
    return panes


def _admit(state: State, cells: Cells, changing: Cells) -> list[Panes]:
    plan, late = state.plan, []
    watermark = BEGIN if state.watermark is None else state.watermark
    if len(changing) and state.watermark is not None and plan.revises:
        late = _late(state, changing)
    if plan.early.fires_runs:
        fresh = news(plan, merged(cells, changing, plan.lanes, plan.gaps) if len(changing) else cells)
        state.pushed = _beside(state, fresh)
        if not plan.early.keeps_apart:
            state.store = state.pushed.kept.store()
            return late
    fires = bool(plan.early.fired_numbers)
    if fires:
        _put_apart(state, cells, BEGIN)
    else:
        by_push = plan.early.keeps_reports and not plan.early.run_cuts  # with cuts of time any row is news
        state.store = state.store.going_on(news(plan, cells) if by_push else cells)
    if fires or plan.early.cut:
        _put_apart(state, changing, watermark if plan.early.cut else BEGIN)
    elif len(changing):
        state.store = state.store.add(changing)
    return late


def _beside(state: State, cells: Cells) -> PushedRuns:
    """The cells for what each push reports of sessions and whole streams: all cells before it, and the new cells
    apart."""
    fresh = Apart(store_for(state.plan).beside(cells), BEGIN, state.epoch)
    before = Kept(state.plan, state.store, state.apart).store() if state.apart else state.store
    kept = Kept(state.plan, before, (fresh,) if len(cells) else ())
    return PushedRuns(kept, BEGIN if state.watermark is None else state.watermark)


def _put_apart(state: State, cells: Cells, judged: int) -> None:
    if not len(cells):
        return
    more = Apart(store_for(state.plan).beside(cells), judged, state.epoch)

    def alike(one: int, other: int) -> bool:
        low, high = sorted((one, other))
        return not state.plan.edges.any_between(low, high)

    state.apart = with_cells(state.apart, more, alike)


def _late(state: State, changing: Cells) -> list[Panes]:
    """The complete windows that rows within the allowed lateness change."""
    plan = state.plan
    assert state.watermark is not None
    codes = distinct(changing.code)
    apart = [known.but(known.store.of_codes(codes)) for known in state.apart]
    store = Kept(plan, state.store.of_codes(codes), apart).store()
    was, now, part = windows_changed(store, state.keys, changing, state.horizon, state.watermark)
    if plan.spec.emit == "parts":
        return [Panes.of(part, 0, LATE)]
    if plan.spec.emit == "updates":
        return [Panes.of(now, 0, LATE)]
    _, again = state.revisions.numbered(was, np.zeros(len(was), np.int64), BEGIN)
    state.revisions, _ = state.revisions.numbered(now, np.zeros(len(now), np.int64), state.horizon)
    timing = np.where(again > 0, LATE, ON_TIME)
    return [Panes(was, np.zeros(len(was), np.int64), timing), Panes.of(now, 1, LATE)]


def at_rows(state: State, reached: int, flush: bool) -> list[Panes]:
    """The panes at rows that the watermark passes."""
    if not state.plan.early.panes_of_rows:
        return []
    after = BEGIN if state.watermark is None else state.watermark
    state.row_panes, panes = row_cuts.passed(state.plan, state.row_panes, after, END if flush else reached)
    return panes


def close(state: State, reached: int, after: int, until: int, flush: bool) -> list[Panes]:
    """The windows between edges that the watermark completes, and the panes at the cuts that it passes."""
    plan = state.plan
    if not (state.store.runs or state.apart):
        return []
    known = None if plan.early.keeps_apart or state.pushed is None else state.pushed.kept
    later: tuple[Cells, ...] = ()
    if plan.early.cut and plan.adds_up and not (flush or state.apart or plan.edges.irregular):
        older, newer = state.store.parted(reached)
        if older.runs:  # slices that the watermark has not reached are not read
            state.store, later = older, newer.runs
    kept = Kept(plan, state.store, state.apart) if known is None else known
    closing = Closing(plan, kept.store(), state.keys, after, until)
    complete, state.filled = all_windows(closing, state.filled)
    if not kept.apart:
        kept.main = closing.store.consolidated()
    horizon = END - 1 if flush else reached - plan.lateness
    panes = _at_cuts(state, kept, after, until, horizon) if plan.early.cut else []  # in order, for each window
    panes += _complete(state, kept, complete, after, until)
    if plan.early.run_cuts:
        state.reported, panes_of_runs = open_runs.at_cuts(
            plan, state.reported, closing.store.table(), state.keys, after, until
        )
        panes += panes_of_runs
    if plan.early.keeps_reports and state.reported:
        state.reported, more = open_runs.completed(plan, state.reported, closing.store.table(), state.keys, until)
        panes += more
    elif plan.early.fires_runs and state.fired and (flush or state.pushed is None):  # no push will take back reports
        before = PushedRuns(Kept(plan, closing.store, ()), BEGIN if state.watermark is None else state.watermark)
        panes += reported(before, state.keys, None if flush else reached)
    _let_go(state, kept, reached, horizon, flush)
    state.store = but(state.store, runs=(*state.store.runs, *later)) if later else state.store
    return panes


def _complete(state: State, kept: Kept, complete: Answers, after: int, until: int) -> list[Panes]:
    """The complete windows. For windows with triggers only what is new, or also what is replaced, as ``emit`` says."""
    plan, emit = state.plan, state.plan.spec.emit
    if emit == "updates" or plan.spec.trigger is None:
        return [Panes.of(complete, LAST, ON_TIME)]
    if emit == "changes":
        return [*_replaced(state, kept, complete, until), Panes.of(complete, 2 * LAST + 1, ON_TIME)]
    triggered = plan.early.cut_windows | plan.early.fired | plan.early.cut_by_rows
    panes = [row_cuts.on_time(plan, state.row_panes, until, LAST)] if plan.early.panes_of_rows else []
    panes += [Panes.of(complete.take(~triggered[complete.window]), LAST, ON_TIME)]
    for group in _groups(state):
        pieces = [kept.table_of(at) for at in _since(kept, group)]
        if pieces:
            found = news_by_push(plan, pieces, _types(plan, group.windows), after, until)
            panes.append(Panes.of(found.parts(plan, pieces), LAST, ON_TIME))
    return panes


def _replaced(state: State, kept: Kept, complete: Answers, until: int) -> list[Panes]:
    """The last reports of windows that are complete now, to be taken back."""
    plan, panes = state.plan, []
    type = np.searchsorted(np.array(plan.timed, np.int64), complete.window)
    for k, cuts in enumerate(plan.early.cuts):
        of_type = np.flatnonzero(plan.early.cut_windows[complete.window] & (type == k))
        if cuts is None or not of_type.size:
            continue
        found = Found.whole(complete, of_type, k)
        before = cuts.before(found.start, found.end, found.end)
        panes += [Panes.of(was, 2 * LAST, EARLY) for was, _ in _were_of(kept, found, before)]
    if plan.early.panes_of_rows:
        was = row_cuts.completed(plan, state.row_panes, until, reported=True)
        panes.append(Panes.of(was, 2 * LAST, EARLY))
    for group in _groups(state):
        of_group = np.flatnonzero(group.windows[complete.window] & np.isin(complete.window, plan.timed))
        if of_group.size and group.fired >= 0:
            found = Found.whole(complete, of_group, type[of_group])
            was, _ = found.up_to(plan, kept.table(_before(kept, group)), found.by_key(found.end))
            panes.append(Panes.of(was, 2 * LAST, EARLY))
    return panes


def _at_cuts(state: State, kept: Kept, after: int, until: int, horizon: int) -> list[Panes]:
    """The panes of event-time triggers."""
    pieces = [(kept.main.table(), BEGIN), *((kept.table_of(i), known.judged) for i, known in enumerate(state.apart))]
    panes, passed = list[Panes](), 0
    for low, high in _steps(state.plan, pieces[0][0], after, until):
        found = news_by_time(state.plan, pieces, low, high)
        panes += _of_cuts(state, kept, [cells for cells, _ in pieces], found, passed, horizon)
        passed += found.cut.size
    return panes


def _steps(plan: Plan, table: Cells, after: int, until: int) -> list[tuple[int, int]]:
    """Split the way of the watermark into steps, so that no step looks at too many pairs of a slice and a window that
    holds it. If windows overlap much, there are many more pairs than panes."""
    slices = max(plan.policy.pane_looks // max(plan.most_windows[0], 1), 1)
    ends = table.slice_ends
    stops = [after, *(end for end in ends[slices::slices].tolist() if after < end < until), until]
    return list(pairwise(stops))


def _of_cuts(state: State, kept: Kept, pieces: Sequence[Cells], found: Found, passed: int, horizon: int) -> list[Panes]:
    """The panes of cuts, which come after ``passed`` other cuts."""
    plan = state.plan
    places, early = passed + distinct(found.cut).searchsorted(found.cut), found.cut < found.end
    if plan.spec.emit == "parts":
        timing = np.where(early, EARLY, ON_TIME).take(found.pane)
        return [Panes(found.parts(plan, pieces), places.take(found.pane), timing)]
    found = found if early.all() else found.of_keys(early.take(found.pane))
    order = found.by_key(places)
    left = kept.left(horizon) if found.cut.size and _stay(plan, kept, found, horizon) else None
    now, _ = found.up_to(plan, kept.table() if left is None else left.table(), found.by_key(found.cut))
    if plan.spec.emit == "updates":
        return [Panes.of(now, order, EARLY)]
    panes = [Panes.of(now, 2 * order + 1, EARLY)]
    before = np.empty(found.cut.size, np.int64)
    for k, cuts in enumerate(plan.early.cuts):
        if cuts is not None:
            of_type = found.type == k
            before[of_type] = cuts.before(found.start[of_type], found.end[of_type], found.cut[of_type])
    for was, held in _were_of(kept, found, before):
        panes.append(Panes.of(was, 2 * order[held], EARLY))
    return panes


def _stay(plan: Plan, kept: Kept, found: Found, horizon: int) -> bool:
    """Whether the cells that are left after the push answer the panes: their windows stay open, and slices are not
    fused across their cuts."""
    if kept.apart or bool((found.end <= horizon).any()):
        return False
    return bool((plan.edges.next_live(found.cut - 1, horizon) == found.cut).all())


def _were_of(kept: Kept, found: Found, before: Ints) -> list[tuple[Answers, Mask]]:
    """The rows that each pane's previous pane, at ``before``, had; and which keys of panes these are.

    Rows that came behind a watermark are only in panes of cuts after that watermark.
    """
    upto = found.by_key(before)
    known = np.zeros(upto.size, np.int64)
    for at, some in enumerate(kept.apart):
        known |= (some.judged < upto).astype(np.int64) << at
    out = []
    for which in distinct(known).tolist():
        same = known == which
        table = kept.table([at for at in range(len(kept.apart)) if which >> at & 1])
        was, held = found.of_keys(same).up_to(kept.plan, table, upto[same])
        whole = np.zeros(upto.size, np.bool_)
        whole[np.flatnonzero(same)[held]] = True
        out.append((was, whole))
    return out


def _let_go(state: State, kept: Kept, reached: int, horizon: int, flush: bool) -> None:
    """Drop what no open window needs, and put what every trigger has reported into the store."""
    plan = state.plan
    if flush:
        state.store, state.apart = store_for(plan), ()
    elif plan.early.keeps_apart and not kept.apart:
        state.store, state.apart = kept.left(horizon), ()
    else:
        main, apart = (kept.main, kept.apart) if plan.early.keeps_apart else (kept.store(), [])
        state.store, *left = main.without_beside([known.store for known in apart], horizon)
        state.apart = tuple(known.but(store) for known, store in zip(apart, left, strict=True))
    if plan.early.panes_of_rows:
        state.row_panes = RowPanes.none(plan) if flush else state.row_panes.without(reached)
    if plan.spec.emit == "changes":  # otherwise `numbered` first counts what is emitted now
        state.revisions = state.revisions.without(horizon)
    settle(state, reached)


def settle(state: State, reached: int, kept: Kept | None = None) -> None:
    """Put into the store what every trigger has reported. ``kept``: all cells, perhaps merged already."""
    plan = state.plan
    left: list[Apart] = []
    done: list[Cells] = []
    if not state.apart:
        return
    fired = min([state.fired.get(plan.names[number], -1) for number in plan.early.fired_numbers], default=None)
    for known in state.apart:
        all_fired = fired is None or known.epoch <= fired
        if all_fired and (known.judged == BEGIN or _all_passed(plan, known, reached)):
            done += known.store.runs
        elif known.store.runs:
            left.append(known)
    whole = None if kept is None or left else kept.merged
    if whole is not None:
        state.store = state.store.of((whole,))
    else:
        for run in done:
            state.store = state.store.add(run)
    state.apart = tuple(left)


def _all_passed(plan: Plan, known: Apart, reached: int) -> bool:
    """Whether the watermark has passed a cut of every window that holds these rows, since they were judged."""
    for cuts, bound in zip(plan.early.cuts, plan.bounds, strict=True):
        if cuts is None or any((reached - o) // d > (known.judged - o) // d for d, o in cuts.spans):
            continue
        if any((bound.latest_end(run.slice_ends) > reached) for run in known.store.runs):
            return False
    return True


# --- triggers of pushes -----------------------------------------------------------------------------------------------


def due(state: State, at_push: bool) -> Mask:
    """The windows, by number, whose triggers fire now by themselves."""
    plan, now = state.plan, []
    for name in plan.names:
        trigger = plan.spec.trigger_of(name)
        parts = () if trigger is None else trigger.parts()
        now.append((at_push and EachPush() in parts) or any([_passed(state, name, part) for part in parts]))
    return np.array(now, np.bool_)


def _passed(state: State, name: str, trigger: Trigger) -> bool:
    """Whether the clock says that the trigger is due again. The first call starts the clock."""
    if not isinstance(trigger, EveryProcessingTime):
        return False
    now = microseconds(trigger.clock)
    since = state.fired_at.get(name)
    if since is not None and now - since < trigger.span.ns // 1000:
        return False
    state.fired_at = state.fired_at | {name: now}
    return since is not None


def fire(state: State, windows: Mask) -> list[Panes]:
    """Report the open windows of these numbers that have rows since their triggers last fired."""
    plan, panes, pushed = state.plan, list[Panes](), state.pushed
    after = BEGIN if state.watermark is None else state.watermark
    kept = Kept(plan, state.store, state.apart)
    if plan.early.keeps_reports:
        state.reported, panes = open_runs.fired(plan, state.reported, kept.table(), state.keys, windows, after)
    elif pushed is not None:
        panes, state.pushed = reported(pushed, state.keys, after), None
    if kept.apart:
        for group in _groups(state):
            firing = group.windows & windows
            pieces = [cells for at in _since(kept, group) if len(cells := news(plan, kept.table_of(at)))]
            if firing.any() and pieces:
                panes += _fired(state, kept, group._replace(windows=firing), pieces, after)
    state.fired = state.fired | {plan.names[i]: state.epoch for i in np.flatnonzero(windows).tolist()}
    state.epoch += 1
    settle(state, after, kept if state.apart else None)
    return panes


def _fired(state: State, kept: Kept, group: Group, pieces: Sequence[Cells], after: int) -> list[Panes]:
    plan, emit = state.plan, state.plan.spec.emit
    found = news_by_push(plan, pieces, _types(plan, group.windows), after)
    if emit == "parts":
        return [Panes.of(found.parts(plan, pieces), 0, EARLY)]
    end = found.by_key(found.end)
    now, _ = found.up_to(plan, kept.table(), end)
    if emit == "updates":
        return [Panes.of(now, 0, EARLY)]
    was, _ = found.up_to(plan, kept.table(_before(kept, group)), end)
    return [Panes.of(was, 0, EARLY), Panes.of(now, 1, EARLY)]


def _groups(state: State) -> list[Group]:
    """The windows between edges with triggers of pushes, grouped by when they last fired."""
    plan, found = state.plan, dict[int, Mask]()
    for number in plan.early.fired_numbers:
        at = state.fired.get(plan.names[number], -1)
        found.setdefault(at, np.zeros(len(plan.names), np.bool_))[number] = True
    return [Group(found[at], at) for at in sorted(found)]


def _since(kept: Kept, group: Group) -> list[int]:
    """The cells apart that came after a group's triggers fired."""
    return [at for at, known in enumerate(kept.apart) if known.epoch > group.fired]


def _before(kept: Kept, group: Group) -> list[int]:
    """The cells apart that a group's triggers have reported."""
    return [at for at, known in enumerate(kept.apart) if known.epoch <= group.fired]


def _types(plan: Plan, windows: Mask) -> Mask:
    """A mask of windows by number as a mask of types of windows between edges."""
    return windows[np.array(plan.timed, np.int64)]


# --- output -----------------------------------------------------------------------------------------------------------


def numbered(
    state: State, answers: Sequence[Answers], revised: tuple[Answers, Ints] | None, panes: Sequence[Panes]
) -> Panes:
    """All panes of a push, with revisions in place of their order, and the windows of kept rows."""
    plan = state.plan
    last = LAST if plan.spec.emit != "changes" else 2 * LAST + 1
    panes = [*panes, *(Panes.of(some, last, ON_TIME) for some in answers)]
    if revised is not None:
        again, mark = revised
        panes.append(Panes(again, mark, np.where(mark == 0, ON_TIME, LATE)))
    found = together(plan, panes)
    if plan.spec.emit != "changes" and len(found.answers):
        state.revisions, order = _counted(state, found)
        found = Panes(found.answers, order, found.timing)
    return found


def _counted(state: State, panes: Panes) -> tuple[Revisions, Ints]:
    """The revisions after these panes, and each pane's revision."""
    plan, answers = state.plan, panes.answers
    if not plan.bound_rows:
        return state.revisions.numbered(answers, panes.order, state.horizon)
    # windows of kept rows are emitted once, and several may be equal
    counted = ~np.isin(answers.window, [window.number for window in plan.bound_rows.values()])
    revision = np.zeros(len(answers), np.int64)
    some, order = answers.take(counted), panes.order[counted]
    revisions, revision[counted] = state.revisions.numbered(some, order, state.horizon)
    return revisions, revision


def rows_of(state: State, panes: Sequence[Panes]) -> pa.Table:
    """Numbered panes as a table."""
    plan, found = state.plan, together(state.plan, panes)
    if not len(found.answers):
        return plan.no_windows
    return results.of_panes(plan, state.keys, state.pools, *found)


def together(plan: Plan, panes: Sequence[Panes]) -> Panes:
    some = [found for found in panes if len(found.answers)]
    if len(some) <= 1:
        return some[0] if some else Panes(Answers.none(plan), none(), none())
    order, timing = (np.concatenate([getattr(found, name) for found in some]) for name in ("order", "timing"))
    return Panes(Answers.together([found.answers for found in some]), order, timing)
