"""Names of other libraries for functions of this one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_OURS = {
    "mean": "avg average",
    "std": "stddev stddev_samp std_dev",
    "var": "variance var_samp",
    "quantile": "percentile percentile_cont percentile_disc quantile_cont quantile_disc approx_percentile",
    "count": "size len n",
    "count_distinct": "nunique n_unique approx_count countDistinct",
    "argmax": "max_by arg_max idxmax",
    "argmin": "min_by arg_min idxmin",
    "collect": "collect_list array_agg list implode",
    "top_k": "nlargest largest top",
    "bottom_k": "nsmallest smallest bottom",
    "sliding": "hop hopping slide window",
    "tumbling": "tumble group_by_dynamic resample time_bucket",
    "session": "session_window sessions",
    "per_row": "rolling over",
    "rows": "count_window rolling_rows",
    "attach": "transform with_columns",
    "join": "join_asof merge_asof asof_join interval_join",
    "bounded": "watermark with_watermark",
    "Spec": "Query query Window",
    "udaf": "udf pandas_udf",
}
_BUILT = {  # what several functions make together
    "lag shift": "sl.argmin(time, column) in sl.rows(2, every=1), by sl.attach",
    "diff delta": "sl.last(column) - sl.first(column) in sl.rows(2, every=1), by sl.attach",
    "cumsum cum_sum cumcount cum_count row_number": "sl.sum or sl.count in sl.rows(2**40, every=1), by sl.attach with "
    "min_rows=1",
    "ffill forward_fill fill_forward": "sl.last(column) in sl.rows(2**40, every=1), by sl.attach with min_rows=1",
    "vwap weighted_mean wavg": "sl.sum(sl.col('price') * sl.col('size')) / sl.sum('size')",
    "ohlc candles": "sl.first, sl.max, sl.min and sl.last of the price, one aggregate each",
    "head": "sl.collect(column, at_most=n)",
    "tail": "sl.collect(column, at_most=n, keep='last')",
    "corr cov covar covariance correlation": "sl.mean(sl.col('x') * sl.col('y')) - sl.mean('x') * sl.mean('y') is the "
    "covariance",
    "skew skewness kurtosis kurt": "means of powers, such as sl.mean(sl.col('x') * sl.col('x') * sl.col('x')), from "
    "which it is computed",
    "weighted_median weighted_quantile": "a sl.udaf, or sl.collect of the values and of the weights",
    "ewm_mean ewm ema ewma": "a sl.udaf that keeps a weight and a sum",
}
_HOW = {other: how for others, how in _BUILT.items() for other in others.split()}
_KNOWN = {other: ours for ours, others in _OURS.items() for other in others.split()}


def no_attribute(name: str, public: Sequence[str]) -> str:
    """The error message for a name that the package does not have."""
    if name in _HOW:
        return f"module 'slicing' has no attribute {name!r}; it is made of others: {_HOW[name]}"
    found = [_KNOWN[name]] if name in _KNOWN else difflib.get_close_matches(name, public, 1)
    return f"module 'slicing' has no attribute {name!r}" + (f"; did you mean sl.{found[0]}?" if found else "")
