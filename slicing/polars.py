"""``import slicing.polars``: ``frame.slicing.aggregate(spec)`` and ``frame.slicing.attach(spec)`` on Polars' frames."""

from __future__ import annotations

from typing import Any

import polars

from slicing.api import aggregate
from slicing.attach import attach
from slicing.query.spec import Spec


class _Namespace:
    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def aggregate(self, spec: Spec, **options: Any) -> Any:
        """Compute the windows of the frame's rows: :func:`slicing.aggregate`, as a frame of the same kind."""
        return aggregate(self._frame, spec, **{"returns": "same"} | options)

    def attach(self, spec: Spec, **options: Any) -> Any:
        """Add the aggregates of each row's window: :func:`slicing.attach`, as a frame of the same kind."""
        return attach(self._frame, spec, **{"returns": "same"} | options)


polars.api.register_dataframe_namespace("slicing")(_Namespace)
polars.api.register_lazyframe_namespace("slicing")(_Namespace)
