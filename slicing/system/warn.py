"""Warnings that point to the user's line."""

from __future__ import annotations

import sys
import warnings
from itertools import count
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent)


def warn(text: str) -> None:
    """Warn, as at the line outside of this package from which it was called. Python 3.12 has an argument for this."""
    level, frame = count(2), sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        next(level)
    warnings.warn(text, stacklevel=next(level))
