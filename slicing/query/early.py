"""The triggers of a query, resolved: which windows are reported early, when, and what is kept separately for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slicing.query.spec import Spec
from slicing.query.triggers import EVENT, PUSH, AfterCount, AfterShare, EachPush, Every, Patient, Trigger, Unfired
from slicing.query.type_checks import check_span, of_window
from slicing.system.arrays import Mask
from slicing.system.lazy import lazy
from slicing.times.measure import Measure
from slicing.windows.bounds import Bound
from slicing.windows.builtin import Session, Whole
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.cuts import Cuts, RowCuts


class Early:
    """The triggers of a spec in ticks: for windows between edges by type number, for others by window number."""

    def __init__(self, spec: Spec, names: Sequence[str], measure: Measure) -> None:
        self._names, self._measure = names, measure
        self._triggers = [spec.trigger_of(name) for name in names]
        windows = [spec.windows[name] for name in names]
        self._timed = [i for i, w in enumerate(windows) if isinstance(w, ContextFreeWindow)]
        self._runs = [i for i, w in enumerate(windows) if isinstance(w, Session | Whole)]
        triggers = [trigger for trigger in spec.triggers().values() if trigger.kind != PUSH]
        self.marks = tuple(dict.fromkeys(column for trigger in triggers for column in trigger.columns()))
        timed = [self._bound(i) for i in self._timed]
        self.cuts = [cuts if isinstance(cuts, Cuts) else None for cuts in timed]
        self.row_cuts = [cuts if isinstance(cuts, RowCuts) else None for cuts in timed]
        # when sessions and whole streams are reported: at times only, or at rows too
        of_runs = {i: self._bound(i) for i in self._runs}
        self.run_cuts = {i: cuts for i, cuts in of_runs.items() if isinstance(cuts, Cuts)}
        self.run_marks = {i: cuts for i, cuts in of_runs.items() if isinstance(cuts, RowCuts)}
        self.paned = spec.trigger is not None or spec.emit == "parts"  # a window may be emitted several times

    def _bound(self, number: int) -> Cuts | RowCuts | None:
        """The cuts of a window's event-time or arrival trigger: times only, or rows too. None: no such trigger."""
        trigger = self._triggers[number]
        if trigger is None or trigger.kind == PUSH:
            return None
        times, parts = self._times(self._names[number], trigger), trigger.parts()
        counts = tuple((part.n, part.times) for part in parts if isinstance(part, AfterCount))
        marks = sum(1 << self.marks.index(column) for column in trigger.columns())
        if not (counts or marks):
            return times
        by_arrival = trigger.kind != EVENT
        at_once = by_arrival and not isinstance(trigger, Patient)
        return RowCuts(counts, marks, times if times.spans or times.shares else None, by_arrival, at_once)

    def _times(self, name: str, trigger: Trigger) -> Cuts:
        ticks, spans = self._measure.ticks, []
        for part in trigger.parts():
            if isinstance(part, Every):
                span = of_window(name, ticks, part.span, "the trigger's span")
                check_span(name, span)
                spans.append((span, of_window(name, ticks, part.offset, "the trigger's offset") % span))
        return Cuts(spans, [part.exact for part in trigger.parts() if isinstance(part, AfterShare)])

    def edges(self, bounds: Sequence[Bound]) -> list[Bound]:
        """Where slices are cut for triggers, in addition to the windows' own edges."""
        of_types = [cuts.edges(bound) for cuts, bound in zip(self.cuts, bounds, strict=True) if cuts is not None]
        of_runs = [cuts.edges(Bound()) for cuts in self.run_cuts.values()]
        return [edges for found in (*of_types, *of_runs) for edges in found]

    def _among(self, numbers: Iterable[int]) -> Mask:
        """Some windows, as a mask over all windows."""
        found = np.zeros(len(self._names), np.bool_)
        found[list(numbers)] = True
        return found

    @lazy
    def cut(self) -> bool:
        """Whether event-time triggers cut windows. If so, rows behind the watermark are kept apart until reported."""
        return any(cuts is not None for cuts in self.cuts)

    @lazy
    def cut_windows(self) -> Mask:
        """Mask of the windows that event-time triggers cut."""
        return self._among(i for i, cuts in zip(self._timed, self.cuts, strict=True) if cuts is not None)

    @lazy
    def cut_by_rows(self) -> Mask:
        """Mask of the windows that are reported at rows."""
        timed = (i for i, cuts in zip(self._timed, self.row_cuts, strict=True) if cuts is not None)
        return self._among((*timed, *self.run_marks))

    @lazy
    def panes_of_rows(self) -> bool:
        """Whether any window is reported at rows; a report waits until the watermark has passed its row."""
        return bool(self.cut_by_rows.any())

    @lazy
    def fired(self) -> Mask:
        """Mask of the windows that triggers report at the end of pushes."""
        return np.array([trigger is not None and trigger.kind == PUSH for trigger in self._triggers], np.bool_)

    @lazy
    def fires(self) -> bool:
        """Whether any window is reported at the end of pushes."""
        return bool(self.fired.any())

    @lazy
    def fired_numbers(self) -> list[int]:
        """Numbers of windows between edges that are reported at the end of pushes; new rows wait apart until then."""
        return [i for i in self._timed if self.fired[i]]

    @lazy
    def fired_slices(self) -> Mask:
        """The windows of ``fired_numbers``, as a mask over all windows."""
        return self._among(self.fired_numbers)

    @lazy
    def keeps_apart(self) -> bool:
        """Whether rows are kept outside of the store until windows between edges are reported."""
        return self.cut or bool(self.fired_numbers)

    @lazy
    def keeps_reports(self) -> bool:
        """Whether sessions or whole streams have a trigger other than each push: what was reported is then kept."""
        triggers = [self._triggers[i] for i in self._runs if i not in self.run_marks]
        return any(t is not None and t.parts() != (EachPush(),) and not isinstance(t, Unfired) for t in triggers)

    @lazy
    def fires_runs(self) -> bool:
        """Whether each push reports sessions or whole streams: their results before the push are kept until its end."""
        return not self.keeps_reports and bool((self.fired & ~self.fired_slices).any())

    def reports_run(self, number: int) -> bool:
        """Whether a session window or a whole stream is reported early, at times."""
        return bool(self.fired[number]) or number in self.run_cuts
