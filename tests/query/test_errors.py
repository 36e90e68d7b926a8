"""What is refused, where, and in which words: the argument or column, its value or type, and what is allowed.

The tables have a call, as code, and what it raises; ``...`` stands for words left out.
"""

from __future__ import annotations

import pathlib  # noqa: F401, used by the calls below
import re
from decimal import Decimal

import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import polars as pl  # noqa: F401
import pyarrow as pa
import pytest

import slicing as sl

US, DATE = pa.timestamp("us"), pa.date32()
WIDE = Decimal(10) ** 35


def spec(**changes):
    return sl.Spec(**({"time": "t", "windows": {"w": sl.tumbling(10)}, "aggs": {"n": sl.count()}} | changes))


def rows(**changes):
    """Two rows of every kind of column; None leaves a column out."""
    columns = {"t": [1, 2], "k": ["a", "b"], "v": [1, 2], "x": [0.5, 1.5], "flag": [True, None], "l": [[1], []]}
    return pa.record_batch({name: values for name, values in (columns | changes).items() if values is not None})


def times(type, *ticks):
    return pa.array(ticks or (0, 1), pa.int32() if type == DATE else pa.int64()).cast(type)


def push(query, *batches):
    operator = sl.Operator(query)
    for batch in batches or [rows()]:
        operator.push(batch)
    return operator


class Odd(sl.ContextFreeWindow):
    """A user's window that a test gives its answers."""

    def __init__(self, edge=lambda times: times + 1, held=lambda time: [(time, time + 1)]):
        self.next_edge, self.containing = edge, held

    def __repr__(self):
        return "Odd()"


def refuses(call, sentence):
    """The call, as code, fails with this error; ``...`` leaves out words."""
    with pytest.raises(Exception) as caught:
        eval(call, globals())
    said = f"{type(caught.value).__name__}: {caught.value}"
    assert re.fullmatch(re.escape(sentence).replace(r"\.\.\.", ".*"), said), said


# --- when a spec is built -------------------------------------------------------------------------------------------

