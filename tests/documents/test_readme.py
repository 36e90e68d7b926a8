"""README.md, docs/concepts.md, guide.md, recipes.md and others: their Python blocks run and print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(page: Path, names: dict[str, object]) -> int:
    """Run a page's Python blocks with these names known, those for Spark if there is one; how many ran."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    ran = 0
    for (language, source), (shown, expected) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language != "python" or ("spark_udfs" in source and "spark" not in names):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, f"{page.name}, Python block {ran + 1}", "exec"), names)
        assert printed.getvalue() == (expected if shown == "text" else "")
        ran += 1
    return ran


PAGES = {"concepts": 3, "guide": 5, "recipes": 7, "service": 4, "features": 3}


@pytest.mark.parametrize(
    ("page", "blocks"),
    [(README, 2), *((DOCS / f"{name}.md", blocks) for name, blocks in PAGES.items())],
    ids=["README", *PAGES],
)
def test_python_blocks_print_what_is_shown(page: Path, blocks: int) -> None:
    if page.stem == "concepts":
        pytest.importorskip("altair")
    if page.stem == "recipes":
        pandas = pytest.importorskip("pandas")
        if pandas.__version__.startswith("2."):
            pytest.skip("the page shows times as pandas 3 keeps them, in microseconds")
    assert run_blocks(page, {}) >= blocks, "the page lost its Python blocks"


@pytest.mark.parametrize("page", [README, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]
