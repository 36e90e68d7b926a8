"""Plays every transcript of tests/semantics/transcripts: what was pushed, how far it went, what had to come out.

A TOML file holds the transcripts of one topic; a transcript is one of its tables:

    [a-window-without-rows-gives-no-row]
    about = "what a reader should learn from it"
    spec = 'windows={"w": sl.tumbling(10)}'     # arguments of sl.Spec beside DEFAULTS, as Python
    columns = 't=pa.int64(), v=pa.int64()'      # the input's columns, as Python; these are the default
    splittable = true                           # rows of a push may come one by one, and in any order
    steps = [
      { push = "1 5, 3 6, 25 7", late = [], outside = 0 },     # commas between rows, blanks or null within
      { advance = 20, expect = ["w [0, 10) 11"], reached = 20 },
      { flush = true, expect = ["w [20, 30) 7"] },
    ]

A step is a push, advance, flush, or aggregate (sl.aggregate of these rows, beside the operator). Every step
is held against `expect`: the window rows that come out of it, in this order, as `window [start, end) keys
aggregates`, then revision or op. Every push is held against `late` (the rows in out.late, but for their
reason) and `outside` (how many rows are in no window by definition). `reached` is out.watermark. `fails` is
found in the push's error; the steps after it see the operator as it was before.
"""

import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import slicing as sl

HOME = Path(__file__).parent / "transcripts"
COLUMNS = "t=pa.int64(), v=pa.int64()"
DEFAULTS = {"time": "t", "aggs": {"total": sl.sum("v")}, "watermark": sl.manual()}
CHANGE_COLUMNS = {"updates": ["revision"], "changes": ["op"]}
WINDOW = re.compile(r"(\S+) \[(\S+), (\S+)[)\]] (.+)")
TOLD = {
    "push": {"expect", "late", "outside", "reached", "fails"},
    "advance": {"expect", "reached"},
    "flush": {"expect"},
    "aggregate": {"expect"},
}
MANNERS = ["as written", "restored before every step"]
# (origin, tick) in nanoseconds, so that windows of any of these sizes begin where they did: in 2016, in days since 1970
LATEST = 2**62 + 2**61
REAL_SIZES = {"in quarters of a second": (25 * 232_792_560 * 250_000_000, 250_000_000), "in days": (0, 86_400 * 10**9)}
REARRANGED = ["row by row", "backwards"]


class Mismatch(AssertionError):
    """The library and the transcript disagree; the message starts with the step and what differs there."""


def load(folder):
    scripts = {
        f"{file.stem}/{name}": script
        for file in sorted(folder.glob("*.toml"))
        for name, script in tomllib.loads(file.read_text(encoding="utf-8")).items()
    }
    if not scripts:
        raise FileNotFoundError(f"no transcripts in {folder}")
    return scripts


def arrays(rows, types):
    """The words of a transcript's rows as Arrow columns of these types."""
    for row in rows:
        if len(row) != len(types):
            raise ValueError(f"a row has {len(types)} words here, not {row}")
    words = [[None if row[place] == "null" else row[place] for row in rows] for place in range(len(types))]
    types = [getattr(kind, "value_type", kind) for kind in types]
    return [pa.array(column, pa.string()).cast(kind) for column, kind in zip(words, types, strict=True)]


def tuples(columns):
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


class RealSizes:
    """``sl`` with spans and points in time as large as nanoseconds are."""

    SPANS = ("tumbling", "sliding", "cumulate", "session", "bounded", "per_source")

    def __init__(self, origin, tick):
        self.origin, self.tick = origin, tick

    def span(self, value):
        return value * self.tick if type(value) is int else value

    def point(self, value):
        if type(value) is not int:
            return value
        if abs(value) * self.tick + self.origin > LATEST:
            pytest.skip("beyond all times")
        return self.origin + value * self.tick

    def __getattr__(self, name):
        make = getattr(sl, name)
        if name == "fixed":
            return lambda start, end: make(self.point(start), self.point(end))
        if name == "landmark":
            return lambda every, start=None: make(self.span(every), start=self.point(start))
        if name == "per_row":
            return lambda range, *rest, **named: make(self.span(range), *rest, **named)
        if name == "last_rows":
            return lambda n, every: make(n, self.span(every))
        if name not in self.SPANS:
            return make
        return lambda *given, **named: make(*map(self.span, given), **{k: self.span(v) for k, v in named.items()})

    def word(self, word):
        return word if word == "null" else str(self.point(int(word)))


