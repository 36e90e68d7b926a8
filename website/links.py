"""``python -m website.links``: whether addresses that pages name still answer. mkdocs checks links between pages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parent.parent
PAGES = ("*.md", "docs/*.md", "notebooks/*.ipynb", "slicing/**/*.py", "spark_udfs/**/*.py", "pyproject.toml")
ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\\[\]{}]+")
HEADERS = {"User-Agent": "Mozilla/5.0 (links of a documentation)"}
THERE = {401, 403, 405, 429}  # publishers answer so to programs: something is there


def addresses(text: str) -> set[str]:
    """Those in a text, without the brackets and stops that follow them."""
    found = set()
    for address in ADDRESS.findall(text):
        while address.endswith((".", ",", ";", ":")) or (
            address.endswith(")") and address.count(")") > address.count("(")
        ):
            address = address[:-1]
        found.add(address)
    return {address for address in found if "example." not in address and "localhost" not in address}


def answer(address: str, timeout: float = 20) -> str:
    """Empty if the address answers, else what it says."""
    try:
        with urlopen(Request(address, headers=HEADERS), timeout=timeout):
            return ""
    except HTTPError as error:
        return "" if error.code in THERE else f"{error.code} {error.reason}"
    except (URLError, OSError, ValueError) as error:
        return str(error)


def main(root: Path = ROOT, pages: Iterable[str] = PAGES) -> int:
    named: dict[str, list[str]] = {}
    for page in sorted(page for pattern in pages for page in root.glob(pattern)):
        for address in addresses(page.read_text(encoding="utf-8")):
            named.setdefault(address, []).append(str(page.relative_to(root)))
    with ThreadPoolExecutor(8) as pool:
        said = dict(zip(named, pool.map(answer, named), strict=True))
    for address, problem in said.items():
        if problem:
            print(f"{address} ({', '.join(named[address])}): {problem}")
    bad = sum(map(bool, said.values()))
    print(f"{len(said)} addresses, {bad} without an answer")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
