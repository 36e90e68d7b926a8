"""The operator: push rows, advance time, flush, snapshot. ``slicing.push`` has the stages of a push.

A push works on a draft of the state, which replaces the state at its end. A push that fails leaves the operator as it
was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import Any

import pyarrow as pa

from slicing.closing.wide import check_layout, widened
from slicing.columns.sources import one_batch
from slicing.lifecycle import snapshot
from slicing.lifecycle.change import replanned, with_windows
from slicing.lifecycle.snapshot import NOTHING_YET, BeforeRows
from slicing.lifecycle.state import State
from slicing.output import Output
from slicing.push import Pushed, advance, fire_by_hand, flush, push
from slicing.pushes import marked
from slicing.pushes.max_bytes import within
from slicing.pushes.wrong_clock import Watch
from slicing.query.given_watermarks import fitting, waiting
from slicing.query.plan import Plan, check_types
from slicing.query.policy import DEFAULT, Policy, checked
from slicing.query.spec import Spec
from slicing.query.spec_checks import by_hand_windows
from slicing.query.watermark import Punctuated
from slicing.stages.output import without_columns
from slicing.system.arguments import at_least_one, choice, says_arguments
from slicing.system.heap import keep_freed_memory
from slicing.system.threads import thread_count
from slicing.system.turns import TakesTurns, in_the_middle, in_turn
from slicing.times.measure import plain_moment
from slicing.triggers.fired import fired_before_rows
from slicing.windows.bounds import BEGIN, LIMIT
from slicing.windows.builtin import Whole, Window
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.row_windows import RowWindow

keep_freed_memory()


class Operator(TakesTurns):
    """A window query over a stream, in one process.

    ``push`` takes anything with the Arrow C interface. The first push fixes the types of the columns; later a column of
    Arrow's type null may come instead, as nulls. Each ``push``, ``advance`` and ``flush`` returns an :class:`Output`. A
    call that fails leaves the operator as it was. Calls from several threads take turns. An operator can be pickled and
    copied; ``snapshot`` and ``restore`` are for state that outlives the process. The attribute ``spec`` is the query.

    Parameters
    ----------
    spec
        The query.
    max_windows_per_push
        A push that closes more windows spreads them over the following pushes, about this many each (not windows of
        ``rows``). Windows between edges that end earliest come first, then keys in the order in which they first came.
        Sessions that one push closes come key by key. Windows of one key with the same end are never split. All shares
        together cost what one flush costs. Results of windows with triggers wait in the order in which they were made.
        None: a push emits all windows that it closes.
    max_bytes
        The most bytes that the operator may hold (``out.stats.bytes``, without Python's own objects). A push that
        would exceed them is refused whole with a ``MemoryError``, and the operator stays as it was.
    on_full
        ``"error"``, or ``"late"``: the rows of a push that exceeds ``max_bytes`` are in no window. They come back in
        ``out.late`` with the reason ``"full"``, and ``out.stats.full`` counts them. The watermark moves on, so windows
        close and memory becomes free.
    threads
        How many threads share the rows of large pushes.
    combine
        The strategy that combines slices to windows: ``explain`` tells which is chosen. Results differ only in the last
        bits of float sums.
    layout
        ``"wide"`` makes ``out.windows`` as wide as :func:`aggregate` does. With ``emit="updates"`` each window has a
        column ``revision_<window>``, and rows come only for keys and window ends with a new or changed window. Columns
        of unchanged windows are null: merge them with ``coalesce``.
    policy
        For tests (``slicing.query.policy``): the limits by which the engine chooses between algorithms.

    Examples
    --------
    >>> op = sl.Operator(sl.Spec("t", {"ten": sl.tumbling(10)}, {"total": sl.sum("v")}, by=["k"]))
    >>> op.push(pa.table({"t": [1, 2, 12], "k": ["a", "b", "a"], "v": [1, 2, 3]})).windows["total"].to_pylist()
    [1, 2]
    >>> op.flush().windows["total"].to_pylist()
    [3]
    """

    @says_arguments
    def __init__(
        self,
        spec: Spec,
        *,
        max_windows_per_push: int | None = None,
        max_bytes: int | None = None,
        on_full: str = "error",
        threads: int = 1,
        combine: str = "auto",
        layout: str = "long",
        policy: Policy = DEFAULT,
    ) -> None:
        if not isinstance(spec, Spec):
            raise TypeError(f"Operator takes a sl.Spec; got {type(spec).__name__}")
        self.spec = spec
        if max_windows_per_push is not None:
            at_least_one(max_windows_per_push, "max_windows_per_push", ", or None")
        thread_count(threads)
        if max_bytes is not None:
            at_least_one(max_bytes, "max_bytes", ", or None")
        choice(on_full, "on_full", ("error", "late"))
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a slicing.query.policy.Policy; got {policy!r}")
        self._policy = policy.with_arguments(
            max_windows_per_push=max_windows_per_push,
            max_bytes=max_bytes,
            on_full=on_full,
            threads=threads,
            combine=combine,
        )
        checked(self._policy.combine, spec)
        self._carries_marks = isinstance(spec.watermark, Punctuated) and bool(spec.watermark.by)
        if self._carries_marks:
            marked.check_policy(self._policy, f"watermark={spec.watermark!r}")
        self._wide = check_layout(layout, spec)
        self._now: State | None = None
        self._by_marks = self._carries_marks  # whether keys have marks of their own, or rows may carry marks
        self._before_rows = NOTHING_YET
        self._ended = False
        self._upto: int | None = None  # no row after the next push comes before this tick, if that is known
        self._watch = Watch.of(spec)
        self._waiting: list[Callable[[], int]] | None = None  # adds rows of a push that may be undone to the head

    def __repr__(self) -> str:
        return f"<sl.Operator of {self.spec!r}>"

    def _repr_html_(self) -> str:
        state = "ended" if self._ended else "no rows yet" if self._now is None else "in the middle of a stream"
        return f"<p>An operator ({state}) of the query:</p>{self.spec._repr_html_()}"

    def push(self, data: object) -> Output:
        """Take rows and return the windows that they close.

        Rows that wait may be kept in the given memory. So do not write into memory that Arrow shares with its owner (a
        numpy array, a DataFrame's column) after it was pushed.
        """
        turn, thread = self._turn, get_ident()
        if turn.thread == thread:
            raise in_the_middle(self, "push")
        with turn.lock:  # ``in_turn`` inlined: each call is a noticeable part of a small push
            turn.thread = thread
            try:
                return self._push(data)
            finally:
                turn.thread = None

    def _push(self, data: object) -> Output:
        given = data if isinstance(data, pa.RecordBatch) else one_batch(data)
        if self._ended:
            raise self._over()
        before = self._now if self._now is not None else self._first_state(given.schema)
        if before.store.head is not None:
            before.store.head.check()
        known = 0 if before.keys is None else len(before.keys)
        try:
            run = marked.push if self._by_marks else push
            if self._policy.max_bytes is None:
                pushed = run(before, given, self._upto)
            else:
                pushed = within(run, before, given, known, self._upto)
            watch = self._watch
            if watch is not None:
                self._watch = None  # a warning may be an error: then this push changes nothing, and may be repeated
                watch = watch.after(before, pushed.state, pushed.rows, pushed.out)
            out = self._commit(pushed)
            self._watch = watch
            return out
        except BaseException as error:
            self._undo(before, known, error)
            raise

    def _undo(self, before: State, known: int, error: BaseException) -> None:
        """Remove what a call added to tables which fails. An error of ours comes between two keys, others anywhere."""
        refused = isinstance(error, ValueError | TypeError | OverflowError)
        if self._now is before:
            self._now = before.as_it_was(known, rebuild=not refused)

    @in_turn
    def advance(self, watermark: object = None, *, marks: object = None) -> Output:
        """Move the watermark: no row before it will come, or no row of some keys. Watermarks never go back.

        Parameters
        ----------
        watermark
            A time, or None: a datetime, a date, an ISO string, numpy's datetime, or a whole number in the units of the
            time column (of ``timestamp[us]``, microseconds since 1970). One without a zone is in UTC if the time column
            has a zone.
        marks : table, optional
            Watermarks of single keys: the key columns and the time column, one row per key. A null time says that no
            more rows of the key will come. A key's watermark is the larger of the stream's watermark and its own mark.
            It decides which rows of the key are late and when its windows close. ``out.watermark`` stays the stream's.

        Examples
        --------
        >>> op = sl.Operator(sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}, by="k", watermark=sl.manual()))
        >>> _ = op.push(pa.table({"t": [1, 2, 3], "k": ["a", "b", "a"]}))
        >>> op.advance(marks=pa.table({"t": [10], "k": ["a"]})).windows.select(["k", "n"]).to_pylist()
        [{'k': 'a', 'n': 2}]
        """
        if watermark is None and marks is None:
            raise TypeError("advance takes a watermark, marks= of keys, or both; got none")
        if self._ended:
            raise self._over()
        if self._now is None:
            if marks is not None:
                raise ValueError("marks of keys need the columns of the rows; push some first")
            advanced = waiting(self._before_rows.advanced, plain_moment(watermark))
            self._before_rows = BeforeRows(advanced, fired_before_rows(self.spec, self._before_rows.fired_at))
            return self._nothing()
        upto = None if watermark is None else _advanced(self._now.plan, watermark)
        if marks is None:
            assert upto is not None
            return self._advance(upto)
        before, known = self._now, 0 if self._now.keys is None else len(self._now.keys)
        try:
            return self._commit_advance(marked.advance(before, upto, marks))
        except BaseException as error:
            self._undo(before, known, error)
            raise

    def _advance(self, upto: int) -> Output:
        """Advance an operator that has had rows. ``upto``: no later row comes before this time, in ticks."""
        assert self._now is not None
        if self._by_marks:
            return self._commit_advance(marked.advance(self._now, upto, None))
        return self._commit_advance(advance(self._now, upto))

    def _commit_advance(self, pushed: Pushed) -> Output:
        """Commit, and hold no row responsible for a watermark that was given."""
        assert self._now is not None
        if self._watch is not None and pushed.state.watermark != self._now.watermark:
            self._watch = self._watch._replace(moved=None)
        return self._commit(pushed)

    @in_turn
    def fire(self, *names: str) -> Output:
        """Report the open windows with the trigger ``sl.by_hand()`` that have had rows since their last report.

        Parameters
        ----------
        names
            Names of windows in ``Spec(windows=...)``. By default all windows that have the trigger ``sl.by_hand()``.

        Returns
        -------
        Output
            ``windows`` has a row for each window with news, ``timing="early"``.

        Raises
        ------
        ValueError
            If a window has no trigger ``sl.by_hand()``.

        Examples
        --------
        >>> import pyarrow as pa, slicing as sl
        >>> spec = sl.Spec("t", {"w": sl.tumbling(60)}, {"n": sl.count()}, trigger=sl.by_hand(), emit="parts")
        >>> op = sl.Operator(spec)
        >>> _ = op.push(pa.table({"t": [1, 2]}))
        >>> op.fire("w").windows["n"].to_pylist()
        [2]
        """
        fired = by_hand_windows(self.spec, names)
        if self._ended:
            raise self._over()
        if self._now is None:
            return self._nothing()
        return self._commit(fire_by_hand(self._now, fired))

    @in_turn
    def flush(self) -> Output:
        """End the stream: close all windows that are still open.

        Before the first push the types of columns are not known: the table of windows then has columns of type null.
        After it, ``push`` and ``advance`` raise, and another ``flush`` has nothing to return.
        """
        if self._now is None:
            self._ended = True
            return self._nothing()
        out = self._commit((marked.flush if self._by_marks else flush)(self._now))
        self._ended = True
        return out

    def _commit(self, pushed: Pushed) -> Output:
        """The draft state of a push replaces the operator's state, and rows go into the head of the store."""
        state, out, add, _ = pushed
        if add is not None and self._waiting is not None:
            self._waiting.append(add)
        elif add is not None:
            cells = add()
            if out.stats:
                out.stats["cells"] += cells
        self._now = state
        self._by_marks = self._carries_marks or state.marks.code.size > 0
        if state.store.head is not None and not self._waiting:
            state.store.head.torn = False  # an interrupt before this leaves rows in the head without a new state
        return self._shown(out) if self._wide else out

    def _restorer(self, one_call: bool = False) -> Callable[[], None]:
        """Return a function that restores the current state, for a chain in which a later operator may refuse the call.

        For one call, rows for the head of the store wait until :meth:`_kept`. Several calls build on each other, so the
        head is made a run first, which costs as much as the head has cells.
        """
        state = self._now if one_call else self._state
        keys = None if state is None else state.keys
        known, as_it_is = 0 if keys is None else len(keys), self.__dict__.copy()
        self._waiting = [] if one_call else None

        def put_back() -> None:
            warned = self._watch is None  # a warning that is an error comes once
            self.__dict__.update(as_it_is | ({"_watch": None} if warned else {}))
            if state is not None:
                self._now = state.as_it_was(known, rebuild=True)

        return put_back

    def _kept(self) -> None:
        """Add the rows that wait to the head: no later operator has refused the one call."""
        waiting, self._waiting = self._waiting or [], None
        for add in waiting:
            add()
        if waiting and self._now is not None and self._now.store.head is not None:
            self._now.store.head.torn = False

    @property
    def _knows_columns(self) -> bool:
        """Whether the types of the result columns are known."""
        return self._now is not None

    def _unmoved(self) -> Output:
        """The output of a call that brings nothing new."""
        return self._nothing() if self._now is None else self._advance(BEGIN)

    def _reached(self, column: str, out: Output) -> Any:
        """How far results have come along a column of theirs, for the next operator of a chain. Windows that ``out``
        knows no least end of end at a row that is kept, or at one to come."""
        found, now = out.progress.get(column), self._now
        if found is not None or column != "window_end" or now is None or now.reached is None:
            return found
        if not all(isinstance(w, Window) and not isinstance(w, Whole) for w in self.spec.windows.values()):
            return None  # nothing is known of a user's windows
        earliest = min(part.rows.earliest() for part in (now, *now.groups))
        return now.plan.measure.value(min(now.reached - now.plan.lateness, earliest))

    def _over(self) -> RuntimeError:
        return RuntimeError("the operator was flushed, which ends its stream; build a new Operator to go on")

    def _nothing(self) -> Output:
        """The output before the columns are known."""
        return self._shown(without_columns(self.spec))

    def _shown(self, out: Output) -> Output:
        """The output in the requested layout."""
        return replace(out, windows=widened(out.windows, self.spec)) if self._wide else out

    @property
    def _state(self) -> State | None:
        """The whole state as values: the head of the store becomes a run, and the next pushes begin a new head."""
        now = self._now
        if now is not None and now.store.head is not None:
            store, revisions = now.headless()
            self._now = now.but(store=store.settled(), revisions=revisions)
        return self._now

    @_state.setter
    def _state(self, state: State | None) -> None:
        if state is not None and (len(state.marks) or state.groups):
            marked.check_policy(self._policy, "an operator whose keys have marks")
        if state is not None:
            state.plan.set_policy(self._policy)
        self._now = state
        self._by_marks = self._carries_marks or (state is not None and state.marks.code.size > 0)

    @in_turn
    def add_window(self, name: str, window: ContextFreeWindow | RowWindow | Window) -> None:
        """Ask for one more window type from now on. ``spec`` then has it.

        Windows that have missed rows, and windows that are over already, are never emitted. With
        ``allowed_lateness`` a window is over that long after its end. :meth:`complete_from` tells
        from when on windows are complete. The first complete window depends on the type:

        - windows between edges: may have begun before now, if slices hold all its rows; with a trigger, the first
          window that begins after the newest row (with ``after_count``, which counts from some row on: refused);
        - ``session``, ``punctuation``: the first window that certainly begins after now;
        - ``frame``: after a row has left a frame;
        - ``rows``, ``per_row(every=)``, ``fill=True``, a ``ContextAwareWindow``: see only new rows, as if the stream
          began now. New rows are later than all rows so far or, with ``order="arrival"``, come from now on;
        - ``last_rows``: the first window of a key that has ``n`` rows;
        - ``whole``, and a ``landmark`` or ``fixed`` that begins before now: refused, as no window could be complete.
        """
        if not isinstance(name, str):
            raise TypeError(f"add_window: the name of a window must be a string; got {name!r}")
        self._changed({**self.spec.windows, name: window}, name)

    @in_turn
    def remove_window(self, name: str) -> None:
        """Drop a window type. Its open windows are forgotten."""
        self._check_named(name, "remove_window")
        if len(self.spec.windows) == 1:
            raise ValueError(f"remove_window: {name!r} is the only window; add another one first")
        self._changed({n: w for n, w in self.spec.windows.items() if n != name})

    def complete_from(self, name: str) -> Any:
        """The time from which windows are complete: windows that start then or later (``per_row``: that end then or
        later). None: all windows are complete. Windows that were over when the type was added are not emitted.

        Of each key, whenever it comes, ``punctuation`` waits for the first mark since it was added, and ``frame`` for
        the first row outside of a frame.
        """
        self._check_named(name, "complete_from")
        if self._now is None or self._now.plan.since.get(name, BEGIN) == BEGIN:
            return None
        return self._now.plan.measure.value(self._now.plan.since[name])

    def _check_named(self, name: object, function: str) -> None:
        if not isinstance(name, str) or name not in self.spec.windows:
            raise ValueError(f"{function}: no window is named {name!r}; there are {', '.join(self.spec.windows)}")

    def _changed(self, windows: dict[str, ContextFreeWindow | RowWindow | Window], added: str | None = None) -> None:
        if self._ended:
            raise self._over()
        if added is not None and added in self.spec.windows:
            raise ValueError(f"add_window: there is a window {added!r} already; remove it first or choose another name")
        ahead = 0 if self._now is None else self._now.marks.waiting
        if ahead:
            raise ValueError(
                f"{'remove' if added is None else 'add'}_window: {ahead} keys have marks ahead of the stream; advance "
                "its watermark past them first"
            )
        spec = with_windows(self.spec, windows)
        checked(self._policy.combine, spec)
        check_layout("wide" if self._wide else "long", spec)
        state = None if self._state is None else replanned(self._state, spec, added)
        self._state = state  # this may refuse the windows
        self.spec = spec

    @in_turn
    def snapshot(self) -> bytes:
        """The whole state as bytes with a version and a checksum. ``restore`` continues from it."""
        return snapshot.write(self.spec, self._state, self._before_rows, self._ended)

    @in_turn
    def __reduce__(self) -> tuple[object, ...]:
        """Pickles and copies are made of a snapshot. The copy and the original continue independently."""
        restore = partial(Operator.restore, policy=self._policy, layout="wide" if self._wide else "long")
        return restore, (self.spec, snapshot.write(self.spec, self._state, self._before_rows, self._ended))

    @staticmethod
    def restore(
        spec: Spec,
        blob: bytes,
        *,
        max_windows_per_push: int | None = None,
        max_bytes: int | None = None,
        on_full: str = "error",
        threads: int = 1,
        combine: str = "auto",
        layout: str = "long",
        policy: Policy = DEFAULT,
    ) -> Operator:
        """The operator that wrote the snapshot. A snapshot of another spec or format, or a damaged one, is refused."""
        operator = Operator(
            spec,
            max_windows_per_push=max_windows_per_push,
            max_bytes=max_bytes,
            on_full=on_full,
            threads=threads,
            combine=combine,
            layout=layout,
            policy=policy,
        )
        state, operator._before_rows, operator._ended = snapshot.read(spec, blob, policy=operator._policy)
        operator._state = state
        return operator

    def _first_state(self, schema: pa.Schema) -> State:
        state = State.fresh(self.spec, schema, policy=self._policy)
        check_types(self._policy.combine, state.plan)
        if self._before_rows.advanced:
            state.watermark = max(fitting(self._before_rows.advanced, partial(_advanced, state.plan)))
        state.fired_at = self._before_rows.fired_at
        return state


def _advanced(plan: Plan, watermark: object) -> int:
    """A watermark in ticks, limited to the range of times."""
    return max(-LIMIT, min(LIMIT, plan.measure.watermark(watermark, "watermark")))