WHEN_BUILT = {
    "spec(time=3)": "TypeError: time must be the name of a column or sl.processing_time(); got 3",
    "spec(time='')": "TypeError: time must be the name of a column or sl.processing_time(); got ''",
    "spec(by=3)": "TypeError: by must be a list of column names ([] for one global group); got 3",
    "spec(by=['k', ''])": "TypeError: by must be a list of column names ([] for one global group); got ['k', '']",
    "spec(by=['k', 'j', 'k'])": "ValueError: by names column 'k' twice; each key column is named once",
    "spec(by=['window'])": (
        "ValueError: by column 'window' has the name of an output column (the window's name); rename it"
    ),
    "spec(by=['op'], emit='changes')": (
        "ValueError: by column 'op' has the name of an output column (the column of emit='changes'); rename it"
    ),
    "spec(by=['k'], aggs={'k': sl.count()})": (
        "ValueError: aggs has 'k', which is already a key column in the output; choose another name"
    ),
    "spec(aggs={'window_end': sl.count()})": (
        "ValueError: aggs has 'window_end', which is already ... in the output; choose another name"
    ),
    "spec(aggs={'revision': sl.count()}, emit='updates')": (
        "ValueError: aggs has 'revision', which is already the column of emit='updates' in the output; "
        "choose another name"
    ),
    "spec(windows={})": (
        "TypeError: windows must be a dict with at least one entry, such as {'n': sl.tumbling('1m')}; got {}"
    ),
    "spec(windows=[sl.whole()])": (
        "TypeError: windows must be a dict with at least one entry, such as {'n': sl.tumbling('1m')}; got [sl.whole()]"
    ),
    "spec(windows={1: sl.whole()})": "TypeError: windows must have names as keys; got 1",
    "spec(windows={'w': '1m'})": (
        "TypeError: windows['w'] must be built by one of the constructors, such as sl.tumbling('1m'); got '1m'"
    ),
    "spec(aggs={})": "TypeError: aggs must be a dict with at least one entry, such as {'n': sl.count()}; got {}",
    "spec(aggs={'': sl.count()})": "TypeError: aggs must have names as keys; got ''",
    "spec(aggs={'n': sl.count})": (
        "TypeError: aggs['n'] must be built by one of the constructors, such as sl.count(); got <function count..."
    ),
    "spec(watermark='10s')": (
        "TypeError: watermark must be sl.bounded(delay), sl.ordered(), sl.manual(), sl.per_source(column, "
        "delay) or sl.punctuated(column); got '10s'"
    ),
    "spec(allowed_lateness=-1)": "ValueError: allowed_lateness must not be negative; got -1",
    "spec(allowed_lateness='soon')": (
        "ValueError: allowed_lateness must be a duration ... whole number; got 'soon' (units, from the "
        "largest: w, d, h, m, s, ms, us, ns)"
    ),
    "spec(allowed_lateness=1.5)": (
        "TypeError: allowed_lateness must be a duration ... whole number; got 1.5 of type float"
    ),
    "spec(emit='all')": "ValueError: emit must be one of 'final', 'updates', 'changes', 'parts'; got 'all'",
    "spec(emit='updates', trigger='1m')": (
        "TypeError: trigger must be one for all windows, such as sl.every('1m'), or a dict of triggers by window name; "
        "got '1m'"
    ),
    "spec(emit='updates', trigger={'x': sl.each_push()})": (
        "ValueError: trigger has 'x', and no window is named so; there are ..."
    ),
    "spec(trigger=sl.each_push())": (
        "ValueError: trigger=sl.each_push() reports windows before they are complete, and emit='final' gives each one "
        "once; use emit='updates', 'changes' or 'parts'"
    ),
    "spec(emit='parts', idle=9, trigger=sl.each_push())": (
        "ValueError: idle=9 ends the windows of a quiet key, and trigger= takes none of these; use one of the two"
    ),
    "spec(windows={'r': sl.rows(5)}, emit='parts', trigger=sl.each_push())": (
        "ValueError: windows['r'], sl.rows(5, every=5), cannot have sl.each_push(): rows decide where it ends; give "
        "triggers to the other windows by name, trigger={'name': ...}"
    ),
    "spec(windows={'l': sl.landmark(5)}, emit='parts', trigger=sl.every(2))": (
        "ValueError: windows['l'], sl.landmark(5), cannot have sl.every(2): it gives the rows so far at each of its "
        "steps already; ..."
    ),
    "spec(windows={'c': sl.cumulate(20, 10)}, emit='updates', trigger=sl.each_push())": (
        "ValueError: windows['c'], sl.cumulate(20, every=10), cannot have sl.each_push(): it gives the rows so far at "
        "each of its steps already; give triggers to the other windows by name, trigger={'name': ...}"
    ),
    "spec(windows={'v': sl.tumbling(9, fill=True)}, emit='parts', trigger=sl.every(2))": (
        "ValueError: windows['v'], sl.tumbling(9, fill=True), cannot have sl.every(2): it has fill=True; ..."
    ),
    "spec(windows={'s': sl.session(5)}, emit='parts', trigger=sl.each_push())": (
        "ValueError: windows['s'], sl.session(5), cannot have sl.each_push(): rows change where it begins and ends, "
        "which needs emit='changes'; got emit='parts'"
    ),
    "spec(windows={'w': sl.tumbling(5), 's': sl.session(5)}, emit='changes', trigger={'s': sl.after_count(2)})": (
        "ValueError: windows['s'], sl.session(5), cannot have sl.after_count(2): rows are counted in windows between "
        "edges alone; use sl.on_punctuation(column), sl.every(span) or a trigger of pushes, such as sl.each_push()"
    ),
    "sl.every(2) | sl.each_push()": (
        "ValueError: a trigger is united with | with others of its kind; sl.every(2) is of the event-time kind and "
        "sl.each_push() of the push kind. ..."
    ),
    "sl.every(2) | 3": "TypeError: a trigger is united with | with others of its kind, such as ...; got 3",
    "sl.every(0)": "ValueError: every's span must be a positive duration ...; got 0",
    "sl.after_share(1.0)": ("ValueError: after_share's share must be a number between 0 and 1, such as 0.5; got 1.0"),
    "sl.after_count(0)": "ValueError: after_count's n must be a whole number of at least 1; got 0",
    "sl.after_count(2, times=0)": "ValueError: after_count's times must be a whole number of at least 1 or None; got 0",
    "sl.after_count(2, order='time ')": "ValueError: after_count's order must be one of 'time', 'arrival'; got 'time '",
    "sl.on_punctuation(3)": "TypeError: on_punctuation's column must be the name of a boolean column; got 3",
    "sl.every_processing_time(5)": (
        "TypeError: every_processing_time's span is time of the clock, a duration such as '10s'; got 5"
    ),
    "sl.Operator(spec(emit='parts', trigger=sl.each_push())).fire()": (
        "ValueError: fire() reports windows with the trigger sl.by_hand(); got trigger=sl.each_push()"
    ),
    "sl.Operator(spec(emit='parts', trigger=sl.by_hand())).fire(sl.col('v'))": (
        "TypeError: fire takes the names of windows, as text; got ..."
    ),
    "sl.Operator(spec(emit='parts', trigger=sl.by_hand())).fire('x')": (
        "ValueError: fire('x'): there is no window of that name with the trigger sl.by_hand(); there are ..."
    ),
    "spec(on_null_time='drop')": "ValueError: on_null_time must be one of 'error', 'late'; got 'drop'",
    "spec(on_overflow='raise')": "ValueError: on_overflow must be one of 'error', 'null', 'wrap'; got 'raise'",
    "spec(sequence=3)": "TypeError: sequence must be the name of a column or None; got 3",
    "spec(sequence='')": "TypeError: sequence must be the name of a column or None; got ''",
    "spec(idle=0)": "ValueError: idle must be a positive duration ... whole number; got 0",
    "spec(idle='a while')": (
        "ValueError: idle must be a positive duration ... whole number; got 'a while' (units, from the "
        "largest: w, d, h, m, s, ms, us, ns)"
    ),
    "spec(allowed_lateness='1m')": (
        "ValueError: spans must be all durations (for a time column) or all whole numbers (for an integer "
        "column); got allowed_lateness='1m' and windows['w']: size=10"
    ),
    "spec(watermark=sl.bounded('1m'))": (
        "ValueError: spans must be all durations (for a time column) or all whole numbers (for an integer "
        "column); got bounded's delay='1m' and windows['w']: size=10"
    ),
    "sl.rows(0)": "ValueError: rows' n must be a whole number of rows, at least 1; got 0",
    "sl.rows(2**62)": "ValueError: rows' n must be a whole number of rows, below 2**62; got 4611686018427387904",
    "sl.rows(5, every=2**64)": "ValueError: rows' every must be a whole number of rows, below 2**62; got ...",
    "sl.last_rows(2**63, 10)": "ValueError: last_rows' n must be a whole number of rows, below 2**62; got ...",
    "sl.top_k('v', 2**63)": "ValueError: top_k's k must be a whole number below 2**62; got ...",
    "sl.explain(spec(), 5)": "TypeError: explain's schema must be a pyarrow Schema ... or None; got int",
    "sl.rows(5, True)": "ValueError: rows' every must be a whole number of rows, at least 1; got True",
    "sl.rows(5, order=np.array(['time', 'arrival']))": (
        "ValueError: the order of rows must be one of 'time', 'arrival'; got array(['time', 'arrival'], dtype='<U7')"
    ),
    "sl.Operator(spec()).add_window(['x'], sl.tumbling(3))": (
        "TypeError: add_window: the name of a window must be a string; got ['x']"
    ),
    "sl.Operator(spec()).remove_window(['w'])": "ValueError: remove_window: no window is named ['w']; there are w",
    "sl.Operator(spec(), combine=np.arange(2))": "ValueError: combine must be ...; got array([0, 1])",
    "sl.rows(5, order='rank')": "ValueError: the order of rows must be one of 'time', 'arrival'; got 'rank'",
    "sl.rows(5, per_key=1)": "TypeError: per_key must be True or False; got 1",
    "sl.rows(5, partial=None)": "TypeError: partial must be True or False; got None",
    "sl.avg": "AttributeError: module 'slicing' has no attribute 'avg'; did you mean sl.mean?",
    "sl.ffill": "AttributeError: ... it is made of others: sl.last(column) in sl.rows(2**40, every=1), ...",
    "sl.first('v', nulls=True)": "TypeError: sl.first has no argument 'nulls' (its arguments are column)",
    "sl.sum('v').filter('b')": "AttributeError: Aggregate has no attribute 'filter'; rows are chosen by .where(flag)",
    "sl.sum('v').cast('int64')": "AttributeError: Aggregate has no attribute 'cast'; apply it to the result, or ...",
    "(sl.sum('v') / 2).mean": "AttributeError: Arithmetic has no attribute 'mean'",
    "sl.count().where((sl.col('v') == None) & sl.col('b'))": "ValueError: where compares with None, which is neither "
    "true nor false for any row; use sl.col('x').is_null() or ~sl.col('x').is_null(); got ...",
    "sl.quantile('v', 95)": "ValueError: quantile's q must be a number from 0 to 1; got 95, which is 0.95 if ...",
    "sl.quantile('v', [0.5, 0.9])": "ValueError: ... from 0 to 1; got [0.5, 0.9]; give each its own aggregate",
    "sl.aggregate(rows(), 't', {'w': sl.tumbling(3)})": "TypeError: sl.aggregate takes at most 2 arguments without a "
    "name (data, spec); got 3; a query is one argument: sl.Spec(time, windows, aggs)",
    "sl.tumblin": "AttributeError: module 'slicing' has no attribute 'tumblin'; did you mean sl.tumbling?",
    "sl.xyzzy": "AttributeError: module 'slicing' has no attribute 'xyzzy'",
    "sl.sum('v') > 3": "TypeError: sl.sum('v') cannot be compared: choose rows with .where(sl.col('x') > 3), ...",
    "round(sl.mean('v'), 2)": "TypeError: sl.mean('v') cannot be rounded: aggregates take + - * /; ...",
    "sl.sum('v') // 2": "TypeError: sl.sum('v') has no // and no %: aggregates take + - * /; ...",
    "2 % sl.sum('v')": "TypeError: sl.sum('v') has no // and no %: aggregates take + - * /; ...",
    "sl.latest(rows(), spec())": "ValueError: column 'window' is missing in the results; their columns are t, k, ...",
    "sl.distinct(rows(), 'k')": "TypeError: sl.distinct needs time= and within= as well, or a sl.DistinctSpec",
    "sl.distinct(rows(), 'k', within=5)": "TypeError: sl.distinct needs time= as well, or a sl.DistinctSpec",
    "sl.distinct(rows(), sl.DistinctSpec('k', 't', 5), time='t')": (
        "TypeError: distinct takes a spec alone, or on=, time= and within=; got both"
    ),
    "abs(sl.count())": "TypeError: sl.count() has no abs(): aggregates take + - * /; compute it from the result",
    "sl.sum('v') ** 2": "TypeError: sl.sum('v') has no power: aggregates take + - * /; write a * a, or compute it ...",
    "sl.sum(pl.col('v'))": "TypeError: sum's column must be the name of a column or an expression; got ...; "
    "expressions are pyarrow's here: sl.col('x') > 3",
    "sl.aggregate(spec(), rows())": "TypeError: aggregate takes the data and, as spec, a sl.Spec; got RecordBatch "
    "(the data comes first)",
    "sl.Spec.from_toml('query.toml')": "ValueError: the spec is no TOML: ...; a file is given as pathlib.Path(...)",
    "sl.punctuation(3)": "TypeError: punctuation's column must be the name of a boolean column, or an expression; "
    "got 3",
    "sl.frame('', 'b')": "TypeError: frame's enter must be the name of a boolean column, or an expression; got ''",
    "sl.frame('a', None)": "TypeError: frame's leave must be the name of a boolean column, or an expression; got None",
    "sl.per_row(0)": "ValueError: per_row's range must be a positive duration ... whole number; got 0",
    "sl.per_row(5, every=0)": "ValueError: per_row's every must be a whole number of rows, at least 1; got 0",
    "sl.per_row(5, order=None)": "ValueError: the order of per_row must be one of 'time', 'arrival'; got None",
    "sl.attach(rows(), spec(windows={'w': sl.sliding(2, 1)}))": "ValueError: ... use sl.per_row(2) for the last 2 ...",
    "sl.per_row()": "TypeError: per_row takes a range, or before and after in its place; got neither",
    "sl.per_row(5, after=2)": (
        "TypeError: per_row takes a range, or before and after in its place; got range=5, before=None, after=2"
    ),
    "sl.per_row(5, closed='neither')": (
        "ValueError: per_row's closed must be one of 'right', 'left', 'both', 'none'; got 'neither'"
    ),
    "sl.per_row(5, delay=-1)": "ValueError: per_row's delay must not be negative; got -1",
    "sl.per_row(before=5, after='-1s')": "ValueError: per_row's after must not be negative; got '-1s'",
    "sl.per_row(before=5, delay=1)": (
        "TypeError: per_row takes a delay with a range, not with before and after; got delay=1"
    ),
    "sl.per_row(before='0s')": "ValueError: per_row with before and after of 0 needs closed='both'; got closed='right'",
    "push(spec(windows={'r': sl.per_row(1, closed='none')}))": (
        "ValueError: windows['r']: sl.per_row(1, closed='none') holds no time: give a longer range, or closed='both'"
    ),
    "push(spec(windows={'r': sl.per_row(2**59, delay=2**60 - 1)}))": (
        "ValueError: windows['r']: sl.per_row(576460752303423488, delay=1152921504606846975) must reach less than "
        "2**60 units"
    ),
    "sl.last_rows(2.5, 10)": "ValueError: last_rows' n must be a whole number of rows, at least 1; got 2.5",
    "sl.last_rows(2, -1)": "ValueError: last_rows' every must be a positive duration ... whole number; got -1",
    "spec(windows={'r': sl.rows(5)}, by=['rank_end'])": (
        "ValueError: by column 'rank_end' has the name of an output column (the rank a rows window ends before); "
        "rename it"
    ),
    "spec(windows={'r': sl.per_row(5)}, allowed_lateness='1s')": (
        "ValueError: spans must be all durations ... got allowed_lateness='1s' and windows['r']: range=5"
    ),
    "spec(windows={'r': sl.rows(5)}, allowed_lateness=3, emit='updates')": (
        "ValueError: emit='updates' with allowed_lateness=3 cannot say which window of windows['r'] a late row "
        "changed, for it moves their bounds; use emit='final' or emit='changes'"
    ),
    "spec(windows={'r': sl.rows(5, order='arrival')}, idle=9)": (
        "ValueError: windows['r'] ranks rows by arrival, but whether a key was quiet for idle=9 shows only when the "
        "watermark has passed; use order='time' or no idle"
    ),
    "spec(windows={'p': sl.punctuation('flag', per_key=False)}, by=['k'], idle=9)": (
        "ValueError: windows['p'] has per_key=False, and idle=9 ends single keys; use per_key=True or no idle"
    ),
    "spec(windows={'d': sl.calendar('1d')}, idle=5)": (
        "ValueError: spans must be all durations (for a time column) or all whole numbers (for an integer "
        "column); got windows['d']=sl.calendar('1d') and idle=5"
    ),
    "spec(time=sl.processing_time())": (
        "ValueError: spans must be all durations (for a time column) or all whole numbers (for an integer "
        "column); got time=sl.processing_time() and windows['w']: size=10"
    ),
    "spec(windows={'v': sl.session(9)}, emit='updates', allowed_lateness=5)": (
        "ValueError: emit='updates' with allowed_lateness=5 cannot say which session windows['v'] a late "
        "row changed; use emit='final' or emit='changes'"
    ),
    "spec(windows={'v': sl.tumbling(9, fill=True)}, emit='changes', allowed_lateness=5)": (
        "ValueError: windows['v'] has fill=True, which needs emit='final' when allowed_lateness is not 0; "
        "got emit='changes'"
    ),
    "spec(idle=9, emit='updates', allowed_lateness=5)": (
        "ValueError: idle=9 ends a key for good, which needs emit='final' when allowed_lateness is not 0; "
        "got emit='updates'"
    ),
    "sl.processing_time(clock=5)": "TypeError: clock must be a function that gives microseconds since 1970; got 5",
    "sl.Operator('1m')": "TypeError: Operator takes a sl.Spec; got str",
    "sl.Operator.restore('1m', b'')": "TypeError: Operator takes a sl.Spec; got str",
    "sl.aggregate([], '1m')": "TypeError: aggregate takes the data and, as spec, a sl.Spec; got str",
    "sl.explain('1m')": "TypeError: explain takes a sl.Spec, a sl.JoinSpec or a sl.FeatureSpec; got str",
    "sl.tumbling(0)": "ValueError: size must be a positive duration ... whole number; got 0",
    "sl.tumbling('-1m')": "ValueError: size must be a positive duration ... whole number; got '-1m'",
    "sl.tumbling('1mo')": (
        "ValueError: size must be a duration of fixed length, and months, quarters and years differ: use "
        "sl.calendar('1mo' | '1q' | '1y') for windows of those side by side, sl.calendar('3mo', every='1mo') if they "
        "overlap, and days, such as '30d', for others; got '1mo'"
    ),
    "sl.tumbling('1m1h')": (
        "ValueError: size must be a positive duration ... whole number; got '1m1h' (units, from the largest: "
        "w, d, h, m, s, ms, us, ns)"
    ),
    "sl.tumbling(True)": "TypeError: size must be a positive duration ... whole number; got True of type bool",
    "sl.tumbling(np.timedelta64(1, 'ps'))": (
        "ValueError: size must be a positive duration ... whole number; got np.timedelta64(1,'ps'), which is "
        "not a whole number of nanoseconds"
    ),
    "sl.tumbling(10, offset='x')": (
        "ValueError: offset must be a duration ... whole number; got 'x' (units, from the largest: w, d, h, "
        "m, s, ms, us, ns)"
    ),
    "sl.tumbling(10, fill=1)": "TypeError: fill must be True or False; got 1",
    "sl.sliding('1m', every=0)": "ValueError: every must be a positive duration ... whole number; got 0",
    "sl.sliding('1m', every=5)": (
        "TypeError: size and every must both be durations or both be whole numbers; got '1m' and 5"
    ),
    "sl.sliding(5, 5, fill=None)": "TypeError: fill must be True or False; got None",
    "sl.cumulate('10s', '3s')": "ValueError: cumulate's size must be a whole multiple of every; got size=10s, every=3s",
    "sl.cumulate(10, '3s')": (
        "TypeError: size and every must both be durations or both be whole numbers; got 10 and '3s'"
    ),
    "sl.cumulate(10, -5)": "ValueError: every must be a positive duration ... whole number; got -5",
    "sl.landmark(0)": "ValueError: every must be a positive duration ... whole number; got 0",
    "sl.fixed('2024-01-02', '2024-01-01')": (
        "ValueError: fixed's end must be later than its start; got '2024-01-02' to '2024-01-01'"
    ),
    "sl.fixed(None, 5)": "TypeError: fixed needs a start and an end; got start=None, end=5",
    "sl.fixed(0, None)": "TypeError: fixed needs a start and an end; got start=0, end=None",
    "sl.calendar('5h')": (
        "ValueError: unit must divide a day if it is hours or minutes, as '15min', '1h', '6h' and '12h' do; got '5h'"
    ),
    "sl.calendar('1d', tz='Mars/Base')": (
        "ValueError: tz must be the name of a time zone such as 'Europe/Berlin' or 'UTC'; got 'Mars/Base'"
    ),
    "sl.calendar('1d', tz=3)": (
        "TypeError: tz must be the name of a time zone such as 'Europe/Berlin' or 'UTC'; got 3 of type int"
    ),
    "sl.session('0s')": "ValueError: gap must be a positive duration ... whole number; got '0s'",
    "sl.sum(3)": "TypeError: sum's column must be the name of a column or an expression; got 3",
    "sl.count('')": "TypeError: count's column must be the name of a column or an expression; got ''",
    "sl.m4(None)": "TypeError: m4's column must be the name of a column or an expression; got None",
    "sl.argmin('v', ['a', 3])": "TypeError: argmin's return_[1] must be the name of a column or an expression; got 3",
    "sl.top_k('v', 3, [])": "ValueError: top_k's return_ must name at least one column; got []",
    "sl.argmin('v', [])": "ValueError: argmin's return_ must name at least one column; got []",
    "sl.argmax('v', ['a', 'a'])": (
        "ValueError: argmax's return_ names column 'a' twice; each is a field of the result"
    ),
    "sl.argmin('v', 3)": "TypeError: argmin's return_ must be the name of a column or an expression; got 3",
    "sl.var('v', ddof=-1)": "ValueError: var's ddof must be a whole number of at least 0; got -1",
    "sl.std('v', ddof=True)": "ValueError: std's ddof must be a whole number of at least 0; got True",
    "sl.sum('v').where(3)": "TypeError: where must be the name of a column or an expression; got 3",
    "sl.sum('v').where('f').where('g')": (
        "ValueError: sl.sum('v').where('f') already has a where; combine the two with & (sl.col('a') & sl.col('b'))"
    ),
    "sl.bounded(-1)": "ValueError: bounded's delay must not be negative; got -1",
    "sl.bounded('late')": (
        "ValueError: bounded's delay must be a duration ... whole number; got 'late' (units, from the "
        "largest: w, d, h, m, s, ms, us, ns)"
    ),
    "sl.ordered('ignore')": "ValueError: on_disorder must be one of 'error', 'late'; got 'ignore'",
    "sl.per_source('', 0)": "TypeError: per_source's column must be the name of a column; got ''",
    "sl.per_source('s', '-1s')": "ValueError: per_source's delay must not be negative; got '-1s'",
    "sl.per_source('s', 0, idle=0)": (
        "ValueError: per_source's idle must be a positive duration ... whole number; got 0"
    ),
    "sl.punctuated(3)": "TypeError: punctuated's column must be the name of a column; got 3",
}


