"""PyPI has an unrelated package whose module is also called ``slicing``; a folder with files of both is detected."""

from __future__ import annotations

import os


def refuse_other(package: str) -> None:
    """Raise if the other package is installed in the same folder (0.2 ms for 500 packages)."""
    folder = os.path.dirname(package)
    try:
        names = os.listdir(os.path.dirname(folder))
    except OSError:  # in a zip file
        return
    others = [name for name in names if name.startswith("slicing-") and name.endswith((".dist-info", ".egg-info"))]
    if others:
        raise ImportError(
            f"{folder} has files of two packages: of stream-slicing, and of the unrelated package 'slicing' of PyPI "
            f"({others[0]}), whose module has the same name. Uninstall both (pip uninstall slicing stream-slicing), "
            "then install stream-slicing"
        )
