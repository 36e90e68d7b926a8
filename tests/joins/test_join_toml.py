"""Joins and features as TOML: what is written is read as the same spec, and the rest is refused."""

from __future__ import annotations

import tomllib

import pyarrow as pa
import pytest

import slicing as sl

N = {"n": sl.count()}
SPECS = {
    "band": sl.JoinSpec("user", ("shown_at", "clicked_at"), ("0s", "10m"), how="full", event_time="max"),
    "integers": sl.JoinSpec(["k", ("a", "b")], "t", (-3, 2**40), idle=7, progress="least", suffix='"é"'),
    "as of": sl.JoinSpec([], "ts", (None, "0s"), how="left", match="last", closed="left", sequence="seq"),
    "either side": sl.JoinSpec("k", "ts", (None, None), match="nearest", nulls_equal=True, on_null_time="late"),
    "window": sl.JoinSpec("k", "ts", sl.calendar("1d", "Europe/Berlin"), how="semi"),
    "tumbling": sl.JoinSpec("k", "t", sl.tumbling(10, offset=3), watermark=(sl.bounded(5), sl.ordered("late"))),
    "condition": sl.JoinSpec("k", "t", (5, 1), where=(sl.col("bid") > sl.col("ask") * 2) & sl.col("ok").is_valid()),
    "marks": sl.JoinSpec("k", "t", (5, 1), watermark=sl.punctuated("mark", by=["k"])),
    "ranges": sl.FeatureSpec("user", ("asked", "ts"), {"1h": "1h", "ever": None, "a b": ("80d", "20d")}, N),
    "after": sl.FeatureSpec("u", "t", {"a": (0, -20), "b": (None, 5), "c": 7}, N, tail={"c": 2}, closed="right"),
    "options": sl.FeatureSpec(
        ["u", ("x", "y")],
        "ts",
        {"1d": "1d"},
        {"share": sl.sum("a") / sl.sum("b"), "slow": sl.count().where(sl.col("ms") > 100), "l": sl.last("v")},
        delay="5m",
        tail="1h",
        wait=False,
        watermark=(sl.manual(), sl.per_source("source", "10s")),
        idle="1d",
        sequence="seq",
        on_null_time="late",
        on_overflow="null",
    ),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_is_written_is_read_as_the_same(spec, tmp_path):
    text = spec.to_toml()
    assert tomllib.loads(text)
    read = type(spec).from_toml(text)
    assert read == spec and hash(read) == hash(spec) and read.fingerprint() == spec.fingerprint()
    assert repr(read) == repr(spec) and read.to_toml() == text
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    assert type(spec).from_toml(tmp_path / "spec.toml") == spec


def test_schemas_are_given_beside_the_text():
    both = (pa.schema([("k", pa.int64()), ("t", pa.int64())]),) * 2
    spec = sl.JoinSpec("k", "t", (5, 1), schemas=both)
    assert "schemas" not in spec.to_toml()
    assert sl.JoinSpec.from_toml(spec.to_toml(), schemas=both) == spec
    features = sl.FeatureSpec("k", "t", {"r": 5}, N, schemas=both)
    assert sl.FeatureSpec.from_toml(features.to_toml(), schemas=both) == features


JOIN = 'on = ["k"]\ntime = "t"\nwithin = [5, 1]\n'
FEATURES = 'on = ["k"]\ntime = "t"\n[ranges]\nr = 5\n[aggs]\nn = "count()"\n'
REFUSED = {
    "no TOML": (sl.JoinSpec, "on =", "the spec is no TOML: Invalid value"),
    "unknown": (sl.JoinSpec, JOIN + "hwo = 1", "the spec has 'hwo', which is no part of one; did you mean 'how'?"),
    "no within": (sl.JoinSpec, 'on = ["k"]\ntime = "t"', 'the spec needs within, such as within = ["0s", "10m"]'),
    "a schema": (sl.JoinSpec, JOIN + "schemas = []", "the spec has 'schemas', which is no part of one"),
    "how": (sl.JoinSpec, JOIN + 'how = "outer"', "how must be one of 'inner', 'left'"),
    "where": (sl.JoinSpec, JOIN + 'where = "5"', "where must be an expression of columns, such as"),
    "code": (sl.JoinSpec, JOIN + "where = \"__import__('os')\"", "is not known"),
    "window": (sl.JoinSpec, JOIN.replace("[5, 1]", '"session(5)"'), "within must be a pair of spans"),
    "no ranges": (sl.FeatureSpec, 'on = "k"\ntime = "t"', "the spec needs a table [ranges] with entries such as"),
    "no aggs": (sl.FeatureSpec, 'on = "k"\ntime = "t"\n[ranges]\nr = 5', "the spec needs a table [aggs]"),
    "range": (sl.FeatureSpec, FEATURES.replace("r = 5", "r = [5, 7]"), "ranges['r']=(5, 7) holds no time at all"),
    "agg": (sl.FeatureSpec, FEATURES.replace("count()", "cuont()"), "cuont is not known; did you mean count?"),
    "watermark": (sl.FeatureSpec, 'watermark = "bunded(1)"\n' + FEATURES, "did you mean bounded?"),
}


@pytest.mark.parametrize(("kind", "text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(kind, text, said):
    with pytest.raises((TypeError, ValueError)) as refused:
        kind.from_toml(text)
    assert said in str(refused.value)


def test_functions_of_your_own_have_no_text():
    mine = sl.udaf(
        "mine", lift=lambda x: x, combine=lambda a, b: a + b, lower=lambda s: s, identity=0, state="int64", inputs=["x"]
    )
    with pytest.raises(ValueError, match="which no text can build"):
        sl.FeatureSpec("k", "t", {"r": 5}, {"mine": mine}).to_toml()


def test_specs_print_as_the_code_that_builds_them() -> None:
    where = (sl.col("price") > 5) & (sl.col("a") < sl.col("b"))
    join = sl.JoinSpec("user", "t", ("0s", "10m"), where=where)
    assert "where=(sl.col('price') > 5) & (sl.col('a') < sl.col('b'))" in repr(join)
    features = sl.FeatureSpec("k", "t", {"r": ("7d", "0s"), "q": (None, "0m")}, {"n": sl.count()})
    assert "ranges={'r': '7d', 'q': None}" in repr(features)
    for spec in (join, features):
        built = eval(repr(spec), {"sl": sl})
        assert built == spec == type(spec).from_toml(spec.to_toml())
        assert built.fingerprint() == spec.fingerprint()