@pytest.mark.parametrize("call", WHEN_BUILT)
def test_a_wrong_argument_is_refused_when_it_is_given(call):
    refuses(call, WHEN_BUILT[call])


# --- when the columns are known -------------------------------------------------------------------------------------

WHEN_BOUND = {
    "push(spec(), rows(t=None))": "ValueError: column 't' is missing in the data; its columns are k, v, x, flag, l",
    "push(spec(aggs={'n': sl.count('*')}))": (
        "ValueError: column '*' is missing in the data; ...; rows are counted by sl.count(), without a column"
    ),
    "push(spec(aggs={'n': sl.count().where('v > 3')}))": (
        "ValueError: column 'v > 3' is missing in the data; ...; expressions are built with sl.col, ..."
    ),
    "push(spec(by=['j']))": "ValueError: column 'j' is missing in the data; its columns are t, k, v, x, flag, l",
    "push(spec(aggs={'s': sl.sum('w')}))": (
        "ValueError: column 'w' is missing in the data; its columns are t, k, v, x, flag, l"
    ),
    "push(spec(aggs={'s': sl.argmin('v', 'w')}))": (
        "ValueError: column 'w' is missing in the data; its columns are t, k, v, x, flag, l"
    ),
    "push(spec(aggs={'s': sl.count().where('g')}))": (
        "ValueError: column 'g' is missing in the data; its columns are t, k, v, x, flag, l"
    ),
    "push(spec(sequence='q'))": "ValueError: column 'q' is missing in the data; its columns are t, k, v, x, flag, l",
    "push(spec(watermark=sl.per_source('s', 0)))": (
        "ValueError: column 's' is missing in the data; its columns are t, k, v, x, flag, l"
    ),
    "push(spec(watermark=sl.punctuated('p')))": (
        "ValueError: column 'p' is missing in the data; its columns are t, k, v, x, flag, l"
    ),
    "push(spec(), pa.record_batch([pa.array([1]), pa.array([2])], ['t', 't']))": (
        "ValueError: column 't' occurs 2 times in the data; its columns are t, t"
    ),
    "push(spec(time='x'))": "TypeError: time column 'x' must hold ... or integers; its type is double: cast it to ...",
    "push(spec(time='k'))": "TypeError: time column 'k' must hold ... or integers; its type is string: parse it ...",
    "push(spec(by=['l']))": (
        "TypeError: by column 'l' has type list<item: int64>, which cannot be a key; allowed are integers, ..."
    ),
    "push(spec(sequence='k'))": "TypeError: sequence column 'k' has type string; it must be an integer or a time: "
    "use a column of whole numbers in the same order (pyarrow.compute.rank makes one)",
    "push(spec(sequence='x'))": "TypeError: sequence column 'x' has type double; it must be an integer or a time: "
    "use a column of whole numbers in the same order (pyarrow.compute.rank makes one)",
    "push(spec(aggs={'s': sl.sum('k')}))": (
        "TypeError: sl.sum('k'): column 'k' has type string; sum takes integer, unsigned integer, float, "
        "bool, decimal, duration columns"
    ),
    "push(spec(aggs={'s': sl.any('v')}))": "TypeError: sl.any('v'): column 'v' has type int64; any takes bool columns",
    "push(spec(aggs={'s': sl.max('l')}))": (
        "TypeError: sl.max('l'): column 'l' has type list<item: int64>; max takes integer, ... string or binary columns"
    ),
    "push(spec(aggs={'s': sl.argmax('v', 'm')}), rows(m=pa.array([[], []], pa.map_(pa.int8(), pa.int8()))))": (
        "TypeError: column 'm' has type map<int8, int8>, which cannot be aggregated; allowed are integers, ..., "
        "strings, binary, structs and lists"
    ),
    "push(spec(aggs={'s': sl.sum('x').where('v')}))": (
        "TypeError: sl.sum('x').where('v'): where takes a boolean column; 'v' has type int64"
    ),
    "push(spec(watermark=sl.punctuated('k')))": (
        "TypeError: punctuated's column 'k' has type string; it must have the time column's type, int64, or "
        "be boolean (true: the row's own time is the watermark)"
    ),
    "push(spec(windows={'f': sl.frame('flag', 'v')}))": (
        "TypeError: windows['f']: sl.frame('flag', 'v') takes boolean columns; 'v' has type int64"
    ),
    "push(spec(windows={'r': sl.per_row('1m')}))": (
        "ValueError: windows['r']: range must be a whole number, as the time column is of type int64; got the "
        "duration '1m' (if it counts since 1970, cast it to timestamps)"
    ),
    "push(spec(windows={'p': sl.punctuation('gone')}))": "ValueError: column 'gone' is missing in the data; ...",
    "push(spec(windows={'w': sl.whole()}, allowed_lateness='1m'))": (
        "ValueError: allowed_lateness must be a whole number, as the time column is of type int64; got the "
        "duration '1m'..."
    ),
    "push(spec(windows={'w': sl.whole()}, idle='1m'))": (
        "ValueError: idle must be a whole number, as the time column is of type int64; got the duration '1m'..."
    ),
    "push(spec(windows={'w': sl.whole()}, watermark=sl.bounded('1m')))": (
        "ValueError: bounded's delay must be a whole number, as the time column is of type int64; got the duration ..."
    ),
    "push(spec(windows={'w': sl.whole()}, watermark=sl.per_source('k', '1m')))": (
        "ValueError: per_source's delay must be a whole number, as the time column is of type int64; got the "
        "duration '1m'..."
    ),
    "push(spec(windows={'w': sl.whole()}, watermark=sl.per_source('k', 0, idle='1m')))": (
        "ValueError: per_source's idle must be a whole number, as the time column is of type int64; got the "
        "duration '1m'..."
    ),
    "push(spec(windows={'w': sl.tumbling('1m')}))": (
        "ValueError: windows['w']: size must be a whole number, as the time column is of type int64; got the "
        "duration '1m'..."
    ),
    "push(spec(windows={'w': sl.session('1m')}))": (
        "ValueError: windows['w']: gap must be a whole number, as the time column is of type int64; got the "
        "duration '1m'..."
    ),
    "push(spec(), rows(t=times(US)))": (
        "ValueError: windows['w']: size must be a duration such as '1m', as the time column is of type "
        "timestamp[us]; got "
        "the whole number 10"
    ),
    "push(spec(windows={'w': sl.tumbling('1ms')}), rows(t=times(pa.timestamp('s'))))": (
        "ValueError: windows['w']: size must be a whole number of seconds, the unit of the time column "
        "(timestamp[s]); got '1ms'"
    ),
    "push(spec(windows={'w': sl.tumbling('1d', offset='1h')}), rows(t=times(DATE)))": (
        "ValueError: windows['w']: offset must be a whole number of days, the unit of the time column "
        "(date32[day]); got '1h'"
    ),
    "push(spec(windows={'w': sl.tumbling(1 << 62)}))": (
        "ValueError: windows['w']: size must be shorter than 2**60 units, the unit of the time column (int64); got "
        "4611686018427387904"
    ),
    "push(spec(windows={'w': sl.tumbling('200000000d')}), rows(t=times(US)))": (
        "ValueError: windows['w']: size must be shorter than 2**60 microseconds, the unit of the time column "
        "(timestamp[us]); got '200000000d'"
    ),
    "push(spec(windows={'w': sl.fixed(5, 1)}))": "ValueError: fixed's end must be later than its start; got 5 to 1",
    "push(spec(), rows(t=pa.RunEndEncodedArray.from_arrays([2], [1])))": (
        "TypeError: time column 't' must hold timestamps, dates or integers; its type is run_end_encoded<...: "
        "decode it first (pyarrow.compute.run_end_decode)"
    ),
    "push(spec(windows={'w': sl.fixed(0, 1 << 40)}), rows(t=times(pa.int32())))": (
        "ValueError: windows['w']: fixed's end must fit a time column of type int32; got 1099511627776"
    ),
    "fixed_until('yesterday')": "ValueError: fixed's end must be ...; got 'yesterday'",
    "fixed_until(1.5)": "TypeError: fixed's end must be ...; got 1.5 of type float",
    "fixed_until(pd.NaT)": "ValueError: fixed's end must be ...; got NaT",
    "fixed_until(np.datetime64('NaT'))": (
        "ValueError: fixed's end must be ...; got np.datetime64('NaT'...), which is not a whole number of nanoseconds"
    ),
    "fixed_until('2024-01-01T00:00:00.0000000001')": (
        "ValueError: fixed's end must be ...; got '2024-01-01T00:00:00.0000000001', which is finer than nanoseconds"
    ),
    "fixed_until('2024-01-01T00:00:00.000000001')": (
        "ValueError: windows['w']: fixed's end must be a whole number of microseconds, the unit of the time column "
        "(timestamp[us]); got '2024-01-01T00:00:00.000000001'"
    ),
    "fixed_until('2024-01-01T00:00Z')": (
        "ValueError: windows['w']: fixed's end must be a time without a zone, as the time column is of type "
        "timestamp[us]; "
        "got '2024-01-01T00:00Z'"
    ),
    "push(spec(windows={'w': sl.landmark(9, start='2024-01-01')}))": (
        "TypeError: windows['w']: landmark's start must be a whole number, as the time column is of type int64; got "
        "'2024-01-01'"
    ),
    "sl.landmark(9, start='x')": "ValueError: landmark's start must be ...; got 'x'",
    "push(spec(windows={'w': sl.tumbling((1 << 59) + 1)}))": (
        "ValueError: windows['w'] spans 576460752303423489 units of the time column; at most 576460752303423488 are "
        "allowed (a coarser unit reaches further)"
    ),
    "advanced_to('2024-01-01')": (
        "TypeError: watermark must be a whole number, as the time column is of type int64; got '2024-01-01'. It was "
        "given by advance before the first push: advance again"
    ),
    "advanced_to(1.5)": (
        "TypeError: watermark must be a whole number, a datetime, a date or an ISO string, as the time column "
        "is; got 1.5"
    ),
    "push(calendar('1d'))": (
        "TypeError: windows['w']: calendar windows need a time column of timestamps or dates; its type is int64"
    ),
    "push(calendar('1d', tz='Europe/Berlin'), rows(t=times(DATE)))": (
        "ValueError: windows['w']: tz must be 'UTC' for a time column of type date32[day], as dates have no "
        "zone; got 'Europe/Berlin'"
    ),
    "push(calendar('1d'), rows(t=times(pa.timestamp('s'), 0, 1 << 58)))": (
        "ValueError: calendar windows ('1d', 'UTC') cover years 1 to 9999; the time "
        "9133658989-08-04T03:29:04 (timestamp[s]) has no whole window there"
    ),
    "push(calendar('1mo'), rows(t=times(pa.timestamp('s'), 0, 1 << 58)))": (
        "ValueError: calendar windows ('1mo', 'UTC') cover years 1 to 9999; the time "
        "9133658989-08-04T03:29:04 (timestamp[s]) has no whole window there"
    ),
    "push(calendar('1y'), rows(t=times(pa.timestamp('s'), 0, 253402300799)))": (
        "ValueError: calendar windows ('1y', 'UTC') cover years 1 to 9999; the time 9999-12-31 23:59:59 "
        "(timestamp[s]) has no whole window there"
    ),
}


