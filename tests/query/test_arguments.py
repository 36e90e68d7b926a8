"""Calls with arguments that there are not, or without those that must be there, are refused by sentences."""

import inspect
import pickle

import pyarrow as pa
import pytest

import slicing as sl

TEN, COUNT = {"ten": sl.tumbling(10)}, {"n": sl.count()}
DECORATED = [name for name in sl.__all__ if hasattr(getattr(sl, name), "__wrapped__")]
CLASSES = ["Spec", "JoinSpec", "FeatureSpec", "DistinctSpec", "Operator", "JoinOperator", "FeatureOperator", "Union"]


def refused(call, *args, **kwargs) -> str:
    with pytest.raises(TypeError) as error:
        call(*args, **kwargs)
    assert error.value.__cause__ is None and error.value.__context__ is None
    return str(error.value)


def test_a_misspelt_argument_of_a_spec():
    said = refused(sl.Spec, "t", window=TEN, aggs=COUNT)
    assert said == (
        "sl.Spec has no argument 'window'; did you mean windows? (its arguments are time, windows, aggs, by, "
        "watermark, allowed_lateness, emit, sequence, idle, on_null_time, on_overflow, trigger, op, on_unmatched)"
    )
    assert "no argument 'group_by'; did you mean by?" in refused(sl.Spec, "t", TEN, COUNT, group_by=["k"])
    assert "no argument 'zzz' (its" in refused(sl.Spec, "t", TEN, COUNT, zzz=1)


def test_what_is_missing_what_comes_twice_and_what_is_too_much():
    assert refused(sl.Spec, "t").startswith("sl.Spec needs windows= and aggs= as well (its arguments are time,")
    assert refused(sl.Spec, "t", TEN, COUNT, time="u").startswith("sl.Spec has got 'time' twice, by its place and by")
    assert refused(sl.tumbling, 1, 2, 3, 4) == (
        "sl.tumbling takes at most 2 arguments without a name (size, offset); got 4"
    )
    assert refused(sl.Operator).startswith("sl.Operator needs spec= as well")


def test_arguments_that_are_handed_on():
    table = pa.table({"t": [1], "k": ["a"]})
    said = refused(sl.join, table, table, on="k", time="t", within=5, hows="left")
    assert said.startswith("sl.JoinSpec has no argument 'hows'; did you mean how?")
    said = refused(sl.features, table, table, on="k", time="t", range={"a": 5}, aggs=COUNT)
    assert said.startswith("sl.FeatureSpec has no argument 'range'; did you mean ranges?")
    assert refused(sl.join, table).startswith("sl.join needs right= as well")


@pytest.mark.parametrize("name", [*DECORATED, *CLASSES])
def test_every_public_name_says_so_and_keeps_its_signature(name):
    public = getattr(sl, name)
    called = public.__init__ if inspect.isclass(public) else public
    taken = inspect.signature(called)
    assert taken == inspect.signature(called.__wrapped__) and called.__doc__ == called.__wrapped__.__doc__
    assert inspect.isclass(public) or pickle.loads(pickle.dumps(public)) is public
    if not any(p.kind == p.VAR_KEYWORD for p in taken.parameters.values()):
        assert refused(public, no_such_thing=1).startswith(f"sl.{name} has no argument 'no_such_thing' (its arguments ")


def test_errors_of_the_function_itself_stay_what_they_are():
    with pytest.raises(TypeError, match="windows must"):
        sl.Spec("t", 3, COUNT)
    assert len(DECORATED) > 30
