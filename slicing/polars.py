"""``import slicing.polars``: ``frame.slicing.aggregate(spec)`` and ``frame.slicing.attach(spec)`` on Polars' frames."""

import polars

from slicing.beside.attach import Methods

polars.api.register_dataframe_namespace("slicing")(Methods)
polars.api.register_lazyframe_namespace("slicing")(Methods)