def fixed_until(end):
    push(spec(windows={"w": sl.fixed(0, end)}), rows(t=times(US)))


def advanced_to(watermark):
    """What is said before the first rows is judged when they tell the type of time."""
    operator = sl.Operator(spec())
    operator.advance(watermark)
    operator.push(rows())


def calendar(unit, tz="UTC"):
    return spec(windows={"w": sl.calendar(unit, tz=tz)})


@pytest.mark.parametrize("call", WHEN_BOUND)
def test_what_does_not_fit_the_columns_is_refused_by_the_first_push(call):
    refuses(call, WHEN_BOUND[call])


# --- rows and streams -----------------------------------------------------------------------------------------------

ROWS = {
    "push(spec(), {'t': [1]})": (
        "TypeError: data must be a table (pyarrow, pandas, polars, duckdb or another one with __arrow_c_stream__ or "
        "__arrow_c_array__ and columns), a reader, a dataset, a path, or an iterator or a list of them; got dict: make "
        "a table of it, such as with pyarrow.table (of columns) or pyarrow.Table.from_pylist (of rows)"
    ),
    "sl.aggregate([1, 2], spec())": "TypeError: data's item 0 must be ...; got int",
    "sl.aggregate([rows(), {'t': 1}], spec())": (
        "TypeError: data's item 1 must be ...; got dict: make a table of it, such as with pyarrow.table (of columns) "
        "or pyarrow.Table.from_pylist (of rows)"
    ),
    "sl.aggregate([], spec())": (
        "ValueError: data is a list without items, so that the types of its columns are not known; give at least one "
        "frame, which may be empty"
    ),
    "sl.aggregate([rows(), [rows()]], spec())": (
        "TypeError: data's item 1 is list; each must be a frame, a batch or a path"
    ),
    "sl.aggregate(iter([rows(), rows(t=None)]), spec())": (
        "ValueError: data's item 1: column 't' is missing in the data; its columns are k, v, x, flag, l"
    ),
    "sl.aggregate(iter([rows(), rows(t=[1.5, 2])]), spec())": (
        "TypeError: data's item 1: column 't' is double, and was int64 in the items before; give it one type, such as "
        "with read_csv(dtype=...) or cast"
    ),
    "sl.aggregate(iter([rows(v=[1.5, 2])] * 2 + [rows(v=[1 << 60, 2])]), spec(aggs={'s': sl.sum('v')}))": (
        "TypeError: data's item 2: column 'v' is int64, and was double in the items before, which may not hold its "
        "values; give it one type, such as with read_csv(dtype=...) or cast"
    ),
    "push(spec(), iter([rows()]))": (
        "TypeError: push takes one batch of rows; got list_iterator: push each of its items, or give it to "
        "sl.aggregate as it is"
    ),
    "push(spec(), pathlib.Path('rows.csv'))": "FileNotFoundError: there is no file or folder 'rows.csv'",
    "push(spec(), 'rows-*.csv')": "FileNotFoundError: no file matches 'rows-*.csv'",
    "push(spec(), 'pyproject.toml')": (
        "ValueError: file .../pyproject.toml has the unknown ending '.toml'; known are Parquet (.parquet, .pq), CSV "
        "(.csv, .tsv, also .gz, .bz2, .zst), Arrow IPC and Feather (.arrow, .ipc, .feather). For other names use "
        "pyarrow.dataset.dataset(path, format=...)"
    ),
    "sl.aggregate('tests', spec())": (
        "FileNotFoundError: folder 'tests' has no files of a known format: Parquet (.parquet, .pq), CSV ..."
    ),
    "sl.aggregate(open('pyproject.toml'), spec())": (
        "TypeError: data is an open file; give its path instead ('pyproject.toml')"
    ),
    "sl.aggregate(rows(), spec(), between=(1, 1))": ("ValueError: between's start must be before its end; got 1 and 1"),
    "sl.aggregate(rows(), spec(), between=5)": (
        "TypeError: between must be (start, end), of which either may be None; got 5"
    ),
    "sl.aggregate(rows(), spec(), between=('2024-01-01', None))": (
        "TypeError: between's start must be a whole number, as the time column is of type int64; got '2024-01-01'"
    ),
    "sl.aggregate(rows(), spec(time=sl.processing_time(), windows={'w': sl.tumbling('1s')}), between=(1, 2))": (
        "ValueError: between needs a time column; this spec stamps rows with sl.processing_time()"
    ),
    "push(spec(), 7)": "TypeError: data must be ...; got int",
    "push(spec(), rows(t=[1, None]))": (
        "ValueError: time column 't' is null in row 1 of the batch; fill or drop nulls, or use "
        "on_null_time='late' to have such rows among the late ones"
    ),
    "push(spec(), rows(t=[1, 7 << 60]))": (
        "ValueError: time column 't' holds 8070450532247928832; times must lie between -6917529027641081856 and "
        "6917529027641081856 units"
    ),
    "push(spec(), rows(t=[0, -(6 << 60) - 1]))": (
        "ValueError: time column 't' holds -6917529027641081857; times must lie between -6917529027641081856 and "
        "6917529027641081856 units"
    ),
    "push(spec(windows={'w': sl.tumbling('1h')}), rows(t=times(pa.timestamp('ns'), 0, 7 << 60)))": (
        "ValueError: time column 't' holds 2225-09-28T23:48:52.247928832; times must lie between "
        "1750-10-17T00:09:32.358918144 and 2189-03-16T23:50:27.641081856 in a column of type timestamp[ns]: "
        "cast it to timestamp[us]"
    ),
    "push(spec(), rows(t=[-(1 << 62), 1 << 62]))": (
        "ValueError: time column 't' holds -4611686018427387904 and 4611686018427387904; the times of a batch and the "
        "latest one before it must lie within 8070450532247928831 units"
    ),
    "push(spec(), rows(t=[1 << 62, 1 << 62]), rows(t=[-(1 << 62), 0]))": (
        "ValueError: time column 't' holds -4611686018427387904 and 4611686018427387904; the times of a batch and the "
        "latest one before it must lie within 8070450532247928831 units"
    ),
    "push(spec(watermark=sl.ordered()), rows(), rows(t=[2, 1]))": (
        "ValueError: the stream is declared sl.ordered(), but row 1 of the batch has time 1 after a row of "
        "time 2; sort it, declare sl.bounded(delay), or sl.ordered(on_disorder='late')"
    ),
    "push(spec(watermark=sl.ordered()), rows(), rows())": (
        "ValueError: the stream is declared sl.ordered(), but row 0 of the batch has time 1 after a row of "
        "time 2; sort it, declare sl.bounded(delay), or sl.ordered(on_disorder='late')"
    ),
    "push(spec(aggs={'s': sl.sum('v')}), rows(v=[None, None]))": (
        "TypeError: column 'v' has type null, ...; where there are no values yet, cast it to the type they will have"
    ),
    "push(spec(), rows(t=times(pa.int32())), rows())": (
        "TypeError: column 't' was int32 in the first batch; this one has int64: cast it"
    ),
    "push(spec(by='k'), rows(), rows(k=None))": (
        "TypeError: column 'k' was string in the first batch; this one has none of that name; its columns are t, v, x, "
        "flag, l"
    ),
    "push(spec(by='k'), rows(), rows(k=[1, 2]))": (
        "TypeError: column 'k' was string in the first batch; this one has int64: cast it"
    ),
    "push(spec(aggs={'n': sl.count('v')}), rows(), rows(v=[1.5, 2]))": (
        "TypeError: column 'v' was int64 in the first batch; this one has double: cast it"
    ),
    "push(spec(), rows(), pa.record_batch([pa.array([1])] * 2, ['t', 't']))": (
        "TypeError: column 't' was int64 in the first batch; this one has 2 such columns"
    ),
    "push(spec(aggs={'s': sl.sum('v')}), rows(v=[1 << 62, 1 << 62]), rows(t=[50, 99]))": (
        "OverflowError: sl.sum('v') (output column 's') does not fit int64 in window 'w' from 0 to 10; use "
        "on_overflow='null' or 'wrap', or floats, such as sl.col('v').cast('float64', safe=False)"
    ),
    "push(spec(aggs={'s': sl.sum('v')}), rows(v=times(pa.duration('s'), 1 << 62, 1 << 62))).flush()": (
        "OverflowError: sl.sum('v') (output column 's') does not fit duration[s] in window 'w' from 0 to 10; use "
        "on_overflow='null' or 'wrap'"
    ),
    "push(spec(aggs={'p': sl.product('v')}), rows(v=[1 << 62, -4])).flush()": (
        "OverflowError: sl.product('v') (output column 'p') does not fit int64 in window 'w' from 0 to 10; "
        "use on_overflow='null' or 'wrap', or floats, such as sl.col('v').cast('float64', safe=False)"
    ),
    "finished().advance(50)": (
        "RuntimeError: the operator was flushed, which ends its stream; build a new Operator to go on"
    ),
    "sl.Operator(spec(windows={'w': sl.session(5)}), combine='buckets')": (
        "ValueError: combine='buckets' puts the partials of slices into all windows that hold them: it takes time "
        "windows alone, without sessions, whole(), fill and idle, and aggregates whose partials have a fixed size; got "
        "sl.Spec(time='t', windows={'w': sl.session(5)}, aggs={'n': sl.count()}, watermark=sl.bounded(0))"
    ),
    "sl.Union({'a': sl.punctuated('p', by='k')}, time='t')": (
        "ValueError: sources['a'] takes no by=: a union has one watermark, not one of each key; got "
        "sl.punctuated('p', by=['k'])"
    ),
    "sl.Union({'a': sl.bounded(0)}, time='t').push('a', rows(t=pa.array([2**63, 1], pa.uint64())))": (
        "ValueError: time column 't' of source 'a' holds 9223372036854775808; times must be below 2**63"
    ),
    "finished().push(rows())": (
        "RuntimeError: the operator was flushed, which ends its stream; build a new Operator to go on"
    ),
    "push(spec(), rows(t=pa.array([124, 125], pa.int8())))": (
        "ValueError: time column 't' holds 125, and a window 'w' of this row ends at 130, which a column of type int8 "
        "cannot hold: cast the column to int64"
    ),
    "push(spec(windows={'w': sl.sliding(10, every=5)}), rows(t=pa.array([4, 9], pa.uint64())))": (
        "ValueError: time column 't' holds 4, and a window 'w' of this row begins at -5, which a column of type uint64 "
        "cannot hold: cast the column to int64"
    ),
    "sl.Operator(spec()).advance('yesterday')": (
        "ValueError: watermark must be a datetime, a date, an ISO 8601 string such as '2024-05-01T12:30', a "
        "numpy.datetime64 or a whole number in the unit of the time column, such as microseconds for a timestamp[us]; "
        "got 'yesterday'"
    ),
    "push(spec(windows={'w': sl.fixed('2024-01-01', 5)}))": (
        "TypeError: windows['w']: fixed's start must be a whole number, as the time column is of type int64; "
        "got '2024-01-01'"
    ),
    "push(spec()).push(rows()).stats.dropped": (
        "AttributeError: stats has no 'dropped'; it has rows, windowed, late, outside, null_time, ahead, slices, "
        "cells, kept, keys, bytes, windows"
    ),
    "push(spec(windows={'w': Odd(edge=lambda t: t)}))": (
        "ValueError: Odd().next_edge gave edges that are not later than their times; it must return one "
        "int64 edge for each time, strictly greater than it"
    ),
    "push(spec(windows={'w': Odd(edge=lambda t: t[:1] + 1)}))": (
        "ValueError: Odd().next_edge gave edges that are not later than their times; it must return one "
        "int64 edge for each time, strictly greater than it"
    ),
    "push(spec(windows={'w': Odd(held=lambda t: [(t, t)])})).flush()": (
        "ValueError: Odd().containing(1) gave the window [1, 1), which does not contain that time; every "
        "window must hold start <= time < end"
    ),
    "push(spec(windows={'w': sl.ContextFreeWindow()}))": (
        "NotImplementedError: ContextFreeWindow must define next_edge(times)"
    ),
    "sl.ContextFreeWindow().containing(1)": "NotImplementedError: ContextFreeWindow must define containing(time)",
}


