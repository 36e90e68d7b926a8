"""``import slicing.pandas``: ``frame.slicing.aggregate(spec)`` and ``frame.slicing.attach(spec)`` on pandas' frames."""

from __future__ import annotations

from typing import Any

import pandas

from slicing.api import aggregate
from slicing.attach import attach
from slicing.query.spec import Spec


@pandas.api.extensions.register_dataframe_accessor("slicing")
class _Accessor:
    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def aggregate(self, spec: Spec, **options: Any) -> Any:
        """Compute the windows of the frame's rows: :func:`slicing.aggregate`, as a pandas DataFrame."""
        return aggregate(self._frame, spec, **{"returns": "same"} | options)

    def attach(self, spec: Spec, **options: Any) -> Any:
        """Add the aggregates of each row's window: :func:`slicing.attach`, as a DataFrame with the same index."""
        return attach(self._frame, spec, **{"returns": "same"} | options)
