"""What notebooks show of specs, operators, outputs and explanations; how far an aggregation has come."""

from __future__ import annotations

from html.parser import HTMLParser

import pyarrow as pa
import pytest

import slicing as sl
from slicing.system import progress

ROWS = pa.table({"t": range(100), "k": ["<b>a</b>", "c"] * 50})
SPEC = sl.Spec(
    "t",
    {"ten": sl.tumbling(10), "visit & go": sl.session(3)},
    {"n": sl.count(), "share": sl.count().where(sl.col("t") > 5) / sl.count()},
    by="k",
    idle=50,
)


class Cells(HTMLParser):
    """The texts of a page, where every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_spec_says_what_its_parts_are():
    texts = Cells(SPEC._repr_html_()).texts
    for text in ("time", "t", "by", "k", "window visit & go", "session(3)", "aggregate n", "count()", "idle", "50"):
        assert text in texts, text
    assert any(text.startswith("Windows of one size, side by side") for text in texts)
    assert "count().where(col('t') > 5) / count()" in texts and "emit" not in texts
    clock = sl.Spec(sl.processing_time(), {"w": sl.tumbling("1m")}, {"n": sl.count()}, emit="updates")
    texts = Cells(clock._repr_html_()).texts
    assert "the clock, as rows are pushed" in texts and "updates" in texts


def test_an_operator_and_its_output_say_how_far_they_are():
    op = sl.Operator(SPEC)
    assert "no rows yet" in "".join(Cells(op._repr_html_()).texts)
    texts = "".join(Cells(op.push(ROWS)._repr_html_()).texts)
    assert "100 rows came; 18 rows of windows; 0 rows late; watermark 99" in texts
    assert "windows (the first 10 of 18)" in texts and "<b>a</b>" in texts
    assert "late rows" in "".join(Cells(op.push(ROWS.slice(0, 3))._repr_html_()).texts)
    op.flush()
    assert "(ended)" in op._repr_html_()


class Own(sl.ContextAwareWindow):
    def start(self):
        return 0

    def see(self, context, time):
        return context, self.opens()


EXPLAINED = {
    "windows": SPEC,
    "triggers": sl.Spec("t", {"w": sl.tumbling("1h")}, {"n": sl.count()}, emit="updates", trigger=sl.every("10m")),
    "changelogs": sl.Spec("t", {"w": sl.tumbling("1w")}, {"n": sl.count()}, op="op"),
    "your own": sl.Spec("t", {"w": Own()}, {"n": sl.count()}),
    "joins": sl.JoinSpec("k", "t", (5, 5)),
    "features": sl.FeatureSpec("k", "t", {"5": 5}, {"n": sl.count()}),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_explanation_says_what_its_facts_are(name):
    found = sl.explain(EXPLAINED[name])
    rows = found._repr_html_().split("<tr>")[1:]
    assert len(rows) == len(found.facts)
    for row, (fact, text) in zip(rows, found.facts, strict=True):
        shown, what, *said = Cells(f"<tr>{row.partition('</table>')[0]}").texts
        assert shown == fact and len(what) > 10 and "".join(said) == text.replace("\n", "")


def test_an_explanation_is_a_table():
    texts = Cells(sl.explain(SPEC)._repr_html_()).texts
    assert repr(SPEC) in texts and "state" in texts


def test_progress_is_said_on_standard_error(capsys, monkeypatch):
    wanted = sl.aggregate(ROWS, SPEC)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    plain = type(progress._bar(None))
    monkeypatch.setattr(progress, "_bar", lambda total: plain(total, every=0))
    chunks = pa.concat_tables([ROWS.slice(0, 30), ROWS.slice(30)])
    assert sl.aggregate(chunks, SPEC, progress=True).equals(wanted)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("30 of 100 rows, ") and lines[-1].startswith("100 of 100 rows, ")


def test_progress_is_a_bar_where_there_is_one(monkeypatch):
    class Bar:
        def __init__(self, **told):
            self.rows = 0
            bars.append(self)

        def update(self, rows):
            self.rows += rows

        def close(self):
            self.closed = True

    bars: list[Bar] = []
    monkeypatch.setattr(progress, "_bar", lambda total: Bar(total=total))
    assert sl.aggregate(iter([ROWS, ROWS]), SPEC, progress=True).num_rows == sl.aggregate([ROWS, ROWS], SPEC).num_rows
    assert bars[0].rows == 200 and bars[0].closed


def test_progress_is_yes_or_no():
    with pytest.raises(TypeError, match="progress must be True or False; got 1"):
        sl.aggregate(ROWS, SPEC, progress=1)
