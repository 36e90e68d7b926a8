"""Public names say what they are: a summary line, their parameters, and an example, which is run."""

from __future__ import annotations

import doctest
import inspect

import pyarrow as pa
import pytest

import slicing as sl

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NO_EXAMPLE = {
    "Chain",  # chain has it
    "FeatureOutput",  # FeatureOperator has it
}
PUBLIC = [name for name in sl.__all__ if not inspect.ismodule(getattr(sl, name))]
MADE_BY_OTHERS = {"Explanation", "Chain", "Output", "JoinOutput", "FeatureOutput", "Trigger", "SnapshotError"}


def parameters(name: str) -> list[str]:
    """What one gives to a name; none of a base class, which is subclassed, and of what functions make."""
    found = getattr(sl, name)
    if name in MADE_BY_OTHERS or name in ("ContextFreeWindow", "ContextAwareWindow", "col"):
        return []
    return list(inspect.signature(found).parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_summary_its_parameters_and_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(sl, name))
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
    missing = [one for one in parameters(name) if one not in named and one != "arguments"]  # those of a spec
    assert not missing, f"{name}'s Parameters do not have {missing}"
    assert name in NO_EXAMPLE or "Examples\n--------\n" in rest, f"{name} has no example"


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - NO_EXAMPLE))
def test_examples_of_public_names_run(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    parser, text = doctest.DocTestParser(), inspect.getdoc(getattr(sl, name)) or ""
    test = parser.get_doctest(text, {"sl": sl, "pa": pa}, name, None, 0)
    assert test.examples
    said: list[str] = []
    runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