def finished():
    operator = push(spec())
    operator.flush()
    return operator


@pytest.mark.parametrize("call", ROWS)
def test_rows_that_break_a_promise_are_refused(call):
    refuses(call, ROWS[call])


def test_a_null_time_is_late_where_the_spec_says_so():
    out = sl.Operator(spec(on_null_time="late")).push(rows(t=[1, None]))
    assert out.late["reason"].to_pylist() == ["null time"]
    assert out.late["k"].to_pylist() == ["b"]
    assert (out.stats.rows, out.stats.windowed, out.stats.null_time) == (2, 1, 1)


# --- once wrong -----------------------------------------------------------------------------------------------------

ONCE_WRONG = {
    "sl.DistinctSpec('k', 't', 5, watermark='1s')": "TypeError: watermark must be a watermark, ... got '1s'",
    "sl.DistinctSpec('k', 't', 5, sequence=['a'])": "TypeError: sequence must be the name of a column ... got ['a']",
    "sl.DistinctSpec('k', 't', 5, keep=np.array([1, 2]))": "ValueError: keep must be one of 'first', ...",
    "sl.ordered(on_disorder=np.array([1, 2]))": "ValueError: on_disorder must be one of 'error', 'late'; got array(...",
    "sl.rollup_spec(spec(), ['1h'])": "TypeError: windows must be a dict of windows by name; got ['1h']",
    "sl.rollup_spec(spec(), {}, window=['w'])": "ValueError: window is ['w'], and the spec has w",
    "sl.Chain.restore(spec(), b'')": "TypeError: specs must be a list of the specs of the chain's operators...",
    "sl.Chain.restore([spec()], b'', options=[None])": "TypeError: options must be a list of dicts; got [None]",
    "push(spec(), rows()).advance([1])": "TypeError: watermark must be a whole number, ... got [1]",
    "push(spec(), rows()).advance(np.timedelta64(5, 'M'))": "TypeError: watermark must be a whole number, ...",
    "sl.Operator(spec()).advance(np.timedelta64(5, 'M'))": "TypeError: watermark must be a whole number, ...",
    "sl.rows(np.timedelta64(3, 'M'))": "ValueError: rows' n must be a whole number of rows, at least 1; ...",
    "sl.quantile('v', np.timedelta64(1, 'ns'))": "ValueError: ...must be a number from 0 to 1; got np.timedelta64...",
    "push(spec(windows={'w': Odd(held=lambda t: [(t, 2**70)])})).flush()": (
        "ValueError: Odd().containing(...) gave [(..., 1180591620717411303424)], whose bounds do not fit int64"
    ),
    "push(spec(by='k,v'))": "ValueError: column 'k,v' is missing in the data; ...; name each column by...",
    "sl.union({'a': rows()})": "TypeError: tables must be a list of tables; got dict",
    "sl.fixed(5, 1)": "ValueError: fixed's end must be later than its start; got 5 to 1...",
    "push(spec(), rows(t=pa.array([1, 1 << 63], pa.uint64())))": (
        "ValueError: ...time column 't' holds 9223372036854775808..."
    ),
    "push(spec(), rows(t=pa.array([1, (1 << 64) - 1], pa.uint64())))": "ValueError: ...holds 18446744073709551615...",
    "push(spec(watermark=sl.ordered(), on_null_time='late'), rows(t=[None, 5]), rows(t=[None, 3]))": (
        "ValueError: ...row 1 of the batch has time 3 after a row of time 5..."
    ),
    "push(spec(watermark=sl.per_source('l', 0)))": (
        "TypeError: ...per_source's column 'l' has type list<item: int64>..."
    ),
    "push(spec(), pa.array([1, 2]))": "TypeError: ...data must...",
    "push(spec(), pa.chunked_array([[1, 2]]))": "TypeError: ...data must...",
    "push(spec(), pd.Series([1, 2]))": "TypeError: ...data must...",
    "push(spec(windows={'w': Odd(held=lambda t: [t])})).flush()": "TypeError: ...Odd().containing(1) gave...",
    "sl.Operator.restore(spec(), 'x')": "TypeError: ...snapshot...",
    "sl.Operator(spec(), threads=None)": "ValueError: threads must be a whole number of at least 1; got None",
    "sl.aggregate(rows(), spec(), threads=1025)": "ValueError: threads must be ... from 1 to 1024; got 1,025",
    "sl.aggregate(rows(t=[1, 2], v=[2**62, 2**62]), spec(windows={'l': sl.landmark(5)}, aggs={'s': sl.sum('v')}))": (
        "OverflowError: ... does not fit int64 in window 'l' from None to 5; use on_overflow='null' or 'wrap', or ..."
    ),
    "sl.attach(rows(), spec(), threads=10**30)": "ValueError: threads must be ... from 1 to 1024; got 1,000,...",
    "sl.join(rows(), rows(), on='k', time='t', within=(0, 1), threads=2000)": "ValueError: ...1024; got 2,000",
    "sl.latest(5, spec())": "TypeError: results must be a table ... got int",
    "sl.latest([5], spec())": "TypeError: results' item 0 must be a table ... got int",
    "sl.latest([], spec())": "ValueError: results is a list without items...",
    "sl.rollup(5, spec(), {'w': sl.tumbling(9)})": "TypeError: parts must be a table ... got int",
    "sl.join(rows(), 5, on='k', time='t', within=(0, 1))": "TypeError: right must be a table ... got int",
    "sl.features(5, rows(), on='k', time='t', ranges={'a': 1}, aggs={'n': sl.count()})": "TypeError: labels must ...",
    "sl.join(rows(), rows(), 5)": "TypeError: join takes two tables and, as spec, a sl.JoinSpec, or ...; got int",
    "push(spec(windows={'w': sl.tumbling(1, fill=True)}), rows(t=[0, 1 << 40])).flush()": (
        "ValueError: windows['w'] has fill=True, and there are 1,099,511,627,775 windows between..."
    ),
    "push(spec(aggs={'m': sl.mean('v')}), rows(v=pa.array([WIDE, WIDE], pa.decimal128(38, 2)))).flush()": (
        "OverflowError: sl.mean('v') (output column 'm') does not fit decimal128(38, 6) in window 'w' from 0 to 10..."
    ),
}


