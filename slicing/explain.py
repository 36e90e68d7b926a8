"""explain(spec): how the engine computes a query, and why."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slicing.cells.combining import AUTO
from slicing.closing.explain import facts
from slicing.joins.explain import facts as join_facts
from slicing.joins.features.explain import facts as feature_facts
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.spec import JoinSpec
from slicing.query.policy import checked
from slicing.query.spec import Spec
from slicing.system import html
from slicing.system.arguments import says_arguments

_WHAT = {  # for a table in a notebook, to a newcomer
    "edges": "where windows begin and end; rows are cut into slices there",
    "hyper-period": "how soon the pattern of the edges repeats",
    "slices a window": "how many slices are put together to a window",
    "fragments": "whether a key's rows of one slice are kept in several parts",
    "rows kept": "whether single rows are kept beside the aggregates of slices",
    "windows of your own": "whether your code is compiled",
    "rows taken back": "what is kept so that rows can be taken back",
    "splits and removals": "whether rows move edges, so that slices are cut anew",
    "combine": "how slices are put together when windows close, and why so",
    "bytes per live key": "memory of each key that has open windows",
    "state": "what bounds all that is kept",
    "results": "when rows come out",
    "early results": "what triggers add to the results",
    "weeks": "the day on which weeks begin",
    "partners": "which rows of the two sides are joined",
    "left rows kept": "how long a row waits for partners",
    "right rows kept": "how long a row waits for partners",
    "bytes a row kept": "memory of each waiting row",
    "late rows": "which rows come too late and are given back",
    "output watermark": "how far the results have come",
    "ranges": "which events each label sees",
    "labels kept": "how long a label waits for its events",
    "events kept": "how long an event can be seen by labels",
    "bytes an event kept": "memory of each event",
    "work": "what a push costs",
}


@dataclass(frozen=True)
class Explanation:
    """The facts of :func:`explain`, each with its reason: text in a terminal, a table in a notebook.

    Parameters
    ----------
    title
        The query that is explained.
    facts
        Pairs of a name and a text.

    Examples
    --------
    >>> found = sl.explain(sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))
    >>> found["state"]
    'bounded by open windows x active keys'
    """

    title: str
    facts: tuple[tuple[str, str], ...]

    def __getitem__(self, name: str) -> str:
        return dict(self.facts)[name]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        lines = [f"{name:<{width}}  {line}" for name, text in self.facts for name, line in _lines(name, text)]
        return "\n".join([self.title, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, html.text(_WHAT.get(name, "")), html.text(text)) for name, text in self.facts]
        return html.table(html.code(self.title), rows)


@says_arguments
def explain(
    spec: Spec | JoinSpec | FeatureSpec,
    schema: pa.Schema | tuple[pa.Schema, pa.Schema] | None = None,
    combine: str = AUTO,
) -> Explanation:
    """Explain how a query is sliced, kept and answered, or what a join keeps and until when.

    Without a ``schema`` the column types are guessed from the spec: an integer or a microsecond time column, int64
    keys, float64 values.

    Parameters
    ----------
    spec
        A :class:`Spec`, a :class:`JoinSpec` or a :class:`FeatureSpec`.
    schema
        The types of the columns. For a :class:`JoinSpec` a pair: the left and the right side; for a
        :class:`FeatureSpec` a pair: the labels and the events.
    combine
        As for :class:`Operator`: explain an operator with this ``combine``.

    Returns
    -------
    Explanation
        Facts by name.

    Examples
    --------
    >>> sl.explain(sl.Spec("t", {"ten": sl.tumbling(10)}, {"n": sl.count()}))["edges"]
    'every 10 (2 progressions of 1 windows fused into 1)'
    """
    if isinstance(spec, JoinSpec | FeatureSpec):
        return _of_two(spec, schema)
    if not isinstance(spec, Spec):
        raise TypeError(f"explain takes a sl.Spec, a sl.JoinSpec or a sl.FeatureSpec; got {type(spec).__name__}")
    if schema is not None and not isinstance(schema, pa.Schema):
        raise TypeError(
            f"explain's schema must be a pyarrow Schema (table.schema, pyarrow.Schema.from_pandas(frame)) or None; got "
            f"{type(schema).__name__}"
        )
    checked(combine, spec)
    try:
        return _explanation(spec, facts(spec, schema, combine))
    except (TypeError, ValueError) as error:
        if schema is not None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error} (explain has guessed the types of columns: give it schema=table.schema)") from None


def _explanation(spec: object, facts: tuple[tuple[str, str], ...]) -> Explanation:
    title = repr(spec)
    return Explanation(title if len(title) <= 600 else title[:597] + "...", facts)


def _of_two(spec: JoinSpec | FeatureSpec, schemas: object) -> Explanation:
    """Explain a query of two streams."""
    pair = None
    if schemas is not None:
        if not isinstance(schemas, list | tuple) or [type(schema) for schema in schemas] != [pa.Schema, pa.Schema]:
            what = "a join" if isinstance(spec, JoinSpec) else "features"
            raise TypeError(
                f"explain's schema must be a pair of pyarrow Schemas for {what}, {' and '.join(spec.sides)}; got "
                f"{schemas!r}"
            )
        pair = schemas[0], schemas[1]
    return _explanation(spec, join_facts(spec, pair) if isinstance(spec, JoinSpec) else feature_facts(spec, pair))


def _lines(name: str, text: str) -> list[tuple[str, str]]:
    first, *rest = text.split("\n")
    return [(name, first), *(("", line) for line in rest)]
