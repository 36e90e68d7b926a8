"""``python -m website.releases 0.1.0``: what CHANGELOG.md says of a version, for its release page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"
HEADING = re.compile(r"^## \[([^\]]+)\].*$", re.MULTILINE)


def notes(version: str, text: str | None = None) -> str:
    """The part of a version, without its heading."""
    text = CHANGELOG.read_text(encoding="utf-8") if text is None else text
    parts = HEADING.split(text)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    if version not in found:
        raise SystemExit(f"CHANGELOG.md has no part [{version}]; it has {', '.join(found)}")
    return f"{found[version].strip()}\n"


def page() -> str:
    """The site's page of releases."""
    return CHANGELOG.read_text(encoding="utf-8").replace("# Changelog", "# Releases", 1)


if __name__ == "__main__":
    print(notes(sys.argv[1]), end="")
