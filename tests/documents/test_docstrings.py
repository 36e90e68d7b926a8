"""Public names say what they are: a summary line, their parameters, and an example, which is run.

Those of Spark are run by ``tests/spark/test_spark.py``.
"""

from __future__ import annotations

import doctest
import importlib
import inspect

import pyarrow as pa
import pytest

import slicing as sl
import slicing.plot

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PUBLIC = [name for name in sl.__all__ if not inspect.ismodule(getattr(sl, name))]
PICTURES = [f"plot.{name}" for name in slicing.plot.__all__]
BY_SPARK = {"plot.query"}
MADE_BY_OTHERS = {"Explanation", "Chain", "Output", "JoinOutput", "FeatureOutput", "Trigger", "SnapshotError"}
SUBCLASSED = {"ContextFreeWindow", "ContextAwareWindow", "col"}


def of(name: str) -> object:
    """What a name stands for; ``plot.results`` is one of a module."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"slicing.{module}") if module else sl, last)


def missing(found: object, asked: list[str]) -> list[str]:
    """What a docstring lacks."""
    text = inspect.getdoc(found)
    assert text is not None
    summary, _, rest = text.partition("\n\n")
    assert summary.endswith((".", ":")), summary
    listed = rest.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    named = {
        one.strip(" *")
        for line in listed.splitlines()
        if line and not line.startswith(" ")
        for one in line.partition(":")[0].split(",")
    }
    lacks = [f"the parameter {one}" for one in asked if one not in named]
    return lacks + ([] if "Examples\n--------\n" in rest else ["an example"])


@pytest.mark.parametrize("name", PUBLIC + PICTURES)
def test_a_public_name_has_a_summary_its_parameters_and_an_example(name: str) -> None:
    given = [] if name in MADE_BY_OTHERS | SUBCLASSED else list(inspect.signature(of(name)).parameters)
    assert not missing(of(name), [one for one in given if one != "arguments"])  # those of a spec


def test_those_of_spark_have_them_too() -> None:
    pytest.importorskip("pyspark")
    spark_udfs = importlib.import_module("spark_udfs")
    for name in spark_udfs.__all__:
        found = getattr(spark_udfs, name)
        given = [] if name == "StateError" else list(inspect.signature(found).parameters)
        assert not missing(found, given), name


@pytest.mark.parametrize("name", sorted({*PUBLIC, *PICTURES} - BY_SPARK))
def test_examples_of_public_names_run(name: str) -> None:
    if name.startswith("plot."):
        pytest.importorskip("altair")
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    parser, text = doctest.DocTestParser(), inspect.getdoc(of(name)) or ""
    test = parser.get_doctest(text, {"sl": sl, "pa": pa}, name, None, 0)
    assert test.examples
    said: list[str] = []
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
