"""``import slicing.pandas``: ``frame.slicing.aggregate(spec)`` and ``frame.slicing.attach(spec)`` on pandas' frames."""

import pandas

from slicing.beside.attach import Methods

pandas.api.extensions.register_dataframe_accessor("slicing")(Methods)