class Player:
    def __init__(self, script, manner):
        self.real = RealSizes(*REAL_SIZES[manner]) if manner in REAL_SIZES else None
        arguments = DEFAULTS | eval(f"dict({script['spec']})", {"sl": self.real or sl})
        if self.real is not None:
            spans = {
                name: self.real.span(arguments[name]) for name in ("allowed_lateness", "idle") if name in arguments
            }
            arguments |= spans
        self.time = arguments["time"]
        self.schema = pa.schema(eval(f"dict({script.get('columns', COLUMNS)})", {"pa": pa}))
        self.spec = sl.Spec(**arguments)
        ranks = ["rank_start", "rank_end"] if self.spec.ranks_rows else []
        self.names = ["window", "window_start", "window_end", *arguments.get("by", []), *ranks, *arguments["aggs"]]
        self.names += CHANGE_COLUMNS.get(arguments.get("emit"), [])
        self.op = sl.Operator(self.spec)
        self.manner = manner

    def play(self, number, step):
        """Does the step; raises Mismatch where something else comes out than it tells."""
        verb, *told = step
        if verb not in TOLD or not TOLD[verb].issuperset(told):
            raise ValueError(f"step {number} is not understood: {step}")

        def same(what, expected, found):
            if expected != found:
                raise Mismatch(f"step {number}, {what}: {step}\n  expected {expected}\n  found    {found}")

        if self.manner == "restored before every step":
            self.op = sl.Operator.restore(self.spec, self.op.snapshot())
        if "fails" in step:
            error = self.error_of(self.rows(step["push"]))
            return same("error", True, bool(re.search(step["fails"], error, re.IGNORECASE)) or error)
        if verb == "aggregate":
            table = sl.aggregate(pa.Table.from_batches([self.rows(step["aggregate"])]), self.spec)
            return self.same_windows(same, step, [table])
        if verb == "push":
            outs = [self.op.push(batch) for batch in self.pushes(self.rows(step["push"]))]
            self.same_late_rows(same, step, outs)
        elif verb == "advance":
            outs = [self.op.advance(self.moment(step["advance"]))]
        else:
            outs = [self.op.flush()]
        self.same_windows(same, step, [out.windows for out in outs])
        if "reached" in step:
            same("watermark", self.moment(step["reached"]), outs[-1].watermark)

    def rows(self, text):
        rows = [self.words(row) for row in text.split(",")]
        return pa.RecordBatch.from_arrays(arrays(rows, self.schema.types), schema=self.schema)

    def words(self, row):
        """Of a row, those that are times as large as they are here."""
        times = [name == self.time or (name == "mark" and type == pa.int64()) for name, type in self.fields]
        if self.real is None:
            return row.split()
        return [self.real.word(word) if is_time else word for word, is_time in zip(row.split(), times, strict=True)]

    @property
    def fields(self):
        return zip(self.schema.names, self.schema.types, strict=True)

    def moment(self, word):
        word = word if self.real is None else self.real.point(word)
        return arrays([[str(word)]], [self.schema.field(self.time).type])[0][0].as_py()

    def pushes(self, batch):
        if self.manner == "row by row":
            return [batch.slice(row, 1) for row in range(len(batch))]
        if self.manner == "backwards":
            return [batch.take(pa.array(range(len(batch) - 1, -1, -1)))]
        return [batch]

    def error_of(self, batch):
        try:
            self.op.push(batch)
        except Exception as error:
            return str(error)
        return ""

    def same_windows(self, same, step, tables):
        for table in tables:
            same("columns", self.names, table.column_names)
            edges = {table.schema.field(name).type for name in ("window_start", "window_end")}
            same("type of the edges", {self.schema.field(self.time).type}, edges)
        rows = []
        for line in step.get("expect", []):
            window, *edges, rest = WINDOW.fullmatch(line).groups()
            edges = edges if self.real is None else map(self.real.word, edges)
            rows.append([window, *edges, *rest.split()])
        expected = tuples(arrays(rows, tables[0].schema.types))
        same("windows", expected, [row for table in tables for row in tuples(table.columns)])

    def same_late_rows(self, same, step, outs):
        found, counted = [], dict.fromkeys(("rows", "windowed", "late", "outside", "null_time"), 0)
        for out in outs:
            stats = {name: out.stats[name] for name in counted}
            same("stats", stats["rows"], sum(stats.values()) - stats["rows"])
            same("columns of late", [*self.schema.names, "reason"], out.late.column_names)
            same("late rows without a reason", 0, out.late["reason"].null_count)
            found += tuples(out.late.select(self.schema.names).columns)
            counted = {name: counted[name] + stats[name] for name in counted}
        late = tuples(arrays([self.words(row) for row in step.get("late", [])], self.schema.types))
        same("late rows", sorted(late, key=repr), sorted(found, key=repr))
        rows, outside = len(step["push"].split(",")), step.get("outside", 0)
        timeless = sum(row[self.schema.names.index(self.time)] is None for row in late)
        parts = {"windowed": rows - len(late) - outside, "late": len(late) - timeless}
        same("stats", {"rows": rows, **parts, "outside": outside, "null_time": timeless}, counted)


def play(script, manner="as written"):
    player = Player(script, manner)
    for number, step in enumerate(script["steps"], 1):
        player.play(number, step)


def of_integers(script):
    """Whether its times can be larger."""
    return "t=pa.int64()" in script.get("columns", COLUMNS) and "calendar" not in script["spec"]


SCRIPTS, WRONG = load(HOME), load(HOME / "wrong")
PERFORMANCES = [
    pytest.param(script, manner, id=f"{name}, {manner}")
    for name, script in SCRIPTS.items()
    for manner in MANNERS + REARRANGED * script["splittable"] + list(REAL_SIZES) * of_integers(script)
]


@pytest.mark.parametrize(("script", "manner"), PERFORMANCES)
def test_transcript(script, manner):
    play(script, manner)


@pytest.mark.parametrize("script", WRONG.values(), ids=WRONG)
def test_a_wrong_transcript_fails_where_it_is_wrong(script):
    with pytest.raises(Mismatch, match=f"^{script['wrong']}:"):
        play(script)


def test_every_transcript_expects_something():
    idle = [name for name, script in SCRIPTS.items() if all(len(step) == 1 for step in script["steps"])]
    assert not idle


MISSPELT = [{"push": "1 1", "expects": []}, {"advance": 1, "late": []}, {"shove": "1 1"}]


@pytest.mark.parametrize("step", MISSPELT)
def test_a_step_that_says_more_than_is_checked_is_an_error(step):
    with pytest.raises(ValueError, match="not understood"):
        play({"spec": "windows={'w': sl.tumbling(10)}", "steps": [step]})


def test_a_folder_without_transcripts_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path)