@pytest.mark.parametrize("call", ONCE_WRONG)
def test_what_was_once_accepted_or_garbled_is_refused(call):
    refuses(call, ONCE_WRONG[call])


def test_a_flush_ends_a_stream_without_rows_too():
    operator = sl.Operator(spec())
    operator.flush()
    with pytest.raises(RuntimeError, match="the operator was flushed"):
        operator.push(rows())


def test_a_span_that_does_not_fit_names_its_window():
    with pytest.raises(ValueError, match=r"windows\['b'\]: size must be a whole number"):
        push(spec(windows={"a": sl.whole(), "b": sl.tumbling("1m")}))


@pytest.mark.parametrize("shown", [1.5, None, "now", 2**70])
def test_a_clock_that_gives_no_microseconds(shown: object) -> None:
    rows, clock = pa.table({"t": [1]}), lambda: shown
    stamped = sl.Spec(sl.processing_time(clock), {"w": sl.tumbling("1s")}, {"n": sl.count()})  # type: ignore[arg-type]
    trigger = sl.every_processing_time("1s", clock=clock)  # type: ignore[arg-type]
    early = sl.Spec("t", {"w": sl.tumbling(10)}, {"n": sl.count()}, emit="updates", trigger=trigger)
    for spec in stamped, early:
        said = rf"such as time.time_ns\(\) // 1000.*; it gave {shown!r}"
        with pytest.raises(ValueError if shown == 2**70 else TypeError, match=said):
            sl.Operator(spec).push(rows)


def test_functions_for_spark_say_their_arguments():
    pytest.importorskip("pyspark")
    import spark_udfs

    with pytest.raises(TypeError, match=r"^window_aggregate has no argument 'partition'; did you mean partitions\?"):
        spark_udfs.window_aggregate(None, spec(), partition=8)
    with pytest.raises(TypeError, match=r"^change needs changed_spec= and state= and to= as well"):
        spark_udfs.change(None, spec())
    for call in (spark_udfs.peek, spark_udfs.drain):
        with pytest.raises(TypeError, match=r"^spark must be a SparkSession; got builtins's str"):
            call("local[2]", spec(), "/state")
    with pytest.raises(TypeError, match=r"^spark must be a SparkSession; got builtins's NoneType"):
        spark_udfs.read_files(None, "/rows")
