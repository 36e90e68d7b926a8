"""Windowed aggregation of event streams by stream slicing: cut once, aggregate each slice once, answer any windows."""

from typing import TYPE_CHECKING, NoReturn

from pyarrow.compute import field as col

from slicing import plot
from slicing.aggregates.aggregate import Aggregate
from slicing.aggregates.builtin import (
    all,
    any,
    argmax,
    argmin,
    count,
    first,
    geometric_mean,
    last,
    m4,
    max,
    max_count,
    mean,
    min,
    min_count,
    product,
    std,
    sum,
    var,
)
from slicing.aggregates.holistic import (
    bottom_k,
    collect,
    count_distinct,
    heavy_hitters,
    median,
    mode,
    quantile,
    sample,
    top_k,
)
from slicing.aggregates.sketches import approx_count_distinct, approx_quantile
from slicing.aggregates.udaf import udaf
from slicing.api import aggregate
from slicing.beside.attach import attach
from slicing.command_line.warm import warm
from slicing.explain import Explanation, explain
from slicing.joins.api import join
from slicing.joins.features.api import features
from slicing.joins.features.operator import FeatureOperator
from slicing.joins.features.output import FeatureOutput
from slicing.joins.features.spec import FeatureSpec
from slicing.joins.operator import JoinOperator
from slicing.joins.output import JoinOutput
from slicing.joins.spec import JoinSpec
from slicing.lifecycle.errors import SnapshotError
from slicing.operator import Operator
from slicing.output import Output
from slicing.query.processing_time import processing_time
from slicing.query.rollup import rollup_spec
from slicing.query.spec import Spec
from slicing.query.triggers import (
    Trigger,
    after_count,
    after_share,
    by_hand,
    each_push,
    every,
    every_processing_time,
    on_punctuation,
)
from slicing.query.watermark import bounded, manual, ordered, per_source, punctuated
from slicing.rollup import rollup
from slicing.streams.api import distinct
from slicing.streams.chain import Chain, chain
from slicing.streams.distinct import Distinct, DistinctSpec
from slicing.streams.union import Union, union
from slicing.system.mixed import refuse_other
from slicing.tables.replay import latest, replay
from slicing.windows.builtin import (
    cumulate,
    fixed,
    landmark,
    session,
    sliding,
    tumbling,
    whole,
)
from slicing.windows.calendar import calendar
from slicing.windows.context_free import ContextFreeWindow
from slicing.windows.rows.last_rows import last_rows
from slicing.windows.rows.marked import frame, punctuation
from slicing.windows.rows.per_row import per_row
from slicing.windows.rows.row_count import rows
from slicing.windows.rows.users import ContextAwareWindow

refuse_other(__file__)

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "Chain",
    "ContextAwareWindow",
    "ContextFreeWindow",
    "Distinct",
    "DistinctSpec",
    "Explanation",
    "FeatureOperator",
    "FeatureOutput",
    "FeatureSpec",
    "JoinOperator",
    "JoinOutput",
    "JoinSpec",
    "Operator",
    "Output",
    "SnapshotError",
    "Spec",
    "Trigger",
    "Union",
    "after_count",
    "after_share",
    "aggregate",
    "all",
    "any",
    "approx_count_distinct",
    "approx_quantile",
    "argmax",
    "argmin",
    "attach",
    "bottom_k",
    "bounded",
    "by_hand",
    "calendar",
    "chain",
    "col",
    "collect",
    "count",
    "count_distinct",
    "cumulate",
    "distinct",
    "each_push",
    "every",
    "every_processing_time",
    "explain",
    "features",
    "first",
    "fixed",
    "frame",
    "geometric_mean",
    "heavy_hitters",
    "join",
    "landmark",
    "last",
    "last_rows",
    "latest",
    "m4",
    "manual",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "on_punctuation",
    "ordered",
    "per_row",
    "per_source",
    "plot",
    "processing_time",
    "product",
    "punctuated",
    "punctuation",
    "quantile",
    "replay",
    "rollup",
    "rollup_spec",
    "rows",
    "sample",
    "session",
    "sliding",
    "std",
    "sum",
    "top_k",
    "tumbling",
    "udaf",
    "union",
    "var",
    "warm",
    "whole",
]


if not TYPE_CHECKING:  # a type checker should not take any name for one

    def __getattr__(name: str) -> NoReturn:
        from slicing.system.elsewhere import no_attribute

        raise AttributeError(no_attribute(name, __all__))
